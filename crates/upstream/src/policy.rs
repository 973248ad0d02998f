//! What the configuration says of a service beyond its endpoints: how one is chosen, watched, left out
//! and tried again. Plan types: validated and immutable.

mod balancing;
mod breaking;
mod ejection;
mod health;
mod outage;
mod queueing;
mod retry;
mod statuses;
mod sticky;

pub use balancing::{BalancePolicy, HashKey};
pub use breaking::{AdaptivePolicy, BreakerPolicy};
pub use ejection::EjectionPolicy;
pub use health::{Check, HealthPolicy};
pub use outage::{StaticAnswer, WhenDown};
pub use queueing::{Priority, QueuePolicy};
pub use retry::{HedgePolicy, RetryPolicy};
pub use statuses::{GrpcStatuses, Statuses};
pub use sticky::{SameSite, StickyPolicy};
