//! `server` and `location`: listeners and routes.

use super::Importer;
use super::conditions::Test;
use super::content::Content;
use super::level::{Action, Check, Level, note_rest};
use super::matching::{Arranged, Kind, Pattern, arrange, find, plain};
use super::tree::Directive;
use super::variables::Scope;
use crate::draft::{Conditions, Paths, Route};
use crate::pattern::whole;
use crate::yaml::one;
use crate::{Grade, Place};

/// A `server`.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    pub(super) names: Vec<String>,
    pub(super) listeners: Vec<usize>,
    pub(super) level: Level,
    pub(super) locations: Vec<(Pattern, Level)>,
    pub(super) named: Vec<(String, Level)>,
    /// Locations that clients cannot ask for, as they are.
    pub(super) internal: Vec<(String, Level)>,
    pub(super) place: Place,
}

/// Where routes of a server stand.
struct Target<'a> {
    server: &'a Server,
    listeners: &'a [usize],
    hosts: &'a [String],
}

/// Whether nginx redirects from the path without its slash to this location.
fn redirects_bare(pattern: &Pattern, level: &Level, patterns: &[Pattern]) -> bool {
    let bare = pattern.path.trim_end_matches('/');
    let is_folder =
        matches!(pattern.kind, Kind::Prefix(_)) && pattern.path.ends_with('/') && !bare.is_empty();
    let is_taken =
        patterns.iter().any(|it| matches!(it.kind, Kind::Exact | Kind::Prefix(_)) && it.path == bare);
    is_folder && !is_taken && matches!(level.action, Some(Action::Pass(_)))
}

/// Directives of a server that are read here.
const OWN: &[&str] =
    &["listen", "server_name", "location", "ssl_certificate", "ssl_certificate_key", "ssl_protocols", "ssl"];

