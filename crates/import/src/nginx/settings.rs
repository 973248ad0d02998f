//! Settings that a block inherits from those around it.

use super::known::{bytes, milliseconds};
use super::tree::Directive;
use crate::Grade;
use crate::networks::{Rule, network};
use std::collections::BTreeMap;

/// A field that `add_header` adds.
#[derive(Clone, Debug)]
pub(super) struct AddHeader {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) always: bool,
}

/// A use of a zone of `limit_req`.
#[derive(Clone, Debug)]
pub(super) struct LimitReq {
    pub(super) zone: String,
    pub(super) burst: u64,
}

/// What holds in a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) root: Option<String>,
    pub(super) alias: Option<String>,
    pub(super) index: Vec<String>,
    pub(super) autoindex: bool,
    pub(super) set_headers: Vec<(String, String)>,
    pub(super) hide_headers: Vec<String>,
    pub(super) add_headers: Vec<AddHeader>,
    pub(super) expires: Option<String>,
    pub(super) connect_timeout: Option<u64>,
    pub(super) read_timeout: Option<u64>,
    pub(super) max_body: Option<u64>,
    pub(super) realm: Option<String>,
    pub(super) users_file: Option<String>,
    pub(super) rules: Vec<Rule>,
    pub(super) satisfy_any: bool,
    pub(super) gzip: bool,
    pub(super) gzip_types: Vec<String>,
    pub(super) gzip_min_length: Option<u64>,
    pub(super) error_pages: Vec<(Vec<u16>, String)>,
    pub(super) intercept: bool,
    pub(super) limit_req: Vec<LimitReq>,
    pub(super) limit_req_status: Option<u16>,
    pub(super) limit_conn: Vec<(String, u64)>,
    pub(super) limit_conn_status: Option<u16>,
    pub(super) next_upstream: Vec<String>,
    pub(super) tries: Option<u64>,
    pub(super) redirect_off: bool,
    pub(super) default_type: Option<String>,
    /// Content types by the ends of paths; `None`: nginx's own three.
    types: Option<BTreeMap<String, String>>,
    pub(super) verify: bool,
    pub(super) ssl_name: Option<String>,
    pub(super) trusted: Option<String>,
    pub(super) client_certificate: Option<String>,
    pub(super) client_key: Option<String>,
    /// Certificate and key for servers that have none of their own.
    pub(super) certificate: (Option<String>, Option<String>),
    /// The location that `auth_request` asks.
    pub(super) judge: Option<String>,
    /// Variables of `auth_request_set`, and what they take.
    pub(super) judged: Vec<(String, String)>,
    /// Lists that were begun in this block: before, they were inherited.
    own: Vec<&'static str>,
}

/// What became of a directive: its grade, and a sentence.
pub(super) type Outcome = (Grade, String);

fn exact() -> Outcome {
    (Grade::Exact, String::new())
}

fn near(about: &str) -> Outcome {
    (Grade::Near, about.to_owned())
}

fn wrong(directive: &Directive) -> Outcome {
    (Grade::Lost, format!("`{}` has an argument that is not understood", directive.name))
}

impl Settings {
    /// What a block within this one begins with.
    pub(super) fn child(&self) -> Self {
        Self { own: Vec::new(), ..self.clone() }
    }

    /// The content type of a text that answers a path.
    pub(super) fn kind_of(&self, path: &str) -> String {
        let file = path.rsplit('/').next().unwrap_or_default();
        let end = file.rsplit_once('.').map_or(String::new(), |(_, end)| end.to_ascii_lowercase());
        let own = [("html", "text/html"), ("gif", "image/gif"), ("jpg", "image/jpeg")];
        let found = match &self.types {
            Some(types) => types.get(&end).cloned(),
            None => own.iter().find(|(known, _)| *known == end).map(|(_, kind)| (*kind).to_owned()),
        };
        found.or_else(|| self.default_type.clone()).unwrap_or_else(|| "text/plain".to_owned())
    }

    /// Whether a list begins here; what was inherited is dropped then.
    fn begins(&mut self, list: &'static str) -> bool {
        let begins = !self.own.contains(&list);
        if begins {
            self.own.push(list);
        }
        begins
    }

