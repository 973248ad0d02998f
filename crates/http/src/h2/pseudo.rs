//! The pseudo-fields of a request: what of them becomes its first line and its host (RFC 9113 §8.3.1, RFC 8441 §4).
//!
//! Checked after the codec, which lets pass what HTTP/1 could not say safely: everything here holds
//! whatever the codec does, but for what is missing.

use thalweg_core::Fault;

use crate::authority::{Authority, parse_authority, write_normal_host};
use crate::h1::request::{METHOD_MAX, MISCASED};
use crate::method::Method;
use crate::octet;
use crate::rules::Upgrade;
use crate::span::Span;

/// The pseudo-fields, as far as they were sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pseudo<'a> {
    /// `:method`
    pub method: &'a [u8],
    /// `:scheme`. Its absence is the codec's business: what keeps it in a URI has none without an authority.
    pub scheme: Option<&'a [u8]>,
    /// `:authority`
    pub authority: Option<&'a [u8]>,
    /// `:path`
    pub path: Option<&'a [u8]>,
    /// `:protocol`
    pub protocol: Option<&'a [u8]>,
}

/// The first line of a request as HTTP/1 would say it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct FirstLine<'a> {
    pub(super) method: Method,
    pub(super) method_text: &'a [u8],
    pub(super) target: &'a [u8],
    pub(super) has_raw_target: bool,
    pub(super) upgrade: Upgrade,
}

impl<'a> Pseudo<'a> {
    /// The first line: token, target bytes and nothing else. An extended CONNECT to a WebSocket is a GET with
    /// an upgrade. Which methods and forms of targets are served is decided where it is for HTTP/1.
    ///
    /// # Errors
    /// 400 for what cannot be said or contradicts itself (D1, D2), 501 for another protocol than `websocket`.
    pub(super) fn first_line(&self) -> Result<FirstLine<'a>, Fault> {
        let refuse = |detail| Err(Fault::request(400, detail));
        let method_text = self.method;
        if method_text.is_empty() || octet::token_len(method_text) < method_text.len() {
            return refuse("a forbidden character in the method");
        }
        if method_text.len() > METHOD_MAX {
            return refuse("the method is too long");
        }
        if self.scheme.is_some_and(|scheme| port_of(scheme).is_none()) {
            return refuse("a :scheme other than http and https");
        }
        if let Some(authority) = self.authority {
            read_authority(authority)?;
        }
        let method = Method::from_bytes(method_text);
        if method == Method::Other && Method::is_miscased(method_text) {
            return refuse(MISCASED);
        }
        let line =
            FirstLine { method, method_text, target: b"", has_raw_target: false, upgrade: Upgrade::None };
        match (method, self.protocol) {
            (Method::Connect, None) => match (self.authority, self.scheme, self.path) {
                (Some(target), None, None) => Ok(FirstLine { target, ..line }),
                (None, _, _) => refuse("CONNECT without :authority"),
                _ => refuse("CONNECT with :scheme or :path"),
            },
            (Method::Connect, Some(protocol)) if protocol.eq_ignore_ascii_case(b"websocket") => {
                if self.authority.is_none() {
                    return refuse("CONNECT without :authority");
                }
                let (target, has_raw_target) = target(self.path)?;
                let upgrade = Upgrade::WebSocket;
                Ok(FirstLine { method: Method::Get, method_text: b"GET", target, has_raw_target, upgrade })
            }
            (Method::Connect, Some(_)) => {
                Err(Fault::request(501, "CONNECT with a protocol other than websocket"))
            }
            (_, Some(_)) => refuse(":protocol with a method other than CONNECT"),
            (_, None) => {
                let (target, has_raw_target) = target(self.path)?;
                Ok(FirstLine { target, has_raw_target, ..line })
            }
        }
    }

    /// Whether `host` names the same authority as `:authority` does: neither case, a last dot nor the port of
    /// the scheme matter.
    ///
    /// # Errors
    /// 400 for a host that is none.
    pub(super) fn is_same_host(&self, authority: &[u8], host: &[u8]) -> Result<bool, Fault> {
        if authority.eq_ignore_ascii_case(host) {
            return Ok(true);
        }
        let own = self.scheme.and_then(port_of).unwrap_or(80);
        let normal = |text| -> Result<_, Fault> {
            let authority = read_authority(text)?;
            let mut name = Vec::with_capacity(text.len());
            write_normal_host(authority.host.of(text), &mut name);
            Ok((name, authority.port.unwrap_or(own)))
        };
        Ok(normal(authority)? == normal(host)?)
    }
}

fn read_authority(text: &[u8]) -> Result<Authority, Fault> {
    // Offsets of 4 GiB do not occur: the codec bounds the head far below.
    parse_authority(text, Span::new(0, text.len()))
}

/// The port of a scheme that is served.
fn port_of(scheme: &[u8]) -> Option<u16> {
    match scheme {
        _ if scheme.eq_ignore_ascii_case(b"http") => Some(80),
        _ if scheme.eq_ignore_ascii_case(b"https") => Some(443),
        _ => None,
    }
}

/// A path, or `*`, and whether it has raw bytes ([`octet::is_raw`]). What HTTP/1 calls absolute form is none.
fn target(path: Option<&[u8]>) -> Result<(&[u8], bool), Fault> {
    let path = path.unwrap_or_default();
    let plain = octet::target_len(path);
    let raw = octet::raw_target_len(&path[plain..]);
    let detail = match path.get(plain + raw) {
        Some(b'#') => "a fragment in the request target",
        Some(0) => "NUL in the request target",
        Some(0x80..) => "a byte above 0x7f in the request target",
        Some(_) => "a forbidden character in the request target",
        None if path.starts_with(b"/") || path == b"*" => return Ok((path, raw > 0)),
        None if path.is_empty() => "no :path",
        None => "a :path that does not begin with a slash",
    };
    Err(Fault::request(400, detail))
}
