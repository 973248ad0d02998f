//! Both ends: the echo servers, the clients, and what the clients report.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::entrant::Started;
use super::{Sealed, configs};
use crate::bench::contestant::Place;
use crate::bench::process::Program;
use crate::command::output;

/// Both CPUs, for every program.
pub(super) const CPUS: &str = "0,1";

/// What messages travel in.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// WebSocket, found by the host of a request
    Websocket,
    /// Bare bytes, found by the server name of TLS
    Raw,
}

impl Mode {
    pub(super) const ALL: [Self; 2] = [Self::Websocket, Self::Raw];

    /// The word that the programs know, and that stands in file names.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Websocket => "websocket",
            Self::Raw => "raw",
        }
    }

    /// The name in headings.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Websocket => "WebSocket",
            Self::Raw => "raw bytes after a server name of TLS",
        }
    }
}

/// What came of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// From the first message to the last echo.
    pub(super) seconds: f64,
    /// Sessions that were asked for, and those that stood.
    pub(super) sessions: u64,
    pub(super) connected: u64,
    /// Sessions with a clean refusal, those without an answer, those that got wrong bytes.
    pub(super) refused: u64,
    pub(super) silent: u64,
    pub(super) broken: u64,
    /// Messages of sessions that stood, without a right echo.
    pub(super) lost: u64,
}

impl Outcome {
    /// Reads the last line of what clients say.
    fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text.lines().last()?).ok()?;
        let count = |name: &str| value.get(name)?.as_u64();
        Some(Self {
            seconds: value.get("seconds")?.as_f64()?,
            sessions: count("sessions")?,
            connected: count("connected")?,
            refused: count("refused")?,
            silent: count("silent")?,
            broken: count("broken")?,
            lost: count("lost")?,
        })
    }

    /// Sessions that did not stand or got wrong bytes, and messages that were lost: none of them may be.
    pub(super) fn losses(&self) -> u64 {
        (self.sessions - self.connected.min(self.sessions)) + self.broken + self.lost
    }
}

/// Which servers sessions go to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Servers {
    /// So many, each with a port of its own.
    Ports(usize),
    /// So many addresses of 127.0.0.0/8 with the same port.
    Addresses(usize),
}

/// Sessions that talk all at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) mode: Mode,
    pub(super) servers: Servers,
    /// Sessions with each server.
    pub(super) clients: usize,
    pub(super) messages: u32,
    pub(super) bytes: usize,
}

/// What became of a load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) outcome: Outcome,
    /// CPU time of the proxy from the first message to the last echo, in seconds.
    pub(super) cpu: f64,
    /// Descriptors of the proxy when all sessions stood.
    pub(super) descriptors: usize,
}

/// The echo servers of one mode.
struct Echo {
    mode: Mode,
    ports: Vec<u16>,
    /// The port of the server of all addresses.
    everywhere: u16,
    _programs: [Program; 2],
}

/// The program of both ends, and the servers that run.
pub(super) struct Ends {
    program: PathBuf,
    /// For more commands.
    place: Place,
    echoes: Vec<Echo>,
}

impl Ends {
    /// Starts all servers that the command line needs.
    pub(super) fn start(program: PathBuf, args: &Sealed, place: &Place) -> Result<Self> {
        let place = Place::new(place.folder.clone())?;
        let mut ends = Self { program, place, echoes: Vec::new() };
        let most = args.servers.iter().chain(&args.others).copied().max().unwrap_or(1).max(args.clients);
        for &mode in &args.modes {
            let (each, ports) = ends.serve(mode, &most.to_string())?;
            let (everywhere, port) = ends.serve(mode, "everywhere")?;
            let everywhere_port = port.first().copied().context("no port")?;
            ends.echoes.push(Echo {
                mode,
                ports,
                everywhere: everywhere_port,
                _programs: [each, everywhere],
            });
        }
        Ok(ends)
    }

