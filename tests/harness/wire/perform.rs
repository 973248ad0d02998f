//! Performs a transcript against a proxy of its own.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustls::ClientConfig;
use serde_json::Value;

use super::http2::Http2;
use super::pattern::{Outcome, Pattern, show_bytes};
use super::{BYTE_PACE, BYTEWISE, Delivery, Step, Transcript, Who, config};
use crate::connection::Event;
use crate::message::{Kind, find};
use crate::port::{Refusing, Silent};
use crate::proxy::Ended;
use crate::upstream::{Listener, accept};
use crate::{Authority, Connection, Directory, Identity, Message, Proxy, STEP, Shown};

/// The target of the exchange that `--- open` makes.
const PROBE: &str = "/still-open";

/// The request that `--- open` makes.
pub(super) fn probe() -> String {
    format!("GET {PROBE} HTTP/1.1\r\nHost: probe\r\n\r\n")
}

/// Runs the steps and then checks what nobody expected: leftover bytes, extra connections, the log, the exit.
///
/// # Errors
/// What went otherwise than written.
pub(super) fn perform(transcript: &Transcript, delivery: Delivery) -> Result<(), String> {
    let delivery = match delivery {
        Delivery::Bytewise if transcript.whole => Delivery::Whole,
        Delivery::Secure if transcript.plain => Delivery::Whole,
        Delivery::Http2 if transcript.http1.is_some() => Delivery::Whole,
        delivery => delivery,
    };
    let delivery = match delivery {
        Delivery::Whole | Delivery::Bytewise if transcript.secure => Delivery::Secure,
        delivery => delivery,
    };
    let mut stage = Stage::set(transcript, delivery);
    for (number, step) in transcript.steps.iter().enumerate() {
        stage.step(step).map_err(|error| {
            format!("step {} ({}): {error}{}", number + 1, title(step), stage.circumstances())
        })?;
    }
    stage.finish(transcript)
}

/// Writes a file whose time is always the same.
fn put_file(path: &Path, content: &[u8]) {
    /// 2026-01-02 03:04:05 UTC.
    const TIME: Duration = Duration::from_secs(1_767_323_045);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(UNIX_EPOCH + TIME).unwrap();
}

fn title(step: &Step) -> String {
    match step {
        Step::Send(who, ..) => format!("{who:?} sends"),
        Step::Sees(who, _) => format!("{who:?} sees"),
        Step::Own(client, status, fault, _) => format!("client {client} is answered {status} {fault}"),
        other => format!("{other:?}"),
    }
}

pub(super) struct Stage {
    pub(super) delivery: Delivery,
    /// Clients use TLS.
    pub(super) is_secure: bool,
    pub(super) proxy: Proxy,
    /// What clients show, by their number.
    certificates: BTreeMap<usize, Shown>,
    clients: BTreeMap<usize, Connection>,
    /// The same over HTTP/2.
    pub(super) http2: BTreeMap<usize, Http2>,
    /// Connections that the upstream accepted; `None` once the transcript has closed it.
    upstreams: Vec<Option<Connection>>,
    accepted: Receiver<TcpStream>,
    /// Answers of the proxy itself that the log must show.
    pub(super) own: Vec<(u16, String)>,
    pub(super) probes: usize,
    /// The addresses stay taken as long as the transcript runs.
    _listener: Listener,
    _refusing: Refusing,
    _silent: Option<Silent>,
}

