//! The verbs that need no running proxy, and start-ups that fail: texts and exit codes.

use std::net::TcpListener;
use std::time::Duration;

use thalweg_tests::message::get;
use thalweg_tests::program::{Finished, run};
use thalweg_tests::proxy::command;
use thalweg_tests::{Directory, Process, STEP, Upstream};

use super::{config, watchdog};

const LIMIT: Duration = Duration::from_secs(20);

fn thalweg(directory: &Directory, arguments: &[&str]) -> Finished {
    run(command(directory.path()).args(arguments), LIMIT)
}

#[test]
fn check_ends_with_0_for_a_good_file() {
    let _watchdog = watchdog("check_ends_with_0_for_a_good_file");
    let directory = Directory::new();
    let text = config(&["http://127.0.0.1:9001"], "").replace("{log}", "stdout");
    let file = directory.write("good.yaml", &text);
    let file = file.to_string_lossy();
    for arguments in [&["check", &file][..], &["check", "--config", &file], &["check", "-c", &file]] {
        let finished = thalweg(&directory, arguments);
        assert_eq!(finished.code, 0, "{arguments:?}: {}{}", finished.stdout, finished.stderr);
    }
}

#[test]
fn check_ends_with_1_and_names_every_mistake() {
    let _watchdog = watchdog("check_ends_with_1_and_names_every_mistake");
    let directory = Directory::new();
    let text = "listeners: { web: { address: \":8080\" } }\nrouts: []\nroutes:\n  - to: nowhere\n";
    let file = directory.write("bad.yaml", text);
    let finished = thalweg(&directory, &["check", &file.to_string_lossy()]);
    let said = finished.stdout + &finished.stderr;
    assert_eq!(finished.code, 1, "{said}");
    assert!(said.contains("bad.yaml:2:1") && said.contains("bad.yaml:4:9"), "{said}");
    assert!(said.contains("help:") && said.contains("routes"), "did you mean: {said}");
}

#[test]
fn check_ends_with_1_when_there_is_no_file() {
    let _watchdog = watchdog("check_ends_with_1_when_there_is_no_file");
    let finished = thalweg(&Directory::new(), &["check", "missing.yaml"]);
    assert_eq!(finished.code, 1);
    assert!(finished.stderr.contains("missing.yaml"), "{}", finished.stderr);
}

#[test]
fn check_tells_programs_what_it_found() {
    let _watchdog = watchdog("check_tells_programs_what_it_found");
    let directory = Directory::new();
    let text = "listeners: { web: { address: \"127.0.0.1:0\" } }\nroutes:\n  - to: prodcts\nservices:\n  products: { endpoints: [ \"http://127.0.0.1:9001\" ] }\n";
    let file = directory.write("bad.yaml", text);
    let finished = thalweg(&directory, &["check", "--json", &file.to_string_lossy()]);
    assert_eq!(finished.code, 1, "{finished:?}");
    let found: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    let error = &found[0];
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
    assert_eq!((&error["severity"], &error["code"]), (&"error".into(), &"unknown".into()), "{found}");
    assert_eq!((&error["line"], &error["column"]), (&3.into(), &9.into()), "{found}");
    assert_eq!((&error["end_line"], &error["end_column"]), (&3.into(), &16.into()), "{found}");
    assert_eq!(error["help"], "did you mean `products`?", "{found}");
    assert_eq!(error["related"][0]["line"], 5, "{found}");
    assert!(finished.stderr.is_empty(), "{finished:?}");
}

#[test]
fn strict_makes_warnings_fail_and_offline_leaves_the_machine_out() {
    let _watchdog = watchdog("strict_makes_warnings_fail_and_offline_leaves_the_machine_out");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = Directory::new();
    let text = format!(
        "listeners: {{ web: {{ address: \"{address}\" }} }}\nroutes:\n  - to: [ \"http://nothing.invalid\" ]\n"
    );
    let file = directory.write("thalweg.yaml", &text);
    let file = file.to_string_lossy();
    let warned = thalweg(&directory, &["check", "--lines", &file]);
    assert_eq!(warned.code, 0, "{warned:?}");
    let places: Vec<&str> = warned.stderr.lines().map(|line| &line[line.find(".yaml").unwrap()..]).collect();
    assert!(places.len() == 2, "{warned:?}");
    assert!(places[0].starts_with(".yaml:1:30: warning:") && places[0].contains("taken by"), "{warned:?}");
    assert!(places[1].starts_with(".yaml:3:") && places[1].contains("nothing.invalid"), "{warned:?}");
    assert_eq!(thalweg(&directory, &["check", "--strict", &file]).code, 1);
    assert_eq!(thalweg(&directory, &["check", "--strict", "--offline", &file]).code, 0);
    assert_eq!(thalweg(&directory, &["-t", "--json", &file]).code, 0);
}

