//! Whom no listener takes, and who is going to be among them.

use std::sync::Arc;
use thalweg_access::bans::{Ban, BanRule};
use thalweg_access::live::{self, BLOCKED};
use thalweg_access::rules::{AddressSet, NamedList};

/// Lists of addresses, and bans (`lists`, `bans`).
#[derive(Clone, Debug)]
pub struct AccessPolicy {
    /// Denied at every listener, and of every request.
    pub blocked: Arc<NamedList>,
    /// All lists by their names, [`Self::blocked`] among them.
    pub lists: Vec<Arc<NamedList>>,
    /// When clients are put into a list.
    pub bans: Vec<Arc<BanRule>>,
}

/// A client is to be banned; control puts it into the list.
#[derive(Clone, Debug)]
pub struct Banned {
    /// By which rule.
    pub rule: Arc<BanRule>,
    /// Whom, and for how long.
    pub ban: Ban,
    /// The status of the last answer.
    pub status: u16,
}

impl Default for AccessPolicy {
    fn default() -> Self {
        let (configured, live) = (AddressSet::default(), live::list(BLOCKED));
        let blocked = Arc::new(NamedList { configured, live, text: String::new() });
        Self { lists: vec![blocked.clone()], blocked, bans: Vec::new() }
    }
}

impl AccessPolicy {
    /// Bans go on with what those of the same name before a reload know.
    pub(crate) fn adopt(&self, former: &Self) {
        for rule in &self.bans {
            let before = former.bans.iter().find(|before| before.name == rule.name);
            before.into_iter().for_each(|before| rule.table.take_over(&before.table));
        }
    }

    /// Whether one of the lists is read again while the proxy runs.
    pub(crate) fn has_sources(&self) -> bool {
        self.lists.iter().any(|list| list.configured.has_sources())
    }
}
