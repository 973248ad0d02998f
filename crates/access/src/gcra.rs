//! The generic cell rate algorithm (ITU-T I.371): a rate with a burst, in one number for each key.
//!
//! The number is the *theoretical arrival time*: when the allowance is whole again. It lies in the past for a key that
//! has spent nothing for a while, and no further in the future than the burst takes to come back. Pure: no clock, no
//! table; all times are nanoseconds since a moment that the caller chooses.

use std::time::Duration;

/// Units per period, at most: one in a nanosecond is the finest that can be counted.
const UNITS: u64 = 1_000_000_000_000;
/// The shortest period.
const SHORTEST: Duration = Duration::from_millis(1);
/// The longest time in which an allowance comes back, whole.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// Debt that is remembered: what was spent afterwards beyond the allowance.
const DEBT: u64 = 24 * 60 * 60 * 1_000_000_000;

/// How much may be spent in which time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate {
    units: u64,
    period: u64,
    burst: u64,
    /// Nanoseconds in which the whole burst comes back.
    tolerance: u64,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decision {
    /// How long it has to wait, in nanoseconds; 0: it is admitted, and its cost is spent.
    pub wait: u64,
    /// Units that are left.
    pub left: u64,
    /// When the allowance is whole again, in nanoseconds from now.
    pub whole_in: u64,
}

impl Decision {
    /// Whether it may go on.
    pub fn admits(&self) -> bool {
        self.wait == 0
    }
}

/// How a cost is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cost {
    /// All of it must be there. One that is above the burst counts as the burst.
    Whole(u64),
    /// One unit must be there; what the cost is beyond the allowance is a debt.
    Debt(u64),
}

impl Rate {
    /// `units` in each `period`, and `burst` at once.
    ///
    /// # Errors
    /// A sentence that names the bound that one of them is beyond.
    pub fn new(units: u64, period: Duration, burst: u64) -> Result<Self, String> {
        if units == 0 || burst == 0 || units > UNITS || burst > UNITS {
            return Err(format!("a limit and its burst must be from 1 to {UNITS}"));
        }
        if period < SHORTEST || period > Duration::from_secs(31 * 24 * 60 * 60) {
            return Err("`per` must be from 1ms to 31d".into());
        }
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let tolerance = u128::from(burst) * u128::from(period) / u128::from(units);
        match u64::try_from(tolerance) {
            Ok(tolerance) if Duration::from_nanos(tolerance) <= LONGEST && tolerance > 0 => {
                Ok(Self { units, period, burst, tolerance })
            }
            _ => Err("`burst` would take more than 366 days to come back, or no time at all".into()),
        }
    }

    /// Units in a period.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// The period.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }

    /// Units at once.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// Nanoseconds in which the whole burst comes back.
    pub fn tolerance(&self) -> u64 {
        self.tolerance
    }

    /// Nanoseconds in which these units come back; rounded down, so that the whole burst is there one by one.
    pub fn time_of(&self, units: u64) -> u64 {
        match units {
            0 => 0,
            // The rule, without a division of 128 bits.
            1 => (self.period / self.units).max(1),
            _ => {
                let time = u128::from(units) * u128::from(self.period) / u128::from(self.units);
                u64::try_from(time).unwrap_or(u64::MAX).max(1)
            }
        }
    }

    /// Decides, and gives the next arrival time, which is the old one where the request is refused.
    pub fn decide(&self, arrival: u64, now: u64, cost: Cost) -> (u64, Decision) {
        let used = arrival.saturating_sub(now);
        let (asked, spent) = match cost {
            Cost::Whole(units) => {
                let time = self.time_of(units.min(self.burst)).min(self.tolerance);
                (time, time)
            }
            Cost::Debt(units) => (self.time_of(1).min(self.tolerance), self.time_of(units)),
        };
        let wait = used.saturating_add(asked).saturating_sub(self.tolerance);
        if wait > 0 {
            return (arrival, self.state(used, wait));
        }
        let used = used.saturating_add(spent).min(self.tolerance.saturating_add(DEBT));
        (now.saturating_add(used), self.state(used, 0))
    }

    /// The arrival time after a cost that is known only now; it may become a debt.
    pub fn charge(&self, arrival: u64, now: u64, units: u64) -> u64 {
        let used = arrival.saturating_sub(now).saturating_add(self.time_of(units));
        now.saturating_add(used.min(self.tolerance.saturating_add(DEBT)))
    }

    /// The arrival time when a cost of [`Cost::Whole`] is given back.
    pub fn give_back(&self, arrival: u64, units: u64) -> u64 {
        arrival.saturating_sub(self.time_of(units.min(self.burst)).min(self.tolerance))
    }

    /// From when on a unit is there again.
    pub fn free_at(&self, arrival: u64) -> u64 {
        arrival.saturating_add(self.time_of(1).min(self.tolerance)).saturating_sub(self.tolerance)
    }

    /// What is left of an allowance of which this much is used, as the time in which it comes back.
    pub fn seen(&self, used: u64, wait: u64) -> Decision {
        self.state(used, wait)
    }

