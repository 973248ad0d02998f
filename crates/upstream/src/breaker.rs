//! Whether a service gets requests while too many of them fail. Pure: totals, outcomes and time come in.
//!
//! Closed → open, when enough of the requests in the window failed → half open, after a while: some
//! trials → closed, when all of them succeed, or open again at the first that does not.

use crate::{BreakerPolicy, Sample};

/// What a breaker does with a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// It goes through.
    Through,
    /// It goes through as a trial, whose end is told with [`Breaker::trial_ended`].
    Trial(Trial),
    /// It does not. The breaker lets trials through at `until_ms` at the earliest; `None`: trials are under
    /// way, and their end decides.
    Refused {
        /// Of the caller's clock.
        until_ms: Option<u64>,
    },
}

/// A request that is a trial. It belongs to one opening of the breaker: the end of one of an earlier opening
/// changes nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Trial(u64);

/// How a trial ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TrialEnd {
    /// Answered.
    Succeeded,
    /// As the ejection policy says.
    Failed,
    /// It says nothing, such as when the client went away: its place is free for another.
    Unknown,
}

/// What became of a breaker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BreakerChange {
    /// It refuses requests.
    Opened,
    /// It lets all through again. The caller clears the window: what failed before is paid for.
    Closed,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Closed,
    Open { until_ms: u64 },
    HalfOpen { left: u32, succeeded: u32 },
}

/// The breaker of a service. `now_ms` is of any clock that does not go back.
#[derive(Clone, Debug)]
pub struct Breaker {
    policy: BreakerPolicy,
    state: State,
    /// Which opening this is.
    opening: u64,
}

impl Breaker {
    /// A closed one.
    pub fn new(policy: BreakerPolicy) -> Self {
        Self { policy, state: State::Closed, opening: 0 }
    }

    /// Whether all requests go through.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// A request has failed; these are the window's totals with it. They matter while it is closed.
    pub fn failed(&mut self, now_ms: u64, totals: Sample) -> Option<BreakerChange> {
        let Sample { requests, failures, .. } = totals;
        let enough = requests >= u64::from(self.policy.min_requests.max(1));
        // Not multiplied in u64: counters may be anything.
        let too_many =
            u128::from(failures) * 100 >= u128::from(requests) * u128::from(self.policy.failures.max(1));
        (self.is_closed() && enough && too_many).then(|| self.open(now_ms))
    }

    /// A request comes.
    pub fn admit(&mut self, now_ms: u64) -> Admission {
        if let State::Open { until_ms } = self.state {
            if now_ms < until_ms {
                return Admission::Refused { until_ms: Some(until_ms) };
            }
            self.state = State::HalfOpen { left: self.policy.trials.max(1), succeeded: 0 };
        }
        match &mut self.state {
            State::HalfOpen { left: 0, .. } => Admission::Refused { until_ms: None },
            State::HalfOpen { left, .. } => {
                *left -= 1;
                Admission::Trial(Trial(self.opening))
            }
            State::Closed | State::Open { .. } => Admission::Through,
        }
    }

    /// A trial ended. To be told once for each, or its place is never free again.
    pub fn trial_ended(&mut self, now_ms: u64, trial: Trial, end: TrialEnd) -> Option<BreakerChange> {
        if trial.0 != self.opening {
            return None;
        }
        let State::HalfOpen { left, succeeded } = &mut self.state else { return None };
        match end {
            TrialEnd::Unknown => *left += 1,
            TrialEnd::Failed => return Some(self.open(now_ms)),
            TrialEnd::Succeeded => {
                *succeeded += 1;
                if *succeeded >= self.policy.trials {
                    self.state = State::Closed;
                    return Some(BreakerChange::Closed);
                }
            }
        }
        None
    }

