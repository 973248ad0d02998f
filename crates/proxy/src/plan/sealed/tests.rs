use super::*;
use thalweg_sealed::{Key, Secret};

const DOMAIN: &str = "svc.example.com";
const NOW: u64 = 1_800_000_000;
const HOUR: Duration = Duration::from_secs(3600);

fn route(ids: &[u8], allow: &[&str], revoked: &[&str]) -> SealedRoute {
    let key = |id: &u8| Key { id: *id, secret: Secret::from([*id; 64]) };
    let keyring = Keyring::new(ids.iter().map(key).collect(), DOMAIN).unwrap();
    let found = keyring.services(["checkout", "admin"]);
    SealedRoute {
        service: ServiceId(7),
        allow: allow.iter().map(|text| text.parse::<thalweg_sealed::reach::Entry>().unwrap()).collect(),
        named: vec![ServiceId(1), ServiceId(2)],
        found,
        revoked: Some(RevokedFile::new("revoked".into(), Revoked::parse(revoked).unwrap())),
        max_ttl: 24 * HOUR,
        keyring,
    }
}

fn at(secs: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(secs)
}

fn seal(route: &SealedRoute, target: &str, ttl: Duration) -> Result<Sealed, String> {
    route.seal(Target::parse(target)?, (at(NOW), ttl), |_| false)
}

fn open(route: &SealedRoute, host: &str, secs: u64) -> Result<Leads, &'static str> {
    route.open(host.as_bytes(), at(secs), |address| address.port() == 8080).map(|(leads, _)| leads)
}

#[test]
fn what_was_sealed_is_found_until_it_expires() {
    let route = route(&[1, 2], &["10.0.0.0/8:1-65535"], &[]);
    let sealed = seal(&route, "https://10.0.0.7", HOUR).unwrap();
    assert_eq!((sealed.key, sealed.expires, sealed.label.len()), (2, NOW + 3600, 63));
    let aim = Leads::Aim(Aim { address: ([10, 0, 0, 7], 443).into(), secure: true });
    assert_eq!(open(&route, &sealed.host, NOW), Ok(aim));
    assert_eq!(open(&route, &sealed.host.to_uppercase(), NOW + 3599), Ok(aim));
    assert_eq!(open(&route, &sealed.host, NOW + 3600), Err("the label has expired"));
    let service = seal(&route, "service:admin", HOUR).unwrap();
    assert_eq!(open(&route, &service.host, NOW), Ok(Leads::Service(ServiceId(2))));
    let unknown = seal(&route, "service:nobody", HOUR).unwrap();
    assert_eq!(open(&route, &unknown.host, NOW), Err("the label names no service of `services`"));
}

#[test]
fn the_label_stands_alone_before_the_domain() {
    let route = route(&[1], &["10.0.0.0/8:1-65535"], &[]);
    let Sealed { host, label, .. } = seal(&route, "10.0.0.7:80", HOUR).unwrap();
    for other in [
        format!("a.{host}"),
        format!("{label}.other.example.com"),
        format!("{label}{DOMAIN}"),
        format!(".{DOMAIN}"),
        DOMAIN.to_owned(),
        label,
        String::new(),
    ] {
        assert_eq!(open(&route, &other, NOW), Err("the label has not 63 characters"), "{other}");
    }
}

#[test]
fn labels_that_are_revoked_or_good_for_too_long_are_refused() {
    let generous = SealedRoute { max_ttl: 1000 * HOUR, ..route(&[1], &["10.0.0.0/8:1-65535"], &[]) };
    let long = seal(&generous, "10.0.0.7:80", 25 * HOUR).unwrap();
    let day = seal(&generous, "10.0.0.7:80", 24 * HOUR).unwrap();
    let route = route(&[1], &["10.0.0.0/8:1-65535"], &[&day.label.to_uppercase()]);
    assert_eq!(open(&route, &long.host, NOW), Err("the label is good for longer than `max_ttl`"));
    assert!(open(&route, &long.host, NOW + 3600).is_ok(), "later on it is not");
    assert_eq!(open(&route, &day.host, NOW), Err("the label was revoked"));
    assert!(seal(&route, "10.0.0.7:80", 25 * HOUR).unwrap_err().contains("for 1d at most"));
    assert!(seal(&route, "10.0.0.7:80", Duration::ZERO).is_err());
}

#[test]
fn an_address_that_is_not_allowed_is_refused_when_it_is_sealed_and_when_it_is_opened() {
    let wide = route(&[1], &["0.0.0.0/0:1-65535", "127.0.0.0/8:1-65535"], &[]);
    let route = route(&[1], &["10.0.0.0/8:1024-65535"], &[]);
    for (target, why) in [
        ("10.0.0.7:80", "no entry of `allow` holds the address"),
        ("11.0.0.7:3000", "no entry of `allow` holds the address"),
        ("127.0.0.1:3000", "no entry of `allow` holds the address"),
    ] {
        assert_eq!(seal(&route, target, HOUR).unwrap_err(), format!("{target}: {why}"));
        let sealed = seal(&wide, target, HOUR).unwrap();
        assert_eq!(open(&route, &sealed.host, NOW), Err(why), "{target}");
    }
    let own = seal(&wide, "10.0.0.7:8080", HOUR).unwrap();
    assert_eq!(open(&route, &own.host, NOW), Err("the address is the proxy's own"));
    // An IPv6 form of an IPv4 address is that address: it is judged, and connected to, as such.
    let mapped = seal(&route, "[64:ff9b::10.0.0.7]:3000", HOUR).unwrap();
    let aim = Leads::Aim(Aim { address: ([10, 0, 0, 7], 3000).into(), secure: false });
    assert_eq!(open(&route, &mapped.host, NOW), Ok(aim));
}

#[test]
fn destinations_are_read_and_everything_else_is_refused_with_a_remedy() {
    let address = |text: &str, tls| Ok(Target::Address { address: text.parse().unwrap(), tls });
    for (text, target) in [
        ("10.0.0.7:3000", address("10.0.0.7:3000", false)),
        ("http://10.0.0.7:3000/", address("10.0.0.7:3000", false)),
        ("http://10.0.0.7", address("10.0.0.7:80", false)),
        ("https://[2001:db8::7]", address("[2001:db8::7]:443", true)),
        ("https://2001:db8::7", address("[2001:db8::7]:443", true)),
        ("[2001:db8::7]:8443", address("[2001:db8::7]:8443", false)),
        ("service:checkout", Ok(Target::Service("checkout"))),
    ] {
        assert_eq!(Target::parse(text), target, "{text}");
    }
    // Decimal, octal, hexadecimal and short forms are no addresses; names would have to be resolved by somebody.
    for text in [
        "",
        "10.0.0.7",
        "service:",
        "app.internal:80",
        "localhost:80",
        "2130706433:80",
        "0177.0.0.1:80",
        "0x7f.1:80",
        "127.1:80",
        "http://10.0.0.7:3000/path",
        "tcp://10.0.0.7:80",
        "10.0.0.7:",
        "10.0.0.7:99999",
        "[::1%lo]:80",
        "http://user@10.0.0.7:80",
    ] {
        let error = Target::parse(text).unwrap_err();
        assert!(error.contains("no destination") || error.contains("lacks"), "{text}: {error}");
    }
}
