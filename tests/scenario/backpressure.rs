//! Who reads slowly, or not at all, slows the one who sends to it, and nobody else: the proxy keeps little, loses
//! nothing, and goes on with the other direction.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use thalweg_tests::talk::chunk;
use thalweg_tests::upstream::Listener;
use thalweg_tests::vitals::resident;
use thalweg_tests::{Bare, Message, Noise, Proxy, STEP, Talk, Vitals};

use super::{config, proxy, watchdog};

/// Bytes of a body of which a slow receiver leaves most with the sender for a while.
const LONG: u64 = 24 << 20;
/// Receive buffer of those who read slowly: less than the kernel would take, and more than a segment on loopback,
/// below which it sends one every 200 ms.
const RECEIVE: usize = 128 * 1024;
/// Silence of a receiver after which its sender is held to be stopped.
const STOPPED: Duration = Duration::from_millis(400);
/// Bytes offered to each of those who do not read.
const OFFERED: u64 = 1 << 30;
/// Most that the kernel may hold for one transfer, in four socket buffers: 4 MiB to send and 32 MiB to receive twice,
/// less than a tenth of what is offered.
const IN_KERNEL: u64 = 80 << 20;

/// How somebody reads: so many pieces of at most so many bytes, with a pause behind each; then as fast as it can.
struct Slowly(usize, usize, Duration);

/// 1 KB per 20 ms, for a second.
const TRICKLE: Slowly = Slowly(50, 1024, Duration::from_millis(20));
/// 640 KB/s, for four times [`IDLE`].
const STEADY: Slowly = Slowly(40, 64 * 1024, Duration::from_millis(100));
/// The idle deadline where [`STEADY`] readers are not to be cut. What the kernel holds for them lasts longer.
const IDLE: Duration = Duration::from_secs(1);

/// Reads a body; gives the number of its bytes when all of them were right.
fn read_slowly(from: &mut impl Read, seed: u64, how: &Slowly) -> Result<u64, String> {
    let (mut noise, mut bytes) = (Noise::new(seed), vec![0; 64 * 1024]);
    let mut pieces = 0;
    loop {
        let most = if pieces < how.0 { how.1 } else { bytes.len() };
        let len = from.read(&mut bytes[..most]).map_err(|error| format!("{error} at {}", noise.given()))?;
        if len == 0 {
            return Ok(noise.given());
        }
        noise.check(&bytes[..len]).map_err(|at| format!("byte {at} is wrong"))?;
        pieces += 1;
        if pieces < how.0 {
            thread::sleep(how.2); // The pace of the reader.
        }
    }
}

/// A proxy with an idle deadline of [`IDLE`].
fn strict(url: &str) -> Proxy {
    let timeouts = format!("defaults: {{ timeouts: {{ idle: {}ms }} }}", IDLE.as_millis());
    Proxy::start(&config(&[url], &timeouts))
}

fn a_client_reads(how: &Slowly, proxy: fn(&str) -> Proxy) {
    let upstream = Bare::start(|talk| {
        talk.head()?;
        talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LONG}\r\n\r\n"))?;
        talk.send(Noise::new(2).take(usize::try_from(LONG).unwrap()))
    });
    let proxy = proxy(&upstream.url());
    let mut client = Talk::open(proxy.web()).unwrap();
    set_socket_recv_buffer_size(client.stream(), RECEIVE).unwrap();
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let head = client.head().unwrap();
    assert_eq!(read_slowly(&mut client.body(&head), 2, how), Ok(LONG));
}

