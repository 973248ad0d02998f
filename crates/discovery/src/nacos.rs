//! `discover: { nacos: { service: checkout } }`: healthy instances of a service that is registered with Nacos, asked
//! for by its Open API: version 1, and version 2 or 3 where a server has that one only.
//!
//! The server says how long its answers hold (`cacheMillis`); then it is asked again.

mod answer;
mod session;

use crate::feed::Feed;
use crate::found::Found;
use crate::http_servers::{ANSWER, HttpServers, encoded, refused, time, trust};
use crate::source::{Source, Watching, digest};
use answer::Answer;
use schemars::JsonSchema;
use serde::Deserialize;
use session::{Credentials, Session};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thalweg_client::{Bounds, Bytes, Response};
use thalweg_filter::{ConfigFiles, OneOrManySpec, SecretSpec};

/// The server of the same machine.
const URL: &str = "http://127.0.0.1:8848";
/// The path in front of its API, where a URL has none.
const CONTEXT: &str = "/nacos";
/// The group of services, where nothing is written.
const GROUP: &str = "DEFAULT_GROUP";
/// Between two looks, at least and at most, whatever the server says.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The longest that one server may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// For so long after a failure the server may have lost most of what it knew: by then clients have registered again.
const RETURN: Duration = Duration::from_secs(30);
/// The most clusters.
const CLUSTERS: usize = 16;

/// A service that is registered with Nacos.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `service`")]
pub struct NacosSourceSpec {
    /// Its name there.
    #[schemars(extend("x-shown" = true))]
    service: String,
    /// The server, or several that know the same: the next is asked when one does not answer. A URL without a path
    /// stands for the one with `/nacos`. Default `http://127.0.0.1:8848`.
    #[schemars(extend("x-default" = "http://127.0.0.1:8848"))]
    #[schemars(extend("x-api" = "destination"))]
    url: Option<OneOrManySpec<String>>,
    /// The ID of the namespace; default: `public`.
    #[schemars(extend("x-default-words" = "the usual one"))]
    namespace: Option<String>,
    /// The group of the service.
    #[schemars(extend("x-default" = "DEFAULT_GROUP"))]
    group: Option<String>,
    /// Only instances of these clusters.
    #[schemars(extend("x-default-words" = "all"))]
    clusters: Option<OneOrManySpec<String>>,
    /// The user to log in.
    #[schemars(extend("x-default-words" = "none"))]
    username: Option<String>,
    /// Its password.
    #[schemars(extend("x-default-words" = "none"))]
    password: Option<SecretSpec>,
    /// An access token, instead of a user and a password.
    #[schemars(extend("x-default-words" = "none"))]
    token: Option<SecretSpec>,
    /// Between two looks. Default: what the server says (`cacheMillis`), 1 to 30 seconds.
    #[schemars(extend("x-range" = ["1s", "30s"], "x-default-words" = "as the server says"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["5s"]))]
    interval: Option<String>,
    /// Certificates in PEM: only a server with a certificate that these vouch for is trusted. Default: those of the
    /// system.
    #[schemars(extend("x-default-words" = "those that the system trusts"))]
    #[schemars(extend("x-api" = "reference"))]
    ca: Option<String>,
}

