//! What the proxy tells about itself: metrics and the access log.
//!
//! Workers write into meters and into a log batch while they serve exchanges; the control thread
//! reads the meters when `/metrics` is asked for, and a thread of its own writes the log. Nothing
//! here waits for a reader, a disk or another worker. No tokio: all of it is plain memory, one
//! bounded queue and one thread.
//!
//! Metrics: [`names`] (what exists) → [`Registry`] (who holds what) → [`meters`] (what workers
//! write) → [`Registry::render`]. Which exchanges somebody wants to see: [`condition`], [`id_share`]. Log:
//! [`LogRecord`] → [`LogBatch`] → [`LogWriter`].
#![forbid(unsafe_code)]

pub mod exemplar;
pub mod meter;
pub mod meters;
pub mod names;
pub mod registry;
pub mod route_totals;
pub mod series;
pub mod slo;
pub mod totals;

pub mod exposition;
mod process;
mod render;

pub mod record;
pub mod writer;

mod combined;
mod escape;
mod json;
mod redact;
mod sample;
mod stamp;
pub mod text;

pub mod condition;
pub mod id_share;
pub mod trace;
pub mod webhook;

pub use condition::{Condition, ConditionError};
pub use id_share::IdShare;
pub use meter::{Codes, Counter, Gauge, Histogram};
pub use meters::{
    AcmeMeters, BudgetMeters, CacheUse, DIRECTIONS, DROPS, Drops, EndpointMeters, FLOODS, FilterMeters,
    FilterOutcome, HANDSHAKE_RESULTS, Limit, ListenerMeters, LogMeters, ReloadMeters, RouteMeters,
    ServiceMeters, TraceMeters, WebhookMeters, WorkerMeters,
};
pub use process::open_descriptors;
pub use record::{FailedAttempt, Format, LogRecord, Timers};
pub use redact::{redact_field, redact_path, redact_query};
pub use registry::{CacheDiskStanding, CacheStanding, Registry, Series, SourceStanding};
pub use route_totals::RouteTotals;
pub use sample::Sample;
pub use text::TextFormat;
pub use totals::{Object, ObjectKind, Totals};
pub use webhook::WebhookPolicy;
pub use writer::{Destination, LogBatch, LogError, LogOptions, LogWriter, Rotation, Syslog, SyslogReceiver};
