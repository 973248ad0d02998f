//! One configuration, twice: the original runs it, and Thalweg what the importer has made of it.

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use thalweg_tests::message::Kind;
use thalweg_tests::proxy::command;
use thalweg_tests::secure::Identity;
use thalweg_tests::{Connection, Directory, Message, Process, Proxy, STEP, port, program};

use super::answers::Answers;
use super::case::{Case, Request};
use super::compare;
use super::echo::Echo;

/// A program that Thalweg takes over from.
pub(super) struct Original {
    /// As `thalweg import` calls it.
    pub(super) name: &'static str,
    /// The text of a file with its listeners at an address.
    pub(super) listening_at: fn(&str, IpAddr) -> String,
    /// Starts the program in a directory with the file `main.*`; `None`: there is no such program here, and only
    /// Thalweg runs.
    pub(super) start: fn(&Directory, &Path, IpAddr) -> Option<Process>,
    /// Files that every case may name.
    pub(super) prepare: fn(&Directory),
    /// Whether its answers are recorded, for machines without it (`answers.rs`).
    pub(super) is_recorded: bool,
    /// Whether a response is one of the program's own pages of errors.
    pub(super) is_own_page: fn(&Message) -> bool,
}

/// Between two questions whether an original is there.
const PAUSE: Duration = Duration::from_millis(20);
/// How long `import` and `check` may take.
const RUN: Duration = Duration::from_secs(20);

/// Ports below 1024 need root.
pub(super) fn free_port(port: u16) -> u16 {
    if port < 1024 { port + 8000 } else { port }
}

/// What is not alike; empty: nothing.
pub(super) fn play(original: &Original, case: &Case, echo: &Echo) -> String {
    let (theirs, ours) = (port::own_address(), port::own_address());
    let place = |ip: IpAddr| {
        let directory = Directory::new();
        (original.prepare)(&directory);
        let root = format!("{}/", directory.path().display());
        for (name, text) in &case.files {
            let text = echo.placed(&(original.listening_at)(text, ip)).replace("/srv/", &root);
            if let Some(folder) = Path::new(name).parent() {
                fs::create_dir_all(directory.path().join(folder)).unwrap();
            }
            directory.write(name, &text);
        }
        directory
    };
    let (first, second) = (place(theirs), place(ours));
    let main = &case.files[0].0;
    // What the first file names without including it is given too.
    let given = case.files.iter().map(|(name, _)| name.as_str());
    let given: Vec<&str> = given.filter(|name| name == main || name.starts_with("dynamic")).collect();
    let mut out = String::new();
    let report = match imported(original.name, &second, &given) {
        Ok(report) => report,
        Err(error) => return error,
    };
    out.push_str(&losses(&report, case));
    let file = "thalweg.yaml";
    // An original without an address of its own for its listener.
    let text = fs::read_to_string(second.path().join(file)).unwrap();
    let text = text.replace("address: \":8080\"", &format!("address: \"{ours}:8080\""));
    fs::write(second.path().join(file), &text).unwrap();
    let checked = program::run(command(second.path()).arg("check").arg(file), RUN);
    if checked.code != 0 {
        let _ = writeln!(out, "check: {}{}", checked.stdout, checked.stderr);
        return out;
    }
    let directories = [root(&first), root(&second)];
    let process = (original.start)(&first, &first.path().join(main), theirs);
    let proxy = Proxy::start_file(second, &[], file);
    let mut judge =
        Judge { process: process.as_ref(), ip: theirs, answers: Answers::of(original.name, &case.file) };
    if original.is_recorded {
        judge.wait(case, echo);
    }
    for request in &case.requests {
        let ours = ask(request, ours, echo);
        let theirs = judge.answer(request, original, echo);
        let told = compare::told(request, theirs, ours, original.is_own_page, &directories);
        if !told.is_empty() {
            let _ = writeln!(out, "{}\n{told}", request.line);
        }
    }
    if process.is_some() {
        judge.answers.write(&case.requests);
    }
    drop(proxy);
    if !out.is_empty() && std::env::var("IMPORT_CASE").is_ok() {
        let _ = writeln!(out, "{text}");
    }
    out
}

/// The original, as it runs or as it ran.
struct Judge<'a> {
    process: Option<&'a Process>,
    ip: IpAddr,
    answers: Answers,
}

