//! `chains:` filters under a name, and the lists in which they are used.
//!
//! Each chain is resolved once, to the filters in it and in the chains that it names, so that chains in chains cost
//! no more than their filters however often they are named.

use super::check_name;
use super::secret::{FilesAt, Secrets};
use crate::diagnose::{Class, Problems, SpecError, suggest};
use crate::source::Span;
use crate::spec::{Declared, ListSpec, Marks, NamedSpec, Spanned, StepChoice, StepSpec};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use thalweg_filter::{Filter, FilterSpec, Step, When, WhenSpec};

/// Most filters of a route or a chain, those of the chains in it included.
const FILTERS: usize = 256;
/// Chains that may stand in each other.
const DEPTH: usize = 16;

/// Where a filter of a route stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct FilterPlace {
    /// The place.
    pub(crate) span: Span,
    /// The chain in whose list it is; `None`: in the route's own.
    pub(crate) chain: Option<Arc<str>>,
}

/// A filter that is written in a chain.
#[derive(Clone)]
struct Member<'a> {
    span: Span,
    spec: &'a FilterSpec,
    chain: Arc<str>,
    /// Its own condition, and those of the chains that it stands in, innermost first.
    when: Vec<&'a Spanned<WhenSpec>>,
}

/// What a chain is in the end.
#[derive(Default)]
struct Resolved<'a> {
    members: Vec<Member<'a>>,
    /// Chains that stand in each other, itself included.
    depth: usize,
    /// All that is written in it could be read.
    is_whole: bool,
}

/// The chains of a file.
pub(crate) struct Chains<'a> {
    specs: HashMap<&'a str, &'a ListSpec<StepSpec>>,
    /// Every chain that is written, wrong ones included.
    written: &'a [String],
    /// Services that are written, wrong ones included.
    services: &'a [String],
    /// For files that filters name.
    secrets: &'a Secrets<'a>,
    /// The digests that identify filters and conditions.
    marks: &'a Marks,
    resolved: HashMap<&'a str, Resolved<'a>>,
    /// Chains that something names.
    used: RefCell<HashSet<String>>,
}

impl<'a> Chains<'a> {
    /// Checks the chains, also those that no route uses.
    pub(crate) fn read(
        specs: &'a NamedSpec<ListSpec<StepSpec>>,
        Declared { chains: written, services, marks, .. }: &'a Declared,
        secrets: &'a Secrets<'a>,
        problems: &mut Problems,
    ) -> Self {
        let by_name = specs.0.iter().map(|(name, spec)| (name.value.as_str(), spec)).collect();
        let mut chains = Self {
            specs: by_name,
            written,
            services,
            secrets,
            marks,
            resolved: HashMap::new(),
            used: RefCell::default(),
        };
        for (name, spec) in &specs.0 {
            check_name(name, name.span, problems);
            for step in &spec.items {
                if let StepChoice::Filter(filter) = &step.choice {
                    chains.build(filter, step.span, problems);
                }
                conditions(&step.when.iter().collect::<Vec<_>>(), problems);
            }
            chains.resolve(name, spec, &mut Vec::new(), problems);
        }
        chains
    }

    /// The filters of a route's list, in order, and where they stand.
    pub(crate) fn filters(
        &self,
        list: &'a ListSpec<StepSpec>,
        problems: &mut Problems,
    ) -> (Vec<Step>, Vec<FilterPlace>) {
        let (mut filters, mut places) = (Vec::new(), Vec::new());
        for step in &list.items {
            match &step.choice {
                StepChoice::Filter(spec) => {
                    let conditions_of_step: Vec<_> = step.when.iter().collect();
                    let when = conditions(&conditions_of_step, problems);
                    let written = self.marks.written(step.span, conditions_of_step.iter().map(|it| it.span));
                    let filter = self.build(spec, step.span, problems);
                    filters.extend(filter.map(|filter| Step { filter, when, written }));
                    places.push(FilterPlace { span: step.span, chain: None });
                }
                StepChoice::Chain(name) => {
                    let outer = conditions(&step.when.iter().collect::<Vec<_>>(), problems);
                    let resolved = self.named(name, problems).and_then(|name| self.resolved.get(name));
                    for member in resolved.map(|chain| &chain.members).into_iter().flatten() {
                        let mut when = conditions(&member.when, problems);
                        when.extend_from_slice(&outer);
                        let all = member.when.iter().copied().chain(&step.when);
                        let written = self.marks.written(member.span, all.map(|it| it.span));
                        let filter = self.build(member.spec, member.span, problems);
                        filters.extend(filter.map(|filter| Step { filter, when, written }));
                        places.push(FilterPlace { span: member.span, chain: Some(member.chain.clone()) });
                    }
                }
            }
            if places.len() > FILTERS {
                problems.push(too_many(step.span));
                break;
            }
        }
        (filters, places)
    }

    /// Whether all that is written in a route's list could be read, its chains included.
    pub(crate) fn is_whole(&self, list: &ListSpec<StepSpec>) -> bool {
        let is_whole = |step: &Spanned<StepSpec>| match &step.choice {
            StepChoice::Filter(_) => true,
            StepChoice::Chain(name) => self.resolved.get(name.as_str()).is_some_and(|chain| chain.is_whole),
        };
        list.written == list.items.len() && list.items.iter().all(is_whole)
    }

