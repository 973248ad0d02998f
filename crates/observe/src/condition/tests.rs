//! What conditions mean, and what is no condition.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

struct Sample;

impl Facts for Sample {
    fn number(&self, field: NumberField) -> u64 {
        match field {
            NumberField::Status => 503,
            NumberField::Latency => Duration::from_millis(1500).as_micros() as u64,
            NumberField::Attempts => 2,
            NumberField::BytesIn => 0,
            NumberField::BytesOut => 2048,
        }
    }

    fn text(&self, field: TextField) -> Cow<'_, [u8]> {
        let text: &[u8] = match field {
            TextField::Method => b"GET",
            TextField::Host => b"shop.test:8080",
            TextField::Path => b"/products/42/view",
            TextField::Route => b"products",
            TextField::Service => b"shop",
            TextField::Endpoint => b"http://10.0.0.1:80",
            TextField::User => b"",
            TextField::Fault => b"connection_refused",
            TextField::Proto => b"HTTP/1.1",
        };
        Cow::Borrowed(text)
    }

    fn client_ip(&self) -> IpAddr {
        "10.1.2.3".parse().unwrap()
    }
}

fn holds(text: &str) -> bool {
    Condition::parse(text).unwrap_or_else(|error| panic!("{error}")).holds(&Sample)
}

#[test]
fn comparisons_say_what_they_say() {
    for text in [
        "status=503",
        "status==503",
        "status = 5xx",
        "status != 4xx",
        "status>=500",
        "status > 502",
        "status<=503",
        "status < 504",
        "latency>1s",
        "latency >= 1s500ms",
        "latency<2s",
        "attempts=2",
        "bytes_in=0B",
        "bytes_out>=2KiB",
        "method=get",
        "host=SHOP.test:8080",
        "host ~ shop.*",
        "path=/products/42/view",
        "path~/products/",
        "path~*/view",
        "path ~ /products/*/view",
        "path !~ /admin",
        "route='products'",
        "service!=\"cart\"",
        "endpoint~10.0.0.1",
        "client_ip=10.1.2.3",
        "client_ip=10.0.0.0/8",
        "client_ip!=::1",
        "user=''",
        "user = \"\"",
        "fault=connection_refused",
        "fault!=''",
        "fault~refused",
        "proto~HTTP/1*",
        "proto=http/1.1",
        "STATUS=503",
    ] {
        assert!(holds(text), "{text}");
        assert!(!holds(&format!("not {text}")), "not {text}");
    }
}

#[test]
fn not_binds_before_and_and_and_before_or() {
    assert!(holds("status=200 and status=1 or status=503"));
    assert!(holds("status=503 or status=200 and status=1"));
    assert!(!holds("(status=503 or status=200) and status=1"));
    assert!(!holds("not status=200 and status=1"));
    assert!(holds("not (status=200 and status=1)"));
    assert!(holds("!(status=200) && (status=1 || latency>1s)"));
    assert!(holds("NOT status=200 AND status=5xx"));
    assert!(holds("status>=500 and(latency>1s)"));
}

#[test]
fn globs_match_the_whole_text() {
    for (pattern, fits) in [
        ("/products/*", true),
        ("*products*", true),
        ("*42*view", true),
        ("*", true),
        ("**", true),
        ("products*", false),
        ("*42", false),
        ("/products/42/view*view", false),
        ("*view*42*", false),
    ] {
        assert_eq!(holds(&format!("path~{pattern}")), fits, "{pattern}");
    }
}

#[test]
fn networks_hold_their_addresses_of_both_families() {
    for (network, fits) in [
        ("10.1.2.3/32", true),
        ("10.1.0.0/16", true),
        ("0.0.0.0/0", true),
        ("10.1.2.2/32", false),
        ("11.0.0.0/8", false),
        ("::ffff:10.1.2.3", true),
        ("2001:db8::/32", false),
        ("::/0", true),
    ] {
        assert_eq!(holds(&format!("client_ip={network}")), fits, "{network}");
    }
}

