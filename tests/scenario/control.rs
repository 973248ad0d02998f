//! Verbs and signals against a running proxy.

use std::fs;
use std::time::{Duration, Instant};

use thalweg_tests::message::{fetch, get};
use thalweg_tests::process::Signal;
use thalweg_tests::program::{Finished, run};
use thalweg_tests::proxy::{command, read_log};
use thalweg_tests::{Directory, Proxy, STEP, Upstream, Watchdog};

use super::{config, proxy, wait_counted, watchdog};

const LIMIT: Duration = Duration::from_secs(20);

fn verb(proxy: &Proxy, arguments: &[&str]) -> Finished {
    run(command(proxy.directory()).args(arguments), LIMIT)
}

#[test]
fn health_tells_whether_a_proxy_runs() {
    let _watchdog = watchdog("health_tells_whether_a_proxy_runs");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    let healthy = verb(&proxy, &["health"]);
    assert_eq!(healthy.code, 0, "{}{}", healthy.stdout, healthy.stderr);
    let alone = Directory::new();
    let missing = run(command(alone.path()).arg("health"), LIMIT);
    assert_eq!(missing.code, 1, "{}{}", missing.stdout, missing.stderr);
}

#[test]
fn stop_ends_the_proxy_with_0() {
    let _watchdog = watchdog("stop_ends_the_proxy_with_0");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
    let stopped = verb(&proxy, &["stop"]);
    assert_eq!(stopped.code, 0, "{}{}", stopped.stdout, stopped.stderr);
    assert_eq!(proxy.ended(STEP).status.code(), Some(0));
}

/// Names of the proxy's threads, sorted.
fn threads(proxy: &Proxy) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", proxy.process().pid())).unwrap().flatten();
    let mut names: Vec<_> = tasks
        .filter_map(|task| Some(fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned()))
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn who_changes_nothing_has_no_thread_for_it() {
    let _watchdog = watchdog("who_changes_nothing_has_no_thread_for_it");
    let proxy = Proxy::start(&config(&["http://127.0.0.1:9"], ""));
    let (read, before) = (verb(&proxy, &["status"]), threads(&proxy));
    assert_eq!(
        (read.code, before),
        (0, ["thalweg", "thalweg-admin", "thalweg-log", "worker-0", "worker-1"].map(str::to_owned).to_vec())
    );
    assert_eq!(verb(&proxy, &["reload"]).code, 0);
    assert!(threads(&proxy).iter().any(|name| name == "thalweg-audit"), "{:?}", threads(&proxy));
}

#[test]
fn usr1_reopens_the_access_log() {
    let _watchdog = watchdog("usr1_reopens_the_access_log");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    let (log, old) = (proxy.log_path(), proxy.directory().join("access.log.1"));
    assert_eq!(get(proxy.web(), "/before").unwrap().status(), 200);
    fs::rename(&log, &old).unwrap();
    proxy.process().signal(Signal::USR1);
    let end = Instant::now() + STEP;
    let mut asked = 1;
    while !log.exists() {
        assert!(Instant::now() < end, "the log is not reopened");
        assert_eq!(get(proxy.web(), "/between").unwrap().status(), 200);
        asked += 1;
    }
    assert_eq!(get(proxy.web(), "/after").unwrap().status(), 200);
    asked += 1;
    let ended = proxy.stop();
    let (old, new) = (read_log(&old), ended.log);
    assert_eq!(old.len() + new.len(), asked, "no record is lost");
    assert!(new.iter().any(|record| record["path"] == "/after"), "{new:?}");
}

#[test]
fn metrics_count_requests() {
    let _watchdog = watchdog("metrics_count_requests");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    for _ in 0..5 {
        assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
    }
    let answer = get(proxy.metrics(), "/metrics").unwrap();
    assert!(answer.value("content-type").unwrap().starts_with("text/plain"), "{answer:?}");
    wait_counted(&proxy, "thalweg_requests_total", "code=\"200\"", 5);
    assert_eq!(get(proxy.metrics(), "/healthz").unwrap().status(), 200);
    assert_eq!(get(proxy.metrics(), "/api/v1/status").unwrap().status(), 404, "only metrics and health here");
}

#[test]
fn what_strangers_send_adds_no_metric_series() {
    let _watchdog = watchdog("what_strangers_send_adds_no_metric_series");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    let series = || {
        let text = get(proxy.metrics(), "/metrics").unwrap().text();
        text.lines().filter(|line| !line.starts_with('#')).count()
    };
    let ask = |number: usize| {
        let request = format!("M{number} /p{number} HTTP/1.1\r\nHost: h{number}.test\r\n\r\n");
        assert_eq!(fetch(proxy.web(), &request).unwrap().status(), 200);
    };
    ask(0);
    wait_counted(&proxy, "thalweg_requests_total", "code=\"200\"", 1);
    let before = series();
    (1..100).for_each(ask);
    wait_counted(&proxy, "thalweg_requests_total", "code=\"200\"", 100);
    assert_eq!(series(), before);
}

#[test]
fn an_access_log_that_takes_no_more_says_so_once_tears_no_line_and_counts_what_is_lost() {
    const ASKED: usize = 60;
    let _watchdog = Watchdog::new("an_access_log_that_takes_no_more_…", Duration::from_secs(60));
    let upstream = Upstream::saying("hello");
    let proxy = Proxy::start_with_file_blocks(8, &config(&[&upstream.url()], ""));
    let ask = || assert_eq!(get(proxy.web(), "/").unwrap().status(), 200, "no exchange suffers");
    // More than 8 KiB of lines.
    (0..ASKED).for_each(|_| ask());
    let full = "access.log cannot be written: File too large";
    proxy.process().wait_line(full, STEP, |line| line.contains(full).then_some(()));
    let dropped = || {
        let page = get(proxy.metrics(), "/metrics").unwrap().text();
        let lost = page
            .lines()
            .filter_map(|line| line.strip_prefix("thalweg_log_dropped_total{reason=\"write_failed\"} "));
        lost.map(|count| count.parse::<usize>().unwrap()).sum::<usize>()
    };
    let end = Instant::now() + STEP;
    // Each worker hands its lines over when it likes.
    while read_log(&proxy.log_path()).len() + dropped() < ASKED {
        assert!(Instant::now() < end, "neither written nor counted: {} lost", dropped());
    }
    let old = proxy.directory().join("old.log");
    fs::rename(proxy.log_path(), &old).unwrap();
    proxy.process().signal(Signal::USR1);
    proxy.process().wait_line("reopened", STEP, |line| line.ends_with("log reopened").then_some(()));
    ask();
    let lost = proxy.process().wait_line("the end of it", STEP, |line| {
        let lost = line.strip_prefix("thalweg: the access log is written again; ")?;
        lost.split(' ').next()?.parse::<usize>().ok()
    });
    let old = read_log(&old).len();
    let ended = proxy.stop();
    assert_eq!(ended.stderr.matches("cannot be written").count(), 1, "{}", ended.stderr);
    assert!(lost > 0 && old > 0, "{lost} {old}");
    assert_eq!((old + lost, ended.log.len()), (ASKED, 1), "each line is written or counted");
}
