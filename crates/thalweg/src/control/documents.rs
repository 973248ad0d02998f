//! Documents of route sources: the versions that sources sent last, those that run, and the reasons why others do not.
//!
//! Two sets are kept of each source. The *running* documents are parts of the plan. The *good* ones are the last
//! version of each document that could run: a document that is left out stays among them, and is tried again. So a
//! document that leads past a protection of the file because of endpoints that were found later leaves the plan, and
//! comes back when these endpoints have gone.

use super::admin::Shared;
use super::base::Base;
use super::certificates::refreshed_files;
use super::configuration::Refused;
use super::discovered::{FoundSets, shown};
use super::history::Cause;
use super::kept_sources::{Findings, KeptSet};
use super::origin::{Candidate, Origin};
use crate::concealed::hide_all;
use crate::operator_log::{info, warn};
use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant, SystemTime};
use thalweg_admin::{Author, ConfigOrigin, SourceStatus};
use thalweg_config::settings::{RouteSource, Settings};
use thalweg_config::{Inputs, Loaded, Merged, Offer, RefusedDocument, check_text, with_documents};
use thalweg_core::{Event, EventKind};
use thalweg_discovery::Document;
use thalweg_observe::SourceStanding;
use thalweg_proxy::Plan;

/// For how long a version that made something else fail is not tried again, unless the file is read again.
const REFUSED_TIME: Duration = Duration::from_secs(30);
/// Flaws of one source that are told of.
const TOLD: usize = 20;

/// What one source has told.
#[derive(Clone, Debug)]
struct Told {
    newest: Arc<[Document]>,
    /// The documents that run.
    running: Arc<[Document]>,
    /// The last version of each that could run.
    good: Arc<[Document]>,
    /// Why the rest does not run: at most [`TOLD`] sentences, and how many more there are.
    flaws: Vec<String>,
    /// Versions that are not tried again before their time.
    refused: Vec<(RefusedDocument, Instant)>,
}

impl Told {
    fn new(newest: Arc<[Document]>, good: Arc<[Document]>) -> Self {
        Self { newest, running: Arc::default(), good, flaws: Vec::new(), refused: Vec::new() }
    }
}

/// The documents of all sources, by what these ask ([`RouteSource::question`]): a source whose token or times have
/// changed goes on with what is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Documents {
    told: HashMap<Arc<str>, Told>,
    /// How often others began to run.
    changes: u64,
    /// How often a configuration took over, with others or the same.
    takes: u64,
    /// Older ones than the newest were brought back with an older configuration.
    are_behind: bool,
    /// Why none take over; `None`: nothing keeps them.
    waits: Option<String>,
    /// Some are left out that may fit when sources find other endpoints.
    wait_for_found: bool,
}

/// The documents of the sources of a configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accepted {
    sources: Vec<AcceptedSource>,
    /// Some are left out that may fit when sources find other endpoints.
    wait_for_found: bool,
}

/// The documents of one source in a configuration.
#[derive(Clone, Debug)]
struct AcceptedSource {
    /// As [`RouteSource::question`].
    question: Arc<str>,
    /// As [`Told::running`].
    running: Arc<[Document]>,
    /// As [`Told::good`].
    good: Arc<[Document]>,
    flaws: Vec<String>,
}

/// What is not tried before its time, by what sources ask.
type SetAside = Vec<(Arc<str>, Vec<(RefusedDocument, Instant)>)>;

impl Documents {
    /// What was kept before a restart runs until sources tell of something else.
    pub(crate) fn kept(findings: &Findings, sources: &[RouteSource]) -> Self {
        let told = |RouteSource { question, .. }: &RouteSource| {
            let kept = findings.documents.get(&findings.names.name(question))?;
            Some((question.clone(), Told::new(kept.set.clone(), kept.set.clone())))
        };
        Self { told: sources.iter().filter_map(told).collect(), ..Self::default() }
    }

    /// A source has these documents now, and no others.
    pub(crate) fn put(&mut self, question: &Arc<str>, documents: Arc<[Document]>) {
        match self.told.get_mut(question) {
            Some(told) => told.newest = documents,
            None => drop(self.told.insert(question.clone(), Told::new(documents, Arc::default()))),
        }
    }

    /// These run now: of the sources of the configuration, and no others.
    pub(super) fn take(&mut self, accepted: Accepted) {
        let Accepted { sources, wait_for_found } = accepted;
        self.told.retain(|question, _| sources.iter().any(|known| known.question == *question));
        self.waits = None;
        self.wait_for_found = wait_for_found;
        self.takes += 1;
        for AcceptedSource { question, running, good, flaws } in sources {
            match self.told.get_mut(&question) {
                Some(told) => {
                    self.changes += u64::from(told.running != running || told.good != good);
                    (told.running, told.good, told.flaws) = (running, good, flaws);
                    told.refused.clear();
                }
                // Of a source that comes back with an older configuration: they are all that is known until it tells.
                None if !good.is_empty() => {
                    self.changes += 1;
                    self.told.insert(question, Told { running, flaws, ..Told::new(good.clone(), good) });
                }
                None => {}
            }
        }
    }

