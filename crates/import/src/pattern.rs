//! Regular expressions of the originals (PCRE, RE2), rewritten for a whole path or value in linear time.

use regex::Regex;

/// An expression over a whole text.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    /// As `path_regex` takes it: anchored at both ends by the place where it stands.
    pub(crate) text: String,
    /// Compiled with its anchors.
    pub(crate) compiled: Regex,
    /// A text with which everything begins that it matches.
    pub(crate) prefix: String,
}

/// Turns an expression that is searched for anywhere in a text into one over the whole text.
///
/// # Errors
/// A sentence: it has what cannot be done in linear time, or is wrong.
pub(crate) fn whole(searched: &str, any_case: bool) -> Result<Whole, String> {
    let searched = known_escapes(searched);
    let flags = if any_case { "(?i)" } else { "" };
    Regex::new(&format!("{flags}{searched}")).map_err(|_| reason(&searched))?;
    let text = if has_top_alternatives(&searched) {
        format!("{flags}.*?(?:{searched}).*")
    } else {
        let (begin, inner) = match searched.strip_prefix('^') {
            Some(rest) => ("", rest),
            None => (".*?", searched.as_str()),
        };
        let is_end = inner.ends_with('$') && !ends_escaped(inner);
        let (inner, end) = match is_end {
            true => (&inner[..inner.len() - 1], ""),
            false => (inner, ".*"),
        };
        // `.*` at an end is there already.
        let begin = if begin == ".*?" && inner.starts_with(".*") { "" } else { begin };
        let end = if end == ".*" && (inner == ".*" || (inner.ends_with(".*") && !inner.ends_with("\\.*"))) {
            ""
        } else {
            end
        };
        format!("{flags}{begin}{inner}{end}")
    };
    let compiled = Regex::new(&format!(r"\A(?:{text})\z")).map_err(|_| reason(&searched))?;
    let prefix = match searched.strip_prefix('^') {
        Some(rest) if !any_case && !has_top_alternatives(&searched) => literal_prefix(rest),
        _ => String::new(),
    };
    Ok(Whole { text, compiled, prefix })
}

fn reason(text: &str) -> String {
    let needs = ["(?=", "(?!", "(?<=", "(?<!", "(?>", "\\1", "\\2", "*+", "++"];
    match needs.iter().find(|part| text.contains(**part)) {
        Some(part) => format!("`{part}` of its regular expression cannot be matched in linear time"),
        None => "its regular expression is not understood".into(),
    }
}

/// Escapes of PCRE that mean nothing here but the character itself.
fn known_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some(next)
                if matches!(
                    next,
                    '/' | '_' | '\'' | '"' | '<' | '>' | '@' | ':' | ';' | ',' | '=' | '!' | '%'
                ) =>
            {
                out.push(next)
            }
            Some('Z') => out.push_str(r"\z"),
            Some(next) => {
                out.push('\\');
                out.push(next);
            }
            None => out.push('\\'),
        }
    }
    out
}

/// Whether an alternative stands outside of all groups.
fn has_top_alternatives(text: &str) -> bool {
    let (mut depth, mut in_class, mut escaped) = (0_i32, false, false);
    for letter in text.chars() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' if !in_class => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth -= 1,
            '|' if !in_class && depth == 0 => return true,
            _ => {}
        }
    }
    false
}

/// Whether the last character is escaped.
fn ends_escaped(text: &str) -> bool {
    let before = &text[..text.len() - 1];
    (before.len() - before.trim_end_matches('\\').len()) % 2 == 1
}

/// The plain characters with which an anchored expression begins.
fn literal_prefix(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let plain = match letter {
            '\\' => match letters.next() {
                Some(next) if !next.is_ascii_alphanumeric() => next,
                _ => break,
            },
            '.' | '[' | '(' | '{' | '*' | '+' | '?' | '|' | '^' | '$' | ')' => break,
            plain => plain,
        };
        if matches!(letters.peek(), Some('*' | '?' | '{')) {
            break;
        }
        out.push(plain);
    }
    out
}

/// Text whose characters stand for themselves in a regular expression.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if "\\.+*?()|[]{}^$#&~".contains(letter) && !"#&~".contains(letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// A path in its normal form: what may not stand in one is percent-encoded.
pub(crate) fn plain(path: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searched_expressions_become_whole_ones() {
        for (searched, any_case, text) in [
            (r"\.php$", false, r".*?\.php"),
            ("^/a/(.*)$", false, "/a/(.*)"),
            ("^/a", false, "/a.*"),
            ("^/a/.*", false, "/a/.*"),
            ("/a|/b", false, ".*?(?:/a|/b).*"),
            (r"\.(gif|jpg)$", true, r"(?i).*?\.(gif|jpg)"),
            (r"^/\.well-known\/x", false, r"/\.well-known/x.*"),
            (r"a\$", false, r".*?a\$.*"),
        ] {
            assert_eq!(whole(searched, any_case).unwrap().text, text, "{searched}");
        }
        assert!(whole("^/(?!a)", false).unwrap_err().contains("linear time"));
        assert_eq!(whole(r"^/img/x\.y+", false).unwrap().prefix, "/img/x.y");
        assert_eq!(whole("^/imgs?/", false).unwrap().prefix, "/img");
    }
}
