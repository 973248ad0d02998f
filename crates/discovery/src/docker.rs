//! `discover: { docker: { service: checkout } }`: containers, by the socket of Docker (or Podman).
//!
//! One watch for each socket: its stream of events says that something has changed, then all containers are listed;
//! they are listed every `interval` anyway. A container that is told to stop gets no new requests from that moment,
//! before it closes its port: Docker tells of the signal first.
//!
//! The same watch serves endpoints of a service and documents with routes: what containers are, [`ReadContainers`]
//! says.

pub(crate) mod containers;
mod events;
pub(crate) mod routes;

use crate::feed::{Content, Feed};
use crate::found::Found;
use crate::http_servers::{HttpServers, certificate, encoded, refused, time, trust};
use crate::kept::Item;
use crate::source::{Source, Watching};
use containers::{Choice, DockerContainerSpec, endpoints};
use events::{Event, Events};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thalweg_client::Bytes;
use thalweg_filter::ConfigFiles;
use thalweg_http::HttpUrl;
use tokio::time::{Instant, timeout_at};

/// Where Docker listens.
const SOCKET: &str = "unix:///var/run/docker.sock";
/// Between two lists, where nothing happens.
const INTERVAL: Duration = Duration::from_secs(15);
/// For one answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// After an event: others follow it.
const GATHER: Duration = Duration::from_millis(50);
/// How long a container that is told to stop is believed to do so.
const STOPPING: Duration = Duration::from_secs(300);
/// The most labels that are asked for.
const LABELS: usize = 16;

/// Containers of Docker.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `service`")]
#[schemars(extend("x-api" = "whole"))]
pub struct DockerSourceSpec {
    /// The service: containers with this value of the label `thalweg.service`, else of `com.docker.compose.service`.
    #[schemars(extend("x-shown" = true))]
    service: String,
    /// Where Docker listens: `unix:///var/run/docker.sock`, `tcp://10.0.0.1:2375` or, through TLS,
    /// `https://10.0.0.1:2376`.
    #[schemars(extend("x-default" = "unix:///var/run/docker.sock"))]
    #[schemars(extend("x-api" = "reference"))]
    socket: Option<String>,
    /// Only containers of this project of Docker Compose.
    #[schemars(extend("x-default-words" = "any"))]
    project: Option<String>,
    /// The network in which containers are reached, where they are in several; as Docker names it, or without the name
    /// of the project before it. The label `thalweg.network` of a container comes first.
    #[schemars(extend("x-default-words" = "the only one"))]
    network: Option<String>,
    /// Only containers that have all of these labels.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Containers are reached by the ports that are published on the host, not by their own addresses: where the proxy
    /// is in no network of theirs.
    #[schemars(extend("x-default" = false))]
    #[serde(default)]
    published: bool,
    /// Between two lists of all containers, beside the events. What is known is at most this old, and a little more.
    #[schemars(extend("x-range" = ["1s", "10m"], "x-default" = "15s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["15s"]))]
    interval: Option<String>,
    /// Certificates in PEM: only a server with a certificate that these vouch for is trusted. Default: those of the
    /// system.
    #[schemars(extend("x-default-words" = "those of the system"))]
    #[schemars(extend("x-api" = "reference"))]
    ca: Option<String>,
    /// A PEM file with the certificate that Docker is shown; needs `key`.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    cert: Option<String>,
    /// A PEM file with its key.
    #[schemars(extend("x-default-words" = "must be written with `cert`"))]
    #[schemars(extend("x-api" = "reference"))]
    key: Option<String>,
}

