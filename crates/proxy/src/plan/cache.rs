//! The memory and the disk of the HTTP cache.

use crate::plan::{Plan, Route};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_core::written;
use thalweg_filter::{CacheRule, Chain};

/// Least bytes of the cache.
pub const CACHE_MIN: u64 = 8 * 1024 * 1024;
/// Least bytes on the disk.
pub const CACHE_DISK_MIN: u64 = thalweg_disk::settings::LEAST_BYTES;
/// Where nothing is written, the cache may have this part of the memory.
const PART_FOR_CACHE: u64 = 8;

/// What the cache may use (`cache:`).
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct CachePlan {
    /// Bytes of memory for stored responses, what finds them and what is being stored, at least [`CACHE_MIN`]; `None`
    /// (`auto`): an eighth of what the process may use.
    #[serde(serialize_with = "written::size_or_auto")]
    pub memory: Option<u64>,
    /// A second store below that one; `None`: there is none.
    pub disk: Option<DiskPlan>,
}

/// A directory in which stored responses are kept too (`cache.disk`).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct DiskPlan {
    /// The directory, absolute.
    pub path: PathBuf,
    /// Bytes on the disk, at least [`CACHE_DISK_MIN`].
    #[serde(serialize_with = "written::size")]
    pub size: u64,
}

impl CachePlan {
    /// Bytes of the cache in a process that may use so many ([`crate::Budget::memory`]).
    pub fn bytes(&self, memory: u64) -> u64 {
        self.memory.unwrap_or(memory / PART_FOR_CACHE).max(CACHE_MIN)
    }
}

impl Plan {
    /// Whether a route caches responses: otherwise nothing is reserved for them.
    pub fn has_cache(&self) -> bool {
        self.routes.iter().any(Route::has_cache)
    }
}

impl Route {
    /// Whether responses of it may be cached.
    pub fn has_cache(&self) -> bool {
        self.chains().any(Chain::has_cache)
    }

    /// How responses of it are cached, whichever the request.
    pub fn cache_rules(&self) -> impl Iterator<Item = &Arc<CacheRule>> {
        self.chains().flat_map(Chain::caches)
    }

    fn chains(&self) -> impl Iterator<Item = &Chain> {
        let variants = self.filter_variants.iter().map(|variant| &variant.chain);
        std::iter::once(&self.filters).chain(variants)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_of_the_memory_is_for_the_cache_where_nothing_is_written() {
        const MIB: u64 = 1024 * 1024;
        assert_eq!(CachePlan::default().bytes(800 * MIB), 100 * MIB);
        assert_eq!(CachePlan::default().bytes(32 * MIB), CACHE_MIN);
        assert_eq!(CachePlan { memory: Some(64 * MIB), disk: None }.bytes(800 * MIB), 64 * MIB);
    }
}
