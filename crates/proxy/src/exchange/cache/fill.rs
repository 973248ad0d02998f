//! Fetching a response for the store: an exchange of its own, whose response is decided on when its head is there.

use crate::exchange::cache::asked::{Asked, disk_of, fields};
use crate::exchange::cache::body;
use crate::exchange::cache::own_response::{Given, OwnResponse};
use crate::exchange::cache::part;
use crate::exchange::cache::unkeyed::is_unkeyed;
use crate::exchange::subrequest::{InnerRequest, start_for_route};
use crate::relay::ResponseSink;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use std::io;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_cache::request::FieldLines;
use thalweg_cache::{
    Failure, NotStored, REPLACED_FIELDS, Request, Response, StoredHead, UnixMillis, Validated, split_lines,
    use_on_failure, validated, write_conditions,
};
use thalweg_core::{Fault, FaultKind, Side};
use thalweg_disk::{Disk, Ticket};
use thalweg_filter::{CacheRule, FieldView};
use thalweg_http::h1::encode::write_field;
use thalweg_http::h1::framing::response_length;
use thalweg_http::{FieldId, FieldSet, HeadLimits, Method, Progress, ResponseHead};
use thalweg_store::{Broken, Lead, Object, Store};

/// For so long, requests under a key whose response was not for the store do not wait for each other.
const MARK_MILLIS: u64 = 60_000;

/// Larger bodies are not written again for a lifetime of fewer seconds than these.
const LARGE_BODY: u64 = 64 * 1024;
const SHORT_TTL: i64 = 60;

/// What belongs to the connection, or is made anew for each client.
const FRAMING: FieldSet = FieldSet::of(&[
    FieldId::Connection,
    FieldId::KeepAlive,
    FieldId::ContentLength,
    FieldId::TransferEncoding,
    FieldId::Trailer,
]);

/// A response that is to be fetched.
pub(crate) struct Fill {
    rule: Arc<CacheRule>,
    /// The fields of the request that causes it, as lines.
    lines: Vec<u8>,
    /// GET, or POST with this body.
    method: Method,
    body: Vec<u8>,
    has_credentials: bool,
    /// It is fetched anew, after another one's request.
    is_again: bool,
    lead: Lead,
    wanted: Wanted,
    /// Where it goes when it is not for the store.
    own: Option<OwnResponse>,
}

/// What is fetched.
pub(crate) enum Wanted {
    /// The whole; this is stored, and may still hold.
    Whole(Option<Arc<Object>>),
    /// The range that the request asks for; these parts are stored.
    Part(Option<Arc<Object>>),
}

/// Fields that frame the body of a request, which is here as a whole: they are made anew.
const OF_BODY: FieldSet =
    FieldSet::of(&[FieldId::ContentLength, FieldId::TransferEncoding, FieldId::Trailer, FieldId::Expect]);

/// Fields that ask for a part.
const OF_PARTS: FieldSet = FieldSet::of(&[FieldId::Range, FieldId::IfRange]);

impl Fill {
    /// One that a request causes.
    pub(crate) fn new(
        asked: &Asked,
        x: &Exchange,
        mut lead: Lead,
        (wanted, own): (Wanted, Option<OwnResponse>),
    ) -> Self {
        let mut lines = Vec::new();
        let is_part = matches!(wanted, Wanted::Part(_));
        for (name, value) in fields(x) {
            // What is not asked for is not taken either.
            if is_part || !OF_PARTS.contains(FieldId::classify(name)) {
                write_field(&mut lines, name, value);
            }
        }
        lead.bound(asked.rule.max_object);
        let has_credentials = asked.request(x).has_credentials;
        let body = body::received(x, &asked.rule).unwrap_or_default().to_vec();
        let method = if x.request.method == Method::Post { Method::Post } else { Method::Get };
        let (rule, is_again) = (asked.rule.clone(), asked.is_again);
        Self { rule, lines, method, body, has_credentials, is_again, lead, wanted, own }
    }

