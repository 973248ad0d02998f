//! `reverse_proxy` and `forward_auth` as services.

use super::Importer;
use super::directives::up;
use super::placeholders::is_constant;
use super::syntax::Directive;
use super::units::milliseconds;
use super::walk::{State, Step};
use crate::Grade;
use crate::draft::{To, duration};
use crate::yaml::{Map, Value, one, one_or_many};

/// What is read of a `reverse_proxy`.
#[derive(Debug, Default)]
struct Proxy {
    endpoints: Vec<String>,
    service: Map,
    health: Map,
    ejection: Map,
    tls: Map,
    retry: Map,
    timeouts: Map,
    host: Option<String>,
    filters: Vec<Map>,
    h2c: bool,
    is_secure: bool,
    /// Why requests cannot be treated as before.
    refused: Option<String>,
}

type Told = (Grade, String);

fn exact() -> Told {
    (Grade::Exact, String::new())
}

fn near(about: &str) -> Told {
    (Grade::Near, about.to_owned())
}

fn lost(about: impl Into<String>) -> Told {
    (Grade::Lost, about.into())
}

impl Importer<'_> {
    pub(super) fn proxy(&mut self, step: &Step, mut state: State) {
        let directive = &step.directive;
        let concerns = self.concerns(&state.condition);
        let mut proxy = Proxy { endpoints: directive.args.clone(), ..Proxy::default() };
        for line in directive.children() {
            let told = proxy.line(line, &mut state);
            let concerns = if told.0 == Grade::Exact { "" } else { &concerns };
            self.report.note(&line.place, line.text(), told.0, told.1.as_str(), concerns);
            if line.name == "transport" {
                for inner in line.children() {
                    let told = proxy.transport(inner);
                    let concerns = if told.0 == Grade::Exact { "" } else { concerns };
                    self.report.note(&inner.place, inner.text(), told.0, told.1, concerns);
                }
            } else {
                self.note_inner(line, told.0, &told.1);
            }
        }
        if state.tries.is_some() {
            proxy.refused = Some("`try_files` before a proxy is not taken over".to_owned());
        }
        let endpoints = proxy.urls();
        let why = proxy.refused.clone().or_else(|| endpoints.as_ref().err().cloned());
        if let Some(why) = why {
            let about = format!("{why}; requests are answered 501");
            self.report.note(&directive.place, step.text.as_str(), Grade::Lost, about, concerns);
            return self.refuse(state, &why);
        }
        self.report.exact(&directive.place, step.text.as_str());
        let endpoints = endpoints.unwrap_or_default();
        let name = service_name(&endpoints);
        let service = proxy.finished(endpoints);
        let name = self.draft.service(&name, &service);
        state.filters.append(&mut proxy.filters);
        let timeouts = std::mem::take(&mut proxy.timeouts);
        self.end(state, To::Service(name), timeouts);
    }

    /// `forward_auth`: another service decides.
    pub(super) fn forward_auth(
        &mut self,
        directive: &Directive,
        when: Option<Map>,
        state: &mut State,
    ) -> Result<(Grade, String), String> {
        let mut proxy = Proxy { endpoints: directive.args.clone(), ..Proxy::default() };
        let (mut path, mut copy) = ("/".to_owned(), Vec::new());
        for line in directive.children() {
            let told = match line.name.as_str() {
                "uri" if is_constant(line.arg()) => {
                    line.arg().clone_into(&mut path);
                    exact()
                }
                "copy_headers" => {
                    copy.extend(line.args.iter().cloned());
                    copy.extend(line.children().iter().map(|it| it.name.clone()));
                    match copy.iter().any(|name| name.contains('>')) {
                        true => return Err("`copy_headers` under another name is not taken over".to_owned()),
                        false => exact(),
                    }
                }
                _ => proxy.line(line, state),
            };
            self.report.note(&line.place, line.text(), told.0, told.1.as_str(), "");
            self.note_inner(line, told.0, &told.1);
        }
        if let Some(why) = proxy.refused.take() {
            return Err(why);
        }
        let endpoints = proxy.urls()?;
        let name = service_name(&endpoints);
        let service = proxy.finished(endpoints);
        let name = self.draft.service(&name, &service);
        let mut forward = one("service", name).with("path", path).with("fields", vec!["*"]);
        if !copy.is_empty() {
            forward.put("copy", copy);
        }
        let filter = one("auth", one("forward_auth", forward));
        state.filters.push(match when {
            Some(when) => filter.with("when", when),
            None => filter,
        });
        state.is_guarded = true;
        Ok(near(
            "what refuses a request goes to the client; fields of its other answers do not, but for `copy_headers`",
        ))
    }
}