    fn open(&mut self, now_ms: u64) -> BreakerChange {
        let open = u64::try_from(self.policy.open.as_millis()).unwrap_or(u64::MAX);
        self.state = State::Open { until_ms: now_ms.saturating_add(open) };
        self.opening += 1;
        BreakerChange::Opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn totals(requests: u64, failures: u64) -> Sample {
        Sample { requests, failures, ..Sample::default() }
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::new(BreakerPolicy::default());
        assert_eq!(breaker.failed(1_000, totals(20, 10)), Some(BreakerChange::Opened));
        breaker
    }

    fn trial(breaker: &mut Breaker, now_ms: u64) -> Trial {
        match breaker.admit(now_ms) {
            Admission::Trial(trial) => trial,
            other => panic!("not a trial: {other:?}"),
        }
    }

    #[test]
    fn it_opens_at_the_share_of_failures_if_there_were_enough_requests() {
        let mut breaker = Breaker::new(BreakerPolicy::default());
        assert_eq!(breaker.failed(0, totals(19, 19)), None);
        assert_eq!(breaker.failed(0, totals(100, 49)), None);
        assert_eq!(breaker.admit(0), Admission::Through);
        assert_eq!(breaker.failed(0, totals(100, 50)), Some(BreakerChange::Opened));
        assert_eq!(breaker.failed(0, totals(100, 50)), None, "it is open already");
        assert_eq!(breaker.admit(4_999), Admission::Refused { until_ms: Some(5_000) });
    }

    #[test]
    fn it_closes_when_all_trials_succeed() {
        let mut breaker = opened();
        let trials = [0; 3].map(|_| trial(&mut breaker, 6_000));
        assert_eq!(breaker.admit(6_000), Admission::Refused { until_ms: None });
        assert_eq!(breaker.trial_ended(6_001, trials[0], TrialEnd::Succeeded), None);
        assert_eq!(breaker.trial_ended(6_001, trials[1], TrialEnd::Unknown), None);
        let another = trial(&mut breaker, 6_002);
        assert_eq!(breaker.trial_ended(6_003, trials[2], TrialEnd::Succeeded), None);
        assert_eq!(breaker.trial_ended(6_004, another, TrialEnd::Succeeded), Some(BreakerChange::Closed));
        assert_eq!(breaker.admit(6_005), Admission::Through);
    }

    #[test]
    fn it_opens_again_at_the_first_trial_that_fails_and_forgets_the_others() {
        let mut breaker = opened();
        let trials = [0; 3].map(|_| trial(&mut breaker, 6_000));
        assert_eq!(breaker.trial_ended(7_000, trials[0], TrialEnd::Failed), Some(BreakerChange::Opened));
        assert_eq!(breaker.admit(11_999), Admission::Refused { until_ms: Some(12_000) });
        trial(&mut breaker, 12_000);
        assert_eq!(breaker.trial_ended(12_001, trials[1], TrialEnd::Succeeded), None);
        assert_eq!(breaker.trial_ended(12_001, trials[2], TrialEnd::Failed), None);
        assert!(matches!(breaker.admit(12_002), Admission::Trial(_)), "it is still half open");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Tick(u64, u64),
        Wait(u64),
        Admit,
        End(usize, TrialEnd),
    }

    fn step() -> impl Strategy<Value = Step> {
        let end = prop_oneof![
            4 => Just(TrialEnd::Succeeded),
            1 => Just(TrialEnd::Failed),
            1 => Just(TrialEnd::Unknown)
        ];
        prop_oneof![
            (0u64..60, 0u64..60).prop_map(|(requests, failures)| Step::Tick(requests, failures)),
            (0u64..6_000).prop_map(Step::Wait),
            Just(Step::Admit),
            Just(Step::Admit),
            (0usize..9, end).prop_map(|(at, end)| Step::End(at, end)),
        ]
    }

    proptest! {
        /// Never more trials at once than the policy has, none before its time, and once all trials have
        /// ended it neither refuses for ever nor needs a restart.
        #[test]
        fn trials_are_few_and_it_never_stays_shut(
            steps in prop::collection::vec(step(), 0..200),
            trials in 1u32..5,
        ) {
            let policy = BreakerPolicy { trials, ..BreakerPolicy::default() };
            let mut breaker = Breaker::new(policy);
            let (mut now, mut under_way, mut opened_at): (u64, Vec<Trial>, u64) = (0, Vec::new(), 0);
            for step in steps {
                let change = match step {
                    Step::Tick(requests, failures) => breaker.failed(now, totals(requests, failures)),
                    Step::Wait(millis) => { now += millis; None }
                    Step::Admit => {
                        if let Admission::Trial(trial) = breaker.admit(now) {
                            prop_assert!(now >= opened_at + 5_000);
                            under_way.push(trial);
                            let ours = under_way.iter().filter(|other| **other == trial).count();
                            prop_assert!(ours <= trials as usize);
                        }
                        None
                    }
                    Step::End(at, end) if !under_way.is_empty() => {
                        let trial = under_way.swap_remove(at % under_way.len());
                        breaker.trial_ended(now, trial, end)
                    }
                    Step::End(..) => None,
                };
                if change == Some(BreakerChange::Opened) {
                    opened_at = now;
                }
            }
            for trial in under_way {
                breaker.trial_ended(now, trial, TrialEnd::Unknown);
            }
            for _ in 0..trials {
                if let Admission::Trial(trial) = breaker.admit(now + 5_000) {
                    breaker.trial_ended(now + 5_000, trial, TrialEnd::Succeeded);
                }
            }
            prop_assert!(breaker.is_closed());
        }
    }
}
