//! Values of a configuration that are never displayed: secrets, and variables in places that may hold one.
//!
//! [`Concealed::hide`] is the one function that decides for every display of a plan: differences, explanations, lists
//! of routes. It looks for the values themselves, so it also finds a value that filters have moved to another place,
//! as from a field to a path. Made by `config` with each plan. Invariant: `Debug` shows no value.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The text in the place of a secret.
pub const REDACTED: &str = "<redacted>";
/// Shortest value that counts as a secret, in bytes, and the shortest one of digits alone: ports and sizes are shorter.
const SHORTEST: usize = 4;
const SHORTEST_NUMBER: usize = 6;
/// Shorter values are recognised only as whole words.
const WORD: usize = 8;
/// Ordinary words.
const ORDINARY: &[&str] = &["auto", "false", "none", "null", "true"];
/// Most values of one configuration; the longest ones are kept.
pub const MOST: usize = 4000;

/// A value that is not displayed.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd)]
pub struct ConcealedValue {
    /// The value.
    pub text: String,
    /// It stands where secrets stand; if not, it is shown to a client of the API that names it.
    pub is_secret: bool,
}

impl fmt::Debug for ConcealedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.text.len())
    }
}

/// All values of one configuration that are not displayed, longest first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Concealed(Arc<[ConcealedValue]>);

impl Concealed {
    /// Of these values. Ordinary words and short values are left out.
    pub fn new(values: impl IntoIterator<Item = ConcealedValue>) -> Self {
        let trimmed = |value: ConcealedValue| ConcealedValue { text: value.text.trim().to_owned(), ..value };
        let kept = values.into_iter().map(trimmed).filter(|value| is_long(&value.text));
        let mut all: Vec<_> = kept.flat_map(spellings).collect();
        let order = |value: &ConcealedValue| (std::cmp::Reverse(value.text.len()), !value.is_secret);
        all.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.text.cmp(&b.text)));
        all.dedup_by(|next, kept| next.text == kept.text);
        all.truncate(MOST);
        Self(all.into())
    }

    /// The values of both.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        if self == other || other.0.is_empty() {
            return self.clone();
        }
        Self::new(self.0.iter().chain(&*other.0).cloned())
    }

    /// The values that are hidden from a client that wrote this text. Secrets are among them in any case: a client
    /// could try one after the other.
    #[must_use]
    pub fn unless_named_in(&self, text: &str) -> Self {
        let is_named = |value: &ConcealedValue| {
            let bytes = text.as_bytes();
            (0..bytes.len()).any(|at| end(value, bytes, at).is_some())
        };
        Self(self.0.iter().filter(|value| value.is_secret || !is_named(value)).cloned().collect())
    }

    /// The text with `<redacted>` in the place of each value, in any case of its letters and percent-encoded or not.
    pub fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.0.is_empty() {
            return text.into();
        }
        let bytes = text.as_bytes();
        let (mut out, mut shown, mut at) = (String::new(), 0, 0);
        while at < bytes.len() {
            let Some(end) = self.0.iter().find_map(|value| end(value, bytes, at)) else {
                at += 1;
                continue;
            };
            out.push_str(text.get(shown..at).unwrap_or_default());
            out.push_str(REDACTED);
            (shown, at) = (end, end);
        }
        if shown == 0 {
            return text.into();
        }
        out.push_str(text.get(shown..).unwrap_or_default());
        out.into()
    }
}

/// Whether a value is long enough to be a secret.
fn is_long(text: &str) -> bool {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.len() >= if is_number { SHORTEST_NUMBER } else { SHORTEST } && !ORDINARY.contains(&text)
}

/// A value as it is written, within a text with placeholders (`{{` for a brace), and without percent-encoding.
fn spellings(value: ConcealedValue) -> Vec<ConcealedValue> {
    let doubled = value.text.replace('{', "{{").replace('}', "}}");
    let decoded = decoded(value.text.as_bytes());
    let mut all = vec![value.text];
    for text in [doubled, decoded] {
        if !all.contains(&text) && is_long(&text) {
            all.push(text);
        }
    }
    all.into_iter().map(|text| ConcealedValue { text, is_secret: value.is_secret }).collect()
}

