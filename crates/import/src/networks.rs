//! Lists of networks of which the first match decides, turned into one set.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::IpAddr;

/// A rule: whether it allows, and whom.
pub(crate) type Rule = (bool, Option<IpNet>);

/// An address or a network.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from)).map(|net: IpNet| net.trunc())
}

/// What the rules come to: everybody but these (`false`), or these alone (`true`).
pub(crate) fn outcome(rules: &[Rule]) -> (bool, Vec<IpNet>) {
    let is_allowed_else = rules.iter().find(|(_, net)| net.is_none()).is_none_or(|(allow, _)| *allow);
    let mut found = Vec::new();
    let all = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
    for net in all {
        collect(net, rules, is_allowed_else, &mut found);
    }
    (!is_allowed_else, found)
}

/// The largest networks below `net` that are treated otherwise than the rest.
fn collect(net: IpNet, rules: &[Rule], is_allowed_else: bool, found: &mut Vec<IpNet>) {
    let mut inner = false;
    for (allow, rule) in rules {
        let covers = rule.is_none_or(|rule| rule.contains(&net));
        if covers {
            // Smaller rules before this one cut pieces out.
            if !inner {
                if *allow != is_allowed_else {
                    found.push(net);
                }
                return;
            }
            break;
        }
        inner |= rule.is_some_and(|rule| net.contains(&rule));
    }
    if !inner {
        return;
    }
    if let Ok(halves) = net.subnets(net.prefix_len() + 1) {
        for half in halves {
            collect(half, rules, is_allowed_else, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rules: &[(bool, &str)]) -> (bool, Vec<String>) {
        let rules: Vec<Rule> = rules
            .iter()
            .map(|(allow, text)| (*allow, (*text != "all").then(|| network(text).unwrap())))
            .collect();
        let (only, found) = outcome(&rules);
        (only, found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        assert_eq!(told(&[(true, "10.0.0.0/8"), (false, "all")]), (true, vec!["10.0.0.0/8".into()]));
        assert_eq!(told(&[(false, "192.0.2.1")]), (false, vec!["192.0.2.1/32".into()]));
        assert_eq!(
            told(&[(true, "10.0.0.0/9"), (false, "10.0.0.0/8"), (true, "all")]),
            (false, vec!["10.128.0.0/9".into()])
        );
        assert_eq!(
            told(&[(false, "10.0.0.0/30"), (true, "10.0.0.0/29"), (false, "all")]),
            (true, vec!["10.0.0.4/30".into()])
        );
        assert_eq!(told(&[(false, "all")]), (true, Vec::new()));
    }
}
