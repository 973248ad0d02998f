//! Who takes part, and how each is started.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::ends::{CPUS, Ends, Mode};
use super::{Sealed, configs};
use crate::bench::contestant::{self, Kind, Place, Running};
use crate::bench::entrant::{self, Peer as _};
use crate::command::{locate, output, root, run};

/// What can take part.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Peer {
    Thalweg,
    Go,
    Node,
}

impl Peer {
    pub(super) const ALL: [Self; 3] = [Self::Thalweg, Self::Go, Self::Node];
}

impl entrant::Peer for Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Thalweg => "thalweg",
            Self::Go => "go",
            Self::Node => "node",
        }
    }
}

/// A program that takes part.
pub(super) type Entrant = entrant::Program<Peer>;

/// One that runs.
pub(super) struct Started {
    pub(super) peer: Peer,
    pub(super) running: Running,
    raw: SocketAddr,
}

/// Builds or finds all that the command line names.
pub(super) fn find(args: &Sealed, place: &mut Place) -> Result<Vec<Entrant>> {
    let mut found = Vec::new();
    for &peer in &args.peers {
        let (program, version) = match peer {
            Peer::Thalweg => {
                let program = contestant::built("thalweg", args.thalweg.as_deref())?;
                let version = contestant::version(Kind::Thalweg, &program)?;
                (program, version)
            }
            Peer::Go => go(&args.go, place)?,
            Peer::Node => {
                let program = locate(&args.node).context("node is not here\nhelp: --peers thalweg,go")?;
                let version = output(Command::new(&program).arg("--version"))?;
                (program, format!("of this tree, one process, node {}", version.trim()))
            }
        };
        if found.iter().any(|entrant: &Entrant| entrant.peer == peer) {
            bail!("{} is named twice", peer.name());
        }
        found.push(Entrant { peer, path: program, version });
    }
    Ok(found)
}

/// Builds the Go proxy; its program and version.
fn go(go: &Path, place: &mut Place) -> Result<(PathBuf, String)> {
    let go = locate(go).context("go is not here\nhelp: --peers thalweg,node")?;
    let program = place.next_folder()?.join("sealed_go");
    let mut command = Command::new(&go);
    command.args(["build", "-o"]).arg(&program).args(["main.go", "hello.go", "label.go"]);
    // The standard library alone: nothing is fetched, and no C compiler is needed.
    command.env("GO111MODULE", "off").env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
    run(command.current_dir(root().join("bench/peers/sealed_go")))?;
    let version = output(Command::new(&go).arg("version"))?;
    Ok((program, format!("of this tree, a thread for each CPU, {}", version.trim())))
}

impl Entrant {
    /// Starts it and waits until sessions of every mode get through.
    pub(super) fn start(&self, place: &mut Place, ends: &Ends) -> Result<Started> {
        let (web, raw, folder) = (place.address()?, place.address()?, place.next_folder()?);
        let mut command = place.command(CPUS, &self.path);
        match self.peer {
            Peer::Thalweg => {
                let file = folder.join("thalweg.yaml");
                fs::write(&file, configs::thalweg(web, raw))?;
                command.args(["run", "--config"]).arg(&file);
            }
            Peer::Go | Peer::Node => {
                if self.peer == Peer::Node {
                    command.arg(root().join("bench/peers/sealed_node/main.mjs"));
                }
                command.args([&web.to_string(), &raw.to_string(), configs::DOMAIN]);
                command.env("SEAL_KEY", configs::secret());
            }
        }
        let address = |mode| if mode == Mode::Raw { raw } else { web };
        let ask = || ends.modes().try_fold(0, |_, mode| ends.ask(mode, address(mode)));
        let running = place.start_and_ask(command, &folder, web, ask);
        let running = running.with_context(|| format!("{} does not start", self.name()))?;
        Ok(Started { peer: self.peer, running, raw })
    }
}

impl Started {
    /// Where it takes sessions.
    pub(super) fn address(&self, mode: Mode) -> SocketAddr {
        match mode {
            Mode::Websocket => self.running.address,
            Mode::Raw => self.raw,
        }
    }
}
