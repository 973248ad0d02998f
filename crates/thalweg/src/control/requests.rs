//! Decision records: every worker is asked what it remembers, and the answers become one document.

use super::admin::Shared;
use std::cmp::Reverse;
use std::time::{Duration, SystemTime};
use thalweg_admin::{
    AttemptRecord, FilterRecord, Recalling, Refusal, RequestFilter, RequestRecord, Requests,
};
use thalweg_proxy::{Decision, DecisionAttempt, FoundRecords, Notable, RecordQuery};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

/// How long a worker may take to come to the end of its turn.
const ANSWER_TIME: Duration = Duration::from_secs(2);

impl Shared {
    /// Asks every worker.
    pub(super) fn query_records(&self, filter: RequestFilter) -> Recalling {
        let (limit, workers) = (filter.limit, self.worker_pool().workers());
        let policy = self.worker_pool().plan().requests;
        let answers = self.worker_pool().query_records(RecordQuery {
            id: filter.id,
            route: filter.route,
            service: filter.service,
            status: filter.status,
            fault: filter.fault,
            slower_than: filter.slower_than,
            limit,
        });
        Box::pin(async move {
            let answered = timeout(ANSWER_TIME, all(answers)).await.unwrap_or_default();
            if answered.len() < workers {
                return Err(Refusal::Unavailable("a worker does not answer".into()));
            }
            // What is remembered is complete where every worker's is.
            let complete_since = answered.iter().filter_map(|answer| answer.complete_since).max();
            let mut decisions: Vec<_> = answered.into_iter().flat_map(|answer| answer.decisions).collect();
            decisions.sort_by_key(|decision| Reverse(ended(decision)));
            Ok(Requests {
                keep: policy.keep as u64,
                slow_ms: u64::try_from(policy.slow.as_millis()).unwrap_or(u64::MAX),
                complete_since,
                requests: decisions.into_iter().take(limit).map(record).collect(),
            })
        })
    }
}

async fn all(mut answers: Receiver<FoundRecords>) -> Vec<FoundRecords> {
    let mut all = Vec::new();
    while let Some(answer) = answers.recv().await {
        all.push(answer);
    }
    all
}

fn ended(decision: &Decision) -> Option<SystemTime> {
    decision.began.checked_add(decision.duration)
}

pub(super) fn record(decision: Decision) -> RequestRecord {
    let fault = decision.fault;
    RequestRecord {
        id: decision.id.map(|id| id.to_string()),
        trace_id: decision.trace.map(|trace| trace.to_string()),
        began: decision.began,
        open: decision.is_open,
        worker: decision.worker,
        listener: decision.listener.as_deref().map(str::to_owned),
        client_ip: decision.client.to_canonical().to_string(),
        client_port: decision.port,
        method: text(&decision.method),
        host: text(&decision.host),
        path: text(&decision.path),
        query: decision.query.map(|query| String::from_utf8_lossy(&query).into_owned()),
        route: decision.route.as_deref().map(str::to_owned),
        filters: decision.filters.into_iter().map(|(name, acted)| FilterRecord { name, acted }).collect(),
        service: decision.service.as_deref().map(str::to_owned),
        attempts: decision.attempts.into_iter().map(attempt).collect(),
        wait_us: Some(micros(decision.waited)).filter(|us| *us > 0),
        ttfb_us: decision.first_byte.map(micros),
        duration_us: micros(decision.duration),
        bytes_in: decision.bytes_in,
        bytes_out: decision.bytes_out,
        status: Some(decision.status).filter(|status| *status != 0),
        fault: fault.map(|fault| fault.kind.name()),
        fault_side: fault.map(|fault| fault.side().name()),
        fault_detail: fault.map(|fault| fault.detail),
        user: decision.user,
        reason: decision.reason,
        ended: decision.ended_idle.then_some("idle"),
        kept: decision.notable.map(|notable| match notable {
            Notable::Failed => "failed",
            Notable::Slow => "slow",
            Notable::Refused => "refused",
        }),
    }
}

fn attempt(attempt: DecisionAttempt) -> AttemptRecord {
    AttemptRecord {
        endpoint: attempt.endpoint.as_deref().map(str::to_owned),
        began_us: micros(attempt.began),
        connect_us: micros(attempt.connect),
        tls_us: (!attempt.tls.is_zero()).then(|| micros(attempt.tls)),
        reused: attempt.reused,
        hedge: attempt.is_copy,
        answered: attempt.answered,
        failed_us: attempt.failed.map(micros),
        fault: attempt.fault.map(|fault| fault.kind.name()),
        fault_detail: attempt.fault.map(|fault| fault.detail),
    }
}

/// What a peer sent, as text; absent when it is empty.
fn text(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