#[test]
fn a_mistake_is_told_with_its_place_and_a_remedy() {
    let told = |text: &str| {
        let error = Condition::parse(text).unwrap_err();
        (error.to_string(), error.help.unwrap_or_default())
    };
    let (text, help) = told("status>=500 or latncy>1s");
    assert_eq!(text, "`latncy` is not a field\n  status>=500 or latncy>1s\n                 ^^^^^^");
    assert!(help.starts_with("fields are status, latency, method, host"), "{help}");
    let (text, _) = told("latency>5");
    assert_eq!(text, "`5` has no unit; write for example `5s` or `5ms`\n  latency>5\n          ^");
    let (text, help) = told("method>GET");
    assert_eq!(text, "`method` cannot be compared with `>`\n  method>GET\n        ^");
    assert_eq!(help, "use = != ~ or !~");
    let (text, _) = told("(status=1");
    assert_eq!(text, "the parenthesis that opens here is not closed\n  (status=1\n  ^");
    let (text, _) = told("path=ä and \u{1b}x=1");
    assert_eq!(text, "a comparison is missing here\n  path=ä and \u{fffd}x=1\n             ^");
}

#[test]
fn what_is_no_condition_is_refused() {
    for text in [
        "",
        "  ",
        "status",
        "status=",
        "status=abc",
        "status=6xx",
        "status=1000",
        "status>5xx",
        "status~5",
        "status=500 status=501",
        "status=500)",
        "()",
        "not",
        "status=500 and",
        "or status=500",
        "path='open",
        "client_ip=10",
        "client_ip=10.0.0.0/33",
        "client_ip~10",
        "bytes_in>1",
        "attempts=-1",
        "fault=broken",
        "notstatus=1",
        "status=500 andlatency>1s",
        "a=1",
        "status ? 500",
    ] {
        assert!(Condition::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_condition_is_bounded_in_every_direction() {
    assert!(Condition::parse(&"(".repeat(1000)).is_err());
    assert!(Condition::parse(&"!".repeat(1000)).is_err());
    let nested = |levels: usize| format!("{}status=1{}", "(".repeat(levels), ")".repeat(levels));
    assert!(
        Condition::parse(&nested(MOST_DEPTH)).is_ok() && Condition::parse(&nested(MOST_DEPTH + 1)).is_err()
    );
    let many = |count: usize| vec!["status=1"; count].join("||");
    assert!(Condition::parse(&many(MOST_COMPARISONS)).is_ok());
    assert!(Condition::parse(&many(MOST_COMPARISONS + 1)).is_err());
    let long = format!("path={}", "a".repeat(MOST_TEXT));
    assert!(Condition::parse(&long).unwrap_err().to_string().len() < 200);
}

fn comparison() -> impl Strategy<Value = String> {
    prop_oneof![
        (0u16..600, "(=|!=|<|<=|>|>=)").prop_map(|(status, sign)| format!("status{sign}{status}")),
        (1u32..5000, "(<|>)").prop_map(|(ms, sign)| format!("latency {sign} {ms}ms")),
        "path(=|!=|~|!~)/[a-z*]{0,6}",
        "user=(''|\"a b\"|x)",
    ]
}

fn condition() -> impl Strategy<Value = String> {
    comparison().prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} and {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} or {b}")),
            inner.clone().prop_map(|a| format!("({a})")),
            inner.prop_map(|a| format!("not ({a})")),
        ]
    })
}

proptest! {
    #[test]
    fn every_written_condition_is_read_and_its_negation_is_its_opposite(text in condition()) {
        if let Ok(condition) = Condition::parse(&text) {
            let negated = Condition::parse(&format!("not ({text})")).unwrap();
            prop_assert_ne!(condition.holds(&Sample), negated.holds(&Sample));
        }
    }

    #[test]
    fn any_text_is_read_or_refused_with_a_place_inside_it(text in ".{0,200}") {
        if let Err(error) = Condition::parse(&text) {
            prop_assert!(error.column() <= text.chars().count() + 1);
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn texts_of_the_language_are_read_or_refused(text in "[a-z=<>!~()'\"& |0-9x_/*.]{0,80}") {
        let _ = Condition::parse(&text).map(|condition| condition.holds(&Sample));
    }
}
