//! Routers: routes, in the order of their priority.

use super::entry::Entry;
use super::middleware::Site;
use super::order::{Placed, ROUTES, What, arrange};
use super::place::{other_scheme, redirect};
use super::rule::{Alternative, Rule, rule};
use super::{Importer, exact, get, local, lost, near, refusal, text, texts};
use crate::document::Node;
use crate::draft::{Route, To};
use crate::yaml::{Map, one};
use crate::{Grade, ImportError, Place};
use std::cmp::Reverse;

/// A router that has been read.
#[derive(Clone, Debug)]
struct Router {
    name: String,
    node: Node,
    text: String,
    rule: Rule,
    priority: i64,
    is_secure: bool,
    entries: Vec<String>,
    middlewares: Vec<String>,
    service: String,
    /// Why its requests are refused.
    closed: Option<String>,
}

/// What becomes of requests that a router takes.
#[derive(Clone, Debug, Default)]
struct Treatment {
    filters: Vec<Map>,
    to: To,
}

impl Importer {
    /// Routes of all routers.
    pub(super) fn routes(&mut self) -> Result<(), ImportError> {
        let routers: Vec<Router> =
            self.routers.clone().iter().map(|(name, node)| self.router(name, node)).collect();
        self.certificates_of(&routers);
        let mut groups: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for at in 0..self.entries.len() {
            let entry = self.entries[at].clone();
            if entry.is_udp {
                continue;
            }
            if entry.redirect.is_some() {
                self.redirect_route(&entry);
                continue;
            }
            let mine: Vec<usize> = (0..routers.len())
                .filter(|it| routers[*it].entries.contains(&entry.name))
                .filter(|it| (routers[*it].is_secure || self.has_tls(&entry)) == entry.is_secure)
                .collect();
            let same = groups.iter_mut().find(|(entries, routers)| {
                let first = &self.entries[entries[0]];
                *routers == mine
                    && first.is_secure == entry.is_secure
                    && first.own_port() == entry.own_port()
                    && first.middlewares == entry.middlewares
            });
            match same {
                Some((entries, _)) => entries.push(at),
                None => groups.push((vec![at], mine)),
            }
        }
        for (entries, mine) in groups {
            self.group(&entries, &mine, &routers)?;
        }
        Ok(())
    }

    /// Whether the entry point makes every router one with TLS.
    fn has_tls(&self, entry: &Entry) -> bool {
        let node = self.roots.iter().find_map(|root| get(get(root, "entryPoints")?, &entry.name));
        node.and_then(|node| get(get(node, "http")?, "tls")).is_some()
    }

    fn router(&mut self, name: &str, node: &Node) -> Router {
        let text_of = |key: &str| text(node, key).unwrap_or_default().to_owned();
        let rule_text = text_of("rule");
        let mut router = Router {
            name: local(name).to_owned(),
            node: node.clone(),
            rule: rule(&rule_text),
            priority: 0,
            is_secure: get(node, "tls").is_some_and(|tls| tls.text() != "false"),
            entries: texts(get(node, "entryPoints")),
            middlewares: texts(get(node, "middlewares")),
            service: text_of("service"),
            text: rule_text,
            closed: None,
        };
        if router.entries.is_empty() {
            let all = self
                .entries
                .iter()
                .filter(|entry| entry.is_default && !entry.is_udp && entry.name != "traefik");
            router.entries = all.map(|entry| entry.name.clone()).collect();
        }
        let length = i64::try_from(router.text.len()).unwrap_or(i64::MAX);
        router.priority =
            text(node, "priority").and_then(|text| text.parse().ok()).filter(|it| *it != 0).unwrap_or(length);
        if router.text.is_empty() {
            router.rule = Rule::default();
            let about = "it has no rule, so it takes no request: labels without one have `defaultRule`, which is not read";
            self.note(name, node, lost(about));
        }
        if !router.rule.lost.is_empty() {
            router.closed = Some(router.rule.lost.join("; "));
        }
        self.note(name, node, exact());
        for (key, inner) in node.entries() {
            self.router_key(key, inner, &mut router);
        }
        router
    }

    fn router_key(&mut self, key: &str, inner: &Node, router: &mut Router) {
        let concerns = format!("requests to the router {}", router.name);
        let outcome = match key.to_ascii_lowercase().as_str() {
            "rule" => match (&router.closed, router.rule.near.first()) {
                (Some(about), _) => {
                    lost(&format!("{about}; requests that fulfil the rest of it are answered 501"))
                }
                (None, Some(about)) => near(about),
                _ => exact(),
            },
            "service" | "middlewares" | "priority" | "rulesyntax" => exact(),
            "entrypoints" => {
                let unknown: Vec<String> = texts(Some(inner))
                    .into_iter()
                    .filter(|name| !self.entries.iter().any(|entry| entry.name == *name))
                    .collect();
                match unknown.is_empty() {
                    true => exact(),
                    false => lost(&format!("there is no entry point {}", unknown.join(", "))),
                }
            }
            "tls" => {
                for (key, inner) in inner.entries() {
                    self.router_tls(key, inner, router);
                }
                exact()
            }
            "observability" => {
                self.note_all(key, inner, &near("write the filter `log` for what the access log leaves out"));
                return;
            }
            _ => {
                router.closed = Some(format!("`{key}` has no counterpart"));
                lost("it has no counterpart; requests of this router are answered 501")
            }
        };
        self.note_for(key, inner, outcome, &concerns);
    }

