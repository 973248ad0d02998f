//! nginx beside Thalweg.

use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use thalweg_tests::program::find_or_skip;
use thalweg_tests::secure::Identity;
use thalweg_tests::{Directory, Message, Process, STEP};

use super::side::{Original, free_port};
use super::watchdog;

const NGINX: Original =
    Original { name: "nginx", listening_at, start, prepare, is_recorded: false, is_own_page };

/// Lines of nginx's own content types, a few of them.
const TYPES: &str = "types { text/html html htm; text/css css; text/plain txt; application/json json;\n\
                     application/javascript js; image/png png; image/svg+xml svg; }\n";

pub(super) fn prepare(directory: &Directory) {
    let root = directory.path();
    for folder in ["www/docs", "www/img", "www/errors", "other", "ssl"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for (name, text) in [
        ("www/index.html", "<h1>home</h1>\n"),
        ("www/a.txt", "a text\n"),
        ("www/app.css", "body { color: red }\n"),
        ("www/page.html", "<p>a page</p>\n"),
        ("www/data.json", "{}\n"),
        ("www/img/logo.png", "no image\n"),
        ("www/docs/index.html", "<h1>docs</h1>\n"),
        ("www/docs/b.txt", "b text\n"),
        ("www/errors/404.html", "<h1>not here</h1>\n"),
        ("www/errors/50x.html", "<h1>sorry</h1>\n"),
        ("other/index.html", "<h1>other</h1>\n"),
        ("other/c.txt", "c text\n"),
        // Her password is `U*U`.
        ("users.htpasswd", "ada:$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\n"),
        ("mime.types", TYPES),
    ] {
        let file = fs::File::options().write(true).open(directory.write(name, text)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap();
    }
    Identity::shared().write_into(&root.join("ssl"), "site");
}

/// `listen` with the test's address; names of logs and of the process's own files go.
fn listening_at(text: &str, ip: IpAddr) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once("listen ") {
        let end = behind.find([' ', ';']).unwrap_or(behind.len());
        let (address, after) = behind.split_at(end);
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(80);
        let _ = write!(out, "{before}listen {ip}:{}", free_port(port));
        rest = after;
    }
    out + rest
}

fn start(directory: &Directory, main: &Path, _: IpAddr) -> Option<Process> {
    let nginx = find_or_skip("nginx")?;
    let root = directory.path().display().to_string();
    let text = fs::read_to_string(main).unwrap();
    let is_own = |line: &&str| {
        !["user ", "pid ", "error_log ", "access_log ", "worker_processes "]
            .iter()
            .any(|word| line.trim_start().starts_with(word))
    };
    let text = text.lines().filter(is_own).fold(String::new(), |out, line| out + line + "\n");
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .fold(String::new(), |out, name| out + &format!("{name}_temp_path {root}/temp-{name}; "));
    let text = text.replacen("http {", &format!("http {{ access_log off; {paths}"), 1);
    let has_events = text.contains("events {");
    let head = "daemon off; master_process off; error_log stderr notice;";
    let events = if has_events { "" } else { "events {}" };
    fs::write(main, format!("{head} pid {root}/pid; {events}\n{text}")).unwrap();
    let server = Process::start(Command::new(nginx).args(["-e", "stderr", "-p", &root, "-c"]).arg(main));
    server.wait_line("the first event loop", STEP, |line| line.contains("OS: ").then_some(()));
    Some(server)
}

fn is_own_page(message: &Message) -> bool {
    message.text().contains("<hr><center>nginx") || (message.body.is_empty() && message.status() >= 400)
}

#[test]
fn what_becomes_of_a_request_is_what_nginx_did() {
    let _watchdog = watchdog("what_becomes_of_a_request_is_what_nginx_did");
    super::play(&NGINX, 60);
}
