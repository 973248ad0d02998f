//! Taps: somebody watches exchanges as they end.
//!
//! `exchange/record.rs` offers each exchange that is over. A worker that nobody watches looks at one flag of its own
//! and does nothing else. A tap has a filter and a sample, looked at here; what fits goes to the reader's queue, and
//! what that has no room for is counted. Invariant: a worker waits for no reader, and a tap that is over costs nothing.

use super::{Around, Decision, Entry};
use crate::records::LabelRedactor;
use crate::state::exchange::{Exchange, Origin};
use crate::state::shared::{Command, Shared};
use crate::state::worker::Worker;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use thalweg_filter::Chain;
use thalweg_http::Version;
use thalweg_observe::condition::{Facts, NumberField, TextField};
use thalweg_observe::{Condition, IdShare, Limit, redact_field, redact_path, redact_query};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Taps at once.
pub const TAPS: usize = 8;
/// Exchanges that wait for the reader of a tap; what comes beyond is dropped and counted.
const QUEUE: usize = 512;
/// Bytes of names and values that are shown of a head; fields beyond are left out.
const HEAD: usize = 8 * 1024;
/// Fields that only HTTP/1 has.
const HTTP1: [&[u8]; 3] = [b"connection", b"keep-alive", b"transfer-encoding"];
/// Bytes that are shown of host, path and query each.
const TEXT: usize = 8 * 1024;

/// Which exchanges are watched: those that fit everything that is there.
#[derive(Clone, Debug)]
pub struct TapQuery {
    /// Name of the route.
    pub route: Option<String>,
    /// Name of the service.
    pub service: Option<String>,
    /// What else must hold.
    pub condition: Option<Condition>,
    /// The share of all exchanges that is looked at.
    pub sample: IdShare,
    /// Whether the fields of request and response are wanted.
    pub headers: bool,
    /// After this time no more are told.
    pub time: Duration,
}

/// An exchange as the reader of a tap gets it.
#[derive(Clone, Debug)]
pub struct Tapped {
    /// What was decided, with all of method, host, path and query (secrets redacted), 8 KiB of each.
    pub decision: Decision,
    /// The scheme that the client used.
    pub scheme: &'static str,
    /// The version of the protocol; empty where no request line could be read.
    pub proto: &'static str,
    /// The fields of both heads, where they are wanted.
    pub headers: Option<TappedHeaders>,
}

/// Fields of heads, in their order, without credentials.
#[derive(Clone, Debug, Default)]
pub struct TappedHeaders {
    /// As the client sent them. Of a tunnel, those that the access log has.
    pub request: Vec<(String, String)>,
    /// As they were sent to the client.
    pub response: Vec<(String, String)>,
    /// Some were left out: there were more than are shown.
    pub is_cut: bool,
}

/// What the reader of a tap hears.
#[derive(Debug)]
pub enum TapHeard {
    /// An exchange has ended.
    Exchange(Box<Tapped>),
    /// So many that fit were dropped since this was heard last: the reader is too slow.
    Dropped(u64),
}

/// A tap, on the side of its reader. It ends when it is dropped.
pub struct Tap {
    queue: mpsc::Receiver<Box<Tapped>>,
    open: Arc<OpenTap>,
    shared: Arc<Shared>,
    _place: OwnedSemaphorePermit,
}

/// The same on the side of the workers.
#[derive(Debug)]
pub(crate) struct OpenTap {
    query: TapQuery,
    ends_at: Instant,
    queue: mpsc::Sender<Box<Tapped>>,
    dropped: AtomicU64,
}

impl Tap {
    /// Begins to watch; `None`: there are [`TAPS`] already.
    pub(crate) fn begin(shared: &Arc<Shared>, query: TapQuery) -> Option<Self> {
        let place = Arc::clone(&shared.taps).try_acquire_owned().ok()?;
        let (sender, queue) = mpsc::channel(QUEUE);
        let ends_at = Instant::now() + query.time;
        let open = Arc::new(OpenTap { query, ends_at, queue: sender, dropped: AtomicU64::new(0) });
        shared.tell(|| Command::Tap(open.clone()));
        Some(Self { queue, open, shared: shared.clone(), _place: place })
    }

    /// The next thing to hear. Cancel-safe: nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<TapHeard> {
        // While something is dropped the queue is full: what is added to the count then is told behind the queue's
        // next.
        match self.open.dropped.swap(0, Relaxed) {
            0 => self.queue.recv().await.map(TapHeard::Exchange),
            dropped => Some(TapHeard::Dropped(dropped)),
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.tell(|| Command::Untap(self.open.clone()));
    }
}

