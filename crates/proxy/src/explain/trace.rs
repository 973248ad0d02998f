//! The phases of an exchange, run on a question: what they decided, nothing more.

use super::caching::caching;
use super::explanation::CacheSeen;
use super::question::Asked;
use crate::exchange::filter_facts::Surroundings;
use crate::exchange::filter_request::{Filtered, From, apply};
use crate::exchange::find_route::{bound, take_route};
use crate::exchange::read_request::bring_to_normal_form;
use crate::exchange::redirect_https;
use crate::exchange::upstream::request_head::{check_loop, write_host, write_target};
use crate::plan::{Leads, Plan, Route, ServiceId, To};
use crate::state::exchange::Exchange;
use crate::state::token::Token;
use std::net::IpAddr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use thalweg_core::credentials::may_be_secret;
use thalweg_core::{Fault, FaultKind, RequestId};
use thalweg_filter::{Fetched, Job, JobResult, NoConnection, Reply, RequestCx};
use thalweg_http::Progress;
use thalweg_route::RouteId;
use thalweg_upstream::Service;

/// An exchange that ends where an endpoint would be chosen.
pub(super) struct Trace {
    pub(super) x: Exchange,
    pub(super) listener: u16,
    pub(super) route: Option<RouteId>,
    pub(super) service: Option<ServiceId>,
    /// The filters that ran, each with the path behind it and whether it has changed the request.
    pub(super) filters: Vec<(&'static str, String, bool)>,
    /// The service was drawn by chance: another time it may be another one.
    pub(super) by_chance: bool,
    /// Why the request is answered by the proxy itself.
    pub(super) fault: Option<Fault>,
    /// Where the client is sent instead.
    pub(super) redirect: Option<String>,
    /// The answer that the last of them gives.
    pub(super) reply: Option<Box<Reply>>,
    /// What the cache makes of it.
    pub(super) cache: Option<CacheSeen>,
    /// When the label in its host expires, in seconds since the Unix epoch.
    pub(super) expires: Option<u64>,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The route that takes it; also set where the request is refused afterwards.
    pub route: Option<RouteId>,
    /// The services that it may go to: one, or those of a split by chance that have a share. Empty when it is
    /// answered here.
    pub services: Vec<ServiceId>,
    /// The path that goes upstream, without the query; `None` when it is answered here.
    pub path: Option<String>,
    /// The proxy's own answer.
    pub fault: Option<Fault>,
    /// Where the client is sent instead.
    pub redirect: Option<String>,
    /// The status of the answer that a filter gives.
    pub reply: Option<u16>,
}

impl Verdict {
    /// The status of the proxy's own answer; `None` when a service answers.
    pub fn status(&self) -> Option<u16> {
        let redirect = self.redirect.as_ref().map(|_| redirect_https::STATUS);
        self.fault.map(|fault| fault.status).or(self.reply).or(redirect)
    }
}

/// Runs the phases.
pub(super) fn trace(plan: &Plan, asked: &Asked) -> Trace {
    let mut x = Exchange::new(Token::Task(0).into());
    x.received.extend_from_slice(&asked.bytes);
    (x.client_ip, x.is_secure) = (asked.peer, asked.is_secure);
    let (listener, filters) = (asked.listener, Vec::new());
    let mut trace = Trace {
        x,
        listener,
        route: None,
        service: None,
        filters,
        by_chance: false,
        fault: None,
        redirect: None,
        reply: None,
        cache: None,
        expires: None,
    };
    trace.fault = run(plan, asked, &mut trace).err();
    trace
}

fn run(plan: &Plan, asked: &Asked, trace: &mut Trace) -> Result<(), Fault> {
    let Trace { x, route, service, filters, by_chance, redirect, reply, cache, expires, .. } = trace;
    match x.request.parse(&x.received, &plan.head_limits())? {
        Progress::Complete => {}
        Progress::Partial => return Err(Fault::request(400, "the request head is not whole")),
    }
    bring_to_normal_form(plan, (asked.peer, RequestId::new(0, 0)), x)?;
    // A port that the kernel chooses is not known to the plan.
    let secure = plan.https_listener().and_then(|at| plan.listeners.get(at));
    let port = secure.and_then(|listener| listener.address.port()).filter(|port| *port != 0);
    if let Some(place) = redirect_https::place(plan, asked.listener, port, x)? {
        *redirect = Some(lossy(&place));
        return Ok(());
    }
    let (found, drawn) = take_route(plan, asked.listener, x, || {
        *by_chance = true;
        0
    })?;
    (*route, *service) = (Some(found), drawn);
    (x.listener, x.target) = (asked.listener, drawn);
    if let Some(route) = plan.route(Some(found)) {
        if let To::Sealed(route) = &route.to {
            let opened = route.open(x.host(), SystemTime::now(), |address| plan.is_own(address));
            let opened = opened.map_err(|reason| Fault::new(FaultKind::DestinationNotFound, reason));
            let (leads, destination) = opened?;
            match leads {
                Leads::Service(named) => (*service, x.target) = (Some(named), Some(named)),
                Leads::Aim(aim) => x.aim = Some(aim),
            }
            *expires = Some(destination.expires.unix());
        }
        bound(route, x)?;
        let around = surroundings(plan, asked.listener, x.client_ip);
        let outcome = filter(route, &around, x, filters);
        if x.target != *service {
            // A filter has chosen another one.
            (*service, *by_chance) = (x.target, false);
        }
        *reply = outcome?;
        if reply.is_none() {
            *cache = caching((route, plan.cache.disk.is_some()), &around, x);
        }
    }
    check_loop(x)
}

/// What surrounds a question.
fn surroundings(plan: &Plan, listener: u16, peer: IpAddr) -> Surroundings<'_> {
    let name = plan.listeners.get(usize::from(listener)).map_or("", |listener| &listener.name);
    let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    Surroundings {
        listener: name,
        peer,
        now: Instant::now(),
        unix_seconds,
        connection: &NoConnection,
        is_dry_run: true,
    }
}

