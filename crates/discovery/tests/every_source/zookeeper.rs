//! A real ZooKeeper, behind a gate. Tests that run at the same time share it.

use super::gate::Gate;
use super::program::Program;
use super::registry::Registry;
use super::watch::Watched;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Where Debian has its classes.
const CLASSES: &str = "/usr/share/java/zookeeper.jar";
/// What its TLS needs, and its own list of classes leaves out.
const CODECS: &str = "/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar";
const CREATE: i32 = 1;
const DELETE: i32 = 2;
const SET_DATA: i32 = 5;
const MULTI: i32 = 14;
/// Children that are there as long as the session.
const EPHEMERAL: i32 = 1;

/// A server that runs.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _program: Program,
}

impl Server {
    fn shared() -> Arc<Self> {
        static RUNNING: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut running = RUNNING.lock().unwrap();
        running.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start(""));
            *running = Arc::downgrade(&server);
            server
        })
    }

    /// Starts one with more settings.
    pub(crate) fn start(more: &str) -> Self {
        for _ in 0..3 {
            let directory = Program::directory("zookeeper");
            let address = Program::free_port();
            let configuration = format!(
                "dataDir={}/data\nclientPort={}\nclientPortAddress=127.0.0.1\ntickTime=500\nminSessionTimeout=500\nmaxSessionTimeout=60000\nadmin.enableServer=false\nmaxClientCnxns=0\n{more}",
                directory.display(),
                address.port(),
            );
            std::fs::write(directory.join("zoo.cfg"), configuration).unwrap();
            let mut command = Command::new("java");
            command.args([
                "-Xmx128m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Dzookeeper.forceSync=no",
                "-cp",
            ]);
            command.arg(format!("{CLASSES}:{CODECS}"));
            command.arg("org.apache.zookeeper.server.ZooKeeperServerMain").arg(directory.join("zoo.cfg"));
            let program = Program::start(command.stdout(Stdio::null()).stderr(Stdio::null()), directory);
            // It says nothing without a library for logs, so that it is asked until it grants a session.
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(30) {
                if Client::connect(address).is_some() {
                    return Self { address, _program: program };
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        panic!("ZooKeeper does not begin");
    }
}

/// A session that writes.
pub(crate) struct Client {
    stream: TcpStream,
}

fn int(value: i32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn bytes(value: &[u8]) -> Vec<u8> {
    [int(i32::try_from(value.len()).unwrap()), value.to_vec()].concat()
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut this = Self { stream };
        let hello = [int(0), vec![0; 8], int(60_000), vec![0; 8], bytes(&[0; 16]), vec![0]].concat();
        this.stream.write_all(&bytes(&hello)).ok()?;
        this.frame().ok()?;
        Some(this)
    }

    fn frame(&mut self) -> std::io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame)?;
        Ok(frame)
    }

    /// Asks; the error of the answer.
    fn ask(&mut self, op: i32, body: &[u8]) -> i32 {
        self.stream.write_all(&bytes(&[&int(1), &int(op), body].concat())).unwrap();
        let answer = self.frame().unwrap();
        i32::from_be_bytes(answer[12..16].try_into().unwrap())
    }

    /// Makes a node that stays.
    pub(crate) fn make(&mut self, path: &str, data: &str) {
        assert_eq!(self.ask(CREATE, &Self::create(path, data, 0)), 0, "{path}");
    }

    fn create(path: &str, data: &str, flags: i32) -> Vec<u8> {
        Self::create_for(path, data, flags, ("world", "anyone"))
    }

    fn create_for(path: &str, data: &str, flags: i32, (scheme, id): (&str, &str)) -> Vec<u8> {
        let rights = [int(1), int(31), bytes(scheme.as_bytes()), bytes(id.as_bytes())].concat();
        [bytes(path.as_bytes()), bytes(data.as_bytes()), rights, int(flags)].concat()
    }

    /// All of it, or nothing.
    fn multi(&mut self, all: &[(i32, Vec<u8>)]) {
        let one = |(op, body): &(i32, Vec<u8>)| [int(*op), vec![0], int(-1), body.clone()].concat();
        let body: Vec<u8> = all.iter().flat_map(one).chain([int(-1), vec![1], int(-1)].concat()).collect();
        assert_eq!(self.ask(MULTI, &body), 0);
    }
}

pub(crate) struct ZookeeperRegistry {
    gate: Gate,
    client: Client,
    /// Of this test alone.
    base: String,
    ports: BTreeSet<u16>,
    // Dropped last.
    server: Arc<Server>,
}

impl ZookeeperRegistry {
    fn service(&self) -> String {
        format!("{}/checkout", self.base)
    }

    fn instance(port: u16) -> String {
        let payload = r#"{"@class":"org.springframework.cloud.zookeeper.discovery.ZookeeperInstance","id":"application-1","name":"checkout","metadata":{"instance_status":"UP"}}"#;
        format!(
            r#"{{"name":"checkout","id":"i-{port}","address":"127.0.0.1","port":{port},"sslPort":null,"payload":{payload},"registrationTimeUTC":1,"serviceType":"DYNAMIC","uriSpec":null,"enabled":true}}"#
        )
    }

    fn watched(&self, arguments: &str) -> Watched {
        Watched::of(&format!("zookeeper: {{ servers: '{}', {arguments} }}", self.gate.address()))
    }
}

