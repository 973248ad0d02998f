//! What of an archive can be sent again, and as what.

use bytes::Bytes;
use http::Request;
use serde_json::Value;
use std::time::Duration;

/// What stands in the place of a credential.
const REDACTED: &str = "[redacted]";
/// Methods that change nothing (RFC 9110 §9.2.1) and that a proxy passes on.
const SAFE: &[&str] = &["GET", "HEAD", "OPTIONS"];
/// Fields of a request that belong to its connection or its framing, or that the client of a replay writes itself.
const OWN: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A request that can be sent again, and what was answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Recorded {
    /// The method, as written in the archive.
    pub method: String,
    /// All of it, for people.
    pub url: String,
    /// Path and query.
    pub target: String,
    /// With `host`.
    pub headers: Vec<(String, String)>,
    /// The body; empty where there was none.
    pub body: Vec<u8>,
    /// The status of the recorded response, 200 to 599.
    pub status: u16,
    /// The headers of the recorded response.
    pub answered: Vec<(String, String)>,
    /// The time from the request to the end of the recorded response.
    pub time: Duration,
}

impl Recorded {
    /// Reads an entry of an archive.
    ///
    /// # Errors
    /// Why it cannot be sent again, in a few words.
    pub fn read(entry: &Value, all_methods: bool) -> Result<Self, &'static str> {
        let (request, response) = (&entry["request"], &entry["response"]);
        let text = |name: &str| request[name].as_str().unwrap_or_default().to_owned();
        let (method, url) = (text("method"), text("url"));
        let Some((host, target)) = split(&url) else { return Err("it is no request of HTTP") };
        if method == "CONNECT" || response["status"] == 101 {
            return Err("it became a tunnel");
        }
        if !all_methods && !SAFE.contains(&method.as_str()) {
            return Err("its method may change something: --all-methods sends it too");
        }
        let status = response["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        let status = status.filter(|status| (200..=599).contains(status)).ok_or("it had no response")?;
        if target.contains(REDACTED) {
            return Err("its query held a credential, which is not recorded");
        }
        if entry["_thalweg"]["headers_cut"] == true {
            return Err("it had more headers than are recorded");
        }
        let body = match request["postData"]["text"].as_str() {
            Some(body) if request["postData"]["encoding"].is_null() => body.as_bytes().to_vec(),
            Some(_) => return Err("its body is in a form that cannot be read"),
            None if request["bodySize"].as_i64().unwrap_or(0) > 0 => return Err("its body is not recorded"),
            None => Vec::new(),
        };
        let mut headers = fields(&request["headers"]);
        // Pseudo-fields of HTTP/2, as browsers write them, are in the URL.
        headers.retain(|(name, value)| {
            let is_own = OWN.iter().any(|own| own.eq_ignore_ascii_case(name));
            !is_own && !name.starts_with(':') && value != REDACTED
        });
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            headers.push(("host".into(), host.to_owned()));
        }
        let ms = entry["time"].as_f64().filter(|ms| (0.0..1e9).contains(ms)).unwrap_or(0.0);
        Ok(Self {
            method,
            target: target.to_owned(),
            headers,
            body,
            status,
            answered: fields(&response["headers"]),
            time: Duration::from_secs_f64(ms / 1000.0),
            url,
        })
    }

    /// Sets a header in place of all of that name.
    pub fn set(&mut self, (name, value): &(String, String)) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.clone(), value.clone()));
    }

    /// The request as it is sent, on a connection of its own.
    ///
    /// # Errors
    /// The method, the target or a field is not valid in HTTP.
    pub fn request(&self) -> Result<Request<Bytes>, http::Error> {
        let mut request = Request::builder().method(self.method.as_str()).uri(&self.target);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.header("connection", "close").body(Bytes::copy_from_slice(&self.body))
    }

    /// The values of a header of the recorded response, joined; `None`: it is not known what they were.
    pub fn answered(&self, name: &str) -> Option<String> {
        let named = self.answered.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let values: Vec<_> = named.map(|(_, value)| value.as_str()).collect();
        (!values.contains(&REDACTED)).then(|| values.join(", "))
    }
}

/// Host, and path with query, of a URL.
fn split(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let rest = rest.split('#').next().unwrap_or(rest);
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(at);
    match target {
        _ if host.is_empty() => None,
        "" => Some((host, "/")),
        target => target.starts_with('/').then_some((host, target)),
    }
}

