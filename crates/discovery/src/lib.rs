//! Where endpoints come from, when they are not addresses: today, host names.
//!
//! Runs on the control thread; workers only ever get the result ([`Names`]). Names are resolved as
//! the system says (hosts file, resolv.conf), again at their TTL but not more often than
//! [`RESOLVE_FLOOR`]; a name that cannot be resolved keeps its last good answer.
#![forbid(unsafe_code)]

use hickory_resolver::TokioResolver;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_core::limits::RESOLVE_FLOOR;
use thalweg_upstream::{Address, Names, Service};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Longest time between two resolutions, whatever the TTL says.
const LONGEST: Duration = Duration::from_secs(300);
/// Longest pause after failures; the first is [`RESOLVE_FLOOR`], then it doubles.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Answers waiting to be taken over.
const WAITING: usize = 256;

/// The host names that the services' endpoints use.
pub fn names_in<'a>(services: impl Iterator<Item = &'a Arc<Service>>) -> BTreeSet<Arc<str>> {
    let endpoints = services.flat_map(|service| &service.endpoints);
    let names = endpoints.filter_map(|endpoint| match &endpoint.address {
        Address::Name { host, .. } => Some(host.clone()),
        Address::Socket(_) | Address::Unix(_) => None,
    });
    names.collect()
}

/// What became of one resolution.
#[derive(Debug)]
enum Answer {
    Addresses(Vec<IpAddr>),
    Failed(String),
}

/// Keeps host names resolved. Dropping it ends the work.
#[derive(Debug)]
pub struct Watch {
    tasks: JoinSet<()>,
    answers: mpsc::Receiver<(Arc<str>, Answer)>,
    names: Names,
    wanted: usize,
}

/// News from a [`Watch`].
#[derive(Debug)]
pub enum News {
    /// A name stands for other addresses than before; here are all names.
    Changed(Names),
    /// A name could not be resolved; what was known of it stays. A sentence for the operator.
    Failed(String),
}

impl Watch {
    /// Starts to resolve `names` on the current tokio runtime; `known` is what is known already.
    pub fn start(names: &BTreeSet<Arc<str>>, known: &Names) -> Self {
        let (answers_in, answers) = mpsc::channel(WAITING);
        let mut tasks = JoinSet::new();
        if !names.is_empty() {
            let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build());
            let resolver = resolver.map(Arc::new).map_err(|error| error.to_string());
            for name in names {
                tasks.spawn(keep(name.clone(), resolver.clone(), answers_in.clone()));
            }
        }
        let known = known.iter().filter(|(name, _)| names.contains(*name));
        let known = known.map(|(name, addresses)| (name.clone(), addresses.clone())).collect();
        Self { tasks, answers, names: known, wanted: names.len() }
    }

    /// Whether every name has been resolved at least once.
    pub fn is_complete(&self) -> bool {
        self.names.len() >= self.wanted
    }

    /// The next news. Waits for ever when there is no name. Cancel-safe.
    pub async fn next(&mut self) -> News {
        loop {
            match self.answers.recv().await {
                Some((name, Answer::Failed(why))) => {
                    return News::Failed(format!("cannot resolve `{name}`: {why}"));
                }
                Some((name, Answer::Addresses(addresses))) => {
                    if self.names.get(&name) != Some(&addresses) {
                        self.names.insert(name, addresses);
                        return News::Changed(self.names.clone());
                    }
                }
                None => std::future::pending().await,
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tasks.abort_all();
    }
}

/// Asks for all names at once, and waits for at most `limit`.
///
/// # Returns
/// Those that did not resolve in this time, and why.
pub async fn look_up(names: &BTreeSet<Arc<str>>, limit: Duration) -> BTreeMap<Arc<str>, String> {
    let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build());
    let resolver = resolver.map(Arc::new).map_err(|error| error.to_string());
    let mut tasks = JoinSet::new();
    for name in names {
        let (name, resolver) = (name.clone(), resolver.clone());
        tasks.spawn(async move {
            let answer = resolve(&name, &resolver).await;
            (name, answer.map(drop))
        });
    }
    let late = format!("no answer within {limit:?}");
    let mut failures: BTreeMap<Arc<str>, String> =
        names.iter().map(|name| (name.clone(), late.clone())).collect();
    let _ = tokio::time::timeout(limit, async {
        while let Some(done) = tasks.join_next().await {
            match done {
                Ok((name, Ok(()))) => drop(failures.remove(&name)),
                Ok((name, Err(why))) => drop(failures.insert(name, why)),
                Err(_) => {}
            }
        }
    })
    .await;
    failures
}

/// Resolves one name for ever.
async fn keep(
    name: Arc<str>,
    resolver: Result<Arc<TokioResolver>, String>,
    answers: mpsc::Sender<(Arc<str>, Answer)>,
) {
    let mut pause = RESOLVE_FLOOR;
    loop {
        let (answer, wait) = match resolve(&name, &resolver).await {
            Ok((addresses, valid_until)) => {
                pause = RESOLVE_FLOOR;
                let wait = valid_until.saturating_duration_since(Instant::now());
                (Answer::Addresses(addresses), wait.clamp(RESOLVE_FLOOR, LONGEST))
            }
            Err(why) => {
                let wait = pause;
                pause = (pause * 2).min(LONGEST_PAUSE);
                (Answer::Failed(why), wait)
            }
        };
        if answers.send((name.clone(), answer)).await.is_err() {
            return;
        }
        tokio::time::sleep(wait).await;
    }
}

async fn resolve(
    name: &str,
    resolver: &Result<Arc<TokioResolver>, String>,
) -> Result<(Vec<IpAddr>, Instant), String> {
    // RFC 6761 §6.3: `localhost` and what is below it are this machine, whatever a server says.
    if name == "localhost" || name.ends_with(".localhost") {
        let addresses = vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
        return Ok((addresses, Instant::now() + LONGEST));
    }
    let resolver = resolver.as_ref().map_err(Clone::clone)?;
    let found = resolver.lookup_ip(name).await.map_err(|error| error.to_string())?;
    let mut addresses: Vec<IpAddr> = found.iter().collect();
    addresses.sort();
    addresses.dedup();
    if addresses.is_empty() {
        return Err("it has no address".into());
    }
    Ok((addresses, found.valid_until()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn localhost_is_this_machine_in_both_families() {
        runtime().block_on(async {
            let names = BTreeSet::from([Arc::from("localhost")]);
            let mut watch = Watch::start(&names, &Names::new());
            let News::Changed(names) = watch.next().await else { panic!("localhost must resolve") };
            assert_eq!(names["localhost"].len(), 2);
            assert!(watch.is_complete());
        });
    }

    #[test]
    fn a_look_up_names_what_does_not_resolve() {
        runtime().block_on(async {
            let names = BTreeSet::from([Arc::from("localhost"), Arc::from("nothing.invalid")]);
            let failures = look_up(&names, Duration::from_secs(3)).await;
            assert_eq!(failures.keys().map(|name| &**name).collect::<Vec<_>>(), ["nothing.invalid"]);
        });
    }

    #[test]
    fn a_name_that_cannot_be_resolved_keeps_what_is_known() {
        runtime().block_on(async {
            let names = BTreeSet::from([Arc::from("nothing.invalid")]);
            let known = Names::from([(Arc::from("nothing.invalid"), vec![IpAddr::from([192, 0, 2, 1])])]);
            let mut watch = Watch::start(&names, &known);
            let News::Failed(text) = watch.next().await else { panic!(".invalid must not resolve") };
            assert!(text.contains("nothing.invalid"), "{text}");
            assert!(watch.is_complete());
        });
    }
}
