//! Lists that are changed while the proxy runs: through the admin API, by hand, and by bans.
//!
//! One list of each name in the process: filters and listeners of any configuration see the same. Control replaces its
//! table whole, and it holds at once for whoever looks next.

use crate::networks::{Networks, Written};
use arc_swap::ArcSwap;
use ipnet::IpNet;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The list that is denied at every listener and of every request.
pub const BLOCKED: &str = "blocked";
/// Most networks that a list may have of those that were added while the proxy runs.
pub const ENTRIES: usize = 65_536;

static ALL: Mutex<Option<HashMap<Box<str>, Weak<LiveList>>>> = Mutex::new(None);

/// The changeable part of a list.
pub struct LiveList {
    name: Box<str>,
    table: ArcSwap<Table>,
}

/// Without what changes while it runs: configurations are compared by this.
impl fmt::Debug for LiveList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[derive(Default)]
struct Table {
    networks: Networks,
    reasons: HashMap<IpNet, Arc<str>>,
}

/// The list of this name. It is empty while nobody has put something into it; whoever does keeps it alive.
pub fn list(name: &str) -> Arc<LiveList> {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    if let Some(known) = all.get(name).and_then(Weak::upgrade) {
        return known;
    }
    all.retain(|_, list| list.strong_count() > 0);
    let list = Arc::new(LiveList { name: name.into(), table: ArcSwap::default() });
    all.insert(name.into(), Arc::downgrade(&list));
    list
}

impl LiveList {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// From now on it has these networks, each with the reason for it, which may be empty.
    pub fn replace(&self, entries: impl IntoIterator<Item = (IpNet, Arc<str>)>) {
        let reasons: HashMap<_, _> = entries.into_iter().collect();
        let networks = Networks::new(reasons.keys().copied());
        self.table.store(Arc::new(Table { networks, reasons }));
    }

    /// Whether there is nothing in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.table.load().networks.is_empty()
    }

    /// Whether the address is in it.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.table.load().networks.contains(address)
    }

    /// The network that has the address, and why it is there.
    pub(crate) fn find(&self, address: IpAddr) -> Option<String> {
        let table = self.table.load();
        let network = table.networks.find(address)?;
        let reason = table.reasons.get(&network).filter(|reason| !reason.is_empty());
        Some(match reason {
            Some(reason) => format!("{} ({reason})", Written(network)),
            None => Written(network).to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::network;

    #[test]
    fn a_list_of_a_name_is_one_and_is_replaced_whole() {
        let (one, other) = (list("of the test"), list("of the test"));
        assert!(Arc::ptr_eq(&one, &other) && one.is_empty());
        let address = "192.0.2.7".parse().unwrap();
        one.replace([(network("192.0.2.0/24").unwrap(), "scans".into())]);
        assert!(other.contains(address) && !other.is_empty());
        assert_eq!(other.find(address).unwrap(), "192.0.2.0/24 (scans)");
        one.replace([(network("192.0.2.7").unwrap(), "".into())]);
        assert_eq!(other.find(address).unwrap(), "192.0.2.7");
        one.replace([]);
        assert!(!other.contains(address));
    }
}
