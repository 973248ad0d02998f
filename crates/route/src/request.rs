//! What the router is asked: the parts of a request that routes can match.
//!
//! The proxy fills it from the parsed head, `explain` from its command line. It borrows everything.

use std::fmt;
use std::net::IpAddr;

/// One request as the router sees it.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// The listener that it came in on: its number in the plan.
    pub listener: u16,
    /// The host in normal form (lower case, no trailing dot), without port; IPv6 in brackets
    /// and in the form of RFC 5952; may be empty.
    pub host: &'a [u8],
    /// The path in the matched form (decision 0005), compared as bytes; `*` for an asterisk-form target.
    pub path: &'a [u8],
    /// The query without `?`, as it came; empty when there is none.
    pub query: &'a [u8],
    /// The method, case-sensitive (RFC 9110 §9.1).
    pub method: &'a [u8],
    /// The client's address, after trusted proxies were taken into account.
    pub client: IpAddr,
    /// The header fields.
    pub fields: &'a dyn FieldLookup,
}

impl<'a> Query<'a> {
    /// Of a connection, of which only the listener and the name are known that its client asks for; `host` may be
    /// empty.
    pub fn of_connection(listener: u16, host: &'a [u8], client: IpAddr) -> Self {
        Self { listener, host, path: b"/", query: b"", method: b"", client, fields: &NoFields }
    }
}

impl fmt::Debug for Query<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("listener", &self.listener)
            .field("host", &String::from_utf8_lossy(self.host))
            .field("path", &String::from_utf8_lossy(self.path))
            .field("query", &String::from_utf8_lossy(self.query))
            .field("method", &String::from_utf8_lossy(self.method))
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// Access to the header fields of a request.
pub trait FieldLookup {
    /// Calls `test` with the value of each field called `name` (lower case) until it returns true;
    /// whether it did. Field lines are not split at commas.
    fn any(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool;
}

/// A request without header fields.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFields;

impl FieldLookup for NoFields {
    fn any(&self, _name: &str, _test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        false
    }
}
