//! Which names that clients come with are asked for: those that are allowed, and not too many in an hour. Pure but for
//! the question itself.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use thalweg_client::{Bounds, HttpClient};
use thalweg_http::HttpUrl;

/// How long an answer holds, both ways.
const HOLDS: Duration = Duration::from_secs(60);
/// Answers that are remembered.
const ANSWERS: usize = 10_000;
/// What a question may take; of the answer only the status counts.
const BOUNDS: Bounds = Bounds::new(Duration::from_secs(5), 0);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// What was asked for, and what was answered.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    begun: VecDeque<Instant>,
    answers: HashMap<String, (bool, Instant)>,
    said: Option<Instant>,
}

impl Gate {
    /// Whether one more may be ordered now, of so many within an hour; it is counted.
    pub(crate) fn admits(&mut self, per_hour: u32, now: Instant) -> bool {
        while self.begun.front().is_some_and(|begun| now.saturating_duration_since(*begun) >= HOUR) {
            self.begun.pop_front();
        }
        let admits = self.begun.len() < usize::try_from(per_hour).unwrap_or(usize::MAX);
        if admits {
            self.begun.push_back(now);
        }
        admits
    }

    /// Whether the operator is told that no more are ordered: once a minute.
    pub(crate) fn may_say(&mut self, now: Instant) -> bool {
        let may = self.said.is_none_or(|said| now.saturating_duration_since(said) >= HOLDS);
        if may {
            self.said = Some(now);
        }
        may
    }

    /// What was answered about a name not long ago.
    pub(crate) fn answer(&mut self, name: &str, now: Instant) -> Option<bool> {
        self.answers.retain(|_, (_, at)| now.saturating_duration_since(*at) < HOLDS);
        self.answers.get(name).map(|(allowed, _)| *allowed)
    }

    /// This was answered about a name.
    pub(crate) fn note(&mut self, name: &str, allowed: bool, now: Instant) {
        if self.answers.len() < ANSWERS {
            self.answers.insert(name.to_owned(), (allowed, now));
        }
    }
}

/// Asks whether a name may be ordered: 200 says yes, and nothing else does.
pub(crate) async fn ask(client: HttpClient, url: HttpUrl, name: String) -> bool {
    let sign = if url.target().contains('?') { '&' } else { '?' };
    let target = format!("{}{sign}domain={name}", url.target());
    let Ok(request) = Request::get(target).body(Bytes::new()) else { return false };
    let answer = client.send(&(&url).into(), request, BOUNDS).await;
    answer.is_ok_and(|answer| answer.status() == StatusCode::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_within_an_hour() {
        let (mut gate, begun) = (Gate::default(), Instant::now());
        let minute = Duration::from_secs(60);
        assert!(gate.admits(2, begun) && gate.admits(2, begun + minute));
        assert!(!gate.admits(2, begun + 59 * minute));
        assert!(gate.admits(2, begun + 60 * minute));
        assert!(!gate.admits(2, begun + 60 * minute));
        assert!(gate.admits(2, begun + 61 * minute));
    }

    #[test]
    fn an_answer_holds_for_a_minute() {
        let (mut gate, begun) = (Gate::default(), Instant::now());
        gate.note("a.test", true, begun);
        gate.note("b.test", false, begun);
        let soon = begun + Duration::from_secs(59);
        assert_eq!((gate.answer("a.test", soon), gate.answer("b.test", soon)), (Some(true), Some(false)));
        assert_eq!((gate.answer("c.test", soon), gate.answer("a.test", begun + HOLDS)), (None, None));
    }
}
