//! What stands between the suite's client and its origin server, and its configuration.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Args;
use super::suite::spawn;
use crate::bench::process::Program;
use crate::command::{built, cargo, locate, output, run};

/// Time in which it must take connections.
const START: Duration = Duration::from_secs(15);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// The product's filters: what the suite tests is what the RFCs allow, so everything that is off by default for safety
/// and that a test asks for is on.
const FILTERS: &str = "[ { cache: { set_cookie: store, ignore_language_order: true, \
                       stale_if_unreachable: 1h } } ]";

/// The product's configuration: one listener, one service, and no second attempt, which the suite would take for a
/// retry of the client's.
fn thalweg(origin: SocketAddr, filters: &str) -> String {
    format!(
        "listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         services: {{ origin: {{ endpoints: [ \"http://{origin}\" ] }} }}\n\
         routes: [ {{ to: origin, filters: {filters} }} ]\n"
    )
}

/// Another cache, or none.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(super) enum Against {
    /// `proxy_cache` with `proxy_cache_revalidate`, as the suite publishes results of
    Nginx,
    /// Without default lifetime and grace, as the suite publishes results of
    Varnish,
    /// The client speaks with the origin server itself
    Nothing,
}

/// A cache that runs; it ends with this.
pub(super) struct Between {
    _program: Option<Program>,
    log: PathBuf,
    pub(super) address: SocketAddr,
    pub(super) version: String,
}

impl Between {
    /// What it wrote so far.
    pub(super) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Starts what the command line names before the origin server.
pub(super) fn start(args: &Args, origin: SocketAddr, folder: &Path) -> Result<Between> {
    match args.against {
        None => product(args, origin, folder),
        Some(Against::Nothing) => Ok(Between {
            _program: None,
            log: PathBuf::new(),
            address: origin,
            version: "nothing between".to_owned(),
        }),
        Some(Against::Nginx) => {
            let (program, address) = (find("nginx", "nginx-light")?, free_address()?);
            let file = folder.join("nginx.conf");
            fs::write(&file, nginx(folder, address, origin))?;
            let mut command = bound(&program);
            command.arg("-p").arg(folder).arg("-c").arg(&file);
            peer(&mut command, folder, address, &version(&program, "-v")?)
        }
        Some(Against::Varnish) => {
            let (program, address) = (find("varnishd", "varnish")?, free_address()?);
            let mut command = bound(&program);
            command.args(["-F", "-j", "none", "-a", &address.to_string(), "-b", &origin.to_string()]);
            command.args(["-p", "default_ttl=0", "-p", "default_grace=0", "-p", "default_keep=3600"]);
            command.args(["-s", "malloc,64M", "-n"]).arg(folder.join("varnish"));
            peer(&mut command, folder, address, &version(&program, "-V")?)
        }
    }
}

fn product(args: &Args, origin: SocketAddr, folder: &Path) -> Result<Between> {
    let program = if let Some(path) = &args.thalweg {
        std::path::absolute(path)?
    } else {
        run(&mut cargo("build --package thalweg"))?;
        built("thalweg")?
    };
    let file = folder.join("thalweg.yaml");
    fs::write(&file, thalweg(origin, args.filters.as_deref().unwrap_or(FILTERS)))?;
    let mut command = bound(&program);
    command.arg("run").arg("--config").arg(&file);
    command.env("XDG_RUNTIME_DIR", folder).env("XDG_STATE_HOME", folder).env("NO_COLOR", "1");
    command.env_remove("THALWEG_CONFIG").env_remove("RUST_LOG").current_dir(folder);
    let log = folder.join("between.output");
    let program_runs = spawn(&mut command, &log)?;
    let (program_runs, address) = wait(program_runs, &log, web)?;
    Ok(Between { _program: Some(program_runs), log, address, version: version(&program, "version")? })
}

/// The address in `… listening on ADDRESS (web)`, once a line says `… ready`; what stands before depends on where it
/// writes to.
fn web(said: &str) -> Option<SocketAddr> {
    let address = |line: &str| line.strip_suffix(" (web)")?.split_once("listening on ")?.1.parse().ok();
    said.lines().any(|line| line.ends_with(" ready")).then(|| said.lines().find_map(address))?
}

/// A rival, ready when it takes connections.
fn peer(command: &mut Command, folder: &Path, address: SocketAddr, version: &str) -> Result<Between> {
    let log = folder.join("between.output");
    let program = spawn(command, &log)?;
    let (program, ()) = wait(program, &log, |_| TcpStream::connect(address).is_ok().then_some(()))?;
    Ok(Between { _program: Some(program), log, address, version: version.to_owned() })
}

/// Looks at a program until it is ready.
fn wait<T>(mut program: Program, log: &Path, ready: impl Fn(&str) -> Option<T>) -> Result<(Program, T)> {
    let start = Instant::now();
    loop {
        let said = fs::read_to_string(log).unwrap_or_default();
        if let Some(found) = ready(&said) {
            return Ok((program, found));
        }
        if program.has_ended() || start.elapsed() > START {
            bail!("it does not start; it said:\n{said}");
        }
        thread::sleep(LOOK);
    }
}

/// A program that ends when we do.
fn bound(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM"]).arg(program);
    command
}

fn find(program: &str, package: &str) -> Result<PathBuf> {
    let found = locate(Path::new(program));
    found.with_context(|| format!("{program} is not installed\nhelp: apt-get install {package}"))
}

/// An address that nobody listens on now.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn version(program: &Path, argument: &str) -> Result<String> {
    let text = output(Command::new(program).arg(argument))?;
    let line = text.lines().next().unwrap_or_default();
    Ok(line.trim_start_matches("nginx version: ").to_owned())
}

fn nginx(folder: &Path, listen: SocketAddr, origin: SocketAddr) -> String {
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let folder = folder.display();
    format!(
        "daemon off; worker_processes 1; {user} pid {folder}/nginx.pid; error_log stderr crit;\n\
         events {{ worker_connections 2048; }}\n\
         http {{\n  access_log off;\n  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;\n  \
         fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n  \
         proxy_cache_path {folder}/cache levels=1:2 keys_zone=suite:8m max_size=1000m inactive=600m;\n  \
         server {{\n    listen {listen};\n    location / {{\n      proxy_pass http://{origin}; proxy_http_version 1.1;\n      \
         proxy_cache suite; proxy_cache_revalidate on;\n    }}\n  }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_what_the_product_says() {
        let address = Some(SocketAddr::from(([127, 0, 0, 1], 4000)));
        for head in ["thalweg: ", "2026-11-25T23:18:28.884Z INFO "] {
            let said = format!("{head}admin on unix:/run/s\n{head}listening on 127.0.0.1:4000 (web)\n");
            assert_eq!(web(&said), None, "it is not ready");
            assert_eq!(web(&format!("{said}{head}ready\n")), address);
        }
    }
}
