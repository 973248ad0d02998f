//! `backend`: servers, how one is chosen, checks and deadlines, as a service.

use super::Importer;
use super::known::milliseconds;
use super::lines::Line;
use super::proxy::Proxy;
use crate::Grade;
use crate::draft::duration;
use crate::yaml::{Map, Value, one};

/// A `server`.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    pub(super) address: String,
    pub(super) weight: Option<u64>,
    pub(super) is_backup: bool,
    pub(super) is_disabled: bool,
    pub(super) most: Option<u64>,
    pub(super) is_tls: bool,
    pub(super) tls: Map,
    pub(super) is_checked: bool,
    pub(super) is_checked_by_tls: bool,
    pub(super) check_port: Option<u64>,
    pub(super) check: Map,
    pub(super) h2: bool,
    pub(super) proxy_protocol: Option<&'static str>,
    pub(super) told: Vec<(Grade, String)>,
}

/// Options of a server that have a value.
const VALUED: &[&str] = &[
    "weight",
    "maxconn",
    "inter",
    "downinter",
    "rise",
    "fall",
    "port",
    "verify",
    "ca-file",
    "crt",
    "sni",
    "verifyhost",
    "alpn",
    "proto",
    "cookie",
    "id",
    "resolvers",
    "init-addr",
    "name",
    "check-sni",
    "check-alpn",
];
/// Those that are left out with their value.
const LEFT_OUT: &[&str] = &[
    "maxqueue",
    "minconn",
    "slowstart",
    "fastinter",
    "on-marked-down",
    "on-marked-up",
    "on-error",
    "observe",
    "error-limit",
    "resolve-prefer",
    "resolve-opts",
    "resolve-net",
    "pool-max-conn",
    "pool-purge-delay",
    "max-reuse",
    "pool-low-conn",
    "source",
    "track",
    "agent-port",
    "agent-inter",
    "agent-addr",
    "agent-send",
    "ciphers",
    "ciphersuites",
    "ssl-min-ver",
    "ssl-max-ver",
    "addr",
    "ws",
    "usesrc",
    "tcp-ut",
    "redir",
    "namespace",
];
/// Those that are left out and have none.
const HARMLESS: &[&str] = &[
    "force-tlsv12",
    "force-tlsv13",
    "no-sslv3",
    "no-tlsv10",
    "no-tlsv11",
    "non-stick",
    "tfo",
    "allow-0rtt",
    "no-ssl-reuse",
    "no-tls-tickets",
    "ssl-reuse",
    "tls-tickets",
    "agent-check",
    "check-send-proxy",
];

/// Endpoints that a template may stand for.
const COPIES: u64 = 1000;

