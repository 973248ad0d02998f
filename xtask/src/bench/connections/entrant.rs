//! Who takes part, and how each is started before both backends.

use std::fs;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};

use super::{Backends, Connections, configs};
use crate::bench::PROXY_CPU;
use crate::bench::contestant::{self, Kind, Place, Running};
use crate::bench::entrant::{self, Peer as _};
use crate::command::locate;

/// What can take part.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Peer {
    Thalweg,
    /// As it comes
    Haproxy,
    /// With `option splice-auto`
    HaproxySplice,
}

impl Peer {
    pub(super) const ALL: [Self; 3] = [Self::Thalweg, Self::Haproxy, Self::HaproxySplice];

    /// Whose program it is.
    fn kind(self) -> Kind {
        match self {
            Self::Thalweg => Kind::Thalweg,
            Self::Haproxy | Self::HaproxySplice => Kind::Haproxy,
        }
    }
}

impl entrant::Peer for Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Thalweg => "thalweg",
            Self::Haproxy => "haproxy",
            Self::HaproxySplice => "haproxy, splice",
        }
    }
}

/// A program that takes part.
pub(super) type Entrant = entrant::Program<Peer>;

/// One that runs.
pub(super) struct Started {
    /// With the listener of small exchanges.
    pub(super) small: Running,
    /// The listener of large bodies.
    pub(super) large: SocketAddr,
}

/// Builds or finds all that the command line names.
pub(super) fn find(args: &Connections) -> Result<Vec<Entrant>> {
    let mut found: Vec<Entrant> = Vec::new();
    for &peer in &args.peers {
        if found.iter().any(|entrant| entrant.peer == peer) {
            bail!("{} is named twice", peer.name());
        }
        let program = match peer.kind() {
            Kind::Thalweg => contestant::built("thalweg", args.thalweg.as_deref())?,
            _ => args.haproxy.clone(),
        };
        let program = locate(&program).with_context(|| format!("{} is not here", program.display()))?;
        let version = contestant::version(peer.kind(), &program)?;
        found.push(Entrant { peer, path: program, version });
    }
    Ok(found)
}

impl Entrant {
    /// Starts it and waits for its first answer.
    pub(super) fn start(&self, place: &mut Place, backends: &Backends) -> Result<Started> {
        let (small, large, folder) = (place.address()?, place.address()?, place.next_folder()?);
        let ways = [(small, backends.small.address), (large, backends.large.address)];
        let file = folder.join("configuration.yaml");
        let mut command = place.command(PROXY_CPU, &self.path);
        match self.peer {
            Peer::Thalweg => {
                fs::write(&file, configs::thalweg(ways))?;
                command.args(["run", "--config"]).arg(&file);
            }
            Peer::Haproxy | Peer::HaproxySplice => {
                fs::write(&file, configs::haproxy(ways, self.peer == Peer::HaproxySplice))?;
                command.args(["-db", "-f"]).arg(&file);
            }
        }
        let running = place.start(command, &folder, small, ("bench", "/"));
        let small = running.with_context(|| format!("{} does not start", self.name()))?;
        Ok(Started { small, large })
    }
}
