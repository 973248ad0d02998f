//! Every metric there is: name, type, labels, help.
//!
//! The one list that drives the exposition ([`Registry::render`](crate::Registry::render)), the
//! reference page ([`reference()`]) and the tests of dashboards and alert rules. Invariant: base
//! units, and only labels whose values come from the configuration or from a fixed table, so that
//! nothing a client sends can make a new series.

use std::fmt::Write as _;

/// The type of a metric.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Only grows; starts at 0 with the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Durations in seconds, in fixed buckets.
    Histogram,
}

impl Kind {
    /// The word of the text format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Metric {
    /// The full name, with its unit.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Names of its labels, in the order in which they are written.
    pub labels: &'static [&'static str],
    /// What it says, one sentence.
    pub help: &'static str,
}

macro_rules! metrics {
    ($( $id:ident $name:literal $kind:ident [$($label:literal)*] $help:literal; )*) => {
        $( #[doc = $help] pub const $id: Metric =
            Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help }; )*

        /// Every metric, in the order of the page.
        pub const ALL: &[&Metric] = &[ $( &$id, )* ];
    };
}

metrics! {
    BUILD_INFO "thalweg_build_info" Gauge ["version"] "Always 1; the label says which version runs.";
    CONNECTIONS_TOTAL "thalweg_connections_total" Counter ["listener"] "Client connections accepted.";
    CONNECTIONS_ACTIVE "thalweg_connections_active" Gauge ["listener"] "Client connections open now.";
    CONNECTIONS_REFUSED "thalweg_connections_refused_total" Counter ["listener"]
        "Client connections refused because a bound was reached, or because their address may not connect.";
    TLS_HANDSHAKES "thalweg_tls_handshakes_total" Counter ["listener" "result"]
        "TLS handshakes of clients that ended, by what came of them: full, resumed, or why there is no connection.";
    TLS_CONNECTIONS "thalweg_tls_connections_total" Counter ["listener" "version"]
        "TLS connections of clients, by version: 1.2 or 1.3.";
    DATAGRAMS "thalweg_datagrams_total" Counter ["listener" "direction"]
        "Datagrams passed on: in (of clients) and out (of endpoints).";
    DATAGRAMS_DROPPED "thalweg_datagrams_dropped_total" Counter ["listener" "reason"]
        "Datagrams that were not passed on, by reason: no_place (a bound is reached), no_endpoint (none takes them), unsent (the kernel did not take them), cut (longer than a datagram can be), stopping, or source (it says that it comes from a listener of the proxy, or from no port).";
    HTTP2_FLOODS "thalweg_http2_floods_total" Counter ["listener" "flood"]
        "HTTP/2 connections of clients that were ended for a flood of frames.";
    TLS_NOT_AFTER "thalweg_tls_certificate_not_after_timestamp_seconds" Gauge ["listener" "name"]
        "When the certificate of the listener with this first name, or issued for this name, ceases to hold, in seconds since the Unix epoch; the admin API's has the listener \"\".";
    REQUESTS_TOTAL "thalweg_requests_total" Counter ["route" "code"] "Exchanges that ended, by status of the answer.";
    GRPC_REQUESTS "thalweg_grpc_requests_total" Counter ["route" "grpc_status"]
        "gRPC calls that ended with a status, by its name; without one a call was broken off.";
    REQUEST_DURATION "thalweg_request_duration_seconds" Histogram ["route"]
        "From the first byte of the request to the last byte of the response.";
    REQUEST_BYTES "thalweg_request_bytes_total" Counter ["route"] "Bytes of requests received: heads, and bodies without framing.";
    RESPONSE_BYTES "thalweg_response_bytes_total" Counter ["route"] "Bytes of responses sent: heads, bodies and framing.";
    CANARY_REQUESTS "thalweg_canary_requests_total" Counter ["route" "service" "result"]
        "Exchanges of routes with a canary, by service; result is ok or failed (a status from 500 on).";
    CANARY_DURATION "thalweg_canary_duration_seconds" Histogram ["route" "service"]
        "From the first byte of a request of such a route to the last byte of its response.";
    FILTER_OUTCOMES "thalweg_filter_total" Counter ["route" "filter" "outcome"]
        "Exchanges in which filters of this kind changed something, answered, refused the request, or failed at their work.";
    CACHE_REQUESTS "thalweg_cache_requests_total" Counter ["route" "result"]
        "Requests of routes with a cache, by result: hit, stale, revalidated, collapsed (the response that another request fetched), miss or pass.";
    CACHE_BYTES "thalweg_cache_bytes" Gauge []
        "Memory of stored responses, of what finds them and of what is being stored. The metrics of the cache are there once a route caches.";
    CACHE_LIMIT_BYTES "thalweg_cache_limit_bytes" Gauge [] "Memory that the cache may use.";
    CACHE_OBJECTS "thalweg_cache_objects" Gauge [] "Responses that are stored.";
    CACHE_FILLS_ACTIVE "thalweg_cache_fills_active" Gauge [] "Responses that are being stored.";
    CACHE_FILL_BYTES "thalweg_cache_fill_bytes" Gauge [] "Memory of responses that are being stored.";
    CACHE_FILLS "thalweg_cache_fills_total" Counter [] "Responses that the cache began to fetch.";
    CACHE_BROKEN "thalweg_cache_broken_total" Counter [] "Responses that broke off while they were fetched; none of them is stored.";
    CACHE_STORED "thalweg_cache_stored_total" Counter [] "Responses that were stored.";
    CACHE_REJECTED "thalweg_cache_rejected_total" Counter []
        "Responses that were fetched and not stored: too large, or purged before they were there.";
    CACHE_PASSED "thalweg_cache_passed_total" Counter []
        "Times at which a request went by the cache: not to be stored, or a bound was reached.";
    CACHE_EVICTIONS "thalweg_cache_evictions_total" Counter [] "Stored responses that went because room was needed.";
    CACHE_PURGED "thalweg_cache_purged_total" Counter []
        "Stored responses that a purge, or a request that changes what they show, has taken away.";
    CACHE_MADE_STALE "thalweg_cache_made_stale_total" Counter [] "Stored responses that a soft purge has made stale.";
    CACHE_DISK_CONDITION "thalweg_cache_disk_condition" Gauge ["condition"]
        "1 for how the disk of the cache stands: opening, indexing (what an earlier run has stored is being found), ready, paused (it is full or has failed, and nothing is written for a while) or unusable. The metrics of the disk are there where one is configured.";
    CACHE_DISK_BYTES "thalweg_cache_disk_bytes" Gauge [] "Bytes of the disk that the cache has in use.";
    CACHE_DISK_LIMIT_BYTES "thalweg_cache_disk_limit_bytes" Gauge [] "Bytes of the disk that the cache may use.";
    CACHE_DISK_OBJECTS "thalweg_cache_disk_objects" Gauge [] "Responses that are stored on the disk and can be found.";
    CACHE_DISK_HITS "thalweg_cache_disk_hits_total" Counter [] "Responses that were read from the disk.";
    CACHE_DISK_BUSY "thalweg_cache_disk_busy_total" Counter []
        "Requests for which the disk was not read, since too many responses were being read.";
    CACHE_DISK_WRITTEN "thalweg_cache_disk_written_total" Counter [] "Responses that were written to the disk.";
    CACHE_DISK_DROPPED "thalweg_cache_disk_dropped_total" Counter []
        "Responses that were not written to the disk: too many waited, it was full, they are too large, or they were purged before.";
    CACHE_DISK_EVICTIONS "thalweg_cache_disk_evictions_total" Counter []
        "Responses that went from the disk because room was needed.";
    CACHE_DISK_REWRITTEN "thalweg_cache_disk_rewritten_total" Counter []
        "Responses that were written again when their place on the disk was needed, since they had been used.";
    CACHE_DISK_PURGED "thalweg_cache_disk_purged_total" Counter []
        "Responses on the disk that a purge, or a request that changes what they show, has taken away, as far as they have been looked at.";
    CACHE_DISK_DAMAGED "thalweg_cache_disk_damaged_total" Counter []
        "Responses on the disk, and parts of its files, that were damaged. None of them is used.";
    CACHE_DISK_ERRORS "thalweg_cache_disk_errors_total" Counter []
        "Calls of the operating system for the disk of the cache that failed.";
    UPSTREAM_REQUESTS "thalweg_upstream_requests_total" Counter ["service" "endpoint"]
        "Requests sent to the endpoint, every attempt counted.";
    UPSTREAM_CONNECTS "thalweg_upstream_connects_total" Counter ["service" "endpoint" "result"]
        "Connections to the endpoint, by result: ok or failed.";
    UPSTREAM_TLS "thalweg_upstream_tls_handshakes_total" Counter ["service" "endpoint" "result"]
        "TLS handshakes with the endpoint, by result: full, resumed or failed; none where it is not reached through TLS.";
    UPSTREAM_REUSED "thalweg_upstream_reused_total" Counter ["service" "endpoint"]
        "Requests sent on a connection that had been used before.";
    UPSTREAM_RETRIES "thalweg_upstream_retries_total" Counter ["service" "endpoint"]
        "Requests sent to the endpoint because another attempt had failed.";
    UPSTREAM_HEDGES "thalweg_upstream_hedges_total" Counter ["service" "endpoint"]
        "Second copies of requests sent to the endpoint because another one was slow to answer.";
    UPSTREAM_HEDGES_WON "thalweg_upstream_hedges_won_total" Counter ["service" "endpoint"]
        "Second copies to which the endpoint was the first to answer.";
    UPSTREAM_RESPONSE "thalweg_upstream_response_seconds" Histogram ["service" "endpoint"]
        "From sending the request to the first byte of the response.";
    UPSTREAM_CONNECT_DURATION "thalweg_upstream_connect_duration_seconds" Histogram ["service" "endpoint"]
        "How long it took until a connection was established, without TLS.";
    UPSTREAM_ERRORS "thalweg_upstream_errors_total" Counter ["service" "endpoint"]
        "Attempts that failed, connections that could not be established among them, and responses with a status from 500 on.";
    UPSTREAM_REQUEST_BYTES "thalweg_upstream_request_bytes_total" Counter ["service" "endpoint"]
        "Bytes of requests, as counted for the route, while the endpoint was asked.";
    UPSTREAM_RESPONSE_BYTES "thalweg_upstream_response_bytes_total" Counter ["service" "endpoint"]
        "Bytes of responses, as counted for the route, while the endpoint was asked.";
    ENDPOINT_EJECTIONS "thalweg_endpoint_ejections_total" Counter ["service" "endpoint"]
        "Times that the endpoint was taken out of rotation: ejected for failing exchanges, or because its checks failed.";
    ENDPOINT_UP "thalweg_endpoint_up" Gauge ["service" "endpoint"] "1 while the endpoint gets traffic, 0 while it does not.";
    ENDPOINT_LIMIT "thalweg_endpoint_limit" Gauge ["service" "endpoint"]
        "Exchanges that may be under way to the endpoint at once, where that follows its latency.";
    SERVICE_ACTIVE "thalweg_service_requests_active" Gauge ["service"] "Exchanges and tunnels under way to the service.";
    SERVICE_QUEUED "thalweg_service_requests_queued" Gauge ["service"]
        "Exchanges to the service that wait for a place: of their route, the service, an endpoint or a connection.";
    SERVICE_DURATION "thalweg_service_request_duration_seconds" Histogram ["service"]
        "From the first byte of a request that went to the service to the last byte of its response.";
    SERVICE_ERRORS "thalweg_service_errors_total" Counter ["service"]
        "Exchanges of the service that ended with a status from 500 on, whoever made the answer.";
    QUEUE_WAIT "thalweg_queue_wait_seconds" Histogram ["service"]
        "How long exchanges that had to wait for a place did, refused ones included.";
    BREAKER_STATE "thalweg_breaker_state" Gauge ["service"]
        "What the service's breaker does with requests: 0 closed (all go through), 1 open (none does), 2 half open (trials do).";
    BREAKER_REFUSED "thalweg_breaker_refused_total" Counter ["service"] "Requests refused because the service's breaker was open.";
    CONNECTIONS_IDLE "thalweg_connections_idle" Gauge [] "Client connections between two exchanges.";
    REQUESTS_ACTIVE "thalweg_requests_active" Gauge [] "Exchanges under way.";
    UPSTREAM_IDLE "thalweg_upstream_connections_idle" Gauge [] "Upstream connections kept for the next exchange.";
    FAULTS "thalweg_faults_total" Counter ["fault" "side"] "Faults, by RFC 9209 error type and the side to blame.";
    LIMIT_HITS "thalweg_limit_hits_total" Counter ["limit"] "Times that a bound was reached.";
    LOG_DROPPED "thalweg_log_dropped_total" Counter ["reason"]
        "Lines of the access log that were lost: queue_full (the destination is too slow) or write_failed.";
    LOG_ERRORS "thalweg_log_errors_total" Counter [] "Failed writes to the access log and failed reopens.";
    ACME_ORDERS "thalweg_acme_orders_total" Counter ["result"]
        "Certificates asked for, by what came of it: issued (the first for a host), renewed or failed.";
    CONFIG_RELOADS "thalweg_config_reloads_total" Counter ["result"]
        "Configurations that were to take over, by result: ok, failed (the old one went on), or rolled_back: those of ok that a watch took back.";
    CONFIG_LAST_OK "thalweg_config_last_reload_successful" Gauge []
        "1 when the last configuration that was to take over did, 0 when it was refused; the start counts.";
    CONFIG_LAST_SUCCESS "thalweg_config_last_success_timestamp_seconds" Gauge []
        "When a configuration took over last, in seconds since the Unix epoch; the start counts.";
    PLANS_ALIVE "thalweg_plans_alive" Gauge []
        "Compiled configurations in memory: the one in force, and those before it that workers have not let go of yet.";
    WEBHOOK_DELIVERIES "thalweg_webhook_deliveries_total" Counter ["result"]
        "Events for webhooks, by result: delivered, given_up (every attempt failed) or dropped (the queue was full, or the receiver is gone).";
    WEBHOOK_RETRIES "thalweg_webhook_retries_total" Counter [] "Attempts to deliver an event to a webhook, after the first.";
    SPANS "thalweg_spans_total" Counter ["result"]
        "Spans of traces, by what came of them: exported (the collector took them), failed (it did not, or not in time) or dropped (too many waited for it).";
    PANICS "thalweg_panics_total" Counter [] "Exchanges given up because of a bug in the proxy.";
    WORKER_LAG "thalweg_worker_lag_seconds" Gauge ["worker"] "How late the worker's timers were at its last tick.";
    SOURCE_FAILING "thalweg_source_failing" Gauge ["service" "source"]
        "1 while the source of the service's endpoints fails, 0 otherwise.";
    SOURCE_AGE "thalweg_source_age_seconds" Gauge ["service" "source"]
        "Time since the source of the service's endpoints last said that what is known is right.";
    SOURCE_ENDPOINTS "thalweg_source_endpoints" Gauge ["service" "source"]
        "Endpoints that the source of the service knows.";
    SOURCE_UPDATES "thalweg_source_updates_total" Counter ["service" "source"]
        "Sets of endpoints that the source has told of.";
    SOURCE_FAILURES "thalweg_source_failures_total" Counter ["service" "source"]
        "Times at which the source could not be asked, or said what could not be understood.";
    SLO_BUDGET_LEFT "thalweg_slo_budget_left_ratio" Gauge ["slo"]
        "What is left of the exchanges of the objective's window that may be bad, 0 to 1.";
    SLO_BURN_RATE "thalweg_slo_burn_rate" Gauge ["slo" "window"]
        "How many times too fast the budget of the objective was used up over this time.";
    SLO_BURNING "thalweg_slo_burning" Gauge ["slo"] "1 while the budget of the objective is used up too fast, 0 otherwise.";
    BUDGET_DESCRIPTORS "thalweg_budget_descriptors" Gauge [] "File descriptors that may be open.";
    BUDGET_CONNECTIONS "thalweg_budget_connections" Gauge [] "Client connections that may be open.";
    BUDGET_UPSTREAM_CONNECTIONS "thalweg_budget_upstream_connections" Gauge [] "Upstream connections that may be open.";
    BUDGET_REQUESTS "thalweg_budget_requests" Gauge [] "Exchanges that may be under way.";
    BUDGET_BODIES "thalweg_budget_bodies" Gauge [] "Exchanges with a large request body that may be under way.";
    BUDGET_BUFFER_BYTES "thalweg_budget_buffer_bytes" Gauge [] "Bytes of buffers that may be in use.";
    BUDGET_MEMORY "thalweg_budget_memory_bytes" Gauge [] "Memory that the process and its sockets may use.";
    MEMORY_USED "thalweg_memory_used_bytes" Gauge []
        "Memory in use, counted: what the process needs at least, what connections and exchanges may need in the kernel, and bodies held.";
    HELD_BYTES "thalweg_held_bytes" Gauge []
        "Bytes in buffers that peers fill: of bodies, heads that are not whole, streams of HTTP/2 and records of TLS.";
    BUDGET_STATE "thalweg_budget_state" Gauge []
        "What state memory is in: 0 normal, 1 pressure (idle connections give way), 2 full (nobody is taken on).";
    SATURATION "thalweg_saturation" Gauge []
        "0 to 1: the largest of the shares in use of connections, descriptors, memory, exchanges and request bodies.";
    PROCESS_CPU "process_cpu_seconds_total" Counter [] "CPU time of the process, user and system.";
    PROCESS_OPEN_FDS "process_open_fds" Gauge [] "Open file descriptors.";
    PROCESS_MAX_FDS "process_max_fds" Gauge [] "Most file descriptors that may be open (soft limit).";
    PROCESS_RESIDENT "process_resident_memory_bytes" Gauge [] "Resident memory.";
    PROCESS_VIRTUAL "process_virtual_memory_bytes" Gauge [] "Virtual memory.";
    PROCESS_THREADS "process_threads" Gauge [] "Threads of the process.";
    PROCESS_START "process_start_time_seconds" Gauge [] "When the process started, in seconds since the Unix epoch.";
}

/// The reference page's table of metrics, in Markdown.
pub fn reference() -> String {
    let mut page = String::from("| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for metric in ALL {
        let labels = metric.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(" ");
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{}` | {} | {labels} | {} |", metric.name, metric.kind.name(), metric.help);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_follow_the_conventions() {
        for (i, metric) in ALL.iter().enumerate() {
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(metric.name.bytes().all(is_plain), "{}", metric.name);
            assert!(metric.name.starts_with("thalweg_") || metric.name.starts_with("process_"));
            assert_eq!(metric.kind == Kind::Counter, metric.name.ends_with("_total"), "{}", metric.name);
            if metric.kind == Kind::Histogram {
                assert!(metric.name.ends_with("_seconds"), "{}", metric.name);
            }
            assert!(metric.help.ends_with('.') && !metric.help.contains(['\n', '|']), "{}", metric.name);
            assert!(ALL[i + 1..].iter().all(|other| other.name != metric.name), "{}", metric.name);
        }
    }

    #[test]
    fn the_reference_has_a_line_per_metric() {
        let page = reference();
        assert_eq!(page.lines().count(), ALL.len() + 2);
        assert!(
            page.contains("| `thalweg_requests_total` | counter | `route` `code` | Exchanges that ended")
        );
    }
}
