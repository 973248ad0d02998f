//! Alternatives of rules as conditions of routes, and the order in which these stand.
//!
//! Traefik asks all routers of an entry point by their priority. Here a host goes before others, an exact path before
//! expressions, more conditions before fewer, and then the order of the file decides. So prefixes become regular
//! expressions, which are asked in the order of the file; a path stays exact where nothing that goes before it may take
//! it; a router for more hosts gets the hosts of those behind it; and where conditions of one behind would bring it to
//! the front, the one before it is written once more with the same conditions.

use super::rule::Call;
use crate::draft::{Conditions, Paths};
use crate::pattern::{escaped, plain, whole};
use crate::yaml::{Value, one};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// What an alternative asks of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Term {
    pub(super) router: usize,
    /// Empty: all.
    pub(super) hosts: Vec<String>,
    pub(super) path: Path,
    pub(super) conditions: Conditions,
    /// Listeners of the router.
    pub(super) listeners: Vec<String>,
}

/// The path of an alternative.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Path {
    #[default]
    All,
    Exact(String),
    Prefix(String),
    /// The expression, and with what everything begins that it matches.
    Regex(String, String),
}

/// What cannot be taken over of an alternative, and how far it was.
pub(super) struct Read {
    pub(super) term: Term,
    /// Differences.
    pub(super) near: Vec<String>,
    /// Conditions that were left out: the requests must be refused.
    pub(super) lost: Vec<String>,
}

/// Reads an alternative.
pub(super) fn read(calls: &[Call], is_v2: bool) -> Read {
    let mut read = Read { term: Term::default(), near: Vec::new(), lost: Vec::new() };
    for call in calls {
        if let Err(lost) = read.take(call, is_v2) {
            read.lost.push(lost);
        }
    }
    read
}

impl Read {
    fn take(&mut self, call: &Call, is_v2: bool) -> Result<(), String> {
        let first = call.args.first().map_or("", String::as_str);
        if call.negated && call.name != "clientip" {
            return Err(format!(
                "`!{}` has no counterpart: conditions of routes choose, they do not forbid",
                call.name
            ));
        }
        match call.name.as_str() {
            "host" | "hostheader" => self.host(first),
            "hostregexp" => self.host_regex(first, is_v2),
            "path" => self.path(Path::Exact(first.to_owned()), is_v2),
            "pathprefix" => self.path(Path::Prefix(first.to_owned()), is_v2),
            "pathregexp" => {
                let made = whole(first, false)?;
                self.path(Path::Regex(made.text, made.prefix), false)
            }
            "method" => {
                self.and(Conditions { methods: vec![first.to_ascii_uppercase()], ..Conditions::default() })
            }
            "header" | "headers" | "headerregexp" | "headersregexp" => {
                let value = call.args.get(1).map_or("", String::as_str);
                let wanted: Value = if call.name.ends_with("regexp") {
                    one("regex", whole(value, false)?.text).into()
                } else {
                    value.into()
                };
                self.and(Conditions {
                    headers: one(&first.to_ascii_lowercase(), wanted),
                    ..Conditions::default()
                })
            }
            "query" | "queryregexp" => self.query(call, is_v2),
            "clientip" => {
                let Some(net) = crate::networks::network(first) else {
                    return Err(format!("`{first}` of `ClientIP` is no network"));
                };
                let nets = if call.negated { complement(net) } else { vec![net.to_string()] };
                self.and(Conditions { client: nets, ..Conditions::default() })
            }
            name => Err(format!("`{name}` of its rule is not known")),
        }
    }

    fn and(&mut self, more: Conditions) -> Result<(), String> {
        self.term.conditions = self
            .term
            .conditions
            .and(&more)
            .ok_or_else(|| "two conditions of its rule speak of the same thing".to_owned())?;
        Ok(())
    }

