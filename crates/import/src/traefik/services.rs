//! Services.

use super::ledger::{At, Ledger};
use super::middlewares::milliseconds;
use crate::draft::{Draft, To, duration};
use crate::yaml::{Map, Value, one};
use std::collections::BTreeMap;

/// Services and transports by their names.
#[derive(Debug, Default)]
pub(super) struct Services<'a> {
    pub(super) all: BTreeMap<String, At<'a>>,
    pub(super) transports: BTreeMap<String, At<'a>>,
}

/// Services of services.
const DEPTH: usize = 8;

/// Where a router sends requests.
#[derive(Debug, Default)]
pub(super) struct Target {
    pub(super) to: To,
    pub(super) filters: Vec<Map>,
}

pub(super) fn bare(name: &str) -> &str {
    name.rsplit_once('@').map_or(name, |(bare, _)| bare)
}

impl Services<'_> {
    /// What a service comes to; `more` are keys that middlewares bring.
    ///
    /// # Errors
    /// A sentence: requests must be refused.
    pub(super) fn target(
        &self,
        name: &str,
        more: &Map,
        ledger: &mut Ledger,
        draft: &mut Draft,
    ) -> Result<Target, String> {
        self.inner(name, more, (ledger, draft), 0)
    }

    fn inner(
        &self,
        name: &str,
        more: &Map,
        out: (&mut Ledger, &mut Draft),
        depth: usize,
    ) -> Result<Target, String> {
        let (ledger, draft) = out;
        if name.ends_with("@internal") {
            return Err(format!("`{name}` is Traefik's own; Thalweg's pages are those of its admin API"));
        }
        let Some(at) = self.all.get(bare(name)).filter(|_| depth < DEPTH) else {
            return Err(format!("there is no service `{name}`"));
        };
        if let Some(balancer) = at.get("loadBalancer") {
            let mut service = self.balancer(&balancer, ledger)?;
            more.entries().iter().for_each(|(key, value)| service.put(key.as_str(), value.clone()));
            let name = draft.service(&bare(name).replace('@', "-"), &service);
            return Ok(Target { to: To::Service(name), filters: Vec::new() });
        }
        if let Some(weighted) = at.get("weighted") {
            return self.weighted(&weighted, more, (ledger, draft), depth);
        }
        if let Some(mirroring) = at.get("mirroring") {
            return self.mirroring(&mirroring, more, (ledger, draft), depth);
        }
        if let Some(failover) = at.get("failover") {
            let service = self.failover(&failover, ledger)?;
            let name = draft.service(bare(name), &service);
            return Ok(Target { to: To::Service(name), filters: Vec::new() });
        }
        ledger.lost(at, "this kind of service has no counterpart; requests are answered 501");
        Err(format!("the service `{name}` is of a kind that has no counterpart"))
    }

    fn weighted(
        &self,
        at: &At<'_>,
        more: &Map,
        out: (&mut Ledger, &mut Draft),
        depth: usize,
    ) -> Result<Target, String> {
        let (ledger, draft) = out;
        ledger.exact(at);
        let mut parts = Vec::new();
        for part in at.get("services").map(|it| it.items()).unwrap_or_default() {
            let name = part.get("name").map_or("", |it| it.text());
            let weight = part.get("weight").and_then(|it| it.text().parse::<u64>().ok()).unwrap_or(1);
            match self.inner(name, more, (&mut *ledger, &mut *draft), depth + 1)?.to {
                To::Service(name) => parts.push((name, weight.min(1000))),
                _ => return Err(format!("`{name}` is made of several services itself")),
            }
        }
        if let Some(sticky) = at.get("sticky") {
            ledger.lost(&sticky, "each request is drawn anew; write `split` with `sticky_by`");
        }
        if parts.is_empty() {
            return Err("it has no services".to_owned());
        }
        if let Some(health) = at.get("healthCheck") {
            ledger.near(&health, "a service without endpoints that are well still gets its share");
        }
        Ok(Target { to: To::Weighted(parts), filters: Vec::new() })
    }

    fn mirroring(
        &self,
        at: &At<'_>,
        more: &Map,
        out: (&mut Ledger, &mut Draft),
        depth: usize,
    ) -> Result<Target, String> {
        let (ledger, draft) = out;
        ledger.near(at, "bodies of at most 1 MiB are copied");
        ledger.exact_keys(at, &["service"]);
        let name = at.get("service").map_or("", |it| it.text());
        let mut target = self.inner(name, more, (&mut *ledger, &mut *draft), depth + 1)?;
        for mirror in at.get("mirrors").map(|it| it.items()).unwrap_or_default() {
            ledger.exact(&mirror);
            let name = mirror.get("name").map_or("", |it| it.text());
            let percent =
                mirror.get("percent").and_then(|it| it.text().parse::<u64>().ok()).unwrap_or(0).min(100);
            let To::Service(name) =
                self.inner(name, &Map::default(), (&mut *ledger, &mut *draft), depth + 1)?.to
            else {
                ledger.lost(&mirror, "copies go to one service; there are none");
                continue;
            };
            let most = at.get("maxBodySize").and_then(|it| it.text().parse::<u64>().ok()).unwrap_or(1 << 20);
            if percent > 0 {
                let mirror = one("to", name)
                    .with("share", format!("{percent}%"))
                    .with("max_body", crate::draft::size(most.min(1 << 20)));
                target.filters.push(one("mirror", mirror));
            }
        }
        Ok(target)
    }

    /// Both as one service: endpoints of the second are a reserve.
    fn failover(&self, at: &At<'_>, ledger: &mut Ledger) -> Result<Map, String> {
        ledger.near(at, "endpoints of the second service take over where none of the first is well");
        let part = |key: &str, ledger: &mut Ledger| {
            let name = at.get(key).map_or("", |it| it.text());
            let balancer = self.all.get(bare(name)).and_then(|it| it.get("loadBalancer"));
            balancer
                .ok_or_else(|| format!("`{name}` of its `failover` has no `loadBalancer`"))
                .and_then(|it| self.balancer(&it, ledger))
        };
        let mut service = part("service", ledger)?;
        let fallback = part("fallback", ledger)?;
        let mut endpoints = Vec::new();
        if let Some(Value::List(own)) = service.get("endpoints") {
            endpoints.extend(own.iter().cloned());
        }
        if let Some(Value::List(others)) = fallback.get("endpoints") {
            endpoints.extend(others.iter().map(|endpoint| match endpoint {
                Value::Map(map) => map.clone().with("backup", true).into(),
                url => one("url", url.clone()).with("backup", true).into(),
            }));
        }
        service.put("endpoints", endpoints);
        Ok(service)
    }

    fn balancer(&self, at: &At<'_>, ledger: &mut Ledger) -> Result<Map, String> {
        ledger.exact_keys(at, &["servers", "passHostHeader", "responseForwarding", "strategy"]);
        let endpoints = servers(at, ledger);
        let mut service = Map::default();
        if endpoints.is_empty() {
            return Err("the service has no servers".to_owned());
        }
        service.put("endpoints", endpoints);
        if let Some(base) = base_path(at) {
            let base = base.map_err(|why| {
                ledger.lost(at, why.clone());
                why
            })?;
            let path = format!("{}{{upstream_path}}", crate::draft::literal(&base));
            service.put("filters", vec![one("rewrite", path), one("map_back", false)]);
        }
        if at.get("passHostHeader").is_some_and(|it| it.text().eq_ignore_ascii_case("false")) {
            service.put("host", "endpoint");
        }
        strategy(at, ledger, &mut service);
        if let Some(health) = at.get("healthCheck") {
            service.put("health", health_check(&health, ledger));
        }
        if let Some(passive) = at.get("passiveHealthCheck") {
            ledger.near(&passive, "failures in a row are counted, whatever the time between them");
            let fails =
                passive.get("maxFailedAttempts").and_then(|it| it.text().parse::<u64>().ok()).unwrap_or(1);
            service.put("ejection", one("consecutive", fails.max(1)));
        }
        if let Some(sticky) = at.get("sticky") {
            service.put("sticky", cookie(&sticky, ledger));
        }
        if let Some(name) = at.get("serversTransport") {
            match self.transports.get(bare(name.text())) {
                Some(transport) => {
                    ledger.exact(&name);
                    transport_keys(transport, ledger, &mut service);
                }
                None => ledger.lost(&name, "there is no such transport; certificates are verified"),
            }
        }
        Ok(service)
    }
}

