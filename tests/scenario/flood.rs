//! Proves that a flood costs the proxy nothing but refusals: with 1,024 descriptors, or 256, and many thousands of
//! connections from other processes, none is left without an answer, no exchange that runs is lost, descriptors never
//! run out, and afterwards all is as before.
//!
//! 6,000 connections, or 20,000 with `THALWEG_LONG=1`; 1,500 or 5,000 with few descriptors. Upstream and generators are
//! processes of their own, because their descriptors count against a limit too.

use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use serde_json::Value;
use thalweg_tests::message::get;
use thalweg_tests::process::Signal;
use thalweg_tests::program::find_or_skip;
use thalweg_tests::{Process, Proxy, STEP};

use super::{config, watchdog};

/// A flood: descriptors of the proxy, connections in all, and those with `THALWEG_LONG=1`.
struct Flood(u32, u64, u64);

const LARGE: Flood = Flood(1024, 6_000, 20_000);
const SMALL: Flood = Flood(256, 1_500, 5_000);
/// Generators; each has a source address of its own, so that ports do not run out.
const GENERATORS: u64 = 2;
/// Time for the generators, after which they say what became of their connections until then.
const TIME: Duration = Duration::from_secs(20);
/// Descriptors of a generator that are no connections.
const OWN: u64 = 200;
/// "At once", on a busy machine with a debug build.
const AT_ONCE: Duration = Duration::from_secs(1);

/// An upstream that holds back the answers to `/held` until it gets USR1, and tells on `/count` how many those were.
const UPSTREAM: &str = r#"
import asyncio, resource, signal, sys
async def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gate, held = asyncio.Event(), 0
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, gate.set)
    async def serve(reader, writer):
        nonlocal held
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1]
                if path == b"/held":
                    held += 1
                    await gate.wait()
                body = str(held).encode() if path == b"/count" else b"hello"
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print("port", server.sockets[0].getsockname()[1], file=sys.stderr, flush=True)
    await server.serve_forever()
asyncio.run(main())
"#;

/// Opens connections, sends one request on each, every fourth of them for `/held`, and keeps those that were served.
/// Says `half` when half of them are settled; at the end it tells as JSON how many had which end.
const GENERATOR: &str = r#"
import collections, json, resource, selectors, socket, sys, time
host, port, source, count, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
WINDOW, BIND_ADDRESS_NO_PORT = 1000, 24
events, ends, unsettled, opened, settled, told = selectors.DefaultSelector(), collections.Counter(), 0, 0, 0, False
end = time.monotonic() + seconds
class Client:
    def __init__(self, path):
        self.path, self.seen, self.sent, self.settled = path, b"", False, False
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_IP, BIND_ADDRESS_NO_PORT, 1)
        self.socket.bind((source, 0))
        self.socket.connect_ex((host, port))
        events.register(self.socket, selectors.EVENT_WRITE, self)
    def settle(self, what, keep=False):
        global unsettled, settled
        if not self.settled:
            self.settled, unsettled, settled = True, unsettled - 1, settled + 1
            ends[what] += 1
        if not keep:
            events.unregister(self.socket)
            self.socket.close()
    def ready(self):
        try:
            if not self.sent:
                self.sent = True
                self.socket.send(b"GET %s HTTP/1.1\r\nHost: a.test\r\n\r\n" % self.path)
                return events.modify(self.socket, selectors.EVENT_READ, self)
            data = self.socket.recv(65536)
        except OSError as error:
            # After the answer it may be closed to make room, as any kept connection.
            return self.settle("error %d after %d bytes" % (error.errno, len(self.seen)))
        self.seen += data
        head, mark, body = self.seen.partition(b"\r\n\r\n")
        length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        if mark and len(body) >= int(length[0].split(b":")[1]):
            status = head.split(b" ", 2)[1].decode()
            self.settle(status + " held" if status == "200" and self.path == b"/held" else status,
                        keep=status == "200" and data != b"")
        elif data == b"":
            self.settle("closed after %d bytes" % len(self.seen))
while settled < count and time.monotonic() < end:
    while opened < count and unsettled < WINDOW:
        Client(b"/held" if opened % 4 == 0 else b"/")
        opened, unsettled = opened + 1, unsettled + 1
    for key, _ in events.select(0.1):
        key.data.ready()
    if not told and settled >= count // 2:
        told = True
        print("half", file=sys.stderr, flush=True)
