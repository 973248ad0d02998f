//! Looks after all names: what is missing or due is ordered, some at a time, each for itself.
//!
//! A thread with a runtime of its own. It follows the newest policies that it was given, and tells what comes of them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant, SystemTime};

use thalweg_tls::AcmePolicy;
use thalweg_tls::Trust;
use thalweg_tls::{Certificate, IssuedStore};
use tokio::runtime::Builder;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};

use crate::account::Authority;
use crate::challenge::{HttpAnswers, Stage};
use crate::failure::Failure;
use crate::keys;
use crate::on_demand::{self, Gate};
use crate::renew::{Report, Task, Tended, Wish, due_of};
use crate::renewal::{Validity, pause, rest_after};
use crate::storage::Archive;
use thalweg_client::HttpClient;

/// Names that are looked at at the same time.
const AT_ONCE: usize = 32;
/// When a name is looked at again that another process orders.
const ELSEWHERE: Duration = Duration::from_secs(1);
/// The longest sleep: clocks are set.
const SLEEP: Duration = Duration::from_secs(60);
/// Names of a line.
const NAMES: usize = 10;

/// What the thread needs.
pub struct Options {
    /// The state directory; what is kept stands in `acme` below it.
    pub state: PathBuf,
    /// How listeners for plain HTTP learn of challenges.
    pub http: HttpAnswers,
    /// Who is told.
    pub news: mpsc::Sender<News>,
}

/// What happens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum News {
    /// A certificate was issued, and is shown.
    Issued {
        /// The name.
        name: String,
        /// In place of an older one.
        renewed: bool,
        /// When it ceases to be valid.
        not_after: SystemTime,
    },
    /// There is none, or no newer one.
    Failed {
        /// The name.
        name: String,
        /// Why, in a sentence without a full stop.
        why: String,
        /// When the next attempt is made; `None`: when a client asks for it.
        again: Option<Duration>,
    },
    /// A line for the operator.
    Said(String),
}

/// The thread, as those see it who have something to ask of it. It ends when this is dropped; what it does then is gone
/// on with at the next start.
#[derive(Debug)]
pub struct RenewalService {
    state: PathBuf,
    policies: watch::Sender<Vec<Arc<AcmePolicy>>>,
    again: Arc<Notify>,
}

impl RenewalService {
    /// Starts the thread, which has nothing to do yet.
    ///
    /// # Errors
    /// When there can be no thread or no runtime.
    pub fn start(options: Options) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let state = options.state.clone();
        let (policies, newest) = watch::channel(Vec::new());
        let work = Work::new(options);
        let again = work.again.clone();
        std::thread::Builder::new().name("thalweg-acme".into()).spawn(move || {
            runtime.block_on(work.run(newest));
        })?;
        Ok(Self { state, policies, again })
    }

    /// Puts on the stores what is on disk for these policies, and stand-ins for the rest: to be called before listeners
    /// use them.
    pub fn stock(&self, policies: &[Arc<AcmePolicy>]) {
        for policy in policies {
            let (issued_store, archive) =
                (IssuedStore::of_process(&policy.mark()), Archive::of(&self.state, policy));
            for name in names_of(policy, &archive) {
                if issued_store.has(&name) {
                    continue;
                }
                match archive.drawer(policy, &name).certificate() {
                    Some(kept) => issued_store.put(&name, kept),
                    None if !policy.domains.contains(&name) => {}
                    // Without one the client is refused, which is no worse.
                    None => {
                        drop(keys::placeholder(&name).map(|it| issued_store.stand_in(&name, Arc::new(it))))
                    }
                }
            }
        }
    }

    /// What has failed is tried again at once: somebody may have mended it.
    pub fn try_again(&self) {
        self.again.notify_one();
    }

    /// From now on these are followed.
    pub fn follow(&self, policies: Vec<Arc<AcmePolicy>>) {
        self.policies.send_replace(policies);
    }
}

