//! 8 upstream: services, their members, pools of connections.
//!
//! [`Service`] is what the configuration says; [`ServiceState`] is what one worker knows of it now:
//! the resolved members, who is set aside, and the idle connections. Only [`Gate`]s are shared between
//! workers; they lock only when somebody has to wait.
#![forbid(unsafe_code)]

mod breaker;
mod gate;
mod gates;
mod handover;
mod members;
mod outlier;
mod policy;
mod pool;
mod service;

#[cfg(test)]
mod simulation;

pub use breaker::{Admission, Breaker, BreakerChange, Trial, TrialEnd};
pub use gate::{
    Entrance, Gate, GateKey, Got, Line, Permit, Priority, QueuePolicy, Stay, Thing, Turned, Wait, Wish,
};
pub use gates::{EndpointGates, Gates, RouteBound, ServiceGates};
pub use handover::{ConnectionPlaces, Destination, Handover};
pub use members::{Member, Names, ServiceState};
pub use outlier::{Cause, Judged, Sample, Window, find_outliers};
pub use policy::{
    AdaptivePolicy, BalancePolicy, BreakerPolicy, Check, EjectionPolicy, HashKey, HealthPolicy, HedgePolicy,
    RetryPolicy, SameSite, StaticAnswer, Statuses, StickyPolicy, WhenDown,
};
pub use pool::{Connection, OpenCount, Pool, Wire};
pub use service::{Address, Endpoint, EndpointLimits, HostRule, PoolPolicy, Service, ServiceLimits};
pub use thalweg_net::connect::PeerAddress;
