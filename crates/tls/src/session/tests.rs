//! Sessions against rustls' own buffered connections.

use std::sync::Arc;

use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, SupportedProtocolVersion};

use super::*;
use crate::policy::Policy;
use crate::provider::provider;
use crate::testing::{Authority, Cuts, Link, acceptor, connector, far_client, far_server, payload};
use crate::{PeerPolicy, Refused};

mod agreed;
mod hostile;

/// Where bytes are cut: nowhere, after each, at random, with little room.
const CUTS: [Cuts; 5] = [
    Cuts::NONE,
    Cuts { received: 1, into: 1 << 15, out: 1 << 15 },
    Cuts { received: 700, into: 300, out: 500 },
    Cuts { received: 5000, into: 1, out: 64 },
    Cuts { received: 40_000, into: 20_000, out: 20_000 },
];

fn only(authority: &Authority, version: &'static SupportedProtocolVersion) -> ClientConfig {
    let config = ClientConfig::builder_with_provider(provider(&[], &[]));
    let config = config.with_protocol_versions(&[version]).unwrap();
    config.with_root_certificates(authority.roots()).with_no_client_auth()
}

#[test]
fn a_session_can_go_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Session>();
}

#[test]
fn serves_both_versions_however_bytes_are_cut() {
    let authority = Authority::new("ca");
    let acceptor = acceptor(&authority.issue(&["a.test"]), Policy::default(), None);
    for (version, name) in [(&TLS12, Version::Tls12), (&TLS13, Version::Tls13)] {
        let mut far = only(&authority, version);
        far.alpn_protocols = vec![b"nothing".to_vec(), b"http/1.1".to_vec()];
        let far = Arc::new(far);
        for (seed, cuts) in (0..).zip(CUTS.into_iter().cycle().take(15)) {
            let mut link = Link::with_client(&acceptor, &far, "A.test", seed, cuts);
            assert!(link.session.is_shaking_hands());
            link.run();
            assert!(!link.session.is_shaking_hands() && !link.far.is_handshaking(), "{cuts:?}");
            let facts = link.session.facts();
            assert_eq!((facts.version, facts.name.as_deref()), (Some(name), Some("a.test")));
            assert_eq!((facts.alpn.as_deref(), facts.resumed), (Some(&b"http/1.1"[..]), false));
            assert!(Suite::named(facts.suite).is_some() && Group::named(facts.group).is_some());

            let (there, back) = (payload(seed, 70_000), payload(seed + 100, 50_001));
            link.far_sends(&there);
            link.to_send = back.clone();
            link.run();
            assert_eq!((link.got == there, link.far_got == back), (true, true), "{cuts:?}");

            link.far.send_close_notify();
            link.run();
            assert!(link.ended && link.failure.is_none());
            // The other way is still open.
            link.to_send = b"after the end".to_vec();
            link.last = true;
            link.run();
            assert!(link.far_got.ends_with(b"after the end"));
            let end = link.far.process_new_packets().unwrap();
            assert!(end.peer_has_closed());
            assert!(!link.session.has_to_say() && link.held.is_empty());
        }
    }
}

#[test]
fn asks_servers_of_both_versions_however_bytes_are_cut() {
    let authority = Authority::new("ca");
    let far = Arc::new(far_server(&authority.issue(&["a.test"])));
    for (min, version) in [(Version::Tls12, None), (Version::Tls13, Some(Version::Tls13))] {
        let policy = PeerPolicy { min_version: min, ..PeerPolicy::default() };
        let connector = connector(&authority, policy, "a.test");
        for (seed, cuts) in (0..).zip(CUTS) {
            let mut link = Link::with_server(&connector, &far, seed, cuts);
            assert!(link.session.has_to_say() && link.session.is_shaking_hands());
            let (there, back) = (payload(seed, 70_000), payload(seed + 100, 50_001));
            link.to_send = there.clone();
            link.run();
            link.far_sends(&back);
            link.run();
            assert_eq!((link.far_got == there, link.got == back), (true, true), "{cuts:?}");
            let facts = link.session.facts();
            assert_eq!(facts.name.as_deref(), Some("a.test"));
            assert!(version.is_none_or(|version| facts.version == Some(version)));
            link.far.send_close_notify();
            link.run();
            assert!(link.ended);
        }
    }
}

