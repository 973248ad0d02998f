//! Whether there is room for another session, within the same bounds as for connections. One that has been answered and
//! then silent for a good part of its time makes room; else datagrams of clients that have no session are dropped.

use super::session::Session;
use crate::plan::ListenerProtocol;
use crate::state::client_limits::Prefix;
use crate::state::listener_sockets::ListenerId;
use crate::state::load::Crowded;
use crate::state::local_listener::{ConnectionGuard, LocalListener};
use crate::state::worker::Worker;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use thalweg_core::{Fault, FaultKind};
use thalweg_observe::Limit;

/// What operators are told, now and then.
const CROWDED: Fault = Fault::new(
    FaultKind::ConnectionLimitReached,
    "no place for another session: datagrams of further clients are dropped",
);

/// A place for a session of a client; `None`: there is no room.
pub(super) fn take_place(
    worker: &Worker,
    (port, local_listener): (u32, &Rc<LocalListener>),
    client: IpAddr,
) -> Option<ConnectionGuard> {
    let taken = find(worker, (port, local_listener), client);
    taken
        .map_err(|limit| {
            worker.meters.limit(limit);
            local_listener.meters.refused.add(1);
            worker.report(&CROWDED, format_args!("listener `{}`", local_listener.state.name), None);
        })
        .ok()
}

fn find(
    worker: &Worker,
    (port, local_listener): (u32, &Rc<LocalListener>),
    client: IpAddr,
) -> Result<ConnectionGuard, Limit> {
    let loads = &worker.shared.loads;
    if local_listener.is_crowded() && !worker.end_silent_session(Some((port, local_listener.state.id))) {
        return Err(Limit::Connections);
    }
    let here = &loads.workers[worker.id].clients;
    let places = loads.places.load(Relaxed);
    // A session costs whoever invents addresses one datagram: where others need places too, half of them are out of its
    // reach.
    let is_alone = || worker.view().plan.listeners.iter().all(|it| it.protocol == ListenerProtocol::Udp);
    let share = if is_alone() { places } else { (places / 2).max(1) };
    let has_room = || here.load(Relaxed) < places && worker.udp.len() < share;
    let has_memory = || !worker.pressure.is_full() && loads.budget.has_room_for_a_client(&loads.used());
    if !has_memory() && !worker.end_silent_session(None) {
        return Err(Limit::Memory);
    }
    if !has_room() && !worker.end_silent_session(None) {
        return Err(Limit::Connections);
    }
    let view = worker.view();
    let per_client = view.plan.limits.max_connections_per_client;
    // A proxy that is trusted brings the datagrams of many clients.
    let is_counted = per_client > 0 && !view.plan.trusts(client);
    let client = is_counted.then(|| Prefix::from(client));
    match loads
        .enter((&local_listener.state, local_listener.most()), client.map(|client| (client, per_client)))
    {
        Ok(()) => {
            here.fetch_add(1, Relaxed);
            Ok(ConnectionGuard::new(local_listener.clone(), client.map(Box::new)))
        }
        Err(Crowded::Client) => Err(Limit::ConnectionsPerClient),
        Err(Crowded::Listener) => Err(Limit::Connections),
    }
}

impl Worker {
    /// Ends the session that has been silent longest, of a listener or of all, if one may end for another; says whether
    /// there was one.
    fn end_silent_session(&self, of: Option<(u32, ListenerId)>) -> bool {
        let may_end = |session: &Session, silent_ms| {
            // A socket may have had another listener before.
            let is_of = of.is_none_or(|(_, listener)| session.origin().local_listener.state.id == listener);
            is_of && session.may_end_for_another(silent_ms)
        };
        let (table, group) = (self.udp.table.borrow(), of.map(|(port, _)| port));
        let place = table.evictable(group, self.now_ms(), |session, silent_ms| may_end(session, silent_ms));
        drop(table);
        place.inspect(|place| self.end_session(*place)).is_some()
    }
}
