//! The configurations of the contestants: equal work for all.
//!
//! Keep-alive on both sides, no access log, and the same five fields added to the upstream request:
//! `X-Forwarded-For`, `-Proto`, `-Host`, `Via`, `X-Request-Id`.

use std::net::SocketAddr;
use std::path::Path;

use super::contestant::Filters;

/// The backend's answer: 67 bytes.
pub(crate) const BODY: &str = "The quick brown fox jumps over the lazy dog, then it does so again.";
/// What nginx is set up for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Connections, both sides together.
    pub(crate) connections: usize,
    /// Idle connections that it keeps to all backends together.
    pub(crate) kept: usize,
    /// Worker processes.
    pub(crate) workers: usize,
}

/// The size where nothing else is said: memory that is set aside for more would count against a contestant.
pub(crate) const USUAL: Size = Size { connections: 9000, kept: 1024, workers: 1 };

/// nginx with one server or several; `http` are directives of its `http` block.
pub(crate) fn nginx(folder: &Path, Size { connections, workers, .. }: Size, http: &str) -> String {
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let folder = folder.display();
    format!(
        "daemon off; worker_processes {workers}; {user} pid {folder}/nginx.pid; error_log stderr crit;\n\
         events {{ worker_connections {connections}; }}\n\
         http {{\n  access_log off; tcp_nodelay on; default_type text/plain;\n  \
         keepalive_timeout 1h; keepalive_requests 1000000000;\n  \
         client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;\n  \
         uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n{http}}}\n"
    )
}

/// nginx as the backend: the answer comes from memory.
pub(crate) fn nginx_backend(folder: &Path, port: u16) -> String {
    nginx_backend_on(folder, &format!("127.0.0.1:{port}"))
}

/// The same with an address and options of `listen`.
pub(crate) fn nginx_backend_on(folder: &Path, listen: &str) -> String {
    nginx_backend_of(folder, listen, USUAL)
}

/// The same of another size.
pub(crate) fn nginx_backend_of(folder: &Path, listen: &str, size: Size) -> String {
    let server =
        format!("  server {{ listen {listen} backlog=4096; location / {{ return 200 \"{BODY}\"; }} }}\n");
    nginx(folder, size, &server)
}

/// nginx as a backend that serves the files of a folder.
pub(crate) fn nginx_of_files(folder: &Path, port: u16, root: &Path) -> String {
    let server = format!(
        "  types {{ text/html html; }} open_file_cache max=16; sendfile on;\n  \
         server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ root {}; }} }}\n",
        root.display()
    );
    nginx(folder, USUAL, &server)
}

/// nginx as a contestant; `more` are directives for its one location.
pub(crate) fn nginx_proxy(
    folder: &Path,
    listen: SocketAddr,
    backends: &[SocketAddr],
    size: Size,
    more: &str,
) -> String {
    nginx_proxy_that(folder, &format!("    listen {listen} backlog=4096;\n"), backends, size, more)
}

/// The same with directives of its server that say where it listens.
pub(crate) fn nginx_proxy_that(
    folder: &Path,
    listens: &str,
    backends: &[SocketAddr],
    size: Size,
    more: &str,
) -> String {
    let kept = size.kept;
    let servers: String = backends.iter().map(|backend| format!("server {backend}; ")).collect();
    let server = format!(
        "  upstream backend {{\n    {servers}\n    keepalive {kept}; keepalive_requests 1000000000; \
         keepalive_timeout 1h;\n  }}\n  server {{\n{listens}    location / {{\n      {more}\
         proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection \"\";\n      \
         proxy_set_header Host $http_host;\n      \
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n      \
         proxy_set_header X-Forwarded-Proto $scheme;\n      proxy_set_header X-Forwarded-Host $http_host;\n      \
         proxy_set_header Via \"1.1 thalweg\";\n      proxy_set_header X-Request-Id $request_id;\n    }}\n  }}\n"
    );
    nginx(folder, size, &server)
}

/// HAProxy.
pub(crate) fn haproxy(listen: SocketAddr, backend: SocketAddr) -> String {
    let connections = USUAL.connections;
    format!(
        "global\n  nbthread 1\n  maxconn {connections}\n\
         defaults\n  mode http\n  no log\n  option http-keep-alive\n  http-reuse always\n  timeout connect 5s\n  \
         timeout client 1h\n  timeout server 1h\n  timeout http-keep-alive 1h\n\
         frontend web\n  bind {listen} backlog 4096\n  option forwardfor\n  \
         http-request set-header X-Forwarded-Proto http\n  \
         http-request set-header X-Forwarded-Host %[req.hdr(host)]\n  \
         http-request add-header Via \"1.1 thalweg\"\n  http-request set-header X-Request-Id %[uuid()]\n  \
         default_backend all\n\
         backend all\n  server one {backend} pool-max-conn -1 pool-purge-delay 1h\n"
    )
}

/// The product: one listener, one service of all backends, one route.
pub(crate) fn thalweg(listen: SocketAddr, backends: &[SocketAddr]) -> String {
    format!("{}routes:\n  - to: one\n", thalweg_head(listen, backends))
}