/// Calls the filters of the route. What waits is over at once; the answer that one gives.
fn filter(
    route: &Route,
    around: &Surroundings<'_>,
    x: &mut Exchange,
    filters: &mut Vec<(&'static str, String, bool)>,
) -> Result<Option<Box<Reply>>, Fault> {
    let mut seen = |name: &'static str, cx: &RequestCx<'_>, is_changed: bool| {
        filters.push((name, lossy(cx.target.path()), is_changed));
    };
    let mut done = apply(route, around, (x, From::Start), &mut seen)?;
    loop {
        match done {
            Filtered::Through => return Ok(None),
            Filtered::Answered(reply) => return Ok(Some(reply)),
            Filtered::SentTo(_) => done = apply(route, around, (x, From::Choice), &mut seen)?,
            Filtered::Waits(Job::Sleep(_)) => {
                done = apply(route, around, (x, From::Job(JobResult::Slept)), &mut seen)?;
            }
            // Nothing is sent: it is told as what a service that lets everything pass would answer.
            Filtered::Waits(Job::Fetch(_)) => {
                let passes = Fetched { status: 200, ..Fetched::default() };
                done = apply(route, around, (x, From::Job(JobResult::Fetched(Ok(passes)))), &mut seen)?;
            }
            Filtered::Waits(Job::Call(_) | Job::Body(_)) => {
                done = apply(route, around, (x, From::Job(JobResult::NotAsked)), &mut seen)?;
            }
        }
    }
}

impl Trace {
    pub(super) fn verdict(&self, plan: &Plan) -> Verdict {
        let (fault, redirect) = (self.fault, self.redirect.clone());
        let reply = self.reply.as_ref().map(|reply| reply.status);
        let is_answered = fault.is_some() || redirect.is_some() || reply.is_some();
        let (services, path) = match is_answered {
            true => (Vec::new(), None),
            false => (self.services(plan), Some(lossy(self.x.upstream_path()))),
        };
        Verdict { route: self.route, services, path, fault, redirect, reply }
    }

    /// The services that the request may go to.
    pub(super) fn services(&self, plan: &Plan) -> Vec<ServiceId> {
        match plan.route(self.route).map(|route| &route.to) {
            Some(To::Split(split)) if self.by_chance => {
                let with_share = split.parts.iter().filter(|(_, weight)| *weight > 0);
                with_share.map(|(service, _)| *service).collect()
            }
            _ => self.service.into_iter().collect(),
        }
    }

    /// The target that goes upstream. Parameters added by filters are redacted if they may be secrets.
    pub(super) fn target(&self) -> String {
        let mut out = Vec::new();
        write_target(&mut out, &self.x);
        self.with_shown_query(&lossy(&out))
    }

    /// A target or the place of a redirect. Parameters that are not those of the request are redacted if they may be
    /// secrets.
    pub(super) fn with_shown_query(&self, whole: &str) -> String {
        let Some((path, query)) = whole.split_once('?') else { return whole.to_owned() };
        let asked = self.x.query().map(lossy).unwrap_or_default();
        let shown = |pair: &str| match pair.split_once('=') {
            Some((name, _)) if may_be_secret(name) && !asked.split('&').any(|known| known == pair) => {
                format!("{name}=[redacted]")
            }
            _ => pair.to_owned(),
        };
        format!("{path}?{}", query.split('&').map(shown).collect::<Vec<_>>().join("&"))
    }

    /// The host that goes upstream; `None` when it is that of whichever endpoint is chosen.
    pub(super) fn host(&self, service: &Service) -> Option<String> {
        let write = |endpoint| {
            let mut out = Vec::new();
            write_host(&mut out, &self.x, service, endpoint);
            lossy(&out)
        };
        if service.destinations.is_some() {
            return Some(write(None));
        }
        let mut hosts = service.endpoints.iter().map(|endpoint| write(Some(endpoint)));
        let first = hosts.next()?;
        hosts.all(|host| host == first).then_some(first)
    }
}

/// Bytes for people.
pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
