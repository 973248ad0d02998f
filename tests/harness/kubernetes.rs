//! A control plane of Kubernetes: etcd, the API server, the controllers of Deployments and EndpointSlices; and a
//! [`Node`] in the place of a kubelet.
//!
//! `cargo xtask test --kubernetes` builds the programs (`tests/programs/kubernetes/build.sh`) and runs the test in a
//! network of its own (`enter.sh` there): so ports are fixed, and pods have addresses that nothing else uses.

mod node;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::message::Kind;
use crate::process::Signal;
use crate::{Authority, Connection, Directory, Identity, Message, Process, STEP};

pub use node::Node;

/// Where the programs are, when this is asked for.
const PROGRAMS: &str = "THALWEG_KUBERNETES";
/// How long a program may take to get ready: they are large.
const START: Duration = Duration::from_secs(90);
/// How often it is asked whether it is ready.
const LOOK: Duration = Duration::from_millis(100);
const ETCD: &str = "http://127.0.0.1:2379";
const PORT: u16 = 6443;
/// The token of one who may do everything.
const ADMIN: &str = "the-token-of-the-administrator";

/// A running control plane; killed on drop.
#[derive(Debug)]
pub struct ControlPlane {
    programs: PathBuf,
    directory: Directory,
    client: ApiClient,
    clients: Authority,
    api: Process,
    _controllers: Process,
    _etcd: Process,
}

/// Who talks to the API server as one who may do everything.
#[derive(Clone, Debug)]
pub struct ApiClient {
    identity: Arc<Identity>,
}

impl ControlPlane {
    /// Starts one; `None` where it is not asked for.
    ///
    /// # Panics
    /// When it does not get ready.
    pub fn start() -> Option<Self> {
        let Some(programs) = std::env::var_os(PROGRAMS).map(PathBuf::from) else {
            eprintln!("skipped: `cargo xtask test --kubernetes` runs it");
            return None;
        };
        let directory = Directory::new();
        let identity = Identity::new(&["localhost", "127.0.0.1"]);
        identity.write(&directory, "api");
        // What signs the tokens of service accounts.
        Identity::new(&["accounts"]).write(&directory, "accounts");
        let clients = Authority::new("clients of the cluster");
        directory.write("clients.pem", &clients.pem);
        directory.write("tokens.csv", &format!("{ADMIN},admin,admin,\"system:masters\"\n"));
        let etcd = Process::start(
            Command::new(programs.join("etcd"))
                .current_dir(directory.path())
                .args(["--data-dir", "etcd", "--unsafe-no-fsync", "--log-level", "info"])
                .args(["--listen-client-urls", ETCD, "--advertise-client-urls", ETCD])
                .args(["--listen-peer-urls", "http://127.0.0.1:2380"]),
        );
        let is_ready = |line: &str| line.contains("ready to serve client requests").then_some(());
        etcd.wait_line("that it serves", START, is_ready);
        let client = ApiClient { identity: Arc::new(identity) };
        let api = api_server(&programs, directory.path());
        client.wait();
        let admin = kubeconfig(&client.identity, &format!("token: {ADMIN}"));
        directory.write("admin.yaml", &admin);
        let controllers = Process::start(
            Command::new(programs.join("kube-controller-manager"))
                .current_dir(directory.path())
                .args(["--kubeconfig=admin.yaml", "--leader-elect=false", "--bind-address=127.0.0.1"])
                .args([
                    "--service-account-private-key-file=accounts.key",
                    "--use-service-account-credentials=false",
                ])
                .arg("--controllers=deployment-controller,replicaset-controller,endpointslice-controller"),
        );
        Some(Self { programs, directory, client, clients, api, _controllers: controllers, _etcd: etcd })
    }

    /// As one who may do everything.
    pub fn client(&self) -> &ApiClient {
        &self.client
    }

    /// The API server, for signals: [`Signal::STOP`] freezes it.
    pub fn api_server(&self) -> &Process {
        &self.api
    }

    /// Kills the API server; what is in etcd stays.
    pub fn kill_api_server(&self) {
        self.api.signal(Signal::KILL);
        let end = Instant::now() + STEP;
        while self.api.is_running() {
            assert!(Instant::now() < end, "the API server outlives its death");
            std::thread::sleep(LOOK);
        }
    }

    /// Starts it again.
    ///
    /// # Panics
    /// When it does not get ready.
    pub fn restart_api_server(&mut self) {
        self.api = api_server(&self.programs, self.directory.path());
        self.client.wait();
    }

    /// A file for `kubectl` with which the user of this name logs in by a certificate.
    pub fn kubeconfig_of(&self, user: &str) -> PathBuf {
        let shown = self.clients.issue(user, -1..10, 1);
        shown.write(self.directory.path(), user);
        let login = format!("client-certificate: {user}.pem, client-key: {user}.key");
        self.directory.write(&format!("{user}.yaml"), &kubeconfig(&self.client.identity, &login))
    }