    /// Takes a directive over; `None`: it is none of these.
    pub(super) fn apply(&mut self, directive: &Directive) -> Option<Outcome> {
        self.files(directive)
            .or_else(|| self.proxy(directive))
            .or_else(|| self.fields(directive))
            .or_else(|| self.access(directive))
            .or_else(|| self.limits(directive))
    }

    fn files(&mut self, directive: &Directive) -> Option<Outcome> {
        let arg = directive.arg().to_owned();
        match directive.name.as_str() {
            "root" => (self.root, self.alias) = (Some(arg), None),
            "alias" => self.alias = Some(arg),
            "index" => self.index.clone_from(&directive.args),
            "default_type" => self.default_type = Some(arg),
            "types" => {
                let types = self.types.get_or_insert_with(BTreeMap::new);
                for line in directive.children() {
                    types.extend(line.args.iter().map(|end| (end.to_ascii_lowercase(), line.name.clone())));
                }
                return Some(near("content types of files come from a table of Thalweg's own"));
            }
            "autoindex" => {
                self.autoindex = arg == "on";
                if self.autoindex {
                    return Some(near("the page that lists a directory looks otherwise"));
                }
            }
            "autoindex_exact_size" | "autoindex_format" | "autoindex_localtime" => {
                return Some(near("the page that lists a directory has a form of its own"));
            }
            "error_page" => return Some(self.error_page(directive)),
            "proxy_intercept_errors" => self.intercept = arg == "on",
            "gzip" => {
                self.gzip = arg == "on";
                if self.gzip {
                    return Some(near("responses of any status are compressed; `Vary` is always told"));
                }
            }
            "gzip_types" => self.gzip_types.clone_from(&directive.args),
            "gzip_min_length" => self.gzip_min_length = bytes(&arg),
            _ => return None,
        }
        Some(exact())
    }

    fn error_page(&mut self, directive: &Directive) -> Outcome {
        if self.begins("error_page") {
            self.error_pages.clear();
        }
        let Some((target, statuses)) = directive.args.split_last() else { return wrong(directive) };
        let numbers: Vec<u16> = statuses.iter().filter_map(|status| status.parse().ok()).collect();
        if numbers.len() != statuses.len() || numbers.is_empty() {
            let about = "an error cannot be answered with another status; the page is left out";
            return (Grade::Lost, about.to_owned());
        }
        if !target.starts_with('/') {
            return (
                Grade::Lost,
                "errors cannot be answered by another location or by a redirect".to_owned(),
            );
        }
        self.error_pages.push((numbers, target.clone()));
        near(
            "clients that ask for JSON or plain text get the error in that form; the page is read with the configuration",
        )
    }

    fn proxy(&mut self, directive: &Directive) -> Option<Outcome> {
        let arg = directive.arg().to_owned();
        match directive.name.as_str() {
            "proxy_set_header" => {
                if self.begins("proxy_set_header") {
                    self.set_headers.clear();
                }
                let value = directive.args.get(1).cloned().unwrap_or_default();
                self.set_headers.retain(|(name, _)| !name.eq_ignore_ascii_case(&arg));
                self.set_headers.push((arg.clone(), value.clone()));
                return Some(set_header(&arg, &value));
            }
            "proxy_connect_timeout" => self.connect_timeout = Some(milliseconds(&arg)?),
            "proxy_read_timeout" => self.read_timeout = Some(milliseconds(&arg)?),
            "proxy_next_upstream" => {
                self.next_upstream.clone_from(&directive.args);
                return Some(near(
                    "a retry counts against a budget (`retry.budget`), and only idempotent requests are sent again",
                ));
            }
            "proxy_next_upstream_tries" => self.tries = arg.parse().ok(),
            "proxy_redirect" => {
                self.redirect_off = arg == "off";
                if !matches!(arg.as_str(), "off" | "default") {
                    return Some(near(
                        "`map_back` brings `Location` back to the client's host and path by itself, by no other rule",
                    ));
                }
            }
            "proxy_ssl_verify" => self.verify = arg == "on",
            "proxy_ssl_name" => self.ssl_name = Some(arg),
            "proxy_ssl_trusted_certificate" => self.trusted = Some(arg),
            "proxy_ssl_certificate" => self.client_certificate = Some(arg),
            "proxy_ssl_certificate_key" => self.client_key = Some(arg),
            _ => return None,
        }
        Some(exact())
    }

