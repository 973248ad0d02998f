//! What the configuration says of the process around the data plane: validated and immutable.
//!
//! The binary reads it at start; workers never see it.

use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_client::Destination;
use thalweg_core::units::duration_text;
use thalweg_core::written;
use thalweg_discovery::{Document, EurekaRegistration, Source};
use thalweg_observe::slo::SloPolicy;
use thalweg_observe::{Rotation, Sample, Syslog, TextFormat, WebhookPolicy};
use thalweg_proxy::plan::{CertificateFiles, ListenAddress};
use thalweg_tls::Acceptor;
use thalweg_upstream::Endpoint;

/// Everything outside the plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The admin API's own listener; `None`: only the unix socket.
    pub admin: Option<Admin>,
    /// Where state is kept; `None`: the default directory.
    pub state: Option<PathBuf>,
    /// Worker threads, 1–1024; `None` (`auto`): as many as CPUs are allowed.
    pub workers: Option<u16>,
    /// Whom to become before threads start.
    pub user: Option<User>,
    /// Where metrics are served without a token; always TCP.
    pub metrics: Option<ListenAddress>,
    /// `None`: nothing is logged.
    pub access_log: Option<AccessLog>,
    /// Which share of the exchanges must be good, in file order; at most 100.
    pub slos: Vec<SloPolicy>,
    /// Where endpoints of services come from beside those that are written, by the names of the services.
    pub discover: BTreeMap<Arc<str>, Discover>,
    /// Where documents with routes and services come from, in file order; at most 32.
    pub route_sources: Vec<RouteSource>,
    /// Registries in which the proxy itself is an instance.
    pub registrations: Vec<Registration>,
    /// Who is told when something happens, in file order; at most 32.
    pub webhooks: Vec<WebhookPolicy>,
    /// How replicas tell each other of purges of the cache; `None`: they do not.
    pub purge_channel: Option<PurgeChannel>,
}

/// How replicas tell each other of purges of the cache: a channel of Redis or Valkey.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct PurgeChannel {
    /// Where the server is, as written.
    pub server: String,
    /// The same, read.
    #[serde(skip)]
    pub to: Destination,
    /// The user; `None`: the default one.
    pub user: Option<String>,
    /// Its password.
    #[serde(serialize_with = "written::maybe_hidden")]
    pub password: Option<Secret>,
    /// For TLS: certificates in PEM that vouch for the server's; `None`: those that the system trusts.
    #[serde(serialize_with = "written::maybe_hidden")]
    pub ca: Option<Arc<[u8]>>,
    /// The name of the channel.
    pub channel: String,
    /// What becomes of what is stored when the connection is back after it was lost.
    pub after_loss: AfterLoss,
}

/// What becomes of what is stored after purges of others may have been missed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterLoss {
    /// It is used as before.
    Keep,
    /// All of it is stale.
    MakeStale,
}

/// A password that is not shown.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// These bytes.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes, for the one who logs in.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Settings {
    /// Where the process is to listen for the admin API and the metrics.
    pub(crate) fn beside(&self) -> Vec<SocketAddr> {
        let admin = self.admin.as_ref().map(|admin| &admin.address);
        admin.into_iter().chain(&self.metrics).filter_map(ListenAddress::tcp).collect()
    }
}

/// Where the endpoints of a service come from.
#[derive(Clone, Debug)]
pub struct Discover {
    /// Who is asked.
    pub source: Arc<dyn Source>,
    /// By what updates name it.
    pub id: Arc<str>,
    /// Those that are written, which are there whatever the source says.
    pub written: Vec<Endpoint>,
    /// A document says it: it has no service of the file.
    pub is_added: bool,
}

impl PartialEq for Discover {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.written == other.written
    }
}

/// A source of documents with routes and services.
#[derive(Clone, Debug)]
pub struct RouteSource {
    /// Who is asked.
    pub source: Arc<dyn Source<[Document]>>,
    /// By what news name it.
    pub id: Arc<str>,
    /// Who is asked for what, for people.
    pub words: String,
    /// By what its documents are kept, whatever its login and times are ([`thalweg_discovery::question`]).
    pub question: Arc<str>,
}