impl Proxy {
    fn line(&mut self, line: &Directive, state: &mut State) -> Told {
        let (arg, args) = (line.arg().to_owned(), line.args.as_slice());
        match line.name.as_str() {
            "to" => self.endpoints.extend(args.iter().cloned()),
            "lb_policy" => return self.policy(args, line),
            "lb_retries" => {
                let count: u64 = arg.parse().unwrap_or(0);
                self.retry.put("attempts", (count + 1).min(10));
                return near("a retry counts against a budget (`retry.budget`)");
            }
            "lb_try_duration" => {
                if self.retry.get("attempts").is_none() {
                    self.retry.put("attempts", 3_u64);
                }
                return near("there are up to 3 attempts, however long they take");
            }
            "lb_try_interval" => return near("another attempt is made at once"),
            // As it is in any case.
            "header_up" if matches!(args, [name, value] if name == "Host" && value == "{hostport}") => {}
            "header_up" if is_endpoint(args) => self.host = Some("endpoint".to_owned()),
            "header_up" => match up(args, state) {
                Ok(filter) => {
                    let is_host = filter.get("rewrite").is_some();
                    self.filters.push(filter);
                    if is_host {
                        self.filters.push(one("map_back", false));
                    }
                }
                Err(why) => return lost(format!("{why}; the field is not changed")),
            },
            "header_down" => {
                return down(args, state).map_or_else(
                    |why| lost(format!("{why}; the field stays as it is")),
                    |filter| {
                        self.filters.push(filter);
                        exact()
                    },
                );
            }
            "transport" if arg == "http" => {}
            "transport" => {
                self.refused = Some(format!("`transport {arg}` has no counterpart"));
                return lost("it has no counterpart; requests are answered 501");
            }
            "flush_interval" | "buffer_requests" | "buffer_responses" | "request_buffers"
            | "response_buffers" | "max_buffer_size" | "stream_timeout" | "stream_close_delay"
            | "trusted_proxies" | "verbose_logs" => {
                return self.buffering(line);
            }
            name if name.starts_with("health_") => return self.health(name, &arg, line),
            "fail_duration"
            | "max_fails"
            | "unhealthy_status"
            | "unhealthy_latency"
            | "unhealthy_request_count" => {
                return self.passive(line);
            }
            "dynamic" => return self.dynamic(line),
            name => {
                self.refused = Some(format!("`{name}` of `reverse_proxy` is not taken over"));
                return lost("it has no counterpart; requests are answered 501");
            }
        }
        exact()
    }

    fn buffering(&mut self, line: &Directive) -> Told {
        match line.name.as_str() {
            // Nothing is held back in any case.
            "flush_interval" | "verbose_logs" | "buffer_responses" | "response_buffers" => exact(),
            "buffer_requests" | "request_buffers" => {
                self.filters.push(one("buffer", Map::default()));
                exact()
            }
            "trusted_proxies" => near("write the networks in `trusted_proxies` at the top"),
            _ => near("this has no counterpart"),
        }
    }

