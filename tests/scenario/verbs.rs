//! The verbs of an operator's day: `status`, `drain`, `health --strict`, `stop --wait`, and which proxy they reach.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use thalweg_tests::message::get;
use thalweg_tests::program::{Finished, run};
use thalweg_tests::proxy::command;
use thalweg_tests::{Admin, Directory, Held, Process, Proxy, STEP, Talk, Upstream, binary};

use super::{config, proxy, watchdog};

const LIMIT: Duration = Duration::from_secs(20);
/// Whoever this is: not root.
const STRANGER: u32 = 65_534;

fn verb(proxy: &Proxy, arguments: &[&str]) -> Finished {
    run(command(proxy.directory()).args(arguments), LIMIT)
}

/// A response that has begun.
fn long(proxy: &Proxy) -> Talk {
    let mut client = Talk::open(proxy.web()).unwrap();
    client.send("GET /long HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    assert_eq!(client.head().unwrap().status(), 200);
    client
}

/// Whether the process has ended: nobody, or one that only waits for its parent.
fn has_ended(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| {
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        matches!(state, Some('Z' | 'X'))
    })
}

#[test]
fn status_tells_services_endpoints_and_what_is_in_flight() {
    let _watchdog = watchdog("status_tells_services_endpoints_and_what_is_in_flight");
    let upstream = Held::start("one");
    let proxy = proxy(&[&upstream.url()]);
    let _client = long(&proxy);
    let told = verb(&proxy, &["status"]);
    assert_eq!((told.code, told.stderr.as_str()), (0, ""), "{told:?}");
    let pid = format!("pid {}, up ", proxy.process().pid());
    assert!(told.stdout.starts_with("thalweg ") && told.stdout.contains(&pid), "{}", told.stdout);
    assert!(told.stdout.contains("\ns: up, 1 in flight, 0 queued\n"), "{}", told.stdout);
    let row = told.stdout.lines().find(|line| line.contains(&upstream.url())).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells[..6], [&upstream.url(), "ready", "1", "1", "written", "in"], "{row}");
    assert!(row.ends_with("thalweg.yaml:5"), "{row}");

    assert_eq!(verb(&proxy, &["drain", "s", &upstream.url()]).code, 0);
    let told = verb(&proxy, &["status", "--json"]);
    assert_eq!(told.code, 1, "a service is down: {told:?}");
    let document: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(document["well"], false, "{document}");
    assert_eq!(document["services"][0]["endpoints"][0]["state"], "draining", "{document}");
    assert_eq!(document["status"]["pid"], proxy.process().pid(), "{document}");
}

#[test]
fn drain_waits_for_what_is_in_flight_and_can_be_undone() {
    let _watchdog = watchdog("drain_waits_for_what_is_in_flight_and_can_be_undone");
    let (leaving, staying) = (Held::start("leaving"), Upstream::saying("staying"));
    let proxy = proxy(&[&leaving.url()]);
    let _client = long(&proxy);
    Admin::of(&proxy).call(
        "POST",
        "/api/v1/services/s/endpoints",
        &format!("{{\"url\": \"{}\"}}", staying.url()),
    );
    let url = leaving.url();
    let place = url.strip_prefix("http://").unwrap();
    let early = verb(&proxy, &["drain", "s", place, "--wait", "300ms"]);
    assert_eq!(early.code, 1, "{early:?}");
    assert!(early.stdout.contains(&format!("{url}: draining, 1 in flight")), "{early:?}");
    assert!(early.stderr.contains("still has 1 in flight after 300ms"), "{early:?}");
    let json = verb(&proxy, &["drain", "s", place, "--wait", "300ms", "--json"]);
    assert_eq!(json.code, 1, "{json:?}");
    let endpoint: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (&endpoint["state"], &endpoint["requests_active"]),
        (&"draining".into(), &1.into()),
        "{endpoint}"
    );
    leaving.release();
    let done = verb(&proxy, &["drain", "s", place, "--wait"]);
    assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{done:?}");
    assert!(done.stdout.contains("nothing is in flight"), "{done:?}");
    for _ in 0..8 {
        assert_eq!(get(proxy.web(), "/").unwrap().text(), "staying");
    }
    let back = verb(&proxy, &["drain", "s", &url, "--undo", "--json"]);
    assert_eq!(back.code, 0, "{back:?}");
    let endpoint: serde_json::Value = serde_json::from_str(&back.stdout).unwrap();
    assert_eq!((&endpoint["url"], &endpoint["state"]), (&url.into(), &"ready".into()), "{endpoint}");
}

#[test]
fn drain_says_who_there_is_and_what_the_last_endpoint_means() {
    let _watchdog = watchdog("drain_says_who_there_is_and_what_the_last_endpoint_means");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    for (service, endpoint, there) in
        [("shop", "a:1", "`s`".to_owned()), ("s", "a:1", format!("`{}`", upstream.url()))]
    {
        let refused = verb(&proxy, &["drain", service, endpoint]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains("help:") && refused.stderr.contains(&there), "{refused:?}");
    }
    assert_eq!(verb(&proxy, &["status"]).code, 0, "nothing has changed");
    let last = verb(&proxy, &["drain", "s", &upstream.url()]);
    assert!(last.code == 0 && last.stderr.contains("no other endpoint that can serve"), "{last:?}");
}

