//! Directives that change nothing of what becomes of a request here, and those that have no counterpart, with the
//! reason.

use crate::Grade;

/// Done otherwise here, without a difference in what becomes of requests.
const WITHOUT_EFFECT: &[&str] = &[
    "accept_mutex",
    "aio",
    "client_body_buffer_size",
    "client_body_in_file_only",
    "client_body_temp_path",
    "client_header_buffer_size",
    "connection_pool_size",
    "daemon",
    "default_type",
    "directio",
    "etag",
    "gzip_buffers",
    "gzip_comp_level",
    "gzip_disable",
    "gzip_http_version",
    "gzip_proxied",
    "if_modified_since",
    "keepalive",
    "keepalive_requests",
    "keepalive_time",
    "keepalive_timeout",
    "log_format",
    "log_not_found",
    "log_subrequest",
    "multi_accept",
    "open_file_cache",
    "open_file_cache_errors",
    "open_file_cache_min_uses",
    "open_file_cache_valid",
    "output_buffers",
    "pcre_jit",
    "pid",
    "postpone_output",
    "proxy_buffer_size",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_busy_buffers_size",
    "proxy_headers_hash_bucket_size",
    "proxy_headers_hash_max_size",
    "proxy_http_version",
    "proxy_max_temp_file_size",
    "proxy_request_buffering",
    "proxy_ssl_session_reuse",
    "proxy_temp_file_write_size",
    "proxy_temp_path",
    "read_ahead",
    "request_pool_size",
    "reset_timedout_connection",
    "sendfile",
    "sendfile_max_chunk",
    "server_names_hash_bucket_size",
    "server_names_hash_max_size",
    "server_tokens",
    "ssl_buffer_size",
    "ssl_dhparam",
    "ssl_ecdh_curve",
    "ssl_prefer_server_ciphers",
    "ssl_session_cache",
    "ssl_session_tickets",
    "ssl_session_timeout",
    "tcp_nodelay",
    "tcp_nopush",
    "timer_resolution",
    "types_hash_bucket_size",
    "types_hash_max_size",
    "underscores_in_headers",
    "use",
    "variables_hash_bucket_size",
    "variables_hash_max_size",
    "worker_cpu_affinity",
    "worker_priority",
    "worker_rlimit_nofile",
    "zone",
];

/// Taken over with a difference that is the same for all.
const WITH_DIFFERENCE: &[(&str, &str)] = &[
    ("access_log", "write `access_log` at the top: Thalweg has one log for all hosts"),
    ("error_log", "errors are logged on stderr"),
    ("charset", "files have `charset=utf-8` or what `files.charset` says; bodies are not recoded"),
    ("client_body_timeout", "`limits.min_rate` bounds slow bodies"),
    ("http2", "HTTP/2 is offered wherever there is TLS"),
    ("http2_max_concurrent_streams", "write `limits.max_streams` at the listener; it is 100"),
    ("large_client_header_buffers", "heads may have 64 KiB; write `limits.max_head`"),
    ("resolver", "names are resolved by the resolvers of the system, again at their TTL"),
    ("resolver_timeout", "names are resolved by the resolvers of the system"),
    ("send_timeout", "`timeouts.idle` bounds what is not taken"),
    ("ssl_ciphers", "write `tls.suites` by IANA names; those of TLS 1.2 and 1.3 that are safe are on"),
    ("ignore_invalid_headers", "fields with characters that no name may have are refused with 400"),
    ("worker_connections", "write `limits.max_connections`; it follows from descriptors and memory"),
    ("worker_shutdown_timeout", "write `shutdown.grace`; it is 30s"),
    ("lingering_close", "connections linger as Thalweg's own rules say"),
    ("recursive_error_pages", "a page that is missing gives the proxy's own"),
    ("absolute_redirect", "redirects to a path name no host"),
    ("server_name_in_redirect", "redirects to a path name no host"),
    ("port_in_redirect", "redirects to a path name no host"),
    ("proxy_pass_request_body", "a body goes along; only what `auth_request` asks gets none"),
    ("proxy_send_timeout", "`timeouts.idle` bounds what an endpoint does not take"),
    ("proxy_socket_keepalive", "the kernel's rules hold"),
    ("proxy_ssl_server_name", "the name of the endpoint is always told (SNI)"),
    ("proxy_ssl_protocols", "endpoints are spoken to in TLS 1.2 and 1.3"),
    ("proxy_ssl_ciphers", "suites of TLS 1.2 and 1.3 that are safe are on"),
    ("proxy_intercept_errors", "see `error_page`"),
    ("ssl_stapling", "OCSP answers are not stapled"),
    ("ssl_stapling_verify", "OCSP answers are not stapled"),
    ("ssl_trusted_certificate", "OCSP answers are not stapled"),
    ("ssl_verify_depth", "chains have at most 16 certificates"),
    ("gzip_vary", "`Vary` is always told"),
    ("gzip_static", "write `precompressed: true` at `files`"),
    (
        "merge_slashes",
        "`//` inside a path is always matched as `/` and goes upstream as it is; at the beginning it is refused",
    ),
    ("keepalive_disable", "connections are kept for all clients"),
    ("proxy_ignore_client_abort", "a request whose client leaves is given up"),
    ("limit_req_log_level", "refusals stand in the access log"),
    ("limit_conn_log_level", "refusals stand in the access log"),
];

/// What is known of a directive without looking at its place: its grade and a sentence.
pub(super) fn known(name: &str) -> Option<(Grade, &'static str)> {
    if WITHOUT_EFFECT.contains(&name) {
        return Some((Grade::Exact, ""));
    }
    WITH_DIFFERENCE.iter().find(|(known, _)| *known == name).map(|(_, about)| (Grade::Near, *about))
}

/// A duration as nginx writes it, in milliseconds: `30`, `30s`, `1m`, `1h 30m`, `500ms`.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    const UNITS: &[(&str, u64)] = &[
        ("ms", 1),
        ("s", 1000),
        ("m", 60_000),
        ("h", 3_600_000),
        ("d", 86_400_000),
        ("w", 604_800_000),
        ("M", 2_592_000_000),
        ("y", 31_536_000_000),
        ("", 1000),
    ];
    let (mut rest, mut total) = (text.trim(), 0_u64);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, behind) = rest.split_at(letters);
        let (_, factor) = UNITS.iter().find(|(word, _)| *word == unit)?;
        total = total.checked_add(number.checked_mul(*factor)?)?;
        rest = behind.trim_start();
    }
    Some(total)
}

/// A size as nginx writes it, in bytes: `512`, `8k`, `10m`, `1g`.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let (number, factor) = match lower.as_bytes().last()? {
        b'k' => (&lower[..lower.len() - 1], 1 << 10),
        b'm' => (&lower[..lower.len() - 1], 1 << 20),
        b'g' => (&lower[..lower.len() - 1], 1 << 30),
        _ => (lower.as_str(), 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read() {
        for (text, expected) in [
            ("30", Some(30_000)),
            ("1h 30m", Some(5_400_000)),
            ("500ms", Some(500)),
            ("1x", None),
            ("", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
        for (text, expected) in [("512", Some(512)), ("8k", Some(8192)), ("10M", Some(10 << 20)), ("x", None)]
        {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
