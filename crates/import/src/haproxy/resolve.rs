//! What the tests of a condition leave of a set of requests.

use super::acl::{Literal, Test};
use super::actions::{self, Action};
use super::program::{Alternative, Program, Rule};
use super::region::{Meet, Region, complement};
use crate::yaml::{Map, Value, one, one_or_many};

/// What the tests of one alternative leave of a set.
pub(super) struct Resolved {
    pub(super) fits: Region,
    /// All but those that pass one of these.
    pub(super) without: Vec<Test>,
    pub(super) unknown: Option<String>,
}

/// What a test leaves of a set.
enum Narrowed {
    To(Region),
    /// All but those that fit.
    Without(Test),
    Nothing,
    Unknown(String),
}

impl Program<'_> {
    /// What tests leave of a set; `None`: nothing. Networks that are not wanted may stay for `access`.
    pub(super) fn resolve(
        &self,
        set: &Alternative,
        tests: &[Literal],
        keeps_networks: bool,
    ) -> Option<Resolved> {
        let mut found = Resolved { fits: set.region.clone(), without: Vec::new(), unknown: None };
        for literal in tests {
            if let Some(why) = self.stale(set, &literal.test) {
                found.unknown = Some(why);
                continue;
            }
            let narrowed = match &literal.test {
                Test::Client(_) if literal.negated && keeps_networks => {
                    Narrowed::Without(literal.test.clone())
                }
                _ => self.narrowed(&found.fits, literal),
            };
            match narrowed {
                Narrowed::To(region) => found.fits = region,
                Narrowed::Without(Test::Methods(more)) => {
                    let known = found.without.iter_mut().find_map(|test| match test {
                        Test::Methods(known) => Some(known),
                        _ => None,
                    });
                    match known {
                        Some(known) => known.extend(more),
                        None => found.without.push(Test::Methods(more)),
                    }
                }
                Narrowed::Without(test) => found.without.push(test),
                Narrowed::Nothing => return None,
                Narrowed::Unknown(why) => found.unknown = Some(why),
            }
        }
        Some(found)
    }

    /// `deny` for all but some, as the filter `access`.
    pub(super) fn kept_out(&self, set: &Alternative, found: &Resolved, rule: &Rule) -> Option<Map> {
        let scope = self.scope(set);
        let Ok(Action::Deny(answer)) = actions::request(&rule.words, &scope) else { return None };
        let status: Option<Value> = match (answer.get("respond"), answer.get("access")) {
            (Some(Value::Number(403)), _) => None,
            (Some(Value::Number(404)), _) => Some(404_u16.into()),
            (None, Some(_)) => Some("close".into()),
            _ => return None,
        };
        let when = self.when(set, &found.fits, &[])?;
        let mut members: Vec<Value> = Vec::new();
        for test in &found.without {
            let all = Region { listeners: set.region.listeners.clone(), ..Region::default() };
            match (test, all.and(test, self.listeners)) {
                (Test::Client(networks), _) => {
                    members.extend(networks.iter().map(|net| net.to_string().into()))
                }
                (Test::Paths(_) | Test::Header(..), Meet::Region(region)) => {
                    members.push(region.when()?.into())
                }
                _ => return None,
            }
        }
        if members.is_empty() {
            return None;
        }
        let mut access = one("allow", one_or_many(members));
        if let Some(status) = status {
            access.put("status", status);
        }
        let filter = one("access", access);
        Some(if when.is_empty() { filter } else { filter.with("when", when) })
    }

    /// A test of what rules before have changed.
    fn stale(&self, set: &Alternative, test: &Test) -> Option<String> {
        match test {
            Test::Paths(_) if set.is_moved => Some("the path was changed by a rule before".to_owned()),
            Test::Hosts(_) if set.touched.iter().any(|name| name == "host") => {
                Some("the host was changed by a rule before".to_owned())
            }
            Test::Header(name, _) if set.touched.contains(name) => {
                Some(format!("the field `{name}` was changed by a rule before"))
            }
            _ => None,
        }
    }

    fn narrowed(&self, region: &Region, literal: &Literal) -> Narrowed {
        let positive = match (&literal.test, literal.negated) {
            (test, false) => Some(test.clone()),
            (Test::Always(value), true) => Some(Test::Always(!value)),
            (Test::Secure(value), true) => Some(Test::Secure(!value)),
            (Test::Port(ports, is_in), true) => Some(Test::Port(ports.clone(), !is_in)),
            (Test::Client(networks), true) => Some(Test::Client(complement(networks))),
            (Test::Header(name, super::acl::Rule::Present), true) => {
                Some(Test::Header(name.clone(), super::acl::Rule::Absent))
            }
            (Test::Header(name, super::acl::Rule::Absent), true) => {
                Some(Test::Header(name.clone(), super::acl::Rule::Present))
            }
            (Test::Query(name, super::acl::Rule::Present), true) => {
                Some(Test::Query(name.clone(), super::acl::Rule::Absent))
            }
            (Test::Down(_), true) => Some(Test::Always(true)),
            (Test::Unknown(why), true) => return Narrowed::Unknown(why.clone()),
            _ => None,
        };
        match positive {
            Some(test) => match region.and(&test, self.listeners) {
                Meet::Region(region) => Narrowed::To(region),
                Meet::Empty => Narrowed::Nothing,
                Meet::Unsayable(why) => Narrowed::Unknown(why),
            },
            None => match region.and(&literal.test, self.listeners) {
                Meet::Empty => Narrowed::To(region.clone()),
                Meet::Region(inner) if inner == *region => Narrowed::Nothing,
                _ => Narrowed::Without(literal.test.clone()),
            },
        }
    }
}
