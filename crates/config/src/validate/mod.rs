//! Checks that need more than one value or a notation of their own; what passes becomes plan types.
//!
//! Called by `compile`, section by section. Every function reports all it finds and returns what
//! could still be understood, so that later sections are checked too.

mod access;
mod access_log;
mod acme;
mod address;
mod cache;
mod canary;
mod chains;
mod client_auth;
mod connections;
mod key;
mod limits;
mod listeners;
mod numbers;
mod routes;
mod sealed;
mod secret;
mod services;
mod settings;
mod slos;
mod statuses;
mod targets;
mod test_cases;
mod tls;
mod tracing;
mod webhooks;

pub(crate) use access::access;
pub(crate) use cache::{asks_too_late, cache, caches};
pub(crate) use chains::{Chains, FilterPlace};
pub(crate) use connections::{Link, Traffic, connections};
pub(crate) use limits::Bounds;
pub(crate) use listeners::listeners;
pub(crate) use numbers::{bounded, deadline, number};
pub(crate) use routes::{Names, encoded, route};
pub(crate) use sealed::sealed;
pub(crate) use secret::Secrets;
pub(crate) use services::{Context, Deadlines, Retries, inline, services, stand_in};
pub(crate) use settings::{
    CONNECTIONS_MAX, client_timeouts, limits, requests, settings, shutdown, trusted_proxies,
};
pub(crate) use slos::{Subjects, slos};
pub(crate) use targets::Target;
pub(crate) use test_cases::{Known, run_tests, tests};
pub(crate) use tracing::tracing;

use crate::diagnose::{Problems, SpecError};
use crate::source::Span;
use crate::spec::Spanned;
use address::Flaw;
use ipnet::IpNet;
use numbers::{duration, percent};
use std::net::IpAddr;
use std::sync::Arc;
use thalweg_upstream::Address;

/// The URL of an endpoint in its written form and its address; else what is wrong, and the help.
pub(crate) fn endpoint(url: &str) -> Result<(Arc<str>, Address), (String, Option<String>)> {
    address::endpoint(url).map_err(|flaw| (flaw.message, flaw.help))
}

/// Longest name of a listener, route or service, in bytes.
const NAME: usize = 128;

/// Whether a name can be shown everywhere: not empty, not long, no control characters.
fn check_name(name: &str, span: Span, problems: &mut Problems) {
    let message = if name.trim().is_empty() {
        "a name must not be empty"
    } else if name.len() > NAME {
        "a name has at most 128 bytes"
    } else if name.chars().any(char::is_control) {
        "a name must not hold control characters"
    } else {
        return;
    };
    problems.push(SpecError::value(span, "name", message));
}

impl Flaw {
    fn at(self, span: Span, subject: &'static str) -> SpecError {
        SpecError::value(span, subject, self.message).class(self.class).maybe_help(self.help)
    }
}

/// A network such as `10.0.0.0/8`, or one address.
fn network(text: &Spanned<String>, problems: &mut Problems) -> Option<IpNet> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.into());
    }
    if let Ok(net) = text.parse::<IpNet>() {
        let trimmed = net.trunc();
        if trimmed == net {
            return Some(net);
        }
        let message = format!("`{net}` has bits set behind its prefix");
        problems.push(
            SpecError::value(text.span, "network", message)
                .help(format!("write `{trimmed}` for the network or `{}` for one address", net.addr())),
        );
        return None;
    }
    problems.push(
        SpecError::value(text.span, "network", format!("`{}` is not a network or an address", text.value))
            .help("write for example `10.0.0.0/8`, `2001:db8::/32` or `192.0.2.7`"),
    );
    None
}

/// RFC 9110 §5.6.2: the characters of methods and field names.
fn is_token(text: &str) -> bool {
    let special = b"!#$%&'*+-.^_`|~";
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || special.contains(&b))
}

/// The last line of a message of several lines: regex errors end with the cause.
fn cause(message: &str) -> &str {
    let last = message.lines().last().unwrap_or(message).trim();
    last.strip_prefix("error: ").unwrap_or(last)
}