/// The names of a policy: those that are written, and those that clients have brought before and have a certificate.
fn names_of(policy: &AcmePolicy, archive: &Archive) -> Vec<String> {
    let mut names = policy.domains.clone();
    if let Some(on_demand) = &policy.on_demand {
        let brought = archive.names(policy).into_iter();
        names.extend(brought.filter(|name| {
            let is_ours = on_demand.allows(name) && !policy.domains.contains(name);
            is_ours && archive.drawer(policy, name).valid_certificate().is_some()
        }));
    }
    names
}

/// A mark and a name.
type Key = (String, String);

/// A name that is looked after.
struct Entry {
    policy: Arc<AcmePolicy>,
    authority: Arc<Authority>,
    issued_store: Arc<IssuedStore>,
    certificate: Option<Arc<Certificate>>,
    wish: Option<Wish>,
    next: SystemTime,
    failures: u32,
    /// Certificates issued in a row that were due at once.
    hasty: u32,
    /// Until then no other is ordered, however due this one seems by its own dates: a clock may be wrong, theirs or
    /// ours.
    fresh_until: Instant,
    busy: bool,
    /// A client has brought it.
    brought: bool,
}

/// Rings when a client waits for a name.
struct Bell(Arc<Notify>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

struct Work {
    options: Options,
    policies: Vec<Arc<AcmePolicy>>,
    authorities: Vec<(Arc<AcmePolicy>, Arc<Authority>)>,
    names: BTreeMap<Key, Entry>,
    tasks: JoinSet<Report>,
    under_way: HashMap<Id, Key>,
    gates: HashMap<String, Gate>,
    /// Calls hooks, and whoever is asked: what the authority is trusted by says nothing of them.
    client: HttpClient,
    /// Names that somebody is asked about: whether they may be ordered.
    asked: JoinSet<(Key, bool)>,
    rung: Arc<Notify>,
    bell: Waker,
    /// What has failed is to be tried again.
    again: Arc<Notify>,
}

impl Work {
    fn new(options: Options) -> Self {
        let rung = Arc::new(Notify::new());
        Self {
            options,
            policies: Vec::new(),
            authorities: Vec::new(),
            names: BTreeMap::new(),
            tasks: JoinSet::new(),
            under_way: HashMap::new(),
            gates: HashMap::new(),
            client: HttpClient::new(Trust::System),
            asked: JoinSet::new(),
            bell: Arc::new(Bell(rung.clone())).into(),
            rung,
            again: Arc::default(),
        }
    }

    async fn run(mut self, mut newest: watch::Receiver<Vec<Arc<AcmePolicy>>>) {
        loop {
            self.hear_wants().await;
            let sleep = self.begin_what_is_due();
            tokio::select! {
                changed = newest.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let policies = newest.borrow_and_update().clone();
                    self.follow(policies).await;
                }
                Some(done) = self.tasks.join_next_with_id() => self.settle(done).await,
                Some(Ok((key, allowed))) = self.asked.join_next() => self.answered(key, allowed).await,
                () = self.rung.notified() => {}
                () = self.again.notified() => self.try_again(),
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    fn try_again(&mut self) {
        for entry in self.names.values_mut().filter(|entry| entry.failures > 0) {
            entry.next = SystemTime::UNIX_EPOCH;
        }
    }

    async fn tell(&self, news: News) {
        // Nobody listens any more when the process ends.
        let _ = self.options.news.send(news).await;
    }

    /// Takes up these policies: names that stay keep what is known of them.
    async fn follow(&mut self, policies: Vec<Arc<AcmePolicy>>) {
        let mut before = std::mem::take(&mut self.names);
        let mut missing = Vec::new();
        for policy in &policies {
            let authority = self.authority(policy);
            let (mark, issued_store) = (policy.mark(), IssuedStore::of_process(&policy.mark()));
            for name in names_of(policy, &authority.archive) {
                let key = (mark.clone(), name);
                if self.names.contains_key(&key) {
                    continue;
                }
                let brought = !policy.domains.contains(&key.1);
                let entry = match before.remove(&key) {
                    Some(known) if known.policy == *policy => known,
                    known => {
                        let (busy, hasty, fresh_until) = known
                            .map_or((false, 0, Instant::now()), |it| (it.busy, it.hasty, it.fresh_until));
                        let entry = Entry::new(policy, (&authority, &issued_store), &key.1, brought);
                        if entry.certificate.is_none() && !brought {
                            missing.push(key.1.clone());
                        }
                        Entry { busy, hasty, fresh_until, ..entry }
                    }
                };
                // Another process may have ordered it, or a change of the plan that knew nothing of certificates
                // brought it here.
                entry.shelve(&key.1);
                self.names.insert(key, entry);
            }
        }
        // Of names that somebody was asked about there is no list: they stay as long as the same is asked.
        for (key, entry) in before {
            let asks_the_same = |policy: &&Arc<AcmePolicy>| {
                policy.mark() == key.0
                    && policy.on_demand == entry.policy.on_demand
                    && is_of_same_authority(policy, &entry.policy)
            };
            match policies.iter().find(asks_the_same).filter(|_| entry.brought) {
                Some(policy) => {
                    let entry = Entry { policy: policy.clone(), ..entry };
                    self.names.entry(key).or_insert(entry);
                }
                None => {
                    entry.issued_store.remove(&key.1);
                    // Who waits for it asks these policies.
                    entry.issued_store.want_again(&key.1);
                }
            }
        }
        self.policies = policies;
        self.authorities
            .retain(|(asked, _)| self.policies.iter().any(|policy| is_of_same_authority(asked, policy)));
        if !missing.is_empty() {
            let more = if missing.len() > NAMES { ", …" } else { "" };
            missing.truncate(NAMES);
            let line = format!(
                "no certificate yet for {}{more}: until one is issued clients get one that nobody trusts",
                missing.join(", ")
            );
            self.tell(News::Said(line)).await;
        }
    }

    fn authority(&mut self, policy: &Arc<AcmePolicy>) -> Arc<Authority> {
        let known = self.authorities.iter().find(|(asked, _)| is_of_same_authority(asked, policy));
        if let Some((_, authority)) = known {
            return authority.clone();
        }
        let authority = Arc::new(Authority::new(&self.options.state, policy));
        self.authorities.push((policy.clone(), authority.clone()));
        authority
    }

    /// Begins to look at what is due, and says how long nothing else will be.
    fn begin_what_is_due(&mut self) -> Duration {
        let now = SystemTime::now();
        let mut sleep = SLEEP;
        let mut waiting: Vec<_> = self.names.iter_mut().filter(|(_, entry)| !entry.busy).collect();
        waiting.sort_by_key(|(_, entry)| entry.next);
        for (key, entry) in waiting {
            if let Ok(left) = entry.next.duration_since(now)
                && !left.is_zero()
            {
                sleep = sleep.min(left);
                break;
            }
            if self.under_way.len() >= AT_ONCE {
                break;
            }
            entry.busy = true;
            let task = entry.task(&key.1, (&self.options, &self.client));
            self.under_way.insert(self.tasks.spawn(task.run()).id(), key.clone());
        }
        sleep
    }

    /// What came of looking at a name.
    async fn settle(&mut self, done: Result<(Id, Report), JoinError>) {
        let (id, report) = match done {
            Ok((id, report)) => (id, report),
            Err(error) => {
                let came = Tended::Failed(Failure::Other(format!("an error of our own: {error}")));
                (error.id(), Report { came, told: Vec::new() })
            }
        };
        let Some(key) = self.under_way.remove(&id) else { return };
        for line in report.told {
            self.tell(News::Said(line)).await;
        }
        // A name that is gone may have been ordered all the same: it is on disk.
        let Some(entry) = self.names.get_mut(&key) else { return };
        entry.busy = false;
        let now = SystemTime::now();
        let name = key.1.clone();
        let news = match report.came {
            Tended::Elsewhere => {
                entry.next = now + ELSEWHERE;
                return;
            }
            Tended::Rests(wish) => {
                entry.rest(wish);
                return;
            }
            Tended::Found(certificate) => {
                entry.show(&name, certificate);
                return;
            }
            Tended::Issued(certificate) => {
                let (renewed, not_after) = (entry.certificate.is_some(), certificate.not_after());
                let life = Validity { from: certificate.not_before(), until: not_after };
                entry.fresh_until = Instant::now() + rest_after(life, now, entry.hasty, fastrand::f64());
                entry.hasty = entry.hasty.saturating_add(1);
                entry.show(&name, certificate);
                News::Issued { name, renewed, not_after }
            }
            Tended::Failed(why) => {
                entry.failures = entry.failures.saturating_add(1);
                let again = pause(entry.failures, fastrand::f64());
                entry.next = now + again;
                let is_over = entry.certificate.as_ref().is_none_or(|shown| shown.not_after() <= now);
                let why = why.to_string();
                match entry.brought && is_over {
                    true => {
                        entry.issued_store.remove(&name);
                        entry.issued_store.settle(&name, false);
                        self.names.remove(&key);
                        News::Failed { name, why, again: None }
                    }
                    false => News::Failed { name, why, again: Some(again) },
                }
            }
        };
        self.tell(news).await;
    }

    /// Takes up names that clients wait for.
    async fn hear_wants(&mut self) {
        let mut wanted = Vec::new();
        for policy in self.policies.iter().filter(|policy| policy.on_demand.is_some()) {
            let mark = policy.mark();
            let fresh = IssuedStore::of_process(&mark).take_wanted(&self.bell);
            wanted.extend(fresh.into_iter().map(|name| (mark.clone(), name)));
        }
        for key in wanted {
            self.consider(key).await;
        }
    }

    async fn consider(&mut self, key: Key) {
        let (mark, name) = &key;
        let policies = || {
            let of_mark = self.policies.iter().filter(|policy| policy.mark() == *mark);
            of_mark.filter_map(|policy| Some((policy, policy.on_demand.as_ref()?)))
        };
        if policies().any(|(_, on_demand)| on_demand.allows(name)) {
            return self.answered(key, true).await;
        }
        let Some(url) = policies().find_map(|(_, on_demand)| on_demand.ask.clone()) else {
            return self.answered(key, false).await;
        };
        let gate = self.gates.entry(mark.clone()).or_default();
        if let Some(allowed) = gate.answer(name, Instant::now()) {
            return self.answered(key, allowed).await;
        }
        let client = self.client.clone();
        self.asked.spawn(async move {
            let allowed = on_demand::ask(client, url, key.1.clone()).await;
            (key, allowed)
        });
    }

    /// Whether a name that a client waits for may be ordered.
    async fn answered(&mut self, key: Key, allowed: bool) {
        let (mark, name) = &key;
        let issued_store = IssuedStore::of_process(mark);
        let gate = self.gates.entry(mark.clone()).or_default();
        gate.note(name, allowed, Instant::now());
        let of_mark = |policy: &&Arc<AcmePolicy>| policy.mark() == *mark && policy.on_demand.is_some();
        let Some(policy) = self.policies.iter().find(of_mark).cloned().filter(|_| allowed) else {
            return issued_store.settle(name, false);
        };
        if let Some(known) = self.names.get(&key) {
            // Where it has none, it is being ordered.
            return known.shelve(name);
        }
        let archive = Archive::of(&self.options.state, &policy);
        let is_kept = archive.drawer(&policy, name).valid_certificate().is_some();
        let per_hour = policy.on_demand.as_ref().map_or(0, |on_demand| on_demand.per_hour);
        if !is_kept && !gate.admits(per_hour, Instant::now()) {
            issued_store.settle(name, false);
            if !gate.may_say(Instant::now()) {
                return;
            }
            let line = format!("`{name}` is not ordered: {per_hour} names have been brought within an hour");
            return self.tell(News::Said(line)).await;
        }
        let entry = Entry::new(&policy, (&self.authority(&policy), &issued_store), name, true);
        entry.shelve(name);
        self.names.insert(key, entry);
    }
}

impl Entry {
    fn new(
        policy: &Arc<AcmePolicy>,
        (authority, issued_store): (&Arc<Authority>, &Arc<IssuedStore>),
        name: &str,
        brought: bool,
    ) -> Self {
        Self {
            policy: policy.clone(),
            authority: authority.clone(),
            issued_store: issued_store.clone(),
            certificate: authority.archive.drawer(policy, name).certificate(),
            wish: None,
            next: SystemTime::UNIX_EPOCH,
            failures: 0,
            hasty: 0,
            fresh_until: Instant::now(),
            busy: false,
            brought,
        }
    }

    fn task(&self, name: &str, (options, client): (&Options, &HttpClient)) -> Task {
        Task {
            authority: self.authority.clone(),
            policy: self.policy.clone(),
            name: name.to_owned(),
            stage: Stage {
                http: options.http.clone(),
                issued_store: self.issued_store.clone(),
                client: client.clone(),
            },
            known: self.certificate.clone(),
            wish: self.wish,
            fresh_until: self.fresh_until,
        }
    }

    /// Puts what there is on the store of issued certificates, where that has none.
    fn shelve(&self, name: &str) {
        let valid = self.certificate.as_ref().filter(|kept| kept.not_after() > SystemTime::now());
        if let Some(kept) = valid.filter(|_| !self.issued_store.has(name)) {
            self.issued_store.put(name, kept.clone());
        }
    }

    /// It is not due; it is looked at again when it is, or when the authority is to be asked again.
    fn rest(&mut self, wish: Wish) {
        let due = self.certificate.as_ref().map(|shown| due_of(shown, wish.window));
        let now = SystemTime::now();
        let rests = self.fresh_until.saturating_duration_since(Instant::now());
        self.next = due.map_or(wish.until, |due| due.min(wish.until)).max(now + rests);
        if due.is_some_and(|due| due > now) {
            self.hasty = 0;
        }
        self.wish = Some(wish);
        self.failures = 0;
    }

    /// Shows a certificate from now on. When it is due is looked up next.
    fn show(&mut self, name: &str, certificate: Arc<Certificate>) {
        self.issued_store.put(name, certificate.clone());
        self.certificate = Some(certificate);
        self.wish = None;
        self.failures = 0;
        self.next = SystemTime::now();
    }
}

fn is_of_same_authority(one: &AcmePolicy, other: &AcmePolicy) -> bool {
    (&one.directory, &one.directory_ca, &one.eab) == (&other.directory, &other.directory_ca, &other.eab)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::tests::{State, policy};
    use rcgen::date_time_ymd;
    use thalweg_tls::OnDemandPolicy;
    use thalweg_tls::acme::DIRECTORY;

    /// A certificate that is valid up to this year, and its key.
    fn until(name: &str, year: i32) -> (String, String) {
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(year, 1, 1));
        let key = rcgen::KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn names_that_clients_have_brought_are_forgotten_with_their_certificates() {
        let state = State::new("departed");
        let on_demand = OnDemandPolicy { allow: vec!["*.d.test".to_owned()], ask: None, per_hour: 1 };
        let policy = AcmePolicy { on_demand: Some(on_demand), ..policy(DIRECTORY) };
        let archive = Archive::of(&state.0, &policy);
        for (name, year) in [("here.d.test", 4000), ("gone.d.test", 2002)] {
            let (chain, key) = until(name, year);
            archive.drawer(&policy, name).keep_certificate(&chain, &key).unwrap();
        }
        assert_eq!(names_of(&policy, &archive), ["a.test", "here.d.test"]);
    }
}
