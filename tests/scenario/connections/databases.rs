//! Clients and servers of databases, which speak first, keep their connections for long and do not forgive a lost byte.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use thalweg_tests::admin::segment;
use thalweg_tests::process::Signal;
use thalweg_tests::program::{Finished, find_or_skip, run};
use thalweg_tests::{Admin, Directory, Process, Proxy, STEP, Vitals};

use super::super::watchdog;
use super::config;

/// Most time for a client's run.
const RUN: Duration = Duration::from_secs(30);

/// A server, listening on a unix socket because it cannot be given a port of the kernel's choice.
struct Server {
    process: Process,
    socket: PathBuf,
}

impl Server {
    fn url(&self) -> String {
        format!("unix:{}", self.socket.display())
    }
}

fn redis(program: &Path, directory: &Directory, name: &str) -> Server {
    let socket = directory.path().join(name);
    let mut command = Command::new(program);
    command
        .args(["--port", "0", "--save", "", "--daemonize", "no", "--logfile", "", "--unixsocket"])
        .arg(&socket);
    let process = Process::start(command.current_dir(directory.path()));
    let end = Instant::now() + STEP;
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        assert!(Instant::now() < end, "redis does not listen: {}", process.stdout());
        std::thread::yield_now();
    }
    Server { process, socket }
}

/// The arguments that lead a client to the proxy.
fn way(proxy: &Proxy) -> [String; 4] {
    let address = proxy.address("db");
    ["-h".into(), address.ip().to_string(), "-p".into(), address.port().to_string()]
}

fn drain(proxy: &Proxy, url: &str, state: &str) {
    let path = format!("/api/v1/services/s/endpoints/{}", segment(url));
    let answer = Admin::of(proxy).call("PATCH", &path, &format!("{{\"state\":\"{state}\"}}"));
    assert_eq!(answer.status(), 200, "{}", answer.text());
}

#[test]
fn redis_is_served_while_endpoints_are_drained_and_killed() {
    let _watchdog = watchdog("redis_is_served_while_endpoints_are_drained_and_killed");
    let (Some(server), Some(cli), Some(benchmark)) =
        (find_or_skip("redis-server"), find_or_skip("redis-cli"), find_or_skip("redis-benchmark"))
    else {
        return;
    };
    let directory = Directory::new();
    let (one, two) = (redis(&server, &directory, "one.sock"), redis(&server, &directory, "two.sock"));
    let text = config(&[one.url(), two.url()], ", balance: least_requests", "");
    let proxy = Proxy::start(&text);
    let before = Vitals::of(&proxy);
    let ask = |words: &[&str]| run(Command::new(&cli).args(way(&proxy)).args(words), RUN);
    let load = |requests: &str| {
        let mut command = Command::new(&benchmark);
        command.args(way(&proxy)).args(["-n", requests, "-c", "50", "-P", "4", "-q", "-t", "set,get"]);
        Process::start(&mut command)
    };
    assert_eq!(ask(&["PING"]).stdout.trim(), "PONG");
    assert!(load("20000").wait_exit(RUN).success());
    // What is under way on a drained endpoint goes on; nobody new comes to it.
    let running = load("200000");
    wait_active(&proxy, 20);
    drain(&proxy, &one.url(), "draining");
    for _ in 0..5 {
        assert!(ask(&["CONFIG", "GET", "unixsocket"]).stdout.contains("two.sock"));
    }
    assert!(running.wait_exit(RUN).success(), "{}", running.stderr());
    drain(&proxy, &one.url(), "ready");
    // Who is connected to one that is killed sees its end; all others, and those who come next, do not.
    two.process.signal(Signal::KILL);
    two.process.wait_exit(STEP);
    for _ in 0..10 {
        assert!(ask(&["CONFIG", "GET", "unixsocket"]).stdout.contains("one.sock"));
    }
    assert!(load("20000").wait_exit(RUN).success());
    before.wait_for(&proxy, "redis");
}

/// Waits until so many connections are served.
fn wait_active(proxy: &Proxy, count: u64) {
    let end = Instant::now() + STEP;
    loop {
        let status = Admin::of(proxy).get("/api/v1/services/s");
        let active: u64 = status["endpoints"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|e| e["requests_active"].as_u64())
            .sum();
        if active >= count {
            return;
        }
        assert!(Instant::now() < end, "{active} connections under way: {status}");
        std::thread::yield_now();
    }
}

/// Programs of PostgreSQL stand in a folder of its version.
fn postgres_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort();
    let found = folders.into_iter().rfind(|folder| folder.join("initdb").is_file());
    if found.is_none() {
        // Told, and in CI the end.
        find_or_skip("initdb");
    }
    found
}

/// Starts a program as the user whom PostgreSQL wants, where we are root: it refuses to be.
fn as_postgres(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}

