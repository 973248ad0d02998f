//! `discover: { zookeeper: { path: /services/checkout } }`: children of a node of ZooKeeper, each one instance.
//!
//! All services of the same servers share one session. `Session` writes requests and reads answers; this file holds
//! the connection, its beginning and its pings. A session that is over, or a connection that breaks, is begun anew, at
//! the next server.

pub mod jute;

mod conversation;
mod instance;
mod session;

pub use conversation::Conversation;

use crate::feed::{Content, Feed};
use crate::found::Found;
use crate::http_servers::{ANSWER, certificate, time, trust};
use crate::kept::{Document, Item, ReadValue, document};
use crate::source::{Source, Watching, digest};
use jute::{Reader, Writer, op, take_frame, xid};
use schemars::JsonSchema;
use serde::Deserialize;
use session::Session;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thalweg_client::{ByteStream, Destination, HttpClient};
use thalweg_filter::{ConfigFiles, OneOrManySpec, SecretSpec};
use thalweg_tls::Trust;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// The server of the same machine.
const SERVER: &str = "127.0.0.1:2181";
/// How long a session outlives its connection, where nothing is written.
const SESSION: Duration = Duration::from_secs(10);
/// The most servers.
const SERVERS: usize = 16;
/// Longest path, in bytes.
const PATH: usize = 1024;
/// Bytes that are read at a time.
const PIECE: usize = 64 * 1024;
/// Where changes never end, they are told so often.
const DUE: Duration = Duration::from_millis(200);

/// Children of a node of ZooKeeper.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `path`")]
pub struct ZookeeperSourceSpec {
    /// The node of the service, as `/services/checkout`. Each child is one instance. In `route_sources` each child is a
    /// document.
    path: String,
    /// `host:port` of the servers of one ensemble: the next is asked when one does not answer. Default
    /// `127.0.0.1:2181`.
    #[schemars(extend("x-default" = "127.0.0.1:2181"))]
    #[schemars(extend("x-api" = "destination"))]
    servers: Option<OneOrManySpec<String>>,
    /// How instances are written: `curator`, as by Curator's service discovery; `spring`, as by Spring Cloud Zookeeper,
    /// which is the same; `plain`, an address or JSON as the data of a node, or an address as its name. The data of
    /// documents has no layout.
    #[schemars(extend("x-default" = "curator"))]
    #[serde(default)]
    layout: ZookeeperLayoutSpec,
    /// How long a session outlives its connection. A server that says nothing for two thirds of it is given up.
    #[schemars(extend("x-range" = ["1s", "5m"], "x-default" = "10s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["10s"]))]
    session_timeout: Option<String>,
    /// The user of the scheme `digest`; needs `password`.
    #[schemars(extend("x-default-words" = "none"))]
    username: Option<String>,
    /// The user's password.
    #[schemars(extend("x-default-words" = "none"))]
    password: Option<SecretSpec>,
    /// Whether the servers are spoken to with TLS (their `secureClientPort`).
    #[serde(default)]
    #[schemars(extend("x-default" = false))]
    #[schemars(extend("x-api" = "destination"))]
    tls: bool,
    /// For TLS: certificates in PEM; only a server with a certificate that these vouch for is trusted. Default: those
    /// of the system.
    #[schemars(extend("x-default-words" = "those that the system trusts"))]
    #[schemars(extend("x-api" = "reference"))]
    ca: Option<String>,
    /// For TLS: a PEM file with the certificate that the servers are shown; needs `key`.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    cert: Option<String>,
    /// For TLS: a PEM file with its key.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    key: Option<String>,
}

/// How instances are written.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ZookeeperLayoutSpec {
    /// As by Curator's service discovery.
    #[default]
    Curator,
    /// As by Spring Cloud Zookeeper.
    Spring,
    /// An address or JSON.
    Plain,
}