#[test]
fn a_retry_for_another_group_is_whole_too() {
    let authority = Authority::new("ca");
    let groups = vec![Group::named("secp384r1").unwrap()];
    let acceptor = acceptor(&authority.issue(&["a.test"]), Policy { groups, ..Policy::default() }, None);
    // Its first share is of another group, so the server asks for a second hello.
    for (seed, cuts) in (0..).zip(CUTS) {
        // One that remembered the server's group would begin with it the next time.
        let far = Arc::new(only(&authority, &TLS13));
        let mut link = Link::with_client(&acceptor, &far, "a.test", seed, cuts);
        link.run();
        assert_eq!(link.session.facts().group, "secp384r1");
        assert_eq!(link.far.handshake_kind(), Some(HandshakeKind::FullWithHelloRetryRequest));
        link.far_sends(b"whole");
        link.run();
        assert_eq!(link.got, b"whole");
    }
}

#[test]
fn an_empty_room_shows_whether_there_is_plaintext() {
    let authority = Authority::new("ca");
    let acceptor = acceptor(&authority.issue(&["a.test"]), Policy::default(), None);
    let mut link = Link::with_client(&acceptor, &Arc::new(far_client(&authority)), "a.test", 0, Cuts::NONE);
    link.run();
    link.far_sends(b"one");
    link.far_sends(b"two");
    let mut received = std::mem::take(&mut link.coming);
    let opened = link.session.open(&mut received, &mut []).unwrap();
    assert_eq!((opened.written, opened.more), (0, true));
    assert!(opened.consumed > 0 && opened.consumed < received.len());
    received.drain(..opened.consumed);
    // What waits does not keep the other way from going on.
    let mut out = [0; 100];
    let sealed = link.session.seal(&[IoSlice::new(b"back")], false, &mut out).unwrap();
    assert_eq!(sealed.taken, 4);
    let mut into = [0; 6];
    let opened = link.session.open(&mut received, &mut into[..2]).unwrap();
    assert_eq!((opened.written, opened.more, opened.consumed), (2, true, 0));
    let opened = link.session.open(&mut received, &mut into[2..]).unwrap();
    assert_eq!((opened.written, opened.more, opened.consumed), (4, false, received.len()));
    assert_eq!(&into, b"onetwo");
}

#[test]
fn tickets_of_a_server_are_no_plaintext() {
    let authority = Authority::new("ca");
    let far = Arc::new(far_server(&authority.issue(&["a.test"])));
    let connector =
        connector(&authority, PeerPolicy { min_version: Version::Tls13, ..PeerPolicy::default() }, "a.test");
    let mut link = Link::with_server(&connector, &far, 0, Cuts::NONE);
    // Until the server has the client's last flight, and has answered it with tickets.
    while link.far.is_handshaking() {
        link.far_writes();
        link.session_reads();
        link.session_writes();
        link.far_reads();
    }
    link.far_writes();
    let mut received = std::mem::take(&mut link.coming);
    assert!(!received.is_empty());
    let opened = link.session.open(&mut received, &mut []).unwrap();
    assert_eq!((opened.consumed, opened.more, opened.ended), (received.len(), false, false));
}

