//! What every algorithm of the list must keep, and the worked example of docs/how-to-add.md with them.
//!
//! A new line of the list is checked by all of this without a change here. Only how evenly it spreads load
//! (`checks/weights.rs`) and how many keys may stray (`checks/keyed.rs`) can be said of it apart; without a word it
//! is taken to draw lots, and to let none stray.

mod checks;
mod example;

use std::collections::HashSet;

use checks::{built, candidate, keyed, pick_for, ready, sound, weights};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
// Under these names the example finds them as a file of the crate would.
use thalweg_balance::{BALANCERS, Balance, Balancer, Candidate, Needs, Pick, Seed, balancer};

/// What the line of the example in the list would make.
const EXAMPLE: Balancer = Balancer {
    name: "lottery",
    summary: "a ticket for each unit of weight; one wins",
    needs: Needs::NOTHING,
    new: |seed| Box::new(example::new(seed)),
};

/// The list and the example.
fn all() -> impl Iterator<Item = &'static Balancer> {
    BALANCERS.iter().chain([&EXAMPLE])
}

/// Those that pick by key.
fn by_key() -> impl Iterator<Item = &'static Balancer> {
    all().filter(|entry| entry.needs.key)
}

/// Two or more endpoints that are ready and have different ids.
fn ready_set() -> impl Strategy<Value = Vec<Candidate>> {
    let ready = vec((1..=20_u32, any::<u64>()), 2..24);
    ready.prop_map(|set| {
        let mut seen = HashSet::new();
        let new = set.into_iter().filter(|(_, id)| seen.insert(*id));
        new.map(|(weight, id)| Candidate { weight, ready: true, id }).collect()
    })
}

fn few(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(few(64))]

    #[test]
    fn picks_only_what_may_be_used_and_always_when_something_may(life in vec(sound::step(), 1..120)) {
        for entry in all() {
            sound::through_a_life(entry, &life)?;
        }
    }

    #[test]
    fn the_load_follows_the_weights_of_what_is_ready(
        set in vec(candidate(prop_oneof![2 => Just(0_u32), 8 => 1..10_u32, 1 => 1..=500_u32]), 1..12)
    ) {
        for entry in all() {
            weights::follow(entry, &set)?;
        }
    }

    #[test]
    fn the_bound_on_load_holds(
        set in vec(candidate(1..4_u32), 1..=16),
        percent in 100..200_u32,
        keys in vec((0..8_u64, 0..3_usize), 1..200),
    ) {
        for entry in by_key() {
            keyed::the_bound_holds(entry, &set, percent, &keys)?;
        }
    }
}

proptest! {
    #![proptest_config(few(24))]

    #[test]
    fn a_change_of_one_endpoint_moves_few_other_keys(
        set in ready_set(), place: usize, change in keyed::change()
    ) {
        for entry in by_key() {
            keyed::a_change_moves_few(entry, &set, place, &change)?;
        }
    }

    #[test]
    fn an_endpoint_that_is_not_ready_moves_only_its_own_keys(set in ready_set(), place: usize) {
        for entry in by_key() {
            keyed::an_outage_moves_only_its_own(entry, &set, place)?;
        }
    }

    #[test]
    fn every_worker_sends_a_key_to_the_same_endpoint(set in ready_set(), turn: usize) {
        for entry in by_key() {
            keyed::workers_agree(entry, &set, turn)?;
        }
    }
}

#[test]
fn sets_at_the_edges_are_picked_from() {
    all().for_each(|entry| sound::at_the_extremes(entry).unwrap());
}

#[test]
fn ten_thousand_endpoints_are_picked_from() {
    all().for_each(|entry| sound::with_ten_thousand_endpoints(entry).unwrap());
}

#[test]
fn a_change_of_one_of_many_endpoints_moves_few_other_keys() {
    let set = ready(&[1, 2, 3, 20].repeat(150));
    for entry in by_key() {
        keyed::a_change_moves_few(entry, &set, 303, &keyed::Change::Remove).unwrap();
        keyed::a_change_moves_few(entry, &set, 303, &keyed::Change::Weight(10)).unwrap();
    }
}

#[test]
fn changes_of_one_endpoint_move_very_few_other_keys_on_average() {
    let mut runner = TestRunner::deterministic();
    let any = (ready_set(), any::<usize>(), keyed::change());
    let changes: Vec<_> = (0..64).map(|_| any.new_tree(&mut runner).unwrap().current()).collect();
    by_key().for_each(|entry| keyed::changes_move_few_on_average(entry, &changes));
}

#[test]
fn the_set_with_most_strays_that_was_met_keeps_the_bound() {
    let ids = [16657393373597989286, 1956212509945981331, 10697820490026452347, 5906383271565952725];
    let mut set = ready(&[1, 1, 7, 20]);
    set.iter_mut().zip(ids).for_each(|(candidate, id)| candidate.id = id);
    by_key().for_each(|entry| keyed::a_change_moves_few(entry, &set, 1, &keyed::Change::Weight(8)).unwrap());
}

#[test]
fn the_load_follows_the_weights_of_endpoints_with_the_same_id() {
    let twins = [1, 3, 1, 3].map(|weight| Candidate { weight, ready: true, id: 7 });
    all().for_each(|entry| weights::follow(entry, &twins).unwrap());
}

#[test]
fn the_load_of_endpoints_that_are_out_follows_the_weights_too() {
    // With Maglev, neighbours of a place would take it: then the second of these had twice its due.
    let mut set = ready(&[78, 6, 269, 0, 435, 4]);
    let ids = [11409642681546336, 7025670525747077765, 10101248953863291442, 270690106025584];
    let ids = ids.into_iter().chain([814535497891628652, 5657575625044791991]);
    set.iter_mut().zip(ids).for_each(|(candidate, id)| candidate.id = id);
    [0, 2, 5].iter().for_each(|out: &usize| set[*out].ready = false);
    all().for_each(|entry| weights::follow(entry, &set).unwrap());
}

#[test]
fn workers_do_not_begin_with_the_same_endpoint() {
    let set = ready(&[1; 100]);
    for entry in all().filter(|entry| !entry.needs.key) {
        let first = built(entry, &set);
        let starts: HashSet<_> =
            (0..16).map(|worker| first.fork(Seed(worker)).pick(&pick_for(&set, 0))).collect();
        assert!(starts.len() > 8, "{}: {starts:?}", entry.name);
    }
}

#[test]
fn the_list_and_the_algorithms_agree_on_their_names() {
    for (number, entry) in BALANCERS.iter().enumerate() {
        assert_eq!((entry.new)(Seed(0)).name(), entry.name);
        assert_eq!((entry.new)(Seed(0)).fork(Seed(1)).name(), entry.name);
        assert!(!entry.summary.is_empty() && !entry.summary.ends_with('.'));
        assert_eq!(balancer(entry.name).map(|found| found.name), Some(entry.name));
        assert!(BALANCERS[number + 1..].iter().all(|other| other.name != entry.name));
    }
    assert!(balancer("fastest").is_none());
    let names: Vec<_> = BALANCERS.iter().filter(|entry| entry.needs.key).map(|entry| entry.name).collect();
    assert_eq!(names, ["ring", "maglev", "rendezvous"]);
}

#[test]
fn the_worked_example_of_the_documentation_is_the_one_that_is_checked_here() {
    let page = include_str!("../../../docs/how-to-add.md");
    let code = include_str!("example/mod.rs");
    assert!(
        page.contains(&format!("```rust\n{code}```\n")),
        "docs/how-to-add.md differs from tests/example/mod.rs"
    );
}
