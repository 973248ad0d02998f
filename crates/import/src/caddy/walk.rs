//! A site's directives, followed in Caddy's order: which requests meet which of them, until one answers.
//!
//! Each way through the list becomes a branch: a condition and what is done. Branches stand in the order in which they
//! are to be asked, so that the first whose condition holds is what Caddy does; `arrange` makes routes of that order.

use super::Importer;
use super::fields::Fields;
use super::matcher::Decisions;
use super::placeholders::Scope;
use super::syntax::Directive;
use crate::Grade;
use crate::branch::{Branch, Condition, Content};
use crate::draft::{To, literal};
use crate::paths::{Atom, Case};
use crate::yaml::{Map, one};
use std::collections::BTreeMap;

/// Branches of one site.
const BRANCHES: usize = 300;

/// A directive that is to be followed.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Without the word of its matcher.
    pub(super) directive: Directive,
    /// As it is written, for the report.
    pub(super) text: String,
    pub(super) decisions: Result<Decisions, String>,
    /// Of those with the same number only the first that holds is followed.
    pub(super) group: Option<usize>,
}

/// What has become of the path so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Moved {
    #[default]
    No,
    /// This was taken from its front.
    Without(String),
    /// It is this.
    To(String),
    /// Something else.
    Unknown,
}

/// What is known of the requests that have come so far.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) condition: Condition,
    pub(super) moved: Moved,
    pub(super) fields: Fields,
    pub(super) filters: Vec<Map>,
    pub(super) limits: Map,
    pub(super) root: Option<String>,
    pub(super) tries: Option<Vec<String>>,
    pub(super) vars: BTreeMap<String, String>,
    /// `map_back` is to be left out.
    pub(super) is_mapped: bool,
    /// Whoever does not prove to be somebody is kept out, or all are.
    pub(super) is_guarded: bool,
    pub(super) notes: Vec<String>,
}

impl State {
    pub(super) fn scope(&self) -> Scope {
        Scope {
            vars: self.vars.clone(),
            groups: Scope::groups_of(&self.condition),
            is_moved: self.moved != Moved::No,
        }
    }

    /// A condition on the path as it is now, said of the path as it came; `Ok(None)`: it never holds.
    fn translated(&self, condition: &Condition) -> Result<Option<Condition>, String> {
        let Some(paths) = &condition.paths else { return Ok(Some(condition.clone())) };
        let mut out = condition.clone();
        match &self.moved {
            Moved::No => {}
            Moved::Without(prefix) => {
                let below: Result<Vec<Atom>, String> = paths.iter().map(|atom| atom.below(prefix)).collect();
                out.paths = Some(below?);
            }
            Moved::To(path) => {
                if !paths.iter().any(|atom| atom.takes(path, Case::Ignored)) {
                    return Ok(None);
                }
                out.paths = None;
            }
            Moved::Unknown => return Err("the path is asked behind a change of it".to_owned()),
        }
        Ok(Some(out))
    }
}

/// Directives that change nothing of who answers: where their condition is lost, they are left out.
const HARMLESS: &[&str] = &["header", "encode", "log", "log_skip", "skip_log", "request_header", "push"];
/// Directives that can be left to a filter with a condition.
const BY_FILTER: &[&str] =
    &["header", "request_header", "encode", "basicauth", "basic_auth", "rewrite", "uri", "forward_auth"];

