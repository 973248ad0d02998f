//! Reads the beginning of a ClientHello (RFC 8446 §4.1.2), without I/O: the name that the client asks for (RFC 6066 §3)
//! and the protocols that it offers (RFC 7301).
//!
//! Called with the first bytes of a connection, before anything is kept for it. Whole hellos are given to rustls
//! afterwards, which reads all of them; this reads names in the same way, so that both know the same client. A hello
//! may come in many records: only their headers are looked at until all of it is there.

use std::borrow::Cow;
use std::ops::Range;

use rustls::pki_types::ServerName;
use thalweg_core::limits::{TLS_HELLO, TLS_HELLO_RECORDS};

use crate::failure::Refused;

/// The content type of handshake records.
const HANDSHAKE: u8 = 22;
const RECORD_HEADER: usize = 5;
/// Most plaintext of a record.
const RECORD: usize = 16 * 1024;
const CLIENT_HELLO: u8 = 1;
const HANDSHAKE_HEADER: usize = 4;
/// TLS_CHACHA20_POLY1305_SHA256, and ECDHE_RSA and ECDHE_ECDSA with CHACHA20_POLY1305_SHA256 (RFC 7905).
const CHACHA20: [u16; 3] = [0x1303, 0xcca8, 0xcca9];
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
const TLS12: u16 = 0x0303;

/// What was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Read {
    /// Call again with more bytes, all from the start.
    Incomplete,
    /// All of it is there.
    Hello(Hello),
    /// It will never be one.
    Refused(Refused),
}

/// What a client says first, as far as the choice of certificates and protocols needs it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Hello {
    /// The name that it asks for (SNI), in lower case, without the dot of the root. An address counts as none.
    pub name: Option<String>,
    /// The application protocols that it offers, the preferred first.
    pub alpn: Vec<Vec<u8>>,
    /// The first cipher suite that it offers has ChaCha20: it has no hardware for AES. Reserved values (GREASE,
    /// RFC 8701) are passed over.
    pub puts_chacha20_first: bool,
}

/// Reads what was received so far. Takes as long as there are records, until all of it is there.
pub fn read(bytes: &[u8]) -> Read {
    match read_aged(bytes) {
        // rustls would name what such a hello lacks beside a version that it speaks.
        (Read::Hello(_), Age::Old) => Read::Refused(Refused::Version),
        (read, _) => read,
    }
}

/// The same where somebody else will answer it, who may speak older versions.
pub fn read_any(bytes: &[u8]) -> Read {
    read_aged(bytes).0
}

fn read_aged(bytes: &[u8]) -> (Read, Age) {
    match gather(bytes) {
        Ok(Some(message)) => match parse(&message) {
            Some((hello, age)) => (Read::Hello(hello), age),
            None => (Read::Refused(Refused::HelloMalformed), Age::Recent),
        },
        Ok(None) => (Read::Incomplete, Age::Recent),
        Err(refused) => (Read::Refused(refused), Age::Recent),
    }
}

/// The body of the handshake message, out of its records; `None`: more must come.
fn gather(bytes: &[u8]) -> Result<Option<Cow<'_, [u8]>>, Refused> {
    // The bytes of the message so far, and the first of them, which tell its kind and length.
    let (mut count, mut header) = (0, [0; HANDSHAKE_HEADER]);
    let mut at = 0;
    for _ in 0..TLS_HELLO_RECORDS {
        let Some(place) = record(bytes, at)? else { return wait(bytes) };
        let payload = &bytes[place.start.min(bytes.len())..place.end.min(bytes.len())];
        for (to, from) in header.iter_mut().skip(count).zip(payload) {
            *to = *from;
        }
        count += payload.len();
        if count > 0 && header[0] != CLIENT_HELLO {
            return Err(Refused::HelloMalformed);
        }
        let length = u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
        if length > TLS_HELLO {
            return Err(Refused::HelloTooLarge);
        }
        if place.end > bytes.len() {
            return wait(bytes);
        }
        if count >= HANDSHAKE_HEADER + length && count >= HANDSHAKE_HEADER {
            return collect(bytes, HANDSHAKE_HEADER + length).map(Some);
        }
        at = place.end;
    }
    Err(Refused::HelloTooLarge)
}

/// The first `length` bytes of what the records hold, without the message's header. Most hellos are one record: nothing
/// is copied then.
fn collect(bytes: &[u8], length: usize) -> Result<Cow<'_, [u8]>, Refused> {
    let mut gathered: Cow<'_, [u8]> = Cow::Borrowed(&[]);
    let mut at = 0;
    while gathered.len() < length {
        let place = record(bytes, at)?.ok_or(Refused::HelloMalformed)?;
        at = place.end;
        let payload = bytes.get(place).ok_or(Refused::HelloMalformed)?;
        match gathered.is_empty() {
            true => gathered = Cow::Borrowed(payload),
            false => gathered.to_mut().extend_from_slice(payload),
        }
    }
    match gathered {
        Cow::Borrowed(message) => Ok(Cow::Borrowed(&message[HANDSHAKE_HEADER..length])),
        Cow::Owned(message) => Ok(Cow::Owned(message[HANDSHAKE_HEADER..length].to_vec())),
    }
}

