//! Objectives: judged at each reading of the meters, told in events, and kept beside the time series.

use super::admin::Shared;
use super::config_events::event;
use super::kept_file;
use super::state_writer::StateWriter;
use crate::operator_log::warn;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use thalweg_admin::{SloBurn, SloState, SloStatus, Slos};
use thalweg_core::units::duration_text;
use thalweg_core::{Event, EventKind};
use thalweg_observe::Registry;
use thalweg_observe::slo::{KeptStep, PAIRS, Slo, SloChange, SloPolicy, SloStanding, SloSubject};

/// The file in the state directory.
const FILE: &str = "slos.json";
/// The largest file that is read.
const FILE_BYTES: u64 = 16 << 20;

/// What is kept. A later version may add members, so unknown ones are no error.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct KeptSlosSpec {
    /// By name.
    slos: BTreeMap<String, KeptSloSpec>,
}

/// What is known of an objective. Steps are numbered from the Unix epoch: `[step, exchanges, bad ones]`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
struct KeptSloSpec {
    about: String,
    minutes: Vec<KeptStep>,
    hours: Vec<KeptStep>,
    burning: bool,
}

/// All objectives.
#[derive(Debug, Default)]
pub(crate) struct SloBook {
    slos: Vec<Slo>,
    /// What was kept of objectives that have not been asked for since the start.
    kept: BTreeMap<String, KeptSloSpec>,
    keeper: Option<StateWriter<KeptSlosSpec>>,
}

impl SloBook {
    /// The objectives as they stood before a restart, kept in this directory from now on. What cannot be read is given
    /// up with a word to the operator.
    pub(super) fn open(directory: Option<&Path>) -> Self {
        let Some(path) = directory.map(|directory| directory.join(FILE)) else { return Self::default() };
        let kept = load(&path).unwrap_or_else(|why| {
            let path = path.display();
            warn(format_args!("what {path} says of objectives cannot be read: {why}; they begin anew"));
            KeptSlosSpec::default()
        });
        let what = format!("objectives in {}", path.display());
        let keeper = StateWriter::start(what, move |kept| kept_file::store(&path, &kept));
        let keeper =
            keeper.inspect_err(|error| warn(format_args!("objectives will not be kept: {error}"))).ok();
        Self { slos: Vec::new(), kept: kept.slos, keeper }
    }

    /// These are the objectives now; what is known of those that stay is known.
    pub(super) fn follow(&mut self, policies: &[SloPolicy], registry: &Registry, unix_ms: u64) {
        if policies.iter().eq(self.slos.iter().map(Slo::policy)) {
            return;
        }
        let mut before = std::mem::take(&mut self.slos);
        for policy in policies {
            let known = before.iter().position(|slo| slo.policy().name == policy.name);
            let known = known.map(|at| before.swap_remove(at));
            let slo = known.and_then(|mut slo| slo.follows(policy).then_some(slo));
            self.slos.push(slo.unwrap_or_else(|| {
                let mut slo = Slo::new(policy.clone(), registry.totals_of(policy.about.object()));
                let kept = self.kept.remove(&*policy.name).filter(|kept| kept.about == about(policy));
                if let Some(KeptSloSpec { minutes, hours, burning, .. }) = kept {
                    slo.restore((&minutes, &hours, burning), unix_ms);
                }
                slo
            }));
        }
        // What was kept of others is of no use any more.
        self.kept.clear();
        registry.set_slos(self.standings());
    }

    /// Judges all of them; gives what is to be told.
    pub(super) fn note(&mut self, registry: &Registry, unix_ms: u64) -> Vec<Event> {
        let changes = self.slos.iter_mut().filter_map(|slo| {
            let change = slo.note(&registry.totals_of(slo.policy().about.object()), unix_ms)?;
            Some(told(change, &slo.standing()))
        });
        let events = changes.collect();
        registry.set_slos(self.standings());
        events
    }

    pub(super) fn standings(&self) -> Vec<SloStanding> {
        self.slos.iter().map(Slo::standing).collect()
    }

    /// Has them kept soon, where they are kept at all.
    pub(super) fn keep(&self) {
        let Some(keeper) = &self.keeper else { return };
        let kept = self.slos.iter().map(|slo| {
            let (minutes, hours, burning) = slo.kept();
            (
                slo.policy().name.to_string(),
                KeptSloSpec { about: about(slo.policy()), minutes, hours, burning },
            )
        });
        keeper.keep(KeptSlosSpec { slos: kept.collect() });
    }

    /// What writes them down, where they are kept.
    pub(super) fn keeper(&self) -> Option<&StateWriter<KeptSlosSpec>> {
        self.keeper.as_ref()
    }
}

/// What counts are of: those of another thing, or with another bound, say nothing.
fn about(policy: &SloPolicy) -> String {
    let slow = policy.slower_than.map(|bound| format!(" {}", duration_text(bound))).unwrap_or_default();
    match &policy.about {
        SloSubject::Route(name) => format!("route {name}{slow}"),
        SloSubject::Service(name) => format!("service {name}{slow}"),
    }
}