fn servers(at: &At<'_>, ledger: &mut Ledger) -> Vec<Value> {
    let mut endpoints: Vec<Value> = Vec::new();
    for server in at.get("servers").map(|it| it.items()).unwrap_or_default() {
        let url = server.get("url").or_else(|| server.get("address")).map_or("", |it| it.text());
        let Some(origin) = origin(url) else {
            ledger.lost(&server, "its URL is not `http://…` or `https://…`; it gets nothing");
            continue;
        };
        match server.get("weight").and_then(|it| it.text().parse::<u64>().ok()).filter(|weight| *weight != 1)
        {
            Some(weight) => endpoints.push(one("url", origin).with("weight", weight.min(1000)).into()),
            None => endpoints.push(origin.into()),
        }
    }
    endpoints
}

/// Scheme, host and port of a URL.
fn origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?']).next()?;
    let scheme = if scheme == "h2c" { "http" } else { scheme };
    matches!(scheme, "http" | "https" | "tcp" | "udp").then(|| format!("{scheme}://{host}"))
}

/// The path that all servers want kept.
fn base_path(at: &At<'_>) -> Option<Result<String, String>> {
    let servers = at.get("servers").map(|it| it.items()).unwrap_or_default();
    let paths: Vec<String> = servers
        .iter()
        .map(|server| {
            let keeps = server.get("preservePath").is_some_and(|it| it.node.is_true());
            let url = server.get("url").map_or("", |it| it.text());
            let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]));
            if keeps { path.unwrap_or("").trim_end_matches('/').to_owned() } else { String::new() }
        })
        .collect();
    let first = paths.first().cloned().unwrap_or_default();
    if paths.iter().any(|path| *path != first) {
        return Some(Err("its servers have paths of their own; requests are answered 501".to_owned()));
    }
    (!first.is_empty()).then_some(Ok(first))
}

