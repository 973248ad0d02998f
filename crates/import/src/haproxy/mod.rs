//! HAProxy: `haproxy.cfg`, or several files that it reads one after the other.
//!
//! `lines` reads the syntax, `proxy` and `known` what sections say, `acl`, `sample` and `template` conditions and
//! samples, `rules` collects what is asked in which order, `program` plays it into sets of requests (`resolve` says
//! what a condition leaves of a set, `deed` what a rule does), `order` makes routes of these whose precedence keeps
//! that order, and `http` writes them. `service` and `health` make services of servers, `listen` listeners of binds,
//! and `tcp` is for whole connections.

mod acl;
mod actions;
mod deed;
mod health;
mod http;
mod known;
mod lines;
mod listen;
mod order;
mod paths;
mod program;
mod proxy;
mod region;
mod resolve;
mod rules;
mod sample;
mod service;
mod tcp;
mod template;

use crate::draft::{Draft, duration};
use crate::report::Report;
use crate::yaml::{Map, Value, one};
use crate::{Files, Grade, ImportError, Imported};
use lines::{Section, sections};
use listen::Listener;
use proxy::{Proxy, Settings};
use std::collections::BTreeMap;

/// What differs whatever is configured.
const ALWAYS: &[&str] = &[
    "paths are looked at and go upstream in normal form: escapes of ordinary characters decoded, `.` and `..` resolved; HAProxy takes them as they came",
    "escapes that hide a slash, backslash or control character are refused with 400",
    "hosts are compared without their port and in any case, and go upstream in lower case; redirects to another scheme name the host without its port",
    "conditions look at the whole of a field, and not at each value between commas; of fields that come several times a sample takes the first",
    "conditions on the query look at decoded values",
    "requests go upstream over HTTP/1.1 with `Via`, `X-Request-Id` and `X-Forwarded-For`, `-Proto`, `-Host`; what a client has sent in these is kept from `trusted_proxies` alone",
    "redirects have no `Cache-Control: no-cache`",
    "the proxy's own errors have a body of their own, `http-response` changes them too, and where no endpoint can be reached the status is 503 or 502",
    "a time that is not written is the product's default, and not without an end",
    "an endpoint that refuses a connection is left out for a while, whether it is checked or not; checks and rates have the product's own spread",
    "challenges of `auth` name `charset=\"UTF-8\"`",
];

/// What is collected while the configuration is read.
struct Importer<'a> {
    files: &'a dyn Files,
    report: Report,
    draft: Draft,
    proxies: Vec<Proxy>,
    listeners: Vec<Listener>,
    /// `crt-base` and `ca-base`.
    bases: BTreeMap<String, String>,
    /// Users with passwords that can be checked, by list.
    users: BTreeMap<String, Map>,
    /// Periods of tables by name and rate.
    periods: BTreeMap<(String, String), u64>,
}

/// Reads configurations of HAProxy.
///
/// # Errors
/// A file cannot be read, or is no configuration of HAProxy.
pub(crate) fn import(paths: &[String], files: &dyn Files) -> Result<Imported, ImportError> {
    let mut importer = Importer {
        files,
        report: Report::new("HAProxy", ALWAYS),
        draft: Draft::default(),
        proxies: Vec::new(),
        listeners: Vec::new(),
        bases: BTreeMap::new(),
        users: BTreeMap::new(),
        periods: BTreeMap::new(),
    };
    let mut whole = Vec::new();
    for path in paths {
        let text = files.read(path).map_err(ImportError::unread)?;
        whole.extend(sections(path, &text)?);
    }
    importer.read(&whole);
    importer.write();
    importer.report.finish();
    importer.draft.head = vec![
        format!("Made by `thalweg import haproxy {}`.", paths.join(" ")),
        "What was not taken over stands in the report that came with it.".to_owned(),
    ];
    let configuration = lines::with_variables(&importer.draft.yaml());
    Ok(Imported { configuration, report: importer.report })
}

