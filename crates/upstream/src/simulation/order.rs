//! Who stands in which line, told plainly, and whether those who leave it were those whose turn it was.

use super::wire::Handed;
use crate::concurrency::{Acquired, LimitKey, Rejected, WaitQueue};
use crate::connection_handoff::Destination;
use crate::policy::Priority;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Wake;

/// Somebody in line.
#[derive(Clone, Debug)]
pub(super) struct EndpointState {
    line: usize,
    who: usize,
    priority: Priority,
    wants: Option<Destination>,
    /// `None`: the places of any.
    concurrency_limits: Option<Box<[LimitKey]>>,
}

impl EndpointState {
    fn accepts(&self, concurrency: LimitKey) -> bool {
        self.concurrency_limits
            .as_ref()
            .is_none_or(|concurrency_limits| concurrency_limits.contains(&concurrency))
    }
}

/// All lines, each in the order in which those in it should go.
#[derive(Debug, Default)]
pub(super) struct Lines {
    standing: Vec<EndpointState>,
    /// Called out of line and not looked yet: with those who stood before and behind at that moment.
    called: Vec<Called>,
}

#[derive(Debug)]
struct Called {
    it: EndpointState,
    before: Vec<EndpointState>,
    behind: Vec<EndpointState>,
}

/// The waker of an exchange: the line calls it when it takes the exchange out.
#[derive(Debug)]
pub(super) struct Notifier {
    pub(super) who: usize,
    pub(super) rung: AtomicBool,
    pub(super) lines: Arc<Mutex<Lines>>,
}

impl Wake for Notifier {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, SeqCst);
        self.lines.lock().unwrap().call(self.who);
    }
}

pub(super) fn key(line: &Arc<WaitQueue<Handed>>) -> usize {
    Arc::as_ptr(line) as usize
}

impl Lines {
    /// How many stand in a line.
    pub(super) fn len(&self, line: usize) -> usize {
        self.standing.iter().filter(|standing| standing.line == line).count()
    }

    /// Whether somebody in a line can use a place of this concurrency limit.
    pub(super) fn want(&self, line: usize, concurrency: LimitKey) -> bool {
        self.standing.iter().any(|standing| standing.line == line && standing.accepts(concurrency))
    }

    /// The lowest priority in a line.
    pub(super) fn lowest(&self, line: usize) -> Option<Priority> {
        self.standing.iter().filter(|standing| standing.line == line).map(|standing| standing.priority).max()
    }

    /// Whether an exchange stands in a line.
    pub(super) fn has(&self, who: usize) -> bool {
        self.standing.iter().any(|standing| standing.who == who)
    }

    pub(super) fn join(
        &mut self,
        line: usize,
        who: usize,
        priority: Priority,
        (wants, concurrency_limits): (Option<Destination>, Option<Box<[LimitKey]>>),
    ) {
        let it = EndpointState { line, who, priority, wants, concurrency_limits };
        let behind = |other: &EndpointState| other.line == line && other.priority > priority;
        let at = self.standing.iter().position(behind).unwrap_or(self.standing.len());
        self.standing.insert(at, it);
    }

    /// It gives up.
    pub(super) fn leave(&mut self, who: usize) {
        self.standing.retain(|standing| standing.who != who);
        self.called.retain(|called| called.it.who != who);
    }

    fn call(&mut self, who: usize) {
        let at = self.standing.iter().position(|standing| standing.who == who);
        let at = at.expect("somebody is called who does not wait");
        let it = self.standing.remove(at);
        let of_line =
            |part: &[EndpointState]| part.iter().filter(|other| other.line == it.line).cloned().collect();
        let (before, behind) = self.standing.split_at(at);
        let (before, behind) = (of_line(before), of_line(behind));
        self.called.push(Called { it, before, behind });
    }

    /// It looks what it has got: it must have been its turn.
    pub(super) fn looks(&mut self, who: usize, got: &Result<Acquired<Handed>, Rejected>) {
        let at = self.called.iter().position(|called| called.it.who == who);
        let Called { it, before, behind } = self.called.remove(at.expect("it got something uncalled"));
        match got {
            Ok(Acquired::Place(permit)) => {
                let concurrency = permit.concurrency().key();
                assert!(it.accepts(concurrency), "{it:?} cannot use it");
                let overtaken: Vec<_> = before.iter().filter(|other| other.accepts(concurrency)).collect();
                assert!(overtaken.is_empty(), "{it:?} has overtaken {overtaken:?}");
            }
            Ok(Acquired::Alternative(_)) => {
                assert!(it.wants.is_some(), "{it:?} did not want it");
                for other in before {
                    assert_eq!(other.priority, it.priority, "{it:?} has overtaken {other:?}");
                    assert_ne!(other.wants, it.wants, "{it:?} has overtaken {other:?}");
                }
            }
            Err(_) => {
                let kept: Vec<_> = behind.iter().filter(|other| other.priority >= it.priority).collect();
                assert!(kept.is_empty(), "{it:?} had to go before {kept:?}");
            }
        }
    }
}
