//! Calls a filter with one request, without a proxy.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use thalweg_filter::{
    ConfigFiles, Facts, Filter, FilterSpec, FilterStates, HeadFields, NoConnection, QueryEdit, RequestCx,
    RequestOutcome, TargetEdit, Verdict,
};
use thalweg_http::{FieldSet, Version, octet};

/// The time of every request, in seconds since the Unix epoch.
pub(crate) const NOW: u64 = 1_800_000_000;

/// A source of files without any file.
struct NoFiles;

impl ConfigFiles for NoFiles {
    fn path(&self, written: &str) -> PathBuf {
        written.into()
    }

    fn read(&self, _written: &str, _limit: usize) -> Result<Vec<u8>, String> {
        Err("there is no file".into())
    }

    fn variable(&self, _name: &str) -> Option<String> {
        None
    }
}

/// The filter of an entry of `filters:`, in JSON.
pub(crate) fn filter(json: &str) -> Arc<dyn Filter> {
    let spec: FilterSpec = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}"));
    spec.build(&NoFiles).unwrap_or_else(|error| panic!("{error}"))
}

/// A request of a browser through TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking<'a> {
    pub(crate) method: &'a [u8],
    pub(crate) host: &'a [u8],
    /// In normal form, as routes match it.
    pub(crate) path: &'a [u8],
    pub(crate) query: Option<&'a [u8]>,
    /// The value of `Cookie`; a value that a parser refuses is left out.
    pub(crate) cookie: &'a [u8],
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) verdict: Verdict,
    /// The lines of the forwarded fields.
    pub(crate) fields: Vec<u8>,
    /// The forwarded query.
    pub(crate) query: Option<Vec<u8>>,
}

/// Calls the filter with the request.
pub(crate) fn ask(filter: &dyn Filter, asking: &Asking<'_>) -> Asked {
    let mut fields = b"Accept: text/html\r\n".to_vec();
    if octet::value_len(asking.cookie) == asking.cookie.len() && !asking.cookie.is_empty() {
        fields.extend([b"Cookie: ", asking.cookie.trim_ascii(), b"\r\n"].concat());
    }
    let client = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let facts = Facts {
        method: asking.method,
        scheme: "https",
        host: asking.host,
        port: 443,
        path: asking.path,
        readings: None,
        query: asking.query,
        client_ip: client,
        peer: client,
        request_id: None,
        is_trusted: false,
        listener: "web",
        route: "r",
        service: "s",
        version: Version::Http11,
        patterns: &[],
        now: Instant::now(),
        unix_seconds: NOW,
        connection: &NoConnection,
        is_dry_run: false,
    };
    let (mut target, mut known) = (TargetEdit::default(), FieldSet::default());
    let (mut states, mut outcome) = (FilterStates::default(), RequestOutcome::default());
    target.begin(asking.path);
    let head = HeadFields::new(&mut [], &[], (&mut fields, 0), &mut known);
    let lent = (&mut states, &mut outcome);
    let verdict = filter.on_request(&mut RequestCx::new(facts, (&mut target, head), lent, (false, None)));
    let query = match target.query() {
        QueryEdit::Unchanged => asking.query.map(<[u8]>::to_vec),
        QueryEdit::Replaced(query) => Some(query.clone()),
        QueryEdit::Removed => None,
    };
    Asked { verdict, fields, query }
}

/// Name and value of each line of fields.
pub(crate) fn lines(fields: &[u8]) -> Vec<(&str, &str)> {
    let text = std::str::from_utf8(fields).expect("fields are text");
    assert!(text.is_empty() || text.ends_with("\r\n"), "{text:?}");
    let lines = text.split_terminator("\r\n").map(|line| {
        assert!(!line.chars().any(char::is_control), "{line:?}");
        line.split_once(": ").expect("a line is a name and a value")
    });
    lines.collect()
}
