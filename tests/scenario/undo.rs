//! Plans, reloads with a verdict, and the way back: what would change is told before, what did harm is undone after.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_tests::admin::json as document;
use thalweg_tests::message::{Message, get};
use thalweg_tests::process::Signal;
use thalweg_tests::program::{Finished, run};
use thalweg_tests::proxy::command;
use thalweg_tests::{Admin, Connection, Directory, Proxy, STEP, Upstream};

use super::endpoints_api::state_in;
use super::{config, proxy, reload, wait_counted, watchdog};

const LIMIT: Duration = Duration::from_secs(50);
const HISTORY: &str = "/api/v1/history";

fn verb(proxy: &Proxy, arguments: &[&str]) -> Finished {
    run(command(proxy.directory()).args(arguments), LIMIT)
}

fn file(proxy: &Proxy) -> PathBuf {
    proxy.directory().join("thalweg.yaml")
}

/// What the file says with one text in the place of another, written to it.
fn edit(proxy: &Proxy, from: &str, to: &str) -> (String, String) {
    let before = fs::read_to_string(file(proxy)).unwrap();
    assert!(before.contains(from), "{from} in\n{before}");
    let after = before.replace(from, to);
    fs::write(file(proxy), &after).unwrap();
    (before, after)
}

fn assert_answers(proxy: &Proxy, expected: &str) {
    for _ in 0..4 {
        let answer = get(proxy.web(), "/").unwrap();
        assert_eq!((answer.status(), &*answer.text()), (200, expected));
    }
}

fn said(finished: &Finished) -> String {
    format!("exit {}\nstdout: {}\nstderr: {}", finished.code, finished.stdout, finished.stderr)
}

#[test]
fn a_plan_tells_what_a_reload_would_change_and_changes_nothing() {
    let _watchdog = watchdog("a_plan_tells_what_a_reload_would_change_and_changes_nothing");
    let (one, two) = (Upstream::saying("one"), Upstream::saying("two"));
    let proxy = proxy(&[&one.url()]);
    let same = verb(&proxy, &["plan", "--check"]);
    assert_eq!((same.code, same.stdout.trim()), (0, "nothing changes"), "{}", said(&same));
    edit(&proxy, "routes: [ { to: s } ]", "routes: [ { name: all, to: s, timeouts: { first_byte: 5s } } ]");
    edit(&proxy, &one.url(), &two.url());
    edit(&proxy, "workers: 2", "workers: 3");
    let plan = verb(&proxy, &["plan"]);
    let place = proxy.directory().join("thalweg.yaml").display().to_string();
    let expected = format!(
        "+ route `all`: /* → s ({place}:6)\n\
         - route `route 1`: /* → s\n\
         + endpoint `{}` of service `s`: weight 1\n\
         - endpoint `{}` of service `s`: weight 1\n\
         ~ setting `workers`\n    2 → 3\n\
         waits for a restart: workers\n",
        two.url(),
        one.url()
    );
    assert_eq!((plan.code, &*plan.stdout), (0, &*expected), "{}", said(&plan));
    assert_eq!(verb(&proxy, &["plan", "--check"]).code, 1);
    let json: Value = serde_json::from_str(&verb(&proxy, &["plan", "--json"]).stdout).unwrap();
    assert_eq!((&json["dry_run"], &json["waits_for_restart"]), (&json!(true), &json!(["workers"])), "{json}");
    assert_eq!(json["changes"][2]["origin"], format!("{place}:5"), "an endpoint: {json}");
    let added = &json["changes"][0];
    assert_eq!(
        (&added["kind"], &added["name"], &added["action"]),
        (&json!("route"), &json!("all"), &json!("added"))
    );
    assert_answers(&proxy, "one");
    let history = Admin::of(&proxy).get(HISTORY);
    assert_eq!(history["entries"].as_array().unwrap().len(), 1, "{history}");
}

