//! Purges: what of the cache is to go, in the normal form that keys have.
//!
//! The admin API and messages of other replicas make a [`Purge`]; [`crate::WorkerPool::purge`] does it, on a thread
//! that may take its time. Invariant: what is named is brought to its normal form by the same functions as the URLs of
//! requests, so that a purge finds what a request would find.

#[cfg(test)]
mod tests;

use crate::plan::{Plan, Route};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::fmt;
use std::time::{Duration, SystemTime};
use thalweg_cache::{QueryRule, UnixMillis};
use thalweg_disk::Disk;
use thalweg_http::{Span, normalize_path, parse_authority, write_normal_host, write_query};
use thalweg_store::{How, PathIs, Select, Store};

/// For so long a purge waits for the disk.
const DISK_WAIT: Duration = Duration::from_secs(10);
/// Longest URL, prefix, host, tag and space, in bytes.
pub const PURGE_TEXT: usize = 8 * 1024;

/// What is to be purged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Purge {
    /// Which objects.
    pub what: PurgeWhat,
    /// Only what is stored in this space (`key.space`, or the name of a route).
    pub space: Option<String>,
    /// Only what this route uses: with what others store in the same space.
    pub route: Option<String>,
    /// They are stale from now on, in place of gone.
    pub is_soft: bool,
}

/// What a purge has done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PurgeDone {
    /// How many objects it was in memory. Those on a disk are gone too, and not counted.
    pub objects: u64,
    /// Whether the disk has it, so that it outlasts a restart; `None`: there is no disk.
    pub is_kept: Option<bool>,
}

/// Which objects.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PurgeWhat {
    /// Those of one URL.
    Url {
        /// Without its query.
        of: UrlFront,
        /// As clients write it; none is another one than an empty one.
        query: Option<String>,
        /// Whatever the query.
        any_query: bool,
    },
    /// Those whose URL begins so.
    Prefix(UrlFront),
    /// Those of a host, in normal form, and of a port.
    Host(String, Option<u16>),
    /// Those with this tag (`Cache-Tag`, `Surrogate-Key`).
    Tag(String),
    /// All.
    All,
}

/// Scheme, host, port and path in normal form.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UrlFront {
    is_https: bool,
    host: String,
    port: u16,
    path: String,
}

/// Why a text names nothing that could be stored: what is wrong, and what to write.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unpurgeable {
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to write instead.
    pub help: Option<&'static str>,
}

impl Unpurgeable {
    fn new(message: impl Into<String>, help: &'static str) -> Self {
        Self { message: message.into(), help: Some(help) }
    }
}

/// An example.
const URL_HELP: &str = "write for example `https://shop.example.com/products/42?lang=de`";

impl PurgeWhat {
    /// One URL, with exactly this query, or with any.
    ///
    /// # Errors
    /// It is none, or one that no request could have.
    pub fn url(text: &str, any_query: bool) -> Result<Self, Unpurgeable> {
        let (of, query) = UrlFront::read(text)?;
        Ok(Self::Url { of, query: query.filter(|_| !any_query), any_query })
    }

    /// What begins with this URL.
    ///
    /// # Errors
    /// It is none, or one that no request could have.
    pub fn prefix(text: &str) -> Result<Self, Unpurgeable> {
        match UrlFront::read(text)? {
            (of, None) => Ok(Self::Prefix(of)),
            _ => Err(Unpurgeable::new("a prefix has no query", "leave out what begins with `?`")),
        }
    }

    /// One host, with any port unless one is written.
    ///
    /// # Errors
    /// It is none.
    pub fn host(text: &str) -> Result<Self, Unpurgeable> {
        let (host, port) = authority(text)?;
        Ok(Self::Host(host, port))
    }

    /// One tag.
    ///
    /// # Errors
    /// No response could have it.
    pub fn tag(text: &str) -> Result<Self, Unpurgeable> {
        let is_in_tags = |byte: u8| (byte.is_ascii_graphic() || byte == b' ') && byte != b',';
        let is_tag = !text.is_empty() && text.len() <= PURGE_TEXT && text.trim() == text;
        if is_tag && text.bytes().all(is_in_tags) {
            return Ok(Self::Tag(text.to_owned()));
        }
        let help = "write one as a response has it in `Cache-Tag` or `Surrogate-Key`";
        Err(Unpurgeable::new("this is not a tag", help))
    }
}