    /// Starts a program of servers; with the ports on which it listens.
    fn serve(&self, mode: Mode, listeners: &str) -> Result<(Program, Vec<u16>)> {
        let mut command = self.place.command(CPUS, &self.program);
        command.args(["serve", mode.word(), listeners]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let from = child.stdout.take();
        let program = Program::new(child);
        let mut line = String::new();
        BufReader::new(from.context("the servers have no output")?).read_line(&mut line)?;
        let ports = line.strip_prefix("PORTS ").with_context(|| format!("the servers said {line:?}"))?;
        Ok((program, ports.split_whitespace().map(str::parse).collect::<Result<_, _>>()?))
    }

    /// The words that name servers.
    fn targets(&self, mode: Mode, servers: Servers) -> Result<String> {
        let echo = self.echoes.iter().find(|echo| echo.mode == mode).context("no servers of this mode")?;
        match servers {
            Servers::Addresses(count) => Ok(format!("addresses:{count}:{}", echo.everywhere)),
            Servers::Ports(count) => {
                let ports = echo.ports.get(..count).context("too few servers")?;
                let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
                Ok(format!("ports:{}", ports.join(",")))
            }
        }
    }

    /// A command of the clients, up to the servers; what it says is JSON.
    fn clients(&self, verb: &str, mode: Mode, proxy: SocketAddr, servers: Servers) -> Result<Command> {
        let mut command = self.place.command(CPUS, &self.program);
        command.env("SEAL_KEY", configs::secret()).args([verb, mode.word(), &proxy.to_string()]);
        command.args([configs::DOMAIN, &self.targets(mode, servers)?]);
        Ok(command)
    }

    /// Opens one session and exchanges one message: whether a proxy is there.
    pub(super) fn ask(&self, mode: Mode, proxy: SocketAddr) -> Result<u16> {
        let mut command = self.clients("drive", mode, proxy, Servers::Addresses(1))?;
        let text = output(command.args(["1", "1", "20"]))?;
        let outcome = Outcome::read(&text).with_context(|| format!("the clients said:\n{text}"))?;
        if outcome.losses() > 0 {
            bail!("{}: {outcome:?}", mode.name());
        }
        Ok(200)
    }

    /// The modes of which there are servers.
    pub(super) fn modes(&self) -> impl Iterator<Item = Mode> {
        self.echoes.iter().map(|echo| echo.mode)
    }

    /// Opens one session with each of so many addresses, so many at once, with one message each.
    pub(super) fn sequence(&self, on: &Started, mode: Mode, count: usize, at_once: usize) -> Result<Outcome> {
        let mut command = self.clients("sequence", mode, on.address(mode), Servers::Addresses(count))?;
        let text = output(command.args([&at_once.to_string(), "20"]))?;
        Outcome::read(&text).with_context(|| format!("the clients said:\n{text}"))
    }

    /// Runs a load: all sessions are opened, then the CPU time of the proxy counts and all talk.
    pub(super) fn drive(&self, on: &Started, load: &Load) -> Result<Sample> {
        let Load { mode, servers, clients, messages, bytes } = *load;
        let mut command = self.clients("drive", mode, on.address(mode), servers)?;
        command.args([clients.to_string(), messages.to_string(), bytes.to_string()]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut clients = Clients::of(child)?;
        let line = clients.line()?;
        if line != "READY\n" {
            bail!("the clients do not begin: {line:?}");
        }
        let (descriptors, before) = (on.running.program.descriptors(), on.running.program.cpu());
        clients.go_on()?;
        let line = clients.line()?;
        let cpu = on.running.program.cpu().saturating_sub(before).as_secs_f64();
        let outcome = Outcome::read(&line).with_context(|| format!("the clients said {line:?}"))?;
        Ok(Sample { outcome, cpu, descriptors })
    }
}

/// Clients under way; stopped when dropped.
struct Clients {
    child: Child,
    from: BufReader<ChildStdout>,
}

impl Clients {
    fn of(mut child: Child) -> Result<Self> {
        let from = BufReader::new(child.stdout.take().context("the clients have no output")?);
        Ok(Self { child, from })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(line)
    }

    fn go_on(&mut self) -> Result<()> {
        let mut to = self.child.stdin.take().context("the clients have no input")?;
        Ok(to.write_all(b"\n")?)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        r#"{"seconds":1.5,"sessions":10,"connected":8,"refused":1,"silent":1,"broken":0,"lost":3}"#;

    #[test]
    fn the_line_of_the_clients_is_read() {
        let outcome =
            Outcome { seconds: 1.5, sessions: 10, connected: 8, refused: 1, silent: 1, broken: 0, lost: 3 };
        assert_eq!(Outcome::read(&format!("READY\n{LINE}\n")), Some(outcome));
        assert_eq!(Outcome::read(&LINE.replace("lost", "found")), None);
        assert_eq!(Outcome::read(&LINE.replace("10", "-10")), None);
        assert_eq!(Outcome::read(""), None);
    }

    #[test]
    fn whatever_did_not_come_is_a_loss() {
        let outcome = Outcome::read(LINE).unwrap();
        assert_eq!(outcome.losses(), 5);
        assert_eq!(Outcome { connected: 10, broken: 1, lost: 1, ..outcome }.losses(), 2);
        assert_eq!(Outcome { connected: 10, lost: 0, ..outcome }.losses(), 0);
    }
}
