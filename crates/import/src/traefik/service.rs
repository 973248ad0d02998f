//! Services: where routers send their requests.

use super::known::{milliseconds, time};
use super::{Importer, exact, find, get, is_on, local, lost, near, text, texts};
use crate::document::{Content, Node};
use crate::draft::{To, duration};
use crate::yaml::{Map, Value, one};

/// Services within services.
const DEPTH: usize = 8;

/// Where requests go.
#[derive(Clone, Debug, Default)]
pub(super) struct Made {
    pub(super) to: To,
    /// Filters that belong to it, such as copies of requests.
    pub(super) filters: Vec<Map>,
}

impl Importer {
    /// The service of a name; `attempts`: what `retry` says.
    ///
    /// # Errors
    /// It cannot be said: its requests are refused.
    pub(super) fn service(
        &mut self,
        name: &str,
        attempts: Option<u64>,
        depth: usize,
    ) -> Result<Made, String> {
        if depth > DEPTH {
            return Err(format!("more than {DEPTH} services within each other"));
        }
        if local(name).contains('@') {
            return Err(format!("the service `{name}` comes from elsewhere"));
        }
        let Some(node) = find(&self.services, name).cloned() else {
            return Err(format!("there is no service `{name}` in these files"));
        };
        let Some((kind, inner)) = node.entries().first().cloned() else {
            return Err(format!("the service `{name}` is empty"));
        };
        let made = match kind.to_ascii_lowercase().as_str() {
            "loadbalancer" => {
                let map = self.balancer(local(name), &inner, attempts)?;
                let notes = vec![format!("{}:{}", node.place.file, node.place.line)];
                let name = self.draft.service_with(local(name), notes, &map);
                Ok(Made { to: To::Service(name), filters: Vec::new() })
            }
            "weighted" => self.weighted(&inner, attempts, depth),
            "mirroring" => self.mirroring(&inner, attempts, depth),
            "failover" => self.failover(name, &inner, attempts),
            _ => Err(format!("the service `{name}` is a `{kind}`, which has no counterpart")),
        };
        match &made {
            Ok(_) => self.note(&kind, &inner, exact()),
            Err(about) => {
                self.note_for(&kind, &inner, lost(about), &format!("requests to the service {name}"))
            }
        }
        made
    }

    /// A `loadBalancer` as a service.
    fn balancer(&mut self, name: &str, node: &Node, attempts: Option<u64>) -> Result<Map, String> {
        let mut map = Map::default();
        let Some(servers) = get(node, "servers") else {
            return Err(format!("the service `{name}` has no servers"));
        };
        let Content::List(list) = &servers.content else {
            return Err(format!("the servers of `{name}` are no list"));
        };
        self.note("servers", servers, exact());
        let mut endpoints = Vec::new();
        let (mut is_secure, mut is_h2c) = (false, false);
        for server in list {
            let (endpoint, scheme) = self.server(server)?;
            is_secure |= scheme == "https";
            is_h2c |= scheme == "h2c";
            endpoints.push(endpoint);
        }
        if endpoints.is_empty() {
            return Err(format!("the service `{name}` has no servers"));
        }
        map.put("endpoints", endpoints);
        if is_h2c {
            map.put("protocol", "http2");
        }
        self.balancer_keys(node, &mut map)?;
        if is_secure {
            let named = text(node, "serversTransport").map(str::to_owned);
            let tls = self.transport_tls(named.as_deref())?;
            if !tls.is_empty() {
                map.put("tls", tls);
            }
        }
        if let Some(attempts) = attempts {
            map.put("retry", one("attempts", attempts.clamp(1, 10)));
        }
        Ok(map)
    }

    /// What a `loadBalancer` says beside its servers.
    fn balancer_keys(&mut self, node: &Node, map: &mut Map) -> Result<(), String> {
        for (key, inner) in node.entries() {
            let outcome = match key.to_ascii_lowercase().as_str() {
                "servers" => continue,
                "passhostheader" => {
                    if inner.text() == "false" {
                        map.put("host", "endpoint");
                    }
                    exact()
                }
                "sticky" => self.sticky(inner, map),
                "healthcheck" => self.health(inner, map),
                "serverstransport" if find(&self.transports, inner.text()).is_some() => exact(),
                "serverstransport" => return Err(format!("there is no serversTransport `{}`", inner.text())),
                "responseforwarding" => {
                    self.note_all(key, inner, &exact());
                    continue;
                }
                "strategy" => strategy(inner.text(), map),
                "passivehealthcheck" => {
                    self.note_all(key, inner, &near("`ejection` counts failures in a row"));
                    continue;
                }
                _ => continue,
            };
            self.note(key, inner, outcome);
        }
        Ok(())
    }

