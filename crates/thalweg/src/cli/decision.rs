//! Decision records as text: what was decided about a request, attempt by attempt, in the configuration's words.

use super::{AdminArgs, complain, say};
use crate::printable::acts;
use serde_json::Value;
use std::fmt::Write;
use std::process::ExitCode;

/// Asks the running proxy for the records of an id and prints them.
pub(crate) fn explain_id(id: &str, admin: &AdminArgs, json: bool) -> ExitCode {
    // An id that is none is told so by the proxy; here it only must not break the request line.
    let id: String = id.chars().filter(char::is_ascii_graphic).filter(|c| !"/?#%".contains(*c)).collect();
    let answer = match admin.call("GET", &format!("/api/v1/requests/{id}")) {
        Ok(answer) => answer,
        Err(error) => {
            complain(error);
            return ExitCode::FAILURE;
        }
    };
    let document: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if answer.status != 200 {
        let detail = text(&document, "detail").unwrap_or("the answer is no record");
        complain(detail);
        if let Some(help) = text(&document, "help") {
            complain(format_args!("help: {help}"));
        }
        return ExitCode::FAILURE;
    }
    if json {
        say(String::from_utf8_lossy(&answer.body));
        return ExitCode::SUCCESS;
    }
    let records = document["requests"].as_array().map(|records| records.iter().map(render));
    let texts: Vec<_> = records.into_iter().flatten().collect();
    say(texts.join("\n").trim_end());
    ExitCode::SUCCESS
}

/// One record, as an element of `requests` in the answer of `GET /api/v1/requests`; several lines, each with its end.
pub(crate) fn render(record: &Value) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_record(&mut out, record);
    out
}

fn write_record(out: &mut String, record: &Value) -> std::fmt::Result {
    let query = sent(record, "query").map(|query| format!("?{query}")).unwrap_or_default();
    let (host, path) = (sent(record, "host").unwrap_or_default(), sent(record, "path").unwrap_or_default());
    match sent(record, "method") {
        Some(method) => writeln!(out, "{method} {host}{path}{query}")?,
        None => writeln!(out, "a request that could not be read")?,
    }
    let id = text(record, "id").unwrap_or("none");
    writeln!(out, "  id {id}, {}", text(record, "began").unwrap_or("at an unknown time"))?;
    if let Some(trace) = text(record, "trace_id") {
        writeln!(out, "  trace {trace}")?;
    }
    let port = number(record, "client_port").map(|port| format!(" port {port}")).unwrap_or_default();
    let client = text(record, "client_ip").unwrap_or("an unknown client");
    writeln!(out, "  from {client}{port} on listener `{}`", text(record, "listener").unwrap_or(""))?;
    match text(record, "route") {
        Some(route) => writeln!(out, "  route `{route}`")?,
        None => writeln!(out, "  no route was found for it")?,
    }
    for filter in list(record, "filters") {
        let what = if flag(filter, "acted") { "acted" } else { "changed nothing" };
        writeln!(out, "    filter {}: {what}", text(filter, "name").unwrap_or(""))?;
    }
    if let Some(service) = text(record, "service") {
        writeln!(out, "  service `{service}`")?;
    }
    if let Some(us) = number(record, "wait_us") {
        writeln!(out, "    waited {} for a place", time(us))?;
    }
    for (at, attempt) in list(record, "attempts").iter().enumerate() {
        write_attempt(out, at + 1, attempt)?;
    }
    if list(record, "attempts").is_empty() && text(record, "service").is_some() {
        writeln!(out, "    no endpoint was asked")?;
    }
    write_end(out, record)
}

fn write_attempt(out: &mut String, number_of_it: usize, attempt: &Value) -> std::fmt::Result {
    let endpoint = text(attempt, "endpoint").unwrap_or("an endpoint that is gone");
    let copy = if flag(attempt, "hedge") { ", a copy because the one before was slow" } else { "" };
    writeln!(out, "    attempt {number_of_it}: {endpoint}{copy}")?;
    let began = time(number(attempt, "began_us").unwrap_or(0));
    let connection = match (flag(attempt, "reused"), number(attempt, "connect_us").unwrap_or(0)) {
        (true, _) => "on a kept connection".to_owned(),
        (false, 0) => "without a connection".to_owned(),
        (false, us) => format!("connecting took {}", time(us)),
    };
    let tls =
        number(attempt, "tls_us").map_or(String::new(), |us| format!(", the TLS handshake {}", time(us)));
    writeln!(out, "      began after {began}, {connection}{tls}")?;
    let detail = text(attempt, "fault_detail").unwrap_or("");
    match (text(attempt, "fault"), number(attempt, "failed_us")) {
        (Some(fault), Some(us)) => writeln!(out, "      failed after {}: {fault}: {detail}", time(us)),
        (Some(fault), None) => writeln!(out, "      failed: {fault}: {detail}"),
        (None, _) if flag(attempt, "answered") => writeln!(out, "      answered"),
        (None, _) => writeln!(out, "      called off: another one answered first"),
    }
}

