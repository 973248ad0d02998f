//! Routers as routes.

use super::entry_points::{EntryPoint, note_options};
use super::ledger::{At, Ledger};
use super::matching::{self, Term, arrange};
use super::middlewares::{Made, Maker, Scope};
use super::services::Target;
use super::{Model, redirects, rule};
use crate::draft::{Draft, Paths, Route, To};
use crate::yaml::{Map, Value, one};

/// A router that is being made.
struct Router<'a> {
    name: String,
    at: At<'a>,
    priority: i64,
    listeners: Vec<String>,
    filters: Vec<Map>,
    to: To,
    /// Why requests are refused.
    closed: Option<String>,
}

impl Model<'_> {
    /// Routes and the listeners for them.
    pub(super) fn routes(&mut self, ledger: &mut Ledger, draft: &mut Draft) {
        self.tls_of_points();
        let mut names: Vec<usize> = (0..self.routers.len()).collect();
        names.sort_by(|a, b| self.routers[*a].0.cmp(&self.routers[*b].0));
        let (mut routers, mut terms) = (Vec::new(), Vec::new());
        for at in names {
            let Some(made) = self.router(at, ledger, draft) else { continue };
            let (router, own) = made;
            routers.push((router, own));
        }
        routers.sort_by_key(|(router, _)| std::cmp::Reverse(router.priority));
        for (number, (_, own)) in routers.iter_mut().enumerate() {
            for term in own.iter_mut() {
                term.router = number;
            }
            terms.append(own);
        }
        self.redirections(draft);
        for arranged in arrange(&terms) {
            let term = &terms[arranged.term];
            let (router, _) = &routers[term.router];
            let rule = router.at.get("rule").map_or("", |it| it.text());
            let route = Route {
                name: router.name.clone(),
                notes: vec![format!("Router {} (line {}): {rule}", router.name, router.at.node.line)],
                listeners: router.listeners.clone(),
                hosts: arranged.hosts,
                paths: arranged.paths,
                conditions: arranged.conditions,
                filters: router.filters.clone(),
                to: router.to.clone(),
                ..Route::default()
            };
            push(draft, route);
        }
        self.listeners(draft);
        self.unused(ledger);
    }

    /// An entry point speaks TLS where a router with `tls` names it, or its name or port says so.
    fn tls_of_points(&mut self) {
        for point in &mut self.points {
            let explicit: Vec<bool> = self
                .routers
                .iter()
                .filter(|(_, at)| at.get("entryPoints").is_some_and(|it| it.texts().contains(&point.name)))
                .map(|(_, at)| at.get("tls").is_some_and(|it| it.text() != "false"))
                .collect();
            let says = point.name.contains("secure") || point.name.contains("https");
            let is_usual = matches!(point.port(), "443" | "8443" | "4443") || says;
            point.is_tls = point.has_tls
                || if explicit.is_empty() { is_usual } else { explicit.iter().any(|is_tls| *is_tls) };
        }
    }

    fn points_of(&self, at: &At<'_>, is_tls: bool, ledger: &mut Ledger) -> Vec<&EntryPoint> {
        let named = at.get("entryPoints");
        let names = named.as_ref().map(At::texts);
        let is_meant = |point: &&EntryPoint| match &names {
            Some(names) => names.iter().any(|name| name.eq_ignore_ascii_case(&point.name)),
            None => {
                let has_default = self.points.iter().any(|point| point.is_default);
                !has_default || point.is_default
            }
        };
        let meant: Vec<&EntryPoint> =
            self.points.iter().filter(is_meant).filter(|point| !point.is_udp).collect();
        if let Some(named) = &named {
            let missing =
                names.iter().flatten().any(|name| !meant.iter().any(|it| it.name.eq_ignore_ascii_case(name)));
            match missing {
                true => ledger
                    .near(named, "there is no such entry point in these files: give the static file too"),
                false => ledger.exact(named),
            }
            if meant.iter().any(|point| point.is_tls != (is_tls || point.has_tls) && point.redirect.is_none())
            {
                ledger.near(
                    named,
                    "a port speaks TLS or not: the router is not at entry points of the other kind",
                );
            }
        }
        meant
            .into_iter()
            .filter(|point| point.is_tls == (is_tls || point.has_tls) && point.redirect.is_none())
            .collect()
    }

    /// A router with its alternatives; `None` where it takes nothing.
    fn router<'s>(
        &'s self,
        at: usize,
        ledger: &mut Ledger,
        draft: &mut Draft,
    ) -> Option<(Router<'s>, Vec<Term>)> {
        let (name, at) = &self.routers[at];
        let Some(rule) = at.get("rule") else {
            ledger.near(at, "without a rule Traefik makes one of the container's name; write it");
            return None;
        };
        let tls = at.get("tls").filter(|it| it.text() != "false");
        if let Some(tls) = &tls {
            ledger.exact(tls);
            note_options(tls, ledger);
        }
        let points = self.points_of(at, tls.is_some(), ledger);
        let (first_tls, mut names) = (points.first().is_some_and(|it| it.is_tls), Vec::new());
        names.extend(points.first().map(|it| it.middlewares.clone()).unwrap_or_default());
        names.extend(at.get("middlewares").map(|it| it.texts()).unwrap_or_default());
        let listeners: Vec<String> = points.iter().map(|point| point.name.clone()).collect();
        let (mut terms, closed) = self.terms(at, &rule, ledger);
        for term in &mut terms {
            term.listeners.clone_from(&listeners);
        }
        let mut hosts: Vec<String> = terms.iter().flat_map(|term| term.hosts.clone()).collect();
        hosts.dedup();
        let scope = Scope { is_tls: first_tls, hosts };
        let mut made = Maker { all: &self.middlewares, ledger, draft, scope }.chain(&names, 0);
        if let Some(list) = at.get("middlewares") {
            match &made.closed {
                Some(why) => ledger.lost(&list, format!("{why}; requests of this router are answered 501")),
                None => ledger.exact(&list),
            }
        }
        if let Some(why) = closed {
            made.closed = Some(why);
        }
        let target = self.service(at, &made.service, ledger, draft);
        let priority = at.get("priority").and_then(|it| it.text().parse::<i64>().ok()).filter(|it| *it != 0);
        ledger.exact_keys(at, &["priority", "ruleSyntax"]);
        if let Some(observed) = at.get("observability") {
            ledger.near(&observed, "write the filter `log` to leave lines out");
        }
        let usual = i64::try_from(rule.text().len()).unwrap_or(i64::MAX);
        let mut router = Router {
            name: name.clone(),
            at: at.clone(),
            priority: priority.unwrap_or(usual),
            listeners,
            filters: Vec::new(),
            to: To::Nowhere,
            closed: None,
        };
        router.fill(made, target);
        (!router.listeners.is_empty()).then_some((router, terms))
    }

    fn service(
        &self,
        at: &At<'_>,
        more: &Map,
        ledger: &mut Ledger,
        draft: &mut Draft,
    ) -> Result<Target, String> {
        let Some(service) = at.get("service") else {
            return Err("the router names no service".to_owned());
        };
        let made = self.services.target(service.text(), more, ledger, draft);
        match &made {
            Ok(_) => ledger.exact(&service),
            Err(why) => ledger.lost(&service, format!("{why}; requests are answered 501")),
        }
        made
    }

    /// The alternatives of a rule, and why requests of all of them must be refused.
    fn terms(&self, at: &At<'_>, rule: &At<'_>, ledger: &mut Ledger) -> (Vec<Term>, Option<String>) {
        let text = rule.text();
        let syntax = at.get("ruleSyntax");
        let is_v2 = syntax.map_or(self.default_v2, |it| it.text() == "v2")
            || ["Headers(", "HeadersRegexp(", "HostHeader("].iter().any(|name| text.contains(name))
            || (text.contains("(`{") || text.contains("/{"));
        let refused = |why: String, ledger: &mut Ledger| {
            ledger.lost(rule, format!("{why}; requests that the rest of the rule takes are answered 501"));
            Some(why)
        };
        let alternatives = match rule::alternatives(text, is_v2) {
            Ok(alternatives) => alternatives,
            Err(why) => return (vec![Term::default()], refused(why, ledger)),
        };
        let (mut terms, mut closed): (Vec<Term>, _) = (Vec::new(), None);
        for calls in &alternatives {
            let read = matching::read(calls, is_v2);
            for about in read.near {
                ledger.near(rule, about);
            }
            if let Some(why) = read.lost.into_iter().next() {
                closed = refused(why, ledger);
            }
            join(&mut terms, read.term);
        }
        ledger.exact(rule);
        (terms, closed)
    }

    /// Entry points that send everything elsewhere.
    fn redirections(&self, draft: &mut Draft) {
        for point in &self.points {
            let Some((scheme, port, permanent)) = &point.redirect else { continue };
            let to = format!("{}{{path}}", redirects::origin(scheme, port));
            let route = Route {
                name: format!("{} to {scheme}", point.name),
                notes: vec![format!("The redirection of the entry point {}.", point.name)],
                listeners: vec![point.name.clone()],
                filters: redirects::filters(&to, *permanent),
                ..Route::default()
            };
            draft.push(route);
        }
    }

    fn listeners(&self, draft: &mut Draft) {
        for point in self.points.iter().filter(|point| !point.is_udp && !self.tcp.takes(&point.name)) {
            let is_used = draft.routes.iter().any(|route| route.listeners.contains(&point.name));
            if !is_used {
                continue;
            }
            let mut listener = one("address", point.address.as_str());
            if point.is_tls {
                let named = |(_, at): &(String, At<'_>)| {
                    at.find(&["tls", "certResolver"]).map(|it| it.text().to_owned())
                };
                let mut names: Vec<String> = self.routers.iter().filter_map(named).collect();
                names.extend(point.resolver.clone());
                listener.put("tls", self.tls.of_listener(&names));
            }
            point.keys.entries().iter().for_each(|(key, value)| listener.put(key.as_str(), value.clone()));
            let value: Value = match listener.entries() {
                [_] => point.address.as_str().into(),
                _ => listener.into(),
            };
            draft.listeners.put(point.name.as_str(), value);
        }
    }

    /// What no router names has no effect in either.
    fn unused(&self, ledger: &mut Ledger) {
        let all = self
            .middlewares
            .values()
            .chain(self.services.all.values())
            .chain(self.services.transports.values());
        for at in all {
            if !ledger.is_known_below(at) {
                ledger.near(at, "no router comes to it: it is left out");
            }
        }
    }
}