impl NacosSourceSpec {
    /// Checks the arguments.
    ///
    /// # Errors
    /// A sentence that names the wrong one.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source>, String> {
        if self.service.is_empty() || self.group.as_ref().is_some_and(String::is_empty) {
            return Err("`service` and `group` must not be empty".to_owned());
        }
        let clusters = self.clusters.as_ref().map_or(&[][..], OneOrManySpec::as_slice);
        if clusters.len() > CLUSTERS || clusters.iter().any(|name| name.is_empty() || name.contains(',')) {
            return Err(format!(
                "`clusters` must be at most {CLUSTERS}, without commas and none of them empty"
            ));
        }
        let read = |secret: &SecretSpec| {
            String::from_utf8(secret.read(files)?).map_err(|_| "`password` or `token` is not text".to_owned())
        };
        let credentials = match (&self.username, &self.password, &self.token) {
            (None, None, None) => Credentials::None,
            (None, None, Some(token)) => Credentials::Token(read(token)?),
            (Some(username), Some(password), None) => {
                Credentials::User { username: username.clone(), password: read(password)? }
            }
            _ => return Err("write `username` and `password`, or `token` alone".to_owned()),
        };
        let usual = OneOrManySpec::One(URL.to_owned());
        let urls = self.url.as_ref().unwrap_or(&usual).as_slice();
        let urls: Vec<_> = urls.iter().map(|url| with_context(url)).collect();
        let servers = HttpServers::new(&urls, Vec::new(), trust(self.ca.as_deref(), files)?)?;
        let interval = match &self.interval {
            None => None,
            written => Some(time(("interval", written.as_deref()), INTERVALS.1, INTERVALS)?),
        };
        let asks = u32::try_from(urls.len()).unwrap_or(1) + 1;
        let (parameters, query) = (self.parameters(clusters), self.query(clusters));
        let told = Mutex::default();
        Ok(Arc::new(Nacos { servers, credentials, interval, asks, parameters, query, told }))
    }

    /// All versions of the API understand these; the names that one of them does not know are left aside by it.
    fn parameters(&self, clusters: &[String]) -> String {
        let group = self.group.as_deref().unwrap_or(GROUP);
        let mut parameters =
            format!("serviceName={}&groupName={}&healthyOnly=false", encoded(&self.service), encoded(group));
        if let Some(namespace) = &self.namespace {
            parameters.push_str(&format!("&namespaceId={}", encoded(namespace)));
        }
        if !clusters.is_empty() {
            let clusters = encoded(&clusters.join(","));
            parameters.push_str(&format!("&clusters={clusters}&clusterName={clusters}"));
        }
        parameters
    }

    fn query(&self, clusters: &[String]) -> String {
        let mut query = self.service.clone();
        for (name, value) in
            [("namespace", &self.namespace), ("group", &self.group.clone().filter(|group| group != GROUP))]
        {
            if let Some(value) = value {
                query.push_str(&format!(", {name} {value}"));
            }
        }
        for cluster in clusters {
            query.push_str(&format!(", cluster {cluster}"));
        }
        query
    }
}

/// The URL with the path of the API.
fn with_context(url: &str) -> String {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    match after_scheme.trim_end_matches('/').contains('/') {
        true => url.to_owned(),
        false => format!("{}{CONTEXT}", url.trim_end_matches('/')),
    }
}

struct Nacos {
    servers: HttpServers,
    credentials: Credentials,
    interval: Option<Duration>,
    /// How many timeouts one look may take.
    asks: u32,
    parameters: String,
    query: String,
    /// What was told last: it outlives a watch.
    told: Mutex<Vec<Found>>,
}

impl std::fmt::Debug for Nacos {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nacos")
            .field("servers", &self.servers)
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

/// The versions of the API.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Version {
    One,
    Two,
    Three,
}

impl Version {
    fn path(self) -> &'static str {
        match self {
            Self::One => "/v1/ns/instance/list",
            Self::Two => "/v2/ns/instance/list",
            Self::Three => "/v3/client/ns/instance/list",
        }
    }

    /// To be tried where the server has not this one.
    fn next(self) -> Option<Self> {
        match self {
            Self::One => Some(Self::Two),
            Self::Two => Some(Self::Three),
            Self::Three => None,
        }
    }
}