    /// A server as an endpoint, and its scheme.
    fn server(&mut self, server: &Node) -> Result<(Value, String), String> {
        let Some(url) = text(server, "url") else { return Err("a server has no `url`".to_owned()) };
        let Some((scheme, rest)) = url.split_once("://") else { return Err(format!("`{url}` is no URL")) };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if is_on(server, "preservePath") && !path.is_empty() {
            return Err("`preservePath`: endpoints have no path; write `rewrite` at the route".to_owned());
        }
        let written = if scheme == "https" { "https" } else { "http" };
        if !matches!(scheme, "http" | "https" | "h2c") {
            return Err(format!("`{scheme}` is not spoken"));
        }
        let mut long = one("url", format!("{written}://{authority}"));
        for (key, inner) in server.entries() {
            match key.to_ascii_lowercase().as_str() {
                "url" | "preservepath" => {}
                "weight" => {
                    let weight: u64 = inner.text().parse().map_err(|_| "a weight is no number".to_owned())?;
                    if weight > 1000 {
                        return Err("weights go up to 1000".to_owned());
                    }
                    if weight != 1 {
                        long.put("weight", weight);
                    }
                }
                _ => continue,
            }
            self.note(key, inner, exact());
        }
        let endpoint = if long.entries().len() == 1 {
            Value::from(format!("{written}://{authority}"))
        } else {
            Value::from(long)
        };
        Ok((endpoint, scheme.to_owned()))
    }

    fn sticky(&mut self, node: &Node, map: &mut Map) -> super::Outcome {
        let Some(cookie) = get(node, "cookie") else { return lost("clients stay by a cookie alone") };
        let mut sticky = Map::default();
        for (key, inner) in cookie.entries() {
            let value = inner.text();
            let outcome = match key.to_ascii_lowercase().as_str() {
                "name" => {
                    sticky.put("cookie", value);
                    exact()
                }
                "secure" => {
                    sticky.put("secure", value == "true");
                    exact()
                }
                "samesite" if matches!(value, "lax" | "strict" | "none") => {
                    sticky.put("same_site", value);
                    exact()
                }
                "maxage" => {
                    if let Some(seconds) = value.parse::<u64>().ok().filter(|seconds| *seconds > 0) {
                        sticky.put("max_age", duration(seconds * 1000));
                    }
                    exact()
                }
                "httponly" => near("scripts of pages never see the cookie"),
                "path" if value == "/" => exact(),
                _ => lost("the cookie of Thalweg has no such attribute"),
            };
            self.note(key, inner, outcome);
        }
        self.note("cookie", cookie, exact());
        map.put("sticky", if sticky.is_empty() { Value::from(true) } else { sticky.into() });
        near(
            "the cookie is signed: those that Traefik has set mean nothing; give `sticky.secret` to keep them over restarts",
        )
    }

    fn health(&mut self, node: &Node, map: &mut Map) -> super::Outcome {
        let mut health = Map::default();
        for (key, inner) in node.entries() {
            let outcome = self.check_key(key, inner, &mut health);
            self.note(key, inner, outcome);
        }
        if text(node, "mode").is_some_and(|mode| mode != "http") {
            return lost("endpoints are not checked");
        }
        // What Traefik does where nothing is written: 30 s and 5 s, and one check decides.
        if time(node, "interval").is_none() {
            health.put("interval", "30s");
        }
        if time(node, "timeout").is_none() {
            health.put("timeout", "5s");
        }
        map.put("health", health.with("unhealthy_after", 1_u64).with("healthy_after", 1_u64));
        exact()
    }