    /// Warns of chains that nothing names. To be called when every route has been read.
    pub(crate) fn warn_of_unused(&self, specs: &NamedSpec<ListSpec<StepSpec>>, problems: &mut Problems) {
        for (name, _) in &specs.0 {
            if !self.used.borrow().contains(&name.value) {
                let message = format!("no route uses the chain `{}`", name.value);
                problems.push(SpecError::new(Class::Warning, name.span, message));
            }
        }
    }

    /// Makes the list of a chain's filters. `open` are the chains that are being resolved, outermost first.
    fn resolve(
        &mut self,
        name: &'a str,
        spec: &'a ListSpec<StepSpec>,
        open: &mut Vec<&'a str>,
        problems: &mut Problems,
    ) {
        if self.resolved.contains_key(name) {
            return;
        }
        open.push(name);
        let (mut members, mut depth, mut is_whole) = (Vec::new(), 1, spec.written == spec.items.len());
        for step in &spec.items {
            match &step.choice {
                StepChoice::Filter(spec) => {
                    let when = step.when.iter().collect();
                    members.push(Member { span: step.span, spec, chain: name.into(), when });
                }
                StepChoice::Chain(inner) => {
                    let Some(known) = self.named(inner, problems) else {
                        is_whole = false;
                        continue;
                    };
                    if let Some(at) = open.iter().position(|open| *open == known) {
                        problems.push(cycle(inner.span, &open[at..]));
                        is_whole = false;
                        continue;
                    }
                    if open.len() < DEPTH
                        && let Some(spec) = self.specs.get(known).copied()
                    {
                        self.resolve(known, spec, open, problems);
                    }
                    let (inside, levels, whole) = self
                        .resolved
                        .get(known)
                        .map_or((&[][..], DEPTH, false), |it| (&it.members, it.depth, it.is_whole));
                    is_whole &= whole;
                    members.extend(inside.iter().map(|member| {
                        let when = member.when.iter().copied().chain(&step.when).collect();
                        Member { when, ..member.clone() }
                    }));
                    depth = depth.max(levels + 1);
                    if depth > DEPTH {
                        let message = format!("chains are nested more than {DEPTH} deep");
                        problems.push(SpecError::new(Class::Invalid, inner.span, message));
                        (depth, members, is_whole) = (1, Vec::new(), false);
                        break;
                    }
                }
            }
            if members.len() > FILTERS {
                problems.push(too_many(step.span));
                members.clear();
                is_whole = false;
                break;
            }
        }
        open.pop();
        self.resolved.insert(name, Resolved { members, depth, is_whole });
    }

    /// Makes a filter. The services that it names must be written.
    fn build(&self, spec: &FilterSpec, span: Span, problems: &mut Problems) -> Option<Arc<dyn Filter>> {
        let filter = spec.build(&FilesAt(self.secrets, span));
        let filter =
            filter.map_err(|message| problems.push(SpecError::value(span, "filter", message))).ok()?;
        for name in filter.calls().into_iter().chain(filter.choices()) {
            if !self.services.iter().any(|known| **known == *name) {
                let known: Vec<&str> = self.services.iter().map(String::as_str).collect();
                let help = match known.as_slice() {
                    [] => Some("services stand in the section `services`, by name".to_owned()),
                    known => suggest(&name, "services", known),
                };
                let message = format!("`{}` names a service `{name}`, and there is none", filter.name());
                let error = SpecError::value(span, "service name", message);
                problems.push(error.class(Class::Unknown).maybe_help(help));
            }
        }
        Some(filter)
    }

    /// The chain of this name, which is used now.
    fn named(&self, name: &Spanned<String>, problems: &mut Problems) -> Option<&'a str> {
        if let Some((known, _)) = self.specs.get_key_value(name.as_str()) {
            self.used.borrow_mut().insert((*known).to_owned());
            return Some(known);
        }
        if !self.written.contains(name) {
            let known: Vec<&str> = self.written.iter().map(String::as_str).collect();
            let help = match known.as_slice() {
                [] => Some("chains stand in the section `chains`, by name".to_owned()),
                known => suggest(name, "chains", known),
            };
            let error = SpecError::value(name.span, "chain name", format!("no chain `{}`", name.value));
            problems.push(error.class(Class::Unknown).maybe_help(help));
        }
        None
    }
}

/// Compiles conditions.
fn conditions(specs: &[&Spanned<WhenSpec>], problems: &mut Problems) -> Vec<Arc<When>> {
    let built = specs.iter().filter_map(|spec| {
        let built = spec.build().map(Arc::new);
        built.map_err(|message| problems.push(SpecError::value(spec.span, "when", message))).ok()
    });
    built.collect()
}

fn too_many(span: Span) -> SpecError {
    let message = format!("there are more than {FILTERS} filters, those of chains included");
    SpecError::new(Class::Invalid, span, message)
}

fn cycle(span: Span, open: &[&str]) -> SpecError {
    let names: Vec<&str> = open.iter().chain(open.first()).copied().collect();
    SpecError::value(span, "chain name", format!("a chain contains itself: {}", names.join(" → ")))
}
