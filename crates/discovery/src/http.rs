//! `discover: { http: { url: https://registry/endpoints.json } }`: a document that a server gives, asked for again and
//! again. In `route_sources` it is a part of a configuration.
//!
//! With an `ETag` or a `Last-Modified` of the last answer, so that a server says 304 where nothing has changed (RFC
//! 9110 §13.1). With `long_poll` the server holds its answer back (`Prefer: wait`, RFC 7240 §4.3) until the document
//! has another `ETag`, or the time is over.

use crate::document::endpoints;
use crate::feed::{Content, Feed};
use crate::found::Found;
use crate::http_servers::{ANSWER, HttpServers, refused, time, trust};
use crate::kept::{Document, Item, only_document};
use crate::source::{Source, Watching, digest};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thalweg_client::{Bounds, Bytes, Request, Response};
use thalweg_filter::{ConfigFiles, SecretSpec};
use thalweg_http::HttpUrl;
use tokio::time::{Instant, sleep};

/// Between two requests, where nothing is written.
const INTERVAL: Duration = Duration::from_secs(5);
/// What an answer may take, beyond the time for which the server holds it back.
const GRACE: Duration = Duration::from_secs(10);
/// Between two requests that are held back: a document that changes all the time is not asked for all the time.
const PAUSE: Duration = Duration::from_millis(100);
/// The most fields of a request.
const FIELDS: usize = 16;
/// What is said to servers that can say it in several ways.
const ACCEPT: &str = "application/json, application/yaml;q=0.9, */*;q=0.1";
/// Fields that are the source's own, or the connection's.
const OWN: [&str; 10] = [
    "accept",
    "connection",
    "content-length",
    "expect",
    "if-modified-since",
    "if-none-match",
    "prefer",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// A document on a server.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `url`")]
pub struct HttpSourceSpec {
    /// The URL of a JSON or YAML document: a list of endpoints, or a map with `endpoints`, as in the source `file`. In
    /// `route_sources`: of one document, whose name is the last part of the path.
    #[schemars(extend("x-api" = "destination"))]
    url: String,
    /// Between two requests. With `long_poll`: after an answer that the server did not hold back.
    #[schemars(extend("x-range" = ["100ms", "1h"], "x-default" = "5s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["5s"]))]
    interval: Option<String>,
    /// For how long the server holds an answer back while the document has not changed (`Prefer: wait`). Default: it
    /// answers at once.
    #[schemars(extend("x-range" = ["1s", "10m"], "x-default-words" = "it answers at once"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["60s"]))]
    long_poll: Option<String>,
    /// Sent as `Authorization: Bearer`.
    #[schemars(extend("x-default-words" = "none"))]
    token: Option<SecretSpec>,
    /// Fields that are sent with every request, by their names.
    #[serde(default)]
    headers: BTreeMap<String, SecretSpec>,
    /// Certificates in PEM: only a server with a certificate that these vouch for is trusted. Default: those of the
    /// system.
    #[schemars(extend("x-default-words" = "those of the system"))]
    #[schemars(extend("x-api" = "reference"))]
    ca: Option<String>,
}

impl HttpSourceSpec {
    /// Checks the arguments.
    ///
    /// # Errors
    /// A sentence that names the wrong one.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source>, String> {
        let none = "a service without endpoints is an empty list";
        Ok(Arc::new(self.reading::<Found>(|_, text| endpoints(text), none, files)?))
    }

    /// The whole answer as a document.
    ///
    /// # Errors
    /// As for [`Self::build`].
    pub(crate) fn documents(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source<[Document]>>, String> {
        let none = "a document without routes is `routes: []`";
        Ok(Arc::new(self.reading(only_document, none, files)?))
    }

    fn reading<I>(
        &self,
        read: ReadAnswer<I>,
        none: &'static str,
        files: &dyn ConfigFiles,
    ) -> Result<Http<I>, String> {
        let url = HttpUrl::parse(&self.url).map_err(|flaw| format!("`url`: {flaw}"))?;
        let short = (Duration::from_millis(100), Duration::from_secs(3600));
        let long = (Duration::from_secs(1), Duration::from_secs(600));
        let interval = time(("interval", self.interval.as_deref()), INTERVAL, short)?;
        let hold = match self.long_poll.as_deref() {
            None => None,
            written => Some(time(("long_poll", written), Duration::ZERO, long)?),
        };
        let fields = self.fields(files)?;
        let servers = HttpServers::new(&[url.to_string()], Vec::new(), trust(self.ca.as_deref(), files)?)?;
        Ok(Http { servers, target: url.target().to_owned(), fields, interval, hold, read, none })
    }

    /// What is sent with every request, checked.
    fn fields(&self, files: &dyn ConfigFiles) -> Result<Vec<(String, String)>, String> {
        if self.headers.len() > FIELDS {
            return Err(format!("`headers` must be at most {FIELDS}"));
        }
        let mut fields = Vec::new();
        for (name, value) in &self.headers {
            let name = name.to_ascii_lowercase();
            if OWN.contains(&&*name) {
                return Err(format!("`headers`: `{name}` is set by the proxy itself; leave it out"));
            }
            fields.push((name, text(value, files)?));
        }
        if let Some(token) = &self.token {
            if fields.iter().any(|(name, _)| name == "authorization") {
                return Err("write `token` or `authorization` under `headers`, not both".to_owned());
            }
            fields.push(("authorization".to_owned(), format!("Bearer {}", text(token, files)?)));
        }
        for (name, value) in &fields {
            // The library's own rules; its error does not quote the value.
            if Request::builder().header(name, value).body(()).is_err() {
                return Err(format!("`{name}` is no name of a field, or its value cannot be sent"));
            }
        }
        Ok(fields)
    }
}

fn text(secret: &SecretSpec, files: &dyn ConfigFiles) -> Result<String, String> {
    String::from_utf8(secret.read(files)?).map_err(|_| "a secret is not text".to_owned())
}

/// Makes things of the last part of the path and an answer. The error is a sentence.
type ReadAnswer<I> = fn(&str, &[u8]) -> Result<Vec<I>, String>;

struct Http<I> {
    servers: HttpServers,
    /// Path and query; may hold a secret.
    target: String,
    /// Lower-case names; may hold secrets.
    fields: Vec<(String, String)>,
    interval: Duration,
    hold: Option<Duration>,
    read: ReadAnswer<I>,
    /// How a server says that there is nothing.
    none: &'static str,
}

impl<I> fmt::Debug for Http<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("servers", &self.servers)
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

impl<I: Item> Source<[I]> for Http<I>
where
    [I]: Content,
{
    fn kind(&self) -> &'static str {
        "http"
    }

    fn place(&self) -> String {
        self.servers.place()
    }

    fn query(&self) -> String {
        self.path().to_owned()
    }

    fn question(&self) -> String {
        self.target.clone()
    }

    fn group(&self) -> String {
        let fields: String = self.fields.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let secret = digest(format!("{}\n{fields}", self.target).as_bytes());
        format!("{} {secret} {:?} {:?}", self.servers.group(), self.interval, self.hold)
    }

    fn silence(&self) -> Duration {
        self.hold.unwrap_or(self.interval).max(self.interval) + GRACE
    }

    fn watch<'a>(&'a self, _members: &'a [Arc<dyn Source<[I]>>], feed: Feed<[I]>) -> Watching<'a> {
        Box::pin(async move {
            let mut last = Version::default();
            loop {
                let asked = Instant::now();
                let response = match self.ask(&last).await {
                    Ok(response) => response,
                    Err(why) => return why,
                };
                let is_new = match response.status().as_u16() {
                    200 => match (self.read)(self.name(), response.body()) {
                        Ok(found) => {
                            feed.found(self.path(), found);
                            let version = Version::of(&response);
                            if self.hold.is_some() && version.tag.is_none() {
                                feed.flawed(
                                    self.path(),
                                    "the answer has no ETag, so that the server holds none back",
                                );
                            }
                            let is_new = version.tag.is_some() && version != last;
                            last = version;
                            is_new
                        }
                        Err(why) => return why,
                    },
                    304 if last.is_known() => {
                        feed.alive();
                        false
                    }
                    _ => return self.refusal(&response),
                };
                sleep(self.pause(is_new, asked.elapsed())).await;
            }
        })
    }
}

