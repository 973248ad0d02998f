use super::*;

fn url(text: &str) -> String {
    PurgeWhat::url(text, false).map_or_else(|error| error.message, |what| what.member().1)
}

#[test]
fn urls_have_the_normal_form_of_keys() {
    assert_eq!(
        url("HTTPS://Shop.Example.COM.:443/a/./b/../%7Ec?B=%7e"),
        "https://shop.example.com/a/~c?B=%7e"
    );
    assert_eq!(url("http://a.test"), "http://a.test/");
    assert_eq!(url("http://a.test:8080?"), "http://a.test:8080/?");
    assert_eq!(url("https://[2001:DB8::0:1]:80/ä?ö"), "https://[2001:db8::1]:80/%C3%A4?%C3%B6");
    for bad in
        ["a.test/", "ftp://a/", "http://", "http://u@a/", "http://a/#x", "http://a /", "http://a/%zz", "/a"]
    {
        assert!(PurgeWhat::url(bad, false).is_err(), "{bad}");
    }
    assert!(PurgeWhat::url(&format!("http://a/{}", "x".repeat(PURGE_TEXT)), false).is_err());
}

#[test]
fn any_query_has_none_and_a_prefix_may_not() {
    let any = PurgeWhat::url("http://a/b?c", true).unwrap();
    assert_eq!(any.member(), ("url", "http://a/b".into()));
    assert_eq!(PurgeWhat::prefix("http://a/b").unwrap().member(), ("prefix", "http://a/b".into()));
    assert!(PurgeWhat::prefix("http://a/b?c").is_err());
}

#[test]
fn hosts_and_tags_are_checked() {
    assert_eq!(PurgeWhat::host("A.test:81"), Ok(PurgeWhat::Host("a.test".into(), Some(81))));
    assert_eq!(PurgeWhat::tag("News"), Ok(PurgeWhat::Tag("News".into())));
    assert!(PurgeWhat::host("http://a").is_err() && PurgeWhat::host("").is_err());
    assert!(PurgeWhat::tag(" a").is_err() && PurgeWhat::tag("a,b").is_err());
}

#[test]
fn it_is_written_as_it_is_asked_for() {
    let what = PurgeWhat::url("http://a/b?c", true).unwrap();
    let purge = Purge { what, space: None, route: Some("shop".into()), is_soft: true };
    let json = serde_json::to_string(&purge).unwrap();
    assert_eq!(json, r#"{"url":"http://a/b","any_query":true,"route":"shop","soft":true}"#);
    assert_eq!(purge.to_string(), "http://a/b with any query of the route `shop`, softly");
    let all = Purge { what: PurgeWhat::All, space: Some("s".into()), route: None, is_soft: false };
    assert_eq!(serde_json::to_string(&all).unwrap(), r#"{"all":true,"space":"s"}"#);
    assert_eq!(all.to_string(), "everything in the space `s`");
}
