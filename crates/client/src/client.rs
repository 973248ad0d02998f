//! One request and its response.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use thalweg_tls::{Certificate, Connector, Offer, PeerPolicy, PeerTerms, Trust};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::destination::Destination;
use crate::error::ClientError;
use crate::h2;
use crate::half_closed::HalfClosed;
use crate::keep_off::barred;
use crate::resolve::resolve;

/// Largest head of a response, in bytes.
const HEAD: usize = 64 * 1024;

/// What a request may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bounds {
    /// From the lookup of the name to the end of the response.
    pub time: Duration,
    /// The longest silence of the server: for the connection, the head, and each part of the body.
    pub silence: Duration,
    /// Largest body of a response, in bytes; with 0 it is not read.
    pub body: usize,
}

impl Bounds {
    /// `time` all in all.
    pub const fn new(time: Duration, body: usize) -> Self {
        Self { time, silence: time, body }
    }
}

/// A connection, whatever it is made of.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// Sends requests. Clones share what TLS needs, which is made at the first request that needs it.
#[derive(Clone, Debug)]
pub struct HttpClient {
    policy: PeerPolicy,
    terms: Arc<OnceLock<Result<Arc<PeerTerms>, String>>>,
}

impl HttpClient {
    /// With TLS, servers need a certificate that `trust` vouches for.
    pub fn new(trust: Trust) -> Self {
        Self::with(PeerPolicy { trust, ..PeerPolicy::default() })
    }

    /// With TLS, servers are asked for what `policy` says, and shown its certificate. Nothing is resumed.
    pub fn with(policy: PeerPolicy) -> Self {
        Self { policy: PeerPolicy { resumption: false, ..policy }, terms: Arc::default() }
    }

    /// Shows this certificate to servers that ask for one.
    #[must_use]
    pub fn showing(self, certificate: Arc<Certificate>) -> Self {
        Self::with(PeerPolicy { certificate: Some(certificate), ..self.policy })
    }

    /// Sends a request and receives its response. Of the request's URI, path and query are used; `Host`, unless it is
    /// there, and the framing are added. Every status is a response, redirects too. Cancel-safe: a dropped request
    /// closes its connection.
    ///
    /// # Errors
    /// There is no response within the bounds.
    pub async fn send(
        &self,
        to: &Destination,
        request: Request<Bytes>,
        bounds: Bounds,
    ) -> Result<Response<Bytes>, ClientError> {
        let request = prepared(to, request)?;
        let answer = async {
            let (host, port, tls) = match to {
                Destination::Unix(path) => {
                    let failed = |error| ClientError::Connect(path.display().to_string(), error);
                    let stream = within(bounds.silence, UnixStream::connect(path)).await?;
                    return exchange(stream.map_err(failed)?, request, bounds).await;
                }
                Destination::Tcp { host, port, tls } => (host, *port, *tls),
            };
            let stream = connect(host, port, bounds.silence).await?;
            if !tls {
                return exchange(stream, request, bounds).await;
            }
            let failed = |error: &dyn fmt::Display| ClientError::Tls(error.to_string());
            let server = Connector::new(&self.terms()?, host).map_err(|flaw| failed(&flaw))?;
            let connector = TlsConnector::from(Arc::clone(server.client_config(Offer::Http1)));
            let handshake = connector.connect(server.server_name().clone(), stream);
            let stream = within(bounds.silence, handshake).await?.map_err(|error| failed(&error))?;
            exchange(stream, request, bounds).await
        };
        within(bounds.time, answer).await?
    }

