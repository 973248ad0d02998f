use super::*;
use crate::destination::To;

const DOMAIN: &str = "svc.example.com";

fn key(id: u8) -> Key {
    Key { id, secret: Secret::from([id; 64]) }
}

fn keyring(ids: &[u8]) -> Keyring {
    Keyring::new(ids.iter().copied().map(key).collect(), DOMAIN).unwrap()
}

fn destination() -> Destination {
    let to = To::Address("192.0.2.10:8080".parse().unwrap());
    Destination { to, tls: false, expires: Minutes::from_unix(1_800_000_000) }
}

fn before() -> Minutes {
    Minutes::from_unix(1_700_000_000)
}

#[test]
fn the_last_key_seals_and_all_of_them_open() {
    let (old, both) = (keyring(&[3]), keyring(&[3, 1]));
    let (by_old, by_both) = (old.seal(&destination()).unwrap(), both.seal(&destination()).unwrap());
    assert_eq!(both.open(by_old.as_bytes(), before()).unwrap().key(), 3);
    assert_eq!(both.open(by_both.as_bytes(), before()).unwrap().key(), 1);
    assert_eq!(old.open(by_both.as_bytes(), before()), Err(Refusal::UnknownKey));
    assert_eq!(both.open(by_both.as_bytes(), before()).unwrap().destination(), &destination());
}

#[test]
fn a_label_is_valid_up_to_the_second_before_it_expires() {
    let keys = keyring(&[1]);
    let label = keys.seal(&destination()).unwrap();
    let end = destination().expires.unix();
    assert!(keys.open(label.as_bytes(), Minutes::from_unix(end - 1)).is_ok());
    assert_eq!(keys.open(label.as_bytes(), Minutes::from_unix(end)), Err(Refusal::Expired));
    assert_eq!(keys.open(label.as_bytes(), Minutes::MAX), Err(Refusal::Expired));
}

#[test]
fn what_is_sealed_for_a_domain_opens_there_alone() {
    let label = keyring(&[1]).seal(&destination()).unwrap();
    for other in ["svc.example.org", "example.com", "x.svc.example.com"] {
        let other = Keyring::new(vec![key(1)], other).unwrap();
        assert_eq!(other.open(label.as_bytes(), before()), Err(Refusal::Forged));
    }
}

#[test]
fn the_key_that_stands_in_opens_nothing() {
    // Its secret is known to everybody: what is sealed with it must be refused all the same.
    let stand_in = Ready::new(Key { id: 0, secret: Secret::from([0; 64]) }, 0, DOMAIN);
    let (siv, sealed) = stand_in.cipher.seal(Plain::of(&destination()).unwrap().to_bytes());
    for (header, refusal) in
        [(0, Refusal::Version), (1 << 5, Refusal::UnknownKey), (1 << 5 | 2, Refusal::UnknownKey)]
    {
        let label = Label::new(header, siv, sealed);
        assert_eq!(keyring(&[1]).open(label.as_bytes(), before()), Err(refusal));
    }
}

#[test]
fn the_true_reason_is_told() {
    let keys = keyring(&[1]);
    let label = keys.seal(&destination()).unwrap().to_string();
    let open = |text: &str| keys.open(text.as_bytes(), before()).unwrap_err();
    assert_eq!(open(""), Refusal::Length);
    assert_eq!(open(&label[1..]), Refusal::Length);
    assert_eq!(open(&format!("{label}a")), Refusal::Length);
    assert_eq!(open(&label.repeat(1_000)), Refusal::Length);
    assert_eq!(open(&format!("{}0", &label[..62])), Refusal::Alphabet);
    assert_eq!(open(&format!("{}b", &label[..62])), Refusal::SpareBits);
    assert_eq!(open(&format!("i{}", &label[1..])), Refusal::Version);
    assert_eq!(open(&format!("eq{}", &label[2..])), Refusal::UnknownKey);
    let changed = if label.ends_with('a') { "i" } else { "a" };
    assert_eq!(open(&format!("{}{changed}", &label[..62])), Refusal::Forged);
    let expired = keys.seal(&Destination { expires: before(), ..destination() }).unwrap();
    assert_eq!(open(expired.as_str()), Refusal::Expired);
    // Malformed and expired: the former is told.
    let mut plain = Plain::of(&Destination { expires: before(), ..destination() }).unwrap().to_bytes();
    plain[0] |= 0x80;
    let (siv, sealed) = keys.sealer().cipher.seal(plain);
    assert_eq!(open(Label::new(header(1), siv, sealed).as_str()), Refusal::Malformed);
}