fn an_upstream_reads(how: &'static Slowly, proxy: fn(&str) -> Proxy) {
    let upstream = Bare::start(|talk| {
        let _ = set_socket_recv_buffer_size(talk.stream(), RECEIVE);
        let head = talk.head()?;
        let said = match read_slowly(&mut talk.body(&head), 3, how) {
            Ok(bytes) => bytes.to_string(),
            Err(reason) => reason,
        };
        talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len()))
    });
    let proxy = proxy(&upstream.url());
    let mut client = Talk::open(proxy.web()).unwrap();
    client.send(format!("PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {LONG}\r\n\r\n")).unwrap();
    client.send(Noise::new(3).take(usize::try_from(LONG).unwrap())).unwrap();
    let head = client.head().unwrap();
    let mut said = String::new();
    client.body(&head).read_to_string(&mut said).unwrap();
    assert_eq!(said, LONG.to_string());
}

fn one_end_of_a_tunnel_reads(how: &Slowly, proxy: fn(&str) -> Proxy) {
    let upstream = Bare::start(|talk| {
        talk.head()?;
        talk.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: noise\r\n\r\n")?;
        talk.send(Noise::new(5).take(usize::try_from(LONG).unwrap()))
    });
    let proxy = proxy(&upstream.url());
    let mut client = Talk::open(proxy.web()).unwrap();
    set_socket_recv_buffer_size(client.stream(), RECEIVE).unwrap();
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: noise\r\n\r\n").unwrap();
    assert_eq!(client.head().unwrap().status(), 101);
    assert_eq!(read_slowly(&mut client.stream().take(LONG), 5, how), Ok(LONG));
}

#[test]
fn a_slow_reader_gets_every_byte() {
    let _watchdog = watchdog("a_slow_reader_gets_every_byte");
    a_client_reads(&TRICKLE, |url| proxy(&[url]));
}

#[test]
fn an_upstream_that_reads_slowly_gets_every_byte() {
    let _watchdog = watchdog("an_upstream_that_reads_slowly_gets_every_byte");
    an_upstream_reads(&TRICKLE, |url| proxy(&[url]));
}

#[test]
fn who_reads_what_the_kernel_holds_is_at_work_although_nothing_can_be_handed_over() {
    let _watchdog =
        watchdog("who_reads_what_the_kernel_holds_is_at_work_although_nothing_can_be_handed_over");
    thread::scope(|scope| {
        scope.spawn(|| a_client_reads(&STEADY, strict));
        scope.spawn(|| an_upstream_reads(&STEADY, strict));
        scope.spawn(|| one_end_of_a_tunnel_reads(&STEADY, strict));
    });
}

/// Sends piece after piece until all that is offered has gone, or the other side has taken nothing for a while; gives
/// the number of bytes that went, and what is left of the last piece.
fn send_until_stopped(to: &TcpStream, offered: u64, mut piece: impl FnMut() -> Vec<u8>) -> (u64, Vec<u8>) {
    let _ = to.set_write_timeout(Some(STOPPED));
    let (mut sent, mut rest) = (0, Vec::new());
    while sent < offered {
        if rest.is_empty() {
            rest = piece();
        }
        match (&*to).write(&rest) {
            Ok(len) => {
                sent += len as u64;
                rest.drain(..len);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                let stopped = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(stopped, "the sender is not slowed but cut off: {error} after {sent} bytes");
                break;
            }
        }
    }
    let _ = to.set_write_timeout(Some(STEP));
    (sent, rest)
}

/// An upstream that offers a large answer, and tells how much of it went until the client's side stood still.
fn offering(stopped: Sender<u64>) -> Bare {
    let stopped = Mutex::new(stopped);
    Bare::start(move |talk| {
        talk.head()?;
        talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {OFFERED}\r\n\r\n"))?;
        let mut noise = Noise::new(4);
        let (sent, _) = send_until_stopped(talk.stream(), OFFERED, || noise.take(64 * 1024));
        let _ = stopped.lock().unwrap().send(sent);
        // Stays open until the proxy ends it.
        talk.rest().map(drop)
    })
}

fn ask_for_all(proxy: &Proxy) -> (Talk, Message) {
    let mut client = Talk::open(proxy.web()).unwrap();
    set_socket_recv_buffer_size(client.stream(), RECEIVE).unwrap();
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let head = client.head().unwrap();
    (client, head)
}

