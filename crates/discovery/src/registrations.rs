//! Where Thalweg itself is registered, so that others find it.
//!
//! One task for each registration, on the runtime of the control thread: it registers, goes on renewing, and leaves
//! when the registration is not wanted any more or the proxy drains. Dropped, all are left to their leases.

use crate::eureka::registration::{EurekaRegistration, EurekaRegistrationSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_filter::ConfigFiles;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

/// How long leaving may take: one that has not left by then is left to its lease.
const LEAVE: Duration = Duration::from_secs(10);
/// The most news that wait to be told; what is more is lost.
const NEWS: usize = 64;

/// One of `registrations:`, keyed by the registry's name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RegistrationSpec {
    /// As an instance of Eureka.
    Eureka(EurekaRegistrationSpec),
}

impl RegistrationSpec {
    /// Checks the arguments. Nothing is opened.
    ///
    /// # Errors
    /// A sentence that names the wrong argument and the remedy.
    pub fn build(&self, files: &dyn ConfigFiles) -> Result<EurekaRegistration, String> {
        match self {
            Self::Eureka(spec) => spec.build(files),
        }
    }
}

/// What has become of a registration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Registered {
    /// Where, for people.
    pub place: String,
    /// Why it is not registered; `None`: it is.
    pub failure: Option<String>,
}

/// A registration that is kept.
#[derive(Debug)]
struct Running {
    /// Under which name it is there, and where.
    entry: String,
    /// Dropping it makes the registration leave.
    _wanted: oneshot::Sender<()>,
    task: AbortHandle,
}

/// All registrations.
#[derive(Debug)]
pub struct Registrations {
    tasks: JoinSet<()>,
    /// By all that a registration depends on.
    wanted: HashMap<String, Running>,
    tell: mpsc::Sender<Registered>,
    told: mpsc::Receiver<Registered>,
}

impl Default for Registrations {
    fn default() -> Self {
        let (tell, told) = mpsc::channel(NEWS);
        Self { tasks: JoinSet::new(), wanted: HashMap::new(), tell, told }
    }
}

impl Registrations {
    /// These are the registrations from now on. What is the same goes on undisturbed; others leave. Runs within a
    /// tokio runtime.
    pub fn keep(&mut self, registrations: &[Arc<EurekaRegistration>]) {
        let ids: Vec<_> = registrations.iter().map(|registration| registration.id()).collect();
        let entries: Vec<_> = registrations.iter().map(|registration| registration.entry()).collect();
        self.wanted.retain(|id, running| {
            let stays = ids.contains(id);
            // Another one takes its place: if this one left now, it would take that one off.
            if !stays && entries.contains(&running.entry) {
                running.task.abort();
            }
            stays
        });
        while self.tasks.try_join_next().is_some() {}
        for (id, registration) in ids.into_iter().zip(registrations) {
            if self.wanted.contains_key(&id) {
                continue;
            }
            let (wanted, unwanted) = oneshot::channel();
            let entry = registration.entry();
            let (registration, tell) = (registration.clone(), self.tell.clone());
            let task = self.tasks.spawn(async move {
                let drain = async {
                    let _ = unwanted.await;
                };
                let place = registration.place();
                let tell = |result: Result<(), String>| {
                    let _ = tell.try_send(Registered { place: place.clone(), failure: result.err() });
                };
                registration.keep(drain, tell).await;
            });
            self.wanted.insert(id, Running { entry, _wanted: wanted, task });
        }
    }

    /// What becomes of them next. Waits for ever when nothing does. Cancel-safe.
    pub async fn next(&mut self) -> Registered {
        match self.told.recv().await {
            Some(registered) => registered,
            None => std::future::pending().await,
        }
    }

    /// All leave; it takes at most ten seconds.
    pub async fn leave(&mut self) {
        self.wanted.clear();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = timeout(LEAVE, all).await;
        self.tasks.abort_all();
    }
}
