//! One exchange as a module sees it, and what the module has decided about it.

use crate::head::{Edit, Field, Head};
use std::collections::VecDeque;

/// Properties that a module may set.
const PROPERTIES: usize = 32;
/// Bytes of one of them, with its name.
const PROPERTY: usize = 8 * 1024;
/// Calls of one exchange, and of a root context at a time.
pub(crate) const CALLS: usize = 16;
/// Bytes of the bodies of all of them.
const CALL_BYTES: usize = 256 * 1024;

/// One exchange, from its request to its end.
#[derive(Debug, Default)]
pub struct Stream {
    /// The request's head, with `:method`, `:path`, `:authority` and `:scheme` before the fields.
    pub request: Head,
    /// The response's head, with `:status` before the fields; empty before there is one.
    pub response: Head,
    /// Properties by their names, as in `request.path`.
    pub properties: Vec<(&'static str, Vec<u8>)>,
    pub(crate) phase: Phase,
    /// The body that may be read and changed now.
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) body_changed: bool,
    own: Vec<Field>,
    pub(crate) paused: bool,
    pub(crate) resumed: bool,
    pub(crate) closed: bool,
    pub(crate) local: Option<LocalResponse>,
    calls: Calls,
}

/// Calls that wait to be made.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    waiting: VecDeque<HttpCall>,
    /// How many there were, and the bytes of their bodies.
    count: usize,
    bytes: usize,
}

/// What may be changed now.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Phase {
    /// Nothing: the exchange has not begun, or is over.
    #[default]
    Outside,
    /// The request.
    Request,
    /// The response.
    Response,
    /// The body of a response whose head is gone.
    ResponseBody,
}

/// What becomes of an exchange after a call.
#[derive(Debug)]
pub enum Step {
    /// It goes on.
    Continue,
    /// The module waits, and nothing is under way that it waits for.
    Paused,
    /// The client gets this response.
    Respond(LocalResponse),
    /// The connection is to be closed.
    Close,
    /// A service is to be asked, whatever the module has said of the exchange; the module is told its answer by
    /// [`Context::answer`](crate::Context::answer).
    Call(HttpCall),
}

/// A response of the module's own.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LocalResponse {
    /// From 200 to 599.
    pub status: u16,
    /// Why, in words for the operator; may be empty.
    pub details: String,
    /// Its fields; the rule has allowed each.
    pub fields: Vec<Field>,
    /// Its body.
    pub body: Vec<u8>,
}

/// A call to a service.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HttpCall {
    /// Its number within the module.
    pub id: u32,
    /// The service, by its name: one of those that the plugin may call.
    pub service: String,
    /// The head, with `:method`, `:path` and `:authority`.
    pub fields: Vec<Field>,
    /// The body.
    pub body: Vec<u8>,
    /// How long it may take.
    pub timeout_ms: u32,
}

/// What a service has answered.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CallResponse {
    /// Its fields with `:status` before them; none: there was no answer.
    pub fields: Vec<Field>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Stream {
    /// An exchange that begins with this request.
    pub fn new(request: Head, properties: Vec<(&'static str, Vec<u8>)>) -> Self {
        Self { request, properties, ..Self::default() }
    }

    /// Fields and properties that the search for one property looks at, at most.
    pub(crate) fn looked_at(&self) -> usize {
        self.request.fields().len() + self.response.fields().len() + self.properties.len() + self.own.len()
    }

    /// The value of a property that the module has set.
    pub(crate) fn own_property(&self, name: &[u8]) -> Option<&[u8]> {
        self.own.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Keeps a property; says whether there was room.
    pub(crate) fn set_property(&mut self, name: Vec<u8>, value: Vec<u8>) -> bool {
        self.own.retain(|(known, _)| *known != name);
        let fits = self.own.len() < PROPERTIES && name.len() + value.len() <= PROPERTY;
        if fits {
            self.own.push((name, value));
        }
        fits
    }

    /// Has a service called; says whether there was room.
    pub(crate) fn call(&mut self, call: HttpCall) -> bool {
        self.calls.push(call)
    }

    /// A callback begins.
    pub(crate) fn begin(&mut self, phase: Phase) {
        self.phase = phase;
        self.resumed = false;
    }

    /// A callback has ended, and has said whether the exchange is to pause.
    pub(crate) fn end(&mut self, pauses: Option<bool>) -> Step {
        if let Some(pauses) = pauses {
            self.paused = pauses;
        }
        if std::mem::take(&mut self.resumed) {
            self.paused = false;
        }
        if std::mem::take(&mut self.closed) {
            return Step::Close;
        }
        if let Some(local) = self.local.take() {
            return Step::Respond(local);
        }
        match self.calls.next() {
            Some(call) => Step::Call(call),
            None if self.paused => Step::Paused,
            None => Step::Continue,
        }
    }

    /// What the module has changed of the request's head; it is forgotten.
    pub(crate) fn take_request_edits(&mut self) -> Vec<Edit> {
        self.request.take_edits()
    }

    /// The same of the response's head.
    pub(crate) fn take_response_edits(&mut self) -> Vec<Edit> {
        self.response.take_edits()
    }

    /// The body, if the module has changed it; it can be read no longer.
    pub(crate) fn take_body(&mut self) -> Option<Vec<u8>> {
        let body = self.body.take();
        body.filter(|_| std::mem::take(&mut self.body_changed))
    }
}

impl Calls {
    /// One more; says whether there was room.
    pub(crate) fn push(&mut self, call: HttpCall) -> bool {
        let fits = self.count < CALLS && self.bytes + call.body.len() <= CALL_BYTES;
        if fits {
            self.count += 1;
            self.bytes += call.body.len();
            self.waiting.push_back(call);
        }
        fits
    }

    /// The one that has waited longest.
    pub(crate) fn next(&mut self) -> Option<HttpCall> {
        self.waiting.pop_front()
    }

    /// There is room again for as many as do not wait.
    pub(crate) fn make_room(&mut self) {
        self.count = self.waiting.len();
        self.bytes = self.waiting.iter().map(|call| call.body.len()).sum();
    }
}
