//! Branches of a site as routes whose precedence asks them in the order of the branches.
//!
//! Routes are asked by path first (exact, prefixes, expressions, everything), then by their conditions, then in the
//! order of the file; Caddy asks in its order alone. So what would be asked too early is preceded by what goes before
//! it, bound to the same requests; a prefix behind an expression becomes one itself; and `/a`, which the prefix `/a/*`
//! of a route takes and that of Caddy does not, gets a route of its own.

use crate::branch::{Branch, Condition, host_rank};
use crate::draft::{Conditions, Paths};
use crate::paths::{Atom, paths, place};
use std::cmp::Reverse;

/// How often a branch is put before another one in a row.
const DEPTH: usize = 12;
/// Routes of one site; of one that would become more, all are refused.
const ROUTES: usize = 1000;

/// A route that a branch becomes.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// The number of the branch.
    pub(crate) branch: usize,
    pub(crate) paths: Paths,
    pub(crate) rest: Conditions,
    pub(crate) secure: Option<bool>,
    /// The branch could not be put in its order: its requests are answered 501.
    pub(crate) is_refused: bool,
}

/// A branch with one of its paths.
#[derive(Clone, Debug)]
struct Entry {
    branch: usize,
    condition: Condition,
    as_regex: bool,
    is_refused: bool,
}

type Rank = ((u8, usize), (u8, usize), bool, Reverse<usize>, Reverse<usize>);

impl Entry {
    fn atom(&self) -> Option<&Atom> {
        self.condition.paths.as_ref().and_then(|paths| paths.first())
    }

    /// When a route is asked: smaller goes first.
    fn rank(&self, has_hosts: bool) -> Rank {
        let (no_methods, headers, query) = {
            let rest = &self.condition.rest;
            (rest.methods.is_empty(), rest.headers.entries().len(), rest.query.entries().len())
        };
        let host = match self.condition.rest.hosts.first() {
            None if has_hosts => (0, 0),
            host => host_rank(host),
        };
        (host, place(self.atom(), self.as_regex), no_methods, Reverse(headers), Reverse(query))
    }

    fn is_regex(&self) -> bool {
        place(self.atom(), self.as_regex).0 == 3
    }

    /// Whether all requests of the other one are its own too.
    fn covers(&self, other: &Self) -> bool {
        self.as_regex == other.as_regex
            && matches!(self.condition.and(&other.condition), Ok(Some(both)) if both == other.condition)
    }
}

/// Routes of the branches. `has_hosts`: the site names its hosts, each in full.
pub(crate) fn arrange(branches: &[Branch], has_hosts: bool) -> Vec<Placed> {
    let mut entries = entries(branches);
    for at in 0..entries.len() {
        let (before, behind) = entries.split_at_mut(at);
        let entry = &mut behind[0];
        let is_pattern = entry.atom().is_some() && !entry.is_regex();
        entry.as_regex |= is_pattern
            && before.iter().any(|other| other.is_regex() && other.condition.meets(&entry.condition));
    }
    let mut out: Vec<Entry> = Vec::new();
    for entry in leaks(&entries).into_iter().chain(entries.iter().cloned()) {
        put(entry, has_hosts, &mut out, 0);
    }
    // Some are missing: no request may come to one behind them.
    if out.len() >= ROUTES {
        out.iter_mut().for_each(|entry| entry.is_refused = true);
    }
    joined(&out)
}

fn entries(branches: &[Branch]) -> Vec<Entry> {
    let mut all = Vec::new();
    for (number, branch) in branches.iter().enumerate() {
        let atoms: Vec<Option<Atom>> = match &branch.condition.paths {
            None => vec![None],
            Some(paths) => paths.iter().cloned().map(Some).collect(),
        };
        let entry = |atom: Option<Atom>, as_regex, rest: &Conditions| Entry {
            branch: number,
            condition: Condition {
                paths: atom.map(|atom| vec![atom]),
                rest: rest.clone(),
                ..branch.condition.clone()
            },
            as_regex,
            is_refused: false,
        };
        // Who is kept out must not come in by another spelling.
        let in_any_case =
            |atom: &Option<Atom>| branch.is_guarded && atom.as_ref().is_some_and(Atom::has_letters);
        for rest in by_host(&branch.condition.rest) {
            all.extend(atoms.iter().map(|atom| entry(atom.clone(), in_any_case(atom), &rest)));
        }
    }
    all
}