fn fields(list: &Value) -> Vec<(String, String)> {
    let list = list.as_array().into_iter().flatten();
    let text = |field: &Value, name: &str| field[name].as_str().unwrap_or_default().to_owned();
    list.map(|field| (text(field, "name"), text(field, "value"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(method: &str, url: &str) -> Value {
        json!({ "time": 12.5,
            "request": { "method": method, "url": url, "bodySize": 0, "headers": [
                { "name": "Host", "value": "shop.test" }, { "name": "Accept", "value": "*/*" },
                { "name": "Authorization", "value": "[redacted]" }, { "name": "Connection", "value": "close" },
                { "name": ":path", "value": "/" } ] },
            "response": { "status": 200, "headers": [ { "name": "ETag", "value": "1" }, { "name": "Set-Cookie", "value": "[redacted]" } ] } })
    }

    #[test]
    fn a_request_is_sent_without_what_belongs_to_its_connection_and_without_credentials() {
        let mut recorded = Recorded::read(&entry("GET", "http://shop.test/a?b=1#c"), false).unwrap();
        let headers =
            |recorded: &Recorded| recorded.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(
            (headers(&recorded), recorded.target.as_str()),
            (vec!["Host".into(), "Accept".into()], "/a?b=1")
        );
        assert_eq!((recorded.answered("etag"), recorded.answered("set-cookie")), (Some("1".into()), None));
        assert_eq!(
            (recorded.answered("x"), recorded.time),
            (Some(String::new()), Duration::from_micros(12_500))
        );
        recorded.set(&("authorization".into(), "Bearer x".into()));
        recorded.set(&("ACCEPT".into(), "text/html".into()));
        assert_eq!(headers(&recorded), ["Host", "authorization", "ACCEPT"]);
        assert_eq!(Recorded::read(&entry("GET", "https://a.test"), false).unwrap().target, "/");
    }

    #[test]
    fn an_archive_of_a_stranger_writes_no_lines_and_no_framing_of_its_own() {
        let with = |name: &str, value: &str| {
            let mut entry = entry("GET", "http://shop.test/a");
            entry["request"]["headers"] = json!([{ "name": name, "value": value }]);
            Recorded::read(&entry, true).unwrap().request()
        };
        for (name, value) in
            [("X", "a\r\nY: b"), ("X", "a\nb"), ("X\r\nY", "b"), ("X: y", "b"), ("", "b"), ("X", "\u{0}")]
        {
            assert!(with(name, value).is_err(), "{name:?}: {value:?}");
        }
        for name in ["Transfer-Encoding", "content-length", "TE", "Upgrade"] {
            let headers = with(name, "chunked").unwrap().into_parts().0.headers;
            assert_eq!(headers.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["host", "connection"]);
        }
        for url in ["http://a/b HTTP/1.1\r\nX: y", "http://a/\n", "http://a/ b"] {
            assert!(Recorded::read(&entry("GET", url), true).unwrap().request().is_err(), "{url}");
        }
        for method in ["GET / HTTP/1.1\r\nX:", "GE T", ""] {
            assert!(
                Recorded::read(&entry(method, "http://a/"), true).unwrap().request().is_err(),
                "{method}"
            );
        }
    }

    #[test]
    fn what_cannot_be_sent_again_is_told_with_the_reason() {
        let why = |entry: &Value, all| Recorded::read(entry, all).map(|_| ()).unwrap_err();
        assert!(why(&entry("POST", "http://a/"), false).contains("--all-methods"));
        assert!(Recorded::read(&entry("POST", "http://a/"), true).is_ok());
        assert!(why(&entry("GET", "http://a/?token=[redacted]"), false).contains("credential"));
        assert!(why(&entry("CONNECT", "http://a/"), true).contains("tunnel"));
        for url in ["", "tcp://a/", "http:///a", "http://a?b"] {
            assert!(why(&entry("GET", url), false).contains("no request"), "{url}");
        }
        let mut other = entry("POST", "http://a/");
        other["request"]["bodySize"] = 5.into();
        assert!(why(&other, true).contains("body is not recorded"));
        other["request"]["postData"] = json!({ "text": "hello" });
        assert_eq!(Recorded::read(&other, true).unwrap().body, b"hello");
        other["response"]["status"] = 0.into();
        assert!(why(&other, true).contains("no response"));
        other["response"]["status"] = 101.into();
        assert!(why(&other, true).contains("tunnel"));
        assert!(Recorded::read(&Value::Null, true).is_err());
    }
}