impl Importer<'_> {
    fn read(&mut self, sections: &[Section]) {
        let (mut named, mut last) = (BTreeMap::new(), Settings::default());
        for section in sections {
            let head = &section.head;
            match head.word(0) {
                "global" => self.global(section),
                "defaults" | "frontend" | "backend" | "listen" => {
                    self.report.exact(&head.place, head.text.as_str());
                    let mut proxy = Proxy::begin(section, &named, &last);
                    proxy.read(section, &mut self.report);
                    if head.word(0) == "defaults" {
                        let mut settings = proxy.settings;
                        settings.rules = proxy.rules;
                        if !matches!(head.word(1), "" | "from") {
                            named.insert(head.word(1).to_owned(), settings.clone());
                        }
                        last = settings;
                    } else {
                        self.proxies.push(proxy);
                    }
                }
                "userlist" => self.userlist(section),
                "peers" => {
                    known::note_section(section, &mut self.report);
                }
                _ => known::note_section(section, &mut self.report),
            }
        }
    }

    fn global(&mut self, section: &Section) {
        let head = &section.head;
        self.report.exact(&head.place, head.text.as_str());
        for line in &section.lines {
            if line.is_conditional {
                let about = "`.if` depends on where HAProxy runs; what stands in it is left out";
                self.note(line, Grade::Lost, about, "");
                continue;
            }
            let number = line.word(1).parse::<u64>().ok();
            match (line.word(0), number) {
                ("maxconn", Some(most)) => {
                    self.report.exact(&line.place, line.text.as_str());
                    self.draft.top.put("limits", one("max_connections", most.max(1)));
                }
                ("nbthread", Some(threads)) => {
                    self.report.exact(&line.place, line.text.as_str());
                    self.draft.top.put("workers", threads.clamp(1, 1024));
                }
                ("hard-stop-after", _) => {
                    self.report.exact(&line.place, line.text.as_str());
                    if let Some(time) = known::milliseconds(line.word(1)).filter(|time| *time > 0) {
                        self.draft.top.put("shutdown", one("grace", duration(time)));
                    }
                }
                (word, _) => {
                    if matches!(word, "crt-base" | "ca-base") {
                        self.bases.insert(word.to_owned(), line.word(1).to_owned());
                    }
                    let (grade, about) = known::global(line);
                    self.note(line, grade, about, "");
                }
            }
        }
    }

    fn userlist(&mut self, section: &Section) {
        let head = &section.head;
        self.report.exact(&head.place, head.text.as_str());
        let mut users = Map::default();
        for line in &section.lines {
            let hash = line.behind("password").unwrap_or_default();
            let (grade, about) = match line.word(0) {
                "user" if hash.starts_with("$2") => {
                    users.put(line.word(1), hash);
                    (Grade::Exact, "")
                }
                "user" => (
                    Grade::Lost,
                    "passwords are hashed by bcrypt or argon2id; make it anew with `thalweg hash-password`: until then this user is not let in",
                ),
                _ => (Grade::Lost, "groups have no counterpart; conditions on them let nobody pass"),
            };
            self.note(line, grade, about, "");
        }
        self.users.insert(head.word(1).to_owned(), users);
    }

    /// Listeners, routes and services of all sections.
    fn write(&mut self) {
        for proxy in &self.proxies {
            for line in &proxy.tables {
                let words = line.words.iter().skip_while(|word| *word != "store").skip(1);
                for store in words.flat_map(|word| word.split(',')) {
                    if let Some((what, period)) = store.trim_end_matches(')').split_once('(')
                        && let Some(period) = known::milliseconds(period)
                    {
                        self.periods.insert((proxy.name.clone(), what.to_owned()), period.max(1));
                    }
                }
            }
        }
        let proxies = self.proxies.clone();
        self.times(&proxies);
        for proxy in proxies.iter().filter(|proxy| proxy.is_frontend) {
            self.frontend(proxy);
        }
        let used: Vec<String> = self.draft.services.entries().iter().map(|(name, _)| name.clone()).collect();
        for proxy in proxies
            .iter()
            .filter(|proxy| proxy.is_backend && !proxy.is_frontend && !used.contains(&proxy.name))
        {
            let is_refused = proxy.refused.is_some() || proxy.servers.is_empty();
            if !is_refused && proxy.tables.is_empty() {
                self.service(proxy);
            }
        }
        for listener in &self.listeners {
            self.draft.listeners.put(listener.name.as_str(), listener.value());
        }
    }

    /// What all share: times of clients, and that an attempt is made once.
    fn times(&mut self, proxies: &[Proxy]) {
        let mut timeouts = Map::default();
        for (name, key) in [("http-request", "head"), ("http-keep-alive", "keep_alive")] {
            let of = |proxy: &Proxy| proxy.settings.timeouts.get(name).copied().filter(|time| *time > 0);
            if let Some(time) = proxies.iter().filter(|proxy| proxy.is_frontend).find_map(of) {
                timeouts.put(key, duration(time));
            }
        }
        let mut defaults = Map::default();
        if !timeouts.is_empty() {
            defaults.put("timeouts", timeouts);
        }
        defaults.put("retry", one("attempts", Value::Number(1)));
        self.draft.top.put("defaults", defaults);
    }
}
