//! Addresses anywhere in an arriving text: of keys, lists, webhooks, collectors and registries that the process
//! itself connects to.
//!
//! Every scalar that is a URL or a host with a port is checked, so a new setting needs no entry in a list. Where the
//! schema expects an address, it may have no port. Host names other than `localhost` are checked when the process
//! connects (`thalweg_client::keep_off`).

use crate::api_restrictions::Breach;
use crate::parse::{Kind, Node};
use crate::schema::Place;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use thalweg_proxy::plan::{Barred, OwnAddresses, is_localhost};
use thalweg_upstream::Address;

/// Sections whose addresses are listening addresses or examples.
const NOT_ASKED: &[&str] = &["listeners", "admin", "metrics", "tests"];
/// Sections of services and routes with addresses that clients' requests go to.
const OF_REQUESTS: &[&str] = &["endpoints", "to"];
/// Default ports of URL schemes.
const PORTS: &[(&str, u16)] = &[("http", 80), ("https", 443), ("redis", 6379), ("rediss", 6379)];
/// The port of name servers, the only addresses that are written without a scheme or a port.
const DNS: u16 = 53;

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
    scalars(on_disk, &mut Walk::default(), &mut |path, text, _| {
        known.insert((last_key(path.steps), text.to_owned()));
    });
    let mut found = Vec::new();
    scalars(arrived, &mut Walk::default(), &mut |at, text, _| {
        let path = at.steps;
        let barred = at.address_in(text).and_then(|address| {
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
    scalars(tree, &mut Walk::default(), &mut |at, text, node| {
        if at.address_in(text).is_some_and(|address| none.bars(&address, false).is_some()) {
            found.push(Breach { key: key(at.steps), span: node.span });
        }
    });
    found
}

/// An address that the process itself asks: of a registry, a set of keys, a list.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    /// Path of the key.
    pub(crate) key: String,
    /// As written.
    pub(crate) text: String,
    /// Host and port; host names are not resolved.
    pub(crate) address: Address,
    /// The path of a URL.
    pub(crate) path: String,
}

/// The addresses that the process itself asks, by the marks of the schema. Endpoints are not among them.
pub(crate) fn called_addresses(tree: &Node) -> Vec<Called> {
    let mut found = Vec::new();
    scalars(tree, &mut Walk::default(), &mut |at, text, _| {
        let is_of_requests = at.steps.iter().take(3).any(|step| match step {
            Step::Key(name) => OF_REQUESTS.contains(name),
            Step::Item(_) => false,
        });
        if at.is_address && !is_of_requests {
            found.extend(called(key(at.steps), text));
        }
    });
    found
}

/// The address in this text, which is one that the process asks.
pub(crate) fn called(key: String, text: &str) -> Option<Called> {
    let Written { host, port, path } = Written::read(text)?;
    let (address, path) = (address(host, port.unwrap_or(DNS)), path.to_owned());
    Some(Called { key, text: text.to_owned(), address, path })
}

/// A position in a tree.
#[derive(Default)]
struct Walk<'a> {
    steps: Vec<Step<'a>>,
    place: Place,
    is_address: bool,
}

/// A position, to look at.
struct At<'w, 'a> {
    steps: &'w [Step<'a>],
    /// The schema expects an address here.
    is_address: bool,
}

