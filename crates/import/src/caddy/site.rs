//! Sites: their addresses as listeners and hosts, their certificates, and the routes of their branches.

use super::Importer;
use super::syntax::Directive;
use super::walk::State;
use crate::arrange::{Placed, arrange};
use crate::branch::Branch;
use crate::draft::{Paths, Route, To, literal};
use crate::yaml::{Map, one};
use crate::{Grade, Place};

/// An address of a site.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: String,
    pub(super) path: String,
    pub(super) is_secure: bool,
}

/// A port that sites share.
#[derive(Clone, Debug, Default)]
pub(super) struct Listener {
    pub(super) name: String,
    pub(super) addresses: Vec<String>,
    pub(super) port: String,
    pub(super) is_secure: bool,
    certificates: Vec<Map>,
    email: Option<String>,
    needs_acme: bool,
    is_local: bool,
    min_version: Option<String>,
    client_auth: Option<Map>,
    /// A site takes every host.
    is_taken: bool,
    pub(super) redirects: bool,
}

/// Hosts that no authority knows.
fn is_local(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

impl Importer<'_> {
    /// Reads an address.
    fn address(&self, text: &str, has_tls: bool) -> Address {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (rest, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (host, port) = match rest.rsplit_once(':') {
            // A variable has a colon before its default.
            Some((host, port)) if !port.contains([']', '}']) && !port.starts_with('-') => (host, port),
            _ => (rest, ""),
        };
        let options = &self.options;
        let auto = options.auto_https != "off";
        let is_http = scheme == "http" || port == options.http_port;
        let is_secure = !is_http && (has_tls || scheme == "https" || (auto && !host.is_empty()));
        let port = match (port, scheme) {
            ("", "http") => options.http_port.clone(),
            ("", _) => options.https_port.clone(),
            (port, _) => port.to_owned(),
        };
        Address { host: host.to_ascii_lowercase(), port, path: path.to_owned(), is_secure }
    }

    /// Reads a site.
    pub(super) fn site(&mut self, site: &Directive) {
        let words = site.words();
        let keys: Vec<&str> = words
            .iter()
            .flat_map(|word| word.split(','))
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .collect();
        self.site_name = keys.first().map_or("this site", |key| *key).to_owned();
        let has_tls = site.children().iter().any(|line| line.name == "tls");
        let addresses: Vec<Address> = keys.iter().map(|key| self.address(key, has_tls)).collect();
        let what = words.join(" ");
        if let Some(address) = addresses.iter().find(|address| !address.path.is_empty()) {
            let about = format!("a path in an address: requests of the site under `{}` alone", address.path);
            self.report.note(&site.place, what.as_str(), Grade::Near, about, "");
        } else {
            self.report.exact(&site.place, what.as_str());
        }
        let binds: Vec<String> = site
            .children()
            .iter()
            .filter(|line| line.name == "bind")
            .flat_map(|line| line.args.clone())
            .collect();
        let mut listeners: Vec<usize> = Vec::new();
        for address in &addresses {
            let index = self.listener(address, &binds);
            if !listeners.contains(&index) {
                listeners.push(index);
            }
        }
        self.settings(site, &addresses, &listeners);
        self.branches.clear();
        self.matchers.clear();
        self.error_pages = self.errors(site);
        let steps = self.steps(site.children(), true);
        let mut state = State::default();
        // One path for all: the legacy form of `handle`.
        if let Some(path) = addresses.iter().map(|it| it.path.as_str()).find(|path| !path.is_empty())
            && let Ok(atom) = crate::paths::Atom::parse(path)
        {
            state.condition.paths = atom.map(|atom| vec![atom]);
        }
        self.walk(&steps, state);
        let branches = std::mem::take(&mut self.branches);
        for (listeners, hosts) in self.targets(&addresses, &listeners) {
            self.routes(&branches, &listeners, &hosts, &site.place);
        }
    }

    /// Listeners of a site with the hosts that it has there; none: all.
    fn targets(&self, addresses: &[Address], listeners: &[usize]) -> Vec<(Vec<usize>, Vec<String>)> {
        let mut targets: Vec<(Vec<usize>, Vec<String>)> = Vec::new();
        for index in listeners {
            let mine = addresses.iter().filter(|address| address.port == self.listeners[*index].port);
            let mut hosts: Vec<String> = Vec::new();
            for address in mine.clone() {
                if !hosts.contains(&address.host) {
                    hosts.push(address.host.clone());
                }
            }
            if hosts.iter().any(String::is_empty) {
                hosts.clear();
            }
            match targets.iter_mut().find(|(_, known)| *known == hosts) {
                Some((listeners, _)) => listeners.push(*index),
                None => targets.push((vec![*index], hosts)),
            }
        }
        targets
    }

    /// `tls`, `bind` and `log`.
    fn settings(&mut self, site: &Directive, addresses: &[Address], listeners: &[usize]) {
        for line in site.children() {
            match line.name.as_str() {
                "bind" => self.report.exact(&line.place, line.text()),
                "log" => self.log(line),
                "tls" => self.tls(line, addresses, listeners),
                _ => {}
            }
        }
        let has_tls = site
            .children()
            .iter()
            .any(|line| line.name == "tls" && (line.args.len() == 2 || line.arg() == "internal"));
        for index in listeners {
            let listener = &mut self.listeners[*index];
            let is_open = addresses.iter().any(|it| it.host.is_empty() && it.port == listener.port);
            listener.is_taken |= is_open;
            if listener.is_secure && !has_tls {
                let mine = addresses.iter().filter(|it| it.port == listener.port && !it.host.is_empty());
                for address in mine {
                    listener.is_local |= is_local(&address.host);
                    listener.needs_acme |= !is_local(&address.host);
                }
            }
        }
        self.redirects(addresses, site);
    }

    /// Caddy's own redirects to https.
    fn redirects(&mut self, addresses: &[Address], site: &Directive) {
        let auto = self.options.auto_https.as_str();
        if matches!(auto, "off" | "disable_redirects") {
            return;
        }
        let http = self.options.http_port.clone();
        for address in addresses.iter().filter(|it| it.is_secure && !it.host.is_empty()) {
            let index = self.listener(&Address { port: http.clone(), ..Address::default() }, &[]);
            self.listeners[index].redirects = true;
            self.redirected.push((index, address.clone(), site.place.clone()));
        }
    }

    fn tls(&mut self, line: &Directive, addresses: &[Address], listeners: &[usize]) {
        let mut told = (Grade::Exact, String::new());
        match line.args.as_slice() {
            [] => {}
            [word] if word == "internal" => {
                let all_local = addresses.iter().all(|it| is_local(&it.host));
                listeners.iter().for_each(|index| self.listeners[*index].is_local = true);
                if !all_local {
                    told = (
                        Grade::Lost,
                        "an authority of one's own vouches for `localhost` and names below it only"
                            .to_owned(),
                    );
                }
            }
            [email] if email.contains('@') => {
                listeners.iter().for_each(|index| self.listeners[*index].email = Some(email.clone()));
            }
            [cert, key] => {
                let names: Vec<String> =
                    addresses.iter().map(|it| it.host.clone()).filter(|host| !host.is_empty()).collect();
                let mut map = one("cert", cert.as_str()).with("key", key.as_str());
                if !names.is_empty() {
                    map.put("names", names);
                }
                for index in listeners {
                    let listener = &mut self.listeners[*index];
                    if listener.is_secure && !listener.certificates.contains(&map) {
                        listener.certificates.push(map.clone());
                    }
                }
            }
            _ => told = (Grade::Lost, "its arguments are not understood".to_owned()),
        }
        self.report.note(&line.place, line.text(), told.0, told.1, "");
        for inner in line.children() {
            let told = self.tls_line(inner, listeners);
            self.report.note(&inner.place, inner.text(), told.0, told.1.as_str(), "");
            self.note_inner(inner, told.0, &told.1);
        }
    }

    fn tls_line(&mut self, line: &Directive, listeners: &[usize]) -> (Grade, String) {
        match line.name.as_str() {
            "protocols" => {
                let version = line.arg().trim_start_matches("tls").to_owned();
                for index in listeners {
                    self.listeners[*index].min_version = Some(version.clone());
                }
                (Grade::Exact, String::new())
            }
            "client_auth" => {
                let find = |name: &str| line.children().iter().find(|it| it.name == name).map(|it| it.arg());
                let mode = find("mode").unwrap_or("require_and_verify");
                let ca = find("trusted_ca_cert_file");
                let word = match mode {
                    "require_and_verify" => "required",
                    "verify_if_given" => "optional",
                    _ => "",
                };
                let (Some(ca), false) = (ca, word.is_empty()) else {
                    for index in listeners {
                        self.listeners[*index].client_auth =
                            Some(one("mode", "required").with("ca", ca.unwrap_or("")));
                    }
                    return (
                        Grade::Lost,
                        "write `client_auth` with `ca` at the listener: nobody passes until then".into(),
                    );
                };
                for index in listeners {
                    self.listeners[*index].client_auth = Some(one("mode", word).with("ca", ca));
                }
                (Grade::Near, "it holds for all names of the listener".to_owned())
            }
            "ciphers" | "curves" | "alpn" => {
                (Grade::Near, "Thalweg's own choice holds; see `suites` and `groups`".to_owned())
            }
            "on_demand" => {
                (Grade::Lost, "write `acme: { on_demand: … }` with the hosts that may be asked for".into())
            }
            "dns" => (
                Grade::Lost,
                "write `acme: { challenge: dns, dns: … }` with a program that sets records".into(),
            ),
            name => (Grade::Lost, format!("`{name}` of `tls` has no counterpart")),
        }
    }

    fn log(&mut self, line: &Directive) {
        let mut log = one("format", "json");
        for inner in line.children() {
            let told = match (inner.name.as_str(), inner.arg()) {
                ("output", "file") => {
                    log.put("path", inner.args.get(1).cloned().unwrap_or_default());
                    (Grade::Near, "one log for all sites, which moves on by `access_log.rotate`")
                }
                ("output", "stdout" | "stderr") => {
                    log.put("path", inner.arg());
                    (Grade::Exact, "")
                }
                ("format", "json") => (Grade::Near, "lines have fields of their own"),
                ("format", "console") => {
                    log.put("format", "combined");
                    (Grade::Near, "lines are those of nginx")
                }
                _ => (Grade::Lost, "it has no counterpart"),
            };
            self.report.note(&inner.place, inner.text(), told.0, told.1, "");
            self.note_inner(inner, told.0, told.1);
        }
        let about = "one log for all sites; lines have fields of their own";
        self.report.note(&line.place, line.text(), Grade::Near, about, "");
        self.draft.top.put("access_log", log);
    }

    /// The listener of an address.
    pub(super) fn listener(&mut self, address: &Address, binds: &[String]) -> usize {
        let binds = if binds.is_empty() { self.options.default_bind.clone() } else { binds.to_vec() };
        let addresses: Vec<String> = match binds.is_empty() {
            true => vec![format!(":{}", address.port)],
            false => binds
                .iter()
                .map(|bind| match bind.strip_prefix("unix/") {
                    Some(path) => format!("unix:{path}"),
                    None if bind.contains(':') => format!("[{bind}]:{}", address.port),
                    None => format!("{bind}:{}", address.port),
                })
                .collect(),
        };
        let known = self.listeners.iter().position(|it| it.port == address.port && it.addresses == addresses);
        let index = known.unwrap_or_else(|| {
            let name = match address.port.as_str() {
                port if port == self.options.http_port => "http".to_owned(),
                port if port == self.options.https_port => "https".to_owned(),
                port => format!("port-{}", port.trim_matches(|letter: char| !letter.is_ascii_digit())),
            };
            let same = self.listeners.iter().filter(|it| it.name.starts_with(&name)).count();
            let name = if same > 0 { format!("{name}-{}", same + 1) } else { name };
            let port = address.port.clone();
            self.listeners.push(Listener { name, addresses, port, ..Listener::default() });
            self.listeners.len() - 1
        });
        self.listeners[index].is_secure |= address.is_secure;
        index
    }

    /// Names of listeners as the configuration has them.
    fn names(&self, index: usize) -> Vec<String> {
        let listener = &self.listeners[index];
        (0..listener.addresses.len())
            .map(|at| if at == 0 { listener.name.clone() } else { format!("{}-{}", listener.name, at + 1) })
            .collect()
    }

    /// Listeners, and what they do with hosts of no site.
    pub(super) fn finish(&mut self) {
        let redirected = std::mem::take(&mut self.redirected);
        for index in 0..self.listeners.len() {
            let names = self.names(index);
            let listener = self.listeners[index].clone();
            let mine = redirected.iter().filter(|(at, ..)| *at == index);
            let is_usual = mine.clone().all(|(_, address, _)| address.port == "443");
            let is_bare = listener.redirects && !self.used.contains(&index) && is_usual;
            for (name, address) in names.iter().zip(&listener.addresses) {
                let mut map = one("address", address.as_str());
                if listener.is_secure {
                    let tls = self.listener_tls(&listener);
                    map.put("tls", tls);
                }
                if is_bare {
                    map.put("redirect_https", true);
                }
                self.draft.listeners.put(name.as_str(), map);
            }
            if is_bare {
                continue;
            }
            for (_, address, _) in redirected.iter().filter(|(at, ..)| *at == index) {
                // Caddy takes its own port for the usual one.
                let is_usual = address.port == self.options.https_port;
                let port = if is_usual { String::new() } else { format!(":{}", address.port) };
                let to = format!("https://{{host}}{port}{{path}}");
                self.draft.push(Route {
                    name: format!("{} to https", address.host),
                    listeners: self.listed(&[index]),
                    hosts: vec![address.host.clone()],
                    filters: vec![one("redirect", one("to", to).with("status", 308_u16))],
                    ..Route::default()
                });
            }
            if !listener.is_taken {
                self.draft.push(Route {
                    name: format!("no site on {}", listener.name),
                    notes: vec!["Caddy answers hosts that no site has with an empty response.".to_owned()],
                    listeners: self.listed(&[index]),
                    filters: vec![one("respond", one("status", 200_u16).with("body", ""))],
                    ..Route::default()
                });
            }
        }
    }

    fn listener_tls(&mut self, listener: &Listener) -> Map {
        let mut tls = Map::default();
        if !listener.certificates.is_empty() {
            tls.put("certificates", listener.certificates.clone());
        }
        if listener.needs_acme {
            let email = listener.email.clone().or_else(|| self.options.email.clone());
            let email = email.unwrap_or_else(|| {
                let about = "an address of yours is needed for the authority: write `email` of `acme`";
                self.report.note(&self.first.clone(), "automatic HTTPS", Grade::Near, about, "");
                "webmaster@example.com".to_owned()
            });
            tls.put("acme", one("email", email));
        } else if listener.is_local {
            tls.put("local", true);
        }
        if let Some(version) = listener.min_version.clone() {
            tls.put("min_version", version);
        }
        if let Some(client_auth) = listener.client_auth.clone() {
            tls.put("client_auth", client_auth);
        }
        tls
    }

    /// The listeners of a route; none where there is one alone.
    fn listed(&self, indexes: &[usize]) -> Vec<String> {
        indexes.iter().flat_map(|index| self.names(*index)).collect()
    }

    /// Routes of the branches of a site.
    fn routes(&mut self, branches: &[Branch], listeners: &[usize], hosts: &[String], place: &Place) {
        for index in listeners {
            if !self.used.contains(index) {
                self.used.push(*index);
            }
        }
        let has_hosts = !hosts.is_empty() && hosts.iter().all(|host| !host.contains('*'));
        for placed in arrange(branches, has_hosts) {
            let mine: Vec<usize> = listeners
                .iter()
                .copied()
                .filter(|index| placed.secure.is_none_or(|secure| self.listeners[*index].is_secure == secure))
                .collect();
            if mine.is_empty() {
                continue;
            }
            let branch = &branches[placed.branch];
            let mut route = Route {
                name: self.route_name(&placed, hosts),
                notes: branch.content.notes.clone(),
                listeners: self.listed(&mine),
                hosts: hosts.to_vec(),
                paths: placed.paths,
                conditions: placed.rest,
                filters: branch.content.filters.clone(),
                to: branch.content.to.clone(),
                timeouts: branch.content.timeouts.clone(),
                limits: branch.content.limits.clone(),
            };
            if placed.is_refused {
                let about = "the order of these conditions cannot be kept; requests are answered 501";
                let what = format!("{} {{ … }}", self.site_name);
                self.report.note(place, what, Grade::Lost, about, route.name.clone());
                let body = "501 Not Implemented: the order of conditions cannot be kept\n";
                route.filters = vec![one("respond", one("status", 501_u16).with("body", literal(body)))];
                route.to = To::Nowhere;
            }
            self.draft.push(route);
        }
    }

    fn route_name(&self, placed: &Placed, hosts: &[String]) -> String {
        let host =
            placed.rest.hosts.first().or(hosts.first()).map_or(self.site_name.as_str(), String::as_str);
        let path = match &placed.paths {
            Paths::All => String::new(),
            Paths::Patterns(patterns) => format!(" {}", patterns.join(" ")),
            Paths::Regex(regex) => format!(" {regex}"),
        };
        format!("{host}{path}")
    }
}
