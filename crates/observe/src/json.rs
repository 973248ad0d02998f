//! The access-log line as one JSON object.
//!
//! The keys and their order are part of the product; they are documented in [`record`](crate::record).
//! A key is absent when its value is unknown.

use std::io::Write as _;
use std::net::IpAddr;

use crate::escape;
use crate::record::{LogRecord, bounded};
use crate::redact;
use crate::stamp::Stamp;

/// Appends the line without its line feed.
pub(crate) fn encode(out: &mut Vec<u8>, stamp: &Stamp, record: &LogRecord<'_>) {
    out.extend_from_slice(b"{\"ts\":\"");
    stamp.write_utc(out);
    out.push(b'"');
    let mut object = Object { out };
    if let Some(id) = record.id {
        object.word("id", id.as_str());
    }
    if let Some(trace) = record.trace {
        object.text("trace_id", |out| trace.write(out));
    }
    object.word("listener", record.listener);
    object.address("client_ip", record.client);
    if let Some(port) = record.client_port {
        object.number("client_port", port.into());
    }
    object.address("peer_ip", record.peer);
    object.word("client_cert_subject", record.client_cert_subject.unwrap_or_default());
    object.word("user", record.user.unwrap_or_default());
    request(&mut object, record);
    object.number("bytes_in", record.bytes_in);
    object.number("bytes_out", record.bytes_out);
    object.word("route", record.route.unwrap_or_default());
    if let Some(service) = record.service {
        object.word("service", service);
        object.word("endpoint", record.endpoint.unwrap_or_default());
        object.number("attempts", record.attempts.into());
        failed(&mut object, record);
        object.flag("reused", record.reused);
    }
    let timers = &record.timers;
    object.number("duration_us", timers.total);
    let phases = [
        ("wait_us", timers.wait),
        ("connect_us", timers.connect),
        ("tls_us", timers.tls),
        ("ttfb_us", timers.first_byte),
    ];
    for (key, us) in phases {
        if let Some(us) = us {
            object.number(key, us);
        }
    }
    if let Some(fault) = record.fault {
        object.word("fault", fault.kind.name());
        object.word("fault_side", fault.side().name());
        object.word("fault_detail", fault.detail);
    }
    object.word("reason", record.reason.unwrap_or_default());
    object.word("ended", record.ended.unwrap_or_default());
    if record.unlogged > 0 {
        object.number("unlogged", record.unlogged);
    }
    if let Some(agent) = record.user_agent {
        object.text("user_agent", |out| escape::json(out, bounded(agent)));
    }
    if let Some(referer) = record.referer {
        object.text("referer", |out| redact::url(out, bounded(referer), escape::json));
    }
    fields(&mut object, record);
    if !record.share.is_empty() {
        object.key("share");
        object.out.extend_from_slice(record.share.as_bytes());
    }
    out.push(b'}');
}

/// What filters add.
fn fields(object: &mut Object<'_>, record: &LogRecord<'_>) {
    if record.fields.is_empty() {
        return;
    }
    object.key("fields");
    for (at, (name, value)) in record.fields.iter().enumerate() {
        object.out.extend_from_slice(if at == 0 { b"{\"" } else { b",\"" });
        escape::json(object.out, bounded(name.as_bytes()));
        object.out.extend_from_slice(b"\":\"");
        escape::json(object.out, bounded(value));
        object.out.push(b'"');
    }
    object.out.push(b'}');
}

/// The attempts that others followed.
fn failed(object: &mut Object<'_>, record: &LogRecord<'_>) {
    if record.failed.is_empty() {
        return;
    }
    object.key("failed");
    for (at, attempt) in record.failed.iter().enumerate() {
        object.out.extend_from_slice(if at == 0 { b"[{\"endpoint\":\"" } else { b",{\"endpoint\":\"" });
        escape::json(object.out, bounded(attempt.endpoint.as_bytes()));
        object.out.push(b'"');
        object.word("fault", attempt.fault.map_or("", |fault| fault.kind.name()));
        object.flag("reused", attempt.reused);
        object.number("connect_us", attempt.connect_us);
        object.out.push(b'}');
    }
    object.out.push(b']');
}

/// What was asked for and what was answered.
fn request(object: &mut Object<'_>, record: &LogRecord<'_>) {
    if !record.method.is_empty() {
        object.text("method", |out| escape::json(out, bounded(record.method)));
    }
    object.word("scheme", record.scheme);
    if let Some(host) = record.host {
        object.text("host", |out| escape::json(out, bounded(host)));
    }
    if !record.path.is_empty() {
        object.text("path", |out| redact::path(out, bounded(record.path), escape::json));
    }
    if let Some(query) = record.query {
        object.text("query", |out| redact::query(out, bounded(query), escape::json));
    }
    object.word("proto", record.proto);
    if record.status != 0 {
        object.number("status", record.status.into());
    }
    object.word("grpc_status", record.grpc_status.unwrap_or_default());
}

/// An object that already has a first member.
struct Object<'a> {
    out: &'a mut Vec<u8>,
}

