//! What becomes of changes: a reload keeps them, a restart keeps them where `state` says so, and the audit log has
//! them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_tests::message::get;
use thalweg_tests::program::run;
use thalweg_tests::proxy::command;
use thalweg_tests::{Admin, Directory, Proxy, STEP, Upstream};

use super::{
    TOKENS, WORKERS, add, asked, guarded, patch, path_of, remove, state_in, state_of, urls, wait_gone,
};
use crate::scenario::{config, reload, watchdog};

const LIMIT: Duration = Duration::from_secs(20);

/// Workers hear of a change a moment after it was answered.
fn eventually(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + STEP;
    while !is_so() {
        assert!(Instant::now() < end, "it does not become so");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A configuration with `state` in this directory.
fn kept_in(directory: &Directory, endpoints: &[&str]) -> String {
    config(endpoints, &state_in(directory))
}

/// Adds one endpoint, removes another, and puts a third aside with another weight.
fn change(admin: &Admin, [added, removed, aside]: [&str; 3]) {
    add(admin, added);
    remove(admin, removed, "?drain=0s");
    wait_gone(admin, removed);
    patch(admin, aside, &json!({ "weight": 7, "state": "maintenance" }));
}

/// The changes of [`change`] are in force.
fn assert_changed(proxy: &Proxy, [added, removed, aside]: [&str; 3]) {
    let admin = Admin::of(proxy);
    let known = urls(&admin);
    assert!(known.iter().all(|url| url != removed), "{known:?}");
    assert_eq!(admin.get(&path_of(added))["source"], "runtime");
    assert_eq!(
        (&*state_of(&admin, aside), &admin.get(&path_of(aside))["weight"]),
        ("maintenance", &json!(7))
    );
    assert_eq!(asked(proxy.web(), 8, 2)["added"], 16);
}

#[test]
fn changes_survive_a_restart_where_state_has_a_path() {
    let _watchdog = watchdog("changes_survive_a_restart_where_state_has_a_path");
    let upstreams = ["added", "removed", "aside"].map(Upstream::saying);
    let (directory, of) = (Directory::new(), upstreams.each_ref().map(Upstream::url));
    let of = of.each_ref().map(|url| &**url);
    let text = kept_in(&directory, &[of[1], of[2]]);
    let proxy = Proxy::start_in(directory, &text);
    change(&Admin::of(&proxy), of);
    assert_changed(&proxy, of);
    let file = proxy.directory().join("kept/runtime.json");
    // Kept in the background, soon.
    let end = Instant::now() + STEP;
    while !file.exists() {
        assert!(Instant::now() < end, "not kept");
    }
    let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "only for its owner");
    let proxy = Proxy::start_in(proxy.stop().directory, &text);
    assert_changed(&proxy, of);

    // And again, killed this time; then all is taken back.
    let admin = Admin::of(&proxy);
    add(&admin, of[1]);
    remove(&admin, of[0], "?drain=0s");
    wait_gone(&admin, of[0]);
    patch(&admin, of[2], &json!({ "weight": 1, "state": "ready" }));
    // Kept in the background, soon.
    let (kept, end) = (|| fs::read_to_string(&file).unwrap(), Instant::now() + STEP);
    while kept().contains(of[0]) || kept().contains("\"mode\"") {
        assert!(Instant::now() < end, "not kept: {}", kept());
    }
    proxy.process().signal(thalweg_tests::process::Signal::KILL);
    let ended = proxy.ended(STEP);
    let proxy = Proxy::start_in(ended.directory, &text);
    assert_eq!(urls(&Admin::of(&proxy)), [of[1], of[2]], "in the order of the file");
    let answers = asked(proxy.web(), 8, 4);
    assert!(answers["removed"].abs_diff(16) <= WORKERS, "{answers:?}");
}

#[test]
fn changes_do_not_survive_a_restart_without_a_path_for_state() {
    let _watchdog = watchdog("changes_do_not_survive_a_restart_without_a_path_for_state");
    let upstreams = ["added", "removed", "aside"].map(Upstream::saying);
    let of = upstreams.each_ref().map(Upstream::url);
    let of = of.each_ref().map(|url| &**url);
    let text = config(&[of[1], of[2]], "");
    let proxy = Proxy::start(&text);
    change(&Admin::of(&proxy), of);
    assert_changed(&proxy, of);
    let proxy = Proxy::start_in(proxy.stop().directory, &text);
    assert_eq!(urls(&Admin::of(&proxy)), [of[1], of[2]]);
    let answers = asked(proxy.web(), 8, 4);
    assert!(answers["removed"].abs_diff(16) <= WORKERS, "{answers:?}");
}

#[test]
fn a_drain_that_a_restart_interrupts_stays_a_removal() {
    let _watchdog = watchdog("a_drain_that_a_restart_interrupts_stays_a_removal");
    let (leaving, staying) = (thalweg_tests::Held::start("leaving"), Upstream::saying("staying"));
    let directory = Directory::new();
    let text = kept_in(&directory, &[&leaving.url(), &staying.url()]);
    let proxy = Proxy::start_in(directory, &text);
    let admin = Admin::of(&proxy);
    patch(&admin, &staying.url(), &json!({ "state": "maintenance" }));
    let mut client = thalweg_tests::Talk::open(proxy.web()).unwrap();
    client.send("GET /long HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    client.head().unwrap();
    patch(&admin, &staying.url(), &json!({ "state": "ready" }));
    assert_eq!(remove(&admin, &leaving.url(), "?drain=1h").status(), 202);
    let (file, end) = (proxy.directory().join("kept/runtime.json"), Instant::now() + STEP);
    while !fs::read_to_string(&file)
        .is_ok_and(|text| text.contains("removed") && text.contains(&leaving.url()))
    {
        assert!(Instant::now() < end, "the removal is not kept");
    }
    proxy.process().signal(thalweg_tests::process::Signal::KILL);
    let proxy = Proxy::start_in(proxy.ended(STEP).directory, &text);
    assert_eq!(urls(&Admin::of(&proxy)), [staying.url()]);
    assert_eq!(asked(proxy.web(), 8, 2)["staying"], 16);
}

#[test]
fn a_damaged_file_of_changes_is_a_mistake_that_the_start_names() {
    let _watchdog = watchdog("a_damaged_file_of_changes_is_a_mistake_that_the_start_names");
    for damage in ["", "{", "7", "{\"services\": 7}", "\u{0}\u{0}\u{0}\u{0}"] {
        let directory = Directory::new();
        let text = kept_in(&directory, &["http://127.0.0.1:1"]).replace("{log}", "stdout");
        fs::create_dir(directory.path().join("kept")).unwrap();
        let file = directory.write("kept/runtime.json", damage);
        let configuration = directory.write("thalweg.yaml", &text);
        let finished = run(command(directory.path()).arg("run").arg("--config").arg(configuration), LIMIT);
        assert_eq!(finished.code, 1, "{damage:?}: {}", finished.stderr);
        assert!(finished.stderr.contains("runtime.json"), "{damage:?}: {}", finished.stderr);
        assert!(!finished.stderr.contains("panicked"), "{damage:?}: {}", finished.stderr);
        assert_eq!(fs::read_to_string(file).unwrap(), damage, "it is left as it was");
    }
}

#[test]
fn a_reload_keeps_the_changes_over_what_the_file_says_now() {
    let _watchdog = watchdog("a_reload_keeps_the_changes_over_what_the_file_says_now");
    let upstreams = ["added", "removed", "aside"].map(Upstream::saying);
    let of = upstreams.each_ref().map(Upstream::url);
    let of = of.each_ref().map(|url| &**url);
    let new = Upstream::saying("new");
    let proxy = Proxy::start(&config(&[of[1], of[2]], ""));
    change(&Admin::of(&proxy), of);
    reload(&proxy, &config(&[of[1], of[2]], ""), 1);
    assert_changed(&proxy, of);
    reload(&proxy, &config(&[of[1], of[2], &new.url()], ""), 2);
    // Each worker begins its round where it likes.
    let answers = asked(proxy.web(), 8, 4);
    assert!(answers["new"].abs_diff(16) <= WORKERS, "what the file adds is there too: {answers:?}");
    // Into the file goes what was added: it is there once.
    reload(&proxy, &config(&[of[0]], ""), 3);
    assert_eq!(urls(&Admin::of(&proxy)), [of[0]]);
    assert_eq!(asked(proxy.web(), 8, 2)["added"], 16);
}

/// The entries of the audit log, once there are so many.
fn audited(state: &Path, count: usize) -> Vec<Value> {
    let end = Instant::now() + STEP;
    loop {
        let text = fs::read_to_string(state.join("audit.log")).unwrap_or_default();
        let whole = text.lines().filter(|_| text.ends_with('\n'));
        let entries: Vec<Value> = whole.map(|line| serde_json::from_str(line).unwrap()).collect();
        if entries.len() >= count {
            return entries;
        }
        assert!(Instant::now() < end, "{} of {count} entries: {entries:#?}", entries.len());
    }
}

#[test]
fn the_audit_log_has_each_change_and_each_refusal() {
    let _watchdog = watchdog("the_audit_log_has_each_change_and_each_refusal");
    let (one, two) = (Upstream::saying("one"), Upstream::saying("two"));
    let proxy = guarded(&[&one.url()], "");
    let (socket, tcp) = (Admin::of(&proxy), Admin::on_tcp(&proxy, Some(TOKENS.0)));
    add(&tcp, &two.url());
    patch(&socket, &two.url(), &json!({ "weight": 5 }));
    patch(&socket, &two.url(), &json!({ "state": "draining" }));
    let body = json!({ "url": two.url() }).to_string();
    assert_eq!(tcp.call("POST", "/api/v1/services/s/endpoints", &body).status(), 409);
    assert_eq!(Admin::on_tcp(&proxy, Some(TOKENS.1)).call("DELETE", &path_of(&two.url()), "").status(), 403);
    assert_eq!(Admin::on_tcp(&proxy, None).call("DELETE", &path_of(&two.url()), "").status(), 401);
    urls(&socket);
    remove(&socket, &two.url(), "?drain=0s");

    let state = proxy.directory().join("kept");
    let entries = audited(&state, 6);
    let told: Vec<_> = entries
        .iter()
        .map(|entry| (entry["method"].as_str().unwrap(), entry["status"].as_u64().unwrap()))
        .collect();
    let expected =
        [("POST", 201), ("PATCH", 200), ("PATCH", 200), ("POST", 409), ("DELETE", 403), ("DELETE", 200)];
    assert_eq!(told, expected, "neither reads nor strangers: {entries:#?}");
    assert_eq!(entries[0]["who"]["role"], "write");
    assert!(entries[0]["who"]["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{}", entries[0]);
    assert!(entries[1]["who"]["uid"].is_u64(), "{}", entries[1]);
    assert_eq!((&entries[1]["before"]["weight"], &entries[1]["after"]["weight"]), (&json!(1), &json!(5)));
    assert_eq!(entries[2]["after"]["state"], "draining");
    assert!(entries[3]["detail"].is_string() && entries[3].get("after").is_none(), "{}", entries[3]);
    let last = tcp.get("/api/v1/audit?last=2");
    assert_eq!(last["entries"].as_array().unwrap().len(), 2, "{last}");
    let mode = fs::metadata(state.join("audit.log")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let text = fs::read_to_string(state.join("audit.log")).unwrap();
    assert!(!text.contains(TOKENS.0) && !text.contains(TOKENS.1), "no token in the log");
}

#[test]
fn maintenance_that_was_turned_on_lasts_until_it_is_taken_back() {
    let _watchdog = watchdog("maintenance_that_was_turned_on_lasts_until_it_is_taken_back");
    let blue = Upstream::saying("blue");
    let directory = Directory::new();
    let state = state_in(&directory);
    let text = |on: bool| {
        let routes = format!(
            "routes: [ {{ name: plain, match: {{ path: /plain }}, to: s }}, {{ name: the shop, filters: [ {{ maintenance: {{ on: {on} }} }} ], to: s }} ]"
        );
        config(&[&blue.url()], &state).replace("routes: [ { to: s } ]", &routes)
    };
    let status = |proxy: &Proxy| get(proxy.web(), "/a").unwrap().status();
    let place = "/api/v1/routes/the%20shop/maintenance";
    let line = "route `the shop`: `maintenance` is on, as set through the admin API, not off as in the file; \
                `DELETE /api/v1/routes/the%20shop/maintenance` brings that back";

    let proxy = Proxy::start_in(directory, &text(false));
    let admin = Admin::of(&proxy);
    assert_eq!(
        (status(&proxy), &admin.get("/api/v1/routes")["routes"][1]["maintenance"]),
        (200, &json!(false))
    );
    assert_eq!(admin.call("PATCH", place, r#"{"on": true}"#).status(), 200);
    proxy.process().wait_line(line, STEP, |said| said.contains(line).then_some(()));
    eventually(|| status(&proxy) == 503);
    assert_eq!(get(proxy.web(), "/plain").unwrap().status(), 200, "other routes go on");
    assert_eq!(admin.call("PATCH", "/api/v1/routes/plain/maintenance", r#"{"on": true}"#).status(), 409);
    assert_eq!(admin.call("PATCH", "/api/v1/routes/none/maintenance", r#"{"on": true}"#).status(), 404);
    let kinds: Vec<_> =
        admin.get("/api/v1/plan")["drift"].as_array().unwrap().iter().map(|d| d["change"].clone()).collect();
    assert_eq!(kinds, [json!("maintenance on")]);

    let proxy = Proxy::start_in(proxy.stop().directory, &text(false));
    assert_eq!(proxy.process().stderr().matches(line).count(), 1, "at the start");
    assert_eq!(status(&proxy), 503, "a restart keeps it");
    reload(&proxy, &text(false).replace("on: false", "retry_after: 1h"), 1);
    assert_eq!(status(&proxy), 503, "a reload keeps it");
    let admin = Admin::of(&proxy);
    for _ in 0..2 {
        assert_eq!(admin.call("DELETE", place, "").status(), 204, "a second time too");
    }
    eventually(|| status(&proxy) == 200);
    let proxy = Proxy::start_in(proxy.stop().directory, &text(true));
    assert_eq!(status(&proxy), 503, "the file says so");
}

#[test]
fn weights_that_were_set_say_so_until_they_are_taken_back() {
    let _watchdog = watchdog("weights_that_were_set_say_so_until_they_are_taken_back");
    let (blue, green) = (Upstream::saying("blue"), Upstream::saying("green"));
    let directory = Directory::new();
    let state = state_in(&directory);
    let text = |blue_weight: u32, green_weight: u32| {
        let to = format!(
            "[ {{ service: s, weight: {blue_weight} }}, {{ service: t, weight: {green_weight} }} ] }} ]"
        );
        let services = format!("services: {{ t: {{ endpoints: [ \"{}\" ] }}, s:", green.url());
        config(&[&blue.url()], &state)
            .replace("routes: [ { to: s } ]", &format!("routes: [ {{ name: the split, to: {to}"))
            .replace("services: { s:", &services)
    };
    let said = |proxy: &Proxy, what: &str| proxy.process().stderr().matches(what).count();
    let hears = |proxy: &Proxy, what: &str| {
        proxy.process().wait_line(what, STEP, |line| line.contains(what).then_some(()));
    };
    let set = "route `the split`: weights set through the admin API are in force (s 0, t 1), not those of the file; \
               `DELETE /api/v1/routes/the%20split/weights` brings those of the file back";
    let masked = "route `the split`: the file has other weights now (s 2, t 0)";
    let place = "/api/v1/routes/the%20split/weights";

    let proxy = Proxy::start_in(directory, &text(1, 0));
    assert_eq!(said(&proxy, "set through the admin API"), 0);
    assert_eq!(Admin::of(&proxy).call("PATCH", place, r#"{"s": 0, "t": 1}"#).status(), 200);
    hears(&proxy, set);
    let proxy = Proxy::start_in(proxy.stop().directory, &text(1, 0));
    assert_eq!(said(&proxy, set), 1, "at the start");
    assert_eq!(asked(proxy.web(), 8, 1)["green"], 8);

    reload(&proxy, &text(2, 0), 1);
    hears(&proxy, masked);
    assert_eq!(asked(proxy.web(), 8, 1)["green"], 8);
    let admin = Admin::of(&proxy);
    for _ in 0..2 {
        assert_eq!(admin.call("DELETE", place, "").status(), 204, "a second time too");
    }
    assert_eq!(admin.get("/api/v1/routes")["routes"][0]["to"][0], json!({ "service": "s", "weight": 2 }));
    hears(&proxy, "thalweg: route `the split`: the weights of the file are in force again");
    assert_eq!(asked(proxy.web(), 8, 1)["blue"], 8);
    let proxy = Proxy::start_in(proxy.stop().directory, &text(2, 0));
    assert_eq!(said(&proxy, "set through the admin API"), 0, "it is forgotten");
    assert_eq!(Admin::of(&proxy).call("DELETE", "/api/v1/routes/none/weights", "").status(), 404);
}
