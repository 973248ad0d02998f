//! Who is let in, whom the client is told of, and what it is told when it is not.

use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, ClientConfig, SupportedProtocolVersion};

use super::*;
use crate::testing::{Authority as Issuer, Cuts, Issued, Link, far_client_with};
use crate::{Acceptor, Entry, Policy, Refused};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

fn policy(issuer: &Issuer) -> ClientPolicy {
    ClientPolicy {
        mode: ClientMode::Required,
        authorities: issuer.pem.as_bytes().into(),
        revocations: Vec::new(),
        allow_unknown: false,
        told: Told::default(),
    }
}

fn revoking(issuer: &Issuer, lists: &[String]) -> ClientPolicy {
    let revocations = lists.iter().map(|list| list.as_bytes().into()).collect();
    ClientPolicy { revocations, ..policy(issuer) }
}

/// Servers' certificates of one authority, clients' of another.
struct Place {
    issuer: Issuer,
    clients: Issuer,
    site: Issued,
}

impl Place {
    fn new() -> Self {
        let issuer = Issuer::new("servers");
        Self { site: issuer.issue(&["a.test"]), issuer, clients: Issuer::new("clients") }
    }

    fn acceptor(&self, policy: ClientPolicy) -> Arc<Acceptor> {
        let client_auth = Some(Arc::new(ClientAuth::new(policy).unwrap()));
        let entry = Entry { certificate: self.site.read(), names: Vec::new(), client_auth };
        Arc::new(Acceptor::new(vec![entry], Policy::default(), None).unwrap())
    }

    fn client(&self, version: &'static SupportedProtocolVersion, shown: Option<&Issued>) -> ClientConfig {
        far_client_with(&self.issuer, version, shown)
    }

    /// Both ends after a handshake.
    fn shake(
        &self,
        acceptor: &Arc<Acceptor>,
        version: &'static SupportedProtocolVersion,
        shown: Option<&Issued>,
    ) -> Link {
        let far = Arc::new(self.client(version, shown));
        let mut link = Link::with_client(acceptor, &far, "a.test", 1, Cuts::NONE);
        link.run();
        link
    }

    /// It is refused in both versions: this word here, this alert there.
    fn refuses(&self, policy: ClientPolicy, shown: Option<&Issued>, word: Refused, alert: AlertDescription) {
        let acceptor = self.acceptor(policy);
        for version in VERSIONS {
            let link = self.shake(&acceptor, version, shown);
            let failure = link.failure.expect("it is let in");
            assert_eq!(failure.kind(), word, "{failure}");
            assert_eq!(link.far_failure, Some(Error::AlertReceived(alert)), "{version:?}");
            assert!(link.session.identity().is_none());
        }
    }

    fn lets_in(&self, policy: ClientPolicy, shown: &Issued) {
        let acceptor = self.acceptor(policy);
        for version in VERSIONS {
            let link = self.shake(&acceptor, version, Some(shown));
            assert!(link.failure.is_none() && !link.session.is_shaking_hands(), "{:?}", link.failure);
            let identity = link.session.identity().unwrap();
            assert_eq!(identity.certificate(), &shown.ders().0[0][..]);
        }
    }
}

#[test]
fn who_shows_a_certificate_of_the_authority_is_known_by_it() {
    let place = Place::new();
    let shown = place.clients.issue_client("alice", -1..30, 7);
    let acceptor = place.acceptor(policy(&place.clients));
    for version in VERSIONS {
        let mut link = place.shake(&acceptor, version, Some(&shown));
        let identity = link.session.identity().unwrap();
        assert_eq!(identity.subject(), "CN=alice");
        assert_eq!(identity.names(), ["DNS:alice.clients.test"]);
        assert_eq!(identity.fingerprint(), &digest([identity.certificate()]));
        link.far_sends(b"hello");
        link.run();
        assert_eq!(link.got, b"hello");
    }
}

#[test]
fn who_shows_none_is_refused_or_nobody() {
    let place = Place::new();
    let alert = AlertDescription::CertificateRequired;
    place.refuses(policy(&place.clients), None, Refused::ClientCertificateMissing, alert);
    let optional = ClientPolicy { mode: ClientMode::Optional, ..policy(&place.clients) };
    let acceptor = place.acceptor(optional.clone());
    for version in VERSIONS {
        let link = place.shake(&acceptor, version, None);
        assert!(link.failure.is_none() && !link.session.is_shaking_hands());
        assert!(link.session.identity().is_none());
    }
    place.lets_in(optional.clone(), &place.clients.issue_client("alice", -1..30, 7));
    // One that is shown must be good.
    let wrong = Issuer::new("others").issue_client("alice", -1..30, 7);
    let alert = AlertDescription::UnknownCA;
    place.refuses(optional, Some(&wrong), Refused::ClientCertificateInvalid, alert);
}

