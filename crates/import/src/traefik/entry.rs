//! Entry points and certificates: listeners.

use super::{Importer, exact, find, get, is_on, local, lost, near, text, texts};
use crate::Place;
use crate::document::{Content, Node};
use crate::yaml::{Map, Value, one};

/// Where clients connect.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) port: u16,
    pub(super) is_udp: bool,
    pub(super) is_default: bool,
    pub(super) is_secure: bool,
    pub(super) middlewares: Vec<String>,
    /// Scheme, port and whether it is permanent.
    pub(super) redirect: Option<(String, String, bool)>,
    /// The resolver of routers that name none.
    pub(super) resolver: Option<String>,
    /// Hosts whose certificates are asked for.
    pub(super) acme: Option<(String, Vec<String>)>,
    /// It carries whole connections.
    pub(super) whole: Option<Map>,
    has_tls: bool,
    h2c: bool,
}

impl Entry {
    fn new(name: &str, address: &str) -> Self {
        let (address, kind) = address.rsplit_once('/').unwrap_or((address, "tcp"));
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(80);
        Self {
            name: name.to_owned(),
            address: address.to_owned(),
            port,
            is_udp: kind == "udp",
            is_default: true,
            is_secure: false,
            middlewares: Vec::new(),
            redirect: None,
            resolver: None,
            acme: None,
            whole: None,
            has_tls: false,
            h2c: false,
        }
    }

    /// The port in URLs of clients, where it is not that of the scheme.
    pub(super) fn own_port(&self) -> Option<u16> {
        let usual = if self.is_secure { 443 } else { 80 };
        (self.port != usual).then_some(self.port)
    }
}

impl Importer {
    /// Reads entry points; without any, those that routers name.
    pub(super) fn entry_points(&mut self) {
        for root in self.roots.clone() {
            let Some(all) = get(&root, "entryPoints") else { continue };
            self.note("entryPoints", all, exact());
            for (name, node) in all.entries() {
                let entry = self.entry_point(name, node);
                self.note(name, node, exact());
                self.entries.push(entry);
            }
        }
        if self.entries.iter().any(|entry| !entry.is_default) {
            // `asDefault` was written somewhere: the others are none.
            for entry in &mut self.entries {
                entry.is_default = !entry.is_default;
            }
        }
        let mut named: Vec<(String, Place)> = Vec::new();
        for (_, router) in &self.routers {
            let list = get(router, "entryPoints");
            named.extend(texts(list).into_iter().map(|name| (name, router.place.clone())));
        }
        if self.entries.is_empty() {
            let secure = self.routers.iter().any(|(_, router)| get(router, "tls").is_some());
            if named.is_empty() {
                named.push(("web".to_owned(), Place::default()));
                if secure {
                    named.push(("websecure".to_owned(), Place::default()));
                }
            }
            for (name, place) in named {
                if self.entries.iter().any(|entry| entry.name == name) {
                    continue;
                }
                let address = if matches!(name.as_str(), "websecure" | "https") { ":443" } else { ":80" };
                let about = format!(
                    "the static file was not given: {name} listens at {address}; give it too, or change it"
                );
                if place.line > 0 {
                    self.report.note(&place, format!("entryPoints: {name}"), crate::Grade::Near, about, "");
                }
                self.entries.push(Entry::new(&name, address));
            }
        }
        self.find_secure();
    }

    /// Which entry points speak TLS: those that say so, and those that routers with `tls` name.
    fn find_secure(&mut self) {
        for entry in &mut self.entries {
            entry.is_secure = entry.has_tls || (entry.port == 443 && entry.redirect.is_none());
        }
        for (_, router) in &self.routers {
            if get(router, "tls").is_none() {
                continue;
            }
            let names = texts(get(router, "entryPoints"));
            for entry in self.entries.iter_mut().filter(|entry| names.contains(&entry.name)) {
                entry.is_secure |= entry.redirect.is_none() && entry.port != 80;
            }
        }
        let is_any = self.entries.iter().any(|entry| entry.is_secure);
        if !is_any && self.routers.iter().any(|(_, router)| get(router, "tls").is_some()) {
            for entry in &mut self.entries {
                entry.is_secure = entry.redirect.is_none();
            }
        }
    }

    fn entry_point(&mut self, name: &str, node: &Node) -> Entry {
        let mut entry = Entry::new(name, text(node, "address").unwrap_or(":80"));
        for (key, inner) in node.entries() {
            match key.to_ascii_lowercase().as_str() {
                "address" | "reuseport" => self.note(key, inner, exact()),
                "asdefault" => {
                    entry.is_default = inner.text() != "true";
                    self.note(key, inner, exact());
                }
                "http" => self.entry_http(inner, &mut entry),
                "http2" => self.note_all(key, inner, &near("streams at a time are bounded by `limits`")),
                "http3" => self.note_all(key, inner, &lost("HTTP/3 is not spoken: clients use HTTP/2")),
                "forwardedheaders" => self.trusted(inner),
                "proxyprotocol" => {
                    let about =
                        "write `proxy_protocol: { from: … }` at the listener, with the networks that say it";
                    self.note_all(key, inner, &lost(about));
                }
                "transport" => {
                    self.note_all(key, inner, &near("deadlines are those of `timeouts` and `shutdown`"))
                }
                "udp" => self.note_all(key, inner, &near("sessions end by `timeouts.idle` of the service")),
                _ => {}
            }
        }
        entry
    }

