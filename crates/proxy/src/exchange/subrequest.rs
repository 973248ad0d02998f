//! Requests that the proxy makes by itself: what filters fetch from services, copies of requests, and what is fetched
//! for the cache.
//!
//! Each is an exchange like any other, in a task of its own, whose client end is memory (`relay/inner.rs`) and whose
//! route is the service's own for such requests (`Plan::calls`), or that of the request that it is made for
//! (`LocalPlan::fills`): limits, pools, retries, health and metrics are those of every request. It has no filters, no
//! line in the access log and no decision record.

use crate::exchange::outcome::{STOPPED, Served, until_cut};
use crate::exchange::permits::enter;
use crate::exchange::read_request::bring_to_normal_form;
use crate::exchange::record::count;
use crate::exchange::respond::respond;
use crate::exchange::trace;
use crate::exchange::upstream::forward::forward;
use crate::exchange::upstream::request_head::write_target;
use crate::plan::ServiceId;
use crate::records::LabelRedactor;
use crate::relay::{Inner, InnerEnd, InnerResponse, ResponseSink, Tap, inner};
use crate::state::exchange::{Before, Client, Exchange};
use crate::state::local_plan::{LocalRoute, LocalService};
use crate::state::subrequests::{CopyGuard, Subrequests};
use crate::state::token::Token;
use crate::state::worker::Worker;
use crate::tls::client_cert_fields::write_client_cert_fields;
use std::cell::RefCell;
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use thalweg_core::{Fault, FaultKind, RequestId};
use thalweg_filter::{Fetched, FieldView, RequestCopy, Subrequest, TargetEdit, may_be_changed};
use thalweg_http::h1::encode::write_field;
use thalweg_http::{
    FieldId, FieldSet, Framing, HeadLimits, Method, Progress, ResponseHead, Upgrade, Version,
};
use thalweg_net::{OwnerWaker, Socket};
use thalweg_observe::trace::TraceContext;
use thalweg_observe::{Limit, WorkerMeters};

/// A larger response to a copy is cut off, in bytes.
const COPY_RESPONSE: usize = 1024 * 1024;
/// Of the places for exchanges, copies have the one in so many.
const SHARE: usize = 10;
/// Any of them is over after this time.
const LONGEST: Duration = Duration::from_secs(60);

/// Whom it is for.
#[derive(Debug)]
enum Destination {
    /// A service that a filter names.
    Service(Arc<str>),
    /// The service of another exchange, as its route has it.
    Route {
        route: Rc<LocalRoute>,
        service: Option<Rc<LocalService>>,
        target: Option<ServiceId>,
        listener: u16,
    },
}

/// What is asked.
#[derive(Debug)]
pub(crate) struct InnerRequest {
    destination: Destination,
    method: Vec<u8>,
    scheme: &'static str,
    host: Vec<u8>,
    target: Vec<u8>,
    /// Lines.
    fields: Vec<u8>,
    body: Vec<u8>,
    /// On whose behalf.
    client_ip: IpAddr,
    is_trusted: bool,
    id: Option<RequestId>,
    /// Where it stands in a trace.
    trace: Option<TraceContext>,
    /// For the whole of it, from when it is served; `None`: as long as its route allows.
    timeout: Option<Duration>,
    guard: Option<CopyGuard>,
    /// What filters have made of it.
    edited: Option<Box<Edited>>,
}

/// What filters have made of a request, as [`Filtering`] has it.
#[derive(Debug)]
struct Edited {
    target: TargetEdit,
    added: Vec<u8>,
    known: FieldSet,
}

