//! The HTTP client as the ACME library takes it.
//!
//! The directory is an `https` URL (validation ensures that), and it names the URLs of all other requests. Invariant:
//! those are `https` URLs too, so every request is sent through TLS (RFC 8555 §6.1).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::Bytes;
use instant_acme::{BodyWrapper, BytesResponse, Error};
use thalweg_client::{Bounds, Destination, HttpClient};
use thalweg_http::HttpUrl;
use thalweg_tls::Trust;

/// What a request to an authority may take.
const BOUNDS: Bounds = Bounds::new(Duration::from_secs(30), 1024 * 1024);

/// Why a request is not sent.
const WITHOUT_TLS: &str = "the authority names a URL without TLS, which is not asked";

/// Sends requests to one authority.
#[derive(Clone)]
pub(crate) struct AuthorityClient(HttpClient);

impl AuthorityClient {
    /// Trusts these roots, in PEM, or those of the system.
    pub(crate) fn new(roots: Option<&Arc<[u8]>>) -> Self {
        Self(HttpClient::new(roots.map_or(Trust::System, |pem| Trust::Only(Arc::clone(pem)))))
    }
}

impl instant_acme::HttpClient for AuthorityClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.0.clone();
        Box::pin(async move {
            // The authority writes these URLs into its answers.
            let url = HttpUrl::parse(&request.uri().to_string()).map_err(|why| Error::Other(why.into()))?;
            if !url.tls() {
                return Err(Error::Other(format!("{WITHOUT_TLS}: {url}").into()));
            }
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|error| Error::Other(error.into()))?.to_bytes();
            let request = Request::from_parts(parts, body);
            let answer = client.send(&Destination::from(&url), request, BOUNDS).await;
            let (parts, body) = answer.map_err(|error| Error::Other(error.into()))?.into_parts();
            Ok(BytesResponse { parts, body: Box::new(body) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instant_acme::HttpClient as _;
    use std::net::TcpListener;

    #[tokio::test]
    async fn a_url_without_tls_is_not_asked() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let url = format!("http://{}/new-nonce", server.local_addr().unwrap());
        let request = Request::head(&url).body(BodyWrapper::from(Vec::new())).unwrap();
        let Err(error) = AuthorityClient::new(None).request(request).await else { panic!("it was asked") };
        assert!(error.to_string().starts_with(WITHOUT_TLS), "{error}");
        assert_eq!(server.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
}