impl Importer<'_> {
    /// The service of a backend, with its name; `None`: it has no servers.
    pub(super) fn service(&mut self, proxy: &Proxy) -> Option<String> {
        let mut servers: Vec<Server> = Vec::new();
        for line in &proxy.servers {
            servers.extend(self.servers(line, proxy));
        }
        let first = servers.first()?.clone();
        let is_http = proxy.settings.is_http;
        if servers.iter().any(|server| server.is_tls) && !is_http {
            for line in &proxy.servers {
                self.note(
                    line,
                    Grade::Lost,
                    "connections of `mode tcp` go to endpoints as they are, without `ssl`",
                    &proxy.name,
                );
            }
        }
        let all_backups = proxy.settings.options.contains_key("allbackups");
        let mut tier = 0_u64;
        let mut endpoints: Vec<Value> = Vec::new();
        for server in &servers {
            if server.is_backup && (tier == 0 || !all_backups) {
                tier += 1;
            }
            endpoints.push(server.endpoint(is_http, if server.is_backup { tier.min(9) } else { 0 }));
        }
        let many = endpoints.len() > 1;
        let mut service = one("endpoints", endpoints);
        if first.is_tls && is_http {
            if !first.h2 {
                service.put("protocol", "http1");
            }
            if !first.tls.is_empty() {
                service.put("tls", first.tls.clone());
            }
        } else if first.h2 {
            service.put("protocol", "http2");
        }
        if let Some(version) = first.proxy_protocol {
            match is_http {
                false => service.put("send_proxy_protocol", version),
                true => {
                    for line in &proxy.servers {
                        self.note(
                            line,
                            Grade::Lost,
                            "`send-proxy` is said to `tcp://` endpoints alone",
                            &proxy.name,
                        );
                    }
                }
            }
        }
        self.balance(proxy, &mut service, many);
        self.health(proxy, &servers, &mut service);
        if many {
            service.put("ejection", "off");
        }
        self.sticky(proxy, &mut service);
        Self::retries(proxy, &mut service);
        deadlines(proxy, &mut service);
        Some(self.draft.service(&proxy.name, &service))
    }

    fn servers(&mut self, line: &Line, proxy: &Proxy) -> Vec<Server> {
        let is_template = line.word(0) == "server-template";
        let (address, from) = if is_template { (line.word(3), 4) } else { (line.word(2), 3) };
        let mut server = Server::default();
        let mut words = proxy.settings.default_server.clone();
        words.extend(line.rest(from).iter().cloned());
        server.take(&words, |path| self.based(path, "ca-base"), |path| self.based(path, "crt-base"));
        for (grade, about) in std::mem::take(&mut server.told) {
            self.note(line, grade, about, &proxy.name);
        }
        server.address = match address.rsplit_once(':') {
            _ if address.starts_with('/') => format!("unix:{address}"),
            _ if address.starts_with("unix@") => format!("unix:{}", &address[5..]),
            Some((host, port)) if !port.is_empty() => {
                let host = host.trim_start_matches("ipv4@").trim_start_matches("ipv6@");
                match host.contains(':') && !host.starts_with('[') {
                    true => format!("[{host}]:{port}"),
                    false => format!("{host}:{port}"),
                }
            }
            _ => {
                self.note(line, Grade::Lost, "write its port; the client's is not taken over", &proxy.name);
                return Vec::new();
            }
        };
        if is_template {
            let (from, to) = line.word(2).split_once('-').unwrap_or(("1", line.word(2)));
            let count = to.parse::<u64>().unwrap_or(1).saturating_sub(from.parse().unwrap_or(1)) + 1;
            let is_address = address.parse::<std::net::SocketAddr>().is_ok();
            if !is_address {
                let about = "all addresses of the name are endpoints, however many there are";
                self.note(line, Grade::Near, about, &proxy.name);
                return vec![server];
            }
            return vec![server; usize::try_from(count.min(COPIES)).unwrap_or(1)];
        }
        vec![server]
    }

    fn balance(&mut self, proxy: &Proxy, service: &mut Map, many: bool) {
        let stick = proxy.rules.iter().find(|line| line.word(0) == "stick");
        if let Some(line) = stick {
            let key = (line.word(1) == "on" && line.word(2) == "src").then(|| Value::from("client_ip"));
            let key = key.or_else(|| hashed(line.word(2)));
            let (grade, about) = match &key {
                Some(_) => (Grade::Near, "a hash keeps clients at an endpoint, and no table"),
                None => (Grade::Lost, "clients are not kept at an endpoint by this; see `sticky`"),
            };
            self.note(line, grade, about, &proxy.name);
            if let Some(key) = key.filter(|_| many) {
                service.put("balance", one("hash", one("on", key)));
                return;
            }
        }
        let Some(line) = proxy.settings.balance.clone() else { return };
        let own_hash = "Thalweg's own hash chooses: a client stays at its endpoint, which may be another one than before";
        let (word, argument) = match line.word(1).split_once('(') {
            Some((word, argument)) => (word.to_owned(), argument.trim_end_matches(')').to_owned()),
            None => (line.word(1).to_owned(), line.word(2).to_owned()),
        };
        let (balance, told): (Option<Value>, Option<(Grade, &str)>) = match word.as_str() {
            "roundrobin" | "static-rr" => (None, None),
            "leastconn" => (Some("least_requests".into()), None),
            "random" => (Some("random".into()), None),
            "source" => (Some(one("hash", one("on", "client_ip")).into()), Some((Grade::Near, own_hash))),
            "uri" => (Some(one("hash", one("on", "path")).into()), Some((Grade::Near, own_hash))),
            "url_param" => {
                (Some(one("hash", one("on", one("query", argument))).into()), Some((Grade::Near, own_hash)))
            }
            "hdr" => {
                (Some(one("hash", one("on", one("header", argument))).into()), Some((Grade::Near, own_hash)))
            }
            "first" => (
                Some("least_requests".into()),
                Some((
                    Grade::Near,
                    "the endpoint with the fewest requests is chosen, and not the first one that has a place",
                )),
            ),
            _ => (None, Some((Grade::Lost, "requests go round: there is no such way to choose"))),
        };
        if let Some((grade, about)) = told {
            self.note(&line, grade, about, &proxy.name);
        }
        if let Some(balance) = balance.filter(|_| many) {
            service.put("balance", balance);
        }
    }

    fn sticky(&mut self, proxy: &Proxy, service: &mut Map) {
        let Some(line) = proxy.settings.cookie.clone() else { return };
        let has = |word: &str| line.words.iter().any(|known| known == word);
        if !has("insert") {
            self.note(
                &line,
                Grade::Lost,
                "only a cookie of the proxy's own keeps clients at an endpoint (`insert`)",
                &proxy.name,
            );
            return;
        }
        let mut sticky = one("cookie", line.word(1));
        if has("secure") {
            sticky.put("secure", true);
        }
        if let Some(time) = line.behind("maxlife").or_else(|| line.behind("maxidle")).and_then(milliseconds) {
            sticky.put("max_age", duration(time.max(1000)));
        }
        service.put("sticky", sticky);
        let about = "the cookie holds a signed name of the endpoint, and not that of `server … cookie`: clients that have the old one are given another; write a `secret` so that cookies outlast a restart";
        self.note(&line, Grade::Near, about, &proxy.name);
    }

    fn retries(proxy: &Proxy, service: &mut Map) {
        let on = &proxy.settings.retry_on;
        let is_wide = on.iter().any(|word| !matches!(word.as_str(), "conn-failure" | "none"));
        if !is_wide {
            return;
        }
        let attempts = proxy.settings.retries.unwrap_or(3) + 1;
        let mut statuses: Vec<u64> =
            on.iter().filter_map(|word| word.parse().ok()).filter(|it| *it >= 500).collect();
        if on.iter().any(|word| word == "all-retryable-errors") {
            statuses.extend([500, 502, 503, 504]);
        }
        let mut retry = one("attempts", attempts.clamp(1, 10));
        if !statuses.is_empty() {
            retry.put("statuses", statuses);
        }
        service.put("retry", retry);
    }
}

