//! `mode http`: frontends and the backends that they choose, as routes.

use super::Importer;
use super::acl::Test;
use super::actions;
use super::lines::Line;
use super::order::order;
use super::paths::PathTest;
use super::program::{Alternative, Fate, Program, Rule, Stage};
use super::proxy::Proxy;
use super::region::{Meet, Region};
use super::rules::Rules;
use crate::Grade;
use crate::draft::{Route, To, literal};
use crate::yaml::{Map, one};
use std::collections::BTreeMap;

impl Importer<'_> {
    /// A frontend: its listeners and routes.
    pub(super) fn frontend(&mut self, proxy: &Proxy) {
        let mut listeners = Vec::new();
        for line in &proxy.binds {
            listeners.extend(self.bind(line, &proxy.name));
        }
        if listeners.is_empty() {
            let line = Line {
                place: proxy.place.clone(),
                text: format!("frontend {}", proxy.name),
                ..Line::default()
            };
            return self.note(&line, Grade::Near, "it has no `bind`: no request reaches it", &proxy.name);
        }
        if let Some(most) = proxy.settings.max_connections.filter(|most| *most > 0) {
            for at in &listeners {
                if self.listeners[*at].rest.get("limits").is_none() {
                    self.listeners[*at].rest.put("limits", one("max_connections", most));
                }
            }
        }
        let rules = self.rules(proxy, None);
        self.admitted(proxy, &rules.list, &listeners);
        if !proxy.settings.is_http {
            return match proxy.refused.is_some() {
                true => self.shut(&listeners),
                false => self.connections(proxy, &rules.list, &listeners),
            };
        }
        let all = Region { listeners, ..Region::default() };
        let mut sets = self.first_sets(proxy, &all);
        let mut is_full = false;
        for stage in [Stage::Request, Stage::Redirect, Stage::Response, Stage::Choose] {
            sets = self.play((proxy, &rules), sets, stage, &mut is_full);
        }
        let mut done = Vec::new();
        for set in sets {
            done.extend(self.send_to_backend(proxy, &rules, set, &mut is_full));
        }
        self.routes(proxy, &all, done, is_full);
    }

    /// What is answered before any rule is asked, then all requests.
    fn first_sets(&mut self, proxy: &Proxy, all: &Region) -> Vec<Alternative> {
        let mut sets = Vec::new();
        let listeners = self.listeners.clone();
        let broken: Vec<usize> =
            all.listeners.iter().copied().filter(|at| listeners[*at].is_broken).collect();
        let whole = |region: &Region| Alternative { region: region.clone(), ..Alternative::default() };
        if let Some(why) = &proxy.refused {
            let mut set = whole(all);
            set.refuse(why);
            return vec![set];
        }
        if !broken.is_empty() {
            let mut set = whole(&Region { listeners: broken, ..Region::default() });
            set.refuse("a listener of HAProxy with TLS and without a certificate");
            sets.push(set);
        }
        if let Some(line) = &proxy.settings.monitor
            && let Meet::Region(region) =
                all.and(&Test::Paths(vec![PathTest::Exact(line.word(1).to_owned())]), &listeners)
        {
            let mut set = whole(&region);
            set.filters.push(actions::monitored());
            set.fate = Fate::Answered;
            "monitor".clone_into(&mut set.title);
            sets.push(set);
        }
        if let Some(set) = stats(proxy, all) {
            sets.push(set);
        }
        sets.push(whole(all));
        sets
    }

    fn play(
        &mut self,
        (proxy, rules): (&Proxy, &Rules),
        sets: Vec<Alternative>,
        stage: Stage,
        is_full: &mut bool,
    ) -> Vec<Alternative> {
        let mut program = Program {
            listeners: &self.listeners,
            report: &mut self.report,
            variables: &rules.variables,
            counters: &rules.counters,
            periods: &self.periods,
            users: &self.users,
            name: proxy.name.clone(),
            is_full: false,
        };
        let sets = program.play(sets, &rules.list, stage);
        *is_full |= program.is_full;
        sets
    }

    /// Sends a set to its backend, whose rules are played on it.
    fn send_to_backend(
        &mut self,
        frontend: &Proxy,
        rules: &Rules,
        set: Alternative,
        is_full: &mut bool,
    ) -> Vec<Alternative> {
        let mut set = set;
        let by_rule = matches!(set.fate, Fate::Backend(_));
        let name = match &set.fate {
            Fate::Backend(name) => name.clone(),
            Fate::Open => match &frontend.settings.default_backend {
                Some(line) => line.word(1).to_owned(),
                None if frontend.is_backend => frontend.name.clone(),
                None => {
                    set.filters.push(one("respond", 503_u16));
                    set.fate = Fate::Answered;
                    return vec![finished(set, &Edges::of(frontend, None), frontend)];
                }
            },
            Fate::Answered | Fate::Refused => {
                return vec![finished(set, &Edges::of(frontend, None), frontend)];
            }
        };
        let found = self.proxies.iter().find(|proxy| proxy.is_backend && proxy.name == name).cloned();
        let Some(backend) = found else {
            let why = match name.contains('%') {
                true => "a backend that is named by a sample is not chosen; write a route for each value",
                false => "there is no such backend",
            };
            let mut lines = frontend.rules.iter().chain(&frontend.settings.default_backend);
            let line = lines.rfind(|line| line.words.contains(&name)).cloned().unwrap_or_default();
            self.note(&line, Grade::Lost, format!("{why}; requests are answered 501"), &frontend.name);
            set.refuse("a backend of HAProxy that is not known here");
            return vec![finished(set, &Edges::of(frontend, None), frontend)];
        };
        if !by_rule {
            name.clone_into(&mut set.title);
        }
        let is_self = backend.name == frontend.name && frontend.is_backend;
        set.fate = Fate::Open;
        let edges = Edges::of(frontend, Some(&backend));
        if let Some(why) = backend.refused.as_ref().filter(|_| !is_self) {
            set.refuse(why);
            return vec![finished(set, &edges, frontend)];
        }
        // Responses meet the rules of the backend first.
        let (responses, after) = (std::mem::take(&mut set.responses), std::mem::take(&mut set.after));
        let mut sets = Vec::new();
        if let Some(stats) = stats(&backend, &set.region).filter(|_| !is_self) {
            sets.push(stats);
        }
        sets.push(set);
        let own = if is_self { Rules::default() } else { self.rules(&backend, Some(rules)) };
        let own = Rules { counters: own.counters, variables: own.variables, list: renamed(own.list) };
        for stage in [Stage::Request, Stage::Redirect, Stage::Response] {
            sets = self.play((&backend, &own), sets, stage, is_full);
        }
        let service =
            if sets.iter().any(|set| set.fate == Fate::Open) { self.service(&backend) } else { None };
        for set in sets.iter_mut().filter(|set| set.fate == Fate::Open) {
            match &service {
                Some(name) => set.fate = Fate::Backend(name.clone()),
                None => {
                    set.filters.push(one("respond", 503_u16));
                    set.fate = Fate::Answered;
                }
            }
        }
        for set in &mut sets {
            set.responses.extend(responses.iter().cloned());
            set.after.extend(after.iter().cloned());
        }
        self.note_pages(&edges);
        sets.into_iter().map(|set| finished(set, &edges, frontend)).collect()
    }

    fn note_pages(&mut self, edges: &Edges) {
        for line in edges.pages.values() {
            match page(&self.files.read(line.word(2)).unwrap_or_default()) {
                Some(_) => self.note(
                    line,
                    Grade::Near,
                    "it is sent to clients that take HTML; others get the proxy's own",
                    "",
                ),
                None => self.note(
                    line,
                    Grade::Lost,
                    "its file is not there, or has no body; errors have the proxy's own",
                    "",
                ),
            }
        }
    }

    /// Brings the sets of a frontend into routes.
    fn routes(&mut self, proxy: &Proxy, all: &Region, sets: Vec<Alternative>, is_full: bool) {
        let mut sets = sets;
        let regions: Vec<Region> = sets.iter().map(|set| set.region.clone()).collect();
        let order = order(&regions);
        if is_full || order.is_full {
            let line = Line {
                place: proxy.place.clone(),
                text: format!("frontend {}", proxy.name),
                ..Line::default()
            };
            self.note(
                &line,
                Grade::Lost,
                "its conditions come to too many routes; requests are answered 501",
                &proxy.name,
            );
            let mut set = Alternative { region: all.clone(), ..Alternative::default() };
            set.refuse("conditions of HAProxy that come to too many routes");
            return self.push(proxy, &finished(set, &Edges::of(proxy, None), proxy), all);
        }
        for (at, why) in &order.lost {
            let line = Line {
                place: proxy.place.clone(),
                text: format!("frontend {}", proxy.name),
                ..Line::default()
            };
            let about = format!(
                "{why}, and so the order of two rules cannot be kept; requests of the later one are answered 501 ({})",
                sets[*at].title
            );
            self.note(&line, Grade::Lost, about, &proxy.name);
            sets[*at].filters.clear();
            sets[*at].refuse("rules of HAProxy whose order cannot be kept");
        }
        for placed in &order.routes {
            let set = finished_pages(&sets[placed.set], |path| self.files.read(path).ok());
            self.push(proxy, &set, &placed.region);
        }
    }

    fn push(&mut self, proxy: &Proxy, set: &Alternative, region: &Region) {
        let is_everywhere = region.listeners.len() == self.http_listeners();
        let names = region.listeners.iter().map(|at| self.listeners[*at].name.clone());
        self.draft.push(Route {
            name: format!("{} {}", proxy.name, if set.title.is_empty() { "all" } else { &set.title }),
            notes: set.notes.clone(),
            listeners: if is_everywhere { Vec::new() } else { names.collect() },
            hosts: region.hosts.clone(),
            paths: region.route_paths(),
            conditions: region.conditions(),
            filters: set.filters.clone(),
            to: match &set.fate {
                Fate::Backend(name) => To::Service(name.clone()),
                _ => To::Nowhere,
            },
            ..Route::default()
        });
    }

    /// Listeners that this configuration has in all: a route without names is one of every listener.
    fn http_listeners(&self) -> usize {
        self.proxies
            .iter()
            .filter(|proxy| proxy.is_frontend)
            .map(|proxy| proxy.binds.len())
            .sum::<usize>()
            .max(self.listeners.len())
    }
}

