//! What filters of one name share, wherever they stand, as long as one of them is in use.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// Shared things by their name.
pub(crate) struct Named<N, T>(LazyLock<Mutex<HashMap<N, Weak<T>>>>);

impl<N: Clone + Eq + Hash, T> Named<N, T> {
    /// None.
    pub(crate) const fn new() -> Self {
        Self(LazyLock::new(Mutex::default))
    }

    /// The one of this name, made where there is none.
    pub(crate) fn share(&self, name: &N, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(it) = known.get(name).and_then(Weak::upgrade) {
            return it;
        }
        known.retain(|_, it| it.strong_count() > 0);
        let it = make();
        known.insert(name.clone(), Arc::downgrade(&it));
        it
    }
}