    /// One key of a check.
    fn check_key(&mut self, key: &str, inner: &Node, health: &mut Map) -> super::Outcome {
        let value = inner.text();
        match key.to_ascii_lowercase().as_str() {
            "path" => {
                health.put("path", value);
                exact()
            }
            "interval" | "timeout" | "unhealthyinterval" => match milliseconds(value) {
                Some(time) => {
                    let name = match key.to_ascii_lowercase().as_str() {
                        "interval" => "interval",
                        "timeout" => "timeout",
                        _ => "interval_down",
                    };
                    health.put(name, duration(time.clamp(100, 3_600_000)));
                    exact()
                }
                None => lost("it is no duration"),
            },
            "method" => {
                health.put("method", value);
                exact()
            }
            "status" => match value.parse::<u64>() {
                Ok(status) if status > 0 => {
                    health.put("expect", vec![status]);
                    exact()
                }
                _ => exact(),
            },
            "port" => match value.parse::<u64>() {
                Ok(port) => {
                    health.put("port", port);
                    exact()
                }
                Err(_) => lost("it is no port"),
            },
            "hostname" => {
                health.put("headers", one("host", value));
                exact()
            }
            "headers" => {
                let mut headers = match health.get("headers") {
                    Some(Value::Map(known)) => known.clone(),
                    _ => Map::default(),
                };
                for (name, value) in inner.entries() {
                    headers.put(name.to_ascii_lowercase(), value.text());
                    self.note(name, value, exact());
                }
                health.put("headers", headers);
                exact()
            }
            "mode" if value == "http" => exact(),
            "followredirects" if value == "false" => exact(),
            "followredirects" => near("redirects are not followed: a status from 200 to 399 passes"),
            _ => lost("checks have no such setting"),
        }
    }

    /// How endpoints prove who they are.
    fn transport_tls(&mut self, name: Option<&str>) -> Result<Map, String> {
        let found = match name {
            Some(name) => find(&self.transports, name).cloned(),
            None => self.transport.clone(),
        };
        let mut tls = Map::default();
        let Some(node) = found else { return Ok(tls) };
        for (key, inner) in node.entries() {
            let outcome = match key.to_ascii_lowercase().as_str() {
                "insecureskipverify" => {
                    if inner.text() == "true" {
                        tls.put("insecure_skip_verify", true);
                    }
                    exact()
                }
                "servername" => {
                    tls.put("server_name", inner.text());
                    exact()
                }
                "rootcas" => match texts(Some(inner)).as_slice() {
                    [file] => {
                        tls.put("ca", file.as_str());
                        exact()
                    }
                    _ => return Err("`rootCAs` names several files: join them into one".to_owned()),
                },
                "certificates" => match &inner.content {
                    Content::List(list) if list.len() == 1 => {
                        tls.put("cert", text(&list[0], "certFile").unwrap_or_default());
                        tls.put("key", text(&list[0], "keyFile").unwrap_or_default());
                        self.note_all(key, inner, &exact());
                        continue;
                    }
                    _ => return Err("endpoints get one certificate of the proxy, not several".to_owned()),
                },
                _ => {
                    self.note_all(key, inner, &lost("write it in `timeouts` or `pool` of the service"));
                    continue;
                }
            };
            self.note(key, inner, outcome);
        }
        Ok(tls)
    }

    fn weighted(&mut self, node: &Node, attempts: Option<u64>, depth: usize) -> Result<Made, String> {
        let Some(Node { content: Content::List(list), .. }) = get(node, "services") else {
            return Err("`weighted` has no services".to_owned());
        };
        let mut parts: Vec<(String, u64)> = Vec::new();
        for part in list {
            let weight: u64 =
                text(part, "weight").unwrap_or("1").parse().map_err(|_| "a weight is no number")?;
            if weight > 1000 {
                return Err("weights go up to 1000".to_owned());
            }
            match self.service(text(part, "name").unwrap_or_default(), attempts, depth + 1)? {
                Made { to: To::Service(name), filters } if filters.is_empty() => {
                    match parts.iter_mut().find(|it| it.0 == name) {
                        Some(known) => known.1 += weight,
                        None => parts.push((name, weight)),
                    }
                }
                _ => {
                    return Err(
                        "services that are weighted have endpoints of their own, and no copies".to_owned()
                    );
                }
            }
            for (key, inner) in part.entries() {
                self.note(key, inner, exact());
            }
        }
        if let Some(services) = get(node, "services") {
            self.note("services", services, near("each request is drawn by weight; Traefik goes round"));
        }
        if let Some(sticky) = get(node, "sticky") {
            self.note_all(
                "sticky",
                sticky,
                &lost("each request is drawn anew; write `sticky_by` with a cookie of the application"),
            );
        }
        if parts.iter().all(|(_, weight)| *weight == 0) {
            return Err("all weights are 0".to_owned());
        }
        Ok(Made { to: To::Split(parts), filters: Vec::new() })
    }

