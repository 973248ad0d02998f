//! Tests of texts with placeholders.

use super::*;
use crate::fields::FieldView;
use crate::tests::facts;
use thalweg_core::{Fault, FaultKind};

fn filled(text: &str, escape: Escape) -> String {
    // The first one has such a parameter too, and does not fit.
    let pattern = ["/b/{id}/x", "/a/{id}/*"].map(|text| thalweg_route::PathPattern::parse(text).unwrap());
    let mut facts = facts("/a/7/x/y");
    (facts.patterns, facts.query) = (&pattern, Some(&b"q=a%20b%0d%0aX%3a+1&q=2&e"[..]));
    let fields = FieldView::new(&[], &[], b"X-Name: <\"v\">\r\nCookie: sid=abc\r\n");
    let fault = Some(Fault::new(FaultKind::DnsError, "no <name>"));
    let values = Values { facts: &facts, fields, target: None, identity: None, status: Some(404), fault };
    let mut out = Vec::new();
    Template::parse(text).unwrap().render(&values, escape, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn placeholders_are_filled() {
    for (text, expected) in [
        ("{scheme}://{host}:{port}{path}", "https://shop.test:443/a/7/x/y"),
        ("{path.id}|{path.1}|{path.2}|{path.3}", "7|7|x/y|"),
        ("{{{method}}} {status}", "{GET} 404"),
        ("{cookie.sid}{cookie.none}-{header.x-NAME}", "abc-<\"v\">"),
        ("{client_ip} {request_id} {route} {service} {listener}", "192.0.2.1 id-1 r s web"),
        ("{reason}: {fault}, {fault.detail}", "Not Found: dns_error, no <name>"),
        ("{time}", "2026-11-24T12:00:00Z"),
        ("{tls.version}{tls.sni}{tls.client.subject}", ""),
    ] {
        assert_eq!(filled(text, Escape::Field), expected, "{text}");
    }
}

#[test]
fn what_comes_from_outside_is_escaped_for_its_place() {
    assert_eq!(filled("{query.q}", Escape::Field), "a bX: 1");
    assert_eq!(filled("{query.q}", Escape::Url), "a%20b%0D%0AX:%201");
    assert_eq!(filled("<b>{header.x-name}", Escape::Html), "<b>&lt;&quot;v&quot;&gt;");
    assert_eq!(filled("{header.x-name}", Escape::Json), "<\\\"v\\\">");
}

#[test]
fn braces_of_a_file_that_are_no_placeholders_stand_for_themselves() {
    let filled = |text: &str| {
        let facts = facts("/a");
        let fields = FieldView::default();
        let values =
            Values { facts: &facts, fields, target: None, identity: None, status: Some(404), fault: None };
        let mut out = Vec::new();
        Template::parse_file(text).unwrap().render(&values, Escape::Html, &mut out);
        String::from_utf8(out).unwrap()
    };
    for (text, expected) in [
        ("h1{color:red}@media x{a{b:c}}", "h1{color:red}@media x{a{b:c}}"),
        ("<p>{host}{status}</p>", "<p>shop.test404</p>"),
        ("if (x) { y() } {} {{}} }{", "if (x) { y() } {} {{}} }{"),
        ("{{host}} {{{host}}} {{ host }}", "{host} {{host}} {{ host }}"),
        ("{", "{"),
        ("{host", "{host"),
    ] {
        assert_eq!(filled(text), expected, "{text}");
    }
    let error = Template::parse_file("a {hots}").unwrap_err();
    assert!(error.contains("no placeholder `{hots}`"), "{error}");
    assert!(Template::parse_file(&"x".repeat(FILE_LENGTH + 1)).is_err());
}

#[test]
fn wrong_texts_are_refused_with_the_right_words() {
    for (text, part) in [
        ("{hots}", "no placeholder `{hots}`; there are {client_ip} {method}"),
        ("{header.}", "no placeholder"),
        ("a{b", "without a `}`"),
        ("a}b", "without a `{`"),
        ("{}", "no placeholder `{}`"),
    ] {
        let error = Template::parse(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert_eq!(Template::parse("plain {{x}}").unwrap().constant(), Some("plain {x}"));
    assert_eq!(Template::parse("{path.2}{path.id}").unwrap().captures().collect::<Vec<_>>(), ["2", "id"]);
}
