//! What counts towards a ban (`bans`): called when an exchange is over, and does nothing for one that went well.

use crate::plan::Banned;
use crate::state::exchange::Exchange;
use crate::state::worker::Worker;
use thalweg_core::FaultKind;

/// Notes an exchange that is over.
pub(crate) fn note(worker: &Worker, x: &Exchange) {
    let view = worker.view();
    let access = &view.plan.access;
    if access.bans.is_empty() {
        return;
    }
    let is_malformed = x.fault.is_some_and(|fault| fault.kind == FaultKind::HttpRequestError);
    for rule in access.bans.iter().filter(|rule| rule.counts(x.status, is_malformed)) {
        // Whoever is blocked already is not banned for it; nor is a proxy, in place of its clients.
        if view.plan.trusts(x.client_ip) || access.blocked.contains(x.client_ip) {
            return;
        }
        if let Some(ban) = rule.note(x.client_ip, worker.reactor.now()) {
            // Where control cannot keep up, the client is banned for its next offences.
            let _ = worker.shared.bans.try_send(Banned { rule: rule.clone(), ban, status: x.status });
        }
    }
}
