//! API keys as they are added and revoked while the proxy runs, through the admin API.
//!
//! Hashes, and what is known of the keys, are kept in the state directory, where `state:` names one, and survive a
//! restart. Each change makes a new table, which all workers see at once ([`thalweg_access::live_keys`]).

use super::kept_file;
use super::state_writer::StateWriter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_access::api_keys::{ApiKey, ApiKeys, new_key, time};
use thalweg_access::live_keys::{self, ENTRIES, LiveKeys};
use thalweg_admin::{
    ApiKeyControl, ApiKeyEntry, ApiKeyList, ApiKeyListContents, MadeApiKey, NewApiKey, Refusal,
};

/// The file in the state directory.
const FILE: &str = "api_keys.json";
/// Lists that a message names.
const TOLD: usize = 20;

/// What is kept. A later version may add members, so unknown ones are no error.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct KeptKeysSpec {
    /// By the name of the list, then that of the key.
    lists: BTreeMap<String, BTreeMap<String, KeptKeySpec>>,
}

/// A key.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(default)]
struct KeptKeySpec {
    hash: String,
    scopes: Vec<String>,
    claims: BTreeMap<String, String>,
    /// In seconds since the Unix epoch.
    since: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
}

/// Without the hash.
impl std::fmt::Debug for KeptKeySpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptKeySpec").field("since", &self.since).finish_non_exhaustive()
    }
}

impl KeptKeySpec {
    fn key(&self, name: &str) -> ApiKey {
        let (scopes, claims) = (self.scopes.clone(), self.claims.clone());
        ApiKey { name: name.to_owned(), scopes, claims, expires: self.expires }
    }

    fn shown(&self, name: &str) -> ApiKeyEntry {
        let ApiKey { name, scopes, claims, expires } = self.key(name);
        ApiKeyEntry { name, scopes, claims, since: self.since, expires }
    }
}

/// The lists as they stand.
#[derive(Debug, Default)]
pub(crate) struct ApiKeyStore(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    kept: KeptKeysSpec,
    /// Keeps the tables of lists alive that have something in them.
    live: BTreeMap<String, Arc<LiveKeys>>,
    keeper: Option<StateWriter<KeptKeysSpec>>,
}

impl ApiKeyStore {
    /// The lists as they were before a restart, or as a predecessor has them; kept in this directory from now on.
    ///
    /// # Errors
    /// A sentence: what is kept cannot be read.
    pub(crate) fn open(directory: Option<&Path>, passed: Option<KeptKeysSpec>) -> Result<Self, String> {
        let path = directory.map(|directory| directory.join(FILE));
        let told = |error: &dyn std::fmt::Display| {
            let path = path.as_deref().unwrap_or(Path::new("what the predecessor has passed on")).display();
            format!(
                "cannot read {path}: {error}\n  help: it holds API keys that were added while the proxy ran; mend or remove it"
            )
        };
        let kept = match (passed, &path) {
            (Some(passed), _) => passed,
            (None, Some(path)) => kept_file::load(path).map_err(|error| told(&error))?,
            (None, None) => KeptKeysSpec::default(),
        };
        let names: Vec<String> = kept.lists.keys().cloned().collect();
        let mut state = State { kept, live: BTreeMap::new(), keeper: None };
        for name in &names {
            // A key that was not read would be one that is not revoked and does not pass: nobody could say why.
            state.renew(name).map_err(|error| told(&error))?;
        }
        let keeper = path.map(|path| {
            let what = format!("API keys in {}", path.display());
            StateWriter::start(what, move |kept| kept_file::store(&path, &kept))
        });
        let keeper = keeper.transpose();
        state.keeper =
            keeper.map_err(|error| format!("cannot start the thread that keeps API keys: {error}"))?;
        Ok(Self(Mutex::new(state)))
    }

    /// All that was added, for a successor.
    pub(crate) fn passed(&self) -> KeptKeysSpec {
        self.state().kept.clone()
    }

