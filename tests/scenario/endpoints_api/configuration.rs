//! The configuration through the admin API: shown without secrets, replaced whole or not at all, never more trusting
//! than the file on disk.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::json;
use thalweg_tests::admin::json as document;
use thalweg_tests::{Admin, Message, Proxy, Upstream};

use super::{TOKENS, WORKERS, add, asked, guarded, urls};
use crate::scenario::watchdog;

const CONFIG: &str = "/api/v1/config";

/// The configuration as it is shown, and its tag.
fn shown(admin: &Admin) -> (String, String) {
    let answer = admin.call("GET", CONFIG, "");
    assert_eq!(answer.status(), 200, "{}", answer.text());
    (answer.text(), answer.value("etag").unwrap().to_owned())
}

fn put(admin: &Admin, query: &str, tag: &str, text: &str) -> Message {
    let fields = format!("Content-Type: application/yaml\r\nIf-Match: {tag}\r\n");
    admin.ask("PUT", &format!("{CONFIG}{query}"), &fields, text).unwrap()
}

fn on_disk(proxy: &Proxy) -> String {
    fs::read_to_string(proxy.directory().join("thalweg.yaml")).unwrap()
}

#[test]
fn a_configuration_is_replaced_and_the_file_with_it() {
    let _watchdog = watchdog("a_configuration_is_replaced_and_the_file_with_it");
    let (one, two) = (Upstream::saying("one"), Upstream::saying("two"));
    let proxy = guarded(&[&one.url()], "# a comment that stays\n");
    let admin = Admin::on_tcp(&proxy, Some(TOKENS.0));
    let file = proxy.directory().join("thalweg.yaml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let (before, inode) = (on_disk(&proxy), fs::metadata(&file).unwrap().ino());
    let (text, tag) = shown(&admin);
    assert!(text.contains("# a comment that stays"), "{text}");
    assert!(!text.contains(TOKENS.0) && !text.contains(TOKENS.1) && text.contains("<redacted>"), "{text}");
    let wanted = text.replace(&one.url(), &two.url());

    let answer = put(&admin, "?dry_run=true", &tag, &wanted);
    let outcome = document(&answer);
    assert_eq!((answer.status(), &outcome["dry_run"]), (200, &json!(true)), "{outcome}");
    let change = &outcome["changes"][0];
    assert_eq!((&change["name"], &change["service"]), (&json!(two.url()), &json!("s")), "{outcome}");
    assert_eq!((on_disk(&proxy), shown(&admin).1), (before.clone(), tag.clone()), "nothing has changed");
    assert_eq!(asked(proxy.web(), 4, 1)["one"], 4);

    let answer = put(&admin, "", &tag, &wanted);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(asked(proxy.web(), 8, 2)["two"], 16, "from the next request on");
    assert_eq!(on_disk(&proxy), before.replace(&one.url(), &two.url()), "with its secrets");
    let metadata = fs::metadata(&file).unwrap();
    assert_ne!(metadata.ino(), inode, "a new file took its place");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o640, "with the same rights");
    let (_, now) = shown(&admin);
    assert_eq!(answer.value("etag"), Some(&*now));
    assert_ne!(now, tag);

    let late = put(&admin, "", &tag, &text);
    assert_eq!(late.status(), 412, "{}", late.text());
    let fields = "Content-Type: application/yaml\r\n";
    assert_eq!(admin.ask("PUT", CONFIG, fields, &text).unwrap().status(), 428);
    assert_eq!(asked(proxy.web(), 4, 1)["two"], 4);
    let unchanged = admin.ask("GET", CONFIG, &format!("If-None-Match: {now}\r\n"), "").unwrap();
    assert_eq!(unchanged.status(), 304);
}

#[test]
fn an_ephemeral_configuration_runs_and_is_not_written() {
    let _watchdog = watchdog("an_ephemeral_configuration_runs_and_is_not_written");
    let (one, two) = (Upstream::saying("one"), Upstream::saying("two"));
    let proxy = guarded(&[&one.url()], "");
    let admin = Admin::of(&proxy);
    let before = on_disk(&proxy);
    let (text, tag) = shown(&admin);
    let answer = put(&admin, "?ephemeral=true", &tag, &text.replace(&one.url(), &two.url()));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(asked(proxy.web(), 8, 2)["two"], 16);
    assert_eq!(on_disk(&proxy), before);
    assert!(shown(&admin).0.contains(&two.url()), "what runs is what is shown");
    assert_eq!(admin.call("POST", "/api/v1/reload", "").status(), 200);
    assert_eq!(asked(proxy.web(), 8, 2)["one"], 16, "the file again");
    assert_eq!(shown(&admin), (text, tag));
}