impl ZookeeperSourceSpec {
    /// Checks the arguments.
    ///
    /// # Errors
    /// A sentence that names the wrong one.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source>, String> {
        let (layout, read): (_, ReadValue<Found>) = match self.layout {
            ZookeeperLayoutSpec::Curator | ZookeeperLayoutSpec::Spring => ("curator", instance::curator),
            ZookeeperLayoutSpec::Plain => ("plain", instance::plain),
        };
        Ok(Arc::new(self.reading(layout, read, files)?))
    }

    /// The same children, each with a document.
    ///
    /// # Errors
    /// As for [`Self::build`].
    pub(crate) fn documents(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source<[Document]>>, String> {
        Ok(Arc::new(self.reading("documents", document, files)?))
    }

    fn reading<I: Item>(
        &self,
        layout: &str,
        read: ReadValue<I>,
        files: &dyn ConfigFiles,
    ) -> Result<Zookeeper<I>, String> {
        let path = self.path.as_str();
        let is_path =
            path.starts_with('/') && path.split('/').skip(1).all(|name| !matches!(name, "" | "." | ".."));
        if !is_path || path.len() > PATH || path.contains(char::is_control) {
            return Err(format!("`{path}` is no path of a node; write it as `/services/checkout`"));
        }
        let servers = match &self.servers {
            None => vec![SERVER.to_owned()],
            Some(OneOrManySpec::One(server)) => vec![server.clone()],
            Some(OneOrManySpec::Many(servers)) => servers.clone(),
        };
        if servers.is_empty() || servers.len() > SERVERS {
            return Err(format!("write 1 to {SERVERS} `servers`"));
        }
        let to = servers.iter().map(|server| destination(server, self.tls)).collect::<Result<_, _>>()?;
        if !self.tls && (self.ca.is_some() || self.cert.is_some() || self.key.is_some()) {
            return Err("`ca`, `cert` and `key` are for TLS; write `tls: true`".to_owned());
        }
        let login = match (&self.username, &self.password) {
            (None, None) => None,
            (Some(user), Some(password)) => {
                let password = password.read(files).map_err(|why| format!("`password`: {why}"))?;
                Some([user.as_bytes(), b":", &password].concat())
            }
            _ => return Err("`username` and `password` belong together; write both or none".to_owned()),
        };
        let range = (Duration::from_secs(1), Duration::from_secs(300));
        let session = time(("session_timeout", self.session_timeout.as_deref()), SESSION, range)?;
        let trust = trust(self.ca.as_deref(), files)?;
        let shown = certificate((self.cert.as_deref(), self.key.as_deref()), files)?;
        let ca = match &trust {
            Trust::Only(pem) => digest(pem),
            Trust::System | Trust::InsecureSkipVerify => String::new(),
        };
        let secrets =
            digest(format!("{login:?} {:?}", shown.as_ref().map(|shown| shown.whole_digest())).as_bytes());
        let place = servers.join(", ");
        let group = format!("{place} {} {layout} {session:?} {ca} {secrets}", self.tls);
        let mut client = HttpClient::new(trust);
        if let Some(shown) = shown {
            client = client.showing(shown);
        }
        Ok(Zookeeper { client, to, login, place, group, path: self.path.clone(), session, read })
    }
}

/// `host:port`.
fn destination(server: &str, tls: bool) -> Result<Destination, String> {
    let read = crate::document::located(server).ok().filter(|found| found.scheme.is_none());
    let found = read.ok_or_else(|| format!("`{server}` is no server; write `host:2181`"))?;
    Ok(Destination::Tcp { host: found.host, port: found.port, tls })
}

struct Zookeeper<I> {
    client: HttpClient,
    to: Vec<Destination>,
    /// `user:password`.
    login: Option<Vec<u8>>,
    place: String,
    group: String,
    path: String,
    session: Duration,
    read: ReadValue<I>,
}

impl<I> fmt::Debug for Zookeeper<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zookeeper")
            .field("place", &self.place)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl<I: Item> Source<[I]> for Zookeeper<I>
where
    [I]: Content,
{
    fn kind(&self) -> &'static str {
        "zookeeper"
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn query(&self) -> String {
        self.path.clone()
    }

    fn group(&self) -> String {
        self.group.clone()
    }

    fn silence(&self) -> Duration {
        self.session
    }

    fn watch<'a>(&'a self, members: &'a [Arc<dyn Source<[I]>>], feed: Feed<[I]>) -> Watching<'a> {
        Box::pin(async move {
            let Err(why) = self.keep(members, &feed).await;
            why
        })
    }
}

