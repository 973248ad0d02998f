//! What is said of lines that need no more than a word.

use super::lines::Line;
use crate::{Grade, Report};

/// A grade, and the difference.
pub(super) type Told = (Grade, &'static str);

/// Nothing needs to be said.
pub(super) const EXACT: Told = (Grade::Exact, "");
/// What becomes of a `stick-table`.
pub(super) const TABLE: Told =
    (Grade::Near, "what it counts is counted by `rate_limit`, and clients stay at an endpoint by a hash");

/// A time with its unit; HAProxy counts in milliseconds where there is none.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()].parse().ok()?;
    Some(match unit {
        "us" => number.div_ceil(1000),
        "" | "ms" => number,
        "s" => number.checked_mul(1000)?,
        "m" => number.checked_mul(60_000)?,
        "h" => number.checked_mul(3_600_000)?,
        "d" => number.checked_mul(86_400_000)?,
        _ => return None,
    })
}

/// `timeout NAME`.
pub(super) fn timeout(name: &str) -> Told {
    match name {
        "connect" | "server" | "queue" | "check" | "http-request" | "http-keep-alive" => EXACT,
        "client" => {
            (Grade::Near, "a client's silence is bounded by `idle` and `head`, and its pace by `min_rate`")
        }
        "tunnel" => {
            (Grade::Near, "tunnels are ended by `idle` as responses are; the longer of the two is written")
        }
        "client-fin" | "server-fin" => {
            (Grade::Near, "connections that one side has ended are bounded by `idle`")
        }
        "tarpit" => (Grade::Near, "nobody is kept waiting"),
        _ => (Grade::Lost, "this time has no counterpart"),
    }
}

/// `option NAME`.
pub(super) fn option(name: &str) -> Told {
    match name {
        "httplog" | "tcplog" | "httpslog" => {
            (Grade::Near, "lines are written by `access_log`, as JSON unless `format` says otherwise")
        }
        "http-keep-alive"
        | "prefer-last-server"
        | "tcp-check"
        | "ssl-hello-chk"
        | "httpchk"
        | "redispatch"
        | "allbackups"
        | "abortonclose"
        | "forwardfor"
        | "tcpka"
        | "clitcpka"
        | "srvtcpka"
        | "splice-auto"
        | "splice-request"
        | "splice-response"
        | "log-health-checks"
        | "tcp-smart-accept"
        | "tcp-smart-connect"
        | "http-use-htx"
        | "nolinger"
        | "http-pretend-keepalive" => EXACT,
        "dontlognull" => (Grade::Near, "a connection without a request has no line"),
        "dontlog-normal" | "log-separate-errors" | "logasap" => (Grade::Near, "see `access_log.sample`"),
        "http-server-close" => (
            Grade::Near,
            "connections to endpoints are kept and used again; `pool: { max_requests: 1 }` closes them",
        ),
        "httpclose" | "forceclose" => (
            Grade::Near,
            "connections are kept and used again; `limits.max_requests: 1` of a listener and `pool: { max_requests: 1 }` close them",
        ),
        "http-buffer-request" => (Grade::Near, "write the filter `buffer`"),
        "checkcache"
        | "http-no-delay"
        | "http-ignore-probes"
        | "independent-streams"
        | "contstats"
        | "socket-stats"
        | "idle-close-on-response" => (Grade::Near, "it has no counterpart, and needs none"),
        "accept-invalid-http-request" | "accept-invalid-http-response" => {
            (Grade::Near, "messages that are no proper HTTP are refused")
        }
        "smtpchk" | "mysql-check" | "pgsql-check" | "redis-check" | "ldap-check" | "external-check" => {
            (Grade::Near, "it is looked at whether endpoints accept connections, and no more")
        }
        "persist"
        | "transparent"
        | "http_proxy"
        | "originalto"
        | "h1-case-adjust-bogus-client"
        | "h1-case-adjust-bogus-server" => (Grade::Lost, "it has no counterpart"),
        _ => (Grade::Lost, "this option is not known here"),
    }
}

/// `retry-on`.
pub(super) fn retry_on(words: &[String]) -> Told {
    let has = |word: &str| words.iter().any(|known| known == word);
    if words.iter().all(|word| {
        matches!(word.as_str(), "conn-failure" | "none") || word.parse::<u16>().is_ok_and(|it| it >= 500)
    }) {
        EXACT
    } else if has("0rtt-rejected") || has("all-retryable-errors") {
        (
            Grade::Near,
            "attempts that broke off are made again for methods that allow it, and statuses 500, 502, 503 and 504",
        )
    } else {
        (
            Grade::Near,
            "attempts that broke off are made again for methods that allow it, and statuses from 500 on",
        )
    }
}

