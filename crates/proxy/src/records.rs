//! What was decided about each exchange: remembered for a while by the worker that served it, told when it is asked
//! for.
//!
//! `exchange/record.rs` adds an entry for every exchange; the admin thread asks through
//! [`WorkerPool::query_records`](crate::WorkerPool::query_records), and each worker answers between two turns. So the
//! entries of a worker have one writer and one reader, which are the same thread: no lock and no atomic step. An entry
//! names objects of the configuration as they were called then (`labels.rs`), keeps no plan alive, and allocates
//! nothing where nothing went wrong. How long it is kept: `memory.rs`.

mod decision;
mod entry;
mod memory;
mod redactor;
mod tap;

pub use decision::{Decision, DecisionAttempt, FoundRecords, Notable, RecordQuery};

pub(crate) use decision::QueryRequest;
pub use tap::{TAPS, Tap, TapHeard, TapQuery, Tapped, TappedHeaders};

pub(crate) use redactor::LabelRedactor;
pub(crate) use tap::{OpenTap, Taps};

use crate::plan::RequestsPolicy;
use crate::state::exchange::{Exchange, Origin};
use crate::state::worker::Worker;
use entry::{Around, Entry};
use memory::Memory;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

/// Records at the end of the report of a crash.
const LAST: usize = 16;

/// What one worker remembers.
#[derive(Debug)]
pub(crate) struct Decisions {
    policy: Cell<RequestsPolicy>,
    memory: RefCell<Memory>,
}

impl Decisions {
    /// Nothing yet.
    pub(crate) fn new(policy: RequestsPolicy) -> Self {
        let mut memory = Memory::default();
        memory.resize(policy.keep);
        Self { policy: Cell::new(policy), memory: RefCell::new(memory) }
    }

    /// Another policy holds from now on; what is more than it allows is forgotten.
    pub(crate) fn adopt(&self, policy: RequestsPolicy) {
        self.policy.set(policy);
        self.memory.borrow_mut().resize(policy.keep);
    }

    /// An exchange is about to end: asks for the memory that it will be remembered in.
    pub(crate) fn expect(&self) {
        self.memory.borrow().expect();
    }

    /// Remembers an exchange that took `total`.
    pub(crate) fn note(
        &self,
        (worker, veil): (&Worker, &LabelRedactor),
        origin: Origin<'_>,
        x: &Exchange,
        total: Duration,
    ) {
        let policy = self.policy.get();
        if policy.keep > 0 {
            let entry = Entry::of(origin, x, Around::of((worker, veil), x, total), policy);
            self.memory.borrow_mut().add(entry);
        }
    }
}

impl<'a> Around<'a> {
    fn of((worker, veil): (&Worker, &'a LabelRedactor), x: &Exchange, total: Duration) -> Self {
        let has_queries = worker.log.borrow().is_some();
        Self { began_us: worker.unix_us(x.started), total, has_queries, veil }
    }
}

impl Worker {
    /// Answers what is asked of all workers.
    pub(crate) fn query_records(&self, question: &QueryRequest) {
        let inquiry = &question.inquiry;
        let mut open = Vec::new();
        if let Some(id) = inquiry.id {
            let mut look = |origin: Origin<'_>, x: &Exchange| {
                if x.id.is_some_and(|own| own.as_bytes().eq_ignore_ascii_case(id.as_bytes())) {
                    let (total, veil) = (x.age(self.reactor.now()), LabelRedactor::of(self));
                    let around = Around::of((self, &veil), x, total);
                    let entry = Entry::of(origin, x, around, self.decisions.policy.get());
                    open.extend(entry.is_asked_for(inquiry).then(|| entry.tell(self.id, true)));
                }
            };
            self.tunnels.look(|client, x| look(client.origin(), x));
            self.udp.look(look);
        }
        let memory = self.decisions.memory.borrow();
        let found = memory.find(inquiry.limit, |entry| entry.is_asked_for(inquiry));
        let past = found.into_iter().map(|entry| entry.tell(self.id, false));
        let decisions = open.into_iter().chain(past).take(inquiry.limit).collect();
        let since = memory.complete_since().map(|oldest| Duration::from_micros(oldest.ended_us()));
        let complete_since = since.map(|since| UNIX_EPOCH + since);
        // There is room for an answer of every worker; who asked may have given up.
        let _ = question.answers.try_send(FoundRecords { decisions, complete_since });
    }
}

impl Worker {
    /// Writes what the report of a crash tells of the worker that crashed: the exchanges that ended last, the newest
    /// first. Says nothing where they are being changed.
    pub(crate) fn write_last(&self, report: &mut dyn fmt::Write) -> fmt::Result {
        let Ok(memory) = self.decisions.memory.try_borrow() else { return Ok(()) };
        writeln!(report, "the last exchanges of worker {}, the newest first:", self.id)?;
        for entry in memory.find(LAST, |_| true) {
            writeln!(report, "  {}", entry.tell(self.id, false))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
