//! What the admin API may ask of the running proxy and tell it.
//!
//! The binary implements [`Control`]; handlers call it on the admin thread. Invariant: no method itself
//! waits for a worker, and none waits for long; what workers are asked for comes later.

pub mod access;
pub mod api_keys;
pub mod cache;
pub mod canary;
pub mod certificate;
pub mod change;
pub mod configuration;
pub mod history;
pub mod refusal;
pub mod requests;
pub mod sealed;
pub mod series;
pub mod service;
pub mod slo;
pub mod source;
pub mod tap;
pub mod upgrade;

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_observe::exposition::Form;
use thalweg_proxy::Purge;
use thalweg_proxy::explain::{Explanation, Question, Unaskable};

use crate::events::Events;

pub use access::{AddressChanged, AddressEntry, AddressList, AddressListContents, AddressLists, NewAddress};
pub use api_keys::{
    ApiKeyControl, ApiKeyEntry, ApiKeyList, ApiKeyListContents, ApiKeyLists, MadeApiKey, NewApiKey,
};
pub use cache::{
    CacheDiskStatus, CacheStatus, CacheTotals, DiskPurge, PurgeChannelStatus, Purged, Purging, ReplicasTold,
    RouteCache, Telling,
};
pub use canary::{CanaryChanged, CanaryFigures, CanaryOrder, CanaryStatus};
pub use certificate::{CertificateStatus, Certificates};
pub use change::{ChangeAction, ConfigChange, FieldChange, ListenerChange, RuntimeChange};
pub use configuration::{
    ConfigDocument, ConfigFormat, ConfigOutcome, Mistake, ReloadOptions, ReplaceOptions, RollbackOptions,
};
pub use history::{
    Author, ConfigOrigin, History, HistoryEntry, HistoryState, Via, WatchOptions, WatchState, WatchStatus,
};
pub use refusal::{Expected, Refusal};
pub use requests::{AttemptRecord, FilterRecord, Recalling, RequestFilter, RequestRecord, Requests};
pub use sealed::{NewLabel, SealedLabel};
pub use series::{ObjectSeries, SeriesDocument, SeriesFilter, SeriesKind};
pub use service::{
    Changed, EndpointChange, EndpointSource, EndpointState, EndpointStatus, MaintenanceChanged, NewEndpoint,
    Reweighted, RouteStatus, RouteTarget, ServiceState, ServiceStatus, Services, ServicesSummary,
    WantedState, WeightsReset,
};
pub use slo::{SloBurn, SloState, SloStatus, Slos};
pub use source::{SourceState, SourceStatus, SourceStatuses};
pub use tap::{NextTapEvent, OpenTap, TapEvent, TapOptions, TapRecord};
pub use upgrade::{Upgraded, Upgrading};

