//! Which entries are there after how many others.

use super::decision::Notable;
use super::entry::Entry;
use super::memory::Memory;

/// Ends at this microsecond.
fn entry(at: u64, notable: Option<Notable>) -> Entry {
    Entry::sample(at, notable)
}

fn remembered(memory: &Memory) -> Vec<u64> {
    memory.find(usize::MAX, |_| true).into_iter().map(Entry::ended_us).collect()
}

fn memory(most: usize) -> Memory {
    let mut memory = Memory::default();
    memory.resize(most);
    memory
}

#[test]
fn the_newest_are_there_newest_first_wherever_the_oldest_stands() {
    let mut memory = memory(5);
    for count in 1..=23_u64 {
        memory.add(entry(count, None));
        let expected: Vec<_> = (1..=count).rev().take(5).collect();
        assert_eq!(remembered(&memory), expected);
        let since = memory.complete_since().map(Entry::ended_us);
        assert_eq!(since, (count > 5).then(|| count - 4), "after {count}");
    }
}

#[test]
fn each_notable_kind_outlives_any_number_of_ordinary_ones_and_of_the_other_kinds() {
    let kinds = [Notable::Failed, Notable::Slow, Notable::Refused];
    for kind in kinds {
        let mut memory = memory(4);
        (1..=3).for_each(|at| memory.add(entry(at, Some(kind))));
        for at in 4..10_000 {
            let other = kinds[at as usize % 3];
            memory.add(entry(at, Some(other).filter(|other| *other != kind)));
        }
        let remembered = remembered(&memory);
        assert!(remembered.ends_with(&[3, 2, 1]), "{kind:?}: {remembered:?}");
        assert!(remembered.len() <= 4 * 4, "{remembered:?}");
        assert!(remembered.is_sorted_by(|newer, older| newer > older), "{remembered:?}");
    }
}

#[test]
fn notable_ones_push_out_their_own_kind_at_last() {
    let mut memory = memory(3);
    (1..=9).for_each(|at| memory.add(entry(at, Some(Notable::Slow))));
    assert_eq!(remembered(&memory), [9, 8, 7, 6, 5, 4]);
    assert_eq!(memory.complete_since().map(Entry::ended_us), Some(7));
}

#[test]
fn while_only_notable_ones_made_room_nothing_is_forgotten() {
    let mut memory = memory(3);
    (1..=6).for_each(|at| memory.add(entry(at, Some(Notable::Failed))));
    assert_eq!(remembered(&memory), [6, 5, 4, 3, 2, 1]);
    assert!(memory.complete_since().is_none());
}

#[test]
fn a_limit_takes_the_newest_of_all_parts() {
    let mut memory = memory(2);
    memory.add(entry(1, Some(Notable::Slow)));
    memory.add(entry(2, Some(Notable::Failed)));
    memory.add(entry(3, Some(Notable::Refused)));
    (4..=5).for_each(|at| memory.add(entry(at, None)));
    let newest = |limit| memory.find(limit, |_| true).into_iter().map(Entry::ended_us).collect::<Vec<_>>();
    assert_eq!(newest(3), [5, 4, 3]);
    assert_eq!(newest(4), [5, 4, 3, 2]);
    assert!(newest(0).is_empty());
    let odd = memory.find(2, |entry| entry.ended_us() % 2 == 1);
    assert_eq!(odd.into_iter().map(Entry::ended_us).collect::<Vec<_>>(), [5, 3]);
}

#[test]
fn another_size_keeps_the_newest_in_their_order() {
    let mut memory = memory(5);
    (1..=8).for_each(|at| memory.add(entry(at, None)));
    memory.resize(3);
    assert_eq!(remembered(&memory), [8, 7, 6]);
    assert_eq!(memory.complete_since().map(Entry::ended_us), Some(6));
    memory.resize(4);
    (9..=10).for_each(|at| memory.add(entry(at, None)));
    assert_eq!(remembered(&memory), [10, 9, 8, 7]);
    memory.resize(0);
    assert!(remembered(&memory).is_empty());
}
