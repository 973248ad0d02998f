//! Points in time and dates of HTTP (RFC 9110 §5.6.7).
//!
//! The clock is the caller's: the wall clock in milliseconds, so that a response that is fresh for two seconds is not
//! stale because a second has just begun. Dates in fields have whole seconds and may lie before 1970.

/// Wall-clock time in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// A whole second.
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// The second that it lies in.
    pub const fn seconds(self) -> i64 {
        // A 64-bit number of milliseconds has at most 55 bits of seconds.
        (self.0 / 1000) as i64
    }

    /// Milliseconds since `earlier`; 0 where the clock was set back.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

const DAY: i64 = 86_400;
const MONTHS: [&[u8]; 12] =
    [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
const WEEKDAYS: [&[u8]; 7] =
    [b"sunday", b"monday", b"tuesday", b"wednesday", b"thursday", b"friday", b"saturday"];
/// A two-digit year that would lie further ahead is one of the century before.
const YEARS_AHEAD: i64 = 50;

/// Reads a date in one of its three forms, in seconds since the Unix epoch.
///
/// Strict in form, whatever the case of letters (RFC 9111 §4.2): one zone, no spaces too many, no digit missing. The
/// weekday may be a wrong one. A two-digit year is the one that lies at most 50 years after `now`.
pub fn parse_http_date(value: &[u8], now: UnixMillis) -> Option<i64> {
    if let Some(rest) = after_weekday(value, 3, b", ") {
        return fixdate(rest);
    }
    if let Some(rest) = after_weekday(value, 3, b" ") {
        return asctime(rest);
    }
    let name = value.iter().position(|byte| *byte == b',')?;
    rfc850(after_weekday(value, name, b", ")?, now)
}

/// What follows a weekday of which `letters` are written, and this text.
fn after_weekday<'a>(value: &'a [u8], letters: usize, then: &[u8]) -> Option<&'a [u8]> {
    let (name, rest) = value.split_at_checked(letters)?;
    let is_it = |day: &&[u8]| match letters {
        3 => day[..3].eq_ignore_ascii_case(name),
        _ => day.eq_ignore_ascii_case(name),
    };
    WEEKDAYS.iter().any(is_it).then_some(())?;
    rest.strip_prefix(then)
}

/// `06 Nov 1994 08:49:37 GMT`.
fn fixdate(rest: &[u8]) -> Option<i64> {
    let [d1, d2, b' ', m @ .., b' ', y1, y2, y3, y4] = rest.get(..11)? else { return None };
    let year = digits(&[*y1, *y2, *y3, *y4])?;
    let time = gmt(rest.get(11..)?)?;
    at((year, month(m)?, digits(&[*d1, *d2])?), time)
}

/// `06-Nov-94 08:49:37 GMT`.
fn rfc850(rest: &[u8], now: UnixMillis) -> Option<i64> {
    let [d1, d2, b'-', m @ .., b'-', y1, y2] = rest.get(..9)? else { return None };
    let (day, month, short) = (digits(&[*d1, *d2])?, month(m)?, digits(&[*y1, *y2])?);
    let time = gmt(rest.get(9..)?)?;
    let this_year = year_of(now.seconds());
    let year = this_year - this_year % 100 + short;
    let is_ahead = at_any((year - YEARS_AHEAD, month, day), time) > now.seconds();
    at((if is_ahead { year - 100 } else { year }, month, day), time)
}

/// `Nov  6 08:49:37 1994`.
fn asctime(rest: &[u8]) -> Option<i64> {
    let [m @ .., b' ', d1, d2, b' '] = rest.get(..7)? else { return None };
    let day = if *d1 == b' ' { digits(&[*d2])? } else { digits(&[*d1, *d2])? };
    let time = clock(rest.get(7..15)?)?;
    let [b' ', year @ ..] = rest.get(15..)? else { return None };
    if year.len() != 4 {
        return None;
    }
    at((digits(year)?, month(m)?, day), time)
}

/// ` 08:49:37 GMT`, in seconds of the day.
fn gmt(rest: &[u8]) -> Option<i64> {
    let rest = rest.strip_prefix(b" ")?;
    let (time, zone) = rest.split_at_checked(8)?;
    zone.eq_ignore_ascii_case(b" GMT").then_some(())?;
    clock(time)
}

/// `08:49:37`, in seconds of the day. A leap second is the one before: a date is never later than what was written.
fn clock(text: &[u8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = text else { return None };
    let (hour, minute, second) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?, digits(&[*s1, *s2])?);
    (hour < 24 && minute < 60 && second <= 60).then(|| hour * 3600 + minute * 60 + second.min(59))
}

fn month(name: &[u8]) -> Option<i64> {
    MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name)).map(|index| index as i64 + 1)
}