fn strategy(at: &At<'_>, ledger: &mut Ledger, service: &mut Map) {
    let Some(strategy) = at.get("strategy") else { return };
    let (balance, about): (Value, &str) = match strategy.text() {
        "wrr" => return,
        "p2c" => ("least_requests".into(), "of two endpoints that are drawn, the one with fewer requests"),
        "leasttime" => ("peak_ewma".into(), "latency is weighed by what is under way"),
        "hrw" => {
            let hash = one("on", "client_ip").with("algorithm", "rendezvous");
            (one("hash", hash).into(), "a client may be given another endpoint than before")
        }
        _ => return ledger.lost(&strategy, "requests go round"),
    };
    ledger.near(&strategy, about);
    service.put("balance", balance);
}

fn health_check(at: &At<'_>, ledger: &mut Ledger) -> Map {
    ledger.exact(at);
    let text = |key: &str| at.get(key).map(|it| it.text());
    let number = |key: &str| text(key).and_then(|text| text.parse::<u64>().ok());
    let mut health = Map::default();
    if text("mode") == Some("grpc") {
        health.put("grpc", Map::default());
    } else {
        health.put("path", text("path").unwrap_or("/"));
        if let Some(status) = number("status").filter(|status| *status > 0) {
            health.put("expect", vec![status]);
        }
        if let Some(method) = text("method") {
            health.put("method", method);
        }
    }
    let time =
        |key: &str, usual: u64| text(key).and_then(milliseconds).unwrap_or(usual).clamp(100, 3_600_000);
    let interval = time("interval", 30_000);
    health.put("interval", duration(interval));
    if let Some(down) = text("unhealthyInterval").and_then(milliseconds) {
        health.put("interval_down", duration(down.clamp(100, 3_600_000)));
    }
    let least = text("unhealthyInterval").and_then(milliseconds).unwrap_or(interval).min(interval);
    health.put("timeout", duration(time("timeout", 5000).min(least).min(60_000)));
    health.put("healthy_after", 1_u64);
    health.put("unhealthy_after", 1_u64);
    if let Some(port) = number("port") {
        health.put("port", port);
    }
    let mut fields = Map::default();
    if let Some(host) = text("hostname") {
        fields.put("host", host);
    }
    if let Some(more) = at.get("headers") {
        more.entries().iter().for_each(|(name, value)| fields.put(*name, value.text()));
    }
    if !fields.is_empty() {
        health.put("headers", fields);
    }
    if let Some(scheme) = at.get("scheme") {
        ledger.lost(&scheme, "checks speak what requests speak");
    }
    if let Some(follow) = at.get("followRedirects").filter(|it| it.node.is_true()) {
        ledger.near(&follow, "redirects are not followed; one counts as passed");
    }
    health
}

