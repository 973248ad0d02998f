//! The client of small requests: kept-alive connections at a fixed rate, whatever the answers' pace.
//!
//! A time counts from the moment at which its request was to be sent, not from that at which it was: a delay that
//! holds up later requests counts in each of them. The first span is for warming up and says nothing; each other one
//! says `SPAN count p50 p99 most`, all together `MOMENTS mean deviation least`, `PERCENTILES` with those of
//! [`PERCENTILES`] and `RESULT count p50 p99 most bad`, times in microseconds.
//!
//! What has been sent is waited for when the time is over, and counts in the last span.
//!
//! A server may close a connection on which nothing is asked: a new one takes its place, and nothing has failed. Where
//! it closes one with a request on it, that request is bad, and those behind it go on over a new one.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

/// Time in which an answer must come; a connection without one counts as broken.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time between looks at what is still awaited when the time is over, where no answer comes.
const LAST_LOOK: Duration = Duration::from_millis(100);

/// The end of a body in chunks; the text has to be in one of them.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// Percentiles that are told of all times together.
const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99];

/// What is asked for, and for how long.
pub(crate) struct Pace<'a> {
    /// The body that each answer must have.
    pub(crate) text: &'a str,
    /// Hosts that are asked for in turn, `s0` and so on; 0: only `bench`.
    pub(crate) hosts: u32,
    pub(crate) connections: usize,
    /// Requests per second on all connections together.
    pub(crate) rate: u32,
    /// Time of one span.
    pub(crate) span: Duration,
    /// Spans that count.
    pub(crate) spans: u32,
}

/// A connection: requests that are due, the first of which has been sent when `asked`; what came of its answer.
struct Asker {
    address: SocketAddr,
    stream: TcpStream,
    due: VecDeque<Due>,
    asked: bool,
    answer: Vec<u8>,
}

/// A request: when it is to be sent, and its number.
#[derive(Clone, Copy)]
struct Due {
    at: Instant,
    number: u32,
}

/// Sends `rate` requests per second, in turn on all connections, measures each, and says what came of them.
pub(crate) fn run(address: SocketAddr, pace: &Pace<'_>) -> io::Result<()> {
    let mut all = Vec::new();
    let bad = ask(address, pace, |span, times| {
        if span > 0 {
            all.extend_from_slice(times);
            println!("SPAN {}", figures(times));
        }
    })?;
    println!("MOMENTS {}", moments(&all));
    let result = figures(&mut all);
    println!("PERCENTILES{}", percentiles(&all));
    println!("RESULT {result} {bad}");
    Ok(())
}

/// Asks, and calls with the number of each span and its times; how many requests have failed in all.
fn ask(
    address: SocketAddr,
    pace: &Pace<'_>,
    mut is_over: impl FnMut(u32, &mut [Duration]),
) -> io::Result<u64> {
    let askers: io::Result<Vec<_>> = (0..pace.connections).map(|_| Asker::connect(address)).collect();
    let mut askers = askers?;
    let (start, mut next, mut bad) = (Instant::now(), 0_u32, 0_u64);
    let mut times = Vec::new();
    for span in 0..=pace.spans {
        let end = start + pace.span * (span + 1);
        times.clear();
        loop {
            let now = Instant::now();
            let is_awaited = span == pace.spans && askers.iter().any(|asker| !asker.due.is_empty());
            if now >= end && !is_awaited {
                break;
            }
            let mut due = start + Duration::from_secs(1) * next / pace.rate;
            while due <= now && due < end {
                match (next as usize).checked_rem(askers.len()) {
                    Some(turn) => askers[turn].due.push_back(Due { at: due, number: next }),
                    None => bad += 1,
                }
                next += 1;
                due = start + Duration::from_secs(1) * next / pace.rate;
            }
            askers.retain_mut(|asker| {
                if asker.go_on(pace, &mut times).is_ok() {
                    return true;
                }
                bad += 1;
                asker.due.pop_front();
                let goes_on = asker.connect_again().is_ok();
                bad += if goes_on { 0 } else { asker.due.len() as u64 };
                goes_on
            });
            wait(&askers, if now < end { due.min(end) } else { now + LAST_LOOK })?;
        }
        is_over(span, &mut times);
    }
    Ok(bad)
}

