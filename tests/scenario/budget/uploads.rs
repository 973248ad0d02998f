//! Proves that uploads stay within the memory that the proxy may use: far more are offered than fit, the endpoint
//! reads none of them until it is told to, and a cgroup (where one can be made) says what the proxy and its sockets
//! used. Each upload arrives whole or is refused with a 503, and afterwards all is as before.
//!
//! 1,000 uploads of 1 MB, or 5,000 of 2 MB with `THALWEG_LONG=1`. Upstream and generator are processes of their own,
//! because their descriptors count against a limit too.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use thalweg_tests::message::get;
use thalweg_tests::process::Signal;
use thalweg_tests::program::find_or_skip;
use thalweg_tests::{Cgroup, Process, Proxy, STEP};

use super::super::{config, watchdog};
use super::{metric, recovers};

/// Memory that the proxy may use.
const MEMORY: u64 = 64 * 1024 * 1024;
/// Uploads and bytes of each: in CI, and in the whole.
const UPLOADS: ((u64, u64), (u64, u64)) = ((1_000, 1_000_000), (5_000, 2_000_000));
/// Time for the generator, after which it says what became of its uploads until then.
const TIME: Duration = Duration::from_secs(40);

/// An upstream that reads no body until it gets USR1, and answers each with its SHA-256.
const UPSTREAM: &str = r#"
import asyncio, hashlib, resource, signal, sys
async def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gate, begun = asyncio.Event(), 0
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, gate.set)
    async def serve(reader, writer):
        nonlocal begun
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                left, sum = int(length[0].split(b":")[1]) if length else 0, hashlib.sha256()
                if left:
                    begun += 1
                    await gate.wait()
                while left:
                    part = await reader.read(min(left, 65536))
                    if not part:
                        return
                    sum.update(part)
                    left -= len(part)
                body = sum.hexdigest().encode() if length else str(begun).encode()
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

/// Offers all uploads at once. Says `half` when half of them are settled; at the end it tells as JSON how many had
/// which end: 200 only where the upstream has read the very bytes that were sent.
const GENERATOR: &str = r#"
import collections, hashlib, json, resource, selectors, socket, sys, time
host, port, count, size, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
events, ends, settled, told = selectors.DefaultSelector(), collections.Counter(), 0, False
end = time.monotonic() + seconds
PATTERN = bytes(range(256)) * (size // 256 + 2)
class Upload:
    def __init__(self, number):
        # Every body is another part of the pattern behind its own number.
        self.body = memoryview(b"%08d" % number + PATTERN[number % 251:][:size - 8])
        head = b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % size
        self.out, self.seen = [memoryview(head), self.body], b""
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32768)
        self.socket.connect_ex((host, port))
        events.register(self.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)
    def settle(self, what):
        global settled
        settled += 1
        ends[what] += 1
        events.unregister(self.socket)
        self.socket.close()
        self.body = self.out = None
    def ready(self, mask):
        if mask & selectors.EVENT_READ:
            try:
                data = self.socket.recv(65536)
            except OSError as error:
                return self.settle("error %d after %d bytes" % (error.errno, len(self.seen)))
            self.seen += data
            head, mark, body = self.seen.partition(b"\r\n\r\n")
            length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if mark and len(body) >= int(length[0].split(b":")[1]):
                status = head.split(b" ", 2)[1].decode()
                whole = status != "200" or body == hashlib.sha256(self.body).hexdigest().encode()
                return self.settle(status if whole else "corrupt")
            if not data:
                return self.settle("closed after %d bytes" % len(self.seen))
        if mask & selectors.EVENT_WRITE and self.out:
            try:
                sent = self.socket.send(self.out[0])
            except BlockingIOError:
                return
            except OSError:
                # What it was answered is still to be read.
                self.out = []
            else:
                self.out[0] = self.out[0][sent:]
                self.out = [part for part in self.out if len(part)]
            if not self.out:
                events.modify(self.socket, selectors.EVENT_READ, self)
