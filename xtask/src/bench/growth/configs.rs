//! The configurations: many routes, services or endpoints of each program, equal work for all.

use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Result;

use super::{CONNECTIONS, Grows};
use crate::bench::configs::{self, Size};
use crate::bench::costs::Peer;

/// The most there can be of what grows.
pub(super) const MOST: usize = 50_000;
/// Connections of nginx, as a contestant and as the backend; it keeps as many to endpoints as there can be.
pub(super) const SIZE: Size = Size { connections: 30_000, kept: 10_000, workers: 1 };
/// Connections of HAProxy.
const HAPROXY_CONNECTIONS: usize = 30_000;

/// Connections of the product beyond those that are counted.
const SPARE: usize = 50;

/// Where one stands.
pub(super) struct Site {
    pub(super) listen: SocketAddr,
    pub(super) backend: SocketAddr,
    pub(super) folder: PathBuf,
}

/// The configuration's file.
pub(super) fn file(site: &Site) -> PathBuf {
    site.folder.join("configuration.yaml")
}

/// Host and path of the load.
pub(super) fn asked(what: Grows, size: usize) -> (String, String) {
    match what {
        Grows::Routes | Grows::Services => configs::middle_route(size),
        Grows::Endpoints | Grows::Connections => ("bench".to_owned(), "/".to_owned()),
    }
}

/// The configuration of a program with `size` of what grows; HAProxy's may name a file beside it, which is written.
pub(super) fn of(peer: Peer, what: Grows, size: usize, site: &Site) -> Result<String> {
    Ok(match peer {
        Peer::Thalweg => thalweg(what, size, site),
        Peer::Nginx => nginx(what, size, site),
        Peer::Haproxy => {
            if matches!(what, Grows::Routes | Grows::Services) {
                fs::write(site.folder.join("routes.map"), haproxy_map(what, size))?;
            }
            haproxy(what, size, site)
        }
    })
}

/// The addresses of endpoints: all of them are the backend, which listens on each address of loopback.
fn endpoints(size: usize, backend: SocketAddr) -> Vec<SocketAddr> {
    let first = u32::from(Ipv4Addr::new(127, 1, 0, 1));
    (first..).take(size).map(|address| SocketAddr::from((Ipv4Addr::from(address), backend.port()))).collect()
}

fn thalweg(what: Grows, size: usize, site: &Site) -> String {
    let Site { listen, backend, .. } = site;
    match what {
        Grows::Routes => configs::thalweg_routes(*listen, *backend, size),
        Grows::Endpoints => configs::thalweg(*listen, &endpoints(size, *backend)),
        // It sets two descriptors aside for each, unless it is told how many there may be.
        Grows::Connections => {
            let most = size + CONNECTIONS + SPARE;
            format!("limits: {{ max_connections: {most} }}\n{}", configs::thalweg(*listen, &[*backend]))
        }
        Grows::Services => {
            let mut text = format!("listeners: {{ web: {{ address: \"{listen}\" }} }}\nservices:\n");
            for i in 0..size {
                let _ = writeln!(text, "  s{i}: {{ endpoints: [ \"http://{backend}\" ] }}");
            }
            text += "routes:\n";
            for i in 0..size {
                let (host, path) = configs::route(i);
                let _ = writeln!(
                    text,
                    "  - {{ name: r{i}, match: {{ host: \"{host}\", path: \"{path}*\" }}, to: s{i} }}"
                );
            }
            text
        }
    }
}

fn nginx(what: Grows, size: usize, site: &Site) -> String {
    let Site { listen, backend, folder } = site;
    let listens = format!("    listen {listen} backlog=4096;\n");
    let usual = |backends: &[SocketAddr]| configs::nginx_proxy_that(folder, &listens, backends, SIZE, "");
    if matches!(what, Grows::Endpoints) {
        return usual(&endpoints(size, *backend));
    }
    let plain = usual(&[*backend]);
    if matches!(what, Grows::Connections) {
        return plain;
    }
    let (Some(upstream), Some(location)) = (block(&plain, "  upstream "), block(&plain, "    location "))
    else {
        return plain;
    };
    let services = if matches!(what, Grows::Services) { size } else { 1 };
    // It keeps connections to each upstream apart.
    let upstream = upstream.replace(&format!("keepalive {};", SIZE.kept), "keepalive 64;");
    let mut http = "  server_names_hash_max_size 65536; server_names_hash_bucket_size 128;\n".to_owned();
    for i in 0..services {
        http += &upstream.replace("upstream backend", &format!("upstream s{i}"));
    }
    let mut host = String::new();
    for i in 0..size {
        let (name, path) = configs::route(i);
        if name != host {
            // Options of an address may stand once.
            let (end, listens) = match host.as_str() {
                "" => ("", listens.clone()),
                _ => ("  }\n", format!("    listen {listen};\n")),
            };
            let _ = write!(http, "{end}  server {{\n{listens}    server_name {name};\n");
            host = name;
        }
        let service = i % services;
        http += &location
            .replace("location /", &format!("location {path}"))
            .replace("http://backend", &format!("http://s{service}"));
    }
    configs::nginx(folder, SIZE, &(http + "  }\n"))
}