    fn fields(&mut self, directive: &Directive) -> Option<Outcome> {
        let arg = directive.arg().to_owned();
        match directive.name.as_str() {
            "add_header" => {
                if self.begins("add_header") {
                    self.add_headers.clear();
                }
                let value = directive.args.get(1).cloned().unwrap_or_default();
                let always = directive.args.get(2).is_some_and(|word| word == "always");
                self.add_headers.push(AddHeader { name: arg, value, always });
            }
            "proxy_hide_header" => {
                if self.begins("proxy_hide_header") {
                    self.hide_headers.clear();
                }
                self.hide_headers.push(arg);
            }
            "expires" => {
                self.expires = (arg != "off").then_some(arg);
                if self.expires.is_some() {
                    return Some(near(
                        "`Cache-Control` is sent, and no `Expires`, which says the same to older clients",
                    ));
                }
            }
            _ => return None,
        }
        Some(exact())
    }

    fn access(&mut self, directive: &Directive) -> Option<Outcome> {
        let arg = directive.arg().to_owned();
        match directive.name.as_str() {
            "allow" | "deny" => {
                if self.begins("allow") {
                    self.rules.clear();
                }
                let allow = directive.name == "allow";
                if arg == "unix:" {
                    return Some((
                        Grade::Lost,
                        "clients of unix sockets have the address 127.0.0.1".to_owned(),
                    ));
                }
                let who = if arg == "all" { None } else { Some(network(&arg)?) };
                self.rules.push((allow, who));
            }
            "auth_basic" => self.realm = (arg != "off").then_some(arg),
            "auth_basic_user_file" => self.users_file = Some(arg),
            "auth_request" => {
                self.judge = (arg != "off").then_some(arg);
                if self.judge.is_some() {
                    return Some(near(
                        "what refuses a request goes to the client as it is; of nginx, 401 and 403 have pages of its own, \
                         and every other refusal is 500",
                    ));
                }
            }
            "auth_request_set" => {
                let value = directive.args.get(1).cloned().unwrap_or_default();
                self.judged.push((arg.trim_start_matches('$').to_owned(), value));
            }
            "satisfy" => self.satisfy_any = arg == "any",
            _ => return None,
        }
        Some(exact())
    }

    fn limits(&mut self, directive: &Directive) -> Option<Outcome> {
        let arg = directive.arg().to_owned();
        match directive.name.as_str() {
            "client_max_body_size" => self.max_body = Some(bytes(&arg)?),
            "limit_req" => {
                if self.begins("limit_req") {
                    self.limit_req.clear();
                }
                let named = |key: &str| directive.args.iter().find_map(|arg| arg.strip_prefix(key));
                let zone = named("zone=")?.to_owned();
                let burst = named("burst=").map_or(Some(0), |burst| burst.parse().ok())?;
                let is_delayed = burst > 0 && !directive.args.iter().any(|arg| arg == "nodelay");
                self.limit_req.push(LimitReq { zone, burst });
                if is_delayed {
                    return Some(near("requests of the burst pass at once, they are not delayed"));
                }
            }
            "limit_req_status" => self.limit_req_status = arg.parse().ok(),
            "limit_conn" => {
                if self.begins("limit_conn") {
                    self.limit_conn.clear();
                }
                self.limit_conn.push((arg, directive.args.get(1)?.parse().ok()?));
            }
            "limit_conn_status" => self.limit_conn_status = arg.parse().ok(),
            _ => return None,
        }
        Some(exact())
    }
}

/// What is told of a field that goes upstream.
fn set_header(name: &str, value: &str) -> Outcome {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    match value {
        "$proxy_add_x_forwarded_for" if is("X-Forwarded-For") => {
            near("Thalweg writes it by itself: what a client sends in it goes on only from `trusted_proxies`")
        }
        "$http_host" if is("Host") => {
            near("the host goes upstream in lower case, without a port that is that of the scheme")
        }
        "" if is("Content-Length") => {
            near("the length goes along with the body; only what `auth_request` asks gets none")
        }
        _ if is("Content-Length") || is("Transfer-Encoding") || is("TE") || is("Expect") || is("Via") => {
            (Grade::Lost, "the proxy alone writes this field".to_owned())
        }
        _ => exact(),
    }
}
