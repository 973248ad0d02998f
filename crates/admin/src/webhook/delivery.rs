//! One event on its way to one webhook: the request, its signature, its attempts.
//!
//! The signature is an HMAC-SHA256 (RFC 2104) over the time of the attempt in seconds, a full stop
//! and the body, so that a receiver can tell both who sent it and that it is not an old one again.

use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use thalweg_client::{Bounds, HttpClient, signature};
use thalweg_core::{EventKind, RequestId, SigningKey};
use thalweg_observe::WebhookMeters;
use thalweg_observe::WebhookPolicy;
use tokio::time::sleep;

use crate::events::{Events, Published};

/// Who sends.
const AGENT: &str = concat!("thalweg/", env!("CARGO_PKG_VERSION"));
/// The kind of the event.
const EVENT: HeaderName = HeaderName::from_static("x-thalweg-event");
/// The id of the delivery, the same for every attempt.
const DELIVERY: HeaderName = HeaderName::from_static("x-thalweg-delivery");
/// The time of the attempt, in seconds since the Unix epoch.
const TIMESTAMP: HeaderName = HeaderName::from_static("x-thalweg-timestamp");
/// `sha256=` and the signature in hex.
const SIGNATURE: HeaderName = HeaderName::from_static("x-thalweg-signature");

/// One event for one webhook.
pub(super) struct Delivery {
    kind: EventKind,
    id: RequestId,
    body: Bytes,
}

/// How a delivery ended.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    /// The receiver has taken it.
    Delivered,
    /// Every attempt failed; why the last one did.
    GivenUp(String),
    /// The receiver is gone for good (410).
    Gone,
}

/// How an attempt ended.
enum Attempt {
    Delivered,
    Gone,
    Failed(String),
}

impl Delivery {
    pub(super) fn new(events: &Events, event: &Published, missed: u64) -> Self {
        let id = RequestId::new(since_epoch().as_millis() as u64, fastrand::u128(..));
        Self { kind: event.event.kind, id, body: events.json(event, Some(missed)).into() }
    }

    /// Sends it until it is taken or the attempts are used up.
    pub(super) async fn send(
        &self,
        policy: &WebhookPolicy,
        client: &HttpClient,
        meters: &WebhookMeters,
    ) -> Outcome {
        attempts(policy, meters, || async {
            let mut request = Request::post(policy.url.target());
            if let Some(fields) = request.headers_mut() {
                *fields = self.fields(policy.secret.as_ref(), since_epoch().as_secs());
            }
            let request = match request.body(self.body.clone()) {
                Ok(request) => request,
                Err(error) => return Attempt::Failed(error.to_string()),
            };
            let bounds = Bounds::new(policy.timeout, 0);
            let answer = client.send(&(&policy.url).into(), request, bounds).await;
            match answer.map(|answer| answer.status()) {
                Ok(status) if status.is_success() => Attempt::Delivered,
                Ok(StatusCode::GONE) => Attempt::Gone,
                Ok(status) if status.is_redirection() => {
                    Attempt::Failed(format!("it answered {}; redirects are not followed", status.as_u16()))
                }
                Ok(status) => Attempt::Failed(format!("it answered {}", status.as_u16())),
                Err(error) => Attempt::Failed(error.to_string()),
            }
        })
        .await
    }

    /// The fields of an attempt at `now`, in seconds since the Unix epoch.
    fn fields(&self, secret: Option<&SigningKey>, now: u64) -> HeaderMap {
        let mut fields = HeaderMap::new();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        fields.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        fields.insert(EVENT, HeaderValue::from_static(self.kind.name()));
        let signature = secret.map(|secret| (SIGNATURE, signature(secret, now, &self.body)));
        let texts = [(DELIVERY, self.id.to_string()), (TIMESTAMP, now.to_string())];
        for (name, text) in texts.into_iter().chain(signature) {
            // Digits, hex and hyphens: always a value.
            if let Ok(value) = HeaderValue::try_from(text) {
                fields.insert(name, value);
            }
        }
        fields
    }
}

