//! One check: on a connection of its own, within the policy's timeout.
//!
//! A connection that is kept would only say that the endpoint still serves this one: whether it
//! accepts new ones, and whether what answers behind a balancer is the one that took the last, shows
//! only on a new connection.

use crate::outcome::Outcome;
use crate::secure::Secure;
use crate::target::Target;
use crate::{grpc, http};
use std::future::Future;
use std::io;
use thalweg_client::{barred, words};
use thalweg_tls::Offer;
use thalweg_upstream::{Check, PeerAddress};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;

/// Who asks. Tests ask nobody.
pub(crate) trait Probe: Send + 'static {
    /// Asks `target` once.
    fn ask(&self, target: Target) -> impl Future<Output = Outcome> + Send + 'static;
}

/// Asks through the network.
#[derive(Debug)]
pub(crate) struct Network;

impl Probe for Network {
    fn ask(&self, target: Target) -> impl Future<Output = Outcome> + Send + 'static {
        ask_in_time(target)
    }
}

async fn ask_in_time(target: Target) -> Outcome {
    let timeout = target.timeout();
    let deadline = Instant::now() + timeout;
    match tokio::time::timeout_at(deadline, connect_and_ask(&target, deadline)).await {
        Ok(outcome) => outcome,
        Err(_) => Outcome::Failed(format!("timed out after {timeout:?}")),
    }
}

async fn connect_and_ask(target: &Target, deadline: Instant) -> Outcome {
    let asked = target.asked();
    // The endpoint's address was checked with its endpoint set; a different health-check port was not.
    if let (PeerAddress::Tcp(address), true) = (&asked, target.policy.port.is_some())
        && let Some(what) = barred(*address, true)
    {
        return Outcome::Failed(format!("not asked: its port is that of {what}"));
    }
    match asked {
        PeerAddress::Tcp(address) => over(target, deadline, TcpStream::connect(address).await).await,
        PeerAddress::Unix(path) => over(target, deadline, UnixStream::connect(path.as_path()).await).await,
    }
}

async fn over<S>(target: &Target, deadline: Instant, connected: io::Result<S>) -> Outcome
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let stream = match connected {
        Ok(stream) => stream,
        Err(error) => return Outcome::of_connect(&error),
    };
    match &target.policy.check {
        // Closed with FIN, not RST: the endpoint sees a client that had nothing to say, and logs no error.
        Check::Tcp => Outcome::Passed("connected".into()),
        Check::Http { .. } | Check::Grpc { .. } => match &target.tls {
            None => speak(target, deadline, stream).await,
            Some(connector) => match Secure::connect(stream, connector, offer(target)).await {
                Ok(stream) => speak(target, deadline, stream).await,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    Outcome::Failed("closed within the TLS handshake".into())
                }
                Err(error) => Outcome::Failed(words(&error)),
            },
        },
    }
}

/// What is offered to speak.
fn offer(target: &Target) -> Offer {
    match &target.policy.check {
        Check::Grpc { .. } => Offer::Http2,
        Check::Http { .. } if target.is_http2() => Offer::Http2,
        Check::Http { .. } | Check::Tcp => Offer::Http1,
    }
}

async fn speak<S>(target: &Target, deadline: Instant, stream: S) -> Outcome
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    match &target.policy.check {
        Check::Grpc { service } => grpc::ask(target, service, deadline, stream).await,
        Check::Http { .. } | Check::Tcp => http::ask(target, deadline, stream).await,
    }
}

#[cfg(test)]
mod tests;
