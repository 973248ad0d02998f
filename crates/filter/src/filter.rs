//! The interface of a filter, and what it answers.

use crate::request::EndCx;
use crate::{CacheRule, Reply, RequestCx, ResponseCx};
use std::any::Any;
use std::fmt::{self, Debug, Formatter};
use std::ops::BitOr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::{Fault, FaultKind, Notice};

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

    /// Fields of requests that hold credentials because this filter reads them there, by name: nobody is shown them.
    fn credential_fields(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The names of request fields that it overwrites or removes regardless of the client's values: trailers with
    /// these names are dropped too.
    fn own_fields(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The names of request fields to which it may give a value, as far as they are known from the configuration.
    fn set_fields(&self) -> Vec<&str> {
        self.own_fields()
    }

    /// Whether it may write or remove further request fields, which differ between requests.
    fn may_own_others(&self) -> bool {
        false
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

    /// Work beside the requests, as long as it stands in the configuration in force.
    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        None
    }

    /// The directory with whose files it answers.
    fn root(&self) -> Option<&Path> {
        None
    }

    /// What it has to do with the place that a request is sent to.
    fn moves(&self) -> Moves {
        Moves::Nothing
    }

    /// Whether it refuses those whom it does not know or like: what arrives through the admin API may not take it away.
    fn guards(&self) -> bool {
        false
    }

    /// Whether it may keep requests, or fields of them, from the service. A request is refused if another reading of
    /// its path belongs to a route with such a filter and the chosen route lacks it (decision 0005). A filter that does
    /// neither says so.
    fn restricts(&self) -> bool {
        true
    }

    /// Whether it is called if any reading of the path matches its condition, otherwise only if the matched form does.
    fn fits_any_reading(&self) -> bool {
        self.restricts()
    }

    /// Whether its decision may depend on the route: as a filter of another route it may decide otherwise about the
    /// same request, even if both have one text.
    fn decides_by_route(&self) -> bool {
        false
    }

    /// Whether it verifies who the client is, so that the service may answer for that client alone.
    fn verifies(&self) -> bool {
        false
    }

    /// Whether it answers every request that comes to it, so that none goes on: its route need not say where to.
    fn answers(&self) -> bool {
        false
    }

    /// How responses are cached. Such a filter is never called: see [`Chain::cache_for`](crate::Chain::cache_for).
    fn cache(&self) -> Option<Arc<CacheRule>> {
        None
    }

    /// Whether calls of gRPC-Web become calls of gRPC; the bodies are changed where they are relayed.
    fn bridges_grpc_web(&self) -> bool {
        false
    }

    /// Called with the head of the final response, the proxy's own answers included, from the last filter to the
    /// first.
    fn on_response(&self, _cx: &mut ResponseCx<'_>) {}

    /// Called when what [`ResponseCx::wait`] has asked for is there, or was not to be had.
    fn resume_response(&self, _cx: &mut ResponseCx<'_>, _got: Result<Fetched, Fault>) {}

    /// Called when the exchange is over, however it ended, and this filter has remembered something of it. An upgraded
    /// connection is over when it closes.
    fn on_end(&self, _cx: &mut EndCx<'_>) {}
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
    /// [`Filter::on_end`].
    pub const END: Self = Self(4);

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
    /// Something that runs beside the workers.
    Call(Call),
    /// The request's body, which is kept in memory. The exchange ends with 413 where it has more bytes than this.
    Body(usize),
}

/// What a [`Job::Call`] gives; the filter knows its type.
pub type Outcome = Box<dyn Any + Send>;

/// Something that runs beside the workers: it may wait for a store or a server, or take long to compute.
pub struct Call {
    /// What runs.
    pub work: Work,
    /// It is given up after this time, at most one minute. What blocks goes on then, and nobody waits for it.
    pub timeout: Duration,
}

/// What runs beside the workers.
pub enum Work {
    /// A future, on a runtime that all share: it must not block.
    Future(Pin<Box<dyn Future<Output = Outcome> + Send>>),
    /// A function that takes its time, on one of few threads. Those that find too many before them are not run.
    Blocking(Box<dyn FnOnce() -> Outcome + Send>),
}

impl Job {
    /// A future that runs beside the workers.
    pub fn call<T: Any + Send>(timeout: Duration, future: impl Future<Output = T> + Send + 'static) -> Self {
        let work = Work::Future(Box::pin(async { Box::new(future.await) as Outcome }));
        Self::Call(Call { work, timeout })
    }

    /// A function that takes its time and runs beside the workers.
    pub fn compute<T: Any + Send>(timeout: Duration, work: impl FnOnce() -> T + Send + 'static) -> Self {
        Self::Call(Call { work: Work::Blocking(Box::new(|| Box::new(work()))), timeout })
    }
}

impl Debug for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = if matches!(self.work, Work::Future(_)) { "a future" } else { "a function" };
        write!(f, "{kind}, for at most {:?}", self.timeout)
    }
}

/// Work of a filter beside the requests: what it knows is refreshed, whoever asks.
pub trait Upkeep: Debug + Send + Sync {
    /// Runs beside the workers, from when the configuration takes over until it is replaced or the process ends; it is
    /// dropped then, at whichever point it waits. It must not block.
    fn run(self: Arc<Self>, tools: UpkeepTools) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// What [`Upkeep`] is given.
#[derive(Clone)]
pub struct UpkeepTools {
    /// Writes a line for the operator.
    pub say: Arc<dyn Fn(Notice) + Send + Sync>,
}

impl Debug for UpkeepTools {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("tools")
    }
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
    /// What the call gave, or why it gave nothing: the time was over, too many calls are under way, or it panicked.
    Called(Result<Outcome, Fault>),
    /// The whole body, as the client has sent it, before any transform; `None`: it goes in both directions at once, as
    /// that of a call of gRPC or of an upgrade, and nobody waits for it.
    Body(Option<Vec<u8>>),
    /// In a dry run, nothing is asked of anybody: a filter acts as if it had been told that all is well.
    NotAsked,
}

impl JobResult {
    /// What a [`Job::Call`] of this type gave.
    ///
    /// # Errors
    /// The fault of a call that gave nothing.
    pub fn called<T: Any>(self) -> Result<T, Fault> {
        let unexpected =
            Fault::new(FaultKind::ProxyInternalError, "a filter was resumed with what it did not ask for");
        match self {
            Self::Called(Ok(outcome)) => outcome.downcast().map(|outcome| *outcome).map_err(|_| unexpected),
            Self::Called(Err(fault)) => Err(fault),
            _ => Err(unexpected),
        }
    }
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