fn cookie(at: &At<'_>, ledger: &mut Ledger) -> Map {
    ledger
        .near(at, "the cookie names the endpoint in a way of Thalweg's own: clients are assigned anew once");
    let mut sticky = Map::default();
    let Some(cookie) = at.get("cookie") else { return sticky };
    let text = |key: &str| cookie.get(key).map(|it| it.text());
    ledger.exact_keys(&cookie, &["name", "httpOnly", "secure", "sameSite", "maxAge"]);
    if let Some(name) = text("name") {
        sticky.put("cookie", name);
    }
    if text("secure") == Some("true") {
        sticky.put("secure", true);
    }
    if let Some(site) = text("sameSite").filter(|site| ["lax", "strict", "none"].contains(site)) {
        sticky.put("same_site", site);
    }
    if let Some(age) = text("maxAge").and_then(|age| age.parse::<u64>().ok()).filter(|age| *age > 0) {
        sticky.put("max_age", duration(age * 1000));
    }
    sticky
}

/// `tls` of a client.
pub(super) fn client_tls(ledger: &mut Ledger, at: &At<'_>) -> Map {
    ledger.exact_keys(at, &["ca", "cert", "key", "insecureSkipVerify"]);
    let mut tls = Map::default();
    for key in ["ca", "cert", "key"] {
        if let Some(file) = at.get(key) {
            tls.put(key, file.text());
        }
    }
    if at.get("insecureSkipVerify").is_some_and(|it| it.node.is_true()) {
        tls.put("insecure_skip_verify", true);
    }
    tls
}

/// Keys of a transport.
pub(super) fn transport_keys(at: &At<'_>, ledger: &mut Ledger, service: &mut Map) {
    let mut tls = Map::default();
    ledger.exact_keys(at, &["serverName", "insecureSkipVerify", "maxIdleConnsPerHost", "disableHTTP2"]);
    if let Some(name) = at.get("serverName") {
        tls.put("server_name", name.text());
    }
    if at.get("insecureSkipVerify").is_some_and(|it| it.node.is_true()) {
        tls.put("insecure_skip_verify", true);
    }
    if let Some(roots) = at.get("rootCAs") {
        ledger.exact(&roots);
        if let Some(first) = roots.texts().first() {
            tls.put("ca", first.as_str());
        }
        if roots.texts().len() > 1 {
            ledger.lost(&roots, "one file holds all roots: join them into the first");
        }
    }
    if let Some(pair) = at.get("certificates").and_then(|it| it.items().into_iter().next()) {
        ledger.exact(&pair);
        for (key, ours) in [("certFile", "cert"), ("keyFile", "key")] {
            if let Some(file) = pair.get(key) {
                tls.put(ours, file.text());
            }
        }
    }
    if !tls.is_empty() {
        service.put("tls", tls);
    }
    if at.get("disableHTTP2").is_some_and(|it| it.node.is_true()) {
        service.put("protocol", "http1");
    }
    let mut timeouts = Map::default();
    if let Some(times) = at.get("forwardingTimeouts") {
        for (key, ours) in [("dialTimeout", "connect"), ("responseHeaderTimeout", "first_byte")] {
            if let Some(time) = times.get(key) {
                ledger.exact(&time);
                match milliseconds(time.text()) {
                    Some(time) if time > 0 => timeouts.put(ours, duration(time)),
                    _ => ledger.near(&time, "the usual bound holds"),
                }
            }
        }
        if let Some(idle) = times.get("idleConnTimeout") {
            ledger.exact(&idle);
            if let Some(time) = milliseconds(idle.text()).filter(|time| *time > 0) {
                service.put("pool", one("idle", duration(time)));
            }
        }
    }
    if !timeouts.is_empty() {
        service.put("timeouts", timeouts);
    }
}
