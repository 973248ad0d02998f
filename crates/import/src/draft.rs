//! A configuration that is being made: what importers fill, and how it becomes YAML.

use crate::yaml::{self, Map, Value, one, one_or_many};

/// The service of routes whose filters answer under conditions: nothing is ever sent there.
const NOWHERE: &str = "nowhere";

/// A configuration that is being made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    /// Lines at the top.
    pub(crate) head: Vec<String>,
    /// Keys of the top level that stand before the listeners.
    pub(crate) top: Map,
    pub(crate) listeners: Map,
    pub(crate) services: Map,
    pub(crate) routes: Vec<Route>,
    /// Needed by a route whose filters may leave a request over.
    needs_nowhere: bool,
}

/// The paths of a route.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) enum Paths {
    #[default]
    All,
    Patterns(Vec<String>),
    /// Over the whole path.
    Regex(String),
}

/// A route that is being made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    pub(crate) name: String,
    pub(crate) notes: Vec<String>,
    pub(crate) listeners: Vec<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) paths: Paths,
    /// Further conditions.
    pub(crate) conditions: Conditions,
    pub(crate) filters: Vec<Map>,
    pub(crate) to: To,
    pub(crate) timeouts: Map,
    pub(crate) limits: Map,
}

/// Conditions of a route beside host and path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Conditions {
    pub(crate) methods: Vec<String>,
    pub(crate) headers: Map,
    pub(crate) query: Map,
    pub(crate) client: Vec<String>,
    /// Names of hosts in place of those of the route.
    pub(crate) hosts: Vec<String>,
}

impl Conditions {
    /// How early a route with these is asked, among those of one path.
    pub(crate) fn rank(&self) -> (bool, usize, usize) {
        (!self.methods.is_empty(), self.headers.entries().len(), self.query.entries().len())
    }

    /// Whether nothing but the client is asked for.
    pub(crate) fn is_client_only(&self) -> bool {
        let bare = Self { client: Vec::new(), ..self.clone() };
        bare == Self::default() && !self.client.is_empty()
    }

    /// Both together; `None` where they speak of the same thing.
    pub(crate) fn and(&self, other: &Self) -> Option<Self> {
        let mut both = self.clone();
        if !other.methods.is_empty() {
            if both.methods.is_empty() {
                both.methods.clone_from(&other.methods);
            } else {
                both.methods.retain(|method| other.methods.contains(method));
                if both.methods.is_empty() {
                    return None;
                }
            }
        }
        for (mine, theirs) in [(&mut both.headers, &other.headers), (&mut both.query, &other.query)] {
            for (name, value) in theirs.entries() {
                if mine.get(name).is_some_and(|known| known != value) {
                    return None;
                }
                mine.put(name.as_str(), value.clone());
            }
        }
        if !other.client.is_empty() {
            if !both.client.is_empty() && both.client != other.client {
                return None;
            }
            both.client.clone_from(&other.client);
        }
        if !other.hosts.is_empty() {
            if !both.hosts.is_empty() && both.hosts != other.hosts {
                return None;
            }
            both.hosts.clone_from(&other.hosts);
        }
        Some(both)
    }
}

/// Where a route sends its requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum To {
    /// Its filters answer.
    #[default]
    Nowhere,
    Service(String),
    /// Services and their shares.
    Split(Vec<(String, u64)>),
}

impl Draft {
    /// Adds a route; its name is made one of its own.
    pub(crate) fn push(&mut self, mut route: Route) {
        route.name = shortened(&route.name);
        let mut name = route.name.clone();
        let mut number = 2;
        while self.routes.iter().any(|known| known.name == name) {
            name = format!("{} {number}", route.name);
            number += 1;
        }
        route.name = name;
        self.needs_nowhere |= route.needs_nowhere();
        self.routes.push(route);
    }

    /// Adds a service, or finds the same one; gives its name.
    pub(crate) fn service(&mut self, wanted: &str, service: &Map) -> String {
        self.service_with(wanted, Vec::new(), service)
    }

    /// The same with a comment.
    pub(crate) fn service_with(&mut self, wanted: &str, notes: Vec<String>, service: &Map) -> String {
        let mut name = wanted.to_owned();
        let mut number = 2;
        loop {
            match self.services.get(&name) {
                None => break,
                Some(Value::Map(known)) if known == service => return name,
                Some(Value::Noted(_, known)) if **known == Value::Map(service.clone()) => return name,
                Some(_) => {}
            }
            name = format!("{wanted}-{number}");
            number += 1;
        }
        let value = Value::Map(service.clone());
        let value = if notes.is_empty() { value } else { Value::Noted(notes, Box::new(value)) };
        self.services.put(name.as_str(), value);
        name
    }

