//! The interface of a filter, and what it answers.

use crate::{Reply, RequestCx, ResponseCx};
use std::any::Any;
use std::fmt::Debug;
use std::ops::BitOr;
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::Fault;

/// One step on the request, the response, or both, of a route.
///
/// A filter overrides what it needs. What it does not name in [`Self::hooks`] is never called. It is bounded and does
/// not block: where it has to wait, it returns [`Verdict::Wait`] and is resumed.
pub trait Filter: Any + Debug + Send + Sync {
    /// The word in the configuration.
    fn name(&self) -> &'static str;

    /// Its argument on one line, for people: differences between two configurations are told with it. It contains no
    /// secret.
    fn argument(&self) -> String;

    /// The sides that it takes part in.
    fn hooks(&self) -> Hooks;

    /// The captures of the route's path that its texts use, by name or number; `check` compares them with the
    /// patterns of the route.
    fn captures(&self) -> Vec<String> {
        Vec::new()
    }

    /// Services to which it sends requests of its own, or copies, by name; `check` says where there is none of that
    /// name.
    fn calls(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// Services to which it may send a request in place of the one that the route says, by name; likewise.
    fn choices(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// A configuration takes over in which this filter stands where `former` stood: live state goes on. Called on the
    /// control thread, before any exchange.
    fn adopt(&self, _former: &dyn Filter) {}

    /// Called for each request, in the order of the filters.
    fn on_request(&self, _cx: &mut RequestCx<'_>) -> Verdict {
        Verdict::Continue
    }

    /// Called when what [`Verdict::Wait`] has asked for is there, or was not to be had.
    fn resume(&self, _cx: &mut RequestCx<'_>, _got: JobResult) -> Verdict {
        Verdict::Continue
    }

    /// Whether it is on, of one that the admin API turns on and off.
    fn is_on(&self) -> Option<bool> {
        None
    }

    /// The same filter turned on or off; `None`: it cannot be.
    fn switched(&self, _on: bool) -> Option<Arc<dyn Filter>> {
        None
    }

    /// What it has to do with the place that a request is sent to.
    fn moves(&self) -> Moves {
        Moves::Nothing
    }

    /// Whether calls of gRPC-Web become calls of gRPC; the bodies are changed where they are relayed.
    fn bridges_grpc_web(&self) -> bool {
        false
    }

    /// Called with the head of the final response, the proxy's own answers included, from the last filter to the
    /// first.
    fn on_response(&self, _cx: &mut ResponseCx<'_>) {}
}

/// The sides of an exchange that a filter takes part in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Hooks(u8);

impl Hooks {
    /// None.
    pub const NONE: Self = Self(0);
    /// [`Filter::on_request`].
    pub const REQUEST: Self = Self(1);
    /// [`Filter::on_response`].
    pub const RESPONSE: Self = Self(2);
    /// Both.
    pub const BOTH: Self = Self(3);

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Hooks {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What a filter has to do with the place that a request is sent to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Moves {
    /// Nothing.
    Nothing,
    /// It changes the host or the path: what the service says of places is not what the client knows.
    Request,
    /// It changes what services say of places back, or is there so that nothing does.
    Back,
    /// The same, and nobody has written it: a chain with [`Self::Request`] and without [`Self::Back`] has it at its
    /// end.
    BackImplied,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Verdict {
    /// The next filter is called, or the request goes on.
    Continue,
    /// The client gets this answer, and the request goes nowhere.
    Reply(Box<Reply>),
    /// The client gets the answer that belongs to this fault.
    Fault(Fault),
    /// The exchange waits; then the filter is resumed.
    Wait(Job),
}

/// What an exchange waits for.
#[derive(Debug)]
pub enum Job {
    /// Time. Zero is over at once.
    Sleep(Duration),
    /// A service's response.
    Fetch(Box<Subrequest>),
}

/// A request of a filter's own to a service.
#[derive(Clone, Debug)]
pub struct Subrequest {
    /// The service, by its name; one of [`Filter::calls`].
    pub service: Arc<str>,
    /// The method.
    pub method: Vec<u8>,
    /// Host and port that it names.
    pub host: Vec<u8>,
    /// Path and query.
    pub target: Vec<u8>,
    /// Fields as whole lines, without those of framing and of the connection.
    pub fields: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
    /// A larger body of the response is a fault, in bytes.
    pub max_response: usize,
    /// For the whole of it; at most one minute.
    pub timeout: Duration,
}

/// What came of a [`Job`].
#[derive(Debug)]
pub enum JobResult {
    /// The time is over.
    Slept,
    /// The response, or why there is none.
    Fetched(Result<Fetched, Fault>),
}

/// The response to a [`Subrequest`].
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Fetched {
    /// The status.
    pub status: u16,
    /// Its fields as whole lines.
    pub fields: Vec<u8>,
    /// Its body.
    pub body: Vec<u8>,
}
