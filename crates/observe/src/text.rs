//! The access-log line as a text of the operator's own, with placeholders: `{client_ip} "{request}" {status}`.
//!
//! What is unknown is `-`. What a peer sent is escaped as nginx does (`\xHH`), so that it ends neither a line nor a
//! text between quotes; credentials in queries are left out as in the other forms.

use std::fmt;
use std::io::Write as _;
use std::net::IpAddr;

use crate::record::{LogRecord, bounded};
use crate::stamp::Stamp;
use crate::{combined, escape, redact};

/// Bytes that a format may have as it is written.
const LENGTH: usize = 4096;
/// Placeholders that it may have.
const PARTS: usize = 128;

/// A compiled format.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TextFormat {
    parts: Box<[Part]>,
    text: Box<str>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Part {
    Text(Box<str>),
    Value(Value),
    /// What a filter `log` adds.
    Field(Box<str>),
}

macro_rules! values {
    ($( $variant:ident $word:literal $about:literal, )*) => {
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        enum Value { $( $variant, )* }

        /// Every placeholder as it is written between braces, and what it stands for. `field.NAME` is one more.
        pub const LOG_PLACEHOLDERS: &[(&str, &str)] = &[ $( ($word, $about), )* ];

        impl Value {
            fn parse(word: &str) -> Option<Self> {
                match word {
                    $( $word => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }
    };
}

values! {
    Time "time" "the end of the exchange in UTC, as in RFC 3339, with microseconds",
    TimeLocal "time.local" "the same as in `combined`: `10/Oct/2000:13:55:36 -0700`",
    Id "id" "the id of the request",
    TraceId "trace_id" "the id of the trace, where [traces](traces.md) are kept",
    Listener "listener" "the name of the listener",
    ClientIp "client_ip" "the client's address, seen through trusted proxies",
    ClientPort "client_port" "its port",
    PeerIp "peer_ip" "the other end of the connection",
    CertSubject "client_cert_subject" "the subject of the client's certificate",
    User "user" "who the client is, as a filter has verified it",
    Request "request" "the request line: method, path with query, version",
    Method "method" "the method",
    Scheme "scheme" "`http` or `https`",
    Host "host" "the host that the client named",
    Path "path" "the path, in normal form",
    Query "query" "the query, without the values of credentials",
    Proto "proto" "`HTTP/1.1` and the like",
    Status "status" "the status; `0` where there was no answer",
    GrpcStatus "grpc_status" "the status of a gRPC call, by its name",
    BytesIn "bytes_in" "bytes of the request's body",
    BytesOut "bytes_out" "bytes of the response's body",
    Route "route" "the name of the route",
    Service "service" "the name of the service",
    Endpoint "endpoint" "the endpoint that answered, or was tried last",
    Attempts "attempts" "requests sent upstream",
    Reused "reused" "`true`, or `false` where the connection to the endpoint was new",
    Duration "duration" "how long it took, in seconds: `0.042`",
    DurationUs "duration_us" "the same in microseconds",
    WaitUs "wait_us" "microseconds in a queue",
    ConnectUs "connect_us" "microseconds to connect to the endpoint",
    TlsUs "tls_us" "microseconds of the TLS handshake with it",
    FirstByteUs "ttfb_us" "microseconds to the first byte of its response",
    Fault "fault" "what went wrong, [in one word](../reference/faults.md)",
    FaultSide "fault_side" "whose fault it was",
    FaultDetail "fault_detail" "the same in a sentence",
    Reason "reason" "why a filter refused it, or would have",
    Ended "ended" "`idle` where a tunnel was silent for too long",
    UserAgent "user_agent" "the field `User-Agent`",
    Referer "referer" "the field `Referer`, without the values of credentials",
    Share "share" "the share of lines of which this is one (`sample`); `1` where all are written",
}

impl TextFormat {
    /// Compiles a format. `{{` and `}}` stand for braces.
    ///
    /// # Errors
    /// A sentence that names what is wrong and the remedy.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > LENGTH {
            return Err(format!("a format has from 1 to {LENGTH} bytes"));
        }
        if text.chars().any(|c| c.is_control() && c != '\t') {
            return Err("a format is one line: it has no line ends and control characters".into());
        }
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            let (brace, behind) = from.split_at(1);
            if let Some(behind) = behind.strip_prefix(brace) {
                plain.push_str(brace);
                rest = behind;
                continue;
            }
            let Some((word, behind)) = behind.split_once('}').filter(|_| brace == "{") else {
                return Err(format!("a `{brace}` stands alone; write `{brace}{brace}` for the character"));
            };
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain).into()));
            }
            parts.push(part(word)?);
            rest = behind;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain.into()));
        }
        if parts.len() > PARTS {
            return Err(format!("a format has at most {PARTS} parts"));
        }
        Ok(Self { parts: parts.into(), text: text.into() })
    }

    /// Appends the line without its line feed.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, stamp: &Stamp, record: &LogRecord<'_>) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Value(value) => {
                    let begin = out.len();
                    value.encode(out, stamp, record);
                    if out.len() == begin {
                        out.push(b'-');
                    }
                }
                Part::Field(name) => {
                    let mut fields = record.fields.iter();
                    match fields.find(|(known, value)| **known == **name && !value.is_empty()) {
                        Some((_, value)) => escape::nginx(out, bounded(value)),
                        None => out.push(b'-'),
                    }
                }
            }
        }
    }
}

