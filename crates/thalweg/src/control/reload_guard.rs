//! Watching a new configuration: did it make a route worse?
//!
//! What workers have counted about each route since the configuration took over is compared with the minute or two
//! before. A route is worse when the share of its answers from 500 on, whoever made them, has grown past a threshold,
//! or its p99. This file only judges; `rollback` acts. [`Watcher`] has a lock of its own, the last in the order.

use super::origin::Candidate;
use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant, SystemTime};
use thalweg_admin::WatchOptions;
use thalweg_core::units::duration_text;
use thalweg_observe::RouteTotals;

/// Span of time that counts as "before", at least; at most twice as long.
const BEFORE: Duration = Duration::from_secs(60);
/// Failed exchanges of a route below which its share of them is not judged: one of a few would be a large share.
const ERRORS: u64 = 5;
/// Exchanges of a route, before and after, below which its p99 is not judged.
const P99_REQUESTS: u64 = 100;
/// A p99 up to here is never too slow: below it a factor says little.
const P99_FLOOR: Duration = Duration::from_millis(10);

/// Counts by the name of the route.
pub(super) type Counts = HashMap<String, RouteTotals>;

/// The watch that runs, if one does, and what was counted before.
#[derive(Debug, Default)]
pub(crate) struct Watcher {
    /// Counts at the beginning of the span before, and a later moment from which the next one begins.
    older: Counts,
    newer: Counts,
    newer_at: Option<Instant>,
    watch: Option<Box<Watch>>,
}

/// A configuration that is watched.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Its number in the history.
    pub(super) number: u64,
    pub(super) options: WatchOptions,
    pub(super) until: SystemTime,
    end: Instant,
    /// Counts of the span before it took over.
    before: Counts,
    /// Counts at the moment when it did.
    start: Counts,
    /// What ran before.
    pub(super) previous: Candidate,
}

/// What a watch has come to.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It goes on.
    None,
    /// Its time is over.
    Passed(Box<Watch>, String),
    /// The configuration does harm.
    Harm(Box<Watch>, String),
}

impl Watcher {
    /// Takes note of the counts once in a while. To be called once a second.
    pub(super) fn tick(&mut self, now: Instant, counts: impl FnOnce() -> Counts) {
        if self.newer_at.is_none_or(|at| now.saturating_duration_since(at) >= BEFORE) {
            // The first span begins with the process.
            self.older = std::mem::replace(&mut self.newer, counts());
            self.newer_at = Some(now);
        }
    }

    /// A configuration has taken over; one that was watched until now is not any more, and is given back. What was
    /// counted until now is of another configuration: for the next watch, the span before begins here.
    pub(super) fn replace(
        &mut self,
        next: Option<(u64, WatchOptions, Candidate)>,
        now: Instant,
        start: Counts,
    ) -> Option<Box<Watch>> {
        let before = since(&start, &self.older);
        (self.older, self.newer, self.newer_at) = (start.clone(), start.clone(), Some(now));
        let watch = next.map(|(number, options, previous)| {
            let until = SystemTime::now() + options.time;
            Box::new(Watch { number, options, until, end: now + options.time, before, start, previous })
        });
        std::mem::replace(&mut self.watch, watch)
    }

    /// Whether a configuration is watched.
    pub(super) fn is_watching(&self) -> bool {
        self.watch.is_some()
    }

    /// Looks at what has been counted until now. A watch with a verdict has ended.
    pub(super) fn judge(&mut self, now: Instant, counts: &Counts) -> Verdict {
        let Some(watch) = self.watch.take() else { return Verdict::None };
        if let Some(harm) = watch.harm(counts) {
            return Verdict::Harm(watch, harm);
        }
        if now < watch.end {
            self.watch = Some(watch);
            return Verdict::None;
        }
        let summary = watch.summary(&since(counts, &watch.start));
        Verdict::Passed(watch, summary)
    }
}

/// What came between two moments; routes without an exchange are left out.
fn since(now: &Counts, then: &Counts) -> Counts {
    let none = RouteTotals::default();
    let between = now.iter().map(|(route, now)| (route.clone(), now.since(then.get(route).unwrap_or(&none))));
    between.filter(|(_, between)| between.requests() > 0).collect()
}

impl Watch {
    /// Which route has become worse, and how; of several the one with the most failures.
    fn harm(&self, counts: &Counts) -> Option<String> {
        let (after, none) = (since(counts, &self.start), RouteTotals::default());
        let mut routes: Vec<_> = after.iter().collect();
        routes.sort_by(|(a, one), (b, other)| other.errors.cmp(&one.errors).then(a.cmp(b)));
        routes.into_iter().find_map(|(route, after)| {
            let before = self.before.get(route).unwrap_or(&none);
            let why = self.too_many_errors(before, after).or_else(|| self.too_slow(before, after))?;
            Some(format!("{}: {why}", named(route)))
        })
    }

    fn too_many_errors(&self, before: &RouteTotals, after: &RouteTotals) -> Option<String> {
        let share = |totals: &RouteTotals| Share { part: totals.errors, whole: totals.requests() };
        // A share of a few is none.
        let known = before.requests() >= self.options.min_requests;
        let (was, is) = (if known { share(before) } else { Share::default() }, share(after));
        let judged = after.requests() >= self.options.min_requests && after.errors >= ERRORS;
        let most = was.percent() + f64::from(self.options.max_errors);
        (judged && is.percent() > most)
            .then(|| format!("{is} of {} requests failed with 5xx, {was} before", after.requests()))
    }

    fn too_slow(&self, before: &RouteTotals, after: &RouteTotals) -> Option<String> {
        let least = self.options.min_requests.max(P99_REQUESTS);
        if before.requests() < least || after.requests() < least {
            return None;
        }
        let (was, is) = (before.quantile(0.99)?, after.quantile(0.99)?);
        let most = was.mul_f64(f64::from(self.options.max_p99) / 100.0).max(P99_FLOOR);
        let ms = |time: Duration| duration_text(Duration::from_millis(time.as_millis() as u64));
        (is > most).then(|| format!("p99 is {}, {} before", ms(is), ms(was)))
    }

    /// What a watch saw that nothing speaks against.
    fn summary(&self, after: &Counts) -> String {
        let sum = |counts: &Counts| {
            let all = counts.values();
            all.fold(Share::default(), |sum, totals| Share {
                part: sum.part + totals.errors,
                whole: sum.whole + totals.requests(),
            })
        };
        let (was, is) = (sum(&self.before), sum(after));
        let time = duration_text(self.options.time);
        let judged = after.values().any(|totals| totals.requests() >= self.options.min_requests);
        match judged {
            true => format!("kept: in {time} {is} of {} requests failed with 5xx, {was} before", is.whole),
            false => format!(
                "kept, but not judged: in {time} there were {} requests, and no route had {}",
                is.whole, self.options.min_requests
            ),
        }
    }
}

fn named(route: &str) -> String {
    if route.is_empty() { "requests that no route takes".into() } else { format!("route `{route}`") }
}

/// A share, shown in percent.
#[derive(Clone, Copy, Default)]
struct Share {
    part: u64,
    whole: u64,
}

impl Share {
    fn percent(self) -> f64 {
        if self.whole == 0 { 0.0 } else { self.part as f64 / self.whole as f64 * 100.0 }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", self.percent())
    }
}

#[cfg(test)]
mod tests;