    /// Whether documents are left out that may fit when sources find other endpoints.
    pub(super) fn wait_for_found(&self) -> bool {
        self.wait_for_found
    }

    /// How often others began to run.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// An older configuration was brought back, with the documents that ran with it.
    pub(super) fn fall_behind(&mut self) {
        self.are_behind = true;
    }

    /// Whether the newest are to be merged again since an older configuration was brought back. Says it once.
    pub(super) fn take_behind(&mut self) -> bool {
        std::mem::take(&mut self.are_behind)
    }

    /// Takes note of why none take over. Says whether that is new.
    fn wait_for(&mut self, why: &str) -> bool {
        let is_new = self.waits.as_deref() != Some(why);
        self.waits = Some(why.to_owned());
        is_new
    }

    /// These are not tried again before their time.
    fn set_aside(&mut self, refused: SetAside) {
        for (question, refused) in refused {
            if let Some(told) = self.told.get_mut(&question) {
                told.refused = refused;
            }
        }
    }

    /// When something that was refused is to be tried again.
    fn next_trial(&self) -> Option<Instant> {
        self.told.values().flat_map(|told| &told.refused).map(|(_, until)| *until).min()
    }

    /// Why documents of this source do not run, for people.
    fn left_out(&self, question: &str) -> Vec<String> {
        let waits = self.waits.iter().map(|why| format!("documents of sources wait: {why}"));
        waits.chain(self.flaws(question).iter().cloned()).collect()
    }

    /// Those that run.
    pub(super) fn running(&self) -> Accepted {
        let each = self.told.iter().map(|(question, told)| AcceptedSource {
            question: question.clone(),
            running: told.running.clone(),
            good: told.good.clone(),
            flaws: told.flaws.clone(),
        });
        Accepted { sources: each.collect(), wait_for_found: self.wait_for_found }
    }

    /// Why documents of this source do not run.
    pub(super) fn flaws(&self, question: &str) -> &[String] {
        self.told.get(question).map_or(&[], |told| &told.flaws)
    }

    /// Whether these are the ones that run, whatever is said of the others.
    fn are_running(&self, accepted: &Accepted) -> bool {
        accepted.sources.iter().all(|source| match self.told.get(&source.question) {
            Some(told) => told.running == source.running,
            None => source.running.is_empty(),
        })
    }

    /// A configuration that is valid by itself, with all that its sources have told and that fits. Nothing in it leads
    /// past a protection of the file, to what is written or was found. All are tried.
    pub(crate) fn merge(&self, alone: Loaded, file: (&str, &str), found: &FoundSets) -> (Loaded, Accepted) {
        let (loaded, accepted, _) = self.merge_at(alone, file, (found, None));
        (loaded, accepted)
    }

    /// [`Self::merge`] without what was refused a short while before `now`. Tells what is not to be tried for a while.
    fn merge_at(
        &self,
        alone: Loaded,
        (name, text): (&str, &str),
        (found, now): (&FoundSets, Option<Instant>),
    ) -> (Loaded, Accepted, SetAside) {
        let sources: Vec<RouteSource> = alone.settings.route_sources.clone();
        let untried = |told: &Told| -> Vec<(RefusedDocument, Instant)> {
            let all = told.refused.iter().filter(|(_, until)| now.is_some_and(|now| now < *until));
            all.cloned().collect()
        };
        let offer = |source: &RouteSource| match self.told.get(&source.question) {
            Some(told) => Offer {
                source: source.words.clone(),
                documents: told.newest.clone(),
                good: told.good.clone(),
                refused: untried(told).into_iter().map(|(refused, _)| refused).collect(),
            },
            None => Offer {
                source: source.words.clone(),
                documents: Arc::default(),
                good: Arc::default(),
                refused: Arc::default(),
            },
        };
        let offers: Vec<_> = sources.iter().map(offer).collect();
        let environment = |name: &str| std::env::var(name).ok();
        let filled = |loaded: &Loaded| {
            let Loaded { plan, settings: Settings { discover, .. }, .. } = loaded;
            (!discover.is_empty()).then(|| Plan::clone(&Base::new(plan.clone(), discover, found)))
        };
        let Merged { loaded, running, good, flaws, refused, waits_for_found } =
            with_documents(alone, (name, text.as_bytes()), &environment, (&offers, &filled));
        let of = |at: usize| {
            let own = flaws.iter().filter(|flaw| flaw.source == at);
            in_sentences(own.map(|flaw| format!("{}: {}", flaw.document, flaw.message)))
        };
        let until = Instant::now() + REFUSED_TIME;
        let set_aside = sources.iter().zip(refused).map(|(source, new)| {
            let known = self.told.get(&source.question).map(untried).unwrap_or_default();
            let new = new.into_iter().map(|refused| (refused, until));
            (source.question.clone(), known.into_iter().chain(new).collect())
        });
        let set_aside = set_aside.collect();
        let each = sources.into_iter().zip(running).zip(good).enumerate();
        let each = each.map(|(at, ((RouteSource { question, .. }, running), good))| {
            let flaws = of(at);
            AcceptedSource { question, running, good, flaws }
        });
        let accepted = Accepted { sources: each.collect(), wait_for_found: waits_for_found };
        (loaded, accepted, set_aside)
    }
}

