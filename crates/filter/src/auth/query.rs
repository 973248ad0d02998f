//! Parameters of a query that are credentials.

use super::Finding;
use crate::{QueryEdit, RequestCx};
use thalweg_http::octet;

/// Names of parameters whose values no log contains (`thalweg_core::credentials`).
const HIDDEN: &[&str] =
    &["token", "access_token", "api_key", "key", "password", "secret", "signature", "sig"];

/// Whether this may be the name of a parameter that holds a secret.
///
/// # Errors
/// A sentence: logs would show it.
pub(crate) fn hidden_name(name: &str) -> Result<Box<str>, String> {
    match HIDDEN.contains(&name) {
        true => Ok(name.into()),
        false => Err(format!(
            "logs would show the parameter `{}`; take one whose value they leave out: {}",
            name.escape_debug(),
            HIDDEN.join(", ")
        )),
    }
}

/// The parameters of a query, as pairs of a decoded name and the pair as it stands there.
pub(crate) fn pairs(query: &[u8]) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
    let pairs = query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| (octet_decoded(name(pair)), pair))
}

fn name(pair: &[u8]) -> &[u8] {
    &pair[..memchr::memchr(b'=', pair).unwrap_or(pair.len())]
}

/// The value of a pair as it stands there.
pub(crate) fn value(pair: &[u8]) -> &[u8] {
    pair.get(name(pair).len() + 1..).unwrap_or_default()
}

/// The pair of a parameter; `None`: there is none.
///
/// # Errors
/// There are two, of which each could mean something else to somebody.
pub(crate) fn only<'a>(query: &'a [u8], wanted: &str) -> Result<Option<&'a [u8]>, Finding> {
    let mut found = pairs(query).filter(|(name, _)| name == wanted.as_bytes()).map(|(_, pair)| pair);
    let first = found.next();
    match found.next() {
        Some(_) => Err(Finding::refused(
            400,
            "a parameter that is a credential stands twice in the query",
            "a parameter stands twice",
        )),
        None => Ok(first),
    }
}

/// The same for a parameter that the service reads too: it stands there once, in whichever spelling.
///
/// # Errors
/// There are two, or one in another spelling that services take for it.
pub(crate) fn only_in_any_spelling<'a>(query: &'a [u8], wanted: &str) -> Result<Option<&'a [u8]>, Finding> {
    let first = only(query, wanted)?;
    let pieces = query.split(|byte| matches!(byte, b'&' | b';')).filter(|piece| !piece.is_empty());
    let found = pieces.filter(|piece| is_read_as(&octet_decoded(name(piece)), wanted.as_bytes())).count();
    match found > usize::from(first.is_some()) {
        true => Err(Finding::refused(
            400,
            "a parameter that is signed stands in the query in another spelling",
            "a signed parameter in another spelling",
        )),
        false => Ok(first),
    }
}

/// Whether services may take one name of a parameter for the other: they ignore case, cut white space in front and what
/// follows a NUL or a bracket, and take some characters for `_`. A name with a bracket counts as a whole.
fn is_read_as(sent: &[u8], wanted: &[u8]) -> bool {
    let ends = |byte: &u8| *byte == 0 || *byte == b'[' && !wanted.contains(&b'[');
    let sent = sent.trim_ascii_start();
    let sent = &sent[..sent.iter().position(ends).unwrap_or(sent.len())];
    let folded = |byte: &u8| if b" .+".contains(byte) { b'_' } else { byte.to_ascii_lowercase() };
    sent.iter().map(folded).eq(wanted.iter().map(folded))
}

/// Removes parameters from the query that goes upstream.
pub(crate) fn strip(cx: &mut RequestCx<'_>, names: &[&str]) {
    let query = match cx.target.query() {
        QueryEdit::Unchanged => cx.facts.query.unwrap_or_default(),
        QueryEdit::Removed => return,
        QueryEdit::Replaced(query) => &query[..],
    };
    let is_it = |name: &[u8]| names.iter().any(|known| known.as_bytes() == name);
    if !pairs(query).any(|(name, _)| is_it(&name)) {
        return;
    }
    let left = query.split(|byte| *byte == b'&').filter(|pair| !is_it(&octet_decoded(name(pair))));
    let left: Vec<&[u8]> = left.collect();
    let edit = if left.is_empty() { QueryEdit::Removed } else { QueryEdit::Replaced(left.join(&b"&"[..])) };
    cx.target.set_query(edit);
}

/// Escapes are the bytes that they stand for, `+` a space.
pub(crate) fn octet_decoded(text: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(byte) = text.get(at) {
        let digit = |at: usize| text.get(at).copied().and_then(octet::hex_digit);
        match (byte, digit(at + 1).zip(digit(at + 2))) {
            (b'%', Some((high, low))) => {
                out.push(high * 16 + low);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(*byte),
        }
        at += 1;
    }
    out
}
