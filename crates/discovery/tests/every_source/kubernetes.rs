//! An API server of Kubernetes as its API concepts describe it, for three kinds of objects in one namespace: lists in
//! pieces, watches from a version on that end after their time with a bookmark, versions that are forgotten (410) in
//! the middle of a watch and between two pieces of a list, and a token that is replaced.

use super::gate::Gate;
use super::registry::Registry;
use super::watch::{Told, Watched};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A server that is no API server.
const NONSENSE: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{\"a\": [}\n";

/// Kinds of objects.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    Slices,
    Services,
    /// One for each slice.
    Maps,
}

#[derive(Default)]
struct State {
    version: u64,
    /// What is older is forgotten.
    oldest: u64,
    slices: BTreeMap<u16, String>,
    /// The first of two Services.
    service: String,
    /// Versions and lines of watches.
    history: Vec<(u64, Kind, String)>,
    token: String,
    /// How often it was asked since the last change.
    asked: usize,
    published: usize,
    is_over: bool,
}

type Shared = Arc<(Mutex<State>, Condvar)>;

pub(crate) struct KubernetesRegistry {
    gate: Gate,
    server: SocketAddr,
    shared: Shared,
    folder: PathBuf,
}

impl KubernetesRegistry {
    fn replace_token(&self) {
        let mut state = self.shared.0.lock().unwrap();
        state.token = format!("token-{}", state.version);
        std::fs::write(self.folder.join("token"), format!("{}\n", state.token)).unwrap();
    }

    /// The Service is of this type from now on.
    fn change_service(&self, kind: &str) {
        let mut state = self.shared.0.lock().unwrap();
        state.service = service(kind, state.version + 1);
        let object = state.service.clone();
        state.tell("MODIFIED", Kind::Services, &object);
        drop(state);
        self.shared.1.notify_all();
    }
}

impl Registry for KubernetesRegistry {
    fn start() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("thalweg-source-kubernetes-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let shared: Shared = Arc::new((
            Mutex::new(State { version: 7, service: service("ClusterIP", 3), ..State::default() }),
            Condvar::new(),
        ));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let state = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if state.0.lock().unwrap().is_over {
                    return;
                }
                let state = state.clone();
                std::thread::spawn(move || serve(&stream, &state));
            }
        });
        let gate = Gate::before(server, NONSENSE);
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: other\n\
             clusters: [{{ name: c, cluster: {{ server: 'http://{}/api-server' }} }}]\n\
             users: [{{ name: u, user: {{ tokenFile: token }} }}]\n\
             contexts: [{{ name: x, context: {{ cluster: c, user: u, namespace: shop }} }}]\n",
            gate.address()
        );
        std::fs::write(folder.join("kubeconfig"), kubeconfig).unwrap();
        let this = Self { gate, server, shared, folder };
        this.replace_token();
        this
    }

    fn argument(&self) -> String {
        let path = self.folder.join("kubeconfig");
        format!(
            "kubernetes: {{ service: checkout, port: 80, kubeconfig: '{}', context: x, wait: 1s }}",
            path.display()
        )
    }

    fn documents(&self) -> String {
        let path = self.folder.join("kubeconfig");
        format!("kubernetes: {{ kubeconfig: '{}', context: x, wait: 1s }}", path.display())
    }

    fn publish(&mut self, ports: &[u16]) {
        let mut state = self.shared.0.lock().unwrap();
        assert!(state.asked < 500, "asked {} times since the last change: a loop that is busy", state.asked);
        state.asked = 0;
        state.published += 1;
        let old: Vec<_> = state.slices.keys().copied().collect();
        for port in old.into_iter().filter(|port| !ports.contains(port)) {
            let object = state.slices.remove(&port).unwrap();
            state.tell("DELETED", Kind::Slices, &object);
            let map = map(port, state.version + 1);
            state.tell("DELETED", Kind::Maps, &map);
        }
        for port in ports {
            let kind = if state.slices.contains_key(port) { "MODIFIED" } else { "ADDED" };
            let object = slice(*port, state.version + 1);
            state.tell(kind, Kind::Slices, &object);
            state.slices.insert(*port, object);
            let map = map(*port, state.version + 1);
            state.tell(kind, Kind::Maps, &map);
        }
        state.version += 1;
        if state.published.is_multiple_of(2) {
            state.oldest = state.version;
        }
        drop(state);
        self.shared.1.notify_all();
    }

    fn mend(&mut self) {
        self.replace_token();
        self.gate.mend();
    }

    fn gate(&self) -> Option<&Gate> {
        Some(&self.gate)
    }
}

