//! A set of requests, as conditions of a route can say it.

use super::acl::{Rule, Test};
use super::listen::Listener;
use super::paths::{PathTest, Unsayable, common, joined};
use crate::draft::{Conditions, Paths};
use crate::networks::{Rule as NetworkRule, outcome};
use crate::yaml::{Map, Value, one};
use ipnet::IpNet;
use std::collections::BTreeMap;

/// A set of requests: all conditions hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Region {
    /// Listeners by their number.
    pub(super) listeners: Vec<usize>,
    /// Names, or `*.` and a name; empty: all.
    pub(super) hosts: Vec<String>,
    /// One of these; empty: all.
    pub(super) paths: Vec<PathTest>,
    pub(super) methods: Vec<String>,
    pub(super) client: Vec<IpNet>,
    pub(super) headers: BTreeMap<String, Rule>,
    pub(super) query: BTreeMap<String, Rule>,
}

/// A set with one more condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meet {
    Region(Region),
    Empty,
    /// Why it cannot be said.
    Unsayable(String),
}

impl Region {
    /// The requests among these that pass a test.
    pub(super) fn and(&self, test: &Test, listeners: &[Listener]) -> Meet {
        let mut found = self.clone();
        match test {
            Test::Always(true) => {}
            Test::Always(false) => return Meet::Empty,
            Test::Secure(secure) => found.listeners.retain(|at| listeners[*at].is_secure() == *secure),
            Test::Port(ports, is_in) => {
                found.listeners.retain(|at| ports.contains(&listeners[*at].port) == *is_in);
            }
            Test::Hosts(hosts) => return found.with_hosts(hosts),
            Test::Paths(paths) => return found.with_paths(paths),
            Test::Methods(methods) => return found.with_methods(methods),
            Test::Client(client) => return found.with_client(client),
            Test::Header(name, rule) => return put(found, name, rule, false),
            Test::Query(name, rule) => return put(found, name, rule, true),
            Test::Unknown(why) => return Meet::Unsayable(why.clone()),
            Test::User(_) => return Meet::Unsayable("who is logged in chooses no route".into()),
            Test::Rate(_) => return Meet::Unsayable("how often a client asks chooses no route".into()),
            Test::Status(_) => return Meet::Unsayable("there is no response yet".into()),
            Test::Down(_) => return Meet::Empty,
        }
        if found.listeners.is_empty() { Meet::Empty } else { Meet::Region(found) }
    }

    /// The requests that are in both.
    pub(super) fn meet(&self, other: &Self) -> Meet {
        let mut found = self.clone();
        found.listeners.retain(|at| other.listeners.contains(at));
        if found.listeners.is_empty() {
            return Meet::Empty;
        }
        let mut tests: Vec<Test> = Vec::new();
        if !other.hosts.is_empty() {
            tests.push(Test::Hosts(other.hosts.clone()));
        }
        if !other.paths.is_empty() {
            tests.push(Test::Paths(other.paths.clone()));
        }
        if !other.methods.is_empty() {
            tests.push(Test::Methods(other.methods.clone()));
        }
        if !other.client.is_empty() {
            tests.push(Test::Client(other.client.clone()));
        }
        tests.extend(other.headers.iter().map(|(name, rule)| Test::Header(name.clone(), rule.clone())));
        tests.extend(other.query.iter().map(|(name, rule)| Test::Query(name.clone(), rule.clone())));
        let mut why = None;
        for test in &tests {
            match found.and(test, &[]) {
                Meet::Region(region) => found = region,
                Meet::Empty => return Meet::Empty,
                Meet::Unsayable(reason) => why = Some(reason),
            }
        }
        match why {
            Some(reason) => Meet::Unsayable(reason),
            None => Meet::Region(found),
        }
    }

