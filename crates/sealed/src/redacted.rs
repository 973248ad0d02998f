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

/// Characters of what may be a label, or most of one: whoever has fewer lacks more than 150 bits of it.
const LONG: usize = 32;
/// Former domains that a [`Redactor`] looks for beside those of now.
const FORMER: usize = 64;

/// Texts that may hold host names below sealed domains, as logs may show them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Redactor(Box<[Box<str>]>);

impl Redactor {
    /// For labels below these domains, without `*.` and in lower case.
    pub fn new<'a>(domains: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all: Vec<Box<str>> = Vec::new();
        for domain in domains {
            if !all.iter().any(|known| **known == *domain) {
                all.push(domain.into());
            }
        }
        Self(all.into())
    }

    /// For these domains, and those that were looked for before, 64 at most: clients go on saying labels that once were
    /// good.
    #[must_use]
    pub fn after(self, former: &Self) -> Self {
        let most = self.0.len() + FORMER;
        let mut all = Self::new(self.0.iter().chain(&former.0).map(|domain| &**domain)).0.into_vec();
        all.truncate(most);
        Self(all.into())
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with the [redacted] form of what stands before a domain, wherever and in whatever case one is named: in
    /// a host, a URL, a query. A label with a wrong character, or with another name before it, is as good as gone too;
    /// what is shorter than 32 characters is an ordinary name.
    pub fn redact<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'%');
        let mut shown = Vec::new();
        let (mut copied, mut at) = (0, 0);
        while at < text.len() {
            let Some(domain) = self.named_at(&text[at..]) else {
                at += 1;
                continue;
            };
            let name = text[copied..at].iter().rposition(|byte| !of_name(byte));
            let from = name.map_or(copied, |at| copied + at + 1);
            if at - from >= LONG {
                shown.extend_from_slice(&text[copied..from]);
                shown.extend_from_slice(redacted(&text[from..at]).to_string().as_bytes());
                copied = at;
            }
            at += 1 + domain.len();
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        shown.extend_from_slice(&text[copied..]);
        Cow::Owned(shown)
    }

    /// The longest domain that the text begins with, after a dot.
    fn named_at(&self, text: &[u8]) -> Option<&str> {
        let rest = text.strip_prefix(b".")?;
        let begins = |domain: &&str| {
            rest.get(..domain.len()).is_some_and(|start| start.eq_ignore_ascii_case(domain.as_bytes()))
        };
        self.0.iter().map(|domain| &**domain).filter(begins).max_by_key(|domain| domain.len())
    }
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
            format!("{}%0A{}.svc.example.com", &label[..40], &label[40..]),
        ] {
            let shown = show(&hidden);
            assert!(shown.starts_with("sealed:?:") && !shown.contains(&label[1..]), "{shown}");
        }
        for (length, is_hidden) in [(1, false), (31, false), (32, true), (62, true)] {
            let shown = show(&format!("{}.svc.example.com", &label[..length]));
            assert_eq!(shown.starts_with("sealed:?:"), is_hidden, "{shown}");
        }
        let name = format!("{label}.localhost");
        assert_eq!(Redactor::default().redact(name.as_bytes()), name.as_bytes());
    }

    #[test]
    fn a_domain_below_another_one_is_taken_for_itself() {
        let text = b"eebidunymrmjop2vqvxfuc57d7zfjak7m7gy5v2j3pl7m6wl3weayhjv4yw3kea.svc.example.com";
        for domains in [["example.com", "svc.example.com"], ["svc.example.com", "example.com"]] {
            let shown = Redactor::new(domains).redact(text).into_owned();
            assert_eq!(String::from_utf8(shown).unwrap(), "sealed:1:838872e2.svc.example.com");
        }
    }

    #[test]
    fn former_domains_are_looked_for_as_far_as_there_is_room() {
        let name = |at: usize| format!("d{at}.example.com");
        let one = |at| Redactor::new([&*name(at)]);
        let last = (0..100).map(one).reduce(|former, now| now.after(&former)).unwrap();
        let is_hidden =
            |at| last.redact(format!("{}.{}", "a".repeat(LONG), name(at)).as_bytes()).starts_with(b"sealed:");
        assert!((100 - 1 - FORMER..100).all(is_hidden));
        assert!(!is_hidden(100 - 2 - FORMER));
        assert_eq!(one(1).after(&one(1)), one(1));
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