/// `compression WORD`.
pub(super) fn compression(word: &str) -> Told {
    match word {
        "algo" => (
            Grade::Near,
            "responses with a length are compressed too where they are long enough, and stay as they are below 1 KiB",
        ),
        "type" => EXACT,
        "offload" => {
            (Grade::Near, "endpoints are still asked for what clients accept, and may compress by themselves")
        }
        _ => (Grade::Lost, "it has no counterpart"),
    }
}

/// Lines of sections that decide nothing about requests.
pub(super) fn proxy_line(line: &Line) -> Told {
    match line.word(0) {
        "description" | "id" | "enabled" | "backlog" | "maxsslconn" => EXACT,
        "log" => (Grade::Near, "lines are written by `access_log`, with fields of their own"),
        "log-format" | "log-format-sd" | "error-log-format" | "log-tag" => {
            (Grade::Near, "write `access_log.format` with placeholders")
        }
        "unique-id-format" | "unique-id-header" => {
            (Grade::Near, "each request has an id of Thalweg's own, which is sent in `X-Request-Id`")
        }
        "hash-balance-factor" => (Grade::Near, "write `bounded_load` at `hash`"),
        "email-alert" => (Grade::Lost, "write `webhooks`"),
        "load-server-state-from-file" | "server-state-file-name" => {
            (Grade::Near, "endpoints begin as healthy and are checked at once")
        }
        "rate-limit" => {
            (Grade::Lost, "sessions of all clients together are not limited; see the filter `rate_limit`")
        }
        "dispatch" => (Grade::Lost, "write it as a server"),
        "errorfiles" | "http-error" => (Grade::Lost, "write the filter `error_pages`"),
        _ => (Grade::Lost, "it has no counterpart"),
    }
}

/// Notes sections that are no proxies.
pub(super) fn note_section(section: &super::lines::Section, report: &mut Report) {
    let (grade, about) = match section.head.word(0) {
        "peers" => (Grade::Lost, "replicas share limits through `redis`, and stay in step by nothing else"),
        "resolvers" => (Grade::Near, "names are resolved by the system's servers, and again at their TTL"),
        "mailers" => (Grade::Lost, "write `webhooks`"),
        "program" => (Grade::Lost, "other programs are not started"),
        "cache" => (Grade::Lost, "write the filter `cache`"),
        "http-errors" => (Grade::Lost, "write the filter `error_pages`"),
        "ring" | "log-forward" | "traces" => (Grade::Lost, "write `access_log`"),
        "fcgi-app" => (Grade::Lost, "FastCGI is not spoken"),
        _ => (Grade::Lost, "it has no counterpart"),
    };
    for line in std::iter::once(&section.head).chain(&section.lines) {
        report.note(&line.place, line.text.as_str(), grade, about, "");
    }
}

/// Lines of `global` that need no more than a word.
pub(super) fn global(line: &Line) -> Told {
    match line.word(0) {
        "daemon"
        | "master-worker"
        | "pidfile"
        | "description"
        | "node"
        | "nbproc"
        | "setenv"
        | "presetenv"
        | "quiet"
        | "unsetenv"
        | "resetenv"
        | "expose-experimental-directives"
        | "insecure-fork-wanted"
        | "zero-warning"
        | "set-dumpable"
        | "debug"
        | "crt-base"
        | "ca-base"
        | "ulimit-n"
        | "ssl-default-bind-options"
        | "spread-checks" => EXACT,
        "chroot" => (Grade::Near, "the unit of the package keeps the process in its place"),
        "user" | "group" | "uid" | "gid" => {
            (Grade::Near, "write `user` at the top, as in `user: thalweg:thalweg`")
        }
        "stats" => (Grade::Near, "the admin API and `thalweg` on the command line stand in its place"),
        "log" | "log-send-hostname" | "log-tag" => {
            (Grade::Near, "lines are written by `access_log`, with fields of their own")
        }
        "ssl-default-bind-ciphers"
        | "ssl-default-bind-ciphersuites"
        | "ssl-default-server-ciphers"
        | "ssl-default-server-ciphersuites"
        | "ssl-default-server-options"
        | "ssl-default-bind-curves"
        | "ssl-dh-param-file"
        | "ssl-server-verify" => (
            Grade::Near,
            "Thalweg's own choice of ciphers, groups and versions holds; see `tls` of listeners and services",
        ),
        "cpu-map" | "nbthread_" | "thread-groups" => (Grade::Near, "workers are placed by the kernel"),
        "maxconnrate" | "maxsslconn" | "maxsslrate" | "maxsessrate" | "maxcomprate" | "maxcompcpuusage"
        | "maxpipes" | "maxzlibmem" => {
            (Grade::Near, "it is not bounded by itself; memory is, by `limits.memory`")
        }
        word if word.starts_with("tune.") || word.starts_with("no") => {
            (Grade::Near, "it has no counterpart, and needs none")
        }
        word if word.starts_with("lua-") => (Grade::Lost, "Lua is not run"),
        _ => (Grade::Lost, "it has no counterpart"),
    }
}