impl Drop for KubernetesRegistry {
    fn drop(&mut self) {
        self.shared.0.lock().unwrap().is_over = true;
        self.shared.1.notify_all();
        // The one that waits for connections sees it.
        let _ = TcpStream::connect(self.server);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl State {
    fn tell(&mut self, change: &str, kind: Kind, object: &str) {
        self.version += 1;
        self.history.push((self.version, kind, format!("{{\"type\":\"{change}\",\"object\":{object}}}\n")));
    }
}

/// One for each port: that is a slice's, not an endpoint's. In it are also an endpoint that is not ready, and one that
/// is terminating.
fn slice(port: u16, version: u64) -> String {
    let endpoint = |last: u8, ready: bool, terminating: bool| {
        format!(
            "{{\"addresses\":[\"127.0.0.{last}\"],\"nodeName\":\"n1\",\"zone\":\"a\",\
             \"conditions\":{{\"ready\":{ready},\"serving\":{ready},\"terminating\":{terminating}}},\
             \"targetRef\":{{\"kind\":\"Pod\",\"name\":\"checkout-{port}\"}}}}"
        )
    };
    format!(
        "{{\"metadata\":{{\"name\":\"checkout-{port}\",\"resourceVersion\":\"{version}\",\
         \"labels\":{{\"kubernetes.io/service-name\":\"checkout\"}}}},\"addressType\":\"IPv4\",\
         \"endpoints\":[{},{},{}],\"ports\":[{{\"name\":\"http\",\"port\":{port},\"protocol\":\"TCP\"}}]}}",
        endpoint(1, true, false),
        endpoint(2, false, false),
        endpoint(3, false, true),
    )
}

/// A ConfigMap with a document.
fn map(port: u16, version: u64) -> String {
    format!(
        "{{\"metadata\":{{\"name\":\"r{port}\",\"resourceVersion\":\"{version}\"}},\
         \"data\":{{\"a.yaml\":\"routes: [ {{ name: r, to: [ 'http://127.0.0.1:{port}' ] }} ]\"}}}}"
    )
}

/// A Service of this type.
fn service(kind: &str, version: u64) -> String {
    format!(
        "{{\"metadata\":{{\"name\":\"checkout\",\"resourceVersion\":\"{version}\"}},\"spec\":{{\"type\":\"{kind}\",\
         \"externalName\":\"x.test\",\"ports\":[{{\"name\":\"http\",\"port\":80,\"targetPort\":\"web\"}}]}}}}"
    )
}

fn serve(stream: &TcpStream, shared: &Shared) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    let fields: Vec<_> =
        lines.take_while(|line| !line.is_empty()).map(|line| line.to_ascii_lowercase()).collect();
    let target = request.split(' ').nth(1).unwrap();
    let (path, query) = target.split_once('?').unwrap();
    let parameter = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value).filter(|value| !value.is_empty())
    };
    let mut state = shared.0.lock().unwrap();
    state.asked += 1;
    if !fields.contains(&format!("authorization: bearer {}", state.token)) {
        return refuse(stream, 401, "Unauthorized");
    }
    let kind = match path {
        "/api-server/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices" => {
            assert_eq!(
                parameter("labelSelector"),
                Some("kubernetes.io%2Fservice-name%20in%20%28checkout%29")
            );
            Kind::Slices
        }
        "/api-server/api/v1/namespaces/shop/services" => {
            assert_eq!(parameter("fieldSelector"), Some("metadata.name%3Dcheckout"));
            Kind::Services
        }
        "/api-server/api/v1/namespaces/shop/configmaps" => {
            assert_eq!(parameter("labelSelector"), Some("thalweg%2Froutes%3Dtrue"));
            Kind::Maps
        }
        _ => return refuse(stream, 404, "the server could not find the requested resource"),
    };
    if parameter("watch").is_none() {
        let rest = parameter("continue").map(|rest| rest.split_once('.').unwrap());
        let (at, version) = match rest {
            None => (0, state.version),
            Some((at, version)) => (at.parse::<usize>().unwrap(), version.parse().unwrap()),
        };
        if version < state.oldest {
            return refuse(stream, 410, "The provided continue parameter is too old");
        }
        let all: Vec<_> = match kind {
            Kind::Slices => state.slices.values().cloned().collect(),
            Kind::Services => vec![state.service.clone()],
            Kind::Maps => state.slices.keys().map(|port| map(*port, version)).collect(),
        };
        // Fewer than it was asked for.
        let rest = if at + 1 < all.len() { format!("{}.{version}", at + 1) } else { String::new() };
        let items = all.get(at).map(String::as_str).unwrap_or_default();
        let list = format!(
            "{{\"kind\":\"List\",\"metadata\":{{\"resourceVersion\":\"{version}\",\"continue\":\"{rest}\"}},\
             \"items\":[{items}]}}"
        );
        return answer(stream, 200, &list);
    }
    assert_eq!(parameter("allowWatchBookmarks"), Some("true"));
    drop(state);
    let time = Duration::from_secs(parameter("timeoutSeconds").unwrap().parse().unwrap());
    watch(stream, shared, (kind, parameter("resourceVersion").unwrap().parse().unwrap()), time);
}