#[test]
fn another_file_is_planned_without_being_run() {
    let _watchdog = watchdog("another_file_is_planned_without_being_run");
    let one = Upstream::saying("one");
    let proxy = proxy(&[&one.url()]);
    let before = fs::read_to_string(file(&proxy)).unwrap();
    let other = proxy.directory().join("other.yaml");
    // Who is on the socket may plan what only the file may bring.
    fs::write(&other, before.clone() + "trusted_proxies: [ 10.0.0.0/8 ]\n").unwrap();
    let plan = verb(&proxy, &["plan", "other.yaml"]);
    let expected = "~ setting `trusted_proxies`\n    [] → [10.0.0.0/8]\n";
    assert_eq!((plan.code, &*plan.stdout), (0, expected), "{}", said(&plan));
    fs::write(&other, before.clone() + "limits: { max_had: 1KiB }\n").unwrap();
    let wrong = verb(&proxy, &["plan", "other.yaml"]);
    assert_eq!(wrong.code, 1, "{}", said(&wrong));
    let line = before.lines().count() + 1;
    assert!(wrong.stderr.contains(&format!(":{line}:11: ")), "{}", said(&wrong));
    assert_eq!(verb(&proxy, &["plan", "missing.yaml"]).code, 1);
    assert_eq!(fs::read_to_string(file(&proxy)).unwrap(), before);
}

#[test]
fn a_plan_tells_who_is_connected_to_a_listener_that_closes() {
    let _watchdog = watchdog("a_plan_tells_who_is_connected_to_a_listener_that_closes");
    let one = Upstream::saying("one");
    let proxy = proxy(&[&one.url()]);
    let mut held: Vec<Connection> = (0..3).map(|_| Connection::open(proxy.web()).unwrap()).collect();
    for client in &mut held {
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let answer = Message::read(client, thalweg_tests::message::Kind::Response, Instant::now() + STEP);
        assert_eq!(answer.unwrap().status(), 200);
    }
    edit(&proxy, "web: { address: \"127.0.0.1:0\" }", "other: { address: \"127.0.0.2:0\" }");
    let plan = Admin::of(&proxy).get("/api/v1/plan");
    let closes = json!({ "name": "web", "address": "127.0.0.1:0", "opens": false, "connections": 3 });
    let opens = json!({ "name": "other", "address": "127.0.0.2:0", "opens": true, "connections": 0 });
    assert_eq!(plan["listeners"], json!([closes, opens]), "{plan}");
}

#[test]
fn what_was_changed_at_run_time_is_told_as_drift() {
    let _watchdog = watchdog("what_was_changed_at_run_time_is_told_as_drift");
    let (one, two) = (Upstream::saying("one"), Upstream::saying("two"));
    let proxy = proxy(&[&one.url()]);
    let admin = Admin::of(&proxy);
    let added = admin.call("POST", "/api/v1/services/s/endpoints", &json!({ "url": two.url() }).to_string());
    assert_eq!(added.status(), 201, "{}", added.text());
    let drift = |void: bool| {
        json!([{
            "kind": "service", "name": "s", "endpoint": two.url(), "change": "added with weight 1", "void": void,
        }])
    };
    assert_eq!(admin.get("/api/v1/plan")["drift"], drift(false));
    edit(&proxy, &format!("\"{}\"", one.url()), &format!("\"{}\", \"{}\"", one.url(), two.url()));
    assert_eq!(admin.get("/api/v1/plan")["drift"], drift(true), "the file has it now");
    edit(&proxy, "{ s: {", "{ t: {");
    edit(&proxy, "to: s", "to: t");
    let plan = verb(&proxy, &["plan"]);
    let told = format!(
        "changed at run time: service `s`, {}: added with weight 1 (without effect on this configuration)\n",
        two.url()
    );
    assert!(plan.stdout.ends_with(&told), "{}", said(&plan));
}

