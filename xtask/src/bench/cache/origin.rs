//! The origin: nginx, which says how many requests have reached it.

use std::cell::Cell;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::configs;
use crate::bench::contestant::{Place, Running};
use crate::command::locate;

/// Where the number of requests stands.
pub(super) const STATUS: &str = "/status";
/// Objects of one KB: any name below this.
pub(super) const SMALL: &str = "/small/";
/// Their size.
pub(super) const SMALL_BYTES: usize = 1000;
/// Objects of 64 KB: any name below this.
pub(super) const LARGE: &str = "/large/";
/// Their size, and the name of the file.
pub(super) const LARGE_BYTES: usize = 64 * 1024;
/// Time for an answer of the origin.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running origin.
pub(super) struct Origin {
    running: Running,
    /// Questions for the number of requests.
    asked: Cell<u64>,
}

impl Origin {
    /// Starts it on these CPUs; entrants of the place are before it.
    pub(super) fn start(nginx: &Path, cpus: &str, place: &mut Place) -> Result<Self> {
        let (address, folder) = (place.address()?, place.next_folder()?);
        fs::write(folder.join(LARGE_BYTES.to_string()), vec![b'x'; LARGE_BYTES])?;
        let file = folder.join("origin.conf");
        fs::write(&file, configs::origin(&folder, address))?;
        let mut command = place.command(cpus, &locate(nginx).context("nginx is not here")?);
        command.arg("-p").arg(&folder).arg("-c").arg(&file);
        let running = place.start(command, &folder, address, ("bench", "/"));
        let running = running.context("the origin does not start")?;
        place.backend = address;
        Ok(Self { running, asked: Cell::new(0) })
    }

    /// Requests that have reached it so far, those for this number left out.
    pub(super) fn requests(&self) -> Result<u64> {
        self.asked.set(self.asked.get() + 1);
        let text = status(self.running.address)?;
        let count = counted(&text).with_context(|| format!("the origin says no number:\n{text}"))?;
        Ok(count.saturating_sub(self.asked.get()))
    }
}

fn status(address: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {STATUS} HTTP/1.1\r\nHost: origin\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// The third number below `server accepts handled requests`.
fn counted(text: &str) -> Option<u64> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("server accepts"));
    lines.nth(1)?.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_requests_is_read() {
        let text = "HTTP/1.1 200 OK\r\n\r\nActive connections: 1 \nserver accepts handled requests\n 5 5 17 \n\
                    Reading: 0 Writing: 1 Waiting: 0 \n";
        assert_eq!(counted(text), Some(17));
        assert_eq!(counted("HTTP/1.1 404 Not Found\r\n\r\n"), None);
    }
}