    /// Sends a request and gives its response as soon as the head is there; the body is read piece by piece. `silence`
    /// is the longest that is waited for the connection, the head and each piece. Otherwise as [`Self::send`].
    ///
    /// # Errors
    /// There is no head within the time.
    pub async fn stream(
        &self,
        to: &Destination,
        request: Request<Bytes>,
        silence: Duration,
    ) -> Result<Response<BodyStream>, ClientError> {
        let request = prepared(to, request)?;
        let io = TokioIo::new(HalfClosed(self.open(to, silence).await?));
        let handshake = http1::Builder::new().max_buf_size(HEAD).handshake(io).await;
        let (mut sender, connection) = handshake.map_err(|error| http(&error))?;
        let mut connection: Driver = Box::pin(async move {
            let _ = connection.await;
        });
        let mut answer = pin!(within(silence, sender.send_request(request)));
        let head = tokio::select! {
            biased;
            head = &mut answer => head,
            // The connection may end in the same turn in which the response came.
            () = &mut connection => {
                connection = Box::pin(std::future::ready(()));
                answer.await
            }
        };
        let (parts, body) = head?.map_err(|error| http(&error))?.into_parts();
        Ok(Response::from_parts(parts, BodyStream { body, connection: Some(connection), silence }))
    }

    /// Opens a connection for another protocol than HTTP, through TLS where the destination says so. `time` is for the
    /// whole of it.
    ///
    /// # Errors
    /// There is none within the time.
    pub async fn open(&self, to: &Destination, time: Duration) -> Result<Box<dyn ByteStream>, ClientError> {
        self.open_for(to, Offer::Http1, time).await
    }

    /// Sends a request through HTTP/2 and receives its response, with at most `bounds.body` bytes of its body;
    /// `silence` is not looked at. The server is taken to speak it, in the clear as well. Otherwise as [`Self::send`].
    ///
    /// # Errors
    /// There is no response within the bounds.
    pub async fn call(
        &self,
        to: &Destination,
        request: Request<Bytes>,
        bounds: Bounds,
    ) -> Result<h2::Answer, ClientError> {
        let failed = |error: &dyn fmt::Display| ClientError::Request(error.to_string());
        let (mut parts, message) = request.into_parts();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let scheme = if to.is_secure() { "https" } else { "http" };
        let uri = Uri::builder().scheme(scheme).authority(to.authority()).path_and_query(target).build();
        parts.uri = uri.map_err(|error| failed(&error))?;
        let answer = async {
            let stream = self.open_for(to, Offer::Http2, bounds.time).await?;
            let request = (Request::from_parts(parts, ()), message);
            h2::ask(stream, request, bounds.body).await.map_err(ClientError::Http)
        };
        within(bounds.time, answer).await?
    }

    async fn open_for(
        &self,
        to: &Destination,
        offer: Offer,
        time: Duration,
    ) -> Result<Box<dyn ByteStream>, ClientError> {
        let opening = async {
            let (host, port, tls) = match to {
                Destination::Unix(path) => {
                    let failed = |error| ClientError::Connect(path.display().to_string(), error);
                    return Ok(
                        Box::new(UnixStream::connect(path).await.map_err(failed)?) as Box<dyn ByteStream>
                    );
                }
                Destination::Tcp { host, port, tls } => (host, *port, *tls),
            };
            let stream = connect(host, port, time).await?;
            if !tls {
                return Ok(Box::new(stream) as Box<dyn ByteStream>);
            }
            let failed = |error: &dyn fmt::Display| ClientError::Tls(error.to_string());
            let server = Connector::new(&self.terms()?, host).map_err(|flaw| failed(&flaw))?;
            let connector = TlsConnector::from(Arc::clone(server.client_config(offer)));
            let stream = connector.connect(server.server_name().clone(), stream).await;
            Ok(Box::new(stream.map_err(|error| failed(&error))?) as Box<dyn ByteStream>)
        };
        within(time, opening).await?
    }

    /// The terms for servers. A connection for one request has nothing to resume.
    fn terms(&self) -> Result<Arc<PeerTerms>, ClientError> {
        let terms = self.terms.get_or_init(|| {
            PeerTerms::new(self.policy.clone()).map(Arc::new).map_err(|flaw| flaw.to_string())
        });
        terms.clone().map_err(ClientError::Tls)
    }
}

/// What moves the bytes of a connection.
type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The body of a response, as it comes.
pub struct BodyStream {
    body: Incoming,
    /// `None`: it has ended.
    connection: Option<Driver>,
    silence: Duration,
}

