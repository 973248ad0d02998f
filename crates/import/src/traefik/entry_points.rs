//! Entry points as listeners, with certificates and authorities.

use super::ledger::{At, Ledger};
use super::middlewares::milliseconds;
use crate::draft::duration;
use crate::yaml::{Map, Value, one};

/// An entry point.
#[derive(Clone, Debug, Default)]
pub(super) struct EntryPoint {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) is_tls: bool,
    pub(super) is_udp: bool,
    /// TLS of all its routers.
    pub(super) has_tls: bool,
    pub(super) is_default: bool,
    /// Middlewares of all its routers.
    pub(super) middlewares: Vec<String>,
    /// Where everything is sent: scheme, port, and whether for good.
    pub(super) redirect: Option<(String, String, bool)>,
    pub(super) keys: Map,
    pub(super) trusted: Vec<String>,
    pub(super) resolver: Option<String>,
}

impl EntryPoint {
    pub(super) fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap_or("")
    }
}

/// Those of the static configuration.
pub(super) fn read(at: &At<'_>, ledger: &mut Ledger) -> Vec<EntryPoint> {
    let mut all: Vec<EntryPoint> =
        at.entries().iter().map(|(name, inner)| one_of(name, inner, ledger)).collect();
    // A redirection names another entry point by its name.
    let ports: Vec<(String, String)> =
        all.iter().map(|point| (point.name.clone(), point.port().to_owned())).collect();
    for point in &mut all {
        if let Some((_, to, _)) = &mut point.redirect {
            *to = match ports.iter().find(|(name, _)| name.eq_ignore_ascii_case(to)) {
                Some((_, port)) => port.clone(),
                None => to.trim_start_matches(':').to_owned(),
            };
        }
    }
    all
}

fn one_of(name: &str, at: &At<'_>, ledger: &mut Ledger) -> EntryPoint {
    let text = at.get("address").map_or(":80", |it| it.text());
    let (address, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let mut point = EntryPoint {
        name: name.to_owned(),
        address: address.to_owned(),
        is_udp: protocol == "udp",
        is_default: at.get("asDefault").is_some_and(|it| it.node.is_true()),
        ..EntryPoint::default()
    };
    ledger.exact_keys(at, &["address", "asDefault", "reusePort"]);
    if let Some(http) = at.get("http") {
        of_http(&http, &mut point, ledger);
    }
    if let Some(forwarded) = at.get("forwardedHeaders") {
        if let Some(trusted) = forwarded.get("trustedIPs") {
            ledger.exact(&trusted);
            point.trusted.extend(trusted.texts());
        }
        if let Some(insecure) = forwarded.get("insecure") {
            match insecure.node.is_true() {
                true => {
                    ledger.near(
                        &insecure,
                        "everybody is trusted, at every listener: name your proxies in `trusted_proxies`",
                    );
                    point.trusted.extend(["0.0.0.0/0".to_owned(), "::/0".to_owned()]);
                }
                false => ledger.exact(&insecure),
            }
        }
    }
    if let Some(proxy) = at.get("proxyProtocol") {
        let trusted = proxy.get("trustedIPs");
        let everyone = || vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()];
        let from = trusted.as_ref().map_or_else(everyone, At::texts);
        ledger.near(&proxy, "those peers may leave it out");
        point.keys.put("proxy_protocol", one("from", from).with("required", false));
    }
    if let Some(streams) = at.find(&["http2", "maxConcurrentStreams"]) {
        ledger.exact(&streams);
        if let Ok(most) = streams.text().parse::<u64>() {
            point.keys.put("limits", one("max_streams", most.clamp(1, 1000)));
        }
    }
    if let Some(http3) = at.get("http3") {
        ledger.lost(&http3, "HTTP/3 is not spoken: clients use HTTP/2");
    }
    point
}