#[test]
fn a_certificate_of_somebody_else_or_of_another_time_is_refused() {
    let place = Place::new();
    let (invalid, expired) = (Refused::ClientCertificateInvalid, Refused::ClientCertificateExpired);
    for (shown, word, alert) in [
        // An authority with the same name is another one.
        (Issuer::new("clients").issue_client("eve", -1..30, 7), invalid, AlertDescription::UnknownCA),
        (Issuer::new("others").issue_client("eve", -1..30, 7), invalid, AlertDescription::UnknownCA),
        (place.issuer.issue_client("eve", -1..30, 7), invalid, AlertDescription::UnknownCA),
        (place.clients.issue_client("late", -30..-1, 7), expired, AlertDescription::CertificateExpired),
        (place.clients.issue_client("early", 1..30, 7), expired, AlertDescription::CertificateExpired),
    ] {
        place.refuses(policy(&place.clients), Some(&shown), word, alert);
    }
}

/// A certificate for servers only must not make a client.
#[test]
fn a_certificate_for_another_use_is_refused() {
    let place = Place::new();
    let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let server = place.clients.issue_params(&rcgen::PKCS_ECDSA_P256_SHA256, params);
    let alert = AlertDescription::UnsupportedCertificate;
    place.refuses(policy(&place.clients), Some(&server), Refused::ClientCertificateInvalid, alert);
}

#[test]
fn a_revoked_certificate_is_refused_and_another_one_is_not() {
    let place = Place::new();
    let (bad, good) =
        (place.clients.issue_client("bad", -1..30, 7), place.clients.issue_client("good", -1..30, 8));
    let policy = revoking(&place.clients, &[place.clients.revoke(&[7], 10)]);
    let alert = AlertDescription::CertificateRevoked;
    place.refuses(policy.clone(), Some(&bad), Refused::ClientCertificateRevoked, alert);
    place.lets_in(policy.clone(), &good);
    // What is revoked is so also where more is allowed.
    let lenient = ClientPolicy { allow_unknown: true, ..policy };
    place.refuses(lenient, Some(&bad), Refused::ClientCertificateRevoked, alert);
}

#[test]
fn what_no_list_can_say_is_refused_unless_that_is_allowed() {
    let place = Place::new();
    let good = place.clients.issue_client("good", -1..30, 8);
    let others = Issuer::new("others").revoke(&[1], 10);
    let alert = AlertDescription::UnknownCA;
    let invalid = Refused::ClientCertificateInvalid;
    let policy = revoking(&place.clients, &[others]);
    place.refuses(policy.clone(), Some(&good), invalid, alert);
    place.lets_in(ClientPolicy { allow_unknown: true, ..policy }, &good);
    // A list that has expired, and one that somebody else has signed.
    for list in [place.clients.revoke(&[7], 0), Issuer::new("clients").revoke(&[7], 10)] {
        let policy = revoking(&place.clients, &[list]);
        place.refuses(policy.clone(), Some(&good), invalid, alert);
        place.refuses(ClientPolicy { allow_unknown: true, ..policy }, Some(&good), invalid, alert);
    }
}

/// A trust anchor is a name and a key, RFC 5280 §6.1.1. Configuration warns of one like this.
#[test]
fn an_authority_that_has_expired_is_believed_for_what_is_valid() {
    let place = Place::new();
    let old = Issuer::valid("old", -30..-1);
    place.lets_in(policy(&old), &old.issue_client("alice", -1..30, 7));
    let word = Refused::ClientCertificateExpired;
    let late = old.issue_client("late", -30..-1, 7);
    place.refuses(policy(&old), Some(&late), word, AlertDescription::CertificateExpired);
}

/// The whole chain: an authority in between may be revoked as well.
#[test]
fn authorities_between_are_looked_at_too() {
    let place = Place::new();
    let between = place.clients.issue_authority("between");
    let mut shown = between.issue_client("alice", -1..30, 7);
    let alone = shown.clone();
    shown.chain.push_str(&between.pem);
    place.lets_in(policy(&place.clients), &shown);
    let alert = AlertDescription::UnknownCA;
    place.refuses(policy(&place.clients), Some(&alone), Refused::ClientCertificateInvalid, alert);
    // Of its own issuer a list is there, of the one in between not.
    let lists = [between.revoke(&[], 10), place.clients.revoke(&[], 10)];
    let policy = revoking(&place.clients, &lists[..1]);
    place.refuses(policy, Some(&shown), Refused::ClientCertificateInvalid, alert);
    place.lets_in(revoking(&place.clients, &lists), &shown);
}

