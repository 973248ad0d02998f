//! Why the proxy could not do what was asked.
//!
//! One table ([`FaultKind::rule`]) maps an RFC 9209 error type to the status that the client gets,
//! the side to blame, whether another attempt may help, whether the endpoint's health suffers and
//! how loudly it is logged. The same word appears in `Proxy-Status`, the access log, the metric
//! label, the decision record and the documentation.

use std::fmt;

/// The side of the exchange that is to blame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// The client: it sent something wrong, too much, too slowly, or it left.
    Downstream,
    /// The proxy itself: a bound was reached, its configuration is wrong, or it has a bug.
    Proxy,
    /// The service or the way to it.
    Upstream,
}

impl Side {
    /// The word used in logs, metrics and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Downstream => "downstream",
            Self::Proxy => "proxy",
            Self::Upstream => "upstream",
        }
    }
}

/// When another attempt, on another connection or endpoint, may be made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Retry {
    /// Another attempt cannot help or would not be safe.
    Never,
    /// Only when the connection was reused, no response byte came and the request can be replayed.
    IfReused,
    /// When the request is idempotent, can be replayed and no response byte came.
    IfIdempotent,
    /// Always when the request was never sent, which is the rule; else as [`Self::IfIdempotent`].
    Always,
    /// When the request can be replayed and no response byte came: the endpoint has not begun to work on it.
    Unprocessed,
}

impl Retry {
    /// The word used in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::IfReused => "if_reused",
            Self::IfIdempotent => "if_idempotent",
            Self::Always => "always",
            Self::Unprocessed => "unprocessed",
        }
    }
}

/// How loudly a fault is logged by the proxy itself (the access log has every exchange).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// Ordinary life on the internet.
    Debug,
    /// Worth a line: an operator may want to act.
    Warn,
    /// A bug of ours.
    Error,
}

impl Level {
    /// The word used in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// One row of the fault table.
#[derive(Clone, Copy, Debug)]
pub struct FaultRule {
    /// The RFC 9209 error type (§2.3), or one registered by the same rules.
    pub name: &'static str,
    /// The status of the answer the proxy makes, unless the fault carries a closer one.
    pub status: u16,
    /// The side to blame.
    pub side: Side,
    /// Whether another attempt may be made.
    pub retry: Retry,
    /// Whether the client's connection is closed after the answer.
    pub close: bool,
    /// Whether the endpoint's passive health suffers.
    pub hurts_endpoint: bool,
    /// How loudly the proxy logs it.
    pub level: Level,
    /// One sentence for the reference page.
    pub summary: &'static str,
}

macro_rules! fault_kinds {
    ($( $variant:ident $name:literal $status:literal $side:ident $retry:ident $close:ident $hurts:ident $level:ident $summary:literal; )*) => {
        /// The kinds of fault: error types of RFC 9209 §2.3.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum FaultKind { $( #[doc = $summary] $variant, )* }

        impl FaultKind {
            /// Every kind, in the order of the table.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];

            /// This kind's row of the table.
            pub const fn rule(self) -> &'static FaultRule {
                match self { $( Self::$variant => &FaultRule {
                    name: $name, status: $status, side: Side::$side, retry: Retry::$retry,
                    close: $close, hurts_endpoint: $hurts, level: Level::$level, summary: $summary,
                }, )* }
            }
        }
    };
}