fn decoded(text: &[u8]) -> String {
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(byte) = text.get(at) {
        let escape = escaped(text, at);
        out.push(escape.unwrap_or(*byte));
        at += if escape.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The byte that the escape here (`%2F`) stands for.
fn escaped(text: &[u8], at: usize) -> Option<u8> {
    let [b'%', high, low] = text.get(at..at + 3)? else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(*high)? * 16 + digit(*low)?)
}

/// The end of the value that begins here.
fn end(value: &ConcealedValue, text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    for wanted in value.text.bytes() {
        let byte = *text.get(at)?;
        if byte.eq_ignore_ascii_case(&wanted) || (byte == b'+' && wanted == b' ') {
            at += 1;
        } else {
            escaped(text, at).filter(|byte| byte.eq_ignore_ascii_case(&wanted))?;
            at += 3;
        }
    }
    let is_letter = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphanumeric);
    // A sign such as `/` is a border by itself.
    let begins_with_letter = value.text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let follows_letter = begins_with_letter && from.checked_sub(1).is_some_and(is_letter);
    let follows_escape = from.checked_sub(3).is_some_and(|at| escaped(text, at).is_some());
    let is_word = (!follows_letter || follows_escape) && !is_letter(at);
    (is_word || value.text.len() >= WORD).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concealed(values: &[&str]) -> Concealed {
        let value = |text: &&str| ConcealedValue { text: (*text).to_owned(), is_secret: true };
        Concealed::new(values.iter().map(value))
    }

    #[test]
    fn a_value_is_hidden_in_every_spelling() {
        let values = concealed(&["hunter2+/=", "T000/B000", "pa{ss}word", "a%41bcdefg", "two words", "pin"]);
        for (text, shown) in [
            ("path /hunter2+/=/x", "path /<redacted>/x"),
            ("/a?key=hunter2%2B%2f%3D&b=1", "/a?key=<redacted>&b=1"),
            ("HUNTER2+/=.test", "<redacted>.test"),
            ("https://h/T000%2FB000/T000/B000", "https://h/<redacted>/<redacted>"),
            ("set pa{{ss}}word pa{ss}word", "set <redacted> <redacted>"),
            ("/aAbcdefg /a%41bcdefg", "/<redacted> /<redacted>"),
            ("?q=two+words&r=two%20words", "?q=<redacted>&r=<redacted>"),
            ("é hunter2+/= é", "é <redacted> é"),
            ("pin hunter2", "pin hunter2"),
            ("", ""),
        ] {
            assert_eq!(values.hide(text), shown, "{text}");
        }
        assert!(!format!("{values:?}").contains("hunter2"));
    }

    #[test]
    fn short_values_are_whole_words_and_ordinary_values_are_shown() {
        let values = concealed(&["abcd", "8080", "123456", "true"]);
        for (text, shown) in [
            ("/abcd/xabcd/abcdx/ab", "/<redacted>/xabcd/abcdx/ab"),
            ("/a%2Fabcd", "/a%2F<redacted>"),
            ("http://10.0.0.1:8080 true 123456", "http://10.0.0.1:8080 true <redacted>"),
        ] {
            assert_eq!(values.hide(text), shown, "{text}");
        }
    }

    #[test]
    fn a_client_that_names_a_value_sees_it_unless_it_is_a_secret() {
        let value = |text: &str, is_secret| ConcealedValue { text: text.into(), is_secret };
        let values = Concealed::new([value("/prefix", false), value("hunter2-hunter2", true)]);
        let asked = values.unless_named_in("http://h/prefix/hunter2-hunter2");
        assert_eq!(asked.hide("/prefix/hunter2-hunter2"), "/prefix/<redacted>");
        assert_eq!(values.unless_named_in("http://h/").hide("/prefix/x"), "<redacted>/x");
        let both = values.with(&concealed(&["another-secret"]));
        assert_eq!(both.hide("another-secret /prefix"), "<redacted> <redacted>");
    }
}
