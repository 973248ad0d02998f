//! A request, and whether its response is as it should be: of HTTP/1.1 (RFC 9112), or of HTTP/2 where the endpoint
//! speaks nothing else.

use crate::outcome::Outcome;
use crate::target::Target;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::uri::Uri;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::io;
use std::pin::pin;
use std::time::Duration;
use thalweg_client::{h2, words};
use thalweg_upstream::{Check, HealthPolicy};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// Bytes of a response's head, at most.
const HEAD: usize = 16 * 1024;
/// Bytes of a response's body that are looked at.
const BODY: usize = 64 * 1024;
/// Once the verdict is clear: time in which the rest of a small body is read, because a socket that is
/// closed with something unread resets the connection, and endpoints log that as an error.
const GOODBYE: Duration = Duration::from_millis(100);
/// Who asks.
const NAME: HeaderValue = HeaderValue::from_static("thalweg-health");

/// Asks over `stream`. The caller ends it at `deadline`.
pub(crate) async fn ask<S>(target: &Target, deadline: Instant, stream: S) -> Outcome
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let request = match request(target) {
        Ok(request) => request,
        Err(why) => return Outcome::NotAsked(why),
    };
    if target.is_http2() {
        return ask_http2(target, request, stream).await;
    }
    let mut settings = http1::Builder::new();
    settings.max_buf_size(HEAD);
    let (mut sender, connection) = match settings.handshake(TokioIo::new(stream)).await {
        Ok(both) => both,
        Err(error) => return Outcome::Failed(explain(&error)),
    };
    let exchange = async {
        match sender.send_request(request).await {
            Ok(response) => judge(&target.policy, deadline, response).await,
            Err(error) => Outcome::Failed(explain(&error)),
        }
    };
    // Moved in, so that what is read of it is dropped when it ends, and the exchange learns of it.
    let connection = pin!(async move { connection.await.is_ok() });
    let mut exchange = pin!(exchange);
    tokio::select! {
        biased;
        outcome = &mut exchange => return outcome,
        _ = connection => {}
    }
    exchange.await
}

async fn ask_http2<S>(target: &Target, mut request: Request<Empty<Bytes>>, stream: S) -> Outcome
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Check::Http { expect, body: pattern, .. } = &target.policy.check else {
        return Outcome::NotAsked("no response to a check without HTTP".into());
    };
    // The host is no field there, and no field is the connection's.
    request.headers_mut().remove(CONNECTION);
    let host = request.headers_mut().remove(HOST);
    let host = host.as_ref().map_or(target.authority.as_bytes(), HeaderValue::as_bytes);
    let scheme = if target.tls.is_some() { "https" } else { "http" };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    match Uri::builder().scheme(scheme).authority(host).path_and_query(path).build() {
        Ok(uri) => *request.uri_mut() = uri,
        Err(error) => return Outcome::NotAsked(format!("the check's request cannot be sent: {error}")),
    }
    let most = if pattern.is_some() { BODY } else { 0 };
    let answer = match h2::ask(stream, (request.map(drop), Bytes::new()), most).await {
        Ok(answer) => answer,
        Err(why) => return Outcome::Failed(why),
    };
    let status = answer.head.status().as_u16();
    match pattern {
        _ if !expect.contains(status) => Outcome::Failed(format!("status {status}")),
        None => Outcome::Passed(format!("status {status}")),
        Some(pattern) => matches(pattern.is_match(&answer.body), status),
    }
}

fn matches(is_match: bool, status: u16) -> Outcome {
    match is_match {
        true => Outcome::Passed(format!("status {status}, the body matches")),
        false => Outcome::Failed("the body does not match".into()),
    }
}

/// The request of the policy, or why it cannot be one. Configuration checks it first.
fn request(target: &Target) -> Result<Request<Empty<Bytes>>, String> {
    let Check::Http { path, method, headers, .. } = &target.policy.check else {
        return Err("no request for a check without HTTP".into());
    };
    let wrong = |error: &dyn Error| format!("the check's request cannot be sent: {error}");
    let request = Request::builder().method(&**method).uri(&**path);
    let mut request = request.body(Empty::new()).map_err(|error| wrong(&error))?;
    let fields = request.headers_mut();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| wrong(&error))?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|error| wrong(&error))?;
        fields.append(name, value);
    }
    if !fields.contains_key(HOST) {
        fields.insert(HOST, HeaderValue::from_str(&target.authority).map_err(|error| wrong(&error))?);
    }
    fields.entry(USER_AGENT).or_insert(NAME);
    fields.insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(request)
}

async fn judge(policy: &HealthPolicy, deadline: Instant, response: Response<Incoming>) -> Outcome {
    let Check::Http { expect, body: pattern, .. } = &policy.check else {
        return Outcome::NotAsked("no response to a check without HTTP".into());
    };
    let status = response.status().as_u16();
    let mut body = response.into_body();
    if !expect.contains(status) {
        say_goodbye(&mut body, deadline).await;
        return Outcome::Failed(format!("status {status}"));
    }
    let Some(pattern) = pattern else {
        say_goodbye(&mut body, deadline).await;
        return Outcome::Passed(format!("status {status}"));
    };
    match read(&mut body).await {
        Err(why) => Outcome::Failed(why),
        Ok(text) => matches(pattern.is_match(&text), status),
    }
}

/// The body, or its first [`BODY`] bytes.
async fn read(body: &mut Incoming) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    while text.len() < BODY {
        match body.frame().await {
            None => break,
            Some(Ok(frame)) => {
                let bytes = frame.into_data().unwrap_or_default();
                text.extend_from_slice(&bytes[..bytes.len().min(BODY - text.len())]);
            }
            Some(Err(error)) => return Err(format!("the body broke off: {}", explain(&error))),
        }
    }
    Ok(text)
}

/// Reads the rest of a response that is short and arrives soon. An error no longer changes the result of the check.
/// It ends no later than `deadline`: at the same moment the inner timeout is heard first.
async fn say_goodbye(body: &mut Incoming, deadline: Instant) {
    if !body.is_end_stream() {
        let _ = tokio::time::timeout_at(deadline.min(Instant::now() + GOODBYE), read(body)).await;
    }
}

/// What went wrong, in the words of an operator.
fn explain(error: &hyper::Error) -> String {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return words(error);
        }
        source = cause.source();
    }
    if error.is_parse_too_large() {
        return format!("the response's head is larger than {HEAD} bytes");
    }
    if error.is_canceled() {
        return "spoke or closed before it was asked".into();
    }
    if error.is_parse() {
        return "the response is not HTTP/1".into();
    }
    if error.is_incomplete_message() {
        return "closed before the end of the response".into();
    }
    error.to_string()
}

#[cfg(test)]
mod tests;