impl Importer<'_> {
    /// Reads a `server`.
    pub(super) fn server(&mut self, directive: &Directive, http: &Level) {
        self.report.exact(&directive.place, directive.text());
        let at = self.servers.len();
        let mut server = Server { level: http.child(), place: directive.place.clone(), ..Server::default() };
        for inner in directive.children().iter().filter(|inner| inner.name == "server_name") {
            self.names(inner, &mut server);
        }
        let concerns = match server.names.first() {
            Some(name) => format!("requests to {name}"),
            None => "requests to this server".to_owned(),
        };
        let rest = server.level.read(directive.children(), &mut self.report, &concerns);
        let mut certificate = http.settings.certificate.clone();
        for inner in &rest {
            match inner.name.as_str() {
                "ssl_certificate" => certificate.0 = Some(inner.arg().to_owned()),
                "ssl_certificate_key" => certificate.1 = Some(inner.arg().to_owned()),
                "ssl_protocols" if !inner.args.iter().any(|word| word == "TLSv1" || word == "TLSv1.1") => {}
                "ssl_protocols" => {
                    let about = "TLS 1.0 and 1.1 are not spoken";
                    self.report.note(&inner.place, inner.text(), Grade::Near, about, concerns.as_str());
                    continue;
                }
                name if OWN.contains(&name) => {}
                _ => {
                    note_rest(inner, &mut self.report, &concerns);
                    continue;
                }
            }
            self.report.exact(&inner.place, inner.text());
        }
        self.note_listen(&rest, &certificate, &concerns);
        let listens: Vec<&&Directive> = rest.iter().filter(|inner| inner.name == "listen").collect();
        if listens.is_empty() {
            self.listen(&["80".to_owned()], at, &mut server);
        }
        for inner in listens {
            self.listen(&inner.args, at, &mut server);
        }
        self.certify(certificate, &server);
        let outer = server.level.clone();
        for inner in rest.iter().filter(|inner| inner.name == "location") {
            self.location(inner, &outer, &mut server, &concerns);
        }
        self.servers.push(server);
    }

    fn names(&mut self, directive: &Directive, server: &mut Server) {
        for name in &directive.args {
            let name = name.to_ascii_lowercase();
            if let Some(rest) = name.strip_prefix('.') {
                server.names.push(rest.to_owned());
                server.names.push(format!("*.{rest}"));
            } else if name.starts_with('~') || name.ends_with(".*") {
                let about = "hosts are named or begin with `*.`; this name is left out";
                self.report.note(
                    &directive.place,
                    directive.text(),
                    Grade::Lost,
                    about,
                    format!("requests to {name}"),
                );
            } else if name != "_" && !name.is_empty() && !name.contains('$') {
                server.names.push(name);
            }
        }
    }

    fn location(&mut self, directive: &Directive, outer: &Level, server: &mut Server, concerns: &str) {
        let mut level = outer.child();
        let concerns = format!("{concerns} under {}", directive.args.join(" "));
        let rest = level.read(directive.children(), &mut self.report, &concerns);
        let (modifier, path) = match directive.args.as_slice() {
            [path] => ("", path.clone()),
            [modifier, path] => (modifier.as_str(), path.clone()),
            _ => ("?", String::new()),
        };
        if let Some(name) = path.strip_prefix('@') {
            server.named.push((name.to_owned(), level));
            self.report.exact(&directive.place, directive.text());
            return;
        }
        let kind = match modifier {
            "" => Ok(Kind::Prefix(false)),
            "^~" => Ok(Kind::Prefix(true)),
            "=" => Ok(Kind::Exact),
            "~" => whole(&path, false).map(Kind::Regex),
            "~*" => whole(&path, true).map(Kind::Regex),
            other => Err(format!("`{other}` is no modifier of a location")),
        };
        match kind {
            Ok(kind) => {
                self.report.exact(&directive.place, directive.text());
                server.locations.push((Pattern { kind, path }, level.clone()));
            }
            Err(about) => {
                self.report.note(&directive.place, directive.text(), Grade::Lost, about, concerns.as_str());
            }
        }
        for inner in rest {
            match inner.name.as_str() {
                "internal" => {
                    if let Some((pattern, level)) = server.locations.last_mut() {
                        server.internal.push((pattern.path.clone(), level.clone()));
                        level.action = Some(Action::Return(404, String::new()));
                    }
                    self.report.exact(&inner.place, inner.text());
                }
                "location" => self.location(inner, &level, server, &concerns),
                _ => note_rest(inner, &mut self.report, &concerns),
            }
        }
    }

    /// Listeners and routes of all servers.
    pub(super) fn routes(&mut self) {
        for listener in self.listeners.clone() {
            let mut map = one("address", listener.address.as_str());
            if listener.is_secure && !listener.certificates.is_empty() {
                map.put("tls", one("certificates", listener.certificates.clone()));
            }
            if listener.h2c && !listener.is_secure {
                map.put("h2c", true);
            }
            self.draft.listeners.put(listener.name.as_str(), map);
        }
        for at in 0..self.servers.len() {
            let server = self.servers[at].clone();
            self.named.clone_from(&server.named);
            self.internal.clone_from(&server.internal);
            let exact = server.locations.iter().filter(|(pattern, _)| matches!(pattern.kind, Kind::Exact));
            self.internal.extend(exact.map(|(pattern, level)| (pattern.path.clone(), level.clone())));
            self.page_roots = server
                .locations
                .iter()
                .filter_map(|(pattern, level)| Some((pattern.path.clone(), level.settings.root.clone()?)))
                .collect();
            self.routes_of(at, &server);
        }
    }

    fn routes_of(&mut self, at: usize, server: &Server) {
        let is_default = |index: &usize| {
            let listener = &self.listeners[*index];
            listener.default.or(listener.servers.first().copied()) == Some(at)
        };
        let (by_default, by_name): (Vec<usize>, Vec<usize>) =
            server.listeners.iter().copied().partition(is_default);
        if !by_default.is_empty() {
            let alone = by_default.iter().all(|index| self.listeners[*index].servers.len() == 1);
            let has_wildcards =
                self.servers.iter().any(|other| other.names.iter().any(|name| name.starts_with('*')));
            let chosen = chosen_hosts(server);
            let hosts = match chosen.is_empty() && (alone || !has_wildcards || server.names.is_empty()) {
                true => Vec::new(),
                false => {
                    let mut hosts = server.names.clone();
                    hosts.extend(chosen.into_iter().filter(|host| !server.names.contains(host)));
                    hosts.push("*".to_owned());
                    hosts
                }
            };
            self.routes_on(server, &by_default, &hosts);
        }
        if by_name.is_empty() {
            return;
        }
        if server.names.is_empty() {
            let about = "it has no name and is not the first of its address: no request reaches it";
            self.report.note(&server.place, "server { … }", Grade::Near, about, "");
            return;
        }
        self.routes_on(server, &by_name, &server.names);
    }

    /// Routes of a server on some of its listeners.
    fn routes_on(&mut self, server: &Server, listeners: &[usize], hosts: &[String]) {
        let mut listeners = listeners.to_vec();
        let mut hosts = hosts.to_vec();
        let mut rest: Vec<Check> = Vec::new();
        for check in &server.level.checks {
            match &check.condition.test {
                Test::Host(host) if !check.condition.negated => {
                    self.reply_route(server, &listeners, std::slice::from_ref(host), check);
                    let had = !hosts.is_empty();
                    hosts.retain(|known| known != host);
                    if had && hosts.is_empty() {
                        return;
                    }
                }
                Test::Host(host) => {
                    self.reply_route(server, &listeners, &hosts, check);
                    hosts = vec![host.clone()];
                }
                Test::Scheme(scheme) => {
                    let wants_secure = (scheme == "https") != check.condition.negated;
                    let secure = |index: &usize| self.listeners[*index].is_secure == wants_secure;
                    let (taken, left): (Vec<usize>, Vec<usize>) = listeners.iter().copied().partition(secure);
                    if !taken.is_empty() {
                        self.reply_route(server, &taken, &hosts, check);
                    }
                    listeners = left;
                }
                _ => rest.push(check.clone()),
            }
            if listeners.is_empty() {
                return;
            }
        }
        // A location that asks for the scheme has routes of its own for each.
        let asks = |(_, level): &(Pattern, Level)| {
            level.checks.iter().any(|check| matches!(check.condition.test, Test::Scheme(_)))
        };
        let is_secure = |index: &usize| self.listeners[*index].is_secure;
        let (secure, clear): (Vec<usize>, Vec<usize>) = listeners.iter().copied().partition(is_secure);
        if server.locations.iter().any(asks) && !secure.is_empty() && !clear.is_empty() {
            self.locations(server, &secure, &hosts, &rest);
            self.locations(server, &clear, &hosts, &rest);
        } else {
            self.locations(server, &listeners, &hosts, &rest);
        }
    }

    fn scope(
        &self,
        server: &Server,
        level: &Level,
        (listeners, hosts): (&[usize], &[String]),
        pattern: &Pattern,
    ) -> Scope {
        let port = match listeners {
            [only] => self.listeners[*only].port,
            _ => None,
        };
        Scope {
            set: level.set.clone(),
            server_name: server.names.first().cloned().unwrap_or_default(),
            server_port: port,
            root: level.settings.root.clone().unwrap_or_default(),
            hosts: hosts.to_vec(),
            path: if matches!(pattern.kind, Kind::Exact) { pattern.path.clone() } else { String::new() },
            has_groups: matches!(pattern.kind, Kind::Regex(_) | Kind::Before(_)),
            ..Scope::default()
        }
    }

    /// A route for all paths that answers by itself.
    fn reply_route(&mut self, server: &Server, listeners: &[usize], hosts: &[String], check: &Check) {
        let mut level = server.level.child();
        level.action = Some(Action::Return(check.reply.0, check.reply.1.clone()));
        level.place = check.place.clone();
        let root = Pattern { kind: Kind::Prefix(false), path: "/".to_owned() };
        let scope = self.scope(server, &level, (listeners, hosts), &root);
        let content = self.content(&level, &root, &scope);
        let target = Target { server, listeners, hosts };
        self.push(&target, (Paths::All, "all"), &[(Conditions::default(), content)], &check.place);
    }

    fn locations(&mut self, server: &Server, listeners: &[usize], hosts: &[String], checks: &[Check]) {
        let mut locations: Vec<(Pattern, Level)> = Vec::new();
        let whole_server = matches!(server.level.action, Some(Action::Return(..)));
        if !whole_server {
            self.rewrites(server, &mut locations);
            for (pattern, level) in &server.locations {
                self.location_rewrites(pattern, level, &mut locations);
            }
        }
        if whole_server || find(&patterns(&locations), "/").is_none_or(|at| locations[at].0.path != "/") {
            let root = Pattern { kind: Kind::Prefix(false), path: "/".to_owned() };
            let mut level = server.level.child();
            level.action.clone_from(&server.level.action);
            level.try_files.clone_from(&server.level.try_files);
            level.place = server.place.clone();
            if !locations
                .iter()
                .any(|(pattern, _)| matches!(pattern.kind, Kind::Prefix(_)) && pattern.path == "/")
            {
                locations.push((root, level));
            }
        }
        let is_secure = listeners.iter().all(|index| self.listeners[*index].is_secure);
        for (_, level) in &mut locations {
            level.know_scheme(if is_secure { "https" } else { "http" });
            level.checks.splice(0..0, checks.iter().cloned());
            if level.try_files.is_none() && level.action.is_none() {
                level.try_files.clone_from(&server.level.try_files);
            }
        }
        let patterns = patterns(&locations);
        let has_regexes = patterns.iter().any(|it| matches!(it.kind, Kind::Regex(_)));
        for (pattern, level) in
            locations.iter().filter(|(it, _)| has_regexes && it.is_behind_first(&patterns))
        {
            let about = "expressions are not asked below it, as a shorter `^~` goes before them";
            let what = format!("location {} {{ … }}", pattern.path);
            self.report.note(&level.place, what, Grade::Near, about, "paths that an expression fits, too");
        }
        let arranged = arrange(&patterns);
        for Arranged { location, paths } in &arranged {
            let (pattern, level) = &locations[*location];
            let scope = self.scope(server, level, (listeners, hosts), pattern);
            let contents = self.contents(level, pattern, &scope);
            let target = Target { server, listeners, hosts };
            self.slash(&target, &locations[*location], &patterns);
            let title = if pattern.path.is_empty() { "rewrite" } else { pattern.path.as_str() };
            self.push(&target, (paths.clone(), title), &contents, &level.place);
        }
        self.orphans(&Target { server, listeners, hosts }, &locations, &arranged);
    }

    /// `/a` beside the location `/a/`: nginx redirects to it where requests are forwarded.
    fn slash(&mut self, target: &Target<'_>, (pattern, level): &(Pattern, Level), patterns: &[Pattern]) {
        if redirects_bare(pattern, level, patterns) {
            let bare = pattern.path.trim_end_matches('/');
            let redirect = one("redirect", one("to", plain(&pattern.path)).with("status", 301_u16));
            let content = Content { filters: vec![redirect], ..Content::default() };
            let exact = Paths::Patterns(vec![plain(bare)]);
            self.push(target, (exact, bare), &[(Conditions::default(), content)], &level.place);
        }
    }

    /// `/a` beside a location `/a/` whose prefix would take it here, and not in nginx.
    fn orphans(&mut self, target: &Target<'_>, locations: &[(Pattern, Level)], arranged: &[Arranged]) {
        let patterns = patterns(locations);
        for Arranged { location, paths } in arranged {
            let (pattern, level) = &locations[*location];
            let bare = pattern.path.trim_end_matches('/');
            let is_native = matches!((paths, &pattern.kind), (Paths::Patterns(_), Kind::Prefix(_)));
            let is_exact = patterns.iter().any(|it| matches!(it.kind, Kind::Exact) && it.path == bare);
            if !is_native || is_exact || bare.is_empty() || redirects_bare(pattern, level, &patterns) {
                continue;
            }
            let Some(owner) = find(&patterns, bare) else { continue };
            let (pattern, level) = &locations[owner];
            let scope = self.scope(target.server, level, (target.listeners, target.hosts), pattern);
            let contents = self.contents(level, pattern, &scope);
            let exact = Paths::Patterns(vec![plain(bare)]);
            self.push(target, (exact, bare), &contents, &level.place);
        }
    }

    fn push(
        &mut self,
        target: &Target<'_>,
        (paths, title): (Paths, &str),
        contents: &[(Conditions, Content)],
        place: &Place,
    ) {
        for content in contents {
            self.push_one(target, (paths.clone(), title), content, place);
        }
    }

    fn push_one(
        &mut self,
        &Target { server, listeners, hosts }: &Target<'_>,
        (paths, title): (Paths, &str),
        (conditions, content): &(Conditions, Content),
        place: &Place,
    ) {
        let is_everywhere = listeners.len() == self.listeners.len();
        let names = listeners.iter().map(|index| self.listeners[*index].name.clone());
        let name = match server.names.first() {
            Some(name) => format!("{name} {title}"),
            None => title.to_owned(),
        };
        let mut notes = content.notes.clone();
        if place.line > 0 {
            notes.insert(0, format!("{}:{}", place.file, place.line));
        }
        self.draft.push(Route {
            name,
            notes,
            listeners: if is_everywhere { Vec::new() } else { names.collect() },
            hosts: hosts.to_vec(),
            paths,
            conditions: conditions.clone(),
            filters: content.filters.clone(),
            to: content.to.clone(),
            timeouts: content.timeouts.clone(),
            limits: content.limits.clone(),
        });
    }
}

/// Hosts of which each has a destination of its own, by a `map`: all routes name them, so that none goes first.
fn chosen_hosts(server: &Server) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    for (_, level) in &server.locations {
        let Some(Action::Pass(url)) = &level.action else { continue };
        for (_, choice) in level.maps.iter().filter(|(name, _)| url.contains(&format!("${name}"))) {
            for (condition, _) in &choice.entries {
                if let Test::Host(host) = &condition.test
                    && !hosts.contains(host)
                {
                    hosts.push(host.clone());
                }
            }
        }
    }
    hosts
}

fn patterns(locations: &[(Pattern, Level)]) -> Vec<Pattern> {
    locations.iter().map(|(pattern, _)| pattern.clone()).collect()
}
