//! Who takes part, and how each is started: the product, its rivals as they come and with their buffers off, the
//! naive copy loop, and the floors.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Part, Programs, Stream};
use crate::bench::contestant::{self, Kind, Place, Running};
use crate::bench::entrant;
use crate::bench::{PROXY_CPU, configs};
use crate::command::locate;

/// nginx takes bodies of any size, and otherwise does what it does by default.
const NGINX: &str = "client_max_body_size 0;";
/// nginx passes bodies on as they come.
const NGINX_UNBUFFERED: &str = "client_max_body_size 0; proxy_buffering off; proxy_request_buffering off;";

/// What can take part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Peer {
    Thalweg,
    Nginx,
    NginxUnbuffered,
    Haproxy,
    /// The relay that copies, with a buffer of this many KiB.
    Copy(usize),
    /// The relay that splices, through a pipe of this many KiB.
    Splice(usize),
    /// The published loop: it writes on when a write of this many KiB has been acknowledged.
    Acked(usize),
    /// Its decoupled form: buffers of this many KiB between a reader and a writer.
    Pooled(usize),
}

/// All of them, in the order of tables.
const ALL: &[Peer] = &[
    Peer::Thalweg,
    Peer::Nginx,
    Peer::NginxUnbuffered,
    Peer::Haproxy,
    Peer::Copy(4),
    Peer::Copy(64),
    Peer::Copy(256),
    Peer::Splice(64),
    Peer::Splice(256),
    Peer::Splice(1024),
    Peer::Acked(64),
    Peer::Acked(256),
    Peer::Acked(1024),
    Peer::Pooled(4),
];

impl Peer {
    /// The name in tables.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Thalweg => "thalweg".to_owned(),
            Self::Nginx => "nginx".to_owned(),
            Self::NginxUnbuffered => "nginx, buffering off".to_owned(),
            Self::Haproxy => "haproxy".to_owned(),
            Self::Copy(kib) => format!("copy {kib} KiB"),
            Self::Splice(kib) => format!("splice {kib} KiB"),
            Self::Acked(kib) => format!("copy, acknowledged, {kib} KiB"),
            Self::Pooled(kib) => format!("copy, decoupled, {kib} KiB"),
        }
    }

    /// Whether it is measured in a part; the product is in all, so that each part has its own comparison.
    pub(crate) fn is_in(self, part: Part) -> bool {
        match (self, part) {
            (Self::Thalweg, _) | (Self::Copy(4), Part::Link) => true,
            (Self::Copy(_) | Self::Splice(_), part) => part == Part::Floor,
            (Self::Acked(_) | Self::Pooled(_), part) => part == Part::Published,
            (_, part) => part != Part::Floor,
        }
    }
}

/// A program that takes part.
pub(crate) struct Entrant {
    pub(crate) peer: Peer,
    name: String,
    program: PathBuf,
    version: String,
}

impl entrant::Entrant for Entrant {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.version
    }
}

/// Builds or finds all that the wanted parts need; says which are missing.
pub(crate) fn find(args: &Stream, programs: &Programs) -> Result<Vec<Entrant>> {
    let mut found = Vec::new();
    for peer in ALL.iter().copied().filter(|peer| args.only.iter().any(|part| peer.is_in(*part))) {
        let (program, kind) = match peer {
            Peer::Thalweg => {
                (contestant::built("thalweg", args.proxies.thalweg.as_deref())?, Some(Kind::Thalweg))
            }
            Peer::Nginx | Peer::NginxUnbuffered => (args.proxies.nginx.clone(), Some(Kind::Nginx)),
            Peer::Haproxy => (args.proxies.haproxy.clone(), Some(Kind::Haproxy)),
            Peer::Copy(_) | Peer::Splice(_) | Peer::Acked(_) | Peer::Pooled(_) => {
                (programs.copy_loop.clone(), None)
            }
        };
        let Some(program) = locate(&program) else {
            println!("bench: {} is not here, left out", program.display());
            continue;
        };
        let version = match kind {
            Some(kind) => contestant::version(kind, &program)?,
            None => "copy_loop of this tree".to_owned(),
        };
        found.push(Entrant { peer, name: peer.name(), program, version });
    }
    Ok(found)
}

impl Entrant {
    /// Starts it in front of the place's backend and waits for its first answer.
    pub(crate) fn start(&self, place: &mut Place) -> Result<Running> {
        let (address, folder) = (place.address()?, place.next_folder()?);
        let backend = place.backend;
        let ip = if place.is_within() { [0, 0, 0, 0] } else { [127, 0, 0, 1] };
        let listen = SocketAddr::from((ip, address.port()));
        let file = folder.join("configuration");
        let mut command = place.command(PROXY_CPU, &self.program);
        match self.peer {
            Peer::Thalweg => {
                let file = file.with_extension("yaml");
                fs::write(&file, configs::thalweg(listen, &[backend]))?;
                command.args(["run", "--config"]).arg(&file);
            }
            Peer::Nginx | Peer::NginxUnbuffered => {
                let more = if self.peer == Peer::Nginx { NGINX } else { NGINX_UNBUFFERED };
                fs::write(&file, configs::nginx_proxy(&folder, listen, &[backend], configs::USUAL, more))?;
                command.arg("-p").arg(&folder).arg("-c").arg(&file);
            }
            Peer::Haproxy => {
                fs::write(&file, configs::haproxy(listen, backend))?;
                command.args(["-db", "-f"]).arg(&file);
            }
            Peer::Copy(kib) | Peer::Splice(kib) | Peer::Acked(kib) | Peer::Pooled(kib) => {
                let way = match self.peer {
                    Peer::Splice(_) => "splice",
                    Peer::Acked(_) => "acked",
                    Peer::Pooled(_) => "pooled",
                    _ => "copy",
                };
                command.args([&listen.to_string(), &backend.to_string(), way, &(kib * 1024).to_string()]);
            }
        }
        let running = place.start(command, &folder, address, ("bench", "/"));
        running.with_context(|| format!("{} does not start", self.peer.name()))
    }
}
