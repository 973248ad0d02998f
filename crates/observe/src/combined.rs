//! nginx's `combined` access-log line, byte for byte.
//!
//! `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`
//!
//! The user is the one that a filter has verified. As in nginx, a field that is absent is `-` and what the client sent
//! is escaped as `\xHH`.

use std::io::Write as _;

use crate::escape;
use crate::record::{LogRecord, bounded};
use crate::redact;
use crate::stamp::Stamp;

/// Appends the line without its line feed.
pub(crate) fn encode(out: &mut Vec<u8>, stamp: &Stamp, record: &LogRecord<'_>) {
    match record.client {
        // Writing to a Vec cannot fail.
        Some(ip) => drop(write!(out, "{}", ip.to_canonical())),
        None => out.extend_from_slice(b"unix:"),
    }
    out.extend_from_slice(b" - ");
    match record.user.filter(|user| !user.is_empty()) {
        Some(user) => escape::nginx(out, bounded(user.as_bytes())),
        None => out.push(b'-'),
    }
    out.extend_from_slice(b" [");
    out.extend_from_slice(stamp.local());
    out.extend_from_slice(b"] \"");
    request(out, record);
    out.extend_from_slice(b"\" ");
    if record.status < 100 {
        out.extend_from_slice(if record.status < 10 { b"00" } else { b"0" });
    }
    out.extend_from_slice(itoa::Buffer::new().format(record.status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(itoa::Buffer::new().format(record.bytes_out).as_bytes());
    out.extend_from_slice(b" \"");
    match record.referer {
        Some(referer) => redact::url(out, bounded(referer), escape::nginx),
        None => out.push(b'-'),
    }
    out.extend_from_slice(b"\" \"");
    match record.user_agent {
        Some(agent) => escape::nginx(out, bounded(agent)),
        None => out.push(b'-'),
    }
    out.push(b'"');
}

/// The request line.
pub(crate) fn request(out: &mut Vec<u8>, record: &LogRecord<'_>) {
    if record.method.is_empty() {
        out.push(b'-');
        return;
    }
    escape::nginx(out, bounded(record.method));
    out.push(b' ');
    redact::path(out, bounded(record.path), escape::nginx);
    if let Some(query) = record.query {
        out.push(b'?');
        redact::query(out, bounded(query), escape::nginx);
    }
    if !record.proto.is_empty() {
        out.push(b' ');
        out.extend_from_slice(record.proto.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use jiff::tz::TimeZone;

    use super::*;
    use crate::record::{Format, encode};

    fn line(record: &LogRecord<'_>) -> String {
        let mut out = Vec::new();
        encode(&mut out, &Format::Combined, &mut Stamp::new(TimeZone::UTC), record);
        String::from_utf8(out).expect("a line is UTF-8")
    }

    fn full() -> LogRecord<'static> {
        LogRecord {
            unix_us: 971_211_336_500_000,
            client: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7))),
            method: b"GET",
            path: b"/index.html",
            query: Some(b"a=b&token=x"),
            proto: "HTTP/1.1",
            status: 200,
            bytes_out: 2326,
            referer: Some(b"http://www.example.com/start.html"),
            user_agent: Some(b"Mozilla/4.08 [en] (Win98; I ;Nav)"),
            ..LogRecord::default()
        }
    }

    #[test]
    fn is_the_line_that_nginx_writes() {
        assert_eq!(
            line(&full()),
            "192.0.2.7 - - [10/Oct/2000:20:55:36 +0000] \"GET /index.html?a=b&token=[redacted] HTTP/1.1\" 200 2326 \
             \"http://www.example.com/start.html\" \"Mozilla/4.08 [en] (Win98; I ;Nav)\"\n"
        );
    }

    #[test]
    fn absent_fields_are_dashes() {
        assert_eq!(
            line(&LogRecord::default()),
            "unix: - - [01/Jan/1970:00:00:00 +0000] \"-\" 000 0 \"-\" \"-\"\n"
        );
    }

    #[test]
    fn an_injected_line_stays_inside_its_field() {
        let evil = b"x\" 200 0 \"-\" \"-\"\n10.0.0.1 - - [\x1b[2J\xff\\";
        let record = LogRecord {
            method: evil,
            path: evil,
            query: Some(evil),
            referer: Some(evil),
            user_agent: Some(evil),
            ..full()
        };
        let line = line(&record);
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(line.matches('"').count(), 6, "{line}");
        assert!(!line.trim_end().chars().any(char::is_control));
        assert!(
            line.contains(r#""x\x22 200 0 \x22-\x22 \x22-\x22\x0A10.0.0.1 - - [\x1B[2J\xFF\x5C""#),
            "{line}"
        );
    }

    #[test]
    fn mapped_addresses_are_shown_as_ipv4() {
        let client = Some(IpAddr::V6(Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped()));
        assert!(line(&LogRecord { client, ..full() }).starts_with("10.0.0.1 - - ["));
    }
}
