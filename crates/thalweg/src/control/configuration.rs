//! The configuration as it was read last: read again, compared, replaced by what arrives, or brought back.
//!
//! Every change goes through [`Shared::adopt`], under the lock of [`Origin`]: exactly one of several writers wins.

use super::admin::Shared;
use super::base::Base;
use super::config_events::{add_note, event, in_a_sentence, in_short, said};
use super::discovered::FoundSets;
use super::history::Cause;
use super::maintenance;
use super::on_disk::other_on_disk;
use super::origin::{Candidate, Origin, write_whole};
use super::reload_result::TOLD;
use super::sent_secrets;
use super::start_error::explain;
use crate::cli::show;
use crate::operator_log::{block, info, warn};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};
use thalweg_admin::{
    Author, ConfigDocument, ConfigFormat, ConfigOrigin, ConfigOutcome, Expected, Mistake, Refusal,
    ReplaceOptions, RollbackOptions, Via, WatchOptions, WatchState, WatchStatus,
};
use thalweg_config::api_restrictions::{Breach, check_arrived_text, redact, restore};
use thalweg_config::diagnose::Problems;
use thalweg_config::parse::{Format, Node, parse};
use thalweg_config::protections::{LostProtection, lost};
use thalweg_config::source::Sources;
use thalweg_config::{Loaded, Report, check_text};
use thalweg_core::EventKind;

/// Why a configuration does not take over.
pub(crate) enum Refused {
    /// It has mistakes.
    Mistakes(Report),
    /// It cannot be done; a sentence.
    Cannot(String),
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Mistakes(report) => mistakes(report),
            Refused::Cannot(why) => Self::Conflict(why),
        }
    }
}

impl Shared {
    /// Reads the file again; what it says takes over.
    pub(crate) fn read_again(
        &self,
        (why, by): (ConfigOrigin, Author),
        watch: Option<WatchOptions>,
    ) -> Result<ConfigOutcome, Refused> {
        let mut origin = self.origin();
        let cause = Cause { origin: why, by, ephemeral: false };
        let done = read(&origin, &self.found())
            .and_then(|candidate| self.adopt(&mut origin, candidate, cause, watch));
        if let Err(refused) = &done {
            self.tell_refused(&match refused {
                Refused::Mistakes(_) => "the configuration has mistakes".to_owned(),
                Refused::Cannot(why) => why.clone(),
            });
        }
        done
    }

    /// What reading the file again would change.
    pub(super) fn preview(&self) -> Result<ConfigOutcome, Refused> {
        let origin = self.origin();
        let candidate = read(&origin, &self.found())?;
        Ok(self.outcome(&origin, &self.runtime(), &candidate))
    }

