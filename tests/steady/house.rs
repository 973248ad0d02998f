//! A proxy of one worker within the test process, with its upstream: what `thalweg run` starts, less its control
//! thread.
//!
//! Metrics are on and the access log is off, as they are without a word in the configuration. The worker enlists
//! itself into a [`Tally`] by a filter on `/enlist`; the route of all other paths has only the filters that a
//! test gives it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_core::notice::Notice;
use thalweg_filter::{Chain, Filter, Hooks, RequestCx, Step, Verdict};
use thalweg_net::machine;
use thalweg_observe::{Registry, WorkerMeters};
use thalweg_proxy::{Allowance, Budget, Plan, WorkerPool, WorkerPoolOptions, bind_listeners};
use thalweg_tests::{STEP, Upstream};
use thalweg_upstream::Service;
use tokio::sync::mpsc;

use super::client::{Client, get};
use super::counting::Tally;

/// Puts the thread that it runs on into a tally.
#[derive(Debug)]
struct Enlist(Tally);

impl Filter for Enlist {
    fn name(&self) -> &'static str {
        "enlist"
    }

    fn argument(&self) -> String {
        String::new()
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn on_request(&self, _: &mut RequestCx<'_>) -> Verdict {
        self.0.enlist();
        Verdict::Continue
    }
}

/// A running fleet of one worker; stopped on drop.
pub(crate) struct House {
    pub(crate) fleet: WorkerPool,
    pub(crate) registry: Arc<Registry>,
    pub(crate) notices: mpsc::Receiver<Notice>,
    pub(crate) tally: Tally,
    /// Descriptors that this process may open.
    pub(crate) descriptors: usize,
    _upstream: Option<Upstream>,
}

impl House {
    /// Starts a fleet before `upstream`; `filters` stand on the route of every path but `/enlist`.
    pub(crate) fn start(upstream: Upstream, filters: Vec<Arc<dyn Filter>>) -> Self {
        Self::of(upstream, filters, |_| {})
    }

    /// Starts a fleet whose clients may speak HTTP/2 without TLS, before an endpoint at `url`; `more` are further
    /// top-level keys.
    pub(crate) fn of_http2(url: &str, more: &str) -> Self {
        Self::run((url, ""), ("h2c: true", more), Vec::new(), |_| {})
    }

    /// As [`Self::of_http2`], with filters on the route of every path but `/enlist`.
    pub(crate) fn with_filters(url: &str, filters: Vec<Arc<dyn Filter>>) -> Self {
        Self::run((url, ""), ("h2c: true", ""), filters, |_| {})
    }

    /// Starts a fleet before an endpoint at `url` that speaks HTTP/2, and is asked once for each request.
    pub(crate) fn before_http2(url: &str) -> Self {
        Self::run((url, ", protocol: http2, retry: { attempts: 1 }"), ("", ""), Vec::new(), |_| {})
    }

    /// As [`Self::start`], with a listener `dns` that takes datagrams, for an endpoint at this address.
    pub(crate) fn of_datagrams(upstream: Upstream, endpoint: SocketAddr) -> Self {
        let listener =
            format!("}}, dns: {{ address: \"127.0.0.1:0\", protocol: udp, to: [ \"udp://{endpoint}\" ]");
        let mut house = Self::run((&upstream.url(), ""), (&listener, ""), Vec::new(), |_| {});
        house._upstream = Some(upstream);
        house
    }

    /// As [`Self::start`], with a service that is not as it is without a word.
    pub(crate) fn of(
        upstream: Upstream,
        filters: Vec<Arc<dyn Filter>>,
        change: impl FnOnce(&mut Service),
    ) -> Self {
        Self::of_plan(upstream, filters, |plan| change(Arc::make_mut(&mut plan.services[0])))
    }

    /// As [`Self::start`], with a plan that is not as it is without a word.
    pub(crate) fn of_plan(
        upstream: Upstream,
        filters: Vec<Arc<dyn Filter>>,
        change: impl FnOnce(&mut Plan),
    ) -> Self {
        let mut house = Self::run((&upstream.url(), ""), ("", ""), filters, change);
        house._upstream = Some(upstream);
        house
    }

    fn run(
        (url, service): (&str, &str),
        (listener, more): (&str, &str),
        filters: Vec<Arc<dyn Filter>>,
        change: impl FnOnce(&mut Plan),
    ) -> Self {
        let config = format!(
            "listeners: {{ web: {{ address: \"127.0.0.1:0\", {listener} }} }}\n\
             services: {{ s: {{ endpoints: [ \"{url}\" ]{service} }} }}\n\
             routes:\n\
             - {{ name: enlist, match: {{ path: /enlist }}, to: s }}\n\
             - {{ name: rest, to: s }}\n\
             {more}\n"
        );
        let mut plan = thalweg_config::check_text("house.yaml", &config, &|_| None).unwrap().plan;
        change(&mut plan);
        let (tally, mut filters) = (Tally::new(), Some(filters));
        for route in &mut plan.routes {
            route.filters = match &*route.name {
                "enlist" => Chain::new(vec![Step::always(Arc::new(Enlist(tally)))]),
                _ => Chain::new(filters.take().unwrap_or_default().into_iter().map(Step::always).collect()),
            };
        }
        let descriptors = machine::raise_descriptor_limit();
        let allowance = Allowance { descriptors, memory: machine::memory(), workers: 1 };
        let budget = Budget::new(&plan.limits, plan.listeners.len(), allowance);
        let doors = bind_listeners(&plan, budget, &Default::default()).unwrap();
        let registry = Arc::new(Registry::new(1));
        let (notices_in, notices) = mpsc::channel(256);
        let options = WorkerPoolOptions {
            registry: registry.clone(),
            log: None,
            notices: notices_in,
            bans: mpsc::channel(1).0,
            spans: mpsc::channel(1).0,
            names: Default::default(),
            bell: Default::default(),
            challenges: Default::default(),
            waits: false,
        };
        let fleet = WorkerPool::start(plan, doors, options).unwrap();
        let house = Self { fleet, registry, notices, tally, descriptors, _upstream: None };
        Client::open(house.address()).ask(&get("/enlist"));
        assert!(house.tally.is_in_use(), "the worker is not counted");
        house
    }

    /// The address of its listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.fleet.bound()[0].address.parse().unwrap()
    }

    /// What its worker counts.
    pub(crate) fn meters(&self) -> Arc<WorkerMeters> {
        self.registry.worker(0)
    }

    /// Waits until something is true of the worker: it publishes at the end of a turn, which may be a moment
    /// after a client has its answer.
    ///
    /// # Panics
    /// When it does not become true within [`STEP`].
    pub(crate) fn settles(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        assert!(self.becomes(is_true), "not within {STEP:?}: {what}");
    }

    /// Whether something becomes true of the worker within [`STEP`].
    pub(crate) fn becomes(&self, is_true: impl Fn(&Self) -> bool) -> bool {
        let end = Instant::now() + STEP;
        while !is_true(self) {
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.fleet.stop();
    }
}
