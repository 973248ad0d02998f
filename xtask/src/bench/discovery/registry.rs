//! A registry whose instances change all the time: etcd's JSON gateway as far as the product asks it (range and
//! watch), in threads of this process.
//!
//! Written for this bench because a real cluster would take more CPU for a thousand changes a second than the machine
//! has left, and because every change must reach the proxy at once, as one line of its watch.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// What changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Changes {
    /// Nothing.
    None,
    /// The weight of an instance.
    Weights,
    /// An instance leaves, and another one comes.
    Members,
}

impl Changes {
    pub(super) const ALL: [Self; 3] = [Self::None, Self::Weights, Self::Members];

    /// The name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "no changes",
            Self::Weights => "weights",
            Self::Members => "instances",
        }
    }
}

/// Between two looks at which changes are due.
const TURN: Duration = Duration::from_millis(2);
/// Identifier of the cluster.
const CLUSTER: &str = "14841639068965178418";
/// Patience with an answer that the proxy does not read.
const PATIENCE: Duration = Duration::from_secs(5);

/// The registry; its changes end when it is dropped.
pub(super) struct Registry {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    port: u16,
}

struct State {
    revision: i64,
    services: Vec<Instances>,
}

/// The instances of a service: so many in a row of twice as many, from `first` on.
struct Instances {
    first: usize,
    count: usize,
    weights: Vec<u8>,
    /// The revision of the last change.
    newest: i64,
    changes: usize,
    watchers: Vec<TcpStream>,
}

/// Changes that go on until this is dropped.
pub(super) struct Changing {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Changing {
    /// Ends them, and says how many there were.
    pub(super) fn end(mut self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(0)
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

impl Registry {
    /// A registry with so many services of so many instances, which listen on this port of addresses of their own.
    pub(super) fn start(services: usize, count: usize, port: u16) -> Result<Self> {
        let instances = || Instances {
            first: 0,
            count,
            weights: vec![1; 2 * count],
            newest: 1,
            changes: 0,
            watchers: Vec::new(),
        };
        let state = State { revision: 1, services: (0..services).map(|_| instances()).collect() };
        let shared = Arc::new(Shared { state: Mutex::new(state), port });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let ours = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let ours = ours.clone();
                // A connection that breaks is the proxy's to report.
                thread::spawn(move || ours.converse(stream));
            }
        });
        Ok(Self { address, shared })
    }

    /// Begins to make so many changes per second, in turn in all services.
    pub(super) fn change(&self, changes: Changes, rate: u32) -> Changing {
        let (shared, ends) = (self.shared.clone(), Arc::new(AtomicBool::new(false)));
        let ended = ends.clone();
        let thread = thread::spawn(move || {
            let (start, mut made) = (Instant::now(), 0_u64);
            while !ended.load(Ordering::Relaxed) {
                let due = match changes {
                    Changes::None => 0,
                    _ => (start.elapsed().as_secs_f64() * f64::from(rate)) as u64,
                };
                while made < due {
                    shared.change(changes, made as usize);
                    made += 1;
                }
                thread::sleep(TURN);
            }
            made
        });
        Changing { ends, thread: Some(thread) }
    }
}

