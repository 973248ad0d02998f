//! The key of a stored response: which requests may share it.
//!
//! Every part has its length in front, so that no two different requests have one key. The URL comes first: what is
//! stored for it, whoever asked, begins with the same bytes, and an unsafe request or a purge finds all of it. Values
//! of fields and cookies are secrets as often as not; the key has their SHA-256.

use crate::query::QueryRule;
use crate::request::FieldLines;
use crate::response::values;
use crate::vary::write_part;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use thalweg_http::{FieldId, FieldSet, octet};

/// Bytes that a key may have; a request with a longer one is not answered from the cache.
pub const MOST_KEY: usize = 32 * 1024;
/// Fields and cookies that a key may name.
pub const MOST_KEY_NAMES: usize = 16;

/// Fields that say nothing here: they end at this hop, the proxy writes them, or another part of the key has them.
const NO_PART: FieldSet = FieldSet::of(&[
    FieldId::Host,
    FieldId::Connection,
    FieldId::ContentLength,
    FieldId::TransferEncoding,
    FieldId::Te,
    FieldId::Trailer,
    FieldId::Upgrade,
    FieldId::KeepAlive,
    FieldId::ProxyConnection,
    FieldId::Proxy,
    FieldId::ProxyAuthorization,
    FieldId::Http2Settings,
    FieldId::Alias,
    FieldId::XForwardedFor,
    FieldId::XForwardedProto,
    FieldId::XForwardedHost,
    FieldId::XForwardedPort,
    FieldId::XForwardedOther,
    FieldId::Forwarded,
    FieldId::XRealIp,
    FieldId::TrueClientIp,
    FieldId::XRequestId,
    FieldId::Traceparent,
    FieldId::Tracestate,
    FieldId::ClientCert,
    FieldId::Via,
    FieldId::Cookie,
]);

/// Fields of a key for one client, beside its cookies: the standard one that tells clients apart, and those by which
/// services are known to do it.
pub const CREDENTIALS: [&str; 6] =
    ["authorization", "x-api-key", "api-key", "x-auth-token", "x-access-token", "x-amz-security-token"];

/// What a key is made of, beside the URL.
#[derive(Clone, Debug, Default)]
pub struct KeyRule {
    /// What this cache is not to share with others: the name of a route, or of a group of them. The same host and path
    /// may be another service on another listener.
    pub space: Box<str>,
    /// Which part of the query counts.
    pub query: QueryRule,
    /// Fields of the request whose values count.
    pub fields: Vec<Box<str>>,
    /// Cookies whose values count.
    pub cookies: Vec<Box<str>>,
}

impl KeyRule {
    /// Whether the names can be used.
    ///
    /// # Errors
    /// What is wrong, as a sentence with its remedy.
    pub fn check(&self) -> Result<(), String> {
        if self.fields.len() + self.cookies.len() > MOST_KEY_NAMES {
            return Err(format!("more than {MOST_KEY_NAMES} fields and cookies in a key; help: name fewer"));
        }
        for name in &self.fields {
            let bytes = name.as_bytes();
            if bytes.is_empty() || octet::token_len(bytes) != bytes.len() {
                return Err(format!(
                    "\"{name}\" is not the name of a field; help: write one like Accept-Language"
                ));
            }
            if NO_PART.contains(FieldId::classify(bytes)) {
                return Err(format!(
                    "\"{name}\" cannot be part of a key, since the proxy writes or removes it itself; help: host and \
                     scheme are parts in any case, cookies have a list of their own"
                ));
            }
        }
        let is_cookie = |name: &str| !name.is_empty() && octet::token_len(name.as_bytes()) == name.len();
        match self.cookies.iter().find(|name| !is_cookie(name)) {
            Some(name) => {
                Err(format!("\"{name}\" is not the name of a cookie; help: write one like session"))
            }
            None => self.query.check(),
        }
    }
}

/// The URL of a request, in normal form.
#[derive(Clone, Copy, Debug)]
pub struct Url<'a> {
    /// `http` or `https`, as the client used it.
    pub scheme: &'a str,
    /// The host in normal form, without a port.
    pub host: &'a [u8],
    /// The port that the client named, or that of the scheme.
    pub port: u16,
    /// The path in normal form.
    pub path: &'a [u8],
    /// The query, without `?`.
    pub query: Option<&'a [u8]>,
}

/// What ties a response to the client that caused it ([`crate::policy::Sharing::PerClient`]).
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// The method; GET for HEAD too, which is answered from what GET has brought.
    pub method: &'a [u8],
    /// The client's address, seen through trusted proxies only.
    pub address: IpAddr,
    /// What [`body_digest`] makes of the request's body; `None`: it has none.
    pub body: Option<[u8; 32]>,
}

/// The SHA-256 of a request's body with what the request says of it: the same bytes may be read in several ways.
pub fn body_digest<'a>(fields: impl FieldLines<'a>, body: &[u8]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for name in ["content-type", "content-encoding"] {
        let mut count = 0_u64;
        for value in values(fields.clone(), name) {
            count += 1;
            digest.update((value.len() as u64).to_be_bytes());
            digest.update(value);
        }
        digest.update(u64::MAX.to_be_bytes());
        digest.update(count.to_be_bytes());
    }
    digest.update(body);
    digest.finalize().into()
}

