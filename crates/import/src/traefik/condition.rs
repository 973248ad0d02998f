//! What a request must be, and what two such conditions have in common.

use crate::branch::{host_in_both, host_rank};
use crate::draft::{Conditions, Paths};
use crate::networks::network;
use crate::pattern::escaped;
use crate::yaml::Map;
use ipnet::IpNet;
use regex::Regex;
use std::cmp::Reverse;

/// Paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Path {
    #[default]
    All,
    Exact(String),
    /// By characters, not by segments: `/a` takes `/ab`.
    Prefix(String),
    /// Over the whole path.
    Regex(String),
}

/// All that is written must hold; of a list one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Condition {
    pub(super) hosts: Vec<String>,
    pub(super) path: Path,
    pub(super) methods: Vec<String>,
    pub(super) headers: Map,
    pub(super) query: Map,
    pub(super) client: Vec<IpNet>,
}

/// When a route is asked: smaller goes first.
pub(super) type Rank = ((u8, usize), u8, bool, Reverse<usize>, Reverse<usize>);

impl Path {
    fn is_plain(path: &str) -> bool {
        path.starts_with('/') && !path.contains(['{', '}', '*', '%'])
    }

    fn takes(&self, path: &str) -> bool {
        match self {
            Self::All => true,
            Self::Exact(exact) => exact == path,
            Self::Prefix(prefix) => path.starts_with(prefix),
            Self::Regex(regex) => Regex::new(&format!(r"\A(?:{regex})\z")).is_ok_and(|it| it.is_match(path)),
        }
    }

    fn and(&self, other: &Self) -> Result<Option<Self>, String> {
        Ok(match (self, other) {
            (Self::All, any) | (any, Self::All) => Some(any.clone()),
            (Self::Exact(path), any) | (any, Self::Exact(path)) => {
                any.takes(path).then(|| Self::Exact(path.clone()))
            }
            (Self::Prefix(one), Self::Prefix(two)) => {
                let (short, long) = if one.len() <= two.len() { (one, two) } else { (two, one) };
                long.starts_with(short.as_str()).then(|| Self::Prefix(long.clone()))
            }
            (one, two) if one == two => Some(one.clone()),
            (Self::Regex(regex), Self::Prefix(prefix)) | (Self::Prefix(prefix), Self::Regex(regex)) => {
                let begin = begin_of(regex);
                if begin.starts_with(prefix.as_str()) {
                    return Ok(Some(Self::Regex(regex.clone())));
                }
                if prefix.starts_with(&begin) {
                    return Err("a regular expression and a prefix hold together".to_owned());
                }
                None
            }
            _ => return Err("two regular expressions hold together".to_owned()),
        })
    }

    /// As a route says it.
    pub(super) fn paths(&self) -> Paths {
        match self {
            Self::All => Paths::All,
            Self::Exact(path) if Self::is_plain(path) => Paths::Patterns(vec![path.clone()]),
            Self::Exact(path) => Paths::Regex(escaped(path)),
            Self::Prefix(prefix) => Paths::Regex(format!("{}.*", escaped(prefix))),
            Self::Regex(regex) => Paths::Regex(regex.clone()),
        }
    }
}

/// The plain characters with which an expression over a whole path begins.
fn begin_of(regex: &str) -> String {
    let mut begin: String =
        regex.chars().take_while(|it| it.is_ascii_alphanumeric() || "/-_".contains(*it)).collect();
    // What is repeated or optional need not be there.
    if regex[begin.len()..].starts_with(['*', '?', '{']) {
        begin.pop();
    }
    if regex.contains('|') { String::new() } else { begin }
}

impl Condition {
    pub(super) fn of(path: Path) -> Self {
        Self { path, ..Self::default() }
    }

