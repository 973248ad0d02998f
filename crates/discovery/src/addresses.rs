//! Addresses of host names.
//!
//! Names are resolved as the system says (hosts file, resolv.conf), again at their TTL but not more often than
//! [`RESOLVE_FLOOR`]; a name that cannot be resolved keeps its last good answer.

use crate::follower::{Followed, Follower, Next, Update, names_in};
use crate::resolver::{loopback, system, words};
use hickory_resolver::TokioResolver;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_core::limits::RESOLVE_FLOOR;
use thalweg_core::units::duration_text;
use thalweg_upstream::Names;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

/// Longest time between two resolutions, whatever the TTL says.
const LONGEST: Duration = Duration::from_secs(300);
/// Longest pause after failures; the first is [`RESOLVE_FLOOR`], then it doubles.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Answers waiting to be taken over.
const WAITING: usize = 256;

/// What became of one resolution.
#[derive(Debug)]
enum Answer {
    Addresses(Vec<IpAddr>),
    Failed(String),
}

/// Keeps host names resolved. Dropping it ends the work.
#[derive(Debug)]
pub(crate) struct HostAddresses {
    resolver: Option<Result<Arc<TokioResolver>, String>>,
    tasks: JoinSet<()>,
    wanted: HashMap<Arc<str>, AbortHandle>,
    answers: mpsc::Receiver<(Arc<str>, Answer)>,
    answers_in: mpsc::Sender<(Arc<str>, Answer)>,
    names: Names,
}

pub(crate) fn new(known: &Names) -> HostAddresses {
    let (answers_in, answers) = mpsc::channel(WAITING);
    let (tasks, wanted) = (JoinSet::new(), HashMap::new());
    HostAddresses { resolver: None, tasks, wanted, answers, answers_in, names: known.clone() }
}

impl Follower for HostAddresses {
    /// Names that are new are resolved now; those that stay are not asked for anew.
    fn follow(&mut self, services: Followed<'_>) {
        let names = names_in(services.running.iter());
        self.wanted.retain(|name, task| {
            let stays = names.contains(name);
            if !stays {
                task.abort();
            }
            stays
        });
        self.names.retain(|name, _| names.contains(name));
        while self.tasks.try_join_next().is_some() {}
        for name in names {
            if self.wanted.contains_key(&name) {
                continue;
            }
            let resolver = self.resolver.get_or_insert_with(system).clone();
            let task = self.tasks.spawn(keep(name.clone(), resolver, self.answers_in.clone()));
            self.wanted.insert(name, task);
        }
    }

    fn next(&mut self) -> Next<'_> {
        Box::pin(async {
            loop {
                match self.answers.recv().await {
                    Some((name, _)) if !self.wanted.contains_key(&name) => {}
                    Some((name, Answer::Failed(why))) => {
                        return Update::Failed(format!("host `{name}` {why}"));
                    }
                    Some((host, Answer::Addresses(addresses))) => {
                        if self.names.get(&host) != Some(&addresses) {
                            self.names.insert(host.clone(), addresses.clone());
                            return Update::Addresses { host, addresses };
                        }
                    }
                    None => std::future::pending().await,
                }
            }
        })
    }

    /// Whether every name has been resolved at least once.
    fn is_complete(&self) -> bool {
        self.wanted.keys().all(|name| self.names.contains_key(name))
    }
}

impl Drop for HostAddresses {
    fn drop(&mut self) {
        self.tasks.abort_all();
    }
}

/// Asks for all names at once, and waits for at most `limit`.
///
/// # Returns
/// Those that did not resolve in this time, and why.
pub async fn look_up(names: &BTreeSet<Arc<str>>, limit: Duration) -> BTreeMap<Arc<str>, String> {
    let resolver = system();
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
                (Answer::Failed(format!("{why}; asked again in {}", duration_text(wait))), wait)
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
    if let Some(addresses) = loopback(name) {
        return Ok((addresses, Instant::now() + LONGEST));
    }
    let resolver = resolver.as_ref().map_err(Clone::clone)?;
    let found = resolver.lookup_ip(name).await.map_err(|error| words(&error))?;
    let mut addresses: Vec<IpAddr> = found.iter().collect();
    addresses.sort();
    addresses.dedup();
    if addresses.is_empty() {
        return Err("has no address".into());
    }
    Ok((addresses, found.valid_until()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_upstream::{Address, Endpoint, EndpointLimits, Labels, Mode, Service};

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn follow(dns: &mut HostAddresses, hosts: &[&str]) {
        let endpoint = |host: &&str| Endpoint {
            url: format!("http://{host}:80").into(),
            address: Address::Name { host: (*host).into(), port: 80 },
            weight: 1,
            tier: 0,
            mode: Mode::Ready,
            labels: Labels::default(),
            limits: EndpointLimits::default(),
            is_added: false,
        };
        let endpoints = hosts.iter().map(endpoint).collect();
        let running = &[Arc::new(Service { name: "s".into(), endpoints, ..Service::default() })];
        dns.follow(Followed { configured: &[], running, sources: &[] });
    }

    #[test]
    fn localhost_is_this_machine_in_both_families() {
        runtime().block_on(async {
            let mut dns = new(&Names::new());
            follow(&mut dns, &["localhost"]);
            assert!(!dns.is_complete());
            let Update::Addresses { addresses, .. } = dns.next().await else {
                panic!("localhost must resolve")
            };
            assert_eq!(addresses.len(), 2);
            assert!(dns.is_complete());
        });
    }

    #[test]
    fn a_name_that_stays_is_not_asked_for_anew_and_one_that_is_gone_is_forgotten() {
        runtime().block_on(async {
            let mut dns = new(&Names::new());
            follow(&mut dns, &["a.localhost"]);
            dns.next().await;
            let first = dns.wanted["a.localhost"].id();
            follow(&mut dns, &["a.localhost", "b.localhost"]);
            assert_eq!(dns.wanted["a.localhost"].id(), first);
            let Update::Addresses { host, .. } = dns.next().await else { panic!("it must resolve") };
            assert_eq!(&*host, "b.localhost");
            follow(&mut dns, &["b.localhost"]);
            assert_eq!(dns.names.keys().map(|name| &**name).collect::<Vec<_>>(), ["b.localhost"]);
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
            let known = Names::from([(Arc::from("nothing.invalid"), vec![IpAddr::from([192, 0, 2, 1])])]);
            let mut dns = new(&known);
            follow(&mut dns, &["nothing.invalid"]);
            let Update::Failed(text) = dns.next().await else { panic!(".invalid must not resolve") };
            assert!(
                text.starts_with("host `nothing.invalid` ") && text.contains("; asked again in "),
                "{text}"
            );
            assert!(!text.contains("Query"), "{text}");
            assert!(dns.is_complete());
        });
    }
}