fn postgres(programs: &Path, data: &Path, sockets: &Path) -> Server {
    let mut command = as_postgres(&programs.join("postgres"));
    command.arg("-D").arg(data).arg("-k").arg(sockets).args(["-F", "-c", "listen_addresses="]);
    let process = Process::start(&mut command);
    process.wait_line("that it is ready", STEP, |line| {
        line.contains("ready to accept connections").then_some(())
    });
    Server { process, socket: sockets.join(".s.PGSQL.5432") }
}

/// Waits until so many sessions of `pgbench` are past their beginning, as the server itself sees them: the proxy would
/// count those too that only looked at the tables before.
fn wait_working(programs: &Path, sockets: &Path, count: usize) {
    let begun = "select count(*) from pg_stat_activity where application_name = 'pgbench' \
                 and query ~ '^(BEGIN|UPDATE|SELECT abalance|INSERT|END)'";
    let end = Instant::now() + STEP;
    loop {
        let mut command = Command::new(programs.join("psql"));
        let asked = run(command.arg("-h").arg(sockets).args(["-U", "postgres", "-Atc", begun]), RUN);
        if asked.stdout.trim().parse() == Ok(count) {
            return;
        }
        assert!(Instant::now() < end, "{} sessions work: {}", asked.stdout.trim(), asked.stderr);
    }
}

#[test]
fn postgresql_is_served_drained_killed_and_served_again() {
    let _watchdog = watchdog("postgresql_is_served_drained_killed_and_served_again");
    let Some(programs) = postgres_programs() else { return };
    let directory = Directory::new();
    let (data, sockets) = (directory.path().join("data"), directory.path().join("sockets"));
    for folder in [&data, &sockets] {
        fs::create_dir(folder).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
        if rustix::process::geteuid().is_root() {
            let changed = run(Command::new("chown").arg("postgres:postgres").arg(folder), STEP);
            assert_eq!(changed.code, 0, "{}", changed.stderr);
        }
    }
    fs::set_permissions(&sockets, fs::Permissions::from_mode(0o755)).unwrap();
    let made = run(
        as_postgres(&programs.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=postgres", "--locale=C", "-D"])
            .arg(&data),
        RUN,
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    let server = postgres(&programs, &data, &sockets);
    let proxy = Proxy::start(&config(&[server.url()], ", health: { tcp: true, interval: 100ms }", ""));
    let before = Vitals::of(&proxy);
    let ask = |sql: &str| -> Finished {
        let mut command = Command::new(programs.join("psql"));
        run(command.args(way(&proxy)).args(["-U", "postgres", "-Atc", sql]), RUN)
    };
    let bench = |words: &[&str]| {
        let mut command = Command::new(programs.join("pgbench"));
        Process::start(command.args(way(&proxy)).args(["-U", "postgres"]).args(words).arg("postgres"))
    };
    assert_eq!(ask("select 6 * 7").stdout.trim(), "42");
    // A row that is larger than any buffer on the way.
    assert_eq!(ask("select length(repeat('x', 20000000))").stdout.trim(), "20000000");
    assert_eq!(ask("select repeat('x', 2000000)").stdout.trim().len(), 2_000_000);
    let filled = bench(&["-i", "-s", "1", "-q"]);
    assert!(filled.wait_exit(RUN).success(), "{}", filled.stderr());
    // A connection for each transaction.
    let connects = bench(&["-c", "4", "-j", "2", "-t", "25", "-C", "-n"]);
    assert!(connects.wait_exit(RUN).success(), "{}", connects.stderr());
    // What is under way on a drained endpoint goes on; nobody new comes to it.
    let running = bench(&["-c", "8", "-j", "2", "-T", "2", "-n"]);
    wait_working(&programs, &sockets, 8);
    drain(&proxy, &server.url(), "draining");
    let refused = ask("select 1");
    assert!(
        refused.code != 0 && refused.stderr.contains("server closed the connection"),
        "{}",
        refused.stderr
    );
    assert!(running.wait_exit(RUN).success(), "{}", running.stderr());
    assert!(running.stdout().contains("number of failed transactions: 0"), "{}", running.stdout());
    drain(&proxy, &server.url(), "ready");
    assert_eq!(ask("select 6 * 7").stdout.trim(), "42");
    // Who is connected to one that is killed sees that at once.
    let running = bench(&["-c", "8", "-j", "2", "-T", "20", "-n"]);
    wait_working(&programs, &sockets, 8);
    let processes = Command::new("pkill").args(["-KILL", "-f", &data.display().to_string()]).status();
    assert!(processes.is_ok_and(|status| status.success()));
    server.process.wait_exit(STEP);
    assert!(!running.wait_exit(STEP).success(), "{}", running.stdout());
    assert_ne!(ask("select 1").code, 0);
    // Its remains would keep the next one from starting.
    let _ = fs::remove_file(data.join("postmaster.pid"));
    let _server = postgres(&programs, &data, &sockets);
    let end = Instant::now() + STEP;
    while ask("select 6 * 7").stdout.trim() != "42" {
        assert!(Instant::now() < end, "it is there again, and not served");
    }
    before.wait_for(&proxy, "PostgreSQL");
}
