//! Sessions against peers that break the rules, or stretch them.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use fastrand::Rng;
use rustls::server::WebPkiClientVerifier;
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets, ServerConfig};

use super::super::*;
use crate::policy::Policy;
use crate::provider::provider;
use crate::testing::{Authority, Cuts, Link, acceptor, connector, far_client, far_server, payload};
use crate::{PeerPolicy, Refused, Tickets};

const HANDSHAKE: u8 = 22;
const ALERT: u8 = 21;
const DATA: u8 = 23;
/// A KeyUpdate that asks for none in return, RFC 8446 §4.6.3.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// A client past its handshake that makes its own records.
struct Forger {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Forger {
    fn new(secrets: ExtractedSecrets) -> Self {
        let (sequence, secrets) = secrets.tx;
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            _ => panic!(),
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).unwrap());
        Self { key, iv: iv.as_ref().try_into().unwrap(), sequence }
    }

    /// A record of TLS 1.3, RFC 8446 §5.2.
    fn record(&mut self, kind: u8, plain: &[u8]) -> Vec<u8> {
        let mut nonce = self.iv;
        for (to, from) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *to ^= from;
        }
        self.sequence += 1;
        let length = plain.len() + 1 + 16;
        let header = [23, 3, 3, (length >> 8) as u8, length as u8];
        let mut sealed = [plain, &[kind]].concat();
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce, Aad::from(header), &mut sealed).unwrap();
        [&header[..], &sealed].concat()
    }
}

/// A server's session past its handshake, and its client's keys.
fn forged() -> (Session, Forger) {
    let authority = Authority::new("ca");
    let acceptor = acceptor(&authority.issue(&["a.test"]), Policy::default(), None);
    let mut far = far_client(&authority);
    far.enable_secret_extraction = true;
    let mut link = Link::with_client(&acceptor, &Arc::new(far), "a.test", 0, Cuts::NONE);
    link.run();
    assert_eq!(link.session.facts().version, Some(Version::Tls13));
    #[allow(deprecated, reason = "the other way to the keys is for unbuffered connections")]
    let secrets = link.far.dangerous_extract_secrets().unwrap();
    (link.session, Forger::new(secrets))
}

fn seal(session: &mut Session, plain: &[u8]) -> Result<usize, Failure> {
    let mut out = [0; 1000];
    session.seal(&[IoSlice::new(plain)], false, &mut out).map(|sealed| sealed.taken)
}

#[test]
fn answers_go_out_while_a_handshake_message_has_come_in_part() {
    // However the message is cut into records, and however those come.
    for cut in 1..KEY_UPDATE.len() {
        for at_once in [true, false] {
            let (mut session, mut forger) = forged();
            let mut held = forger.record(HANDSHAKE, &KEY_UPDATE[..cut]);
            let opened = session.open(&mut held, &mut [0; 100]).unwrap();
            assert_eq!((opened.consumed, opened.written, opened.more), (0, 0, false));
            assert_eq!(seal(&mut session, b"an answer").unwrap(), 9);
            // Less than was left is not even looked at.
            assert_eq!(session.open(&mut [], &mut []).unwrap(), Opened::default());
            let rest = forger.record(HANDSHAKE, &KEY_UPDATE[cut..]);
            let middle = if at_once { 0 } else { rest.len() / 2 };
            held.extend_from_slice(&rest[..middle]);
            let opened = session.open(&mut held, &mut [0; 100]).unwrap();
            assert_eq!(opened.consumed, 0);
            assert_eq!(seal(&mut session, b"another").unwrap(), 7);
            held.extend_from_slice(&rest[middle..]);
            let opened = session.open(&mut held, &mut [0; 100]).unwrap();
            assert_eq!((opened.consumed, opened.more), (held.len(), false));
            assert_eq!(seal(&mut session, b"a third").unwrap(), 7);
            assert!(session.part(&mut [0; 100]) > 0);
        }
    }
}

