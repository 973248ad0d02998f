//! Calls to authorities, hooks and whoever is asked: one request on a connection of its own, within a time.
//!
//! HTTP/1.1, through TLS for `https`. Nothing is followed or reused: it is done a few times in a month. Invariant: a
//! call ends within its time and keeps at most [`BODY`] bytes, whatever answers.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::ServerName;
use thalweg_tls::{PeerPolicy, PeerTerms, Trust};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Largest answer, in bytes.
const BODY: usize = 1024 * 1024;
/// Time of a call to an authority.
const TIME: Duration = Duration::from_secs(30);
/// Addresses of a name that are tried.
const ADDRESSES: usize = 8;

type Trouble = Box<dyn StdError + Send + Sync>;

/// Makes calls.
#[derive(Clone)]
pub(crate) struct Caller {
    /// Why nobody can be trusted is told to who calls through TLS.
    tls: Result<TlsConnector, Arc<str>>,
}

impl Caller {
    /// Trusts these roots, in PEM, or those of the system.
    pub(crate) fn new(roots: Option<&Arc<[u8]>>) -> Self {
        let trust = roots.map_or(Trust::System, |pem| Trust::Only(Arc::clone(pem)));
        let terms = PeerTerms::new(PeerPolicy { trust, ..PeerPolicy::default() });
        Self { tls: terms.map(|terms| terms.config().into()).map_err(|flaw| flaw.to_string().into()) }
    }

    /// Sends a request with an absolute URL and receives the whole answer, in `time` all in all. Cancel-safe: a dropped
    /// call closes its connection.
    pub(crate) async fn call<B>(
        &self,
        request: Request<B>,
        time: Duration,
    ) -> Result<Response<Bytes>, Trouble>
    where
        B: Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<Trouble>,
    {
        let late = |_| format!("no answer within {time:?}");
        timeout(time, self.exchange(request, time)).await.map_err(late)?
    }

    async fn exchange<B>(&self, request: Request<B>, time: Duration) -> Result<Response<Bytes>, Trouble>
    where
        B: Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<Trouble>,
    {
        let uri = request.uri().clone();
        let host = uri.host().ok_or("the URL has no host")?.trim_matches(['[', ']']).to_owned();
        let is_secure = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let stream = connect(&host, port, time).await?;
        if !is_secure {
            return send(stream, request, &uri).await;
        }
        let tls = self.tls.as_ref().map_err(|why| why.to_string())?;
        let stream = tls.connect(ServerName::try_from(host)?, stream).await?;
        send(stream, request, &uri).await
    }
}

/// Connects to the first address that accepts, giving each its share of the time.
async fn connect(host: &str, port: u16, time: Duration) -> Result<TcpStream, Trouble> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.take(ADDRESSES).collect();
    let share = time / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last: Trouble = format!("`{host}` has no address").into();
    for address in addresses {
        last = match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Without it the call is merely slower.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => format!("cannot connect to {address}: {error}").into(),
            Err(_) => format!("cannot connect to {address} in time").into(),
        };
    }
    Err(last)
}

async fn send<S, B>(stream: S, mut request: Request<B>, uri: &Uri) -> Result<Response<Bytes>, Trouble>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Trouble>,
{
    let authority = uri.authority().ok_or("the URL has no host")?;
    request.headers_mut().insert(HOST, HeaderValue::from_str(authority.as_str())?);
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    *request.uri_mut() = target.parse()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut connection = pin!(connection);
    let mut answer = pin!(async {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, BODY).collect().await?.to_bytes();
        Ok::<_, Trouble>(Response::from_parts(parts, body))
    });
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        // The connection may end in the same turn in which the answer came.
        _ = &mut connection => answer.await,
    }
}

impl HttpClient for Caller {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let caller = self.clone();
        Box::pin(async move {
            let (parts, body) = caller.call(request, TIME).await.map_err(Error::Other)?.into_parts();
            Ok(BytesResponse { parts, body: Box::new(body) })
        })
    }
}
