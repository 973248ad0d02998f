//! Names that ask different things of clients do not lead to one another.

use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, ClientConfig, HandshakeKind};

use super::*;
use crate::client_verifier::{ClientMode, ClientPolicy, Told};
use crate::testing::{Authority, Cuts, Issued, Link, far_client_with};
use crate::{Acceptor, IssuedStore, Refused, Session};

fn asking(clients: &Authority) -> Arc<ClientAuth> {
    let policy = ClientPolicy {
        mode: ClientMode::Required,
        authorities: clients.pem.as_bytes().into(),
        revocations: Vec::new(),
        allow_unknown: false,
        told: Told::default(),
    };
    Arc::new(ClientAuth::new(policy).unwrap())
}

fn entry(issued: &Issued, client_auth: Option<&Arc<ClientAuth>>) -> Entry {
    Entry { certificate: issued.read(), names: Vec::new(), client_auth: client_auth.cloned() }
}

/// `open.test` asks nobody, `closed.test` everybody.
fn two(issuer: &Authority, clients: &Authority, tickets: Option<Arc<Tickets>>) -> Arc<Acceptor> {
    let asked = asking(clients);
    let given = vec![
        entry(&issuer.issue(&["open.test"]), None),
        entry(&issuer.issue(&["closed.test"]), Some(&asked)),
        entry(&issuer.issue(&["as-closed.test"]), Some(&asked)),
    ];
    Arc::new(Acceptor::new(given, Policy::default(), tickets).unwrap())
}

fn shake(acceptor: &Arc<Acceptor>, far: &Arc<ClientConfig>, name: &str) -> Link {
    let mut link = Link::with_client(acceptor, far, name, 3, Cuts::NONE);
    link.run();
    link
}

#[test]
fn only_the_names_that_ask_do() {
    let (issuer, clients) = (Authority::new("servers"), Authority::new("clients"));
    let acceptor = two(&issuer, &clients, None);
    let nobody = Arc::new(far_client_with(&issuer, &TLS13, None));
    assert!(shake(&acceptor, &nobody, "open.test").failure.is_none());
    for name in ["closed.test", "CLOSED.test", "as-closed.test"] {
        let link = shake(&acceptor, &nobody, name);
        assert_eq!(link.failure.unwrap().kind(), Refused::ClientCertificateMissing, "{name}");
    }
    assert!(acceptor.client_auth(None).is_none() && acceptor.client_auth(Some("open.test")).is_none());
    let asked = acceptor.client_auth(Some("closed.test"));
    assert!(asked.is_some() && asked == acceptor.client_auth(Some("as-closed.test")));
}

/// nginx CVE-2025-23419 and its like: a session of one host must not open another.
#[test]
fn no_session_is_resumed_into_a_realm_that_asks_or_out_of_it() {
    let (issuer, clients) = (Authority::new("servers"), Authority::new("clients"));
    let tickets = Arc::new(Tickets::new().unwrap());
    let acceptor = two(&issuer, &clients, Some(Arc::clone(&tickets)));
    // The same names, of which `open.test` asks now: its tickets were given before.
    let asked = asking(&clients);
    let closed = vec![entry(&issuer.issue(&["open.test"]), Some(&asked))];
    let closed = Arc::new(Acceptor::new(closed, Policy::default(), Some(tickets)).unwrap());
    let shown = clients.issue_client("alice", -1..30, 7);
    for version in [&TLS12, &TLS13] {
        let far = Arc::new(far_client_with(&issuer, version, Some(&shown)));
        shake(&acceptor, &far, "open.test");
        let link = shake(&acceptor, &far, "open.test");
        assert_eq!(link.far.handshake_kind(), Some(HandshakeKind::Resumed), "where nothing is asked");
        let link = shake(&closed, &far, "open.test");
        assert_eq!(link.far.handshake_kind(), Some(HandshakeKind::Full), "into one that asks");
        assert!(link.session.identity().is_some());
        for _ in 0..2 {
            let link = shake(&acceptor, &far, "closed.test");
            assert_eq!(link.far.handshake_kind(), Some(HandshakeKind::Full), "within one that asks");
            assert!(link.session.identity().is_some() && !link.session.facts().resumed);
        }
    }
}

