//! Which exchanges have a line, where not all have one: errors and slow ones always, a share of the others.

use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::record::LogRecord;

/// Which exchanges have a line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sample {
    /// The share of those that need none, in tenths of a percent, 0–1000.
    pub share: u32,
    /// Statuses that always have one. What was not answered always has one too.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// What took as long always has one.
    pub slower_than: Option<Duration>,
}

/// Draws for one worker.
#[derive(Debug)]
pub(crate) struct Draw {
    sample: Sample,
    /// The share as lines say it.
    shown: Box<str>,
    state: u64,
}

impl Draw {
    pub(crate) fn new(sample: Sample) -> Self {
        let shown = format!("{}", f64::from(sample.share) / 1000.0).into();
        // Never 0, from which xorshift does not get away.
        Self { sample, shown, state: RandomState::new().hash_one(0_u8) | 1 }
    }

    /// `None`: no line. Else the share that the line stands for; empty: all of its kind are written.
    pub(crate) fn takes(&mut self, record: &LogRecord<'_>) -> Option<&str> {
        let is_slow = || {
            self.sample.slower_than.is_some_and(|limit| u128::from(record.timers.total) >= limit.as_micros())
        };
        // A tunnel has no status of its own.
        let has_failed = record.status == 0 && (record.fault.is_some() || !record.method.is_empty());
        let is_kept = |range: &RangeInclusive<u16>| range.contains(&record.status);
        if has_failed || self.sample.statuses.iter().any(is_kept) || is_slow() || self.sample.share >= 1000 {
            return Some("");
        }
        (self.number() % 1000 < u64::from(self.sample.share)).then_some(&self.shown)
    }

    /// xorshift64* (Vigna 2016): nobody gains by foreseeing it.
    fn number(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Timers;

    fn record(status: u16, total: u64) -> LogRecord<'static> {
        LogRecord { status, timers: Timers { total, ..Timers::default() }, ..LogRecord::default() }
    }

    #[test]
    fn errors_and_slow_ones_always_have_a_line_and_a_share_of_the_others() {
        let sample = Sample {
            share: 10,
            statuses: vec![500..=599, 429..=429],
            slower_than: Some(Duration::from_secs(1)),
        };
        let mut draw = Draw::new(sample);
        for always in [
            record(500, 1),
            record(599, 1),
            record(429, 1),
            LogRecord { method: b"GET", ..record(0, 1) },
            record(200, 1_000_000),
        ] {
            assert_eq!(draw.takes(&always), Some(""));
        }
        let taken = (0..100_000).filter(|_| draw.takes(&record(200, 999_999)) == Some("0.01")).count();
        assert!((800..=1200).contains(&taken), "{taken} of 100,000 at 1 %");
        let mut none = Draw::new(Sample { share: 0, statuses: Vec::new(), slower_than: None });
        assert!(
            (0..1000).all(|_| none.takes(&record(500, 1)).is_none() && none.takes(&record(0, 1)).is_none())
        );
        let mut all = Draw::new(Sample { share: 1000, statuses: Vec::new(), slower_than: None });
        assert!((0..1000).all(|_| all.takes(&record(200, 1)) == Some("")));
    }
}