    fn host(&mut self, host: &str) -> Result<(), String> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        if host == "*" {
            return Ok(());
        }
        if host.starts_with("*.") {
            self.near.push("`*` stands for several labels too".to_owned());
        }
        if !self.term.hosts.is_empty() && self.term.hosts != [host.as_str()] {
            return Err("its rule asks for two hosts at once".to_owned());
        }
        self.term.hosts = vec![host];
        Ok(())
    }

    fn host_regex(&mut self, regex: &str, is_v2: bool) -> Result<(), String> {
        let text = if is_v2 { format!("^{}$", template(regex, "[^.]+")) } else { regex.to_owned() };
        let made = whole(&text, false)?;
        let inner = made.text.strip_prefix("(?i)").unwrap_or(&made.text);
        self.near.push("the field `Host` is asked, with its port".to_owned());
        let wanted = one("regex", format!("(?i)(?:{inner})(:[0-9]+)?"));
        self.and(Conditions { headers: one("host", wanted), ..Conditions::default() })
    }

    fn query(&mut self, call: &Call, is_v2: bool) -> Result<(), String> {
        let first = call.args.first().map_or("", String::as_str);
        let (name, value) = match (is_v2, call.args.get(1)) {
            (true, _) => first.split_once('=').unwrap_or((first, "")),
            (false, Some(value)) => (first, value.as_str()),
            (false, None) => (first, ""),
        };
        let wanted: Value = if call.name.ends_with("regexp") && call.args.len() > 1 {
            one("regex", whole(value, false)?.text).into()
        } else {
            value.into()
        };
        self.and(Conditions { query: one(name, wanted), ..Conditions::default() })
    }

    fn path(&mut self, wanted: Path, is_v2: bool) -> Result<(), String> {
        let wanted = match wanted {
            Path::Exact(path) if is_v2 && path.contains('{') => {
                Path::Regex(template(&path, "[^/]+"), String::new())
            }
            Path::Prefix(path) if is_v2 && path.contains('{') => {
                Path::Regex(format!("{}.*", template(&path, "[^/]+")), String::new())
            }
            Path::Exact(path) => Path::Exact(plain(&path)),
            Path::Prefix(path) if path == "/" => Path::All,
            Path::Prefix(path) => Path::Prefix(plain(&path)),
            other => other,
        };
        self.term.path = match (&self.term.path, wanted) {
            (Path::All, wanted) => wanted,
            (known, Path::All) => known.clone(),
            (known, wanted) => {
                if wanted.covers(known) {
                    known.clone()
                } else if known.covers(&wanted) {
                    wanted
                } else {
                    return Err("its rule asks for two paths at once".to_owned());
                }
            }
        };
        Ok(())
    }
}

/// All addresses but those of a network.
fn complement(net: IpNet) -> Vec<String> {
    let mut found = Vec::new();
    for whole in [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())] {
        around(whole, net, &mut found);
    }
    found
}

fn around(whole: IpNet, net: IpNet, found: &mut Vec<String>) {
    if !whole.contains(&net) {
        if !net.contains(&whole) {
            found.push(whole.to_string());
        }
        return;
    }
    if whole == net {
        return;
    }
    if let Ok(halves) = whole.subnets(whole.prefix_len() + 1) {
        halves.for_each(|half| around(half, net, found));
    }
}

/// Templates of version 2, `/users/{id:[0-9]+}`, as a regular expression.
fn template(text: &str, any: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once('{') {
        out.push_str(&escaped(before));
        let mut depth = 1;
        let end = behind.char_indices().find(|(_, letter)| {
            depth += i32::from(*letter == '{') - i32::from(*letter == '}');
            depth == 0
        });
        let end = end.map_or(behind.len(), |(at, _)| at);
        let inner = &behind[..end];
        out.push_str(&format!("(?:{})", inner.split_once(':').map_or(any, |(_, regex)| regex)));
        rest = behind.get(end + 1..).unwrap_or("");
    }
    out + &escaped(rest)
}

impl Path {
    /// Whether everything that the other takes is taken by this one too; `false` where it is not known.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Prefix(mine), Self::Prefix(path) | Self::Exact(path)) => path.starts_with(mine.as_str()),
            (Self::Exact(mine), Self::Exact(path)) => mine == path,
            (Self::Regex(mine, _), Self::Exact(path)) => {
                regex::Regex::new(&format!(r"\A(?:{mine})\z")).is_ok_and(|regex| regex.is_match(path))
            }
            _ => self == other,
        }
    }

    /// Whether a path may be taken by both.
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => true,
            (Self::Exact(mine), Self::Exact(path)) => mine == path,
            (Self::Exact(_), _) => other.covers(self),
            (_, Self::Exact(_)) => self.covers(other),
            (Self::Prefix(mine) | Self::Regex(_, mine), Self::Prefix(path) | Self::Regex(_, path)) => {
                mine.starts_with(path.as_str()) || path.starts_with(mine.as_str())
            }
        }
    }

    /// The expression over the whole path.
    fn regex(&self) -> String {
        match self {
            Self::All => "/.*".to_owned(),
            Self::Exact(path) => escaped(path),
            Self::Prefix(path) => format!("{}.*", escaped(path)),
            Self::Regex(regex, _) => regex.clone(),
        }
    }

    fn paths(&self, is_regex: bool) -> Paths {
        match self {
            Self::All if !is_regex => Paths::All,
            Self::Exact(path) if !is_regex && !path.contains(['*', '{', '}']) => {
                Paths::Patterns(vec![path.clone()])
            }
            path => Paths::Regex(path.regex()),
        }
    }
}