    /// The whole as YAML.
    pub(crate) fn yaml(mut self) -> String {
        let mut out = String::new();
        for line in &self.head {
            out.push_str("# ");
            out.push_str(line);
            out.push('\n');
        }
        if self.needs_nowhere {
            let note = "Its routes refuse by themselves: nothing is to be sent here.".to_owned();
            let nowhere = Value::Map(one("endpoints", vec!["http://127.0.0.1:9"]));
            self.services.put(NOWHERE, Value::Noted(vec![note], Box::new(nowhere)));
        }
        let mut whole = std::mem::take(&mut self.top);
        whole.put("listeners", self.listeners);
        if !self.routes.is_empty() {
            whole.put("routes", self.routes.into_iter().map(Route::value).collect::<Vec<_>>());
        }
        if !self.services.is_empty() {
            whole.put("services", self.services);
        }
        out.push_str(&yaml::document(&whole));
        out
    }
}

impl Route {
    /// Whether it goes nowhere, and no filter says that every request is answered.
    fn needs_nowhere(&self) -> bool {
        self.to == To::Nowhere && !self.filters.iter().any(answers)
    }

    fn value(self) -> Value {
        let needs_nowhere = self.needs_nowhere();
        let mut map = one("name", self.name);
        if !self.listeners.is_empty() {
            map.put("listeners", one_or_many(self.listeners));
        }
        let mut wanted = Map::default();
        let hosts = if self.conditions.hosts.is_empty() { self.hosts } else { self.conditions.hosts.clone() };
        if !hosts.is_empty() {
            wanted.put("host", one_or_many(hosts));
        }
        match self.paths {
            Paths::All => {}
            Paths::Patterns(patterns) => wanted.put("path", one_or_many(patterns)),
            Paths::Regex(regex) => wanted.put("path_regex", regex),
        }
        let Conditions { methods, headers, query, client, .. } = self.conditions;
        if !methods.is_empty() {
            wanted.put("methods", one_or_many(methods));
        }
        for (key, fields) in [("headers", headers), ("query", query)] {
            if !fields.is_empty() {
                wanted.put(key, fields);
            }
        }
        if !client.is_empty() {
            wanted.put("client", one_or_many(client));
        }
        if !wanted.is_empty() {
            map.put("match", wanted);
        }
        if !self.filters.is_empty() {
            map.put("filters", self.filters);
        }
        let to = match self.to {
            To::Nowhere => needs_nowhere.then(|| Value::from(NOWHERE)),
            To::Service(name) => Some(name.into()),
            To::Split(parts) => {
                let part = |(name, weight)| one("service", name).with("weight", weight);
                Some(parts.into_iter().map(part).collect::<Vec<_>>().into())
            }
        };
        if let Some(to) = to {
            map.put("to", to);
        }
        for (key, value) in [("timeouts", self.timeouts), ("limits", self.limits)] {
            if !value.is_empty() {
                map.put(key, value);
            }
        }
        match self.notes.is_empty() {
            true => map.into(),
            false => Value::Noted(self.notes, Box::new(map.into())),
        }
    }
}

/// Whether a filter answers every request.
fn answers(filter: &Map) -> bool {
    let falls_through =
        matches!(filter.get("files"), Some(Value::Map(files)) if files.get("fall_through").is_some());
    let names = ["redirect", "respond", "files"];
    !falls_through && filter.get("when").is_none() && names.iter().any(|name| filter.get(name).is_some())
}

/// A name that is not too long.
fn shortened(name: &str) -> String {
    const MOST: usize = 90;
    let clean: String = name.chars().filter(|letter| !letter.is_control()).take(MOST).collect();
    if clean.trim().is_empty() { "route".into() } else { clean.trim().to_owned() }
}

/// A duration in milliseconds as the configuration writes it.
pub(crate) fn duration(milliseconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    match UNITS.iter().find(|(unit, _)| milliseconds > 0 && milliseconds.is_multiple_of(*unit)) {
        // Seconds up to ten minutes read better than minutes.
        Some((60_000, _)) if milliseconds < 600_000 => format!("{}s", milliseconds / 1000),
        Some((unit, word)) => format!("{}{word}", milliseconds / unit),
        None => format!("{milliseconds}ms"),
    }
}

/// A size in bytes as the configuration writes it.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, word)) => format!("{}{word}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

/// Text for a place that has placeholders.
pub(crate) fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}