/// What a sample hashes by.
fn hashed(sample: &str) -> Option<Value> {
    let (name, argument) = sample.split_once('(')?;
    let argument = argument.trim_end_matches(')');
    Some(match name {
        "req.cook" | "cook" | "req.cookie" | "cookie" => one("cookie", argument).into(),
        "req.hdr" | "hdr" => one("header", argument).into(),
        "url_param" | "urlp" => one("query", argument).into(),
        _ => return None,
    })
}

/// Deadlines of a service.
fn deadlines(proxy: &Proxy, service: &mut Map) {
    let times = &proxy.settings.timeouts;
    let of = |name: &str| times.get(name).copied().filter(|time| *time > 0);
    let mut timeouts = Map::default();
    if let Some(time) = of("connect") {
        timeouts.put("connect", duration(time));
    }
    if let Some(time) = of("server").filter(|_| proxy.settings.is_http) {
        timeouts.put("first_byte", duration(time));
    }
    if let Some(time) = of("server").max(of("tunnel")) {
        timeouts.put("idle", duration(time));
    }
    if !timeouts.is_empty() {
        service.put("timeouts", timeouts);
    }
    if let Some(time) = of("queue").filter(|_| {
        service.get("endpoints").is_some_and(|list| format!("{list:?}").contains("max_in_flight"))
    }) {
        service.put("limits", one("queue", one("timeout", duration(time))));
    }
}

impl Server {
    pub(super) fn interval(&self, key: &str) -> Option<u64> {
        match self.check.get(key) {
            Some(Value::Text(text)) => milliseconds(text),
            _ => None,
        }
    }