#[test]
fn clients_that_stop_reading_stop_their_upstreams_and_cost_little_memory() {
    let _watchdog = watchdog("clients_that_stop_reading_stop_their_upstreams_and_cost_little_memory");
    const CLIENTS: u64 = 8;
    /// What the proxy itself may keep for one of them.
    const EACH: u64 = 1 << 20;
    let (stopped, was_stopped) = mpsc::channel();
    let upstream = offering(stopped);
    let proxy = proxy(&[&upstream.url()]);
    let (before, memory) = (Vitals::of(&proxy), resident(&proxy));
    let clients: Vec<(Talk, Message)> = (0..CLIENTS).map(|_| ask_for_all(&proxy)).collect();
    let most = (0..CLIENTS).map(|_| was_stopped.recv_timeout(STEP * 2).unwrap()).max().unwrap_or_default();
    let grown = resident(&proxy).saturating_sub(memory);
    eprintln!("stopped after {} KiB at most; {CLIENTS} cost {} KiB of memory", most >> 10, grown >> 10);
    assert!(most < IN_KERNEL, "{most} bytes went to a client that does not read");
    assert!(grown < CLIENTS * EACH + (4 << 20), "{grown} bytes of memory for {CLIENTS} clients");
    assert_eq!(Vitals::of(&proxy).exchanges, before.exchanges + CLIENTS, "all of them wait");
    drop(clients);
    before.wait_for(&proxy, "clients that stopped reading");
}

#[test]
fn an_upstream_that_stops_reading_stops_the_upload_and_the_upload_goes_on_with_it() {
    let _watchdog = watchdog("an_upstream_that_stops_reading_stops_the_upload");
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let upstream = Bare::start(move |talk| {
        let _ = set_socket_recv_buffer_size(talk.stream(), RECEIVE);
        let head = talk.head()?;
        let _ = may_go.lock().unwrap().recv_timeout(STEP * 2);
        let (mut noise, mut wrong) = (Noise::new(5), None);
        let sum = talk.body(&head).each(|bytes| wrong = wrong.or(noise.check(bytes).err()))?;
        let said = format!("{sum} {wrong:?}");
        talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len()))
    });
    let proxy = proxy(&[&upstream.url()]);
    let memory = resident(&proxy);
    let mut client = Talk::open(proxy.web()).unwrap();
    client.send("PUT / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let mut noise = Noise::new(5);
    let (sent, rest) = send_until_stopped(client.stream(), OFFERED, || chunk(&noise.take(64 * 1024)));
    let grown = resident(&proxy).saturating_sub(memory);
    eprintln!("an upload stopped after {} KiB and cost {} KiB of memory", sent >> 10, grown >> 10);
    assert!(sent < IN_KERNEL, "{sent} bytes went to an upstream that does not read");
    assert!(grown < 4 << 20, "{grown} bytes of memory for one upload");
    go.send(()).unwrap();
    client.send(rest).unwrap();
    for _ in 0..64 {
        client.send(chunk(&noise.take(64 * 1024))).unwrap();
    }
    client.send("0\r\n\r\n").unwrap();
    let head = client.head().unwrap();
    let mut said = String::new();
    client.body(&head).read_to_string(&mut said).unwrap();
    assert_eq!(said, format!("{} None", noise.given()));
}

