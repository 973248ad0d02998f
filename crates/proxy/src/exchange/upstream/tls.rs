//! Part of phase 5, to endpoints that are reached through TLS: the handshake behind the connect, in the same deadline.
//!
//! What goes wrong here has a fault of its own, and beside it words for the operator that may quote the endpoint: these
//! go to its standing and to notices, never to clients.

use crate::state::exchange::{Attempt, Client, Exchange};
use crate::state::local_plan::LocalService;
use crate::state::waiting::given_up;
use crate::state::worker::Worker;
use crate::tls::layer::{Secured, facts, failure};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;
use thalweg_core::{Fault, FaultKind};
use thalweg_tls::{Connector, Failure, Offer, Refused, Session};
use thalweg_upstream::{Connection, Member};

/// Most characters of the words for the operator.
const WORDS: usize = 300;

/// No end of the handshake in time.
pub(crate) const LATE: Fault =
    Fault::new(FaultKind::ConnectionTimeout, "no end of the TLS handshake in time");
const NO_TERMS: Fault =
    Fault::new(FaultKind::TlsProtocolError, "it is not known how to secure the connection");

/// Why there is no connection.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) fault: Fault,
    /// More than the fault says, for the operator.
    pub(crate) why: Option<Box<str>>,
}

impl Failed {
    /// The reason in words.
    pub(crate) fn cause(&self) -> &str {
        self.why.as_deref().unwrap_or(self.fault.detail)
    }
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self { fault, why: None }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.fault.kind.name(), self.cause())
    }
}

/// Shakes hands on a new connection to the member, if it is reached through TLS. A burst of handshakes takes turns
/// with those of clients. Cancel-safe: a connection that is dropped on the way is closed.
pub(crate) async fn secure(
    worker: &Worker,
    client: &Client,
    x: &Exchange,
    (member, connection, attempt): (&Member, &mut Connection, &mut Attempt),
    offer: Offer,
) -> Result<(), Failed> {
    if connector(member)?.is_none() {
        return Ok(());
    }
    let began = Instant::now();
    let shaken = shake(worker, client, x, (member, connection), offer).await;
    attempt.tls = began.elapsed();
    if let Some(local) = x.service() {
        count(local, member, connection, shaken.is_ok());
    }
    shaken
}

async fn shake(
    worker: &Worker,
    client: &Client,
    x: &Exchange,
    (member, connection): (&Member, &mut Connection),
    offer: Offer,
) -> Result<(), Failed> {
    loop {
        worker.handshakes.take_turn().await;
        if let Poll::Ready(shaken) = poll_shake(worker, member, connection, offer) {
            return shaken;
        }
        if let Some(fault) = given_up(worker, client, x, LATE) {
            return Err(fault.into());
        }
        let mut called = false;
        poll_fn(|_| if std::mem::replace(&mut called, true) { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// As [`secure`], for one who polls, looks after the time, takes no turns and speaks HTTP/1.1. To be called until it is
/// ready, and no longer.
pub(crate) fn poll_secure(
    worker: &Worker,
    local: &LocalService,
    (member, connection): (&Member, &mut Connection),
) -> Poll<Result<(), Failed>> {
    if connector(member)?.is_none() {
        return Poll::Ready(Ok(()));
    }
    let shaken = poll_shake(worker, member, connection, Offer::Http1);
    if let Poll::Ready(shaken) = &shaken {
        count(local, member, connection, shaken.is_ok());
    }
    shaken
}

/// Begins the handshake, or goes on with it.
fn poll_shake(
    worker: &Worker,
    member: &Member,
    connection: &mut Connection,
    offer: Offer,
) -> Poll<Result<(), Failed>> {
    worker.handshakes.step(|| {
        if !connection.socket.is_layered()
            && let Some(connector) = connector(member)?
        {
            let session = Session::connect(connector, offer).map_err(|failure| failed(&failure))?;
            let secured = Secured::counted(session, &worker.shared.loads, worker.id);
            connection.socket.push_layer(Box::new(secured), &[]);
        }
        connection.socket.poll_handshake().map_err(|error| match failure(&error) {
            Some(failure) => failed(failure),
            None => broken_off(&error).into(),
        })
    })
}

fn connector(member: &Member) -> Result<Option<&Arc<Connector>>, Failed> {
    member.standing.connector().map_err(|_| NO_TERMS.into())
}

/// Counts a handshake that has ended.
fn count(local: &LocalService, member: &Member, connection: &Connection, done: bool) {
    let Some(meters) = local.meters.get(member.endpoint as usize) else { return };
    let resumed = facts(&connection.socket).is_some_and(|facts| facts.resumed);
    let counter = match (done, resumed) {
        (false, _) => &meters.tls_failed,
        (true, false) => &meters.tls_full,
        (true, true) => &meters.tls_resumed,
    };
    counter.add(1);
}

fn failed(failure: &Failure) -> Failed {
    let words = failure.to_string();
    let words: String = words.chars().take(WORDS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    Failed { fault: fault_of(failure), why: Some(words.into()) }
}

fn fault_of(failure: &Failure) -> Fault {
    let kind = match failure.kind() {
        Refused::ServerCertificate => FaultKind::TlsCertificateError,
        Refused::Alert => FaultKind::TlsAlertReceived,
        _ => FaultKind::TlsProtocolError,
    };
    Fault::new(kind, failure.what())
}

/// The fault of what a session says while a response is awaited; `None`: the connection broke off without TLS having
/// something to say. In TLS 1.3 an endpoint that wants a client certificate says so only now.
pub(crate) fn fault_of_session(error: &io::Error) -> Option<Fault> {
    failure(error).map(fault_of)
}

/// The connection ended within the handshake.
fn broken_off(error: &io::Error) -> Fault {
    let detail = match error.kind() {
        io::ErrorKind::UnexpectedEof => "the endpoint closed the connection within the TLS handshake",
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "the endpoint reset the connection within the TLS handshake"
        }
        _ => "the connection failed within the TLS handshake",
    };
    Fault::new(FaultKind::TlsProtocolError, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_fault_of_their_kind() {
        for (refused, kind) in [
            (Refused::ServerCertificate, FaultKind::TlsCertificateError),
            (Refused::Alert, FaultKind::TlsAlertReceived),
            (Refused::Version, FaultKind::TlsProtocolError),
            (Refused::Protocol, FaultKind::TlsProtocolError),
        ] {
            let failed = failed(&Failure::from(refused));
            assert_eq!(failed.fault, Fault::new(kind, refused.summary()));
            assert!(failed.to_string().starts_with(kind.name()), "{failed}");
        }
    }
}
