//! Webhooks: events as HTTP requests, sent when they happen.
//!
//! One task per webhook on the runtime that starts them. Each has a queue of its own, so one slow
//! receiver delays no other, and nothing that serves exchanges knows of either. In order: the next
//! event is sent once the one before was taken or given up. Invariants: a queue has a bound, past
//! which the oldest go and are counted; a call has a time; attempts have a number.
//!
//! `task` delivers, `queue` holds what waits, `delivery` is one event until it is taken, `reporter` counts and tells.

mod delivery;
mod queue;
mod reporter;
mod task;

use std::sync::Arc;
use std::time::Duration;

use thalweg_client::HttpClient;
use thalweg_core::Notice;
use thalweg_observe::WebhookMeters;
use thalweg_observe::WebhookPolicy;
use thalweg_tls::Trust;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::events::Events;
use reporter::Reporter;
use task::DeliveryTask;

/// The running webhooks. Dropping them ends them, whatever waits.
pub struct Webhooks {
    events: Events,
    reporter: Reporter,
    running: Vec<Running>,
    ending: watch::Sender<bool>,
}

struct Running {
    policy: WebhookPolicy,
    task: JoinHandle<()>,
}

impl Webhooks {
    /// Starts one task per policy on the current tokio runtime. They send what is published from now
    /// on. Failures that last are told in `notices`, a line each; where it is full, the line is lost.
    ///
    /// All webhooks that share `meters` must run on one thread.
    pub fn start(
        policies: Vec<WebhookPolicy>,
        events: &Events,
        meters: Arc<WebhookMeters>,
        notices: mpsc::Sender<Notice>,
    ) -> Self {
        let (events, reporter) = (events.clone(), Reporter { meters, notices });
        let mut webhooks = Self { events, reporter, running: Vec::new(), ending: watch::Sender::new(false) };
        webhooks.replace(policies);
        webhooks
    }

    /// Takes over new policies. A webhook that stays the same goes on with what it has; one that is
    /// gone ends, whatever waits. Root certificates are read again for those that are new.
    pub fn replace(&mut self, policies: Vec<WebhookPolicy>) {
        let mut before = std::mem::take(&mut self.running);
        let client = HttpClient::new(Trust::System);
        for policy in policies {
            let same = before.iter().position(|running| running.policy == policy);
            let running = same.map(|index| before.swap_remove(index));
            self.running.push(running.unwrap_or_else(|| self.run(policy, &client)));
        }
    }

    /// Waits until what has been published is delivered or given up, at most `time`, and ends.
    pub async fn finish(mut self, time: Duration) {
        self.ending.send_replace(true);
        let _ = timeout(time, async {
            for running in &mut self.running {
                let _ = (&mut running.task).await;
            }
        })
        .await;
    }

    fn run(&self, policy: WebhookPolicy, client: &HttpClient) -> Running {
        let task = DeliveryTask {
            policy: policy.clone(),
            client: client.clone(),
            events: self.events.clone(),
            reporter: self.reporter.clone(),
            ending: self.ending.subscribe(),
        };
        Running { policy, task: tokio::spawn(task.run(self.events.subscribe())) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests;