fault_kinds! {
    // kind, name, status, side, retry, closes the client connection, hurts the endpoint, log level
    HttpRequestError "http_request_error" 400 Downstream Never true false Debug
        "the client's request was malformed, ambiguous, over a limit or not supported";
    HttpRequestDenied "http_request_denied" 403 Downstream Never false false Debug
        "the configuration does not allow this request";
    ClientTimeout "http_request_timeout" 408 Downstream Never true false Debug
        "the client did not send its request in time";
    CallDeadline "http_request_deadline" 504 Downstream Never false false Debug
        "the gRPC deadline that the client set has passed";
    ClientGone "http_request_aborted" 499 Downstream Never true false Debug
        "the client closed its connection before the exchange was over";
    DestinationNotFound "destination_not_found" 404 Proxy Never false false Debug
        "no route matches the request, or what it asks for is not there";
    DestinationUnavailable "destination_unavailable" 503 Upstream Never false false Warn
        "the service has no available endpoint";
    DnsError "dns_error" 503 Upstream Never false false Warn
        "the endpoint's host name has never resolved to an address";
    ConnectionRefused "connection_refused" 502 Upstream Always false true Warn
        "the endpoint refused the connection";
    ConnectionTimeout "connection_timeout" 504 Upstream Always false true Warn
        "the connection to the endpoint, or its TLS handshake, timed out";
    DestinationIpUnroutable "destination_ip_unroutable" 502 Upstream Always false true Warn
        "the network has no route to the endpoint's address";
    ConnectionLimitReached "connection_limit_reached" 503 Proxy Never false false Warn
        "a limit on connections, file descriptors or requests in flight was reached";
    TlsProtocolError "tls_protocol_error" 502 Upstream Always false true Warn
        "the endpoint does not speak TLS, or violates its protocol";
    TlsCertificateError "tls_certificate_error" 502 Upstream Always false true Warn
        "the endpoint's certificate is not trusted or does not match its name";
    TlsAlertReceived "tls_alert_received" 502 Upstream Always false true Warn
        "the endpoint ended the TLS handshake with an alert";
    ConnectionTerminated "connection_terminated" 502 Upstream IfIdempotent false true Warn
        "the upstream connection ended before the response began";
    StreamRefused "stream_refused" 503 Upstream Unprocessed false false Debug
        "the endpoint refused the HTTP/2 stream before it processed the request";
    ConnectionWriteTimeout "connection_write_timeout" 504 Upstream Never true true Warn
        "the endpoint stopped reading the request";
    HttpResponseTimeout "http_response_timeout" 504 Upstream IfIdempotent false true Warn
        "the endpoint did not begin its response in time";
    ConnectionReadTimeout "connection_read_timeout" 504 Upstream Never true true Warn
        "the endpoint stopped sending in the middle of its response";
    HttpResponseIncomplete "http_response_incomplete" 502 Upstream Never true true Warn
        "the endpoint ended its response before it was complete";
    HttpResponseHeaderSectionSize "http_response_header_section_size" 502 Upstream Never false false Warn
        "the response's header section is over the limit";
    HttpResponseBodySize "http_response_body_size" 502 Upstream Never true false Warn
        "the response's body is over the limit";
    HttpResponseContentCoding "http_response_content_coding" 502 Upstream Never true false Warn
        "the response's content coding is invalid, or decodes to more than is allowed";
    HttpResponseTransferCoding "http_response_transfer_coding" 502 Upstream Never true false Warn
        "the response's transfer coding is invalid or not supported";
    HttpResponseStatus "http_response_status" 502 Upstream IfIdempotent false false Debug
        "the endpoint's status asks for another attempt; never the final fault of an exchange";
    HttpUpgradeFailed "http_upgrade_failed" 502 Upstream Never true false Warn
        "the endpoint switched protocols without being asked, or to another one";
    HttpProtocolError "http_protocol_error" 502 Upstream Never false false Warn
        "the endpoint's response is not valid HTTP";
    ProxyLoopDetected "proxy_loop_detected" 508 Proxy Never false false Warn
        "the request has passed through this proxy too often";
    FaultInjected "fault_injected" 503 Proxy Never false false Debug
        "the filter `fault` broke the exchange off, as the configuration asks";
    ProxyStopped "proxy_stopped" 503 Proxy Never true false Debug
        "the proxy stopped before the exchange was over";
    ProxyInternalError "proxy_internal_error" 500 Proxy Never true false Error
        "a bug in the proxy ended the exchange";
}

impl FaultKind {
    /// The RFC 9209 error type.
    pub const fn name(self) -> &'static str {
        self.rule().name
    }
}

/// What went wrong with one exchange: a kind, the status to answer and a fixed sentence.
///
/// The detail is static text: it never holds an address or anything the peers sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fault {
    /// The error type.
    pub kind: FaultKind,
    /// The status of the answer, 400–599 (499 is never sent, only logged).
    pub status: u16,
    /// What exactly, in a few words without a full stop.
    pub detail: &'static str,
}

impl Fault {
    /// In place of a status: there is no answer, and the connection of the client is reset; over HTTP/2 the stream.
    pub const NO_ANSWER: u16 = 444;

    /// A fault with its kind's own status.
    pub const fn new(kind: FaultKind, detail: &'static str) -> Self {
        Self { kind, status: kind.rule().status, detail }
    }

    /// The client's request is refused with `status` (400, 405, 408, 413, 414, 417, 421, 431, 501, 505).
    pub const fn request(status: u16, detail: &'static str) -> Self {
        Self { kind: FaultKind::HttpRequestError, status, detail }
    }

    /// The upstream's response is refused.
    pub const fn response(detail: &'static str) -> Self {
        Self::new(FaultKind::HttpProtocolError, detail)
    }

    /// The side to blame.
    pub const fn side(&self) -> Side {
        self.kind.rule().side
    }

    /// Whether another attempt may be made.
    pub const fn retry(&self) -> Retry {
        self.kind.rule().retry
    }

    /// Whether the client's connection is closed after the answer.
    pub const fn closes(&self) -> bool {
        self.kind.rule().close
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.detail)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_statuses_are_errors() {
        for (i, kind) in FaultKind::ALL.iter().enumerate() {
            assert!((400..600).contains(&kind.rule().status), "{kind:?}");
            assert_eq!(*kind as usize, i);
            for other in &FaultKind::ALL[i + 1..] {
                assert_ne!(kind.name(), other.name());
            }
        }
    }

    #[test]
    fn every_refused_request_closes_its_connection() {
        assert!(Fault::request(431, "too many fields").closes());
        assert_eq!(Fault::request(431, "x").side(), Side::Downstream);
    }
}
