//! Routers and services for TCP and UDP, as listeners of whole connections.

use super::entry_points::EntryPoint;
use super::ledger::{At, Ledger};
use super::services::bare;
use crate::draft::Draft;
use crate::yaml::{Map, Value, one};
use std::collections::BTreeMap;

/// What stands in `tcp` and `udp`.
#[derive(Debug, Default)]
pub(super) struct Connections<'a> {
    routers: Vec<(&'static str, String, At<'a>)>,
    services: BTreeMap<(&'static str, String), At<'a>>,
}

impl<'a> Connections<'a> {
    pub(super) fn take(&mut self, at: &At<'a>, ledger: &mut Ledger) {
        for protocol in ["tcp", "udp"] {
            let Some(section) = at.get(protocol) else { continue };
            for (name, router) in section.get("routers").map(|it| it.entries()).unwrap_or_default() {
                self.routers.push((protocol, name.to_owned(), router));
            }
            for (name, service) in section.get("services").map(|it| it.entries()).unwrap_or_default() {
                self.services.insert((protocol, name.to_owned()), service);
            }
            for key in ["middlewares", "serversTransports"] {
                if let Some(inner) = section.get(key) {
                    ledger.lost(
                        &inner,
                        "see `access` and `limits` of listeners; routers that name one are closed",
                    );
                }
            }
        }
    }

    /// Whether an entry point is one for whole connections.
    pub(super) fn takes(&self, point: &str) -> bool {
        self.routers.iter().any(|(_, _, at)| {
            at.get("entryPoints")
                .is_some_and(|it| it.texts().iter().any(|name| name.eq_ignore_ascii_case(point)))
        })
    }

    pub(super) fn listeners(&self, points: &[EntryPoint], ledger: &mut Ledger, draft: &mut Draft) {
        for (protocol, name, at) in &self.routers {
            if let Err(why) = self.router(protocol, at, points, (&mut *ledger, &mut *draft)) {
                ledger.lost(at, format!("{why}; its connections are not taken"));
            } else {
                ledger.exact_keys(at, &["rule", "service", "entryPoints", "priority", "tls"]);
            }
            let _ = name;
        }
    }

    fn router(
        &self,
        protocol: &'static str,
        at: &At<'_>,
        points: &[EntryPoint],
        out: (&mut Ledger, &mut Draft),
    ) -> Result<(), String> {
        let (ledger, draft) = out;
        if at.get("middlewares").is_some() {
            return Err("middlewares of connections have no counterpart".to_owned());
        }
        let names = at.get("entryPoints").map(|it| it.texts()).unwrap_or_default();
        let meant: Vec<&EntryPoint> = points
            .iter()
            .filter(|point| names.iter().any(|name| name.eq_ignore_ascii_case(&point.name)))
            .collect();
        if meant.is_empty() {
            return Err("it names no entry point of these files".to_owned());
        }
        let tls = at.get("tls");
        let passes = tls.as_ref().is_some_and(|it| it.get("passthrough").is_some_and(|it| it.node.is_true()));
        if tls.is_some() && !passes {
            return Err("TLS of connections is passed through, not ended".to_owned());
        }
        let hosts =
            if protocol == "tcp" { hosts(at.get("rule").map_or("", |it| it.text()))? } else { Vec::new() };
        if !hosts.is_empty() && !passes {
            return Err("names are known of TLS that is passed through".to_owned());
        }
        let service = self.service(protocol, at, ledger, draft)?;
        for point in meant {
            let mut listener = match draft.listeners.get(&point.name) {
                Some(Value::Map(known)) => known.clone(),
                Some(_) => return Err("its entry point takes requests too".to_owned()),
                None => one("address", point.address.as_str()),
            };
            if passes {
                listener.put("protocol", "tls_passthrough");
                let mut sni = match listener.get("sni") {
                    Some(Value::Map(known)) => known.clone(),
                    _ => Map::default(),
                };
                let names = if hosts.is_empty() { vec!["default".to_owned()] } else { hosts.clone() };
                names.into_iter().for_each(|name| sni.put(name, service.as_str()));
                listener.put("sni", sni);
            } else if listener.get("to").is_some() {
                return Err("another router has all connections of its entry point".to_owned());
            } else {
                listener.put("protocol", protocol);
                listener.put("to", service.as_str());
            }
            point.keys.entries().iter().for_each(|(key, value)| listener.put(key.as_str(), value.clone()));
            draft.listeners.put(point.name.as_str(), listener);
        }
        Ok(())
    }

    fn service(
        &self,
        protocol: &'static str,
        at: &At<'_>,
        ledger: &mut Ledger,
        draft: &mut Draft,
    ) -> Result<String, String> {
        let name = bare(at.get("service").map_or("", |it| it.text()));
        let service = self.services.get(&(protocol, name.to_owned()));
        let Some(balancer) = service.and_then(|it| it.get("loadBalancer")) else {
            return Err(format!("`{name}` is no service with a `loadBalancer`"));
        };
        let mut endpoints = Vec::new();
        for server in balancer.get("servers").map(|it| it.items()).unwrap_or_default() {
            ledger.exact(&server);
            endpoints.push(format!("{protocol}://{}", server.get("address").map_or("", |it| it.text())));
        }
        if endpoints.is_empty() {
            return Err(format!("`{name}` has no servers"));
        }
        let mut made = one("endpoints", endpoints);
        if let Some(proxy) = balancer.get("proxyProtocol") {
            ledger.exact(&proxy);
            let version = proxy.get("version").map_or("2", |it| it.text());
            made.put("send_proxy_protocol", if version == "1" { "v1" } else { "v2" });
        }
        if let Some(delay) = balancer.get("terminationDelay") {
            ledger.near(&delay, "a connection ends when it is idle");
        }
        Ok(draft.service(name, &made))
    }
}

/// Names of `HostSNI`; empty: all.
fn hosts(rule: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for calls in super::rule::alternatives(rule, false)? {
        match calls.as_slice() {
            [call] if call.name == "hostsni" && !call.negated => names.extend(call.args.clone()),
            _ => return Err("only `HostSNI` is taken over".to_owned()),
        }
    }
    if names.iter().any(|name| name == "*") { Ok(Vec::new()) } else { Ok(names) }
}
