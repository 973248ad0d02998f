//! Routes and services that sources tell of: documents that are merged with the file.
//!
//! A document is YAML, or JSON or TOML by the end of its name, with the sections [`SECTIONS`] of a configuration. It is
//! read, validated and tested as an included file is, with three differences: what the file says wins, entries that
//! have the name of another are left out and told of; it may say nothing that the admin API may not say either, and
//! names no variable; and a document with a mistake is left out alone, with its last good version in its place
//! (`choose`). The file must be valid without any document, and none may take away a protection that the file gives.

mod choose;
mod join;

use crate::diagnose::{Class, Report, SpecError};
use crate::interpolate::Environment;
use crate::load::{Loaded, check_with};
use crate::own_addresses::{called, own_addresses};
use crate::protections::{Apart, Bypass, GuardedPlaces, added_routes, bypasses};
use crate::settings::Settings;
use crate::source::Span;
use choose::{Chosen, Id, Refused, Set, choose};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use thalweg_discovery::Document;
use thalweg_proxy::Plan;

pub(crate) use join::{Joined, Owners, Part, join};
use join::{flaw_of, owners};

/// The most documents of all sources together.
const MOST_DOCUMENTS: usize = 20_000;
/// Ends the sentence on a document whose last good version runs in its place.
const STAYS: &str = "the version before it stays in use";

/// What a document may hold.
pub const SECTIONS: &[&str] = &["routes", "services", "chains", "tests"];

/// The plan of a configuration with the endpoints that its sources have found; `None`: as it is written.
pub type Filled<'a> = &'a dyn Fn(&Loaded) -> Option<Plan>;

/// What one source has told.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The source in words, as messages and provenance name it.
    pub source: String,
    /// All of its documents, as they are now.
    pub documents: Arc<[Document]>,
    /// The last version of each that could run.
    pub good: Arc<[Document]>,
    /// Versions that made something else fail a short while ago: they are not tried.
    pub refused: Arc<[RefusedDocument]>,
}

/// A version of a document with which the configuration was refused, though it has no mistake itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RefusedDocument {
    /// The version.
    pub document: Document,
    /// A sentence.
    pub why: String,
}

/// A configuration with documents.
#[derive(Debug)]
pub struct Merged {
    /// What runs.
    pub loaded: Loaded,
    /// The documents in it, by offer.
    pub running: Vec<Arc<[Document]>>,
    /// The last good version of each document, by offer: also of those that are left out, to be tried again.
    pub good: Vec<Arc<[Document]>>,
    /// What is left out, and why.
    pub flaws: Vec<DocumentFlaw>,
    /// Versions that were tried and made something else fail, by offer.
    pub refused: Vec<Vec<RefusedDocument>>,
    /// A document was refused because of the endpoints that sources have found: with other ones it may fit.
    pub waits_for_found: bool,
}

impl Merged {
    /// None of the documents runs.
    fn alone(loaded: Loaded, offers: &[Offer]) -> Self {
        let (running, good) = (by_offer(offers, &Set::new()), by_offer(offers, &Set::new()));
        let refused = vec![Vec::new(); offers.len()];
        Self { loaded, running, good, flaws: Vec::new(), refused, waits_for_found: false }
    }
}

/// Why a document, or an entry of it, does not run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DocumentFlaw {
    /// Position of the offer.
    pub source: usize,
    /// The name of the document.
    pub document: Arc<str>,
    /// A sentence, with line and column where there are any.
    pub message: String,
}

