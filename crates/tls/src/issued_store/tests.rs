//! What is shown when, and who waits for what.

use std::sync::atomic::AtomicUsize;
use std::task::Wake;

use super::*;
use crate::acme::OnDemandPolicy;
use crate::testing::{Authority, Cuts, Link};
use crate::{Acceptor, Issued, PeerPolicy, PeerTerms, Policy, Refused, Trust, UnknownName};

fn issued(authority: &Authority, name: &str) -> Arc<Certificate> {
    authority.issue_for(&rcgen::PKCS_ECDSA_P256_SHA256, &[name]).read()
}

fn acceptor(issued_store: &Arc<IssuedStore>, names: &[&str], on_demand: Option<&[&str]>) -> Acceptor {
    let on_demand = on_demand.map(|allow| OnDemandPolicy {
        allow: allow.iter().map(|name| (*name).to_owned()).collect(),
        ask: None,
        per_hour: 1,
    });
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let issued = Issued { issued_store: Arc::clone(issued_store), names, on_demand, client_auth: None };
    Acceptor::with_issued(Vec::new(), issued, Policy::default(), None).unwrap()
}

fn chosen(acceptor: &Acceptor, name: Option<&str>) -> Option<Vec<String>> {
    acceptor.choose(name).map(|certificate| certificate.names().to_vec())
}

fn hello(name: &str, alpn: &[&str]) -> Hello {
    let alpn = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Hello { name: Some(name.to_owned()), alpn, ..Hello::default() }
}