    /// Makes a configuration the one that runs.
    pub(super) fn adopt(
        &self,
        origin: &mut MutexGuard<'_, Origin>,
        mut candidate: Candidate,
        cause: Cause,
        mut watch: Option<WatchOptions>,
    ) -> Result<ConfigOutcome, Refused> {
        let mut runtime = self.runtime();
        let (plan, settings) = (&mut candidate.plan, &mut candidate.settings);
        self.keep_valid_certificates((&runtime.base, &origin.settings), (plan, settings));
        let mut outcome = self.outcome(origin, &runtime, &candidate);
        let operator = origin.operator.after(&origin.name(), (&cause, &candidate));
        if let Some(operator) = &operator {
            let discover = &candidate.settings.discover;
            candidate.apart.join(operator.apart(&runtime.base, (&candidate.plan, discover)));
        }
        if watch.is_some() && outcome.changes.is_empty() && candidate.inputs == origin.inputs {
            add_note(&mut outcome, "nothing changes, so there is nothing to watch".into());
            watch = None;
        }
        let Candidate { plan, settings, warnings, text, inputs, provenance, documents, apart, .. } =
            candidate;
        // Authors of documents are told elsewhere.
        if cause.origin != ConfigOrigin::Source {
            show(&warnings, false);
        }
        let mut base = Base::with_documents(plan, (&settings.discover, runtime.base.found()), apart);
        (base.provenance, base.operator) = (provenance.clone(), operator.clone());
        let before = std::mem::replace(&mut runtime.base, base);
        if let Err(error) = self.set_plan(runtime.plan()) {
            runtime.base = before;
            return Err(Refused::Cannot(explain(&error)));
        }
        self.acme().try_again();
        runtime.version += 1;
        let left_out = sent_secrets::left_out(&runtime.overlay, &runtime.base);
        for line in maintenance::in_force(&runtime.overlay, &runtime.base).into_iter().chain(left_out) {
            add_note(&mut outcome, line);
        }
        drop(runtime);
        let previous = watch.map(|_| origin.running(&before));
        origin.operator.take(operator);
        // Tokens, objectives and webhooks take over at once; the rest waits.
        self.take_tokens(&mut origin.settings, &settings);
        self.take_admin_tls(&mut origin.settings, &settings);
        origin.settings.webhooks = settings.webhooks;
        origin.settings.slos = settings.slos;
        origin.settings.route_sources = settings.route_sources;
        origin.documents.take(documents);
        self.document_changes.store(origin.documents.changes(), Ordering::Relaxed);
        origin.text = text;
        origin.inputs = inputs;
        origin.provenance = provenance;
        outcome.dry_run = false;
        outcome.generation = self.generation.load(Ordering::Relaxed);
        self.enter(origin, cause, (watch, previous), &mut outcome);
        self.stir();
        Ok(outcome)
    }

    /// Enters a configuration that has taken over in the history, begins to watch it, and tells of it.
    fn enter(
        &self,
        origin: &mut Origin,
        cause: Cause,
        (watch, previous): (Option<WatchOptions>, Option<Candidate>),
        outcome: &mut ConfigOutcome,
    ) {
        let said = said(origin, &cause, outcome);
        if cause.origin == ConfigOrigin::Source {
            return self.tell_adopted(said, outcome);
        }
        let (text, before) = ((&*origin.text, &*origin.etag()), origin.history.newest());
        let number = origin.history.push(text, outcome.generation, cause);
        outcome.number = Some(number);
        let next = watch.zip(previous).map(|(options, previous)| (number, options, previous));
        // A reload that changes nothing leaves a watch alone.
        let changes = before != Some(number) || !outcome.changes.is_empty();
        let counts = changes.then(|| self.route_counts());
        let ended = counts.and_then(|counts| self.watcher().replace(next, Instant::now(), counts));
        if let Some(watch) = ended {
            let verdict = "another configuration took over before the watch had ended".to_owned();
            origin.history.set_watch(watch.number, WatchState::Replaced, watch.until, Some(verdict));
        }
        if let Some(options) = watch {
            let until = SystemTime::now() + options.time;
            origin.history.set_watch(number, WatchState::Watching, until, None);
            outcome.watch = Some(WatchStatus { state: WatchState::Watching, until, verdict: None });
        }
        self.tell_adopted(said, outcome);
    }

    /// Counts and tells that a configuration has taken over.
    fn tell_adopted(&self, said: String, outcome: &ConfigOutcome) {
        info(&said);
        if !outcome.text.is_empty() {
            block(&in_short(&outcome.text));
        }
        self.registry.reloads().count(true);
        self.publish(event(EventKind::ConfigApplied, said));
    }

    /// Counts and tells that a configuration was refused. Under the lock of [`Origin`].
    fn tell_refused(&self, why: &str) {
        self.registry.reloads().count(false);
        self.publish(event(EventKind::ReloadFailed, why.to_owned()));
    }

