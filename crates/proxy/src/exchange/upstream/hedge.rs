//! Part of phase 5: a copy of a request that is slow to be answered goes to another endpoint, and the first response
//! wins (`retry.hedge`).
//!
//! `exchange/upstream/await_response.rs` asks here when the time has come. From then on the two are a race: who has the
//! head of a response first, or passes an interim one on, is the one; the other's connection is closed. One that fails,
//! or whose status calls for another attempt, is out as long as the other runs; the last one's fate is that of the
//! attempt.
//!
//! A copy is an attempt (`retry.attempts` bounds both together) with a budget of its own, and never waits for a
//! place or a connection. Nothing is kept for it before it is sent: all of it is in one box.

use crate::exchange::unseal::check_reach;
use crate::exchange::upstream::await_response::{Wait, late, receive, time_to_answer};
use crate::exchange::upstream::connect::{self, Upstream, count, poll_connected, service};
use crate::exchange::upstream::connection_permit::place_at_once;
use crate::exchange::upstream::forward::{TRIES, is_cheap, is_race, tell};
use crate::exchange::upstream::pick::choose_at_once;
use crate::exchange::upstream::request_head::write_request;
use crate::exchange::upstream::tls::{self, Failed, poll_secure};
use crate::h2;
use crate::relay::Flow;
use crate::state::exchange::{Attempt, Client, Exchange};
use crate::state::local_plan::LocalService;
use crate::state::waiting::LATE;
use crate::state::worker::Worker;
use std::future::poll_fn;
use std::mem::{swap, take};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};
use thalweg_core::{Fault, FaultKind};
use thalweg_http::Upgrade;
use thalweg_observe::Limit;
use thalweg_upstream::{Connection, ConnectionPlaces};

/// The time without a response after which another endpoint is asked too; `None`: it is not.
pub(crate) fn hedge_after(x: &Exchange) -> Option<Duration> {
    let service = &x.service()?.state.service;
    let hedge = service.retry.hedge?;
    // Who is kept at one endpoint is not moved because it is slow.
    let may = service.sticky.is_none() && may_be_copied(x);
    (may && hedge.after < time_to_answer(x)).then_some(hedge.after)
}

/// What is left of the time for the response's head, once another endpoint is asked or would have been.
pub(crate) fn time_after_hedge(x: &Exchange) -> Duration {
    let hedge = x.service().and_then(|local| local.state.service.retry.hedge);
    time_to_answer(x).saturating_sub(hedge.map_or(Duration::ZERO, |hedge| hedge.after))
}

/// Whether a second copy is safe, and an attempt is left for it.
fn may_be_copied(x: &Exchange) -> bool {
    x.left > 1
        && x.replayable
        && x.upgrade == Upgrade::None
        && x.request.method.is_idempotent()
        && x.attempts.len() + 1 < TRIES
        && x.filtered().is_none_or(|filtering| filtering.spooled.is_none())
}

/// The copy, and the attempt that it is.
#[derive(Debug)]
pub(crate) struct Rival {
    upstream: Upstream,
    attempt: Attempt,
    /// When its connect began; then, when it was sent.
    began: Instant,
    step: Step,
    /// Why there is no connection, for the operator.
    why: Option<Box<str>>,
    /// The copy, as far as it has not been sent; while its answer is read, the first one's.
    flow: Flow,
    /// The part of a head that has come of it; while its answer is read, of the first one.
    answered: Vec<u8>,
    wait: Wait,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Connecting,
    Connected,
    /// It has been composed; what the endpoint takes of it is sent.
    Asked,
}