/// What keeps `run` from starting here is an error of `check`, with its line.
#[test]
fn check_says_what_run_would_fail_on() {
    let _watchdog = watchdog("check_says_what_run_would_fail_on");
    let directory = Directory::new();
    let rest = "routes: [ { to: [ \"http://127.0.0.1:1\" ] } ]\n";
    let listener = "listeners: { web: { address: \"127.0.0.1:0\" } }\n";
    for (text, line, cause) in [
        (format!("{listener}user: no-such-user-here\n"), 2, "no known user"),
        (
            format!("{listener}access_log: {{ path: no/such/access.log }}\n"),
            2,
            "its directory does not exist",
        ),
        (format!("{listener}state: {{ path: thalweg.yaml }}\n"), 2, "a part of the path is a file"),
        ("listeners: { web: { address: \"unix:/no/such/place/a.sock\" } }\n".to_owned(), 1, "does not exist"),
        (
            "listeners:\n  web: { address: \":18080\" }\nadmin: { address: \"127.0.0.1:18080\" }\n"
                .to_owned(),
            3,
            "need the same port",
        ),
    ] {
        let file = directory.write("thalweg.yaml", &(text + rest));
        let file = file.to_string_lossy();
        let checked = thalweg(&directory, &["check", "--lines", &file]);
        assert_eq!(checked.code, 1, "{cause}: {checked:?}");
        assert!(
            checked.stderr.contains(cause) && checked.stderr.contains(&format!(".yaml:{line}:")),
            "{checked:?}"
        );
        let ran = thalweg(&directory, &["run", "--config", &file]);
        assert_eq!(ran.code, 1, "{cause}: `run` starts: {ran:?}");
    }
}

#[test]
fn a_port_that_the_running_proxy_has_is_no_warning() {
    let _watchdog = watchdog("a_port_that_the_running_proxy_has_is_no_warning");
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let process = Process::start(command(directory.path()).args([
        "run",
        "--listen",
        "127.0.0.1:0",
        "--to",
        &upstream.url(),
    ]));
    let address: std::net::SocketAddr = process.wait_line("listening on", STEP, |line| {
        line.strip_prefix("thalweg: listening on ")?.split(' ').next()?.parse().ok()
    });
    process.wait_line("ready", STEP, |line| (line == "thalweg: ready").then_some(()));
    let text = format!(
        "listeners: {{ web: {{ address: \"{address}\" }} }}\nroutes:\n  - to: [ \"{}\" ]\n",
        upstream.url()
    );
    let file = directory.write("thalweg.yaml", &text);
    let finished = thalweg(&directory, &["check", "--strict", &file.to_string_lossy()]);
    assert_eq!(finished.code, 0, "{finished:?}");
}

#[test]
fn health_tells_programs_why_there_is_none() {
    let _watchdog = watchdog("health_tells_programs_why_there_is_none");
    let directory = Directory::new();
    let nobody = format!("unix:{}", directory.path().join("nobody.sock").display());
    let finished = thalweg(&directory, &["health", "--json", "--admin", &nobody]);
    assert_eq!(finished.code, 1, "{finished:?}");
    let said: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    assert!(said["ready"] == false && said["reason"].as_str().is_some_and(|why| !why.is_empty()), "{said}");
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    let _watchdog = watchdog("a_wrong_command_line_ends_with_2");
    let directory = Directory::new();
    for arguments in [&["fly"][..], &["run", "--nonsense"], &["run", "--listen"]] {
        assert_eq!(thalweg(&directory, arguments).code, 2, "{arguments:?}");
    }
}

#[test]
fn version_and_list_print_on_stdout() {
    let _watchdog = watchdog("version_and_list_print_on_stdout");
    let directory = Directory::new();
    let version = thalweg(&directory, &["version"]);
    assert_eq!(version.code, 0);
    assert!(version.stdout.contains("thalweg") && version.stderr.is_empty(), "{version:?}");
    let list = thalweg(&directory, &["list", "balancers"]);
    assert_eq!(list.code, 0);
    assert!(list.stdout.contains("round_robin"), "{list:?}");
}

#[test]
fn schema_prints_what_stands_in_the_docs() {
    let _watchdog = watchdog("schema_prints_what_stands_in_the_docs");
    let finished = thalweg(&Directory::new(), &["schema"]);
    assert_eq!((finished.code, finished.stderr.as_str()), (0, ""));
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/schema.json");
    assert!(finished.stdout == std::fs::read_to_string(docs).unwrap(), "run `cargo xtask gen`");
}

