//! Who takes part, and how each is started before the backend.

use std::fs;

use anyhow::{Context, Result, bail};

use super::{Compress, PATH, size};
use crate::bench::contestant::{self, Kind, Place, Running};
use crate::bench::entrant::{self, Peer as _};
use crate::bench::{PROXY_CPU, configs};
use crate::command::locate;

/// What can take part.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Peer {
    /// With gzip
    Thalweg,
    /// With gzip
    Nginx,
    /// With brotli
    ThalwegBr,
    /// With zstd
    ThalwegZstd,
    /// The same filter for a client that accepts no coding
    ThalwegPlain,
}

impl Peer {
    /// The coding that it is asked for; empty for none.
    pub(super) fn coding(self) -> &'static str {
        match self {
            Self::Thalweg | Self::Nginx => "gzip",
            Self::ThalwegBr => "br",
            Self::ThalwegZstd => "zstd",
            Self::ThalwegPlain => "",
        }
    }

    /// Whose program it is.
    fn kind(self) -> Kind {
        if self == Self::Nginx { Kind::Nginx } else { Kind::Thalweg }
    }
}

impl entrant::Peer for Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Thalweg => "thalweg, gzip",
            Self::Nginx => "nginx, gzip",
            Self::ThalwegBr => "thalweg, br",
            Self::ThalwegZstd => "thalweg, zstd",
            Self::ThalwegPlain => "thalweg, no coding",
        }
    }
}

/// A program that takes part.
pub(super) type Entrant = entrant::Program<Peer>;

/// Builds or finds all that the command line names.
pub(super) fn find(args: &Compress) -> Result<Vec<Entrant>> {
    let mut found: Vec<Entrant> = Vec::new();
    for &peer in &args.peers {
        if found.iter().any(|entrant| entrant.peer == peer) {
            bail!("{} is named twice", peer.name());
        }
        let program = match peer.kind() {
            Kind::Thalweg => contestant::built("thalweg", args.thalweg.as_deref())?,
            _ => args.nginx.clone(),
        };
        let path = locate(&program).with_context(|| format!("{} is not here", program.display()))?;
        let version = contestant::version(peer.kind(), &path)?;
        found.push(Entrant { peer, path, version });
    }
    Ok(found)
}

impl Entrant {
    /// Starts it and waits for its first answer.
    pub(super) fn start(&self, args: &Compress, place: &mut Place) -> Result<Running> {
        let (address, folder, backend) = (place.address()?, place.next_folder()?, place.backend);
        let file = folder.join("configuration.yaml");
        let mut command = place.command(PROXY_CPU, &self.path);
        let algorithm = match self.peer.coding() {
            "" => "gzip",
            coding => coding,
        };
        match self.peer.kind() {
            Kind::Thalweg => {
                fs::write(&file, configs::thalweg_compressing(address, backend, (algorithm, args.level)))?;
                command.args(["run", "--config"]).arg(&file);
            }
            _ => {
                let more = format!("gzip on; gzip_comp_level {}; gzip_proxied any;\n      ", args.level);
                fs::write(&file, configs::nginx_proxy(&folder, address, &[backend], configs::USUAL, &more))?;
                command.arg("-p").arg(&folder).arg("-c").arg(&file);
            }
        }
        let running = place.start_and_ask(command, &folder, address, || size::status(address, PATH));
        running.with_context(|| format!("{} does not start", self.name()))
    }
}
