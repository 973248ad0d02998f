//! nginx: `nginx.conf`, or files of `sites-enabled` and `conf.d` alone.
//!
//! `tree` reads the syntax, `settings` and `level` what blocks say, `matching` brings locations into the order in which
//! routes must stand, `content` makes filters and services of each (with `pass` and `files`), `server` routes and
//! listeners of them all (with `listen` and `redirects`).

mod conditions;
mod content;
mod files;
mod known;
mod level;
mod listen;
mod maps;
mod matching;
mod pass;
mod redirects;
mod server;
mod settings;
mod tree;
mod upstream;
mod variables;

use crate::draft::Draft;
use crate::report::Report;
use crate::yaml::{Map, Value, one};
use crate::{Files, Grade, ImportError, Imported};
use level::{Level, note_rest};
use listen::Listener;
use maps::{Choice, Maps};
use server::Server;
use std::collections::BTreeMap;
use std::rc::Rc;
use tree::{Directive, Reader};
use upstream::Upstream;

/// What differs whatever is configured.
const ALWAYS: &[&str] = &[
    "paths go upstream in normal form: escapes of ordinary characters decoded, `.` and `..` resolved; nginx sends them as they came unless `proxy_pass` has a path",
    "a path that begins with `//` and escapes that hide a slash, backslash or control character are refused with 400; `//` inside a path is matched as `/` and goes upstream as it is",
    "requests go upstream over HTTP/1.1 with `Via`, `X-Request-Id` and `X-Forwarded-For`, `-Proto`, `-Host`; what a client has sent in these is kept from `trusted_proxies` alone",
    "responses keep the `Server` and `Date` of the endpoint, and `X-Accel-*` has no meaning",
    "the proxy's own errors have a body of their own; when no endpoint is well the status is 503, not 502",
    "redirects to a path are sent as a path, nginx adds scheme and host",
    "regular expressions are matched against the path in normal form, where `%20` and the like stay",
    "a directory without an index is 404, nginx says 403",
    "fields whose names have an underscore pass, which nginx drops unless `underscores_in_headers` is on",
    "a text of `return` has the type of `default_type`, whatever the path ends in, but for locations with `=`",
    "challenges of `auth_basic` name `charset=\"UTF-8\"`",
];

/// A zone of `limit_req_zone`.
#[derive(Clone, Debug)]
struct Zone {
    requests: u64,
    per: String,
    key: Value,
}

/// What is collected while the configuration is read.
struct Importer<'a> {
    files: &'a dyn Files,
    report: Report,
    draft: Draft,
    upstreams: BTreeMap<String, Upstream>,
    zones: BTreeMap<String, Zone>,
    connection_zones: BTreeMap<String, Value>,
    listeners: Vec<Listener>,
    servers: Vec<Server>,
    /// Of the server that is made into routes: pages with a location of their own, and locations by name.
    page_roots: Vec<(String, String)>,
    named: Vec<(String, Level)>,
    internal: Vec<(String, Level)>,
}

/// Reads configurations of nginx.
///
/// # Errors
/// A file cannot be read, or is no configuration of nginx.
pub(crate) fn import(paths: &[String], files: &dyn Files) -> Result<Imported, ImportError> {
    let mut importer = Importer {
        files,
        report: Report::new("nginx", ALWAYS),
        draft: Draft::default(),
        upstreams: BTreeMap::new(),
        zones: BTreeMap::new(),
        connection_zones: BTreeMap::new(),
        listeners: Vec::new(),
        servers: Vec::new(),
        page_roots: Vec::new(),
        named: Vec::new(),
        internal: Vec::new(),
    };
    let mut whole = Vec::new();
    for path in paths {
        let base = path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        let mut reader = Reader { files, base, includes: Vec::new(), count: 0 };
        whole.extend(reader.file(path, 0)?);
        for (directive, told) in reader.includes {
            match told {
                Ok(_) => importer.report.exact(&directive.place, directive.text()),
                Err(error) => {
                    importer.report.note(
                        &directive.place,
                        directive.text(),
                        Grade::Lost,
                        error,
                        "what it would say",
                    );
                }
            }
        }
    }
    importer.main(&whole);
    importer.report.finish();
    importer.draft.head = vec![
        format!("Made by `thalweg import nginx {}`.", paths.join(" ")),
        "What was not taken over stands in the report that came with it.".to_owned(),
    ];
    Ok(Imported { configuration: importer.draft.yaml(), report: importer.report })
}

