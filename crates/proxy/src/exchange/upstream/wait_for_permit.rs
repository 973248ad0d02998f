//! Part of phases 4 and 5: an exchange that found no place waits for one, or is refused.
//!
//! The wait ends with a place, at the queue's deadline, when somebody with a higher priority needs the
//! room in the queue, or when the client leaves. In each of the last three cases nothing is left
//! behind: giving up hands on what may just have been granted.

use crate::state::exchange::{Client, Exchange};
use crate::state::local_plan::LocalService;
use crate::state::worker::Worker;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;
use thalweg_core::{Fault, FaultKind};
use thalweg_http::Framing;
use thalweg_observe::Limit;
use thalweg_upstream::{Acquired, Permit, Rejected, Wait, WaitFor, WaitQueue};

/// The bound that has no free place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Bound {
    /// `max_in_flight` of the route.
    Route,
    /// `max_in_flight` of the service.
    Service,
    /// `max_in_flight` of every endpoint that could be used.
    Endpoints,
    /// `max_connections` of the service.
    ServiceConnections,
    /// `max_connections` of the endpoint.
    EndpointConnections,
}

/// Why there will be no place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reason {
    Full,
    Displaced,
    Late,
}

/// Where to wait.
pub(crate) struct Queue<'a> {
    pub(crate) line: &'a Arc<WaitQueue>,
    pub(crate) bound: Bound,
    /// Called once in line: what has become free before goes to the first there.
    pub(crate) offer: &'a dyn Fn(),
    pub(crate) wish: WaitFor,
}

/// Waits in line for a place. Cancel-safe.
pub(crate) async fn wait_for_permit(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    queue: Queue<'_>,
) -> Result<Permit, Fault> {
    match await_turn(worker, client, x, local, queue).await? {
        Acquired::Place(permit) => Ok(permit),
        Acquired::Alternative(_) => {
            Err(Fault::new(FaultKind::ProxyInternalError, "given what nobody wanted"))
        }
    }
}

/// Waits in line for a place, or for what would do instead. Cancel-safe.
pub(crate) async fn await_turn(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    local: &LocalService,
    queue: Queue<'_>,
) -> Result<Acquired, Fault> {
    let Queue { line, bound, offer, wish } = queue;
    let priority = x.route().map(|route| route.limits.priority).unwrap_or_default();
    let began = Instant::now();
    let tally = local.queued();
    x.set_deadline(client, worker.reactor.now(), line.timeout());
    let mut wish = Some(wish);
    let mut wait: Option<Wait> = None;
    let outcome = poll_fn(|context| {
        let wait = match &mut wait {
            Some(wait) => wait,
            none => match line.join_for(wish.take().unwrap_or_default(), priority, context.waker()) {
                Ok(joined) => {
                    let wait = none.insert(joined);
                    offer();
                    wait
                }
                Err(_) => return Poll::Ready(Err(refusal(worker, bound, Reason::Full))),
            },
        };
        match wait.poll(context) {
            Poll::Ready(Ok(got)) => return Poll::Ready(Ok(got)),
            Poll::Ready(Err(Rejected::Full | Rejected::Displaced)) => {
                return Poll::Ready(Err(refusal(worker, bound, Reason::Displaced)));
            }
            Poll::Pending => {}
        }
        if has_left(client, x) {
            return Poll::Ready(Err(Fault::new(FaultKind::ClientGone, "the client left while it waited")));
        }
        if client.socket.expired() {
            let overdue = x.overdue(worker.reactor.now());
            return Poll::Ready(Err(overdue.unwrap_or_else(|| refusal(worker, bound, Reason::Late))));
        }
        Poll::Pending
    });
    let outcome = outcome.await;
    client.socket.set_deadline(None);
    let waited = began.elapsed();
    x.waited += waited;
    tally.meters().wait.record(waited);
    outcome
}

/// Whether the client has left: it has sent its request and closed its side, and its listener does not allow
/// half-close (decision 0007).
fn has_left(client: &Client, x: &Exchange) -> bool {
    let all_sent = match x.framing {
        Framing::Empty => true,
        Framing::Length(length) => (x.received.len() - x.request.len) as u64 >= length,
        _ => false,
    };
    client.socket.is_gone() || (client.has_ended() && all_sent && !x.is_connection)
}

fn refusal(worker: &Worker, bound: Bound, reason: Reason) -> Fault {
    worker.meters.limit(bound.limit());
    if reason != Reason::Late {
        worker.meters.limit(Limit::Queue);
    }
    Fault::new(FaultKind::ConnectionLimitReached, bound.detail(reason))
}

impl Bound {
    fn limit(self) -> Limit {
        match self {
            Self::Route => Limit::RouteInFlight,
            Self::Service => Limit::ServiceInFlight,
            Self::Endpoints => Limit::EndpointInFlight,
            Self::ServiceConnections => Limit::ServiceConnections,
            Self::EndpointConnections => Limit::EndpointConnections,
        }
    }

    fn detail(self, reason: Reason) -> &'static str {
        use Reason::{Displaced, Full, Late};
        match (self, reason) {
            (Self::Route, Full) => "max_in_flight of the route is reached and its queue is full",
            (Self::Route, Late) => "max_in_flight of the route is reached and no place came in time",
            (Self::Route, Displaced) => "max_in_flight of the route is reached and others had priority",
            (Self::Service, Full) => "max_in_flight of the service is reached and its queue is full",
            (Self::Service, Late) => "max_in_flight of the service is reached and no place came in time",
            (Self::Service, Displaced) => "max_in_flight of the service is reached and others had priority",
            (Self::Endpoints, Full) => "max_in_flight of every endpoint is reached and the queue is full",
            (Self::Endpoints, Late) => "max_in_flight of every endpoint is reached and no place came in time",
            (Self::Endpoints, Displaced) => {
                "max_in_flight of every endpoint is reached and others had priority"
            }
            (Self::ServiceConnections, Full) => {
                "max_connections of the service is reached and the queue is full"
            }
            (Self::ServiceConnections, Late) => {
                "max_connections of the service is reached and none was free in time"
            }
            (Self::ServiceConnections, Displaced) => {
                "max_connections of the service is reached and others had priority"
            }
            (Self::EndpointConnections, Full) => {
                "max_connections of the endpoint is reached and the queue is full"
            }
            (Self::EndpointConnections, Late) => {
                "max_connections of the endpoint is reached and none was free in time"
            }
            (Self::EndpointConnections, Displaced) => {
                "max_connections of the endpoint is reached and others had priority"
            }
        }
    }
}
