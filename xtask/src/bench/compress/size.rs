//! What one response comes to on the wire.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The longest wait for a response.
const WAIT: Duration = Duration::from_secs(5);

/// Bytes of the body of one response in this coding.
pub(super) fn of(address: SocketAddr, path: &str, coding: &str) -> Result<usize> {
    let response = ask(address, path, coding)?;
    let (head, body) = split(&response).context("no whole head")?;
    let named = field(&head, "content-encoding").unwrap_or_default();
    if named != coding {
        bail!("the response is coded with `{named}` in place of `{coding}`");
    }
    match field(&head, "transfer-encoding") {
        Some(_) => dechunked(body).context("broken chunks"),
        None => Ok(body.len()),
    }
}

/// The status of one response.
pub(super) fn status(address: SocketAddr, path: &str) -> Result<u16> {
    let response = ask(address, path, "")?;
    let (head, _) = split(&response).context("no whole head")?;
    head.split_whitespace().nth(1).and_then(|word| word.parse().ok()).context("no status")
}

fn ask(address: SocketAddr, path: &str, coding: &str) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(WAIT))?;
    let accepts = if coding.is_empty() { String::new() } else { format!("Accept-Encoding: {coding}\r\n") };
    write!(stream, "GET {path} HTTP/1.1\r\nHost: bench\r\n{accepts}Connection: close\r\n\r\n")?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    Ok(response)
}

/// The head in lower case, and what follows it.
fn split(response: &[u8]) -> Option<(String, &[u8])> {
    let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    Some((String::from_utf8_lossy(&response[..end]).to_lowercase(), &response[end + 4..]))
}

fn field(head: &str, name: &str) -> Option<String> {
    let line = head.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))?;
    Some(line[name.len() + 1..].trim().to_owned())
}

/// Bytes in the chunks.
fn dechunked(mut body: &[u8]) -> Option<usize> {
    let mut all = 0;
    loop {
        let end = body.windows(2).position(|bytes| bytes == b"\r\n")?;
        let length = usize::from_str_radix(str::from_utf8(&body[..end]).ok()?, 16).ok()?;
        if length == 0 {
            return Some(all);
        }
        all += length;
        body = body.get(end + 2 + length + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_counted_without_their_framing() {
        assert_eq!(dechunked(b"5\r\nhello\r\na\r\n0123456789\r\n0\r\n\r\n"), Some(15));
        assert_eq!(dechunked(b"5\r\nhel"), None);
        let (head, body) = split(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nbody").unwrap();
        assert_eq!((field(&head, "content-encoding").as_deref(), body), (Some("gzip"), &b"body"[..]));
    }
}
