//! An authority that issues certificates: Pebble, the small one that Let's Encrypt tests clients with. Strict, and it
//! refuses every fifth nonce.
//!
//! It stands behind a gate that keeps its address while it is down or not there yet, and asks the names of a server
//! of the test's own.

mod gate;
mod names;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::go_tool::go_tool;
use crate::message::Kind;
use crate::process::Process;
use crate::{Connection, Directory, Identity, Message, STEP};
use gate::Gate;
use names::Names;

const PACKAGE: &str = "github.com/letsencrypt/pebble/v2/cmd/pebble";
const VERSION: &str = "v2.10.1";

/// Pebble with what it needs.
pub struct Pebble {
    program: PathBuf,
    directory: Directory,
    identity: Identity,
    gate: Gate,
    names: Names,
    running: Mutex<Option<Running>>,
}

struct Running {
    process: Process,
    /// Where it tells of itself.
    management: SocketAddr,
    directory: SocketAddr,
}

/// How it runs.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The port that it checks over plain HTTP.
    pub http: u16,
    /// The port that it checks through TLS.
    pub tls: u16,
    /// How long its certificates are valid, in seconds.
    pub validity: u32,
}

impl Pebble {
    /// One that does not run yet: whoever asks it waits. `None` where it cannot be built, which is told, and in CI
    /// fails.
    ///
    /// # Panics
    /// When it cannot be built and `CI=true`.
    pub fn new() -> Option<Self> {
        let program = go_tool(PACKAGE, VERSION)?;
        let directory = Directory::new();
        fs::create_dir(directory.path().join("records")).unwrap();
        let names = Names::start(directory.path().join("records"));
        let identity = Identity::new(&["localhost", "127.0.0.1"]);
        identity.write(&directory, "pebble");
        directory.write("hook", HOOK);
        Some(Self { program, directory, identity, gate: Gate::start(), names, running: Mutex::new(None) })
    }

    /// What a configuration says of it.
    pub fn keys(&self) -> String {
        let ca = self.directory.path().join("pebble.pem");
        let address = self.gate.address();
        format!("directory: \"https://{address}/dir\", directory_ca: \"{}\"", ca.display())
    }

    /// What a configuration says of who sets records, before further words for the program.
    pub fn hook(&self) -> String {
        let (hook, directory) = (self.directory.path().join("hook"), self.directory.path());
        format!("exec: [ sh, \"{}\", \"{}\" ], propagation: 0s", hook.display(), directory.display())
    }

