//! Routes that have changed places where nothing but the order of the file decides between them.

use super::FieldChange;
use std::collections::{HashMap, HashSet};
use thalweg_proxy::Plan;
use thalweg_route::{HostPattern, Rank, RouteId};

/// Names of routes by what only their order decides, in the order of the file.
type Ties<'a> = HashMap<(HostPattern, Rank), Vec<&'a str>>;

/// The routes that have moved, each with its place among those it ties with before and after.
pub(super) fn moved<'a>(before: &'a Plan, after: &'a Plan) -> HashMap<&'a str, FieldChange> {
    let (old, new) = (ties(before), ties(after));
    let mut moved = HashMap::new();
    for (tie, names) in &new {
        let Some(earlier) = old.get(tie) else { continue };
        let now: HashSet<&str> = names.iter().copied().collect();
        let both: HashSet<&str> = earlier.iter().copied().filter(|name| now.contains(name)).collect();
        let was: Vec<&str> = earlier.iter().copied().filter(|name| both.contains(name)).collect();
        let is: Vec<&str> = names.iter().copied().filter(|name| both.contains(name)).collect();
        if was == is {
            continue;
        }
        let places: HashMap<&str, usize> = was.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let stays = longest_in_order(&is, &places);
        for (at, name) in is.iter().enumerate().filter(|(_, name)| !stays.contains(*name)) {
            let place = |at: usize| format!("{} of {}", at + 1, is.len());
            moved.entry(*name).or_insert_with(|| FieldChange {
                field: "place among routes that its order decides between".into(),
                before: places.get(name).copied().map(place),
                after: Some(place(at)),
                hidden: false,
            });
        }
    }
    moved
}

fn ties(plan: &Plan) -> Ties<'_> {
    let mut ties = Ties::new();
    for (id, route) in (0..).map(RouteId).zip(&plan.routes) {
        let Some(conditions) = plan.table.written(id) else { continue };
        let hosts = if conditions.hosts.is_empty() { &[HostPattern::Any][..] } else { &conditions.hosts };
        for rank in Rank::all(conditions) {
            for host in hosts {
                ties.entry((host.clone(), rank.clone())).or_default().push(&route.name);
            }
        }
    }
    ties.retain(|_, names| names.len() > 1);
    ties
}

/// The most of `is` whose places ascend: those that have not moved (patience sorting).
fn longest_in_order<'a>(is: &[&'a str], places: &HashMap<&str, usize>) -> HashSet<&'a str> {
    // The ends of the best sequences of each length, and for each element the one before it.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
    let place = |at: usize| is.get(at).and_then(|name| places.get(name)).copied().unwrap_or(0);
    for at in 0..is.len() {
        let length = ends.partition_point(|end| place(*end) < place(at));
        before.push(length.checked_sub(1).and_then(|last| ends.get(last).copied()));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let (mut stays, mut next) = (HashSet::new(), ends.last().copied());
    while let Some(at) = next {
        stays.extend(is.get(at));
        next = before.get(at).copied().flatten();
    }
    stays
}
