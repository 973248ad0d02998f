//! Durations, sizes and request ids.
//!
//! Input: a text. Asserts: what is accepted is what a naive sum of its parts gives, is within its bound and
//! reads the same when it is written again in one unit; an error is one sentence, not empty; an id is
//! taken only as the 36 characters it is.

use std::time::Duration;
use thalweg_core::RequestId;
use thalweg_core::units::{parse_duration, parse_size};

/// 100 years, the longest duration.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    if let Some(id) = RequestId::from_bytes(input) {
        assert_eq!(id.as_bytes(), input);
        assert_eq!(id.as_str().len(), RequestId::LEN);
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    match parse_duration(text) {
        Ok(duration) => {
            assert!(duration <= LONGEST);
            assert_eq!(parse_duration(&format!("{}us", duration.as_micros())), Ok(duration));
            assert_eq!(parse_duration(&format!("\t{text} ")), Ok(duration));
            assert_eq!(sum(text.trim()), Some(duration.as_micros()));
        }
        Err(message) => assert!(!message.is_empty() && !message.ends_with('.') || text.contains('.')),
    }
    match parse_size(text) {
        Ok(size) => {
            assert_eq!(parse_size(&format!("{size}B")), Ok(size));
            assert!(text.trim().ends_with('B'));
        }
        Err(message) => assert!(!message.is_empty()),
    }
}

/// The sum of the parts of a duration in microseconds.
fn sum(text: &str) -> Option<u128> {
    const FACTORS: [(&str, u128); 6] = [
        ("us", 1),
        ("ms", 1_000),
        ("s", 1_000_000),
        ("m", 60_000_000),
        ("h", 3_600_000_000),
        ("d", 86_400_000_000),
    ];
    let mut total = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let number = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        let after = &rest[number.len()..];
        let unit = after.split(|c: char| c.is_ascii_digit()).next()?;
        let (_, factor) = FACTORS.iter().find(|(name, _)| *name == unit)?;
        total += number.parse::<u128>().ok()? * factor;
        rest = &after[unit.len()..];
    }
    Some(total)
}