    /// The directory in which the program for records writes `calls`, a line for each call, and waits while there is a
    /// file `hold`.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The calls of the program for records, so far.
    pub fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path().join("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Starts it; what it knew before is gone.
    pub fn start(&self, settings: Settings) {
        let (chain, key) = (self.path().join("pebble.pem"), self.path().join("pebble.key"));
        let config = serde_json::json!({ "pebble": {
            "listenAddress": "127.0.0.1:0",
            "managementListenAddress": "127.0.0.1:0",
            "certificate": chain,
            "privateKey": key,
            "httpPort": settings.http,
            "tlsPort": settings.tls,
            "keyAlgorithm": "ecdsa",
            "retryAfter": { "authz": 1, "order": 1 },
            "profiles": { "default": { "description": "", "validityPeriod": settings.validity } },
        } });
        let config = self.directory.write("pebble.json", &config.to_string());
        let mut command = Command::new("sh");
        // It says everything on standard output.
        command.args(["-c", "exec \"$0\" \"$@\" >&2"]).arg(&self.program).arg("-config").arg(config);
        command.args(["-strict", "-dnsserver", &self.names.address().to_string()]);
        command
            .env("PEBBLE_WFE_NONCEREJECT", "20")
            .env("PEBBLE_AUTHZREUSE", "0")
            .env("PEBBLE_VA_NOSLEEP", "1");
        let process = Process::start(&mut command);
        process.wait_line("`Listening on`", STEP, |line| line.contains("Pebble").then_some(()));
        let [first, second] = listening(&process);
        let is_management = |address: SocketAddr| self.ask(address, "/roots/0").status() == 200;
        let (management, directory) = if is_management(first) { (first, second) } else { (second, first) };
        *self.running.lock().unwrap() = Some(Running { process, management, directory });
        self.gate.open(directory);
    }

    /// Ends it: who asks it is refused at once.
    pub fn stop(&self) {
        self.gate.close();
        *self.running.lock().unwrap() = None;
    }

    /// It goes on, but nobody reaches it.
    pub fn go_away(&self) {
        self.gate.close();
    }

    /// It is reached again.
    pub fn come_back(&self) {
        let directory = self.running.lock().unwrap().as_ref().unwrap().directory;
        self.gate.open(directory);
    }

    /// What trusts the certificates that it issues now.
    pub fn client(&self) -> Arc<ClientConfig> {
        let management = self.running.lock().unwrap().as_ref().unwrap().management;
        let mut roots = RootCertStore::empty();
        let pem = self.ask(management, "/roots/0").body;
        roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        Arc::new(builder.unwrap().with_root_certificates(roots).with_no_client_auth())
    }

    /// How many lines of what it says hold this.
    pub fn said(&self, what: &str) -> usize {
        let running = self.running.lock().unwrap();
        running
            .as_ref()
            .map_or(0, |it| it.process.stderr().lines().filter(|line| line.contains(what)).count())
    }

    fn ask(&self, address: SocketAddr, path: &str) -> Message {
        let mut connection = Connection::open_secure(address, &self.identity, "localhost").unwrap();
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
        Message::read(&mut connection, Kind::Response, Instant::now() + STEP).unwrap()
    }
}

/// Sets and unsets records as files of values, and waits while it is held.
const HOOK: &str = "dir=$1; shift\n\
    echo \"$1 $2\" >> \"$dir/calls\"\n\
    if [ -e \"$dir/fail\" ]; then echo 'no such zone' >&2; exit 1; fi\n\
    while [ -e \"$dir/hold\" ]; do sleep 0.05; done\n\
    case $1 in\n\
    set) echo \"$3\" >> \"$dir/records/$2\" ;;\n\
    unset) rm -f \"$dir/records/$2\" ;;\n\
    esac\n";

/// The addresses that a process listens on, once there are two. The kernel has chosen them, and only it knows.
fn listening(process: &Process) -> [SocketAddr; 2] {
    let end = Instant::now() + STEP;
    loop {
        let inodes: Vec<String> = fs::read_dir(format!("/proc/{}/fd", process.pid()))
            .map(|entries| {
                let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
                let names = links.filter_map(|link| link.into_os_string().into_string().ok());
                names
                    .filter_map(|name| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
                    .collect()
            })
            .unwrap_or_default();
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let found: Vec<SocketAddr> = table
            .lines()
            .filter_map(|line| {
                let columns: Vec<&str> = line.split_whitespace().collect();
                // A socket that listens, and is one of the process.
                let is_one =
                    columns.get(3) == Some(&"0A") && inodes.iter().any(|it| columns.get(9) == Some(&&**it));
                let port = columns.get(1).filter(|_| is_one)?.split_once(':')?.1;
                Some((Ipv4Addr::LOCALHOST, u16::from_str_radix(port, 16).ok()?).into())
            })
            .collect();
        if let [first, second] = found[..] {
            return [first, second];
        }
        assert!(
            Instant::now() < end && process.is_running(),
            "pebble does not listen:\n{}",
            process.stderr()
        );
        thread::yield_now();
    }
}

/// Shakes hands with a listener.
///
/// # Errors
/// What the handshake comes to.
pub fn shake_hands(
    address: SocketAddr,
    client: &Arc<ClientConfig>,
    name: &str,
) -> std::io::Result<crate::secure::Secure> {
    let stream = TcpStream::connect_timeout(&address, STEP)?;
    stream.set_read_timeout(Some(STEP))?;
    crate::secure::Secure::connect(&stream, client.clone(), name)
}