impl Importer<'_> {
    /// Follows directives to their ends.
    pub(super) fn walk(&mut self, steps: &[Step], state: State) {
        let Some((step, rest)) = steps.split_first() else {
            return self.answer(state, one("respond", one("status", 200_u16).with("body", "")), false);
        };
        if self.branches.len() >= BRANCHES {
            let about =
                format!("the site has more than {BRANCHES} ways through it; the rest is answered 501");
            self.report.note(&step.directive.place, step.text.as_str(), Grade::Lost, about, "");
            return self.refuse(state, "too many conditions");
        }
        let decisions = match &step.decisions {
            Ok(decisions) => decisions.clone(),
            Err(why) => return self.lost_condition(step, rest, state, &why.clone()),
        };
        if let [(condition, true)] = decisions.as_slice()
            && condition.is_all()
        {
            return self.follow(step, None, rest, state);
        }
        let by_filter = BY_FILTER.contains(&step.directive.name.as_str()) && step.group.is_none();
        if let ([(condition, true), (_, false)], true, Moved::No) =
            (decisions.as_slice(), by_filter, &state.moved)
            && let Some(when) = condition.when()
        {
            return self.follow(step, Some(when), rest, state);
        }
        for (condition, holds) in decisions {
            let both = state.translated(&condition).and_then(|found| match found {
                Some(found) => Ok(state.condition.and(&found)?.map(|both| (both, found))),
                None => Ok(None),
            });
            let (both, _) = match both {
                Ok(Some(both)) => both,
                Ok(None) => continue,
                Err(why) => return self.lost_condition(step, rest, state, &why),
            };
            let is_last = both == state.condition;
            let narrowed = State { condition: both, ..state.clone() };
            match holds {
                true => self.follow(step, None, rest, narrowed),
                false => self.walk(rest, narrowed),
            }
            if is_last {
                return;
            }
        }
    }

    fn lost_condition(&mut self, step: &Step, rest: &[Step], state: State, why: &str) {
        let is_harmless = HARMLESS.contains(&step.directive.name.as_str());
        let end = if is_harmless { "it is left out" } else { "requests are answered 501" };
        let about = format!("{why}; {end}");
        let concerns = self.concerns(&state.condition);
        self.report.note(&step.directive.place, step.text.as_str(), Grade::Lost, about, concerns);
        match is_harmless {
            true => self.walk(rest, state),
            false => self.refuse(state, why),
        }
    }

    /// Follows one directive, and then the rest. Of its group the others are passed over.
    fn follow(&mut self, step: &Step, when: Option<Map>, rest: &[Step], mut state: State) {
        let rest: Vec<Step> =
            rest.iter().filter(|other| other.group.is_none() || other.group != step.group).cloned().collect();
        let name = step.directive.name.as_str();
        match name {
            "handle" | "route" | "handle_path" => {
                self.report.exact(&step.directive.place, step.text.as_str());
                if name == "handle_path" && !self.strip_handled(step, &mut state) {
                    return self.refuse(state, "the path of `handle_path` is not taken over");
                }
                let mut inner = self.steps(step.directive.children(), name != "route");
                inner.extend(rest);
                self.walk(&inner, state);
            }
            "respond" | "redir" | "error" | "abort" => self.reply(step, state),
            "reverse_proxy" => self.proxy(step, state),
            "file_server" => self.file_server(step, &rest, state),
            _ => match self.adjust(step, when, &mut state) {
                Ok(()) => self.walk(&rest, state),
                Err(why) => self.refuse(state, &why),
            },
        }
    }

    /// `handle_path` takes its path away from the front.
    fn strip_handled(&mut self, step: &Step, state: &mut State) -> bool {
        let prefix = match step.decisions.as_ref().map(Vec::as_slice) {
            Ok([(Condition { paths: Some(paths), .. }, true), ..]) => match paths.as_slice() {
                [Atom::Begins(begin)] => begin.trim_end_matches('/').to_owned(),
                [Atom::Exact(path)] => path.clone(),
                _ => return false,
            },
            _ => return false,
        };
        self.strip_prefix(&prefix, state);
        true
    }

    /// Takes a prefix of whole segments from the path of requests that have it.
    pub(super) fn strip_prefix(&mut self, prefix: &str, state: &mut State) {
        if prefix.is_empty() {
            return;
        }
        state.filters.push(one("strip_prefix", literal(prefix)));
        state.is_mapped = true;
        state.moved = match &state.moved {
            Moved::No => Moved::Without(prefix.to_owned()),
            Moved::Without(before) => Moved::Without(format!("{before}{prefix}")),
            Moved::To(path) => Moved::To(path.strip_prefix(prefix).unwrap_or(path).to_owned()),
            Moved::Unknown => Moved::Unknown,
        };
    }

    /// A branch whose last filter answers.
    pub(super) fn answer(&mut self, mut state: State, filter: Map, is_guard: bool) {
        state.filters.push(filter);
        state.is_guarded |= is_guard;
        self.end(state, To::Nowhere, Map::default());
    }

    /// A branch whose requests are answered 501.
    pub(super) fn refuse(&mut self, mut state: State, why: &str) {
        state.notes.push(format!("NOT TAKEN OVER: {why}"));
        let body = format!("501 Not Implemented: {why}\n");
        self.answer(state, one("respond", one("status", 501_u16).with("body", literal(&body))), true);
    }

    /// A branch that has come to its end.
    pub(super) fn end(&mut self, state: State, to: To, timeouts: Map) {
        let mut filters = state.fields.filters(to != To::Nowhere);
        filters.extend(self.error_pages.clone());
        filters.extend(state.filters);
        if state.is_mapped && to != To::Nowhere {
            filters.push(one("map_back", false));
        }
        let content = Content { filters, to, timeouts, limits: state.limits, notes: state.notes };
        self.branches.push(Branch { condition: state.condition, content, is_guarded: state.is_guarded });
    }

    /// Requests that a line of the report concerns.
    pub(super) fn concerns(&self, condition: &Condition) -> String {
        let site = self.site_name.as_str();
        match condition.paths.as_deref() {
            Some([first, ..]) => format!("requests to {site} under {}", first.regex()),
            _ => format!("requests to {site}"),
        }
    }
}