impl<I: Item> Zookeeper<I>
where
    [I]: Content,
{
    /// The longest silence: pings are sent twice as often.
    fn longest(&self) -> Duration {
        self.session * 2 / 3
    }

    async fn keep(&self, members: &[Arc<dyn Source<[I]>>], feed: &Feed<[I]>) -> Result<Infallible, String> {
        let (mut stream, granted) = self.connect().await?;
        let longest = self.longest().min(granted * 2 / 3);
        let mut session = Session::new(members.iter().map(|member| member.query()), self.read);
        let (mut buffer, mut piece) = (Vec::new(), vec![0; PIECE]);
        let (mut heard, mut told, mut next_ping) =
            (Instant::now(), Instant::now(), Instant::now() + longest / 2);
        loop {
            let mut bytes = session.outgoing();
            if next_ping <= Instant::now() {
                bytes.extend(Writer::request(xid::PING, op::PING).frame());
                next_ping = Instant::now() + longest / 2;
            }
            let sent = timeout_at(heard + longest, stream.write_all(&bytes)).await;
            sent.map_err(|_| late(longest))?.map_err(|error| broken(&error))?;
            for (path, kept) in session.news(told.elapsed() >= DUE) {
                kept.tell(feed, path);
                told = Instant::now();
            }
            let read = tokio::select! {
                read = stream.read(&mut piece) => read.map_err(|error| broken(&error))?,
                () = sleep_until(next_ping.min(heard + longest)) => {
                    if heard.elapsed() >= longest {
                        return Err(late(longest));
                    }
                    continue;
                }
            };
            if read == 0 {
                return Err("the server has closed the connection".to_owned());
            }
            heard = Instant::now();
            buffer.extend_from_slice(&piece[..read]);
            while let Some(frame) = take_frame(&mut buffer, ANSWER)? {
                session.take(&frame)?;
                feed.alive();
            }
        }
    }

    /// A connection to one of the servers, with a new session, and how long that lives.
    async fn connect(&self) -> Result<(Box<dyn ByteStream>, Duration), String> {
        let (count, first) = (self.to.len(), fastrand::usize(..self.to.len()));
        let share = (self.longest() / u32::try_from(count).unwrap_or(1)).max(Duration::from_millis(500));
        let mut failures = Vec::new();
        for to in (0..count).map(|at| &self.to[(first + at) % count]) {
            let opening = async {
                let stream = self.client.open(to, share).await.map_err(|error| error.to_string())?;
                self.begin(stream).await
            };
            match timeout(share, opening).await.unwrap_or_else(|_| Err(late(share))) {
                Ok(begun) => return Ok(begun),
                Err(why) => failures.push(match to {
                    Destination::Tcp { host, port, .. } => format!("{host}:{port}: {why}"),
                    Destination::Unix(path) => format!("{}: {why}", path.display()),
                }),
            }
        }
        Err(failures.join("; "))
    }

    /// Begins a session on this connection.
    async fn begin(
        &self,
        mut stream: Box<dyn ByteStream>,
    ) -> Result<(Box<dyn ByteStream>, Duration), String> {
        let milliseconds = i32::try_from(self.session.as_millis()).unwrap_or(i32::MAX);
        let hello =
            Writer::new().int(0).long(0).int(milliseconds).long(0).bytes(&[0; 16]).bool(false).frame();
        stream.write_all(&hello).await.map_err(|error| broken(&error))?;
        let mut buffer = Vec::new();
        let answer = loop {
            if let Some(answer) = take_frame(&mut buffer, PIECE)? {
                break answer;
            }
            if stream.read_buf(&mut buffer).await.map_err(|error| broken(&error))? == 0 {
                return Err("the server has closed the connection; it may have no ensemble".to_owned());
            }
        };
        let mut answer = Reader::new(&answer);
        let granted =
            answer.int().and_then(|_version| answer.int()).map_err(|_| "the server's answer is too short")?;
        let granted = u64::try_from(granted).ok().filter(|granted| *granted > 0);
        let granted = granted.ok_or("the server does not grant a session")?;
        if let Some(login) = &self.login {
            let login = Writer::request(xid::AUTH, op::AUTH).int(0).bytes(b"digest").bytes(login).frame();
            stream.write_all(&login).await.map_err(|error| broken(&error))?;
        }
        Ok((stream, Duration::from_millis(granted)))
    }
}

fn late(time: Duration) -> String {
    format!("it has not answered within {:.1} s", time.as_secs_f64())
}

fn broken(error: &std::io::Error) -> String {
    format!("the connection breaks off: {error}")
}