impl BodyStream {
    /// The next piece; `None` at the end. Cancel-safe: nothing is lost when the future is dropped.
    ///
    /// # Errors
    /// The body breaks off, or nothing comes for too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let frame = match &mut self.connection {
                None => within(self.silence, self.body.frame()).await?,
                Some(connection) => tokio::select! {
                    biased;
                    frame = within(self.silence, self.body.frame()) => frame?,
                    () = connection => {
                        // What it has read is still in the body.
                        self.connection = None;
                        continue;
                    }
                },
            };
            let Some(frame) = frame else { return Ok(None) };
            if let Ok(data) = frame.map_err(|error| http(&error))?.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

/// The request in origin form (RFC 9112 §3.2.1) with its `Host`.
fn prepared(to: &Destination, request: Request<Bytes>) -> Result<Request<Full<Bytes>>, ClientError> {
    let failed = |error: &dyn fmt::Display| ClientError::Request(error.to_string());
    let host = HeaderValue::try_from(to.authority()).map_err(|error| failed(&error))?;
    let mut request = request.map(Full::new);
    request.headers_mut().entry(HOST).or_insert(host);
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    *request.uri_mut() = target.parse::<Uri>().map_err(|error| failed(&error))?;
    Ok(request)
}

async fn within<T>(time: Duration, future: impl Future<Output = T>) -> Result<T, ClientError> {
    timeout(time, future).await.map_err(|_| ClientError::Time(time))
}

/// Connects to the first address that accepts, giving each its share of the time.
async fn connect(host: &str, port: u16, time: Duration) -> Result<TcpStream, ClientError> {
    let addresses = resolve(host).await?;
    let share = time / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = ClientError::Name("it has no address".into());
    let is_named = host.parse::<IpAddr>().is_ok();
    for address in addresses {
        let address = SocketAddr::new(address, port);
        if let Some(what) = barred(address, is_named) {
            last = ClientError::Barred(address.to_string(), what);
            continue;
        }
        last = match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Without it the request is merely slower.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => ClientError::Connect(address.to_string(), error),
            Err(_) => ClientError::Connect(address.to_string(), io::ErrorKind::TimedOut.into()),
        };
    }
    Err(last)
}

async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    bounds: Bounds,
) -> Result<Response<Bytes>, ClientError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(HalfClosed(stream));
    let handshake = http1::Builder::new().max_buf_size(HEAD).handshake(io).await;
    let (mut sender, connection) = handshake.map_err(|error| http(&error))?;
    // Held in a box: what the connection has read is dropped when it ends, and the response learns of it.
    let mut connection: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        let _ = connection.await;
    });
    let mut answer = pin!(async {
        let head = within(bounds.silence, sender.send_request(request)).await?;
        let (parts, body) = head.map_err(|error| http(&error))?.into_parts();
        let body = if bounds.body == 0 { Bytes::new() } else { read(body, bounds).await? };
        Ok(Response::from_parts(parts, body))
    });
    tokio::select! {
        biased;
        answer = &mut answer => return answer,
        // The connection may end in the same turn in which the response came.
        () = &mut connection => {}
    }
    drop(connection);
    answer.await
}

/// The whole body.
async fn read(mut body: Incoming, bounds: Bounds) -> Result<Bytes, ClientError> {
    if body.size_hint().lower() > bounds.body as u64 {
        return Err(ClientError::TooLarge(bounds.body));
    }
    let mut bytes = Vec::with_capacity(body.size_hint().exact().unwrap_or(0).min(HEAD as u64) as usize);
    while let Some(frame) = within(bounds.silence, body.frame()).await? {
        let data = frame.map_err(|error| http(&error))?.into_data().unwrap_or_default();
        if data.len() > bounds.body - bytes.len() {
            return Err(ClientError::TooLarge(bounds.body));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.into())
}

/// The library says what failed; why says the error below, as that the server asks for a certificate.
fn http(error: &hyper::Error) -> ClientError {
    let below = std::error::Error::source(error);
    let why = below.map(|below| below.downcast_ref().map_or_else(|| below.to_string(), crate::words));
    ClientError::Http(why.map_or_else(|| error.to_string(), |why| format!("{error}: {why}")))
}

#[cfg(test)]
mod tests;
