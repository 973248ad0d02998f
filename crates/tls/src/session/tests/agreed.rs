//! What both sides agree on, and what they refuse.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::version::{TLS12, TLS13};

use super::super::*;
use super::{CUTS, only};
use crate::policy::Policy;
use crate::provider::provider;
use crate::testing::{Authority, Cuts, Link, acceptor, connector, far_client, far_server};
use crate::{PeerPolicy, Refused, Tickets, Trust, UnknownName};

#[test]
fn the_hybrid_group_is_first_on_both_sides() {
    let authority = Authority::new("ca");
    let issued = authority.issue(&["a.test"]);
    let connector = connector(&authority, PeerPolicy::default(), "a.test");
    let mut link = Link::with_server(&connector, &Arc::new(far_server(&issued)), 0, Cuts::NONE);
    link.run();
    assert_eq!(link.session.facts().group, "X25519MLKEM768");
    let acceptor = acceptor(&issued, Policy::default(), None);
    let mut link = Link::with_client(&acceptor, &Arc::new(far_client(&authority)), "a.test", 0, Cuts::NONE);
    link.run();
    assert_eq!(link.session.facts().group, "X25519MLKEM768");
}

#[test]
fn the_order_of_suites_is_ours_unless_the_client_puts_chacha20_first() {
    let authority = Authority::new("ca");
    let issued = authority.issue(&["a.test"]);
    let suites = |names: &[&str]| names.iter().map(|name| Suite::named(name).unwrap()).collect::<Vec<_>>();
    let (small, large) = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384");
    let (small12, large12) =
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384");
    let (chacha, chacha12) =
        ("TLS_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256");
    let both = |first, second| Policy { suites: suites(&[first, second]), ..Policy::default() };
    let v13 = |policy| Policy { min_version: Version::Tls13, ..policy };
    let v12 = |policy| Policy { max_version: Version::Tls12, ..policy };
    for (policy, version, offered, agreed) in [
        (Policy::default(), &TLS13, [small, chacha, large], large),
        (Policy::default(), &TLS12, [small12, chacha12, large12], large12),
        (Policy::default(), &TLS13, [chacha, small, large], chacha),
        (Policy::default(), &TLS12, [chacha12, small12, large12], chacha12),
        (v13(both(small, large)), &TLS13, [large, chacha, small], small),
        (v12(both(small12, large12)), &TLS12, [large12, chacha12, small12], small12),
    ] {
        let far = ClientConfig::builder_with_provider(provider(&suites(&offered), &[]));
        let far = far.with_protocol_versions(&[version]).unwrap();
        let far = far.with_root_certificates(authority.roots()).with_no_client_auth();
        let acceptor = acceptor(&issued, policy, None);
        let mut link = Link::with_client(&acceptor, &Arc::new(far), "a.test", 0, Cuts::NONE);
        link.run();
        assert_eq!(link.session.facts().suite, agreed, "{offered:?}");
    }
}

#[test]
fn sessions_are_resumed_by_another_acceptor_on_another_thread() {
    let authority = Authority::new("ca");
    let issued = authority.issue(&["a.test"]);
    for version in [&TLS12, &TLS13] {
        let tickets = Arc::new(Tickets::new().unwrap());
        let far = Arc::new(only(&authority, version));
        let first = acceptor(&issued, Policy::default(), Some(Arc::clone(&tickets)));
        let mut link = Link::with_client(&first, &far, "a.test", 1, Cuts::NONE);
        link.run();
        assert!(!link.session.facts().resumed);
        let second = acceptor(&issued, Policy::default(), Some(Arc::clone(&tickets)));
        let resumed = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let mut link = Link::with_client(&second, &far, "a.test", 2, CUTS[2]);
                link.run();
                link.far_sends(b"again");
                link.run();
                assert_eq!(link.got, b"again");
                link.session.facts().resumed
            });
            thread.join().unwrap()
        });
        assert!(resumed);
        // The key of its ticket is the older one after one rotation, and gone after two.
        let now = std::time::Instant::now();
        for (hours, expected) in [(13, true), (40, false)] {
            let far = Arc::new(only(&authority, version));
            let mut link = Link::with_client(&first, &far, "a.test", 3, Cuts::NONE);
            link.run();
            tickets.rotate(now + Duration::from_secs(hours * 3600));
            if !expected {
                tickets.rotate(now + Duration::from_secs((hours + 13) * 3600));
            }
            let mut link = Link::with_client(&second, &far, "a.test", 4, Cuts::NONE);
            link.run();
            assert_eq!(link.session.facts().resumed, expected, "{hours}");
        }
    }
}