/// Finds another endpoint that can be asked at once, and pays for it. A connection is taken from the pool, or begun.
pub(crate) fn find_rival(worker: &Worker, x: &mut Exchange, first: &Upstream) -> Option<Box<Rival>> {
    let local = &service(x).ok()?;
    x.tried.push(first.attempt_guard.index);
    let chosen = choose_at_once(worker, x, local, &x.tried);
    x.tried.pop();
    let chosen = chosen.filter(|chosen| check_reach(worker, x, &chosen.attempt_guard).is_ok())?;
    if chosen.attempt_guard.pool.is_empty() && !worker.make_upstream_room() {
        return None;
    }
    let is_multiplexed = connect::is_multiplexed(x, local, &chosen.attempt_guard);
    if is_multiplexed && !chosen.attempt_guard.pool.multiplexed_pool.has_room() {
        // A copy waits for no connection that others are to have too.
        return None;
    }
    let now = worker.reactor.now();
    if !local.state.retries.may_hedge(now) {
        worker.meters.limit(Limit::Hedges);
        return None;
    }
    let (attempt_guard, place) = (chosen.attempt_guard, chosen.place);
    let mut attempt = Attempt { is_copy: true, ..x.attempts.begin(attempt_guard.endpoint, x.age(now)) };
    let idle = connect::idle(local, x, &attempt_guard, now, false);
    if idle.is_none() && is_multiplexed {
        return None;
    }
    let (mut connection, step) = match idle {
        Some(connection) => {
            attempt.reused = true;
            connection.socket.set_owner(x.owner);
            (connection, Step::Connected)
        }
        None => {
            let places = place_at_once(local, &attempt_guard, &mut ConnectionPlaces::default())?;
            match connect::begin(worker, x, &attempt_guard) {
                Ok(connection) => (connection.with(places), Step::Connecting),
                Err(fault) => {
                    count(worker, local, &attempt_guard, Some(&fault.into()));
                    x.attempts.beside(Attempt { fault: Some(fault), ended: attempt.began, ..attempt });
                    return None;
                }
            }
        }
    };
    if step == Step::Connecting {
        let connect = x.timeouts().connect;
        connection.socket.set_deadline(Some(connect));
    }
    connection.requests += 1;
    x.left -= 1;
    let upstream = Upstream { connection, attempt_guard, _place: place };
    Some(Box::new(Rival {
        upstream,
        attempt,
        began: now,
        step,
        why: None,
        flow: Flow::default(),
        answered: Vec::new(),
        wait: Wait::default(),
    }))
}

/// Sends the copy and waits for either answer; gives the connection of the one whose head has been composed.
/// Cancel-safe: what is dropped is closed.
///
/// # Errors
/// The fault of whichever failed last, when both have.
pub(crate) async fn hedge(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (upstream, began): (Upstream, Instant),
    rival: Box<Rival>,
) -> Result<Upstream, Fault> {
    let local = &service(x)?;
    let both = [upstream.attempt_guard.index, rival.upstream.attempt_guard.index];
    let first = First { upstream, began, wait: Wait::default() };
    let mut race = Race { worker, client, local, first: Some(first), rival: Some(rival) };
    let outcome = poll_fn(|_| race.poll(x)).await;
    if outcome.is_err() {
        x.tried.retain(|member| !both.contains(member));
        x.tried.extend(both);
    }
    race.end(x, outcome)
}

/// The attempt that was slow.
#[derive(Debug)]
struct First {
    upstream: Upstream,
    began: Instant,
    wait: Wait,
}

/// Whose response it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Winner {
    First,
    Rival,
}

/// Those that are still under way.
struct Race<'a> {
    worker: &'a Worker,
    client: &'a Client,
    local: &'a LocalService,
    first: Option<First>,
    rival: Option<Box<Rival>>,
}

