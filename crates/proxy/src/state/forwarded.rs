//! What is remembered of a request that goes to the service although its route has a cache.

use std::sync::Arc;
use thalweg_cache::{CacheStatus, Detail, Forward, Handled, Key, NotStored};
use thalweg_filter::CacheRule;
use thalweg_store::Object;

/// Our name in `Cache-Status`.
pub(crate) const NAME: &str = "thalweg";

/// What is remembered of such a request.
#[derive(Debug)]
pub(crate) struct Forwarded {
    pub(crate) rule: Arc<CacheRule>,
    /// Empty where it has none.
    pub(crate) key: Key,
    pub(crate) variant: Vec<u8>,
    pub(crate) why: Forward,
    /// Why the response is not stored, where that is known.
    pub(crate) detail: Option<NotStored>,
    /// What came under its key lately was not to be stored.
    pub(crate) is_marked: bool,
    /// What could have answered it, if the service says that it still holds: of a HEAD.
    pub(crate) selected: Option<Arc<Object>>,
}

impl Forwarded {
    /// One of which nothing else is known.
    pub(crate) fn new(rule: &Arc<CacheRule>, why: Forward) -> Self {
        Self {
            rule: rule.clone(),
            key: Key::default(),
            variant: Vec::new(),
            why,
            detail: None,
            is_marked: false,
            selected: None,
        }
    }

    /// Appends `Cache-Status` as a line.
    pub(crate) fn write_status(&self, out: &mut Vec<u8>) {
        if !self.rule.tells_status {
            return;
        }
        let handled = Handled::Forwarded { why: self.why, status: None, stored: false, collapsed: false };
        let detail = self.detail.map(Detail::NotStored);
        let status = CacheStatus { name: NAME, handled, ttl: None, key: None, detail };
        out.extend_from_slice(b"Cache-Status: ");
        status.write(out);
        out.extend_from_slice(b"\r\n");
    }
}