fn authority(text: &str) -> Result<(String, Option<u16>), Unpurgeable> {
    let help = "write for example `shop.example.com` or `shop.example.com:8443`";
    let wrong = || Unpurgeable::new("this is not a host", help);
    if text.len() > PURGE_TEXT {
        return Err(wrong());
    }
    let found = parse_authority(text.as_bytes(), Span::new(0, text.len())).map_err(|_| wrong())?;
    let mut host = Vec::new();
    write_normal_host(found.host.of(text.as_bytes()), &mut host);
    Ok((String::from_utf8(host).map_err(|_| wrong())?, found.port))
}

impl UrlFront {
    /// A URL in normal form, and its query.
    fn read(text: &str) -> Result<(Self, Option<String>), Unpurgeable> {
        if text.len() > PURGE_TEXT {
            return Err(Unpurgeable::new(format!("the URL has more than {PURGE_TEXT} bytes"), URL_HELP));
        }
        if text.bytes().any(|byte| byte.is_ascii_control() || byte == b' ') {
            return Err(Unpurgeable::new("a URL holds no spaces", "write `%20` for a space"));
        }
        if text.contains('#') {
            return Err(Unpurgeable::new("a fragment (`#…`) is never sent", "leave it out"));
        }
        let after = |scheme: &str| {
            text.get(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(scheme))?;
            text.get(scheme.len()..)
        };
        let (is_https, rest) = match (after("https://"), after("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(Unpurgeable::new("a URL begins with `http://` or `https://` here", URL_HELP)),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (named, target) = rest.split_at(end);
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let (host, port) = authority(named)?;
        let mut normal = Vec::new();
        let path = if path.is_empty() { "/".to_owned() } else { encoded(path) };
        if let Err(fault) = normalize_path(path.as_bytes(), &mut normal) {
            return Err(Unpurgeable {
                message: format!("no request has this path: {}", fault.detail),
                help: None,
            });
        }
        let path = String::from_utf8(normal).map_err(|_| Unpurgeable::new("this is not a URL", URL_HELP))?;
        let query = query.map(|query| {
            let mut written = Vec::new();
            write_query(encoded(query).as_bytes(), &mut written);
            String::from_utf8_lossy(&written).into_owned()
        });
        let port = port.unwrap_or(if is_https { 443 } else { 80 });
        Ok((Self { is_https, host, port, path }, query))
    }

    fn scheme(&self) -> &'static str {
        if self.is_https { "https" } else { "http" }
    }
}

/// Letters outside ASCII as clients send them (RFC 3987 §3.1).
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_ascii() {
            true => encoded.push(letter),
            false => {
                let mut bytes = [0; 4];
                let bytes = letter.encode_utf8(&mut bytes).bytes();
                encoded.extend(bytes.map(|byte| format!("%{byte:02X}")));
            }
        }
    }
    encoded
}

impl fmt::Display for UrlFront {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.host)?;
        if self.port != if self.is_https { 443 } else { 80 } {
            write!(f, ":{}", self.port)?;
        }
        f.write_str(&self.path)
    }
}

impl PurgeWhat {
    /// The member that names it in the admin API, and its value.
    fn member(&self) -> (&'static str, String) {
        match self {
            Self::Url { of, query, .. } => {
                ("url", query.as_ref().map_or_else(|| of.to_string(), |query| format!("{of}?{query}")))
            }
            Self::Prefix(of) => ("prefix", of.to_string()),
            Self::Host(host, None) => ("host", host.clone()),
            Self::Host(host, Some(port)) => ("host", format!("{host}:{port}")),
            Self::Tag(tag) => ("tag", tag.clone()),
            Self::All => ("all", String::new()),
        }
    }
}

/// For people: `host shop.example.com, softly`.
impl fmt::Display for Purge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value) = self.what.member();
        match &self.what {
            PurgeWhat::All => f.write_str("everything")?,
            PurgeWhat::Url { any_query, .. } => {
                write!(f, "{value}{}", if *any_query { " with any query" } else { "" })?;
            }
            _ => write!(f, "{name} {value}")?,
        }
        if let Some(space) = &self.space {
            write!(f, " in the space `{space}`")?;
        }
        if let Some(route) = &self.route {
            write!(f, " of the route `{route}`")?;
        }
        f.write_str(if self.is_soft { ", softly" } else { "" })
    }
}

