//! Calls that the control plane makes: one request, the status of its answer, within a time.
//!
//! For webhooks today. HTTP/1.1 on a connection of its own per call, through TLS for `https`.
//! Nothing is followed, stored or reused: what is called now and then gains nothing from it.
//! Invariant: a call ends within its time and keeps at most [`HEAD`] bytes, whatever answers.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::HOST;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use hickory_resolver::TokioResolver;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use thalweg_http::HttpUrl;
use thalweg_tls::{Connector, Offer, PeerPolicy, PeerTerms, Trust};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Largest head of an answer, in bytes.
const HEAD: usize = 64 * 1024;
/// Addresses of a name that are tried.
const ADDRESSES: usize = 8;

/// What is sent. `Host` and the framing are added.
#[derive(Clone, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a HttpUrl,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Bytes,
}

/// Makes calls. Holds what `https` needs: whom the system trusts, asked at the first call.
#[derive(Default)]
pub(crate) struct Caller {
    tls: OnceLock<Result<Arc<PeerTerms>, String>>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum CallOutError {
    /// The time was up.
    Time(Duration),
    /// The host name has no address.
    Name(String),
    /// No address accepted the connection.
    Connect(io::Error),
    /// There is no trust between us and the other side.
    Tls(String),
    /// What came is not an HTTP answer, or none came.
    Http(String),
}

impl fmt::Display for CallOutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "no answer within {time:?}"),
            Self::Name(why) => write!(f, "the host name cannot be resolved: {why}"),
            Self::Connect(error) => write!(f, "cannot connect: {error}"),
            Self::Tls(why) => write!(f, "TLS: {why}"),
            Self::Http(why) => write!(f, "no usable answer: {why}"),
        }
    }
}

impl Caller {
    /// A caller that trusts this certificate, in PEM, instead of the system's.
    #[cfg(test)]
    pub(crate) fn trusting(root: &str) -> Self {
        Self { tls: OnceLock::from(terms(Trust::Only(root.as_bytes().into()))) }
    }

    /// Sends the call and waits for the head of the answer, in `time` all in all. Cancel-safe: a
    /// dropped call closes its connection.
    pub(crate) async fn call(&self, call: Call<'_>, time: Duration) -> Result<StatusCode, CallOutError> {
        let url = call.url;
        let answer = async {
            let stream = connect(url, time).await?;
            if !url.tls() {
                return exchange(stream, call).await;
            }
            let terms = self.tls.get_or_init(|| terms(Trust::System));
            let terms = terms.as_ref().map_err(|why| CallOutError::Tls(why.clone()))?;
            let failed = |error: &dyn fmt::Display| CallOutError::Tls(error.to_string());
            let server = Connector::new(terms, url.host()).map_err(|flaw| failed(&flaw))?;
            let connector = TlsConnector::from(Arc::clone(server.client_config(Offer::Http1)));
            let stream = connector.connect(server.server_name().clone(), stream).await;
            exchange(stream.map_err(|error| failed(&error))?, call).await
        };
        timeout(time, answer).await.unwrap_or(Err(CallOutError::Time(time)))
    }
}

/// As towards endpoints; a call of its own connection has nothing to resume.
fn terms(trust: Trust) -> Result<Arc<PeerTerms>, String> {
    let policy = PeerPolicy { trust, resumption: false, ..PeerPolicy::default() };
    PeerTerms::new(policy).map(Arc::new).map_err(|flaw| flaw.to_string())
}

/// Connects to the first address that accepts, giving each its share of the time.
async fn connect(url: &HttpUrl, time: Duration) -> Result<TcpStream, CallOutError> {
    let addresses = resolve(url.host()).await?;
    let share = time / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = CallOutError::Name("it has no address".into());
    for address in addresses {
        let connecting = TcpStream::connect(SocketAddr::new(address, url.port()));
        last = match timeout(share, connecting).await {
            Ok(Ok(stream)) => {
                // Without it the call is merely slower.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => CallOutError::Connect(error),
            Err(_) => CallOutError::Connect(io::ErrorKind::TimedOut.into()),
        };
    }
    Err(last)
}

/// The addresses of a host: hosts file, resolv.conf. Read each time, since both change.
async fn resolve(host: &str) -> Result<Vec<IpAddr>, CallOutError> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    // RFC 6761 §6.3: `localhost` and what is below it are this machine, whatever a server says.
    if host == "localhost" || host.ends_with(".localhost") {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    let failed = |error: &dyn fmt::Display| CallOutError::Name(error.to_string());
    let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build());
    let found = resolver.map_err(|error| failed(&error))?.lookup_ip(host).await;
    Ok(found.map_err(|error| failed(&error))?.iter().take(ADDRESSES).collect())
}

async fn exchange<I>(stream: I, call: Call<'_>) -> Result<StatusCode, CallOutError>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let http = |error: &dyn fmt::Display| CallOutError::Http(error.to_string());
    let host = HeaderValue::try_from(call.url.authority()).map_err(|error| http(&error))?;
    let request = Request::builder().method(call.method).uri(call.url.target()).body(Full::new(call.body));
    let mut request = request.map_err(|error| http(&error))?;
    *request.headers_mut() = call.fields;
    request.headers_mut().insert(HOST, host);
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| http(&error))?;
    let mut answer = pin!(sender.send_request(request));
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer,
        // The connection may end in the same turn in which the answer came.
        _ = connection => answer.await,
    };
    answer.map(|answer| answer.status()).map_err(|error| http(&error))
}

#[cfg(test)]
mod tests;
