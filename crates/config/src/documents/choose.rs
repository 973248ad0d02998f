//! Which of the documents that sources tell of run together: as many of the newest as there can be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A document: the position of its source, and its name.
pub(super) type Id = (usize, Arc<str>);
/// Documents by what they are, with their text.
pub(super) type Set = BTreeMap<Id, Arc<str>>;

/// The most attempts with the newest documents, and then with groups of changes: what has not been tried by then waits
/// for the next change. What ran last is tried whatever the others have taken.
const ATTEMPTS: usize = 32;

/// Why a set cannot run.
#[derive(Debug)]
pub(super) struct Refused {
    /// The documents at fault, each with a sentence. None: the mistake stands elsewhere, and shows with this set.
    pub(super) faulty: Vec<(Id, String)>,
    /// A sentence.
    pub(super) why: String,
}

/// What was chosen.
#[derive(Debug)]
pub(super) struct Chosen<M> {
    /// What was made of the set.
    pub(super) made: M,
    pub(super) set: Set,
    /// What was left out of the newest, and why.
    pub(super) left_out: Vec<(Id, String)>,
    /// What of that makes something else fail, each tried by itself.
    pub(super) tried: Vec<Id>,
}

/// Chooses among the newest documents and, for those that do not fit, their last good versions: first what is at fault
/// by itself is left out. Nobody is whose text has run before: another's change made it fail. Then, and where a test of
/// the file fails, the changes since the good set are tried together and in ever smaller groups.
///
/// # Returns
/// `None`: not even no document can run.
pub(super) fn choose<M>(
    newest: &Set,
    good: &Set,
    attempt: &mut dyn FnMut(&Set) -> Result<M, Refused>,
) -> Option<Chosen<M>> {
    let mut choice = Choice { attempt, left: ATTEMPTS, flaws: BTreeMap::new() };
    let mut set = newest.clone();
    let mut tried = Vec::new();
    if let Some(made) = choice.settle(&mut set, good) {
        return Some(Chosen { made, set, left_out: choice.flaws.into_iter().collect(), tried });
    }
    let mut base = good.clone();
    choice.left = good.len().saturating_add(ATTEMPTS);
    let mut made = match choice.settle(&mut base, &Set::new()) {
        Some(made) => made,
        None => {
            base.clear();
            (choice.attempt)(&base).ok()?
        }
    };
    choice.left = 2 * ATTEMPTS;
    let ids: BTreeSet<&Id> = base.keys().chain(set.keys()).collect();
    let changed: Vec<Id> = ids.into_iter().filter(|id| base.get(*id) != set.get(*id)).cloned().collect();
    let mut groups = vec![changed];
    while let Some(mut group) = groups.pop() {
        if group.is_empty() {
            continue;
        }
        let trial = with(&base, &set, &group);
        match choice.attempt(&trial) {
            Ok(better) => (base, made) = (trial, better),
            Err(refused) if group.len() == 1 || choice.left == 0 => {
                let fails_another = |id: &&Id| {
                    let is_at_fault = refused.faulty.iter().any(|(known, _)| known == *id);
                    choice.left > 0 && newest.contains_key(*id) && !is_at_fault
                };
                tried.extend(group.iter().filter(fails_another).cloned());
                for id in group {
                    choice.flaws.entry(id).or_insert_with(|| refused.why.clone());
                }
            }
            Err(refused) if choice.takes_out(&mut group, &refused) => groups.push(group),
            Err(_) => {
                let (first, second) = group.split_at(group.len() / 2);
                groups.push(second.to_vec());
                groups.push(first.to_vec());
            }
        }
    }
    Some(Chosen { made, set: base, left_out: choice.flaws.into_iter().collect(), tried })
}

struct Choice<'a, M> {
    attempt: &'a mut dyn FnMut(&Set) -> Result<M, Refused>,
    left: usize,
    flaws: BTreeMap<Id, String>,
}

impl<M> Choice<'_, M> {
    fn attempt(&mut self, set: &Set) -> Result<M, Refused> {
        if self.left == 0 {
            return Err(Refused {
                faulty: Vec::new(),
                why: "too many documents do not fit; mend the others first".into(),
            });
        }
        self.left -= 1;
        (self.attempt)(set)
    }

    /// Takes what is at fault by itself out of a group of changes; false: nobody is.
    fn takes_out(&mut self, group: &mut Vec<Id>, refused: &Refused) -> bool {
        let before = group.len();
        for (id, why) in &refused.faulty {
            if group.contains(id) {
                group.retain(|known| known != id);
                self.flaws.entry(id.clone()).or_insert_with(|| why.clone());
            }
        }
        group.len() < before
    }

    /// Leaves out what is at fault, or puts its good version in its place, until the rest runs. `None`: nobody is.
    fn settle(&mut self, set: &mut Set, good: &Set) -> Option<M> {
        loop {
            let refused = match self.attempt(set) {
                Ok(made) => return Some(made),
                Err(refused) => refused,
            };
            let mut is_other = false;
            for (id, why) in refused.faulty {
                if good.get(&id).is_some_and(|known| set.get(&id) == Some(known)) {
                    continue;
                }
                let Some(text) = set.remove(&id) else { continue };
                is_other = true;
                if let Some(known) = good.get(&id).filter(|known| **known != text) {
                    set.insert(id.clone(), known.clone());
                }
                self.flaws.entry(id).or_insert(why);
            }
            if !is_other {
                return None;
            }
        }
    }
}