    /// The fields that the service gets: the client's, and those that filters have added.
    fn question(&self, x: &Exchange) -> (Vec<u8>, Vec<u8>) {
        let keyed = &self.rule.key.fields;
        let is_part = matches!(self.wanted, Wanted::Part(_));
        let is_sent = |name: &[u8]| {
            if OF_BODY.contains(FieldId::classify(name)) {
                return false;
            }
            is_part && OF_PARTS.contains(FieldId::classify(name))
                || !REPLACED_FIELDS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
        };
        let (mut own, mut by_filters) = (Vec::with_capacity(self.lines.len() + 64), Vec::new());
        for (name, value) in FieldView::new(&x.request.fields, &x.received, &[]).iter() {
            if is_sent(name) && (x.trusted_peer || !is_unkeyed(name, keyed)) {
                write_field(&mut own, name, value);
            }
        }
        if let Wanted::Whole(Some(object)) = &self.wanted {
            write_conditions(object.head(), &mut own);
        }
        let added = x.filtering.as_ref().map_or(&[][..], |filtering| &filtering.added);
        for (name, value) in FieldView::new(&[], &[], added).iter().filter(|(name, _)| is_sent(name)) {
            write_field(&mut by_filters, name, value);
        }
        (own, by_filters)
    }
}

/// Fetches it, as the route of this exchange does.
pub(crate) fn start(worker: &Worker, client: &Client, x: &Exchange, fill: Fill) {
    let request = InnerRequest::for_cache(worker, client, x, fill.question(x));
    let Fill { rule, lines, method, body, has_credentials, is_again, mut lead, wanted, own } = fill;
    let request = match method {
        Method::Post => request.map(|request| request.posting(body)),
        _ => request,
    };
    let disk = disk_of(worker, &rule).map(|disk| (disk.clone(), disk.ticket()));
    if let Some((disk, ticket)) = &disk {
        lead.spill_to(disk.tier(*ticket));
    }
    let sink = Sink {
        store: worker.shared.cache.clone(),
        rule,
        lines,
        method,
        has_credentials,
        is_again,
        wanted,
        own,
        disk,
        asked: now(),
        state: State::Waiting(lead),
    };
    start_for_route(worker, client, request, Box::new(sink));
}

/// What the response goes through.
enum State {
    /// Its head is not there.
    Waiting(Lead),
    /// It goes to the store.
    Storing(Lead),
    /// It goes to one client.
    Own(OwnResponse),
    /// It goes nowhere.
    Over,
}

struct Sink {
    store: Store,
    /// What is stored is written there too, unless it was purged since this moment.
    disk: Option<(Disk, Ticket)>,
    rule: Arc<CacheRule>,
    lines: Vec<u8>,
    method: Method,
    has_credentials: bool,
    is_again: bool,
    wanted: Wanted,
    own: Option<OwnResponse>,
    /// When the request was sent.
    asked: UnixMillis,
    state: State,
}

impl Sink {
    /// What is stored now goes to the disk too; of parts, nothing does. An earlier whole is not to come back from there
    /// in their place.
    fn put(&self, object: &Arc<Object>) {
        let Some((disk, ticket)) = &self.disk else { return };
        if object.head().is_part() {
            disk.remove_object(object);
        } else {
            disk.put(object, *ticket);
        }
    }

    /// What is stored, and may still hold.
    fn take_validated(&mut self) -> Option<Arc<Object>> {
        match &mut self.wanted {
            Wanted::Whole(object) => object.take(),
            Wanted::Part(_) => None,
        }
    }

    /// A stored response goes; from the disk first, so that it does not come back from there.
    fn remove(&self, object: &Arc<Object>) {
        if let Some((disk, _)) = &self.disk {
            disk.remove_object(object);
        }
        self.store.remove_object(object);
    }

