//! A proxy that was started as root and has become another user (`user:`): attacks by which that user could act as
//! root.
//!
//! Each test attacks as that user would, with files, links and pipes that it could have made. Only root can start
//! such a proxy: for other users the tests are skipped with a notice.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use thalweg_tests::message::get;
use thalweg_tests::process::Signal;
use thalweg_tests::program::run;
use thalweg_tests::proxy::command;
use thalweg_tests::{Directory, Process, Proxy, STEP, Upstream};

use super::upgrade::{await_child, child_of, crash_worker};
use super::watchdog;

/// The user that the proxy becomes: it has no rights on this machine.
const USER: u32 = 54321;
/// Longest time of a CLI command on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);

/// Whether these tests can run.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: only root can start a proxy that becomes another user");
    }
    is_root
}

fn config(upstream: &Upstream, more: &str) -> String {
    let state = if more.contains("state:") { "" } else { "state: { path: state }\n" };
    format!(
        "user: \"{USER}:{USER}\"\n\
         workers: 1\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         services: {{ s: {{ endpoints: [ \"{}\" ] }} }}\n\
         routes: [ {{ to: s }} ]\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n\
         {state}{more}\n",
        upstream.url()
    )
}

/// A directory that belongs to the user.
fn of_user(path: &Path) -> PathBuf {
    fs::create_dir(path).unwrap();
    chown(path, Some(USER), Some(USER)).unwrap();
    path.to_owned()
}

/// The users of all threads of a process: real, effective, saved, and of the file system.
fn users(pid: i32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let statuses =
        threads.filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).ok());
    let line =
        |status: String| status.lines().find(|line| line.starts_with("Uid:")).unwrap_or_default().to_owned();
    let mut users: Vec<_> = statuses.map(line).collect();
    users.sort();
    users.dedup();
    users
}

fn assert_has_no_rights(pid: i32) {
    assert_eq!(users(pid), [format!("Uid:\t{USER}\t{USER}\t{USER}\t{USER}")]);
}

#[test]
fn the_user_of_the_proxy_has_no_program_of_its_own_run_as_root() {
    let _watchdog = watchdog("the_user_of_the_proxy_has_no_program_of_its_own_run_as_root");
    if !is_root() {
        return;
    }
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start_with(&["--supervise=always"], &config(&upstream, ""));
    let first = child_of(&proxy);
    assert_has_no_rights(first);
    let own = of_user(&proxy.directory().join("own"));
    let proof = own.join("uid");
    let script = own.join("thalweg");
    fs::write(&script, format!("#!/bin/sh\nid -u > {}\n", proof.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    chown(&script, Some(USER), Some(USER)).unwrap();
    // The link's target still belongs to the user; and a system shell would run a script of any name.
    let linked = proxy.directory().join("thalweg");
    symlink(&script, &linked).unwrap();
    for binary in [script.as_path(), linked.as_path(), Path::new("/bin/sh")] {
        let upgrade = ["upgrade", "--binary", binary.to_str().unwrap()];
        let refused = run(command(proxy.directory()).args(upgrade), LIMIT);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains("runs as another user than its supervisor"), "{refused:?}");
    }
    assert!(!proof.exists(), "run by {:?}", fs::read_to_string(&proof));
    assert_eq!(child_of(&proxy), first);
    // The supervisor's own program takes over as before.
    let done = run(command(proxy.directory()).arg("upgrade"), LIMIT);
    assert_eq!(done.code, 0, "{done:?}\n{}", proxy.process().stderr());
    await_child(&proxy, first);
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
    assert_has_no_rights(child_of(&proxy));
    assert_eq!(proxy.stop().status.code(), Some(0));
}

#[test]
fn reports_of_crashes_follow_no_link_of_the_user() {
    let _watchdog = watchdog("reports_of_crashes_follow_no_link_of_the_user");
    if !is_root() {
        return;
    }
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let state = of_user(&directory.path().join("state"));
    let victim = directory.path().join("victim");
    fs::create_dir(&victim).unwrap();
    let old: Vec<_> = (1..=20).map(|at| victim.join(format!("{at}-7.txt"))).collect();
    old.iter().for_each(|file| fs::write(file, "precious").unwrap());
    let crashes = state.join("crashes");
    symlink(&victim, &crashes).unwrap();
    lchown(&crashes, Some(USER), Some(USER)).unwrap();
    directory.write("thalweg.yaml", &config(&upstream, "state: { path: state }"));
    let proxy = Proxy::start_file(directory, &["--supervise=always"], "thalweg.yaml");
    let crash = |number: u32, told: &str| {
        // A process that answers has its workers.
        assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
        let child = child_of(&proxy);
        crash_worker(child);
        await_child(&proxy, child);
        let says = |line: &str| line.contains(told).then_some(());
        proxy.process().wait_line(&format!("crash {number}: {told}"), STEP, says);
    };
    crash(1, "the report of the crash cannot be kept");
    assert!(old.iter().all(|file| file.exists()));
    assert_eq!(fs::read_dir(&victim).unwrap().count(), old.len());
    fs::remove_file(&crashes).unwrap();
    crash(2, "the report is in ");
    let reports: Vec<_> = fs::read_dir(&crashes).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(reports.len(), 1);
    let found = reports[0].metadata().unwrap();
    assert_eq!((found.mode() & 0o777, found.uid()), (0o600, 0));
    assert!(fs::read_to_string(reports[0].path()).unwrap().contains("SIGSEGV"));
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
    assert_has_no_rights(child_of(&proxy));
}

#[test]
fn a_pipe_in_the_state_directory_does_not_block_the_start_or_the_stop() {
    let _watchdog = watchdog("a_pipe_in_the_state_directory_does_not_block_the_start_or_the_stop");
    if !is_root() {
        return;
    }
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let state = of_user(&directory.path().join("state"));
    let history = of_user(&state.join("history"));
    let pipe = |path: PathBuf| {
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        chown(&path, Some(USER), Some(USER)).unwrap();
    };
    pipe(state.join("sources.json"));
    pipe(history.join("00000001.json"));
    let text = config(&upstream, "state: { path: state }");
    directory.write("thalweg.yaml", &text);
    let proxy = Proxy::start_file(directory, &[], "thalweg.yaml");
    let told = proxy.process().stderr();
    assert!(told.contains("sources.json: it is not a regular file"), "{told}");
    let ended = proxy.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    // An unreadable required file ends the start at once, with a message.
    let directory = Directory::new();
    let state = of_user(&directory.path().join("state"));
    pipe(state.join("runtime.json"));
    directory.write("thalweg.yaml", &text);
    let failed = run(command(directory.path()).args(["run", "--config", "thalweg.yaml"]), LIMIT);
    assert!(failed.code == 1 && failed.stderr.contains("it is not a regular file"), "{failed:?}");
}

#[test]
fn no_directory_is_made_or_given_away_behind_a_link_of_the_user() {
    let _watchdog = watchdog("no_directory_is_made_or_given_away_behind_a_link_of_the_user");
    if !is_root() {
        return;
    }
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let own = of_user(&directory.path().join("own"));
    let target = directory.path().join("target");
    fs::create_dir(&target).unwrap();
    symlink(&target, own.join("state")).unwrap();
    directory.write("thalweg.yaml", &config(&upstream, "state: { path: own/state/thalweg }"));
    let failed = run(command(directory.path()).args(["run", "--config", "thalweg.yaml"]), LIMIT);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stderr.contains("cannot prepare") && failed.stderr.contains("is a link"), "{failed:?}");
    assert_eq!((fs::read_dir(&target).unwrap().count(), fs::metadata(&target).unwrap().uid()), (0, 0));
}

