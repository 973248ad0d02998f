//! Those that pick by key: which keys move when something changes, the bound on load, and agreement of workers.

use proptest::prelude::*;
use thalweg_balance::{Balance, Balancer, Candidate, Pick, Seed, key_hash};

use super::{MadeUp, Verdict, built, pick_for};

/// Keys that are followed through a change.
const KEYS: u64 = 2_000;

/// Keys that move although neither their old nor their new endpoint changed, as a share of all: at most on average over
/// many changes, and at most in one.
fn collateral(entry: &Balancer) -> (f64, f64) {
    match entry.name {
        // Claims meet in another order when one claimant more or less is there. Over 4,000 random sets of 2 to 23
        // endpoints and changes of one: 0.2 % on average, above 1 % in four. 4.6 % was met once, in the set of
        // `the_set_with_most_strays_that_was_met_keeps_the_bound`; why there is not known.
        "maglev" => (0.006, 0.1),
        _ => (0.0, 0.0),
    }
}

fn hash(key: u64) -> u64 {
    key_hash(&key.to_le_bytes())
}

/// The id of the endpoint of each key.
fn homes(balancer: &mut dyn Balance, set: &[Candidate]) -> Vec<Option<u64>> {
    let home = |key| balancer.pick(&pick_for(set, hash(key))).map(|index| set[index as usize].id);
    (0..KEYS).map(home).collect()
}

/// How many keys moved that had nothing to do with the endpoint of this id.
fn strayed(before: &[Option<u64>], after: &[Option<u64>], id: u64) -> usize {
    let moved = before.iter().zip(after).filter(|(before, after)| before != after);
    moved.filter(|(before, after)| **before != Some(id) && **after != Some(id)).count()
}

/// What is done to an endpoint of a set.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Remove,
    Add(Candidate),
    Weight(u32),
}

pub(crate) fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        Just(Change::Remove),
        (1..=20_u32, any::<u64>()).prop_map(|(weight, id)| Change::Add(Candidate {
            weight,
            ready: true,
            id
        })),
        (1..=20_u32).prop_map(Change::Weight),
    ]
}

/// How many keys a change of one endpoint moves neither to it nor from it.
fn strayed_by(entry: &Balancer, set: &[Candidate], place: usize, change: &Change) -> usize {
    let before = homes(built(entry, set).as_mut(), set);
    let (mut changed, place) = (set.to_vec(), place % set.len());
    let id = match change {
        Change::Remove => changed.remove(place).id,
        Change::Add(new) => {
            changed.insert(place, *new);
            new.id
        }
        Change::Weight(weight) => {
            changed[place].weight = *weight;
            set[place].id
        }
    };
    let after = homes(built(entry, &changed).as_mut(), &changed);
    strayed(&before, &after, id)
}

/// A change of one endpoint moves keys to it or from it, and (with Maglev) few others.
pub(crate) fn a_change_moves_few(
    entry: &Balancer,
    set: &[Candidate],
    place: usize,
    change: &Change,
) -> Verdict {
    let (strayed, (_, most)) = (strayed_by(entry, set, place, change), collateral(entry));
    prop_assert!(strayed as f64 <= most * KEYS as f64, "{}: {strayed} keys strayed", entry.name);
    Ok(())
}

/// And very few on average.
pub(crate) fn changes_move_few_on_average(entry: &Balancer, changes: &[(Vec<Candidate>, usize, Change)]) {
    let strayed: usize =
        changes.iter().map(|(set, place, change)| strayed_by(entry, set, *place, change)).sum();
    let (share, (most, _)) = (strayed as f64 / (KEYS as f64 * changes.len() as f64), collateral(entry));
    assert!(share <= most, "{}: {share} of all keys strayed", entry.name);
}

/// An endpoint that is not ready gives its keys to others and takes them back; no other key moves, with any of them.
pub(crate) fn an_outage_moves_only_its_own(entry: &Balancer, set: &[Candidate], place: usize) -> Verdict {
    let mut balancer = built(entry, set);
    let before = homes(balancer.as_mut(), set);
    let (mut hurt, place) = (set.to_vec(), place % set.len());
    hurt[place].ready = false;
    let during = homes(balancer.as_mut(), &hurt);
    for (before, during) in before.iter().zip(&during).filter(|(before, during)| before != during) {
        prop_assert_eq!(*before, Some(set[place].id), "{} moved to {:?}", entry.name, during);
    }
    prop_assert_eq!(before, homes(balancer.as_mut(), set), "{}", entry.name);
    Ok(())
}

/// The order of the list says nothing, and neither does the seed: every worker sends a key to the same endpoint.
pub(crate) fn workers_agree(entry: &Balancer, set: &[Candidate], turn: usize) -> Verdict {
    let first = built(entry, set);
    let expected = homes(first.fork(Seed(1)).as_mut(), set);
    prop_assert_eq!(&expected, &homes(first.fork(Seed(2)).as_mut(), set), "{}", entry.name);
    let mut turned = set.to_vec();
    turned.rotate_left(turn % set.len());
    turned.reverse();
    let mut elsewhere = (entry.new)(Seed(99));
    elsewhere.rebuild(&turned);
    prop_assert_eq!(&expected, &homes(elsewhere.as_mut(), &turned), "{}", entry.name);
    Ok(())
}

/// No endpoint gets more than its share of what is in flight, times the bound, rounded up. The first choice is left
/// only when it is full, and kept when all are.
///
/// `keys` come one after the other; at each, those of so many requests end that are longest under way.
pub(crate) fn the_bound_holds(
    entry: &Balancer,
    set: &[Candidate],
    percent: u32,
    keys: &[(u64, usize)],
) -> Verdict {
    let (mut balancer, mut unbound) = (built(entry, set), built(entry, set));
    let mut loads = MadeUp { in_flight: vec![0; set.len()], latency: Vec::new() };
    let mut under_way = std::collections::VecDeque::new();
    let weight: f64 = set.iter().filter(|c| c.ready).map(|c| f64::from(c.weight)).sum();
    for (key, end) in keys {
        for _ in 0..*end {
            if let Some(index) = under_way.pop_front() {
                let index: u32 = index;
                loads.in_flight[index as usize] -= 1;
            }
        }
        let plain = pick_for(set, hash(*key));
        let picked = balancer.pick(&Pick { bounded_load: Some(percent), loads: &loads, ..plain });
        let first = unbound.pick(&plain);
        let (Some(picked), Some(first)) = (picked, first) else {
            prop_assert_eq!(picked, first);
            continue;
        };
        let total = loads.in_flight.iter().sum::<u32>() + 1;
        let room = |index: u32| {
            let candidate = set[index as usize];
            let share = f64::from(percent) / 100.0 * f64::from(total) * f64::from(candidate.weight) / weight;
            // Rounded up, but not by what division left over.
            f64::from(loads.in_flight[index as usize]) < (share - 1e-9).ceil()
        };
        let any_room = (0..set.len() as u32).any(|index| plain.may_use(index) && room(index));
        if !any_room || room(first) {
            prop_assert_eq!(picked, first, "{}", entry.name);
        } else {
            prop_assert!(room(picked), "{}: {picked} is full: {:?}", entry.name, loads.in_flight);
        }
        loads.in_flight[picked as usize] += 1;
        under_way.push_back(picked);
    }
    Ok(())
}
