//! Who takes part, and how each is started before the origin.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::Cache;
use super::configs::{self, Setup};
use crate::bench::contestant::{self, Kind, Place, Running};
use crate::bench::entrant;
use crate::command::{locate, output};

/// What can take part.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Peer {
    Thalweg,
    /// With `proxy_cache`, its files in memory
    Nginx,
    /// With storage in memory
    Varnish,
    /// The product without a cache: what a miss costs
    ThalwegWithout,
}

impl entrant::Peer for Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Thalweg => "thalweg",
            Self::Nginx => "nginx",
            Self::Varnish => "varnish",
            Self::ThalwegWithout => "thalweg, no cache",
        }
    }
}

/// A program that takes part.
pub(super) type Entrant = entrant::Program<Peer>;

/// One that runs, and where its files are.
pub(super) struct Started {
    pub(super) running: Running,
    pub(super) folder: PathBuf,
}

/// Builds or finds those that the command line names; says which are missing.
pub(super) fn find(args: &Cache) -> Result<Vec<Entrant>> {
    let mut found = Vec::new();
    for &peer in &args.peers {
        let program = match peer {
            Peer::Thalweg | Peer::ThalwegWithout => contestant::built("thalweg", args.thalweg.as_deref())?,
            Peer::Nginx => args.nginx.clone(),
            Peer::Varnish => args.varnish.clone(),
        };
        let Some(path) = locate(&program) else {
            println!("bench: {} is not here, left out", program.display());
            continue;
        };
        let version = match peer {
            Peer::Thalweg | Peer::ThalwegWithout => contestant::version(Kind::Thalweg, &path)?,
            Peer::Nginx => contestant::version(Kind::Nginx, &path)?,
            Peer::Varnish => {
                let text = output(std::process::Command::new(&path).arg("-V"))?;
                text.lines().next().unwrap_or_default().to_owned()
            }
        };
        found.push(Entrant { peer, path, version });
    }
    Ok(found)
}

impl Entrant {
    /// Starts it on these CPUs and waits for its first answer.
    pub(super) fn start(&self, setup: Setup, cpus: &str, place: &mut Place) -> Result<Started> {
        let (address, folder, origin) = (place.address()?, place.next_folder()?, place.backend);
        let file = folder.join("configuration");
        let mut command = place.command(cpus, &self.path);
        match self.peer {
            Peer::Thalweg | Peer::ThalwegWithout => {
                let config =
                    if self.peer == Peer::Thalweg { configs::thalweg } else { configs::thalweg_without };
                fs::write(&file, config(address, origin, setup))?;
                command.args(["run", "--config"]).arg(&file);
            }
            Peer::Nginx => {
                fs::write(&file, configs::nginx_cache(&folder, address, origin, setup))?;
                command.arg("-p").arg(&folder).arg("-c").arg(&file);
            }
            Peer::Varnish => {
                command.args(["-F", "-j", "none", "-a", &address.to_string(), "-b", &origin.to_string()]);
                command.args(["-s", &format!("malloc,{}M", setup.memory), "-n"]).arg(folder.join("varnish"));
            }
        }
        let running = place.start(command, &folder, address, ("bench", "/"));
        let running = running.with_context(|| format!("{} does not start", self.name()))?;
        Ok(Started { running, folder })
    }
}
