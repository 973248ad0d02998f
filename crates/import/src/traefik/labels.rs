//! Labels of a compose file, `traefik.http.routers.NAME.rule=…`, as the tree that a dynamic file has.

use crate::node::{Kind, Node};

/// Whether this is a compose file.
pub(super) fn is_compose(root: &Node) -> bool {
    let services = root.get("services").map(Node::entries).unwrap_or_default();
    services.iter().any(|(_, service)| {
        ["image", "build", "labels", "deploy"].iter().any(|key| service.get(key).is_some())
    })
}

/// The tree of all labels, and what each compose service adds.
pub(super) fn tree(root: &Node) -> Node {
    let mut out = Node { line: 1, kind: Kind::Map(Vec::new()) };
    for (name, service) in root.get("services").map(Node::entries).unwrap_or_default() {
        let mut own = Node { line: service.line, kind: Kind::Map(Vec::new()) };
        for labels in [service.get("labels"), service.get("deploy").and_then(|it| it.get("labels"))] {
            for (key, value) in pairs(labels) {
                let mut way = key.split('.');
                if way.next().is_some_and(|first| first.eq_ignore_ascii_case("traefik")) {
                    put(&mut own, &way.collect::<Vec<_>>(), value);
                }
            }
        }
        if own.get("enable").is_some_and(|it| it.text().eq_ignore_ascii_case("false")) {
            own.kind = Kind::Map(own.entries().iter().filter(|(key, _)| key == "enable").cloned().collect());
        }
        complete(name, &mut own);
        join(&mut out, own);
    }
    out
}

fn pairs(labels: Option<&Node>) -> Vec<(String, Node)> {
    let Some(labels) = labels else { return Vec::new() };
    let filled = |text: &str| Kind::Text(text.replace("$$", "$"));
    match &labels.kind {
        Kind::Map(entries) => entries
            .iter()
            .map(|(key, node)| (key.clone(), Node { line: node.line, kind: filled(node.text()) }))
            .collect(),
        Kind::List(items) => items
            .iter()
            .map(|item| {
                let (key, value) = item.text().split_once('=').unwrap_or((item.text(), ""));
                (key.trim().to_owned(), Node { line: item.line, kind: filled(value.trim()) })
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Puts a value at its place; `name[0]` is an element of a list.
fn put(at: &mut Node, way: &[&str], value: Node) {
    let Some((first, rest)) = way.split_first() else { return };
    let (first, index) = match first.split_once('[') {
        Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
        None => (*first, None),
    };
    if !matches!(at.kind, Kind::Map(_)) {
        at.kind = Kind::Map(Vec::new());
    }
    let Kind::Map(entries) = &mut at.kind else { return };
    let found = entries.iter().position(|(known, _)| known.eq_ignore_ascii_case(first));
    let place = found.unwrap_or_else(|| {
        entries.push((first.to_owned(), Node { line: value.line, kind: Kind::Null }));
        entries.len() - 1
    });
    let Some((_, mut inner)) = entries.get_mut(place).map(|(key, node)| (key, node)) else { return };
    if let Some(index) = index.filter(|index| *index < 100) {
        if !matches!(inner.kind, Kind::List(_)) {
            inner.kind = Kind::List(Vec::new());
        }
        let Kind::List(items) = &mut inner.kind else { return };
        while items.len() <= index {
            items.push(Node { line: value.line, kind: Kind::Null });
        }
        inner = &mut items[index];
    }
    match rest {
        [] => *inner = value,
        _ => put(inner, rest, value),
    }
}

/// Servers of a container's services, and the only service of its routers.
fn complete(name: &str, own: &mut Node) {
    let Kind::Map(top) = &mut own.kind else { return };
    let Some((_, http)) = top.iter_mut().find(|(key, _)| key.eq_ignore_ascii_case("http")) else { return };
    let has_routers = http.get("routers").is_some();
    if has_routers && http.get("services").is_none() {
        let port = Node { line: http.line, kind: Kind::Text("80".to_owned()) };
        put(http, &["services", name, "loadbalancer", "server", "port"], port);
    }
    let services: Vec<String> = http
        .get("services")
        .map(Node::entries)
        .unwrap_or_default()
        .iter()
        .map(|(key, _)| key.clone())
        .collect();
    for service in &services {
        let Some(balancer) =
            http.get("services").and_then(|it| it.get(service)?.get("loadbalancer")).cloned()
        else {
            continue;
        };
        let server = balancer.get("server").cloned().unwrap_or_default();
        let scheme = server.get("scheme").map_or("http", Node::text).to_owned();
        let port = server.get("port").map_or("80", Node::text).to_owned();
        let line = server.get("port").map_or(balancer.line, |it| it.line);
        let url = match server.get("url") {
            Some(url) => url.text().to_owned(),
            None => format!("{scheme}://{name}:{port}"),
        };
        let url = Node { line, kind: Kind::Text(url) };
        put(http, &["services", service, "loadbalancer", "servers[0]", "url"], url);
    }
    let [only] = services.as_slice() else { return };
    let routers: Vec<(String, usize)> = http
        .get("routers")
        .map(Node::entries)
        .unwrap_or_default()
        .iter()
        .filter(|(_, router)| router.get("service").is_none())
        .map(|(key, router)| (key.clone(), router.line))
        .collect();
    for (router, line) in routers {
        put(http, &["routers", &router, "service"], Node { line, kind: Kind::Text(only.clone()) });
    }
}

/// Adds what another container says.
fn join(into: &mut Node, other: Node) {
    let (Kind::Map(mine), Kind::Map(theirs)) = (&mut into.kind, other.kind) else { return };
    for (key, node) in theirs {
        match mine.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&key)) {
            Some((_, known)) => {
                if matches!((&known.kind, &node.kind), (Kind::Map(_), Kind::Map(_))) {
                    join(known, node);
                } else if key == "servers" {
                    if let (Kind::List(mine), Kind::List(theirs)) = (&mut known.kind, node.kind) {
                        mine.extend(theirs);
                    }
                }
            }
            None => mine.push((key, node)),
        }
    }
}