/// The taps of one worker.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    is_on: Cell<bool>,
    wants_heads: Cell<bool>,
    open: RefCell<Vec<Arc<OpenTap>>>,
}

impl Taps {
    /// One more.
    pub(crate) fn add(&self, tap: Arc<OpenTap>) {
        self.open.borrow_mut().push(tap);
        self.note();
    }

    /// One fewer.
    pub(crate) fn remove(&self, tap: &Arc<OpenTap>) {
        self.open.borrow_mut().retain(|open| !Arc::ptr_eq(open, tap));
        self.note();
    }

    fn note(&self) {
        let open = self.open.borrow();
        self.is_on.set(!open.is_empty());
        self.wants_heads.set(open.iter().any(|tap| tap.query.headers));
    }

    /// Whether somebody watches.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// The head of the final response has been written: it is kept where a tap may want it.
    #[inline]
    pub(crate) fn keep_head(&self, x: &mut Exchange, head: &[u8]) {
        if self.wants_heads.get() {
            self.keep_sampled_head(x, head);
        }
    }

    #[cold]
    fn keep_sampled_head(&self, x: &mut Exchange, head: &[u8]) {
        let open = self.open.borrow();
        let wants = |tap: &&Arc<OpenTap>| tap.query.headers && tap.draws(x);
        if open.iter().any(|tap| wants(&tap)) {
            let kept = head[..head.len().min(2 * HEAD)].into();
            x.filtering.get_or_insert_default().sent_head = Some(kept);
        }
    }
}

impl OpenTap {
    /// Whether the exchange belongs to the sample. Only connections have no id: all of them do.
    fn draws(&self, x: &Exchange) -> bool {
        x.id.is_none_or(|id| self.query.sample.takes(id.as_bytes()))
    }

    fn wants(&self, facts: &ExchangeFacts<'_>) -> bool {
        let is = |name: Option<&Arc<str>>, wanted: &Option<String>| {
            wanted.as_deref().is_none_or(|wanted| name.is_some_and(|name| **name == *wanted))
        };
        let x = facts.x;
        self.draws(x)
            && is(x.route().map(|route| &route.name), &self.query.route)
            && is(x.service().map(|local| &local.state.service.name), &self.query.service)
            && self.query.condition.as_ref().is_none_or(|condition| condition.holds(facts))
    }
}

impl Worker {
    /// An exchange is over that took `total`: tells it to the taps that want it.
    #[cold]
    pub(crate) fn tap(&self, veil: &LabelRedactor, origin: Origin<'_>, x: &Exchange, total: Duration) {
        let facts = ExchangeFacts { x, veil, total };
        let now = self.reactor.now();
        let mut is_any_over = false;
        for tap in &*self.taps.open.borrow() {
            if now >= tap.ends_at {
                is_any_over = true;
                continue;
            }
            if !tap.wants(&facts) {
                continue;
            }
            match tap.queue.try_reserve() {
                Ok(place) => place.send(Box::new(self.tapped(&facts, origin, tap.query.headers))),
                Err(_) => {
                    tap.dropped.fetch_add(1, Relaxed);
                    self.meters.limit(Limit::Tap);
                }
            }
        }
        if is_any_over {
            self.taps.open.borrow_mut().retain(|tap| now < tap.ends_at);
            self.taps.note();
        }
    }

    fn tapped(&self, facts: &ExchangeFacts<'_>, origin: Origin<'_>, headers: bool) -> Tapped {
        let ExchangeFacts { x, veil, total } = *facts;
        let around = Around { has_queries: true, ..Around::of((self, veil), x, total) };
        let mut decision = Entry::of(origin, x, around, self.decisions.policy.get()).tell(self.id, false);
        // An entry has room for the beginning of them.
        let shown = |text: &[u8]| {
            let text = veil.over(text);
            text[..text.len().min(TEXT)].to_vec()
        };
        decision.trace = x.trace.get().map(|context| context.trace);
        decision.host = shown(x.authority());
        decision.path = redact_path(&shown(x.path.of(&x.received)));
        decision.query = x.query().map(|query| redact_query(&shown(query)));
        let is_read = x.request.len > 0;
        Tapped {
            decision,
            scheme: x.scheme(),
            proto: if is_read { x.request.version.label() } else { "" },
            headers: headers.then(|| headers_of(x, veil)),
        }
    }
}

