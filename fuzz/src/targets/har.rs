//! HTTP archives, as `replay` reads them and `record` writes them.
//!
//! Input: a file. It is read as an archive, as an entry of one, and as an exchange of a tap that becomes an entry.
//! Asserts: no panic; a request made from an entry has the method, target and body of the entry, fields of valid
//! syntax, and no framing or hop-by-hop fields; its head is parsed as one head; the archive that `record` writes has
//! its entries.

use serde_json::{Value, json};
use thalweg_har::{Recorded, beginning, end, entry, parse};
use thalweg_http::{HeadLimits, Progress, RequestHead, octet};

/// Framing and hop-by-hop fields.
const FRAMING: [&str; 6] = ["content-length", "transfer-encoding", "trailer", "upgrade", "te", "expect"];

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    for entry in parse(input).unwrap_or_default() {
        replayed(&entry);
    }
    let Ok(value) = serde_json::from_slice::<Value>(input) else { return };
    replayed(&value);
    // With a response, and then with a method and a URL, so that the other parts decide.
    let mut whole = json!({ "request": &value, "response": { "status": 200 } });
    replayed(&whole);
    if let Some(request) = whole["request"].as_object_mut() {
        request.insert("url".into(), "http://a.test/".into());
        request.insert("method".into(), "POST".into());
    }
    replayed(&whole);
    if let Some(entry) = entry(&value) {
        let archive = format!("{}{entry},\n{entry}{}", beginning(), end());
        let entries = parse(archive.as_bytes()).unwrap_or_else(|why| panic!("{why} in {archive}"));
        assert_eq!(entries.len(), 2);
        assert!(entries[0].is_object() && entries[0] == entries[1]);
        replayed(&entries[0]);
    }
}

fn replayed(entry: &Value) {
    assert!(Recorded::read(entry, false).is_err() || Recorded::read(entry, true).is_ok());
    let Ok(recorded) = Recorded::read(entry, true) else { return };
    let _ = recorded.answered("content-type");
    let Ok(request) = recorded.request() else { return };
    let target = request.uri().path_and_query().expect("a target").as_str();
    assert_eq!((request.method().as_str(), target), (&*recorded.method, &*recorded.target));
    assert!(request.uri().authority().is_none(), "{}", request.uri());
    assert!(target.starts_with('/') && target.bytes().all(|byte| byte > b' ' && byte != 0x7f), "{target:?}");
    assert_eq!(request.body(), &recorded.body);
    // The head as it is sent.
    let mut head = format!("{} {target} HTTP/1.1\r\n", request.method()).into_bytes();
    for (name, value) in request.headers() {
        assert!(!FRAMING.contains(&name.as_str()), "{name}");
        assert!(octet::value_len(value.as_bytes()) == value.len(), "{name}: {value:?}");
        head.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    head.extend_from_slice(b"\r\n");
    let mut read = RequestHead::new();
    // Our parser refuses some of these heads, such as one with two hosts. None of them contains two heads.
    if read.parse(&head, &HeadLimits::default()) == Ok(Progress::Complete) {
        assert_eq!(read.len, head.len(), "{:?}", String::from_utf8_lossy(&head));
        assert_eq!(read.fields.len(), request.headers().len());
        assert_eq!(read.target.of(&head), target.as_bytes());
    }
}
