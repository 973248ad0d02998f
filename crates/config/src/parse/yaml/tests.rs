//! What the YAML and JSON reader accepts, where it puts spans and what it refuses.

use super::*;
use crate::source::Sources;

fn read(text: &str, json: bool) -> (Option<Node>, String) {
    let mut sources = Sources::default();
    let file = sources.add("a.yaml", text);
    let mut problems = Problems::default();
    let node = parse(text, file, json, &mut problems);
    (node, problems.into_report(sources).to_string())
}

fn good(text: &str) -> Node {
    let (node, report) = read(text, false);
    assert_eq!(report, "");
    node.unwrap()
}

fn bad(text: &str) -> String {
    let report = read(text, false).1;
    assert!(report.contains("a.yaml:"), "{report}");
    report
}

#[test]
fn spans_are_bytes_of_the_text() {
    let text = "# ä\nlisteners:\n  web: { address: \":80ä\" }\r\nnext: ü\nx: [1, 'b']\n";
    let node = good(text);
    let slice = |node: &Node| &text[node.span.range()];
    let address = node.entry("listeners").and_then(|n| n.entry("web")).and_then(|n| n.entry("address"));
    assert_eq!(slice(address.unwrap()), "\":80ä\"");
    assert_eq!(slice(node.entry("next").unwrap()), "ü");
    assert_eq!(slice(node.entry("x").unwrap()), "[1, 'b']");
    assert_eq!(slice(node.entry("listeners").and_then(|n| n.entry("web")).unwrap()), "{ address: \":80ä\" }");
}

#[test]
fn off_is_text_and_keys_are_text() {
    let node = good("format: off\non: 1\n80: yes\ntrue: ~\n");
    assert_eq!(node.entry("format").unwrap().kind, Kind::Str("off".into()));
    assert_eq!(node.entry("on").unwrap().kind, Kind::Int(1));
    assert_eq!(node.entry("80").unwrap().kind, Kind::Str("yes".into()));
    assert_eq!(node.entry("true").unwrap().kind, Kind::Null);
}

#[test]
fn an_empty_text_is_an_empty_value() {
    for text in ["", "# only a comment\n", "---\n", "---\n...\n"] {
        assert_eq!(good(text).kind, Kind::Null, "{text:?}");
    }
}

#[test]
fn json_with_tabs_and_escapes_is_read() {
    let (node, report) = read("{\n\t\"a\": \"x\\/\\u00e4\",\n\t\"b\": [ true, null, -1.5 ]\n}\n", true);
    assert_eq!(report, "");
    assert_eq!(node.unwrap().entry("a").unwrap().kind, Kind::Str("x/ä".into()));
}

#[test]
fn aliases_are_copies() {
    let node = good("a: &x { b: 1 }\nc: *x\n");
    assert_eq!(node.entry("a"), node.entry("c"));
}

#[test]
fn duplicate_keys_name_both_places() {
    let report = bad("a: 1\nb: 2\na: 3\n");
    assert!(report.contains("first here") && report.contains("again here"), "{report}");
}

#[test]
fn alias_bombs_are_refused() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let items = vec![format!("*a{}", i - 1); 9].join(", ");
        text.push_str(&format!("a{i}: &a{i} [{items}]\n"));
    }
    assert!(bad(&text).contains("too large"));
    assert!(bad("a: &a [*a]\n").contains("inside the value"));
    let wide = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(1024 * 1024), "*a, ".repeat(100));
    assert!(bad(&wide).contains("too large"));
}

#[test]
fn refuses_what_hides_the_meaning() {
    assert!(bad("a: 1\n---\nb: 2\n").contains("second document"));
    assert!(bad("a: &x {b: 1}\nc:\n  <<: *x\n").contains("merge keys"));
    assert!(bad("a: !!str 1\n").contains("tags"));
    assert!(bad("? [a]\n: b\n").contains("plain name"));
    assert!(bad("${A}: b\n").contains("not in keys"));
    assert!(bad(": b\n").contains("key is empty"));
}

#[test]
fn syntax_errors_have_a_hint() {
    assert!(bad("a:\n\tb: 1\n").contains("not with tabs"));
    assert!(bad("host: *.example.com\n").contains("needs quotes"));
    bad("a: [1, 2\n");
    bad("a: \"x\nb: 1\n");
    bad("a: b: c\n");
    bad("a: 1\n b: 2\n");
}