#[test]
fn a_reload_prints_what_changed_and_the_new_generation() {
    let _watchdog = watchdog("a_reload_prints_what_changed_and_the_new_generation");
    let (one, two) = (Upstream::saying("one"), Upstream::saying("two"));
    let proxy = proxy(&[&one.url()]);
    let events = Admin::of(&proxy).events();
    edit(&proxy, &one.url(), &two.url());
    let done = verb(&proxy, &["reload"]);
    let expected = format!(
        "+ endpoint `{}` of service `s`: weight 1\n- endpoint `{}` of service `s`: weight 1\n\
         generation 2, number 2 in the history\n",
        two.url(),
        one.url()
    );
    assert_eq!((done.code, &*done.stdout), (0, &*expected), "{}", said(&done));
    assert_answers(&proxy, "two");
    let event = events.wait("config_applied", None);
    let cause = event["cause"].as_str().unwrap();
    assert!(
        cause.contains("was read again by uid ") && cause.ends_with(": 2 changes, generation 2"),
        "{event}"
    );
    edit(&proxy, &two.url(), &one.url());
    proxy.process().signal(Signal::HUP);
    let line = proxy
        .process()
        .wait_line("the reload", STEP, |line| line.strip_prefix("thalweg: reloaded ").map(str::to_owned));
    assert!(line.ends_with("thalweg.yaml: 2 changes, generation 3"), "{line}");
    let told = format!("- endpoint `{}` of service `s`: weight 1", two.url());
    proxy.process().wait_line("what has changed", STEP, |line| (line == told).then_some(()));
}

#[test]
fn a_bad_file_is_refused_with_its_line_and_the_old_one_serves() {
    let _watchdog = watchdog("a_bad_file_is_refused_with_its_line_and_the_old_one_serves");
    let one = Upstream::saying("one");
    let proxy = proxy(&[&one.url()]);
    let events = Admin::of(&proxy).events();
    let (before, _) = edit(&proxy, "workers: 2", "workers: 2\nlimits: { max_had: 1KiB }");
    let refused = verb(&proxy, &["reload"]);
    assert_eq!(refused.code, 1, "{}", said(&refused));
    assert!(refused.stderr.contains("thalweg.yaml:2:11: "), "{}", said(&refused));
    assert!(refused.stdout.is_empty(), "{}", said(&refused));
    assert_eq!(verb(&proxy, &["plan"]).code, 1);
    assert_answers(&proxy, "one");
    events.wait("reload_failed", None);
    wait_counted(&proxy, "thalweg_config_reloads_total", "result=\"failed\"", 1);
    wait_counted(&proxy, "thalweg_config_reloads_total", "result=\"ok\"", 0);
    fs::remove_file(file(&proxy)).unwrap();
    let missing = verb(&proxy, &["reload"]);
    assert_eq!(missing.code, 1, "{}", said(&missing));
    assert!(missing.stderr.contains("no such file"), "{}", said(&missing));
    assert_answers(&proxy, "one");
    fs::write(file(&proxy), before).unwrap();
    assert_eq!(verb(&proxy, &["reload"]).code, 0);
    wait_counted(&proxy, "thalweg_config_reloads_total", "result=\"ok\"", 1);
}

#[test]
fn an_earlier_configuration_comes_back_with_its_file() {
    let _watchdog = watchdog("an_earlier_configuration_comes_back_with_its_file");
    let [one, two, three] = ["one", "two", "three"].map(Upstream::saying);
    let proxy = proxy(&[&one.url()]);
    let (first, second) = edit(&proxy, &one.url(), &two.url());
    assert_eq!(verb(&proxy, &["reload"]).code, 0);
    edit(&proxy, &two.url(), &three.url());
    assert_eq!(verb(&proxy, &["reload"]).code, 0);
    assert_answers(&proxy, "three");
    let back = verb(&proxy, &["reload", "--rollback"]);
    assert_eq!(back.code, 0, "{}", said(&back));
    assert!(back.stdout.ends_with("generation 4, number 4 in the history\n"), "{}", said(&back));
    assert_answers(&proxy, "two");
    assert_eq!(fs::read_to_string(file(&proxy)).unwrap(), second, "the file too");
    assert_eq!(verb(&proxy, &["reload", "--rollback"]).code, 0);
    assert_answers(&proxy, "one");
    assert_eq!(fs::read_to_string(file(&proxy)).unwrap(), first);
    assert_eq!(verb(&proxy, &["reload", "--rollback", "--to", "3"]).code, 0);
    assert_answers(&proxy, "three");
    let none = verb(&proxy, &["reload", "--rollback", "--to", "77"]);
    assert_eq!(none.code, 1, "{}", said(&none));
    let history = Admin::of(&proxy).get(HISTORY);
    let told: Vec<_> = history["entries"].as_array().unwrap().iter().map(|entry| &entry["origin"]).collect();
    assert_eq!(told, ["rollback", "rollback", "rollback", "reload", "reload", "start"], "{history}");
    let listed = verb(&proxy, &["reload", "--history"]);
    assert_eq!((listed.code, listed.stdout.lines().count()), (0, 6), "{}", said(&listed));
}

