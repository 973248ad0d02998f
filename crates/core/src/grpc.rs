//! Words of gRPC that crates share which do not know each other.

/// How calls end, by the numbers of `grpc-status`: as in configuration, metrics and logs.
pub const GRPC_STATUSES: [&str; 17] = [
    "ok",
    "cancelled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
];
