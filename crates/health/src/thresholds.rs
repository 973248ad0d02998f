//! From single checks to a verdict. Pure: no clock, no endpoint.

use thalweg_upstream::HealthPolicy;

/// What is thought of an endpoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It is to get requests.
    Healthy,
    /// It is not.
    Unhealthy,
}

/// Weighs the checks of one target. What has never been judged is healthy at its first passed check; all
/// other changes take as many checks in a row as the policy says.
#[derive(Clone, Debug)]
pub struct Thresholds {
    unhealthy_after: u32,
    healthy_after: u32,
    verdict: Option<Verdict>,
    /// Checks in a row that spoke against the verdict.
    against: u32,
}

impl Thresholds {
    /// Begins with what is `known` of the endpoint: `None`, nothing.
    pub fn new(policy: &HealthPolicy, known: Option<Verdict>) -> Self {
        let HealthPolicy { unhealthy_after, healthy_after, .. } = *policy;
        Self { unhealthy_after, healthy_after, verdict: known, against: 0 }
    }

    /// What is thought of it now; `None`: not judged yet.
    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    /// A check passed. Returns the verdict if this changed it.
    pub fn passed(&mut self) -> Option<Verdict> {
        let needed = if self.verdict.is_none() { 1 } else { self.healthy_after };
        self.count(Verdict::Healthy, needed)
    }

    /// A check failed. Returns the verdict if this changed it.
    pub fn failed(&mut self) -> Option<Verdict> {
        self.count(Verdict::Unhealthy, self.unhealthy_after)
    }

    fn count(&mut self, said: Verdict, needed: u32) -> Option<Verdict> {
        if self.verdict == Some(said) {
            self.against = 0;
            return None;
        }
        self.against = self.against.saturating_add(1);
        if self.against < needed {
            return None;
        }
        self.against = 0;
        self.verdict = Some(said);
        self.verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn policy(unhealthy_after: u32, healthy_after: u32) -> HealthPolicy {
        HealthPolicy { unhealthy_after, healthy_after, ..HealthPolicy::default() }
    }

    fn tell(judge: &mut Thresholds, passed: bool) -> Option<Verdict> {
        if passed { judge.passed() } else { judge.failed() }
    }

    #[test]
    fn the_first_passed_check_is_enough_and_a_passed_one_between_starts_again() {
        let mut judge = Thresholds::new(&policy(3, 2), None);
        assert_eq!(judge.passed(), Some(Verdict::Healthy));
        for passed in [false, false, true, false, false] {
            assert_eq!(tell(&mut judge, passed), None);
        }
        assert_eq!(judge.failed(), Some(Verdict::Unhealthy));
        assert_eq!(judge.passed(), None);
        assert_eq!(judge.failed(), None);
        assert_eq!(judge.passed(), None);
        assert_eq!(judge.passed(), Some(Verdict::Healthy));
    }

    #[test]
    fn what_is_known_to_be_down_needs_as_many_as_any_other() {
        let mut judge = Thresholds::new(&policy(3, 2), Some(Verdict::Unhealthy));
        assert_eq!(judge.passed(), None);
        assert_eq!(judge.passed(), Some(Verdict::Healthy));
    }

    proptest! {
        /// The same rule said by looking back over all checks.
        #[test]
        fn a_verdict_changes_when_enough_checks_in_a_row_speak_against_it(
            (down, up) in (1u32..6, 1u32..6),
            known in prop_oneof![Just(None), Just(Some(Verdict::Healthy)), Just(Some(Verdict::Unhealthy))],
            checks in prop::collection::vec(any::<bool>(), 0..200),
        ) {
            let mut judge = Thresholds::new(&policy(down, up), known);
            let (mut verdict, mut since) = (known, 0);
            for (at, passed) in checks.iter().enumerate() {
                let changed = tell(&mut judge, *passed);
                let run = checks[since..=at].iter().rev().take_while(|other| *other == passed).count() as u32;
                let said = if *passed { Verdict::Healthy } else { Verdict::Unhealthy };
                let needed = match (verdict, passed) {
                    (None, true) => 1,
                    (_, true) => up,
                    (_, false) => down,
                };
                let expected = (verdict != Some(said) && run >= needed).then_some(said);
                prop_assert_eq!(changed, expected);
                if expected.is_some() {
                    (verdict, since) = (expected, at + 1);
                }
                prop_assert_eq!(judge.verdict(), verdict);
            }
        }
    }
}
