//! `listeners.<name>.tls` and `services.<name>.tls`: what their files hold decides, and none of it is shown.

#![expect(clippy::unwrap_used, reason = "a test: a panic is the report")]

mod client_auth;

use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ED25519};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};
use thalweg_config::provenance::Object;
use thalweg_config::{Loaded, Report, check_text, diff, load_file};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A folder of one test, removed when it is over.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("thalweg-tls-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// A pair of files with this name.
    fn pair(&self, name: &str, (certificate, key): &(String, String)) {
        self.write(&format!("{name}.pem"), certificate);
        self.write(&format!("{name}.key"), key);
    }

    fn load(&self, text: &str) -> Result<Loaded, Report> {
        let folder = self.0.to_str().unwrap();
        check_text("t.yaml", &text.replace('@', folder), &|_| None)
    }

    fn loaded(&self, text: &str) -> Loaded {
        self.load(text).unwrap_or_else(|report| panic!("{report}"))
    }

    /// The words and lines of the warnings.
    fn warnings(&self, text: &str) -> Vec<(&'static str, usize)> {
        let report = self.loaded(text).warnings;
        report.errors.iter().map(|error| (error.word(), report.sources.position(error.span).line)).collect()
    }

    /// The lines of the errors, and the messages.
    fn errors(&self, text: &str) -> String {
        let report = self.load(text).expect_err(text);
        let shown = format!("{report}{}", report.lines());
        // As text, or as a list of bytes.
        for part in ["PRIVATE KEY", "MIG", "45, 45"] {
            assert!(!shown.contains(part), "a key is shown in\n{shown}");
        }
        report.lines()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A certificate for these hosts that holds from 1975 to 4096, and its key, in PEM.
fn pair(hosts: &[&str]) -> (String, String) {
    pair_of(hosts, KeyPair::generate().unwrap(), |_| ())
}

fn pair_of(hosts: &[&str], key: KeyPair, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts.clone()).unwrap();
    params.distinguished_name.push(DnType::CommonName, &hosts[0]);
    change(&mut params);
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// A file whose lines 4 and 5 name the certificate and the key; `tls` are further keys of the section, on line 6.
fn with(tls: &str) -> String {
    format!(
        "listeners:\n  web:\n    address: \":443\"\n    tls: {{ certificates: [ {{ cert: \"@/site.pem\",\n      key: \"@/site.key\" }} ]\n      {tls} }}\n\
         routes: [ {{ to: [ \"http://127.0.0.1:9001\" ] }} ]\n"
    )
}

#[test]
fn files_are_read_and_never_shown() {
    let (folder, site) = (Folder::new(), pair(&["example.com"]));
    folder.pair("site", &site);
    let loaded = folder.loaded(&with(""));
    let tls = loaded.plan.listeners[0].tls.as_ref().unwrap();
    assert_eq!(tls.handshake_timeout, Duration::from_secs(10));
    assert_eq!(tls.acceptor.certificates().next().unwrap().names(), ["example.com"]);
    assert!(loaded.warnings.errors.is_empty(), "{}", loaded.warnings);
    let shown = format!("{loaded:?}");
    for line in site.1.lines().filter(|line| !line.starts_with("-----")) {
        assert!(!shown.contains(line), "a line of the key is shown");
    }
    for name in ["site.pem", "site.key"] {
        assert!(loaded.files.contains(&folder.0.join(name)), "{:?}", loaded.files);
    }
}

#[test]
fn another_file_is_noticed() {
    let (folder, site) = (Folder::new(), pair(&["example.com"]));
    folder.pair("site", &site);
    folder.write("t.yaml", &with("").replace('@', folder.0.to_str().unwrap()));
    let inputs = load_file(&folder.0.join("t.yaml")).unwrap().inputs;
    assert!(!inputs.have_changed());
    for (name, text) in [("site.pem", &site.0), ("site.key", &site.1)] {
        folder.write(name, &format!("{text}\n"));
        assert!(inputs.have_changed(), "{name}");
        folder.write(name, text);
        assert!(!inputs.have_changed(), "{name}");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_told_at_its_line() {
    let (folder, site, other) = (Folder::new(), pair(&["a.test"]), pair(&["b.test"]));
    let (certificate, key) = &site;
    let half = |text: &str| text[..text.len() / 2].to_owned();
    for (cert_file, key_file, place) in [
        (certificate.clone(), other.1.clone(), "t.yaml:5:"),
        (certificate.clone(), String::new(), "t.yaml:5:"),
        (certificate.clone(), half(key), "t.yaml:5:"),
        (certificate.clone(), key.replace('\n', ""), "t.yaml:5:"),
        (certificate.clone(), key.replace("KEY-----\nM", "KEY--M"), "t.yaml:5:"),
        (certificate.clone(), format!("{key}{}", other.1), "t.yaml:5:"),
        (certificate.clone(), certificate.clone(), "t.yaml:5:"),
        (key.clone(), key.clone(), "t.yaml:4:"),
        (half(certificate), key.clone(), "t.yaml:4:"),
        (format!("{certificate}{}", other.0), key.clone(), "t.yaml:4:"),
        ("\0".repeat(2 * 1024 * 1024), key.clone(), "t.yaml:4:"),
    ] {
        folder.pair("site", &(cert_file, key_file));
        let said = folder.errors(&with(""));
        assert!(said.starts_with(place) && said.lines().count() == 1, "{place} of {said}");
    }
    folder.pair("site", &site);
    assert!(folder.load(&with("")).is_ok());
    fs::remove_file(folder.0.join("site.key")).unwrap();
    let key = folder.0.join("site.key");
    let expected = format!("t.yaml:5:12: cannot read the file of the key {}: no such file", key.display());
    assert!(folder.errors(&with("")).starts_with(&expected));
}

#[test]
fn every_certificate_is_looked_at() {
    let folder = Folder::new();
    let text = with("").replacen(" } ]", " }, { cert: \"@/a\", key: \"@/b\", names: [ \"*\" ] } ]", 1);
    assert_eq!(folder.errors(&text).lines().count(), 5);
}

#[test]
fn times_are_warned_of() {
    let folder = Folder::new();
    let now = SystemTime::now();
    for (from, until, word) in [
        (now - 90 * DAY, now - DAY, Some("certificate_expired")),
        (now + DAY, now + 90 * DAY, Some("certificate_expired")),
        (now - 90 * DAY, now + 13 * DAY, Some("certificate_expires")),
        (now - 90 * DAY, now + 15 * DAY, None),
    ] {
        let site = pair_of(&["a.test"], KeyPair::generate().unwrap(), |params| {
            (params.not_before, params.not_after) = (from.into(), until.into());
        });
        folder.pair("site", &site);
        let expected: Vec<_> = word.map(|word| (word, 4)).into_iter().collect();
        assert_eq!(folder.warnings(&with("")), expected);
    }
}

#[test]
fn a_key_that_everybody_can_read_is_warned_of() {
    let folder = Folder::new();
    folder.pair("site", &pair(&["a.test"]));
    for (mode, warned) in [(0o644, true), (0o604, true), (0o640, false), (0o600, false)] {
        fs::set_permissions(folder.0.join("site.key"), fs::Permissions::from_mode(mode)).unwrap();
        let expected = if warned { vec![("suspicious", 5)] } else { Vec::new() };
        assert_eq!(folder.warnings(&with("")), expected, "{mode:o}");
    }
    fs::set_permissions(folder.0.join("site.pem"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(folder.warnings(&with("")), [], "everybody may read a certificate");
}

#[test]
fn a_host_that_the_certificate_lacks_is_warned_of() {
    let folder = Folder::new();
    folder.pair("site", &pair(&["a.test", "*.b.test"]));
    let names = |names: &str| with("").replace("site.key\" }", &format!("site.key\", names: [ {names} ] }}"));
    assert_eq!(folder.warnings(&names("a.test, A.test., x.b.test").replace(", A.test.", "")), []);
    assert_eq!(folder.warnings(&names("a.test, c.test")), [("certificate_lacks_name", 5)]);
    assert_eq!(folder.warnings(&names("x.y.b.test")), [("certificate_lacks_name", 5)]);
}

#[test]
fn two_certificates_of_one_kind_for_one_host_are_warned_of() {
    let folder = Folder::new();
    folder.pair("site", &pair(&["a.test", "b.test"]));
    let two = with("").replacen(" } ]", " },\n      { cert: \"@/two.pem\", key: \"@/two.key\" } ]", 1);
    folder.pair("two", &pair(&["c.test", "b.test"]));
    assert_eq!(folder.warnings(&two), [("certificate_twice", 6)]);
    let apart = two.replace("two.key\" }", "two.key\", names: [ c.test ] }");
    assert_eq!(folder.warnings(&apart), []);
    // Another kind of key is there for clients that cannot do the first.
    folder
        .pair("two", &pair_of(&["a.test", "b.test"], KeyPair::generate_for(&PKCS_ED25519).unwrap(), |_| ()));
    assert_eq!(folder.warnings(&two), []);
}

#[test]
fn listeners_may_share_a_certificate() {
    let folder = Folder::new();
    folder.pair("site", &pair(&["a.test"]));
    let text = with("").replace(
        "routes:",
        "  other: { address: \":8443\", tls: { certificates: [ { cert: \"@/site.pem\", key: \"@/site.key\" } ] } }\nroutes:",
    );
    let loaded = folder.loaded(&text);
    assert!(loaded.warnings.errors.is_empty());
    assert_eq!(loaded.plan.listeners[0].tls, loaded.plan.listeners[1].tls);
}

fn told(before: &Loaded, after: &Loaded) -> String {
    let changes = diff((&before.plan, &before.settings), (&after.plan, &after.settings));
    changes.iter().map(|change| format!("{change}\n")).collect()
}

#[test]
fn what_changes_is_told_without_what_is_secret() {
    let (folder, site) = (Folder::new(), pair(&["a.test", "b.test"]));
    folder.pair("site", &site);
    let before = folder.loaded(&with(""));
    assert_eq!(told(&before, &folder.loaded(&with(""))), "");
    let written = "min_version: 1.2, max_version: \"1.3\", unknown_name: default, handshake_timeout: 10s";
    assert_eq!(told(&before, &folder.loaded(&with(&format!(", {written}")))), "", "the defaults");
    for (tls, expected) in [
        (", min_version: \"1.3\"", "tls.min_version: 1.2 → 1.3"),
        (", max_version: \"1.2\"", "tls.max_version: 1.3 → 1.2"),
        (", unknown_name: refuse", "tls.unknown_name: default → refuse"),
        (", handshake_timeout: 5s", "tls.handshake_timeout: 10s → 5s"),
        (", groups: [ X25519 ]", "tls.groups: built in → [X25519]"),
        (
            ", min_version: \"1.3\", suites: [ TLS_AES_128_GCM_SHA256 ]",
            "tls.min_version: 1.2 → 1.3\n    tls.suites: all → [TLS_AES_128_GCM_SHA256]",
        ),
    ] {
        let expected = format!("~ listener `web`\n    {expected}\n");
        assert_eq!(told(&before, &folder.loaded(&with(tls))), expected);
    }
    let named = with("").replace("site.key\" }", "site.key\", names: [ b.test ] }");
    let expected = "~ listener `web`\n    tls.certificates[0].names: none → [b.test]\n";
    assert_eq!(told(&before, &folder.loaded(&named)), expected);

    // The same key with another certificate, and another key.
    for renewed in [pair_of(&["a.test"], KeyPair::from_pem(&site.1).unwrap(), |_| ()), pair(&["a.test"])] {
        folder.pair("site", &renewed);
        let told = told(&before, &folder.loaded(&with("")));
        let change = "~ listener `web`\n    tls.certificates[0]: sha256 ";
        assert!(told.starts_with(change) && told.ends_with("… (a.test)\n"), "{told}");
    }
    let plain =
        "listeners: { web: { address: \":443\" } }\nroutes: [ { to: [ \"http://127.0.0.1:9001\" ] } ]\n";
    let told = told(&before, &folder.loaded(plain));
    assert!(told.contains("tls.certificates[0]: sha256 ") && told.contains(" → none"), "{told}");
}

/// What is sent behind the certificate has no name of its own.
#[test]
fn another_chain_behind_the_same_certificate_is_a_change() {
    let folder = Folder::new();
    let (site, root) = (pair(&["a.test"]), pair(&["a.test"]));
    folder.pair("site", &site);
    let before = folder.loaded(&with(""));
    // Its issuer by name.
    folder.write("site.pem", &format!("{}{}", site.0, root.0));
    let told = told(&before, &folder.loaded(&with("")));
    assert_eq!(told, "~ listener `web`\n    tls.certificates[0]: changed (not shown)\n");
}

#[test]
fn a_value_knows_its_line() {
    let folder = Folder::new();
    folder.pair("site", &pair(&["a.test"]));
    let loaded = folder.loaded(&with(", min_version: \"1.3\""));
    for (field, origin) in [
        ("tls.certificates[0].cert", "t.yaml:4"),
        ("tls.certificates[0].key", "t.yaml:5"),
        ("tls.min_version", "t.yaml:6"),
        ("tls.max_version", "built in"),
    ] {
        assert_eq!(loaded.provenance.of(Object::Listener("web"), field).to_string(), origin, "{field}");
    }
}

#[test]
fn a_name_that_no_certificate_can_have_is_told_where_it_stands() {
    let folder = Folder::new();
    folder.pair("site", &pair(&["a.test"]));
    let text = with("").replace("site.key\" }", "site.key\",\n      names: [ a.test, -b.test ] }");
    assert_eq!(folder.errors(&text), "t.yaml:6:24: `-b.test` is not a host name\n");
}

/// Who forgets it must not serve in the clear.
#[test]
fn a_section_without_content_is_an_error() {
    let folder = Folder::new();
    for tls in ["tls:\n", "tls: {}\n", "tls: { certificates: null }\n", "tls: { certificates: }\n"] {
        let text = format!(
            "listeners:\n  web:\n    address: \":443\"\n    {tls}routes: [ {{ to: [ \"http://127.0.0.1:9001\" ] }} ]\n"
        );
        assert!(folder.errors(&text).starts_with("t.yaml:4:"), "{tls}");
    }
}

/// A path is relative to the working directory, as that of a secret is.
#[test]
fn a_path_that_leads_nowhere_is_told_as_it_is_written() {
    assert!(!Path::new("no/site.pem").exists());
    let report = check_text("t.yaml", &with("").replace("@/", "no/"), &|_| None).err().unwrap();
    assert!(report.to_string().contains("cert: \"no/site.pem\""), "{report}");
}

/// A service `s` with these endpoints and keys of `tls`.
fn service(endpoints: &str, tls: &str) -> String {
    format!(
        "listeners: {{ web: {{ address: \":1\" }} }}\nroutes: [ {{ to: s }} ]\nservices:\n  s:\n    \
         endpoints: [ {endpoints} ]\n    tls: {{ {tls} }}\n"
    )
}

#[test]
fn what_endpoints_must_show_is_read_with_the_configuration() {
    let folder = Folder::new();
    folder.pair("ca", &pair(&["a.test"]));
    folder.pair("own", &pair(&["client.test"]));
    let text = service("\"https://10.0.0.1\"", "ca: @/ca.pem, cert: @/own.pem, key: @/own.key");
    let loaded = folder.loaded(&text);
    let terms = |loaded: &Loaded| loaded.plan.services[0].tls.clone().unwrap();
    let paths = loaded.inputs.paths();
    for name in ["ca.pem", "own.pem", "own.key"] {
        assert!(paths.contains(&folder.0.join(name)), "{name}: {paths:?}");
    }
    assert_eq!(terms(&loaded), terms(&folder.loaded(&text)));
    assert!(folder.warnings(&text).is_empty());
    let shown = format!("{:?}", loaded.plan);
    assert!(!shown.contains("PRIVATE KEY") && !shown.contains("45, 45, 45"), "a key is shown");
    folder.pair("ca", &pair(&["a.test"]));
    assert_ne!(terms(&loaded), terms(&folder.loaded(&text)));
    // Without a word of it, those whom the system trusts are.
    let text = "listeners: { web: { address: \":1\" } }\nroutes: [ { to: [ \"https://a.test\", \"http://b.test\" ] } ]\n";
    assert!(folder.loaded(text).plan.services[0].tls.is_some());
    assert!(folder.loaded(&text.replace("https", "http")).plan.services[0].tls.is_none());
}

#[test]
fn what_changes_of_terms_is_told() {
    let folder = Folder::new();
    folder.pair("ca", &pair(&["a.test"]));
    folder.pair("own", &pair(&["client.test"]));
    let with = |tls: &str| folder.loaded(&service("\"https://10.0.0.1\"", tls));
    let own = "cert: @/own.pem, key: @/own.key";
    let (before, after) =
        (with("ca: @/ca.pem"), with(&format!("insecure_skip_verify: true, {own}, server_name: b.test")));
    let told = told(&before, &after);
    for words in
        ["tls.ca", "tls.insecure_skip_verify", "tls.server_name", "b.test", "tls.cert", "(client.test)"]
    {
        assert!(told.contains(words), "{words} is not told in\n{told}");
    }
    assert!(!told.contains("BEGIN"), "{told}");
}

#[test]
fn who_verifies_nobody_is_warned() {
    let folder = Folder::new();
    folder.pair("ca", &pair(&["a.test"]));
    let skips = |tls: &str| folder.warnings(&service("\"https://10.0.0.1\"", tls));
    assert_eq!(skips("insecure_skip_verify: true, ca: @/ca.pem"), [("insecure_skip_verify", 6)]);
    assert_eq!(skips("insecure_skip_verify: false, ca: @/ca.pem"), []);
    let partly = |urls: &str| folder.warnings(&service(urls, "ca: @/ca.pem"));
    assert_eq!(partly("\"https://10.0.0.1\", \"http://10.0.0.2\""), [("endpoints_partly_secure", 4)]);
    assert_eq!(partly("\"https://10.0.0.1\", \"unix:/run/a.sock\""), []);
}

#[test]
fn a_certificate_for_endpoints_that_has_expired_is_warned_of() {
    let folder = Folder::new();
    folder.pair("ca", &pair(&["a.test"]));
    let past = SystemTime::now() - 3 * DAY;
    let old =
        pair_of(&["client.test"], KeyPair::generate().unwrap(), |params| params.not_after = past.into());
    folder.pair("own", &old);
    let text = service("\"https://10.0.0.1\"", "ca: @/ca.pem,\n      cert: @/own.pem, key: @/own.key");
    assert_eq!(folder.warnings(&text), [("certificate_expired", 7)]);
}

#[test]
fn a_file_without_a_usable_certificate_is_told_at_its_line() {
    let folder = Folder::new();
    let (certificate, key) = pair(&["a.test"]);
    folder.pair("a", &(certificate.clone(), key));
    folder.write("cut.pem", &certificate[..certificate.len() - 60]);
    folder.pair("b", &pair(&["b.test"]));
    for (tls, said) in [
        ("ca: @/a.key", "no certificate"),
        ("ca: @/cut.pem", "certificate 1"),
        ("ca: @/a.pem, cert: @/a.pem, key: @/b.key", "another certificate"),
        ("ca: @", "it is a directory"),
    ] {
        let lines = folder.errors(&service("\"https://10.0.0.1\"", tls));
        assert!(lines.starts_with("t.yaml:6:") && lines.contains(said), "{tls}: {lines}");
    }
}

#[test]
fn authorities_of_sources_and_stores_are_read_with_the_configuration() {
    let folder = Folder::new();
    folder.pair("a", &pair(&["a.test"]));
    let head = "listeners: { web: { address: ':1' } }\n";
    let (source, store) = ("consul: { service: s, url: 'https://h:1'", "url: 'rediss://h:1'");
    for file in ["a.pem", "a.key"] {
        let found = format!(
            "{head}routes: [ {{ to: s }} ]\nservices: {{ s: {{ discover: {{ {source}, ca: @/{file} }} }} }} }}"
        );
        let limited = format!(
            "{head}routes: [ {{ to: ['http://h:1'], filters: [ {{ rate_limit: {{ requests: 1, per: 1s, \
             store: {{ redis: {{ {store}, ca: @/{file} }} }} }} }} ] }} ]"
        );
        for text in [found, limited] {
            match file {
                "a.pem" => drop(folder.warnings(&text)),
                _ => assert!(folder.errors(&text).contains("cannot be used: "), "{text}"),
            }
        }
    }
}

/// With an authority beside the file of a certificate.
fn asking(acme: &str, routes: &str) -> String {
    format!(
        "listeners:\n  web:\n    address: ':443'\n    tls:\n      certificates: [ {{ cert: '@/site.pem', key: '@/site.key' }} ]\n      \
         acme: {{ email: \"ops\\x40example.com\"{acme} }}\n  other: {{ address: ':80' }}\nroutes:\n{routes}\n"
    )
}

#[test]
fn without_domains_the_hosts_of_its_routes_are_asked_for() {
    let folder = Folder::new();
    folder.pair("site", &pair(&["www.a.test", "*.files.test"]));
    let to = "to: [ 'http://127.0.0.1:9001' ]";
    let routes = format!(
        "  - {{ match: {{ host: [ B.test, '*.c.test', www.a.test, x.files.test ] }}, {to} }}\n  \
           - {{ match: {{ host: b.test, path: /x }}, {to} }}\n  \
           - {{ match: {{ host: [ '192.0.2.1', d.test ] }}, listeners: [ web, other ], {to} }}\n  \
           - {{ match: {{ host: e.test }}, listeners: [ other ], {to} }}\n"
    );
    let loaded = folder.loaded(&asking("", &routes));
    let tls = loaded.plan.listeners[0].tls.clone().unwrap();
    let asked = tls.acme.clone().unwrap();
    assert_eq!(asked.domains, ["b.test", "d.test"]);
    assert_eq!(tls.acceptor.issued().unwrap().names, asked.domains);
    assert_eq!(asked.directory.text(), thalweg_tls::acme::DIRECTORY);
}

#[test]
fn what_is_asked_of_an_authority_is_told_field_by_field_and_secrets_are_not() {
    let folder = Folder::new();
    folder.pair("site", &pair(&["www.a.test"]));
    let routes = "  - { to: [ 'http://127.0.0.1:9001' ] }";
    let dns = |arguments: &str, secret: &str| {
        let hook = format!("exec: [ hook, {arguments} ]");
        let eab = format!("eab: {{ key_id: k, hmac: {{ value: {secret} }} }}");
        asking(&format!(", challenge: dns, domains: [ b.test ], dns: {{ {hook} }}, {eab}"), routes)
    };
    let before = folder.loaded(&dns("one", "aaaaaaaaaaaaaaaaaaaa"));
    let same = folder.loaded(&dns("one", "aaaaaaaaaaaaaaaaaaaa"));
    assert_eq!(told(&before, &same), "");
    let after = folder.loaded(&dns("two", "bbbbbbbbbbbbbbbbbbbb"));
    let told = told(&before, &after);
    assert!(told.contains("tls.acme.dns.exec") && told.contains("tls.acme.eab.hmac"), "{told}");
    assert!(["one", "two", "aaaa", "bbbb"].iter().all(|secret| !told.contains(secret)), "{told}");
}
