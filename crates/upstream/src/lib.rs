//! 8 upstream: services, their members, pools of connections.
//!
//! [`Service`] is what the configuration says, [`EndpointSet`] who its members are now, [`EndpointState`] how each of
//! them stands: these are shared by all workers. [`ServiceState`] is what one worker has of it: the choice of a
//! member, and the idle connections. What is shared and changes is atomics; a lock is taken only when somebody
//! has to wait ([`ConcurrencyLimit`]) or a standing changes.
#![forbid(unsafe_code)]

mod adaptive;
mod adaptive_limits;
mod attempt_guard;
mod breaker;
mod concurrency;
mod connection;
mod connection_handoff;
mod destinations;
mod directory;
mod endpoint_sets;
mod endpoint_state;
mod labels;
mod member;
mod members;
mod multiplexed;
mod outlier;
mod policy;
mod pool;
mod registry;
mod retry_budget;
mod service;
mod service_shared;
mod shared_breaker;
mod tally;
mod trial_guard;
mod wire;

#[cfg(test)]
mod simulation;

pub use adaptive::{Adaptive, Second};
pub use adaptive_limits::AdaptiveLimits;
pub use attempt_guard::{AttemptGuard, Transition};
pub use breaker::{Admission, Breaker, BreakerChange, Trial, TrialEnd};
pub use concurrency::{Alternative, LimitKey, Rejected};
pub use connection::{Connection, OpenCount};
pub use connection_handoff::{
    Acquired, ConcurrencyLimit, ConnectionPlaces, Destination, Handover, LimitHandle, OwnedPermit, Permit,
    Wait, WaitFor, WaitQueue,
};
pub use destinations::{Destinations, NoAttempt};
pub use directory::Aim;
pub use endpoint_sets::{EndpointSet, EndpointSets, Entry, Names};
pub use endpoint_state::{Condition, EndpointState, Health, NoTlsTerms};
pub use labels::{LABEL, LABELS, Labels};
pub use member::Member;
pub use members::{ServiceState, Wanted};
pub use multiplexed::{Multiplexed, MultiplexedPool, OpeningGuard, Speaks, StreamLine, Waiting};
pub use outlier::{Cause, Judged, Sample, Window, find_outliers};
pub use policy::{
    AdaptivePolicy, BalancePolicy, BreakerPolicy, Check, EjectionPolicy, GrpcStatuses, HashKey, HealthPolicy,
    HedgePolicy, Priority, QueuePolicy, RetryPolicy, SameSite, StaticAnswer, Statuses, StickyPolicy,
    WhenDown,
};
pub use pool::Pool;
pub use registry::{EndpointConcurrency, LimitRegistry, RouteBound, ServiceConcurrency};
pub use retry_budget::RetryBudget;
pub use service::{
    Address, DestinationPolicy, DiscoverPolicy, Endpoint, EndpointLimits, HostRule, Mode, PoolPolicy,
    PreferPolicy, Protocol, ProxyProtocol, Service, ServiceLimits,
};
pub use service_shared::{Notifier, ServiceShared};
pub use shared_breaker::{BreakerState, Refused};
pub use thalweg_net::connect::PeerAddress;
pub use trial_guard::TrialGuard;
pub use wire::Wire;
