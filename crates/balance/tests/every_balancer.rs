//! What every algorithm of the list must keep, whatever it balances on.

use proptest::collection::vec;
use proptest::prelude::*;
use thalweg_balance::{BALANCERS, Balance, Candidate, Pick, Seed, balancer};

/// Share by which the load of an endpoint may miss its weight, and its floor in picks: the hashing family
/// is even only on average.
const TOLERANCE: f64 = 0.1;
const TOLERANCE_FLOOR: f64 = 40.0;

/// Turns through the weights of a set when its load is compared with them.
const TURNS: usize = 20;

fn candidate() -> impl Strategy<Value = Candidate> {
    let weight = prop_oneof![1 => Just(0_u32), 4 => 1..5_u32, 1 => 1..=1000_u32];
    (weight, any::<bool>()).prop_map(|(weight, ready)| Candidate { weight, ready })
}

/// A step of a simulated life.
#[derive(Clone, Debug)]
enum Step {
    Pick { tried: Vec<u32>, hash: u64 },
    Ready { index: usize, ready: bool },
    Replace(Vec<Candidate>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (vec(0..12_u32, 0..4), any::<u64>()).prop_map(|(tried, hash)| Step::Pick { tried, hash }),
        3 => (0..12_usize, any::<bool>()).prop_map(|(index, ready)| Step::Ready { index, ready }),
        1 => vec(candidate(), 0..12).prop_map(Step::Replace),
    ]
}

/// Checks one pick against what it had to choose from.
fn pick_soundly(balancer: &mut dyn Balance, pick: &Pick<'_>) -> Result<Option<u32>, TestCaseError> {
    let usable = |index: u32| {
        let candidate = pick.candidates[index as usize];
        candidate.ready && candidate.weight > 0 && !pick.tried.contains(&index)
    };
    let possible = (0..pick.candidates.len() as u32).any(usable);
    let picked = balancer.pick(pick);
    prop_assert_eq!(picked.is_some(), possible, "{}: {:?}", balancer.name(), pick);
    if let Some(index) = picked {
        prop_assert!((index as usize) < pick.candidates.len() && usable(index), "{}", balancer.name());
    }
    Ok(picked)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn picks_only_what_may_be_used_and_always_when_something_may(seed: u64, life in vec(step(), 1..80)) {
        for entry in BALANCERS {
            let mut balancer = (entry.new)(Seed(seed));
            let mut candidates = Vec::new();
            for step in &life {
                match step {
                    Step::Pick { tried, hash } => {
                        let pick = Pick { candidates: &candidates, tried, hash: *hash };
                        pick_soundly(balancer.as_mut(), &pick)?;
                    }
                    Step::Ready { index, ready } => {
                        if let Some(candidate) = candidates.get_mut(*index) {
                            candidate.ready = *ready;
                        }
                    }
                    Step::Replace(new) => {
                        candidates.clone_from(new);
                        balancer.rebuild(&candidates);
                    }
                }
            }
        }
    }

    #[test]
    fn the_load_follows_the_weights_of_what_is_ready(seed: u64, candidates in vec(candidate(), 1..12)) {
        let shares: Vec<u32> = candidates.iter().map(|c| if c.ready { c.weight } else { 0 }).collect();
        let total: u32 = shares.iter().sum();
        prop_assume!(total > 0);
        let picks = total as usize * TURNS;
        for entry in BALANCERS {
            let mut balancer = (entry.new)(Seed(seed));
            balancer.rebuild(&candidates);
            let mut counts = vec![0_u32; candidates.len()];
            for number in 0..picks as u64 {
                let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let pick = Pick { candidates: &candidates, tried: &[], hash };
                if let Some(index) = pick_soundly(balancer.as_mut(), &pick)? {
                    counts[index as usize] += 1;
                }
            }
            for (count, share) in counts.iter().zip(&shares) {
                let due = f64::from(*share) * TURNS as f64;
                let allowed = (due * TOLERANCE).max(TOLERANCE_FLOOR);
                prop_assert!((f64::from(*count) - due).abs() <= allowed, "{}: {counts:?} {shares:?}", entry.name);
            }
        }
    }
}

#[test]
fn the_list_and_the_algorithms_agree_on_their_names() {
    for (number, entry) in BALANCERS.iter().enumerate() {
        assert_eq!((entry.new)(Seed(0)).name(), entry.name);
        assert!(!entry.summary.is_empty() && !entry.summary.ends_with('.'));
        assert_eq!(balancer(entry.name).map(|found| found.name), Some(entry.name));
        assert!(BALANCERS[number + 1..].iter().all(|other| other.name != entry.name));
    }
    assert!(balancer("fastest").is_none());
}

#[test]
fn a_retry_goes_to_every_endpoint_once() {
    let candidates = [Candidate { weight: 1, ready: true }; 5];
    for entry in BALANCERS {
        let mut balancer = (entry.new)(Seed(3));
        balancer.rebuild(&candidates);
        let mut tried = Vec::new();
        while let Some(index) = balancer.pick(&Pick { candidates: &candidates, tried: &tried, hash: 9 }) {
            tried.push(index);
        }
        tried.sort_unstable();
        assert_eq!(tried, [0, 1, 2, 3, 4], "{}", entry.name);
    }
}