    fn policy(&mut self, args: &[String], line: &Directive) -> Told {
        let hash = |on: Value| Value::from(one("hash", one("on", on)));
        let other = "Thalweg's own hash chooses: a client stays at its endpoint, which may be another one than before";
        let name = args.first().map_or("", String::as_str);
        let argument = args.get(1).cloned().unwrap_or_default();
        let _ = line;
        let (value, told): (Value, Told) = match name {
            "random" => ("random".into(), exact()),
            "round_robin" => ("round_robin".into(), exact()),
            "least_conn" => ("least_requests".into(), exact()),
            "random_choose" => ("least_requests".into(), near("the better of two that are drawn is taken")),
            "ip_hash" | "client_ip_hash" => (hash("client_ip".into()), near(other)),
            "uri_hash" => (hash("path".into()), near("the path is hashed without its query")),
            "header" => (hash(one("header", argument).into()), near(other)),
            "query" => (hash(one("query", argument).into()), near(other)),
            "cookie" => {
                let cookie = if argument.is_empty() { "lb".to_owned() } else { argument };
                self.service.put("sticky", one("cookie", cookie));
                ("random".into(), near("the cookie has a value of its own: clients are assigned once more"))
            }
            "first" => {
                self.service.put("first", true);
                ("round_robin".into(), exact())
            }
            "weighted_round_robin" => {
                self.service.put("weights", args.get(1..).unwrap_or_default().to_vec());
                ("round_robin".into(), exact())
            }
            _ => return lost("the policy is not known; requests go round"),
        };
        self.service.put("balance", value);
        told
    }

    fn health(&mut self, name: &str, arg: &str, line: &Directive) -> Told {
        match name {
            "health_uri" | "health_path" => self.health.put("path", arg),
            "health_port" => match arg.parse::<u64>() {
                Ok(port) => self.health.put("port", port),
                Err(_) => return lost("the port is no number"),
            },
            "health_interval" => self.health.put("interval", time(arg, 30_000)),
            "health_timeout" => {
                self.health.put("timeout", duration(milliseconds(arg).unwrap_or(5000).min(60_000)))
            }
            "health_status" => {
                let status = if arg.len() == 1 { format!("{arg}xx") } else { arg.to_owned() };
                self.health.put(
                    "expect",
                    vec![match status.parse::<u64>() {
                        Ok(number) => Value::Number(number),
                        Err(_) => status.into(),
                    }],
                );
            }
            "health_body" => self.health.put("body", arg),
            "health_method" => self.health.put("method", arg),
            "health_passes" => self.health.put("healthy_after", arg.parse::<u64>().unwrap_or(1)),
            "health_fails" => self.health.put("unhealthy_after", arg.parse::<u64>().unwrap_or(1)),
            "health_headers" => {
                let fields =
                    line.children().iter().fold(Map::default(), |map, it| map.with(&it.name, it.arg()));
                self.health.put("headers", fields);
            }
            _ => return near("this has no counterpart"),
        }
        exact()
    }

    fn passive(&mut self, line: &Directive) -> Told {
        match line.name.as_str() {
            "fail_duration" => {
                self.ejection.put("time", time(line.arg(), 10_000));
                self.ejection.put("max_time", time(line.arg(), 10_000));
            }
            "max_fails" => self.ejection.put("consecutive", line.arg().parse::<u64>().unwrap_or(1)),
            "unhealthy_status" => {
                let statuses: Vec<Value> = line
                    .args
                    .iter()
                    .map(|arg| match arg.parse::<u64>() {
                        Ok(number) => Value::Number(number),
                        Err(_) => arg.as_str().into(),
                    })
                    .collect();
                self.ejection.put("statuses", statuses);
            }
            _ => return lost("it has no counterpart"),
        }
        near("failures in a row are counted")
    }

    fn dynamic(&mut self, line: &Directive) -> Told {
        let option =
            |name: &str| line.children().iter().find(|it| it.name == name).map(|it| it.arg().to_owned());
        let (kind, args) =
            line.args.split_first().map_or(("", &[][..]), |(kind, args)| (kind.as_str(), args));
        let mut dns = match kind {
            "a" => {
                let name = option("name").or_else(|| args.first().cloned()).unwrap_or_default();
                let port = option("port").or_else(|| args.get(1).cloned()).unwrap_or_else(|| "80".to_owned());
                one("name", name).with("port", port.parse::<u64>().unwrap_or(80)).with("type", "address")
            }
            "srv" => one("name", option("name").or_else(|| args.first().cloned()).unwrap_or_default())
                .with("type", "srv"),
            _ => {
                self.refused = Some(format!("`dynamic {kind}` is not taken over"));
                return lost("it has no counterpart; requests are answered 501");
            }
        };
        if let Some(resolvers) = line.children().iter().find(|it| it.name == "resolvers") {
            dns.put("resolvers", one_or_many(resolvers.args.clone()));
        }
        self.service.put("discover", one("dns", dns));
        near("names are asked again when their TTL is over, not every `refresh`")
    }