    /// What a pod of this service account finds at the usual place (which is this test's own), and in its environment.
    pub fn enter_pod(&self, account: &str) -> [String; 2] {
        let folder = Path::new("/run/secrets/kubernetes.io/serviceaccount");
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("ca.crt"), &self.client.identity.chain).unwrap();
        fs::write(folder.join("namespace"), "default").unwrap();
        self.renew_token(account);
        ["KUBERNETES_SERVICE_HOST=127.0.0.1".to_owned(), format!("KUBERNETES_SERVICE_PORT={PORT}")]
    }

    /// Another token in the place of the one that a pod has.
    pub fn renew_token(&self, account: &str) {
        let path = format!("/api/v1/namespaces/default/serviceaccounts/{account}/token");
        let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
        let token = self.client.call("POST", &path, &request);
        let token = token["status"]["token"].as_str().unwrap();
        fs::write("/run/secrets/kubernetes.io/serviceaccount/token", token).unwrap();
    }
}

fn api_server(programs: &Path, directory: &Path) -> Process {
    Process::start(
        Command::new(programs.join("kube-apiserver"))
            .current_dir(directory)
            .args([
                &format!("--etcd-servers={ETCD}"),
                &format!("--secure-port={PORT}"),
                "--bind-address=127.0.0.1",
            ])
            .args(["--advertise-address=10.244.0.1", "--service-cluster-ip-range=10.96.0.0/16"])
            .args([
                "--tls-cert-file=api.pem",
                "--tls-private-key-file=api.key",
                "--client-ca-file=clients.pem",
            ])
            .args([
                "--token-auth-file=tokens.csv",
                "--authorization-mode=RBAC",
                "--endpoint-reconciler-type=none",
            ])
            .args([
                "--service-account-key-file=accounts.pem",
                "--service-account-signing-key-file=accounts.key",
            ])
            .args([
                "--service-account-issuer=https://cluster.test",
                "--disable-admission-plugins=ServiceAccount",
            ]),
    )
}

fn kubeconfig(server: &Identity, login: &str) -> String {
    use base64::Engine as _;
    let ca = base64::engine::general_purpose::STANDARD.encode(&server.chain);
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
         clusters: [{{ name: c, cluster: {{ server: 'https://127.0.0.1:{PORT}', \
         certificate-authority-data: {ca} }} }}]\n\
         users: [{{ name: u, user: {{ {login} }} }}]\n\
         contexts: [{{ name: x, context: {{ cluster: c, user: u }} }}]\n"
    )
}

impl ApiClient {
    /// Waits until the API server is ready.
    fn wait(&self) {
        let end = Instant::now() + START;
        // The namespace is the last that a new server makes.
        let is_there = |path: &str| {
            let answer = self.ask("GET", path, "application/json", "");
            answer.is_ok_and(|answer| answer.status() == 200)
        };
        while !(is_there("/readyz") && is_there("/api/v1/namespaces/default")) {
            assert!(Instant::now() < end, "the API server does not get ready");
            std::thread::sleep(LOOK);
        }
    }

    /// Makes one request.
    ///
    /// # Panics
    /// When it is refused.
    pub fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let kind =
            if method == "PATCH" { "application/strategic-merge-patch+json" } else { "application/json" };
        let answer =
            self.ask(method, path, kind, &body).unwrap_or_else(|why| panic!("{method} {path}: {why}"));
        assert!(answer.status() < 300, "{method} {path}: {}", answer.text());
        serde_json::from_str(&answer.text()).unwrap()
    }

    /// Creates objects of manifests in YAML, each at the path of its kind.
    ///
    /// # Panics
    /// When one is refused.
    pub fn create(&self, manifests: &str) {
        for manifest in manifests.split("\n---\n") {
            let of = |key: &str| {
                let line = manifest.lines().find_map(|line| line.strip_prefix(key));
                line.unwrap_or_else(|| panic!("no {key} in\n{manifest}")).trim().to_owned()
            };
            let (version, kind) = (of("apiVersion:"), of("kind:"));
            let group = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
            let path = format!("{group}/namespaces/default/{}s", kind.to_ascii_lowercase());
            let answer = self.ask("POST", &path, "application/yaml", manifest).unwrap();
            assert_eq!(answer.status(), 201, "{path}: {}", answer.text());
        }
    }

    /// # Errors
    /// Why there is no answer.
    fn ask(&self, method: &str, path: &str, kind: &str, body: &str) -> Result<Message, String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        let mut connection = Connection::open_secure(address, &self.identity, "localhost")
            .map_err(|error| error.to_string())?;
        connection.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\nConnection: close\r\n\
             Accept: application/json\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        Message::read(&mut connection, Kind::Response, Instant::now() + STEP)
    }
}
