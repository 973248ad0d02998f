//! etcd, Redis and ZooKeeper, the real ones, through TLS: with the right authority, with another one, and with a
//! certificate of the proxy's own where they ask for one.

use super::program::Program;
use super::registry::Registry as _;
use super::watch::Watched;
use super::{etcd, redis, zookeeper};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Nothing certain: the server's alert says it, or the end of the connection is seen first.
const BY_SERVER: &str = "";

/// An authority.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    /// A certificate for this name or address, and its key, both in PEM.
    fn issue(&self, name: &str) -> (String, String) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// Files in a directory of their own: `ours.pem` vouches for `server.pem`, `proxy.pem` and `elsewhere.pem`, which is
/// for another host; `theirs.pem` for `stranger.pem`.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        let files = Self(Program::directory("certificates"));
        let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
        files.write("ours.pem", &ours.pem);
        files.write("theirs.pem", &theirs.pem);
        for (authority, file, name) in [
            (&ours, "server", "127.0.0.1"),
            (&ours, "elsewhere", "registry.example"),
            (&ours, "proxy", "proxy.example"),
            (&theirs, "stranger", "proxy.example"),
        ] {
            let (chain, key) = authority.issue(name);
            files.write(&format!("{file}.both"), &(key.clone() + &chain));
            files.write(&format!("{file}.pem"), &chain);
            files.write(&format!("{file}.key"), &key);
        }
        files
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Who vouches for the server, for the configuration of a source.
    fn ca(&self, name: &str) -> String {
        format!("ca: '{}'", self.path(name))
    }

    /// What the proxy shows, likewise.
    fn shown(&self, name: &str) -> String {
        format!("cert: '{}.pem', key: '{}.key'", self.path(name), self.path(name))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A source is watched with this argument: it finds the port.
#[track_caller]
fn finds(argument: &str) {
    assert_eq!(Watched::of(argument).ports(), [1001], "{argument}");
}

/// It does not, and tells why.
#[track_caller]
fn is_refused(argument: &str, words: &str) {
    let why = Watched::of(argument).failure();
    assert!(why.contains(words), "{argument}: {why}");
}

#[test]
fn etcd_shows_a_certificate_and_asks_for_one() {
    if !etcd::EtcdRegistry::is_here() {
        return;
    }
    let (files, secure) = (Files::new(), Program::free_port());
    let server = ["--cert-file", &files.path("server.pem"), "--key-file", &files.path("server.key")];
    let clients = ["--client-cert-auth", "--trusted-ca-file", &files.path("ours.pem")];
    let more: Vec<_> = server.iter().chain(&clients).map(|word| (*word).to_owned()).collect();
    let (_program, plain) = etcd::run_with(Some(secure), &more);
    let put = json!({ "key": etcd::text("/services/a/1"), "value": etcd::text("127.0.0.1:1001") });
    etcd::call(plain, "kv/put", &put);
    let source = |more: &str| format!("etcd: {{ prefix: /services/a/, url: 'https://{secure}', {more} }}");
    let (ours, proxy) = (files.ca("ours.pem"), files.shown("proxy"));
    finds(&source(&format!("{ours}, {proxy}")));
    is_refused(&source(&format!("{}, {proxy}", files.ca("theirs.pem"))), "certificate");
    is_refused(&source(&proxy), "certificate");
    is_refused(&source(&ours), BY_SERVER);
    is_refused(&source(&format!("{ours}, {}", files.shown("stranger"))), BY_SERVER);
}

#[test]
fn redis_shows_a_certificate() {
    if !redis::RedisRegistry::is_here() {
        return;
    }
    let (files, secure) = (Files::new(), Program::free_port());
    let port = secure.port().to_string();
    let [cert, key, ca] = ["server.pem", "server.key", "ours.pem"].map(|name| files.path(name));
    let tls = ["--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &key];
    let clients = ["--tls-ca-cert-file", &ca, "--tls-auth-clients", "no"];
    let (_program, plain) = redis::run(&[&tls[..], &clients[..]].concat());
    redis::ask(plain, &["HSET", "services:a", "x", "127.0.0.1:1001"]);
    let source = |more: &str| format!("redis: {{ key: 'services:a', url: 'rediss://{secure}'{more} }}");
    finds(&source(&format!(", {}", files.ca("ours.pem"))));
    is_refused(&source(&format!(", {}", files.ca("theirs.pem"))), "certificate");
    is_refused(&source(""), "certificate");
}

#[test]
fn a_certificate_for_another_host_is_refused() {
    if !redis::RedisRegistry::is_here() {
        return;
    }
    let (files, secure) = (Files::new(), Program::free_port());
    let port = secure.port().to_string();
    let [cert, key, ca] = ["elsewhere.pem", "elsewhere.key", "ours.pem"].map(|name| files.path(name));
    let tls = ["--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &key];
    let clients = ["--tls-ca-cert-file", &ca, "--tls-auth-clients", "no"];
    let (_program, _) = redis::run(&[&tls[..], &clients[..]].concat());
    let ours = files.ca("ours.pem");
    is_refused(&format!("redis: {{ key: 'services:a', url: 'rediss://{secure}', {ours} }}"), "certificate");
}

#[test]
fn zookeeper_shows_a_certificate_and_asks_for_one() {
    let netty = Path::new("/usr/share/java/netty-codec.jar").exists();
    if !zookeeper::ZookeeperRegistry::is_here() || !Program::needs(netty, "libnetty-java") {
        return;
    }
    let (files, secure) = (Files::new(), Program::free_port());
    let server = zookeeper::Server::start(&format!(
        "secureClientPort={}\nsecureClientPortAddress=127.0.0.1\nssl.clientAuth=need\n\
         serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
         ssl.keyStore.location={}\nssl.keyStore.type=PEM\nssl.trustStore.location={}\nssl.trustStore.type=PEM\n",
        secure.port(),
        files.path("server.both"),
        files.path("ours.pem"),
    ));
    let mut client = zookeeper::Client::connect(server.address).unwrap();
    client.make("/a", "");
    client.make("/a/1", "127.0.0.1:1001");
    let source = |more: &str| {
        format!("zookeeper: {{ path: /a, layout: plain, servers: '{secure}', tls: true, {more} }}")
    };
    let (ours, proxy) = (files.ca("ours.pem"), files.shown("proxy"));
    finds(&source(&format!("{ours}, {proxy}")));
    is_refused(&source(&format!("{}, {proxy}", files.ca("theirs.pem"))), "certificate");
    is_refused(&source(&proxy), "certificate");
    is_refused(&source(&ours), BY_SERVER);
    is_refused(&source(&format!("{ours}, {}", files.shown("stranger"))), BY_SERVER);
}