#[test]
fn completions_name_every_verb_in_every_shell() {
    let _watchdog = watchdog("completions_name_every_verb_in_every_shell");
    let directory = Directory::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let finished = thalweg(&directory, &["completions", shell]);
        assert_eq!((finished.code, finished.stderr.as_str()), (0, ""), "{shell}");
        for verb in ["run", "check", "schema", "completions"] {
            assert!(finished.stdout.contains(verb), "{shell}: {verb}");
        }
    }
    assert_eq!(thalweg(&directory, &["completions", "csh"]).code, 2);
}

#[test]
fn run_with_a_bad_file_ends_with_1_like_check() {
    let _watchdog = watchdog("run_with_a_bad_file_ends_with_1_like_check");
    let directory = Directory::new();
    let file = directory.write("bad.yaml", "listeners: { web: { address: nonsense } }\nroutes: []\n");
    let finished = thalweg(&directory, &["run", "--config", &file.to_string_lossy()]);
    assert_eq!(finished.code, 1);
    assert!(finished.stderr.contains("bad.yaml:1:"), "{}", finished.stderr);
}

#[test]
fn a_port_in_use_is_named_and_ends_with_1() {
    let _watchdog = watchdog("a_port_in_use_is_named_and_ends_with_1");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = Directory::new();
    let text = config(&["http://127.0.0.1:9001"], "").replace("{log}", "stdout");
    let listener = format!("web: {{ address: \"{address}\" }}");
    let text = text.replace("web: { address: \"127.0.0.1:0\" }", &listener);
    let file = directory.write("thalweg.yaml", &text);
    let finished = thalweg(&directory, &["run", "--config", &file.to_string_lossy()]);
    assert_eq!(finished.code, 1, "{}", finished.stderr);
    let said = finished.stderr;
    assert!(said.contains(&address) && said.contains("in use"), "{said}");
    assert!(said.contains("web"), "the listener is named: {said}");
}

#[test]
fn quick_mode_needs_no_file() {
    let _watchdog = watchdog("quick_mode_needs_no_file");
    let (first, second) = (Upstream::saying("hello"), Upstream::saying("hello"));
    let directory = Directory::new();
    let process = Process::start(command(directory.path()).args([
        "run",
        "--listen",
        "127.0.0.1:0",
        "--to",
        &first.url(),
        "--to",
        &second.url(),
    ]));
    let address = process.wait_line("listening on", STEP, |line| {
        line.strip_prefix("thalweg: listening on ")?.split(' ').next()?.parse().ok()
    });
    process.wait_line("ready", STEP, |line| (line == "thalweg: ready").then_some(()));
    for _ in 0..10 {
        assert_eq!(get(address, "/").unwrap().text(), "hello");
    }
    assert!(first.served() > 0 && second.served() > 0, "both endpoints are used");
}

/// Lines of a running proxy whose only endpoint has a name that does not exist.
fn lines_of(format: &str) -> (Process, Directory) {
    let directory = Directory::new();
    let endpoint = "http://nothing.invalid:80";
    let arguments = ["run", "--listen", "127.0.0.1:0", "--to", endpoint, "--log-format", format];
    (Process::start(command(directory.path()).args(arguments)), directory)
}

#[test]
fn lines_on_stderr_can_be_json() {
    let _watchdog = watchdog("lines_on_stderr_can_be_json");
    let (process, _directory) = lines_of("json");
    let parsed = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok();
    let (time, level) = process.wait_line("ready", STEP, |line| {
        let line = parsed(line).filter(|line| line["message"] == "ready")?;
        Some((line["time"].as_str()?.to_owned(), line["level"].as_str()?.to_owned()))
    });
    assert!(time.ends_with('Z') && level == "info", "{time} {level}");
    let (host, message) = process.wait_line("the host", STEP, |line| {
        let line = parsed(line)?;
        Some((line["host"].as_str()?.to_owned(), line["message"].as_str()?.to_owned()))
    });
    assert_eq!(host, "nothing.invalid");
    assert!(message.contains("; asked again in ") && !message.contains("Query"), "{message}");
    for line in process.stderr().lines() {
        assert!(parsed(line).is_some(), "{line}");
    }
}

#[test]
fn lines_on_stderr_name_what_they_are_about() {
    let _watchdog = watchdog("lines_on_stderr_name_what_they_are_about");
    let (process, _directory) = lines_of("plain");
    // The harness takes time and level off, and only where both are there.
    process.wait_line("ready", STEP, |line| (line == "thalweg: ready").then_some(()));
    process.wait_line("the host", STEP, |line| {
        line.starts_with("thalweg: host `nothing.invalid` ").then_some(())
    });
}