#[test]
fn a_message_in_records_of_one_byte_stays_whole_and_is_bounded() {
    let (mut session, mut forger) = forged();
    let mut held = Vec::new();
    // One whole message and the beginning of the next in one record, then byte by byte.
    for piece in [&[KEY_UPDATE.as_slice(), &KEY_UPDATE[..1]].concat()[..], &[0], &[0], &[1], &[0]] {
        held.extend(forger.record(HANDSHAKE, piece));
        let Ok(opened) = session.open(&mut held, &mut [0; 100]) else {
            // A change of keys within a record is against the rules, RFC 8446 §5.1.
            assert_eq!(session.failed.map(|failed| failed.kind()), Some(Refused::Protocol));
            break;
        };
        held.drain(..opened.consumed);
        assert!(seal(&mut session, b"x").is_ok());
    }

    let (mut session, mut forger) = forged();
    let mut held = forger.record(HANDSHAKE, &[24, 0, 255, 255]);
    let mut count = 1;
    let failure = loop {
        match session.open(&mut held, &mut [0; 100]) {
            Ok(opened) => assert_eq!(opened.consumed, 0),
            Err(failure) => break failure,
        }
        assert!(seal(&mut session, b"x").is_ok());
        held.extend(forger.record(HANDSHAKE, b"x"));
        count += 1;
    };
    assert_eq!((failure.kind(), count), (Refused::Limit, thalweg_core::limits::TLS_HELD_RECORDS + 1));
}

#[test]
fn data_within_a_handshake_message_is_a_failure() {
    let (mut session, mut forger) = forged();
    let mut held = [forger.record(HANDSHAKE, &KEY_UPDATE[..2]), forger.record(DATA, b"x")].concat();
    let failure = session.open(&mut held, &mut [0; 100]).unwrap_err();
    assert_eq!(failure.kind(), Refused::Protocol);
    assert_eq!(seal(&mut session, b"x").unwrap_err(), failure);
}

#[test]
fn floods_of_records_without_data_end() {
    for (kind, plain, most) in [(DATA, &b""[..], 32), (ALERT, &[1, 90], 4)] {
        let (mut session, mut forger) = forged();
        for at in 0..=most {
            let opened = session.open(&mut forger.record(kind, plain), &mut [0; 100]);
            assert_eq!(opened.is_ok(), at < most, "{at}");
        }
    }
}

#[test]
fn floods_of_key_updates_end() {
    let authority = Authority::new("ca");
    let acceptor = acceptor(&authority.issue(&["a.test"]), Policy::default(), None);
    let mut link = Link::with_client(&acceptor, &Arc::new(far_client(&authority)), "a.test", 0, Cuts::NONE);
    link.run();
    for at in 0..=32 {
        assert!(link.failure.is_none() && !link.session.has_to_say(), "{at}");
        let rustls::Connection::Client(far) = &mut link.far else { unreachable!() };
        far.refresh_traffic_keys().unwrap();
        link.far_writes();
        link.session_reads();
    }
    assert_eq!(link.failure.map(|failure| failure.kind()), Some(Refused::Protocol));
}

#[test]
fn fatal_alerts_end_it_and_data_before_them_is_given() {
    let (mut session, mut forger) = forged();
    let mut held = [forger.record(DATA, b"before"), forger.record(ALERT, &[2, 80])].concat();
    let mut into = [0; 100];
    let opened = session.open(&mut held, &mut into).unwrap();
    assert_eq!((&into[..opened.written], opened.more, opened.ended), (&b"before"[..], true, false));
    let failure = session.open(&mut [], &mut into).unwrap_err();
    assert_eq!(failure.kind(), Refused::Alert);
    assert!(failure.to_string().ends_with("internal_error (80)"), "{failure}");
    assert!(!session.has_to_say());
}

#[test]
fn what_follows_close_notify_is_not_looked_at() {
    let (mut session, mut forger) = forged();
    let mut held = [forger.record(DATA, b"last"), forger.record(ALERT, &[1, 0]), vec![9; 50]].concat();
    let mut into = [0; 100];
    let opened = session.open(&mut held, &mut into).unwrap();
    let expected = Opened { consumed: held.len(), written: 4, more: false, ended: true };
    assert_eq!(opened, expected);
    let opened = session.open(&mut [1, 2, 3], &mut into).unwrap();
    assert_eq!(opened, Opened { consumed: 3, ended: true, ..Opened::default() });
    assert_eq!(seal(&mut session, b"answer").unwrap(), 6);
}

#[test]
fn a_connection_that_breaks_off_has_not_ended() {
    let (mut session, mut forger) = forged();
    let mut held = forger.record(DATA, b"half");
    let mut into = [0; 100];
    assert!(!session.open(&mut held, &mut into).unwrap().ended);
    let cut = &mut forger.record(DATA, b"of it")[..10];
    assert_eq!(session.open(cut, &mut into).unwrap(), Opened::default());
}