/// The running proxy, as the admin API sees it.
pub trait Control: Send + Sync + 'static {
    /// The figures of `GET /api/v1/status`.
    fn status(&self) -> Status;

    /// The budget and its use (`GET /api/v1/limits`).
    fn limits(&self) -> Limits;

    /// Whether every worker turns (`/livez`).
    ///
    /// # Errors
    /// Which worker does not, in a sentence.
    fn alive(&self) -> Result<(), String>;

    /// Whether traffic should be sent here (`/readyz`): a plan runs, listeners are bound, no drain.
    ///
    /// # Errors
    /// Why not, in a sentence.
    fn ready(&self) -> Result<(), String>;

    /// The metrics page in this form.
    fn metrics(&self, form: Form) -> String;

    /// The events of this process (`GET /api/v1/events`).
    fn events(&self) -> &Events;

    /// Begins to drain and then ends the process. Returns at once; further calls change nothing.
    fn stop(&self);

    /// Has another process take over: of the file that this one was started from, or of this one.
    ///
    /// # Errors
    /// Why none has: this process goes on.
    fn upgrade(&self, binary: Option<PathBuf>) -> Upgrading;

    /// Whether changes can be made now.
    ///
    /// # Errors
    /// Why not, in a sentence: another process is about to take over, and would not know of them.
    fn is_open_to_changes(&self) -> Result<(), String>;

    /// Tells the operator a line that is not an answer to anybody.
    fn complain(&self, line: &str);

    /// Services and their endpoints, with the version of the endpoint sets.
    fn services(&self) -> Services;

    /// Routes in the order of the configuration.
    fn routes(&self) -> Vec<RouteStatus>;

    /// Certificates that are in use, by listener and in the order of the configuration, then that of the admin API.
    fn certificates(&self) -> Vec<CertificateStatus>;

    /// What becomes of a request, by the plan in force and by how its endpoints stand (`GET /api/v1/explain`). With
    /// `all`, every route and endpoint is listed.
    ///
    /// # Errors
    /// When no client could send such a request here.
    fn explain(&self, question: &Question, all: bool) -> Result<Explanation, Unaskable>;

    /// The lists of addresses, in the order of the configuration.
    fn address_lists(&self) -> Vec<AddressList>;

    /// A list with what was added to it.
    ///
    /// # Errors
    /// An unknown list.
    fn address_list(&self, list: &str) -> Result<AddressListContents, Refusal>;

    /// Puts a network into a list; at once, everywhere.
    ///
    /// # Errors
    /// An unknown list, a text that is not a network (field `network`), or a list that is full.
    fn add_address(&self, list: &str, new: NewAddress) -> Result<AddressChanged, Refusal>;

    /// Takes a network out of a list.
    ///
    /// # Errors
    /// An unknown list, or a network that was not added to it.
    fn remove_address(&self, list: &str, network: &str) -> Result<AddressChanged, Refusal>;

    /// What the cache has and did (`GET /api/v1/cache`).
    fn cache(&self) -> CacheStatus;

    /// Purges the cache, and has other replicas do it where that is configured. It goes on also where nobody waits.
    ///
    /// # Errors
    /// An unknown route, or too many purges under way.
    fn purge(&self, purge: Purge) -> Purging;

    /// Lists of API keys.
    fn api_keys(&self) -> &dyn ApiKeyControl;

    /// Adds an endpoint to a service.
    ///
    /// # Errors
    /// An unknown service, a URL that is none (field `url`), an endpoint that is already there, or
    /// another version of the endpoint sets than expected.
    fn add_endpoint(
        &self,
        service: &str,
        new: NewEndpoint,
        expected: &Expected<u64>,
    ) -> Result<Changed, Refusal>;

    /// Changes an endpoint. `id` is its id or its URL.
    ///
    /// # Errors
    /// An unknown service or endpoint, or another version than expected.
    fn change_endpoint(
        &self,
        service: &str,
        id: &str,
        change: EndpointChange,
        expected: &Expected<u64>,
    ) -> Result<Changed, Refusal>;

    /// Takes an endpoint out of rotation at once and removes it when what is under way has ended or
    /// `drain` (0–1 h) is over. `id` is its id or its URL.
    ///
    /// # Errors
    /// An unknown service or endpoint, or another version than expected.
    fn remove_endpoint(
        &self,
        service: &str,
        id: &str,
        drain: Duration,
        expected: &Expected<u64>,
    ) -> Result<Changed, Refusal>;

    /// Changes shares of a route; services that are not named keep theirs.
    ///
    /// # Errors
    /// An unknown route, a service that the route does not have (field: its name), shares that are
    /// all 0, or another version than expected.
    fn set_weights(
        &self,
        route: &str,
        weights: Vec<(String, u32)>,
        expected: &Expected<u64>,
    ) -> Result<Reweighted, Refusal>;

    /// Takes back the shares of a route that were set: those of the configuration are in force again. Where none were
    /// set nothing changes.
    ///
    /// # Errors
    /// An unknown route of which nothing was set, or another version than expected.
    fn reset_weights(&self, route: &str, expected: &Expected<u64>) -> Result<WeightsReset, Refusal>;

    /// Where the canary of a route stands.
    ///
    /// # Errors
    /// An unknown route, or one without a canary.
    fn canary(&self, route: &str) -> Result<CanaryStatus, Refusal>;

    /// Does what is asked of the canary of a route.
    ///
    /// # Errors
    /// An unknown route, one without a canary, an order that makes no sense as it stands, or another version than
    /// expected.
    fn order_canary(
        &self,
        route: &str,
        order: CanaryOrder,
        expected: &Expected<u64>,
    ) -> Result<CanaryChanged, Refusal>;

    /// Turns the filter `maintenance` of a route on or off; with `None` it is as the configuration says again, also
    /// where nothing was set.
    ///
    /// # Errors
    /// An unknown route, a route without such a filter, or another version than expected.
    fn set_maintenance(
        &self,
        route: &str,
        on: Option<bool>,
        expected: &Expected<u64>,
    ) -> Result<MaintenanceChanged, Refusal>;

    /// Seals a destination, where a route would serve it.
    ///
    /// # Errors
    /// No such route (field `route` where several could be meant), a destination that is none or that the route does
    /// not allow (field `destination`).
    fn seal(&self, new: &NewLabel) -> Result<SealedLabel, Refusal>;

    /// What is remembered of exchanges. Workers are asked at once and answer soon.
    ///
    /// # Errors
    /// A worker does not answer.
    fn requests(&self, filter: RequestFilter) -> Recalling;

    /// Time series (`GET /api/v1/series`).
    fn series(&self, filter: &SeriesFilter) -> SeriesDocument;

    /// How sources of endpoints stand (`GET /api/v1/sources`).
    fn sources(&self) -> SourceStatuses;

    /// How objectives stand (`GET /api/v1/slos`).
    fn slos(&self) -> Slos;
    /// Begins to watch exchanges as they end (`GET /api/v1/tap`).
    ///
    /// # Errors
    /// As many watch already as may, or there is no such route or service.
    fn tap(&self, options: TapOptions) -> Result<Box<dyn OpenTap>, Refusal>;

    /// The configuration that was read last.
    fn config(&self) -> ConfigDocument;

    /// The JSON schema of a configuration.
    fn config_schema(&self) -> String;

    /// Replaces the configuration.
    ///
    /// # Errors
    /// Mistakes, keys that may not arrive this way, a file that cannot be written, or another
    /// configuration than expected.
    fn replace_config(
        &self,
        text: &str,
        expected: &Expected<String>,
        options: ReplaceOptions,
    ) -> Result<ConfigOutcome, Refusal>;

    /// Reads the configuration again.
    ///
    /// # Errors
    /// Mistakes, or there is no file.
    fn reload(&self, options: ReloadOptions) -> Result<ConfigOutcome, Refusal>;

    /// What a reload would change.
    ///
    /// # Errors
    /// Mistakes, or there is no file.
    fn plan(&self) -> Result<ConfigOutcome, Refusal>;

    /// Configurations that have run.
    fn history(&self) -> History;

    /// Brings an earlier configuration back.
    ///
    /// # Errors
    /// There is none, it cannot take over any more, keys that may not arrive this way, or another configuration
    /// than expected.
    fn rollback(
        &self,
        expected: &Expected<String>,
        options: RollbackOptions,
    ) -> Result<ConfigOutcome, Refusal>;
}

