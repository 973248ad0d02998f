//! A whole request stream, pipelined, as our engine and as hyper's server read it.
//!
//! Input: what a client sends on one connection. Our engine reads it whole, hyper in pieces. Asserts:
//! whatever both accept agrees in method, target, version, fields, payload, trailers and, because the
//! next message begins where this one ends, in its boundaries; we never wait for more of a message
//! that hyper took as whole (two servers in a row would then disagree about what belongs to it).
//!
//! What hyper refuses or closes after and the proxy would take must be on the list of [`allowed`], with
//! its reason. What we refuse and hyper takes needs none: being stricter is the point.

use crate::engine::{self, End, Message};
use crate::hyper_side::{self, Outcome};
use crate::{Draw, cut};

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let (ours, end) = engine::read(input);
    let theirs = hyper_side::read(&cut(input, &Draw::of(input).ends(input.len())));
    for (index, read) in ours.iter().enumerate() {
        let taken = theirs.taken.get(index).filter(|taken| taken.done && taken.broken.is_none());
        let Some(taken) = taken else {
            let why = refusal(&theirs, index);
            let sound = read.refused.is_none();
            assert!(
                !sound || allowed(&ours[..=index], why.as_deref()),
                "message {index}: hyper: {why:?}\n{read:#?}"
            );
            return;
        };
        let mut message = read.message.clone();
        if message.target.is_empty() {
            // No target of ours to compare: the proxy refuses it.
            message.target.clone_from(&taken.message.target);
        }
        assert_eq!(message, taken.message, "message {index}");
        if read.may_switch {
            // After a granted upgrade or CONNECT nothing of HTTP is compared.
            return;
        }
    }
    let more = theirs.taken.get(ours.len()).filter(|taken| taken.done && taken.broken.is_none());
    assert!(more.is_none() || !matches!(end, End::Partial), "we wait, hyper has taken {more:#?}");
}

/// Why hyper did not take this message; nothing if it closed without complaint.
fn refusal(theirs: &Outcome, index: usize) -> Option<String> {
    theirs.taken.get(index).and_then(|taken| taken.broken.clone()).or_else(|| theirs.error.clone())
}

/// Differences that are known and harmless: `messages` ends with the one that hyper did not take.
fn allowed(messages: &[engine::Read], why: Option<&str>) -> bool {
    let [before @ .., last] = messages else { return false };
    // hyper's URIs hold some raw characters and not others, and it knows no HTTP/1.2.
    if last.has_raw_target || last.is_newer {
        return true;
    }
    match why {
        // hyper closes after a message whose `Connection` it cannot read as ASCII and, in HTTP/1.0, one that
        // it does not find `keep-alive` in.
        None => before.last().is_some_and(|last| has_obscure_connection(&last.message)),
        Some(_) => false,
    }
}

fn has_obscure_connection(message: &Message) -> bool {
    let mut values = message.fields.iter().filter(|(name, _)| name == b"connection");
    values.any(|(_, value)| !value.is_ascii())
}