#[test]
fn strict_health_fails_when_a_service_cannot_serve() {
    let _watchdog = watchdog("strict_health_fails_when_a_service_cannot_serve");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    assert_eq!(verb(&proxy, &["health", "--strict"]).code, 0);
    assert_eq!(verb(&proxy, &["drain", "s", &upstream.url()]).code, 0);
    assert_eq!(verb(&proxy, &["health"]).code, 0, "the proxy itself is ready");
    let strict = verb(&proxy, &["health", "--strict", "--json"]);
    assert_eq!(strict.code, 1, "{strict:?}");
    let said: serde_json::Value = serde_json::from_str(&strict.stdout).unwrap();
    assert!(said["reason"].as_str().is_some_and(|why| why.contains("`s` has no endpoint")), "{said}");
    let metrics = format!("http://{}", proxy.metrics());
    assert_eq!(verb(&proxy, &["health", "--admin", &metrics]).code, 0);
    let strict = verb(&proxy, &["health", "--strict", "--admin", &metrics]);
    assert!(strict.code == 1 && strict.stderr.contains("the metrics listener"), "{strict:?}");
}

#[test]
fn stop_waits_until_the_process_is_gone() {
    let _watchdog = watchdog("stop_waits_until_the_process_is_gone");
    let upstream = Held::start("one");
    let shutdown = "shutdown: { delay: 0s, grace: 30s }\n";
    let proxy = Proxy::start(&config(&[&upstream.url()], shutdown));
    let _client = long(&proxy);
    let early = verb(&proxy, &["stop", "--wait", "300ms"]);
    assert_eq!(early.code, 1, "{early:?}");
    assert!(early.stderr.contains("still runs after 300ms"), "{early:?}");
    assert!(proxy.process().is_running());
    upstream.release();
    let done = verb(&proxy, &["stop", "--wait"]);
    // It may have been gone before it could be asked.
    assert!(done.code == 0 || done.stderr.contains("no thalweg answers"), "{done:?}");
    assert_eq!(proxy.ended(STEP).status.code(), Some(0));
}

#[test]
fn stop_has_waited_when_it_returns() {
    let _watchdog = watchdog("stop_has_waited_when_it_returns");
    let upstream = Upstream::saying("hello");
    let token = "write-token-0123456789";
    let more = format!("admin: {{ address: \"127.0.0.1:0\", token: {{ value: {token} }} }}\n");
    for over_tcp in [false, true] {
        let proxy = Proxy::start(&config(&[&upstream.url()], &more));
        let address = proxy.process().wait_line("the admin address", STEP, |line| {
            line.strip_prefix("thalweg: admin on ")?.parse::<std::net::SocketAddr>().ok()
        });
        let file = proxy.directory().join("token");
        fs::write(&file, token).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let (admin, file) = (format!("http://{address}"), file.to_string_lossy().into_owned());
        let mut arguments = vec!["stop", "--wait", "15s"];
        if over_tcp {
            arguments.extend(["--admin", &admin, "--token-file", &file]);
        }
        let stopped = verb(&proxy, &arguments);
        assert_eq!((stopped.code, stopped.stdout.as_str()), (0, "stopping\nstopped\n"), "{stopped:?}");
        assert!(over_tcp || has_ended(proxy.process().pid()), "it still runs");
        assert_eq!(proxy.ended(STEP).status.code(), Some(0));
    }
}

#[test]
fn verbs_ask_the_named_socket_and_no_other() {
    let _watchdog = watchdog("verbs_ask_the_named_socket_and_no_other");
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&[&upstream.url()]);
    let missing = proxy.directory().join("missing.sock");
    let missing = missing.to_string_lossy();
    // The socket of the running proxy is where verbs look when nothing is named.
    let named = |variable: &str, arguments: &[&str]| {
        run(command(proxy.directory()).env("THALWEG_ADMIN_SOCKET", variable).args(arguments), LIMIT)
    };
    let admin = format!("unix:{missing}");
    for refused in [named(&missing, &["stop"]), named("", &["stop", "--admin", &admin])] {
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains(&format!("no thalweg answers at {missing}")), "{refused:?}");
    }
    assert!(named(&missing, &["stop"]).stderr.contains("help: `$THALWEG_ADMIN_SOCKET` names this socket"));
    let alone = Directory::new();
    let lost = run(command(alone.path()).arg("stop"), LIMIT);
    assert!(lost.code == 1 && lost.stderr.contains("`$XDG_RUNTIME_DIR` says where it is"), "{lost:?}");
    assert_eq!(verb(&proxy, &["status"]).code, 0, "nobody has stopped it");
    let socket = proxy.directory().join("run/thalweg/admin.sock");
    for name in [socket.display().to_string(), format!("unix:{}", socket.display())] {
        assert_eq!(named(&name, &["health"]).code, 0, "{name}");
    }
}

