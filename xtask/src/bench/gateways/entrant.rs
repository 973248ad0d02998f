//! Who takes part, how each is built or found, and started before the service: a worker for each CPU, no access log.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Gateways;
use crate::bench::configs::{self, Size};
use crate::bench::contestant::{self, Kind, Place, Running};
use crate::bench::entrant::{self, Peer as _};
use crate::bench::envoy;
use crate::bench::java;
use crate::bench::layout::Layout;
use crate::command::{locate, output, root, run};

const SPRING: &str = "Spring Cloud 2024.0.1, Spring Boot 3.4.5";
const NGINX: Size = Size { connections: 9000, kept: 1024, workers: 2 };

/// What can take part.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(in crate::bench) enum Gateway {
    Thalweg,
    Nginx,
    Haproxy,
    Envoy,
    Caddy,
    Go,
    Spring,
    Mvc,
    MvcVirtual,
    Zuul,
}

impl Gateway {
    /// In the order of tables.
    pub(in crate::bench) const ALL: [Self; 10] = [
        Self::Thalweg,
        Self::Nginx,
        Self::Haproxy,
        Self::Envoy,
        Self::Caddy,
        Self::Go,
        Self::Spring,
        Self::Mvc,
        Self::MvcVirtual,
        Self::Zuul,
    ];
}

impl std::fmt::Display for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = clap::ValueEnum::to_possible_value(self);
        f.write_str(value.as_ref().map_or("", clap::builder::PossibleValue::get_name))
    }
}

impl entrant::Peer for Gateway {
    fn name(self) -> &'static str {
        match self {
            Self::Thalweg => "thalweg",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
            Self::Caddy => "caddy",
            Self::Go => "go httputil",
            Self::Spring => "spring cloud gateway",
            Self::Mvc => "spring mvc",
            Self::MvcVirtual => "spring mvc, virtual threads",
            Self::Zuul => "zuul",
        }
    }
}

/// A program that takes part.
pub(in crate::bench) type Entrant = entrant::Program<Gateway>;

/// Builds or finds those that the command line names; says which are left out, and why.
pub(in crate::bench) fn find(args: &Gateways, place: &mut Place) -> Result<Vec<Entrant>> {
    let mut found = Vec::new();
    for &peer in &args.peers {
        match program(args, peer, place) {
            Ok((path, version)) => found.push(Entrant { peer, path, version }),
            Err(error) if peer == Gateway::Thalweg => return Err(error),
            Err(error) => println!("bench: {} left out: {error:#}", peer.name()),
        }
    }
    Ok(found)
}

fn program(args: &Gateways, peer: Gateway, place: &mut Place) -> Result<(PathBuf, String)> {
    let on_path = |name: &Path| locate(name).with_context(|| format!("{} is not here", name.display()));
    match peer {
        Gateway::Thalweg => {
            let path = contestant::built("thalweg", args.thalweg.as_deref())?;
            let version = contestant::version(Kind::Thalweg, &path)?;
            Ok((path, version))
        }
        Gateway::Nginx => {
            let path = on_path(&args.nginx)?;
            let version = contestant::version(Kind::Nginx, &path)?;
            Ok((path, version))
        }
        Gateway::Haproxy => {
            let path = on_path("haproxy".as_ref())?;
            let version = contestant::version(Kind::Haproxy, &path)?;
            Ok((path, version))
        }
        Gateway::Envoy => {
            let path = envoy::find(None)?;
            let version = envoy::version(&path)?;
            Ok((path, version))
        }
        Gateway::Caddy => {
            let path = on_path("caddy".as_ref())?;
            let version = output(Command::new(&path).arg("version"))?;
            Ok((path, version.trim().to_owned()))
        }
        Gateway::Go => go(&on_path("go".as_ref())?, place),
        Gateway::Spring => java::pack("gateway_spring", SPRING),
        Gateway::Mvc => java::pack("gateway_mvc", SPRING),
        Gateway::MvcVirtual => java::pack_for_newer("gateway_mvc", SPRING),
        Gateway::Zuul => java::pack("gateway_zuul", "Spring Cloud Hoxton.SR12, Spring Boot 2.3.12"),
    }
}

/// Go's `httputil.ReverseProxy`, as the balancer of `bench ab` has it, before one service.
fn go(go: &Path, place: &mut Place) -> Result<(PathBuf, String)> {
    let program = place.next_folder()?.join("go_balancer");
    let mut command = Command::new(go);
    command.args(["build", "-o"]).arg(&program).arg("main.go");
    command.env("GO111MODULE", "off").env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
    run(command.current_dir(root().join("bench/peers/go_balancer")))?;
    let version = output(Command::new(go).arg("version"))?;
    Ok((program, version.trim().to_owned()))
}

