//! What is known of a registry.

use super::answer::{Answer, Instance};
use super::{Name, Wanted};
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// The state in which an instance is used.
const UP: &str = "UP";

/// The registry of a server, and what has vanished from it without a word.
///
/// A server that was restarted begins with an empty registry and learns of each instance at its next heartbeat. So an
/// instance that is not in an answer with the whole any more, and that no change told to be gone, is still used for as
/// long as its lease: by then it has registered again, or the server would have given it up too.
#[derive(Debug, Default)]
pub(super) struct Known {
    apps: BTreeMap<String, BTreeMap<String, Instance>>,
    /// Until when they are used, by application and id.
    vanished: HashMap<(String, String), (Instance, Instant)>,
    /// Since [`Self::takes_effect`].
    has_changed: bool,
}

impl Known {
    /// This is the whole registry. Where that is asked for each time (`is_routine`), what is not in it is gone.
    pub(super) fn replace(&mut self, whole: Answer, is_routine: bool, now: Instant) {
        let mut apps: BTreeMap<String, BTreeMap<String, Instance>> = BTreeMap::new();
        for instance in whole.instances.into_iter().filter(|instance| !instance.is_deleted) {
            apps.entry(instance.app.clone()).or_default().insert(instance.id.clone(), instance);
        }
        let before = std::mem::replace(&mut self.apps, apps);
        self.has_changed |= before != self.apps;
        let gone = before.into_values().flat_map(BTreeMap::into_values);
        for instance in gone.filter(|instance| instance.status == UP && !is_routine) {
            if !is_in(&self.apps, &instance.app, &instance.id) {
                let until = now + instance.lease;
                let key = (instance.app.clone(), instance.id.clone());
                self.vanished.entry(key).or_insert((instance, until));
            }
        }
        let apps = &self.apps;
        self.vanished.retain(|(app, id), _| !is_in(apps, app, id));
    }

    /// Carries out changes. `false`: that does not lead to what the server counts.
    pub(super) fn change(&mut self, changes: Answer) -> bool {
        for instance in changes.instances {
            let key = (instance.app.clone(), instance.id.clone());
            if self.vanished.get(&key).is_some_and(|(known, _)| known.updated <= instance.updated) {
                self.vanished.remove(&key);
                self.has_changed = true;
            }
            let app = self.apps.entry(instance.app.clone()).or_default();
            // Answers may be older than the last one: servers keep them for a while.
            let is_old = app.get(&instance.id).is_some_and(|known| known.updated > instance.updated);
            if is_old {
                continue;
            }
            if instance.is_deleted {
                self.has_changed |= app.remove(&instance.id).is_some();
            } else if app.get(&instance.id) != Some(&instance) {
                app.insert(instance.id.clone(), instance);
                self.has_changed = true;
            }
        }
        self.apps.retain(|_, instances| !instances.is_empty());
        changes.count.is_none_or(|count| count == self.count())
    }

    /// Gives up what has vanished for long enough; whether anything has changed since this was last asked.
    pub(super) fn takes_effect(&mut self, now: Instant) -> bool {
        let before = self.vanished.len();
        self.vanished.retain(|_, (_, until)| *until > now);
        std::mem::take(&mut self.has_changed) || self.vanished.len() != before
    }

    /// The instances of a service that are used.
    pub(super) fn up<'a>(&'a self, wanted: &'a Wanted) -> impl Iterator<Item = &'a Instance> {
        let apps: Box<dyn Iterator<Item = &BTreeMap<_, _>>> = match &wanted.name {
            Name::App(app) => Box::new(self.apps.get(app).into_iter()),
            Name::Vip(_) => Box::new(self.apps.values()),
        };
        let known = apps.flat_map(BTreeMap::values).filter(|instance| instance.status == UP);
        let mut vanished: Vec<_> = self.vanished.values().map(|(instance, _)| instance).collect();
        vanished.sort_by(|one, other| one.id.cmp(&other.id));
        known.chain(vanished).filter(|instance| wanted.fits(instance))
    }

    /// `DOWN_1_UP_10_`: how many instances are in each state, in the order of the states' names.
    fn count(&self) -> String {
        let mut states: BTreeMap<&str, usize> = BTreeMap::new();
        for instance in self.apps.values().flat_map(BTreeMap::values) {
            *states.entry(&instance.status).or_default() += 1;
        }
        states.iter().map(|(state, count)| format!("{state}_{count}_")).collect()
    }
}

fn is_in(apps: &BTreeMap<String, BTreeMap<String, Instance>>, app: &str, id: &str) -> bool {
    apps.get(app).is_some_and(|instances| instances.contains_key(id))
}
