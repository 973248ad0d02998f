use super::*;

fn parse(method: Method, text: &str) -> Result<Target, u16> {
    parse_target(method, text.as_bytes(), Span::new(0, text.len())).map_err(|fault| fault.status)
}

fn parts(text: &str) -> (TargetForm, String, String, Option<String>) {
    let target = parse(Method::Get, text).unwrap();
    let of = |span: Span| String::from_utf8(span.of(text.as_bytes()).to_vec()).unwrap();
    (target.form, of(target.authority), of(target.path), target.query.map(of))
}

fn normal(path: &str) -> Result<String, u16> {
    let mut out = b"kept".to_vec();
    let result = normalize_path(path.as_bytes(), &mut out).map_err(|fault| fault.status);
    assert!(out.starts_with(b"kept"));
    assert!(result.is_ok() || out == b"kept");
    result.map(|_| String::from_utf8(out[4..].to_vec()).unwrap())
}

#[test]
fn targets_are_split_into_their_parts() {
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(parts("/"), (TargetForm::Origin, "".into(), "/".into(), None));
    assert_eq!(parts("/a/b?c?d/e"), (TargetForm::Origin, "".into(), "/a/b".into(), some("c?d/e")));
    assert_eq!(parts("/a?"), (TargetForm::Origin, "".into(), "/a".into(), some("")));
    assert_eq!(parts("http://h:1/a?b"), (TargetForm::Absolute, "h:1".into(), "/a".into(), some("b")));
    assert_eq!(parts("HTTPS://h"), (TargetForm::Absolute, "h".into(), "".into(), None));
    assert_eq!(parts("http://[::1]?/b"), (TargetForm::Absolute, "[::1]".into(), "".into(), some("/b")));
    let scheme = parse(Method::Get, "https://h").unwrap().scheme;
    assert_eq!(scheme.of(b"https://h"), b"https");
    assert_eq!(parse(Method::Options, "*").unwrap().form, TargetForm::Asterisk);
    assert_eq!(parse(Method::Connect, "h:443").unwrap().form, TargetForm::Authority);
}

#[test]
fn a15_targets_of_no_form_are_refused() {
    for text in [
        "",
        "*",
        "a",
        "a/b",
        "http:/x",
        "http:x",
        "http://",
        "http:///a",
        "ftp://h/",
        "file:///etc",
        "//host/path",
        "?a",
        "**",
    ] {
        assert_eq!(parse(Method::Get, text), Err(400), "{text}");
    }
    for text in [
        "http://u@h/",
        "http://u:p@h/",
        "http://h:99999/",
        "http://h//a",
        "http://a,b/",
        "javascript:alert(1)",
    ] {
        assert_eq!(parse(Method::Get, text), Err(400), "{text}");
    }
    for text in ["h", "/", "*", "http://h:1/", "u@h:1", "h:", ":1", "h:1/a"] {
        assert_eq!(parse(Method::Connect, text), Err(400), "{text}");
    }
}

#[test]
fn b1_dot_segments_are_resolved_and_empty_segments_kept() {
    for (path, expected) in [
        ("/", "/"),
        ("/a", "/a"),
        ("/a/", "/a/"),
        ("/a/b", "/a/b"),
        ("/a//b", "/a//b"),
        ("/a//", "/a//"),
        ("/a/../admin", "/admin"),
        ("/a/./b", "/a/b"),
        ("/a/b/..", "/a/"),
        ("/a/.", "/a/"),
        ("/.", "/"),
        ("/a/..", "/"),
        ("/./a", "/a"),
        ("/a//../b", "/a/b"),
        ("/a/b/../../c", "/c"),
        ("/...", "/..."),
        ("/.a", "/.a"),
        ("/a./b..", "/a./b.."),
        ("/.well-known/x", "/.well-known/x"),
        ("/..a", "/..a"),
        ("/a;b/c", "/a;b/c"),
    ] {
        assert_eq!(normal(path).as_deref(), Ok(expected), "{path}");
    }
    for path in [
        "/..",
        "/../a",
        "/a/../..",
        "/a/../../b",
        "/./..",
        "//admin",
        "/.//admin",
        "/a/..//admin",
        "a",
        "",
        "*",
    ] {
        assert_eq!(normal(path), Err(400), "{path}");
    }
}

#[test]
fn b2_escapes_get_one_spelling() {
    for (path, expected) in [
        ("/%61%2D%7e", "/a-~"),
        ("/%2e%2E/a", "400"),
        ("/a/%2e%2e/b", "/b"),
        ("/a/%2E/b", "/a/b"),
        ("/a/.%2e/b", "/b"),
        ("/%252e%252e/a", "/%252e%252e/a"),
        ("/a%2fb", "/a%2Fb"),
        ("/%c3%a9", "/%C3%A9"),
        ("/a%20b%3f%23", "/a%20b%3F%23"),
        ("/%e9", "/%E9"),
        ("/%25", "/%25"),
        ("/%0d%0a", "/%0D%0A"),
        ("/a%5cb", "/a%5Cb"),
    ] {
        assert_eq!(normal(path), if expected == "400" { Err(400) } else { Ok(expected.into()) }, "{path}");
    }
}

