//! `tcp` and `udp`: whole connections and datagrams, where an entry point carries nothing else.

use super::{Importer, exact, get, lost, text, texts};
use crate::document::{Content, Node};
use crate::yaml::{Map, Value, one};

impl Importer {
    /// Routers of `tcp` and `udp`; then all listeners are known.
    pub(super) fn connections(&mut self) {
        for root in self.roots.clone() {
            for kind in ["tcp", "udp"] {
                let Some(part) = get(&root, kind) else { continue };
                let routers = get(part, "routers").map(|node| node.entries().to_vec()).unwrap_or_default();
                for (name, router) in routers {
                    let outcome = match self.connection(kind, part, &router) {
                        Ok(()) => exact(),
                        Err(about) => lost(&about),
                    };
                    self.note_all(&name, &router, &outcome);
                }
            }
        }
        self.listeners();
    }

    fn connection(&mut self, kind: &str, part: &Node, router: &Node) -> Result<(), String> {
        let names = texts(get(router, "entryPoints"));
        let [name] = names.as_slice() else { return Err("it has to name one entry point".to_owned()) };
        let Some(at) = self.entries.iter().position(|entry| entry.name == *name) else {
            return Err(format!("there is no entry point {name}"));
        };
        let is_shared = self.routers.iter().any(|(_, router)| {
            let names = texts(get(router, "entryPoints"));
            names.is_empty() || names.contains(name)
        });
        if is_shared && kind == "tcp" {
            return Err("routers of HTTP are on this entry point too, and Traefik asks this one first: a listener has one protocol".to_owned());
        }
        if get(router, "middlewares").is_some() {
            return Err("middlewares of connections: write `access` at the listener".to_owned());
        }
        let endpoints = self.endpoints(kind, part, text(router, "service").unwrap_or_default())?;
        let mut whole = self.entries[at].whole.clone().unwrap_or_default();
        let is_passed = get(router, "tls").is_some_and(|tls| super::is_on(tls, "passthrough"));
        match (kind, get(router, "tls").is_some()) {
            ("udp", _) if whole.is_empty() => whole = one("protocol", "udp").with("to", endpoints),
            ("tcp", false) if whole.is_empty() && text(router, "rule") == Some("HostSNI(`*`)") => {
                whole = one("protocol", "tcp").with("to", endpoints);
            }
            ("tcp", true) if is_passed => {
                let hosts = hosts(text(router, "rule").unwrap_or_default())?;
                let mut sni = match whole.get("sni") {
                    Some(Value::Map(known)) => known.clone(),
                    _ => Map::default(),
                };
                for host in hosts {
                    sni.put(if host == "*" { "default".to_owned() } else { host }, endpoints.clone());
                }
                whole.put("protocol", "tls_passthrough");
                whole.put("sni", sni);
            }
            ("tcp", true) => return Err("TLS that ends here is for HTTP: write `passthrough`".to_owned()),
            _ => {
                return Err("several routers, or a rule that is not `HostSNI`, on one entry point".to_owned());
            }
        }
        self.entries[at].whole = Some(whole);
        Ok(())
    }

    fn endpoints(&mut self, kind: &str, part: &Node, name: &str) -> Result<Vec<String>, String> {
        let service = get(part, "services").and_then(|all| get(all, super::local(name)));
        let balancer = service.and_then(|service| get(service, "loadBalancer"));
        let Some((balancer, Node { content: Content::List(list), .. })) =
            balancer.and_then(|balancer| Some((balancer, get(balancer, "servers")?)))
        else {
            return Err(format!("there is no service `{name}` with servers"));
        };
        if balancer.entries().len() > 1 {
            return Err(format!("the service `{name}` has more than servers: write a service of Thalweg"));
        }
        for server in list {
            for (key, inner) in server.entries() {
                self.note(key, inner, exact());
            }
        }
        Ok(list
            .iter()
            .map(|server| format!("{kind}://{}", text(server, "address").unwrap_or_default()))
            .collect())
    }
}

/// The names of `HostSNI(`a`) || HostSNI(`b`)`.
fn hosts(rule: &str) -> Result<Vec<String>, String> {
    let each = rule.split("||").map(|part| {
        let inner = part.trim().strip_prefix("HostSNI(").and_then(|part| part.strip_suffix(')'));
        let names = inner.map(|inner| inner.split(',').map(|name| name.trim().trim_matches('`').to_owned()));
        names.map(Iterator::collect::<Vec<String>>).ok_or_else(|| format!("`{rule}` is more than `HostSNI`"))
    });
    Ok(each.collect::<Result<Vec<_>, String>>()?.concat())
}