opened = 0
while settled < count and time.monotonic() < end:
    for _ in range(min(100, count - opened)):
        Upload(opened)
        opened += 1
    for key, mask in events.select(0.1):
        key.data.ready(mask)
    if not told and settled >= count // 2:
        told = True
        print("half", file=sys.stderr, flush=True)
ends["waiting"] += count - settled
print(json.dumps(ends))
"#;

/// The most that the proxy used, looked at again and again.
struct Peak {
    most: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Peak {
    fn watch(used: impl Fn() -> Option<u64> + Send + 'static) -> Self {
        let (most, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (kept, ended) = (Arc::clone(&most), Arc::clone(&over));
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                kept.fetch_max(used().unwrap_or(0), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self { most, over }
    }
}

impl Drop for Peak {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Memory of a process that is in no file.
fn anonymous(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

fn start_proxy(endpoint: &str, cgroup: Option<&Cgroup>) -> Proxy {
    let config = config(&[endpoint], "limits: { memory: 64MiB }");
    match cgroup {
        None => Proxy::start(&config),
        Some(cgroup) => {
            let script = format!("{} && exec \"$0\" \"$@\"", cgroup.enter());
            Proxy::start_under(Path::new("sh"), &["-c", &script], &config)
        }
    }
}

#[test]
fn uploads_beyond_the_memory_are_refused_and_the_others_arrive_whole() {
    let _watchdog = watchdog("uploads_beyond_the_memory_are_refused_and_the_others_arrive_whole");
    let Some(python) = find_or_skip("python3") else { return };
    let long = env::var("THALWEG_LONG").as_deref() == Ok("1");
    let (uploads, size) = if long { UPLOADS.1 } else { UPLOADS.0 };
    let upstream = Process::start(Command::new(&python).args(["-c", UPSTREAM]));
    let port: u16 = upstream.wait_line("the port", STEP, |line| line.strip_prefix("port ")?.parse().ok());
    let cgroup = Cgroup::new("uploads", MEMORY).map(Arc::new);
    let proxy = start_proxy(&format!("http://127.0.0.1:{port}"), cgroup.as_deref());
    let (pid, judge) = (proxy.process().pid(), cgroup.clone());
    let peak =
        Peak::watch(move || judge.as_ref().map_or_else(|| anonymous(pid), |cgroup| Some(cgroup.used())));

    let generator = Process::start(Command::new(&python).args(["-c", GENERATOR]).args([
        proxy.web().ip().to_string(),
        proxy.web().port().to_string(),
        uploads.to_string(),
        size.to_string(),
        TIME.as_secs().to_string(),
    ]));
    // By then as many are under way as fit, their buffers are full, and the others have been refused.
    generator.wait_line("half", TIME, |line| (line == "half").then_some(()));
    assert!(metric(&proxy, "thalweg_saturation") > 0.9, "the house is full, and it does not say so");
    let admitted = metric(&proxy, "thalweg_budget_bodies");
    upstream.signal(Signal::USR1);
    let status = generator.wait_exit(TIME + STEP);
    assert!(status.success(), "{}", generator.stderr());
    let said: Value = serde_json::from_str(&generator.stdout()).unwrap();
    let most = peak.most.load(Ordering::Relaxed);
    eprintln!(
        "{uploads} uploads of {size} bytes, at most {admitted} at once: {said}, at most {} KiB",
        most / 1024
    );
    let ended = |how: &str| said.get(how).and_then(Value::as_u64).unwrap_or(0);
    assert_eq!(ended("200") + ended("503"), uploads, "some were lost, broken or left waiting: {said}");
    // Workers may have kept a few places to themselves.
    assert!(ended("200") as f64 >= admitted * 0.9, "fewer arrived than fit: {said}");
    assert!(ended("503") > 0, "the house was never full: {said}");
    assert!(most > 0 && most <= MEMORY, "{} KiB were used", most / 1024);
    drop(peak);

    recovers(&proxy);
    if let Some(cgroup) = &cgroup {
        assert_eq!(cgroup.killed(), 0, "memory ran out");
    }
    assert_eq!(get(proxy.web(), "/").unwrap().status(), 200);
    assert_eq!(proxy.stop().status.code(), Some(0));
}