/// As the body of `POST /api/v1/cache/purge`.
impl Serialize for Purge {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match (&self.what, self.what.member()) {
            (PurgeWhat::All, (name, _)) => map.serialize_entry(name, &true)?,
            (_, (name, value)) => map.serialize_entry(name, &value)?,
        }
        if let PurgeWhat::Url { any_query: true, .. } = self.what {
            map.serialize_entry("any_query", &true)?;
        }
        for (name, value) in [("space", &self.space), ("route", &self.route)] {
            if let Some(value) = value {
                map.serialize_entry(name, value)?;
            }
        }
        if self.is_soft {
            map.serialize_entry("soft", &true)?;
        }
        map.end()
    }
}

impl Purge {
    /// Does it: every object in memory is looked at, so that it may take a while. The disk is told first: what it gives
    /// out meanwhile does not go back into memory.
    pub(crate) fn run(&self, plan: &Plan, (store, disk): (&Store, Option<&Disk>)) -> PurgeDone {
        self.select(plan, |select, how| {
            let begun = disk.map(|disk| disk.begin_purge(select, how));
            let objects = store.purge(select, how);
            PurgeDone { objects, is_kept: begun.map(|purging| purging.wait(DISK_WAIT)) }
        })
    }

    /// Does this with what is meant, and how.
    fn select<T>(&self, plan: &Plan, run: impl FnOnce(&Select<'_>, How) -> T) -> T {
        let spaces = self.spaces(plan);
        let spaces: Vec<&[u8]> = spaces.iter().map(|space| space.as_bytes()).collect();
        let how = if self.is_soft { How::MakeStale(now()) } else { How::Remove };
        let select = Select { spaces: &spaces, ..Select::default() };
        let of_url = |of: &'_ UrlFront| (of.scheme(), of.host.clone(), of.port);
        let (front, path): (_, &str) = match &self.what {
            PurgeWhat::All => return run(&select, how),
            PurgeWhat::Tag(tag) => return run(&Select { tag: Some(tag.as_bytes()), ..select }, how),
            PurgeWhat::Host(host, port) => {
                return run(&Select { host: Some(host.as_bytes()), port: *port, ..select }, how);
            }
            PurgeWhat::Url { of, .. } | PurgeWhat::Prefix(of) => (of_url(of), &of.path),
        };
        let queries = self.queries(plan);
        let queries: Vec<Option<&[u8]>> = queries.iter().map(Option::as_deref).collect();
        let path = match &self.what {
            PurgeWhat::Url { any_query: true, .. } => PathIs::Path(path.as_bytes()),
            PurgeWhat::Url { .. } => PathIs::Exactly(path.as_bytes(), &queries),
            _ => PathIs::Prefix(path.as_bytes()),
        };
        let (scheme, host, port) = front;
        let (scheme, host) = (Some(scheme.as_bytes()), Some(host.as_bytes()));
        run(&Select { scheme, host, port: Some(port), path: Some(path), ..select }, how)
    }

    /// The spaces that are meant; none: all.
    fn spaces(&self, plan: &Plan) -> Vec<String> {
        let mut spaces: Vec<String> = self.space.iter().cloned().collect();
        if let Some(name) = &self.route {
            // What it has stored before its configuration named a space.
            spaces.push(name.clone());
            let route = plan.routes.iter().find(|route| *route.name == **name);
            let found = route.into_iter().flat_map(Route::cache_rules).map(|rule| &*rule.key.space);
            spaces.extend(found.map(|space| space.split('\t').next().unwrap_or_default().to_owned()));
        }
        spaces.sort_unstable();
        spaces.dedup();
        spaces
    }

    /// The query as keys may have it: as it is, and as the routes' rules write it.
    fn queries(&self, plan: &Plan) -> Vec<Option<Vec<u8>>> {
        let PurgeWhat::Url { query, .. } = &self.what else { return Vec::new() };
        let Some(query) = query.as_ref().map(|query| query.as_bytes()) else { return vec![None] };
        let mut queries = vec![Some(query.to_vec())];
        for rule in plan.routes.iter().flat_map(Route::cache_rules) {
            let written = written(&rule.key.query, query);
            if !queries.contains(&written) {
                queries.push(written);
            }
        }
        queries
    }
}

fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    UnixMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn written(rule: &QueryRule, query: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    rule.write(query, &mut out).then_some(out)
}