#[test]
fn a_client_that_stops_and_reads_on_gets_the_rest_without_delay() {
    let _watchdog = watchdog("a_client_that_stops_and_reads_on_gets_the_rest_without_delay");
    const LEN: usize = 64 << 20;
    /// Ten megabytes a second: a hundredth of loopback, ten times what one segment per delayed acknowledgement makes.
    const SOON: Duration = Duration::from_secs(6);
    let (stopped, was_stopped) = mpsc::channel();
    let stopped = Mutex::new(stopped);
    let upstream = Bare::start(move |talk| {
        talk.head()?;
        talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"))?;
        let mut noise = Noise::new(8);
        let (sent, rest) = send_until_stopped(talk.stream(), LEN as u64, || noise.take(64 * 1024));
        let _ = stopped.lock().unwrap().send(sent);
        talk.send(rest)?;
        while noise.given() < LEN as u64 {
            talk.send(noise.take(64 * 1024))?;
        }
        Ok(())
    });
    let proxy = proxy(&[&upstream.url()]);
    let mut client = Talk::open(proxy.web()).unwrap();
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let head = client.head().unwrap();
    let sent = was_stopped.recv_timeout(STEP).unwrap();
    let (start, mut noise, mut wrong) = (Instant::now(), Noise::new(8), None);
    let sum = client.body(&head).each(|bytes| wrong = wrong.or(noise.check(bytes).err()));
    assert_eq!((sum.unwrap(), wrong), (LEN as u64, None));
    let took = start.elapsed();
    eprintln!("stopped after {} KiB; the rest of {LEN} bytes took {took:?}", sent >> 10);
    assert!(sent < LEN as u64 && took < SOON, "stopped after {sent} bytes, the rest took {took:?}");
}

/// Sends `pieces` chunks to one who takes them, and compares what arrives.
fn goes_on(from: &mut Talk, to: &mut Talk, head: &Message, pieces: usize) {
    let mut writer = from.writer().unwrap();
    let sender = thread::spawn(move || {
        let mut noise = Noise::new(6);
        for _ in 0..pieces {
            writer.write_all(&chunk(&noise.take(64 * 1024))).unwrap();
        }
    });
    let (mut noise, mut bytes) = (Noise::new(6), vec![0; 64 * 1024]);
    let mut body = to.body(head);
    for piece in 0..pieces {
        let got = body.read_exact(&mut bytes);
        assert!(got.is_ok(), "piece {piece} does not arrive while the other direction stands still: {got:?}");
        assert_eq!(noise.check(&bytes), Ok(()));
    }
    sender.join().unwrap();
}

/// Both heads have passed, both bodies are open; gives the ends and what each has received.
fn both_bodies_open(proxy: &Proxy, accepted: &mpsc::Receiver<TcpStream>) -> (Talk, Message, Talk, Message) {
    let mut client = Talk::open(proxy.web()).unwrap();
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let mut upstream = Talk::new(accepted.recv_timeout(STEP).unwrap());
    let request = upstream.head().unwrap();
    upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let response = client.head().unwrap();
    (client, response, upstream, request)
}

#[test]
fn a_direction_that_stands_still_does_not_stop_the_other() {
    let _watchdog = watchdog("a_direction_that_stands_still_does_not_stop_the_other");
    /// 16 MiB: more than fits anywhere on the way.
    const PIECES: usize = 256;
    let (accepted, connections) = mpsc::channel();
    let listener = Listener::start(accepted);
    let proxy = proxy(&[&format!("http://{}", listener.address())]);
    let before = Vitals::of(&proxy);

    let (mut client, response, mut upstream, _request) = both_bodies_open(&proxy, &connections);
    let (stuck, _) = send_until_stopped(client.stream(), OFFERED, || chunk(&[0; 64 * 1024]));
    assert!(stuck < IN_KERNEL, "{stuck} bytes went to an upstream that does not read");
    goes_on(&mut upstream, &mut client, &response, PIECES);
    drop((client, upstream));

    let (mut client, _response, mut upstream, request) = both_bodies_open(&proxy, &connections);
    let (stuck, _) = send_until_stopped(upstream.stream(), OFFERED, || chunk(&[0; 64 * 1024]));
    assert!(stuck < IN_KERNEL, "{stuck} bytes went to a client that does not read");
    goes_on(&mut client, &mut upstream, &request, PIECES);
    drop((client, upstream));
    before.wait_for(&proxy, "directions that stood still");
}