fn wait<'a>(bytes: &[u8]) -> Result<Option<Cow<'a, [u8]>>, Refused> {
    match bytes.len() > TLS_HELLO {
        true => Err(Refused::HelloTooLarge),
        false => Ok(None),
    }
}

/// Where the payload of the record at `at` stands, or will; `None`: its header is not all there.
fn record(bytes: &[u8], at: usize) -> Result<Option<Range<usize>>, Refused> {
    let header = bytes.get(at..).unwrap_or_default();
    let no_tls = if at == 0 { Refused::NoTls } else { Refused::HelloMalformed };
    match header.first() {
        Some(b'A'..=b'Z') if at == 0 => return Err(Refused::PlainHttp),
        Some(kind) if *kind != HANDSHAKE => return Err(no_tls),
        _ => {}
    }
    if header.get(1).is_some_and(|major| *major != 3) {
        return Err(no_tls);
    }
    let Some(header) = header.get(..RECORD_HEADER) else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if length == 0 || length > RECORD {
        return Err(Refused::HelloMalformed);
    }
    Ok(Some(at + RECORD_HEADER..at + RECORD_HEADER + length))
}

/// Of what a client speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Age {
    /// TLS 1.1 or older.
    Old,
    Recent,
}

/// Reads the message's body; `None`: it is malformed.
fn parse(body: &[u8]) -> Option<(Hello, Age)> {
    let mut hello = Hello::default();
    let mut rest = Bytes(body);
    let mut age = if rest.number()? < TLS12 { Age::Old } else { Age::Recent };
    // The random.
    rest.take(32)?;
    let session = rest.short()?;
    let suites = rest.long()?;
    let compressions = rest.short()?;
    if session.0.len() > 32 || suites.0.is_empty() || suites.0.len() % 2 != 0 || compressions.0.is_empty() {
        return None;
    }
    hello.puts_chacha20_first = leads_with_chacha20(suites);
    if rest.0.is_empty() {
        return Some((hello, age));
    }
    let mut extensions = rest.long()?;
    if !rest.0.is_empty() {
        return None;
    }
    let (mut named, mut offered) = (false, false);
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let data = extensions.long()?;
        match kind {
            SERVER_NAME if !std::mem::replace(&mut named, true) => hello.name = server_name(data)?,
            ALPN if !std::mem::replace(&mut offered, true) => hello.alpn = protocols(data)?,
            // What stands twice is malformed: two readers would know two clients.
            SERVER_NAME | ALPN => return None,
            // The other field does not count then (RFC 8446 §4.2.1).
            SUPPORTED_VERSIONS => age = Age::Recent,
            _ => {}
        }
    }
    Some((hello, age))
}

fn leads_with_chacha20(mut suites: Bytes<'_>) -> bool {
    let is_grease = |suite: &u16| suite & 0x0f0f == 0x0a0a && suite >> 8 == suite & 0xff;
    std::iter::from_fn(|| suites.number())
        .find(|suite| !is_grease(suite))
        .is_some_and(|it| CHACHA20.contains(&it))
}

/// The host name of the list, which has one at most. Where a name of another kind stands the rest cannot be read
/// (RFC 6066 §3 defines no other).
fn server_name(mut data: Bytes<'_>) -> Option<Option<String>> {
    let mut list = data.long()?;
    if !data.0.is_empty() || list.0.is_empty() {
        return None;
    }
    let mut found = None;
    while let [0, ..] = list.0 {
        list.take(1)?;
        if found.replace(list.long()?.0).is_some() {
            return None;
        }
    }
    let name = std::str::from_utf8(found?).ok()?;
    match ServerName::try_from(name).ok()? {
        ServerName::DnsName(_) => Some(Some(name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase())),
        _ => Some(None),
    }
}

fn protocols(mut data: Bytes<'_>) -> Option<Vec<Vec<u8>>> {
    let mut list = data.long()?;
    if !data.0.is_empty() || list.0.is_empty() {
        return None;
    }
    let mut protocols = Vec::new();
    while !list.0.is_empty() {
        let protocol = list.short()?.0;
        if protocol.is_empty() {
            return None;
        }
        protocols.push(protocol.to_vec());
    }
    Some(protocols)
}

/// Bytes that are read from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// What has its length in one byte before it.
    fn short(&mut self) -> Option<Bytes<'a>> {
        let length = usize::from(self.take(1)?[0]);
        self.take(length).map(Bytes)
    }

    /// What has its length in two bytes before it.
    fn long(&mut self) -> Option<Bytes<'a>> {
        let length = usize::from(self.number()?);
        self.take(length).map(Bytes)
    }
}

#[cfg(test)]
mod tests;