/// As it was written.
impl fmt::Display for TextFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn part(word: &str) -> Result<Part, String> {
    if let Some(name) = word.strip_prefix("field.").filter(|name| !name.is_empty()) {
        return Ok(Part::Field(name.into()));
    }
    Value::parse(word).map(Part::Value).ok_or_else(|| {
        let words: Vec<_> = LOG_PLACEHOLDERS.iter().map(|(word, _)| *word).collect();
        let of_request =
            ["header.", "cookie.", "query.", "claim."].iter().any(|start| word.starts_with(start));
        let help = match of_request {
            true => "; add it with the filter `log: { fields: … }` and write `{field.NAME}`",
            false => "",
        };
        format!(
            "`{{{word}}}` is no placeholder of a log line{help}; there are {}, field.NAME",
            words.join(", ")
        )
    })
}

impl Value {
    /// Appends nothing where it is unknown.
    fn encode(self, out: &mut Vec<u8>, stamp: &Stamp, record: &LogRecord<'_>) {
        let timers = &record.timers;
        match self {
            Self::Time => stamp.write_utc(out),
            Self::TimeLocal => out.extend_from_slice(stamp.local()),
            Self::Id => word(out, record.id.map(|id| id.as_str())),
            Self::TraceId => {
                if let Some(trace) = record.trace {
                    trace.write(out);
                }
            }
            Self::ClientIp => address(out, record.client),
            Self::ClientPort => number(out, record.client_port.map(u64::from)),
            Self::PeerIp => address(out, record.peer),
            Self::Request if record.method.is_empty() => {}
            Self::Request => combined::request(out, record),
            Self::Path => redact::path(out, bounded(record.path), escape::nginx),
            Self::Query => {
                if let Some(query) = record.query {
                    redact::query(out, bounded(query), escape::nginx);
                }
            }
            Self::Referer => {
                if let Some(referer) = record.referer {
                    redact::url(out, bounded(referer), escape::nginx);
                }
            }
            Self::Reused => word(out, record.service.map(|_| if record.reused { "true" } else { "false" })),
            Self::Duration => {
                // Writing to a Vec cannot fail.
                let _ = write!(out, "{}.{:03}", timers.total / 1_000_000, timers.total / 1000 % 1000);
            }
            Self::Status => number(out, Some(record.status.into())),
            Self::BytesIn => number(out, Some(record.bytes_in)),
            Self::BytesOut => number(out, Some(record.bytes_out)),
            Self::Attempts => number(out, Some(record.attempts.into())),
            Self::DurationUs => number(out, Some(timers.total)),
            Self::WaitUs => number(out, timers.wait),
            Self::ConnectUs => number(out, timers.connect),
            Self::TlsUs => number(out, timers.tls),
            Self::FirstByteUs => number(out, timers.first_byte),
            _ => escape::nginx(out, bounded(self.text(record))),
        }
    }

    /// The text of those that are one; empty where it is unknown.
    fn text<'a>(self, record: &LogRecord<'a>) -> &'a [u8] {
        let of = |text: Option<&'a str>| text.unwrap_or_default().as_bytes();
        match self {
            Self::Listener => record.listener.as_bytes(),
            Self::CertSubject => of(record.client_cert_subject),
            Self::User => of(record.user),
            Self::Method => record.method,
            Self::Scheme => record.scheme.as_bytes(),
            Self::Host => record.host.unwrap_or_default(),
            Self::Path => record.path,
            Self::Proto => record.proto.as_bytes(),
            Self::GrpcStatus => of(record.grpc_status),
            Self::Route => of(record.route),
            Self::Service => of(record.service),
            Self::Endpoint => of(record.endpoint),
            Self::Fault => of(record.fault.map(|fault| fault.kind.name())),
            Self::FaultSide => of(record.fault.map(|fault| fault.side().name())),
            Self::FaultDetail => of(record.fault.map(|fault| fault.detail)),
            Self::Reason => of(record.reason),
            Self::Ended => of(record.ended),
            Self::UserAgent => record.user_agent.unwrap_or_default(),
            Self::Share => {
                if record.share.is_empty() {
                    b"1"
                } else {
                    record.share.as_bytes()
                }
            }
            _ => b"",
        }
    }
}

