//! `mode tcp`: whole connections, and TLS that is passed on by the name that clients ask for.

use super::Importer;
use super::acl::{Condition, Test};
use super::program::{Rule, Stage};
use super::proxy::Proxy;
use crate::Grade;
use crate::networks::{Rule as NetworkRule, outcome};
use crate::yaml::{Map, Value, one, one_or_many};

impl Importer<'_> {
    /// A frontend of whole connections: its listeners say where they go.
    pub(super) fn connections(&mut self, proxy: &Proxy, rules: &[Rule], listeners: &[usize]) {
        let chosen: Vec<&Rule> = rules.iter().filter(|rule| rule.stage == Stage::Choose).collect();
        let default = self.default_service(proxy);
        for rule in rules
            .iter()
            .filter(|rule| matches!(rule.stage, Stage::Request | Stage::Redirect | Stage::Response))
        {
            let is_waiting = matches!(
                rule.words.first().map(String::as_str),
                Some("accept" | "set-var" | "capture" | "track-sc0" | "track-sc1")
            );
            let (grade, about) = match is_waiting {
                true => (Grade::Near, "the first bytes are waited for where they choose, and nowhere else"),
                false => (
                    Grade::Lost,
                    "connections are not looked into; clients are kept out by `access` of a listener",
                ),
            };
            self.note(&rule.line, grade, about, &proxy.name);
            if !is_waiting {
                // Whom it would keep out is not known: nobody is let in.
                return self.shut(listeners);
            }
        }
        if chosen.is_empty() {
            for at in listeners {
                self.listeners[*at].rest.put("protocol", "tcp");
                match &default {
                    Some(name) => self.listeners[*at].rest.put("to", name.as_str()),
                    None => self.shut(&[*at]),
                }
            }
            return;
        }
        let mut names = Map::default();
        for rule in chosen {
            let service = rule.words.first().and_then(|name| self.service_named(name));
            match (hosts(&rule.condition), service) {
                (Some(hosts), Some(service)) => {
                    for host in hosts {
                        if names.get(&host).is_none() {
                            names.put(host, service.as_str());
                        }
                    }
                }
                (None, _) => {
                    let about = "connections are chosen by the name that clients ask for, and by nothing else; none is taken";
                    self.note(&rule.line, Grade::Lost, about, &proxy.name);
                    return self.shut(listeners);
                }
                (_, None) => {
                    self.note(&rule.line, Grade::Lost, "there is no such backend with servers", &proxy.name);
                    return self.shut(listeners);
                }
            }
        }
        if let Some(name) = default {
            names.put("default", name);
        }
        for at in listeners {
            let listener = &mut self.listeners[*at];
            if listener.is_tls {
                self.shut(&[*at]);
                continue;
            }
            listener.rest.put("protocol", "tls_passthrough");
            listener.rest.put("sni", names.clone());
        }
    }

    /// Listeners that take nobody.
    pub(super) fn shut(&mut self, listeners: &[usize]) {
        for at in listeners {
            let rest = &mut self.listeners[*at].rest;
            rest.put("access", one("deny", vec!["0.0.0.0/0", "::/0"]));
        }
    }

    fn default_service(&mut self, proxy: &Proxy) -> Option<String> {
        match &proxy.settings.default_backend {
            Some(line) => self.service_named(line.word(1)),
            None if proxy.is_backend => self.service(proxy),
            None => None,
        }
    }

    fn service_named(&mut self, name: &str) -> Option<String> {
        let proxy = self.proxies.iter().find(|proxy| proxy.is_backend && proxy.name == name)?.clone();
        self.service(&proxy)
    }

    /// `tcp-request connection`: whom a listener lets in.
    pub(super) fn admitted(&mut self, proxy: &Proxy, rules: &[Rule], listeners: &[usize]) {
        let mut networks: Vec<NetworkRule> = Vec::new();
        for rule in rules.iter().filter(|rule| rule.stage == Stage::Connection) {
            let is_accepted = match rule.words.first().map(String::as_str) {
                Some("accept") => true,
                Some("reject" | "silent-drop") => false,
                _ => continue,
            };
            match admitted(&rule.condition, is_accepted) {
                Some(more) => networks.extend(more),
                None => {
                    let about = "listeners let clients in by their addresses alone; none is let in";
                    self.note(&rule.line, Grade::Lost, about, &proxy.name);
                    return self.shut(listeners);
                }
            }
        }
        let (only, found) = outcome(&networks);
        let names: Vec<String> = found.iter().map(ToString::to_string).collect();
        let access = match (only, names.is_empty()) {
            (true, true) => return self.shut(listeners),
            (true, false) => one("allow", one_or_many(names)),
            (false, true) => return,
            (false, false) => one("deny", one_or_many(names)),
        };
        for at in listeners {
            self.listeners[*at].rest.put("access", Value::Map(access.clone()));
        }
    }
}

/// Hosts of a condition that asks for nothing else.
fn hosts(condition: &Result<Condition, String>) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for tests in condition.as_ref().ok()? {
        let asked: Vec<_> = tests.iter().filter(|literal| literal.test != Test::Always(true)).collect();
        match asked.as_slice() {
            [only] if !only.negated => match &only.test {
                Test::Hosts(hosts) => found.extend(hosts.iter().cloned()),
                _ => return None,
            },
            _ => return None,
        }
    }
    Some(found)
}

/// A rule of networks, as several that come one after the other.
fn admitted(condition: &Result<Condition, String>, is_accepted: bool) -> Option<Vec<NetworkRule>> {
    let mut found = Vec::new();
    for tests in condition.as_ref().ok()? {
        match tests.as_slice() {
            [] => found.push((is_accepted, None)),
            [only] => match (&only.test, only.negated) {
                (Test::Client(networks), false) => {
                    found.extend(networks.iter().map(|network| (is_accepted, Some(*network))));
                }
                (Test::Client(networks), true) => {
                    let others = super::region::complement(networks);
                    found.extend(others.into_iter().map(|network| (is_accepted, Some(network))));
                }
                (Test::Always(true), false) | (Test::Always(false), true) => found.push((is_accepted, None)),
                _ => return None,
            },
            _ => return None,
        }
    }
    Some(found)
}
