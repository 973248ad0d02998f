//! The contestants: who they are, how they are built or found, how they are started.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;

use super::entrant::Entrant;
use super::namespace::Namespace;
use super::process::Program;
use super::{LOAD_CPU, PROXY_CPU, Small, configs};
use crate::command::{cargo, locate, output, root, run};

/// Time in which a program must give its first answer.
const START: Duration = Duration::from_secs(10);

/// What can take part.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Kind {
    Thalweg,
    Nginx,
    Haproxy,
    Floor,
}

impl Kind {
    /// The name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Thalweg => "thalweg",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Floor => "floor",
        }
    }
}

/// As what the product takes part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// As it is; others always are.
    Plain,
    /// A binary of an earlier commit (`--before`).
    Before,
    /// With filters on its route (`--filters`).
    Filters(Filters),
}

/// What stands on the product's route.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Filters {
    /// Five that change messages
    Five,
    /// A rate limit by the client's address that lets everything pass
    #[value(name = "rate_limit")]
    RateLimit,
    /// An access list of a million networks that lets everything pass
    Access,
}

/// A program that takes part.
pub(crate) struct Contestant {
    pub(crate) kind: Kind,
    pub(crate) role: Role,
    program: PathBuf,
    version: String,
}

impl Entrant for Contestant {
    fn name(&self) -> &str {
        match self.role {
            Role::Plain => self.kind.name(),
            Role::Before => "before",
            Role::Filters(Filters::Five) => "five filters",
            Role::Filters(Filters::RateLimit) => "rate_limit",
            Role::Filters(Filters::Access) => "access, 1 M networks",
        }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

/// Where contestants run: a folder for their files, the backend that they forward to, and a network of their own
/// when it is not that of everybody.
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) backend: SocketAddr,
    namespace: Option<Rc<Namespace>>,
    starts: usize,
}

/// A contestant (or the backend) that runs.
pub(crate) struct Running {
    pub(crate) program: Program,
    pub(crate) address: SocketAddr,
    /// From the start of the process to the end of the first answer.
    pub(crate) started_in: Duration,
}

impl Place {
    pub(crate) fn new(folder: PathBuf) -> Result<Self> {
        Ok(Self { folder, backend: SocketAddr::from(([127, 0, 0, 1], 0)), namespace: None, starts: 0 })
    }