impl Registry for ZookeeperRegistry {
    fn is_here() -> bool {
        Program::is_here("java") && Program::needs(std::path::Path::new(CLASSES).exists(), "zookeeper")
    }

    fn start() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let server = Server::shared();
        let base = format!("/test-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut client = Client::connect(server.address).unwrap();
        assert_eq!(client.ask(CREATE, &Client::create(&base, "", 0)), 0);
        let gate = Gate::before(server.address, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        Self { gate, client, base, ports: BTreeSet::new(), server }
    }

    fn argument(&self) -> String {
        let (at, service) = (self.gate.address(), self.service());
        format!("zookeeper: {{ path: {service}, servers: ['{at}'], layout: spring, session_timeout: 1s }}")
    }

    /// In one transaction. The node of the service comes with the first instance and goes with the last.
    fn publish(&mut self, ports: &[u16]) {
        let new: BTreeSet<u16> = ports.iter().copied().collect();
        let service = self.service();
        let path = |port: &u16| format!("{service}/i-{port}");
        let mut all = Vec::new();
        if self.ports.is_empty() && !new.is_empty() {
            all.push((CREATE, Client::create(&service, "", 0)));
        }
        for port in new.difference(&self.ports) {
            all.push((CREATE, Client::create(&path(port), &Self::instance(*port), EPHEMERAL)));
        }
        for port in self.ports.difference(&new) {
            all.push((DELETE, [bytes(path(port).as_bytes()), int(-1)].concat()));
        }
        if !self.ports.is_empty() && new.is_empty() {
            all.push((DELETE, [bytes(service.as_bytes()), int(-1)].concat()));
        }
        self.client.multi(&all);
        self.ports = new;
    }

    fn gate(&self) -> Option<&Gate> {
        Some(&self.gate)
    }
}

#[test]
fn an_instance_that_changes_its_data_or_dies_is_seen() {
    if !ZookeeperRegistry::is_here() {
        return;
    }
    let mut registry = ZookeeperRegistry::start();
    registry.publish(&[1001]);
    let mut watched = Watched::start(&registry);
    assert_eq!(watched.ports(), [1001]);
    let mut other = Client::connect(registry.server.address).unwrap();
    let path = format!("{}/other", registry.service());
    assert_eq!(other.ask(CREATE, &Client::create(&path, &ZookeeperRegistry::instance(1002), EPHEMERAL)), 0);
    assert_eq!(watched.ports(), [1001, 1002]);
    let body =
        [bytes(path.as_bytes()), bytes(ZookeeperRegistry::instance(1003).as_bytes()), int(-1)].concat();
    assert_eq!(other.ask(SET_DATA, &body), 0);
    assert_eq!(watched.ports(), [1001, 1003]);
    // It dies: its session is closed.
    assert_eq!(other.ask(-11, &[]), 0);
    assert_eq!(watched.ports(), [1001]);
    assert_eq!(watched.status().failures, 0);
}

#[test]
fn plain_nodes_are_instances_and_one_that_may_not_be_read_is_left_out() {
    if !ZookeeperRegistry::is_here() {
        return;
    }
    let mut registry = ZookeeperRegistry::start();
    let service = registry.service();
    let mut create = |name: &str, data: &str, who| {
        let body = Client::create_for(&format!("{service}{name}"), data, 0, who);
        assert_eq!(registry.client.ask(CREATE, &body), 0, "{name}");
    };
    let anyone = ("world", "anyone");
    create("", "", anyone);
    create("/a", "127.0.0.1:1001", anyone);
    create("/127.0.0.1:1002", "", anyone);
    // proxy:secret
    create("/c", "127.0.0.1:1003", ("digest", "proxy:fzjZwJZmj8mjYrtwGUuLDL30gyA="));
    let arguments = format!("path: {service}, layout: plain");
    let mut watched = registry.watched(&arguments);
    assert_eq!(watched.ports(), [1001, 1002]);
    assert!(watched.status().flaw.unwrap().contains("may not be read"));
    let mut watched =
        registry.watched(&format!("{arguments}, username: proxy, password: {{ value: secret }}"));
    assert_eq!(watched.ports(), [1001, 1002, 1003]);
}

#[test]
fn services_of_one_server_share_a_session() {
    if !ZookeeperRegistry::is_here() {
        return;
    }
    let mut registry = ZookeeperRegistry::start();
    registry.publish(&[1001]);
    let at = registry.gate.address();
    let sources: Vec<_> = ["checkout", "products"]
        .map(|name| {
            let argument = format!("zookeeper: {{ path: {}/{name}, servers: '{at}' }}", registry.base);
            super::watch::source(&argument)
        })
        .into();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut watches = thalweg_discovery::Watches::default();
    runtime.block_on(async { watches.watch(&sources) });
    let mut told = BTreeSet::new();
    while told.len() < 2 {
        match runtime.block_on(watches.news()) {
            thalweg_discovery::News::Set(id, found) => drop(told.insert((id, found.len()))),
            turned => panic!("{turned:?}"),
        }
    }
    let counts: Vec<_> = sources.iter().map(|source| (thalweg_discovery::id(&**source), 0)).collect();
    assert!(told.contains(&(counts[0].0.clone(), 1)) && told.contains(&counts[1]), "{told:?}");
    assert_eq!(registry.connections(), 1);
}