impl Stage {
    fn set(transcript: &Transcript, delivery: Delivery) -> Self {
        let (sender, accepted) = mpsc::channel();
        let (listener, refusing) = (Listener::start(sender), Refusing::new());
        let mut config = config::merge(&transcript.config)
            .replace("{upstream}", &listener.address().to_string())
            .replace("{refusing}", &refusing.address().to_string());
        let silent = config.contains("{silent}").then(Silent::new);
        if let Some(silent) = &silent {
            config = config.replace("{silent}", &silent.address().to_string());
        }
        let is_secure = delivery == Delivery::Secure || transcript.secure;
        let directory = Directory::new();
        let authority = Authority::new("clients");
        directory.write("clients.pem", &authority.pem);
        for (path, content) in &transcript.files {
            put_file(&directory.path().join(path), content);
        }
        Self {
            delivery,
            is_secure,
            proxy: match (is_secure, delivery) {
                (true, _) => {
                    let tls = Identity::shared().write(&directory, "web");
                    let asks = match transcript.certificates.is_empty() {
                        true => "",
                        false => ", client_auth: { ca: clients.pem, mode: optional }",
                    };
                    let tls = format!("{{ certificates: [ {tls} ]{asks} }}");
                    Proxy::start_in(directory, &config::with_tls(&config, &tls))
                }
                (false, Delivery::Http2) => Proxy::start_in(directory, &config::with(&config, "h2c: true")),
                (false, _) => Proxy::start_in(directory, &config),
            },
            certificates: (transcript.certificates.iter().zip(1..))
                .map(|((client, name), serial)| (*client, authority.issue(name, -1..30, serial)))
                .collect(),
            clients: BTreeMap::new(),
            http2: BTreeMap::new(),
            upstreams: Vec::new(),
            accepted,
            own: Vec::new(),
            probes: 0,
            _listener: listener,
            _refusing: refusing,
            _silent: silent,
        }
    }

    /// How a client speaks TLS, where it does.
    pub(super) fn tls_of(&self, client: usize) -> Option<ClientConfig> {
        let server = Identity::shared();
        self.is_secure.then(|| match self.certificates.get(&client) {
            Some(shown) => shown.client(server, rustls::DEFAULT_VERSIONS),
            None => server.client(),
        })
    }

    /// The connection called `who`: a client's is opened, an upstream's is awaited.
    pub(super) fn connection(&mut self, who: Who) -> Result<&mut Connection, String> {
        match who {
            Who::Client(number) => {
                if !self.clients.contains_key(&number) {
                    let address = self.proxy.web();
                    let connection = match self.tls_of(number) {
                        Some(tls) => Connection::open_as(address, Arc::new(tls), "example.test"),
                        None => Connection::open(address),
                    };
                    let connection = connection.map_err(|error| error.to_string())?;
                    self.clients.insert(number, connection);
                }
                self.clients.get_mut(&number).ok_or_else(|| "no such connection".to_owned())
            }
            Who::Upstream(number) => {
                let deadline = Instant::now() + STEP;
                while self.upstreams.len() < number {
                    let connection = accept(&self.accepted, deadline).ok_or("the proxy did not connect")?;
                    self.upstreams.push(Some(connection));
                }
                self.upstreams[number - 1]
                    .as_mut()
                    .ok_or_else(|| "already closed by the transcript".to_owned())
            }
        }
    }

    fn take(&mut self, who: Who) -> Result<Connection, String> {
        self.connection(who)?;
        let taken = match who {
            Who::Client(number) => self.clients.remove(&number),
            Who::Upstream(number) => self.upstreams[number - 1].take(),
        };
        taken.ok_or_else(|| "no such connection".to_owned())
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        if self.delivery == Delivery::Http2
            && let Some(done) = self.step_over_http2(step)
        {
            return done;
        }
        match step {
            Step::Send(who, bytes, pace) => {
                let bytewise = self.delivery == Delivery::Bytewise && bytes.len() <= BYTEWISE;
                let connection = self.connection(*who)?;
                match pace {
                    Some(pace) => connection.trickle(bytes.clone(), *pace),
                    None if bytewise => connection.trickle(bytes.clone(), BYTE_PACE),
                    None => connection.send(bytes.clone()),
                }
            }
            Step::Sees(who, pattern) if self.is_secure => {
                sees(self.connection(*who)?, &pattern.clone().secure())?;
            }
            Step::Sees(who, pattern) => sees(self.connection(*who)?, pattern)?,
            Step::HalfClose(who) => self.connection(*who)?.half_close(),
            Step::Close(who) => self.take(*who)?.close(),
            Step::Reset(who) => self.take(*who)?.reset(),
            Step::Closed(who) => drop(closed(self.connection(*who)?)?),
            Step::Broken(who) => match closed(self.connection(*who)?)? {
                Event::Reset => {}
                event => return Err(format!("the connection is not broken off: {event:?}")),
            },
            Step::Own(client, status, fault, closes) => {
                let connection = self.connection(Who::Client(*client))?;
                own_answer(connection, *status, fault, *closes)?;
                self.own.push((*status, fault.clone()));
            }
            Step::Open => self.probe()?,
        }
        Ok(())
    }

