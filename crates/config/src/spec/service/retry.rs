//! `retry:` of a service, or of the defaults that services inherit.

use crate::spec::{DurationSpec, ListSpec, PercentSpec, Spanned, StatusSpec, SwitchSpec};
use schemars::JsonSchema;
use serde::Deserialize;

/// `retry:`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default, expecting = "a map with `attempts`")]
pub struct RetrySpec {
    /// Attempts in all.
    #[schemars(extend("x-range" = [1, 10], "x-default" = 2))]
    pub attempts: Option<Spanned<u64>>,
    /// Responses after which another attempt is made: 5xx, 408, 421, 429.
    #[schemars(extend("x-default-words" = "none"))]
    pub statuses: Option<ListSpec<StatusSpec>>,
    /// Ends of gRPC calls after which the call is made again, if the response is nothing else.
    #[schemars(extend("x-default-words" = "none"))]
    pub grpc_statuses: Option<ListSpec<GrpcStatusSpec>>,
    /// For one attempt, until the head of its response.
    #[schemars(extend("x-default-words" = "`timeouts.first_byte`"))]
    pub per_try_timeout: Option<Spanned<DurationSpec>>,
    /// Requests that may be sent again, in percent of all of the service.
    #[schemars(extend("x-range" = ["0%", "1000%"], "x-default" = "20%"))]
    pub budget: Option<Spanned<PercentSpec>>,
    /// As many per second may always be.
    #[schemars(extend("x-range" = [0, 1000000], "x-default" = 3))]
    pub min_retries_per_second: Option<Spanned<u64>>,
    /// A second copy of a request that is slow to be answered.
    #[schemars(extend("x-default" = "off"))]
    pub hedge: Option<Spanned<SwitchSpec<HedgeSpec>>>,
}

/// How a gRPC call ends badly.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "a status of gRPC such as `unavailable`")]
#[repr(u8)]
pub enum GrpcStatusSpec {
    /// 1
    Cancelled = 1,
    /// 2
    Unknown,
    /// 3
    InvalidArgument,
    /// 4
    DeadlineExceeded,
    /// 5
    NotFound,
    /// 6
    AlreadyExists,
    /// 7
    PermissionDenied,
    /// 8
    ResourceExhausted,
    /// 9
    FailedPrecondition,
    /// 10
    Aborted,
    /// 11
    OutOfRange,
    /// 12
    Unimplemented,
    /// 13
    Internal,
    /// 14
    Unavailable,
    /// 15
    DataLoss,
    /// 16
    Unauthenticated,
}

/// `retry.hedge:`
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, expecting = "a map with `after`")]
pub struct HedgeSpec {
    /// The copy is sent when there is no response after this time.
    #[schemars(extend("x-range" = ["1ms", "1m"]))]
    pub after: Spanned<DurationSpec>,
    /// Copies in percent of all requests of the service.
    #[schemars(extend("x-range" = ["1%", "100%"], "x-default" = "5%"))]
    pub budget: Option<Spanned<PercentSpec>>,
}