impl DockerSourceSpec {
    /// Checks the arguments.
    ///
    /// # Errors
    /// A sentence that names the wrong one.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source>, String> {
        if self.service.is_empty() {
            return Err("`service` is empty; write what the label `thalweg.service` says".to_owned());
        }
        let choice = Choice {
            service: Some(self.service.clone()),
            project: self.project.clone(),
            network: self.network.clone(),
            labels: self.labels.clone(),
            is_published: self.published,
            prefix: String::new(),
        };
        let written = Written {
            socket: self.socket.as_deref(),
            interval: self.interval.as_deref(),
            ca: self.ca.as_deref(),
            cert: self.cert.as_deref(),
            key: self.key.as_deref(),
        };
        Ok(Arc::new(Docker::<Found>::new(choice, &written, endpoints, files)?))
    }
}

/// How Docker is reached, as it is written.
struct Written<'a> {
    socket: Option<&'a str>,
    interval: Option<&'a str>,
    ca: Option<&'a str>,
    cert: Option<&'a str>,
    key: Option<&'a str>,
}

/// The URL of a socket, and where the ports of its host are reached.
fn socket(text: &str) -> Result<(String, String), String> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        if !path.starts_with('/') {
            return Err(format!("`socket`: `{text}` has no absolute path; write `{SOCKET}`"));
        }
        return Ok((format!("unix:{path}"), "127.0.0.1".to_owned()));
    }
    let url = match text.strip_prefix("tcp://") {
        Some(rest) => format!("http://{rest}"),
        None => text.to_owned(),
    };
    let read = HttpUrl::parse(&url)
        .map_err(|_| format!("`socket`: `{text}` is no socket; write `{SOCKET}` or `tcp://10.0.0.1:2375`"))?;
    Ok((url, read.host().to_owned()))
}

/// Makes things of the containers that are meant, and says what was left out. The text is where ports of the host are
/// reached.
type ReadContainers<I> = fn(&[DockerContainerSpec], &Choice, &str) -> (Vec<I>, Option<String>);

struct Docker<I> {
    servers: HttpServers,
    place: String,
    host: String,
    choice: Choice,
    interval: Duration,
    read: ReadContainers<I>,
}

impl<I> fmt::Debug for Docker<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Docker")
            .field("place", &self.place)
            .field("choice", &self.choice)
            .finish_non_exhaustive()
    }
}

impl<I> Docker<I> {
    fn new(
        choice: Choice,
        written: &Written<'_>,
        read: ReadContainers<I>,
        files: &dyn ConfigFiles,
    ) -> Result<Self, String> {
        if choice.labels.len() > LABELS {
            return Err(format!("`labels` must be at most {LABELS}"));
        }
        if !choice.is_plain() {
            let keys = "`service`, `project`, `network`, `prefix` and `labels`";
            return Err(format!("{keys} must be names, without commas"));
        }
        let place = written.socket.unwrap_or(SOCKET).to_owned();
        let (url, host) = socket(&place)?;
        let certificate = certificate((written.cert, written.key), files)?;
        let servers = HttpServers::new(&[url], Vec::new(), trust(written.ca, files)?)?;
        let range = (Duration::from_secs(1), Duration::from_secs(600));
        let interval = time(("interval", written.interval), INTERVAL, range)?;
        Ok(Self { servers: servers.showing(certificate), place, host, choice, interval, read })
    }
}

impl<I: Item> Source<[I]> for Docker<I>
where
    [I]: Content,
{
    fn kind(&self) -> &'static str {
        "docker"
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn query(&self) -> String {
        self.choice.to_string()
    }

    fn group(&self) -> String {
        format!("{} {:?}", self.servers.group(), self.interval)
    }

    fn silence(&self) -> Duration {
        self.interval + PATIENCE
    }

    fn watch<'a>(&'a self, members: &'a [Arc<dyn Source<[I]>>], feed: Feed<[I]>) -> Watching<'a> {
        Box::pin(async move {
            let wanted = members.iter().map(|member| member.query());
            let wanted: Vec<_> = wanted.map(|query| (Choice::parse(&query), query)).collect();
            let Err(why) = self.keep(&wanted, &feed).await;
            why
        })
    }
}