    /// Makes one more exchange: proves that both sides still agree where messages begin.
    fn probe(&mut self) -> Result<(), String> {
        self.probes += 1;
        let client = self.connection(Who::Client(1))?;
        if !client.seen().is_empty() {
            return Err(format!("unexpected before the next exchange: {}", show_bytes(client.seen())));
        }
        client.send(probe());
        self.answer_probe()?;
        let client = self.connection(Who::Client(1))?;
        let answer = Message::read(client, Kind::Response, Instant::now() + STEP)?;
        if answer.status() == 200 {
            Ok(())
        } else {
            Err(format!("the next exchange was answered {}", answer.start))
        }
    }

    /// The upstream's side of it.
    pub(super) fn answer_probe(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + STEP;
        let answered = loop {
            self.upstreams.extend(self.accepted.try_iter().map(|stream| Some(Connection::new(stream))));
            let turn = Duration::from_millis(5);
            let ready = self.upstreams.iter_mut().flatten().find_map(|upstream| {
                upstream.read(Instant::now() + turn);
                find(upstream.seen(), b"\r\n\r\n").map(|end| (upstream, end + 4))
            });
            if let Some((upstream, len)) = ready {
                let request = upstream.take(len);
                if !request.starts_with(format!("GET {PROBE} HTTP/1.1\r\n").as_bytes()) {
                    return Err(format!(
                        "instead of the next request the upstream saw {}",
                        show_bytes(&request)
                    ));
                }
                upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                break true;
            }
            if Instant::now() > deadline {
                break false;
            }
        };
        if answered { Ok(()) } else { Err("the next request did not reach the upstream".to_owned()) }
    }

    /// What else is known when a step fails.
    fn circumstances(&self) -> String {
        let mut text = String::new();
        for (number, client) in &self.clients {
            if !client.seen().is_empty() {
                text.push_str(&format!(
                    "\n  client {number} has seen:\n{}",
                    indent(&show_bytes(client.seen()))
                ));
            }
        }
        for (number, client) in &self.http2 {
            let seen = indent(&show_bytes(client.seen()));
            let broken = client.broken().unwrap_or("no");
            text.push_str(&format!("\n  client {number} has seen (broken off: {broken}):\n{seen}"));
        }
        for (number, upstream) in self.upstreams.iter().enumerate() {
            if let Some(upstream) = upstream.as_ref().filter(|upstream| !upstream.seen().is_empty()) {
                let seen = indent(&show_bytes(upstream.seen()));
                text.push_str(&format!("\n  upstream {} has seen:\n{seen}", number + 1));
            }
        }
        let stderr = self.proxy.process().stderr();
        let said = stderr.lines().filter(|line| !line.starts_with("thalweg: listening"));
        text + "\n  the proxy said:\n" + &indent(&said.collect::<Vec<_>>().join("\n"))
    }

    fn finish(mut self, transcript: &Transcript) -> Result<(), String> {
        self.finish_http2()?;
        for (number, client) in std::mem::take(&mut self.clients) {
            if !client.seen().is_empty() {
                return Err(format!("client {number} saw more than expected: {}", show_bytes(client.seen())));
            }
            client.close();
        }
        let Ended { status, stderr, log, .. } = self.proxy.stop();
        if status.code() != Some(0) {
            return Err(format!("the proxy ended with {status}; it said:\n{}", indent(&stderr)));
        }
        // Only now is it certain that nothing more can arrive.
        let expected = self.upstreams.len();
        self.upstreams.extend(self.accepted.try_iter().map(|stream| Some(Connection::new(stream))));
        for (number, upstream) in self.upstreams.iter_mut().enumerate() {
            let Some(upstream) = upstream else { continue };
            upstream.read_to_end(Instant::now() + STEP);
            let seen = upstream.seen();
            let begun =
                transcript.incomplete && matches!(Message::parse(seen, Kind::Request, false), Ok(None));
            if !begun && (!seen.is_empty() || number >= expected) {
                let number = number + 1;
                return Err(format!("upstream {number} was not to see this: {}", show_bytes(seen)));
            }
        }
        check_log(transcript, &self.own, self.probes, &log)
    }
}

