//! What is kept, and how.

use super::*;
use std::os::unix::fs::PermissionsExt;
use thalweg_http::HttpUrl;
use thalweg_tls::acme::DIRECTORY;
use thalweg_tls::{AcmeChallenge, AcmeKeyType};

pub(crate) fn policy(directory: &str) -> AcmePolicy {
    AcmePolicy {
        email: "ops@example.com".to_owned(),
        challenge: AcmeChallenge::TlsAlpn,
        domains: vec!["a.test".to_owned()],
        directory: HttpUrl::parse(directory).unwrap(),
        directory_ca: None,
        key_type: AcmeKeyType::P256,
        eab: None,
        dns: None,
        on_demand: None,
        profile: None,
    }
}

/// A directory that goes with the test.
pub(crate) struct State(pub(crate) PathBuf);

impl State {
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("thalweg-keep-{name}-{}", std::process::id())))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pair(name: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

#[test]
fn a_certificate_is_read_as_it_was_kept_and_only_its_owner_can() {
    let state = State::new("certificate");
    let archive = Archive::of(&state.0, &policy(DIRECTORY));
    let drawer = archive.drawer(&policy(DIRECTORY), "*.a.test");
    assert!(drawer.certificate().is_none());
    for _ in 0..2 {
        let (chain, key) = pair("*.a.test");
        drawer.keep_certificate(&chain, &key).unwrap();
        assert_eq!(drawer.certificate().unwrap().names(), ["*.a.test"]);
        assert!(drawer.has_come(&key) && !drawer.has_come(&pair("x").1) && !drawer.has_come(""));
    }
    assert_eq!(archive.names(&policy(DIRECTORY)), ["*.a.test"]);
    let mut entries = vec![state.0.clone()];
    let mut files = 0;
    while let Some(path) = entries.pop() {
        let metadata = fs::metadata(&path).unwrap();
        let mode = metadata.permissions().mode() & 0o777;
        if metadata.is_dir() {
            assert_eq!(mode, 0o700, "{path:?}");
            entries.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            assert_eq!(mode, 0o600, "{path:?}");
            files += 1;
        }
    }
    assert_eq!(files, 1, "nothing is left beside it");
}

#[test]
fn what_a_crash_has_left_is_in_nobodys_way() {
    let state = State::new("crash");
    let archive = Archive::of(&state.0, &policy(DIRECTORY));
    let drawer = archive.drawer(&policy(DIRECTORY), "a.test");
    let order = OrderSpec { url: "https://a/1".to_owned(), key: "k".to_owned() };
    drawer.keep_order(&order).unwrap();
    fs::write(drawer.directory.join("order.json.new"), b"{\"url\": ").unwrap();
    fs::write(drawer.directory.join("certificate.pem"), b"-----BEGIN CERT").unwrap();
    assert!(drawer.order() == Some(order.clone()) && drawer.certificate().is_none());
    drawer.keep_order(&order).unwrap();
    drawer.forget_order().unwrap();
    drawer.forget_order().unwrap();
    assert!(drawer.order().is_none());
}

#[test]
fn authorities_kinds_and_profiles_have_places_of_their_own() {
    let state = Path::new("/s");
    let place = |policy: &AcmePolicy| Archive::of(state, policy).drawer(policy, "a.test").directory;
    let first = policy(DIRECTORY);
    let others = [
        policy("https://acme-v02.api.letsencrypt.org/other"),
        AcmePolicy { key_type: AcmeKeyType::Rsa2048, ..first.clone() },
        AcmePolicy { profile: Some("shortlived".to_owned()), ..first.clone() },
    ];
    for (at, other) in others.iter().enumerate() {
        assert_ne!(place(&first), place(other));
        assert!(others[at + 1..].iter().all(|another| place(another) != place(other)));
    }
    assert_eq!(place(&first), place(&AcmePolicy { email: "other@example.com".to_owned(), ..first.clone() }));
    assert!(place(&first).starts_with("/s/acme"));
}

#[test]
fn a_damaged_account_is_told_and_not_overwritten() {
    let state = State::new("account");
    let archive = Archive::of(&state.0, &policy(DIRECTORY));
    assert!(archive.account().unwrap().is_none());
    make_directory(&archive.directory).unwrap();
    fs::write(archive.directory.join("account.json"), b"{\"key\": \"secret\"").unwrap();
    let why = archive.account().err().unwrap().to_string();
    assert!(why.ends_with("account.json is damaged; remove it") && !why.contains("secret"), "{why}");
    archive.set_account_aside("https://a.test/1").unwrap_err();
}

#[test]
fn an_account_is_set_aside_and_not_the_one_that_another_process_has_made_since() {
    let state = State::new("aside");
    let archive = Archive::of(&state.0, &policy(DIRECTORY));
    make_directory(&archive.directory).unwrap();
    let credentials = r#"{ "id": "https://a.test/2", "key_pkcs8": "AAAA", "directory": "https://a.test/" }"#;
    let account = format!("{{ \"email\": \"a@a.test\", \"credentials\": {credentials} }}");
    fs::write(archive.directory.join("account.json"), account).unwrap();
    archive.set_account_aside("https://a.test/1").unwrap();
    assert!(archive.account().unwrap().is_some(), "it is another one");
    archive.set_account_aside("https://a.test/2").unwrap();
    assert!(archive.account().unwrap().is_none());
    archive.set_account_aside("https://a.test/2").unwrap();
    assert!(archive.directory.join("account.gone.json").is_file());
}
