//! Labels of a compose file, `traefik.http.routers.NAME.rule=…`, as the tree of a dynamic file; and options of the
//! container that is Traefik, `--entrypoints.web.address=:80`, as that of a static one.

use super::{Outcome, exact, get, near, text};
use crate::document::{Content, Node};

/// Elements that a list of labels may have.
const LIST: usize = 100;

/// What a compose file says of Traefik.
#[derive(Debug)]
pub(super) struct Labels {
    /// As a dynamic file has it.
    pub(super) root: Node,
    /// Labels that are no part of them, with what has become of them.
    pub(super) noted: Vec<(String, Node, Outcome)>,
}

/// Whether this is a compose file.
pub(super) fn is_compose(root: &Node) -> bool {
    let services = get(root, "services").map(Node::entries).unwrap_or_default();
    services.iter().any(|(_, service)| {
        ["image", "build", "labels", "deploy"].iter().any(|key| get(service, key).is_some())
    })
}

/// Whether a static file says that containers are exposed that do not say so.
pub(super) fn is_exposed_by_default(roots: &[Node]) -> bool {
    let docker = roots.iter().find_map(|root| get(get(root, "providers")?, "docker"));
    docker.and_then(|docker| text(docker, "exposedByDefault")).is_none_or(|text| text != "false")
}

/// Options of containers that are Traefik.
pub(super) fn options(root: &Node) -> Option<Node> {
    let mut out = empty(root);
    for (_, service) in get(root, "services").map(Node::entries).unwrap_or_default() {
        let Some(command) = get(service, "command") else { continue };
        let words: Vec<(String, Node)> = match &command.content {
            Content::List(list) => list.iter().map(|word| (word.text().to_owned(), word.clone())).collect(),
            _ => command.text().split_whitespace().map(|word| (word.to_owned(), command.clone())).collect(),
        };
        let is_traefik = |word: &str| {
            let word = word.to_ascii_lowercase();
            word.starts_with("--providers.") || word.starts_with("--entrypoints.")
        };
        if !words.iter().any(|(word, _)| is_traefik(word)) {
            continue;
        }
        for (word, node) in words {
            let Some(option) = word.strip_prefix("--") else { continue };
            let (name, value) = option.split_once('=').unwrap_or((option, "true"));
            put(&mut out, &name.split('.').collect::<Vec<_>>(), said(&node, value));
        }
    }
    (!out.entries().is_empty()).then_some(out)
}

/// The labels of all containers.
pub(super) fn labels(root: &Node, is_exposed: bool) -> Labels {
    let mut all = Labels { root: empty(root), noted: Vec::new() };
    for (name, service) in get(root, "services").map(Node::entries).unwrap_or_default() {
        let mut own = empty(service);
        let mut is_mine = is_exposed;
        let mut found = Vec::new();
        for list in [get(service, "labels"), get(service, "deploy").and_then(|it| get(it, "labels"))] {
            found.extend(pairs(list));
        }
        for (key, value) in found {
            let way: Vec<&str> = key.split('.').collect();
            match way.as_slice() {
                [first, enable] if is(first, "traefik") && is(enable, "enable") => {
                    is_mine = value.text().eq_ignore_ascii_case("true");
                    all.noted.push((key, value, exact()));
                }
                [first, rest @ ..] if is(first, "traefik") => put(&mut own, rest, value),
                _ => {}
            }
        }
        if is_mine {
            all.complete(name, &mut own);
            join(&mut all.root, own);
        } else {
            all.noted.extend(leaves(&own).into_iter().map(|(key, node)| (key, node, exact())));
        }
    }
    all
}

fn is(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
}

fn empty(at: &Node) -> Node {
    Node { place: at.place.clone(), content: Content::Map(Vec::new()) }
}

/// A text at the place of another one.
fn said(at: &Node, text: &str) -> Node {
    Node { place: at.place.clone(), content: Content::Text(text.to_owned()) }
}