    fn mirroring(&mut self, node: &Node, attempts: Option<u64>, depth: usize) -> Result<Made, String> {
        let mut made = self.service(text(node, "service").unwrap_or_default(), attempts, depth + 1)?;
        if let Some(main) = get(node, "service") {
            self.note("service", main, exact());
        }
        let Some(mirrors) = get(node, "mirrors") else { return Ok(made) };
        let list = match &mirrors.content {
            Content::List(list) => list.clone(),
            _ => Vec::new(),
        };
        for mirror in &list {
            let name = text(mirror, "name").unwrap_or_default();
            let percent: u64 =
                text(mirror, "percent").unwrap_or("0").parse().map_err(|_| "`percent` is no number")?;
            let about = match self.service(name, attempts, depth + 1) {
                Ok(Made { to: To::Service(name), .. }) if percent > 0 => {
                    let share = format!("{}%", percent.min(100));
                    made.filters
                        .push(one("mirror", one("to", name).with("share", share).with("max_body", "1MiB")));
                    exact()
                }
                Ok(_) if percent == 0 => exact(),
                Ok(_) => lost("copies go to a service with endpoints of its own"),
                Err(about) => lost(&about),
            };
            for (key, inner) in mirror.entries() {
                self.note(key, inner, about.clone());
            }
        }
        self.note("mirrors", mirrors, near("requests with a body over 1 MiB are not copied"));
        for (key, inner) in node.entries() {
            match key.to_ascii_lowercase().as_str() {
                "maxbodysize" => self.note(key, inner, near("bodies up to 1 MiB are copied")),
                "mirrorbody" if inner.text() == "true" => self.note(key, inner, exact()),
                "mirrorbody" => self.note(key, inner, near("the body is copied too")),
                "healthcheck" => self.note(key, inner, exact()),
                _ => {}
            }
        }
        Ok(made)
    }

    fn failover(&mut self, name: &str, node: &Node, attempts: Option<u64>) -> Result<Made, String> {
        let mut maps = Vec::new();
        for key in ["service", "fallback"] {
            let inner = get(node, key).ok_or_else(|| format!("`failover` has no `{key}`"))?;
            let service = find(&self.services, inner.text()).cloned();
            let balancer = service.as_ref().and_then(|service| get(service, "loadBalancer")).cloned();
            let Some(balancer) = balancer else {
                return Err(format!("`{}` of `failover` has no endpoints of its own", inner.text()));
            };
            maps.push(self.balancer(inner.text(), &balancer, attempts)?);
            self.note("loadBalancer", &balancer, exact());
            self.note(
                key,
                inner,
                near("the endpoints of the fallback are `backup`: they serve while no other is well"),
            );
        }
        let backup = maps.pop().unwrap_or_default();
        let mut map = maps.pop().unwrap_or_default();
        let list = |map: &Map| match map.get("endpoints") {
            Some(Value::List(list)) => list.clone(),
            _ => Vec::new(),
        };
        let mut endpoints = list(&map);
        endpoints.extend(list(&backup).into_iter().map(|endpoint| match endpoint {
            Value::Map(map) => map.with("backup", true).into(),
            other => Value::from(one("url", other).with("backup", true)),
        }));
        map.put("endpoints", endpoints);
        if let Some(check) = get(node, "healthCheck") {
            self.note("healthCheck", check, exact());
        }
        let name = self.draft.service(local(name), &map);
        Ok(Made { to: To::Service(name), filters: Vec::new() })
    }
}

/// Which endpoint takes a request.
fn strategy(name: &str, map: &mut Map) -> super::Outcome {
    match name {
        "wrr" => exact(),
        "p2c" => {
            map.put("balance", "random");
            exact()
        }
        "hrw" => {
            map.put("balance", one("hash", one("on", "client_ip")));
            near("a client may meet another endpoint than before, and keeps to it")
        }
        _ => {
            map.put("balance", "peak_ewma");
            near("the endpoint with the least latency is found by a moving average")
        }
    }
}