/// What the keys of a service begin with.
pub(super) fn prefix(service: usize) -> String {
    format!("/services/s{service}/")
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change and tells those that watch.
    fn change(&self, changes: Changes, number: usize) {
        let mut state = self.state();
        state.revision += 1;
        let (revision, count) = (state.revision, state.services.len());
        let service = number % count;
        let of = &mut state.services[service];
        of.newest = revision;
        let events = match changes {
            Changes::None => return,
            Changes::Weights => {
                let at = (of.first + of.changes % of.count) % of.weights.len();
                of.weights[at] = 3 - of.weights[at];
                json!([{ "kv": self.pair(service, at, of, revision) }])
            }
            Changes::Members => {
                let (gone, new) = (of.first, (of.first + of.count) % of.weights.len());
                of.first = (of.first + 1) % of.weights.len();
                let key = STANDARD.encode(key(service, gone));
                let gone =
                    json!({ "type": "DELETE", "kv": { "key": key, "mod_revision": revision.to_string() } });
                json!([gone, { "kv": self.pair(service, new, of, revision) }])
            }
        };
        of.changes += 1;
        let line = json!({ "result": { "header": header(revision), "events": events } }).to_string();
        of.watchers.retain_mut(|watcher| chunk(watcher, &line).is_ok());
    }

    /// An instance as etcd shows it.
    fn pair(&self, service: usize, at: usize, of: &Instances, revision: i64) -> Value {
        let address = format!("127.{}.{}.{}:{}", service + 1, at / 250, at % 250 + 1, self.port);
        let (zone, weight) = (["a", "b", "c"][at % 3], of.weights[at]);
        let value =
            json!({ "url": format!("http://{address}"), "weight": weight, "zone": zone, "version": "v1" });
        json!({
            "key": STANDARD.encode(key(service, at)),
            "value": STANDARD.encode(value.to_string()),
            "mod_revision": revision.to_string(),
        })
    }

    fn converse(&self, stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut from = BufReader::new(stream.try_clone()?);
        let mut to = stream;
        while let Some((target, question)) = read_request(&mut from)? {
            let is_watch = target.starts_with("/v3/watch");
            let question = if is_watch { &question["create_request"] } else { &question };
            let service = self.service_of(question).context("no service of this bench")?;
            if is_watch {
                return self.watch(service, question, to);
            }
            let answer = self.range(service, question["limit"] == "1").to_string();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
            to.write_all(format!("{head} {}\r\n\r\n{answer}", answer.len()).as_bytes())?;
        }
        Ok(())
    }

    fn service_of(&self, question: &Value) -> Option<usize> {
        let key = STANDARD.decode(question["key"].as_str()?).ok()?;
        let name = std::str::from_utf8(&key).ok()?.strip_prefix("/services/s")?.strip_suffix('/')?;
        name.parse().ok().filter(|service| *service < self.state().services.len())
    }

    /// All instances, or how many there are and the one that changed last.
    fn range(&self, service: usize, is_short: bool) -> Value {
        let state = self.state();
        let of = &state.services[service];
        let shown = if is_short { 1 } else { of.count };
        let at = (0..shown).map(|number| (of.first + number) % of.weights.len());
        let pairs: Vec<_> = at.map(|at| self.pair(service, at, of, of.newest)).collect();
        json!({ "header": header(state.revision), "kvs": pairs, "count": of.count.to_string() })
    }

    /// From here on every change goes to this connection.
    fn watch(&self, service: usize, question: &Value, mut to: TcpStream) -> Result<()> {
        let from = question["start_revision"].as_str().and_then(|revision| revision.parse::<i64>().ok());
        let mut state = self.state();
        let revision = state.revision;
        let of = &mut state.services[service];
        to.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        // Nothing is remembered: one that comes too late reads all again.
        let says = match from {
            Some(from) if from <= of.newest => json!({ "compact_revision": revision.to_string() }),
            _ => json!({ "created": true }),
        };
        let mut line = json!({ "result": says });
        line["result"]["header"] = header(revision);
        chunk(&mut to, &line.to_string())?;
        of.watchers.push(to);
        Ok(())
    }
}

fn key(service: usize, at: usize) -> String {
    format!("{}i{at}", prefix(service))
}

fn header(revision: i64) -> Value {
    json!({ "cluster_id": CLUSTER, "revision": revision.to_string() })
}

/// A line as a chunk of its own.
fn chunk(to: &mut TcpStream, line: &str) -> std::io::Result<()> {
    to.write_all(format!("{:x}\r\n{line}\n\r\n", line.len() + 1).as_bytes())
}

/// The target and the body of the next request; `None`: there is none.
fn read_request(from: &mut impl BufRead) -> Result<Option<(String, Value)>> {
    let (mut first, mut length) = (String::new(), 0);
    if from.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    let target = first.split_whitespace().nth(1).context("a request without a target")?;
    Ok(Some((target.to_owned(), serde_json::from_slice(&body)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(to: &mut TcpStream, target: &str, question: &Value) {
        let body = question.to_string();
        let head = format!("POST {target} HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
        to.write_all((head + &body).as_bytes()).unwrap();
    }

    /// The next line that begins a JSON object.
    fn answer(from: &mut impl BufRead) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(from.read_line(&mut line).unwrap(), 0);
            if line.starts_with('{') {
                return serde_json::from_str(&line).unwrap();
            }
        }
    }

    #[test]
    fn instances_that_leave_and_come_are_told_in_one_line() {
        let registry = Registry::start(2, 3, 80).unwrap();
        let mut stream = TcpStream::connect(registry.address).unwrap();
        let mut from = BufReader::new(stream.try_clone().unwrap());
        let question = json!({ "key": STANDARD.encode(prefix(1)), "start_revision": "2" });
        ask(&mut stream, "/v3/watch", &json!({ "create_request": question }));
        assert_eq!(answer(&mut from)["result"]["created"], true);
        registry.shared.change(Changes::Members, 0);
        registry.shared.change(Changes::Members, 1);
        let line = answer(&mut from);
        assert_eq!(line["result"]["header"]["revision"], "3", "the other service's is not told here");
        let events = &line["result"]["events"];
        assert_eq!(events[0]["type"], "DELETE");
        assert_eq!(events[0]["kv"]["key"], STANDARD.encode("/services/s1/i0"));
        assert_eq!(events[1]["kv"]["key"], STANDARD.encode("/services/s1/i3"));
        registry.shared.change(Changes::Weights, 1);
        let value = answer(&mut from)["result"]["events"][0]["kv"]["value"].as_str().unwrap().to_owned();
        let value: Value = serde_json::from_slice(&STANDARD.decode(value).unwrap()).unwrap();
        assert_eq!((&value["url"], &value["weight"]), (&json!("http://127.2.0.3:80"), &json!(2)));
        let range = registry.shared.range(1, false);
        assert_eq!((range["count"].as_str(), range["kvs"].as_array().map(Vec::len)), (Some("3"), Some(3)));
    }
}