impl PartialEq for RouteSource {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// The proxy as an instance of a registry.
#[derive(Clone, Debug)]
pub struct Registration(pub Arc<EurekaRegistration>);

impl PartialEq for Registration {
    fn eq(&self, other: &Self) -> bool {
        self.0.id() == other.0.id()
    }
}

/// The admin API's own listener.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Admin {
    /// Always TCP; loopback unless there is TLS or the user insisted.
    #[serde(serialize_with = "written::text")]
    pub address: ListenAddress,
    /// `None`: the one in the state directory.
    #[serde(serialize_with = "written::maybe_hidden")]
    pub token: Option<Token>,
    /// A second token, for reading only; `None`: there is none.
    #[serde(serialize_with = "written::maybe_hidden")]
    pub read_token: Option<Token>,
    /// `None`: who asks speaks in the clear.
    #[serde(skip)]
    pub tls: Option<AdminTls>,
}

/// How the admin API's own listener is secured. It shows no key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AdminTls {
    /// One certificate, and the policy that is built in; sessions are not resumed.
    pub acceptor: Arc<Acceptor>,
    /// Where the certificate came from.
    pub files: CertificateFiles,
}

/// An admin token, wherever it came from. Two are equal when their texts are, so that a reload sees that the
/// file of a token holds another one.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Token(String);

impl Token {
    /// A token; its characters have been checked.
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, for the one who compares it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// `user` or `user:group`, names or numbers.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct User {
    /// The user.
    #[serde(rename = "")]
    pub user: String,
    /// The group; `None`: the user's own.
    pub group: Option<String>,
}

/// The access log.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct AccessLog {
    /// How a line looks.
    #[serde(serialize_with = "format")]
    pub format: LogFormat,
    /// Where it goes.
    #[serde(rename = "path", serialize_with = "target")]
    pub target: LogTarget,
    /// When a file moves on.
    #[serde(rename = "rotate", serialize_with = "rotation")]
    pub rotation: Option<Rotation>,
    /// Which exchanges have a line.
    #[serde(serialize_with = "sample")]
    pub sample: Option<Sample>,
}

fn rotation<S: Serializer>(rotation: &Option<Rotation>, serializer: S) -> Result<S::Ok, S::Error> {
    let words = rotation.as_ref().map(|Rotation { size, every, keep }| {
        let size = size.map(|size| format!("at {size} bytes, "));
        let every = every.map(|every| format!("every {}, ", duration_text(every)));
        format!("{}{}keeps {keep}", size.unwrap_or_default(), every.unwrap_or_default())
    });
    words.serialize(serializer)
}

fn sample<S: Serializer>(sample: &Option<Sample>, serializer: S) -> Result<S::Ok, S::Error> {
    let words = sample.as_ref().map(|Sample { share, statuses, slower_than }| {
        let statuses: Vec<_> =
            statuses.iter().map(|range| format!("{}-{}", range.start(), range.end())).collect();
        let slower = slower_than.map(|time| format!(", slower than {}", duration_text(time)));
        format!("{}%, always {}{}", share / 10, statuses.join(" "), slower.unwrap_or_default())
    });
    words.serialize(serializer)
}

fn target<S: Serializer>(target: &LogTarget, serializer: S) -> Result<S::Ok, S::Error> {
    match target {
        LogTarget::Stdout => serializer.serialize_str("stdout"),
        LogTarget::Stderr => serializer.serialize_str("stderr"),
        LogTarget::File(path) => serializer.collect_str(&format_args!("file {}", path.display())),
        LogTarget::Syslog(Syslog { to, facility, tag }) => {
            serializer.collect_str(&format_args!("syslog {to}, facility {facility}, tag {tag}"))
        }
    }
}

/// How a line of the access log looks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LogFormat {
    /// One JSON object.
    Json,
    /// nginx's `combined`.
    Combined,
    /// A text with placeholders.
    Text(Arc<TextFormat>),
}

/// Where the access log goes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LogTarget {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file, opened for appending and again on USR1.
    File(PathBuf),
    /// A receiver of syslog.
    Syslog(Syslog),
}

fn format<S: Serializer>(format: &LogFormat, serializer: S) -> Result<S::Ok, S::Error> {
    match format {
        LogFormat::Json => serializer.serialize_str("json"),
        LogFormat::Combined => serializer.serialize_str("combined"),
        LogFormat::Text(text) => serializer.collect_str(text),
    }
}