impl Source for Nacos {
    fn kind(&self) -> &'static str {
        "nacos"
    }

    fn place(&self) -> String {
        self.servers.place()
    }

    fn query(&self) -> String {
        self.query.clone()
    }

    fn group(&self) -> String {
        let credentials = digest(self.credentials.text().as_bytes());
        format!("{} {credentials} {:?} {}", self.servers.group(), self.interval, self.parameters)
    }

    fn silence(&self) -> Duration {
        self.interval.unwrap_or(INTERVALS.1) + TIMEOUT * self.asks
    }

    fn watch<'a>(&'a self, _members: &'a [Arc<dyn Source>], feed: Feed) -> Watching<'a> {
        Box::pin(async move {
            let (begun, before) = (Instant::now(), self.told().clone());
            let (mut session, mut version) = (Session::default(), Version::One);
            loop {
                let Answer { mut found, flaw, hold } = match self.ask(&mut session, &mut version).await {
                    Ok(answer) => answer,
                    Err(why) => return why,
                };
                let kept = if begun.elapsed() < RETURN { keep(&before, &mut found) } else { 0 };
                // What is kept only for a while does not count as known after another failure, nor does what is there.
                if kept == 0 {
                    self.told().clone_from(&found);
                }
                feed.found(&self.query, found);
                if kept > 0 {
                    let why =
                        format!("most instances are gone since the server is back; {kept} are kept for now");
                    feed.flawed(&self.query, why);
                } else if let Some(flaw) = flaw {
                    feed.flawed(&self.query, flaw);
                }
                tokio::time::sleep(self.interval.unwrap_or(hold.clamp(INTERVALS.0, INTERVALS.1))).await;
            }
        })
    }
}

/// A server that was restarted knows no instance that has not registered again. So where it knows less than half as
/// many as `before` it failed, those are used as well; how many are.
fn keep(before: &[Found], found: &mut Vec<Found>) -> usize {
    if found.len() * 2 >= before.len() {
        return 0;
    }
    let is_there = |old: &&Found| found.iter().any(|new| new.host == old.host && new.port == old.port);
    let missed: Vec<_> = before.iter().filter(|old| !is_there(old)).cloned().collect();
    let count = missed.len();
    found.extend(missed);
    count
}

impl Nacos {
    fn told(&self) -> MutexGuard<'_, Vec<Found>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks once; logs in where that is needed.
    async fn ask(&self, session: &mut Session, version: &mut Version) -> Result<Answer, String> {
        let mut is_fresh = session.renew(&self.credentials, &self.servers).await?;
        loop {
            let response = self.get(version.path(), session).await?;
            match response.status().as_u16() {
                200 => return answer::read(response.body()),
                // The token is not known any more, as after a restart with another key.
                401 | 403 if !is_fresh && self.credentials.can_log_in() => {
                    session.end();
                    is_fresh = session.renew(&self.credentials, &self.servers).await?;
                }
                401 | 403 => {
                    return Err(format!("{}; check the credentials and their rights", refused(&response)));
                }
                _ if is_absent(&response) => match version.next() {
                    Some(next) => *version = next,
                    None => {
                        *version = Version::One;
                        return Err(format!("{}; is `url` that of a Nacos server?", refused(&response)));
                    }
                },
                _ => return Err(refused(&response)),
            }
        }
    }

    async fn get(&self, path: &str, session: &Session) -> Result<Response<Bytes>, String> {
        let target = format!("{path}?{}", self.parameters);
        let bearer = session.field();
        let fields: Vec<_> = bearer.iter().map(|value| ("authorization", value.as_str())).collect();
        self.servers.send("GET", &target, &fields, Bytes::new(), Bounds::new(TIMEOUT, ANSWER)).await
    }
}

/// Whether the server has no such version of the API; some say so with a 500.
fn is_absent(response: &Response<Bytes>) -> bool {
    matches!(response.status().as_u16(), 404 | 405 | 410 | 501)
        || response.body().windows(18).any(|text| text == b"No static resource")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_stands_for_the_usual_one() {
        assert_eq!(with_context("http://a:8848"), "http://a:8848/nacos");
        assert_eq!(with_context("http://a:8848/"), "http://a:8848/nacos");
        assert_eq!(with_context("https://a/registry"), "https://a/registry");
    }

    #[test]
    fn what_is_asked_for_stands_in_the_parameters_of_all_versions() {
        let yaml = "{ service: a b, namespace: n, group: G, clusters: [x, y] }";
        let spec: NacosSourceSpec = serde_saphyr::from_str(yaml).unwrap();
        let clusters = ["x".to_owned(), "y".to_owned()];
        assert_eq!(
            spec.parameters(&clusters),
            "serviceName=a%20b&groupName=G&healthyOnly=false&namespaceId=n&clusters=x%2Cy&clusterName=x%2Cy"
        );
        assert_eq!(spec.query(&clusters), "a b, namespace n, group G, cluster x, cluster y");
    }
}
