//! The suite's programs: its origin server, its client, and its judgement. All run on Node.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::score::Score;
use crate::bench::process::Program;
use crate::command::{exists, output};

/// Time in which the origin server must listen.
const START: Duration = Duration::from_secs(10);
/// Time between two looks at a program that is waited for.
const LOOK: Duration = Duration::from_millis(20);
/// Judges results with the suite's own functions.
const JUDGE: &str = include_str!("judge.mjs");

/// A checkout of the suite.
pub(super) struct Suite {
    folder: PathBuf,
}

/// The suite's origin server; it ends with this.
pub(super) struct Origin {
    _program: Program,
    pub(super) address: SocketAddr,
}

impl Suite {
    /// Looks whether everything is there.
    pub(super) fn find(folder: &Path) -> Result<Self> {
        ensure!(exists("node") && exists("setpriv"), "node or setpriv is not installed");
        let folder = std::path::absolute(folder)?;
        let there = |path: &str| folder.join(path).exists();
        ensure!(
            there("test-engine/cli.mjs") && there("tests/index.mjs"),
            "{} is no checkout of http-tests/cache-tests",
            folder.display()
        );
        ensure!(
            there("node_modules/undici"),
            "the suite's client library is not installed\nhelp: npm install --no-save --prefix {} undici@7",
            folder.display()
        );
        Ok(Self { folder })
    }

    /// Node with a script of the suite; it reads what npm would tell it.
    fn node(&self, script: &str, settings: &[(&str, &str)]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "node", "--no-warnings", script]).current_dir(&self.folder);
        command.env_remove("npm_config_base").env_remove("npm_config_id").stdin(Stdio::null());
        command.env("npm_package_config_id", "");
        for (name, value) in settings {
            command.env(format!("npm_config_{name}"), value);
        }
        command
    }

    /// Starts the origin server on a port of the kernel's choice.
    pub(super) fn origin(&self, folder: &Path) -> Result<Origin> {
        let (log, pid) = (folder.join("origin.output"), folder.join("origin.pid"));
        let pid = pid.to_string_lossy();
        let settings = [("protocol", "http"), ("port", "0"), ("pidfile", &*pid)];
        let mut command = self.node("test-engine/server/server.mjs", &settings);
        let mut program = spawn(&mut command, &log)?;
        let start = Instant::now();
        loop {
            let said = fs::read_to_string(&log)?;
            if let Some(port) = listening_port(&said) {
                return Ok(Origin { _program: program, address: SocketAddr::from(([127, 0, 0, 1], port)) });
            }
            if program.has_ended() || start.elapsed() > START {
                bail!("the suite's server does not start; it said:\n{said}");
            }
            thread::sleep(LOOK);
        }
    }

    /// Plays all tests against `base`, and gives the file with what the client saw.
    pub(super) fn play(&self, base: SocketAddr, folder: &Path, limit: Duration) -> Result<PathBuf> {
        let file = folder.join("results.json");
        let base = format!("http://{base}");
        let mut command = self.node("test-engine/cli.mjs", &[("base", &*base)]);
        let errors = folder.join("client.errors");
        command.stdout(fs::File::create(&file)?).stderr(fs::File::create(&errors)?);
        let mut program = Program::new(command.spawn().context("cannot run node")?);
        let start = Instant::now();
        while !program.has_ended() {
            if start.elapsed() > limit {
                bail!("the suite's client is not done after {} s", limit.as_secs());
            }
            thread::sleep(LOOK);
        }
        if fs::metadata(&file)?.len() == 0 {
            bail!("the suite's client gives no results; it said:\n{}", fs::read_to_string(errors)?);
        }
        Ok(file)
    }

    /// Plays one test and shows what the client sent and received.
    pub(super) fn show(&self, test: &str, base: SocketAddr) -> Result<()> {
        let base = format!("http://{base}");
        let mut command = self.node("test-engine/cli.mjs", &[("base", &*base), ("id", test)]);
        crate::command::run(&mut command)
    }

    /// What the suite makes of a file of results.
    pub(super) fn judge(&self, results: &Path) -> Result<Score> {
        let mut command = Command::new("node");
        command.args(["--no-warnings", "--input-type=module", "--eval", JUDGE, "--"]);
        let text = output(command.arg(&self.folder).arg(results))?;
        let judged = serde_json::from_str(&text).with_context(|| format!("not a judgement: {text}"))?;
        Score::new(judged)
    }
}

/// Starts a program whose output goes to a file.
pub(super) fn spawn(command: &mut Command, log: &Path) -> Result<Program> {
    let file = fs::File::create(log)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let child = command.spawn().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    Ok(Program::new(child))
}

/// The port in `Listening on http://[::]:PORT/`.
fn listening_port(said: &str) -> Option<u16> {
    let line = said.lines().find_map(|line| line.strip_prefix("Listening on "))?;
    line.trim_end_matches('/').rsplit(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_from_what_the_server_says() {
        assert_eq!(listening_port("Listening on http://[::]:40123/\n"), Some(40_123));
        assert_eq!(listening_port("Listening on http://0.0.0.0:80/\n"), Some(80));
        assert_eq!(listening_port("PID file write error\n"), None);
    }
}