/// Adds what sources have told to a file that is valid `alone`. Offers come in the order of `route_sources`; of two
/// entries with one name the first stays. What does not fit is left out, and told of; so is what leads past a
/// protection of the file to an endpoint that was found.
pub fn with_documents(
    alone: Loaded,
    (name, bytes): (&str, &[u8]),
    environment: Environment<'_>,
    (offers, filled): (&[Offer], Filled<'_>),
) -> Merged {
    let (mut newest, good) = (set(offers, |offer| &offer.documents), set(offers, |offer| &offer.good));
    if newest.is_empty() && good.is_empty() {
        return Merged::alone(alone, offers);
    }
    let offered = newest.clone();
    let mut unread = leave_out_unread(&mut newest, &good);
    unread.extend(leave_out_refused(&mut newest, &good, offers));
    let owners = owners(&good);
    let found_alone = filled(&alone);
    let before = found_alone.as_ref().unwrap_or(&alone.plan);
    let mut waits_for_found = false;
    let mut attempt = |set: &Set| {
        let parts: Vec<_> =
            set.iter().map(|(id, text)| Part { id, source: &offers[id.0].source, text }).collect();
        let (made, joined) = check_with((name, bytes), environment, (&parts, &owners));
        match made {
            Ok(loaded) => {
                let found = filled(&loaded);
                let faulty = unprotected(before, (&loaded, found.as_ref()), &joined);
                waits_for_found |= found.is_some() && faulty.is_some();
                faulty.map_or(Ok((loaded, joined)), Err)
            }
            Err(report) => Err(refused(&report, &joined)),
        }
    };
    let chosen = choose(&newest, &good, &mut attempt);
    let Some(chosen) = chosen else {
        return Merged::alone(alone, offers);
    };
    let Chosen { made: (mut loaded, joined), mut set, left_out, tried } = chosen;
    let refused = refused_by_offer((offers, &offered), &tried, &left_out);
    loaded.apart = Apart::of(&alone.plan, &loaded.plan);
    mark_added(&alone.plan, &mut loaded, &joined);
    let flaw = |(id, message): (Id, String)| DocumentFlaw { source: id.0, document: id.1, message };
    let conflicts = joined.into_iter().flat_map(|Joined { id, conflicts, .. }| {
        let told = conflicts.into_iter().map(|it| format!("line {}: {}", it.line, it.message));
        told.map(move |message| flaw((id.clone(), message)))
    });
    unread.extend(left_out);
    let told = unread.into_iter().map(|(id, why)| match (offered.get(&id), set.get(&id)) {
        (None, _) => {
            (id, format!("it is gone, and stays in use: {}", why.replacen("with it", "without it", 1)))
        }
        (Some(text), Some(running)) if text != running => (id, format!("{why}; {STAYS}")),
        (Some(_), _) => (id, why),
    });
    let flaws = told.map(flaw).chain(conflicts).collect();
    let running = by_offer(offers, &set);
    // What is still offered is tried in its last good version when it fits again.
    for (id, _) in offered {
        if let (false, Some(text)) = (set.contains_key(&id), good.get(&id)) {
            set.insert(id, text.clone());
        }
    }
    Merged { loaded, running, good: by_offer(offers, &set), flaws, refused, waits_for_found }
}

/// Marks the endpoints that documents have added: all endpoints of services that are not in the file.
fn mark_added(alone: &Plan, with: &mut Loaded, joined: &[Joined]) {
    let known: HashSet<&str> = alone.services.iter().map(|service| &*service.name).collect();
    let mut added: HashSet<Arc<str>> =
        joined.iter().flat_map(|joined| joined.services.iter().map(|name| name.as_str().into())).collect();
    for route in added_routes(alone, &with.plan).filter_map(|at| with.plan.routes.get(at)) {
        let services = route.to.services().filter_map(|id| with.plan.services.get(id.0 as usize));
        added.extend(services.map(|service| &service.name).filter(|name| **name == route.name).cloned());
    }
    // Routes of the file lead only to services of the file.
    let routes = with.plan.routes.iter().enumerate();
    let of_file = routes.filter(|(at, _)| !added_routes(alone, &with.plan).contains(at));
    let of_file = of_file.flat_map(|(_, route)| route.all_services());
    let of_file: HashSet<Arc<str>> =
        of_file.filter_map(|id| Some(with.plan.services.get(id.0 as usize)?.name.clone())).collect();
    let is_added =
        |name: &Arc<str>| !of_file.contains(name) && (!known.contains(&**name) || added.contains(name));
    for service in with.plan.services.iter_mut().filter(|service| is_added(&service.name)) {
        if !service.endpoints.is_empty() {
            Arc::make_mut(service).endpoints.iter_mut().for_each(|endpoint| endpoint.is_added = true);
        }
    }
    for (_, discover) in with.settings.discover.iter_mut().filter(|(name, _)| is_added(name)) {
        discover.is_added = true;
        discover.written.iter_mut().for_each(|endpoint| endpoint.is_added = true);
    }
}

/// Puts the good versions in the place of those that were refused a short while ago; which these are, and why.
fn leave_out_refused(newest: &mut Set, good: &Set, offers: &[Offer]) -> Vec<(Id, String)> {
    let all = offers.iter().enumerate();
    let all = all.flat_map(|(at, offer)| offer.refused.iter().map(move |refused| (at, refused)));
    let mut flaws = Vec::new();
    for (at, RefusedDocument { document, why }) in all {
        let id = (at, document.name.clone());
        // A version that has run before is tried as the good one anyway.
        if newest.get(&id) == Some(&document.text) && good.get(&id) != Some(&document.text) {
            put_good(newest, good, &id);
            flaws.push((id, why.clone()));
        }
    }
    flaws
}

/// Puts the good version in the place of a document, or takes it out.
fn put_good(newest: &mut Set, good: &Set, id: &Id) {
    match good.get(id) {
        Some(known) => newest.insert(id.clone(), known.clone()),
        None => newest.remove(id),
    };
}

/// What was tried by itself and refused, with the reason.
fn refused_by_offer(
    (offers, offered): (&[Offer], &Set),
    tried: &[Id],
    left_out: &[(Id, String)],
) -> Vec<Vec<RefusedDocument>> {
    let mut all = vec![Vec::new(); offers.len()];
    let why: HashMap<&Id, &String> = left_out.iter().map(|(id, why)| (id, why)).collect();
    for id in tried {
        let (Some(text), Some(why)) = (offered.get(id), why.get(id)) else { continue };
        let document = Document { name: id.1.clone(), text: text.clone() };
        all[id.0].push(RefusedDocument { document, why: (*why).clone() });
    }
    all
}

/// Puts the good versions in the place of documents that cannot be read by themselves, and of those that are too many;
/// which these are, and why.
fn leave_out_unread(newest: &mut Set, good: &Set) -> Vec<(Id, String)> {
    let mut flaws = Vec::new();
    for (at, id) in newest.keys().cloned().collect::<Vec<_>>().into_iter().enumerate() {
        let known = good.get(&id);
        let Some(text) = newest.get(&id).filter(|text| Some(*text) != known) else { continue };
        let why = match at < MOST_DOCUMENTS {
            true => flaw_of(&id.1, text),
            false => Some(format!("all sources together may have {MOST_DOCUMENTS} documents")),
        };
        let Some(why) = why else { continue };
        put_good(newest, good, &id);
        flaws.push((id, why));
    }
    flaws
}

/// Checks a file that is valid `alone` with documents of which nothing may be left out: names and texts.
///
/// # Errors
/// Every mistake.
pub(crate) fn check_strictly(
    alone: &Loaded,
    file: (&str, &[u8]),
    environment: Environment<'_>,
    documents: &[(String, String)],
) -> Result<Loaded, Report> {
    let all = documents.iter().enumerate();
    let all: Vec<(Id, Arc<str>)> =
        all.map(|(at, (name, text))| ((at, name.as_str().into()), text.as_str().into())).collect();
    let parts: Vec<_> = all.iter().map(|(id, text)| Part { id, source: "", text }).collect();
    let (made, joined) = check_with(file, environment, (&parts, &Owners::new()));
    let mut loaded = made?;
    let lost = unprotected(&alone.plan, (&loaded, None), &joined);
    let mut tell = |span, message| loaded.warnings.errors.push(SpecError::new(Class::Invalid, span, message));
    for Joined { conflicts, .. } in &joined {
        let told = |message: &str| message.replacen("is left out", "would be left out", 1);
        conflicts.iter().for_each(|conflict| tell(conflict.span, told(&conflict.message)));
    }
    for (id, message) in lost.into_iter().flat_map(|refused| refused.faulty) {
        let file = joined.iter().find(|joined| joined.id == id).map_or(0, |joined| joined.file);
        tell(Span::new(file, 0..0), message);
    }
    Ok(loaded)
}

fn set(offers: &[Offer], of: impl Fn(&Offer) -> &Arc<[Document]>) -> Set {
    let all = offers.iter().enumerate();
    let each = |(at, offer)| {
        let documents = of(offer).iter();
        documents.map(move |document: &Document| ((at, document.name.clone()), document.text.clone()))
    };
    all.flat_map(each).collect()
}

fn by_offer(offers: &[Offer], set: &Set) -> Vec<Arc<[Document]>> {
    let of = |at: usize| {
        let own = set.iter().filter(|((source, _), _)| *source == at);
        own.map(|((_, name), text)| Document { name: name.clone(), text: text.clone() }).collect()
    };
    (0..offers.len()).map(of).collect()
}

/// What is wrong, and what to write instead, in one line.
fn with_help(error: &SpecError) -> String {
    match &error.help {
        Some(help) => format!("{} ({})", error.message, help.replace('\n', " ")),
        None => error.message.clone(),
    }
}

/// The documents with mistakes, each with the first one.
fn refused(report: &Report, joined: &[Joined]) -> Refused {
    let sentence = |error: &SpecError| {
        let at = report.sources.position(error.span);
        format!("line {}, column {}: {}", at.line, at.column, with_help(error))
    };
    let by_file: HashMap<u16, &Id> = joined.iter().map(|joined| (joined.file, &joined.id)).collect();
    let mut faulty: Vec<(Id, String)> = Vec::new();
    for error in &report.errors {
        let Some(id) = by_file.get(&error.span.file) else { continue };
        if faulty.iter().all(|(known, _)| known != *id) {
            faulty.push(((*id).clone(), sentence(error)));
        }
    }
    let first = report.errors.first();
    let why = first.map(|error| {
        format!("with it the configuration is refused: {}: {}", report.place(error.span), with_help(error))
    });
    Refused { faulty, why: why.unwrap_or_default() }
}

/// The documents that lead past a protection that the file gives, or to the process itself.
fn unprotected(
    alone: &Plan,
    (loaded, found): (&Loaded, Option<&Plan>),
    joined: &[Joined],
) -> Option<Refused> {
    let with = found.unwrap_or(&loaded.plan);
    let named = |of: fn(&Joined) -> &[String]| -> HashMap<&str, &Id> {
        joined.iter().flat_map(|joined| of(joined).iter().map(move |name| (&**name, &joined.id))).collect()
    };
    let (routes, services) = (named(|joined| &joined.routes), named(|joined| &joined.services));
    let past = bypasses(alone, with).into_iter().map(|Bypass { key, why }| {
        let by_route = key.strip_prefix("routes.").and_then(|name| routes.get(name));
        let by_service = key.strip_prefix("services.").and_then(|name| services.get(name));
        (by_route.or(by_service).copied(), format!("only the file may take protections away: {why}"))
    });
    let own = own_addresses(alone, with).into_iter().map(|own| {
        let by_route = own.routes.iter().find_map(|route| routes.get(&**route));
        (services.get(&*own.service).or(by_route).copied(), format!("only the file may say that: {own}"))
    });
    let calls = calls(alone, loaded, joined);
    let names = names_of_file(alone, joined);
    let all: Vec<(Option<&Id>, String)> = names.into_iter().chain(past).chain(own).chain(calls).collect();
    let why = all.first()?.1.clone();
    let faulty = all.into_iter().filter_map(|(id, why)| Some((id?.clone(), why))).collect();
    Some(Refused { faulty, why })
}

/// The documents with a name that the file gives without writing it under `routes` or `services`: a route that lists
/// URLs, or a listener for connections, has a service of its own name, which would get another name beside the
/// document's. Protections are compared by these names.
fn names_of_file<'j>(alone: &Plan, joined: &'j [Joined]) -> Vec<(Option<&'j Id>, String)> {
    let services: HashSet<&str> = alone.services.iter().map(|service| &*service.name).collect();
    let routes: HashSet<&str> = alone.routes.iter().map(|route| &*route.name).collect();
    let mut found = Vec::new();
    for joined in joined {
        let services = joined.services.iter().filter(|name| services.contains(name.as_str()));
        let routes = joined.routes.iter().filter(|name| routes.contains(name.as_str()));
        let all = services.map(|name| ("service", name)).chain(routes.map(|name| ("route", name)));
        found.extend(all.map(|(what, name)| {
            let why = format!(
                "the {what} `{name}` has the name of a route or listener of the file; choose another one"
            );
            (Some(&joined.id), why)
        }));
    }
    found
}