    /// A place inside a namespace.
    pub(crate) fn within(folder: PathBuf, namespace: Rc<Namespace>) -> Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self { namespace: Some(namespace), ..Self::new(folder)? })
    }

    /// An address that nobody listens on now.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        let find = || Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?);
        match &self.namespace {
            None => find(),
            Some(namespace) => namespace.within(find),
        }
    }

    /// Whether it has a network of its own.
    pub(crate) fn is_within(&self) -> bool {
        self.namespace.is_some()
    }

    /// A program on a CPU (or several, as `0,1`), here; it is stopped when we die, so that nothing of a broken run
    /// stays behind.
    pub(crate) fn command(&self, cpu: &str, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]);
        if let Some(namespace) = &self.namespace {
            command.args(namespace.enter());
        }
        command.args(["taskset", "-c", cpu]).arg(program);
        // What the product reads or writes for its user stays out of the measurement.
        for name in ["THALWEG_CONFIG", "RUST_LOG"] {
            command.env_remove(name);
        }
        command
    }

    /// Starts a command with a folder of its own and asks until it answers.
    pub(crate) fn start(
        &self,
        command: Command,
        folder: &Path,
        address: SocketAddr,
        (host, path): (&str, &str),
    ) -> Result<Running> {
        self.start_and_ask(command, folder, address, || match &self.namespace {
            None => ask(address, host, path),
            Some(namespace) => namespace.within(|| ask(address, host, path)),
        })
    }

    /// The same with a question of one's own; what it is answered with has to be 200.
    pub(crate) fn start_and_ask(
        &self,
        mut command: Command,
        folder: &Path,
        address: SocketAddr,
        ask: impl Fn() -> Result<u16>,
    ) -> Result<Running> {
        let log = folder.join("output");
        let file = fs::File::create(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        // A runtime folder and a state folder of its own, so that several can run.
        command.env("XDG_RUNTIME_DIR", folder).env("XDG_STATE_HOME", folder).current_dir(folder);
        // What is measured is one process, the one that is started.
        command.env("THALWEG_SUPERVISE", "never");
        let begin = Instant::now();
        let mut program = Program::new(command.spawn()?);
        loop {
            let answer = ask();
            if answer.as_ref().is_ok_and(|status| *status == 200) {
                return Ok(Running { program, address, started_in: begin.elapsed() });
            }
            if program.has_ended() || begin.elapsed() > START {
                let text = fs::read_to_string(&log).unwrap_or_default();
                bail!("last answer: {answer:?}; it said:\n{text}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A folder of its own for each start.
    pub(crate) fn next_folder(&mut self) -> Result<PathBuf> {
        self.starts += 1;
        let folder = self.folder.join(self.starts.to_string());
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

/// Starts the backend on CPUs.
pub(crate) fn backend(nginx: &Path, cpus: &str, place: &mut Place) -> Result<Running> {
    backend_as(nginx, cpus, place, |folder, address| configs::nginx_backend(folder, address.port()))
}

/// Starts the backend with a second address, of the same port, where it speaks HTTP/2 without TLS.
pub(crate) fn backend_with_h2(nginx: &Path, cpus: &str, place: &mut Place) -> Result<Running> {
    backend_as(nginx, cpus, place, |folder, address| {
        let listens = format!("{} http2 backlog=4096; listen {address}", beside(address));
        configs::nginx_backend_on(folder, &listens)
    })
}

/// The same port of another address of loopback.
pub(crate) fn beside(address: SocketAddr) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 2], address.port()))
}

/// Starts the backend of another size on all addresses of loopback, on the CPU of the load.
pub(crate) fn backend_of(nginx: &Path, size: configs::Size, place: &mut Place) -> Result<Running> {
    backend_as(nginx, LOAD_CPU, place, |folder, address| {
        // Loopback alone would be a line for each address.
        configs::nginx_backend_of(folder, &format!("0.0.0.0:{}", address.port()), size)
    })
}

/// Starts nginx as a backend with this configuration.
fn backend_as(
    nginx: &Path,
    cpus: &str,
    place: &mut Place,
    configuration: impl FnOnce(&Path, SocketAddr) -> String,
) -> Result<Running> {
    let (address, folder) = (place.address()?, place.next_folder()?);
    let file = folder.join("backend.conf");
    fs::write(&file, configuration(&folder, address))?;
    let mut command = place.command(cpus, &locate(nginx).context("nginx is not here")?);
    command.arg("-p").arg(&folder).arg("-c").arg(&file);
    place.start(command, &folder, address, ("bench", "/")).context("the backend does not start")
}

/// Where the programs of the contestants are.
#[derive(Clone, Copy)]
pub(crate) struct Programs<'a> {
    pub(crate) thalweg: Option<&'a Path>,
    pub(crate) floor: Option<&'a Path>,
    pub(crate) nginx: &'a Path,
    pub(crate) haproxy: &'a Path,
}

/// Builds or finds these, plain; says which are missing.
pub(crate) fn find(kinds: &[Kind], programs: Programs<'_>) -> Result<Vec<Contestant>> {
    let mut found = Vec::new();
    for &kind in kinds {
        let program = match kind {
            Kind::Thalweg => built("thalweg", programs.thalweg)?,
            Kind::Floor => built("floor", programs.floor)?,
            Kind::Nginx => programs.nginx.to_owned(),
            Kind::Haproxy => programs.haproxy.to_owned(),
        };
        let Some(program) = locate(&program) else {
            println!("bench: {} is not here, left out", program.display());
            continue;
        };
        match version(kind, &program) {
            Ok(version) => found.push(Contestant { kind, role: Role::Plain, program, version }),
            Err(error) => println!("bench: {} left out: {error:#}", kind.name()),
        }
    }
    Ok(found)
}

/// Those that the command line of `bench small` names, with the other forms of the product.
pub(crate) fn find_for(args: &Small) -> Result<Vec<Contestant>> {
    let programs = Programs {
        thalweg: args.thalweg.as_deref(),
        floor: args.floor.as_deref(),
        nginx: &args.nginx,
        haproxy: &args.haproxy,
    };
    let mut found = find(&args.peers, programs)?;
    if let Some(place) = found.iter().position(|contestant| contestant.kind == Kind::Thalweg) {
        let Contestant { kind, program, version, .. } = &found[place];
        let with = |filters: &Filters| Contestant {
            kind: *kind,
            role: Role::Filters(*filters),
            program: program.clone(),
            version: version.clone(),
        };
        let filtered: Vec<_> = args.filters.iter().map(with).collect();
        found.splice(place + 1..place + 1, filtered);
    }
    if let Some(before) = &args.before {
        // It was asked for by name: a comparison without it would not be what was asked for.
        let program = std::path::absolute(before)?;
        let kind = Kind::Thalweg;
        let version = version(kind, &program).with_context(|| format!("{} (--before)", before.display()))?;
        let place = found.len().min(1);
        found.insert(place, Contestant { kind, role: Role::Before, program, version });
    }
    Ok(found)
}

/// The binary of a package of this workspace: the one that was given, or built now with the profile dist.
pub(crate) fn built(package: &str, given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        // It is started in a folder of its own.
        return std::path::absolute(path).with_context(|| format!("no path: {}", path.display()));
    }
    run(cargo("build --profile dist --package").arg(package))?;
    let metadata = MetadataCommand::new().current_dir(root()).no_deps().exec()?;
    Ok(metadata.target_directory.join("dist").join(package).into_std_path_buf())
}