    /// The configuration, without its secrets.
    pub(super) fn show_config(&self) -> ConfigDocument {
        let origin = self.origin();
        let name = origin.name();
        let shown = tree(&name, &origin.text).and_then(|node| redact(&origin.text, Format::of(&name), &node));
        let format = match Format::of(&name) {
            Format::Yaml => ConfigFormat::Yaml,
            Format::Json => ConfigFormat::Json,
            Format::Toml => ConfigFormat::Toml,
        };
        ConfigDocument {
            text: shown.unwrap_or_default(),
            format,
            etag: origin.etag(),
            path: origin.file.as_ref().map(|file| file.display().to_string()),
            writable: origin.is_writable(),
        }
    }

    /// A configuration that arrived takes the place of the one in force.
    pub(super) fn replace(
        &self,
        text: &str,
        expected: &Expected<String>,
        options: ReplaceOptions,
    ) -> Result<ConfigOutcome, Refusal> {
        let mut origin = self.origin();
        let dry_run = options.dry_run;
        let done = self.replace_locked(&mut origin, text, expected, options);
        match &done {
            // Somebody else was faster: that says nothing of the configuration.
            Ok(_) | Err(Refusal::StaleConfig { .. }) => {}
            Err(_) if dry_run => {}
            Err(refusal) => self.tell_refused(&in_a_sentence(refusal)),
        }
        done
    }

    fn replace_locked(
        &self,
        origin: &mut MutexGuard<'_, Origin>,
        text: &str,
        expected: &Expected<String>,
        options: ReplaceOptions,
    ) -> Result<ConfigOutcome, Refusal> {
        let name = origin.name();
        let on_disk = origin.on_disk();
        let environment = |name: &str| std::env::var(name).ok();
        let Some(arrived) = tree(&name, text) else {
            return Err(check_text(&name, text, &environment).map_or_else(mistakes, |_| unreadable()));
        };
        let known = tree(&name, &on_disk).ok_or_else(unreadable)?;
        let restored = restore((text, &arrived), (&on_disk, &known)).map_err(forbidden)?;
        // Who is on the socket can read all that a trial run could tell.
        if !(options.dry_run && options.by.via == Via::Socket) {
            check_trust((&name, &on_disk), &restored)?;
        }
        let loaded = check_text(&name, &restored, &environment).map_err(mistakes)?;
        if options.by.via != Via::Socket {
            self.check_operator(origin, (&restored, &loaded))?;
        }
        let candidate = origin.candidate(loaded, restored, &self.found());
        if !(options.dry_run && options.by.via == Via::Socket) {
            let other = other_on_disk(origin, &on_disk, options.by.via)?;
            self.check_protections(other.as_ref(), &candidate)?;
            self.check_addresses(origin, (&on_disk, other.as_ref()), (&candidate.text, &candidate.plan))?;
        }
        let writes = !options.dry_run && !options.ephemeral;
        if writes && origin.file.is_none() {
            let why = "there is no configuration file; with `?ephemeral=true` it runs until the next start";
            return Err(Refusal::Conflict(why.into()));
        }
        if writes && (on_disk != origin.text || candidate.inputs.differ_in_included(&origin.inputs)) {
            let why = "a file has been changed since it was read; reload it first";
            return Err(Refusal::Conflict(why.into()));
        }
        if !expected.admits(&origin.etag()) {
            return Err(Refusal::StaleConfig { etag: origin.etag() });
        }
        if options.dry_run {
            return Ok(self.outcome(origin, &self.runtime(), &candidate));
        }
        if options.by.via != Via::Socket {
            self.note_change(origin, (writes.then_some(&*on_disk), &candidate.text))?;
        }
        if let Some(file) = origin.file.clone().filter(|_| writes) {
            write_whole(&file, &candidate.text)
                .map_err(|error| Refusal::Conflict(format!("cannot write {}: {error}", file.display())))?;
        }
        let cause = Cause { origin: ConfigOrigin::Put, by: options.by, ephemeral: options.ephemeral };
        self.adopt(origin, candidate, cause, options.watch).map_err(|refused| {
            // The file must not say what does not run.
            if let Some(file) = origin.file.as_deref().filter(|_| writes) {
                let _ = write_whole(file, &on_disk);
            }
            refused.into()
        })
    }

