//! `upstream` and `proxy_pass` as services.

use super::known::milliseconds;
use super::settings::Settings;
use super::tree::Directive;
use crate::draft::{Draft, duration};
use crate::yaml::{Map, Value, one};
use crate::{Grade, Place, Report};

/// A `server` of an `upstream`.
#[derive(Clone, Debug, Default)]
struct Member {
    address: String,
    weight: Option<u64>,
    backup: bool,
    max_connections: Option<u64>,
    max_fails: u64,
    fail_timeout: u64,
}

/// An `upstream`.
#[derive(Clone, Debug, Default)]
pub(super) struct Upstream {
    members: Vec<Member>,
    balance: Option<Value>,
}

const BALANCERS: &str =
    "Thalweg's own hash chooses: a client stays at its endpoint, which may be another one than before";

impl Upstream {
    /// Reads the block.
    pub(super) fn read(directive: &Directive, report: &mut Report) -> Self {
        let mut upstream = Self::default();
        report.exact(&directive.place, directive.text());
        let concerns = format!("requests to the upstream {}", directive.arg());
        for inner in directive.children() {
            let (grade, about) = upstream.take(inner);
            let concerns = if grade == Grade::Exact { "" } else { &concerns };
            report.note(&inner.place, inner.text(), grade, about, concerns);
        }
        upstream
    }

    fn take(&mut self, inner: &Directive) -> (Grade, String) {
        match inner.name.as_str() {
            "server" => return self.member(inner),
            "least_conn" => self.balance = Some("least_requests".into()),
            "random" => self.balance = Some("random".into()),
            "ip_hash" => {
                self.balance = Some(one("hash", one("on", "client_ip")).into());
                return (Grade::Near, BALANCERS.to_owned());
            }
            "hash" => {
                let key = inner.arg();
                let on: Value = match key {
                    "$remote_addr" | "$binary_remote_addr" => "client_ip".into(),
                    "$uri" | "$request_uri" => "path".into(),
                    _ => {
                        let named = [("$http_", "header"), ("$cookie_", "cookie"), ("$arg_", "query")];
                        let found =
                            named.iter().find_map(|(begin, word)| Some((*word, key.strip_prefix(begin)?)));
                        match found {
                            Some(("header", name)) => one("header", name.replace('_', "-")).into(),
                            Some((word, name)) => one(word, name).into(),
                            None => {
                                return (
                                    Grade::Lost,
                                    "requests go round: this key cannot be hashed".to_owned(),
                                );
                            }
                        }
                    }
                };
                self.balance = Some(one("hash", one("on", on)).into());
                return (Grade::Near, BALANCERS.to_owned());
            }
            "keepalive" | "keepalive_requests" | "keepalive_timeout" | "keepalive_time" | "zone" => {}
            name => return (Grade::Lost, format!("`{name}` of an upstream has no counterpart")),
        }
        (Grade::Exact, String::new())
    }

    fn member(&mut self, inner: &Directive) -> (Grade, String) {
        let mut member = Member { max_fails: 1, fail_timeout: 10_000, ..Member::default() };
        inner.arg().clone_into(&mut member.address);
        let mut outcome = (Grade::Exact, String::new());
        for word in inner.args.iter().skip(1) {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "weight" => member.weight = value.parse().ok(),
                "max_conns" => member.max_connections = value.parse().ok(),
                "max_fails" => member.max_fails = value.parse().unwrap_or(1),
                "fail_timeout" => member.fail_timeout = milliseconds(value).unwrap_or(10_000),
                "backup" => member.backup = true,
                "down" => member.weight = Some(0),
                "resolve" => {}
                _ => outcome = (Grade::Lost, format!("`{word}` has no counterpart")),
            }
            if matches!(key, "max_fails" | "fail_timeout") {
                outcome =
                    (Grade::Near, "failures in a row are counted, for the service as a whole".to_owned());
            }
        }
        self.members.push(member);
        outcome
    }

    /// The service of this upstream.
    fn service(&self, scheme: &str) -> Map {
        let endpoints: Vec<Value> = self.members.iter().map(|member| member.endpoint(scheme)).collect();
        let mut service = one("endpoints", endpoints);
        if let Some(balance) = &self.balance {
            service.put("balance", balance.clone());
        }
        let Some(first) = self.members.first().filter(|_| self.members.len() > 1) else { return service };
        let ejection: Value = match first.max_fails {
            0 => "off".into(),
            fails => one("consecutive", fails)
                .with("time", duration(first.fail_timeout.max(100)))
                .with("max_time", duration(first.fail_timeout.max(100)))
                .with("max_share", "100%")
                .into(),
        };
        service.put("ejection", ejection);
        service
    }
}

