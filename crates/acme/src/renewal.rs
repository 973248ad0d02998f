//! When a certificate is renewed, and when a failure is followed by another attempt. Pure.

use std::time::{Duration, SystemTime};

/// The first pause after a failure.
const PAUSE: Duration = Duration::from_secs(60);
/// The longest pause after failures.
const PAUSE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Of an interval, the part that differs from certificate to certificate.
const SPREAD: f64 = 0.1;
/// A certificate younger than this, or than a tenth of its life, is not renewed because an authority says so: one that
/// always says "now" would else be asked without end.
const YOUNG: Duration = Duration::from_secs(60 * 60);

/// From when to when a certificate is valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Validity {
    pub(crate) from: SystemTime,
    pub(crate) until: SystemTime,
}

impl Validity {
    fn life(self) -> Duration {
        self.until.duration_since(self.from).unwrap_or_default()
    }
}

/// When the authority would like a certificate to be renewed (RFC 9773 §4.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Window {
    pub(crate) start: SystemTime,
    pub(crate) end: SystemTime,
}

/// When a certificate is renewed: somewhere in the authority's window, else at two thirds of its life or a little
/// before. `chance`, 0–1, decides within these bounds; the same for the same certificate, so that replicas agree.
pub(crate) fn due(validity: Validity, window: Option<Window>, chance: f64) -> SystemTime {
    let life = validity.life();
    let by_life = validity.from + life.mul_f64(2.0 / 3.0 * (1.0 - SPREAD * chance));
    let Some(window) = window else { return by_life };
    let Ok(length) = window.end.duration_since(window.start) else { return by_life };
    let wished = window.start + length.mul_f64(chance);
    // Whatever the authority wishes, it must not expire in our hands.
    wished.max(validity.from + YOUNG.min(life / 10)).min(validity.until - life / 20)
}

/// The pause after so many failures in a row: 1 m, 2 m, 4 m … up to a day, and by chance up to a tenth less.
pub(crate) fn pause(failures: u32, chance: f64) -> Duration {
    let times = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    PAUSE.saturating_mul(times).min(PAUSE_MAX).mul_f64(1.0 - SPREAD * chance)
}

/// How long no other certificate is ordered after one was issued, by our own clock: what it says of itself may be in
/// the past already where a clock is wrong. `hasty`: how many before it were due at once. One that is valid does not
/// expire meanwhile.
pub(crate) fn rest_after(validity: Validity, now: SystemTime, hasty: u32, chance: f64) -> Duration {
    let least = YOUNG.min(validity.life() / 10);
    if hasty == 0 {
        return least;
    }
    let left = validity.until.duration_since(now).unwrap_or_default().saturating_sub(validity.life() / 20);
    let rest = pause(hasty, chance);
    least.max(if left.is_zero() { rest } else { rest.min(left) })
}

/// A number from 0 to 1 that a certificate's digest decides.
pub(crate) fn chance_of(digest: [u8; 32]) -> f64 {
    let [a, b, c, d, ..] = digest;
    f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const VALIDITY: Validity = Validity { from: SystemTime::UNIX_EPOCH, until: SystemTime::UNIX_EPOCH };

    fn days(count: u32) -> Validity {
        Validity { until: VALIDITY.from + DAY * count, ..VALIDITY }
    }

    fn window(start: u32, end: u32) -> Option<Window> {
        Some(Window { start: VALIDITY.from + DAY * start, end: VALIDITY.from + DAY * end })
    }

    #[test]
    fn without_a_wish_it_is_two_thirds_of_life_or_a_little_before() {
        assert_eq!(due(days(90), None, 0.0), VALIDITY.from + DAY * 60);
        assert_eq!(due(days(90), None, 1.0), VALIDITY.from + DAY * 54);
    }

    #[test]
    fn within_the_window_chance_decides() {
        assert_eq!(due(days(90), window(50, 52), 0.0), VALIDITY.from + DAY * 50);
        assert_eq!(due(days(90), window(50, 52), 0.5), VALIDITY.from + DAY * 51);
    }

    #[test]
    fn a_window_that_is_over_means_now_and_not_again_at_once() {
        // As an authority says of a certificate that it has revoked: an hour ago.
        let due = due(days(90), window(0, 0), 0.7);
        assert_eq!(due, VALIDITY.from + YOUNG);
        let short = Validity { until: VALIDITY.from + Duration::from_secs(100), ..VALIDITY };
        assert_eq!(super::due(short, window(0, 0), 0.0), VALIDITY.from + Duration::from_secs(10));
    }

    #[test]
    fn a_window_beyond_the_end_or_turned_round_is_not_followed() {
        assert_eq!(due(days(20), window(50, 52), 0.5), VALIDITY.from + DAY * 19);
        assert_eq!(due(days(90), window(52, 50), 0.0), VALIDITY.from + DAY * 60);
    }

    #[test]
    fn pauses_double_from_a_minute_to_a_day() {
        let minutes: Vec<_> = (1..=13).map(|failures| pause(failures, 0.0).as_secs() / 60).collect();
        assert_eq!(minutes, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440, 1440]);
        assert_eq!((pause(u32::MAX, 0.0), pause(0, 1.0)), (PAUSE_MAX, Duration::from_secs(54)));
    }

    #[test]
    fn whatever_its_dates_say_a_certificate_is_not_ordered_again_and_again() {
        let now = VALIDITY.from + DAY;
        assert_eq!(rest_after(days(90), now, 0, 0.0), YOUNG);
        let rests: Vec<_> =
            (5..9).map(|hasty| rest_after(days(90), now, hasty, 0.0).as_secs() / 60).collect();
        assert_eq!(rests, [60, 60, 64, 128]);
        let short = Validity { until: VALIDITY.from + Duration::from_secs(100), ..VALIDITY };
        let rests: Vec<_> = (0..4).map(|hasty| rest_after(short, now, hasty, 0.0).as_secs()).collect();
        assert_eq!(rests, [10, 60, 120, 240], "by this clock it has expired");
        assert_eq!(rest_after(short, now, u32::MAX, 0.0), PAUSE_MAX);
        assert_eq!(rest_after(short, VALIDITY.from, 3, 0.0), Duration::from_secs(95));
    }

    #[test]
    fn chance_lies_between_nothing_and_one() {
        assert_eq!((chance_of([0; 32]), chance_of([255; 32])), (0.0, 1.0));
    }
}