    fn request(lines: &[u8], (method, has_credentials): (Method, bool)) -> Request<'_> {
        let mut request = Request::read(method, false, split_lines(lines));
        request.has_credentials |= has_credentials;
        request
    }

    /// The head is there.
    fn decide<'a>(&mut self, lead: Lead, response: &Response<'_>, fields: impl FieldLines<'a>) -> State {
        let lines = mem::take(&mut self.lines);
        let request = Self::request(&lines, (self.method, self.has_credentials));
        let Some(object) = self.take_validated() else {
            return self.keep((lead, &request), &lines, response, fields);
        };
        let policy = &self.rule.policy;
        match validated(policy, &request, object.head(), response, fields.clone()) {
            Validated::Freshened(head) => {
                // Where it was purged meanwhile, it answers those who wait and is not stored.
                let is_stored = lead.is_stored_when_complete();
                let freshened = lead.freshen(&object, *head);
                if is_stored && is_worth_writing(&object, &freshened) {
                    self.put(&freshened);
                }
            }
            Validated::UsedOnce(head, why) => {
                if why.is_of_response() {
                    self.remove(&object);
                }
                self.give(Given::Stored(head.into(), object));
                lead.not_stored(why, None);
            }
            Validated::VariesAnew(head) => {
                self.remove(&object);
                self.give(Given::Stored(head.into(), object));
                lead.not_stored(NotStored::Varies, None);
            }
            Validated::Repeat => {
                self.remove(&object);
                lead.fail(Broken::Failed);
            }
            Validated::Stale(_) => lead.answer_with(object),
            Validated::Replaced { drops_stored } => {
                if drops_stored {
                    self.remove(&object);
                }
                return self.keep((lead, &request), &lines, response, fields);
            }
        }
        State::Over
    }

    /// Stores the response, if it may be.
    fn keep<'a>(
        &mut self,
        (mut lead, request): (Lead, &Request<'_>),
        lines: &[u8],
        response: &Response<'_>,
        fields: impl FieldLines<'a>,
    ) -> State {
        let policy = &self.rule.policy;
        let mut variant = Vec::new();
        let made = match &self.wanted {
            Wanted::Whole(_) => StoredHead::new(policy, request, response, fields.clone()),
            Wanted::Part(parts) => {
                part::head_of(&self.rule, request, parts.as_deref(), response, fields.clone())
            }
        };
        let made = made.and_then(|head| {
            let is_known = head.vary.write_key(policy, split_lines(lines), &mut variant);
            if is_known { Ok(head) } else { Err(NotStored::Varies) }
        });
        let why = match made {
            Ok(head) => {
                let length = head.part.map(|part| part.len()).or(response.content_length);
                if lead.give_head(Arc::new(head), &variant, length) {
                    return State::Storing(lead);
                }
                NotStored::TooLarge
            }
            Err(why) => why,
        };
        let mut passed = Vec::new();
        for (name, value) in fields.filter(|(name, _)| !FRAMING.contains(FieldId::classify(name))) {
            write_field(&mut passed, name, value);
        }
        let length = response.content_length;
        self.give(Given::Response { status: response.status, lines: passed, length, not_stored: why });
        if response.status >= 400 && why.is_of_response() && !self.is_again {
            // It may be due to this one request: another one asks before all go there by themselves.
            lead.fail(Broken::Failed);
        } else {
            // What one range brings about says nothing of the whole.
            let is_marked = why.is_of_response() && matches!(self.wanted, Wanted::Whole(_));
            let until = is_marked.then(|| UnixMillis(response.received.0 + MARK_MILLIS));
            lead.not_stored(why, until);
        }
        self.own.take().map_or(State::Over, State::Own)
    }

    /// The client that has caused it gets this.
    fn give(&self, given: Given) {
        if let Some(own) = &self.own {
            own.give(given);
        }
    }

    /// There is no response.
    fn fail(&mut self, lead: Lead, fault: Fault) {
        let is_of_request = fault.side() == Side::Downstream || fault.kind == FaultKind::ProxyLoopDetected;
        if is_of_request {
            // It is told what is wrong with its own request when it goes alone.
            return lead.fail(Broken::Failed);
        }
        let Some(object) = self.take_validated() else { return self.tell(lead, fault) };
        let request = Self::request(&self.lines, (self.method, self.has_credentials));
        let is_upstream = matches!(fault.status, 500..=504);
        let failure = Failure::Unreachable;
        match use_on_failure(&self.rule.policy, &request, object.head(), failure, now())
            .filter(|_| is_upstream)
        {
            Some(_) => lead.answer_with(object),
            // RFC 9111 §5.2.2.2.
            None if is_upstream && object.head().freshness.must_validate => {
                self.tell(lead, Fault { status: 504, ..fault });
            }
            None => self.tell(lead, fault),
        }
    }

    /// The client that has caused it is told of the fault. So are those who wait where the service cannot be reached;
    /// what it has broken off may be due to this one request, and they ask again.
    fn tell(&self, lead: Lead, fault: Fault) {
        if !may_be_of_request(fault.kind) {
            return lead.fail_all(fault);
        }
        if let Some(own) = &self.own {
            own.end(Err(fault));
        }
        lead.fail(Broken::Failed);
    }
}

