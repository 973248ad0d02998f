//! Rules of a section, in the order in which they are asked, and what they are read with.

use super::Importer;
use super::acl::{Acls, Condition, Test};
use super::lines::Line;
use super::program::{Rule, Stage};
use super::proxy::Proxy;
use crate::Grade;
use crate::yaml::{Value, one};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Rules of a section.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    pub(super) list: Vec<Rule>,
    pub(super) variables: BTreeMap<String, String>,
    /// What is counted by, and the table, by the number of the counter.
    pub(super) counters: BTreeMap<String, (Value, String)>,
}

impl<'a> Importer<'a> {
    /// Reads the rules of a section; variables and counters of the frontend before it are known.
    pub(super) fn rules(&mut self, proxy: &Proxy, before: Option<&Rules>) -> Rules {
        let mut rules = Rules::default();
        if let Some(before) = before {
            rules.variables.clone_from(&before.variables);
            rules.counters.clone_from(&before.counters);
        }
        for line in &proxy.rules {
            self.variable(proxy, line, &mut rules);
            self.counter(proxy, line, &mut rules);
        }
        let mut acls = Acls {
            files: self.files,
            named: BTreeMap::new(),
            variables: rules.variables.clone(),
            hints: RefCell::default(),
        };
        for line in proxy.rules.iter().filter(|line| line.word(0) == "acl") {
            let (test, hint) = acls.test(line.rest(2));
            match (&test, hint) {
                (Test::Unknown(why), _) => self.note(line, Grade::Lost, why.as_str(), &proxy.name),
                (Test::Down(name), _) => {
                    let about = format!(
                        "where no endpoint of {name} is well, its requests are answered 503; write `backup` endpoints or `when_down`"
                    );
                    self.note(line, Grade::Near, about, &proxy.name);
                }
                (_, Some(hint)) if proxy.settings.is_http => self.note(line, Grade::Near, hint, &proxy.name),
                _ => {}
            }
            acls.named.entry(line.word(1).to_owned()).or_default().push(test);
        }
        for line in &proxy.rules {
            let Some((stage, from)) = stage(line) else {
                self.other(proxy, line);
                continue;
            };
            let words = line.rest(from);
            let at = words.iter().position(|word| word == "if" || word == "unless").unwrap_or(words.len());
            let condition = acls.condition(&words[at..]);
            if let Some(hint) = acls.hints.take().first().filter(|_| proxy.settings.is_http) {
                self.note(line, Grade::Near, *hint, &proxy.name);
            }
            self.note_down(proxy, line, &condition);
            let is_after = line.word(0) == "http-after-response";
            rules.list.push(Rule {
                line: line.clone(),
                stage,
                words: words[..at].to_vec(),
                condition,
                is_after,
            });
        }
        rules
    }

    fn note_down(&mut self, proxy: &Proxy, line: &Line, condition: &Result<Condition, String>) {
        let asks = condition.iter().flatten().flatten().any(|literal| matches!(literal.test, Test::Down(_)));
        if asks {
            let about = "that no endpoint is well chooses nothing: requests go where they went, and are answered 503 there; write `backup` endpoints or `when_down`";
            self.note(line, Grade::Lost, about, &proxy.name);
        }
    }

    /// `set-var` for every request.
    fn variable(&mut self, proxy: &Proxy, line: &Line, rules: &mut Rules) {
        let Some(name) = line.word(1).strip_prefix("set-var(").and_then(|rest| rest.strip_suffix(')')) else {
            return;
        };
        let is_request = line.word(0) == "http-request" || line.word(0) == "tcp-request";
        let is_plain = is_request && line.words.len() == 3 && !rules.variables.contains_key(name);
        if is_plain {
            rules.variables.insert(name.to_owned(), line.word(2).to_owned());
        } else {
            rules.variables.remove(name);
            self.note(
                line,
                Grade::Lost,
                "a variable stands for one sample for all requests; what asks for it says so",
                &proxy.name,
            );
        }
    }

    /// `track-sc`.
    fn counter(&mut self, proxy: &Proxy, line: &Line, rules: &mut Rules) {
        let at = line.words.iter().position(|word| word.starts_with("track-sc"));
        let Some(at) = at else { return };
        let number = line.word(at).trim_start_matches("track-sc").to_owned();
        let sample = line.word(at + 1);
        let key = match sample.split_once('(') {
            None if sample == "src" => Some(Value::from("client_ip")),
            None if sample == "path" => Some("{path}".into()),
            Some(("hdr" | "req.hdr" | "req.fhdr", name)) => {
                Some(one("header", name.trim_end_matches(')')).into())
            }
            Some(("req.cook" | "cook", name)) => Some(one("cookie", name.trim_end_matches(')')).into()),
            Some(("url_param" | "urlp", name)) => Some(one("query", name.trim_end_matches(')')).into()),
            _ => None,
        };
        let is_for_all = !line.words.iter().any(|word| word == "if" || word == "unless");
        match key {
            Some(key) => {
                let table = line.behind("table").unwrap_or(&proxy.name).to_owned();
                rules.counters.insert(number, (key, table));
                if !is_for_all {
                    self.note(
                        line,
                        Grade::Near,
                        "requests are counted where they are limited, and only there",
                        &proxy.name,
                    );
                }
            }
            None => self.note(
                line,
                Grade::Lost,
                "requests cannot be counted by this; what asks for it says so",
                &proxy.name,
            ),
        }
    }

    /// Lines that are no rules.
    fn other(&mut self, proxy: &Proxy, line: &Line) {
        let (grade, about) = match line.word(0) {
            "acl" | "stick" | "http-reuse" => return,
            "tcp-request" if line.word(1) == "inspect-delay" => return,
            "capture" | "declare" => (Grade::Near, "it concerns logs; see the filter `log`"),
            "force-persist" | "ignore-persist" => (Grade::Lost, "the cookie counts for every request"),
            "monitor" => (Grade::Lost, "`monitor-uri` is answered 200 as long as the proxy runs"),
            "filter" => (Grade::Lost, "filters of HAProxy are not run"),
            "tcp-response" => (Grade::Lost, "connections are not looked into"),
            "use-server" => (Grade::Lost, "a condition chooses a backend, and no server"),
            _ => (Grade::Lost, "it has no counterpart"),
        };
        self.note(line, grade, about, &proxy.name);
    }
}

/// When a rule is asked, and where its words begin.
fn stage(line: &Line) -> Option<(Stage, usize)> {
    Some(match (line.word(0), line.word(1)) {
        ("http-request", _) => (Stage::Request, 1),
        ("http-response" | "http-after-response", _) => (Stage::Response, 1),
        ("redirect", _) => (Stage::Redirect, 1),
        ("use_backend", _) => (Stage::Choose, 1),
        ("tcp-request", "connection" | "session") => (Stage::Connection, 2),
        ("tcp-request", "content") => (Stage::Request, 2),
        _ => return None,
    })
}