#[test]
fn a_file_that_has_been_edited_is_left_alone_by_a_rollback() {
    let _watchdog = watchdog("a_file_that_has_been_edited_is_left_alone_by_a_rollback");
    let (one, two) = (Upstream::saying("one"), Upstream::saying("two"));
    let proxy = proxy(&[&one.url()]);
    edit(&proxy, &one.url(), &two.url());
    assert_eq!(verb(&proxy, &["reload"]).code, 0);
    let (_, edited) = edit(&proxy, "workers: 2", "workers: 2 # work in progress");
    let back = verb(&proxy, &["reload", "--rollback"]);
    assert_eq!(back.code, 0, "{}", said(&back));
    assert!(back.stdout.contains("has been changed since it was read"), "{}", said(&back));
    assert_answers(&proxy, "one");
    assert_eq!(fs::read_to_string(file(&proxy)).unwrap(), edited);
    let history = Admin::of(&proxy).get(HISTORY);
    assert_eq!(history["entries"][0]["ephemeral"], true, "{history}");
}

#[test]
fn with_the_token_a_rollback_brings_no_trust_back() {
    let _watchdog = watchdog("with_the_token_a_rollback_brings_no_trust_back");
    let one = Upstream::saying("one");
    let admin = "admin: { address: \"127.0.0.1:0\", token: { value: \"write-token-0123456789\" } }\n";
    let proxy = Proxy::start(&config(&[&one.url()], &format!("{admin}trusted_proxies: [ 127.0.0.0/8 ]\n")));
    edit(&proxy, "trusted_proxies: [ 127.0.0.0/8 ]\n", "");
    assert_eq!(verb(&proxy, &["reload"]).code, 0);
    let remote = Admin::on_tcp(&proxy, Some("write-token-0123456789"));
    let refused = remote.call("POST", "/api/v1/rollback", "{}");
    assert_eq!(refused.status(), 403, "{}", refused.text());
    assert!(document(&refused)["keys"].to_string().contains("trusted_proxies"), "{}", refused.text());
    let there = |answer: &Message| document(answer)["changes"].to_string().contains("trusted_proxies");
    let local = Admin::of(&proxy).call("POST", "/api/v1/rollback", "{}");
    assert!(local.status() == 200 && there(&local), "{}", local.text());
}

#[test]
fn the_history_survives_a_restart_where_state_has_a_path() {
    let _watchdog = watchdog("the_history_survives_a_restart_where_state_has_a_path");
    let (one, two) = (Upstream::saying("one"), Upstream::saying("two"));
    let directory = Directory::new();
    let text = config(&[&one.url()], &state_in(&directory));
    let proxy = Proxy::start_in(directory, &text);
    edit(&proxy, &one.url(), &two.url());
    assert_eq!(verb(&proxy, &["reload"]).code, 0);
    let now = fs::read_to_string(file(&proxy)).unwrap();
    let kept = proxy.directory().join("kept/history");
    let directory = proxy.stop().directory;
    let mut files: Vec<_> = fs::read_dir(&kept).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["00000001.json", "00000002.json"]);
    for file in &files {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "only for its owner");
    }
    let proxy = Proxy::start_in(directory, &now);
    let history = Admin::of(&proxy).get(HISTORY);
    let numbers: Vec<_> = history["entries"].as_array().unwrap().iter().map(|e| &e["number"]).collect();
    assert_eq!(numbers, [2, 1], "{history}");
    let back = verb(&proxy, &["reload", "--rollback"]);
    assert_eq!(back.code, 0, "{}", said(&back));
    assert_answers(&proxy, "one");
}