impl At<'_, '_> {
    /// The address in a URL or in a host with a port, if the host is an IP address or `localhost`.
    fn address_in(&self, text: &str) -> Option<Address> {
        let Written { host, port, .. } = Written::read(text)?;
        // Elsewhere, only a port distinguishes a target address from a network.
        let port = port.or(self.is_address.then_some(DNS))?;
        let address = address(host, port);
        let is_known = match &address {
            Address::Name { host, .. } => is_localhost(host),
            Address::Socket(_) | Address::Unix(_) => true,
        };
        is_known.then_some(address)
    }
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
fn scalars<'a>(node: &'a Node, walk: &mut Walk<'a>, found: &mut dyn FnMut(At<'_, 'a>, &'a str, &'a Node)) {
    let mut inside = |walk: &mut Walk<'a>, step: Step<'a>, place: Place, node: &'a Node| {
        walk.steps.push(step);
        let is_address = walk.is_address || place.marks.address;
        let mut below = Walk { steps: std::mem::take(&mut walk.steps), place, is_address };
        scalars(node, &mut below, found);
        walk.steps = below.steps;
        walk.steps.pop();
    };
    match &node.kind {
        Kind::Str(text) => found(At { steps: &walk.steps, is_address: walk.is_address }, text, node),
        Kind::Seq(items) => {
            for (at, item) in items.iter().enumerate() {
                let place = walk.place.item(item);
                inside(walk, Step::Item(at), place, item);
            }
        }
        Kind::Map(entries) => {
            let is_top = walk.steps.is_empty();
            let asked = entries.iter().filter(|(key, _)| !is_top || !NOT_ASKED.contains(&key.name.as_str()));
            for (key, value) in asked {
                let place = walk.place.key(&key.name, value);
                inside(walk, Step::Key(&key.name), place, value);
            }
        }
        _ => {}
    }
}

/// The parts of a URL, or of a host with or without a port.
struct Written<'a> {
    host: &'a str,
    /// As written, or else that of the scheme.
    port: Option<u16>,
    path: &'a str,
}

impl<'a> Written<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let text = text.trim();
        if text.parse::<IpAddr>().is_ok() {
            return Some(Self { host: text, port: None, path: "" });
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, text),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
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
        let port = match port {
            Some(port) => Some(port.parse().ok()?),
            None => usual,
        };
        Some(Self { host, port, path })
    }
}

fn address(host: &str, port: u16) -> Address {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Address::Socket(SocketAddr::new(ip, port));
    }
    Address::Name { host: host.trim_end_matches('.').to_ascii_lowercase().into(), port }
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
            ("webhooks: [ { url: 'http://localhost4:9900/' } ]", "webhooks[0].url"),
            (
                "services: { a: { discover: { dns: { name: b, resolvers: 169.254.169.254 } } } }",
                "services.a.discover.dns.resolvers",
            ),
            (
                "services: { a: { discover: { dns: { name: b, resolvers: [ 10.0.0.1, 'fe80::1' ] } } } }",
                "services.a.discover.dns.resolvers[1]",
            ),
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
        let resolvers = |address: &str| {
            let text = format!(
                "services: {{ a: {{ discover: {{ dns: {{ name: b, port: 1, resolvers: {address} }} }} }} }}"
            );
            link_local_in(&tree(&text)).len()
        };
        assert_eq!(
            ["169.254.169.254", "'169.254.1.1:53'", "10.0.0.1", "ns.test"].map(resolvers),
            [1, 1, 0, 0]
        );
    }

    #[test]
    fn addresses_that_the_process_asks_are_told_from_endpoints() {
        let text = "\
services:
  a: { endpoints: [ 'http://10.0.0.1:1', { url: 'http://10.0.0.2:1' } ] }
  b: { discover: { consul: { service: b, url: 'http://10.0.0.3:8500/x' } } }
  c: { discover: { dns: { name: c, port: 1, resolvers: [ 10.0.0.4, 'ns.test:5353' ] } } }
chains:
  d: [ { auth: { jwt: { jwks_url: 'https://Keys.test./set?x=1' } } }, { redirect: 'http://10.0.0.5:1/' } ]
  e: [ { access: { deny: [ { url: 'http://10.0.0.6:1/list' }, { url: { at: 'http://10.0.0.7:1/x' } }, 10.0.0.8 ] } } ]
routes: [ { name: r, match: { host: 10.0.0.9 }, to: [ 'http://10.0.0.9:1' ] } ]
";
        let found = called_addresses(&tree(text)).into_iter();
        let found: Vec<_> = found.map(|it| (it.address.to_string(), it.path)).collect();
        let expected = [
            ("10.0.0.3:8500", "/x"),
            ("10.0.0.4:53", ""),
            ("ns.test:5353", ""),
            ("keys.test:443", "/set?x=1"),
            ("10.0.0.6:1", "/list"),
            ("10.0.0.7:1", "/x"),
        ];
        assert_eq!(found, expected.map(|(address, path)| (address.to_owned(), path.to_owned())));
    }
}