    fn router_tls(&mut self, key: &str, inner: &Node, router: &mut Router) {
        let outcome = match key.to_ascii_lowercase().as_str() {
            "certresolver" => exact(),
            "domains" => {
                self.note_all(key, inner, &exact());
                return;
            }
            "options" if local(inner.text()) == "default" => exact(),
            "options" => {
                let about =
                    "options hold for a listener as a whole; give these hosts a listener of their own";
                router.closed = Some(format!("tls.options {}: {about}", inner.text()));
                lost(about)
            }
            _ => return,
        };
        self.note(key, inner, outcome);
    }

    /// Hosts of routers with a resolver.
    fn certificates_of(&mut self, routers: &[Router]) {
        for at in 0..self.entries.len() {
            let entry = self.entries[at].clone();
            for router in routers.iter().filter(|router| router.entries.contains(&entry.name)) {
                let tls = get(&router.node, "tls");
                let named = tls.and_then(|tls| text(tls, "certResolver")).map(str::to_owned);
                let Some(resolver) = named.or_else(|| entry.resolver.clone()) else { continue };
                let hosts = router.rule.alternatives.iter().flat_map(|it| it.is.hosts.clone());
                let hosts: Vec<String> = hosts.filter(|host| !host.contains('*')).collect();
                let known = self.entries[at].acme.get_or_insert_with(|| (resolver, Vec::new()));
                known.1.extend(hosts);
                known.1.sort();
                known.1.dedup();
            }
        }
    }

    /// All of an entry point goes to another one.
    fn redirect_route(&mut self, entry: &Entry) {
        let Some((scheme, target, is_permanent)) = entry.redirect.clone() else { return };
        let port = match target.strip_prefix(':') {
            Some(port) => Some(port.to_owned()),
            None => {
                self.entries.iter().find(|other| other.name == target).map(|other| other.port.to_string())
            }
        };
        let filters = match port {
            Some(port) => redirect(&other_scheme(&scheme, Some(&port)), is_permanent).to_vec(),
            None => vec![refusal(&format!("there is no entry point {target}"))],
        };
        self.draft.push(Route {
            name: format!("{} to {target}", entry.name),
            listeners: vec![entry.name.clone()],
            filters,
            ..Route::default()
        });
    }

    /// Routes of entry points that have the same routers.
    fn group(&mut self, entries: &[usize], mine: &[usize], routers: &[Router]) -> Result<(), ImportError> {
        let first = self.entries[entries[0]].clone();
        let mut order: Vec<usize> = mine.to_vec();
        order.sort_by_key(|at| Reverse(routers[*at].priority));
        let all: Vec<(usize, Alternative)> = order
            .iter()
            .flat_map(|at| routers[*at].rule.alternatives.iter().map(|it| (*at, it.clone())))
            .collect();
        let Some(placed) = arrange(&all) else {
            let place = routers.first().map_or_else(Place::default, |it| it.node.place.clone());
            return Err(ImportError::new(&place, format!("these rules need more than {ROUTES} routes")));
        };
        let listeners: Vec<String> = entries.iter().map(|at| self.entries[*at].name.clone()).collect();
        let mut refused: Vec<usize> = Vec::new();
        for it in placed {
            if let What::Refused(at) = it.what {
                refused.push(at);
            }
            let route = self.route(&it, routers, &first, &listeners);
            self.draft.push(route);
        }
        refused.dedup();
        for at in refused {
            let router = &routers[at];
            let about = "some of its requests are answered 501: what it has in common with other routers cannot be said";
            let (place, what) = (router.node.place.clone(), format!("{}: priority", router.name));
            self.report.note(
                &place,
                what,
                Grade::Lost,
                about,
                format!("requests to the router {}", router.name),
            );
        }
        Ok(())
    }

    fn route(&mut self, placed: &Placed, routers: &[Router], first: &Entry, listeners: &[String]) -> Route {
        let mut route = Route {
            listeners: listeners.to_vec(),
            hosts: placed.condition.hosts.clone(),
            paths: placed.condition.path.paths(),
            conditions: placed.condition.rest(),
            ..Route::default()
        };
        match placed.what {
            What::NotFound => {
                route.name = "no router".to_owned();
                route.filters = vec![one("respond", 404_u64)];
            }
            What::Refused(at) => {
                route.name = format!("{} refused", routers[at].name);
                route.filters = vec![refusal("the order of this router among the others cannot be said")];
            }
            What::Router(at) => {
                let router = &routers[at];
                let place = &router.node.place;
                route.name.clone_from(&router.name);
                route.notes = vec![format!("{}:{}: {}", place.file, place.line, router.text)];
                let site = Site {
                    is_secure: first.is_secure,
                    port: first.own_port(),
                    hosts: placed.condition.hosts.clone(),
                };
                let closed =
                    router.closed.clone().or_else(|| self.closed_tls.clone().filter(|_| first.is_secure));
                let made = match closed {
                    Some(about) => Err(about),
                    None => self.treatment(router, &first.middlewares, &site),
                };
                match made {
                    Ok(made) => (route.filters, route.to) = (made.filters, made.to),
                    Err(about) => {
                        let concerns = format!("requests to the router {}", router.name);
                        let (key, outcome) = (router.name.clone(), lost(&format!("{about}; answered 501")));
                        self.note_for(&key, &router.node, outcome, &concerns);
                        route.filters = vec![refusal(&about)];
                    }
                }
            }
        }
        route
    }

    fn treatment(&mut self, router: &Router, before: &[String], site: &Site) -> Result<Treatment, String> {
        let names = [before, &router.middlewares].concat();
        let chain = self.chain(&names, site)?;
        let made = self.service(&router.service, chain.attempts, 0)?;
        let mut filters = chain.filters;
        if chain.moves {
            filters.push(one("map_back", false));
        }
        filters.extend(made.filters);
        Ok(Treatment { filters, to: made.to })
    }
}