/// `tcp-request content` and the like of a backend have no stage of their own.
fn renamed(list: Vec<Rule>) -> Vec<Rule> {
    list.into_iter().filter(|rule| !matches!(rule.stage, Stage::Connection | Stage::Choose)).collect()
}

/// The pages of `stats`, which must not fall to another route.
fn stats(proxy: &Proxy, all: &Region) -> Option<Alternative> {
    let is_page = |line: &&Line| matches!(line.word(1), "enable" | "uri");
    proxy.settings.stats.iter().find(is_page)?;
    let uri = proxy.settings.stats.iter().find(|line| line.word(1) == "uri");
    let path = uri.map_or("/haproxy?stats", |line| line.word(2)).split('?').next().unwrap_or("/");
    let test = Test::Paths(vec![PathTest::Begin(path.to_owned())]);
    let Meet::Region(region) = all.and(&test, &[]) else { return None };
    let mut set = Alternative { region, title: "stats".to_owned(), ..Alternative::default() };
    set.refuse("the statistics of HAProxy; see `admin` and `metrics`");
    Some(set)
}

/// What stands around the rules of a set: pages of errors, fields that options write, compression.
#[derive(Clone, Debug, Default)]
struct Edges {
    pages: BTreeMap<u16, Line>,
    forwarded: Vec<Map>,
    compress: Option<Map>,
}