    fn transport(&mut self, line: &Directive) -> Told {
        let arg = line.arg().to_owned();
        match line.name.as_str() {
            "tls" => self.is_secure = true,
            "tls_insecure_skip_verify" => {
                self.is_secure = true;
                self.tls.put("insecure_skip_verify", true);
            }
            "tls_server_name" => {
                self.is_secure = true;
                self.tls.put("server_name", arg);
            }
            "tls_trusted_ca_certs" if line.args.len() == 1 => self.tls.put("ca", arg),
            "tls_client_auth" if line.args.len() == 2 => {
                self.tls.put("cert", arg);
                self.tls.put("key", line.args[1].as_str());
            }
            "dial_timeout" => self.timeouts.put("connect", time(&arg, 3000)),
            "response_header_timeout" => self.timeouts.put("first_byte", time(&arg, 60_000)),
            "read_timeout" => {
                self.timeouts.put("idle", time(&arg, 60_000));
                return near("it counts between two bytes of a response");
            }
            "versions" if line.args.iter().any(|it| it == "h2c") => self.h2c = true,
            "versions" => return near("with TLS endpoints choose among HTTP/1.1 and HTTP/2"),
            "keepalive" if arg == "off" => self.service.put("pool", one("max_idle", 0_u64)),
            "keepalive" => self.service.put("pool", one("idle", time(&arg, 120_000))),
            "compression" => return near("`Accept-Encoding` goes upstream as the client wrote it"),
            "keepalive_interval"
            | "keepalive_idle_conns"
            | "keepalive_idle_conns_per_host"
            | "max_conns_per_host"
            | "read_buffer"
            | "write_buffer"
            | "write_timeout"
            | "dial_fallback_delay"
            | "expect_continue_timeout"
            | "tls_timeout"
            | "max_response_header"
            | "resolvers"
            | "local_address" => {
                return near("this has no counterpart; pools and buffers size themselves");
            }
            name => {
                self.refused = Some(format!("`{name}` of `transport` is not taken over"));
                return lost("it has no counterpart; requests are answered 501");
            }
        }
        exact()
    }

    /// URLs of the endpoints.
    fn urls(&mut self) -> Result<Vec<String>, String> {
        if self.endpoints.is_empty() && self.service.get("discover").is_none() {
            return Err("it has no upstream".to_owned());
        }
        let mut urls = Vec::new();
        for text in self.endpoints.clone() {
            if !is_constant(&text) {
                return Err("the destination is made of placeholders".to_owned());
            }
            let (scheme, rest) = match text.split_once("://") {
                Some((scheme, rest)) => (scheme.to_owned(), rest.to_owned()),
                None => (String::new(), text.clone()),
            };
            self.h2c |= scheme == "h2c";
            let secure = scheme == "https" || self.is_secure;
            if let Some(path) = text.strip_prefix("unix/").or_else(|| text.strip_prefix("unix+h2c/")) {
                urls.push(format!("unix:{path}"));
                continue;
            }
            if rest.trim_end_matches('/').contains('/') {
                return Err("an upstream with a path is none of Caddy's".to_owned());
            }
            let rest = rest.trim_end_matches('/');
            let (host, port) = match rest.rsplit_once(':') {
                Some((host, port)) if !port.contains(']') => (host, port.to_owned()),
                _ => (rest, if secure { "443".to_owned() } else { "80".to_owned() }),
            };
            let host = if host.is_empty() { "localhost" } else { host };
            let scheme = if secure { "https" } else { "http" };
            let ports = match port.split_once('-').map(|(a, b)| (a.parse::<u16>(), b.parse::<u16>())) {
                Some((Ok(first), Ok(last))) => (first..=last).map(|port| port.to_string()).collect(),
                _ => vec![port],
            };
            urls.extend(ports.into_iter().map(|port| format!("{scheme}://{host}:{port}")));
        }
        Ok(urls)
    }