fn headers_of(x: &Exchange, veil: &LabelRedactor) -> TappedHeaders {
    let mut headers = TappedHeaders::default();
    if x.request.len > 0 {
        let bytes = &x.received[..];
        let fields = x.request.fields.iter().map(|field| (field.name.of(bytes), field.value.of(bytes)));
        headers.request = shown_fields(fields, veil, &mut headers.is_cut);
        // Those whose names the redactor cannot know.
        for secret in x.chain().into_iter().flat_map(Chain::credential_fields) {
            let named = headers.request.iter_mut().filter(|(name, _)| name.eq_ignore_ascii_case(secret));
            named.for_each(|(_, value)| *value = "[redacted]".into());
        }
    }
    // Written by the proxy: a status line, and a line for each field.
    let head = x.filtering.as_ref().and_then(|filtering| filtering.sent_head.as_deref()).unwrap_or_default();
    let lines = head.split_inclusive(|byte| *byte == b'\n').skip(1);
    // A line that was cut is not shown: what is to be redacted of it may be gone.
    let lines = lines.filter(|line| line.ends_with(b"\n")).map(|line| line.trim_ascii_end());
    let fields = lines.filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii_start()))
    });
    // The head was written for HTTP/1; over HTTP/2 there are no fields of a connection (RFC 9113 §8.2.2).
    let is_http2 = x.request.len > 0 && x.request.version == Version::Http2;
    let is_of_http1 = |name: &[u8]| HTTP1.iter().any(|known| known.eq_ignore_ascii_case(name));
    let fields = fields.filter(|(name, _)| !is_http2 || !is_of_http1(name));
    headers.response = shown_fields(fields, veil, &mut headers.is_cut);
    headers
}

/// Fields without credentials and sealed labels, as far as there is room for them.
fn shown_fields<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    veil: &LabelRedactor,
    is_cut: &mut bool,
) -> Vec<(String, String)> {
    let mut room = HEAD;
    let mut shown = Vec::new();
    for (name, value) in fields {
        let Some(left) = room.checked_sub(name.len() + value.len()) else {
            *is_cut = true;
            break;
        };
        room = left;
        let name = String::from_utf8_lossy(name).into_owned();
        let value = veil.over(value);
        let value = String::from_utf8_lossy(&redact_field(&name, &value)).into_owned();
        shown.push((name, value));
    }
    shown
}

/// What a condition may ask of an exchange.
#[derive(Clone, Copy)]
struct ExchangeFacts<'a> {
    x: &'a Exchange,
    veil: &'a LabelRedactor,
    total: Duration,
}

impl Facts for ExchangeFacts<'_> {
    fn number(&self, field: NumberField) -> u64 {
        match field {
            NumberField::Status => self.x.status.into(),
            NumberField::Latency => u64::try_from(self.total.as_micros()).unwrap_or(u64::MAX),
            NumberField::Attempts => self.x.attempts.len() as u64,
            NumberField::BytesIn => self.x.upward.body(),
            NumberField::BytesOut => self.x.downward.body(),
        }
    }

    fn text(&self, field: TextField) -> Cow<'_, [u8]> {
        let x = self.x;
        let text = match field {
            TextField::Method => x.request.method_text.of(&x.received),
            // Who may watch may not find out a label by asking for it.
            TextField::Host => return self.veil.over(x.authority()),
            TextField::Path => return self.veil.over(x.path.of(&x.received)),
            TextField::Route => x.route().map_or(&[][..], |route| route.name.as_bytes()),
            TextField::Service => x.service().map_or(&[][..], |local| local.state.service.name.as_bytes()),
            TextField::Endpoint => return endpoint(x),
            TextField::User => x.user().unwrap_or_default().as_bytes(),
            TextField::Fault => x.fault.map_or(&[][..], |fault| fault.kind.name().as_bytes()),
            TextField::Proto if x.request.len > 0 => x.request.version.label().as_bytes(),
            TextField::Proto => &[],
        };
        Cow::Borrowed(text)
    }

    fn client_ip(&self) -> IpAddr {
        self.x.client_ip
    }
}

/// The endpoint of the last attempt.
fn endpoint(x: &Exchange) -> Cow<'_, [u8]> {
    let Some(last) = x.attempts.last() else { return Cow::Borrowed(&[]) };
    let endpoints = x.service().map_or(&[][..], |local| &local.state.service.endpoints[..]);
    match endpoints.get(last.endpoint as usize) {
        Some(endpoint) => Cow::Borrowed(endpoint.url.as_bytes()),
        None => x.aim.map_or(Cow::Borrowed(&[]), |aim| Cow::Owned(aim.to_string().into_bytes())),
    }
}