/// Every change since this version, until the time is over.
fn watch(mut stream: &TcpStream, shared: &Shared, (kind, mut version): (Kind, u64), time: Duration) {
    let deadline = Instant::now() + time;
    let mut state = shared.0.lock().unwrap();
    assert!(version <= state.version, "a version of the future");
    if version < state.oldest {
        return refuse(stream, 410, "too old resource version");
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut text = head.to_owned();
    let chunk = |line: &str| format!("{:x}\r\n{line}\r\n", line.len());
    loop {
        let rest = deadline.saturating_duration_since(Instant::now());
        if version < state.oldest {
            text.push_str(&chunk(
                "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}\n",
            ));
        } else {
            text.extend(
                state
                    .history
                    .iter()
                    .filter(|(at, of, _)| *at > version && *of == kind)
                    .map(|(_, _, line)| chunk(line)),
            );
        }
        let is_last = version < state.oldest || rest.is_zero() || state.is_over;
        version = state.version;
        if is_last {
            let bookmark = format!("{{\"metadata\":{{\"resourceVersion\":\"{version}\"}}}}");
            text.push_str(&chunk(&format!("{{\"type\":\"BOOKMARK\",\"object\":{bookmark}}}\n")));
            text.push_str("0\r\n\r\n");
        }
        drop(state);
        // In two parts: lines do not end where pieces end.
        let (first, second) = text.split_at(text.len() / 2);
        if stream.write_all(first.as_bytes()).and_then(|()| stream.write_all(second.as_bytes())).is_err()
            || is_last
        {
            return;
        }
        text.clear();
        state = shared.0.lock().unwrap();
        while state.version == version && !state.is_over && Instant::now() < deadline {
            state =
                shared.1.wait_timeout(state, deadline.saturating_duration_since(Instant::now())).unwrap().0;
        }
    }
}

fn refuse(stream: &TcpStream, code: u16, message: &str) {
    let status =
        format!("{{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"{message}\",\"code\":{code}}}");
    answer(stream, code, &status);
}

fn answer(mut stream: &TcpStream, code: u16, body: &str) {
    let head = format!("HTTP/1.1 {code} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

#[test]
fn a_service_that_becomes_another_name_is_a_failure_that_loses_nothing() {
    let mut registry = KubernetesRegistry::start();
    registry.publish(&[1001]);
    let mut watched = Watched::start(&registry);
    assert_eq!(watched.ports(), [1001]);
    registry.change_service("ExternalName");
    let why = watched.failure();
    assert!(why.contains("`x.test`") && why.contains("help:"), "{why}");
    // That the server answers is no end of it: more than two watches end meanwhile.
    assert!(matches!(watched.next(Duration::from_millis(2500)), Told::Nothing));
    assert_eq!(watched.status().failure, Some(why));
    registry.publish(&[1001, 1002]);
    registry.change_service("ClusterIP");
    assert_eq!(watched.until_ports(), [1001, 1002]);
    assert!(watched.status().failure.is_none());
}

#[test]
fn entries_of_config_maps_are_documents_by_both_names() {
    let mut registry = KubernetesRegistry::start();
    registry.publish(&[1001]);
    let mut watched = Watched::documents_of(&registry.documents());
    let document = "routes: [ { name: r, to: [ 'http://127.0.0.1:1001' ] } ]";
    assert_eq!(watched.documents(), [("r1001/a.yaml".to_owned(), document.to_owned())]);
}
