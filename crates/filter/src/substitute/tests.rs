use super::pattern::BLOCK;
use super::*;
use crate::stages::tests::run;
use crate::tests::{Asked, built};
use thalweg_core::FaultKind;

fn filter(rules: &str) -> Arc<dyn Filter> {
    built::<SubstituteSpec>(&format!(r#"{{"rules": {rules}}}"#)).build().unwrap()
}

/// What becomes of a body that comes in pieces of these lengths.
fn made(rules: &str, body: &[u8], pieces: impl Iterator<Item = usize>) -> Result<Vec<u8>, Fault> {
    let mut asked = Asked::at("/");
    asked.response = b"Content-Type: text/html\r\n".to_vec();
    let mut outcome = asked.answer(&*filter(rules));
    run(&mut *outcome.transforms.remove(0), body, pieces)
}

fn text(rules: &str, body: &str) -> String {
    String::from_utf8(made(rules, body.as_bytes(), std::iter::repeat(3)).unwrap()).unwrap()
}

#[test]
fn texts_and_patterns_are_replaced_in_their_order() {
    for (rules, body, expected) in [
        (r#"{"text": "cat", "to": "dog"}"#, "a cat, cats, cacat, ca", "a dog, dogs, cadog, ca"),
        (r#"{"text": "cat", "to": "dog", "once": true}"#, "cat cat", "dog cat"),
        (r#"{"text": "aa", "to": "a"}"#, "aaaaa", "aaa"),
        (r#"[{"text": "a", "to": "b"}, {"text": "b", "to": "c"}]"#, "ab", "cc"),
        (
            r#"{"regex": "(\\w+)@(\\w+)", "to": "$2 at ${1}$$"}"#,
            "me@home\nyou@work",
            "home at me$\nwork at you$",
        ),
        (r#"{"regex": "^b.*$", "to": "X"}"#, "a\nbcd\nb", "a\nX\nX"),
        (r#"{"regex": "x", "to": "", "once": true}"#, "axx\nx", "ax\nx"),
        (r#"{"regex": "\\bis\\b", "to": "was"}"#, "this is it", "this was it"),
        (r#"{"text": "gone", "to": ""}"#, "gone", ""),
        (r#"{"text": "never", "to": "x"}"#, "", ""),
    ] {
        assert_eq!(text(rules, body), expected, "{rules}");
    }
}

#[test]
fn only_what_could_begin_the_text_is_held_back() {
    let mut asked = Asked::at("/");
    asked.response = b"Content-Type: text/event-stream\r\n".to_vec();
    let mut outcome = asked.answer(&*filter(r#"[{"text": "data", "to": "x"}, {"regex": "y+", "to": "z"}]"#));
    let transform = &mut outcome.transforms[0];
    for (piece, expected) in
        [("id: yy\n", "id: z\n"), ("dat", ""), ("a\n", "x\n"), ("dada\n", "dada\n"), ("a", "")]
    {
        let mut out = Vec::new();
        transform.push(&mut piece.as_bytes(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{piece:?}");
    }
}

/// Whatever pieces a body comes in, the same becomes of it.
#[test]
fn the_result_over_pieces_is_that_over_the_whole() {
    let rules = [
        r#"[{"text": "abab", "to": "ab"}, {"regex": "b+a", "to": "[$0]"}, {"text": "]", "to": "b"}]"#,
        r#"[{"regex": "a(b*)", "to": "${1}b"}, {"regex": "^b|b$|\\b", "to": "-"}]"#,
        r#"[{"text": "ba\nab", "to": ""}, {"regex": "(?s).b.", "to": "", "once": true}]"#,
    ];
    let mut random = fastrand::Rng::with_seed(22);
    for round in 0..300 {
        let letters = [b'a', b'b', b'\n'];
        let body: Vec<u8> = (0..random.usize(..200)).map(|_| letters[random.usize(..3)]).collect();
        for rules in rules {
            let whole = made(rules, &body, std::iter::repeat(usize::MAX)).unwrap();
            let pieces: Vec<usize> = (0..200).map(|_| random.usize(1..9)).collect();
            assert_eq!(made(rules, &body, pieces.into_iter()).unwrap(), whole, "{round} {rules} {body:?}");
        }
    }
}

#[test]
fn long_lines_are_looked_at_in_blocks_whose_borders_hide_no_match() {
    let word = "needle";
    for from in (BLOCK / 2 - 8..BLOCK / 2 + 8).chain(BLOCK - 8..BLOCK + 8) {
        let body = [&vec![b'.'; from][..], word.as_bytes(), &vec![b'.'; 2 * BLOCK]].concat();
        let expected = [&vec![b'.'; from][..], b"pin", &vec![b'.'; 2 * BLOCK]].concat();
        for piece in [1000, usize::MAX] {
            let made =
                made(r#"{"regex": "n\\w+e|^x", "to": "pin"}"#, &body, std::iter::repeat(piece)).unwrap();
            assert!(made == expected, "{from} {piece}");
        }
    }
}

#[test]
fn what_grows_too_much_breaks_off_and_memory_stays_bounded() {
    let page = "x".repeat(LONGEST);
    let body = vec![b'a'; 100_000];
    for rules in [
        format!(r#"{{"text": "a", "to": "{page}"}}"#),
        format!(r#"{{"regex": "a", "to": "{page}"}}"#),
        format!("[{}]", [r#"{"text": "a", "to": "aaa"}"#; 8].join(",")),
    ] {
        let fault = made(&rules, &body, std::iter::repeat(usize::MAX)).unwrap_err();
        assert_eq!(fault.kind, FaultKind::HttpResponseBodySize);
    }
}

#[test]
fn what_is_no_text_or_no_whole_or_coded_is_left_alone() {
    let rules = filter(r#"{"text": "a", "to": "b"}"#);
    for response in [
        "Content-Type: image/png\r\n",
        "",
        "Content-Type: text/css\r\nContent-Encoding: br\r\n",
        "Content-Type: text/css\r\nCache-Control: no-transform\r\n",
        "Content-Type: text/css\r\nContent-Range: bytes 0-1/2\r\n",
    ] {
        let mut asked = Asked::at("/");
        asked.response = response.as_bytes().to_vec();
        assert!(!asked.answer(&*rules).changes_length, "{response}");
        assert_eq!(asked.response_lines(), response);
    }
    let mut asked = Asked::at("/");
    asked.response = b"Content-Type: application/json\r\nETag: \"a\"\r\nAccept-Ranges: bytes\r\n".to_vec();
    assert!(asked.answer(&*rules).changes_length);
    assert_eq!(asked.response_lines(), "Content-Type: application/json\r\nETag: W/\"a\"\r\n");
}

#[test]
fn wrong_settings_are_refused() {
    for (rules, part) in [
        ("[]", "must be 1 to 32"),
        (r#"{"to": "a"}"#, "changes nothing"),
        (r#"{"text": "a", "regex": "a", "to": "b"}"#, "not both"),
        (r#"{"text": "", "to": "b"}"#, "1 to 16384"),
        (r#"{"text": "a", "to": "a"}"#, "changes nothing"),
        (r#"{"regex": "(", "to": "b"}"#, "not a regular expression"),
        (r#"{"regex": "a*", "to": "b"}"#, "matches where nothing is"),
        (r#"{"regex": "(a)", "to": "$2"}"#, "the group `2`"),
        (r#"{"regex": "(a)", "to": "${name}"}"#, "the group `name`"),
        (r#"{"regex": "(?:a{1000}){1000}", "to": "b"}"#, "not a regular expression"),
    ] {
        let spec = built::<SubstituteSpec>(&format!(r#"{{"rules": {rules}}}"#));
        let error = spec.build().unwrap_err();
        assert!(error.contains(part), "{rules}: {error}");
    }
    let spec = built::<SubstituteSpec>(r#"{"rules": {"text": "a", "to": "b"}, "types": "html"}"#);
    assert!(spec.build().unwrap_err().contains("no content type"));
}
