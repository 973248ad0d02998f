//! Routers in the order of their priority as routes whose precedence gives the same order.
//!
//! Traefik asks routers one after the other, and the first that fits takes the request. Routes are asked by host, path
//! and conditions first. So a router that would be asked too early is preceded by what it has in common with those that
//! go before it. What a rule excludes (`!`) is a hole: the routers behind it are asked there first, bound to the hole.

use super::condition::Condition;
use super::rule::Alternative;

/// How often a route is put before another one in a row.
const DEPTH: usize = 8;
/// Routes of one listener.
pub(super) const ROUTES: usize = 1000;

/// What becomes of requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum What {
    /// The router of this number takes them.
    Router(usize),
    /// No router does.
    NotFound,
    /// It cannot be said: they are answered 501.
    Refused(usize),
}

/// A route.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) condition: Condition,
    pub(super) what: What,
    /// Its place in Traefik's order.
    number: usize,
}

/// Alternatives of routers, the first one first, with the router of each; gives `None` where there are too many routes.
pub(super) fn arrange(all: &[(usize, Alternative)]) -> Option<Vec<Placed>> {
    let mut flat: Vec<(Condition, What)> = Vec::new();
    expand(all, &Condition::default(), &mut flat, 0);
    let mut out = Vec::new();
    for (number, (condition, what)) in flat.into_iter().enumerate() {
        put(Placed { condition, what, number }, &mut out, 0);
    }
    (out.len() < ROUTES).then_some(out)
}

/// The alternatives without what they exclude, within a condition.
fn expand(all: &[(usize, Alternative)], within: &Condition, out: &mut Vec<(Condition, What)>, depth: usize) {
    for (at, (router, alternative)) in all.iter().enumerate() {
        if out.len() >= ROUTES {
            return;
        }
        let condition = match within.and(&alternative.is) {
            Ok(Some(condition)) => condition,
            Ok(None) => continue,
            Err(_) => {
                out.push((within.clone(), What::Refused(*router)));
                return;
            }
        };
        let mut is_refused = false;
        for not in &alternative.not {
            match condition.and(not) {
                Ok(None) => {}
                Ok(Some(hole)) if depth < DEPTH => {
                    expand(&all[at + 1..], &hole, out, depth + 1);
                    out.push((hole, What::NotFound));
                }
                _ => is_refused = true,
            }
        }
        let is_all = condition == *within;
        out.push((condition, if is_refused { What::Refused(*router) } else { What::Router(*router) }));
        if is_all {
            return;
        }
    }
}

/// Adds a route behind all that go before it; of those that would be asked later, what they have in common with it goes
/// before it.
fn put(mut entry: Placed, out: &mut Vec<Placed>, depth: usize) {
    let is_covered = |out: &[Placed], entry: &Placed| {
        out.iter().any(|other| {
            let is_before = other.number <= entry.number && other.condition.rank() <= entry.condition.rank();
            is_before && other.condition.covers(&entry.condition)
        })
    };
    if out.len() >= ROUTES || is_covered(out, &entry) {
        return;
    }
    let mut at = 0;
    while at < out.len() {
        let other = out[at].clone();
        at += 1;
        if other.number >= entry.number || other.condition.rank() <= entry.condition.rank() {
            continue;
        }
        match other.condition.and(&entry.condition) {
            Ok(None) => {}
            Ok(Some(both)) if depth < DEPTH => {
                let is_whole = both == entry.condition;
                put(Placed { condition: both, ..other }, out, depth + 1);
                if is_whole {
                    return;
                }
            }
            _ => {
                let (What::Router(router) | What::Refused(router)) = entry.what else { continue };
                entry.what = What::Refused(router);
            }
        }
    }
    if !is_covered(out, &entry) {
        out.push(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::rule;
    use super::*;

    fn placed(rules: &[&str]) -> Vec<(String, What)> {
        let all: Vec<(usize, Alternative)> = rules
            .iter()
            .enumerate()
            .flat_map(|(at, text)| rule(text).alternatives.into_iter().map(move |it| (at, it)))
            .collect();
        let show =
            |it: &Placed| (format!("{} {:?}", it.condition.hosts.join(","), it.condition.path), it.what);
        arrange(&all).unwrap().iter().map(show).collect()
    }

    #[test]
    fn a_router_for_any_host_goes_before_those_of_a_host_where_its_priority_says_so() {
        let found = placed(&["PathPrefix(`/api`)", "Host(`a.example`)"]);
        let expected = [
            (" Prefix(\"/api\")".to_owned(), What::Router(0)),
            ("a.example Prefix(\"/api\")".to_owned(), What::Router(0)),
            ("a.example All".to_owned(), What::Router(1)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_a_rule_excludes_goes_to_the_routers_behind_it() {
        let found = placed(&["Host(`a.example`) && !PathPrefix(`/x`)", "Host(`a.example`)"]);
        let expected = [
            ("a.example Prefix(\"/x\")".to_owned(), What::Router(1)),
            ("a.example All".to_owned(), What::Router(0)),
        ];
        assert_eq!(found, expected);
        let alone = placed(&["Host(`a.example`) && !PathPrefix(`/x`)"]);
        assert_eq!(alone[0].1, What::NotFound);
    }
}
