//! What SRV records say of endpoints (RFC 2782).

use crate::found::{Found, scale_weights};
use hickory_resolver::proto::rr::rdata::SRV;
use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

/// The label with the name of the target.
const TARGET: &str = "target";
/// The last tier.
const LAST_TIER: u8 = 9;

/// A record and the addresses of its target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) srv: &'a SRV,
    pub(super) addresses: &'a [IpAddr],
}

/// Whether a server can be there: servers that block names answer 0.0.0.0, which would be the proxy itself.
pub(super) fn is_usable(address: &IpAddr) -> bool {
    !address.is_unspecified() && !address.is_multicast()
}

/// The endpoints, and what was left out. Priorities become tiers by their rank. A target has the same share however
/// many addresses it has. Weight 0 beside others is none; where all of a priority have 0, each has 1.
pub(super) fn endpoints(targets: &[Target<'_>]) -> (Vec<Found>, Option<String>) {
    let priorities: Vec<_> =
        targets.iter().map(|target| target.srv.priority).collect::<BTreeSet<_>>().into_iter().collect();
    let with_weight: HashSet<_> =
        targets.iter().filter(|target| target.srv.weight > 0).map(|target| target.srv.priority).collect();
    let most = targets.iter().map(|target| target.addresses.len()).max().unwrap_or(1).max(1);
    let (mut found, mut flaw) = (Vec::new(), None);
    for Target { srv, addresses } in targets {
        let name = srv.target.to_utf8().to_lowercase();
        let name = name.trim_end_matches('.');
        if srv.port == 0 {
            flaw = Some(format!("the target `{name}` has port 0"));
            continue;
        }
        let weight = if with_weight.contains(&srv.priority) { srv.weight } else { 1 };
        let weight = usize::from(weight) * most / addresses.len().max(1);
        let rank = priorities.iter().position(|priority| *priority == srv.priority);
        let rank = rank.and_then(|rank| u8::try_from(rank).ok()).unwrap_or(LAST_TIER);
        for address in *addresses {
            if !is_usable(address) {
                flaw = Some(format!("the target `{name}` has {address}, which is no address of a server"));
                continue;
            }
            let mut one = Found::at(address.to_string(), srv.port);
            one.weight = u32::try_from(weight).unwrap_or(u32::MAX);
            one.tier = rank.min(LAST_TIER);
            one.labels = [(TARGET.to_owned(), name.to_owned())].into_iter().collect();
            found.push(one);
        }
    }
    found.sort_by(|a, b| (a.tier, &a.host, a.port).cmp(&(b.tier, &b.host, b.port)));
    let mut places = HashSet::new();
    found.retain(|one| places.insert((one.host.clone(), one.port)));
    scale_weights(&mut found);
    (found, flaw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_resolver::proto::rr::Name;

    fn srv(priority: u16, weight: u16, port: u16, target: &str) -> SRV {
        SRV::new(priority, weight, port, Name::from_ascii(target).unwrap())
    }

    /// Host, port, weight and tier.
    type Read = (String, u16, u32, u8);

    fn read(records: &[(SRV, &[[u8; 4]])]) -> (Vec<Read>, Option<String>) {
        let addresses: Vec<Vec<_>> =
            records.iter().map(|(_, all)| all.iter().map(|one| IpAddr::from(*one)).collect()).collect();
        let targets: Vec<_> =
            records.iter().zip(&addresses).map(|((srv, _), addresses)| Target { srv, addresses }).collect();
        let (found, flaw) = endpoints(&targets);
        (found.into_iter().map(|one| (one.host, one.port, one.weight, one.tier)).collect(), flaw)
    }

    #[test]
    fn priorities_are_tiers_by_rank_and_weights_stay_in_proportion() {
        let (found, flaw) = read(&[
            (srv(100, 3000, 80, "a."), &[[10, 0, 0, 1]]),
            (srv(100, 6000, 81, "b."), &[[10, 0, 0, 2]]),
            (srv(20, 1, 80, "c."), &[[10, 0, 0, 3]]),
        ]);
        let at = |last: u8, port, weight, tier| (format!("10.0.0.{last}"), port, weight, tier);
        assert_eq!(found, [at(3, 80, 1, 0), at(1, 80, 500, 1), at(2, 81, 1000, 1)]);
        assert_eq!(flaw, None);
    }

    #[test]
    fn weight_0_is_a_share_where_all_of_the_priority_have_it_and_none_beside_others() {
        let one: &[[u8; 4]] = &[[10, 0, 0, 1]];
        let (found, _) =
            read(&[(srv(1, 0, 1, "a."), one), (srv(1, 5, 2, "b."), one), (srv(2, 0, 3, "c."), one)]);
        assert_eq!(found.iter().map(|one| one.2).collect::<Vec<_>>(), [0, 5, 1]);
    }

    #[test]
    fn a_target_with_two_addresses_has_one_share() {
        let (found, _) = read(&[
            (srv(0, 10, 80, "a."), &[[10, 0, 0, 1], [10, 0, 0, 2]]),
            (srv(0, 10, 80, "b."), &[[10, 0, 0, 3]]),
        ]);
        assert_eq!(found.iter().map(|one| one.2).collect::<Vec<_>>(), [10, 10, 20]);
    }

    #[test]
    fn more_than_ten_priorities_share_the_last_tier() {
        let records: Vec<_> = (0..12).map(|at| srv(at, 1, 80 + at, "a.")).collect();
        let one: &[[u8; 4]] = &[[10, 0, 0, 1]];
        let (found, _) = read(&records.into_iter().map(|srv| (srv, one)).collect::<Vec<_>>());
        assert_eq!(found.iter().map(|one| one.3).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9]);
    }

    #[test]
    fn what_is_no_address_of_a_server_is_left_out() {
        let (found, flaw) = read(&[
            (srv(0, 1, 80, "A."), &[[0, 0, 0, 0], [10, 0, 0, 1]]),
            (srv(0, 1, 0, "b."), &[[10, 0, 0, 2]]),
        ]);
        assert_eq!(found.len(), 1);
        assert_eq!(flaw.unwrap(), "the target `b` has port 0");
    }
}
