//! What is asked of the proxy beside the load: its metrics, or the views of a dashboard.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::configs::ADMIN_TOKEN;

/// Time between two rounds of questions.
const PERIOD: Duration = Duration::from_secs(1);
/// The longest wait for an answer.
const WAIT: Duration = Duration::from_secs(5);

/// Paths that are asked for, one after the other, every second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poll {
    pub(super) paths: &'static [&'static str],
}

/// Does `work` while these questions are asked; an answer that is not 200 is an error.
pub(super) fn beside<T>(
    poll: Option<Poll>,
    address: SocketAddr,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let Some(poll) = poll else { return work() };
    let (stop, stopped) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let asking = scope.spawn(move || -> Result<()> {
            loop {
                for path in poll.paths {
                    ask(address, path).with_context(|| format!("GET {path}"))?;
                }
                if stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                    return Ok(());
                }
            }
        });
        let done = work();
        drop(stop);
        asking.join().map_err(|_| anyhow!("the thread that asks panicked"))??;
        done
    })
}

fn ask(address: SocketAddr, path: &str) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(WAIT))?;
    let fields = format!("Host: {address}\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\nConnection: close");
    stream.write_all(format!("GET {path} HTTP/1.1\r\n{fields}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    if !answer.starts_with(b"HTTP/1.1 200 ") {
        bail!("answered with {:?}", String::from_utf8_lossy(&answer).lines().next().unwrap_or_default());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// One answer on a port of the kernel's choice.
    fn answering(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        address
    }

    #[test]
    fn a_refused_question_is_an_error_of_the_work() {
        let poll = Some(Poll { paths: &["/metrics"] });
        let fine = answering("HTTP/1.1 200 OK\r\n\r\n");
        assert_eq!(beside(poll, fine, || Ok(7)).unwrap(), 7);
        let refused = answering("HTTP/1.1 401 Unauthorized\r\n\r\n");
        let error = format!("{:#}", beside(poll, refused, || Ok(7)).unwrap_err());
        assert!(error.contains("GET /metrics") && error.contains("401"), "{error}");
    }
}
