//! A configuration in several files, with secrets beside it: what takes over when one of them changes, and what
//! is never shown.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use thalweg_tests::message::{fetch, get};
use thalweg_tests::process::Signal;
use thalweg_tests::program::run;
use thalweg_tests::proxy::command;
use thalweg_tests::{Admin, Directory, Message, Proxy, STEP, Upstream};

use super::watchdog;

const LIMIT: Duration = Duration::from_secs(20);
const CONFIG: &str = "/api/v1/config";
const LISTENER: &str = "listeners: { web: { address: \"127.0.0.1:0\" } }\n";

/// A file that only its owner can read.
fn secret(directory: &Directory, name: &str, text: &str) -> String {
    let path = directory.write(name, text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

fn etag(admin: &Admin) -> String {
    admin.call("GET", CONFIG, "").value("etag").unwrap().to_owned()
}

fn put(admin: &Admin, tag: &str, text: &str) -> Message {
    let fields = format!("Content-Type: application/yaml\r\nIf-Match: {tag}\r\n");
    admin.ask("PUT", CONFIG, &fields, text).unwrap()
}

fn route(name: &str, url: &str) -> String {
    format!("routes: [ {{ name: {name}, match: {{ path: /{name} }}, to: [ \"{url}\" ] }} ]\n")
}

/// A proxy whose routes stand in files of their own.
fn several(directory: Directory, url: &str) -> Proxy {
    fs::create_dir(directory.path().join("routes.d")).unwrap();
    directory.write("routes.d/10-one.yaml", &route("one", url));
    directory.write("routes.d/.hidden.yaml", "this is not read: [");
    Proxy::start_in(directory, &format!("# a comment\ninclude: [ \"routes.d/*.yaml\" ]\n{LISTENER}"))
}

fn status(proxy: &Proxy, path: &str) -> u16 {
    get(proxy.web(), path).unwrap().status()
}

#[test]
fn a_reload_takes_over_files_that_are_new_changed_or_gone() {
    let _watchdog = watchdog("a_reload_takes_over_files_that_are_new_changed_or_gone");
    let upstream = Upstream::saying("hello");
    let proxy = several(Directory::new(), &upstream.url());
    let admin = Admin::of(&proxy);
    let file = |name: &str| proxy.directory().join("routes.d").join(name);
    assert_eq!((status(&proxy, "/one"), status(&proxy, "/two")), (200, 404));
    let mut tags = vec![etag(&admin)];
    let mut reload = || {
        let answer = admin.call("POST", "/api/v1/reload", "");
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let tag = etag(&admin);
        assert!(!tags.contains(&tag), "another configuration has another tag");
        tags.push(tag);
    };
    fs::write(file("20-two.yaml"), route("two", &upstream.url())).unwrap();
    reload();
    assert_eq!((status(&proxy, "/one"), status(&proxy, "/two")), (200, 200));
    fs::write(file("20-two.yaml"), route("three", &upstream.url())).unwrap();
    reload();
    assert_eq!((status(&proxy, "/two"), status(&proxy, "/three")), (404, 200));
    fs::remove_file(file("10-one.yaml")).unwrap();
    reload();
    assert_eq!((status(&proxy, "/one"), status(&proxy, "/three")), (404, 200));

    let before = etag(&admin);
    fs::write(file("30-bad.yaml"), "routes:\n  - { to: nowhere }\n").unwrap();
    proxy.process().signal(Signal::HUP);
    let said = proxy.process().wait_line("the mistake", STEP, |line| {
        line.contains("routes.d/30-bad.yaml:2:11").then(|| line.to_owned())
    });
    assert!(said.contains("routes.d/30-bad.yaml"), "{said}");
    assert_eq!((status(&proxy, "/three"), etag(&admin)), (200, before), "the old one keeps running");
}

#[test]
fn what_arrives_may_use_the_includes_of_the_file_and_bring_none() {
    let _watchdog = watchdog("what_arrives_may_use_the_includes_of_the_file_and_bring_none");
    let upstream = Upstream::saying("hello");
    let proxy = several(Directory::new(), &upstream.url());
    let admin = Admin::of(&proxy);
    let main = proxy.directory().join("thalweg.yaml");
    let text = admin.call("GET", CONFIG, "").text();
    assert!(text.starts_with("# a comment\ninclude:"), "{text}");
    for more in ["include: [ \"routes.d/*.yaml\", /etc/hostname ]", "include: [ \"/etc/*\" ]"] {
        let answer = put(&admin, &etag(&admin), &text.replace("include: [ \"routes.d/*.yaml\" ]", more));
        assert_eq!(answer.status(), 403, "{}", answer.text());
        assert!(answer.text().contains("include["), "{}", answer.text());
    }
    // A path from the place where the proxy runs would not be found.
    let wanted = format!("{text}{}", route("two", &upstream.url()));
    let answer = put(&admin, &etag(&admin), &wanted);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!((status(&proxy, "/one"), status(&proxy, "/two")), (200, 200));
    assert_eq!(fs::read_to_string(&main).unwrap(), wanted);

    let twice = format!("{text}{}", route("one", &upstream.url()));
    let answer = put(&admin, &etag(&admin), &twice);
    assert_eq!(answer.status(), 400, "{}", answer.text());
    // A file that has changed meanwhile does not slip in with it.
    fs::write(proxy.directory().join("routes.d/10-one.yaml"), route("other", &upstream.url())).unwrap();
    let answer = put(&admin, &etag(&admin), &text);
    assert_eq!(answer.status(), 409, "{}", answer.text());
    assert!(answer.text().contains("reload it first"), "{}", answer.text());
    assert_eq!((status(&proxy, "/one"), status(&proxy, "/two")), (200, 200));
}

#[test]
fn a_reload_takes_over_secrets_whose_files_have_changed() {
    let _watchdog = watchdog("a_reload_takes_over_secrets_whose_files_have_changed");
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let write = secret(&directory, "token", "first-token-0123456789\n");
    let read = secret(&directory, "reader", "first-reader-0123456789\n");
    let key = secret(&directory, "key", "first-key-0123456789\n");
    let text = format!(
        "{LISTENER}admin: {{ address: \"127.0.0.1:0\", token: {{ file: \"{write}\" }}, read_token: {{ file: \"{read}\" }} }}\n\
         services: {{ s: {{ endpoints: [ \"{}\" ], sticky: {{ secret: {{ file: \"{key}\" }} }} }} }}\n\
         routes: [ {{ to: s }} ]\n",
        upstream.url()
    );
    let proxy = Proxy::start_in(directory, &text);
    let cookie = |sent: Option<&str>| {
        let field = sent.map(|cookie| format!("Cookie: {cookie}\r\n")).unwrap_or_default();
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n");
        let answer = fetch(proxy.web(), &request).unwrap();
        assert_eq!(answer.status(), 200);
        answer.value("set-cookie").map(|cookie| cookie.split(';').next().unwrap().to_owned())
    };
    let status = |token: &str| Admin::on_tcp(&proxy, Some(token)).call("GET", "/api/v1/status", "").status();
    let old = cookie(None).expect("a new client gets a cookie");
    assert_eq!(cookie(Some(&old)), None, "one that is known keeps it");
    assert_eq!((status("first-token-0123456789"), status("first-reader-0123456789")), (200, 200));

    fs::write(&write, "other-token-0123456789\n").unwrap();
    fs::write(&read, "other-reader-0123456789").unwrap();
    fs::write(&key, "other-key-0123456789").unwrap();
    proxy.process().signal(Signal::HUP);
    proxy.process().wait_line("`reloaded`", STEP, |line| line.starts_with("thalweg: reloaded").then_some(()));
    let new = cookie(Some(&old)).expect("a cookie of another key, from the next request on");
    assert_eq!(cookie(Some(&new)), None);
    assert_eq!((status("first-token-0123456789"), status("first-reader-0123456789")), (401, 401));
    assert_eq!((status("other-token-0123456789"), status("other-reader-0123456789")), (200, 200));

    // A token that cannot be used changes nothing.
    fs::write(&read, "other-token-0123456789\n").unwrap();
    let answer = Admin::of(&proxy).call("POST", "/api/v1/reload", "");
    assert_eq!(answer.status(), 400, "{}", answer.text());
    assert!(answer.text().contains("is the same as `token`"), "{}", answer.text());
    assert_eq!((status("other-token-0123456789"), status("other-reader-0123456789")), (200, 200));
    let ended = proxy.stop();
    for shown in ["first-", "other-"] {
        assert!(!ended.stderr.contains(shown), "{}", ended.stderr);
    }
}

/// Part of every secret below.
const HIDDEN: &str = "hunter2";

/// A configuration with a secret in every place and every form.
fn guarded(directory: &Directory, url: &str) -> String {
    let file = secret(directory, "secret", "hunter2-in-a-file-0123456789\n");
    format!(
        "{LISTENER}state: {{ path: \"{}\" }}\n\
         admin:\n  address: \"127.0.0.1:0\"\n  token: {{ value: hunter2-written-0123456789 }}\n  \
         read_token: {{ value: \"${{NOT_SET:-hunter2-default-0123456789}}\" }}\n\
         services:\n  s: {{ endpoints: [ \"{url}\" ], sticky: {{ secret: {{ file: \"{file}\" }} }} }}\n  \
         t: {{ endpoints: [ \"{url}\" ], sticky: {{ secret: {{ value: 'hunter2-quoted-0123456789' }} }} }}\n\
         routes: [ {{ name: s, to: s }}, {{ name: t, match: {{ path: /t }}, to: t }} ]\n\
         webhooks:\n  - url: \"http://127.0.0.1:9/\"\n    secret:\n      value: |-\n        hunter2-in-a-block-0123456789\n",
        directory.path().join("kept").display()
    )
}

#[test]
fn no_secret_is_shown_by_a_running_proxy() {
    let _watchdog = watchdog("no_secret_is_shown_by_a_running_proxy");
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let text = guarded(&directory, &upstream.url());
    let proxy = Proxy::start_in(directory, &text);
    let admin = Admin::of(&proxy);
    let mut shown = Vec::new();
    for path in ["config", "status", "services", "services/s", "routes", "openapi.json"] {
        let answer = admin.call("GET", &format!("/api/v1/{path}"), "");
        assert!(matches!(answer.status(), 200 | 404), "{path}: {}", answer.text());
        shown.push(answer.text());
    }
    let (config, tag) = (shown[0].clone(), etag(&admin));
    // Written over several lines, it cannot be taken out of the text: nothing is shown then.
    assert!(config.is_empty() || config.contains("<redacted>"), "{config}");
    for bad in ["sticky: { secret: { valeu: x } } }", "sticky: { max_age: 1 } }"] {
        let broken = text.replace("sticky: { secret: { value: 'hunter2-quoted-0123456789' } } }", bad);
        assert_ne!(broken, text);
        shown.push(put(&admin, &tag, &broken).text());
        fs::write(proxy.directory().join("thalweg.yaml"), &broken).unwrap();
        shown.push(admin.call("POST", "/api/v1/reload", "").text());
        proxy.process().signal(Signal::HUP);
    }
    let refused = |line: &str| line.contains("reload refused").then_some(());
    proxy.process().wait_line("`reload refused`", STEP, refused);
    assert_eq!(status(&proxy, "/t"), 200);
    let audit = fs::read_to_string(proxy.directory().join("kept/audit.log")).unwrap_or_default();
    let ended = proxy.stop();
    shown.extend([audit, ended.stderr, format!("{:?}", ended.log)]);
    for text in shown {
        assert!(!text.contains(HIDDEN), "{text}");
    }
}

#[test]
fn no_secret_is_shown_by_check() {
    let _watchdog = watchdog("no_secret_is_shown_by_check");
    let directory = Directory::new();
    let text = guarded(&directory, "http://127.0.0.1:1");
    let by_variable = "admin: { address: \"127.0.0.1:0\", token: { env: SECRET } }\nworkers: \"${SECRET}\"\n";
    let credentials = "routes: [ { to: \"http://user:hunter2@127.0.0.1:1\" } ]\n";
    let broken = text.replace("sticky: {", "stiky: {").replace("address:", "adress:").replace("url:", "ulr:");
    let mut refused = 0;
    for text in [text, broken, by_variable.to_owned(), credentials.to_owned()] {
        let file = directory.write("t.yaml", &text);
        for lines in [&[][..], &["--lines"]] {
            let mut command = command(directory.path());
            command.env("SECRET", "hunter2-of-the-environment").arg("check").args(lines).arg(&file);
            let done = run(&mut command, LIMIT);
            refused += u32::from(done.code == 1);
            assert!(!(done.stdout.clone() + &done.stderr).contains(HIDDEN), "{}{}", done.stdout, done.stderr);
        }
    }
    assert_eq!(refused, 6);
}
