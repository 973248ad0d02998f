//! What the admin API sees of the running proxy, and what it may ask of it.

use crate::cli::complain;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_admin::{
    Changed, ConfigDocument, ConfigFormat, ConfigOutcome, ConnectionStatus, Control, DescriptorStatus,
    EndpointChange, Events, Expected, ListenerStatus, NewEndpoint, Refusal, ReplaceOptions, Reweighted,
    RouteStatus, Services, ServicesSummary, State, Status,
};
use thalweg_core::limits::WORKER_SILENCE;
use thalweg_observe::Registry;
use thalweg_proxy::{Fleet, Plan};
use tokio::sync::Notify;

/// Shared by the control thread and the admin thread.
pub(crate) struct Shared {
    fleet: Fleet,
    registry: Arc<Registry>,
    events: Events,
    started: Instant,
    generation: AtomicU64,
    draining: AtomicBool,
    stop: Notify,
}

impl Shared {
    pub(crate) fn new(fleet: Fleet, registry: Arc<Registry>) -> Self {
        Self {
            fleet,
            registry,
            events: Events::new(),
            started: Instant::now(),
            generation: AtomicU64::new(1),
            draining: AtomicBool::new(false),
            stop: Notify::new(),
        }
    }

    /// All workers.
    pub(crate) fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Waits until the admin API says stop.
    pub(crate) async fn stop_asked(&self) {
        self.stop.notified().await;
    }

    /// From now on the proxy is not ready.
    pub(crate) fn begin_drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// A new plan takes over.
    pub(crate) fn set_plan(&self, plan: Plan) {
        self.fleet.set_plan(plan);
        self.generation.fetch_add(1, Ordering::Relaxed);
    }
}

impl Control for Shared {
    fn status(&self) -> Status {
        let draining = self.draining.load(Ordering::Relaxed);
        let listeners = self.fleet.bound().iter().map(|bound| ListenerStatus {
            name: bound.name.to_string(),
            address: bound.address.clone(),
            protocol: "http".into(),
        });
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs(),
            state: if draining { State::Draining } else { State::Running },
            generation: self.generation.load(Ordering::Relaxed),
            workers: self.fleet.workers(),
            listeners: listeners.collect(),
            connections: ConnectionStatus {
                active: self.fleet.clients() as u64,
                max: self.fleet.budget().connections as u64,
            },
            requests_active: self.fleet.active() as u64,
            descriptors: DescriptorStatus {
                used: fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64),
                limit: self.fleet.budget().descriptors as u64,
            },
            services: ServicesSummary::of(&self.services().services),
        }
    }

    fn alive(&self) -> Result<(), String> {
        let now = Instant::now();
        for (worker, meters) in self.registry.workers().iter().enumerate() {
            let silence = meters.silence(now);
            if silence > WORKER_SILENCE {
                return Err(format!("worker {worker} has not turned for {} s", silence.as_secs()));
            }
        }
        Ok(())
    }

    fn ready(&self) -> Result<(), String> {
        if self.draining.load(Ordering::Relaxed) {
            return Err("draining".into());
        }
        self.alive()
    }

    fn metrics(&self) -> String {
        self.fleet.measure();
        self.registry.render()
    }

    fn events(&self) -> &Events {
        &self.events
    }

    fn stop(&self) {
        self.stop.notify_one();
    }

    fn complain(&self, line: &str) {
        complain(line);
    }

    fn services(&self) -> Services {
        Services::default()
    }

    fn routes(&self) -> Vec<RouteStatus> {
        Vec::new()
    }

    fn add_endpoint(&self, _: &str, _: NewEndpoint, _: &Expected<u64>) -> Result<Changed, Refusal> {
        Err(not_yet())
    }

    fn change_endpoint(
        &self,
        _: &str,
        _: &str,
        _: EndpointChange,
        _: &Expected<u64>,
    ) -> Result<Changed, Refusal> {
        Err(not_yet())
    }

    fn remove_endpoint(&self, _: &str, _: &str, _: Duration, _: &Expected<u64>) -> Result<Changed, Refusal> {
        Err(not_yet())
    }

    fn set_weights(&self, _: &str, _: Vec<(String, u32)>, _: &Expected<u64>) -> Result<Reweighted, Refusal> {
        Err(not_yet())
    }

    fn config(&self) -> ConfigDocument {
        let (text, etag) = (String::new(), "none".to_owned());
        ConfigDocument { text, format: ConfigFormat::Yaml, etag, path: None, writable: false }
    }

    fn replace_config(
        &self,
        _: &str,
        _: &Expected<String>,
        _: ReplaceOptions,
    ) -> Result<ConfigOutcome, Refusal> {
        Err(not_yet())
    }

    fn reload(&self) -> Result<ConfigOutcome, Refusal> {
        Err(not_yet())
    }
}

fn not_yet() -> Refusal {
    Refusal::Unavailable("not available in this version".into())
}
