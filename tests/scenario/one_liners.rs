//! A proxy of a few options instead of a file, and the verb that asks for what goes into one.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use thalweg_tests::message::get;
use thalweg_tests::process::Signal;
use thalweg_tests::program::{Finished, run};
use thalweg_tests::proxy::command;
use thalweg_tests::tmux::Tmux;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Directory, Hook, Process, STEP, Upstream, binary};

use super::watchdog;

const LIMIT: Duration = Duration::from_secs(20);

fn thalweg(directory: &Path, arguments: &[&str]) -> Finished {
    run(command(directory).args(arguments), LIMIT)
}

/// A proxy of these options; where it listens.
fn start(directory: &Path, options: &[&str]) -> (Process, SocketAddr) {
    let process = Process::start(command(directory).args(["run", "--listen", "127.0.0.1:0"]).args(options));
    let address = process.wait_line("listening on", STEP, |line| {
        line.strip_prefix("thalweg: listening on ")?.split(' ').next()?.parse().ok()
    });
    process.wait_line("ready", STEP, |line| (line == "thalweg: ready").then_some(()));
    (process, address)
}

/// All options, without the addresses.
const ALL: &[&str] = &[
    "--balance",
    "least_requests",
    "--health",
    "/ping",
    "--health-interval",
    "200ms",
    "--health-failures",
    "1",
    "--retry",
    "3",
    "--cache",
    "60s",
    "--block",
    "192.0.2.0/24",
    "--block",
    "2001:db8::1",
    "--rate-limit",
    "3/1h",
    "--access-log",
    "json",
];

