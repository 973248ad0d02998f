//! The text of a section: escapes, implied line ends, repetitions and wildcards.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::signature::hmac_sha256_bytes;

/// A piece of a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Piece {
    /// These bytes.
    Literal(Vec<u8>),
    /// `{any}`: anything up to the end of the line, also nothing.
    Any,
    /// `{uuid}`: a request id made by the proxy.
    Uuid,
    /// `{forwarded}`: the fields that the proxy adds, with the version of its `Via`.
    Forwarded(&'static str),
    /// `{anything}`: any field lines of a head.
    Lines,
    /// `{chunks:…}`: chunks that hold these bytes, however they are cut.
    Chunks(Vec<u8>),
}

/// Reads the lines of a section; `raw` ones have no implied line ends.
///
/// # Errors
/// What is wrong with the text.
pub(super) fn pieces(lines: &[&str], raw: bool) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    for line in lines {
        let (line, ends) = match line.strip_suffix('\\').filter(|rest| !rest.ends_with('\\')) {
            Some(rest) => (rest, false),
            None => (*line, !raw),
        };
        read_line(line, &mut pieces)?;
        if ends {
            push(&mut pieces, b"\r\n");
        }
    }
    Ok(pieces)
}

/// Reads the lines of a section that is sent: only bytes.
///
/// # Errors
/// What is wrong with the text; wildcards are.
pub(super) fn bytes(lines: &[&str], raw: bool) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for piece in pieces(lines, raw)? {
        let Piece::Literal(literal) = piece else {
            return Err(format!("a wildcard cannot be sent: {piece:?}"));
        };
        bytes.extend(literal);
    }
    Ok(bytes)
}

fn push(pieces: &mut Vec<Piece>, bytes: &[u8]) {
    if let Some(Piece::Literal(literal)) = pieces.last_mut() {
        literal.extend_from_slice(bytes);
    } else {
        pieces.push(Piece::Literal(bytes.to_vec()));
    }
}

fn read_line(line: &str, pieces: &mut Vec<Piece>) -> Result<(), String> {
    let mut rest = line;
    while let Some(at) = rest.find(['\\', '{', '}']) {
        push(pieces, &rest.as_bytes()[..at]);
        rest = &rest[at..];
        if let Some(operator) = rest.strip_prefix('{') {
            let end = closing(operator).ok_or_else(|| format!("`{{` without `}}` in {line:?}"))?;
            read_operator(&operator[..end], pieces)?;
            rest = &operator[end + 1..];
        } else if rest.starts_with('\\') {
            let (byte, len) = escape(rest).ok_or_else(|| format!("unknown escape in {line:?}"))?;
            push(pieces, &[byte]);
            rest = &rest[len..];
        } else {
            return Err(format!("`}}` without `{{` in {line:?}; a literal one is `\\}}`"));
        }
    }
    push(pieces, rest.as_bytes());
    Ok(())
}

/// Where the brace that ends an operator stands; operators may stand in one another.
fn closing(text: &str) -> Option<usize> {
    let (mut escaped, mut depth) = (false, 0_u32);
    text.bytes().position(|byte| {
        let plain = !escaped;
        escaped = byte == b'\\' && plain;
        match byte {
            b'}' if plain && depth == 0 => return true,
            b'}' if plain => depth -= 1,
            b'{' if plain => depth += 1,
            _ => {}
        }
        false
    })
}

fn read_operator(operator: &str, pieces: &mut Vec<Piece>) -> Result<(), String> {
    let piece = match operator {
        "any" => Piece::Any,
        "uuid" => Piece::Uuid,
        "anything" => Piece::Lines,
        "forwarded" => Piece::Forwarded("1.1"),
        "forwarded 1.0" => Piece::Forwarded("1.0"),
        _ => {
            if let Some(text) = operator.strip_prefix("chunks:") {
                Piece::Chunks(literal(text)?)
            } else if let Some(link) = operator.strip_prefix("signed:") {
                Piece::Literal(signed(link)?.into_bytes())
            } else {
                let (text, count) = operator
                    .rsplit_once('*')
                    .and_then(|(text, count)| Some((text, count.parse::<usize>().ok()?)))
                    .ok_or_else(|| format!("unknown operator {{{operator}}}"))?;
                Piece::Literal(literal(text)?.repeat(count))
            }
        }
    };
    match piece {
        Piece::Literal(bytes) => push(pieces, &bytes),
        other => pieces.push(other),
    }
    Ok(())
}

/// `SECONDS:KEY:HOST:ROUTE:PATH`, signed with `KEY` of the id `k1`, valid for that many seconds from now.
fn signed(link: &str) -> Result<String, String> {
    let parts: Vec<&str> = link.splitn(5, ':').collect();
    let [seconds, key, host, route, path] = *parts else {
        return Err(format!("not SECONDS:KEY:HOST:ROUTE:PATH: {link}"));
    };
    let seconds: i64 = seconds.parse().map_err(|_| format!("not a number of seconds: {seconds}"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let expires = now.saturating_add_signed(seconds);
    let text = format!("v2\n*\n{host}\n{route}\n{path}\n{expires}\nk1\n");
    let signature = URL_SAFE_NO_PAD.encode(hmac_sha256_bytes(key.as_bytes(), text.as_bytes()));
    Ok(format!("{path}?expires={expires}&key_id=k1&signature={signature}"))
}

fn literal(text: &str) -> Result<Vec<u8>, String> {
    let mut inner = Vec::new();
    read_line(text, &mut inner)?;
    match inner.as_slice() {
        [] => Ok(Vec::new()),
        [Piece::Literal(bytes)] => Ok(bytes.clone()),
        _ => Err(format!("only plain text may stand in an operator: {text:?}")),
    }
}

/// The byte that an escape stands for and the length of the escape.
fn escape(text: &str) -> Option<(u8, usize)> {
    let byte = match text.as_bytes().get(1)? {
        b'r' => b'\r',
        b'n' => b'\n',
        b't' => b'\t',
        b'0' => 0,
        b'x' => return u8::from_str_radix(text.get(2..4)?, 16).ok().map(|byte| (byte, 4)),
        literal @ (b'\\' | b'{' | b'}' | b'-' | b' ') => *literal,
        _ => return None,
    };
    Some((byte, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_in_crlf_unless_told_otherwise() {
        assert_eq!(bytes(&["a", "", "b\\"], false).unwrap(), b"a\r\n\r\nb");
        assert_eq!(bytes(&["a", "b\\r"], true).unwrap(), b"ab\r");
    }

    #[test]
    fn escapes_and_repetitions_become_bytes() {
        assert_eq!(bytes(&["\\x00\\t\\{x\\}{ab\\r*2}\\\\"], true).unwrap(), b"\0\t{x}ab\rab\r\\");
        assert!(bytes(&["\\q"], true).is_err() && bytes(&["{oops}"], true).is_err());
        assert!(bytes(&["{any}"], true).is_err(), "a wildcard cannot be sent");
    }
}