fn word(out: &mut Vec<u8>, word: Option<&str>) {
    out.extend_from_slice(word.unwrap_or_default().as_bytes());
}

fn number(out: &mut Vec<u8>, number: Option<u64>) {
    if let Some(number) = number {
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}

fn address(out: &mut Vec<u8>, address: Option<IpAddr>) {
    if let Some(ip) = address {
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{}", ip.to_canonical());
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::sync::Arc;

    use jiff::tz::TimeZone;

    use super::*;
    use crate::record::{Format, Timers, encode};

    fn line(format: &str, record: &LogRecord<'_>) -> String {
        let format = Format::Text(Arc::new(TextFormat::parse(format).unwrap()));
        let mut out = Vec::new();
        encode(&mut out, &format, &mut Stamp::new(TimeZone::UTC), record);
        String::from_utf8(out).expect("a line is UTF-8")
    }

    #[test]
    fn placeholders_stand_for_what_was_seen_and_dashes_for_what_was_not() {
        let record = LogRecord {
            unix_us: 971_211_336_000_042,
            client: Some("192.0.2.7".parse().unwrap()),
            method: b"GET",
            path: b"/a",
            query: Some(b"q=1&token=t"),
            proto: "HTTP/1.1",
            status: 200,
            service: Some("shop"),
            timers: Timers { total: 1_042_999, ..Timers::default() },
            fields: &[("tenant", Cow::Borrowed(b"acme")), ("empty", Cow::Borrowed(b""))],
            share: "0.01",
            ..LogRecord::default()
        };
        assert_eq!(
            line(
                "{time} {client_ip} \"{request}\" {status} {duration} {duration_us} {{x}} {reused} {share}",
                &record
            ),
            "2000-10-10T20:55:36.000042Z 192.0.2.7 \"GET /a?q=1&token=[redacted] HTTP/1.1\" 200 1.042 1042999 {x} false 0.01\n"
        );
        assert_eq!(line("{field.tenant}\t{field.empty}\t{field.none}\t{user}", &record), "acme\t-\t-\t-\n");
        assert_eq!(
            line("{time.local}|{status}|{request}|{share}", &LogRecord::default()),
            "01/Jan/1970:00:00:00 +0000|0|-|1\n"
        );
        // Each of them, of nothing: no panic, and a line.
        let all: String = LOG_PLACEHOLDERS.iter().map(|(word, _)| format!("{{{word}}} ")).collect();
        assert_eq!(line(&all, &LogRecord::default()).matches('\n').count(), 1);
    }

    #[test]
    fn an_injected_line_stays_inside_its_field() {
        let evil = b"x\" 200\r\n10.0.0.1 {status} \x1b[2J\xff\\";
        let record = LogRecord {
            method: evil,
            host: Some(evil),
            path: evil,
            query: Some(evil),
            user: Some("a\n\"b"),
            user_agent: Some(evil),
            referer: Some(evil),
            fields: &[("f", Cow::Borrowed(evil))],
            ..LogRecord::default()
        };
        let all: String = LOG_PLACEHOLDERS.iter().map(|(word, _)| format!("\"{{{word}}}\" ")).collect();
        let line = line(&(all + "\"{field.f}\""), &record);
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(line.matches('"').count(), 2 * (LOG_PLACEHOLDERS.len() + 1));
        assert!(!line.trim_end_matches('\n').chars().any(char::is_control), "{line}");
        assert!(line.contains("{status} \\x1B[2J\\xFF\\x5C"), "{line}");
    }

    #[test]
    fn mistakes_are_told_with_the_remedy() {
        for (text, part) in [
            ("", "from 1 to 4096 bytes"),
            ("a\nb", "one line"),
            ("{nobody}", "`{nobody}` is no placeholder of a log line; there are time, "),
            ("{header.X-Tenant}", "add it with the filter `log"),
            ("{status", "write `{{`"),
            ("status}", "write `}}`"),
            ("{field.}", "no placeholder"),
        ] {
            let error = TextFormat::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(TextFormat::parse(&"{status}".repeat(200)).unwrap_err().contains("at most 128 parts"));
    }

    #[test]
    fn the_guide_has_every_placeholder() {
        let guide = include_str!("../../../docs/guide/access-log.md");
        for (word, about) in LOG_PLACEHOLDERS {
            assert!(guide.contains(&format!("| `{word}` | {about} |")), "| `{word}` | {about} |");
        }
    }
}