/// As many as are told of, and how many more there are.
fn in_sentences(mut flaws: impl Iterator<Item = String>) -> Vec<String> {
    let mut told: Vec<String> = flaws.by_ref().take(TOLD).collect();
    let more = flaws.count();
    told.extend((more > 0).then(|| format!("… and {more} more")));
    told
}

/// What is not told yet of what does not run, a line each.
pub(crate) fn news(before: &Documents, accepted: &Accepted) -> Vec<String> {
    let each = accepted.sources.iter();
    let each = each.flat_map(|source| source.flaws.iter().map(move |flaw| (&source.question, flaw)));
    let new = each.filter(|(question, flaw)| !before.flaws(question).contains(flaw));
    let words = |question: &str| question.lines().next().unwrap_or_default().to_owned();
    new.map(|(question, flaw)| format!("{}: {flaw}", words(question))).collect()
}

/// All that a merge is made of, as it was when it began: a merge of many documents takes seconds, and nobody waits for
/// it.
pub(super) struct Merge {
    name: String,
    text: String,
    /// The files that the configuration was read from.
    inputs: Inputs,
    documents: Documents,
    found: FoundSets,
}

/// What has become of a merge.
pub(super) struct Made {
    merge: Merge,
    loaded: Loaded,
    accepted: Accepted,
    set_aside: SetAside,
}

/// What has become of taking over a merge.
pub(super) enum Taken {
    /// It runs, or what runs is the same; when something that was left out is to be tried again.
    Done(Option<Instant>),
    /// Another configuration has taken over since it began: it is to be made again.
    Outdated,
    /// It waits for something, and is to be tried again after a while.
    Waits,
}

impl Merge {
    /// Reads, checks and chooses. Takes no lock, and as long as it takes.
    ///
    /// # Errors
    /// What the documents wait for.
    pub(super) fn make(self) -> Result<Made, String> {
        let alone = self.read_again()?;
        let (file, now) = ((&*self.name, &*self.text), Instant::now());
        let (loaded, accepted, set_aside) = self.documents.merge_at(alone, file, (&self.found, Some(now)));
        if !self.documents.are_running(&accepted) {
            // They have been read once more.
            check_files(&self.inputs, &loaded)?;
        }
        Ok(Made { merge: self, loaded, accepted, set_aside })
    }

    /// The file as it was read last, without documents. What only a reload may take over is not: `Err` tells what has
    /// changed. Certificates and other files that are looked at all the time may.
    fn read_again(&self) -> Result<Loaded, String> {
        let environment = |name: &str| std::env::var(name).ok();
        let name = &self.name;
        let alone = check_text(name, &self.text, &environment).map_err(|report| {
            let first = report.errors.first();
            let first = first.map(|error| format!(": {}: {}", report.place(error.span), error.message));
            format!("{name} cannot be read again as it was{}", first.unwrap_or_default())
        })?;
        check_files(&self.inputs, &alone).map(|()| alone)
    }
}

fn check_files(inputs: &Inputs, loaded: &Loaded) -> Result<(), String> {
    let admin = loaded.settings.admin.as_ref();
    let refreshed = refreshed_files(&loaded.plan, admin.and_then(|admin| admin.tls.as_ref()));
    match loaded.inputs.first_difference(inputs, |path| refreshed.contains(path)) {
        Some(file) => Err(format!("{} has changed since it was read; reload it first", file.display())),
        None => Ok(()),
    }
}

impl Shared {
    /// A source of routes has these documents now; they are merged soon.
    pub(super) fn take_documents(&self, id: &str, documents: Arc<[Document]>) {
        let mut origin = self.origin();
        let source = origin.settings.route_sources.iter().find(|source| *source.id == *id);
        if let Some(question) = source.map(|source| source.question.clone()) {
            origin.documents.put(&question, documents);
        }
    }