/// A key.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Key {
    bytes: Vec<u8>,
    url: usize,
}

/// A key would be longer than [`MOST_KEY`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeyTooLong;

impl Key {
    /// The key of a request; `client` where a response is for one client only.
    ///
    /// # Errors
    /// It is too long.
    pub fn of<'a>(
        rule: &KeyRule,
        url: &Url<'_>,
        fields: impl FieldLines<'a>,
        client: Option<&Client<'_>>,
    ) -> Result<Self, KeyTooLong> {
        let mut key = Self::default();
        key.set(rule, url, fields, client)?;
        Ok(key)
    }

    /// The same in place, without an allocation once it was long enough.
    ///
    /// # Errors
    /// It is too long.
    pub fn set<'a>(
        &mut self,
        rule: &KeyRule,
        url: &Url<'_>,
        fields: impl FieldLines<'a>,
        client: Option<&Client<'_>>,
    ) -> Result<(), KeyTooLong> {
        self.bytes.clear();
        let query = url.query.map_or(0, <[u8]>::len);
        if rule.space.len() + url.host.len() + url.path.len() + query > MOST_KEY / 2 {
            return Err(KeyTooLong);
        }
        self.write_url(rule, url);
        for name in &rule.fields {
            self.write_digest(b'h', name, values(fields.clone(), name));
        }
        for name in &rule.cookies {
            self.write_digest(b'c', name, cookies(fields.clone(), name.as_bytes()).into_iter());
        }
        if let Some(client) = client {
            self.write_client(client, fields);
        }
        if self.bytes.len() > MOST_KEY { Err(KeyTooLong) } else { Ok(()) }
    }

    /// Adds what the request becomes on its way to the service, where that is another URL than the client's: which one
    /// it is may depend on more than the client's URL.
    ///
    /// # Errors
    /// It is too long.
    pub fn add_target(&mut self, target: &[u8]) -> Result<(), KeyTooLong> {
        if self.bytes.len() + target.len() > MOST_KEY {
            return Err(KeyTooLong);
        }
        self.bytes.push(b't');
        write_part(target, &mut self.bytes);
        Ok(())
    }

    /// Adds what proxies before this one say of the request, as names and values, where the service gets it: by that it
    /// may choose what it answers. Where nothing is said, nothing is added.
    ///
    /// # Errors
    /// It is too long.
    pub fn add_said<'v>(
        &mut self,
        said: impl Iterator<Item = (&'v [u8], &'v [u8])>,
    ) -> Result<(), KeyTooLong> {
        let (mut digest, mut count) = (Sha256::new(), 0);
        for (name, value) in said {
            count += 1;
            for part in [&name.to_ascii_lowercase(), value] {
                digest.update((part.len() as u64).to_be_bytes());
                digest.update(part);
            }
        }
        if count > 0 {
            self.bytes.push(b'f');
            self.bytes.extend_from_slice(&digest.finalize());
        }
        if self.bytes.len() > MOST_KEY { Err(KeyTooLong) } else { Ok(()) }
    }

    /// Marks what clients that are verified share because the configuration lets them: where it does so no more,
    /// nothing of it is found.
    ///
    /// # Errors
    /// It is too long.
    pub fn add_shared(&mut self) -> Result<(), KeyTooLong> {
        self.bytes.push(b'v');
        if self.bytes.len() > MOST_KEY { Err(KeyTooLong) } else { Ok(()) }
    }

    fn write_url(&mut self, rule: &KeyRule, url: &Url<'_>) {
        let out = &mut self.bytes;
        write_part(rule.space.as_bytes(), out);
        write_part(url.scheme.as_bytes(), out);
        write_part(url.host, out);
        out.extend_from_slice(&url.port.to_be_bytes());
        write_part(url.path, out);
        match url.query {
            Some(query) => {
                let at = out.len();
                out.extend_from_slice(&[1, 0, 0, 0, 0]);
                if rule.query.write(query, out) {
                    let length = (out.len() - at - 5) as u32;
                    out[at + 1..at + 5].copy_from_slice(&length.to_be_bytes());
                } else {
                    out.truncate(at);
                    out.push(0);
                }
            }
            None => out.push(0),
        }
        self.url = out.len();
    }

    /// Appends the digest of all values of a name, each with its length.
    fn write_digest<'v>(&mut self, kind: u8, name: &str, found: impl Iterator<Item = &'v [u8]>) {
        self.bytes.push(kind);
        write_part(name.as_bytes(), &mut self.bytes);
        let (mut digest, mut count) = (Sha256::new(), 0);
        for value in found {
            count += 1;
            digest.update((value.len() as u64).to_be_bytes());
            digest.update(value);
        }
        self.bytes.push(u8::from(count > 0));
        if count > 0 {
            self.bytes.extend_from_slice(&digest.finalize());
        }
    }

    fn write_client<'a>(&mut self, client: &Client<'_>, fields: impl FieldLines<'a>) {
        self.bytes.push(b'p');
        write_part(client.method, &mut self.bytes);
        match client.address.to_canonical() {
            IpAddr::V4(address) => write_part(&address.octets(), &mut self.bytes),
            IpAddr::V6(address) => write_part(&address.octets(), &mut self.bytes),
        }
        for name in CREDENTIALS {
            self.write_digest(b'h', name, values(fields.clone(), name));
        }
        // Clients behind one address have sessions of their own.
        self.write_digest(b'h', "cookie", values(fields, "cookie"));
        self.bytes.push(u8::from(client.body.is_some()));
        self.bytes.extend_from_slice(client.body.as_ref().map_or(&[], |hash| &hash[..]));
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What all keys of one URL begin with, and no key of another one.
    pub fn url(&self) -> &[u8] {
        &self.bytes[..self.url]
    }
}

