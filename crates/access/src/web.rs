//! Requests to identity providers: bounded, and what comes back is JSON or a fault in words.

use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use std::time::Duration;
use thalweg_client::{Bounds, HttpClient};
use thalweg_http::HttpUrl;
use thalweg_tls::{PeerPolicy, PeerTerms, Trust};

/// Largest answer, in bytes.
const ANSWER: usize = 256 * 1024;
/// For one request.
pub(crate) const TIME: Duration = Duration::from_secs(5);

/// A client that trusts those whom these certificates in PEM vouch for, or else whom the system trusts.
///
/// # Errors
/// There is no certificate among them.
pub fn https(ca: Option<&[u8]>) -> Result<HttpClient, String> {
    let Some(pem) = ca else { return Ok(HttpClient::new(Trust::System)) };
    let trust = Trust::Only(pem.into());
    let policy = PeerPolicy { trust: trust.clone(), resumption: false, ..PeerPolicy::default() };
    PeerTerms::new(policy).map_err(|flaw| format!("`ca`: {flaw}"))?;
    Ok(HttpClient::new(trust))
}

/// Gets a document.
///
/// # Errors
/// There is none, in words.
pub(crate) async fn get(client: &HttpClient, url: &HttpUrl) -> Result<Bytes, String> {
    let (status, body) = send(client, url, request(Method::GET, url)?).await?;
    match status {
        StatusCode::OK => Ok(body),
        status => Err(format!("{url} answers {}", status.as_u16())),
    }
}

/// Posts a form. `basic` is the value of `Authorization`, where there is to be one.
///
/// # Errors
/// There is no answer, in words.
pub(crate) async fn post(
    client: &HttpClient,
    url: &HttpUrl,
    form: String,
    basic: Option<String>,
) -> Result<(StatusCode, Bytes), String> {
    let mut request = request(Method::POST, url)?;
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    if let Some(basic) = basic {
        let value = HeaderValue::try_from(basic).map_err(|_| "the client's secret cannot be sent")?;
        headers.insert(AUTHORIZATION, value);
    }
    *request.body_mut() = form.into();
    send(client, url, request).await
}

fn request(method: Method, url: &HttpUrl) -> Result<Request<Bytes>, String> {
    let request = Request::builder().method(method).uri(url.target()).header(ACCEPT, "application/json");
    request.body(Bytes::new()).map_err(|error| format!("{url}: {error}"))
}

async fn send(
    client: &HttpClient,
    url: &HttpUrl,
    request: Request<Bytes>,
) -> Result<(StatusCode, Bytes), String> {
    let answer = client.send(&url.into(), request, Bounds::new(TIME, ANSWER)).await;
    let answer = answer.map_err(|error| format!("{url}: {error}"))?;
    Ok((answer.status(), answer.into_body()))
}
