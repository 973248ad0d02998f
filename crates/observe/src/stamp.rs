//! The time as the log writes it, made once per second.
//!
//! Each batch holds one. Invariant: within one second nothing is computed but the microseconds.

use std::io::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Both forms of the second that was set last.
#[derive(Debug)]
pub(crate) struct Stamp {
    zone: TimeZone,
    second: Option<u64>,
    micros: u64,
    local: Vec<u8>,
    utc: Vec<u8>,
}

impl Stamp {
    /// A stamp whose local form is in `zone`.
    pub(crate) fn new(zone: TimeZone) -> Self {
        Self { zone, second: None, micros: 0, local: Vec::new(), utc: Vec::new() }
    }

    /// Moves to a time, in microseconds since the Unix epoch.
    pub(crate) fn set(&mut self, unix_us: u64) {
        self.micros = unix_us % 1_000_000;
        let second = unix_us / 1_000_000;
        if self.second != Some(second) {
            self.second = Some(second);
            self.compute(second);
        }
    }

    fn compute(&mut self, second: u64) {
        // The calendar ends with the year 9999; a clock beyond it is shown as its end.
        let time =
            i64::try_from(second).ok().and_then(|s| Timestamp::from_second(s).ok()).unwrap_or(Timestamp::MAX);
        self.utc.clear();
        let utc = TimeZone::UTC.to_datetime(time);
        // Here and below: writing to a Vec cannot fail.
        let _ = write!(self.utc, "{:04}-{:02}-{:02}T", utc.year(), utc.month(), utc.day());
        let _ = write!(self.utc, "{:02}:{:02}:{:02}", utc.hour(), utc.minute(), utc.second());
        self.local.clear();
        let local = self.zone.to_datetime(time);
        let month = MONTHS.get((local.month() - 1).unsigned_abs() as usize).copied().unwrap_or("Jan");
        let _ = write!(self.local, "{:02}/{month}/{:04}", local.day(), local.year());
        let _ = write!(self.local, ":{:02}:{:02}:{:02}", local.hour(), local.minute(), local.second());
        let offset = self.zone.to_offset(time).seconds() / 60;
        let sign = if offset < 0 { '-' } else { '+' };
        let _ = write!(self.local, " {sign}{:02}{:02}", offset.abs() / 60, offset.abs() % 60);
    }

    /// nginx's `$time_local`: `10/Oct/2000:13:55:36 -0700`.
    pub(crate) fn local(&self) -> &[u8] {
        &self.local
    }

    /// RFC 3339 in UTC: `2000-10-10T20:55:36.000001Z`.
    pub(crate) fn write_utc(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.utc);
        let _ = write!(out, ".{:06}Z", self.micros);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(stamp: &mut Stamp, unix_us: u64) -> (String, String) {
        stamp.set(unix_us);
        let mut utc = Vec::new();
        stamp.write_utc(&mut utc);
        (String::from_utf8(stamp.local().to_vec()).unwrap(), String::from_utf8(utc).unwrap())
    }

    #[test]
    fn writes_both_forms() {
        let offset = jiff::tz::offset(-7).to_time_zone();
        let (local, utc) = forms(&mut Stamp::new(offset), 971_211_336_000_001);
        assert_eq!(local, "10/Oct/2000:13:55:36 -0700");
        assert_eq!(utc, "2000-10-10T20:55:36.000001Z");
    }

    #[test]
    fn offsets_may_have_minutes() {
        let offset = jiff::tz::Offset::from_seconds(5 * 3600 + 45 * 60).unwrap().to_time_zone();
        assert_eq!(forms(&mut Stamp::new(offset), 0).0, "01/Jan/1970:05:45:00 +0545");
    }

    #[test]
    fn follows_the_time_and_survives_its_end() {
        let mut stamp = Stamp::new(TimeZone::UTC);
        assert_eq!(forms(&mut stamp, 1_999_999).1, "1970-01-01T00:00:01.999999Z");
        assert_eq!(forms(&mut stamp, 2_000_000).1, "1970-01-01T00:00:02.000000Z");
        assert!(forms(&mut stamp, u64::MAX).1.starts_with("9999-12-30T"));
        assert_eq!(forms(&mut stamp, 0).0, "01/Jan/1970:00:00:00 +0000");
    }
}