#[test]
fn b2_paths_without_a_safe_form_are_refused() {
    for path in [
        "/..;/a",
        "/a/..;/b",
        "/a/..;x=y/b",
        "/.;/a",
        "/a/..;",
        "/a/%2e%2e;/b",
        "/a/..%3b/b",
        "/a/..%3B",
        "/a\\b",
        "/..%5ca",
        "/a%5C..",
        "/a%5c.;x",
        "/..\\a",
        "/admin%00",
        "/%00",
        "/%zz",
        "/%",
        "/a%",
        "/a%2",
        "/%2",
        "/%g0",
        "/%c0%ae%c0%ae/",
        "/%C1%9C",
        "/%e0%80%ae",
        "/%f0%80%80%ae",
        "/a b",
        "/a\0",
        "/a?b",
        "/a#b",
        "/a\u{e9}",
        "/a/..%2fb",
        "/a/%2e%2e%2fb",
        "/a%2f..",
        "/a%2f..%2fb",
        "/a%2f.",
        "/..%2f",
    ] {
        assert_eq!(normal(path), Err(400), "{path}");
    }
}

/// Found by fuzzing: a gateway that decodes the slash and then cuts parameters would climb.
#[test]
fn b2_parameters_on_dots_behind_an_encoded_slash_are_refused() {
    for path in ["/%2f.;a", "/a%2f..;x/admin", "/a%2F..%3bx", "/..;x%2fa", "/a%2f%2e%2e;b"] {
        assert!(normalize_path(path.as_bytes(), &mut Vec::new()).is_err(), "{path}");
    }
    assert!(normalize_path(b"/a%2f...;x", &mut Vec::new()).is_ok());
}

fn escapes(path: &str) -> Escapes {
    normalize_path(path.as_bytes(), &mut Vec::new()).unwrap()
}

#[test]
fn b2_escapes_that_an_upstream_reads_otherwise_are_reported() {
    for (path, expected) in [
        ("/a/b", Escapes::NONE),
        ("/@scope%2fname", Escapes::NONE),
        ("/%252f", Escapes::NONE),
        ("/a%20b%7e%80", Escapes::NONE),
        ("/%2fadmin", Escapes::SLASH),
        ("/a%2F", Escapes::SLASH),
        ("/a/%2F/b", Escapes::SLASH),
        ("/a%2f%2fb", Escapes::SLASH),
        ("/%2f/../c", Escapes::SLASH),
        ("/a%01b", Escapes::CONTROL),
        ("/%1F", Escapes::CONTROL),
        ("/%7f", Escapes::CONTROL),
        ("/a%0d%0ab", Escapes::CONTROL),
        ("/a%5cb", Escapes::BACKSLASH),
        ("/%5C%09%2F", Escapes::SLASH.union(Escapes::CONTROL).union(Escapes::BACKSLASH)),
    ] {
        assert_eq!(escapes(path), expected, "{path}");
    }
    assert!(escapes("/%5Ca").check(Escapes::NONE).is_err_and(|fault| fault.status == 400));
    assert!(escapes("/%5Ca%01").check(Escapes::BACKSLASH).is_err());
    assert_eq!(escapes("/%5Ca%01").check(Escapes::BACKSLASH.union(Escapes::CONTROL)), Ok(()));
    assert_eq!(escapes("/a").check(Escapes::NONE), Ok(()));
}

#[test]
fn a15_raw_bytes_are_percent_encoded() {
    for (path, expected) in
        [("/a|b", "/a%7Cb"), ("/{id}", "/%7Bid%7D"), ("/a^b`c\"d", "/a%5Eb%60c%22d"), ("/..|/a", "/..%7C/a")]
    {
        assert_eq!(normal(path).as_deref(), Ok(expected), "{path}");
        assert!(!path_is_normal(path.as_bytes()), "{path}");
    }
    for path in ["/a\\b", "/a<b", "/a>b", "/|/..\\"] {
        assert_eq!(normal(path), Err(400), "{path}");
    }
    let mut out = b"?".to_vec();
    write_query(b"q={\"a\":[1|2]}&b=\\^`%7b?/", &mut out);
    assert_eq!(out, b"?q=%7B%22a%22:[1%7C2]%7D&b=%5C%5E%60%7b?/");
}

#[test]
fn the_quick_check_only_promises_what_holds() {
    for path in ["/", "/a/b.c", "/a..", "/products/42", "/@a/b:c+d"] {
        assert!(path_is_normal(path.as_bytes()), "{path}");
        assert_eq!(normal(path).as_deref(), Ok(path));
        assert_eq!(crate::write_readings(path.as_bytes(), &mut Vec::new()), None);
    }
    for path in
        ["", "a", "*", "//a", "/a/../b", "/.", "/%61", "/a\\b", "/a b", "/a?b", "/a//b", "/a;b", "/[a]"]
    {
        assert!(!path_is_normal(path.as_bytes()), "{path}");
    }
}
