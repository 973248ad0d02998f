//! `client_auth`: files of authorities and of revoked certificates.

use super::{DAY, Folder, pair, told};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod,
    KeyPair,
};
use std::time::SystemTime;
use thalweg_config::load_file;
use thalweg_config::protections::lost;

/// An authority in PEM, valid until so many days from now, and a list that it has signed and that holds as long.
fn authority(days: u32) -> (String, String) {
    let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::new(Vec::new()).unwrap());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "Clients");
    let until = SystemTime::now() - 10 * DAY + days * DAY;
    (params.not_before, params.not_after) = ((until - 100 * DAY).into(), until.into());
    let list = CertificateRevocationListParams {
        this_update: params.not_before,
        next_update: params.not_after,
        crl_number: 1.into(),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let pem = params.self_signed(&key).unwrap().pem();
    (pem, list.signed_by(&Issuer::new(params, key)).unwrap().pem().unwrap())
}

/// A folder with the pair `site`, `ca.pem` and `crl.pem`, which hold for 10 days less than that.
fn folder(days: u32) -> Folder {
    let (folder, (ca, crl)) = (Folder::new(), authority(days));
    folder.pair("site", &pair(&["a.test"]));
    folder.write("ca.pem", &ca);
    folder.write("crl.pem", &crl);
    folder
}

/// A file that names the authority on line 6 and the list on line 7.
fn with(more: &str) -> String {
    super::with(&format!(
        ", client_auth: {{ ca: \"@/ca.pem\",\n      crl: [ \"@/crl.pem\" ]\n      {more} }}"
    ))
}

#[test]
fn another_file_is_noticed_and_is_a_change() {
    let folder = folder(100);
    folder.write("t.yaml", &with("").replace('@', folder.0.to_str().unwrap()));
    let before = load_file(&folder.0.join("t.yaml")).unwrap();
    assert!(before.warnings.errors.is_empty(), "{}", before.warnings);
    let other = authority(100);
    for (name, text) in [("ca.pem", &other.0), ("crl.pem", &other.1)] {
        assert!(!before.inputs.have_changed());
        let old = std::fs::read_to_string(folder.0.join(name)).unwrap();
        folder.write(name, text);
        assert!(before.inputs.have_changed(), "{name}");
        let key = name.trim_end_matches(".pem");
        let after = load_file(&folder.0.join("t.yaml")).unwrap();
        let shown = told(&before, &after);
        let expected = format!("~ listener `web`\n    tls.client_auth.{key}: sha256 ");
        assert!(shown.starts_with(&expected) && shown.ends_with("… (CN=Clients)\n"), "{shown}");
        assert_ne!(before.plan.listeners[0].tls, after.plan.listeners[0].tls);
        folder.write(name, &old);
    }
}

#[test]
fn every_word_is_a_change() {
    let folder = folder(100);
    let before = folder.loaded(&with(""));
    assert_eq!(
        told(&before, &folder.loaded(&with(", mode: required, crl_unknown: deny, forward: [ subject ]"))),
        ""
    );
    for (more, expected) in [
        (", mode: optional", "tls.client_auth.mode: required → optional"),
        (", crl_unknown: allow", "tls.client_auth.crl_unknown: deny → allow"),
        (", forward: []", "tls.client_auth.forward: [subject] → []"),
        (
            ", forward: [ certificate, fingerprint, san ]",
            "tls.client_auth.forward: [subject] → [san, fingerprint, certificate]",
        ),
    ] {
        let shown = told(&before, &folder.loaded(&with(more)));
        assert_eq!(shown, format!("~ listener `web`\n    {expected}\n"));
    }
    let shown = told(&folder.loaded(&super::with("")), &before);
    assert!(shown.contains("tls.client_auth.mode: none → required\n"), "{shown}");
}

#[test]
fn what_is_wrong_with_a_file_is_told_at_its_line() {
    let folder = folder(100);
    let (ca, crl) = authority(100);
    let half = |text: &str| text[..text.len() / 2].to_owned();
    for (authorities, list, place) in [
        (String::new(), crl.clone(), "t.yaml:6:"),
        (crl.clone(), crl.clone(), "t.yaml:6:"),
        (half(&ca), crl.clone(), "t.yaml:6:"),
        (ca.clone(), String::new(), "t.yaml:7:"),
        (ca.clone(), ca.clone(), "t.yaml:7:"),
        (ca.clone(), half(&crl), "t.yaml:7:"),
        (ca.clone(), "0\u{1}".to_owned(), "t.yaml:7:"),
        (ca.clone(), "\0".repeat(2 * 1024 * 1024), "t.yaml:7:"),
    ] {
        folder.write("ca.pem", &authorities);
        folder.write("crl.pem", &list);
        let said = folder.errors(&with(""));
        assert!(said.starts_with(place) && said.lines().count() == 1, "{place} of {said}");
    }
}

#[test]
fn what_has_expired_is_warned_of() {
    assert_eq!(folder(11).warnings(&with("")), []);
    let folder = folder(9);
    assert_eq!(folder.warnings(&with("")), [("client_ca_expired", 6), ("crl_expired", 7)]);
}

