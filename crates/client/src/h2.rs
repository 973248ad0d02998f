//! One request through HTTP/2, on a connection that is for nothing else: health checks and the exporter of traces.

use crate::error::words;
use h2::client::{self, ResponseFuture};
use hyper::body::Bytes;
use hyper::http::{HeaderMap, Request, Response};
use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes of a response's head, and of its trailers, at most.
const HEAD: u32 = 16 * 1024;
/// Once the verdict is clear: time in which the connection is ended in good order.
const GOODBYE: Duration = Duration::from_millis(100);

/// A response that has come whole, or as much of its body as was asked for.
#[derive(Debug)]
pub struct Answer {
    /// Its status and fields.
    pub head: Response<()>,
    /// Its body.
    pub body: Vec<u8>,
    /// Empty where there are none, and where the body was not read to its end.
    pub trailers: HeaderMap,
}

/// Sends `request` with this body over `stream`, and gives what is answered with at most `most` bytes of its body. The
/// caller bounds its time; cancel-safe: a dropped request closes its connection.
///
/// # Errors
/// What keeps it from an answer, in words.
pub async fn ask<S>(
    stream: S,
    (request, message): (Request<()>, Bytes),
    most: usize,
) -> Result<Answer, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut settings = client::Builder::new();
    settings.enable_push(false).max_header_list_size(HEAD);
    let opened = settings.handshake::<_, Bytes>(stream).await;
    let (sender, connection) = opened.map_err(|error| explain(&error))?;
    let exchange = async move {
        let mut sender = sender.ready().await.map_err(|error| explain(&error))?;
        let sent = sender.send_request(request, message.is_empty());
        let (response, mut body) = sent.map_err(|error| explain(&error))?;
        if !message.is_empty() {
            body.send_data(message, true).map_err(|error| explain(&error))?;
        }
        receive(response, most).await
    };
    let mut connection = pin!(connection);
    let answer = {
        let mut exchange = pin!(exchange);
        tokio::select! {
            biased;
            answer = &mut exchange => answer,
            ended = &mut connection => return Err(finish(ended, exchange).await),
        }
    };
    // Nothing holds it any more: it says farewell and ends.
    let _ = tokio::time::timeout(GOODBYE, connection).await;
    answer
}

/// The connection has ended before the exchange, which says why, unless it has just come to its end.
async fn finish(
    ended: Result<(), h2::Error>,
    exchange: impl Future<Output = Result<Answer, String>>,
) -> String {
    match ended {
        Err(error) => explain(&error),
        Ok(()) => exchange.await.err().unwrap_or_else(|| "closed before its answer".into()),
    }
}

async fn receive(response: ResponseFuture, most: usize) -> Result<Answer, String> {
    let response = response.await.map_err(|error| explain(&error))?;
    let (head, mut incoming) = response.into_parts();
    let mut body = Vec::new();
    let mut trailers = HeaderMap::new();
    while body.len() < most {
        match incoming.data().await {
            Some(Ok(piece)) => {
                let _ = incoming.flow_control().release_capacity(piece.len());
                body.extend_from_slice(&piece[..piece.len().min(most - body.len())]);
            }
            Some(Err(error)) => return Err(format!("the body broke off: {}", explain(&error))),
            None => {
                let came = incoming.trailers().await.map_err(|error| explain(&error))?;
                trailers.extend(came.unwrap_or_default());
                break;
            }
        }
    }
    Ok(Answer { head: Response::from_parts(head, ()), body, trailers })
}

/// What went wrong, in the words of an operator.
fn explain(error: &h2::Error) -> String {
    if let Some(error) = error.get_io() {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => "closed before its answer".into(),
            _ => words(error),
        };
    }
    match (error.is_remote(), error.reason()) {
        (true, Some(reason)) => format!("it said {reason:?}"),
        (false, Some(h2::Reason::PROTOCOL_ERROR | h2::Reason::FRAME_SIZE_ERROR)) => {
            "what it speaks is not HTTP/2".into()
        }
        _ => error.source().map_or_else(|| error.to_string(), ToString::to_string),
    }
}