#[test]
fn mistakes_are_told_with_line_and_column_and_change_nothing() {
    let _watchdog = watchdog("mistakes_are_told_with_line_and_column_and_change_nothing");
    let upstream = Upstream::saying("one");
    let proxy = guarded(&[&upstream.url()], "");
    let admin = Admin::of(&proxy);
    let before = on_disk(&proxy);
    let (text, tag) = shown(&admin);
    let lines = text.trim_end().lines().count() as u64;
    for (added, line, column) in
        [("routs: []", lines + 1, 1), ("limits: { max_had: 1KiB }", lines + 1, 11), ("a: [", 0, 0)]
    {
        for query in ["", "?dry_run=true", "?ephemeral=true"] {
            let answer = put(&admin, query, &tag, &format!("{}\n{added}\n", text.trim_end()));
            let problem = document(&answer);
            assert_eq!(answer.status(), 400, "{problem}");
            let mistake = &problem["mistakes"][0];
            assert!(mistake["message"].is_string(), "{problem}");
            let at = (mistake["line"].as_u64().unwrap(), mistake["column"].as_u64().unwrap());
            assert!(at.0 >= 1 && at.1 >= 1, "{problem}");
            if line > 0 {
                assert_eq!(at, (line, column), "{added}: {problem}");
            }
        }
    }
    assert_eq!((on_disk(&proxy), shown(&admin).1), (before, tag));
    assert_eq!(asked(proxy.web(), 4, 1)["one"], 4);
}

#[test]
fn what_only_the_file_may_introduce_is_refused_by_name() {
    let _watchdog = watchdog("what_only_the_file_may_introduce_is_refused_by_name");
    let upstream = Upstream::saying("one");
    let proxy = guarded(&[&upstream.url()], "");
    let admin = Admin::of(&proxy);
    let before = on_disk(&proxy);
    let (text, tag) = shown(&admin);
    let hook = "webhooks: [ { url: \"http://127.0.0.1:1/\", secret: { file: /etc/hostname } } ]";
    for (bad, key) in [
        (format!("{text}trusted_proxies: [ 0.0.0.0/0 ]\n"), "trusted_proxies"),
        (format!("{text}limits: {{ max_head: 32KiB }}\nuser: nobody\n"), "user"),
        (text.replacen("/kept\"", "/elsewhere\"", 1), "state"),
        (format!("{text}{hook}\n"), "webhooks"),
        (text.replace(&upstream.url(), "unix:/run/secret.sock"), "endpoints"),
        (text.replace(&upstream.url(), "http://${HOME}:80"), "endpoints"),
        (
            text.replacen(
                "read_token: { value: \"<redacted>\" }",
                "read_token: { value: 0123456789abcdef }",
                1,
            ),
            "admin",
        ),
    ] {
        assert_ne!(bad, text, "{key} is a change");
        let answer = put(&admin, "", &tag, &bad);
        let problem = document(&answer);
        assert_eq!(answer.status(), 403, "{key}: {problem}");
        let keys = problem["keys"].as_array().unwrap();
        assert!(keys.iter().any(|named| named.as_str().unwrap().contains(key)), "{key}: {problem}");
    }
    assert_eq!(asked(proxy.web(), 4, 1)["one"], 4);
    assert_eq!((on_disk(&proxy), shown(&admin).1), (before, tag));
}

#[test]
fn changes_of_endpoints_lie_over_a_configuration_that_arrives() {
    let _watchdog = watchdog("changes_of_endpoints_lie_over_a_configuration_that_arrives");
    let (one, two, three) = (Upstream::saying("one"), Upstream::saying("two"), Upstream::saying("three"));
    let proxy = guarded(&[&one.url()], "");
    let admin = Admin::of(&proxy);
    add(&admin, &two.url());
    let (text, tag) = shown(&admin);
    assert!(!text.contains(&two.url()), "the file is not what runs");
    assert_eq!(put(&admin, "", &tag, &text.replace(&one.url(), &three.url())).status(), 200);
    assert_eq!(urls(&admin), [three.url(), two.url()]);
    let answers = asked(proxy.web(), 8, 4);
    assert!(answers["two"].abs_diff(16) <= WORKERS, "{answers:?}");
}
