//! Lists of networks as text: one on each line, `#` begins a comment. A list is taken whole or not at all.
//!
//! Invariant: the error for a wrong line contains its number and none of its text. A URL or a path may lead to a file
//! that is not a list, and whose content readers of logs and of the admin API may not see.

use crate::networks::{NETWORKS, Networks, network};
use std::fmt::{self, Display, Formatter};

/// Longest line, in bytes.
pub const LINE: usize = 4096;

/// Why a list is not taken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListError {
    /// From 1 on; 0: the list as a whole.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

impl Display for ListError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

/// Reads a list. Comments begin with `#` or, as in lists of Spamhaus, with `;`.
///
/// # Errors
/// The first line that is wrong.
pub fn parse(bytes: &[u8]) -> Result<Networks, ListError> {
    let mut networks = Vec::new();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let wrong = |what: String| ListError { line: at + 1, what };
        if line.len() > LINE {
            return Err(wrong(format!("it is longer than {LINE} bytes")));
        }
        let end = line.iter().position(|byte| matches!(byte, b'#' | b';')).unwrap_or(line.len());
        let text = line[..end].trim_ascii();
        if text.is_empty() {
            continue;
        }
        let read = std::str::from_utf8(text).map_err(|_| "is not text").and_then(network);
        networks.push(read.map_err(|what| wrong(what.to_owned()))?);
        if networks.len() > NETWORKS {
            return Err(wrong(format!("there are more than {NETWORKS} networks")));
        }
    }
    Ok(Networks::new(networks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_network_on_each_line() {
        let text =
            b"# of the office\n10.0.0.0/8\r\n\n  2001:db8::/32  # VPN\n192.0.2.7;SBL1\n\t\n198.51.100.1";
        let table = parse(text).unwrap();
        assert_eq!(table.len(), 4);
        assert!(parse(b"").unwrap().is_empty() && parse(b"#\n").unwrap().is_empty());
    }

    #[test]
    fn the_first_wrong_line_is_named() {
        for (text, line, part) in [
            (&b"10.0.0.0/8\n10.0.0.0/\n"[..], 2, "is neither a network nor an address"),
            (b"10.0.0.1/8", 1, "bits set behind"),
            (b"10.0.0.0/8\n\n\xff\xfe", 3, "is not text"),
            (b"10.0.0.0/8 extra", 1, "neither a network"),
            (b"<html>\x1b[2J", 1, "neither a network"),
            (b"{\"a\": 1}", 1, "neither a network"),
            (b"\0", 1, "neither a network"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.line == line && error.what.contains(part), "{error}");
        }
    }

    /// A list at a URL could be anything, and its lines were in logs and answers of the API (issue 43).
    #[test]
    fn nothing_of_a_wrong_line_is_told() {
        for text in ["hunter2", "10.0.0.0/8\naws_secret=hunter2", "hunter2\u{1}", "10.0.0.0/8 hunter2"] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
        }
        let error = parse(&[b'1'; 1 << 20]).unwrap_err();
        assert_eq!(error.to_string(), "line 1: it is longer than 4096 bytes");
    }
}