impl<I: Item> Docker<I>
where
    [I]: Content,
{
    async fn keep(&self, wanted: &[(Choice, String)], feed: &Feed<[I]>) -> Result<Infallible, String> {
        // Opened before the first list, so that nothing happens between the two unseen.
        let mut events = self.events().await?;
        let mut stopping = Stopping::default();
        loop {
            let (mut all, flaw) = self.list().await?;
            for container in &mut all {
                container.is_stopping = stopping.holds(&container.id);
            }
            for (choice, query) in wanted {
                let (found, own) = (self.read)(&all, choice, &self.host);
                feed.found(query, found);
                if let Some(flaw) = own.as_ref().or(flaw.as_ref()) {
                    feed.flawed(query, flaw.clone());
                }
            }
            self.wait(&mut events, &mut stopping).await?;
        }
    }

    /// Until something has happened, or it is time.
    async fn wait(&self, events: &mut Events, stopping: &mut Stopping) -> Result<(), String> {
        let mut until = Instant::now() + self.interval;
        let gathered = |now: Instant| now + GATHER;
        loop {
            let Ok(event) = timeout_at(until, events.next()).await else { return Ok(()) };
            match event? {
                Event::Signal { container, signal } => {
                    if self.stop_signal(&container).await == Some(signal) {
                        stopping.begins(container);
                    }
                }
                Event::Started { container } => stopping.is_over(&container),
                Event::Other => {}
            }
            until = until.min(gathered(Instant::now()));
        }
    }

    async fn list(&self) -> Result<(Vec<DockerContainerSpec>, Option<String>), String> {
        let response = self.servers.get("/containers/json", PATIENCE).await?;
        match response.status().as_u16() {
            200 => containers::containers(response.body()),
            403 => {
                Err(format!("{}; whoever stands before Docker must allow /containers", refused(&response)))
            }
            _ => Err(refused(&response)),
        }
    }

    async fn events(&self) -> Result<Events, String> {
        let target = format!("/events?filters={}", encoded(events::FILTERS));
        let response = self.servers.endless(("GET", &target), &[], Bytes::new(), PATIENCE).await?;
        match response.status().as_u16() {
            200 => Ok(Events::new(response.into_body())),
            status => Err(format!("the server answers {status} to /events; the stream of events is needed")),
        }
    }

    /// The signal by which a container is told to stop, if that can be found out.
    async fn stop_signal(&self, container: &str) -> Option<u8> {
        let target = format!("/containers/{}/json", encoded(container));
        let response = self.servers.get(&target, PATIENCE).await.ok()?;
        let response = Some(response).filter(|response| response.status().as_u16() == 200)?;
        events::stop_signal(response.body())
    }
}

/// Containers that have been told to stop, by their IDs, and until when that is believed.
#[derive(Debug, Default)]
struct Stopping(HashMap<String, Instant>);

impl Stopping {
    fn begins(&mut self, id: String) {
        let now = Instant::now();
        self.0.retain(|_, until| *until > now);
        self.0.insert(id, now + STOPPING);
    }

    fn is_over(&mut self, id: &str) {
        self.0.remove(id);
    }

    fn holds(&self, id: &str) -> bool {
        self.0.get(id).is_some_and(|until| *until > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_paths_or_hosts() {
        let host = "127.0.0.1".to_owned();
        assert_eq!(socket(SOCKET), Ok(("unix:/var/run/docker.sock".to_owned(), host.clone())));
        assert_eq!(socket("unix:/run/x.sock"), Ok(("unix:/run/x.sock".to_owned(), host)));
        assert_eq!(socket("tcp://d:2375"), Ok(("http://d:2375".to_owned(), "d".to_owned())));
        assert_eq!(socket("https://d:2376"), Ok(("https://d:2376".to_owned(), "d".to_owned())));
        for bad in ["", "unix:", "unix://x.sock", "/var/run/docker.sock", "tcp://", "npipe://x"] {
            assert!(socket(bad).is_err(), "{bad}");
        }
    }
}