impl Judge<'_> {
    /// Waits until a running original has its configuration: each request that it takes is answered by more than its
    /// own 404. What is never answered so is told when it is compared.
    fn wait(&self, case: &Case, echo: &Echo) {
        let deadline = Instant::now() + STEP;
        let Some(process) = self.process else { return };
        for request in case.requests.iter().filter(|request| request.is_taken()) {
            while Instant::now() < deadline {
                match ask(request, self.ip, echo) {
                    Ok(message) if message.status() != 404 => break,
                    _ if process.is_running() => std::thread::sleep(PAUSE),
                    _ => return,
                }
            }
        }
    }

    /// What the original does with a request; `None`: that is not known, or need not be the same.
    fn answer(
        &mut self,
        request: &Request,
        original: &Original,
        echo: &Echo,
    ) -> Option<Result<Message, String>> {
        match self.process {
            _ if request.differs.is_some() => None,
            Some(_) if original.is_recorded => {
                let answer = ask(request, self.ip, echo);
                Some(answer.map(|answer| self.answers.take(request, &answer, echo)))
            }
            Some(_) => Some(ask(request, self.ip, echo)),
            None => original.is_recorded.then(|| self.answers.find(request, echo)),
        }
    }
}

fn root(directory: &Directory) -> String {
    format!("{}/", directory.path().display())
}

/// Runs the importer; gives the report.
fn imported(original: &str, directory: &Directory, files: &[&str]) -> Result<Value, String> {
    let options = ["--output", "thalweg.yaml", "--report", "report.json", "--json"];
    let arguments = [&["import", original], files, &options].concat();
    let done = program::run(command(directory.path()).args(arguments), RUN);
    if !matches!(done.code, 0 | 4) {
        let text = fs::read_to_string(directory.path().join("thalweg.yaml")).unwrap_or_default();
        return Err(format!("import: exit code {}\n{}\n{text}", done.code, done.stderr));
    }
    let report = fs::read_to_string(directory.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let is_exact = report["exact"].as_u64() == report["entries"].as_array().map(|list| list.len() as u64);
    match is_exact == (done.code == 0) {
        true => Ok(report),
        false => Err(format!("import: exit code {}, and the report is exact: {is_exact}", done.code)),
    }
}

/// Lines of the report that are not exact must be those that the file expects, and no others.
fn losses(report: &Value, case: &Case) -> String {
    let (mut out, mut found) = (String::new(), vec![false; case.losses.len()]);
    for entry in report["entries"].as_array().unwrap() {
        let text = |key: &str| entry[key].as_str().unwrap().to_owned();
        let line = format!("{} {}", text("grade"), text("directive"));
        if text("grade") == "exact" {
            continue;
        }
        let mut known = false;
        for (at, expected) in case.losses.iter().enumerate() {
            if line.starts_with(expected.as_str()) {
                (known, found[at]) = (true, true);
            }
        }
        if !known {
            let _ = writeln!(out, "not expected: {line}: {} [{}]", text("about"), text("concerns"));
        }
    }
    for (at, _) in found.iter().enumerate().filter(|(_, found)| !**found) {
        let _ = writeln!(out, "not in the report: {}", case.losses[at]);
    }
    out
}

/// Makes a request.
fn ask(request: &Request, ip: IpAddr, echo: &Echo) -> Result<Message, String> {
    let address = SocketAddr::new(ip, free_port(request.port));
    let told = |error: std::io::Error| format!("{address}: {error}");
    let host = request.authority.rsplit_once(':').map_or(&*request.authority, |(host, _)| host);
    let mut connection = match request.is_secure {
        true => Connection::open_secure(address, Identity::shared(), host).map_err(told)?,
        false => Connection::open(address).map_err(told)?,
    };
    let mut text =
        format!("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.target, request.authority);
    for (name, value) in &request.fields {
        let _ = write!(text, "{name}: {}\r\n", echo.placed(value));
    }
    if !request.body.is_empty() || request.method == "POST" {
        let _ = write!(text, "Content-Length: {}\r\n", request.body.len());
    }
    connection.send(format!("{text}Connection: close\r\n\r\n{}", request.body));
    let kind = if request.method == "HEAD" { Kind::ResponseToHead } else { Kind::Response };
    Message::read(&mut connection, kind, Instant::now() + STEP)
}