/// Precedes a part of the key that is not a plain cookie value. Cookie values cannot contain it.
const MARK: &[u8] = b";";

/// All values of a cookie, in order, since servers differ in the one that they use. Pairs that some servers read as
/// this cookie are included whole, each behind `MARK`.
fn cookies<'a>(fields: impl FieldLines<'a>, name: &[u8]) -> Vec<&'a [u8]> {
    let mut found = Vec::new();
    for line in values(fields, "cookie") {
        if has_other_pairs(line, name) {
            found.extend([MARK, line]);
        }
        for pair in line.split(|byte| *byte == b';').map(<[u8]>::trim_ascii) {
            match memchr::memchr(b'=', pair) {
                Some(end) if pair[..end].trim_ascii() == name => found.push(pair[end + 1..].trim_ascii()),
                _ if is_read_as(pair, name) => found.extend([MARK, pair]),
                _ => {}
            }
        }
    }
    found
}

/// Whether servers may find other pairs in a line than those between semicolons: some obey `$Version` and quotation
/// marks (RFC 2965), and some take a comma for a semicolon.
fn has_other_pairs(line: &[u8], name: &[u8]) -> bool {
    let is_open = |pair: &[u8]| memchr::memchr_iter(b'"', pair).count() % 2 == 1;
    let mut pairs = line.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let behind_a_comma =
        |pair: &[u8]| pair.split(|byte| *byte == b',').skip(1).any(|part| is_read_as(part, name));
    pairs.any(|pair| pair.starts_with(b"$") || is_open(pair) || behind_a_comma(pair))
}

/// Whether servers may take a pair for one of this name: they ignore case, cut a name at a bracket, take what is
/// neither letter nor digit for one character, and read a name without `=`.
fn is_read_as(pair: &[u8], name: &[u8]) -> bool {
    let written = pair[..memchr::memchr(b'=', pair).unwrap_or(pair.len())].trim_ascii();
    let is_end = |byte: &u8| *byte == b'[' && !name.contains(&b'[');
    let written = &written[..written.iter().position(is_end).unwrap_or(written.len())];
    let folded = |byte: &u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'_' };
    written.iter().map(folded).eq(name.iter().map(folded))
}

/// What a key says of its URL, for messages and for a purge by host or prefix.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyUrl<'k> {
    /// The space.
    pub space: &'k [u8],
    /// The scheme.
    pub scheme: &'k [u8],
    /// The host.
    pub host: &'k [u8],
    /// The port.
    pub port: u16,
    /// The path.
    pub path: &'k [u8],
    /// The part of the query that counts.
    pub query: Option<&'k [u8]>,
}

impl<'k> KeyUrl<'k> {
    /// Reads the front of a key; `None` where it is none.
    pub fn read(key: &'k [u8]) -> Option<Self> {
        let mut rest = key;
        let (space, scheme, host) = (part(&mut rest)?, part(&mut rest)?, part(&mut rest)?);
        let (port, after) = rest.split_first_chunk::<2>()?;
        rest = after;
        let path = part(&mut rest)?;
        let (has_query, after) = rest.split_first()?;
        rest = after;
        let query = if *has_query == 1 { Some(part(&mut rest)?) } else { None };
        Some(Self { space, scheme, host, port: u16::from_be_bytes(*port), path, query })
    }

    /// The space without the service that it may name behind a tab: what a route or the configuration calls it.
    pub fn space_name(&self) -> &'k [u8] {
        &self.space[..memchr::memchr(b'\t', self.space).unwrap_or(self.space.len())]
    }
}

impl std::fmt::Display for KeyUrl<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = String::from_utf8_lossy;
        write!(f, "{}://{}:{}{}", text(self.scheme), text(self.host), self.port, text(self.path))?;
        match self.query {
            Some(query) => write!(f, "?{}", text(query)),
            None => Ok(()),
        }
    }
}

/// Takes a part with its length in front.
fn part<'k>(rest: &mut &'k [u8]) -> Option<&'k [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (found, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *rest = after;
    Some(found)
}

#[cfg(test)]
mod tests;
