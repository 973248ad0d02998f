//! Labels as logs show them.

use std::borrow::Cow;
use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::hex::Hex;
use crate::label::Parts;

/// What a log may show of a label: `sealed:1:9f86d081`, the id of its key and the first 8 hex digits of a digest.
/// It cannot be made into the label again, and is the same in whatever case the label came.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Redacted {
    key: Option<u8>,
    digest: [u8; 4],
}

/// What a log may show of a text that should be a label. Needs no key.
///
/// The digest is SHA-256 of the 39 bytes. A text that has not the form of a label, version and key id included, has `?`
/// for the key (`sealed:?:9f86d081`) and the digest of the text in lower case (ASCII).
pub fn redacted(text: &[u8]) -> Redacted {
    let parts = Parts::of(text);
    let (key, digest) = if parts.has_form() {
        (Some(parts.key()), Sha256::digest(parts.bytes))
    } else {
        let mut digest = Sha256::new();
        let mut lower = [0; 64];
        for part in text.chunks(lower.len()) {
            let lower = &mut lower[..part.len()];
            lower.copy_from_slice(part);
            lower.make_ascii_lowercase();
            digest.update(lower);
        }
        (None, digest.finalize())
    };
    Redacted { key, digest: [digest[0], digest[1], digest[2], digest[3]] }
}

/// Texts that may hold host names below sealed domains, as logs may show them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Redactor(Box<[Box<str>]>);

impl Redactor {
    /// For labels below these domains, without `*.` and in lower case.
    pub fn new<'a>(domains: impl IntoIterator<Item = &'a str>) -> Self {
        Self(domains.into_iter().map(Box::from).collect())
    }

    /// Whether labels below this domain are looked for.
    pub fn knows(&self, domain: &str) -> bool {
        self.0.iter().any(|known| **known == *domain)
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with the [redacted] form of what stands before a domain, wherever and in whatever case one is named: in a host, a URL, a query.
    /// A label with a wrong character, or with another name before it, is as good as gone too.
    pub fn redact<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        self.0.iter().fold(Cow::Borrowed(text), |text, domain| match below(&text, domain.as_bytes()) {
            Some(shown) => Cow::Owned(shown),
            None => text,
        })
    }
}

/// The text without what stands before the domain; `None`: it does not name it.
fn below(text: &[u8], domain: &[u8]) -> Option<Vec<u8>> {
    let of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let mut shown = Vec::new();
    let (mut copied, mut at) = (0, 0);
    while at + domain.len() < text.len() {
        // A label is at least one character, and a dot stands behind it.
        let begins = at + 1;
        let is_named = text[at] == b'.' && text[begins..].len() >= domain.len();
        if !is_named || !text[begins..begins + domain.len()].eq_ignore_ascii_case(domain) {
            at += 1;
            continue;
        }
        let from =
            text[copied..at].iter().rposition(|byte| !of_name(byte)).map_or(copied, |at| copied + at + 1);
        if from < at {
            shown.extend_from_slice(&text[copied..from]);
            shown.extend_from_slice(redacted(&text[from..at]).to_string().as_bytes());
            copied = at;
        }
        at = begins + domain.len();
    }
    if copied == 0 {
        return None;
    }
    shown.extend_from_slice(&text[copied..]);
    Some(shown)
}

impl fmt::Display for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key {
            Some(key) => write!(f, "sealed:{key}:{}", Hex(&self.digest)),
            None => write!(f, "sealed:?:{}", Hex(&self.digest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_label_is_shown_by_its_text_in_lower_case() {
        // The digest of `test` begins so.
        assert_eq!(redacted(b"TesT").to_string(), "sealed:?:9f86d081");
        assert_eq!(redacted(b"").to_string(), "sealed:?:e3b0c442");
        let long = [b'A'; 200];
        let whole = Sha256::digest(long.to_ascii_lowercase());
        assert_eq!(redacted(&long).to_string(), format!("sealed:?:{}", Hex(&whole[..4])));
    }

    #[test]
    fn labels_are_redacted_wherever_they_are_named() {
        let label = "eebidunymrmjop2vqvxfuc57d7zfjak7m7gy5v2j3pl7m6wl3weayhjv4yw3kea";
        let redactor = Redactor::new(["svc.example.com", "localhost"]);
        let show = |text: &str| String::from_utf8(redactor.redact(text.as_bytes()).into_owned()).unwrap();
        let short = "sealed:1:838872e2.svc.example.com";
        for (text, shown) in [
            (format!("{label}.svc.example.com"), short.to_owned()),
            (
                format!("{}.SVC.example.com:8443", label.to_uppercase()),
                "sealed:1:838872e2.SVC.example.com:8443".into(),
            ),
            (format!("https://{label}.svc.example.com/a?b"), format!("https://{short}/a?b")),
            (
                format!("next=https://{label}.svc.example.com/&then={label}.localhost"),
                format!("next=https://{short}/&then=sealed:1:838872e2.localhost"),
            ),
            (format!("{label}.svc.example.com {label}.svc.example.com"), format!("{short} {short}")),
            ("svc.example.com".into(), "svc.example.com".into()),
            (".svc.example.com".into(), ".svc.example.com".into()),
            ("https://.svc.example.com/".into(), "https://.svc.example.com/".into()),
            (format!("{label}.svc.example.org"), format!("{label}.svc.example.org")),
            (String::new(), String::new()),
        ] {
            assert_eq!(show(&text), shown);
        }
        for hidden in [
            format!("a.{label}.svc.example.com"),
            format!("{}.svc.example.com", &label[1..]),
            format!("{label}x.svc.example.com"),
        ] {
            let shown = show(&hidden);
            assert!(shown.starts_with("sealed:?:") && !shown.contains(&label[1..]), "{shown}");
        }
        assert_eq!(Redactor::default().redact(b"a.localhost"), b"a.localhost".as_slice());
    }

    #[test]
    fn other_versions_and_key_zero_have_no_key() {
        // The first 8 bits are the header: `e` is 00100, `h` 00111, `4` 11100, `i` 01000.
        let text = |start: &str| format!("{start:a<63}");
        assert!(redacted(text("ee").as_bytes()).to_string().starts_with("sealed:1:"));
        assert!(redacted(text("h4").as_bytes()).to_string().starts_with("sealed:31:"));
        assert!(redacted(text("ea").as_bytes()).to_string().starts_with("sealed:?:"));
        assert!(redacted(text("aa").as_bytes()).to_string().starts_with("sealed:?:"));
        assert!(redacted(text("ii").as_bytes()).to_string().starts_with("sealed:?:"));
    }
}
