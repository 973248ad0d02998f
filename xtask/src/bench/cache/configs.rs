//! The configurations: each entrant keeps what the origin lets it keep, in memory, and adds nothing else.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use super::origin::{LARGE, LARGE_BYTES, SMALL, SMALL_BYTES, STATUS};
use crate::bench::configs::{BODY, Size, nginx};

/// Connections of nginx and of the origin.
const SIZE: Size = Size { connections: 9000, kept: 64, workers: 1 };
/// Objects of the cache that nginx keeps files open of; more than the load for hits has.
const OPEN_FILES: usize = 4000;
/// Keys that one MiB of nginx's memory for keys takes, as its documentation says.
const KEYS_PER_MIB: usize = 8000;

/// What a cache is set up for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    /// Its configured size, in MiB.
    pub(super) memory: u64,
    /// Objects that are asked for.
    pub(super) objects: usize,
    /// Threads or processes that serve.
    pub(super) workers: usize,
}

/// The product. Every key of its cache that a run depends on stands here.
pub(super) fn thalweg(listen: SocketAddr, origin: SocketAddr, setup: Setup) -> String {
    format!(
        "workers: {}\n\
         listeners: {{ web: {{ address: \"{listen}\" }} }}\n\
         cache: {{ memory: {}MiB }}\n\
         services: {{ one: {{ endpoints: [ \"http://{origin}\" ] }} }}\n\
         routes: [ {{ to: one, filters: [ {{ cache: {{}} }} ] }} ]\n",
        setup.workers, setup.memory
    )
}

/// The product as it is without a cache: everything is a miss.
pub(super) fn thalweg_without(listen: SocketAddr, origin: SocketAddr, setup: Setup) -> String {
    thalweg(listen, origin, setup)
        .lines()
        .filter(|line| !line.starts_with("cache:"))
        .map(|line| line.replace(", filters: [ { cache: {} } ]", "") + "\n")
        .collect()
}

/// nginx with `proxy_cache`, its files in `folder`.
pub(super) fn nginx_cache(folder: &Path, listen: SocketAddr, origin: SocketAddr, setup: Setup) -> String {
    let zone = 8 + setup.objects / KEYS_PER_MIB * 2;
    let http = format!(
        "  sendfile on;\n  \
         open_file_cache max={OPEN_FILES} inactive=1h; open_file_cache_valid 1h;\n  \
         proxy_cache_path {}/cache levels=1:2 keys_zone=bench:{zone}m max_size={}m inactive=1d use_temp_path=off;\n  \
         upstream origin {{ server {origin}; keepalive {}; keepalive_requests 1000000000; }}\n  \
         server {{\n    listen {listen} backlog=4096;\n    location / {{\n      \
         proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection \"\";\n      \
         proxy_cache bench;\n    }}\n  }}\n",
        folder.display(),
        setup.memory,
        SIZE.kept
    );
    nginx(folder, Size { workers: setup.workers, ..SIZE }, &http)
}

/// The origin: objects of two sizes below any name, each good for a day, and the number of requests that it has had.
pub(super) fn origin(folder: &Path, listen: SocketAddr) -> String {
    let (mut body, last) = (String::new(), SMALL_BYTES - 1);
    while body.len() < last {
        let _ = write!(body, "{:07} ", body.len());
    }
    body.truncate(last);
    let http = format!(
        "  sendfile on; open_file_cache max=16;\n  \
         server {{\n    listen {listen} backlog=4096; root {};\n    \
         location = {STATUS} {{ stub_status; }}\n    \
         location {SMALL} {{ add_header Cache-Control \"public, max-age=86400\"; return 200 \"{body}\\n\"; }}\n    \
         location {LARGE} {{ add_header Cache-Control \"public, max-age=86400\"; rewrite ^ /{LARGE_BYTES} break; }}\n    \
         location / {{ return 200 \"{BODY}\"; }}\n  }}\n",
        folder.display()
    );
    nginx(folder, SIZE, &http)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_without_a_cache_has_the_same_route() {
        let [listen, origin] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let setup = Setup { memory: 64, objects: 10, workers: 2 };
        let with = thalweg(listen, origin, setup);
        assert!(with.contains("memory: 64MiB") && with.contains("workers: 2"), "{with}");
        let without = thalweg_without(listen, origin, setup);
        assert!(!without.contains("cache") && without.contains("routes: [ { to: one } ]"), "{without}");
    }
}
