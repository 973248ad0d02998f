//! Documents of route sources: what has been told, what of it runs, and why the rest does not.

use super::admin::Shared;
use super::configuration::Refused;
use super::discovered::shown;
use super::history::Cause;
use super::kept_sources::{Findings, KeptSet};
use super::origin::Candidate;
use crate::operator_log::{info, warn};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;
use thalweg_admin::{Author, ConfigOrigin, SourceStatus};
use thalweg_config::settings::RouteSource;
use thalweg_config::{Loaded, Merged, Offer, check_text, with_documents};
use thalweg_core::{Event, EventKind};
use thalweg_discovery::Document;
use thalweg_observe::SourceStanding;

/// Flaws of one source that are told of.
const TOLD: usize = 20;

/// What one source has told.
#[derive(Clone, Debug)]
struct Told {
    newest: Arc<[Document]>,
    /// What of it ran last.
    good: Arc<[Document]>,
    /// Why the rest does not run, at most [`TOLD`] sentences.
    flaws: Vec<String>,
}

/// The documents of all sources, by the words of these: a source whose token or times have changed goes on with what is
/// known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Documents {
    told: HashMap<String, Told>,
    /// How often others began to run.
    changes: u64,
}

/// What of the documents a configuration runs with, by the words of their sources.
pub(crate) type Accepted = Vec<(String, Arc<[Document]>, Vec<String>)>;

impl Documents {
    /// What was kept before a restart runs until sources tell of something else.
    pub(crate) fn kept(findings: &Findings) -> Self {
        let told = |(words, kept): (&String, &KeptSet<[Document]>)| {
            let told = Told { newest: kept.set.clone(), good: kept.set.clone(), flaws: Vec::new() };
            (words.clone(), told)
        };
        Self { told: findings.documents.iter().map(told).collect(), changes: 0 }
    }

    /// A source has these documents now, and no others.
    pub(crate) fn put(&mut self, words: &str, documents: Arc<[Document]>) {
        match self.told.get_mut(words) {
            Some(told) => told.newest = documents,
            None => {
                let told = Told { newest: documents, good: Arc::default(), flaws: Vec::new() };
                self.told.insert(words.to_owned(), told);
            }
        }
    }

    /// These run now: of the sources of the configuration, and no others.
    pub(super) fn take(&mut self, accepted: Accepted) {
        self.told.retain(|words, _| accepted.iter().any(|(known, ..)| known == words));
        for (words, good, flaws) in accepted {
            if let Some(told) = self.told.get_mut(&words) {
                self.changes += u64::from(told.good != good);
                (told.good, told.flaws) = (good, flaws);
            }
        }
    }

    /// Those that run.
    pub(super) fn running(&self) -> Accepted {
        let each = self.told.iter();
        each.map(|(words, told)| (words.clone(), told.good.clone(), told.flaws.clone())).collect()
    }

    /// Why documents of this source do not run.
    pub(super) fn flaws(&self, words: &str) -> &[String] {
        self.told.get(words).map_or(&[], |told| &told.flaws)
    }

    /// Whether these are the ones that run, for the same reasons.
    fn is_running(&self, accepted: &Accepted) -> bool {
        accepted.iter().all(|(words, good, flaws)| match self.told.get(words) {
            Some(told) => told.good == *good && told.flaws == *flaws,
            None => good.is_empty() && flaws.is_empty(),
        })
    }

    /// A configuration that is valid by itself, with all that its sources have told and that fits.
    pub(crate) fn merge(&self, alone: Loaded, (name, text): (&str, &str)) -> (Loaded, Accepted) {
        let sources: Vec<RouteSource> = alone.settings.route_sources.clone();
        let offer = |source: &RouteSource| {
            let told = self.told.get(&source.words);
            Offer {
                source: source.words.clone(),
                documents: told.map(|told| told.newest.clone()).unwrap_or_default(),
                good: told.map(|told| told.good.clone()).unwrap_or_default(),
            }
        };
        let offers: Vec<_> = sources.iter().map(offer).collect();
        let environment = |name: &str| std::env::var(name).ok();
        let Merged { loaded, accepted, flaws } =
            with_documents(alone, (name, text.as_bytes()), &environment, &offers);
        let of = |at: usize| {
            let own = flaws.iter().filter(|flaw| flaw.source == at);
            own.take(TOLD).map(|flaw| format!("{}: {}", flaw.document, flaw.message)).collect()
        };
        let sources = sources.into_iter().zip(accepted).enumerate();
        (loaded, sources.map(|(at, (source, good))| (source.words, good, of(at))).collect())
    }
}