impl<I> Http<I> {
    fn path(&self) -> &str {
        self.target.split_once('?').map_or(&*self.target, |(path, _)| path)
    }

    /// The last part of the path that is not empty, else the host.
    fn name(&self) -> &str {
        let part = self.path().rsplit('/').find(|part| !part.is_empty());
        part.unwrap_or_else(|| self.servers.first_host())
    }

    async fn ask(&self, last: &Version) -> Result<Response<Bytes>, String> {
        let wait = self.hold.map(|hold| format!("wait={}", hold.as_secs()));
        let own = [
            ("accept", Some(ACCEPT)),
            ("if-none-match", last.tag.as_deref()),
            ("if-modified-since", last.modified.as_deref()),
            // Without a version to compare with, there is nothing to wait for.
            ("prefer", wait.as_deref().filter(|_| last.tag.is_some())),
        ];
        let mut fields: Vec<_> = self.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        fields.extend(own.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))));
        let bounds = Bounds::new(self.hold.unwrap_or_default() + GRACE, ANSWER);
        self.servers.send("GET", &self.target, &fields, Bytes::new(), bounds).await
    }

    /// Before the next request: none but a short one where the server holds answers back.
    fn pause(&self, is_new: bool, took: Duration) -> Duration {
        let Some(hold) = self.hold else { return self.interval };
        // One that comes back early without news was not held back.
        if is_new || took >= hold / 2 { PAUSE } else { self.interval.saturating_sub(took).max(PAUSE) }
    }

    fn refusal(&self, response: &Response<Bytes>) -> String {
        let why = refused(response);
        match response.status().as_u16() {
            401 | 403 => format!("{why}; write `token` or `headers` with what it asks for"),
            300..=399 => format!("{why}; redirects are not followed: write the URL of the document itself"),
            404 | 410 => format!("{why}; {}", self.none),
            _ => why,
        }
    }
}