#[test]
fn damaged_bytes_end_in_an_alert_and_never_in_a_panic() {
    let authority = Authority::new("ca");
    let issued = authority.issue(&["a.test"]);
    let tickets = Some(Arc::new(Tickets::new().unwrap()));
    let acceptor = acceptor(&issued, Policy::default(), tickets);
    let connector = connector(&authority, PeerPolicy::default(), "a.test");
    let (client, server) = (Arc::new(far_client(&authority)), Arc::new(far_server(&issued)));
    let (mut damaged, mut noticed, mut told) = (0, 0, 0);
    for seed in 0..600 {
        let mut rng = Rng::with_seed(seed);
        let cuts = Cuts { received: rng.usize(1..3000), into: 2000, out: 2000 };
        let mut link = match rng.bool() {
            true => Link::with_client(&acceptor, &client, "a.test", seed, cuts),
            false => Link::with_server(&connector, &server, seed, cuts),
        };
        let mut steps = rng.usize(1..8);
        for _ in 0..40 {
            link.far_writes();
            steps = steps.saturating_sub(1);
            if steps == 0 && !link.coming.is_empty() {
                let at = rng.usize(..link.coming.len());
                link.coming[at] ^= 1 << rng.u8(..8);
                steps = usize::MAX;
                damaged += 1;
            }
            link.session_reads();
            link.session_writes();
            link.far_reads();
        }
        link.run();
        assert!(!link.session.has_to_say());
        noticed += usize::from(link.failure.is_some() || link.far_failure.is_some());
        told += usize::from(link.failure.is_some() && link.far_failure.is_some());
    }
    // A damaged length may make it wait for what never comes, and a version's byte has no meaning; all others count.
    assert!(
        damaged > 300 && noticed * 10 > damaged * 9 && told * 10 > damaged * 5,
        "{damaged} {noticed} {told}"
    );
}

#[test]
fn tickets_in_many_records_are_put_together() {
    let authority = Authority::new("ca");
    let mut far = far_server(&authority.issue(&["a.test"]));
    far.ticketer = Arc::new(Tickets::new().unwrap());
    far.max_fragment_size = Some(40);
    let far = Arc::new(far);
    let policy = PeerPolicy { min_version: Version::Tls13, ..PeerPolicy::default() };
    let connector = connector(&authority, policy, "a.test");
    let cuts = Cuts { received: 20, into: 1000, out: 1000 };
    for seed in 0..30 {
        let mut link = Link::with_server(&connector, &far, seed, cuts);
        // Something to send at every step, also while a ticket has come in part.
        let there = payload(seed, 20_000);
        link.to_send.clone_from(&there);
        link.run();
        assert!(link.failure.is_none() && link.far_got == there, "{:?}", link.failure);
        assert_eq!(link.session.facts().resumed, seed > 0);
        link.far_sends(b"done");
        link.run();
        assert_eq!(link.got, b"done");
    }
}

#[test]
fn clients_show_a_certificate_where_one_is_asked_for() {
    let authority = Authority::new("ca");
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(authority.roots()), provider(&[], &[]));
    let (chain, key) = authority.issue(&["a.test"]).ders();
    let far = ServerConfig::builder_with_provider(provider(&[], &[]))
        .with_safe_default_protocol_versions()
        .unwrap();
    let far = far.with_client_cert_verifier(verifier.build().unwrap()).with_single_cert(chain, key).unwrap();
    let far = Arc::new(far);
    let shown = authority.issue(&["client.test"]);
    let policy = PeerPolicy { certificate: Some(shown.read()), ..PeerPolicy::default() };
    let mut link = Link::with_server(&connector(&authority, policy, "a.test"), &far, 0, Cuts::NONE);
    link.run();
    assert!(link.failure.is_none());
    assert_eq!(link.far.peer_certificates(), Some(&shown.ders().0[..]));
    let mut link =
        Link::with_server(&connector(&authority, PeerPolicy::default(), "a.test"), &far, 0, Cuts::NONE);
    link.run();
    assert_eq!(link.failure.map(|failure| failure.kind()), Some(Refused::Alert));
    assert_eq!(link.far_failure, Some(rustls::Error::NoCertificatesPresented));
}
