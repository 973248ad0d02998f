//! The task of one webhook: listens, keeps what waits, delivers one after the other.
//!
//! It listens while it delivers, so a slow receiver fills the webhook's own queue and nothing else.

use std::pin::pin;

use thalweg_client::HttpClient;
use thalweg_observe::WebhookPolicy;
use tokio::sync::watch;

use super::delivery::{Delivery, Outcome};
use super::queue::Queue;
use super::reporter::Reporter;
use crate::events::{Events, Heard, Subscription};

/// What the task needs.
pub(super) struct DeliveryTask {
    pub(super) policy: WebhookPolicy,
    pub(super) client: HttpClient,
    pub(super) events: Events,
    pub(super) reporter: Reporter,
    /// Turns true when the process ends: what waits is delivered, and nothing waited for.
    pub(super) ending: watch::Receiver<bool>,
}

/// What the task has.
struct Waiting {
    queue: Queue,
    /// Events that the receiver should have got since the last one that it took, and never will.
    missed: u64,
}

impl DeliveryTask {
    pub(super) async fn run(self, mut subscription: Subscription) {
        let mut waiting = Waiting { queue: Queue::new(self.policy.queue), missed: 0 };
        while self.listen(&mut subscription, &mut waiting).await {
            let Some(event) = waiting.queue.pop() else { continue };
            let missed = waiting.missed;
            let delivery = Delivery::new(&self.events, &event, missed);
            let outcome = {
                let mut delivered = pin!(delivery.send(&self.policy, &self.client, &self.reporter.meters));
                loop {
                    tokio::select! {
                        outcome = &mut delivered => break outcome,
                        heard = subscription.next() => self.take_in(heard, &mut waiting),
                    }
                }
            };
            let meters = &self.reporter.meters;
            match outcome {
                Outcome::Delivered => {
                    meters.delivered.add(1);
                    waiting.missed -= missed;
                }
                Outcome::GivenUp(why) => {
                    meters.given_up.add(1);
                    waiting.missed += 1;
                    let (url, attempts) = (&self.policy.url, self.policy.attempts.max(1));
                    let kind = event.event.kind.name();
                    self.reporter
                        .notice(format!("webhook {url}: {kind} given up after {attempts} attempts: {why}"));
                }
                Outcome::Gone => {
                    meters.dropped.add(1 + waiting.queue.len() as u64);
                    let url = &self.policy.url;
                    return self.reporter.notice(format!(
                        "webhook {url}: the receiver answers 410 (gone); nothing is sent to it until its \
                         configuration changes or the proxy starts again"
                    ));
                }
            }
        }
    }

    /// Takes in what has happened, and waits for it where nothing waits for delivery. False when
    /// there is nothing left to do.
    async fn listen(&self, subscription: &mut Subscription, waiting: &mut Waiting) -> bool {
        loop {
            while let Some(heard) = subscription.try_next() {
                self.take_in(heard, waiting);
            }
            if !waiting.queue.is_empty() {
                return true;
            }
            let mut ending = self.ending.clone();
            tokio::select! {
                biased;
                heard = subscription.next() => self.take_in(heard, waiting),
                // An error means that the webhooks were dropped.
                _ = ending.wait_for(|ending| *ending) => return false,
            }
        }
    }

    fn take_in(&self, heard: Heard, waiting: &mut Waiting) {
        let lost = match heard {
            Heard::Event(event) if self.policy.wants(event.event.kind) => waiting.queue.push(event),
            Heard::Event(_) => 0,
            // Their kinds are not known any more, so they count as wanted.
            Heard::Missed(missed) => missed,
        };
        waiting.missed += lost;
        self.reporter.meters.dropped.add(lost);
    }
}