/// The documents for which the process would ask a place that the file reaches through filters alone. The address that
/// a source asks by default counts as written.
fn calls<'j>(alone: &Plan, loaded: &Loaded, joined: &'j [Joined]) -> Vec<(Option<&'j Id>, String)> {
    let guarded = GuardedPlaces::of(alone);
    let Settings { discover, route_sources, .. } = &loaded.settings;
    let mut of_file: HashSet<String> = route_sources.iter().map(|source| source.source.place()).collect();
    let services = alone.services.iter().filter_map(|service| discover.get(&service.name));
    of_file.extend(services.map(|discover| discover.source.place()));
    let mut found = Vec::new();
    for joined in joined {
        let sources = joined.services.iter().flat_map(|name| {
            let place = discover.get(name.as_str()).map(|discover| discover.source.place());
            let place = place.filter(|place| !of_file.contains(place)).unwrap_or_default();
            let key = format!("services.{name}.discover");
            place.split(", ").filter_map(|part| called(key.clone(), part)).collect::<Vec<_>>()
        });
        for called in joined.calls.iter().cloned().chain(sources) {
            if let Some(place) = guarded.at(&called.address, &called.path) {
                let why = format!(
                    "only the file may take protections away: `{}` asks {place}, which the file reaches through \
                     filters; write it in the file",
                    called.key
                );
                found.push((Some(&joined.id), why));
            }
        }
    }
    found
}

#[cfg(test)]
mod guard_tests;
#[cfg(test)]
mod tests;
