//! Shared words of the product: faults, events, limits, units, ids, records, signing keys.
//!
//! Everything else depends on this crate and it depends on nothing of ours. It holds no socket
//! and reads no clock: time and randomness come in as arguments.
#![forbid(unsafe_code)]

pub mod concealed;
pub mod credentials;
pub mod event;
pub mod fault;
pub mod grpc;
pub mod id;
pub mod limits;
pub mod notice;
pub mod records;
pub mod signing_key;
pub mod units;
pub mod written;

pub use concealed::{Concealed, ConcealedValue};
pub use event::{EndpointCondition, EndpointSnapshot, Event, EventKind};
pub use fault::{Fault, FaultKind, Side};
pub use grpc::GRPC_STATUSES;
pub use id::RequestId;
pub use notice::{Level, Notice};
pub use records::{Opened, Sealed};
pub use signing_key::SigningKey;