/// What tells one answer from the next.
#[derive(Debug, Default, Eq, PartialEq)]
struct Version {
    tag: Option<String>,
    modified: Option<String>,
}

impl Version {
    fn of(response: &Response<Bytes>) -> Self {
        let field = |name| {
            let value = response.headers().get(name).and_then(|value| value.to_str().ok());
            value.filter(|value| !value.is_empty()).map(ToOwned::to_owned)
        };
        Self { tag: field("etag"), modified: field("last-modified") }
    }

    fn is_known(&self) -> bool {
        self.tag.is_some() || self.modified.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::tests::Nothing;

    fn built(yaml: &str) -> Result<Arc<dyn Source>, String> {
        serde_saphyr::from_str::<HttpSourceSpec>(yaml).unwrap().build(&Nothing)
    }

    #[test]
    fn what_may_be_secret_is_not_shown_and_tells_sources_apart() {
        let yaml = |token: &str| format!("{{ url: 'https://a/x?key=s3cret', token: {{ value: {token} }} }}");
        let (a, b) = (built(&yaml("t0ken")).unwrap(), built(&yaml("other")).unwrap());
        assert_eq!((a.place(), a.query()), ("https://a".to_owned(), "/x".to_owned()));
        assert_ne!(a.group(), b.group());
        assert_eq!(crate::question(&*a), crate::question(&*b), "they ask the same with another login");
        let other = built("{ url: 'https://a/x?key=other', token: { value: t0ken } }").unwrap();
        assert_eq!(crate::words(&*a), crate::words(&*other));
        assert!(crate::id(&*a) != crate::id(&*other) && crate::question(&*a) != crate::question(&*other));
        let shown = format!("{a:?} {}", a.group());
        assert!(!shown.contains("s3cret") && !shown.contains("t0ken"), "{shown}");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for bad in [
            "{ url: 'a/b' }",
            "{ url: 'http://u:p@a/' }",
            "{ url: 'http://a/', interval: 1ms }",
            "{ url: 'http://a/', long_poll: 1h }",
            "{ url: 'http://a/', headers: { If-None-Match: { value: x } } }",
            "{ url: 'http://a/', headers: { 'a b': { value: x } } }",
            "{ url: 'http://a/', headers: { x-key: { env: KEY } } }",
            "{ url: 'http://a/', token: { value: a }, headers: { Authorization: { value: b } } }",
        ] {
            let why = built(bad).unwrap_err();
            assert!(!why.contains("k3y"), "{why}");
        }
    }

    #[test]
    fn answers_that_are_not_held_back_are_asked_for_at_the_interval() {
        let hold = |hold| Http::<Found> {
            servers: HttpServers::new(&["http://a".to_owned()], Vec::new(), thalweg_tls::Trust::System)
                .unwrap(),
            target: "/".to_owned(),
            fields: Vec::new(),
            interval: INTERVAL,
            hold,
            read: |_, text| endpoints(text),
            none: "",
        };
        let (short, long) = (Duration::from_millis(20), Duration::from_secs(60));
        assert_eq!(hold(None).pause(true, short), INTERVAL);
        let held = hold(Some(long));
        assert_eq!(held.pause(true, short), PAUSE, "there may be more");
        assert_eq!(held.pause(false, long), PAUSE);
        assert_eq!(held.pause(false, short), INTERVAL - short, "the server does not know `Prefer: wait`");
    }
}