    /// Waits, no longer than `limit`, until the lists are kept. Says whether they are.
    pub(crate) fn settle(&self, limit: Duration) -> bool {
        self.state().keeper.as_ref().is_none_or(|keeper| keeper.settle(limit))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Changes are made whole before anything that could panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether a filter names the list, or a key is in it.
    fn known(&self, list: &str) -> Result<(), Refusal> {
        let names = live_keys::names();
        if names.iter().any(|name| name == list) {
            return Ok(());
        }
        let names: Vec<_> = names.iter().take(TOLD).map(|name| format!("`{name}`")).collect();
        let known = match names.is_empty() {
            true => "no filter of the configuration names one in `api_key.list`".to_owned(),
            false => format!("there are {}", names.join(", ")),
        };
        Err(Refusal::Unknown(format!("there is no list of API keys `{list}`; {known}")))
    }

    /// Makes the table of a list anew, and has it kept.
    fn renew(&mut self, list: &str) -> Result<(), String> {
        let mut keys = ApiKeys::default();
        for (name, entry) in self.kept.lists.get(list).into_iter().flatten() {
            keys.add(entry.key(name), &entry.hash)?;
        }
        let is_empty = keys.is_empty();
        let live = self.live.get(list).cloned().map_or_else(|| live_keys::list(list), Ok)?;
        live.replace(keys);
        if is_empty {
            self.kept.lists.remove(list);
            self.live.remove(list);
        } else {
            self.live.insert(list.to_owned(), live);
        }
        if let Some(keeper) = &self.keeper {
            keeper.keep(self.kept.clone());
        }
        Ok(())
    }

    fn add(&mut self, list: &str, new: NewApiKey, now: u64) -> Result<MadeApiKey, Refusal> {
        self.known(list)?;
        let expires = new.expires.as_deref().map(time).transpose();
        let expires = expires.map_err(|detail| invalid("expires", detail))?;
        if expires.is_some_and(|expires| expires <= now) {
            return Err(invalid("expires", "`expires` is over already".into()));
        }
        let (key, hash) = new_key().map_err(Refusal::Unavailable)?;
        let entry = KeptKeySpec { hash, scopes: new.scopes, claims: new.claims, since: now, expires };
        check(&new.name, &entry)?;
        let all: usize = self.kept.lists.values().map(BTreeMap::len).sum();
        if all >= ENTRIES {
            let detail = format!("there are {ENTRIES} keys in all lists, which is as many as there may be");
            return Err(Refusal::Conflict(detail));
        }
        let entries = self.kept.lists.entry(list.to_owned()).or_default();
        if entries.contains_key(&new.name) {
            let name = new.name;
            let detail =
                format!("there is a key `{name}` in `{list}`: revoke it, or give the new one its own name");
            return Err(Refusal::Duplicate(detail));
        }
        let shown = entry.shown(&new.name);
        entries.insert(new.name, entry);
        self.renew(list).map_err(Refusal::Unavailable)?;
        Ok(MadeApiKey { key, entry: shown, kept: self.keeper.is_some() })
    }

    fn revoke(&mut self, list: &str, name: &str) -> Result<ApiKeyEntry, Refusal> {
        self.known(list)?;
        let removed = self.kept.lists.get_mut(list).and_then(|entries| entries.remove(name));
        let removed = removed.ok_or_else(|| {
            Refusal::Unknown(format!("no key `{name}` was added to the list `{list}` while the proxy runs"))
        })?;
        self.renew(list).map_err(Refusal::Unavailable)?;
        Ok(removed.shown(name))
    }
}

/// Whether a list would take this key, and else which member is at fault.
fn check(name: &str, entry: &KeptKeySpec) -> Result<(), Refusal> {
    let bare = KeptKeySpec { scopes: Vec::new(), claims: BTreeMap::new(), ..entry.clone() };
    let with_scopes = KeptKeySpec { claims: BTreeMap::new(), ..entry.clone() };
    for (member, entry) in [("name", &bare), ("scopes", &with_scopes), ("claims", entry)] {
        let added = ApiKeys::default().add(entry.key(name), &entry.hash);
        added.map_err(|detail| invalid(member, detail))?;
    }
    Ok(())
}

fn invalid(field: &str, detail: String) -> Refusal {
    Refusal::Invalid { field: field.into(), detail, help: None }
}

impl ApiKeyControl for ApiKeyStore {
    fn lists(&self) -> Vec<ApiKeyList> {
        let state = self.state();
        let keys = |name: &str| state.kept.lists.get(name).map_or(0, BTreeMap::len);
        live_keys::names().into_iter().map(|name| ApiKeyList { keys: keys(&name), name }).collect()
    }