    fn entry_http(&mut self, node: &Node, entry: &mut Entry) {
        self.note("http", node, exact());
        for (key, inner) in node.entries() {
            match key.to_ascii_lowercase().as_str() {
                "middlewares" => {
                    entry.middlewares = texts(Some(inner));
                    self.note(key, inner, exact());
                }
                "tls" => {
                    entry.has_tls = true;
                    entry.resolver = text(inner, "certResolver").map(str::to_owned);
                    self.note_all(key, inner, &exact());
                }
                "redirections" => {
                    let Some(to) = get(inner, "entryPoint") else { continue };
                    let scheme = text(to, "scheme").unwrap_or("https").to_owned();
                    let target = text(to, "to").unwrap_or_default().to_owned();
                    let is_permanent = text(to, "permanent").is_none_or(|text| text == "true");
                    entry.redirect = Some((scheme, target, is_permanent));
                    self.note_all(key, inner, &exact());
                    if let Some(priority) = get(to, "priority") {
                        let about =
                            "all requests are redirected, also those of routers with a higher priority";
                        self.note("priority", priority, near(about));
                    }
                }
                "encodequerysemicolons" => self.note(key, inner, near("the query goes on as it came")),
                _ => {}
            }
        }
    }

    fn trusted(&mut self, node: &Node) {
        self.note("forwardedHeaders", node, exact());
        for (key, inner) in node.entries() {
            match key.to_ascii_lowercase().as_str() {
                "trustedips" => {
                    let mut all = match self.draft.top.get("trusted_proxies") {
                        Some(Value::List(list)) => list.clone(),
                        _ => Vec::new(),
                    };
                    all.extend(texts(Some(inner)).into_iter().map(Value::from));
                    all.dedup();
                    self.draft.top.put("trusted_proxies", all);
                    let about = "what they say of the client counts on every listener, for `ClientIP`, lists and limits too";
                    self.note(key, inner, near(about));
                }
                "insecure" if inner.text() != "true" => self.note(key, inner, exact()),
                _ => self.note(key, inner, lost("whoever is believed is named in `trusted_proxies`")),
            }
        }
    }

    /// Certificates and what is asked of clients.
    pub(super) fn certificates(&mut self) {
        for root in self.roots.clone() {
            let Some(tls) = get(&root, "tls") else { continue };
            self.note("tls", tls, exact());
            if let Some(list) = get(tls, "certificates") {
                self.note("certificates", list, exact());
                if let Content::List(all) = &list.content {
                    for certificate in all {
                        self.certificate(certificate, false);
                    }
                }
            }
            for (name, store) in get(tls, "stores").map(|node| node.entries().to_vec()).unwrap_or_default() {
                match get(&store, "defaultCertificate").filter(|_| name == "default") {
                    Some(certificate) => self.certificate(certificate, true),
                    None => self.note_all(&name, &store, &lost("a listener has one list of certificates")),
                }
            }
        }
        self.tls_options();
    }

    fn certificate(&mut self, node: &Node, is_first: bool) {
        let (Some(cert), Some(key)) = (text(node, "certFile"), text(node, "keyFile")) else { return };
        let map = one("cert", cert).with("key", key);
        for (key, inner) in node.entries() {
            if !key.eq_ignore_ascii_case("stores") {
                self.note(key, inner, exact());
            } else {
                self.note(key, inner, near("a listener has one list of certificates"));
            }
        }
        self.certificates.retain(|known| *known != map);
        let at = if is_first { 0 } else { self.certificates.len() };
        self.certificates.insert(at, map);
    }

    /// `tls.options`: those called `default` hold for all; others are lost.
    fn tls_options(&mut self) {
        for (name, node) in self.options.clone() {
            if name != "default" {
                continue;
            }
            self.note(&name, &node, exact());
            for (key, inner) in node.entries() {
                let outcome = match key.to_ascii_lowercase().as_str() {
                    "minversion" | "maxversion" | "snistrict" | "alpnprotocols" => exact(),
                    "clientauth" => match client_auth(inner) {
                        Ok(_) => {
                            self.note_all(key, inner, &exact());
                            continue;
                        }
                        Err(about) => {
                            self.closed_tls = Some(about.clone());
                            self.note_all(key, inner, &lost(&about));
                            continue;
                        }
                    },
                    _ => lost("write `suites` and `groups` at the listener's `tls`"),
                };
                self.note(key, inner, outcome);
            }
        }
    }

