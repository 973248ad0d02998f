//! Shared words of the product: faults, events, limits, units, ids, records, what webhooks and authorities are asked.
//!
//! Everything else depends on this crate and it depends on nothing of ours. It holds no socket
//! and reads no clock: time and randomness come in as arguments.
#![forbid(unsafe_code)]

pub mod acme;
pub mod event;
pub mod fault;
pub mod grpc;
pub mod http_url;
pub mod id;
pub mod limits;
pub mod records;
pub mod units;
pub mod webhook;

pub use acme::{AcmeBinding, AcmeChallenge, AcmeKeyType, AcmePolicy, DnsHook, DnsHookBy, OnDemandPolicy};
pub use event::{EndpointCondition, EndpointSnapshot, Event, EventKind};
pub use fault::{Fault, FaultKind, Side};
pub use grpc::GRPC_STATUSES;
pub use http_url::HttpUrl;
pub use id::RequestId;
pub use records::{Opened, Sealed};
pub use webhook::{WebhookPolicy, WebhookSecret};
