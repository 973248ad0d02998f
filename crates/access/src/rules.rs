//! Who may pass by address: sets of networks, lists, countries and autonomous systems; allowed and denied.
//!
//! The rule: what is denied does not pass, whatever is allowed; and where something is allowed, nothing else passes.

use crate::geo::Database;
use crate::live::LiveList;
use crate::networks::{Networks, Written};
use crate::sources::Source;
use std::net::IpAddr;
use std::sync::Arc;

/// A list of the configuration, by its name.
#[derive(Debug)]
pub struct NamedList {
    /// As the configuration says.
    pub configured: AddressSet,
    /// What was added while the proxy runs.
    pub live: Arc<LiveList>,
    /// As it was written, on one line.
    pub text: String,
}

impl NamedList {
    /// Whether nobody can be in it at this moment.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.configured.is_empty() && self.live.is_empty()
    }

    /// Whether the address is in it.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.live.contains(address) || self.configured.contains(address)
    }

    /// What of it has the address, in words.
    pub fn find(&self, address: IpAddr) -> Option<String> {
        let found = self.live.find(address).or_else(|| self.configured.find(address))?;
        Some(format!("{found} of the list `{}`", self.live.name()))
    }
}

/// Addresses.
#[derive(Debug, Default)]
pub struct AddressSet {
    /// Those that are written in the configuration.
    pub networks: Networks,
    /// Everything else.
    pub members: Vec<Member>,
}

/// Addresses that are not written one by one.
#[derive(Debug)]
pub enum Member {
    /// A list of the configuration.
    List(Arc<NamedList>),
    /// A list in a file or at a URL.
    Source(Arc<Source>),
    /// Countries, by the databases that know them.
    Countries(Box<[[u8; 2]]>, Arc<[Arc<Database>]>),
    /// Autonomous systems, likewise.
    Systems(Box<[u32]>, Arc<[Arc<Database>]>),
}

impl AddressSet {
    /// Whether nothing was written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.members.is_empty()
    }

    /// Whether the address is in it.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.networks.contains(address) || self.members.iter().any(|member| member.contains(address))
    }

    /// What of it has the address, in words.
    pub fn find(&self, address: IpAddr) -> Option<String> {
        let network = self.networks.find(address).map(|network| Written(network).to_string());
        network.or_else(|| self.members.iter().find_map(|member| member.find(address)))
    }

    /// Whether something of it is read again while the proxy runs.
    pub fn has_sources(&self) -> bool {
        self.members.iter().any(|member| match member {
            Member::List(list) => list.configured.has_sources(),
            Member::Source(_) | Member::Countries(..) | Member::Systems(..) => true,
        })
    }
}

impl Member {
    fn contains(&self, address: IpAddr) -> bool {
        match self {
            Self::List(list) => list.contains(address),
            Self::Source(source) => source.networks().contains(address),
            Self::Countries(codes, databases) => {
                country(databases, address).is_some_and(|code| codes.contains(&code))
            }
            Self::Systems(numbers, databases) => {
                system(databases, address).is_some_and(|number| numbers.contains(&number))
            }
        }
    }

    fn find(&self, address: IpAddr) -> Option<String> {
        match self {
            Self::List(list) => list.find(address),
            Self::Source(source) => {
                let network = source.networks().find(address)?;
                Some(format!("{} of {source}", Written(network)))
            }
            Self::Countries(codes, databases) => {
                let code = country(databases, address).filter(|code| codes.contains(code))?;
                Some(format!("the country {}", code.escape_ascii()))
            }
            Self::Systems(numbers, databases) => {
                let number = system(databases, address).filter(|number| numbers.contains(number))?;
                Some(format!("AS{number}"))
            }
        }
    }
}

fn country(databases: &[Arc<Database>], address: IpAddr) -> Option<[u8; 2]> {
    databases.iter().find_map(|database| database.country(address))
}

fn system(databases: &[Arc<Database>], address: IpAddr) -> Option<u32> {
    databases.iter().find_map(|database| database.system(address))
}

/// Who may connect to a listener.
#[derive(Debug, Default)]
pub struct AddressRules {
    /// Nobody else passes, where this is there.
    pub allow: Option<AddressSet>,
    /// They do not pass.
    pub deny: AddressSet,
    /// As it was written, on one line.
    pub text: String,
}

impl AddressRules {
    /// Why the address does not pass; `None`: it passes.
    pub fn refusal(&self, address: IpAddr) -> Option<String> {
        if let Some(found) = self.deny.find(address) {
            return Some(format!("{address} is denied: {found}"));
        }
        let allow = self.allow.as_ref()?;
        (!allow.contains(address)).then(|| format!("{address} is not allowed"))
    }
}

impl std::fmt::Display for AddressRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live;
    use crate::networks::network;

    fn set(networks: &[&str]) -> AddressSet {
        let networks = Networks::new(networks.iter().map(|text| network(text).unwrap()));
        AddressSet { networks, members: Vec::new() }
    }

    fn said(rules: &AddressRules, address: &str) -> String {
        rules.refusal(address.parse().unwrap()).unwrap_or_default()
    }

    #[test]
    fn denied_wins_over_allowed_and_allowed_excludes_all_others() {
        let rules = AddressRules {
            allow: Some(set(&["10.0.0.0/8"])),
            deny: set(&["10.1.0.0/16"]),
            text: String::new(),
        };
        assert_eq!(said(&rules, "10.2.0.1"), "");
        assert_eq!(said(&rules, "::ffff:10.2.0.1"), "");
        assert_eq!(said(&rules, "10.1.0.1"), "10.1.0.1 is denied: 10.1.0.0/16");
        assert_eq!(said(&rules, "192.0.2.1"), "192.0.2.1 is not allowed");
        let open = AddressRules { deny: set(&["192.0.2.1"]), ..AddressRules::default() };
        assert_eq!(said(&open, "192.0.2.2"), "");
        // An empty `allow` allows nobody.
        let shut = AddressRules { allow: Some(set(&[])), ..AddressRules::default() };
        assert_eq!(said(&shut, "192.0.2.2"), "192.0.2.2 is not allowed");
    }

    #[test]
    fn a_list_has_what_is_written_and_what_was_added() {
        let live = live::list("rules");
        live.replace([(network("198.51.100.0/24").unwrap(), "".into())]);
        let list =
            Arc::new(NamedList { configured: set(&["192.0.2.1"]), live: live.clone(), text: String::new() });
        let deny = AddressSet { members: vec![Member::List(list.clone())], ..AddressSet::default() };
        let rules = AddressRules { deny, ..AddressRules::default() };
        assert_eq!(said(&rules, "192.0.2.1"), "192.0.2.1 is denied: 192.0.2.1 of the list `rules`");
        assert!(said(&rules, "198.51.100.9").contains("198.51.100.0/24 of the list `rules`"));
        live.replace([]);
        assert_eq!(said(&rules, "198.51.100.9"), "");
        assert!(!list.is_empty());
    }
}