/// Whether the service has had the request and given nothing that is a response: it may do so for what one client has
/// written into its fields, and answer others.
fn may_be_of_request(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::ConnectionTerminated
            | FaultKind::HttpResponseIncomplete
            | FaultKind::HttpResponseHeaderSectionSize
            | FaultKind::HttpResponseTransferCoding
            | FaultKind::HttpResponseContentCoding
            | FaultKind::HttpUpgradeFailed
            | FaultKind::HttpProtocolError
    )
}

impl ResponseSink for Sink {
    fn inform(&mut self, lines: &[u8]) {
        if let Some(own) = &self.own {
            own.inform(lines);
        }
    }

    fn head(&mut self, text: &[u8]) {
        let State::Waiting(lead) = mem::replace(&mut self.state, State::Over) else { return };
        let mut head = ResponseHead::new();
        // Its bounds were those of the configuration when it came.
        let limits = HeadLimits { line: text.len(), head: text.len(), fields: text.len() };
        let is_read = matches!(head.parse(text, &limits), Ok(Progress::Complete));
        if !is_read || head.status < 200 {
            self.state = State::Waiting(lead);
            return;
        }
        let fields = FieldView::new(&head.fields, text, &[]).iter();
        let mut response =
            Response::read(&self.rule.policy, head.status, (self.asked, now()), fields.clone());
        response.content_length = match head.status {
            204 => Some(0),
            _ => response_length(&head, text).ok().flatten(),
        };
        self.state = self.decide(lead, &response, fields);
    }

    fn poll_push(&mut self, bytes: &[u8], context: &Context<'_>) -> Poll<io::Result<usize>> {
        match &mut self.state {
            State::Storing(lead) => {
                ready!(lead.poll_room(context));
                let appended = lead.append(bytes).map(|()| bytes.len());
                Poll::Ready(appended.map_err(|_| io::ErrorKind::BrokenPipe.into()))
            }
            State::Own(own) => own.poll_push(bytes, context).map(Ok),
            State::Waiting(_) | State::Over => Poll::Ready(Ok(bytes.len())),
        }
    }

    fn let_go(&mut self) {
        if let State::Storing(lead) = &self.state {
            lead.let_go();
        }
    }

    fn is_done(&self) -> bool {
        match &self.state {
            State::Waiting(_) => false,
            State::Storing(lead) => !lead.is_wanted(),
            State::Own(own) => own.has_left(),
            State::Over => true,
        }
    }

    fn end(&mut self, outcome: Result<(), Fault>) {
        match (mem::replace(&mut self.state, State::Over), outcome) {
            (State::Waiting(lead), Err(fault)) => self.fail(lead, fault),
            // What is not complete is broken for its readers, and not stored.
            (State::Storing(lead), Ok(())) => {
                if let Ok(Some(object)) = lead.finish() {
                    self.put(&object);
                }
            }
            (State::Storing(lead), Err(_)) => lead.fail(Broken::Failed),
            (State::Own(own), outcome) => own.end(outcome),
            (State::Waiting(_), Ok(())) | (State::Over, _) => {}
        }
    }
}

/// Whether a freshened response is to be written with its body once more. Where it is stale again soon, what the disk
/// has of it is as good: that is stale already, so that it is validated before it is used.
fn is_worth_writing(old: &Object, new: &Object) -> bool {
    let now = now();
    let is_short = new.head().freshness.ttl(now) < SHORT_TTL && new.body().len() > LARGE_BODY;
    old.head().freshness.is_fresh(now) || !is_short
}

fn now() -> UnixMillis {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(time.as_millis() as u64)
}