/// `base`, with these as `set` has them.
fn with(base: &Set, set: &Set, ids: &[Id]) -> Set {
    let mut with = base.clone();
    for id in ids {
        match set.get(id) {
            Some(text) => with.insert(id.clone(), text.clone()),
            None => with.remove(id),
        };
    }
    with
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(name: &str) -> Id {
        (0, name.into())
    }

    fn set(entries: &[(&str, &str)]) -> Set {
        entries.iter().map(|(name, text)| (id(name), Arc::from(*text))).collect()
    }

    /// Texts that begin with `bad` are at fault; those with `trap` make something else fail.
    fn attempt(set: &Set) -> Result<Set, Refused> {
        let faulty = set.iter().filter(|(_, text)| text.starts_with("bad"));
        let faulty: Vec<_> = faulty.map(|(id, _)| (id.clone(), "it is bad".to_owned())).collect();
        if !faulty.is_empty() || set.values().any(|text| text.starts_with("trap")) {
            return Err(Refused { faulty, why: "a test fails".into() });
        }
        Ok(set.clone())
    }

    #[test]
    fn what_is_at_fault_stays_as_it_was_or_is_left_out() {
        let newest = set(&[("a", "good 2"), ("b", "bad"), ("c", "bad")]);
        let good = set(&[("a", "good 1"), ("b", "good 1")]);
        let Chosen { made, set: chosen, left_out: flaws, .. } = choose(&newest, &good, &mut attempt).unwrap();
        assert_eq!(chosen, set(&[("a", "good 2"), ("b", "good 1")]));
        assert_eq!(made, chosen);
        assert_eq!(flaws.iter().map(|(id, _)| &*id.1).collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn what_makes_something_else_fail_is_found_among_many() {
        let mut newest: Set = (0..40).map(|at| (id(&at.to_string()), Arc::from("good"))).collect();
        newest.insert(id("17"), "trap".into());
        newest.insert(id("3"), "trap".into());
        let Chosen { set: chosen, left_out: flaws, tried, .. } =
            choose(&newest, &Set::new(), &mut attempt).unwrap();
        assert_eq!(chosen.len(), 38);
        assert_eq!(flaws, [(id("17"), "a test fails".to_owned()), (id("3"), "a test fails".to_owned())]);
        assert_eq!(tried, [id("17"), id("3")]);
    }

    /// However many mistakes there are, what runs goes on.
    #[test]
    fn what_runs_outlasts_any_number_of_mistakes() {
        let good = set(&[("a", "good 1"), ("b", "good 1")]);
        let mut newest: Set = (0..500).map(|at| (id(&at.to_string()), Arc::from("bad"))).collect();
        newest.insert(id("a"), "good 1".into());
        newest.insert(id("b"), "bad".into());
        // It names one of them at a time.
        let mut attempt = |set: &Set| {
            let refused = |mut refused: Refused| {
                refused.faulty.truncate(1);
                refused
            };
            attempt(set).map_err(refused)
        };
        let Chosen { made, set: chosen, .. } = choose(&newest, &good, &mut attempt).unwrap();
        assert_eq!((&made, &chosen), (&good, &good));
    }

    #[test]
    fn who_ran_before_is_not_at_fault_for_what_another_changes() {
        let good = set(&[("victim", "1")]);
        let mut attempt = |set: &Set| match set.contains_key(&id("thief")) && set.contains_key(&id("victim"))
        {
            false => Ok(set.clone()),
            true => Err(Refused {
                faulty: vec![(id("victim"), "its test fails".into())],
                why: "a test fails".into(),
            }),
        };
        let newest = set(&[("victim", "1"), ("thief", "1"), ("other", "1")]);
        let Chosen { set: chosen, left_out: flaws, .. } = choose(&newest, &good, &mut attempt).unwrap();
        assert_eq!(chosen, set(&[("victim", "1"), ("other", "1")]));
        assert_eq!(flaws, [(id("thief"), "a test fails".to_owned())]);
    }

    #[test]
    fn a_removal_that_makes_something_fail_is_not_taken_over() {
        let good = set(&[("a", "needed"), ("b", "1")]);
        let mut attempt = |set: &Set| match set.contains_key(&id("a")) {
            true => Ok(set.clone()),
            false => Err(Refused { faulty: Vec::new(), why: "a test fails".into() }),
        };
        let newest = set(&[("b", "2")]);
        let Chosen { set: chosen, left_out: flaws, tried, .. } =
            choose(&newest, &good, &mut attempt).unwrap();
        assert!(tried.is_empty(), "it is not text that could be known again");
        assert_eq!(chosen, set(&[("a", "needed"), ("b", "2")]));
        assert_eq!(flaws.len(), 1);
        assert!(choose(&Set::new(), &Set::new(), &mut attempt).is_none());
    }

    proptest! {
        #[test]
        fn what_is_chosen_runs_and_nothing_that_fits_by_itself_is_lost(
            newest in prop::collection::btree_map("[a-h]", prop::sample::select(vec!["1", "2", "bad", "trap"]), 0..8),
            good in prop::collection::btree_map("[a-h]", prop::sample::select(vec!["1", "2"]), 0..8),
        ) {
            let of = |map: &BTreeMap<String, &str>| -> Set {
                map.iter().map(|(name, text)| (id(name), Arc::from(*text))).collect()
            };
            let (newest, good) = (of(&newest), of(&good));
            let Chosen { made, set: chosen, left_out: flaws, .. } =
                choose(&newest, &good, &mut attempt).unwrap();
            prop_assert_eq!(&made, &chosen);
            for (id, text) in &newest {
                if matches!(&**text, "1" | "2") {
                    prop_assert_eq!(chosen.get(id), Some(text));
                } else {
                    prop_assert_eq!(chosen.get(id), good.get(id));
                    prop_assert!(flaws.iter().any(|(known, _)| known == id));
                }
            }
        }
    }
}
