//! The archive as a whole: its beginning, its end, and its entries.
//!
//! What only Thalweg knows of an exchange stands under `_thalweg`, as the format wants it for what is not its own.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Largest archive that is read, in bytes.
const MOST: u64 = 512 * 1024 * 1024;

/// What stands before the entries of an archive.
pub fn beginning() -> String {
    let creator = json!({ "name": "thalweg", "version": env!("CARGO_PKG_VERSION") });
    let comment = "Credentials are redacted, bodies are not recorded.";
    format!("{{\"log\":{{\"version\":\"1.2\",\"creator\":{creator},\"comment\":\"{comment}\",\"entries\":[\n")
}

/// What stands behind them.
pub fn end() -> &'static str {
    "\n]}}\n"
}

/// An exchange as a tap tells it, with its headers, as an entry; `None` for what is no request of HTTP.
pub fn entry(exchange: &Value) -> Option<Value> {
    let text = |name: &str| exchange[name].as_str().unwrap_or_default();
    let number = |name: &str| exchange[name].as_u64().unwrap_or(0);
    let (method, host, proto) = (exchange["method"].as_str()?, exchange["host"].as_str()?, text("proto"));
    let query = exchange["query"].as_str();
    let query_text = query.map(|query| format!("?{query}")).unwrap_or_default();
    let url = format!("{}://{host}{}{query_text}", text("scheme"), text("path"));
    let ms = |us: u64| us as f64 / 1000.0;
    let (total, first) = (number("duration_us"), exchange["ttfb_us"].as_u64());
    let first = first.unwrap_or(total).min(total);
    let answer = |name: &str| header(&exchange["response_headers"], name).unwrap_or_default().to_owned();
    let attempts = exchange["attempts"].as_array().map(Vec::as_slice).unwrap_or_default();
    Some(json!({
        "startedDateTime": text("began"),
        "time": ms(total),
        "request": {
            "method": method,
            "url": url,
            "httpVersion": proto,
            "cookies": [],
            "headers": fields(&exchange["request_headers"]),
            "queryString": query.map(pairs).unwrap_or_default(),
            "headersSize": -1,
            "bodySize": number("bytes_in"),
        },
        "response": {
            "status": number("status"),
            "statusText": "",
            "httpVersion": proto,
            "cookies": [],
            "headers": fields(&exchange["response_headers"]),
            "content": { "size": number("bytes_out"), "mimeType": answer("content-type") },
            "redirectURL": answer("location"),
            "headersSize": -1,
            "bodySize": number("bytes_out"),
        },
        "cache": {},
        "timings": { "send": 0, "wait": ms(first), "receive": ms(total - first) },
        "_thalweg": {
            "id": exchange["id"],
            "route": exchange["route"],
            "service": exchange["service"],
            "endpoint": attempts.last().map(|attempt| attempt["endpoint"].clone()),
            "attempts": attempts.len(),
            "fault": exchange["fault"],
            "headers_cut": exchange["headers_cut"].as_bool().unwrap_or(false),
        },
    }))
}

fn fields(list: &Value) -> Vec<Value> {
    let fields = list.as_array().into_iter().flatten();
    fields.map(|field| json!({ "name": field[0], "value": field[1] })).collect()
}

fn header<'a>(list: &'a Value, name: &str) -> Option<&'a str> {
    let mut fields = list.as_array()?.iter();
    fields.find(|field| field[0].as_str().is_some_and(|known| known.eq_ignore_ascii_case(name)))?[1].as_str()
}

/// Names and values of a query as they stand in it.
fn pairs(query: &str) -> Vec<Value> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            json!({ "name": name, "value": value })
        })
        .collect()
}

/// The entries of an archive in a file.
///
/// # Errors
/// A sentence: the file cannot be read, is too large, or is not a HAR archive.
pub fn read(path: &Path) -> Result<Vec<Value>, String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MOST + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > MOST {
        return Err(format!("{}: more than {MOST} bytes", path.display()));
    }
    parse(&text).map_err(|why| format!("{}: not an HTTP archive (HAR): {why}", path.display()))
}

/// The entries of an archive.
///
/// # Errors
/// A sentence: why the text is not an archive.
pub fn parse(text: &[u8]) -> Result<Vec<Value>, String> {
    // Some programs write a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut archive: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match archive.pointer_mut("/log/entries").map(Value::take) {
        Some(Value::Array(entries)) => Ok(entries),
        _ => Err("it has no `log.entries`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_becomes_an_entry_of_the_format() {
        let exchange = json!({
            "id": "7", "began": "2026-11-22T10:00:00.123Z", "scheme": "https", "proto": "HTTP/2.0", "method": "GET",
            "host": "shop.test", "path": "/p", "query": "a=1&token=[redacted]", "status": 302, "duration_us": 2500,
            "ttfb_us": 2000, "bytes_in": 0, "bytes_out": 5, "route": "r", "service": "s",
            "attempts": [ { "endpoint": "http://10.0.0.1:80" } ],
            "request_headers": [["accept", "*/*"]], "response_headers": [["Content-Type", "text/plain"], ["location", "/x"]],
        });
        let entry = entry(&exchange).unwrap();
        assert_eq!(entry["request"]["url"], "https://shop.test/p?a=1&token=[redacted]");
        assert_eq!(entry["request"]["headers"], json!([{ "name": "accept", "value": "*/*" }]));
        assert_eq!(entry["request"]["queryString"][1], json!({ "name": "token", "value": "[redacted]" }));
        assert_eq!(
            (&entry["time"], &entry["timings"]["wait"], &entry["timings"]["receive"]),
            (&json!(2.5), &json!(2.0), &json!(0.5))
        );
        assert_eq!(
            (&entry["response"]["content"]["mimeType"], &entry["response"]["redirectURL"]),
            (&"text/plain".into(), &"/x".into())
        );
        assert_eq!(entry["_thalweg"]["endpoint"], "http://10.0.0.1:80");
        assert!(super::entry(&json!({ "scheme": "tcp", "host": "a" })).is_none());
        let archive: Value =
            serde_json::from_str(&format!("{}{entry},\n{entry}{}", beginning(), end())).unwrap();
        assert_eq!(archive["log"]["entries"].as_array().unwrap().len(), 2);
        let empty: Value = serde_json::from_str(&format!("{}{}", beginning(), end())).unwrap();
        assert_eq!(empty["log"]["version"], "1.2");
    }

    #[test]
    fn json_that_is_no_archive_is_refused() {
        let archive = format!("\u{feff}{}{{}}{}", beginning(), end());
        assert_eq!(parse(archive.as_bytes()).unwrap(), [json!({})]);
        for text in ["", "1", "[]", "[1]", "\"log\"", "null", "{}", r#"{"log": 1}"#, r#"{"log": []}"#] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(parse(br#"{"log": {"entries": {}}}"#), Err("it has no `log.entries`".into()));
    }
}