/// Hostile input: rustls reads another name than we did.
#[test]
fn a_name_of_another_realm_is_refused_by_the_realm_itself() {
    let (issuer, clients) = (Authority::new("servers"), Authority::new("clients"));
    let acceptor = two(&issuer, &clients, None);
    let realm = |name| Arc::clone(&acceptor.realm(Some(name)).unwrap().config);
    let nobody = Arc::new(far_client_with(&issuer, &TLS13, None));
    for (read, asked) in [("open.test", "closed.test"), ("closed.test", "open.test")] {
        let mut link = Link::with_client(&acceptor, &nobody, asked, 3, Cuts::NONE);
        link.session = Session::of_config(realm(read)).unwrap();
        link.run();
        let alert = rustls::Error::AlertReceived(AlertDescription::AccessDenied);
        assert_eq!(link.far_failure, Some(alert), "{read} {asked}");
        assert!(link.failure.is_some());
    }
}

/// A wildcard behind the name itself is for clients that cannot use its key, not for those that will not be asked.
#[test]
fn a_certificate_of_another_realm_does_not_stand_in() {
    let (issuer, clients) = (Authority::new("servers"), Authority::new("clients"));
    let asked = asking(&clients);
    let closed = issuer.issue_for(&rcgen::PKCS_ED25519, &["x.a.test"]);
    let wide = issuer.issue(&["*.a.test"]);
    let given = vec![entry(&wide, None), entry(&closed, Some(&asked))];
    let acceptor = Arc::new(Acceptor::new(given, Policy::default(), None).unwrap());
    let mut provider = (*provider(&[], &[])).clone();
    let algorithms = &mut provider.signature_verification_algorithms;
    let mapping = algorithms.mapping.iter().filter(|(scheme, _)| *scheme != SignatureScheme::ED25519);
    algorithms.mapping = mapping.copied().collect::<Vec<_>>().leak();
    let far = ClientConfig::builder_with_provider(Arc::new(provider));
    let far = far.with_protocol_versions(&[&TLS13]).unwrap();
    let far = Arc::new(far.with_root_certificates(issuer.roots()).with_no_client_auth());
    assert!(shake(&acceptor, &far, "y.a.test").failure.is_none());
    let link = shake(&acceptor, &far, "x.a.test");
    assert_eq!(link.failure.unwrap().kind(), Refused::NoCertificate);
    assert_eq!(link.far.peer_certificates(), None);
}

#[test]
fn a_name_asks_one_thing() {
    let (issuer, clients) = (Authority::new("servers"), Authority::new("clients"));
    let asked = asking(&clients);
    for (first, second) in [("a.test", "a.test"), ("*.a.test", "*.A.test")] {
        let given = vec![entry(&issuer.issue(&[first]), None), entry(&issuer.issue(&[second]), Some(&asked))];
        let flaw = Acceptor::new(given, Policy::default(), None).unwrap_err();
        assert!(matches!(flaw, PolicyError::ClientAuthDiffers(_)), "{flaw}");
    }
    let given = ["a.test", "*.a.test"].map(|name| entry(&issuer.issue(&[name]), Some(&asked)));
    assert!(Acceptor::new(given.to_vec(), Policy::default(), None).is_ok());
}

#[test]
fn acceptors_that_ask_different_things_are_different() {
    let (issuer, clients) = (Authority::new("servers"), Authority::new("clients"));
    let issued = issuer.issue(&["a.test"]);
    let acceptor = |asked: Option<&Arc<ClientAuth>>| {
        Acceptor::new(vec![entry(&issued, asked)], Policy::default(), None).unwrap()
    };
    let asked = asking(&clients);
    assert_eq!(acceptor(Some(&asked)), acceptor(Some(&asking(&clients))));
    assert_ne!(acceptor(Some(&asked)), acceptor(None));
    assert_ne!(acceptor(Some(&asked)), acceptor(Some(&asking(&issuer))));
}