fn of_http(at: &At<'_>, point: &mut EntryPoint, ledger: &mut Ledger) {
    if let Some(redirect) = at.find(&["redirections", "entryPoint"]) {
        ledger.exact_keys(&redirect, &["to", "scheme", "permanent"]);
        let scheme = redirect.get("scheme").map_or("https", |it| it.text());
        let to = redirect.get("to").map_or("", |it| it.text());
        let permanent = redirect.get("permanent").is_none_or(|it| it.node.is_true());
        point.redirect = Some((scheme.to_owned(), to.to_owned(), permanent));
        if let Some(priority) = redirect.get("priority") {
            ledger.near(&priority, "the redirection goes before all routers");
        }
    }
    if let Some(tls) = at.get("tls") {
        ledger.exact(&tls);
        point.has_tls = true;
        point.resolver = tls.get("certResolver").map(|it| it.text().to_owned());
        note_options(&tls, ledger);
    }
    if let Some(list) = at.get("middlewares") {
        ledger.exact(&list);
        point.middlewares = list.texts();
    }
}

/// `options` and `domains` of `tls` of a router or an entry point.
pub(super) fn note_options(tls: &At<'_>, ledger: &mut Ledger) {
    if let Some(options) = tls.get("options") {
        match options.text().split('@').next() {
            Some("default") => ledger.exact(&options),
            _ => ledger.near(&options, "a listener has one set of options, those called `default`"),
        }
    }
    if let Some(domains) = tls.get("domains") {
        ledger.near(
            &domains,
            "certificates are ordered for the hosts of routes; write others in `domains` of `acme`",
        );
    }
}

/// Deadlines of clients, for all entry points alike.
pub(super) fn timeouts(at: &At<'_>, ledger: &mut Ledger, timeouts: &mut Map) {
    for (_, point) in at.entries() {
        let Some(transport) = point.get("transport") else { continue };
        for (key, ours) in [("readTimeout", "head"), ("idleTimeout", "keep_alive")] {
            if let Some(time) = transport.find(&["respondingTimeouts", key]) {
                ledger.near(&time, "it holds for all listeners; a body has `min_rate` and `idle`");
                if let Some(time) = milliseconds(time.text()).filter(|time| *time > 0) {
                    timeouts.put(ours, duration(time));
                }
            }
        }
        if let Some(time) = transport.find(&["respondingTimeouts", "writeTimeout"]) {
            ledger.near(
                &time,
                "a response has `min_rate` and `idle`, and `timeouts.request` where it is written",
            );
        }
        if let Some(cycle) = transport.get("lifeCycle") {
            ledger.near(&cycle, "see `shutdown`");
        }
    }
}

/// Certificates and options of TLS.
#[derive(Debug, Default)]
pub(super) struct Tls {
    certificates: Vec<Map>,
    keys: Map,
    resolvers: Vec<(String, Map)>,
}

impl Tls {
    /// What stands in `tls` of a dynamic file.
    pub(super) fn read(&mut self, at: &At<'_>, ledger: &mut Ledger) {
        if let Some(pair) = at.find(&["stores", "default", "defaultCertificate"]) {
            ledger.exact(&pair);
            let made = certificate(&pair);
            self.certificates.insert(0, made);
        }
        for pair in at.get("certificates").map(|it| it.items()).unwrap_or_default() {
            ledger.exact(&pair);
            self.certificates.push(certificate(&pair));
        }
        for (name, options) in at.get("options").map(|it| it.entries()).unwrap_or_default() {
            if name == "default" {
                self.options(&options, ledger);
            } else {
                ledger.lost(&options, "a listener has one set of options, those called `default`");
            }
        }
    }