impl Edges {
    fn of(frontend: &Proxy, backend: Option<&Proxy>) -> Self {
        let mut edges = Self { pages: frontend.settings.error_files.clone(), ..Self::default() };
        for proxy in [Some(frontend), backend].into_iter().flatten() {
            edges.pages.extend(proxy.settings.error_files.clone());
            if let Some(header) =
                proxy.settings.options.get("forwardfor").and_then(|line| line.behind("header"))
            {
                let request = one("append", one(header, "{client_ip}"));
                let filter = one("headers", one("request", request));
                if !edges.forwarded.contains(&filter) {
                    edges.forwarded.push(filter);
                }
            }
            edges.compress = compress(&proxy.settings.compression).or(edges.compress);
        }
        edges
    }
}

fn compress(lines: &[Line]) -> Option<Map> {
    let algorithms = lines.iter().find(|line| line.word(1) == "algo")?;
    let has_gzip = algorithms.rest(2).iter().any(|word| word == "gzip");
    let types: Vec<String> =
        lines.iter().filter(|line| line.word(1) == "type").flat_map(|line| line.rest(2).to_vec()).collect();
    let mut map = Map::default();
    if has_gzip {
        map.put("algorithms", "gzip");
    }
    if !types.is_empty() {
        map.put("types", types);
    }
    Some(one("compress", map))
}

/// The body of a file of `errorfile`.
fn page(text: &str) -> Option<String> {
    let unified = text.replace("\r\n", "\n");
    let (head, body) = unified.split_once("\n\n")?;
    (head.starts_with("HTTP/") && !body.trim().is_empty()).then(|| body.to_owned())
}

/// Puts the filters of a set into their order: pages first, then changes of all responses, the rules, and last, so that
/// answers of rules do not meet them, changes of endpoints' responses. Responses go through the list in reverse.
fn finished(set: Alternative, edges: &Edges, _: &Proxy) -> Alternative {
    let mut set = set;
    let mut filters: Vec<Map> = Vec::new();
    if !edges.pages.is_empty() {
        let mut pages = Map::default();
        for (status, line) in &edges.pages {
            pages.put(status.to_string(), line.word(2));
        }
        filters.push(one("error_pages", pages));
    }
    filters.extend(std::mem::take(&mut set.after).into_iter().rev());
    filters.append(&mut set.filters);
    if matches!(set.fate, Fate::Backend(_)) {
        filters.extend(edges.compress.clone());
        filters.extend(edges.forwarded.iter().cloned());
        filters.extend(std::mem::take(&mut set.responses).into_iter().rev());
    }
    if filters.iter().any(|filter| matches!(filter.get("rewrite"), Some(crate::yaml::Value::Map(map)) if map.get("host").is_some())) {
        filters.push(one("map_back", false));
    }
    set.filters = filters;
    set
}

/// The same with the pages of errors read.
fn finished_pages(set: &Alternative, read: impl Fn(&str) -> Option<String>) -> Alternative {
    let mut set = set.clone();
    let Some(crate::yaml::Value::Map(named)) =
        set.filters.first().and_then(|filter| filter.get("error_pages")).cloned()
    else {
        return set;
    };
    let mut pages = Map::default();
    for (status, file) in named.entries() {
        let crate::yaml::Value::Text(file) = file else { continue };
        if let Some(body) = read(file).as_deref().and_then(page) {
            pages.put(status.as_str(), one("html", literal(&body)));
        }
    }
    set.filters.remove(0);
    if !pages.is_empty() {
        set.filters.insert(0, one("error_pages", one("pages", pages)));
    }
    set
}
