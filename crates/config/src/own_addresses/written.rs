//! Addresses anywhere in an arriving text: of keys, lists, webhooks, collectors and registries that the process
//! itself connects to.
//!
//! Every scalar that is a URL or a host with a port is checked, so a new setting needs no entry in a list. Host names
//! other than `localhost` are checked when the process connects (`thalweg_client::keep_off`).

use crate::api_restrictions::Breach;
use crate::parse::{Kind, Node};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use thalweg_proxy::plan::{Barred, OwnAddresses, is_localhost};
use thalweg_upstream::Address;

/// Sections whose addresses are listening addresses or examples.
const NOT_ASKED: &[&str] = &["listeners", "admin", "metrics", "tests"];
/// Default ports of URL schemes.
const PORTS: &[(&str, u16)] = &[("http", 80), ("https", 443), ("redis", 6379), ("rediss", 6379)];

/// An address in a text that arrived and that only the file may name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WrittenAddress {
    /// Path of the key, as in `webhooks[0].url`.
    pub key: String,
    /// Why the address is forbidden.
    pub barred: Barred,
}

/// Addresses in `arrived` that are the admin API or the metrics of a process with the addresses `own`, or link-local,
/// and that the text on disk does not have under the same key.
pub fn written_addresses(on_disk: &Node, arrived: &Node, own: &[OwnAddresses]) -> Vec<WrittenAddress> {
    let mut known = HashSet::new();
    scalars(on_disk, &mut Vec::new(), &mut |path, text, _| {
        known.insert((last_key(path), text.to_owned()));
    });
    let mut found = Vec::new();
    scalars(arrived, &mut Vec::new(), &mut |path, text, _| {
        let barred = address_in(text).and_then(|address| {
            let bars = own.iter().find_map(|own| own.bars(&address, false));
            bars.filter(|barred| *barred != Barred::Listener)
        });
        if let Some(barred) = barred.filter(|_| !known.contains(&(last_key(path), text.to_owned()))) {
            found.push(WrittenAddress { key: key(path), barred });
        }
    });
    found
}

/// Link-local addresses in a document.
pub(crate) fn link_local_in(tree: &Node) -> Vec<Breach> {
    let (mut found, none) = (Vec::new(), OwnAddresses::default());
    scalars(tree, &mut Vec::new(), &mut |path, text, node| {
        if address_in(text).is_some_and(|address| none.bars(&address, false).is_some()) {
            found.push(Breach { key: key(path), span: node.span });
        }
    });
    found
}

/// One step from a value to a value inside it.
#[derive(Clone)]
enum Step<'a> {
    Key(&'a str),
    Item(usize),
}

fn key(path: &[Step<'_>]) -> String {
    let each = path.iter().enumerate().map(|(at, step)| match step {
        Step::Key(name) if at == 0 => (*name).to_owned(),
        Step::Key(name) => format!(".{name}"),
        Step::Item(item) => format!("[{item}]"),
    });
    each.collect()
}

fn last_key(path: &[Step<'_>]) -> String {
    let last = path.iter().rev().find_map(|step| match step {
        Step::Key(name) => Some(*name),
        Step::Item(_) => None,
    });
    last.unwrap_or_default().to_owned()
}

/// Every text of a tree, except in the sections of [`NOT_ASKED`].
fn scalars<'a>(
    node: &'a Node,
    path: &mut Vec<Step<'a>>,
    found: &mut dyn FnMut(&[Step<'a>], &'a str, &'a Node),
) {
    match &node.kind {
        Kind::Str(text) => found(path, text, node),
        Kind::Seq(items) => {
            for (at, item) in items.iter().enumerate() {
                path.push(Step::Item(at));
                scalars(item, path, found);
                path.pop();
            }
        }
        Kind::Map(entries) => {
            let is_top = path.is_empty();
            let asked = entries.iter().filter(|(key, _)| !is_top || !NOT_ASKED.contains(&key.name.as_str()));
            for (key, value) in asked {
                path.push(Step::Key(&key.name));
                scalars(value, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The address in a URL or in a host with a port, if the host is an IP address or `localhost`.
fn address_in(text: &str) -> Option<Address> {
    let text = text.trim();
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let usual = scheme.and_then(|scheme| {
        PORTS.iter().find(|(name, _)| scheme.eq_ignore_ascii_case(name)).map(|(_, port)| *port)
    });
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, port.strip_prefix(':'))
        }
        None => match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    // Without a scheme, only a port distinguishes a target address from a network.
    let port = match port {
        Some(port) => port.parse().ok()?,
        None => usual?,
    };
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Some(Address::Socket(SocketAddr::new(ip, port)));
    }
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    is_localhost(&host).then(|| Address::Name { host: host.into(), port })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::Problems;
    use crate::parse::{Format, parse};
    use crate::source::Sources;
    use thalweg_sealed::reach::Own;

    fn tree(text: &str) -> Node {
        let (mut sources, mut problems) = (Sources::default(), Problems::default());
        let file = sources.add("t.yaml", text);
        parse(file, Format::of("t.yaml"), &sources, &mut problems).unwrap()
    }

    fn keys(on_disk: &str, arrived: &str) -> Vec<String> {
        let own = |address: &str| Own::new([address.parse().unwrap()]).into();
        let own = OwnAddresses::new(own("127.0.0.1:8080"), Default::default(), own("127.0.0.1:9900"));
        let found = written_addresses(&tree(on_disk), &tree(arrived), &[own]);
        found.into_iter().map(|found| found.key).collect()
    }

    #[test]
    fn addresses_that_control_asks_are_found_wherever_they_stand() {
        for (text, key) in [
            ("webhooks: [ { url: 'http://127.0.0.1:9900/x' } ]", "webhooks[0].url"),
            ("webhooks: [ { url: 'HTTP://LOCALHOST.:9900/x?y' } ]", "webhooks[0].url"),
            ("lists: { a: { url: 'http://u:p@[::ffff:127.0.0.1]:9900' } }", "lists.a.url"),
            ("lists: { a: { url: 'http://169.254.169.254/latest' } }", "lists.a.url"),
            ("a: { redis: 'redis://169.254.1.1' }", "a.redis"),
            ("a: { servers: [ 'x:1', '127.0.0.1:9900' ] }", "a.servers[1]"),
        ] {
            assert_eq!(keys("routes: []", text), [key], "{text}");
            assert_eq!(keys(text, text), Vec::<String>::new(), "the file has it: {text}");
        }
    }

    #[test]
    fn what_is_no_address_to_ask_is_left_alone() {
        for text in [
            "webhooks: [ { url: 'http://127.0.0.1:8080/' } ]",
            "webhooks: [ { url: 'http://hooks.test:9900/' } ]",
            "metrics: { address: '127.0.0.1:9900' }",
            "listeners: { a: { address: '127.0.0.1:9900' } }",
            "routes: [ { match: { path: /169.254.169.254 }, access: { allow: [ 169.254.1.1, 169.254.0.0/16 ] } } ]",
            "trusted_proxies: [ '127.0.0.1', '::1' ]",
        ] {
            assert_eq!(keys("routes: []", text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn a_document_names_no_link_local_address() {
        let found = link_local_in(&tree("chains: { a: [ { auth: { url: 'http://169.254.169.254/' } } ] }"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].key, "chains.a[0].auth.url");
        assert!(link_local_in(&tree("services: { a: { endpoints: 'http://10.0.0.1:1' } }")).is_empty());
    }
}