/// Conditions whose hosts are asked at one place of the order: names together, each wildcard by itself.
fn by_host(rest: &Conditions) -> Vec<Conditions> {
    let (wild, named): (Vec<String>, Vec<String>) =
        rest.hosts.iter().cloned().partition(|host| host.starts_with("*."));
    let with = |hosts: Vec<String>| Conditions { hosts, ..rest.clone() };
    if rest.hosts.is_empty() || wild.is_empty() {
        return vec![rest.clone()];
    }
    let named = if named.is_empty() { None } else { Some(with(named)) };
    named.into_iter().chain(wild.into_iter().map(|host| with(vec![host]))).collect()
}

/// Routes for the paths that prefixes of routes take and Caddy's do not.
fn leaks(entries: &[Entry]) -> Vec<Entry> {
    let mut found: Vec<String> = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.is_regex()) {
        found.extend(entry.atom().and_then(Atom::leak).filter(|path| !found.contains(path)));
    }
    let mut all = Vec::new();
    for path in found {
        let exact = Condition::of_paths(vec![Atom::Exact(path)]);
        for entry in entries {
            if let Ok(Some(both)) = entry.condition.and(&exact) {
                let is_last = both == exact;
                all.push(Entry { condition: both, as_regex: false, ..entry.clone() });
                if is_last {
                    break;
                }
            }
        }
    }
    all
}

/// Adds a route behind all that go before it in Caddy's order; of those that would be asked later, what they have in
/// common with it goes before it.
fn put(mut entry: Entry, has_hosts: bool, out: &mut Vec<Entry>, depth: usize) {
    let is_covered = |out: &[Entry], entry: &Entry| {
        out.iter().any(|other| {
            let is_before = other.branch <= entry.branch && other.rank(has_hosts) <= entry.rank(has_hosts);
            is_before && other.covers(entry)
        })
    };
    if is_covered(out, &entry) || out.len() >= ROUTES {
        return;
    }
    let mut at = 0;
    while at < out.len() {
        let other = out[at].clone();
        at += 1;
        if other.rank(has_hosts) <= entry.rank(has_hosts) || other.branch >= entry.branch {
            continue;
        }
        match other.condition.and(&entry.condition) {
            Ok(None) => {}
            Ok(Some(both)) if depth < DEPTH => {
                let is_whole = both == entry.condition;
                let common = Entry { condition: both, as_regex: entry.as_regex, ..other };
                put(common, has_hosts, out, depth + 1);
                // Nothing is left for the route itself.
                if is_whole {
                    return;
                }
            }
            _ => entry.is_refused = true,
        }
    }
    if !is_covered(out, &entry) {
        out.push(entry);
    }
}

/// Routes; patterns of one branch that follow each other become one.
fn joined(entries: &[Entry]) -> Vec<Placed> {
    let mut all: Vec<Placed> = Vec::new();
    for entry in entries {
        let mine = paths(entry.atom(), entry.as_regex, entry.condition.case);
        let last = all.last_mut().filter(|last| {
            last.branch == entry.branch
                && last.rest == entry.condition.rest
                && last.secure == entry.condition.secure
                && last.is_refused == entry.is_refused
        });
        if let (Some(Placed { paths: Paths::Patterns(known), .. }), Paths::Patterns(more)) = (last, &mine) {
            known.extend(more.iter().cloned());
            continue;
        }
        all.push(Placed {
            branch: entry.branch,
            paths: mine,
            rest: entry.condition.rest.clone(),
            secure: entry.condition.secure,
            is_refused: entry.is_refused,
        });
    }
    all
}
