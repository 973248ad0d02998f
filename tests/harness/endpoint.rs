//! An endpoint in a process of its own, which can be frozen, killed and brought back, and told to misbehave.
//!
//! The program is `tests/programs/endpoint.rs`. It is told by lines on a port for control, each of which it answers:
//! `count` with the number of requests it has read, a [`Mood`] with `ok` once every later request meets it. Requests
//! for [`CHECK`] are health checks: they are counted apart (`checks`), and `requests MOOD` leaves them alone.
//!
//! What it says in a good mood: its name. Where the request has an `X-Id` it says that too, and then the request's
//! body, with a blank between them. For [`TRICKLE`] the answer is long and comes in pieces. `X-Endpoint` is its name,
//! always.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use crate::port::Refusing;
use crate::process::Signal;
use crate::{Process, STEP};

/// The path of health checks.
pub const CHECK: &str = "/healthz";
/// The path whose answer comes in [`PIECES`] pieces of [`PIECE`] bytes, with [`PAUSE`] before each but the first.
pub const TRICKLE: &str = "/trickle";
/// See [`TRICKLE`].
pub const PIECES: usize = 10;
/// See [`TRICKLE`]; more than a body must move by.
pub const PIECE: usize = 512;
/// See [`TRICKLE`].
pub const PAUSE: Duration = Duration::from_millis(50);

/// How an endpoint meets a request, once it has read it whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mood {
    /// Answers 200 with its name.
    Ok,
    /// The same, after this time, in whole milliseconds.
    Slow(Duration),
    /// Breaks the connection off.
    Reset,
    /// Ends its side without an answer, and waits for the other one to end.
    HalfClose,
    /// Answers with this status and its name.
    Status(u16),
    /// Takes no connections and has none: those that are open end, and connecting is refused.
    Refuse,
}

impl fmt::Display for Mood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::Slow(time) => write!(f, "slow {}ms", time.as_millis()),
            Self::Reset => f.write_str("reset"),
            Self::HalfClose => f.write_str("half_close"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Refuse => f.write_str("refuse"),
        }
    }
}

impl FromStr for Mood {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let millis = |word: &str| word.strip_suffix("ms")?.parse().ok();
        let words: Vec<_> = line.split_whitespace().collect();
        let mood = match words[..] {
            ["ok"] => Some(Self::Ok),
            ["slow", time] => millis(time).map(|millis| Self::Slow(Duration::from_millis(millis))),
            ["reset"] => Some(Self::Reset),
            ["half_close"] => Some(Self::HalfClose),
            ["status", status] => status.parse().ok().map(Self::Status),
            ["refuse"] => Some(Self::Refuse),
            _ => None,
        };
        mood.ok_or_else(|| format!("not a mood: {line:?}"))
    }
}

/// A running endpoint; killed on drop. Its port stays its own while it is down.
#[derive(Debug)]
pub struct Endpoint {
    program: PathBuf,
    name: String,
    port: Refusing,
    process: Process,
    control: SocketAddr,
    /// Requests of its earlier lives.
    before: u64,
}

impl Endpoint {
    /// Starts one that calls itself `name`; `program` is `env!("CARGO_BIN_EXE_test-endpoint")`, which only test targets
    /// know.
    pub fn start(program: impl AsRef<Path>, name: &str) -> Self {
        let (program, port) = (program.as_ref().to_owned(), Refusing::new());
        let (process, control) = spawn(&program, name, port.address());
        Self { program, name: name.to_owned(), port, process, control, before: 0 }
    }

    /// Its address, the same after [`Endpoint::restart`].
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Its URL, as the configuration wants it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Its process, for signals: [`Signal::STOP`] freezes it, [`Signal::CONT`] lets it go on, [`Signal::KILL`] ends it.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Kills it, and returns when it is gone.
    ///
    /// # Panics
    /// When it lives on.
    pub fn kill(&self) {
        self.process.signal(Signal::KILL);
        self.process.wait_exit(STEP);
    }

    /// Starts it anew at the same address, in a good mood and with a count of 0; ends it before, if it still runs.
    ///
    /// # Panics
    /// When it does not get ready.
    pub fn restart(&mut self) {
        self.kill();
        self.before += self.process.stdout().len() as u64;
        (self.process, self.control) = spawn(&self.program, &self.name, self.address());
    }

    /// Tells it how to meet requests from now on.
    ///
    /// # Panics
    /// When it does not confirm that.
    pub fn tell(&self, mood: Mood) {
        assert_eq!(self.ask(&mood.to_string()), "ok", "{} was told {mood}", self.name);
    }

    /// The same for requests; health checks are met well all the same.
    ///
    /// # Panics
    /// When it does not confirm that.
    pub fn tell_requests(&self, mood: Mood) {
        assert_eq!(self.ask(&format!("requests {mood}")), "ok", "{} was told {mood}", self.name);
    }

    /// How many requests it has read in all its lives, also when it is dead. It must not be frozen.
    ///
    /// # Panics
    /// When it does not say.
    pub fn total(&self) -> u64 {
        let now = if self.process.is_running() { self.count() } else { self.process.stdout().len() as u64 };
        self.before + now
    }

    /// How many health checks it has read since it was started.
    ///
    /// # Panics
    /// When it does not say.
    pub fn checks(&self) -> u64 {
        let answer = self.ask("checks");
        answer.parse().unwrap_or_else(|_| panic!("{} says {answer:?}", self.name))
    }

    /// How many requests it has read whole, health checks left out, whatever it did with them.
    ///
    /// # Panics
    /// When it does not say.
    pub fn count(&self) -> u64 {
        let answer = self.ask("count");
        answer.parse().unwrap_or_else(|_| panic!("{} says {answer:?}", self.name))
    }

    fn ask(&self, line: &str) -> String {
        let mut stream = TcpStream::connect_timeout(&self.control, STEP).unwrap();
        stream.set_read_timeout(Some(STEP)).unwrap();
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

fn spawn(program: &Path, name: &str, address: SocketAddr) -> (Process, SocketAddr) {
    let process = Process::start(Command::new(program).args([name, &address.to_string()]));
    let port: u16 =
        process.wait_line("the port for control", STEP, |line| line.strip_prefix("control ")?.parse().ok());
    (process, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mood_is_read_as_it_is_written() {
        let slow = Mood::Slow(Duration::from_millis(300));
        for mood in [Mood::Ok, slow, Mood::Reset, Mood::HalfClose, Mood::Status(500), Mood::Refuse] {
            assert_eq!(mood.to_string().parse(), Ok(mood));
        }
        assert_eq!(slow.to_string(), "slow 300ms");
        for line in ["", "slow", "slow 300", "status", "status x", "ok ok"] {
            assert!(line.parse::<Mood>().is_err(), "{line}");
        }
    }
}