    fn options(&mut self, at: &At<'_>, ledger: &mut Ledger) {
        for (key, ours) in [("minVersion", "min_version"), ("maxVersion", "max_version")] {
            let Some(version) = at.get(key) else { continue };
            match version.text() {
                "VersionTLS12" => self.keys.put(ours, "1.2"),
                "VersionTLS13" => self.keys.put(ours, "1.3"),
                _ => {
                    ledger.near(&version, "TLS 1.2 is the oldest version that is spoken");
                    continue;
                }
            }
            ledger.exact(&version);
        }
        if let Some(sni) = at.get("sniStrict") {
            ledger.exact(&sni);
            if sni.node.is_true() {
                self.keys.put("unknown_name", "refuse");
            }
        }
        for key in ["cipherSuites", "curvePreferences", "alpnProtocols", "preferServerCipherSuites"] {
            if let Some(inner) = at.get(key) {
                ledger.near(
                    &inner,
                    "Thalweg's own choice holds, of what is safe today; see `suites` and `groups`",
                );
            }
        }
        let Some(client) = at.get("clientAuth") else { return };
        let kind = client.get("clientAuthType").map_or("", |it| it.text());
        let files = client.get("caFiles").map(|it| it.texts()).unwrap_or_default();
        let mode = match kind {
            "RequireAndVerifyClientCert" => "required",
            "VerifyClientCertIfGiven" => "optional",
            _ => return ledger.lost(&client, "a certificate of clients is verified, or not asked for"),
        };
        if let [file] = files.as_slice() {
            ledger.exact(&client);
            self.keys.put(
                "client_auth",
                one("ca", file.as_str()).with("mode", mode).with("forward", Vec::<String>::new()),
            );
        } else {
            // Nobody is let in that has not been verified.
            ledger.lost(&client, "one file holds all authorities: join them, and write `client_auth`");
            self.keys.put("client_auth", one("ca", "join-these.pem").with("mode", mode));
        }
    }

    /// An authority of the static configuration.
    pub(super) fn resolver(&mut self, name: &str, at: &At<'_>, ledger: &mut Ledger) {
        let Some(acme) = at.get("acme") else {
            return ledger.lost(at, "certificates come from files and ACME only");
        };
        ledger.near(
            &acme,
            "certificates are ordered anew, for the hosts of routes, and kept in the state directory",
        );
        ledger.exact_keys(&acme, &["email", "caServer", "httpChallenge", "tlsChallenge"]);
        let mut made = one("email", acme.get("email").map_or("", |it| it.text()));
        if let Some(server) = acme.get("caServer") {
            made.put("directory", server.text());
        }
        made.put("challenge", if acme.get("httpChallenge").is_some() { "http" } else { "tls_alpn" });
        if let Some(dns) = acme.get("dnsChallenge") {
            ledger.lost(&dns, "records are set by a program or a webhook: see `acme.dns`; wildcards need it");
        }
        if let Some(kind) = acme.get("keyType") {
            match kind.text() {
                "EC256" => made.put("key_type", "p256"),
                "EC384" => made.put("key_type", "p384"),
                "RSA2048" => made.put("key_type", "rsa2048"),
                _ => {}
            }
        }
        self.resolvers.push((name.to_owned(), made));
    }

    /// `tls` of a listener; `names` are the resolvers that its routers name.
    pub(super) fn of_listener(&self, names: &[String]) -> Map {
        let mut tls = Map::default();
        if !self.certificates.is_empty() {
            tls.put("certificates", self.certificates.clone());
        }
        let resolver = self.resolvers.iter().find(|(name, acme)| {
            names.contains(name) && acme.get("email").is_some_and(|email| *email != Value::from(""))
        });
        if let Some((_, acme)) = resolver {
            tls.put("acme", acme.clone());
        }
        if tls.is_empty() {
            tls.put("local", true);
        }
        self.keys.entries().iter().for_each(|(key, value)| tls.put(key.as_str(), value.clone()));
        tls
    }
}

fn certificate(at: &At<'_>) -> Map {
    let text = |key: &str| at.get(key).map_or("", |it| it.text()).to_owned();
    one("cert", text("certFile")).with("key", text("keyFile"))
}