/// A number of at most four digits.
fn digits(text: &[u8]) -> Option<i64> {
    let is_number = text.iter().all(u8::is_ascii_digit);
    is_number.then(|| text.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
}

/// Seconds of a date that the calendar has.
fn at((year, month, day): (i64, i64, i64), time: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    (1..=longest).contains(&day).then(|| at_any((year, month, day), time))
}

/// The same for any day of any month.
fn at_any((year, month, day): (i64, i64, i64), time: i64) -> i64 {
    // Days since the first of March of the year 0, whose last month is February.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year;
    (days - 719_468) * DAY + time
}

fn year_of(seconds: i64) -> i64 {
    civil(seconds.div_euclid(DAY)).0
}

/// Year, month and day of a number of days since the epoch.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// Appends a date as `Sun, 06 Nov 1994 08:49:37 GMT`. Times after the year 9999 are its last second.
pub fn write_http_date(time: UnixMillis, out: &mut Vec<u8>) {
    const LAST: i64 = 253_402_300_799;
    let seconds = time.seconds().min(LAST);
    let (days, time) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    let [weekday, month] = [WEEKDAYS[(days + 4).rem_euclid(7) as usize], MONTHS[(month - 1) as usize]]
        .map(|name| [name[0].to_ascii_uppercase(), name[1], name[2]]);
    out.extend_from_slice(&weekday);
    out.extend_from_slice(b", ");
    two(day, out);
    out.push(b' ');
    out.extend_from_slice(&month);
    out.push(b' ');
    two(year / 100, out);
    two(year % 100, out);
    for (before, number) in [(b' ', time / 3600), (b':', time / 60 % 60), (b':', time % 60)] {
        out.push(before);
        two(number, out);
    }
    out.extend_from_slice(b" GMT");
}

fn two(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis::from_seconds(1_790_000_000); // in September 2026
    const THEN: i64 = 784_111_777;

    fn date(text: &str) -> Option<i64> {
        parse_http_date(text.as_bytes(), NOW)
    }

    #[test]
    fn the_three_forms_are_the_same_date() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "SUN, 06 NOV 1994 08:49:37 gmt",
            "sunday, 06-nov-94 08:49:37 Gmt",
            "Thu, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(date(text), Some(THEN), "{text}");
        }
        assert_eq!(date("Sun Nov 16 08:49:37 1994"), Some(THEN + 10 * DAY));
    }

    #[test]
    fn odd_forms_are_no_dates() {
        for text in [
            "",
            "0",
            "-1",
            "Sun",
            "Sun,",
            "Sun, ",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Sun, 06  Nov  1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08.49.37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 AEST",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:00 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 2023 08:49:37 GMT",
            "Sun, 06 Non 1994 08:49:37 GMT",
            "Xyz, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "Sun Nov  6 08:49:37 94",
            "Sun Nov  6 08:49:37 1994 GMT",
            "Sun, 06 Nov +994 08:49:37 GMT",
            "\u{662}Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(date(text), None, "{text}");
        }
    }

    #[test]
    fn a_two_digit_year_lies_at_most_50_years_ahead() {
        let year = |text: &str| date(text).map(year_of);
        assert_eq!(year("Thursday, 18-Aug-50 02:01:18 GMT"), Some(2050));
        assert_eq!(year("Thursday, 18-Aug-76 02:01:18 GMT"), Some(2076));
        assert_eq!(year("Thursday, 18-Dec-76 02:01:18 GMT"), Some(1976), "more than 50 years");
        assert_eq!(year("Thursday, 18-Aug-77 02:01:18 GMT"), Some(1977));
        assert_eq!(year("Thursday, 18-Aug-00 02:01:18 GMT"), Some(2000));
    }

    #[test]
    fn dates_reach_from_before_1970_to_the_year_9999() {
        assert_eq!(date("Mon, 01 Jan 1900 00:00:00 GMT"), Some(-2_208_988_800));
        assert_eq!(date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(date("Tue, 19 Jan 2038 14:14:08 GMT"), Some(2_147_523_248));
        assert_eq!(date("Thu, 29 Feb 2024 23:59:60 GMT"), Some(1_709_251_199));
        assert_eq!(date("Fri, 31 Dec 9999 23:59:59 GMT"), Some(253_402_300_799));
        assert_eq!(date("Sat, 01 Jan 0000 00:00:00 GMT"), Some(-62_167_219_200));
    }

    #[test]
    fn what_is_written_is_read_again() {
        for seconds in [0, 59, 86_399, 951_782_400, 1_709_164_800, 784_111_777, 253_402_300_799] {
            let mut text = Vec::new();
            write_http_date(UnixMillis::from_seconds(seconds), &mut text);
            assert_eq!(text.len(), 29);
            assert_eq!(parse_http_date(&text, NOW), Some(seconds as i64), "{seconds}");
        }
        let mut text = Vec::new();
        write_http_date(UnixMillis(784_111_777_999), &mut text);
        assert_eq!(text, b"Sun, 06 Nov 1994 08:49:37 GMT");
        write_http_date(UnixMillis(u64::MAX), &mut text);
        assert!(text.ends_with(b"Fri, 31 Dec 9999 23:59:59 GMT"));
    }

    #[test]
    fn a_clock_that_was_set_back_has_let_no_time_pass() {
        assert_eq!(UnixMillis(5).since(UnixMillis(9)), 0);
        assert_eq!(UnixMillis(9).since(UnixMillis(5)), 4);
    }
}
