//! Requests to an API server.

use crate::file::blocking;
use crate::http_servers::ANSWER;
use crate::source::digest;
use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_client::{BodyStream, Bounds, Bytes, ClientError, Destination, HttpClient, Request, Response};
use thalweg_tls::{PeerPolicy, Trust};

/// How long an answer may take that is no watch.
const TIME: Duration = Duration::from_secs(30);
/// Largest file of a token or of certificates, in bytes.
const FILE: u64 = 1024 * 1024;
/// Where a pod finds what its service account is given.
pub(super) const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What a request shows of who sends it.
#[derive(Clone)]
pub(super) enum Token {
    Text(String),
    /// Read for each request: tokens of service accounts are replaced every hour.
    File(PathBuf),
}

/// An API server, and how to talk to it. Clones share.
#[derive(Clone)]
pub(super) struct Api {
    client: HttpClient,
    to: Destination,
    prefix: String,
    token: Option<Token>,
    place: String,
    /// All that connections depend on.
    group: String,
}

/// Why a request has no usable answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// What was asked for is too long ago (410): all has to be asked for again.
    Gone,
    /// In a sentence.
    Other(String),
}

/// What the server says of an error.
#[derive(Debug, Deserialize)]
pub(super) struct KubeStatusSpec {
    #[serde(default)]
    pub(super) code: u16,
}

impl Api {
    pub(super) fn new(
        place: String,
        (to, prefix): (Destination, String),
        policy: PeerPolicy,
        token: Option<Token>,
    ) -> Self {
        let secret = match &token {
            None => String::new(),
            Some(Token::Text(text)) => digest(text.as_bytes()),
            Some(Token::File(path)) => path.display().to_string(),
        };
        let trust = match &policy.trust {
            Trust::Only(pem) => digest(pem),
            other => format!("{other:?}"),
        };
        let shown =
            policy.certificate.as_ref().map_or(String::new(), |certificate| digest(&certificate.digest()));
        let name = policy.server_name.as_deref().unwrap_or_default();
        let group = format!("{place} {trust} {name} {shown} {secret}");
        Self { client: HttpClient::with(policy), to, prefix, token, place, group }
    }

    /// The one of the cluster that the proxy runs in: `host` and `port` are what a pod finds in its environment, and in
    /// the folder it finds a token and the authority's certificate, which are read now.
    ///
    /// # Errors
    /// A sentence: the files are not there.
    pub(super) async fn of_pod((host, port): (&str, u16), folder: &Path) -> Result<Self, String> {
        let ca = folder.join("ca.crt");
        let pem = read(ca.clone()).await.map_err(|why| {
            format!("`{}`: {why}; does the pod have a service account with its token mounted?", ca.display())
        })?;
        let to = Destination::Tcp { host: host.to_owned(), port, tls: true };
        let policy = PeerPolicy { trust: Trust::Only(pem.into()), ..PeerPolicy::default() };
        let place = format!(
            "https://{}:{port}",
            if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
        );
        Ok(Self::new(place, (to, String::new()), policy, Some(Token::File(folder.join("token")))))
    }

    /// The URL of the server.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// All that connections depend on, secrets by their digest.
    pub(super) fn group(&self) -> &str {
        &self.group
    }

    /// A whole answer.
    ///
    /// # Errors
    /// The server does not answer with 200.
    pub(super) async fn get(&self, target: &str) -> Result<Bytes, Failure> {
        let request = self.request(target).await?;
        let answer = self.client.send(&self.to, request, Bounds::new(TIME, ANSWER)).await;
        let answer = answer.map_err(|error| self.failure(&error))?;
        match answer.status().as_u16() {
            200 => Ok(answer.into_body()),
            code => Err(self.refusal(code)),
        }
    }

    /// An answer that comes piece by piece, none of them after a longer `silence`.
    ///
    /// # Errors
    /// The server does not answer with 200.
    pub(super) async fn stream(&self, target: &str, silence: Duration) -> Result<BodyStream, Failure> {
        let request = self.request(target).await?;
        let answer: Response<BodyStream> =
            self.client.stream(&self.to, request, silence).await.map_err(|error| self.failure(&error))?;
        let code = answer.status().as_u16();
        if code == 200 { Ok(answer.into_body()) } else { Err(self.refusal(code)) }
    }

    async fn request(&self, target: &str) -> Result<Request<Bytes>, Failure> {
        let token = match &self.token {
            None => None,
            Some(Token::Text(text)) => Some(text.clone()),
            Some(Token::File(path)) => {
                let text = read(path.clone())
                    .await
                    .and_then(|text| String::from_utf8(text).map_err(|_| "the token is not text".to_owned()));
                let text = text.map_err(|why| Failure::Other(format!("`{}`: {why}", path.display())))?;
                Some(text.trim().to_owned())
            }
        };
        let mut request = Request::builder().uri(format!("{}{target}", self.prefix));
        request = request.header("accept", "application/json").header("user-agent", "thalweg");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        // The error names no value, so no token.
        request
            .body(Bytes::new())
            .map_err(|error| Failure::Other(format!("the request cannot be made: {error}")))
    }

    fn failure(&self, error: &ClientError) -> Failure {
        Failure::Other(format!("{}: {error}", self.place))
    }

    /// An answer that is not 200, in a sentence.
    fn refusal(&self, code: u16) -> Failure {
        Failure::of(code, &format!("{}: the server answers", self.place))
    }
}

impl Failure {
    /// The status that the server answers, after `who`.
    pub(super) fn of(code: u16, who: &str) -> Self {
        if code == 410 {
            return Self::Gone;
        }
        let help = match code {
            401 => {
                "; help: the token or certificate is not accepted: is it of this cluster, and still valid?"
            }
            403 => {
                "; help: the account needs a Role with list and watch for `services` and for \
                    `endpointslices` of `discovery.k8s.io` in the namespace"
            }
            404 => "; help: is this the URL of an API server of Kubernetes 1.21 or newer?",
            _ => "",
        };
        Self::Other(format!("{who} {code}{help}"))
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("place", &self.place).finish_non_exhaustive()
    }
}

async fn read(path: PathBuf) -> Result<Vec<u8>, String> {
    blocking(move || {
        let metadata = std::fs::metadata(&path).map_err(|error| error.to_string())?;
        if !metadata.is_file() || metadata.len() > FILE {
            return Err(format!("it is no regular file of at most {} KiB", FILE >> 10));
        }
        std::fs::read(&path).map_err(|error| error.to_string())
    })
    .await
}