    fn state(&self, used: u64, wait: u64) -> Decision {
        let rest = u128::from(self.tolerance.saturating_sub(used));
        let left = rest * u128::from(self.units) / u128::from(self.period);
        Decision { wait, left: u64::try_from(left).unwrap_or(u64::MAX).min(self.burst), whole_in: used }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn rate(units: u64, seconds: u64, burst: u64) -> Rate {
        Rate::new(units, Duration::from_secs(seconds), burst).unwrap()
    }

    /// Asks for one unit at each of these times; gives how many were admitted.
    fn admitted(rate: Rate, times: impl Iterator<Item = u64>) -> usize {
        let mut arrival = 0;
        times
            .filter(|now| {
                let (next, decision) = rate.decide(arrival, *now, Cost::Whole(1));
                arrival = next;
                decision.admits()
            })
            .count()
    }

    #[test]
    fn a_burst_comes_at_once_and_the_rest_at_the_rate() {
        let ten = rate(10, 1, 5);
        assert_eq!(admitted(ten, std::iter::repeat_n(SECOND, 100)), 5);
        // Every millisecond for 10 seconds: the burst, and ten in each second.
        assert_eq!(admitted(ten, (0..10_000).map(|at| SECOND + at * 1_000_000)), 5 + 99);
    }

    #[test]
    fn what_is_left_and_the_waits_are_told() {
        let ten = rate(10, 1, 2);
        let (arrival, first) = ten.decide(0, SECOND, Cost::Whole(1));
        assert_eq!(first, Decision { wait: 0, left: 1, whole_in: SECOND / 10 });
        let (arrival, second) = ten.decide(arrival, SECOND, Cost::Whole(1));
        assert_eq!(second, Decision { wait: 0, left: 0, whole_in: SECOND / 5 });
        let (same, third) = ten.decide(arrival, SECOND, Cost::Whole(1));
        assert_eq!((same, third), (arrival, Decision { wait: SECOND / 10, left: 0, whole_in: SECOND / 5 }));
        // It is admitted at just that time, and not before.
        assert!(!ten.decide(arrival, SECOND + third.wait - 1, Cost::Whole(1)).1.admits());
        assert!(ten.decide(arrival, SECOND + third.wait, Cost::Whole(1)).1.admits());
    }

    #[test]
    fn what_is_given_back_was_never_spent() {
        let three = rate(3, 1, 3);
        let (one, _) = three.decide(0, SECOND, Cost::Whole(1));
        let (two, _) = three.decide(one, SECOND, Cost::Whole(2));
        assert_eq!(three.give_back(two, 2), one);
    }

    #[test]
    fn a_cost_above_the_burst_counts_as_the_burst() {
        let ten = rate(10, 1, 5);
        let (arrival, whole) = ten.decide(0, SECOND, Cost::Whole(1_000));
        assert!(whole.admits() && whole.left == 0);
        assert!(!ten.decide(arrival, SECOND, Cost::Whole(1_000)).1.admits());
        assert!(ten.decide(0, SECOND, Cost::Whole(0)).1.left == 5, "nothing costs nothing");
    }

    #[test]
    fn a_debt_is_paid_before_the_next_request() {
        let bytes = rate(1_000, 1, 1_000);
        let (arrival, first) = bytes.decide(0, SECOND, Cost::Debt(5_000));
        assert!(first.admits() && first.left == 0);
        let (_, second) = bytes.decide(arrival, SECOND, Cost::Debt(1));
        assert_eq!(second.wait, 4 * SECOND + SECOND / 1_000);
        let later = bytes.charge(arrival, SECOND, 1_000);
        assert_eq!(later, arrival + SECOND);
        // It is bounded: nobody waits for more than a day, and the burst.
        assert_eq!(bytes.charge(arrival, SECOND, u64::MAX), SECOND + DEBT + SECOND);
    }

    #[test]
    fn times_that_go_back_or_leap_lose_and_give_no_more_than_the_burst() {
        let ten = rate(10, 1, 5);
        let (arrival, _) = ten.decide(0, 100 * SECOND, Cost::Whole(5));
        // An earlier time than before: as if all were spent. Nothing overflows.
        assert!(!ten.decide(arrival, 0, Cost::Whole(1)).1.admits());
        assert_eq!(ten.decide(arrival, u64::MAX, Cost::Whole(1)).1.left, 4);
        assert!(!ten.decide(u64::MAX, 0, Cost::Whole(1)).1.admits());
    }

    #[test]
    fn any_rate_is_kept_in_the_long_run() {
        for (units, seconds, burst) in [(1, 1, 1), (7, 3, 2), (1000, 60, 10), (999_983, 1, 1000)] {
            let some = rate(units, seconds, burst);
            let (span, step) = (60 * SECOND, 60 * SECOND / 500_000);
            let got = admitted(some, (0..500_000).map(|at| SECOND + at * step)) as u64;
            let most = burst + units * 60 / seconds + 1;
            assert!(got <= most, "{units}/{seconds}s: {got} of {most} in {span}");
            assert!(got >= (most - burst).min(500_000) * 98 / 100, "{units}/{seconds}s: {got} of {most}");
        }
    }

    #[test]
    fn rates_beyond_reason_are_refused() {
        let second = Duration::from_secs(1);
        for (units, period, burst) in [
            (0, second, 1),
            (1, second, 0),
            (u64::MAX, second, 1),
            (1, Duration::ZERO, 1),
            (1, Duration::from_secs(40 * 24 * 3600), 1),
            (1, Duration::from_secs(24 * 3600), 1_000),
        ] {
            assert!(Rate::new(units, period, burst).is_err(), "{units} {period:?} {burst}");
        }
    }
}