#[test]
fn nothing_is_resumed_without_tickets() {
    let authority = Authority::new("ca");
    let acceptor = acceptor(&authority.issue(&["a.test"]), Policy::default(), None);
    for version in [&TLS12, &TLS13] {
        let far = Arc::new(only(&authority, version));
        for seed in 0..2 {
            let mut link = Link::with_client(&acceptor, &far, "a.test", seed, Cuts::NONE);
            link.run();
            assert!(!link.session.is_shaking_hands() && !link.session.facts().resumed);
        }
    }
}

#[test]
fn clients_resume_unless_told_not_to() {
    let authority = Authority::new("ca");
    let far = Arc::new(far_server(&authority.issue(&["a.test"])));
    for resumption in [true, false] {
        let policy = PeerPolicy { resumption, ..PeerPolicy::default() };
        let connector = connector(&authority, policy, "a.test");
        for at in 0..2 {
            let mut link = Link::with_server(&connector, &far, at, CUTS[2]);
            link.run();
            assert_eq!(link.session.facts().resumed, resumption && at == 1);
        }
    }
}

#[test]
fn an_unknown_name_is_refused_by_its_own_alert_where_policy_says_so() {
    let authority = Authority::new("ca");
    let policy = Policy { unknown_name: UnknownName::Refuse, ..Policy::default() };
    let acceptor = acceptor(&authority.issue(&["a.test"]), policy, None);
    let far = Arc::new(far_client(&authority));
    let mut link = Link::with_client(&acceptor, &far, "b.test", 0, Cuts::NONE);
    link.run();
    assert_eq!(link.failure.as_ref().map(Failure::kind), Some(Refused::UnknownName));
    let alert = rustls::Error::AlertReceived(rustls::AlertDescription::UnrecognisedName);
    assert_eq!(link.far_failure, Some(alert));
    assert_eq!(link.session.facts().name.as_deref(), Some("b.test"));
}

#[test]
fn peers_that_have_nothing_in_common_are_told() {
    let authority = Authority::new("ca");
    let issued = authority.issue(&["a.test"]);
    let far12 = Arc::new(only(&authority, &TLS12));
    let mut far_alpn = only(&authority, &TLS13);
    far_alpn.alpn_protocols = vec![b"h3".to_vec()];
    let only13 = Policy { min_version: Version::Tls13, ..Policy::default() };
    let rsa = vec![Suite::named("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256").unwrap()];
    let rsa = Policy { max_version: Version::Tls12, suites: rsa, ..Policy::default() };
    for (policy, far, refused) in [
        (only13, Arc::clone(&far12), Refused::Version),
        (Policy::default(), Arc::new(far_alpn), Refused::Alpn),
        (rsa, far12, Refused::Suite),
    ] {
        let acceptor = acceptor(&issued, policy, None);
        let mut link = Link::with_client(&acceptor, &far, "a.test", 0, Cuts::NONE);
        link.run();
        assert_eq!(link.failure.as_ref().map(Failure::kind), Some(refused));
        assert!(matches!(link.far_failure, Some(rustls::Error::AlertReceived(_))), "{:?}", link.far_failure);
    }
}

#[test]
fn servers_are_verified() {
    let (authority, other) = (Authority::new("ca"), Authority::new("other"));
    let far = Arc::new(far_server(&authority.issue(&["a.test", "127.0.0.1"])));
    let connect = |authority: &Authority, policy: PeerPolicy, host: &str| {
        let mut link = Link::with_server(&connector(authority, policy, host), &far, 0, Cuts::NONE);
        link.run();
        link.failure.map(|failure| failure.kind())
    };
    let named = |name: &str| PeerPolicy { server_name: Some(name.to_owned()), ..PeerPolicy::default() };
    let bad = Some(Refused::ServerCertificate);
    assert_eq!(connect(&authority, PeerPolicy::default(), "a.test"), None);
    assert_eq!(connect(&authority, PeerPolicy::default(), "127.0.0.1"), None);
    assert_eq!(connect(&authority, PeerPolicy::default(), "b.test"), bad);
    assert_eq!(connect(&authority, PeerPolicy::default(), "127.0.0.2"), bad);
    assert_eq!(connect(&authority, named("a.test"), "b.test"), None);
    assert_eq!(connect(&authority, named("b.test"), "a.test"), bad);
    assert_eq!(connect(&other, PeerPolicy::default(), "a.test"), bad);
    let skip = PeerPolicy { trust: Trust::InsecureSkipVerify, ..PeerPolicy::default() };
    assert_eq!(connect(&other, skip, "b.test"), None);
}