/// A command of a user who is not root and has no `$XDG_RUNTIME_DIR`.
fn of_stranger(directory: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).env_clear().env("TMPDIR", directory).env("HOME", directory);
    if rustix::process::geteuid().is_root() {
        command.uid(STRANGER).gid(STRANGER);
    }
    command
}

/// The binary where everybody may run it, in a directory of the stranger's.
fn house_of_stranger() -> (Directory, std::path::PathBuf) {
    let directory = Directory::new();
    let program = directory.path().join("thalweg");
    binary::place_at(&program);
    if rustix::process::geteuid().is_root() {
        chown(directory.path(), Some(STRANGER), Some(STRANGER)).unwrap();
    }
    (directory, program)
}

#[test]
fn a_user_without_a_runtime_directory_can_run_and_reach_it() {
    let _watchdog = watchdog("a_user_without_a_runtime_directory_can_run_and_reach_it");
    let upstream = Upstream::saying("hello");
    let (directory, program) = house_of_stranger();
    let url = upstream.url();
    let process = Process::start(of_stranger(directory.path(), &program).args([
        "run",
        "--listen",
        "127.0.0.1:0",
        "--to",
        &url,
    ]));
    let admin = process.wait_line("how to reach it", STEP, |line| {
        Some(line.strip_suffix('`')?.split_once("`--admin ")?.1.to_owned())
    });
    process.wait_line("ready", STEP, |line| (line == "thalweg: ready").then_some(()));
    let socket = admin.strip_prefix("unix:").unwrap();
    let folder = Path::new(socket).parent().unwrap();
    assert_eq!(folder.parent(), Some(directory.path()), "{socket}");
    assert_eq!(fs::metadata(folder).unwrap().mode() & 0o777, 0o700);

    let found = run(of_stranger(directory.path(), &program).arg("status"), LIMIT);
    assert_eq!(found.code, 0, "{found:?}");
    let elsewhere = directory.path().join("elsewhere");
    let mut lost = of_stranger(directory.path(), &program);
    let lost = run(lost.env("XDG_RUNTIME_DIR", &elsewhere).arg("stop"), LIMIT);
    assert_eq!(lost.code, 1, "{lost:?}");
    let mut told = of_stranger(directory.path(), &program);
    let told = run(
        told.env("XDG_RUNTIME_DIR", &elsewhere).args(["stop", "--wait", "15s", "--admin", &admin]),
        LIMIT,
    );
    assert_eq!(told.code, 0, "{told:?}");
    assert_eq!(process.wait_exit(STEP).code(), Some(0));
}

#[test]
fn a_temporary_directory_that_others_can_use_is_refused() {
    let _watchdog = watchdog("a_temporary_directory_that_others_can_use_is_refused");
    let (directory, program) = house_of_stranger();
    let user =
        if rustix::process::geteuid().is_root() { STRANGER } else { rustix::process::geteuid().as_raw() };
    let folder = directory.path().join(format!("thalweg-{user}"));
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    for arguments in [&["run", "--listen", "127.0.0.1:0", "--to", "http://127.0.0.1:1"][..], &["stop"]] {
        let refused = run(of_stranger(directory.path(), &program).args(arguments), LIMIT);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains("must be a directory of this user with mode 0700"), "{refused:?}");
        assert!(refused.stderr.contains("help:"), "{refused:?}");
    }
}

/// The directory of an admin socket may be everybody's: whoever owns it could replace the files of others.
#[test]
fn an_existing_directory_keeps_its_owner_when_root_becomes_a_user() {
    let _watchdog = watchdog("an_existing_directory_keeps_its_owner_when_root_becomes_a_user");
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let (directory, program) = house_of_stranger();
    let shared = directory.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let file = directory.path().join("thalweg.yaml");
    let text = format!(
        "user: \"{STRANGER}\"\nstate: {{ path: state/of/ours }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\nroutes: [ {{ to: [ \"http://127.0.0.1:1\" ] }} ]\n"
    );
    fs::write(&file, text).unwrap();
    let at = |socket: &Path| {
        let mut command = Command::new(&program);
        command.current_dir(directory.path()).args(["run", "--config"]).arg(&file);
        command.arg("--admin-socket").arg(socket);
        command
    };
    let owner = |path: &Path| fs::metadata(path).unwrap().uid();

    let process = Process::start(&mut at(&shared.join("admin.sock")));
    process.wait_line("ready", STEP, |line| (line == "thalweg: ready").then_some(()));
    assert_eq!(owner(&shared), 0);
    assert_eq!(owner(&shared.join("admin.sock")), STRANGER);
    assert_eq!(owner(&directory.path().join("state")), STRANGER, "what it made is its user's");
    assert_eq!(owner(&directory.path().join("state/of/ours")), STRANGER);
    drop(process);

    let closed = directory.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    let refused = run(&mut at(&closed.join("admin.sock")), LIMIT);
    assert_eq!((refused.code, owner(&closed)), (1, 0), "{refused:?}");
    assert!(refused.stderr.contains("cannot make files in"), "{refused:?}");
    assert!(refused.stderr.contains("help: the directory exists"), "{refused:?}");
}