    /// The service.
    fn finished(&mut self, endpoints: Vec<String>) -> Map {
        let several = endpoints.len() > 1;
        let is_secure = endpoints.iter().any(|url| url.starts_with("https://"));
        let is_first = self.service.get("first").is_some();
        let weights = match self.service.get("weights") {
            Some(Value::List(list)) => list.clone(),
            _ => Vec::new(),
        };
        let mut service = Map::default();
        if !endpoints.is_empty() {
            let all: Vec<Value> = endpoints
                .into_iter()
                .enumerate()
                .map(|(at, url)| {
                    let weight = weights.get(at).and_then(|weight| match weight {
                        Value::Text(text) => text.parse::<u64>().ok(),
                        _ => None,
                    });
                    match (is_first && at > 0, weight) {
                        (true, _) => one("url", url).with("tier", at.min(9) as u64).into(),
                        (_, Some(weight)) => one("url", url).with("weight", weight.min(1000)).into(),
                        _ => url.into(),
                    }
                })
                .collect();
            service.put("endpoints", one_or_many(all));
        }
        let known = |key: &str| !matches!(key, "first" | "weights");
        for (key, value) in self.service.entries().iter().filter(|(key, _)| known(key)) {
            service.put(key.as_str(), value.clone());
        }
        if several && service.get("balance").is_none() {
            service.put("balance", "random");
        }
        if let Some(host) = &self.host {
            service.put("host", host.as_str());
        }
        if self.h2c {
            service.put("protocol", "http2");
        }
        if is_secure && !self.tls.is_empty() {
            service.put("tls", self.tls.clone());
        }
        if self.health.get("path").is_some() {
            let own = [("interval", "30s"), ("timeout", "5s")];
            for (key, value) in own {
                if self.health.get(key).is_none() {
                    self.health.put(key, value);
                }
            }
            for key in ["healthy_after", "unhealthy_after"] {
                if self.health.get(key).is_none() {
                    self.health.put(key, 1_u64);
                }
            }
            service.put("health", self.health.clone());
        }
        match self.ejection.get("time").is_some() {
            true => {
                if self.ejection.get("consecutive").is_none() {
                    self.ejection.put("consecutive", 1_u64);
                }
                self.ejection.put("max_share", "100%");
                service.put("ejection", self.ejection.clone());
            }
            false => service.put("ejection", "off"),
        }
        if !self.retry.is_empty() {
            service.put("retry", self.retry.clone());
        }
        service
    }
}

/// Whether `Host` is to name the endpoint.
fn is_endpoint(args: &[String]) -> bool {
    matches!(args, [name, value] if name.eq_ignore_ascii_case("host")
        && matches!(value.as_str(), "{upstream_hostport}" | "{http.reverse_proxy.upstream.hostport}"))
}

/// A change of a field of the service's response.
fn down(args: &[String], state: &State) -> Result<Map, String> {
    let response = |key: &str, value: Value| Ok(one("headers", one("response", one(key, value))));
    match args {
        [name] if name.starts_with('-') => response("remove", name.trim_start_matches('-').into()),
        [name, value] => {
            let value =
                state.scope().template(value).map_err(|name| format!("`{name}` has no counterpart"))?;
            match name.chars().next() {
                Some('+') => response("append", one(&name[1..], value).into()),
                Some('?') => response("default", one(&name[1..], value).into()),
                _ => response("set", one(name, value).into()),
            }
        }
        _ => Err("a replacement within a field has no counterpart".to_owned()),
    }
}

fn time(text: &str, otherwise: u64) -> String {
    duration(milliseconds(text).unwrap_or(otherwise).max(100))
}

fn service_name(endpoints: &[String]) -> String {
    let first = endpoints.first().map_or("discovered", String::as_str);
    match first.strip_prefix("unix:") {
        Some(path) => path.rsplit('/').next().unwrap_or("socket").to_owned(),
        None => {
            let bare = first.split_once("://").map_or(first, |(_, rest)| rest);
            let shown = crate::yaml::shown(bare).replace(['{', '}', '$'], "");
            let bare = shown.split(':').next().filter(|_| shown != bare).unwrap_or(bare);
            bare.replace([':', '[', ']'], "-").trim_matches('-').to_owned()
        }
    }
}
