//! Conditions on exchanges (`tap --where`).
//!
//! Input: a text. Asserts: it is read or refused with a place inside it and a sentence; what is read holds or does not,
//! and its negation the opposite; nothing panics, however deep.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use thalweg_observe::Condition;
use thalweg_observe::condition::{Facts, MOST_TEXT, NumberField, TextField};

/// An exchange whose texts are all the same.
struct Sample<'a>(&'a [u8]);

impl Facts for Sample<'_> {
    fn number(&self, field: NumberField) -> u64 {
        if field == NumberField::Status { 503 } else { self.0.len() as u64 }
    }

    fn text(&self, _: TextField) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.0)
    }

    fn client_ip(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    }
}

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let condition = match Condition::parse(text) {
        Ok(condition) => condition,
        Err(error) => {
            assert!((1..=text.chars().count() + 1).contains(&error.column()));
            assert!(!error.message.is_empty() && !error.to_string().contains('\r'));
            return;
        }
    };
    let sample = Sample(input);
    let negated = format!("not ({text})");
    if negated.len() <= MOST_TEXT
        && let Ok(negated) = Condition::parse(&negated)
    {
        assert_ne!(condition.holds(&sample), negated.holds(&sample));
    }
}