impl Object<'_> {
    fn key(&mut self, key: &'static str) {
        self.out.extend_from_slice(b",\"");
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// A string; `write` appends its inside, escaped.
    fn text(&mut self, key: &'static str, write: impl FnOnce(&mut Vec<u8>)) {
        self.key(key);
        self.out.push(b'"');
        write(self.out);
        self.out.push(b'"');
    }

    /// A string of ours, left out when it is empty.
    fn word(&mut self, key: &'static str, word: &str) {
        if !word.is_empty() {
            self.text(key, |out| escape::json(out, bounded(word.as_bytes())));
        }
    }

    fn number(&mut self, key: &'static str, number: u64) {
        self.key(key);
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    fn flag(&mut self, key: &'static str, flag: bool) {
        self.key(key);
        self.out.extend_from_slice(if flag { b"true" } else { b"false" });
    }

    fn address(&mut self, key: &'static str, address: Option<IpAddr>) {
        if let Some(ip) = address {
            // Writing to a Vec cannot fail.
            self.text(key, |out| drop(write!(out, "{}", ip.to_canonical())));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::net::Ipv4Addr;

    use jiff::tz::TimeZone;
    use thalweg_core::{Fault, FaultKind, RequestId};

    use super::*;
    use crate::record::{FIELD_BYTES, FailedAttempt, Format, Timers, encode};
    use crate::trace::TraceId;

    fn line(record: &LogRecord<'_>) -> String {
        let mut out = Vec::new();
        encode(&mut out, &Format::Json, &mut Stamp::new(TimeZone::UTC), record);
        String::from_utf8(out).expect("a line is UTF-8")
    }

    #[test]
    fn has_every_key_in_its_place() {
        let id = RequestId::new(0x0192_3456_789a, 0);
        let fault = Fault::new(FaultKind::HttpResponseTimeout, "no first byte in time");
        let record = LogRecord {
            unix_us: 971_211_336_000_042,
            id: Some(&id),
            trace: Some(TraceId::new(0x0af7_6519)),
            listener: "web",
            client: Some(Ipv4Addr::new(192, 0, 2, 7).into()),
            client_port: Some(4711),
            peer: Some(Ipv4Addr::new(10, 0, 0, 1).into()),
            client_cert_subject: Some("CN=a\\,b"),
            user: Some("ada \"x\""),
            method: b"GET",
            scheme: "http",
            host: Some(b"shop.example.com"),
            path: b"/a",
            query: Some(b"q=1&sig=abc"),
            proto: "HTTP/1.1",
            status: 504,
            grpc_status: Some("unavailable"),
            bytes_in: 1,
            bytes_out: 2,
            route: Some("products"),
            service: Some("products"),
            endpoint: Some("10.0.0.1:8080"),
            attempts: 2,
            failed: &[FailedAttempt {
                endpoint: "10.0.0.2:80",
                fault: Some(&fault),
                reused: false,
                connect_us: 5,
            }],
            reused: true,
            timers: Timers { wait: Some(1), connect: Some(2), tls: Some(0), first_byte: Some(3), total: 9 },
            fault: Some(&fault),
            reason: Some("a test"),
            ended: Some("idle"),
            unlogged: 7,
            user_agent: Some(b"curl/8"),
            referer: Some(b"http://a/?token=t"),
            fields: &[("tenant", Cow::Borrowed(b"a\"b")), ("x", Cow::Borrowed(b""))],
            share: "0.25",
        };
        assert_eq!(
            line(&record),
            concat!(
                r#"{"ts":"2000-10-10T20:55:36.000042Z","id":"01923456-789a-7000-8000-000000000000","#,
                r#""trace_id":"0000000000000000000000000af76519","#,
                r#""listener":"web","client_ip":"192.0.2.7","client_port":4711,"peer_ip":"10.0.0.1","#,
                r#""client_cert_subject":"CN=a\\,b","#,
                r#""user":"ada \"x\"","#,
                r#""method":"GET","scheme":"http","host":"shop.example.com","path":"/a","#,
                r#""query":"q=1&sig=[redacted]","proto":"HTTP/1.1","status":504,"grpc_status":"unavailable","bytes_in":1,"bytes_out":2,"#,
                r#""route":"products","service":"products","endpoint":"10.0.0.1:8080","attempts":2,"#,
                r#""failed":[{"endpoint":"10.0.0.2:80","fault":"http_response_timeout","reused":false,"connect_us":5}],"#,
                r#""reused":true,"#,
                r#""duration_us":9,"wait_us":1,"connect_us":2,"tls_us":0,"ttfb_us":3,"#,
                r#""fault":"http_response_timeout","fault_side":"upstream","fault_detail":"no first byte in time","#,
                r#""reason":"a test","ended":"idle","unlogged":7,"#,
                r#""user_agent":"curl/8","referer":"http://a/?token=[redacted]","#,
                r#""fields":{"tenant":"a\"b","x":""},"share":0.25}"#,
                "\n"
            )
        );
    }

    #[test]
    fn unknown_keys_are_absent() {
        assert_eq!(
            line(&LogRecord::default()),
            "{\"ts\":\"1970-01-01T00:00:00.000000Z\",\"bytes_in\":0,\"bytes_out\":0,\"duration_us\":0}\n"
        );
    }

    #[test]
    fn an_injected_line_stays_inside_its_field() {
        let evil = b"\",\"status\":200}\n{\"ts\":\"\x1b[2J\xff\\";
        let record = LogRecord {
            method: evil,
            host: Some(evil),
            path: evil,
            query: Some(evil),
            user_agent: Some(evil),
            referer: Some(evil),
            ..LogRecord::default()
        };
        let line = line(&record);
        assert_eq!(line.matches('\n').count(), 1);
        let escaped = r#"\",\"status\":200}\n{\"ts\":\"\u001b[2J\ufffd\\"#;
        for key in ["method", "host", "path", "query", "user_agent", "referer"] {
            assert!(line.contains(&format!("\"{key}\":\"{escaped}\"")), "{key} in {line}");
        }
    }

    #[test]
    fn a_field_is_cut_at_its_bound() {
        let long = vec![b'a'; FIELD_BYTES * 2];
        let record = LogRecord { user_agent: Some(&long), ..LogRecord::default() };
        assert!(line(&record).len() < FIELD_BYTES + 200);
    }
}
