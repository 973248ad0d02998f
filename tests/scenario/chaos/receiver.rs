//! The receiver of the webhook: checks every signature by itself and keeps what it has taken, in order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use thalweg_tests::signature::hmac_sha256;
use thalweg_tests::{Message, STEP, Upstream};

/// It fails the first attempt of one event in so many: those behind it must wait.
const FAILS: u64 = 7;

#[derive(Debug, Default)]
struct Seen {
    /// The bodies of the deliveries that were taken.
    taken: Vec<Value>,
    /// The delivery that was failed last.
    failed: Option<String>,
    retried: usize,
    wrong: Vec<String>,
}

/// A receiver that runs.
#[derive(Debug)]
pub(super) struct Receiver {
    upstream: Upstream,
    seen: Arc<Mutex<Seen>>,
}

impl Receiver {
    pub(super) fn start(secret: &'static [u8]) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let shared = Arc::clone(&seen);
        let upstream = Upstream::start(move |request| {
            let status = shared.lock().unwrap_or_else(PoisonError::into_inner).take(secret, request);
            Some(format!("HTTP/1.1 {status} Told\r\nContent-Length: 0\r\n\r\n").into_bytes())
        });
        Self { upstream, seen }
    }

    pub(super) fn url(&self) -> String {
        format!("{}/hook", self.upstream.url())
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until this many events have been taken; gives them, and how many came twice.
    pub(super) fn wait(&self, count: usize) -> (Vec<Value>, usize) {
        // What was failed comes again after 1 s, then 2 s.
        let end = Instant::now() + STEP;
        while self.seen().taken.len() < count && Instant::now() < end {
            std::thread::yield_now();
        }
        let seen = self.seen();
        assert!(seen.wrong.is_empty(), "webhooks: {:?}", seen.wrong);
        assert!(seen.taken.len() >= count, "{} of {count} events came", seen.taken.len());
        (seen.taken.clone(), seen.retried)
    }
}

impl Seen {
    fn take(&mut self, secret: &[u8], request: &Message) -> u16 {
        let field = |name| request.value(name).unwrap_or_default().to_owned();
        let stamp = field("x-thalweg-timestamp");
        let mut signed = format!("{stamp}.").into_bytes();
        signed.extend_from_slice(&request.body);
        let expected = format!("sha256={}", hmac_sha256(secret, &signed));
        if field("x-thalweg-signature") != expected {
            self.wrong.push(format!("the signature is not {expected} in {request:?}"));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let age = stamp.parse().map(|stamp| now.as_secs().abs_diff(stamp));
        if !age.is_ok_and(|age| age <= STEP.as_secs()) {
            self.wrong.push(format!("the timestamp is {stamp:?}, now is {now:?}"));
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        if body["event"].as_str() != Some(&field("x-thalweg-event"))
            || !request.start.starts_with("POST /hook ")
        {
            self.wrong.push(format!("{request:?}"));
        }
        let delivery = field("x-thalweg-delivery");
        let id = body["id"].as_u64().unwrap_or_default();
        if self.failed.as_ref() == Some(&delivery) {
            self.retried += 1;
        } else if self.taken.len() as u64 % FAILS == FAILS - 1 && self.failed.is_none() {
            self.failed = Some(delivery);
            return 503;
        } else if let Some(failed) = &self.failed {
            self.wrong.push(format!("event {id} came before {failed} came again"));
        }
        self.failed = None;
        self.taken.push(body);
        200
    }
}