/// The file that [`Filters::Access`] names, beside the configuration.
pub(crate) const NETWORKS: &str = "networks.txt";

/// A million networks of 128 addresses, without gaps and none of them the load's.
pub(crate) fn million_networks() -> String {
    let first = u32::from(std::net::Ipv4Addr::new(16, 0, 0, 0));
    (0..1_000_000_u32).map(|i| format!("{}/25\n", std::net::Ipv4Addr::from(first + i * 128))).collect()
}

/// The product with filters on its route. Of the five, as sites have them, four act on each exchange of the load: the
/// prefix is rewritten, fields are set on request and response; `cors` has no `Origin` to look at, and the last one is
/// for other methods.
pub(crate) fn thalweg_with_filters(listen: SocketAddr, backend: SocketAddr, filters: Filters) -> String {
    let filters = match filters {
        Filters::Five => FIVE_FILTERS.to_owned(),
        Filters::RateLimit => RATE_LIMIT.to_owned(),
        Filters::Access => format!("      - access: {{ deny: [ {{ file: {NETWORKS} }} ] }}\n"),
    };
    format!("{}routes:\n  - to: one\n    filters:\n{filters}", thalweg_head(listen, &[backend]))
}

pub(crate) const RATE_LIMIT: &str =
    "      - rate_limit: { requests: 1000000, per: 1s, burst: 1000000, key: client_ip }\n";
pub(crate) const FIVE_FILTERS: &str = "      - headers:
          request: { set: { X-Forwarded-Client: \"{client_ip}\" }, remove: [ X-Debug ] }
          response: { set: { X-Served-By: one } }
      - rewrite: { prefix: { from: /, to: /shop/ } }
      - security_headers: {}
      - cors: { origins: [ \"https://app.example.com\" ] }
      - headers: { request: { set: { X-Writes: \"yes\" } } }
        when: { method: [ POST, PUT ] }
";

/// The product with one filter that compresses with this algorithm.
pub(crate) fn thalweg_compressing(
    listen: SocketAddr,
    backend: SocketAddr,
    (algorithm, level): (&str, u8),
) -> String {
    let head = thalweg_head(listen, &[backend]);
    format!(
        "{head}routes:\n  - to: one\n    filters: [ {{ compress: {{ algorithms: {algorithm}, level: {level} }} }} ]\n"
    )
}

/// The product before two services: small answers, and large bodies under `/length/`.
pub(crate) fn thalweg_slow(
    listen: SocketAddr,
    metrics: SocketAddr,
    small: SocketAddr,
    large: SocketAddr,
) -> String {
    format!(
        "listeners: {{ web: {{ address: \"{listen}\" }} }}\n\
         metrics: {{ address: \"{metrics}\" }}\n\
         services:\n  small: {{ endpoints: [ \"http://{small}\" ] }}\n  \
         large: {{ endpoints: [ \"http://{large}\" ] }}\n\
         routes:\n  - {{ name: large, match: {{ path: \"/length/*\" }}, to: large }}\n  \
         - {{ name: small, to: small }}\n"
    )
}

fn thalweg_head(listen: SocketAddr, backends: &[SocketAddr]) -> String {
    let endpoints: Vec<_> = backends.iter().map(|backend| format!("\"http://{backend}\"")).collect();
    format!(
        "listeners: {{ web: {{ address: \"{listen}\" }} }}\n\
         services: {{ one: {{ endpoints: [ {} ] }} }}\n",
        endpoints.join(", ")
    )
}

/// Routes of one host in [`thalweg_routes`].
const PATHS: usize = 10;

/// The product with `count` routes, spread over hosts and paths.
pub(crate) fn thalweg_routes(listen: SocketAddr, backend: SocketAddr, count: usize) -> String {
    let mut text = thalweg_head(listen, &[backend]) + "routes:\n";
    for i in 0..count {
        let (host, path) = (route_host(i), i % PATHS);
        text +=
            &format!("  - {{ name: r{i}, match: {{ host: \"{host}\", path: \"/p{path}/*\" }}, to: one }}\n");
    }
    text
}

/// Host and path of a request that hits the route in the middle of `count`.
pub(crate) fn middle_route(count: usize) -> (String, String) {
    let i = count / 2;
    (route_host(i), format!("/p{}/item", i % PATHS))
}

/// Host of a route, and what its paths begin with, as in [`thalweg_routes`].
pub(crate) fn route(i: usize) -> (String, String) {
    (route_host(i), format!("/p{}/", i % PATHS))
}

fn route_host(i: usize) -> String {
    format!("h{:04}.example.com", i / PATHS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_the_size_of_the_yardstick() {
        assert_eq!(BODY.len(), 67);
    }

    #[test]
    fn the_middle_request_hits_a_route_of_the_file() {
        for count in [10, 10_000] {
            let (host, path) = middle_route(count);
            let [listen, backend] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
            let text = thalweg_routes(listen, backend, count);
            let path = path.replace("item", "*");
            assert_eq!(text.matches(&format!("host: \"{host}\", path: \"{path}\"")).count(), 1);
            assert_eq!(text.lines().count(), count + 3);
        }
    }
}
