//! What the doc comment of a field says of its values: `…, 1–10; default 2.`
//!
//! The notation: a range is two values with an en dash between them; a default that is a value is `default 5s`,
//! `` default `json` `` or `` `auto` (the default) ``; one in words is `default none` or,
//! of more than one word, `default: no bound`.

use serde_json::Value;

/// The claims of one doc comment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Claims<'a> {
    /// The least and the most, as written.
    pub(super) range: Option<(&'a str, &'a str)>,
    /// What holds where nothing is written.
    pub(super) default: Option<Fallback<'a>>,
    /// The text without the claims at its end.
    pub(super) meaning: &'a str,
}

/// A default.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fallback<'a> {
    /// This value, as one would write it.
    Value(&'a str),
    /// In words.
    Words(&'a str),
}

impl Fallback<'_> {
    /// The value as JSON; `None` for words.
    pub(super) fn to_json(self) -> Option<Value> {
        match self {
            Self::Words(_) => None,
            Self::Value(text) => Some(literal(text)),
        }
    }
}

/// Reads a doc comment whose lines have been joined.
pub(super) fn read(doc: &str) -> Claims<'_> {
    let (default, after) = match inherent(doc) {
        Some(value) => (Some(Fallback::Value(value)), doc.len()),
        None => stated(doc).map_or((None, doc.len()), |(default, at)| (Some(default), at)),
    };
    let mut meaning = doc[..after].trim_end_matches(['.', ';', ' ']);
    let range = range(doc);
    if let Some((_, most)) = range
        && let Some(rest) = meaning.strip_suffix(most)
    {
        meaning = rest.rsplit_once(", ").map_or(meaning, |(rest, _)| rest);
    }
    Claims { range, default, meaning }
}

/// `` `auto` (the default) ``.
fn inherent(doc: &str) -> Option<&str> {
    let before = &doc[..doc.find(" (the default)")?];
    match before.strip_suffix('`') {
        Some(quoted) => quoted.rsplit('`').next(),
        None => before.rsplit([' ', '(']).next(),
    }
}

/// `default 5s` or `default: words`, and where it begins.
fn stated(doc: &str) -> Option<(Fallback<'_>, usize)> {
    let begins = doc.starts_with("default") || doc.starts_with("Default");
    let at = doc.find("; default").map(|at| at + 2).or_else(|| begins.then_some(0))?;
    let rest = &doc[at + "default".len()..];
    if let Some(words) = rest.strip_prefix(": ") {
        let end = words.find(". ").map_or(words.len(), |end| end + 1);
        let sentence = &words[..end];
        let cut = if end == words.len() { at } else { doc.len() };
        return Some((Fallback::Words(sentence.trim_end_matches('.')), cut));
    }
    let rest = rest.strip_prefix(' ')?;
    let (value, tail) = match rest.strip_prefix('`') {
        Some(quoted) => quoted.split_once('`')?,
        None => rest.split_at(rest.find([' ', ';', ',', ':']).unwrap_or(rest.len())),
    };
    let quoted = rest.starts_with('`');
    let value = if quoted { value } else { value.trim_end_matches('.') };
    let cut = if matches!(tail, "" | ".") { at } else { doc.len() };
    let is_value =
        quoted || value.starts_with(|c: char| c.is_ascii_digit()) || matches!(value, "true" | "false");
    Some((if is_value { Fallback::Value(value) } else { Fallback::Words(value) }, cut))
}

/// Two values that begin with a digit, with an en dash between them.
fn range(doc: &str) -> Option<(&str, &str)> {
    let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '%');
    doc.match_indices('–').find_map(|(at, dash)| {
        let (before, after) = (&doc[..at], &doc[at + dash.len()..]);
        let least = before.rfind(|c| !belongs(c)).map_or(before, |end| &before[end + 1..]);
        let most = &after[..after.find(|c| !belongs(c)).unwrap_or(after.len())];
        let is_value = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        (is_value(least) && is_value(most)).then(|| (least, most.trim_end_matches('.')))
    })
}

/// A value as one would write it in a file.
fn literal(text: &str) -> Value {
    if let Some(items) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return items.split(',').map(str::trim).filter(|item| !item.is_empty()).map(literal).collect();
    }
    match text {
        "true" => true.into(),
        "false" => false.into(),
        _ => number(text).unwrap_or_else(|| text.into()),
    }
}

/// A number, whole or with a fraction; nothing else that `parse` takes for one.
pub(super) fn number(text: &str) -> Option<Value> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    text.parse::<u64>().map(Value::from).ok().or_else(|| text.parse::<f64>().map(Value::from).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn default_of(doc: &str) -> Option<Fallback<'_>> {
        read(doc).default
    }

    #[test]
    fn reads_ranges() {
        for (doc, range) in [
            ("Its share, 0–1000; default 1.", Some(("0", "1000"))),
            ("From time to time, 100ms–1h.", Some(("100ms", "1h"))),
            ("Where less, 0%–100%; default 0%: never.", Some(("0%", "100%"))),
            ("Deviations, 0.1–10.", Some(("0.1", "10"))),
            ("Upper case, as in `[200-399]` or a–b.", None),
            ("Nothing.", None),
        ] {
            assert_eq!(read(doc).range, range, "{doc}");
        }
    }

    #[test]
    fn reads_defaults() {
        for (doc, default) in [
            ("Its share, 0–1000; default 1.", Fallback::Value("1")),
            ("The wait; default 1s.", Fallback::Value("1s")),
            ("How a line looks; default `json`.", Fallback::Value("json")),
            ("Accepts later; default `true`. It saves a wake-up.", Fallback::Value("true")),
            ("Less, 0%–100%; default 0%: never.", Fallback::Value("0%")),
            ("Threads, 1–1024; `auto` (the default): as many.", Fallback::Value("auto")),
            ("At once, 0–10; 0 (the default): no bound.", Fallback::Value("0")),
            ("At once; default: no bound but `a.b`.", Fallback::Words("no bound but `a.b`")),
            ("default: none", Fallback::Words("none")),
            ("Default `GET`.", Fallback::Value("GET")),
            ("Who asks; default 127.0.0.1.", Fallback::Value("127.0.0.1")),
            ("The access log; default off.", Fallback::Words("off")),
            ("The type; default `text/plain; charset=utf-8`.", Fallback::Value("text/plain; charset=utf-8")),
        ] {
            assert_eq!(default_of(doc), Some(default), "{doc}");
        }
        assert_eq!(default_of("What is sent by default."), None);
    }

    #[test]
    fn a_meaning_is_what_is_left() {
        for (doc, meaning) in [
            ("Its share, 0–1000; default 1.", "Its share"),
            ("Exchanges under way, 1–10; default: no bound.", "Exchanges under way"),
            (
                "Threads, 1–1024; `auto` (the default): as many.",
                "Threads, 1–1024; `auto` (the default): as many",
            ),
            ("Accepts; default `true`. It saves.", "Accepts; default `true`. It saves"),
        ] {
            assert_eq!(read(doc).meaning, meaning, "{doc}");
        }
    }

    #[test]
    fn values_have_the_type_that_they_would_have_in_a_file() {
        for (text, value) in [
            ("5", json!(5)),
            ("1.9", json!(1.9)),
            ("5s", json!("5s")),
            ("false", json!(false)),
            ("off", json!("off")),
            ("[200-399]", json!(["200-399"])),
            ("[]", json!([])),
        ] {
            assert_eq!(Fallback::Value(text).to_json(), Some(value), "{text}");
        }
        assert_eq!(Fallback::Words("none").to_json(), None);
    }
}