impl InnerRequest {
    /// One that fetches for the cache what an exchange asks for, with these fields of its client and these of filters:
    /// the service sees it as it would see that of the client.
    pub(crate) fn for_cache(
        worker: &Worker,
        client: &Client,
        x: &Exchange,
        (fields, mut added): (Vec<u8>, Vec<u8>),
    ) -> Option<Self> {
        let of = x.route.as_ref()?;
        let view = worker.view.borrow().clone();
        let route = view.fills(of, |name| worker.shared.registry.route(worker.id, name));
        let destination =
            Destination::Route { route, service: x.service.clone(), target: x.target, listener: x.listener };
        let mut request = Self { timeout: None, ..Self::like(worker, x, destination) };
        request.fields = fields;
        request.method = b"GET".to_vec();
        said_by_peer(x, &mut request.fields);
        if x.is_secure {
            write_client_cert_fields(&mut added, client);
        }
        request.host = x.authority().to_vec();
        request.target = x.path.of(&x.received).to_vec();
        if let Some(query) = x.query() {
            request.target.push(b'?');
            request.target.extend_from_slice(query);
        }
        let (target, known) = match x.filtered() {
            Some(filtering) => (filtering.target.clone(), filtering.known),
            None => {
                let mut target = TargetEdit::default();
                target.begin(x.path.of(&x.received));
                (target, FieldSet::EMPTY)
            }
        };
        request.edited = Some(Box::new(Edited { target, added, known }));
        Some(request)
    }

    /// The same as a POST with this body.
    pub(crate) fn posting(self, body: Vec<u8>) -> Self {
        Self { method: b"POST".to_vec(), body, ..self }
    }

    /// One that goes where an exchange's goes, without fields and body.
    fn like(worker: &Worker, x: &Exchange, destination: Destination) -> Self {
        let host = x.filtering.as_ref().and_then(|filtering| filtering.host());
        let mut target = Vec::new();
        write_target(&mut target, x);
        Self {
            destination,
            method: x.request.method_text.of(&x.received).to_vec(),
            scheme: x.scheme(),
            host: host.unwrap_or_else(|| x.authority()).to_vec(),
            target,
            fields: Vec::new(),
            body: Vec::new(),
            client_ip: x.client_ip,
            is_trusted: x.trusted_peer,
            id: x.id,
            trace: trace_of(worker, x),
            timeout: Some(LONGEST),
            guard: None,
            edited: None,
        }
    }
}

/// Appends what a trusted peer has said of the client.
fn said_by_peer(x: &Exchange, fields: &mut Vec<u8>) {
    if !x.trusted_peer {
        return;
    }
    for id in [FieldId::XForwardedFor, FieldId::XForwardedProto, FieldId::XForwardedHost] {
        for value in x.request.values(&x.received, id) {
            write_field(fields, id.name().as_bytes(), value);
        }
    }
}

/// Has a request served whose response goes to a sink; without a route that is told that there is none.
pub(crate) fn start_for_route(
    worker: &Worker,
    client: &Client,
    request: Option<InnerRequest>,
    mut sink: Box<dyn ResponseSink>,
) {
    let Some(request) = request else {
        return sink.end(Err(Fault::new(FaultKind::ProxyInternalError, "a request without a route")));
    };
    let inner = Inner::to_sink(request, sink);
    worker.subrequests.push(client_of(worker, client, &inner));
}

/// Makes the client of a request of the proxy's own; it comes in where `of` did.
fn client_of(worker: &Worker, of: &Client, inner: &Rc<Inner>) -> Client {
    let mailbox = worker.mailbox().clone();
    let end = InnerEnd::new(inner.clone(), move |owner| OwnerWaker::waker(owner, mailbox.clone()));
    let socket = Socket::of_stream(&worker.reactor, Box::new(end), Token::Idle(u32::MAX).into());
    let (peer, port) = (of.peer, of.port);
    Client { socket, peer, port, requests: 0, before: Before::Introduction, place: of.place.guest() }
}

