//! A pick is one that may be used, and there is one whenever there is such an endpoint: through any life, in
//! sets of any size, whatever is said of loads.

use proptest::collection::vec;
use proptest::prelude::*;
use thalweg_balance::{Balance, Balancer, Candidate, NoLoads, Pick, Seed};

use super::{MadeUp, Verdict, built, candidate, pick_for, ready};

/// A step of a simulated life.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Pick { tried: Vec<u32>, hash: u64, bounded_load: Option<u32> },
    Ready { index: usize, ready: bool },
    Load { index: usize, in_flight: u32, latency: Option<f32> },
    Replace(Vec<Candidate>),
    Fork(u64),
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let weight = prop_oneof![8 => Just(0_u32), 32 => 1..5_u32, 1 => 1..=1000_u32];
    let percent = prop_oneof![Just(None), Just(Some(100)), Just(Some(125)), any::<u32>().prop_map(Some)];
    let in_flight = prop_oneof![4 => 0..5_u32, 1 => any::<u32>()];
    let latency = prop_oneof![Just(None), Just(Some(f32::NAN)), any::<f32>().prop_map(Some)];
    prop_oneof![
        12 => (vec(0..12_u32, 0..4), any::<u64>(), percent)
            .prop_map(|(tried, hash, bounded_load)| Step::Pick { tried, hash, bounded_load }),
        6 => (0..12_usize, any::<bool>()).prop_map(|(index, ready)| Step::Ready { index, ready }),
        4 => (0..12_usize, in_flight, latency)
            .prop_map(|(index, in_flight, latency)| Step::Load { index, in_flight, latency }),
        1 => vec(candidate(weight), 0..12).prop_map(Step::Replace),
        1 => any::<u64>().prop_map(Step::Fork),
    ]
}

/// Checks one pick against what it had to choose from.
pub(crate) fn pick(balancer: &mut dyn Balance, pick: &Pick<'_>) -> Result<Option<u32>, TestCaseError> {
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

/// Picks only what may be used, and always when something may, through a whole life.
pub(crate) fn through_a_life(entry: &Balancer, life: &[Step]) -> Verdict {
    let mut balancer = (entry.new)(Seed(1));
    let mut candidates = Vec::new();
    let mut loads = MadeUp { in_flight: vec![0; 12], latency: vec![None; 12] };
    for step in life {
        match step {
            Step::Pick { tried, hash, bounded_load } => {
                let (hash, bounded_load) = (*hash, *bounded_load);
                let asked = Pick { candidates: &candidates, tried, hash, bounded_load, loads: &loads };
                pick(balancer.as_mut(), &asked)?;
            }
            Step::Ready { index, ready } => {
                if let Some(candidate) = candidates.get_mut(*index) {
                    candidate.ready = *ready;
                }
            }
            Step::Load { index, in_flight, latency } => {
                (loads.in_flight[*index], loads.latency[*index]) = (*in_flight, *latency);
            }
            Step::Replace(new) => {
                candidates.clone_from(new);
                balancer.rebuild(&candidates);
            }
            Step::Fork(seed) => balancer = balancer.fork(Seed(*seed)),
        }
    }
    Ok(())
}

/// Tries every endpoint once, in sets at the edges: none, one, no weight, the least and the greatest, the same id.
pub(crate) fn at_the_extremes(entry: &Balancer) -> Verdict {
    let twins = vec![Candidate { weight: 1, ready: true, id: 5 }; 6];
    let sets = [ready(&[]), ready(&[1]), ready(&[0, 0, 0]), ready(&[1, 1000]), ready(&[1; 5]), twins];
    for set in sets.iter().chain([&ready(&[u32::MAX, 1, u32::MAX]), &ready(&[0, 7])]) {
        let mut balancer = built(entry, set);
        let mut tried = Vec::new();
        loop {
            let asked = Pick { tried: &tried, ..pick_for(set, 9) };
            let Some(index) = pick(balancer.as_mut(), &asked)? else { break };
            tried.push(index);
        }
        let with_weight = set.iter().filter(|candidate| candidate.weight > 0).count();
        prop_assert_eq!(tried.len(), with_weight, "{}: {:?}", entry.name, set);
    }
    Ok(())
}

/// 10,000 endpoints: all, nearly none and none of them ready.
pub(crate) fn with_ten_thousand_endpoints(entry: &Balancer) -> Verdict {
    const PICKS: u64 = 50;
    let mut set: Vec<Candidate> =
        (0..10_000).map(|id| Candidate { weight: 1 + (id % 7) as u32, ready: true, id }).collect();
    let built = built(entry, &set);
    let mut balancer = built.fork(Seed(3));
    let loads = MadeUp { in_flight: vec![1; set.len()], latency: Vec::new() };
    let mut all_pick = |set: &[Candidate]| -> Verdict {
        for hash in 0..PICKS {
            let hash = thalweg_balance::key_hash(&hash.to_le_bytes());
            pick(balancer.as_mut(), &pick_for(set, hash))?;
            let asked = Pick { bounded_load: Some(125), loads: &loads, ..pick_for(set, hash) };
            pick(balancer.as_mut(), &asked)?;
            pick(balancer.as_mut(), &Pick { tried: &[4321, 17], loads: &NoLoads, ..asked })?;
        }
        Ok(())
    };
    all_pick(&set)?;
    set.iter_mut().for_each(|candidate| candidate.ready = false);
    all_pick(&set)?;
    set[4321].ready = true;
    all_pick(&set)
}