impl Importer<'_> {
    fn main(&mut self, directives: &[Directive]) {
        let mut timeouts = one("connect", "60s");
        let mut http: Vec<&Directive> = Vec::new();
        for directive in directives {
            match directive.name.as_str() {
                "http" => {
                    self.report.exact(&directive.place, directive.text());
                    http.extend(directive.children());
                }
                "events" => {
                    self.report.exact(&directive.place, directive.text());
                    directive.children().iter().for_each(|inner| note_rest(inner, &mut self.report, ""));
                }
                "worker_processes" => {
                    self.report.exact(&directive.place, directive.text());
                    if let Ok(workers) = directive.arg().parse::<u64>() {
                        self.draft.top.put("workers", workers.clamp(1, 1024));
                    }
                }
                "user" => {
                    let about = "write `user` at the top, as in `user: www-data:www-data`";
                    self.report.note(&directive.place, directive.text(), Grade::Near, about, "");
                }
                "stream" | "mail" => {
                    let about = format!(
                        "`{}` is not taken over yet; see listeners with `protocol: tcp`",
                        directive.name
                    );
                    self.report.note(
                        &directive.place,
                        directive.text(),
                        Grade::Lost,
                        about,
                        "its connections",
                    );
                }
                // Files of sites-enabled stand in `http` by themselves.
                "server" | "upstream" | "map" | "geo" | "limit_req_zone" | "limit_conn_zone" => {
                    http.push(directive)
                }
                _ => http.push(directive),
            }
        }
        self.http(&http, &mut timeouts);
        let defaults =
            one("timeouts", timeouts).with("limits", one("max_body", crate::draft::size(content::MAX_BODY)));
        self.draft.top.put("defaults", defaults);
        self.routes();
    }

    /// What stands in `http`.
    fn http(&mut self, directives: &[&Directive], timeouts: &mut Map) {
        let mut level = Level::default();
        let (mut servers, mut maps) = (Vec::new(), Maps::new());
        for directive in directives {
            match directive.name.as_str() {
                "server" => servers.push(*directive),
                "upstream" => {
                    let upstream = Upstream::read(directive, &mut self.report);
                    self.upstreams.insert(directive.arg().to_owned(), upstream);
                }
                "limit_req_zone" | "limit_conn_zone" => self.zone(directive),
                "map" | "geo" => self.map(directive, &mut maps),
                "ssl_certificate" | "ssl_certificate_key" => {
                    let at = if directive.name == "ssl_certificate" {
                        &mut level.settings.certificate.0
                    } else {
                        &mut level.settings.certificate.1
                    };
                    *at = Some(directive.arg().to_owned());
                    self.report.exact(&directive.place, directive.text());
                }
                "ssl_protocols"
                    if !directive.args.iter().any(|word| word == "TLSv1" || word == "TLSv1.1") =>
                {
                    self.report.exact(&directive.place, directive.text());
                }
                "set_real_ip_from" | "real_ip_header" | "real_ip_recursive" => self.real_ip(directive),
                "client_header_timeout" => {
                    self.report.exact(&directive.place, directive.text());
                    if let Some(time) = known::milliseconds(directive.arg()).filter(|time| *time > 0) {
                        timeouts.put("head", crate::draft::duration(time));
                    }
                }
                _ => {
                    let one = std::slice::from_ref(*directive);
                    for rest in level.read(one, &mut self.report, "all requests") {
                        note_rest(rest, &mut self.report, "all requests");
                    }
                }
            }
        }
        level.maps = Rc::new(maps);
        for directive in servers {
            self.server(directive, &level);
        }
    }

    fn zone(&mut self, directive: &Directive) {
        let named = |key: &str| directive.args.iter().find_map(|arg| arg.strip_prefix(key));
        let name = named("zone=").and_then(|zone| zone.split(':').next()).unwrap_or_default().to_owned();
        let Some(key) = zone_key(directive.arg()) else {
            let about = "requests cannot be counted by this key; the limits of the zone are left out";
            self.report.note(
                &directive.place,
                directive.text(),
                Grade::Lost,
                about,
                "requests beyond the limit",
            );
            return;
        };
        self.report.exact(&directive.place, directive.text());
        if directive.name == "limit_conn_zone" {
            self.connection_zones.insert(name, key);
            return;
        }
        let rate = named("rate=").unwrap_or("1r/s");
        let (number, per) = match (rate.strip_suffix("r/s"), rate.strip_suffix("r/m")) {
            (Some(number), _) => (number, "1s"),
            (_, Some(number)) => (number, "1m"),
            _ => (rate, "1s"),
        };
        let requests = number.parse().unwrap_or(1).max(1);
        self.zones.insert(name, Zone { requests, per: per.to_owned(), key });
    }

    /// The map of upgrades needs nothing: Thalweg passes upgrades by itself.
    fn map(&mut self, directive: &Directive, maps: &mut Maps) {
        let is_upgrade = directive.arg() == "$http_upgrade";
        let made = if directive.name == "geo" { Choice::geo(directive) } else { Choice::map(directive) };
        let name = directive.args.last().map_or("", |name| name.trim_start_matches('$')).to_owned();
        let (grade, about) = match made {
            _ if is_upgrade => (Grade::Exact, String::new()),
            Ok(choice) => {
                maps.insert(name, choice);
                (Grade::Exact, String::new())
            }
            Err(error) => (Grade::Lost, format!("{error}; what names ${name} says so")),
        };
        self.report.note(&directive.place, directive.text(), grade, about, "");
        for inner in directive.children() {
            self.report.note(&inner.place, inner.text(), grade, "", "");
        }
    }

    fn real_ip(&mut self, directive: &Directive) {
        let outcome = match (directive.name.as_str(), directive.arg()) {
            ("set_real_ip_from", address) if crate::networks::network(address).is_some() => {
                let mut known = match self.draft.top.get("trusted_proxies") {
                    Some(Value::List(list)) => list.clone(),
                    _ => Vec::new(),
                };
                known.push(address.into());
                self.draft.top.put("trusted_proxies", Value::List(known));
                (Grade::Exact, "")
            }
            ("real_ip_header", "X-Forwarded-For") => (Grade::Exact, ""),
            ("real_ip_header", "proxy_protocol") => (Grade::Lost, "write `proxy_protocol` at the listener"),
            ("real_ip_recursive", "on") => (Grade::Exact, ""),
            ("real_ip_recursive", _) => {
                (Grade::Near, "addresses of trusted proxies are passed over in the whole chain")
            }
            _ => (Grade::Lost, "clients are known by `X-Forwarded-For` alone"),
        };
        self.report.note(&directive.place, directive.text(), outcome.0, outcome.1, "");
    }
}

/// What requests are counted by.
fn zone_key(text: &str) -> Option<Value> {
    Some(match text {
        "$binary_remote_addr" | "$remote_addr" => "client_ip".into(),
        "$server_name" | "$host" => "host".into(),
        _ => {
            let named = [("$http_", "header"), ("$cookie_", "cookie"), ("$arg_", "query")];
            let found = named.iter().find_map(|(begin, word)| Some((*word, text.strip_prefix(begin)?)));
            let (word, name) = found?;
            let name = if word == "header" { name.replace('_', "-") } else { name.to_owned() };
            one(word, name).into()
        }
    })
}