/// Has a service answer a request of a filter's. Cancel-safe: when it is dropped, the request is given up.
pub(crate) async fn fetch(
    worker: &Worker,
    client: &Client,
    x: &Exchange,
    request: Subrequest,
) -> Result<Fetched, Fault> {
    let Subrequest { service, method, host, target, fields, body, max_response, timeout } = request;
    let own = InnerRequest::like(worker, x, Destination::Service(service));
    let request = InnerRequest { method, host, target, fields, body, timeout: Some(timeout), ..own };
    let inner = Inner::new(request, (max_response, true));
    worker.subrequests.push(client_of(worker, client, &inner));
    let waiting = GiveUp(&inner);
    let response = poll_fn(|context| {
        if client.socket.is_gone() || (client.has_ended() && x.framing.is_empty()) {
            let detail = "the client left while a filter waited";
            return Poll::Ready(Err(Fault::new(FaultKind::ClientGone, detail)));
        }
        if let Some(overdue) = x.overdue(worker.reactor.now()) {
            return Poll::Ready(Err(overdue));
        }
        waiting.0.poll(context.waker()).map(Ok)
    });
    // It ends in time by itself: the deadline is that of the exchange.
    x.set_deadline(client, worker.reactor.now(), LONGEST);
    let response = response.await;
    client.socket.set_deadline(None);
    match response? {
        Ok(response) => read(&response),
        Err(_) if inner.is_too_large() => Err(Fault::response("a response to a filter that is too large")),
        Err(fault) => Err(fault),
    }
}

/// Its place in the trace of the exchange that it is made for.
fn trace_of(worker: &Worker, x: &Exchange) -> Option<TraceContext> {
    x.trace.get().map(|trace| trace.inner(worker.random.borrow_mut().u64(..)))
}

/// Gives a request up that nobody waits for any more; one that is over does not mind.
struct GiveUp<'a>(&'a Inner);

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

fn read(response: &InnerResponse) -> Result<Fetched, Fault> {
    let mut head = ResponseHead::new();
    match head.parse(&response.head, &HeadLimits::default())? {
        Progress::Complete => {}
        Progress::Partial => return Err(Fault::response("a head that is not whole")),
    }
    let mut fields = Vec::new();
    for (name, value) in FieldView::new(&head.fields, &response.head, &[]).iter() {
        write_field(&mut fields, name, value);
    }
    Ok(Fetched { status: head.status, fields, body: response.body.clone() })
}

/// Sends the copies that filters have asked for: now where the whole request is here, or else when its body has been
/// sent on. To be called when the request itself has its places.
pub(crate) fn start_copies(worker: &Worker, client: &Client, x: &mut Exchange) {
    let Some(filtering) = x.filtering.as_mut().filter(|filtering| !filtering.outcome.copies.is_empty())
    else {
        return;
    };
    let copies = std::mem::take(&mut filtering.outcome.copies);
    if x.upgrade != Upgrade::None {
        return;
    }
    let is_decoded = !filtering.outcome.transforms.is_empty();
    let body = match x.framing {
        Framing::Empty => Some(0),
        Framing::Length(length) => usize::try_from(length).ok(),
        Framing::Chunked | Framing::UntilClose => None,
    };
    let here = body.and_then(|length| x.received.get(x.request.len..x.request.len.checked_add(length)?));
    let mut pending = Vec::new();
    for copy in copies {
        let bytes = body.unwrap_or(copy.max_body);
        // What filters make of a body is not what comes by.
        let fits = bytes <= copy.max_body && (!is_decoded || body == Some(0));
        let Some(prepared) = fits.then(|| prepare(worker, client, x, (&copy, bytes))).flatten() else {
            worker.meters.limit(Limit::Copies);
            continue;
        };
        match here {
            Some(body) => prepared.launch(body),
            None => pending.push(prepared),
        }
    }
    if let (false, Some(filtering)) = (pending.is_empty(), x.filtering.as_mut()) {
        let most = pending.iter().map(|copy| copy.max_body).max().unwrap_or(0);
        let tap = CopyTap { pending, most, body: Vec::new(), meters: worker.meters.clone() };
        filtering.tap = Some(Rc::new(RefCell::new(tap)));
    }
}