impl Member {
    fn endpoint(&self, scheme: &str) -> Value {
        let url = url(scheme, &self.address);
        let mut long = one("url", url.as_str());
        if let Some(weight) = self.weight.filter(|weight| *weight != 1) {
            long.put("weight", weight.min(1000));
        }
        if self.backup {
            long.put("backup", true);
        }
        if let Some(most) = self.max_connections.filter(|most| *most > 0) {
            long.put("max_connections", most);
        }
        if long.entries().len() == 1 { url.into() } else { long.into() }
    }
}

/// The URL of an endpoint.
fn url(scheme: &str, address: &str) -> String {
    match address.strip_prefix("unix:") {
        Some(path) => format!("unix:{}", path.trim_end_matches(':')),
        None => format!("{scheme}://{address}"),
    }
}

/// A `proxy_pass`, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pass {
    pub(super) scheme: String,
    /// An upstream, or host and port.
    pub(super) target: String,
    /// What takes the place of the location.
    pub(super) uri: Option<String>,
}

impl Pass {
    pub(super) fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (target, uri) = match rest.strip_prefix("unix:") {
            Some(path) => {
                let (socket, uri) =
                    path.split_once(':').map_or((path, None), |(socket, uri)| (socket, Some(uri)));
                (format!("unix:{socket}"), uri.filter(|uri| !uri.is_empty()).map(str::to_owned))
            }
            None => match rest.find('/') {
                Some(at) => (rest[..at].to_owned(), Some(rest[at..].to_owned())),
                None => match rest.strip_suffix("$request_uri") {
                    Some(target) => (target.to_owned(), None),
                    None => (rest.to_owned(), None),
                },
            },
        };
        matches!(scheme, "http" | "https").then(|| Self { scheme: scheme.to_owned(), target, uri })
    }

    /// The service that requests go to; gives its name.
    pub(super) fn service(
        &self,
        draft: &mut Draft,
        upstream: Option<&Upstream>,
        settings: &Settings,
        host: Option<String>,
    ) -> String {
        let mut service = match upstream {
            Some(upstream) => upstream.service(&self.scheme),
            None => one("endpoints", vec![url(&self.scheme, &self.target)]),
        };
        if let Some(host) = host {
            service.put("host", host);
        }
        if self.scheme == "https" {
            service.put("tls", tls(settings));
        }
        let off = settings.next_upstream.iter().any(|word| word == "off");
        let statuses: Vec<u64> = settings
            .next_upstream
            .iter()
            .filter_map(|word| word.strip_prefix("http_")?.parse().ok())
            .filter(|status| *status >= 429)
            .collect();
        let attempts = if off { Some(1) } else { settings.tries.filter(|tries| *tries > 0) };
        if attempts.is_some() || !statuses.is_empty() {
            let mut retry = Map::default();
            if let Some(attempts) = attempts {
                retry.put("attempts", attempts.clamp(1, 10));
            }
            if !statuses.is_empty() {
                retry.put("statuses", statuses);
            }
            service.put("retry", retry);
        }
        let name: String = match self.target.strip_prefix("unix:") {
            Some(path) => path.rsplit('/').next().unwrap_or("socket").to_owned(),
            None => self.target.replace([':', '[', ']'], "-").trim_matches('-').to_owned(),
        };
        draft.service(&name, &service)
    }
}

/// What `proxy_ssl_*` says.
fn tls(settings: &Settings) -> Map {
    let mut tls = Map::default();
    if !settings.verify {
        tls.put("insecure_skip_verify", true);
    }
    let texts = [
        ("ca", &settings.trusted),
        ("server_name", &settings.ssl_name),
        ("cert", &settings.client_certificate),
        ("key", &settings.client_key),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            tls.put(key, value.as_str());
        }
    }
    tls
}

/// Notes that endpoints are not verified.
pub(super) fn note_unverified(pass: &Pass, settings: &Settings, place: &Place, report: &mut Report) {
    if pass.scheme == "https" && !settings.verify {
        let about =
            "as in nginx, the certificates of its endpoints are not verified; remove `insecure_skip_verify`";
        report.note(place, format!("proxy_pass https://{}", pass.target), Grade::Exact, about, "");
    }
}