    /// Whether all of these requests are among the others.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.meet(other) == Meet::Region(self.clone())
    }

    fn with_hosts(mut self, hosts: &[String]) -> Meet {
        if self.hosts.is_empty() {
            self.hosts = hosts.to_vec();
            return Meet::Region(self);
        }
        let mut found: Vec<String> = Vec::new();
        for one in &self.hosts {
            for other in hosts {
                let smaller = match (covers(one, other), covers(other, one)) {
                    (true, _) => other,
                    (_, true) => one,
                    _ => continue,
                };
                if !found.contains(smaller) {
                    found.push(smaller.clone());
                }
            }
        }
        self.hosts = found;
        if self.hosts.is_empty() { Meet::Empty } else { Meet::Region(self) }
    }

    fn with_paths(mut self, paths: &[PathTest]) -> Meet {
        let found = if self.paths.is_empty() { Ok(paths.to_vec()) } else { common(&self.paths, paths) };
        match found {
            Ok(paths) if paths.is_empty() => Meet::Empty,
            Ok(paths) => {
                self.paths = paths;
                Meet::Region(self)
            }
            Err(Unsayable) => Meet::Unsayable("two conditions on the path cannot be said as one".into()),
        }
    }

    fn with_methods(mut self, methods: &[String]) -> Meet {
        if self.methods.is_empty() {
            self.methods = methods.to_vec();
        } else {
            self.methods.retain(|method| methods.contains(method));
        }
        if self.methods.is_empty() { Meet::Empty } else { Meet::Region(self) }
    }

    fn with_client(mut self, client: &[IpNet]) -> Meet {
        if self.client.is_empty() {
            self.client = client.to_vec();
        } else {
            let mut found: Vec<IpNet> = Vec::new();
            for one in &self.client {
                for other in client {
                    if one.contains(other) {
                        found.push(*other);
                    } else if other.contains(one) {
                        found.push(*one);
                    }
                }
            }
            found.sort();
            found.dedup();
            self.client = found;
        }
        if self.client.is_empty() { Meet::Empty } else { Meet::Region(self) }
    }

    /// The conditions of a route.
    pub(super) fn conditions(&self) -> Conditions {
        let fields = |rules: &BTreeMap<String, Rule>| {
            let mut map = Map::default();
            for (name, rule) in rules {
                map.put(name.as_str(), rule.value());
            }
            map
        };
        Conditions {
            methods: self.methods.clone(),
            headers: fields(&self.headers),
            query: fields(&self.query),
            client: self.client.iter().map(ToString::to_string).collect(),
            hosts: Vec::new(),
        }
    }

    /// The paths of a route.
    pub(super) fn route_paths(&self) -> Paths {
        match self.exact_paths() {
            _ if self.paths.is_empty() => Paths::All,
            Some(paths) => Paths::Patterns(paths),
            None => Paths::Regex(joined(&self.paths)),
        }
    }

    /// The paths, where they are named one by one.
    pub(super) fn exact_paths(&self) -> Option<Vec<String>> {
        self.paths
            .iter()
            .map(|test| match test {
                PathTest::Exact(path) if path.starts_with('/') && !path.contains(['*', '{', '}', '%']) => {
                    Some(path.clone())
                }
                _ => None,
            })
            .collect()
    }

    /// As `when` of a filter; `None`: it cannot be written there.
    pub(super) fn when(&self) -> Option<Map> {
        if !self.hosts.is_empty() || !self.query.is_empty() {
            return None;
        }
        let mut when = Map::default();
        match self.route_paths() {
            Paths::All => {}
            Paths::Patterns(paths) => when.put("path", crate::yaml::one_or_many(paths)),
            Paths::Regex(regex) => when.put("path", format!("~{regex}")),
        }
        if !self.methods.is_empty() {
            when.put("method", crate::yaml::one_or_many(self.methods.clone()));
        }
        let mut headers = Map::default();
        for (name, rule) in &self.headers {
            headers.put(name.as_str(), rule.word()?);
        }
        if !headers.is_empty() {
            when.put("header", headers);
        }
        if !self.client.is_empty() {
            let client: Vec<String> = self.client.iter().map(ToString::to_string).collect();
            when.put("client", crate::yaml::one_or_many(client));
        }
        Some(when)
    }
}

/// Whether all hosts of the second are hosts of the first.
fn covers(one: &str, other: &str) -> bool {
    match one.strip_prefix('*') {
        Some(end) => {
            one == other || (other.ends_with(end) && other.trim_start_matches('*').len() > end.len())
        }
        None => one == other,
    }
}

/// Adds a condition on a field or parameter.
fn put(mut region: Region, name: &str, rule: &Rule, is_query: bool) -> Meet {
    let fields = if is_query { &mut region.query } else { &mut region.headers };
    let both = match fields.get(name) {
        None => Ok(rule.clone()),
        Some(known) => known.and(rule),
    };
    match both {
        Ok(rule) => {
            fields.insert(name.to_owned(), rule);
            Meet::Region(region)
        }
        Err(None) => Meet::Empty,
        Err(Some(why)) => Meet::Unsayable(why),
    }
}

impl Rule {
    /// Both together.
    ///
    /// # Errors
    /// `None`: nothing passes both; else why it cannot be said.
    fn and(&self, other: &Self) -> Result<Self, Option<String>> {
        match (self, other) {
            (one, other) if one == other => Ok(one.clone()),
            (Self::Absent, _) | (_, Self::Absent) => Err(None),
            (Self::Present, rule) | (rule, Self::Present) => Ok(rule.clone()),
            (Self::Equal(_), Self::Equal(_)) => Err(None),
            (Self::Equal(text), Self::Like(regex)) | (Self::Like(regex), Self::Equal(text)) => {
                let fits = regex::Regex::new(&format!(r"\A(?:{regex})\z"));
                if fits.is_ok_and(|regex| regex.is_match(text)) {
                    Ok(Self::Equal(text.clone()))
                } else {
                    Err(None)
                }
            }
            (Self::Like(_), Self::Like(_)) => {
                Err(Some("two expressions over one field cannot be said as one".into()))
            }
        }
    }

    /// As a condition of a route.
    fn value(&self) -> Value {
        match self {
            Self::Present => one("present", true).into(),
            Self::Absent => one("present", false).into(),
            Self::Equal(text) => text.as_str().into(),
            Self::Like(regex) => one("regex", regex.as_str()).into(),
        }
    }

    /// As a value of `when`.
    fn word(&self) -> Option<String> {
        Some(match self {
            Self::Present => "*".to_owned(),
            Self::Absent => return None,
            Self::Equal(text) if text.starts_with('~') || text == "*" => {
                format!("~{}", crate::pattern::escaped(text))
            }
            Self::Equal(text) => text.clone(),
            Self::Like(regex) => format!("~{regex}"),
        })
    }
}

/// All addresses but these.
pub(super) fn complement(networks: &[IpNet]) -> Vec<IpNet> {
    let mut rules: Vec<NetworkRule> = networks.iter().map(|network| (false, Some(*network))).collect();
    rules.extend(["0.0.0.0/0", "::/0"].iter().map(|all| (true, crate::networks::network(all))));
    rules.push((false, None));
    outcome(&rules).1
}