/// A copy that may still lack its body.
#[derive(Debug)]
struct Prepared {
    queue: Rc<Subrequests>,
    inner: Rc<Inner>,
    client: Client,
    max_body: usize,
}

impl Prepared {
    /// It goes on its way with this body.
    fn launch(self, body: &[u8]) {
        self.inner.change_request(|request: &mut InnerRequest| request.body = body.to_vec());
        self.queue.push(self.client);
    }
}

/// The copy of a request as it goes upstream.
fn prepare(
    worker: &Worker,
    client: &Client,
    x: &Exchange,
    (copy, bytes): (&RequestCopy, usize),
) -> Option<Prepared> {
    let filtering = x.filtering.as_ref()?;
    // Real requests go first: copies have a tenth of the places, and none when memory is scarce.
    let budget = &worker.shared.loads.budget;
    let most = (budget.in_flight / budget.workers.max(1) / SHARE).max(1);
    let guard = worker.subrequests.enter(bytes, if worker.pressure.is_calm() { most } else { 0 })?;
    let mut fields = Vec::new();
    for (name, value) in FieldView::new(&x.request.fields, &x.received, &filtering.added).iter() {
        if passes(FieldId::classify(name), name) {
            write_field(&mut fields, name, value);
        }
    }
    said_by_peer(x, &mut fields);
    let own = InnerRequest::like(worker, x, Destination::Service(copy.service.clone()));
    let request = InnerRequest { fields, timeout: Some(copy.timeout), guard: Some(guard), ..own };
    let inner = Inner::new(request, (COPY_RESPONSE, false));
    let client = client_of(worker, client, &inner);
    Some(Prepared { queue: worker.subrequests.clone(), inner, client, max_body: copy.max_body })
}

/// Whether a field of a request belongs to its copy: those of the connection and of framing are made anew.
fn passes(id: FieldId, name: &[u8]) -> bool {
    id == FieldId::Via || str::from_utf8(name).is_ok_and(may_be_changed)
}

/// Collects a body for copies while it is sent on.
#[derive(Debug)]
pub(crate) struct CopyTap {
    pending: Vec<Prepared>,
    /// The most that one of them takes.
    most: usize,
    body: Vec<u8>,
    meters: Arc<WorkerMeters>,
}

impl Tap for CopyTap {
    fn restart(&mut self) {
        self.body.clear();
    }

    fn see(&mut self, payload: &[u8]) {
        let length = self.body.len() + payload.len();
        let before = self.pending.len();
        self.pending.retain(|copy| length <= copy.max_body);
        (self.pending.len()..before).for_each(|_| self.meters.limit(Limit::Copies));
        if length <= self.most && !self.pending.is_empty() {
            self.body.extend_from_slice(payload);
        } else {
            self.body = Vec::new();
        }
    }

    fn end(&mut self) {
        let body = std::mem::take(&mut self.body);
        self.pending.drain(..).for_each(|copy| copy.launch(&body));
    }
}

/// Serves a request of the proxy's own.
pub(crate) async fn serve_subrequest(worker: &Worker, client: Client, x: &mut Exchange) {
    let Some(inner) = inner(&client.socket).cloned() else { return x.leave() };
    x.begin(worker.reactor.now());
    let outcome = match inner.take_request() {
        Some(request) => serve(worker, &client, x, request).await,
        None => Err(Fault::new(FaultKind::ProxyInternalError, "a request that is none")),
    };
    if let Err(fault) = outcome {
        x.fault = Some(fault);
        x.status = if x.status == 0 { fault.status } else { x.status };
    }
    let took = x.started.elapsed();
    let grpc_status = count(worker, x, took);
    if x.trace.get().is_some() {
        trace::judge(worker, x, took);
        trace::tell(worker, (&LabelRedactor::of(worker), client.origin()), x, (grpc_status, took));
    }
    x.downward.release_buffers(&worker.warm.buffers);
    x.leave();
    inner.end(outcome);
}