    /// Refuses a plan that lacks protections of the file on disk, the one that runs or an `other`. Both are compared
    /// with what sources have found.
    fn check_protections(&self, other: Option<&Loaded>, candidate: &Candidate) -> Result<(), Refusal> {
        let found = self.found();
        let sources = (&candidate.settings.discover, &found);
        let plan = Base::with_documents(candidate.plan.clone(), sources, candidate.apart.clone());
        let lost = match other {
            Some(loaded) => lost(&Base::new(loaded.plan.clone(), &loaded.settings.discover, &found), &plan),
            None => lost(&self.runtime().base, &plan),
        };
        unprotected("only the file on disk may take protections away", lost)
    }

    /// Refuses a change with a token that takes away what the operator's configuration has, or introduces what only a
    /// file may: whatever tokens have changed since (decision 0108).
    fn check_operator(&self, origin: &Origin, (text, alone): (&str, &Loaded)) -> Result<(), Refusal> {
        let Some(operator) = origin.operator.supplied() else { return Ok(()) };
        let runtime = self.runtime();
        let known = operator.plan(&runtime.base)?;
        let with = Base::new(alone.plan.clone(), &alone.settings.discover, runtime.base.found());
        drop(runtime);
        check_trust((&origin.name(), operator.text()), text)?;
        let why =
            "the configuration that an operator supplied last has protections that a token may not take away";
        unprotected(why, lost(&known, &with))
    }

    /// A token is about to change the configuration: the operator's is kept.
    fn note_change(&self, origin: &mut Origin, (in_file, next): (Option<&str>, &str)) -> Result<(), Refusal> {
        let (name, text, runtime) = (origin.name(), origin.text.clone(), self.runtime());
        let running = (&*name, &*text, &runtime.base);
        origin.operator.change(running, (in_file, next)).map_err(Refusal::Conflict)
    }

    /// A configuration of the history takes over again, and the file with it where it can be written.
    pub(super) fn bring_back(
        &self,
        expected: &Expected<String>,
        options: RollbackOptions,
    ) -> Result<ConfigOutcome, Refusal> {
        let mut origin = self.origin();
        let done = self.bring_back_locked(&mut origin, expected, options);
        match &done {
            Ok(_) | Err(Refusal::StaleConfig { .. } | Refusal::Unknown(_)) => {}
            Err(refusal) => self.tell_refused(&in_a_sentence(refusal)),
        }
        done
    }

    fn bring_back_locked(
        &self,
        origin: &mut MutexGuard<'_, Origin>,
        expected: &Expected<String>,
        RollbackOptions { to, by }: RollbackOptions,
    ) -> Result<ConfigOutcome, Refusal> {
        let target = origin.history.target(to).ok_or_else(|| {
            Refusal::Unknown(match to {
                Some(number) => format!("the history has no number {number}"),
                None => "the history has no configuration before the present one".into(),
            })
        })?;
        let (name, text) = (origin.name(), target.text.unpack());
        // With the token, what the file has let go of does not come back this way either.
        if by.via != Via::Socket {
            check_trust((&name, &origin.on_disk()), &text)?;
        }
        let environment = |name: &str| std::env::var(name).ok();
        let loaded = check_text(&name, &text, &environment).map_err(mistakes)?;
        if by.via != Via::Socket {
            self.check_operator(origin, (&text, &loaded))?;
        }
        let candidate = origin.candidate(loaded, text, &self.found());
        if by.via != Via::Socket {
            let on_disk = origin.on_disk();
            let other = other_on_disk(origin, &on_disk, by.via)?;
            self.check_protections(other.as_ref(), &candidate)?;
            self.check_addresses(origin, (&on_disk, other.as_ref()), (&candidate.text, &candidate.plan))?;
        }
        if !expected.admits(&origin.etag()) {
            return Err(Refusal::StaleConfig { etag: origin.etag() });
        }
        if by.via != Via::Socket {
            let on_disk = origin.on_disk();
            self.note_change(origin, (Some(&on_disk), &candidate.text))?;
        }
        let taken_back = origin.history.newest().filter(|newest| *newest > target.number);
        let outcome = self.take_over_again(origin, candidate, (ConfigOrigin::Rollback, by));
        let outcome = outcome.map_err(Refusal::from)?;
        if let Some(number) = taken_back {
            origin.history.change(number, |entry| entry.state = thalweg_admin::HistoryState::RolledBack);
        }
        Ok(outcome)
    }

