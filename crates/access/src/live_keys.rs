//! API keys that are added and revoked while the proxy runs, through the admin API.
//!
//! One list of each name in the process: filters of any configuration see the same. Control replaces its table whole,
//! and it holds at once for whoever looks next.

use crate::api_keys::ApiKeys;
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Most keys that were added while the proxy runs, of all lists together.
pub const ENTRIES: usize = 20_000;
/// Bytes of the name of a list.
const NAME: usize = 64;

static ALL: Mutex<Option<HashMap<Box<str>, Weak<LiveKeys>>>> = Mutex::new(None);

/// The keys of a list.
pub struct LiveKeys {
    name: Box<str>,
    table: ArcSwap<ApiKeys>,
}

/// Without what changes while it runs: configurations are compared by this.
impl fmt::Debug for LiveKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The list of this name. It is empty while nobody has put something into it; whoever does keeps it alive.
///
/// # Errors
/// A sentence: no list may have this name.
pub fn list(name: &str) -> Result<Arc<LiveKeys>, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !(1..=NAME).contains(&name.len()) || !name.bytes().all(fits) {
        return Err(format!("the name of a list of keys has from 1 to {NAME} letters, digits and `-_.`"));
    }
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    if let Some(known) = all.get(name).and_then(Weak::upgrade) {
        return Ok(known);
    }
    all.retain(|_, list| list.strong_count() > 0);
    let list = Arc::new(LiveKeys { name: name.into(), table: ArcSwap::default() });
    all.insert(name.into(), Arc::downgrade(&list));
    Ok(list)
}

/// Names of the lists that somebody has, sorted.
pub fn names() -> Vec<String> {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let alive = all.iter().flatten().filter(|(_, list)| list.strong_count() > 0);
    let mut names: Vec<String> = alive.map(|(name, _)| name.to_string()).collect();
    names.sort_unstable();
    names
}

impl LiveKeys {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The keys as they are now.
    pub fn current(&self) -> Arc<ApiKeys> {
        self.table.load_full()
    }

    /// From now on it has these keys.
    pub fn replace(&self, keys: ApiKeys) {
        self.table.store(Arc::new(keys));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_keys::{ApiKey, new_key};

    #[test]
    fn a_list_of_a_name_is_one_and_is_replaced_whole() {
        let (one, other) = (list("of-the-test").unwrap(), list("of-the-test").unwrap());
        assert!(Arc::ptr_eq(&one, &other) && one.current().is_empty());
        assert!(names().contains(&"of-the-test".to_owned()));
        let (key, hash) = new_key().unwrap();
        let mut keys = ApiKeys::default();
        keys.add(ApiKey { name: "acme".into(), ..ApiKey::default() }, &hash).unwrap();
        one.replace(keys);
        assert_eq!(other.current().find(key.as_bytes()).unwrap().name, "acme");
        one.replace(ApiKeys::default());
        assert!(other.current().find(key.as_bytes()).is_none());
        drop((one, other));
        assert!(!names().contains(&"of-the-test".to_owned()), "nobody has it any more");
        assert!(list("").is_err() && list("a b").is_err() && list(&"a".repeat(65)).is_err());
    }
}
