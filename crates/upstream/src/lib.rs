//! 8 upstream: services, their members, pools of connections.
//!
//! [`Service`] is what the configuration says, [`Roster`] who its members are now, [`Standing`] how each of
//! them stands: these are shared by all workers. [`ServiceState`] is what one worker has of it: the choice of a
//! member, and the idle connections. What is shared and changes is atomics; a lock is taken only when somebody
//! has to wait ([`Gate`]) or a standing changes.
#![forbid(unsafe_code)]

mod adaptive;
mod adaptive_limits;
mod breaker;
mod destinations;
mod gate;
mod gates;
mod handover;
mod members;
mod outlier;
mod policy;
mod pool;
mod retry_budget;
mod rosters;
mod service;
mod service_standing;
mod shared_breaker;
mod standing;
mod tally;
mod trunks;
mod visit;

#[cfg(test)]
mod simulation;

pub use adaptive::{Adaptive, Second};
pub use adaptive_limits::AdaptiveLimits;
pub use breaker::{Admission, Breaker, BreakerChange, Trial, TrialEnd};
pub use destinations::{Aim, Destinations, NoVisit};
pub use gate::{
    Entrance, Gate, GateKey, Got, Line, Permit, Priority, QueuePolicy, Stay, Thing, Turned, Wait, Wish,
};
pub use gates::{EndpointGates, Gates, RouteBound, ServiceGates};
pub use handover::{ConnectionPlaces, Destination, Handover};
pub use members::{Member, Names, ServiceState, Wanted};
pub use outlier::{Cause, Judged, Sample, Window, find_outliers};
pub use policy::{
    AdaptivePolicy, BalancePolicy, BreakerPolicy, Check, EjectionPolicy, GrpcStatuses, HashKey, HealthPolicy,
    HedgePolicy, RetryPolicy, SameSite, StaticAnswer, Statuses, StickyPolicy, WhenDown,
};
pub use pool::{Connection, OpenCount, Pool, Wire};
pub use retry_budget::RetryBudget;
pub use rosters::{Entry, Roster, Rosters};
pub use service::{
    Address, DestinationPolicy, Endpoint, EndpointLimits, HostRule, Mode, PoolPolicy, Protocol,
    ProxyProtocol, Service, ServiceLimits,
};
pub use service_standing::{Bell, ServiceStanding};
pub use shared_breaker::{BreakerState, Refused, TrialGuard};
pub use standing::{Condition, Health, NoTerms, Standing};
pub use thalweg_net::connect::PeerAddress;
pub use trunks::{Opening, Speaks, StreamLine, Trunk, Trunks, Waiting};
pub use visit::{Told, Visit};
