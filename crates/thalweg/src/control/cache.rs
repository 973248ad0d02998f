//! The cache, as the admin API shows it, and purges: done on threads that may take their time, a few at once.

use super::admin::Shared;
use super::config_events::event;
use crate::operator_log::info;
use std::sync::Arc;
use std::time::Duration;
use thalweg_admin::{
    CacheDiskStatus, CacheStatus, CacheTotals, DiskPurge, Events, Purged, Purging, Refusal, RouteCache,
};
use thalweg_core::EventKind;
use thalweg_observe::CacheDiskStanding;
use thalweg_proxy::{Purge, PurgeDone, WorkerPool};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Purges at the same time: each looks at everything that is stored.
const AT_ONCE: usize = 2;
/// How long a purge waits for those before it.
const WAIT: Duration = Duration::from_secs(10);

/// Purges under way.
#[derive(Clone, Debug)]
pub(crate) struct Purges(Arc<Semaphore>);

impl Default for Purges {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Purges {
    /// Does a purge and tells of it. `why`: behind what it is, in the event. `wait`: for those
    /// before it.
    ///
    /// # Errors
    /// Others take too long.
    pub(super) async fn run(
        &self,
        work: impl FnOnce() -> PurgeDone + Send + 'static,
        (what, why): (&Purge, &str),
        (events, wait): (&Events, Duration),
    ) -> Result<PurgeDone, String> {
        let place = timeout(wait, self.0.clone().acquire_owned()).await;
        let Ok(Ok(place)) = place else { return Err("other purges are under way; try again".to_owned()) };
        let done = spawn_blocking(move || {
            let _place = place;
            work()
        });
        let done = done.await.map_err(|_| "the purge has failed: a bug in the proxy".to_owned())?;
        let PurgeDone { objects, is_kept } = done;
        let s = if objects == 1 { "" } else { "s" };
        let disk = match is_kept {
            None => "",
            Some(true) => ", and what is on the disk",
            Some(false) => ", and what is on the disk until a restart: it cannot be written down there",
        };
        let text = format!("{what}: {objects} object{s}{disk}{why}");
        info(format_args!("purged {text}"));
        events.publish(event(EventKind::CachePurged, text));
        Ok(done)
    }
}

impl Shared {
    /// Purges, and has others do it.
    pub(super) fn begin_purge(&self, purge: Purge) -> Purging {
        let plan = self.worker_pool().plan();
        if let Some(name) = &purge.route
            && !plan.routes.iter().any(|route| *route.name == **name)
        {
            let what = format!("there is no route `{name}`; `thalweg api routes` lists them");
            return Box::pin(std::future::ready(Err(Refusal::Unknown(what))));
        }
        let (work, purges) = (self.worker_pool().purge(purge.clone()), self.purges.clone());
        let (events, channel) = (self.all_events().clone(), self.purge_channel());
        // It goes on where the client has gone.
        let task = tokio::spawn(async move {
            let others = async {
                match channel {
                    Some(channel) => Some(channel.tell(&purge).await),
                    None => None,
                }
            };
            let (done, replicas) = tokio::join!(purges.run(work, (&purge, ""), (&events, WAIT)), others);
            let PurgeDone { objects, is_kept } = done.map_err(Refusal::Unavailable)?;
            let disk = is_kept.map(|is_kept| if is_kept { DiskPurge::Kept } else { DiskPurge::Pending });
            Ok(Purged { what: purge.to_string(), soft: purge.is_soft, objects, disk, replicas })
        });
        Box::pin(async move {
            task.await.unwrap_or_else(|_| Err(Refusal::Unavailable("the purge has been broken off".into())))
        })
    }

    /// What the cache has and did.
    pub(super) fn cache_status(&self) -> CacheStatus {
        let in_use = self.worker_pool().plan().has_cache();
        let channel = self.purge_channel().map(|channel| channel.status());
        CacheStatus { channel, ..status(self.worker_pool(), in_use, self.registry.cache_totals()) }
    }
}

fn status(pool: &WorkerPool, in_use: bool, routes: Vec<(String, [u64; 6])>) -> CacheStatus {
    let cache = pool.cache_standing();
    let routes = routes.into_iter().map(|(route, counts)| RouteCache::new(route, counts)).collect();
    CacheStatus {
        in_use,
        bytes: cache.bytes,
        limit_bytes: cache.limit_bytes,
        objects: cache.objects,
        filling: cache.filling,
        fill_bytes: cache.fill_bytes,
        totals: CacheTotals {
            fills: cache.fills,
            broken: cache.broken,
            stored: cache.stored,
            rejected: cache.rejected,
            passed: cache.passed,
            evictions: cache.evictions,
            purged: cache.removed,
            made_stale: cache.made_stale,
        },
        routes,
        disk: cache.disk.map(disk_status),
        channel: None,
    }
}

fn disk_status(disk: CacheDiskStanding) -> CacheDiskStatus {
    CacheDiskStatus {
        condition: disk.condition.to_owned(),
        bytes: disk.bytes,
        limit_bytes: disk.limit_bytes,
        objects: disk.objects,
        hits: disk.hits,
        busy: disk.busy,
        written: disk.written,
        dropped: disk.dropped,
        evictions: disk.evictions,
        rewritten: disk.kept,
        purged: disk.removed,
        damaged: disk.damaged,
        errors: disk.errors,
    }
}
