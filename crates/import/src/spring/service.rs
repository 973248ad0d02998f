//! Routes: predicates, filters and the `uri` of each as a branch.

use super::filters::Done;
use super::predicates::condition;
use super::{Call, Importer, Registry, find, items};
use crate::Grade;
use crate::branch::{Branch, Condition, Content};
use crate::document::Node;
use crate::draft::{To, duration, literal};
use crate::yaml::{Map, one, one_or_many};

/// Milliseconds of `5s`, `PT5S`, or a number of them.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let lower = text.trim_start_matches("PT").to_ascii_lowercase();
    let end = lower.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(lower.len());
    let number: u64 = lower[..end].parse().ok()?;
    let factor = match &lower[end..] {
        "" | "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Bytes of `5MB`, which Spring counts by 1024.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let factor: u64 = match &text[end..] {
        "" | "B" => 1,
        "KB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

impl Importer {
    /// Routes of a group of `Weight` are one, with parts.
    pub(super) fn weighted(&mut self, routes: &mut Vec<Node>) {
        let weight = |route: &Node| {
            let calls = find(route, "predicates").map(items).unwrap_or_default();
            let call = calls.iter().map(Call::parse).find(|call| call.name == "Weight")?;
            let part = call.arg("weight", 1)?.text().parse::<u64>().ok()?;
            Some((call.arg("group", 0)?.text().to_owned(), part))
        };
        let rest = |route: &Node| {
            let texts = |key: &str, but: &str| {
                let calls = find(route, key).map(items).unwrap_or_default();
                let calls = calls.iter().map(Call::parse).filter(|call| call.name != but);
                calls.map(|call| call.text).collect::<Vec<_>>()
            };
            (texts("predicates", "Weight"), texts("filters", ""))
        };
        let mut kept: Vec<Node> = Vec::new();
        for route in std::mem::take(routes) {
            let Some((group, part)) = weight(&route) else {
                kept.push(route);
                continue;
            };
            let first = kept.iter().find(|known| {
                weight(known).is_some_and(|(other, _)| other == group) && rest(known) == rest(&route)
            });
            let uri = find(&route, "uri").map_or("", |uri| uri.text()).to_owned();
            match first {
                Some(first) => {
                    let at = self.splits.iter_mut().find(|(place, _)| *place == first.place);
                    if let Some((_, parts)) = at {
                        parts.push((uri, part));
                    }
                    self.told_exact(&route);
                }
                None => {
                    self.splits.push((route.place.clone(), vec![(uri, part)]));
                    kept.push(route);
                }
            }
        }
        *routes = kept;
    }

    /// All lines of a route that another one stands for.
    fn told_exact(&mut self, route: &Node) {
        for (key, node) in route.entries() {
            for item in items(node) {
                let call = Call::parse(&item);
                self.report.exact(&call.place, call.text);
            }
            self.report.exact(&node.place, format!("{key}: {}", node.shown()));
        }
    }

    /// One route.
    pub(super) fn route(&mut self, route: &Node) {
        let id = find(route, "id").map_or("route", |node| node.text()).to_owned();
        let concerns = format!("requests to {id}");
        let mut condition_of_all = Condition::default();
        let mut refused: Option<String> = None;
        for item in find(route, "predicates").map(items).unwrap_or_default() {
            let call = Call::parse(&item);
            if call.name == "Weight" {
                self.report.exact(&call.place, call.text.as_str());
                continue;
            }
            let told = condition(&call).and_then(|(condition, about)| {
                let both = condition_of_all.and(&condition)?;
                Ok((both.ok_or_else(|| "its predicates contradict each other".to_owned())?, about))
            });
            match told {
                Ok((both, about)) => {
                    condition_of_all = both;
                    let grade = if about.is_empty() { Grade::Exact } else { Grade::Near };
                    self.report.note(&call.place, call.text.as_str(), grade, about, "");
                }
                Err(why) => {
                    let about = format!("{why}; requests that the others take are answered 501");
                    self.report.note(&call.place, call.text.as_str(), Grade::Lost, about, concerns.as_str());
                    refused = Some(why);
                }
            }
        }
        let mut done = Done::default();
        let own = find(route, "filters").map(items).unwrap_or_default();
        for item in self.shared.clone().into_iter().chain(own) {
            let call = Call::parse(&item);
            let (grade, about) = match done.take(&call, &condition_of_all) {
                Ok((grade, about)) => (grade, about.to_owned()),
                Err(why) => {
                    let about = format!("{why}; requests are answered 501");
                    refused = Some(why);
                    (Grade::Lost, about)
                }
            };
            let concerns = if grade == Grade::Exact { "" } else { &concerns };
            self.report.note(&call.place, call.text.as_str(), grade, about, concerns);
        }
        let content = self.content(route, &id, done, refused);
        self.places.push(route.place.clone());
        self.branches.push(Branch { condition: condition_of_all, content, is_guarded: false });
    }

    fn content(&mut self, route: &Node, id: &str, mut done: Done, mut refused: Option<String>) -> Content {
        let mut content = Content { notes: vec![id.to_owned()], ..Content::default() };
        content.filters.clone_from(&self.cors);
        let mut is_exact_metadata = true;
        for (key, node) in route.entries() {
            match key.as_str() {
                "metadata" => {
                    for (key, value) in node.entries() {
                        let name =
                            if super::same(key, "response-timeout") { "first_byte" } else { "connect" };
                        let is_known = super::same(key, "connect-timeout") || name == "first_byte";
                        match milliseconds(value.text()).filter(|_| is_known) {
                            Some(time) => content.timeouts.put(name, duration(time.max(1))),
                            None => is_exact_metadata = false,
                        }
                        let grade = if is_exact_metadata { Grade::Exact } else { Grade::Lost };
                        self.report.note(&value.place, format!("{key}: {}", value.shown()), grade, "", "");
                    }
                }
                "id" | "uri" | "order" | "predicates" | "filters" => {
                    self.report.exact(&node.place, format!("{key}: {}", node.shown()));
                }
                _ => self.report.note(
                    &node.place,
                    format!("{key}: {}", node.shown()),
                    Grade::Lost,
                    "it has no counterpart",
                    "",
                ),
            }
        }
        let parts =
            self.splits.iter().find(|(place, _)| *place == route.place).map(|(_, parts)| parts.clone());
        let uri = find(route, "uri").map_or("", |node| node.text()).to_owned();
        let parts = parts.unwrap_or_else(|| vec![(uri.clone(), 1)]);
        let mut to = Vec::new();
        for (uri, part) in parts.iter().filter(|_| !done.answers) {
            match self.destination(uri, &done, id) {
                Ok(name) => to.push((name, *part)),
                Err(why) => {
                    let about = format!("{why}; requests are answered 501");
                    self.report.note(&route.place, format!("uri: {uri}"), Grade::Lost, about, id);
                    refused = Some(why);
                }
            }
        }
        if let Some(why) = refused {
            content.notes.push(format!("NOT TAKEN OVER: {why}"));
            let body = format!("501 Not Implemented: {why}\n");
            content.filters.push(one("respond", one("status", 501_u16).with("body", literal(&body))));
            return content;
        }
        let is_moved =
            done.filters.iter().any(|it| it.get("strip_prefix").is_some() || it.get("rewrite").is_some());
        let is_mapped = done.filters.iter().any(|it| it.get("map_back").is_some());
        content.filters.append(&mut done.filters);
        if is_moved && !is_mapped && !to.is_empty() {
            content.filters.push(one("map_back", false));
        }
        content.to = match to.len() {
            0 => To::Nowhere,
            1 => To::Service(to.remove(0).0),
            _ => To::Split(to),
        };
        content
    }

    /// The service of a `uri`.
    fn destination(&mut self, uri: &str, done: &Done, id: &str) -> Result<String, String> {
        let (scheme, rest) = uri.split_once("://").unwrap_or((uri.split(':').next().unwrap_or_default(), ""));
        let host = rest.split('/').next().unwrap_or_default();
        let mut service = Map::default();
        let name = match scheme {
            "http" | "https" | "ws" | "wss" if !host.is_empty() => {
                let is_secure = matches!(scheme, "https" | "wss");
                let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
                let port = if is_secure { 443 } else { 80 };
                let host = if has_port { host.to_owned() } else { format!("{host}:{port}") };
                let scheme = if is_secure { "https" } else { "http" };
                service.put("endpoints", format!("{scheme}://{host}"));
                if is_secure && self.insecure {
                    service.put("tls", one("insecure_skip_verify", true));
                }
                if crate::yaml::shown(&host) == host {
                    host.replace([':', '[', ']'], "-")
                } else {
                    id.to_owned()
                }
            }
            "lb" if !host.is_empty() => {
                let source = match &self.registry {
                    Registry::Consul(url) => one("consul", one("service", host).with("url", url.as_str())),
                    Registry::Eureka(urls) if !urls.is_empty() => {
                        one("eureka", one("app", host).with("url", one_or_many(urls.clone())))
                    }
                    _ => one("eureka", one("app", host)),
                };
                service.put("discover", source);
                host.to_owned()
            }
            "lb" => return Err("it names no service".to_owned()),
            other => return Err(format!("`{other}:` leads to a handler of the program")),
        };
        service.put("host", if done.keeps_host { "keep" } else { "endpoint" });
        service.put("ejection", "off");
        if !done.retry.is_empty() {
            service.put("retry", done.retry.clone());
        }
        if done.breaker {
            service.put("breaker", true);
        }
        Ok(self.draft.service(&name, &service))
    }
}
