//! Sets of requests in their order, as routes that are asked in the same order.
//!
//! HAProxy asks rules one after the other; routes have a precedence. Where a later set would be asked before an earlier
//! one that has requests in common with it, what they have in common becomes a route of its own with the treatment of
//! the earlier one: it has the conditions of both, and so goes before either.

use super::paths::PathTest;
use super::region::{Meet, Region};

/// Routes that a frontend may have.
const MOST: usize = 2000;

/// A route: the number of the set that it stands for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placed {
    pub(super) set: usize,
    pub(super) region: Region,
}

/// What became of sets.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    pub(super) routes: Vec<Placed>,
    /// Sets whose place cannot be kept, and why.
    pub(super) lost: Vec<(usize, String)>,
    /// There are too many.
    pub(super) is_full: bool,
}

/// Brings sets into routes.
pub(super) fn order(regions: &[Region]) -> Order {
    let mut order = Order::default();
    for (set, region) in regions.iter().enumerate() {
        let is_hidden = order.routes.iter().any(|earlier| region.is_within(&earlier.region));
        if !is_hidden {
            order.routes.push(Placed { set, region: region.clone() });
        }
    }
    let mut at = 0;
    while at < order.routes.len() {
        for other in 0..at {
            let (one, two) = (&order.routes[other], &order.routes[at]);
            let (earlier, later) = if one.set < two.set { (one, two) } else { (two, one) };
            if earlier.set == later.set || !outranks(&later.region, &earlier.region) {
                continue;
            }
            let set = earlier.set;
            match earlier.region.meet(&later.region) {
                Meet::Region(region) => {
                    let is_there =
                        order.routes.iter().any(|known| known.set <= set && known.region == region);
                    if !is_there {
                        order.routes.push(Placed { set, region });
                    }
                }
                Meet::Empty => {}
                Meet::Unsayable(why) => {
                    let set = later.set;
                    if !order.lost.iter().any(|(known, _)| *known == set) {
                        order.lost.push((set, why));
                    }
                }
            }
            if order.routes.len() > MOST {
                order.is_full = true;
                return order;
            }
        }
        at += 1;
    }
    order.routes.sort_by_key(|placed| placed.set);
    order.routes = merged(order.routes);
    order
}

/// Routes of one set that differ in their hosts alone become one.
fn merged(routes: Vec<Placed>) -> Vec<Placed> {
    let mut out: Vec<Placed> = Vec::new();
    for placed in routes {
        let bare = |region: &Region| Region { hosts: Vec::new(), ..region.clone() };
        let known = out
            .iter_mut()
            .find(|known| known.set == placed.set && bare(&known.region) == bare(&placed.region));
        let Some(known) = known else {
            out.push(placed);
            continue;
        };
        let all = || vec!["*".to_owned()];
        let mut hosts = if known.region.hosts.is_empty() { all() } else { known.region.hosts.clone() };
        let more = if placed.region.hosts.is_empty() { all() } else { placed.region.hosts };
        hosts.extend(more.into_iter().filter(|host| !hosts.contains(host)).collect::<Vec<_>>());
        // Named ones first.
        hosts.sort_by_key(|host| host == "*");
        known.region.hosts = hosts;
    }
    out
}

/// Whether some request of both would be taken by the first one before the second.
fn outranks(one: &Region, other: &Region) -> bool {
    if matches!(one.meet(other), Meet::Empty) {
        return false;
    }
    let any = [String::new()];
    let hosts = |region: &Region| if region.hosts.is_empty() { any.to_vec() } else { region.hosts.clone() };
    for mine in hosts(one) {
        for theirs in hosts(other) {
            let is_apart = !fits(&mine, &theirs) && !fits(&theirs, &mine);
            if is_apart {
                continue;
            }
            let found =
                host_rank(&mine).cmp(&host_rank(&theirs)).then_with(|| rest_rank(one).cmp(&rest_rank(other)));
            if found.is_gt() {
                return true;
            }
        }
    }
    false
}

fn fits(host: &str, pattern: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => host == pattern || host.ends_with(end),
        None => pattern.is_empty() || host == pattern,
    }
}

fn host_rank(host: &str) -> (u8, usize) {
    match host {
        "" => (0, 0),
        wildcard if wildcard.starts_with('*') => (1, wildcard.len()),
        _ => (2, 0),
    }
}

/// Path, methods, fields, query: greater goes first.
fn rest_rank(region: &Region) -> (u8, bool, usize, usize) {
    let path = match &region.paths {
        paths if paths.is_empty() => 0,
        _ if region.exact_paths().is_some() => 2,
        paths if paths.iter().all(|test| matches!(test, PathTest::Begin(begin) if begin == "/")) => 1,
        _ => 1,
    };
    (path, !region.methods.is_empty(), region.headers.len(), region.query.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::haproxy::acl::Test;

    fn region(tests: &[Test]) -> Region {
        let all = Region { listeners: vec![0], ..Region::default() };
        tests.iter().fold(all, |region, test| match region.and(test, &[]) {
            Meet::Region(region) => region,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn what_two_sets_have_in_common_goes_where_the_first_one_says() {
        let host = Test::Hosts(vec!["a.example".into()]);
        let path = Test::Paths(vec![PathTest::Begin("/api".into())]);
        let found =
            order(&[region(std::slice::from_ref(&path)), region(std::slice::from_ref(&host)), region(&[])]);
        let sets: Vec<usize> = found.routes.iter().map(|placed| placed.set).collect();
        assert_eq!(sets, [0, 1, 2]);
        assert_eq!(found.routes[0].region.hosts, ["a.example", "*"]);
        // A set that an earlier one has whole is not there.
        let found = order(&[region(std::slice::from_ref(&host)), region(&[path, host])]);
        assert_eq!(found.routes.len(), 1);
    }
}