    /// Both together; `Ok(None)`: nothing fulfils both.
    ///
    /// # Errors
    /// It cannot be said.
    pub(super) fn and(&self, other: &Self) -> Result<Option<Self>, String> {
        let mut hosts = Vec::new();
        if self.hosts.is_empty() || other.hosts.is_empty() {
            hosts = [self.hosts.clone(), other.hosts.clone()].concat();
        } else {
            for one in &self.hosts {
                let found = other.hosts.iter().filter_map(|two| host_in_both(one, two));
                hosts.extend(found);
            }
            hosts.dedup();
            if hosts.is_empty() {
                return Ok(None);
            }
        }
        let methods = match (self.methods.is_empty(), other.methods.is_empty()) {
            (true, _) => other.methods.clone(),
            (_, true) => self.methods.clone(),
            _ => {
                let both: Vec<String> =
                    self.methods.iter().filter(|method| other.methods.contains(method)).cloned().collect();
                if both.is_empty() {
                    return Ok(None);
                }
                both
            }
        };
        let client = match (self.client.is_empty(), other.client.is_empty()) {
            (true, _) => other.client.clone(),
            (_, true) => self.client.clone(),
            _ => {
                let smaller = |one: &IpNet, two: &IpNet| {
                    if one.contains(two) { Some(*two) } else { two.contains(one).then_some(*one) }
                };
                let both: Vec<IpNet> = self
                    .client
                    .iter()
                    .flat_map(|one| other.client.iter().filter_map(move |two| smaller(one, two)))
                    .collect();
                if both.is_empty() {
                    return Ok(None);
                }
                both
            }
        };
        let Some(path) = self.path.and(&other.path)? else { return Ok(None) };
        let headers = both(&self.headers, &other.headers)?;
        let query = both(&self.query, &other.query)?;
        Ok(Some(Self { hosts, path, methods, headers, query, client }))
    }

    /// Whether everything that fulfils the other one fulfils this.
    pub(super) fn covers(&self, other: &Self) -> bool {
        matches!(self.and(other), Ok(Some(both)) if both == *other)
    }

    pub(super) fn rank(&self) -> Rank {
        let host = host_rank(self.hosts.first());
        let path = match self.path.paths() {
            Paths::Patterns(_) => 0,
            Paths::Regex(_) => 1,
            Paths::All => 2,
        };
        let (headers, query) = (self.headers.entries().len(), self.query.entries().len());
        (host, path, self.methods.is_empty(), Reverse(headers), Reverse(query))
    }

    /// What a route says beside host and path.
    pub(super) fn rest(&self) -> Conditions {
        Conditions {
            methods: self.methods.clone(),
            headers: self.headers.clone(),
            query: self.query.clone(),
            client: self.client.iter().map(ToString::to_string).collect(),
            hosts: Vec::new(),
        }
    }
}

fn both(one: &Map, two: &Map) -> Result<Map, String> {
    let mut all = one.clone();
    for (name, value) in two.entries() {
        if all.get(name).is_some_and(|known| known != value) {
            return Err(format!("two conditions speak of `{name}`"));
        }
        all.put(name.as_str(), value.clone());
    }
    Ok(all)
}

/// Networks and addresses; `None`: one of them is none.
pub(super) fn network_list(texts: &[String]) -> Option<Vec<IpNet>> {
    let found: Option<Vec<IpNet>> = texts.iter().map(|text| network(text.trim())).collect();
    found.filter(|list| !list.is_empty())
}

