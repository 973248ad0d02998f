//! The cache, as the admin API shows it, and purges.

use std::future::Future;
use std::pin::Pin;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;

use super::refusal::Refusal;
use super::service::rfc3339;

/// A purge under way. Dropping it stops nothing.
pub type Purging = Pin<Box<dyn Future<Output = Result<Purged, Refusal>> + Send>>;

/// What has become of a purge.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Purged {
    /// What was asked for, in words and in normal form.
    pub what: String,
    /// Whether objects are stale now, in place of gone.
    pub soft: bool,
    /// How many objects it was, of this process and in memory.
    pub objects: u64,
    /// What has become of it on the disk; absent: `cache.disk` is not configured. What is stored there is gone, or
    /// stale, too, and not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskPurge>,
    /// How other replicas are told; absent: `cache.purge` is not configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<ReplicasTold>,
}

/// What has become of a purge on the disk.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskPurge {
    /// It is written down and outlasts a restart.
    Kept,
    /// It is in force and not written down: the disk is slow, or the directory cannot be used.
    Pending,
}

/// Whether other replicas are told of a purge.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ReplicasTold {
    /// `sent`, or `waiting` until the server answers again, or `lost` where too many wait already.
    pub state: Telling,
    /// How many subscribers the server has passed it to, this process included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscribers: Option<u64>,
}

/// What has become of a message to other replicas.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Telling {
    /// The server has it.
    Sent,
    /// It is sent as soon as the server answers.
    Waiting,
    /// It is not sent.
    Lost,
}

/// The answer to `GET /api/v1/cache`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CacheStatus {
    /// Whether a route caches.
    pub in_use: bool,
    /// Bytes of memory of stored responses, of what finds them and of what is being stored.
    pub bytes: u64,
    /// Bytes that it may use (`cache.memory`).
    pub limit_bytes: u64,
    /// Responses that are stored.
    pub objects: u64,
    /// Responses that are being stored.
    pub filling: u64,
    /// Bytes of memory of those.
    pub fill_bytes: u64,
    /// What it did since the process started.
    pub totals: CacheTotals,
    /// What it did with requests, by route; of routes whose requests it has had to do with.
    pub routes: Vec<RouteCache>,
    /// What is stored on a disk; absent: `cache.disk` is not configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<CacheDiskStatus>,
    /// The channel on which replicas tell each other of purges; absent: none is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<PurgeChannelStatus>,
}

/// What the cache has on a disk, and did there since the process started.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CacheDiskStatus {
    /// `opening`, `indexing` while what an earlier run has stored is being found, `ready`, `paused` while nothing is
    /// written, since the disk is full or has failed, or `unusable`.
    pub condition: String,
    /// Bytes of the disk in use.
    pub bytes: u64,
    /// Bytes that it may use (`cache.disk.size`).
    pub limit_bytes: u64,
    /// Responses that are stored and can be found.
    pub objects: u64,
    /// Responses that were read.
    pub hits: u64,
    /// Requests for which it was not read, since too many responses were being read.
    pub busy: u64,
    /// Responses that were written.
    pub written: u64,
    /// Responses that were not written: too many waited, it was full, they are too large, or they were purged before.
    pub dropped: u64,
    /// Responses that went because room was needed.
    pub evictions: u64,
    /// Responses that were written again when their place was needed, since they had been used.
    pub rewritten: u64,
    /// Responses that a purge, or a request that changes what they show, has taken away, as far as they have been
    /// looked at.
    pub purged: u64,
    /// Responses, and parts of files, that were damaged. None of them is used.
    pub damaged: u64,
    /// Calls of the operating system that failed.
    pub errors: u64,
}

/// What the cache did since the process started.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct CacheTotals {
    /// Responses that it began to fetch.
    pub fills: u64,
    /// Those that broke off; none of them is stored.
    pub broken: u64,
    /// Responses that were stored.
    pub stored: u64,
    /// Responses that were fetched and not stored: too large, or purged before they were there.
    pub rejected: u64,
    /// Times at which a request went by it: not to be stored, or a bound was reached.
    pub passed: u64,
    /// Responses that went because room was needed.
    pub evictions: u64,
    /// Responses that a purge, or a request that changes what they show, has taken away.
    pub purged: u64,
    /// Responses that a soft purge has made stale.
    pub made_stale: u64,
}

/// What the cache did with requests of a route since the process started.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RouteCache {
    /// The route.
    pub route: String,
    /// Answered by a stored response that was fresh.
    pub hit: u64,
    /// Answered by a stale one.
    pub stale: u64,
    /// Answered by a stored one after the service said that it still holds.
    pub revalidated: u64,
    /// Answered by the response that another request fetched.
    pub collapsed: u64,
    /// Answered by the service, to be stored.
    pub miss: u64,
    /// Answered by the service, not to be stored.
    pub pass: u64,
    /// The share for which the service sent no body: `hit`, `stale`, `revalidated` and `collapsed` of all, 0 to 1.
    pub hit_ratio: f64,
}

impl RouteCache {
    /// These counts: hits, stale, revalidated, collapsed, misses and passes.
    pub fn new(route: String, counts: [u64; 6]) -> Self {
        let [hit, stale, revalidated, collapsed, miss, pass] = counts;
        let (served, all) = (hit + stale + revalidated + collapsed, counts.iter().sum::<u64>());
        let hit_ratio = if all == 0 { 0.0 } else { served as f64 / all as f64 };
        Self { route, hit, stale, revalidated, collapsed, miss, pass, hit_ratio }
    }
}

/// The channel on which replicas tell each other of purges.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PurgeChannelStatus {
    /// Where the server is.
    pub server: String,
    /// The name of the channel.
    pub channel: String,
    /// This process among those that use it.
    pub instance: String,
    /// Whether purges come and go now.
    pub connected: bool,
    /// Since when that is so, in RFC 3339.
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: SystemTime,
    /// Why it is not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Purges of this process that were sent.
    pub sent: u64,
    /// Purges of others that were done here.
    pub received: u64,
    /// Messages that were none, or could not be done.
    pub refused: u64,
    /// Purges of this process that wait to be sent.
    pub waiting: u64,
    /// Times at which the connection was lost: purges of others that came meanwhile have not been done.
    pub losses: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hit_ratio_is_that_of_requests_without_a_body_from_the_service() {
        assert!((RouteCache::new("a".into(), [5, 1, 1, 1, 1, 1]).hit_ratio - 0.8).abs() < 1e-9);
        assert!(RouteCache::new("a".into(), [0; 6]).hit_ratio.abs() < 1e-9);
    }
}
