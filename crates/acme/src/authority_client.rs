//! The HTTP client as the ACME library takes it.

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
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|error| Error::Other(error.into()))?.to_bytes();
            let request = Request::from_parts(parts, body);
            let answer = client.send(&Destination::from(&url), request, BOUNDS).await;
            let (parts, body) = answer.map_err(|error| Error::Other(error.into()))?.into_parts();
            Ok(BytesResponse { parts, body: Box::new(body) })
        })
    }
}
