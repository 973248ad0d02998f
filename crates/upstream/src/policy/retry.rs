//! Trying again.

use super::{GrpcStatuses, Statuses};
use serde::Serialize;
use std::time::Duration;
use thalweg_core::written;

/// When another attempt is made (`services.<name>.retry`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RetryPolicy {
    /// Attempts in all, 1–10; default 2. The replay on a fresh connection of a request that met a
    /// dead reused one is not counted.
    pub attempts: u32,
    /// Responses after which another attempt is made, 500–599 or 429 or 408 or 421; default none. Only
    /// where the request is idempotent and can be sent again; the last one's response is passed on.
    #[serde(skip_serializing_if = "Statuses::is_empty")]
    pub statuses: Statuses,
    /// Ends of gRPC calls after which another attempt is made, where the response is nothing else; default none. Who
    /// lists one says that a call which ends so may be made again: calls are POSTs.
    #[serde(skip_serializing_if = "GrpcStatuses::is_empty")]
    pub grpc_statuses: GrpcStatuses,
    /// For one attempt, from sending the request to the response's head; default: `timeouts.first_byte`.
    #[serde(serialize_with = "written::duration")]
    pub per_try_timeout: Option<Duration>,
    /// Requests that may be sent again, in percent of all of the service, 0–1000; default 20. Attempts that
    /// reached no endpoint (refused connections) do not count.
    #[serde(serialize_with = "written::percent")]
    pub budget: u32,
    /// As many per second may always be, however few requests there are; default 3 (per worker: its share).
    pub min_retries_per_second: u32,
    /// A second copy of a request that is slow to be answered; default none.
    pub hedge: Option<HedgePolicy>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 2,
            statuses: Statuses::default(),
            grpc_statuses: GrpcStatuses::default(),
            per_try_timeout: None,
            budget: 20,
            min_retries_per_second: 3,
            hedge: None,
        }
    }
}

/// `services.<name>.retry.hedge`: for idempotent requests whose body has been sent and can be sent again.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct HedgePolicy {
    /// The copy goes to another endpoint when there is no byte of a response after this time, 1 ms–1 min.
    #[serde(serialize_with = "written::duration")]
    pub after: Duration,
    /// Copies in percent of all requests of the service, 1–100; default 5.
    #[serde(serialize_with = "written::percent")]
    pub budget: u32,
}
