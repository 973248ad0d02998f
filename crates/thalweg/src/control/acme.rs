//! ACME certificates: hands what the plan orders to the ACME client and reports the outcome.

use super::config_events::event;
use crate::operator_log::{info, warn};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use thalweg_acme::local_ca::LocalAuthority;
use thalweg_acme::{HttpAnswers, News, Options, RenewalService};
use thalweg_core::units::duration_text;
use thalweg_core::{Event, EventKind};
use thalweg_observe::Registry;
use thalweg_proxy::{Challenges, Plan};
use thalweg_tls::AcmePolicy;
use thalweg_tls::IssuedStore;
use thalweg_tls::acme::local;
use tokio::sync::mpsc;

/// News that may wait to be told.
const NEWS: usize = 256;

/// Who asks, once there is something to ask for.
pub(crate) struct Acme {
    state: PathBuf,
    challenges: Arc<Challenges>,
    news: mpsc::Sender<News>,
    renewal: Mutex<Option<RenewalService>>,
    local: Mutex<Local>,
}

/// The authority of this machine and the store of issued certificates that it serves, once a listener has wanted it: a
/// store of issued certificates that nobody looks at costs little, and what is on it is at hand when one wants it
/// again.
type Local = Option<Arc<IssuedStore>>;

impl Acme {
    /// For the plan that the process starts with. What was issued is kept in this directory.
    pub(crate) fn new(state: PathBuf, plan: &Plan) -> (Self, mpsc::Receiver<News>) {
        let (news, told) = mpsc::channel(NEWS);
        let acme = Self {
            state,
            challenges: Arc::default(),
            news,
            renewal: Mutex::default(),
            local: Mutex::default(),
        };
        acme.stock(plan);
        (acme, told)
    }

    /// From where checks over plain HTTP are answered.
    pub(crate) fn challenges(&self) -> Arc<Challenges> {
        self.challenges.clone()
    }

    /// Lays out what is on disk for the listeners of a plan that is to take over.
    pub(crate) fn stock(&self, plan: &Plan) {
        if plan.listeners.iter().any(|listener| listener.tls.as_ref().is_some_and(|tls| tls.local))
            && let Err(why) = self.stock_local()
        {
            warn(format_args!("no certificates for localhost: {why}"));
        }
        let policies = policies(plan);
        if policies.is_empty() {
            return;
        }
        let mut renewal = self.renewal();
        if renewal.is_none() {
            let challenges = self.challenges();
            let http: HttpAnswers = Arc::new(move |token, answer| challenges.set(token, answer));
            let options = Options { state: self.state.clone(), http, news: self.news.clone() };
            match RenewalService::start(options) {
                Ok(started) => *renewal = Some(started),
                Err(error) => {
                    warn(format_args!("cannot start the thread that asks for certificates: {error}"))
                }
            }
        }
        renewal.iter().for_each(|renewal| renewal.stock(&policies));
    }

    fn stock_local(&self) -> Result<(), String> {
        let mut local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        if local.is_none() {
            let (authority, why) = LocalAuthority::open(&self.state)?;
            why.into_iter().for_each(warn);
            let issued_store = IssuedStore::of_process(local::MARK);
            Arc::new(authority).serve(&issued_store)?;
            *local = Some(issued_store);
        }
        Ok(())
    }

    /// From now on this is what is asked for.
    pub(crate) fn follow(&self, plan: &Plan) {
        self.renewal().iter().for_each(|renewal| renewal.follow(policies(plan)));
    }

    /// Somebody may have mended what has failed.
    pub(crate) fn try_again(&self) {
        self.renewal().iter().for_each(RenewalService::try_again);
    }

    fn renewal(&self) -> MutexGuard<'_, Option<RenewalService>> {
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the listeners of a plan ask for.
fn policies(plan: &Plan) -> Vec<Arc<AcmePolicy>> {
    let tls = plan.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    tls.filter_map(|tls| tls.acme.clone()).collect()
}

/// Counts and says what has happened; the event, where it is one.
pub(crate) fn tell(news: News, registry: &Registry) -> Option<Event> {
    let (kind, cause) = match news {
        News::Said(line) => {
            info(line);
            return None;
        }
        News::Issued { name, renewed, not_after } => {
            registry.acme().count_issued(renewed);
            let what = if renewed { "renewed" } else { "issued" };
            let cause = format!("the certificate for {name} was {what}; it expires in {}", left(not_after));
            (EventKind::CertificateRenewed, cause)
        }
        News::Failed { name, why, again } => {
            registry.acme().count_failed();
            let again = match again {
                Some(again) => {
                    format!("tried again in {}", duration_text(Duration::from_secs(again.as_secs())))
                }
                None => "tried again when a client asks for it".to_owned(),
            };
            (EventKind::CertificateFailed, format!("no certificate for {name}: {why}; {again}"))
        }
    };
    match kind {
        EventKind::CertificateRenewed => info(&cause),
        _ => warn(&cause),
    }
    Some(event(kind, cause))
}

/// The time until then, in days where it is days.
fn left(then: SystemTime) -> String {
    const DAY: u64 = 24 * 60 * 60;
    let seconds = then.duration_since(SystemTime::now()).unwrap_or_default().as_secs();
    duration_text(Duration::from_secs(if seconds >= DAY { seconds / DAY * DAY } else { seconds }))
}
