//! Who takes part, and how each is started before the backend.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::case::Tools;
use super::configs::{self, Addresses};
use super::{Scene, Tls};
use crate::bench::configs::BODY;
use crate::bench::contestant::{self, Kind, Place, Running};
use crate::bench::entrant::{self, Peer as _};
use crate::bench::envoy;
use crate::bench::{LOAD_CPU, PROXY_CPU};
use crate::command::{locate, output};

/// What can take part.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Peer {
    Thalweg,
    Nginx,
    Envoy,
}

impl Peer {
    /// In the order of tables.
    pub(super) const ALL: [Self; 3] = [Self::Thalweg, Self::Nginx, Self::Envoy];
}

impl entrant::Peer for Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Thalweg => "thalweg",
            Self::Nginx => "nginx",
            Self::Envoy => "envoy",
        }
    }
}

/// A program that takes part.
pub(super) type Entrant = entrant::Program<Peer>;

/// One that runs.
pub(super) struct Started {
    /// Its address is that with TLS.
    pub(super) running: Running,
    /// The one in the clear.
    pub(super) clear: SocketAddr,
    /// Version, suite and group of its handshakes.
    pub(super) agreed: String,
}

/// Builds or finds those that the command line names; says which are missing.
pub(super) fn find(args: &Tls) -> Result<Vec<Entrant>> {
    let mut found = Vec::new();
    for &peer in &args.peers {
        let given = match peer {
            Peer::Thalweg => contestant::built("thalweg", args.thalweg.as_deref())?,
            Peer::Nginx => args.nginx.clone(),
            Peer::Envoy => match envoy::find(args.envoy.as_deref()) {
                Ok(path) => path,
                Err(error) => {
                    println!("bench: envoy left out: {error:#}");
                    continue;
                }
            },
        };
        let Some(program) = locate(&given) else {
            println!("bench: {} is not here, {} left out", given.display(), peer.name());
            continue;
        };
        let version = match peer {
            Peer::Thalweg => contestant::version(Kind::Thalweg, &program)?,
            Peer::Nginx => nginx_version(&program)?,
            Peer::Envoy => envoy::version(&program)?,
        };
        found.push(Entrant { peer, path: program, version });
    }
    Ok(found)
}

/// nginx with its library, which does most of the work here.
fn nginx_version(program: &Path) -> Result<String> {
    let said = output(Command::new(program).arg("-V"))?;
    let library =
        said.lines().find(|line| line.starts_with("built with ")).unwrap_or("with an unknown library");
    Ok(format!("{}, {library}", contestant::version(Kind::Nginx, program)?))
}

/// Starts the backend of HTTP/2.
pub(super) fn h2_backend(nginx: &Path, clients: &Path, place: &mut Place) -> Result<Running> {
    let (address, folder) = (place.address()?, place.next_folder()?);
    let file = folder.join("h2.conf");
    fs::write(&file, configs::h2_backend(&folder, address))?;
    let mut command = place.command(LOAD_CPU, &locate(nginx).context("nginx is not here")?);
    command.arg("-p").arg(&folder).arg("-c").arg(&file);
    let running =
        place.start_and_ask(command, &folder, address, || ask(clients, address, "h2c").map(|_| 200));
    running.context("the backend of HTTP/2 does not start")
}

/// Does one exchange and says what was agreed on.
fn ask(clients: &Path, address: SocketAddr, language: &str) -> Result<String> {
    output(Command::new(clients).args(["ask", &address.to_string(), language, BODY]))
}

impl Entrant {
    /// Starts it before the backend and waits for its first answer through TLS.
    pub(super) fn start(&self, place: &mut Place, scene: &Scene) -> Result<Started> {
        let Scene { certificate, h2_backend, tools: Tools { clients, .. } } = scene;
        let folder = place.next_folder()?;
        let (secure, clear) = (place.address()?, place.address()?);
        let addresses = Addresses { secure, clear, backend: place.backend, h2_backend: h2_backend.address };
        let file = folder.join(format!("{}.yaml", self.name()));
        let mut command = place.command(PROXY_CPU, &self.path);
        match self.peer {
            Peer::Thalweg => {
                fs::write(&file, configs::thalweg(&addresses, certificate))?;
                command.args(["run", "--config"]).arg(&file);
            }
            Peer::Nginx => {
                fs::write(&file, configs::nginx(&folder, &addresses, certificate))?;
                command.arg("-p").arg(&folder).arg("-c").arg(&file);
            }
            Peer::Envoy => {
                fs::write(&file, configs::envoy(&addresses, certificate))?;
                command.args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "error", "-c"]);
                command.arg(&file);
            }
        }
        let ask = |address, language| ask(clients, address, language);
        let running = place.start_and_ask(command, &folder, secure, || ask(secure, "h1").map(|_| 200));
        let running = running.with_context(|| format!("{} does not start", self.name()))?;
        let [one, two] = ["h1", "h2"].map(|language| ask(secure, language));
        let (one, two) = (one?, two?);
        ask(clear, "h2c")?;
        // What was agreed on ends with the protocol.
        let agreed = |said: &str| said.trim().rsplit_once(' ').map(|(terms, _)| terms.to_owned());
        match (agreed(&one), agreed(&two)) {
            (Some(terms), Some(same)) if terms == same && two.trim().ends_with(" h2") => {
                Ok(Started { running, clear, agreed: terms })
            }
            _ => bail!("{} agreed on {one:?} and {two:?}", self.name()),
        }
    }
}
