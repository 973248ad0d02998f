use super::*;

fn parsed(text: &str) -> PathPattern {
    PathPattern::parse(text).unwrap()
}

fn matches(pattern: &str, path: &str) -> bool {
    parsed(pattern).matches(path.as_bytes())
}

#[test]
fn tells_the_kinds_apart() {
    assert!(matches!(parsed("/a/b"), PathPattern::Exact(text) if text == "/a/b"));
    assert!(matches!(parsed("/"), PathPattern::Exact(text) if text == "/"));
    assert!(matches!(parsed("/a/"), PathPattern::Exact(text) if text == "/a/"));
    assert!(matches!(parsed("/a/*"), PathPattern::Prefix(text) if text == "/a"));
    assert!(matches!(parsed("/*"), PathPattern::Prefix(text) if text.is_empty()));
    for text in ["/users/{id}/posts", "/a/*/b", "/a/*/*", "/{rest*}", "/f/{rest*}", "/{a}/*"] {
        assert!(matches!(parsed(text), PathPattern::Pattern(_)), "{text}");
    }
}

#[test]
fn a_prefix_goes_by_whole_segments() {
    for path in ["/a", "/a/", "/a/x", "/a//"] {
        assert!(matches("/a/*", path), "{path}");
    }
    for path in ["/ab", "/", "/A", "a", ""] {
        assert!(!matches("/a/*", path), "{path}");
    }
    assert!(matches("/*", "/"));
    assert!(matches("/*", "*"));
    assert!(PathPattern::Prefix("/a/".into()).matches(b"/a"));
}

#[test]
fn a_parameter_is_one_segment_that_is_not_empty() {
    assert!(matches("/users/{id}/posts", "/users/7/posts"));
    assert!(matches("/users/*/posts", "/users/7/posts"));
    for path in ["/users//posts", "/users/7/8/posts", "/users/7/posts/", "/users/7"] {
        assert!(!matches("/users/{id}/posts", path), "{path}");
    }
}

#[test]
fn a_rest_may_be_empty() {
    for pattern in ["/f/{id}/{rest*}", "/f/{id}/*"] {
        for path in ["/f/1", "/f/1/", "/f/1/a/b"] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        assert!(!matches(pattern, "/f"), "{pattern}");
        assert!(!matches(pattern, "/f/"), "{pattern}");
    }
}

#[test]
fn brings_literals_to_the_normal_form_of_request_paths() {
    for (text, normal) in [
        ("/%41%7e", "/A~"),
        ("/a%2fb", "/a%2Fb"),
        ("/café", "/caf%C3%A9"),
        ("/a b", "/a%20b"),
        ("/%40team/c%2b%2B", "/@team/c++"),
        ("/%3ax/%2A", "/:x/*"),
        ("/[slug].js", "/%5Bslug%5D.js"),
        ("/v1/x:cancel", "/v1/x:cancel"),
        ("/%7bx%7d", "/%7Bx%7D"),
    ] {
        assert!(matches!(parsed(text), PathPattern::Exact(path) if path == normal), "{text}");
    }
}

#[test]
fn refuses_what_could_never_match() {
    let deep = "/{a}".to_owned() + &"/b".repeat(PATTERN_SEGMENTS);
    let long = "/".repeat(PATTERN_LENGTH + 1);
    for text in [
        "",
        "a",
        "*",
        "/a/../b",
        "/a/.",
        "/%2e%2E/a",
        "/%zz",
        "/%4",
        "/%",
        "/a?b",
        "/a#b",
        "/a\\b",
        "/%5c",
        "/%00",
        "/a*",
        "/a/*b/c",
        "/{id}.json",
        "/x{id}",
        "/{}",
        "/{1a}",
        "/{a-b}",
        "/{a}/{a}",
        "/{a}/{a*}",
        "/{r*}/x",
        "/a}",
        "/{a",
        "/users/:id",
        "//*",
        "/a//*",
        "/a//b",
        "/a//",
        "/{a}//b",
        &deep,
        &long,
    ] {
        assert!(PathPattern::parse(text).is_err(), "{text}");
    }
}

#[test]
fn says_what_to_write_instead() {
    assert!(PathPattern::parse("/users/:id").unwrap_err().contains("`{id}`"));
    assert!(PathPattern::parse("*").unwrap_err().contains("`/*`"));
    assert!(PathPattern::parse("/{id}.json").unwrap_err().contains("path_regex"));
}

#[test]
fn a_regex_covers_the_whole_path() {
    let pattern = PathPattern::regex(r"/v\d+/.*").unwrap();
    assert!(pattern.matches(b"/v1/x"));
    assert!(!pattern.matches(b"/x/v1/x"));
    assert!(PathPattern::regex("(").unwrap_err().contains("unclosed"));
    assert!(PathPattern::regex("/%40team/.*").unwrap_err().contains("write `@`"));
    assert!(PathPattern::regex("/a//b").unwrap_err().contains("write one slash"));
    assert!(PathPattern::regex("/a%20b/+c//?").unwrap().matches(b"/a%20b/c/"));
}

#[test]
fn the_written_form_parses_to_the_same_pattern() {
    for text in ["/", "/a/b", "/a/*", "/*", "/u/{id}/p", "/a/*/b", "/f/{rest*}", "/{a}/*", "/{rest*}"] {
        assert_eq!(parsed(text).to_string(), text);
    }
}

#[test]
fn parameters_say_what_they_took() {
    let took = |pattern: &PathPattern, path: &'static str, name: &str| {
        assert!(pattern.matches(path.as_bytes()));
        let found = pattern.capture(path.as_bytes(), name).map(|found| str::from_utf8(found).unwrap());
        assert!(found.is_none() || pattern.has_capture(name), "{pattern} {name}");
        found
    };
    let pattern = PathPattern::parse("/a/{id}/*/b/{rest*}").unwrap();
    for (name, expected) in [
        ("id", Some("7")),
        ("1", Some("7")),
        ("2", Some("x")),
        ("3", Some("c/d")),
        ("rest", Some("c/d")),
        ("4", None),
    ] {
        assert_eq!(took(&pattern, "/a/7/x/b/c/d", name), expected, "{name}");
    }
    let prefix = PathPattern::parse("/api/*").unwrap();
    assert_eq!((took(&prefix, "/api/x/y", "1"), took(&prefix, "/api", "1")), (Some("x/y"), Some("")));
    assert_eq!(took(&PathPattern::parse("/a").unwrap(), "/a", "1"), None);
    let regex = PathPattern::regex("/u/([0-9]+)(?:/(?<tail>.*))?").unwrap();
    assert_eq!((took(&regex, "/u/12/x", "1"), took(&regex, "/u/12/x", "tail")), (Some("12"), Some("x")));
    assert_eq!(took(&regex, "/u/12", "2"), None);
}
