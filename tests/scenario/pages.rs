//! Pages that stand in files: those of errors, and whole answers.

use std::process::Command;
use std::time::Duration;

use thalweg_tests::message::{fetch, get};
use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::{Admin, Directory, Proxy};

use super::scripted::{GET, House, OK, response};
use super::watchdog;

const LIMIT: Duration = Duration::from_secs(20);

fn site() -> Proxy {
    let directory = Directory::new();
    directory.write("404.html", "<style>p{color:red}</style><p>{status} {path}");
    directory.write("robots.txt", "Disallow: {path}\n");
    directory.write("large.bin", &"0123456789".repeat(30_000));
    Proxy::start_in(
        directory,
        "listeners: { web: { address: \"127.0.0.1:0\", h2c: true } }\n\
         defaults: { filters: [ { error_pages: { pages: { 404: { html: { file: 404.html } } } } } ] }\n\
         services: { s: { endpoints: \"http://127.0.0.1:1\" } }\n\
         routes:\n\
         \x20 - { match: { path: /robots.txt }, to: s, filters: [ { respond: { file: robots.txt } } ] }\n\
         \x20 - { match: { path: /filled }, to: s, filters: [ { respond: { file: robots.txt, template: true } } ] }\n\
         \x20 - { match: { path: /large }, to: s, filters: [ { respond: { file: large.bin } } ] }\n\
         \x20 - { to: s, filters: [ { respond: 404 } ] }\n",
    )
}

#[test]
fn answers_come_from_files_and_follow_them() {
    let _watchdog = watchdog("answers_come_from_files_and_follow_them");
    let proxy = site();
    let text = |path: &str| get(proxy.web(), path).unwrap().text();
    assert_eq!(text("/robots.txt"), "Disallow: {path}\n");
    assert_eq!(text("/filled"), "Disallow: /filled\n");
    let request = "GET /<b> HTTP/1.1\r\nHost: a.test\r\nAccept: text/html\r\n\r\n".replace("<b>", "%3Cb%3E");
    let page = || fetch(proxy.web(), &request).unwrap();
    assert_eq!(page().status(), 404);
    assert_eq!(page().text(), "<style>p{color:red}</style><p>404 /%3Cb%3E");
    std::fs::write(proxy.directory().join("404.html"), "<p>another one").unwrap();
    let answer = Admin::of(&proxy).call("POST", "/api/v1/reload", "");
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(page().text(), "<p>another one");
    std::fs::write(proxy.directory().join("404.html"), "<p>{stauts}").unwrap();
    let answer = Admin::of(&proxy).call("POST", "/api/v1/reload", "");
    assert!(answer.status() >= 400 && answer.text().contains("stauts"), "{}", answer.text());
    assert_eq!(page().text(), "<p>another one", "a page that is wrong changes nothing");
}

#[test]
fn a_file_of_any_size_is_sent_whole_over_every_version() {
    let _watchdog = watchdog("a_file_of_any_size_is_sent_whole_over_every_version");
    let proxy = site();
    let expected = "0123456789".repeat(30_000);
    let whole = get(proxy.web(), "/large").unwrap();
    assert!(whole.text() == expected);
    assert_eq!(whole.value("content-type"), Some("application/octet-stream"));
    let Some(curl) = find_or_skip("curl") else { return };
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        for (path, expected) in [("large", expected.as_str()), ("filled", "Disallow: /filled\n")] {
            let mut command = Command::new(&curl);
            command.args(["-sS", version, &format!("http://{}/{path}", proxy.web())]);
            let finished = run(&mut command, LIMIT);
            assert!(
                finished.code == 0 && finished.stdout == expected,
                "{version} {path} {}",
                finished.stderr
            );
        }
    }
}

/// They belong to no response, and cannot be distinguished from later bytes on the connection.
#[test]
fn a_connection_with_bytes_behind_a_response_that_gets_a_page_is_not_used_again() {
    let _watchdog = watchdog("a_connection_with_bytes_behind_a_response_that_gets_a_page_is_not_used_again");
    let pages = "filters: [ { error_pages: { pages: { 404: { html: \"<p>own\" } }, upstream: true } } ]";
    let paged = |text: &str| text.replace("{ to: s }", &format!("{{ to: s, {pages} }}"));
    let house = House::start_changed(1, ("", ""), paged);
    let mut client = house.client("HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let mut asked = house.asked();
    asked.talk.send("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nbody").unwrap();
    assert_eq!(client.head().unwrap().status(), 404);
    asked.talk.assert_ends("a connection with surplus bytes");
    let mut other = house.client(GET);
    house.asked().talk.send(OK).unwrap();
    assert_eq!(response(&mut other).1, b"ok");
}
