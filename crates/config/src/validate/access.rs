//! `lists:` and `bans:`, and `access` of listeners.

use super::numbers::{bounded, duration};
use super::secret::{FilesAt, Secrets};
use super::{check_name, network};
use crate::diagnose::{Class, Problems, SpecError, suggest};
use crate::spec::{BanSpec, FileSpec, NamedSpec, Spanned};
use std::sync::Arc;
use std::time::Duration;
use thalweg_access::bans::{BanRule, BanTable};
use thalweg_access::live::{self, BLOCKED};
use thalweg_access::networks::Networks;
use thalweg_access::rules::{AddressRules, AddressSet, NamedList};
use thalweg_filter::{AddressRulesSpec, MembersSpec, OneOrManySpec};
use thalweg_proxy::plan::AccessPolicy;

/// Most lists, and most bans.
const NAMED: usize = 256;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads the lists, so that filters and listeners find them, and the bans.
pub(crate) fn access(file: &FileSpec, secrets: &Secrets<'_>, problems: &mut Problems) -> AccessPolicy {
    let mut lists = lists(&file.lists, secrets, problems);
    let blocked = lists.iter().find(|list| list.live.name() == BLOCKED).cloned();
    let blocked = blocked.unwrap_or_else(|| {
        let list = named(BLOCKED, AddressSet::default(), String::new());
        lists.push(list.clone());
        list
    });
    secrets.keep_lists(&lists);
    if let Some((name, _)) = file.bans.0.get(NAMED) {
        problems.push(SpecError::new(Class::Invalid, name.span, format!("there are more than {NAMED} bans")));
    }
    let bans = file.bans.0.iter().take(NAMED).filter_map(|(name, spec)| ban(name, spec, &lists, problems));
    let bans = bans.map(Arc::new).collect();
    AccessPolicy { blocked, lists, bans }
}

fn named(name: &str, configured: AddressSet, text: String) -> Arc<NamedList> {
    Arc::new(NamedList { configured, live: live::list(name), text })
}

fn lists(
    specs: &NamedSpec<Spanned<MembersSpec>>,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Vec<Arc<NamedList>> {
    if let Some((name, _)) = specs.0.get(NAMED) {
        problems.push(SpecError::new(
            Class::Invalid,
            name.span,
            format!("there are more than {NAMED} lists"),
        ));
    }
    let mut lists = Vec::new();
    for (name, spec) in specs.0.iter().take(NAMED) {
        check_name(name, name.span, problems);
        match spec.value.list(&FilesAt(secrets, spec.span)) {
            Ok(set) => lists.push(named(name, set, spec.value.to_string())),
            Err(message) => {
                problems.push(SpecError::value(spec.span, "list", message));
                // What names it is not told that it is unknown too.
                lists.push(named(name, AddressSet::default(), String::new()));
            }
        }
    }
    lists
}

/// Checks who may connect to a listener.
pub(super) fn listener_access(
    spec: &Spanned<AddressRulesSpec>,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<Arc<AddressRules>> {
    let built = spec.value.build(&FilesAt(secrets, spec.span));
    built.map(Arc::new).map_err(|message| problems.push(SpecError::value(spec.span, "access", message))).ok()
}

fn ban(
    name: &Spanned<String>,
    spec: &Spanned<BanSpec>,
    lists: &[Arc<NamedList>],
    problems: &mut Problems,
) -> Option<BanRule> {
    check_name(name, name.span, problems);
    let second = Duration::from_secs(1);
    let after = bounded(&spec.after, 1, 1_000_000, problems).and_then(|n| u32::try_from(n).ok());
    let within = duration(spec.within.as_ref(), second, DAY, problems).unwrap_or(60 * second);
    let first = duration(spec.r#for.as_ref(), second, 30 * DAY, problems).unwrap_or(600 * second);
    let longest = duration(spec.longest.as_ref(), second, 365 * DAY, problems).unwrap_or(DAY.max(first));
    if longest < first {
        let span = spec.longest.as_ref().map_or(spec.span, |longest| longest.span);
        let error = SpecError::new(Class::Invalid, span, "`longest` is shorter than the first ban");
        problems.push(error.help("write a `for` that is shorter, or a `longest` that is longer"));
    }
    let statuses = match &spec.status {
        None => vec![(401, 401), (403, 403), (429, 429)],
        Some(written) => statuses(written, spec, problems),
    };
    let malformed = spec.malformed.unwrap_or(true);
    if statuses.is_empty() && !malformed {
        problems.push(SpecError::new(Class::Invalid, spec.span, "nothing counts towards this ban"));
    }
    let list = spec.list.as_ref().map_or(BLOCKED, |list| &list.value);
    if let Some(written) = &spec.list
        && !lists.iter().any(|known| known.live.name() == list)
    {
        let known: Vec<&str> = lists.iter().map(|known| known.live.name()).collect();
        let error = SpecError::value(written.span, "list name", format!("there is no list `{list}`"));
        problems.push(error.class(Class::Unknown).maybe_help(suggest(list, "lists", &known)));
    }
    Some(BanRule {
        name: name.value.as_str().into(),
        statuses,
        malformed,
        after: after?,
        within,
        first,
        longest,
        never: Networks::new(spec.never.items.iter().filter_map(|text| network(text, problems))),
        list: list.into(),
        dry_run: spec.dry_run,
        table: BanTable::default(),
    })
}

fn statuses(
    written: &OneOrManySpec<thalweg_filter::StatusSpec>,
    spec: &Spanned<BanSpec>,
    problems: &mut Problems,
) -> Vec<(u16, u16)> {
    let built = written.as_slice().iter().filter_map(|status| {
        let built = status.build();
        built.map_err(|message| problems.push(SpecError::value(spec.span, "status", message))).ok()
    });
    built.collect()
}
