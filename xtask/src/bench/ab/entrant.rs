//! Who takes part, and how each is started before all backends.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Ab;
use crate::bench::configs;
use crate::bench::configs::Size;
use crate::bench::contestant::{self, Kind, Place, Running};
use crate::bench::entrant::{self, Peer as _};
use crate::bench::layout::Layout;
use crate::command::{locate, output, root, run};

/// nginx may have as many connections as descriptors, and keeps those to backends that this many clients leave.
const NGINX: Size = Size { connections: 19_900, kept: 10_000, workers: 1 };

/// What can take part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Balancer {
    Thalweg,
    Nginx,
    Go,
}

impl Balancer {
    /// In the order of tables.
    pub(super) const ALL: [Self; 3] = [Self::Thalweg, Self::Nginx, Self::Go];
}

impl entrant::Peer for Balancer {
    fn name(self) -> &'static str {
        match self {
            Self::Thalweg => "thalweg",
            Self::Nginx => "nginx",
            Self::Go => "go_balancer",
        }
    }
}

/// A program that takes part.
pub(super) type Entrant = entrant::Program<Balancer>;

/// Builds or finds all of them; says which are missing.
pub(super) fn find(args: &Ab, place: &mut Place) -> Result<Vec<Entrant>> {
    let mut found = Vec::new();
    for balancer in Balancer::ALL {
        let given = match balancer {
            Balancer::Thalweg => contestant::built("thalweg", args.thalweg.as_deref())?,
            Balancer::Nginx => args.nginx.clone(),
            Balancer::Go => args.go.clone(),
        };
        let Some(program) = locate(&given) else {
            println!("bench: {} is not here, {} left out", given.display(), balancer.name());
            continue;
        };
        let (program, version) = match balancer {
            Balancer::Thalweg => (program.clone(), contestant::version(Kind::Thalweg, &program)?),
            Balancer::Nginx => (program.clone(), contestant::version(Kind::Nginx, &program)?),
            Balancer::Go => go_balancer(&program, place)?,
        };
        found.push(Entrant { peer: balancer, path: program, version });
    }
    Ok(found)
}

/// Builds the Go balancer; its program and version.
fn go_balancer(go: &Path, place: &mut Place) -> Result<(PathBuf, String)> {
    let program = place.next_folder()?.join("go_balancer");
    let mut command = Command::new(go);
    command.args(["build", "-o"]).arg(&program).arg("main.go");
    // One file and the standard library: nothing is fetched, and no C compiler is needed.
    command.env("GO111MODULE", "off").env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
    run(command.current_dir(root().join("bench/peers/go_balancer")))?;
    let version = output(Command::new(go).arg("version"))?;
    Ok((program, format!("of this tree, {}", version.trim())))
}

impl Entrant {
    /// Starts it before the backends and waits for its first answer.
    pub(super) fn start(
        &self,
        layout: Layout,
        backends: &[SocketAddr],
        place: &mut Place,
    ) -> Result<Running> {
        let (listen, folder) = (place.address()?, place.next_folder()?);
        let mut command = place.command(layout.proxy_cpus(), &self.path);
        match self.peer {
            Balancer::Thalweg => {
                let file = folder.join("thalweg.yaml");
                fs::write(&file, configs::thalweg(listen, backends))?;
                command.args(["run", "--config"]).arg(&file);
            }
            Balancer::Nginx => {
                let (file, size) = (folder.join("nginx.conf"), Size { workers: layout.workers(), ..NGINX });
                fs::write(&file, configs::nginx_proxy(&folder, listen, backends, size, ""))?;
                command.arg("-p").arg(&folder).arg("-c").arg(&file);
            }
            Balancer::Go => {
                command.arg(listen.to_string()).args(backends.iter().map(SocketAddr::to_string));
            }
        }
        let running = place.start(command, &folder, listen, ("bench", "/"));
        running.with_context(|| format!("{} does not start", self.name()))
    }
}