/// The answer to `GET /api/v1/status`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Status {
    /// Version of the proxy.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// Whether it takes new connections.
    pub state: State,
    /// Number of the plan that runs: 1 at start, one more with every reload.
    pub generation: u64,
    /// Number of workers.
    pub workers: usize,
    /// Listeners of the plan.
    pub listeners: Vec<ListenerStatus>,
    /// Client connections.
    pub connections: ConnectionStatus,
    /// Exchanges under way.
    pub requests_active: u64,
    /// File descriptors.
    pub descriptors: DescriptorStatus,
    /// How many services are in which state.
    pub services: ServicesSummary,
    /// Names of objectives whose budget is used up too fast.
    pub slos_burning: Vec<String>,
}

/// Whether the proxy takes new connections.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It does.
    Running,
    /// It finishes what it has and then ends.
    Draining,
}

/// One listener.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ListenerStatus {
    /// Its name in the configuration.
    pub name: String,
    /// The address it is bound to, with the port that the kernel chose.
    pub address: String,
    /// `http`, `tcp` and so on, as in the configuration.
    pub protocol: String,
}

/// Client connections and their bound.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct ConnectionStatus {
    /// Open now.
    pub active: u64,
    /// May be open.
    pub max: u64,
}

/// File descriptors and their bound.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct DescriptorStatus {
    /// Open now; absent when it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// May be open.
    pub limit: u64,
}

/// The answer to `GET /api/v1/limits`.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Limits {
    /// File descriptors.
    pub descriptors: Usage,
    /// Client connections.
    pub connections: Usage,
    /// Upstream connections.
    pub upstream_connections: Usage,
    /// Exchanges under way.
    pub requests: Usage,
    /// Bytes of memory of the process and its sockets.
    pub memory_bytes: Usage,
    /// The largest of the shares in use, 0 to 1.
    pub saturation: f64,
}

/// One limit.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Usage {
    /// In use now; absent when it is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// The limit.
    pub max: u64,
}
