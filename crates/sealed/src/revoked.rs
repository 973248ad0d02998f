//! Labels that are not to be used any more, before they expire.

use std::collections::HashSet;
use std::fmt;

use crate::label::{LABEL_LENGTH, Parts, Siv};
use crate::redacted::{Redacted, redacted};

/// A set of labels, known by their vectors: a label in another case is the same one.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Revoked(HashSet<Siv>);

impl fmt::Debug for Revoked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revoked({})", self.0.len())
    }
}

impl Revoked {
    /// Reads labels as they were handed out, in any case, without the domain. Needs no key, so a label of a key that
    /// is gone may stay in the list.
    ///
    /// # Errors
    /// The first text that is no label.
    pub fn parse<T: AsRef<str>>(labels: &[T]) -> Result<Self, RevokedError> {
        let siv = |(place, label): (usize, &T)| {
            let (text, label) = (label.as_ref(), Parts::of(label.as_ref().as_bytes()));
            let why = if text.contains('.') {
                "it stands without the domain".into()
            } else if label.wrong_length {
                format!("it has {} characters, a label has {LABEL_LENGTH}", text.chars().count())
            } else if label.wrong_alphabet {
                "it holds a character other than `a`–`z` and `2`–`7`".into()
            } else if !label.has_form() {
                "no key seals such labels; copy it anew".into()
            } else {
                return Ok(label.siv);
            };
            Err(RevokedError { place, label: redacted(text.as_bytes()), why })
        };
        labels.iter().enumerate().map(siv).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the label with this vector was revoked.
    pub fn contains(&self, siv: &Siv) -> bool {
        self.0.contains(siv)
    }

    /// Whether another list holds all that it does.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// How many labels were revoked.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A text in a list of revoked labels that is no label. Quotes it in its redacted form only: perhaps it is one, but for
/// a character.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RevokedError {
    /// Its place in the list, from 0.
    pub place: usize,
    label: Redacted,
    why: String,
}

impl fmt::Display for RevokedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revoked label {} ({}) is no label: {}", self.place + 1, self.label, self.why)
    }
}

impl std::error::Error for RevokedError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Destination, Key, Keyring, Minutes, Secret, To};

    fn label(port: u16) -> (Siv, String) {
        let keys = vec![Key { id: 1, secret: Secret::from([1; 64]) }];
        let keys = Keyring::new(keys, "svc.example.com").unwrap();
        let to = To::Address(([192, 0, 2, 1], port).into());
        let label = keys.seal(&Destination { to, tls: false, expires: Minutes::MAX }).unwrap();
        let opened = keys.open(label.as_bytes(), Minutes::from_unix(0)).unwrap();
        (*opened.siv(), label.to_string())
    }

    #[test]
    fn a_label_is_revoked_in_whatever_case_it_was_written() {
        let ((one, text), (two, _)) = (label(1), label(2));
        let revoked = Revoked::parse(&[text.to_uppercase(), text]).unwrap();
        assert!(revoked.contains(&one) && !revoked.contains(&two));
        assert_eq!(revoked.len(), 1);
        assert!(Revoked::parse::<&str>(&[]).unwrap().is_empty());
    }

    #[test]
    fn the_bad_one_is_named_and_not_quoted() {
        let (_, good) = label(1);
        for (bad, word) in [
            (format!("{good}.svc.example.com"), "without the domain"),
            (good[1..].to_owned(), "62 characters"),
            (good.replacen('e', "1", 1), "a character other than"),
            (good.replacen('e', "m", 1), "no key seals such labels"),
        ] {
            let error = Revoked::parse(&[&good, &bad]).unwrap_err();
            assert_eq!(error.place, 1);
            let text = error.to_string();
            assert!(text.starts_with("revoked label 2 (sealed:?:") && text.contains(word), "{text}");
            assert!(!text.contains(&bad), "{text}");
        }
    }
}