fn stream_to(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Waits until something has come, or a moment.
fn wait(askers: &[Asker], until: Instant) -> io::Result<()> {
    // One that is closed would wake at once, again and again.
    let asked = askers.iter().filter(|asker| asker.asked);
    let mut sockets: Vec<_> = asked.map(|asker| PollFd::new(&asker.stream, PollFlags::IN)).collect();
    let time = until.saturating_duration_since(Instant::now());
    let time = rustix::time::Timespec::try_from(time).map_err(io::Error::other)?;
    match poll(&mut sockets, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Asker {
    fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = stream_to(address)?;
        Ok(Self { address, stream, due: VecDeque::new(), asked: false, answer: Vec::new() })
    }

    /// Goes on with what is due on another connection.
    fn connect_again(&mut self) -> io::Result<()> {
        self.stream = stream_to(self.address)?;
        (self.asked, self.answer) = (false, Vec::new());
        Ok(())
    }

    /// Whether the server has closed the connection, on which nothing is asked.
    fn is_closed(&self) -> bool {
        !matches!((&self.stream).read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends what is due and takes what has come; an error when the connection is of no use any more.
    fn go_on(&mut self, pace: &Pace<'_>, times: &mut Vec<Duration>) -> io::Result<()> {
        while let Some(Due { at, number }) = self.due.front().copied() {
            if !self.asked {
                if self.is_closed() {
                    self.connect_again()?;
                }
                let request = match number.checked_rem(pace.hosts) {
                    None => "GET / HTTP/1.1\r\nHost: bench\r\n\r\n".to_owned(),
                    Some(host) => format!("GET / HTTP/1.1\r\nHost: s{host}\r\n\r\n"),
                };
                (&self.stream).write_all(request.as_bytes())?;
                self.asked = true;
            }
            if !self.receive(pace.text)? {
                let late = at.elapsed() > PATIENCE;
                return if late { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) };
            }
            times.push(at.elapsed());
            self.due.pop_front();
            (self.asked, self.answer) = (false, Vec::new());
        }
        Ok(())
    }

    /// Whether the whole answer has come.
    fn receive(&mut self, text: &str) -> io::Result<bool> {
        let mut bytes = [0; 4096];
        match (&self.stream).read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.answer.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        if !self.answer.ends_with(text.as_bytes()) && !self.answer.ends_with(LAST_CHUNK) {
            return Ok(false);
        }
        let has_text = self.answer.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        let is_good = has_text && self.answer.starts_with(b"HTTP/1.1 200 ");
        if is_good { Ok(true) } else { Err(io::Error::other("the answer is not what it has to be")) }
    }
}

/// Count, median, 99th percentile and most, in microseconds.
fn figures(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |part: usize| times.get((times.len() * part / 100).min(times.len().saturating_sub(1)));
    let micros = |time: Option<&Duration>| time.map_or(0, Duration::as_micros);
    let [median, far, most] = [at(50), at(99), times.last()].map(micros);
    format!("{} {median} {far} {most}", times.len())
}

/// The [`PERCENTILES`] of sorted times, each behind a space: the time within which that share of all came.
fn percentiles(times: &[Duration]) -> String {
    let at = |percent: f64| {
        let place = (times.len() as f64 * percent / 100.0).ceil() as usize;
        times.get(place.saturating_sub(1)).map_or(0, Duration::as_micros)
    };
    PERCENTILES.iter().map(|percent| format!(" {}", at(*percent))).collect()
}

/// Mean, standard deviation and least, in microseconds.
fn moments(times: &[Duration]) -> String {
    let micros = |time: &Duration| time.as_secs_f64() * 1e6;
    let count = times.len().max(1) as f64;
    // The sum of nothing is a negative zero.
    let mean = 0.0 + times.iter().map(micros).sum::<f64>() / count;
    let variance = 0.0 + times.iter().map(|time| (micros(time) - mean).powi(2)).sum::<f64>() / count;
    let least = times.iter().min().map_or(0, Duration::as_micros);
    format!("{mean:.0} {:.0} {least}", variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_three() {
        assert_eq!(moments(&[1, 2, 3].map(Duration::from_millis)), "2000 816 1000");
        assert_eq!(moments(&[]), "0 0 0");
    }

    #[test]
    fn percentiles_are_of_all_times_and_the_rarest_is_the_most_of_few() {
        let times: Vec<_> = (1..=1000).map(Duration::from_micros).collect();
        assert_eq!(percentiles(&times), " 500 750 900 950 990 995 999 1000");
        assert_eq!(percentiles(&[]), " 0 0 0 0 0 0 0 0");
    }

    /// A server that stops for 300 ms under 500 requests a second holds up 150 of them, the first for 300 ms and the
    /// last for none: 150 ms on average. A client that waits for answers before it counts would see one late request.
    #[test]
    fn a_stall_counts_in_each_request_that_was_due_within_it() {
        const STALL: Duration = Duration::from_millis(300);
        const RATE: u32 = 500;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let (mut bytes, mut answered) = ([0; 4096], 0);
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                // One connection asks again when it has been answered.
                assert!(bytes[..count].ends_with(b"\r\n\r\n"));
                answered += 1;
                if answered == RATE / 2 {
                    std::thread::sleep(STALL);
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        });
        let pace =
            Pace { text: "ok", hosts: 0, connections: 1, rate: RATE, span: Duration::from_secs(1), spans: 0 };
        let mut times = Vec::new();
        assert_eq!(ask(address, &pace, |_, span| times.extend_from_slice(span)).unwrap(), 0);
        server.join().unwrap();
        let late: Vec<_> = times.iter().filter(|time| **time > Duration::from_millis(10)).collect();
        let held: Duration = late.iter().copied().sum();
        assert!(late.len() >= 120, "{} of {}", late.len(), times.len());
        assert!(held > STALL * RATE * 3 / 10 / 2 * 8 / 10, "{held:?}");
        assert!(times.iter().max() >= Some(&(STALL * 95 / 100)), "{:?}", times.iter().max());
    }

    /// What these answers make of three requests: how many were good, and how many bad.
    fn answered_with(answer: &'static str) -> (usize, u64) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            drop(listener);
            let mut bytes = [0; 4096];
            while let Ok(1..) = stream.read(&mut bytes) {
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let span = Duration::from_millis(100);
        let pace = Pace { text: "ok", hosts: 0, connections: 1, rate: 30, span, spans: 0 };
        let mut good = 0;
        let bad = ask(address, &pace, |_, span| good += span.len()).unwrap();
        server.join().unwrap();
        (good, bad)
    }

    #[test]
    fn every_request_is_good_or_bad() {
        assert_eq!(answered_with("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), (3, 0));
        let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        assert_eq!(answered_with(chunks), (3, 0));
        let other = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n";
        assert_eq!(answered_with(other), (0, 3));
        assert_eq!(answered_with("HTTP/1.1 500 no\r\nContent-Length: 2\r\n\r\nok"), (0, 3));
    }

    #[test]
    fn figures_of_a_hundred() {
        let mut times: Vec<_> = (1..=100).rev().map(Duration::from_micros).collect();
        assert_eq!(figures(&mut times), "100 51 100 100");
        assert_eq!(figures(&mut []), "0 0 0 0");
    }
}