impl Race<'_> {
    fn poll(&mut self, x: &mut Exchange) -> Poll<Result<Winner, Fault>> {
        match self.poll_first(x) {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok(Winner::First)),
            Poll::Ready(Err(fault)) if self.rival.is_none() => return Poll::Ready(Err(fault)),
            Poll::Ready(Err(fault)) => self.lose_first(x, fault),
            Poll::Pending if self.first.as_ref().is_some_and(First::has_begun) => self.call_rival_off(x),
            Poll::Pending => {}
        }
        match self.poll_rival(x) {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok(Winner::Rival)),
            Poll::Ready(Err(fault)) if self.first.is_none() => return Poll::Ready(Err(fault)),
            Poll::Ready(Err(fault)) => self.lose_rival(x, fault),
            Poll::Pending if self.rival.as_ref().is_some_and(|rival| rival.has_begun()) => {
                self.call_first_off(x);
            }
            Poll::Pending => {}
        }
        if self.client.socket.expired() {
            let overdue = x.overdue(self.worker.reactor.now());
            return Poll::Ready(Err(overdue.unwrap_or_else(|| late(x))));
        }
        if self.client.socket.is_gone() || self.client.has_ended() {
            let fault =
                Fault::new(FaultKind::ClientGone, "the client closed the connection before the response");
            return Poll::Ready(Err(fault));
        }
        Poll::Pending
    }

    fn poll_first(&mut self, x: &mut Exchange) -> Poll<Result<(), Fault>> {
        let Some(first) = &mut self.first else { return Poll::Pending };
        first.wait.is_race = self.rival.is_some();
        check_cut(&first.upstream)?;
        x.response.clear();
        receive(self.worker, self.client, x, &mut first.upstream, &mut first.wait)
    }

    fn poll_rival(&mut self, x: &mut Exchange) -> Poll<Result<(), Fault>> {
        let Some(rival) = &mut self.rival else { return Poll::Pending };
        rival.wait.is_race = self.first.is_some();
        check_cut(&rival.upstream)?;
        if rival.step == Step::Connecting {
            ready!(rival.poll_connect(self.worker, self.local))?;
            count(self.worker, self.local, &rival.upstream.attempt_guard, None);
        }
        if rival.step == Step::Connected {
            rival.ask(self.worker, self.client, x, self.local)?;
        }
        if !rival.flow.is_done() && rival.flow.poll_flush(&rival.upstream.connection.socket).is_ready() {
            // Sent, or the endpoint takes no more of it: its answer may still come.
            rival.flow.release_buffers(&self.worker.warm.buffers);
        }
        x.response.clear();
        rival.exchange_places(x);
        let received = receive(self.worker, self.client, x, &mut rival.upstream, &mut rival.wait);
        if !matches!(received, Poll::Ready(Ok(()))) {
            rival.exchange_places(x);
        }
        received
    }

    /// The first one has failed; the copy goes on.
    fn lose_first(&mut self, x: &mut Exchange, fault: Fault) {
        let Some(first) = self.first.take() else { return };
        let reused = x.attempts.last().is_some_and(|attempt| attempt.reused);
        tell(self.worker, self.local, x, (&first.upstream.attempt_guard, first.began, reused), Some(&fault));
        x.attempts.fail(fault, x.age(self.worker.reactor.now()));
        x.tried.push(first.upstream.attempt_guard.index);
        x.answered.clear();
        if self.rival.as_ref().is_some_and(|rival| rival.answered.is_empty()) {
            x.first_byte = None;
        }
    }

    /// The copy has failed; the first one goes on.
    fn lose_rival(&mut self, x: &mut Exchange, fault: Fault) {
        let Some(mut rival) = self.rival.take() else { return };
        rival.tell(self.worker, self.local, x, &fault);
        (rival.attempt.fault, rival.attempt.ended) = (Some(fault), x.age(self.worker.reactor.now()));
        x.attempts.beside(rival.attempt);
        x.left += u32::from(is_cheap(&fault));
        x.tried.push(rival.upstream.attempt_guard.index);
        if x.answered.is_empty() {
            x.first_byte = None;
        }
    }

    /// What has gone to the client came of the first one.
    fn call_rival_off(&mut self, x: &mut Exchange) {
        if let Some(rival) = self.rival.take() {
            rival.outlasted(self.worker);
            x.attempts.beside(Attempt { ended: x.age(self.worker.reactor.now()), ..rival.attempt });
        }
    }

    /// What has gone to the client came of the copy.
    fn call_first_off(&mut self, x: &mut Exchange) {
        if let Some(first) = self.first.take() {
            let now = self.worker.reactor.now();
            x.attempts.call_off(x.age(now));
            first.upstream.attempt_guard.outlasted(now.saturating_duration_since(first.began), now);
        }
    }

    /// Tells what came of both; the one that has lost is closed.
    fn end(mut self, x: &mut Exchange, outcome: Result<Winner, Fault>) -> Result<Upstream, Fault> {
        let fault = outcome.err();
        if outcome == Ok(Winner::Rival) {
            self.call_first_off(x);
        }
        let Some(first) = self.first.take() else {
            let Some(rival) = self.rival.take() else { return Err(fault.unwrap_or(NOBODY)) };
            x.attempts.push(rival.attempt);
            return match fault {
                Some(fault) => {
                    rival.tell(self.worker, self.local, x, &fault);
                    Err(fault)
                }
                None => Ok(rival.win(self.worker, self.local, x)),
            };
        };
        self.call_rival_off(x);
        let reused = x.attempts.last().is_some_and(|attempt| attempt.reused);
        tell(
            self.worker,
            self.local,
            x,
            (&first.upstream.attempt_guard, first.began, reused),
            fault.as_ref(),
        );
        fault.map_or(Ok(first.upstream), Err)
    }
}

const NOBODY: Fault = Fault::new(FaultKind::ProxyInternalError, "a request that nobody was asked for");

/// Its endpoint may have been taken away meanwhile.
fn check_cut(upstream: &Upstream) -> Result<(), Fault> {
    let detail = "the endpoint was removed and its drain time is over";
    match upstream.attempt_guard.standing.is_cut() {
        true => Err(Fault::new(FaultKind::ConnectionTerminated, detail)),
        false => Ok(()),
    }
}

impl First {
    /// Whether something of it has gone to the client.
    fn has_begun(&self) -> bool {
        self.wait.interim > 0
    }
}

impl Rival {
    /// Whether something of it has gone to the client.
    fn has_begun(&self) -> bool {
        self.wait.interim > 0
    }