/// Attempts until one succeeds or the policy's number is used up, with growing pauses between them.
async fn attempts<F: Future<Output = Attempt>>(
    policy: &WebhookPolicy,
    meters: &WebhookMeters,
    mut attempt: impl FnMut() -> F,
) -> Outcome {
    let mut number = 1;
    loop {
        let why = match attempt().await {
            Attempt::Delivered => return Outcome::Delivered,
            Attempt::Gone => return Outcome::Gone,
            Attempt::Failed(why) => why,
        };
        if number >= policy.attempts {
            return Outcome::GivenUp(why);
        }
        // Between half and all of it, so that many proxies do not come back together.
        sleep(policy.pause(number).mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        number += 1;
        meters.retries.add(1);
    }
}

fn since_epoch() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use thalweg_http::HttpUrl;
    use tokio::time::Instant;

    use super::*;

    fn policy() -> WebhookPolicy {
        WebhookPolicy::new(HttpUrl::parse("http://127.0.0.1:9/").unwrap())
    }

    fn delivery(body: &'static str) -> Delivery {
        Delivery { kind: EventKind::EndpointUp, id: RequestId::new(0, 0), body: body.into() }
    }

    #[test]
    fn fields_say_who_what_and_when() {
        let secret = SigningKey::new(b"hush").unwrap();
        let fields = delivery("{}").fields(Some(&secret), 17);
        let text: Vec<_> = fields.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
        assert_eq!(
            text,
            [
                "content-type: application/json".into(),
                format!("user-agent: thalweg/{}", env!("CARGO_PKG_VERSION")),
                "x-thalweg-event: endpoint_up".into(),
                "x-thalweg-delivery: 00000000-0000-7000-8000-000000000000".into(),
                "x-thalweg-timestamp: 17".into(),
                format!("x-thalweg-signature: {}", signature(&secret, 17, b"{}")),
            ]
        );
        assert!(!delivery("{}").fields(None, 17).contains_key(SIGNATURE));
    }

    /// Runs attempts that all fail and gives the pauses between them.
    async fn pauses(policy: &WebhookPolicy, meters: &WebhookMeters) -> (Vec<Duration>, Outcome) {
        let times = RefCell::new(Vec::new());
        let outcome = attempts(policy, meters, || async {
            times.borrow_mut().push(Instant::now());
            Attempt::Failed(format!("no {}", times.borrow().len()))
        })
        .await;
        let times = times.into_inner();
        (times.windows(2).map(|pair| pair[1] - pair[0]).collect(), outcome)
    }

    #[tokio::test(start_paused = true)]
    async fn failed_attempts_are_repeated_with_growing_pauses_and_then_given_up() {
        let (policy, meters) = (WebhookPolicy { attempts: 9, ..policy() }, WebhookMeters::default());
        let (pauses, outcome) = pauses(&policy, &meters).await;
        assert_eq!(pauses.len(), 8);
        for (pause, whole) in pauses.iter().zip([1, 2, 4, 8, 16, 32, 60, 60]) {
            let whole = Duration::from_secs(whole);
            // The timer has a resolution of a millisecond.
            assert!(
                whole / 2 <= *pause && *pause <= whole + Duration::from_millis(1),
                "{pause:?} of {whole:?}"
            );
        }
        assert_eq!((outcome, meters.retries.value()), (Outcome::GivenUp("no 9".into()), 8));
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_differ() {
        let policy = WebhookPolicy { attempts: 20, backoff: Duration::from_secs(60), ..policy() };
        let (pauses, _) = pauses(&policy, &WebhookMeters::default()).await;
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{pauses:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_attempts_are_one() {
        let policy = WebhookPolicy { attempts: 0, ..policy() };
        let (pauses, outcome) = pauses(&policy, &WebhookMeters::default()).await;
        assert_eq!((pauses.len(), outcome), (0, Outcome::GivenUp("no 1".into())));
    }
}
