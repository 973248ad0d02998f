use super::*;
use crate::stages::tests::run;
use crate::tests::{Asked, built};
use std::io::Write;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn br(text: &[u8]) -> Vec<u8> {
    let mut writer = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
    writer.write_all(text).unwrap();
    writer.into_inner()
}

fn filter(json: &str) -> Arc<dyn Filter> {
    built::<DecompressSpec>(json).build().unwrap()
}

/// What becomes of a request with this coding and body: its fields, and the body that goes upstream, unless it is
/// refused.
fn sent(json: &str, coding: &str, body: &[u8]) -> (String, Option<Result<Vec<u8>, Fault>>) {
    let mut asked = Asked::at("/").with("Content-Encoding", coding).with("Content-MD5", "x");
    assert!(matches!(asked.send(&*filter(json)), Verdict::Continue));
    let mut made = asked.outcome.transforms.make();
    let decoded = made.next().map(|mut transform| run(&mut *transform, body, std::iter::repeat(100)));
    drop(made);
    (asked.request_lines(), decoded)
}

#[test]
fn requests_are_decoded_where_all_codings_are_known() {
    let json = r#"{"request": true}"#;
    for coding in ["gzip", "x-gzip", "GZIP", "identity, gzip"] {
        assert_eq!(
            sent(json, coding, &gzip(b"hello")),
            (String::new(), Some(Ok(b"hello".to_vec()))),
            "{coding}"
        );
    }
    let twice = br(&gzip(b"hello"));
    assert_eq!(sent(json, "gzip, br", &twice).1, Some(Ok(b"hello".to_vec())));
    for coding in ["identity", "compress", "gzip, aes128gcm", "gzip, gzip", "gzip, br, zstd"] {
        let (lines, decoded) = sent(json, coding, b"");
        assert_eq!((lines.contains(coding), decoded), (true, None), "{coding}");
    }
}

#[test]
fn bombs_and_damage_are_refused_with_their_own_status() {
    let json = r#"{"request": true}"#;
    let status = |json, body: &[u8]| sent(json, "gzip", body).1.unwrap().unwrap_err().status;
    let bomb = gzip(&vec![0; 1_000_000]);
    assert_eq!(status(json, &bomb), 413);
    assert!(sent(r#"{"request": true, "max_ratio": 2000}"#, "gzip", &bomb).1.unwrap().is_ok());
    // So little is no bomb.
    assert!(sent(json, "gzip", &gzip(&[0; 60_000])).1.unwrap().is_ok());
    let noise: Vec<u8> = (0..3000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert_eq!(status(r#"{"request": true, "max_size": "2KiB"}"#, &gzip(&noise)), 413);
    assert_eq!(status(json, b"no gzip"), 400);
    // A bomb inside a bomb: the inner stage alone would see nothing wrong.
    let empty = gzip(b"");
    let inner: Vec<u8> = empty.iter().copied().cycle().take(empty.len() * 100_000).collect();
    let (_, decoded) = sent(json, "gzip, br", &br(&inner));
    assert_eq!(decoded.unwrap().unwrap_err().status, 413);
}

/// The fields of a response with a coding for a client that accepts this, and whether its body is decoded.
fn answered(json: &str, accepted: Option<&str>, response: &str) -> (String, bool) {
    let mut asked = Asked::at("/");
    if let Some(accepted) = accepted {
        asked = asked.with("Accept-Encoding", accepted);
    }
    asked.response = response.as_bytes().to_vec();
    let outcome = asked.answer(&*filter(json));
    (asked.response_lines(), !outcome.transforms.is_empty())
}

#[test]
fn responses_are_decoded_for_clients_that_do_not_accept_them() {
    let response = "Content-Encoding: gzip\r\nETag: \"a\"\r\nAccept-Ranges: bytes\r\nDigest: x\r\n";
    let plain = "Vary: Accept-Encoding\r\nETag: W/\"a\"\r\n";
    for (accepted, is_decoded) in [
        (None, true),
        (Some("br"), true),
        (Some("gzip;q=0"), true),
        (Some("gzip"), false),
        (Some("*"), false),
    ] {
        let (lines, decoded) = answered(r#"{"response": true}"#, accepted, response);
        assert_eq!(decoded, is_decoded, "{accepted:?}");
        match is_decoded {
            true => assert_eq!(lines, plain, "{accepted:?}"),
            false => assert_eq!(lines, format!("{response}Vary: Accept-Encoding\r\n"), "{accepted:?}"),
        }
    }
    let (lines, decoded) = answered(r#"{"always": true}"#, Some("gzip"), response);
    assert_eq!((lines.as_str(), decoded), ("ETag: W/\"a\"\r\n", true));
}

#[test]
fn what_may_not_be_changed_or_cannot_be_decoded_is_left_alone() {
    for response in [
        "Content-Encoding: aes128gcm\r\n",
        "Content-Encoding: gzip\r\nCache-Control: no-transform\r\n",
        "Content-Encoding: gzip\r\nContent-Range: bytes 0-1/2\r\n",
        "Content-Type: text/plain\r\n",
    ] {
        assert_eq!(answered(r#"{"always": true}"#, None, response), (response.to_owned(), false));
    }
    for status in [204, 206, 304] {
        let mut asked = Asked::at("/");
        (asked.status, asked.response) = (status, b"Content-Encoding: gzip\r\n".to_vec());
        let outcome = asked.answer(&*filter(r#"{"always": true}"#));
        assert!(!outcome.changes_length && outcome.transforms.is_empty(), "{status}");
    }
}

#[test]
fn wrong_settings_are_refused() {
    for (json, part) in [
        ("{}", "changes nothing"),
        (r#"{"request": true, "max_size": "1B"}"#, "from 1KiB to 1TiB"),
        (r#"{"request": true, "max_ratio": 0}"#, "from 1 to 100000"),
    ] {
        let error = built::<DecompressSpec>(json).build().unwrap_err();
        assert!(error.contains(part), "{json}: {error}");
    }
}