fn write_end(out: &mut String, record: &Value) -> std::fmt::Result {
    if let Some(us) = number(record, "ttfb_us") {
        writeln!(out, "  first byte of the response after {}", time(us))?;
    }
    let (total, is_open) = (time(number(record, "duration_us").unwrap_or(0)), flag(record, "open"));
    let status = number(record, "status");
    let status = status.map_or("no status was sent".to_owned(), |status| format!("status {status}"));
    let end = if is_open { "goes on since" } else { "over after" };
    let (bytes_in, bytes_out) = (number(record, "bytes_in"), number(record, "bytes_out"));
    let (bytes_in, bytes_out) = (bytes_in.unwrap_or(0), bytes_out.unwrap_or(0));
    writeln!(out, "  {status}, {end} {total}; {bytes_in} bytes of body in, {bytes_out} out")?;
    if let Some(fault) = text(record, "fault") {
        let (side, detail) = (text(record, "fault_side"), text(record, "fault_detail"));
        let (side, detail) = (side.unwrap_or("unknown"), detail.unwrap_or(""));
        writeln!(out, "  fault {fault} ({side}): {detail}")?;
    }
    if let Some(reason) = text(record, "reason") {
        writeln!(out, "  refused because {reason}")?;
    }
    if let Some(user) = text(record, "user") {
        writeln!(out, "  user {user}")?;
    }
    Ok(())
}

/// A time in the unit that suits it.
pub(super) fn time(us: u64) -> String {
    match us {
        0..1000 => format!("{us} µs"),
        1000..1_000_000 => format!("{}.{} ms", us / 1000, us % 1000 / 100),
        _ => format!("{}.{:02} s", us / 1_000_000, us % 1_000_000 / 10_000),
    }
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str()
}

/// What a client sent: nothing of it may command the terminal.
pub(super) fn sent(value: &Value, key: &str) -> Option<String> {
    let plain = |c: char| if acts(c) { char::REPLACEMENT_CHARACTER } else { c };
    Some(text(value, key)?.chars().map(plain).collect())
}

pub(super) fn number(value: &Value, key: &str) -> Option<u64> {
    value[key].as_u64()
}

fn flag(value: &Value, key: &str) -> bool {
    value[key].as_bool().unwrap_or(false)
}

pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_that_was_tried_again_is_told_attempt_by_attempt() {
        let record = json!({
            "id": "01923456-789a-7000-8000-000000000000", "began": "2026-11-22T10:00:00.123Z", "open": false,
            "worker": 1, "listener": "web", "client_ip": "192.0.2.7", "client_port": 4711, "method": "GET",
            "host": "a.test", "path": "/products/42", "query": "key=[redacted]", "route": "products",
            "filters": [ { "name": "strip_prefix", "acted": true } ], "service": "products",
            "attempts": [
                { "endpoint": "http://10.0.0.1:80", "began_us": 90, "connect_us": 0, "reused": true, "hedge": false,
                  "answered": false, "failed_us": 2100, "fault": "connection_terminated",
                  "fault_detail": "the endpoint closed the connection before it answered" },
                { "endpoint": "http://10.0.0.2:80", "began_us": 2100, "connect_us": 410, "reused": false,
                  "hedge": false, "answered": true },
            ],
            "wait_us": 80, "ttfb_us": 5_020, "duration_us": 1_234_567, "bytes_in": 0, "bytes_out": 12, "status": 200,
            "kept": "failed",
        });
        assert_eq!(
            render(&record),
            "GET a.test/products/42?key=[redacted]\n\
            \x20 id 01923456-789a-7000-8000-000000000000, 2026-11-22T10:00:00.123Z\n\
            \x20 from 192.0.2.7 port 4711 on listener `web`\n\
            \x20 route `products`\n\
            \x20   filter strip_prefix: acted\n\
            \x20 service `products`\n\
            \x20   waited 80 µs for a place\n\
            \x20   attempt 1: http://10.0.0.1:80\n\
            \x20     began after 90 µs, on a kept connection\n\
            \x20     failed after 2.1 ms: connection_terminated: the endpoint closed the connection before it answered\n\
            \x20   attempt 2: http://10.0.0.2:80\n\
            \x20     began after 2.1 ms, connecting took 410 µs\n\
            \x20     answered\n\
            \x20 first byte of the response after 5.0 ms\n\
            \x20 status 200, over after 1.23 s; 0 bytes of body in, 12 out\n"
        );
    }

    #[test]
    fn what_could_not_be_read_is_told_with_what_is_known() {
        let record = json!({
            "id": "01923456-789a-7000-8000-000000000000", "began": "2026-11-22T10:00:00.123Z", "open": false,
            "worker": 0, "listener": "web", "client_ip": "::1", "attempts": [], "duration_us": 15, "bytes_in": 0,
            "bytes_out": 90, "status": 400, "fault": "http_request_error", "fault_side": "downstream",
            "fault_detail": "a control character", "kept": "refused",
        });
        let text = render(&record);
        assert!(text.starts_with("a request that could not be read\n"), "{text}");
        assert!(text.contains("  no route was found for it\n"), "{text}");
        assert!(text.ends_with("  fault http_request_error (downstream): a control character\n"), "{text}");
    }

    #[test]
    fn a_record_without_anything_is_no_mishap() {
        assert!(render(&Value::Null).contains("no status was sent, over after 0 µs"));
    }
}