/// A thread that starts before the change of the user stays root.
#[test]
fn no_thread_keeps_the_rights_of_root_where_documents_are_read_at_the_start() {
    let _watchdog = watchdog("no_thread_keeps_the_rights_of_root_where_documents_are_read_at_the_start");
    if !is_root() {
        return;
    }
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let routes = of_user(&directory.path().join("routes"));
    fs::write(routes.join("a.yaml"), "routes: [ { name: a, match: { host: a.test }, to: s } ]\n").unwrap();
    // Root could read the file, but the proxy's user cannot.
    let secret = directory.write("secret", "root:$6$secret:1:::\n");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&secret, routes.join("b.yaml")).unwrap();
    let more = "route_sources: [ { file: { path: routes, interval: 100ms } } ]";
    directory.write("thalweg.yaml", &config(&upstream, more));
    let proxy = Proxy::start_file(directory, &[], "thalweg.yaml");
    assert_has_no_rights(proxy.process().pid());
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
    let told = proxy.stop().stderr;
    assert!(!told.contains("$6$secret"), "{told}");
}

#[test]
fn the_name_of_a_document_makes_no_line_of_the_log() {
    let _watchdog = watchdog("the_name_of_a_document_makes_no_line_of_the_log");
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let routes = directory.path().join("routes");
    fs::create_dir(&routes).unwrap();
    let forged = "2026-11-24T12:00:00.123Z INFO upgrade: process 1 (9.9.9) has taken over";
    fs::write(routes.join(format!("a\n{forged}\n\u{1b}[2J\u{202e}.yaml")), "routes: 5\n").unwrap();
    let text = config(&upstream, "route_sources: [ { file: { path: routes } } ]");
    let text = text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap();
    directory.write("thalweg.yaml", &text);
    let mut start = command(directory.path());
    let process = Process::start(start.args(["run", "--config", "thalweg.yaml"]));
    let quoted =
        process.wait_line("the document", STEP, |line| line.contains(forged).then(|| line.to_owned()));
    process.wait_line("ready", STEP, |line| (line == "thalweg: ready").then_some(()));
    assert!(quoted.contains(&format!("\\u000a{forged}\\u000a\\u001b[2J\\u202e.yaml")), "{quoted:?}");
    process.signal(Signal::TERM);
    assert_eq!(process.wait_exit(STEP).code(), Some(0));
    let told = process.stderr();
    assert!(!told.lines().any(|line| line.contains("has taken over") && !line.contains("\\u000a")), "{told}");
    assert!(!told.contains(['\u{1b}', '\u{202e}']), "{told}");
}