async fn serve(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    request: InnerRequest,
) -> Result<(), Fault> {
    let guard = begin(worker, client, x, request)?;
    let underway = worker.take_on(x)?;
    let served = until_cut(worker, answer(worker, client, x)).await;
    drop((guard, underway));
    served.unwrap_or_else(|| Err(Fault::new(FaultKind::ProxyStopped, STOPPED)))
}

async fn answer(worker: &Worker, client: &Client, x: &mut Exchange) -> Result<(), Fault> {
    let _permits = enter(worker, client, x).await?;
    let upstream = forward(worker, client, x).await?;
    if x.status == 101 {
        return Err(Fault::response("the endpoint switched protocols"));
    }
    match respond(worker, client, x, upstream).await {
        Served::Broken(fault) => Err(fault),
        Served::Whole | Served::Switched(_) | Served::Answered(_) => Ok(()),
    }
}

/// The request becomes that of an exchange.
fn begin(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    request: InnerRequest,
) -> Result<Option<CopyGuard>, Fault> {
    let InnerRequest { method, scheme, host, target, fields, body, edited, .. } = request;
    let view = worker.view_for(client);
    x.head_limits = view.head_limits;
    for part in [&method[..], b" ", &target, b" HTTP/1.1\r\nHost: ", &host, b"\r\n", &fields, b"\r\n"] {
        x.received.extend_from_slice(part);
    }
    match x.request.parse(&x.received, &x.head_limits)? {
        Progress::Complete if x.request.len == x.received.len() => {}
        _ => return Err(Fault::request(400, "a request of a filter that is none")),
    }
    // Its end is one that frames messages by itself.
    x.request.version = Version::Http2;
    x.framing = match x.request.method {
        Method::Post | Method::Put | Method::Patch => Framing::Length(body.len() as u64),
        _ if body.is_empty() => Framing::Empty,
        _ => Framing::Length(body.len() as u64),
    };
    let id = request.id.unwrap_or_else(|| worker.next_id());
    bring_to_normal_form(&view.plan, (client.peer, id), x)?;
    if let Some(trace) = request.trace {
        x.request.strip(FieldId::Traceparent);
        x.trace.set(trace);
    }
    // What the proxy itself says of the client is not what a stranger does.
    for field in &mut x.request.fields {
        field.keep |= FieldId::classify(field.name.of(&x.received)) == FieldId::XForwardedOther;
    }
    if let Some(edited) = edited {
        let filtering = x.filtering.get_or_insert_default();
        (filtering.is_begun, filtering.known) = (true, edited.known);
        (filtering.target, filtering.added) = (edited.target, edited.added);
    }
    (x.client_ip, x.trusted_peer) = (request.client_ip, request.is_trusted);
    x.is_secure = scheme == "https";
    x.received.extend_from_slice(&body);
    x.consumed = x.request.len;
    x.keep_alive = false;
    match request.destination {
        Destination::Service(service) => {
            let meters = |name: &str| worker.shared.registry.route(worker.id, name);
            let unknown = || Fault::new(FaultKind::DestinationNotFound, "the service of a filter is gone");
            let (route, service) = view.call(&service, meters).ok_or_else(unknown)?;
            // The route has no filters at any listener.
            (x.route, x.listener) = (Some(route), u16::MAX);
            x.send_to(&view, Some(service));
        }
        Destination::Route { route, service, target, listener } => {
            (x.route, x.service, x.target, x.listener) = (Some(route), service, target, listener);
            x.is_fill = true;
        }
    }
    let own = x.timeouts().request;
    let most = request.timeout.map(|timeout| own.unwrap_or(LONGEST).min(timeout).min(LONGEST));
    x.ends_at = most.or(own).and_then(|most| x.started.checked_add(most));
    Ok(request.guard)
}