/// `{name:regex}` and `{name}` of Traefik 2 as a regular expression; `any` is what `{name}` takes.
pub(super) fn template(text: &str, any: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once('{') {
        out.push_str(&escaped(before));
        let mut depth = 1_usize;
        let end = behind.char_indices().find(|(_, letter)| {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let Some((end, _)) = end else { return out + &escaped(&rest[before.len()..]) };
        let inner = behind[..end].split_once(':').map_or(any, |(_, regex)| regex);
        out.push_str(&format!("(?:{inner})"));
        rest = &behind[end + 1..];
    }
    out + &escaped(rest)
}

/// Hosts that a `HostRegexp` takes, and whether it takes no fewer: names, `*.domain`, or `*` for all.
pub(super) fn host(text: &str) -> Option<(Vec<String>, bool)> {
    let is_template = text.contains("{")
        && text.split_once('{').is_some_and(|(_, it)| it.contains(':') || !it.contains(','));
    let regex = if is_template { template(text, "[^.]+") } else { text.to_owned() };
    let regex = regex.trim_start_matches('^').trim_end_matches('$').replace("(?i)", "");
    let plain = |text: &str| {
        let name = text.replace("\\.", ".").replace("\\-", "-");
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
        (is_name && !name.is_empty()).then(|| name.to_ascii_lowercase())
    };
    let bare = |part: &str| {
        let inner = part.strip_prefix("(?:").or_else(|| part.strip_prefix('('));
        inner.and_then(|inner| inner.strip_suffix(')')).unwrap_or(part).to_owned()
    };
    if let Some(name) = plain(&regex) {
        return Some((vec![name], true));
    }
    if matches!(bare(&regex).as_str(), ".+" | ".*") {
        return Some((vec!["*".to_owned()], true));
    }
    let (label, domain) = split_label(&regex)?;
    let domain = plain(domain)?;
    let label = bare(label);
    if matches!(label.as_str(), ".+" | ".*") {
        return Some((vec![format!("*.{domain}")], true));
    }
    let names: Option<Vec<String>> = label.split('|').map(plain).collect();
    if let Some(names) = names {
        return Some((names.into_iter().map(|name| format!("{name}.{domain}")).collect(), true));
    }
    let is_label = label.starts_with('[') && label.ends_with(['+', '*', '}']) && !label.contains('|');
    is_label.then(|| (vec![format!("*.{domain}")], false))
}

/// The first label, which is an expression, and the domain behind its dot.
fn split_label(regex: &str) -> Option<(&str, &str)> {
    let (mut depth, mut in_class, mut at) = (0_i32, false, 0);
    let bytes = regex.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b'[' => in_class = true,
            b']' => in_class = false,
            b'(' if !in_class => depth += 1,
            b')' if !in_class => depth -= 1,
            b'\\' if !in_class && depth == 0 && bytes.get(at + 1) == Some(&b'.') => {
                return Some((&regex[..at], &regex[at + 2..]));
            }
            b'\\' => at += 1,
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_hosts_become_names() {
        for (text, hosts, exact) in [
            (r"^.+\.example\.com$", "*.example.com", true),
            (r"^[a-z0-9-]+\.example\.com$", "*.example.com", false),
            ("{sub:[a-z]+}.example.com", "*.example.com", false),
            ("{sub:.+}.example.com", "*.example.com", true),
            (r"^(www|shop)\.example\.com$", "www.example.com shop.example.com", true),
            (".+", "*", true),
        ] {
            let (found, is_exact) = host(text).unwrap();
            assert_eq!((found.join(" ").as_str(), is_exact), (hosts, exact), "{text}");
        }
        assert_eq!(host(r"^a.*b$"), None);
    }

    #[test]
    fn common_paths() {
        let path = |it: &Path, other: &Path| it.and(other).unwrap();
        let prefix = |text: &str| Path::Prefix(text.into());
        assert_eq!(path(&prefix("/a"), &prefix("/ab")), Some(prefix("/ab")));
        assert_eq!(path(&prefix("/a"), &prefix("/b")), None);
        assert_eq!(path(&prefix("/a"), &Path::Exact("/abc".into())), Some(Path::Exact("/abc".into())));
        assert!(prefix("/a/b").and(&Path::Regex("/a/[0-9]+".into())).is_err());
        assert_eq!(path(&prefix("/b"), &Path::Regex("/a/[0-9]+".into())), None);
        assert_eq!(
            path(&prefix("/a"), &Path::Regex("/a/[0-9]+".into())),
            Some(Path::Regex("/a/[0-9]+".into()))
        );
    }
}