/// An upstream that answers 500.
fn broken() -> Upstream {
    let answer = b"HTTP/1.1 500 Oh No\r\nContent-Length: 2\r\n\r\nno";
    Upstream::start(|_| Some(answer.to_vec()))
}

/// Asks until an answer is this one.
fn ask_until(proxy: &Proxy, wanted: &str) {
    let end = Instant::now() + LIMIT;
    while get(proxy.web(), "/").unwrap().text() != wanted {
        assert!(Instant::now() < end, "never {wanted}");
    }
}

#[test]
fn a_bad_deployment_is_undone_within_the_watch_and_the_event_says_why() {
    let _watchdog = watchdog("a_bad_deployment_is_undone_within_the_watch_and_the_event_says_why");
    let (good, bad) = (Upstream::saying("good"), broken());
    let proxy = proxy(&[&good.url()]);
    let events = Admin::of(&proxy).events();
    assert_answers(&proxy, "good");
    let (before, _) = edit(&proxy, &good.url(), &bad.url());
    let begun = Instant::now();
    let verdict = thread::scope(|scope| {
        let verb = scope.spawn(|| verb(&proxy, &["reload", "--watch", "45s"]));
        ask_until(&proxy, "no");
        ask_until(&proxy, "good");
        verb.join().unwrap()
    });
    assert!(begun.elapsed() < Duration::from_secs(45), "before the watch would have ended");
    assert_eq!(verdict.code, 1, "{}", said(&verdict));
    assert!(verdict.stdout.contains("taken back: route `route 1`: "), "{}", said(&verdict));
    assert!(
        verdict.stdout.contains("% of ") && verdict.stdout.contains("failed with 5xx"),
        "{}",
        said(&verdict)
    );
    let event = events.wait("config_rolled_back", None);
    assert!(event["cause"].as_str().unwrap().starts_with("taken back: route `route 1`: "), "{event}");
    assert_answers(&proxy, "good");
    assert_eq!(fs::read_to_string(file(&proxy)).unwrap(), before, "the file too");
    wait_counted(&proxy, "thalweg_config_reloads_total", "result=\"rolled_back\"", 1);
    let history = Admin::of(&proxy).get(HISTORY);
    let told: Vec<_> = history["entries"].as_array().unwrap().iter().map(|entry| &entry["state"]).collect();
    assert_eq!(told, ["running", "rolled_back", "replaced"], "{history}");
    assert_eq!(history["entries"][1]["watch"]["state"], "rolled_back", "{history}");
}

#[test]
fn a_good_deployment_is_kept() {
    let _watchdog = watchdog("a_good_deployment_is_kept");
    let (one, two) = (Upstream::saying("one"), Upstream::saying("two"));
    let proxy = proxy(&[&one.url()]);
    edit(&proxy, &one.url(), &two.url());
    let verdict = thread::scope(|scope| {
        let verb = scope.spawn(|| verb(&proxy, &["reload", "--watch", "2s"]));
        ask_until(&proxy, "two");
        while !verb.is_finished() {
            assert_eq!(get(proxy.web(), "/").unwrap().text(), "two");
        }
        verb.join().unwrap()
    });
    assert_eq!(verdict.code, 0, "{}", said(&verdict));
    assert!(verdict.stdout.contains("kept: in 2s 0.0 % of "), "{}", said(&verdict));
    assert_answers(&proxy, "two");
    // Nothing to compare, nothing to go back to.
    let same = verb(&proxy, &["reload", "--watch", "45s"]);
    assert_eq!(same.code, 0, "{}", said(&same));
    assert!(same.stdout.contains("nothing changes, so there is nothing to watch"), "{}", said(&same));
}