    fn endpoint(&self, is_http: bool, tier: u64) -> Value {
        let scheme = match (is_http, self.is_tls) {
            (false, _) => "tcp",
            (true, false) => "http",
            (true, true) => "https",
        };
        let url = match self.address.starts_with("unix:") {
            true => self.address.clone(),
            false => format!("{scheme}://{}", self.address),
        };
        let mut long = one("url", url.as_str());
        let weight = if self.is_disabled { Some(0) } else { self.weight };
        if let Some(weight) = weight.filter(|weight| *weight != 1) {
            long.put("weight", weight.min(1000));
        }
        match tier {
            0 => {}
            1 => long.put("backup", true),
            tier => long.put("tier", tier),
        }
        if let Some(most) = self.most.filter(|most| *most > 0) {
            long.put("max_in_flight", most);
        }
        if long.entries().len() == 1 { url.into() } else { long.into() }
    }

    fn take(&mut self, words: &[String], ca: impl Fn(&str) -> String, crt: impl Fn(&str) -> String) {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let has_value = VALUED.contains(&word.as_str()) || LEFT_OUT.contains(&word.as_str());
            let value = if has_value { words.next().map_or("", String::as_str) } else { "" };
            match (word.as_str(), value) {
                ("ca-file", "@system-ca") => {}
                ("ca-file", file) => self.tls.put("ca", ca(file)),
                ("crt", file) => {
                    let file = crt(file);
                    self.tls.put("cert", file.as_str());
                    self.tls.put("key", file);
                }
                (word, value) if LEFT_OUT.contains(&word) => {
                    self.told.push((Grade::Near, format!("`{word} {value}` is left out")));
                }
                (word, value) => self.option(word, value),
            }
        }
    }

    /// An option of a server.
    fn option(&mut self, word: &str, value: &str) {
        match (word, value) {
            ("check", _) => self.is_checked = true,
            ("no-check", _) => self.is_checked = false,
            ("check-ssl", _) => self.is_checked_by_tls = true,
            ("weight", weight) => self.weight = weight.parse().ok(),
            ("backup", _) => self.is_backup = true,
            ("disabled", _) => self.is_disabled = true,
            ("enabled", _) => self.is_disabled = false,
            ("maxconn", most) => self.most = most.parse().ok(),
            ("inter" | "downinter", time) => {
                let key = if word == "inter" { "interval" } else { "interval_down" };
                if let Some(time) = milliseconds(time) {
                    self.check.put(key, duration(time.clamp(100, 3_600_000)));
                }
            }
            ("rise" | "fall", number) => {
                let key = if word == "rise" { "healthy_after" } else { "unhealthy_after" };
                if let Ok(number) = number.parse::<u64>() {
                    self.check.put(key, number.clamp(1, 100));
                }
            }
            ("port", port) => self.check_port = port.parse().ok(),
            ("ssl", _) => self.is_tls = true,
            ("no-ssl", _) => self.is_tls = false,
            ("verify", "none") => self.tls.put("insecure_skip_verify", true),
            ("sni", said) if !said.starts_with("str(") => {
                let about = "the name that is asked for is that of the URL, or `server_name`";
                self.told.push((Grade::Near, about.into()));
            }
            ("sni" | "verifyhost", said) => {
                let name = said.strip_prefix("str(").map_or(said, |inner| inner.trim_end_matches(')'));
                self.tls.put("server_name", name);
            }
            ("alpn" | "proto", names) => self.h2 = names.split(',').any(|name| name == "h2"),
            ("send-proxy", _) => self.proxy_protocol = Some("v1"),
            ("send-proxy-v2" | "send-proxy-v2-ssl" | "send-proxy-v2-ssl-cn", _) => {
                self.proxy_protocol = Some("v2")
            }
            (word, _) if VALUED.contains(&word) => {}
            (word, _) if HARMLESS.contains(&word) => {
                self.told.push((Grade::Near, format!("`{word}` is left out")));
            }
            (other, _) => self.told.push((Grade::Lost, format!("`{other}` has no counterpart"))),
        }
    }
}