#[test]
fn small_answers_are_one_record_and_records_of_large_ones_are_full() {
    let authority = Authority::new("ca");
    let acceptor = acceptor(&authority.issue(&["a.test"]), Policy::default(), None);
    for version in [&TLS12, &TLS13] {
        let mut link =
            Link::with_client(&acceptor, &Arc::new(only(&authority, version)), "a.test", 0, Cuts::NONE);
        link.run();
        let pieces = payload(0, 300);
        let slices: Vec<_> = pieces.chunks(10).map(IoSlice::new).collect();
        let mut out = vec![0; 64 * 1024 + 4 * RECORD_OVERHEAD];
        let sealed = link.session.seal(&slices, false, &mut out).unwrap();
        assert_eq!((sealed.taken, records_in(&out[..sealed.written])), (300, 1));
        assert!(sealed.written <= 300 + RECORD_OVERHEAD);
        link.going.extend_from_slice(&out[..sealed.written]);

        // The last piece and close_notify go together.
        let large = payload(1, 40_000);
        let slices =
            |from: usize| [IoSlice::new(&large[from..from.max(100)]), IoSlice::new(&large[from.max(100)..])];
        for (from, taken, records) in [(0, 16_384, 1), (16_384, 16_384, 1), (32_768, 7232, 2)] {
            let sealed = link.session.seal(&slices(from), true, &mut out).unwrap();
            assert_eq!((sealed.taken, records_in(&out[..sealed.written])), (taken, records));
            link.going.extend_from_slice(&out[..sealed.written]);
        }
        link.run();
        assert_eq!(link.far_got, [pieces, large].concat());
        assert!(link.far.process_new_packets().unwrap().peer_has_closed());
        // Said once.
        assert_eq!((link.session.part(&mut out), link.session.has_to_say()), (0, false));
        let sealed = link.session.seal(&[IoSlice::new(b"late")], false, &mut out).unwrap();
        assert_eq!(sealed, Sealed::default());
    }
}

fn records_in(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let [_, _, _, high, low, ..] = bytes {
        bytes = &bytes[5 + usize::from(u16::from_be_bytes([*high, *low]))..];
        count += 1;
    }
    count
}

#[test]
fn keys_are_renewed_when_the_peer_asks() {
    let authority = Authority::new("ca");
    let acceptor = acceptor(&authority.issue(&["a.test"]), Policy::default(), None);
    for (seed, cuts) in (0..).zip(CUTS) {
        let mut link =
            Link::with_client(&acceptor, &Arc::new(only(&authority, &TLS13)), "a.test", seed, cuts);
        link.run();
        for round in 0..100 {
            let rustls::Connection::Client(far) = &mut link.far else { unreachable!() };
            far.refresh_traffic_keys().unwrap();
            let there = payload(round, 100);
            link.far_sends(&there);
            link.to_send = there.clone();
            link.run();
            assert!(link.got.ends_with(&there) && link.far_got.ends_with(&there), "{:?}", link.failure);
        }
    }
}

#[test]
fn what_was_received_before_a_failure_is_given_first() {
    let authority = Authority::new("ca");
    let acceptor = acceptor(&authority.issue(&["a.test"]), Policy::default(), None);
    for (seed, cuts) in (0..).zip(CUTS) {
        let mut link = Link::with_client(&acceptor, &Arc::new(far_client(&authority)), "a.test", seed, cuts);
        link.run();
        link.far_sends(b"before");
        link.inject(&[23, 3, 3, 0, 40]);
        link.inject(&[7; 40]);
        link.run();
        assert_eq!(link.got, b"before");
        assert_eq!(link.failure.as_ref().map(Failure::kind), Some(Refused::Protocol));
        // bad_record_mac
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac);
        assert_eq!(link.far_failure, Some(alert));
    }
}

#[test]
fn what_is_no_tls_gets_an_alert_and_costs_no_connection() {
    let authority = Authority::new("ca");
    let acceptor = acceptor(&authority.issue(&["a.test"]), Policy::default(), None);
    for (bytes, refused, alert) in [
        (&b"GET / HTTP/1.1\r\n"[..], Refused::PlainHttp, 10),
        (&b"\x80\x2e\x01\x00\x02"[..], Refused::NoTls, 10),
        (&b"\x16\x03\x01\x00\x04\x02\x00\x00\x00"[..], Refused::HelloMalformed, 50),
        (&b"\x16\x03\x01\x00\x04\x01\xff\x00\x00"[..], Refused::HelloTooLarge, 50),
    ] {
        let mut session = Session::accept(&acceptor).unwrap();
        let failure = session.open(&mut bytes.to_vec(), &mut [0; 100]).unwrap_err();
        assert_eq!(failure.kind(), refused);
        let mut out = [0; 100];
        assert_eq!(session.say(&mut out), 7);
        assert_eq!(out[..7], [21, 3, 3, 0, 2, 2, alert]);
        assert!(session.common().is_none() && session.is_shaking_hands());
        assert_eq!(session.part(&mut out), 0);
    }
}