#[test]
fn a_configuration_that_arrives_can_be_watched_too() {
    let _watchdog = watchdog("a_configuration_that_arrives_can_be_watched_too");
    let (good, bad) = (Upstream::saying("good"), broken());
    let proxy = proxy(&[&good.url()]);
    let admin = Admin::of(&proxy);
    let events = admin.events();
    let before = fs::read_to_string(file(&proxy)).unwrap();
    let fields = "Content-Type: application/yaml\r\nIf-Match: *\r\n";
    let text = before.replace(&good.url(), &bad.url());
    let answer = admin.ask("PUT", "/api/v1/config?watch=45s&min_requests=10", fields, &text).unwrap();
    assert_eq!(
        (answer.status(), &document(&answer)["watch"]["state"]),
        (200, &json!("watching")),
        "{}",
        answer.text()
    );
    ask_until(&proxy, "good");
    events.wait("config_rolled_back", None);
    assert_eq!(fs::read_to_string(file(&proxy)).unwrap(), before);
}

#[test]
fn another_reload_ends_a_watch() {
    let _watchdog = watchdog("another_reload_ends_a_watch");
    let (one, bad) = (Upstream::saying("one"), broken());
    let proxy = proxy(&[&one.url()]);
    let (first, _) = edit(&proxy, "workers: 2", "workers: 2 # the second");
    let second = thread::scope(|scope| {
        let verb = scope.spawn(|| verb(&proxy, &["reload", "--watch", "45s"]));
        let end = Instant::now() + STEP;
        while Admin::of(&proxy).get(HISTORY)["entries"][0]["watch"]["state"] != "watching" {
            assert!(Instant::now() < end, "no watch");
        }
        // One that changes nothing leaves it alone.
        assert_eq!(self::verb(&proxy, &["reload"]).code, 0);
        assert_eq!(Admin::of(&proxy).get(HISTORY)["entries"][0]["watch"]["state"], "watching");
        // The newer one wins, whatever it does.
        reload(&proxy, &first.replace(&one.url(), &bad.url()), 1);
        verb.join().unwrap()
    });
    assert_eq!(second.code, 1, "{}", said(&second));
    assert!(second.stdout.contains("another configuration took over"), "{}", said(&second));
    for _ in 0..50 {
        assert_eq!(get(proxy.web(), "/").unwrap().status(), 500, "nobody watches this one");
    }
    let history = Admin::of(&proxy).get(HISTORY);
    assert_eq!(history["entries"][1]["watch"]["state"], "replaced", "{history}");
}

#[test]
fn a_bad_included_file_is_taken_back_and_told_to_be_there_still() {
    let _watchdog = watchdog("a_bad_included_file_is_taken_back_and_told_to_be_there_still");
    let (good, bad) = (Upstream::saying("good"), broken());
    let directory = Directory::new();
    let service = |url: String| format!("services: {{ t: {{ endpoints: [ \"{url}\" ] }} }}\n");
    let included = directory.write("t.yaml", &service(good.url()));
    let text = config(&[&good.url()], "include: [ t.yaml ]").replace("to: s", "to: t");
    let proxy = Proxy::start_in(directory, &text);
    assert_answers(&proxy, "good");
    fs::write(&included, service(bad.url())).unwrap();
    let verdict = thread::scope(|scope| {
        let verb = scope.spawn(|| verb(&proxy, &["reload", "--watch", "45s"]));
        ask_until(&proxy, "no");
        ask_until(&proxy, "good");
        verb.join().unwrap()
    });
    assert_eq!(verdict.code, 1, "{}", said(&verdict));
    assert_answers(&proxy, "good");
    assert_eq!(fs::read_to_string(&included).unwrap(), service(bad.url()), "it is not ours to write");
    let note = "thalweg: a restart or reload will bring another configuration: a file that it includes";
    proxy.process().wait_line("the note", STEP, |line| line.starts_with(note).then_some(()));
    let history = Admin::of(&proxy).get(HISTORY);
    let told: Vec<_> = history["entries"].as_array().unwrap().iter().map(|entry| &entry["state"]).collect();
    assert_eq!(told, ["running", "rolled_back", "replaced"], "{history}");
    assert_eq!(history["entries"][0]["ephemeral"], true, "{history}");
}