/// What is not told yet of what does not run, a line each.
pub(crate) fn news(before: &Documents, accepted: &Accepted) -> Vec<String> {
    let each = accepted.iter().flat_map(|(words, _, flaws)| flaws.iter().map(move |flaw| (words, flaw)));
    let new = each.filter(|(words, flaw)| !before.flaws(words).contains(flaw));
    new.map(|(words, flaw)| format!("{words}: {flaw}")).collect()
}

impl Shared {
    /// Whether something was told that does not run, and for no reason: an older configuration was brought back.
    pub(super) fn are_documents_behind(&self) -> bool {
        self.origin().documents.told.values().any(|told| told.newest != told.good && told.flaws.is_empty())
    }

    /// A source of routes has these documents now; they are merged soon.
    pub(super) fn take_documents(&self, id: &str, documents: Arc<[Document]>) {
        let mut origin = self.origin();
        let source = origin.settings.route_sources.iter().find(|source| *source.id == *id);
        if let Some(words) = source.map(|source| source.words.clone()) {
            origin.documents.put(&words, documents);
        }
    }

    /// What sources of routes have told takes over, with the file as it was read last.
    pub(super) fn merge_documents(&self) {
        let mut origin = self.origin();
        let environment = |name: &str| std::env::var(name).ok();
        let (name, text) = (origin.name(), origin.text.clone());
        let alone = match check_text(&name, &text, &environment) {
            Ok(alone) => alone,
            Err(report) => {
                warn(format_args!("documents of sources wait: {name} cannot be read again as it was"));
                return crate::cli::show(&report, false);
            }
        };
        let (loaded, accepted) = origin.documents.merge(alone, (&name, &text));
        if origin.documents.is_running(&accepted) {
            return;
        }
        news(&origin.documents, &accepted).into_iter().for_each(warn);
        let candidate = Candidate::new(loaded, text, accepted);
        let cause = Cause { origin: ConfigOrigin::Source, by: Author::default(), ephemeral: false };
        if let Err(refused) = self.adopt(&mut origin, candidate, cause, None) {
            let why = match refused {
                Refused::Cannot(why) => why,
                Refused::Mistakes(_) => "the configuration has mistakes".into(),
            };
            warn(format_args!("documents of sources do not take over: {why}"));
        }
    }

    /// What runs of the documents of each source and when that was right, and how often others began to run.
    pub(super) fn documents_now(&self) -> (BTreeMap<String, KeptSet<[Document]>>, u64) {
        let (origin, now) = (self.origin(), SystemTime::now());
        let all = origin.settings.route_sources.iter().filter_map(|source| {
            let status = self.route_board().get(&source.id)?;
            let told = origin.documents.told.get(&source.words)?;
            let heard = status.heard.and_then(|heard| now.checked_sub(heard.elapsed()));
            let at =
                heard.filter(|_| status.count.is_some()).or(status.kept.map(|(at, _)| at)).unwrap_or(now);
            Some((source.words.clone(), KeptSet { at, set: told.good.clone() }))
        });
        (all.collect(), origin.documents.changes)
    }

    /// How the sources of routes stand.
    pub(super) fn list_route_sources(&self) -> Vec<SourceStatus> {
        let origin = self.origin();
        let all = origin.settings.route_sources.iter().filter_map(|source| {
            let status = self.route_board().get(&source.id)?;
            let (documents, left_out) = (status.count, origin.documents.flaws(&source.words).to_vec());
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
                    endpoints: 0,
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