#[test]
fn the_options_do_what_they_say() {
    let _watchdog = watchdog("the_options_do_what_they_say");
    let (is_ill, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (ill, count) = (Arc::clone(&is_ill), Arc::clone(&asked));
    let upstream = Upstream::start(move |request| {
        if request.target() == "/ping" {
            let is_well = !ill.load(Ordering::SeqCst);
            return Some(if is_well {
                ok("")
            } else {
                b"HTTP/1.1 500 Ill\r\nContent-Length: 0\r\n\r\n".into()
            });
        }
        count.fetch_add(1, Ordering::SeqCst);
        Some(ok("hello"))
    });
    let (hook, directory) = (Hook::start(), Directory::new());
    let (url, told) = (upstream.url(), hook.url());
    let options = [ALL, &["--to", &url, "--webhook", &told]].concat();
    let (process, web) = start(directory.path(), &options);
    for _ in 0..3 {
        assert_eq!(get(web, "/a").unwrap().text(), "hello");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1, "the second and the third answer come from the cache");
    let refused = get(web, "/a").unwrap();
    assert_eq!(refused.status(), 429, "{refused:?}");
    is_ill.store(true, Ordering::SeqCst);
    hook.wait("endpoint_down", Some(&url));
    process.signal(Signal::TERM);
    process.wait_exit(STEP * 4);
    assert!(process.stdout().lines().count() >= 4, "a line for each request: {}", process.stdout());
}

#[test]
fn a_blocked_client_gets_403() {
    let _watchdog = watchdog("a_blocked_client_gets_403");
    let (upstream, directory) = (Upstream::saying("hello"), Directory::new());
    let (_process, web) = start(directory.path(), &["--to", &upstream.url(), "--block", "127.0.0.0/8"]);
    assert_eq!(get(web, "/").unwrap().status(), 403);
    assert_eq!(upstream.served(), 0);
}

#[test]
fn print_config_prints_the_file_that_says_the_same() {
    let _watchdog = watchdog("print_config_prints_the_file_that_says_the_same");
    let directory = Directory::new();
    let options =
        ["run", "--print-config", "--listen", ":8080", "--listen", ":8081", "--to", "http://127.0.0.1:9001"];
    let options = [&options[..], ALL, &["--webhook", "http://127.0.0.1:9900/hook"]].concat();
    let printed = thalweg(directory.path(), &options);
    assert_eq!((printed.code, printed.stderr.as_str()), (0, ""));
    let file = directory.write("thalweg.yaml", &printed.stdout);
    let checked = thalweg(directory.path(), &["check", "--strict", "--offline", &file.to_string_lossy()]);
    assert_eq!(checked.code, 0, "{checked:?}\n{}", printed.stdout);
    assert!(checked.stdout.contains("2 listeners, 1 route, 1 service"), "{checked:?}");
    for part in
        ["least_requests", "/ping", "200ms", "attempts: 3", "60s", "192.0.2.0/24", "requests: 3", "/hook"]
    {
        assert!(printed.stdout.contains(part), "{part} is not in\n{}", printed.stdout);
    }
}

#[test]
fn mistakes_in_options_name_them_and_end_with_1() {
    let _watchdog = watchdog("mistakes_in_options_name_them_and_end_with_1");
    let directory = Directory::new();
    let base = ["run", "--listen", ":8080", "--to", "http://127.0.0.1:9001"];
    for (option, value) in [
        ("--balance", "fastest"),
        ("--retry", "99"),
        ("--cache", "60"),
        ("--block", "192.0.2"),
        ("--rate-limit", "many/1s"),
        ("--webhook", "ftp://a"),
        ("--access-log", "pretty"),
    ] {
        for more in [&[][..], &["--print-config"]] {
            let finished = thalweg(directory.path(), &[&base, &[option, value][..], more].concat());
            assert_eq!((finished.code, finished.stdout.as_str()), (1, ""), "{option} {value}: {finished:?}");
            let said = &finished.stderr;
            assert!(said.contains("command line:") && said.contains(&format!("{option} ")), "{said}");
        }
    }
}

#[test]
fn options_that_do_not_fit_together_end_with_2() {
    let _watchdog = watchdog("options_that_do_not_fit_together_end_with_2");
    let directory = Directory::new();
    let base = ["--listen", ":8080", "--to", "http://127.0.0.1:9001"];
    for arguments in [
        &["--print-config"][..],
        &["--cache", "60s"],
        &["--config", "a.yaml", "--retry", "2"],
        &[&base[..], &["--config", "a.yaml"]].concat(),
        &[&base[..], &["--rate-limit", "100"]].concat(),
        &[&base[..], &["--health-interval", "2s"]].concat(),
    ] {
        let finished = thalweg(directory.path(), &[&["run"], arguments].concat());
        assert_eq!(finished.code, 2, "{arguments:?}: {finished:?}");
    }
}

/// `init` with these lines for answers.
fn init(directory: &Directory, arguments: &[&str], answers: &str) -> Finished {
    let file = File::open(directory.write("answers", answers)).unwrap();
    let mut command = command(directory.path());
    let output = command.arg("init").args(arguments).stdin(Stdio::from(file)).output().unwrap();
    Finished {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn init_writes_a_file_that_check_takes() {
    let _watchdog = watchdog("init_writes_a_file_that_check_takes");
    let directory = Directory::new();
    for (answers, parts) in [
        ("\n\n\n\n\n", &["web: \":8080\"", "http://127.0.0.1:9001", "format: json"][..]),
        (
            ":80\nhttp://127.0.0.1:1 http://127.0.0.1:2\n/ping\nops@example.com www.example.com\noff\n",
            &["redirect_https: true", "127.0.0.1:2", "/ping", "address: \":443\"", "www.example.com"],
        ),
        (":8080\n\n\nlocal\ncombined\n", &["local: true", "format: combined"]),
    ] {
        let finished = init(&directory, &["made.yaml"], answers);
        assert_eq!(finished.code, 0, "{finished:?}");
        assert!(finished.stdout.contains("thalweg run --config made.yaml"), "{finished:?}");
        assert_eq!(
            finished.stderr.matches("]: ").count() + finished.stderr.matches("no: ").count(),
            4,
            "{finished:?}"
        );
        let path = directory.path().join("made.yaml");
        let text = fs::read_to_string(&path).unwrap();
        for part in parts {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let checked = thalweg(directory.path(), &["check", "--strict", "--offline", "made.yaml"]);
        assert_eq!(checked.code, 0, "{checked:?}\n{text}");
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn init_overwrites_nothing_and_writes_nothing_wrong() {
    let _watchdog = watchdog("init_overwrites_nothing_and_writes_nothing_wrong");
    let directory = Directory::new();
    directory.write("thalweg.yaml", "mine");
    let finished = init(&directory, &[], "\n\n\n\n\n");
    assert!(finished.code == 1 && finished.stderr.contains("thalweg.yaml exists"), "{finished:?}");
    assert_eq!(fs::read_to_string(directory.path().join("thalweg.yaml")).unwrap(), "mine");
    for (answers, why) in [
        ("8080\n\n\n\n\n", "question 1"),
        ("\nhtp://a\n\n\n\n", "question 2"),
        ("\n\nping\n\n\n", "question 3"),
        ("\n\n\nyes\n\n", "question 4"),
        ("\n\n\n\npretty\n", "question 5"),
        ("\n\n", "before question 3"),
    ] {
        let finished = init(&directory, &["new.yaml"], answers);
        assert!(finished.code == 1 && finished.stderr.contains(why), "{answers:?}: {finished:?}");
        assert!(!directory.path().join("new.yaml").exists(), "{answers:?}");
    }
}

#[test]
fn init_asks_again_on_a_terminal() {
    let _watchdog = watchdog("init_asks_again_on_a_terminal");
    let directory = Directory::new();
    let line = format!("{} init; echo \"code $?\"; exec cat", binary::path().display());
    let Some(pane) = Tmux::start(directory.path(), (120, 40), &line) else { return };
    pane.wait("the first question", STEP, |screen| screen.contains("1. Where do clients connect?"));
    pane.press(&["8080", "Enter"]);
    pane.wait("the question again", STEP, |screen| screen.matches("1. Where do clients").count() == 2);
    pane.press(&[":8085", "Enter", "Enter", "Enter", "Enter", "Enter"]);
    let screen = pane.wait("the end", STEP, |screen| screen.contains("code 0"));
    assert!(screen.contains("thalweg.yaml is written"), "{screen}");
    assert!(fs::read_to_string(directory.path().join("thalweg.yaml")).unwrap().contains(":8085"), "{screen}");
}