    /// What a listener says of TLS.
    fn tls_of(&mut self, entry: &Entry) -> Map {
        let mut tls = Map::default();
        if !self.certificates.is_empty() {
            tls.put("certificates", self.certificates.clone());
        }
        if let Some((resolver, domains)) = &entry.acme {
            match self.resolver(resolver) {
                Ok(map) if !domains.is_empty() => tls.put("acme", map.with("domains", domains.clone())),
                _ => {}
            }
        }
        if tls.is_empty() {
            tls.put("local", true);
            let place =
                Place { file: self.roots.first().map_or(String::new(), |it| it.place.file.clone()), line: 1 };
            let about = "there is no certificate for it: those of this machine's own authority serve, for `localhost` alone";
            self.report.note(&place, format!("entryPoints: {}", entry.name), crate::Grade::Near, about, "");
        }
        let Some(options) = find(&self.options, "default") else { return tls };
        for (key, name) in [("minVersion", "min_version"), ("maxVersion", "max_version")] {
            match text(options, key) {
                Some("VersionTLS13") => tls.put(name, "1.3"),
                Some("VersionTLS12") => tls.put(name, "1.2"),
                _ => {}
            }
        }
        if is_on(options, "sniStrict") {
            tls.put("unknown_name", "refuse");
        }
        if let Some(Ok(Some(auth))) = get(options, "clientAuth").map(client_auth) {
            tls.put("client_auth", auth);
        }
        tls
    }

    /// A resolver as `acme`.
    ///
    /// # Errors
    /// It cannot be said.
    fn resolver(&mut self, name: &str) -> Result<Map, String> {
        let Some(node) = find(&self.resolvers, local(name)).cloned() else {
            return Err(format!("there is no resolver `{name}`"));
        };
        let Some(acme) = get(&node, "acme") else { return Err("only ACME gives certificates".to_owned()) };
        let mut map = Map::default();
        let mut failed = None;
        for (key, inner) in acme.entries() {
            let outcome = match key.to_ascii_lowercase().as_str() {
                "email" => {
                    map.put("email", inner.text());
                    exact()
                }
                "storage" => {
                    near("accounts and certificates are kept in the state directory, and are ordered anew")
                }
                "caserver" => {
                    map.put("directory", inner.text());
                    exact()
                }
                "httpchallenge" => {
                    map.put("challenge", "http");
                    self.note_all(key, inner, &exact());
                    continue;
                }
                "tlschallenge" => {
                    map.put("challenge", "tls_alpn");
                    exact()
                }
                "dnschallenge" => {
                    let about = "write `challenge: dns` with `dns: { exec: … }` or `{ webhook: … }`";
                    failed = Some(about.to_owned());
                    self.note_all(key, inner, &lost(about));
                    continue;
                }
                "keytype" => match inner.text() {
                    "EC256" => exact(),
                    "RSA2048" => {
                        map.put("key_type", "rsa2048");
                        exact()
                    }
                    "EC384" => {
                        map.put("key_type", "p384");
                        exact()
                    }
                    _ => near("keys are of P-256"),
                },
                _ => continue,
            };
            self.note(key, inner, outcome);
        }
        if map.get("email").is_none() {
            failed = Some("it has no `email`".to_owned());
        }
        let outcome = failed.clone().map_or_else(exact, |about| lost(&about));
        self.note("acme", acme, outcome);
        failed.map_or(Ok(map), Err)
    }

    /// Writes the listeners.
    pub(super) fn listeners(&mut self) {
        for entry in self.entries.clone() {
            let mut map = one("address", entry.address.as_str());
            if let Some(whole) = &entry.whole {
                map = map.with_all(whole);
            } else {
                if entry.is_udp {
                    continue;
                }
                if entry.is_secure {
                    let tls = self.tls_of(&entry);
                    map.put("tls", tls);
                } else if entry.h2c {
                    map.put("h2c", true);
                }
            }
            self.draft.listeners.put(entry.name.as_str(), map);
        }
    }
}

/// What clients must show of themselves; `Ok(None)`: nothing.
fn client_auth(node: &Node) -> Result<Option<Map>, String> {
    let mode = match text(node, "clientAuthType").unwrap_or("NoClientCert") {
        "NoClientCert" => return Ok(None),
        "RequireAndVerifyClientCert" => "required",
        "VerifyClientCertIfGiven" => "optional",
        other => return Err(format!("`{other}`: certificates of clients are verified, or not asked for")),
    };
    match texts(get(node, "caFiles")).as_slice() {
        [file] => Ok(Some(one("ca", file.as_str()).with("mode", mode).with("forward", Vec::<String>::new()))),
        _ => Err("`client_auth` takes one file of authorities: join them into one".to_owned()),
    }
}
