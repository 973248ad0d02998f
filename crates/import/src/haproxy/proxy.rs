//! `defaults`, `frontend`, `backend` and `listen`: what their lines say, with what they inherit.

use super::known;
use super::lines::{Line, Section};
use crate::{Grade, Place, Report};
use std::collections::BTreeMap;

/// What is inherited from `defaults`.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) is_http: bool,
    /// Milliseconds by name.
    pub(super) timeouts: BTreeMap<String, u64>,
    pub(super) options: BTreeMap<String, Line>,
    pub(super) balance: Option<Line>,
    pub(super) default_backend: Option<Line>,
    pub(super) retries: Option<u64>,
    pub(super) retry_on: Vec<String>,
    pub(super) cookie: Option<Line>,
    pub(super) error_files: BTreeMap<u16, Line>,
    pub(super) compression: Vec<Line>,
    pub(super) max_connections: Option<u64>,
    pub(super) default_server: Vec<String>,
    pub(super) monitor: Option<Line>,
    pub(super) checks: Vec<Line>,
    pub(super) stats: Vec<Line>,
    /// Rules of named `defaults`, which come before a section's own.
    pub(super) rules: Vec<Line>,
}

/// A section that takes or forwards requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Proxy {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) is_frontend: bool,
    pub(super) is_backend: bool,
    pub(super) settings: Settings,
    pub(super) binds: Vec<Line>,
    pub(super) servers: Vec<Line>,
    /// `acl`, rules and what chooses a backend, in their order.
    pub(super) rules: Vec<Line>,
    pub(super) tables: Vec<Line>,
    /// Why its requests cannot be treated as before.
    pub(super) refused: Option<String>,
}

/// Lines that are read as rules.
const RULES: &[&str] = &[
    "acl",
    "http-request",
    "http-response",
    "http-after-response",
    "redirect",
    "use_backend",
    "tcp-request",
    "tcp-response",
    "use-server",
    "block",
    "reqadd",
    "rspadd",
    "reqrep",
    "reqirep",
    "reqdel",
    "rspdel",
    "rsprep",
    "stick",
    "monitor",
    "force-persist",
    "ignore-persist",
    "capture",
    "declare",
    "errorloc",
    "errorloc302",
    "errorloc303",
    "filter",
    "http-reuse",
];

impl Proxy {
    /// Begins a section with what it inherits.
    pub(super) fn begin(section: &Section, defaults: &BTreeMap<String, Settings>, last: &Settings) -> Self {
        let head = &section.head;
        let kind = head.word(0);
        let from = head.behind("from").and_then(|name| defaults.get(name));
        let settings = match (kind, from) {
            (_, Some(named)) => named.clone(),
            ("defaults", None) => Settings::default(),
            _ => last.clone(),
        };
        Self {
            name: head.word(1).to_owned(),
            place: head.place.clone(),
            is_frontend: matches!(kind, "frontend" | "listen"),
            is_backend: matches!(kind, "backend" | "listen"),
            rules: settings.rules.clone(),
            settings,
            ..Self::default()
        }
    }

    /// Takes the lines of the section.
    pub(super) fn read(&mut self, section: &Section, report: &mut Report) {
        let mut is_refused = section.head.words.is_empty();
        for line in &section.lines {
            if line.is_conditional {
                let about = "`.if` depends on where HAProxy runs; requests of this section are answered 501";
                let (grade, about) = match line.word(0) {
                    ".if" => (Grade::Lost, about),
                    _ => (Grade::Lost, "it stands in an `.if` block"),
                };
                report.note(&line.place, line.text.as_str(), grade, about, self.name.as_str());
                is_refused = true;
                continue;
            }
            self.take(line, report);
        }
        if is_refused {
            self.refused = Some("an `.if` block of HAProxy".to_owned());
        }
    }

    fn take(&mut self, line: &Line, report: &mut Report) {
        let (grade, about) = match line.word(0) {
            "mode" => {
                self.settings.is_http = line.word(1) == "http";
                match line.word(1) {
                    "http" | "tcp" => known::EXACT,
                    _ => {
                        self.refused = Some(format!("`mode {}` of HAProxy", line.word(1)));
                        (Grade::Lost, "this mode has no counterpart; requests are answered 501")
                    }
                }
            }
            "bind" => {
                self.binds.push(line.clone());
                known::EXACT
            }
            "server" | "server-template" => {
                self.servers.push(line.clone());
                known::EXACT
            }
            "stick-table" => {
                self.tables.push(line.clone());
                known::TABLE
            }
            "disabled" => {
                self.refused = Some("a section of HAProxy that is off".to_owned());
                (Grade::Near, "requests are answered 501; HAProxy does not listen")
            }
            word if RULES.contains(&word) => {
                self.rules.push(line.clone());
                known::EXACT
            }
            _ => self
                .settings
                .take(line)
                .or_else(|| self.settings.take_list(line))
                .unwrap_or_else(|| known::proxy_line(line)),
        };
        let concerns = if grade == Grade::Exact { "" } else { &self.name };
        report.note(&line.place, line.text.as_str(), grade, about, concerns);
    }
}

impl Settings {
    /// Takes a line that stands once; `None`: it is another one.
    fn take(&mut self, line: &Line) -> Option<known::Told> {
        Some(match line.word(0) {
            "timeout" => match known::milliseconds(line.word(2)) {
                Some(time) => {
                    self.timeouts.insert(line.word(1).to_owned(), time);
                    known::timeout(line.word(1))
                }
                None => (Grade::Lost, "the time is not understood"),
            },
            "option" => {
                self.options.insert(line.word(1).to_owned(), line.clone());
                known::option(line.word(1))
            }
            "no" => {
                self.options.remove(line.word(2));
                known::EXACT
            }
            "balance" => {
                self.balance = Some(line.clone());
                known::EXACT
            }
            "hash-type" => (Grade::Near, "Thalweg's own hash chooses, which is consistent"),
            "default_backend" => {
                self.default_backend = Some(line.clone());
                known::EXACT
            }
            "retries" => {
                self.retries = line.word(1).parse().ok();
                known::EXACT
            }
            "cookie" => {
                self.cookie = Some(line.clone());
                known::EXACT
            }
            "maxconn" | "fullconn" => {
                self.max_connections = line.word(1).parse().ok();
                (
                    Grade::Near,
                    "connections beyond it are not kept waiting: the most silent one makes room, else 503",
                )
            }
            "monitor-uri" => {
                self.monitor = Some(line.clone());
                (Grade::Near, "it is answered with a query, too")
            }
            _ => return None,
        })
    }

    /// Takes a line of which there may be several.
    fn take_list(&mut self, line: &Line) -> Option<known::Told> {
        Some(match line.word(0) {
            "retry-on" => {
                self.retry_on = line.rest(1).to_vec();
                known::retry_on(line.rest(1))
            }
            "errorfile" => {
                if let Ok(status) = line.word(1).parse() {
                    self.error_files.insert(status, line.clone());
                }
                known::EXACT
            }
            "compression" => {
                self.compression.push(line.clone());
                known::compression(line.word(1))
            }
            "default-server" => {
                self.default_server.extend(line.rest(1).iter().cloned());
                known::EXACT
            }
            "http-check" => {
                if line.word(1) == "expect" {
                    self.checks.retain(|known| known.word(1) != "expect");
                }
                self.checks.push(line.clone());
                known::EXACT
            }
            "stats" => {
                self.stats.push(line.clone());
                (Grade::Lost, "the dashboard and metrics of `admin` and `metrics` stand in its place")
            }
            _ => return None,
        })
    }
}