/// What a program says about its version.
pub(crate) fn version(kind: Kind, program: &Path) -> Result<String> {
    let mut command = Command::new(program);
    let text = match kind {
        Kind::Thalweg => output(command.arg("version"))?,
        Kind::Nginx | Kind::Haproxy => output(command.arg("-v"))?,
        Kind::Floor => return Ok("floor of this tree".to_owned()),
    };
    match text.lines().next() {
        Some(line) => Ok(line.trim_start_matches("nginx version: ").to_owned()),
        None => bail!("it says no version"),
    }
}

impl Contestant {
    /// Starts it in front of the backend and waits for its first answer.
    pub(crate) fn start(&self, place: &mut Place) -> Result<Running> {
        let (address, folder) = (place.address()?, place.next_folder()?);
        let backend = place.backend;
        let file = folder.join(format!("{}.conf", self.kind.name()));
        let mut command = place.command(PROXY_CPU, &self.program);
        match self.kind {
            Kind::Thalweg => {
                let text = match self.role {
                    Role::Plain | Role::Before => configs::thalweg(address, &[backend]),
                    Role::Filters(filters) => {
                        if filters == Filters::Access {
                            fs::write(folder.join(configs::NETWORKS), configs::million_networks())?;
                        }
                        configs::thalweg_with_filters(address, backend, filters)
                    }
                };
                fs::write(&file, text)?;
                command.args(["run", "--config"]).arg(&file);
            }
            Kind::Nginx => {
                fs::write(&file, configs::nginx_proxy(&folder, address, &[backend], configs::USUAL, ""))?;
                command.arg("-p").arg(&folder).arg("-c").arg(&file);
            }
            Kind::Haproxy => {
                fs::write(&file, configs::haproxy(address, backend))?;
                command.args(["-db", "-f"]).arg(&file);
            }
            Kind::Floor => {
                command.arg(address.to_string()).arg(backend.to_string());
            }
        }
        let running = place.start(command, &folder, address, ("bench", "/"));
        running.with_context(|| format!("{} does not start", self.name()))
    }

    /// Starts the product with `count` routes.
    pub(crate) fn start_with_routes(&self, place: &mut Place, count: usize) -> Result<Running> {
        let (address, folder) = (place.address()?, place.next_folder()?);
        let file = folder.join("routes.yaml");
        fs::write(&file, configs::thalweg_routes(address, place.backend, count))?;
        let mut command = place.command(PROXY_CPU, &self.program);
        command.args(["run", "--config"]).arg(&file);
        let (host, path) = configs::middle_route(count);
        let running = place.start(command, &folder, address, (&host, &path));
        running.with_context(|| format!("with {count} routes"))
    }
}

fn ask(address: SocketAddr, host: &str, path: &str) -> Result<u16> {
    let mut stream = TcpStream::connect(address)?;
    Ok(exchange(&mut stream, host, path)?)
}

/// One small exchange on a kept-alive connection; the status of the answer.
pub(crate) fn exchange(stream: &mut TcpStream, host: &str, path: &str) -> std::io::Result<u16> {
    stream.set_read_timeout(Some(START))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut buf = [0; 4096];
    loop {
        let received = stream.read(&mut buf)?;
        answer.extend_from_slice(&buf[..received]);
        // Zuul sends everything in chunks.
        let whole = answer.ends_with(configs::BODY.as_bytes()) || answer.ends_with(b"\r\n0\r\n\r\n");
        if whole || received == 0 {
            let text = String::from_utf8_lossy(&answer);
            let status = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
            return status.ok_or_else(|| std::io::Error::other("no status in the answer"));
        }
    }
}