impl Entrant {
    /// Starts it before the place's backend and waits for its first answer.
    pub(in crate::bench) fn start(&self, place: &mut Place) -> Result<Running> {
        let (listen, folder, backend) = (place.address()?, place.next_folder()?, place.backend);
        let file = folder.join("configuration");
        let mut command = place.command(Layout::Shared.proxy_cpus(), &self.path);
        match self.peer {
            Gateway::Thalweg => {
                let file = file.with_extension("yaml");
                let text = configs::thalweg(listen, &[backend]);
                let address = format!("address: \"{listen}\"");
                fs::write(&file, text.replace(&address, &format!("{address}, h2c: true")))?;
                command.args(["run", "--config"]).arg(&file);
            }
            Gateway::Nginx => {
                let listens = [listen.to_string(), format!("{} http2", contestant::beside(listen))];
                let listens = listens.map(|listen| format!("    listen {listen} backlog=4096;\n")).concat();
                fs::write(&file, configs::nginx_proxy_that(&folder, &listens, &[backend], NGINX, ""))?;
                command.arg("-p").arg(&folder).arg("-c").arg(&file);
            }
            Gateway::Haproxy => {
                fs::write(&file, configs::haproxy(listen, backend).replace("nbthread 1", "nbthread 2"))?;
                command.args(["-db", "-f"]).arg(&file);
            }
            Gateway::Envoy => {
                let file = file.with_extension("yaml");
                fs::write(&file, envoy_config(listen, backend))?;
                command.args(["--concurrency", "2", "--log-level", "error", "--disable-hot-restart", "-c"]);
                command.arg(&file);
            }
            Gateway::Caddy => {
                fs::write(&file, caddy_config(listen, backend))?;
                command
                    .args(["run", "--adapter", "caddyfile", "--config"])
                    .arg(&file)
                    .env("HOME", &folder)
                    .env("XDG_CONFIG_HOME", &folder);
            }
            Gateway::Go => {
                command.arg(listen.to_string()).arg(backend.to_string());
            }
            Gateway::Spring => {
                command.arg("-jar").arg(java::packed("gateway_spring")?);
                java_arguments(&mut command, listen, backend);
                command.arg("--server.http2.enabled=true");
            }
            Gateway::Mvc | Gateway::MvcVirtual => {
                command.arg("-jar").arg(java::packed("gateway_mvc")?);
                java_arguments(&mut command, listen, backend);
                let is_virtual = self.peer == Gateway::MvcVirtual;
                command.arg(format!("--spring.threads.virtual.enabled={is_virtual}"));
            }
            Gateway::Zuul => {
                // It is older than the walls within Java.
                command.args(["--add-opens", "java.base/java.lang=ALL-UNNAMED", "-jar"]);
                command.arg(java::packed("gateway_zuul")?);
                java_arguments(&mut command, listen, backend);
            }
        }
        let running = place.start(command, &folder, listen, ("bench", "/"));
        running.with_context(|| format!("{} does not start", self.name()))
    }

    /// Where one that listens at this address speaks HTTP/2 without TLS, if it does.
    pub(in crate::bench) fn h2(&self, address: SocketAddr) -> Option<SocketAddr> {
        match self.peer {
            Gateway::Thalweg | Gateway::Haproxy | Gateway::Envoy | Gateway::Caddy | Gateway::Spring => {
                Some(address)
            }
            Gateway::Nginx => Some(contestant::beside(address)),
            Gateway::Go | Gateway::Mvc | Gateway::MvcVirtual | Gateway::Zuul => None,
        }
    }
}

fn java_arguments(command: &mut Command, listen: SocketAddr, backend: SocketAddr) {
    command.arg(format!("--server.port={}", listen.port()));
    command.arg("--server.address=127.0.0.1").arg(format!("--backend=http://{backend}"));
}

fn caddy_config(listen: SocketAddr, backend: SocketAddr) -> String {
    format!(
        "{{\n  admin off\n  auto_https off\n  servers {{\n    protocols h1 h2c\n  }}\n}}\n\
         http://:{} {{\n  bind 127.0.0.1\n  reverse_proxy {backend} {{\n    transport http {{\n      \
         keepalive_idle_conns_per_host 1024\n    }}\n  }}\n}}\n",
        listen.port()
    )
}

fn envoy_config(listen: SocketAddr, backend: SocketAddr) -> String {
    let at = |address: SocketAddr| {
        format!("{{ socket_address: {{ address: {}, port_value: {} }} }}", address.ip(), address.port())
    };
    let bounds = "max_connections: 100000, max_pending_requests: 100000, max_requests: 100000";
    let types = "type.googleapis.com/envoy.extensions.filters";
    format!(
        "static_resources:\n  listeners:\n  - name: web\n    address: {listen}\n    tcp_backlog_size: 4096\n    \
         filter_chains:\n    - filters:\n      - name: http\n        typed_config:\n          \
         \"@type\": {types}.network.http_connection_manager.v3.HttpConnectionManager\n          \
         stat_prefix: web\n          use_remote_address: true\n          \
         http_protocol_options: {{ accept_http_10: true }}\n          route_config:\n            virtual_hosts:\n            \
         - {{ name: all, domains: [ \"*\" ], routes: [ {{ match: {{ prefix: / }}, route: {{ cluster: one }} }} ] }}\n          \
         http_filters:\n          - name: router\n            typed_config: {{ \"@type\": {types}.http.router.v3.Router }}\n  \
         clusters:\n  - name: one\n    type: STATIC\n    connect_timeout: 5s\n    \
         circuit_breakers: {{ thresholds: [ {{ {bounds} }} ] }}\n    load_assignment:\n      cluster_name: one\n      \
         endpoints: [ {{ lb_endpoints: [ {{ endpoint: {{ address: {backend} }} }} ] }} ]\n",
        listen = at(listen),
        backend = at(backend)
    )
}