#[test]
fn a_chain_or_a_certificate_of_any_size_is_not_looked_at() {
    let place = Place::new();
    let mut long = place.clients.issue_client("alice", -1..30, 7);
    for at in 0..TLS_CHAIN {
        long.chain.push_str(&Issuer::new(&format!("{at}")).pem);
    }
    let alert = AlertDescription::CertificateUnknown;
    place.refuses(policy(&place.clients), Some(&long), Refused::ClientCertificateInvalid, alert);
    let names: Vec<String> = (0..1000).map(|at| format!("a-long-name-{at}.a.test")).collect();
    let params = rcgen::CertificateParams::new(names).unwrap();
    let large = place.clients.issue_params(&rcgen::PKCS_ECDSA_P256_SHA256, params);
    place.refuses(policy(&place.clients), Some(&large), Refused::ClientCertificateInvalid, alert);
}

/// More names than a message can carry are left out, and clients are let in as before.
#[test]
fn very_many_authorities_can_be_trusted() {
    let place = Place::new();
    let mut pem = place.clients.pem.clone();
    for at in 0..70 {
        pem.push_str(&Issuer::new(&format!("{at:0>300}")).pem);
    }
    let few = ClientAuth::new(policy(&place.clients)).unwrap();
    assert_eq!(few.verifier().root_hint_subjects().len(), 1);
    let many = ClientPolicy { authorities: pem.as_bytes().into(), ..policy(&place.clients) };
    let read = ClientAuth::new(many.clone()).unwrap();
    assert!(read.verifier().root_hint_subjects().is_empty());
    assert_eq!(read.authorities().len(), 71);
    place.lets_in(many, &place.clients.issue_client("alice", -1..30, 7));
}

#[test]
fn bad_files_are_flaws() {
    let issuer = Issuer::new("clients");
    let flaw = |policy| ClientAuth::new(policy).unwrap_err();
    let half = &issuer.pem[..issuer.pem.len() / 2];
    for pem in ["", "text", half, &issuer.revoke(&[], 10)] {
        let policy = ClientPolicy { authorities: pem.as_bytes().into(), ..policy(&issuer) };
        assert!(matches!(flaw(policy), ClientAuthError::Authorities(_)), "{pem}");
    }
    let good = issuer.revoke(&[7], 10);
    let lines: Vec<&str> = good.lines().collect();
    let damaged = good.replace(lines[1], "MAAA");
    for list in ["", "text", &good[..good.len() / 2], &issuer.pem, &damaged] {
        let lists = [good.clone(), list.to_owned()];
        assert!(matches!(flaw(revoking(&issuer, &lists)), ClientAuthError::Revocations(1, _)), "{list}");
    }
    let read = ClientAuth::new(revoking(&issuer, &[good.clone(), good])).unwrap();
    assert_eq!(read.revocations().iter().map(|list| list.file).collect::<Vec<_>>(), [0, 1]);
    assert!(read.revocations()[0].next_update > SystemTime::now());
}

#[test]
fn equal_is_what_lets_in_and_tells_the_same() {
    let (one, other) = (Issuer::new("clients"), Issuer::new("clients"));
    let read = |policy: &ClientPolicy| ClientAuth::new(policy.clone()).unwrap();
    let plain = policy(&one);
    let list: Arc<[u8]> = one.revoke(&[7], 10).as_bytes().into();
    assert_eq!(read(&plain), read(&plain));
    let told = Told { subject: true, ..Told::default() };
    for different in [
        ClientPolicy { mode: ClientMode::Optional, ..plain.clone() },
        ClientPolicy { authorities: other.pem.as_bytes().into(), ..plain.clone() },
        ClientPolicy { revocations: vec![list.clone()], ..plain.clone() },
        ClientPolicy { revocations: vec![list.clone(), list], ..plain.clone() },
        ClientPolicy { allow_unknown: true, ..plain.clone() },
        ClientPolicy { told, ..plain.clone() },
    ] {
        assert_ne!(read(&plain), read(&different), "{different:?}");
    }
}