#[test]
fn a_certificate_says_what_its_own_clients_show() {
    let folder = folder(100);
    folder.pair("two", &pair(&["b.test"]));
    let two = |own: &str, common: &str| {
        let text = super::with(common);
        text.replacen(" } ]", &format!(" }}, {{ cert: \"@/two.pem\", key: \"@/two.key\"{own} }} ]"), 1)
    };
    let own = ", client_auth: { ca: \"@/ca.pem\", mode: optional }";
    let common = ", client_auth: { ca: \"@/ca.pem\" }";
    for (own, common, expected) in [
        ("", "", [None, None]),
        (own, "", [None, Some("Optional")]),
        ("", common, [Some("Required"), Some("Required")]),
        (own, common, [Some("Required"), Some("Optional")]),
    ] {
        let loaded = folder.loaded(&two(own, common));
        let tls = loaded.plan.listeners[0].tls.as_ref().unwrap();
        let modes = tls.acceptor.client_auths().map(|asked| asked.map(|asked| format!("{:?}", asked.mode())));
        let modes: Vec<_> = modes.collect();
        assert_eq!(modes.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
    }
    // Of one host nobody can ask two things.
    folder.pair("two", &pair(&["c.test", "a.test"]));
    let said = folder.errors(&two(own, ""));
    assert_eq!(said, "t.yaml:4:26: certificates for `a.test` ask different things of clients\n");
}

/// A certificate that the proxy makes itself, another order or another name of a certificate, or a listener without:
/// all of them let clients in that show no certificate.
#[test]
fn no_change_leads_around_the_certificates_of_clients() {
    let folder = folder(100);
    folder.pair("two", &pair(&["b.test"]));
    let asked = "client_auth: { ca: \"@/ca.pem\" }";
    let one = format!("{{ cert: \"@/site.pem\", key: \"@/site.key\", {asked} }}");
    let two = "{ cert: \"@/two.pem\", key: \"@/two.key\" }";
    let file = |listener: &str, host: &str| {
        let text = format!(
            "listeners: {{ {listener} }}\nservices: {{ s: {{ endpoints: [ \"http://127.0.0.1:9001\" ] }} }}\n\
             routes: [ {{ name: a, match: {{ {host} }}, to: s }} ]\n"
        );
        folder.loaded(&text)
    };
    let lost = |before: (&str, &str), after: (&str, &str)| {
        let lost = lost(&file(before.0, before.1).plan, &file(after.0, after.1).plan);
        lost.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let certificates = |list: &str, more: &str| {
        format!("web: {{ address: \":443\", tls: {{ certificates: [ {list} ]{more} }} }}")
    };
    let (alone, both) = (certificates(&one, ""), certificates(&format!("{one}, {two}"), ""));
    let (any, of_a, of_b) = ("path: /*", "host: a.test", "host: b.test");
    let renamed = format!("{{ cert: \"@/site.pem\", key: \"@/site.key\", names: [ c.test ], {asked} }}");
    let below = "host: '*.a.test'";
    for (before, after) in [
        ((&alone, any), (&certificates(&one, ", local: true"), any)),
        ((&alone, any), (&"web: { address: \":443\", tls: { local: true } }".to_owned(), any)),
        ((&alone, of_a), (&"web: { address: \":443\", tls: { local: true } }".to_owned(), of_a)),
        ((&alone, any), (&both, any)),
        ((&alone, below), (&certificates(&format!("{two}, {one}"), ""), below)),
        ((&both, of_a), (&certificates(&format!("{two}, {renamed}"), ""), of_a)),
        ((&both, of_a), (&both, of_b)),
        ((&alone, of_a), (&"other: { address: \":8443\", tls: { local: true } }".to_owned(), of_a)),
        ((&alone, any), (&"other: { address: \":80\" }".to_owned(), any)),
        ((&alone, any), (&format!("{alone}, other: {{ address: \":80\" }}"), any)),
        (
            (&alone, any),
            (&certificates(&one.replace("client_auth: {", "client_auth: { mode: optional,"), ""), any),
        ),
    ] {
        let told = lost((before.0, before.1), (after.0, after.1));
        assert!(
            told.contains("`routes.a` has no `client_auth of the listener`"),
            "{before:?} {after:?}: {told}"
        );
    }
    let common = format!(", {asked}");
    for (before, after) in [
        ((&alone, any), (&alone, of_b)),
        ((&both, of_a), (&certificates(&format!("{two}, {one}"), ""), of_a)),
        // What the proxy makes itself asks what the listener asks.
        ((&alone, any), (&certificates(&one, &format!("{common}, local: true")), any)),
        (
            (&certificates(two, &common), any),
            (&format!("other: {{ address: \":8443\", tls: {{ local: true{common} }} }}"), any),
        ),
        // Clients may come without one already.
        ((&both, any), (&certificates(&format!("{two}, {one}"), ", local: true"), any)),
        ((&both, of_b), (&certificates(two, ""), of_b)),
    ] {
        assert_eq!(lost((before.0, before.1), (after.0, after.1)), "", "{before:?} {after:?}");
    }
}