fn sees(connection: &mut Connection, pattern: &Pattern) -> Result<(), String> {
    let deadline = Instant::now() + STEP;
    loop {
        let missing = match pattern.matches(connection.seen()) {
            Outcome::Matched(len) => {
                connection.take(len);
                return Ok(());
            }
            Outcome::Wrong(at) => format!("byte {at} differs"),
            Outcome::More => match connection.read(deadline) {
                Event::Bytes => continue,
                Event::End => "the connection was closed".to_owned(),
                Event::Reset => "the connection was reset".to_owned(),
                Event::Late => "nothing more came".to_owned(),
            },
        };
        return Err(format!("{missing}\n  expected:\n{}", indent(&pattern.show())));
    }
}

fn closed(connection: &mut Connection) -> Result<Event, String> {
    let event = connection.read_to_end(Instant::now() + STEP);
    if event == Event::Late {
        return Err("the proxy does not close the connection".to_owned());
    }
    let more = connection.seen();
    if more.is_empty() { Ok(event) } else { Err(format!("bytes before the close: {}", show_bytes(more))) }
}

/// Checks everything that holds for each answer which the proxy makes itself.
fn own_answer(connection: &mut Connection, status: u16, fault: &str, closes: bool) -> Result<(), String> {
    let answer = Message::read(connection, Kind::Response, Instant::now() + STEP)?;
    judge_own(&answer, status, fault)?;
    let wrong = |what: &str| Err(format!("{what} in the proxy's own answer {answer:?}"));
    if answer.value("content-length").is_none() {
        return wrong("no Content-Length");
    }
    if answer.value("date").is_none_or(|date| !date.ends_with(" GMT")) {
        return wrong("no Date");
    }
    let says_close = answer.value("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    if says_close != closes {
        return wrong("another Connection");
    }
    if closes { closed(connection).map(drop) } else { Ok(()) }
}

/// What holds in each version of HTTP.
pub(super) fn judge_own(answer: &Message, status: u16, fault: &str) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{what} in the proxy's own answer {answer:?}"));
    if answer.status() != status || !answer.start.starts_with("HTTP/1.1 ") {
        return wrong("another status");
    }
    let cause = answer.value("proxy-status").unwrap_or_default();
    if !cause.starts_with(&format!("thalweg; error={fault}; details=\"")) {
        return wrong("another Proxy-Status");
    }
    if answer.value("content-type").is_none() {
        return wrong("no Content-Type");
    }
    let id = answer.value("x-request-id").unwrap_or_default();
    if id.is_empty() || !answer.text().contains(id) {
        return wrong("no request id in head and body");
    }
    Ok(())
}

fn check_log(
    transcript: &Transcript,
    own: &[(u16, String)],
    probes: usize,
    log: &[Value],
) -> Result<(), String> {
    let records: Vec<&Value> = log.iter().filter(|record| text_of(record, "path") != PROBE).collect();
    let show = || records.iter().map(|record| format!("\n    {record}")).collect::<String>();
    if log.len() - records.len() != probes {
        return Err(format!("the log does not hold every exchange:{}", show()));
    }
    for (status, fault) in own {
        let logged = |record: &&&Value| {
            text_of(record, "status") == status.to_string() && text_of(record, "fault") == *fault
        };
        if !records.iter().any(|record| logged(&record)) {
            return Err(format!("no record with status {status} and fault {fault}:{}", show()));
        }
    }
    if let Some(fault) = &transcript.fault {
        let expected = if fault == "none" { "-" } else { fault };
        if records.last().map(|record| text_of(record, "fault")).as_deref() != Some(expected) {
            return Err(format!("the last record does not name the fault {fault}:{}", show()));
        }
    }
    let Some(expected) = &transcript.log else { return Ok(()) };
    if expected.len() != records.len() {
        return Err(format!("{} records expected:{}", expected.len(), show()));
    }
    for (pairs, record) in expected.iter().zip(&records) {
        for (key, value) in pairs {
            if text_of(record, key) != *value {
                return Err(format!("{key}={value} expected in {record}"));
            }
        }
    }
    Ok(())
}

/// A value of a record as text; `-` for null or absent.
fn text_of(record: &Value, key: &str) -> String {
    match record.get(key) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

pub(super) fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect::<String>().trim_end().to_owned()
}