/// A renewed certificate must not open what was closed.
#[test]
fn other_certificates_ask_what_those_before_them_did() {
    let (issuer, clients) = (Authority::new("servers"), Authority::new("clients"));
    let tickets = Arc::new(Tickets::new().unwrap());
    let before = two(&issuer, &clients, Some(tickets));
    let renewed = |name: &str| (issuer.issue(&[name]).read(), Vec::new());
    let after = vec![renewed("open.test"), renewed("closed.test"), renewed("as-closed.test")];
    assert!(before.with_certificates(after[..2].to_vec()).is_err());
    let after = Arc::new(before.with_certificates(after).unwrap());
    assert_ne!(before.choose(Some("closed.test")), after.choose(Some("closed.test")));
    for name in [None, Some("open.test"), Some("closed.test"), Some("as-closed.test")] {
        assert_eq!(before.client_auth(name), after.client_auth(name));
    }
    // One store of tickets for both.
    let nobody = Arc::new(far_client_with(&issuer, &TLS13, None));
    shake(&before, &nobody, "open.test");
    assert!(shake(&after, &nobody, "open.test").session.facts().resumed);
    let link = shake(&after, &nobody, "closed.test");
    assert_eq!(link.failure.unwrap().kind(), Refused::ClientCertificateMissing);
}

/// `open.test` asks nobody; `a.test`, which an authority issues, asks everybody, and so would `b.test`.
fn issued_beside(issuer: &Authority, clients: &Authority, issued_store: &Arc<IssuedStore>) -> Arc<Acceptor> {
    let issued = crate::Issued {
        issued_store: Arc::clone(issued_store),
        names: vec!["a.test".to_owned(), "b.test".to_owned()],
        on_demand: None,
        client_auth: Some(asking(clients)),
    };
    let given = vec![entry(&issuer.issue(&["open.test"]), None)];
    let tickets = Some(Arc::new(Tickets::new().unwrap()));
    Arc::new(Acceptor::with_issued(given, issued, Policy::default(), tickets).unwrap())
}

#[test]
fn what_an_authority_issues_asks_what_the_listener_asks() {
    let (issuer, clients) = (Authority::new("servers"), Authority::new("clients"));
    let issued_store = IssuedStore::new("m");
    let acceptor = issued_beside(&issuer, &clients, &issued_store);
    issued_store.put("a.test", issuer.issue(&["a.test"]).read());
    let shown = clients.issue_client("alice", -1..30, 7);
    // As it was made, and with files that were renewed.
    let given = vec![(issuer.issue(&["open.test"]).read(), Vec::new())];
    for acceptor in [&acceptor, &Arc::new(acceptor.with_certificates(given).unwrap())] {
        let nobody = Arc::new(far_client_with(&issuer, &TLS13, None));
        assert!(shake(acceptor, &nobody, "open.test").failure.is_none());
        for name in ["a.test", "A.test"] {
            let link = shake(acceptor, &nobody, name);
            assert_eq!(link.failure.unwrap().kind(), Refused::ClientCertificateMissing, "{name}");
        }
        let alice = Arc::new(far_client_with(&issuer, &TLS13, Some(&shown)));
        for _ in 0..2 {
            let link = shake(acceptor, &alice, "a.test");
            assert_eq!(link.far.handshake_kind(), Some(HandshakeKind::Full), "no session is resumed");
            assert!(link.session.identity().is_some());
        }
        assert!(acceptor.client_auth(Some("a.test")).is_some() && acceptor.client_auth(None).is_none());
    }
}

/// The default certificate asks for less than the one that is still to come.
#[test]
fn a_name_whose_certificate_is_still_to_come_is_not_answered_in_another_realm() {
    let (issuer, clients) = (Authority::new("servers"), Authority::new("clients"));
    let issued_store = IssuedStore::new("m");
    let acceptor = issued_beside(&issuer, &clients, &issued_store);
    assert!(acceptor.choose(Some("other.test")).is_some(), "the default answers");
    for name in ["b.test", "B.test", "b.test."] {
        assert!(acceptor.choose(Some(name)).is_none() && acceptor.realm(Some(name)).is_none(), "{name}");
    }
    // Hostile input, or a certificate that came in between: the realm of another name shows nothing of it.
    let open = Arc::clone(&acceptor.realm(Some("open.test")).unwrap().config);
    issued_store.put("b.test", issuer.issue(&["b.test"]).read());
    let nobody = Arc::new(far_client_with(&issuer, &TLS13, None));
    let mut link = Link::with_client(&acceptor, &nobody, "b.test", 3, Cuts::NONE);
    link.session = Session::of_config(open).unwrap();
    link.run();
    assert!(link.failure.is_some() && link.far.peer_certificates().is_none());
}