    fn list(&self, list: &str) -> Result<ApiKeyListContents, Refusal> {
        let state = self.state();
        state.known(list)?;
        let entries = state.kept.lists.get(list).into_iter().flatten();
        let keys = entries.map(|(name, entry)| entry.shown(name)).collect();
        Ok(ApiKeyListContents { name: list.to_owned(), keys })
    }

    fn add(&self, list: &str, new: NewApiKey) -> Result<MadeApiKey, Refusal> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.state().add(list, new, now)
    }

    fn revoke(&self, list: &str, name: &str) -> Result<ApiKeyEntry, Refusal> {
        self.state().revoke(list, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(name: &str) -> NewApiKey {
        NewApiKey {
            name: name.into(),
            claims: [("plan".to_owned(), "gold".to_owned())].into(),
            ..NewApiKey::default()
        }
    }

    fn field(refusal: Refusal) -> String {
        match refusal {
            Refusal::Invalid { field, .. } => field,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn keys_are_kept_without_themselves_and_revoked_ones_are_not_read_back() {
        let directory = std::env::temp_dir().join(format!("thalweg-api-keys-{}", std::process::id()));
        let filter = live_keys::list("kept-of-test").unwrap();
        let store = ApiKeyStore::open(Some(&directory)).unwrap();
        let made = store.add("kept-of-test", new("acme")).unwrap();
        let other = store.add("kept-of-test", new("other")).unwrap();
        assert!(made.kept && made.key.len() >= 43 && !format!("{made:?}").contains(&made.key));
        let finds = |key: &str| filter.current().find(key.as_bytes()).map(|key| key.name.clone());
        assert_eq!((finds(&made.key), finds(&other.key)), (Some("acme".into()), Some("other".into())));
        assert_eq!(store.revoke("kept-of-test", "other").unwrap().name, "other");
        assert_eq!(finds(&other.key), None);
        assert!(store.settle(Duration::from_secs(30)));
        let text = std::fs::read_to_string(directory.join(FILE)).unwrap();
        assert!(text.contains("sha256:") && !text.contains(&made.key), "{text}");
        drop(store);
        filter.replace(ApiKeys::default());
        let store = ApiKeyStore::open(Some(&directory)).unwrap();
        assert_eq!((finds(&made.key), finds(&other.key)), (Some("acme".into()), None));
        let listed = store.list("kept-of-test").unwrap();
        assert_eq!((listed.keys.len(), listed.keys[0].claims["plan"].as_str()), (1, "gold"));
        assert!(store.settle(Duration::from_secs(30)), "nothing is written over what follows");
        drop(store);
        for damaged in ["{", "[]", "", "{\"lists\": 7}", "{\"lists\": {\"a\": {\"b\": {\"hash\": \"x\"}}}}"] {
            std::fs::write(directory.join(FILE), damaged).unwrap();
            assert!(ApiKeyStore::open(Some(&directory)).unwrap_err().contains("help: "), "{damaged}");
        }
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_names_its_member() {
        let _filter = live_keys::list("refusals-of-test").unwrap();
        let store = ApiKeyStore::default();
        let add = |new: NewApiKey| store.add("refusals-of-test", new);
        assert!(matches!(store.add("none-of-test", new("a")), Err(Refusal::Unknown(_))));
        for (wrong, member) in [
            (NewApiKey { name: "a b".into(), ..new("") }, "name"),
            (NewApiKey { scopes: vec!["a b".into()], ..new("a") }, "scopes"),
            (NewApiKey { claims: [("a".into(), String::new())].into(), ..new("a") }, "claims"),
            (NewApiKey { expires: Some("soon".into()), ..new("a") }, "expires"),
            (NewApiKey { expires: Some("2001-01-01".into()), ..new("a") }, "expires"),
        ] {
            assert_eq!(field(add(wrong).unwrap_err()), member);
        }
        assert!(!add(new("a")).unwrap().kept);
        assert!(matches!(add(new("a")), Err(Refusal::Duplicate(_))));
        assert!(matches!(store.revoke("refusals-of-test", "b"), Err(Refusal::Unknown(_))));
    }
}