ends["waiting"] += count - settled
print(json.dumps(ends))
"#;

fn start_upstream(python: &Path) -> (Process, SocketAddr) {
    let process = Process::start(Command::new(python).args(["-c", UPSTREAM]));
    let port: u16 = process.wait_line("the port", STEP, |line| line.strip_prefix("port ")?.parse().ok());
    (process, SocketAddr::from(([127, 0, 0, 1], port)))
}

fn start_generator(python: &Path, number: u64, target: SocketAddr, connections: u64) -> Process {
    Process::start(Command::new(python).args(["-c", GENERATOR]).args([
        target.ip().to_string(),
        target.port().to_string(),
        format!("127.0.0.{}", number + 2),
        connections.to_string(),
        TIME.as_secs_f32().to_string(),
    ]))
}

/// Connections of one generator, within what this machine lets a process open.
fn connections(flood: &Flood) -> u64 {
    let long = env::var("THALWEG_LONG").as_deref() == Ok("1");
    let wanted = if long { flood.2 } else { flood.1 } / GENERATORS;
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let possible = wanted.min(hard.saturating_sub(OWN));
    if possible < wanted {
        eprintln!("a process may open {hard} descriptors: {possible} connections per generator");
    }
    possible
}

#[test]
fn a_flood_of_connections_is_served_or_refused_and_leaves_nothing_behind() {
    let _watchdog = watchdog("a_flood_of_connections_is_served_or_refused_and_leaves_nothing_behind");
    survives(&LARGE);
}

#[test]
fn so_is_a_flood_where_there_are_few_descriptors() {
    let _watchdog = watchdog("so_is_a_flood_where_there_are_few_descriptors");
    survives(&SMALL);
}

fn survives(flood: &Flood) {
    let Some(python) = find_or_skip("python3") else { return };
    let (upstream, address) = start_upstream(&python);
    let proxy = Proxy::start_with_descriptors(flood.0, &config(&[&format!("http://{address}")], ""));
    let (target, each) = (proxy.web(), connections(flood));
    let generators: Vec<Process> =
        (0..GENERATORS).map(|number| start_generator(&python, number, target, each)).collect();
    // By then exchanges that are held have every place that there is, and whoever comes is refused.
    for generator in &generators {
        generator.wait_line("half", TIME, |line| (line == "half").then_some(()));
    }
    upstream.signal(Signal::USR1);
    let mut ends: Vec<(String, u64)> = Vec::new();
    for generator in &generators {
        let status = generator.wait_exit(TIME + STEP);
        assert!(status.success(), "{}", generator.stderr());
        let said: Value = serde_json::from_str(&generator.stdout()).unwrap();
        let said = said.as_object().unwrap().iter();
        ends.extend(said.map(|(end, count)| (end.clone(), count.as_u64().unwrap())));
    }
    let after = Instant::now();
    let answer = get(target, "/count").unwrap();
    let waited = after.elapsed();
    assert_eq!(answer.status(), 200, "{answer:?}");
    assert!(waited < AT_ONCE, "a request after the flood took {waited:?}");

    let sum = |which: &str| ends.iter().filter(|(end, _)| end == which).map(|(_, count)| count).sum::<u64>();
    eprintln!("{} connections: {ends:?}", GENERATORS * each);
    let (served, held, refused) = (sum("200"), sum("200 held"), sum("503"));
    assert_eq!(
        answer.text(),
        held.to_string(),
        "every exchange that reached the upstream ended well: {ends:?}"
    );
    assert!(held > 0 && refused > 0, "the house was never full: {ends:?}");
    assert_eq!(served + held + refused, GENERATORS * each, "some have no answer: {ends:?}");

    let metrics = get(proxy.metrics(), "/metrics").unwrap().text();
    let exhausted =
        metrics.lines().find(|line| line.starts_with("thalweg_limit_hits_total{limit=\"descriptors\"}"));
    assert!(exhausted.is_none_or(|line| line.ends_with(" 0")), "descriptors ran out: {exhausted:?}");
    let ended = proxy.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let said = ended.stderr.to_lowercase();
    assert!(!said.contains("emfile") && !said.contains("too many open files"), "{said}");
}