/// Whether a host of the first may be one of the second.
fn host_meets(one: &str, other: &str) -> bool {
    let below = |wide: &str, host: &str| {
        wide.strip_prefix('*').is_some_and(|end| host.trim_start_matches('*').ends_with(end))
    };
    one == other || below(one, other) || below(other, one)
}

impl Term {
    fn hosts_meet(&self, other: &Self) -> bool {
        self.hosts.is_empty()
            || other.hosts.is_empty()
            || self.hosts.iter().any(|mine| other.hosts.iter().any(|host| host_meets(mine, host)))
    }

    /// Whether there may be a request for both.
    fn meets(&self, other: &Self) -> bool {
        self.listeners.iter().any(|name| other.listeners.contains(name))
            && self.hosts_meet(other)
            && self.path.meets(&other.path)
            && !are_apart(&self.conditions.methods, &other.conditions.methods)
    }
}

fn are_apart(one: &[String], other: &[String]) -> bool {
    !one.is_empty() && !other.is_empty() && !one.iter().any(|name| other.contains(name))
}

/// A route by its term.
#[derive(Clone, Debug)]
pub(super) struct Arranged {
    pub(super) term: usize,
    pub(super) hosts: Vec<String>,
    pub(super) paths: Paths,
    pub(super) conditions: Conditions,
}

/// The routes of terms that stand in the order of their priority.
pub(super) fn arrange(terms: &[Term]) -> Vec<Arranged> {
    let is_regex = shapes(terms);
    let class = |at: usize| match (&terms[at].path, is_regex[at]) {
        (Path::All, false) => 0,
        (Path::Exact(_), false) => 2,
        _ => 1,
    };
    let mut out: Vec<Arranged> = Vec::new();
    for (at, term) in terms.iter().enumerate() {
        let behind = || terms.iter().enumerate().skip(at + 1).filter(|(_, other)| term.meets(other));
        let mut hosts = term.hosts.clone();
        for (_, other) in behind() {
            for host in other.hosts.iter().filter(|host| !hosts.contains(host)).cloned().collect::<Vec<_>>() {
                if term.hosts.is_empty()
                    || term
                        .hosts
                        .iter()
                        .any(|wide| wide != &host && host_meets(wide, &host) && wide.starts_with('*'))
                {
                    hosts.push(host);
                }
            }
        }
        if term.hosts.is_empty() && !hosts.is_empty() {
            hosts.push("*".to_owned());
        }
        let paths = term.path.paths(is_regex[at]);
        let mut made = vec![term.conditions.clone()];
        for (other_at, other) in behind() {
            if class(at) == class(other_at) && term.conditions.rank() < other.conditions.rank() {
                if let Some(both) = term.conditions.and(&other.conditions).filter(|both| !made.contains(both))
                {
                    made.insert(0, both);
                }
            }
        }
        out.extend(made.into_iter().map(|conditions| Arranged {
            term: at,
            hosts: hosts.clone(),
            paths: paths.clone(),
            conditions,
        }));
    }
    out
}

/// Which terms are written as regular expressions.
fn shapes(terms: &[Term]) -> Vec<bool> {
    let mut is_regex: Vec<bool> =
        terms.iter().map(|term| matches!(term.path, Path::Prefix(_) | Path::Regex(..))).collect();
    loop {
        let mut changed = false;
        for later in 0..terms.len() {
            for earlier in 0..later {
                if !terms[earlier].meets(&terms[later]) {
                    continue;
                }
                let is_all = matches!(terms[earlier].path, Path::All) && !is_regex[earlier];
                if is_all && !matches!(terms[later].path, Path::All) {
                    is_regex[earlier] = true;
                    changed = true;
                }
                let is_exact = |at: usize| matches!(terms[at].path, Path::Exact(_)) && !is_regex[at];
                if is_exact(later) && !is_exact(earlier) {
                    is_regex[later] = true;
                    changed = true;
                }
            }
        }
        if !changed {
            return is_regex;
        }
    }
}