    /// [`Self::adopt`] for what has run before: the file follows where it can, and else the outcome says so.
    pub(super) fn take_over_again(
        &self,
        origin: &mut MutexGuard<'_, Origin>,
        candidate: Candidate,
        (why, by): (ConfigOrigin, Author),
    ) -> Result<ConfigOutcome, Refused> {
        let on_disk = origin.on_disk();
        let written = origin.take_file_back(&candidate.text);
        let stays = written.clone().and_then(|()| match candidate.inputs.have_changed() {
            true => Err("a file that it includes or takes a secret from has changed".to_owned()),
            false => Ok(()),
        });
        let cause = Cause { origin: why, by, ephemeral: stays.is_err() };
        let done = self.adopt(origin, candidate, cause, None);
        match (&written, &origin.file) {
            (Ok(()), Some(file)) if done.is_err() => {
                let _ = write_whole(file, &on_disk);
            }
            _ => {}
        }
        let mut outcome = done?;
        origin.documents.fall_behind();
        if let Err(why) = stays {
            let note = format!("a restart or reload will bring another configuration: {why}");
            warn(&note);
            add_note(&mut outcome, note);
        }
        Ok(outcome)
    }
}

/// The file as it would run.
fn read(origin: &Origin, found: &FoundSets) -> Result<Candidate, Refused> {
    let Some(file) = &origin.file else {
        return Err(Refused::Cannot("there is no configuration file to reload".into()));
    };
    let loaded = thalweg_config::load_file(file).map_err(Refused::Mistakes)?;
    let text = loaded.text.0.clone();
    Ok(origin.candidate(loaded, text, found))
}

/// Refuses a change with which protections are lost.
pub(super) fn unprotected(why: &str, lost: Vec<LostProtection>) -> Result<(), Refusal> {
    if lost.is_empty() {
        return Ok(());
    }
    let told: Vec<String> = lost.iter().take(TOLD).map(ToString::to_string).collect();
    let mut keys: Vec<String> = lost.into_iter().map(|lost| lost.key).collect();
    keys.dedup();
    Err(Refusal::Unprotected { keys, detail: format!("{why}: {}", told.join("; ")) })
}

/// Refuses a text with what only the file on disk may introduce.
fn check_trust((name, on_disk): (&str, &str), text: &str) -> Result<(), Refusal> {
    let environment = |name: &str| std::env::var(name).ok();
    check_arrived_text((name, on_disk), text, &environment).ok_or_else(unreadable)?.map_err(forbidden)
}

/// The tree of a text, before `${…}` is filled in.
pub(super) fn tree(name: &str, text: &str) -> Option<Node> {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let file = sources.add(name, text);
    parse(file, Format::of(name), &sources, &mut problems)
}

fn unreadable() -> Refusal {
    Refusal::Conflict("the configuration on disk cannot be read".into())
}

fn forbidden(breaches: Vec<Breach>) -> Refusal {
    Refusal::Forbidden { keys: breaches.into_iter().map(|breach| breach.key).collect() }
}

/// The mistakes of a report, for who sent the text.
pub(super) fn mistakes(report: Report) -> Refusal {
    let mistake = |error: &thalweg_config::SpecError| {
        let position = report.sources.position(error.span);
        Mistake {
            file: report.sources.get(error.span.file).map(|source| source.name().to_owned()),
            line: position.line,
            column: position.column,
            message: error.message.clone(),
            help: error.help.clone(),
        }
    };
    Refusal::Mistakes(report.errors.iter().map(mistake).collect())
}