/// Labels with their values; `$$` is a `$` in compose files.
fn pairs(labels: Option<&Node>) -> Vec<(String, Node)> {
    match labels.map(|labels| &labels.content) {
        Some(Content::Map(entries)) => entries
            .iter()
            .map(|(key, node)| (key.clone(), said(node, &node.text().replace("$$", "$"))))
            .collect(),
        Some(Content::List(list)) => list
            .iter()
            .map(|node| {
                let (key, value) = node.text().split_once('=').unwrap_or((node.text(), ""));
                (key.trim().to_owned(), said(node, &value.trim().replace("$$", "$")))
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// All texts of a tree, with their keys.
fn leaves(node: &Node) -> Vec<(String, Node)> {
    let mut out = Vec::new();
    for (key, inner) in node.entries() {
        match &inner.content {
            Content::Text(_) => out.push((key.clone(), inner.clone())),
            _ => out.extend(leaves(inner)),
        }
    }
    out
}

/// Puts a value at its place; `name[0]` is an element of a list.
fn put(at: &mut Node, way: &[&str], value: Node) {
    let Some((first, rest)) = way.split_first() else { return };
    let (first, index) = match first.split_once('[') {
        Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
        None => (*first, None),
    };
    if !matches!(at.content, Content::Map(_)) {
        at.content = Content::Map(Vec::new());
    }
    let Content::Map(entries) = &mut at.content else { return };
    let found = entries.iter().position(|(known, _)| is(known, first));
    let place = found.unwrap_or_else(|| {
        entries.push((first.to_owned(), said(&value, "")));
        entries.len() - 1
    });
    let Some((_, mut inner)) = entries.get_mut(place).map(|(key, node)| (key, node)) else { return };
    if let Some(index) = index.filter(|index| *index < LIST) {
        if !matches!(inner.content, Content::List(_)) {
            inner.content = Content::List(Vec::new());
        }
        let Content::List(list) = &mut inner.content else { return };
        while list.len() <= index {
            list.push(said(&value, ""));
        }
        inner = &mut list[index];
    }
    match rest {
        [] => *inner = value,
        _ => put(inner, rest, value),
    }
}

/// Adds what another container says.
fn join(into: &mut Node, other: Node) {
    let (Content::Map(mine), Content::Map(theirs)) = (&mut into.content, other.content) else { return };
    for (key, node) in theirs {
        let Some((_, known)) = mine.iter_mut().find(|(known, _)| is(known, &key)) else {
            mine.push((key, node));
            continue;
        };
        match (&mut known.content, node.content) {
            (Content::List(mine), Content::List(theirs)) if is(&key, "servers") => mine.extend(theirs),
            (Content::Map(_), content @ Content::Map(_)) => join(known, Node { place: node.place, content }),
            _ => {}
        }
    }
}

impl Labels {
    /// Servers of a container's services, and the only service of its routers.
    fn complete(&mut self, name: &str, own: &mut Node) {
        let has = |own: &Node, part: &str| get(own, "http").is_some_and(|http| get(http, part).is_some());
        if has(own, "routers") && !has(own, "services") {
            let place = said(own, "");
            put(own, &["http", "services", name, "loadbalancer"], empty(&place));
        }
        let Content::Map(top) = &mut own.content else { return };
        let Some((_, http)) = top.iter_mut().find(|(key, _)| is(key, "http")) else { return };
        let names = |http: &Node, part: &str| -> Vec<(String, Node)> {
            get(http, part).map(|node| node.entries().to_vec()).unwrap_or_default()
        };
        let services = names(http, "services");
        for (service, node) in &services {
            if let Some(balancer) = get(node, "loadBalancer") {
                let servers = self.servers(name, balancer);
                put(http, &["services", service, "loadbalancer"], servers);
            }
        }
        let [(only, _)] = services.as_slice() else { return };
        for (router, node) in names(http, "routers") {
            if get(&node, "service").is_none() {
                put(http, &["routers", &router, "service"], said(&node, only));
            }
        }
    }

    /// A `loadbalancer` whose `server` is a list of one.
    fn servers(&mut self, name: &str, balancer: &Node) -> Node {
        let server = get(balancer, "server");
        let entries = server.map(|server| server.entries().to_vec()).unwrap_or_default();
        let place = server.unwrap_or(balancer);
        let part = |key: &str| server.and_then(|server| text(server, key));
        let url = match (part("url"), part("port")) {
            (Some(url), _) => url.to_owned(),
            (None, port) => format!("{}://{name}:{}", part("scheme").unwrap_or("http"), port.unwrap_or("80")),
        };
        if part("url").is_none() && part("port").is_none() {
            let about = "the port of the container is not written: it is taken for 80";
            self.noted.push(("loadbalancer".to_owned(), place.clone(), near(about)));
        }
        let mut one = empty(place);
        put(&mut one, &["url"], said(place, &url));
        for (key, node) in entries {
            match key.to_ascii_lowercase().as_str() {
                "url" | "port" | "scheme" => self.noted.push((key, node, exact())),
                _ => put(&mut one, &[&key], node),
            }
        }
        let mut out = empty(balancer);
        let list = Node { place: place.place.clone(), content: Content::List(vec![one]) };
        put(&mut out, &["servers"], list);
        for (key, node) in balancer.entries().iter().filter(|(key, _)| !is(key, "server")) {
            put(&mut out, &[key], node.clone());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::is_on;
    use super::*;
    use crate::document::documents;

    fn read(text: &str) -> Labels {
        labels(&documents(text, "compose.yml").unwrap()[0], true)
    }

    #[test]
    fn labels_become_the_tree_of_a_dynamic_file() {
        let text = "services:\n  shop:\n    image: x\n    labels:\n      - traefik.http.routers.a.rule=Host(`a`)\n      \
                    - traefik.http.routers.a.tls.domains[0].main=a\n      - other=1\n";
        let found = read(text);
        let http = get(&found.root, "http").unwrap();
        let router = get(get(http, "routers").unwrap(), "a").unwrap();
        let rule = get(router, "rule").unwrap();
        assert_eq!((rule.text(), rule.place.line, text_of(router, "service")), ("Host(`a`)", 5, "shop"));
        let domains = get(get(router, "tls").unwrap(), "domains").unwrap().members();
        assert_eq!(text_of(&domains[0], "main"), "a");
        let balancer = get(get(get(http, "services").unwrap(), "shop").unwrap(), "loadbalancer").unwrap();
        assert_eq!(text_of(&get(balancer, "servers").unwrap().members()[0], "url"), "http://shop:80");
        assert_eq!(found.noted.len(), 1);
    }

    fn text_of<'a>(node: &'a Node, key: &str) -> &'a str {
        text(node, key).unwrap_or_default()
    }

    #[test]
    fn containers_that_are_not_exposed_say_nothing() {
        let text = "services:\n  shop:\n    labels:\n      traefik.enable: \"false\"\n      traefik.http.routers.a.rule: x\n";
        let found = read(text);
        assert!(found.root.entries().is_empty());
        assert_eq!(found.noted.len(), 2);
        let root =
            &documents("services: { a: { labels: [ traefik.http.routers.a.rule=x ] } }", "x").unwrap()[0];
        assert!(labels(root, false).root.entries().is_empty());
    }

    #[test]
    fn options_of_traefik_are_a_static_file() {
        let text = "services:\n  proxy:\n    image: traefik\n    command:\n      - --entrypoints.web.address=:80\n      \
                    - --api\n";
        let root = options(&documents(text, "x").unwrap()[0]).unwrap();
        let web = get(get(&root, "entryPoints").unwrap(), "web").unwrap();
        assert_eq!(text_of(web, "address"), ":80");
        assert!(is_on(&root, "api"));
    }
}
