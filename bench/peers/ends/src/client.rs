//! The client: large exchanges on several connections, every byte checked.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::body::{Check, Framing, Sender};
use crate::wire::Wire;

/// Silence after which a connection counts as broken.
const SILENCE: Duration = Duration::from_secs(20);

/// What each connection does.
#[derive(Clone)]
pub(crate) enum Work {
    /// Asks for a path that answers with so many bytes.
    Get { path: String, length: u64 },
    /// Sends a body.
    Put { framing: Framing, length: u64 },
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Bytes of bodies that arrived whole and right.
    pub(crate) bytes: u64,
    pub(crate) exchanges: u64,
    /// Exchanges that failed: refused, broken off, or with wrong bytes.
    pub(crate) bad: u64,
}

/// Runs `connections` side by side until `time` has passed, each until the end of its exchange; one exchange each
/// when it is zero.
pub(crate) fn run(address: SocketAddr, work: &Work, connections: usize, time: Duration) -> Outcome {
    let end = Instant::now() + time;
    let each = || {
        let mut outcome = Outcome::default();
        if let Err(error) = converse(address, work, end, &mut outcome) {
            eprintln!("ends: {error}");
            outcome.bad += 1;
        }
        outcome
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(each)).collect();
        threads.into_iter().fold(Outcome::default(), |sum, thread| match thread.join() {
            Ok(one) => Outcome {
                bytes: sum.bytes + one.bytes,
                exchanges: sum.exchanges + one.exchanges,
                bad: sum.bad + one.bad,
            },
            Err(_) => Outcome { bad: sum.bad + 1, ..sum },
        })
    })
}

fn converse(address: SocketAddr, work: &Work, end: Instant, outcome: &mut Outcome) -> io::Result<()> {
    let stream = &TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let sender = match work {
        Work::Get { .. } => None,
        Work::Put { framing, .. } => Some(Sender::new(*framing)?),
    };
    let mut wire = Wire::new(stream);
    let mut check = Check::new();
    loop {
        let good = match (work, &sender) {
            (Work::Put { framing, length }, Some(sender)) => {
                let field = framing.field(*length);
                let head = format!("POST /put HTTP/1.1\r\nHost: bench\r\n{field}\r\n");
                (&mut &*stream).write_all(head.as_bytes())?;
                sender.send(stream, *length)?;
                answer(&mut wire, None, &mut check)?
            }
            (Work::Get { path, length }, _) => {
                let head = format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n");
                (&mut &*stream).write_all(head.as_bytes())?;
                answer(&mut wire, Some(*length), &mut check)?
            }
            (Work::Put { .. }, None) => false,
        };
        if !good {
            return Err(io::Error::other("the answer is not what it has to be"));
        }
        outcome.exchanges += 1;
        outcome.bytes += match work {
            Work::Get { length, .. } | Work::Put { length, .. } => *length,
        };
        if Instant::now() >= end {
            return Ok(());
        }
    }
}

/// Reads a whole answer; whether it is a 200 with the body that was expected.
fn answer(wire: &mut Wire<'_>, expected: Option<u64>, check: &mut Check) -> io::Result<bool> {
    let head = wire.head()?.ok_or(io::ErrorKind::UnexpectedEof)?;
    check.restart();
    wire.body(head.body, check)?;
    let whole = expected.is_none_or(|length| check.good && check.bytes == length);
    Ok(whole && head.first.split_whitespace().nth(1) == Some("200"))
}