impl Router<'_> {
    fn fill(&mut self, made: Made, target: Result<Target, String>) {
        let refuse = |why: &str| {
            let body = format!("not taken over from Traefik: {}\n", crate::draft::literal(why));
            vec![one("respond", one("status", 501_u64).with("body", body))]
        };
        let target = match (made.closed, target) {
            (Some(why), _) => Err(why),
            (None, target) => target,
        };
        match target {
            Err(why) => {
                self.filters = refuse(&why);
                self.closed = Some(why);
            }
            Ok(target) => {
                self.filters = made.filters;
                self.filters.extend(target.filters);
                self.to = target.to;
                if made.is_moved {
                    self.filters.push(one("map_back", false));
                }
            }
        }
    }
}

/// Adds an alternative to one that differs in its host alone.
fn join(terms: &mut Vec<Term>, term: Term) {
    let is_exact =
        |term: &Term| !term.hosts.is_empty() && term.hosts.iter().all(|host| !host.starts_with('*'));
    let found = terms.iter_mut().find(|known| {
        is_exact(known)
            && is_exact(&term)
            && known.path == term.path
            && known.conditions == term.conditions
            && known.listeners == term.listeners
    });
    match found {
        Some(known) => {
            let more: Vec<String> =
                term.hosts.into_iter().filter(|host| !known.hosts.contains(host)).collect();
            known.hosts.extend(more);
        }
        None => terms.push(term),
    }
}

/// Adds a route to the last one, where they differ in an exact path alone.
fn push(draft: &mut Draft, route: Route) {
    if let Some(last) = draft.routes.last_mut() {
        let is_same = last.notes == route.notes
            && last.hosts == route.hosts
            && last.conditions == route.conditions
            && last.filters == route.filters
            && last.to == route.to;
        if let (true, Paths::Patterns(known), Paths::Patterns(more)) =
            (is_same, &mut last.paths, &route.paths)
        {
            known.extend(more.iter().cloned());
            return;
        }
    }
    draft.push(route);
}