/// The event of a change.
fn told(change: SloChange, standing: &SloStanding) -> Event {
    let policy = &standing.policy;
    let rate =
        |window: u64| standing.burn.iter().find(|(known, _)| *known == window).map_or(0.0, |(_, rate)| *rate);
    let time = |seconds| duration_text(std::time::Duration::from_secs(seconds));
    // The pair that is furthest above its bound.
    let over = |(short, long, bound): &(u64, u64, f64)| rate(*short).min(rate(*long)) / bound;
    let worst = PAIRS.iter().max_by(|a, b| over(a).total_cmp(&over(b)));
    let (short, long) = worst.map_or((0, 0), |(short, long, _)| (*short, *long));
    let speed =
        format!("{:.1} times over {}, {:.1} over {}", rate(short), time(short), rate(long), time(long));
    let left = format!(
        "{:.0}% of the budget of {} left",
        standing.budget_left * 100.0,
        duration_text(policy.window)
    );
    let (kind, cause) = match change {
        SloChange::Burning => (
            EventKind::SloBurning,
            format!("{}: the budget is used up too fast: {speed}; {left}", policy.name),
        ),
        SloChange::Recovered => {
            (EventKind::SloRecovered, format!("{}: the budget holds again; {left}", policy.name))
        }
    };
    let service = match &policy.about {
        SloSubject::Service(name) => Some(name.clone()),
        SloSubject::Route(_) => None,
    };
    Event { service, ..event(kind, cause) }
}

fn load(path: &Path) -> Result<KeptSlosSpec, String> {
    let bytes = match kept_file::read(path, FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(KeptSlosSpec::default()),
        Err(error) => return Err(error.to_string()),
    };
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

impl Shared {
    pub(super) fn list_slos(&self) -> Slos {
        Slos { slos: self.series().slos().standings().into_iter().map(shown).collect() }
    }

    /// Names of objectives that burn.
    pub(super) fn burning_slos(&self) -> Vec<String> {
        let standings = self.series().slos().standings().into_iter();
        standings
            .filter(|standing| standing.is_burning)
            .map(|standing| standing.policy.name.to_string())
            .collect()
    }
}

fn shown(standing: SloStanding) -> SloStatus {
    let SloStanding { policy, judged, covered_s, budget_left, burn, is_burning } = standing;
    let (route, service) = match &policy.about {
        SloSubject::Route(name) => (Some(name.to_string()), None),
        SloSubject::Service(name) => (None, Some(name.to_string())),
    };
    SloStatus {
        name: policy.name.to_string(),
        route,
        service,
        target: f64::from(policy.target) / 1e6,
        slower_than_us: policy.slower_than.map(|bound| u64::try_from(bound.as_micros()).unwrap_or(u64::MAX)),
        window_s: policy.window.as_secs(),
        covered_s,
        good: judged.total.saturating_sub(judged.bad),
        total: judged.total,
        budget_left,
        burn: burn.iter().map(|(window_s, rate)| SloBurn { window_s: *window_s, rate: *rate }).collect(),
        state: match (is_burning, budget_left > 0.0) {
            (true, _) => SloState::Burning,
            (false, true) => SloState::Ok,
            (false, false) => SloState::Exhausted,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    fn policy(name: &str, about: SloSubject) -> SloPolicy {
        let window = Duration::from_secs(86_400);
        SloPolicy { name: name.into(), about, target: 999_000, window, slower_than: None }
    }

    #[test]
    fn an_objective_burns_recovers_and_survives_a_restart() {
        let directory = std::env::temp_dir().join(format!("thalweg-slos-{}", std::process::id()));
        let (registry, policies) = (Registry::new(1), [policy("checkout", SloSubject::Route("shop".into()))]);
        let now = 1_800_000_000_000;
        let mut book = SloBook::open(Some(&directory));
        book.follow(&policies, &registry, now);
        assert!(book.note(&registry, now).is_empty());
        (0..100).for_each(|_| registry.route(0, "shop").count(503, Duration::from_millis(2)));
        let events = book.note(&registry, now + 10_000);
        assert_eq!((events.len(), events[0].kind), (1, EventKind::SloBurning));
        let wanted = "checkout: the budget is used up too fast: 1000.0 times over 30m, 1000.0 over 6h; 0% of the budget of 1d left";
        assert_eq!(events[0].cause, wanted);
        book.keep();
        assert!(book.keeper().unwrap().settle(Duration::from_secs(30)));
        let mut book = SloBook::open(Some(&directory));
        book.follow(&policies, &Registry::new(1), now + 20_000);
        assert!(book.note(&Registry::new(1), now + 20_000).is_empty(), "it was told before");
        assert!(book.standings()[0].is_burning);
        assert_eq!(shown(book.standings()[0].clone()).state, SloState::Burning);
        let calm = SloStanding { is_burning: false, ..book.standings()[0].clone() };
        assert_eq!((calm.budget_left, shown(calm.clone()).state), (0.0, SloState::Exhausted));
        assert_eq!(shown(SloStanding { budget_left: 0.01, ..calm }).state, SloState::Ok);
        // What is about another route begins anew.
        let other = [policy("checkout", SloSubject::Route("other".into()))];
        let mut book = SloBook::open(Some(&directory));
        book.follow(&other, &Registry::new(1), now + 20_000);
        assert_eq!((book.standings()[0].judged.total, book.standings()[0].is_burning), (0, false));
        fs::write(directory.join(FILE), b"{").unwrap();
        assert!(SloBook::open(Some(&directory)).kept.is_empty());
        fs::remove_dir_all(directory).unwrap();
    }
}