/// Has the name checked by a client that looks for this extension (RFC 8737 §6.1).
fn check(issued_store: &IssuedStore, name: &str) {
    let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.custom_extensions = vec![rcgen::CustomExtension::new_acme_identifier(&[7; 32])];
    let key = rcgen::KeyPair::generate().unwrap();
    let chain = params.self_signed(&key).unwrap().pem();
    issued_store.challenge(name, chain.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
}

/// Counts how often it is woken.
#[derive(Default)]
struct Rung(AtomicUsize);

impl Wake for Rung {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_certificate_takes_the_place_of_its_stand_in_and_not_the_other_way() {
    let (authority, issued_store) = (Authority::new("ca"), IssuedStore::new("m"));
    let (first, second) = (issued(&authority, "first.test"), issued(&authority, "second.test"));
    issued_store.stand_in("a.test", Arc::clone(&first));
    assert_eq!((issued_store.get("a.test"), issued_store.has("a.test")), (Some(Arc::clone(&first)), false));
    issued_store.put("a.test", Arc::clone(&second));
    issued_store.stand_in("a.test", first);
    assert_eq!((issued_store.get("a.test"), issued_store.has("a.test")), (Some(second), true));
    issued_store.remove("a.test");
    assert_eq!(issued_store.get("a.test"), None);
}

#[test]
fn listeners_with_the_same_mark_share_a_shelf() {
    let issued_store = IssuedStore::of_process("shared by a test");
    assert!(Arc::ptr_eq(&issued_store, &IssuedStore::of_process("shared by a test")));
    assert!(!Arc::ptr_eq(&issued_store, &IssuedStore::of_process("another one")));
}

#[test]
fn a_listener_shows_its_own_names_alone() {
    let (authority, issued_store) = (Authority::new("ca"), IssuedStore::new("m"));
    for name in ["a.test", "*.w.test", "b.test"] {
        issued_store.put(name, issued(&authority, name));
    }
    let listener = acceptor(&issued_store, &["a.test", "*.W.test"], None);
    let names = |name: &str| Some(vec![name.to_owned()]);
    assert_eq!(chosen(&listener, Some("A.test")), names("a.test"));
    assert_eq!(chosen(&listener, Some("x.w.test")), names("*.w.test"));
    // Of what it does not have, nothing but the first one is shown.
    for name in [None, Some("b.test"), Some("w.test"), Some("x.y.w.test"), Some(".w.test")] {
        assert_eq!(chosen(&listener, name), names("a.test"), "{name:?}");
    }
}

#[test]
fn certificates_of_the_configuration_go_first() {
    let (authority, issued_store) = (Authority::new("ca"), IssuedStore::new("m"));
    let file = authority.issue_for(&rcgen::PKCS_ECDSA_P256_SHA256, &["a.test", "file.test"]).read();
    issued_store.put("a.test", issued(&authority, "a.test"));
    issued_store.put("b.test", issued(&authority, "b.test"));
    let issued = Issued {
        issued_store: Arc::clone(&issued_store),
        names: vec!["a.test".to_owned(), "b.test".to_owned()],
        on_demand: None,
        client_auth: None,
    };
    let policy = Policy { unknown_name: UnknownName::Refuse, ..Policy::default() };
    let both =
        Acceptor::with_issued(vec![(Arc::clone(&file), Vec::new()).into()], issued, policy, None).unwrap();
    assert_eq!(both.choose(Some("a.test")), Some(Arc::clone(&file)));
    assert_eq!(chosen(&both, Some("b.test")), Some(vec!["b.test".to_owned()]));
    assert_eq!((both.choose(None), both.choose(Some("c.test"))), (Some(file), None));
}

#[test]
fn only_who_offers_that_protocol_alone_sees_the_certificate_of_a_check() {
    let (authority, issued_store) = (Authority::new("ca"), IssuedStore::new("m"));
    let listener = acceptor(&issued_store, &["a.test"], None);
    issued_store.put("a.test", issued(&authority, "a.test"));
    let asks = hello("a.test", &["acme-tls/1"]);
    assert_eq!(listener.realm_for(&asks).unwrap_err(), Refused::UnknownName);
    check(&issued_store, "a.test");
    let config = listener.realm_for(&asks).unwrap().config;
    assert_eq!(config.alpn_protocols, [b"acme-tls/1"]);
    for others in [&["acme-tls/1", "http/1.1"][..], &["http/1.1"], &[]] {
        let config = listener.realm_for(&hello("a.test", others)).unwrap().config;
        assert!(!config.alpn_protocols.contains(&b"acme-tls/1".to_vec()), "{others:?}");
    }
    assert_eq!(listener.realm_for(&hello("b.test", &["acme-tls/1"])).unwrap_err(), Refused::UnknownName);
    issued_store.end_challenge("a.test");
    assert_eq!(listener.realm_for(&asks).unwrap_err(), Refused::UnknownName);
}

#[test]
fn a_client_that_checks_a_name_shakes_hands() {
    let issued_store = IssuedStore::new("m");
    let listener = Arc::new(acceptor(&issued_store, &["a.test"], None));
    check(&issued_store, "a.test");
    let terms = PeerTerms::new(PeerPolicy { trust: Trust::InsecureSkipVerify, ..PeerPolicy::default() });
    let mut far = (*terms.unwrap().config()).clone();
    far.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let mut link = Link::with_client(&listener, &Arc::new(far), "a.test", 0, Cuts::NONE);
    link.run();
    let facts = link.session.facts();
    assert_eq!(facts.alpn.as_deref(), Some(&b"acme-tls/1"[..]));
    assert!(facts.is_check());
}

#[test]
fn who_waits_is_woken_when_the_certificate_comes_and_when_it_does_not() {
    let (authority, issued_store) = (Authority::new("ca"), IssuedStore::new("m"));
    let (bell, seat) = (Arc::new(Rung::default()), Arc::new(Rung::default()));
    let (told, waits) = (Waker::from(Arc::clone(&bell)), Waker::from(Arc::clone(&seat)));
    let listener = acceptor(&issued_store, &[], Some(&["*.d.test"]));
    let want = |name: &str| listener.want(&hello(name, &[]), Instant::now(), &waits);
    assert_eq!(want("other.test"), None, "it is not allowed");
    assert_eq!(want("a.d.test"), Some(OnDemand::Refused), "nobody is there who could ask");
    assert!(issued_store.take_wanted(&told).is_empty());
    assert_eq!((want("a.d.test"), want("a.d.test")), (Some(OnDemand::Waits), Some(OnDemand::Waits)));
    assert_eq!(
        (bell.0.load(Ordering::SeqCst), issued_store.take_wanted(&told)),
        (1, vec!["a.d.test".to_owned()])
    );
    issued_store.put("a.d.test", issued(&authority, "a.d.test"));
    assert_eq!((seat.0.load(Ordering::SeqCst), want("a.d.test")), (1, None));
    assert_eq!(want("b.d.test"), Some(OnDemand::Waits));
    issued_store.settle("b.d.test", false);
    assert_eq!((seat.0.load(Ordering::SeqCst), want("b.d.test")), (2, Some(OnDemand::Refused)));
    let later = Instant::now() + REFUSED + Duration::from_secs(1);
    assert_eq!(listener.want(&hello("b.d.test", &[]), later, &waits), Some(OnDemand::Waits));
    assert_eq!(listener.want(&hello("c.d.test", &["acme-tls/1"]), later, &waits), None);
}

#[test]
fn so_many_wait_and_no_more() {
    let issued_store = IssuedStore::new("m");
    let (now, bell) = (Instant::now(), Arc::new(Rung::default()));
    issued_store.take_wanted(&Waker::from(bell));
    for at in 0..TLS_WANTED {
        let waker = Waker::from(Arc::new(Rung::default()));
        assert_eq!(issued_store.want(&format!("{}.test", at % 7), now, &waker), OnDemand::Waits);
    }
    let waker = Waker::from(Arc::new(Rung::default()));
    assert_eq!(issued_store.want("0.test", now, &waker), OnDemand::Refused);
    assert_eq!(issued_store.want("new.test", now, &waker), OnDemand::Refused);
    issued_store.settle("0.test", true);
    assert_eq!(issued_store.want("new.test", now, &waker), OnDemand::Waits);
    issued_store.give_up("new.test", &waker);
    assert_eq!(issued_store.want("newer.test", now, &waker), OnDemand::Waits);
}

#[test]
fn names_whose_clients_have_left_count_as_long_as_they_are_asked_for() {
    let issued_store = IssuedStore::new("m");
    let (now, waker) = (Instant::now(), Waker::from(Arc::new(Rung::default())));
    issued_store.take_wanted(&waker);
    for at in 0..TLS_WANTED {
        let name = format!("{at}.test");
        assert_eq!(issued_store.want(&name, now, &waker), OnDemand::Waits);
        issued_store.give_up(&name, &waker);
    }
    assert_eq!(issued_store.want("more.test", now, &waker), OnDemand::Refused);
    issued_store.settle("0.test", false);
    assert_eq!(issued_store.want("more.test", now, &waker), OnDemand::Waits);
}

#[test]
fn where_no_more_refusals_can_be_remembered_the_oldest_is_forgotten() {
    let issued_store = IssuedStore::new("m");
    let (now, waker) = (Instant::now(), Waker::from(Arc::new(Rung::default())));
    issued_store.take_wanted(&waker);
    (0..=TLS_WANTED_REFUSED).for_each(|at| issued_store.settle(&format!("{at}.test"), false));
    let last = format!("{TLS_WANTED_REFUSED}.test");
    assert_eq!(issued_store.want(&last, now, &waker), OnDemand::Refused);
    assert_eq!(issued_store.want("1.test", now, &waker), OnDemand::Refused);
    assert_eq!(issued_store.want("0.test", now, &waker), OnDemand::Waits);
}

#[test]
fn who_waits_while_policies_change_is_told_of_again() {
    let issued_store = IssuedStore::new("m");
    let (now, waker) = (Instant::now(), Waker::from(Arc::new(Rung::default())));
    issued_store.take_wanted(&waker);
    assert_eq!(issued_store.want("a.test", now, &waker), OnDemand::Waits);
    assert_eq!(issued_store.take_wanted(&waker), ["a.test"]);
    issued_store.want_again("a.test");
    issued_store.want_again("a.test");
    issued_store.want_again("b.test");
    assert_eq!(issued_store.take_wanted(&waker), ["a.test"]);
}

#[test]
fn a_listener_shows_no_names_that_others_brought_and_it_does_not_allow() {
    let (authority, issued_store) = (Authority::new("ca"), IssuedStore::new("m"));
    issued_store.put("a.d.test", issued(&authority, "a.d.test"));
    issued_store.put("inner.test", issued(&authority, "inner.test"));
    let listener = acceptor(&issued_store, &[], Some(&["*.d.test"]));
    assert_eq!(chosen(&listener, Some("a.d.test")), Some(vec!["a.d.test".to_owned()]));
    assert_eq!(chosen(&listener, Some("inner.test")), None);
}
