//! The access log: one record is one line, whatever the peers sent.
//!
//! Input: parts separated by the byte 0x1e: method, host, path, query, user agent, referer. The record goes
//! through the real writer into a pipe. Asserts for all forms: exactly one line comes out, it has no
//! control character and is UTF-8; the JSON form parses and gives back what was sent; in the other
//! forms no field can end its quotes; values of secret query keys are not written.

use std::cell::RefCell;
use std::io::{ErrorKind, PipeReader, Read};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use crate::Draw;
use thalweg_core::{Fault, RequestId};
use thalweg_observe::text::LOG_PLACEHOLDERS;
use thalweg_observe::{Destination, Format, LogBatch, LogRecord, LogWriter, Registry, TextFormat, Timers};

/// A record after which the line under test is known to be whole.
const LAST: LogRecord<'static> = LogRecord {
    unix_us: 1,
    id: None,
    trace: None,
    listener: "last",
    client: None,
    client_port: None,
    peer: None,
    client_cert_subject: None,
    user: None,
    method: b"LAST",
    scheme: "",
    host: None,
    path: b"/last",
    query: None,
    proto: "",
    status: 0,
    grpc_status: None,
    bytes_in: 0,
    bytes_out: 0,
    route: None,
    service: None,
    endpoint: None,
    attempts: 0,
    failed: &[],
    reused: false,
    timers: Timers { wait: None, connect: None, tls: None, first_byte: None, total: 0 },
    fault: None,
    reason: None,
    ended: None,
    unlogged: 0,
    share: "",
    user_agent: None,
    referer: None,
    fields: &[],
};

thread_local! {
    static LOGS: RefCell<[Log; 3]> = RefCell::new([Format::Json, Format::Combined, text()].map(Log::open));
}

/// A form of the operator's own that has every placeholder, each between quotes.
fn text() -> Format {
    let all: String = LOG_PLACEHOLDERS.iter().map(|(word, _)| format!("\"{{{word}}}\" ")).collect();
    Format::Text(Arc::new(TextFormat::parse(&all).expect("a format")))
}

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let mut parts = input.split(|byte| *byte == 0x1e);
    let mut part = || parts.next();
    let id = RequestId::new(input.len() as u64, 7);
    let fault = Fault::request(400, "a malformed version or a space in the request target");
    let record = LogRecord {
        unix_us: Draw::of(input).below(u64::MAX),
        id: Some(&id),
        listener: "web",
        client: Some([192, 0, 2, 1].into()),
        method: part().unwrap_or_default(),
        scheme: "http",
        host: part(),
        path: part().unwrap_or_default(),
        query: part(),
        proto: "HTTP/1.1",
        status: input.len() as u16 % 1000,
        grpc_status: Draw::of(input).below(2).eq(&0).then_some("unavailable"),
        route: Some("default"),
        fault: input.len().is_multiple_of(2).then_some(&fault),
        ended: None,
        unlogged: 0,
        user_agent: part(),
        referer: part(),
        ..LogRecord::default()
    };
    LOGS.with_borrow_mut(|[json, combined, text]| {
        check_json(&json.line(&record), &record);
        check_combined(&combined.line(&record));
        check_text(&text.line(&record));
    });
}

fn check_json(line: &str, record: &LogRecord<'_>) {
    let value: serde_json::Value = serde_json::from_str(line).expect("the line is JSON");
    let said = |key: &str| value.get(key).and_then(|text| text.as_str()).map(str::to_owned);
    let sent = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(said("method"), (!record.method.is_empty()).then(|| sent(record.method)));
    // Parameters of a path are redacted by their names.
    let path = said("path");
    assert!(record.path.contains(&b';') || path == (!record.path.is_empty()).then(|| sent(record.path)));
    let is_secret =
        record.path.split(|byte| *byte == b';').skip(1).any(|pair| pair.starts_with(b"token=abc"));
    assert!(!is_secret || !path.unwrap_or_default().contains(";token=abc"), "{line}");
    assert_eq!(said("host"), record.host.map(sent));
    assert_eq!(said("user_agent"), record.user_agent.map(sent));
    if let Some(query) = record.query {
        let written = said("query").unwrap_or_default();
        let secret = query.split(|b| matches!(b, b'&' | b';')).any(|pair| pair.starts_with(b"token="));
        assert!(!secret || written.contains("token=[redacted]"), "{written}");
        assert!(query.contains(&b'=') || written == sent(query), "a query without values was changed");
    }
}

fn check_text(line: &str) {
    assert!(line.is_ascii() && !line.bytes().any(|byte| byte.is_ascii_control()), "{line}");
    assert_eq!(line.matches('"').count(), 2 * LOG_PLACEHOLDERS.len(), "{line}");
}

fn check_combined(line: &str) {
    assert!(line.is_ascii());
    assert_eq!(line.matches('"').count(), 6, "{line}");
    assert!(!line.contains('\\') || line.split('\\').skip(1).all(|rest| rest.starts_with('x')), "{line}");
}

/// A log that is read right after it was written.
struct Log {
    batch: LogBatch,
    reader: PipeReader,
    /// The line of [`LAST`].
    last: Vec<u8>,
    // Dropped after the batch; ends the writer's thread.
    _writer: LogWriter,
}

impl Log {
    fn open(format: Format) -> Self {
        let (mut reader, end) = std::io::pipe().expect("a pipe can be made");
        let path = format!("/proc/self/fd/{}", end.as_raw_fd());
        let registry = Registry::new(1);
        let writer =
            LogWriter::start(Destination::File(path.into()), format, registry.log()).expect("the log opens");
        let mut batch = writer.batch(registry.worker(0));
        batch.push(&LAST);
        batch.flush();
        let mut last = Vec::new();
        while !last.ends_with(b"\n") {
            read_some(&mut reader, &mut last);
        }
        Self { batch, reader, last, _writer: writer }
    }

    /// The line that a record becomes, without its line feed.
    fn line(&mut self, record: &LogRecord<'_>) -> String {
        self.batch.push(record);
        self.batch.push(&LAST);
        self.batch.flush();
        let mut bytes = Vec::new();
        while !bytes.ends_with(&self.last) {
            read_some(&mut self.reader, &mut bytes);
        }
        bytes.truncate(bytes.len() - self.last.len());
        assert_eq!(bytes.pop(), Some(b'\n'), "the record has no line of its own");
        let line = String::from_utf8(bytes).expect("the line is UTF-8");
        assert!(!line.chars().any(char::is_control), "{line:?}");
        line
    }
}

fn read_some(reader: &mut PipeReader, bytes: &mut Vec<u8>) {
    let mut buffer = [0; 16 * 1024];
    match reader.read(&mut buffer) {
        Ok(read) => {
            assert!(read > 0, "the log was closed");
            bytes.extend_from_slice(&buffer[..read]);
        }
        // The fuzzer's alarm.
        Err(error) if error.kind() == ErrorKind::Interrupted => {}
        Err(error) => panic!("the pipe cannot be read: {error}"),
    }
}