#[test]
fn services_are_found_under_the_key_that_sealed() {
    let (old, both) = (keyring(&[3]), keyring(&[3, 1]));
    let services = both.services(["checkout", "cart", "checkout"]);
    let open = |by: &Keyring, name: &str| {
        let to = To::Service(by.service(name));
        let label = by.seal(&Destination { to, ..destination() }).unwrap();
        both.open(label.as_bytes(), before()).unwrap()
    };
    assert_eq!(services.find(&open(&old, "checkout")), Some(0));
    assert_eq!(services.find(&open(&both, "cart")), Some(1));
    assert_eq!(services.find(&open(&both, "carts")), None);
    // The digest of one key under another names nothing.
    let to = To::Service(old.service("cart"));
    let label = both.seal(&Destination { to, ..destination() }).unwrap();
    assert_eq!(services.find(&both.open(label.as_bytes(), before()).unwrap()), None);
    let label = both.seal(&destination()).unwrap();
    assert_eq!(services.find(&both.open(label.as_bytes(), before()).unwrap()), None);
    assert_eq!(both.digest_of(3, "cart"), Some(old.service("cart")));
    assert_eq!(both.digest_of(1, "cart"), Some(both.service("cart")));
    assert!([0, 2, 32, 255].into_iter().all(|id| both.digest_of(id, "cart").is_none()));
}

#[test]
fn keys_without_an_id_of_their_own_are_refused() {
    let error = |ids: &[u8]| Keyring::new(ids.iter().copied().map(key).collect(), DOMAIN).unwrap_err();
    assert_eq!(error(&[]), KeyringError::NoKey);
    assert_eq!(error(&[0]), KeyringError::IdRange(0));
    assert_eq!(error(&[1, 32]), KeyringError::IdRange(32));
    assert_eq!(error(&[255]), KeyringError::IdRange(255));
    assert_eq!(error(&[4, 2, 4]), KeyringError::IdTwice(4));
    let all: Vec<u8> = (1..=31).collect();
    assert!(format!("{:?}", keyring(&all)).ends_with("30, 31] }"));
}

#[test]
fn domains_are_in_normal_form_and_leave_room_for_a_label() {
    for (domain, word) in [
        ("", "is missing"),
        ("*.svc.example.com", "write `svc.example.com`"),
        ("svc.example.com.", "write `svc.example.com`"),
        ("Svc.Example.com", "write `svc.example.com`"),
        ("bücher.example", "punycode"),
        ("a..b", "1 to 63 characters"),
        (".a", "1 to 63 characters"),
        ("a b.example", "cannot stand in a host name"),
        ("svc.example.com:443", "cannot stand in a host name"),
        ("a.*.example", "cannot stand in a host name"),
    ] {
        let error = Keyring::new(vec![key(1)], domain).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    let long = "a.".repeat(94);
    assert!(Keyring::new(vec![key(1)], &format!("{long}a")).is_ok(), "189 bytes");
    assert!(Keyring::new(vec![key(1)], &format!("{long}aa")).is_err());
    assert!(Keyring::new(vec![key(1)], &"a".repeat(64)).is_err());
    assert!(Keyring::new(vec![key(1)], "localhost").is_ok());
}

#[test]
fn debug_output_shows_neither_labels_nor_secrets() {
    let keys = keyring(&[1]);
    let label = keys.seal(&destination()).unwrap();
    assert_eq!(format!("{label:?}"), format!("Label({})", crate::redacted(label.as_bytes())));
    assert!(format!("{label:?}").starts_with("Label(sealed:1:"));
    assert_eq!(format!("{label}"), label.as_str());
    assert_eq!(crate::redacted(label.as_str().to_uppercase().as_bytes()), crate::redacted(label.as_bytes()));
    assert_eq!(format!("{:?}", key(1)), "Key { id: 1, secret: Secret(not shown) }");
}