    fn poll_connect(&mut self, worker: &Worker, local: &LocalService) -> Poll<Result<(), Fault>> {
        let Upstream { connection, attempt_guard, .. } = &mut self.upstream;
        let late = |connection: &Connection, fault| match connection.socket.expired() {
            true => Poll::Ready(Err(fault)),
            false => Poll::Pending,
        };
        if !connection.socket.is_layered() {
            if poll_connected(connection)?.is_pending() {
                return late(connection, LATE);
            }
            self.attempt.connect = self.began.elapsed();
        }
        match poll_secure(worker, local, (attempt_guard, connection)) {
            Poll::Pending => return late(connection, tls::LATE),
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(Failed { fault, why })) => {
                self.why = why;
                return Poll::Ready(Err(fault));
            }
        }
        if connection.socket.is_layered() {
            self.attempt.tls = self.began.elapsed().saturating_sub(self.attempt.connect);
        }
        connection.socket.set_deadline(None);
        self.step = Step::Connected;
        Poll::Ready(Ok(()))
    }

    /// Composes the copy.
    fn ask(
        &mut self,
        worker: &Worker,
        client: &Client,
        x: &mut Exchange,
        local: &LocalService,
    ) -> Result<(), Fault> {
        let endpoint = self.upstream.attempt_guard.endpoint;
        let first = take(&mut x.upward);
        if let Some(trace) = x.trace.get_mut() {
            trace.attempt = self.attempt.number;
        }
        let call = h2::call(&self.upstream.connection.socket);
        let head = write_request(worker, client, x, &local.state.service, (endpoint, call.is_some()));
        let fed = x.upward.feed(&x.received[x.request.len..x.consumed], None, &worker.chunks);
        // It has been received whole, which a body without a length does not show.
        x.upward.end_as(&first, &worker.chunks);
        if let Some(call) = call {
            x.upward.seal_first(call, head);
        }
        self.flow = std::mem::replace(&mut x.upward, first);
        fed?;
        self.step = Step::Asked;
        self.began = worker.reactor.now();
        if let Some(meters) = local.meters.get(endpoint as usize) {
            meters.requests.add(1);
            meters.hedges.add(1);
            meters.reused.add(u64::from(self.attempt.reused));
        }
        Ok(())
    }

    /// Puts what is known of its answer where answers are read, and what stands there aside.
    fn exchange_places(&mut self, x: &mut Exchange) {
        swap(&mut x.upward, &mut self.flow);
        swap(&mut x.answered, &mut self.answered);
    }

    /// Tells that it failed.
    fn tell(&self, worker: &Worker, local: &LocalService, x: &Exchange, fault: &Fault) {
        let attempt_guard = &self.upstream.attempt_guard;
        if self.step != Step::Asked {
            count(worker, local, attempt_guard, Some(&Failed { fault: *fault, why: self.why.clone() }));
        } else if fault.kind == FaultKind::HttpResponseTimeout {
            // It was asked later than the time began.
            self.outlasted(worker);
        } else {
            if is_race(fault, self.attempt.reused) {
                attempt_guard.pool.sweep();
            }
            tell(worker, local, x, (attempt_guard, self.began, self.attempt.reused), Some(fault));
        }
    }

    /// It had no answer yet, and is not asked any longer.
    fn outlasted(&self, worker: &Worker) {
        if self.step == Step::Asked {
            let now = worker.reactor.now();
            self.upstream.attempt_guard.outlasted(now.saturating_duration_since(self.began), now);
        }
    }

    /// It was the first to answer.
    fn win(self, worker: &Worker, local: &LocalService, x: &Exchange) -> Upstream {
        if let Some(meters) = local.meters.get(self.attempt.endpoint as usize) {
            meters.hedges_won.add(1);
        }
        let attempt_guard = &self.upstream.attempt_guard;
        tell(worker, local, x, (attempt_guard, self.began, self.attempt.reused), None);
        self.upstream
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_http::Method;
    use thalweg_net::Owner;

    fn exchange() -> Exchange {
        let mut x = Exchange::new(Owner::default());
        (x.left, x.replayable, x.request.method) = (2, true, Method::Get);
        x
    }

    #[test]
    fn only_what_is_safe_and_has_an_attempt_left_is_copied() {
        assert!(may_be_copied(&exchange()));
        let changes: [fn(&mut Exchange); 4] = [
            |x| x.left = 1,
            |x| x.replayable = false,
            |x| x.upgrade = Upgrade::WebSocket,
            |x| x.request.method = Method::Post,
        ];
        for (i, change) in changes.iter().enumerate() {
            let mut x = exchange();
            change(&mut x);
            assert!(!may_be_copied(&x), "change {i}");
        }
        let mut x = exchange();
        let attempt = Attempt { reused: true, ..Attempt::new(0, Duration::ZERO) };
        (1..TRIES).for_each(|_| x.attempts.push(attempt));
        assert!(!may_be_copied(&x), "one try is left for it, and none for what follows");
    }
}