    /// What sources of routes have told, to be merged with the file as it was read last.
    pub(super) fn begin_merge(&self) -> Merge {
        let origin = self.origin();
        let (name, text, inputs) = (origin.name(), origin.text.clone(), origin.inputs.clone());
        let documents = origin.documents.clone();
        Merge { name, text, inputs, documents, found: self.found() }
    }

    /// What was made of a merge takes over, unless another configuration has since it began.
    pub(super) fn take_merged(&self, made: Result<Made, String>) -> Taken {
        let mut origin = self.origin();
        let taken = made.and_then(|made| self.take_locked(&mut origin, made));
        match &taken {
            Ok(_) => origin.documents.waits = None,
            Err(why) if origin.documents.wait_for(why) => {
                warn(format_args!("documents of sources wait: {why}"));
            }
            Err(_) => {}
        }
        taken.unwrap_or(Taken::Waits)
    }

    /// `Err`: what the documents wait for.
    fn take_locked(&self, origin: &mut MutexGuard<'_, Origin>, made: Made) -> Result<Taken, String> {
        let Made { merge, loaded, accepted, set_aside } = made;
        if origin.documents.takes != merge.documents.takes {
            return Ok(Taken::Outdated);
        }
        let news = news(&origin.documents, &accepted);
        if origin.documents.are_running(&accepted) {
            origin.documents.take(accepted);
        } else {
            let candidate = Candidate::new(loaded, merge.text, accepted);
            let cause = Cause { origin: ConfigOrigin::Source, by: Author::default(), ephemeral: false };
            self.adopt(origin, candidate, cause, None).map_err(|refused| match refused {
                Refused::Cannot(why) => why,
                Refused::Mistakes(_) => "the configuration has mistakes".to_owned(),
            })?;
        }
        origin.documents.set_aside(set_aside);
        news.into_iter().for_each(warn);
        Ok(Taken::Done(origin.documents.next_trial()))
    }

    /// What runs of the documents of each source and when that was right.
    pub(super) fn documents_now(&self) -> Vec<(Arc<str>, KeptSet<[Document]>)> {
        let (origin, now) = (self.origin(), SystemTime::now());
        let all = origin.settings.route_sources.iter().filter_map(|source| {
            let status = self.route_board().get(&source.id)?;
            let told = origin.documents.told.get(&source.question)?;
            let heard = status.heard.and_then(|heard| now.checked_sub(heard.elapsed()));
            let at =
                heard.filter(|_| status.count.is_some()).or(status.kept.map(|(at, _)| at)).unwrap_or(now);
            Some((source.question.clone(), KeptSet { at, set: told.good.clone() }))
        });
        all.collect()
    }

    /// How the sources of routes stand.
    pub(super) fn list_route_sources(&self) -> Vec<SourceStatus> {
        let origin = self.origin();
        let all = origin.settings.route_sources.iter().filter_map(|source| {
            let status = self.route_board().get(&source.id)?;
            let (documents, mut left_out) = (status.count, origin.documents.left_out(&source.question));
            hide_all(&mut left_out);
            Some(SourceStatus { documents, left_out, ..shown(status) })
        });
        all.collect()
    }

    /// What the metrics say of the sources of routes: those of one kind together, with no service.
    pub(super) fn route_standings(&self) -> Vec<SourceStanding> {
        let mut all: Vec<SourceStanding> = Vec::new();
        for (_, status) in self.route_board().list() {
            let age = status.heard.map(|heard| heard.elapsed());
            match all.iter_mut().find(|known| known.source == status.kind) {
                Some(known) => {
                    known.is_failing |= status.failure.is_some();
                    known.age = known.age.max(age);
                    known.updates += status.updates;
                    known.failures += status.failures;
                }
                None => all.push(SourceStanding {
                    service: "".into(),
                    source: status.kind,
                    is_failing: status.failure.is_some(),
                    age,
                    endpoints: None,
                    updates: status.updates,
                    failures: status.failures,
                }),
            }
        }
        all
    }

    /// A source of routes has begun to fail, for this reason, or works again.
    pub(super) fn route_source_turned(&self, id: &str, failure: Option<&str>) {
        let Some(status) = self.route_board().get(id) else { return };
        let name = format!("source of routes, {} at {}", status.kind, status.place);
        match failure {
            Some(why) => warn(format_args!("{name} fails: {why}; what is known stays in use")),
            None => info(format_args!("{name} works again")),
        }
        let kind = if failure.is_some() { EventKind::SourceFailed } else { EventKind::SourceRecovered };
        let cause = failure.map_or_else(|| format!("{name} works again"), |why| format!("{name}: {why}"));
        let at = SystemTime::now();
        self.publish(Event { at, kind, service: None, endpoint: None, cause, endpoints: Default::default() });
    }
}

#[cfg(test)]
mod tests;