/// A block of a configuration of nginx, from the line that begins with `begin` to the bracket at the same depth.
fn block<'a>(text: &'a str, begin: &str) -> Option<&'a str> {
    let from = text.find(&format!("\n{begin}"))? + 1;
    let indent = begin.len() - begin.trim_start().len();
    let end = format!("\n{}}}\n", " ".repeat(indent));
    let length = text[from..].find(&end)? + end.len();
    Some(&text[from..from + length])
}

fn haproxy(what: Grows, size: usize, site: &Site) -> String {
    let Site { listen, backend, folder } = site;
    let map = folder.join("routes.map");
    let plain = configs::haproxy(*listen, *backend).replacen(
        &format!("maxconn {}", configs::USUAL.connections),
        // It wants two descriptors for each, which it never needs here.
        &format!("maxconn {HAPROXY_CONNECTIONS}\n  no strict-limits"),
        1,
    );
    let Some((front, back)) = plain.split_once("backend all\n") else { return plain };
    let chosen = |front: &str| {
        let rule = format!("use_backend %[base,map_beg({})]", map.display());
        front.replacen("default_backend all", &rule, 1)
    };
    // `default_backend all` ends with the same words as the section begins with.
    let (front, back) = match back.split_once("backend all\n") {
        Some((_, back)) => (format!("{front}backend all\n"), back),
        None => (front.to_owned(), back),
    };
    match what {
        Grows::Connections => plain.clone(),
        Grows::Endpoints => {
            let servers = endpoints(size, *backend);
            let line = |(i, address): (usize, &SocketAddr)| {
                back.replace(&format!("server one {backend}"), &format!("server e{i} {address}"))
            };
            format!("{front}backend all\n{}", servers.iter().enumerate().map(line).collect::<String>())
        }
        Grows::Routes => format!("{}backend s0\n{back}", chosen(&front)),
        Grows::Services => {
            let sections = (0..size).map(|i| format!("backend s{i}\n{back}")).collect::<String>();
            chosen(&front) + &sections
        }
    }
}

/// What HAProxy chooses a backend by: host and path without the query, and the name.
fn haproxy_map(what: Grows, size: usize) -> String {
    let mut text = String::new();
    for i in 0..size {
        let (host, path) = configs::route(i);
        let _ = writeln!(text, "{host}{path} s{}", if matches!(what, Grows::Services) { i } else { 0 });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        let [listen, backend] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        Site { listen, backend, folder: "folder".into() }
    }

    #[test]
    fn there_are_as_many_as_were_asked_for() {
        let count = |text: &str, what: &str| text.matches(what).count();
        for size in [10, 1000] {
            assert_eq!(count(&thalweg(Grows::Services, size, &site()), "to: s"), size);
            assert_eq!(count(&thalweg(Grows::Endpoints, size, &site()), "http://127.1."), size);
            assert_eq!(count(&nginx(Grows::Routes, size, &site()), "    location /p"), size);
            assert_eq!(count(&nginx(Grows::Routes, size, &site()), "  upstream s"), 1);
            assert_eq!(count(&nginx(Grows::Services, size, &site()), "  upstream s"), size);
            assert_eq!(count(&nginx(Grows::Services, size, &site()), "  server {\n"), size / 10);
            assert_eq!(count(&nginx(Grows::Endpoints, size, &site()), "server 127.1."), size);
            assert_eq!(count(&haproxy(Grows::Services, size, &site()), "\nbackend s"), size);
            assert_eq!(count(&haproxy(Grows::Routes, size, &site()), "\nbackend s"), 1);
            assert_eq!(count(&haproxy(Grows::Endpoints, size, &site()), "\n  server e"), size);
            assert_eq!(haproxy_map(Grows::Services, size).lines().count(), size);
        }
    }

    #[test]
    fn brackets_of_nginx_are_closed() {
        for what in Grows::ALL {
            let text = nginx(what, 30, &site());
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
        }
    }

    #[test]
    fn endpoints_are_all_of_loopback_and_different() {
        let mut all = endpoints(MOST, site().backend);
        assert!(all.iter().all(|address| address.ip().is_loopback() && address.port() == 2));
        all.dedup();
        assert_eq!(all.len(), MOST);
    }
}
