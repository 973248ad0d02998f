//! Attacks on the proxy through its own endpoints: no endpoint that the file on disk does not name leads to the admin
//! socket, the admin API, the metrics, a listener or a link-local address, by any origin (decision 0105).

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use thalweg_tests::admin::json as document;
use thalweg_tests::message::get;
use thalweg_tests::port::own_address;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Admin, Directory, Proxy, STEP, Upstream};

use super::{TOKENS, guarded, state_in, urls};
use crate::scenario::{config, reload, watchdog};

const ENDPOINTS: &str = "/api/v1/services/s/endpoints";
const CONFIG: &str = "/api/v1/config";
/// Longest wait for a change to show, on a busy machine.
const SEEN: Duration = Duration::from_secs(30);

/// The path of the admin socket.
fn admin_socket(proxy: &Proxy) -> PathBuf {
    proxy.process().wait_line("the admin socket", STEP, |line| {
        line.strip_prefix("thalweg: admin on unix:").map(PathBuf::from)
    })
}

/// The port of the admin API on TCP.
fn admin_port(proxy: &Proxy) -> u16 {
    let address: SocketAddr = proxy
        .process()
        .wait_line("the admin address", STEP, |line| line.strip_prefix("thalweg: admin on ")?.parse().ok());
    address.port()
}

/// URLs that must not be reachable, in every spelling.
fn forbidden(proxy: &Proxy) -> Vec<String> {
    let mut all = vec![
        format!("unix:{}", admin_socket(proxy).display()),
        format!("http://127.0.0.1:{}", proxy.web().port()),
        format!("http://localhost:{}", proxy.web().port()),
        "http://169.254.169.254".to_owned(),
        "http://[::ffff:169.254.169.254]:80".to_owned(),
        "http://169.254.1.1:80".to_owned(),
    ];
    for port in [proxy.metrics().port(), admin_port(proxy)] {
        for host in [
            "127.0.0.1",
            "127.9.8.7",
            "0.0.0.0",
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[64:ff9b::127.0.0.1]",
        ] {
            all.push(format!("http://{host}:{port}"));
        }
    }
    all
}

/// The status and text of the answer to a request for the metrics.
fn metrics_through(web: SocketAddr) -> (u16, String) {
    let answer = get(web, "/metrics").unwrap();
    (answer.status(), answer.text())
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SEEN;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: it does not become so");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether only the admin API or the metrics answer with this text.
fn is_own(text: &str) -> bool {
    text.contains("thalweg_") || text.contains("\"version\"")
}

#[test]
fn the_endpoints_api_adds_nothing_that_is_the_process_itself() {
    let _watchdog = watchdog("the_endpoints_api_adds_nothing_that_is_the_process_itself");
    let upstream = Upstream::saying("one");
    let proxy = guarded(&[&upstream.url()], "");
    for admin in [Admin::on_tcp(&proxy, Some(TOKENS.0)), Admin::of(&proxy)] {
        for url in forbidden(&proxy) {
            let answer = admin.call("POST", ENDPOINTS, &json!({ "url": url }).to_string());
            let problem = document(&answer);
            assert_eq!(answer.status(), 403, "{url}: {problem}");
            assert_eq!(problem["keys"], json!(["services.s.endpoints"]), "{url}");
            assert!(
                problem["detail"].as_str().unwrap().contains("only the file on disk"),
                "{url}: {problem}"
            );
        }
        assert_eq!(urls(&admin), [upstream.url()]);
    }
    for _ in 0..8 {
        assert_eq!(metrics_through(proxy.web()), (200, "one".into()));
    }
}

#[test]
fn an_endpoint_behind_a_guard_is_added_to_no_service_without_it() {
    let _watchdog = watchdog("an_endpoint_behind_a_guard_is_added_to_no_service_without_it");
    let (open, hidden) = (Upstream::saying("open"), Upstream::saying("hidden"));
    let route = format!(
        "routes: [ {{ name: hidden, match: {{ path: /hidden/* }}, filters: [ {{ auth: {{ network: 192.0.2.1 }} }} ], \
         to: [ \"{}\" ] }}, ",
        hidden.url()
    );
    let text = config(&[&open.url()], "").replace("routes: [ ", &route);
    assert!(text.contains("name: hidden"), "{text}");
    let proxy = Proxy::start(&text);
    let admin = Admin::of(&proxy);
    for url in [hidden.url(), hidden.url().replace("127.0.0.1", "localhost")] {
        let answer = admin.call("POST", ENDPOINTS, &json!({ "url": url }).to_string());
        assert_eq!(answer.status(), 403, "{url}: {}", answer.text());
        assert!(answer.text().contains("`auth`"), "{}", answer.text());
    }
    assert_eq!(urls(&admin), [open.url()]);
}

#[test]
fn an_address_of_the_machine_is_the_process_itself_where_it_listens_on_every_address() {
    let name = "an_address_of_the_machine_is_the_process_itself_where_it_listens_on_every_address";
    let _watchdog = watchdog(name);
    // No packet is sent: the kernel reports the source address that it would use.
    let probe = UdpSocket::bind("0.0.0.0:0").unwrap();
    let Ok(here) = probe.connect("192.0.2.1:9").and_then(|()| probe.local_addr()) else {
        eprintln!("skipped: this machine has no address but the loopback");
        return;
    };
    let upstream = Upstream::saying("one");
    let text = config(&[&upstream.url()], "")
        .replace("metrics: { address: \"127.0.0.1:0\" }", "metrics: { address: \"0.0.0.0:0\" }");
    let proxy = Proxy::start(&text);
    let (admin, port) = (Admin::of(&proxy), proxy.metrics().port());
    for host in [here.ip().to_string(), format!("[::ffff:{}]", here.ip()), "127.0.0.1".to_owned()] {
        let url = format!("http://{host}:{port}");
        let answer = admin.call("POST", ENDPOINTS, &json!({ "url": url }).to_string());
        assert_eq!(answer.status(), 403, "{url}: {}", answer.text());
    }
    assert_eq!(urls(&admin), [upstream.url()]);
}

#[test]
fn a_configuration_that_arrives_names_nothing_that_is_the_process_itself() {
    let _watchdog = watchdog("a_configuration_that_arrives_names_nothing_that_is_the_process_itself");
    let upstream = Upstream::saying("one");
    let proxy = guarded(&[&upstream.url()], "");
    let admin = Admin::on_tcp(&proxy, Some(TOKENS.0));
    let answer = admin.call("GET", CONFIG, "");
    let (text, tag) = (answer.text(), answer.value("etag").unwrap().to_owned());
    let fields = format!("Content-Type: application/yaml\r\nIf-Match: {tag}\r\n");
    let metrics = proxy.metrics();
    let mut attacks: Vec<_> = forbidden(&proxy)
        .into_iter()
        .map(|url| (text.replace(&upstream.url(), &url), "services.s"))
        .collect();
    let added = |more: String| format!("{}\n{more}\n", text.trim_end());
    attacks.push((added(format!("webhooks: [ {{ url: \"http://{metrics}/\" }} ]")), "webhooks[0].url"));
    attacks.push((
        added("webhooks: [ { url: \"http://169.254.169.254/latest\" } ]".to_owned()),
        "webhooks[0].url",
    ));
    for (attack, key) in attacks {
        assert_ne!(attack, text);
        for query in ["", "?ephemeral=true", "?dry_run=true"] {
            let answer = admin.ask("PUT", &format!("{CONFIG}{query}"), &fields, &attack).unwrap();
            let problem = document(&answer);
            assert_eq!(answer.status(), 403, "{query} {attack}: {problem}");
            let keys = problem["keys"].as_array().unwrap();
            assert!(keys.iter().any(|named| named.as_str().unwrap().contains(key)), "{key}: {problem}");
        }
    }
    assert_eq!(metrics_through(proxy.web()), (200, "one".into()));
}

#[test]
fn the_admin_socket_answers_no_client_of_a_listener_even_where_the_file_names_it() {
    let name = "the_admin_socket_answers_no_client_of_a_listener_even_where_the_file_names_it";
    let _watchdog = watchdog(name);
    let directory = Directory::new();
    let socket = directory.path().join("run/thalweg/admin.sock");
    let proxy = Proxy::start_in(directory, &config(&[&format!("unix:{}", socket.display())], ""));
    assert_eq!(admin_socket(&proxy), socket, "the file names the admin socket");
    for path in ["/api/v1/status", "/livez", "/metrics"] {
        let answer = get(proxy.web(), path).unwrap();
        assert!(matches!(answer.status(), 502 | 503) && !is_own(&answer.text()), "{path}: {}", answer.text());
    }
    // Other processes of the user are served as before.
    assert!(Admin::of(&proxy).get("/api/v1/status").is_object());
}

#[test]
fn the_file_may_publish_the_metrics_by_their_address_and_not_by_a_name() {
    let _watchdog = watchdog("the_file_may_publish_the_metrics_by_their_address_and_not_by_a_name");
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let upstream = Upstream::saying("one");
    let text = config(&[&upstream.url()], "")
        .replace("metrics: { address: \"127.0.0.1:0\" }", "metrics: { address: \"0.0.0.0:0\" }");
    let proxy = Proxy::start(&text);
    let port = proxy.metrics().port();
    reload(&proxy, &text.replace(&upstream.url(), &format!("http://127.0.0.1:{port}")), 1);
    eventually("the metrics are published", || is_own(&metrics_through(proxy.web()).1));
    // The machine's name resolves to one of its addresses, if at all.
    reload(&proxy, &text.replace(&upstream.url(), &format!("http://{name}:{port}")), 2);
    let mut answers = Vec::new();
    eventually("the metrics are gone", || {
        answers.push(metrics_through(proxy.web()));
        answers.last().unwrap().0 == 503
    });
    for _ in 0..20 {
        let (status, text) = metrics_through(proxy.web());
        assert!(status == 503 && !is_own(&text), "{status} {text}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A name server that resolves every name to one address, which may change.
struct NameServer {
    address: SocketAddr,
    says: Arc<Mutex<IpAddr>>,
}

impl NameServer {
    fn start(says: IpAddr) -> Self {
        let socket = UdpSocket::bind((own_address(), 0)).unwrap();
        let (address, says) = (socket.local_addr().unwrap(), Arc::new(Mutex::new(says)));
        let known = says.clone();
        // Ends with the process of the tests.
        thread::spawn(move || {
            let mut packet = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                let answer = Self::answer(&packet[..length], *known.lock().unwrap());
                let _ = socket.send_to(&answer, from);
            }
        });
        Self { address, says }
    }

    /// An answer with one A record and a TTL of a second; no answer for other query types (RFC 1035 §4.1).
    fn answer(query: &[u8], ip: IpAddr) -> Vec<u8> {
        let mut end = 12;
        while query[end] != 0 {
            end += usize::from(query[end]) + 1;
        }
        let question = &query[12..end + 5];
        let is_a = query[end + 1..end + 3] == [0, 1];
        let mut answer = query[..2].to_vec();
        answer.extend([0x85, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
        answer.extend(question);
        if let (true, IpAddr::V4(ip)) = (is_a, ip) {
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
            answer.extend(ip.octets());
        }
        answer
    }
}

#[test]
fn a_name_that_comes_to_stand_for_the_process_leads_nowhere() {
    let _watchdog = watchdog("a_name_that_comes_to_stand_for_the_process_leads_nowhere");
    let start = config(&["http://127.0.0.1:1"], "");
    let proxy = Proxy::start(&start);
    let (metrics, elsewhere) = (proxy.metrics(), own_address());
    let _upstream = Upstream::start_at(SocketAddr::new(elsewhere, metrics.port()), |_| Some(ok("one")));
    let server = NameServer::start(elsewhere);
    let discover = format!(
        "s: {{ discover: {{ dns: {{ name: app.test., port: {}, type: address, resolvers: \"{}\" }} }} }}",
        metrics.port(),
        server.address
    );
    reload(&proxy, &start.replace("s: { endpoints: [ \"http://127.0.0.1:1\" ] }", &discover), 1);
    eventually("the name stands for an endpoint", || metrics_through(proxy.web()) == (200, "one".into()));
    *server.says.lock().unwrap() = metrics.ip();
    eventually("the endpoint has gone", || {
        let (status, text) = metrics_through(proxy.web());
        assert!(!is_own(&text), "the metrics are published: {text}");
        status == 503
    });
    for _ in 0..20 {
        assert_eq!(metrics_through(proxy.web()).0, 503);
        thread::sleep(Duration::from_millis(10));
    }
    *server.says.lock().unwrap() = elsewhere;
    eventually("the name stands for an endpoint again", || {
        let (status, text) = metrics_through(proxy.web());
        assert!(!is_own(&text), "the metrics are published: {text}");
        status == 200
    });
}

#[test]
fn what_a_file_of_endpoints_names_of_the_process_is_not_used() {
    let _watchdog = watchdog("what_a_file_of_endpoints_names_of_the_process_is_not_used");
    let upstream = Upstream::saying("one");
    let directory = Directory::new();
    let found = directory.write("found.yaml", &format!("[ \"{}\" ]", upstream.address()));
    let discover =
        format!("s: {{ discover: {{ file: {{ path: \"{}\", interval: 100ms }} }} }}", found.display());
    let text = config(&["x"], "").replace("s: { endpoints: [ \"x\" ] }", &discover);
    let proxy = Proxy::start_in(directory, &text);
    let (metrics, web) = (proxy.metrics(), proxy.web());
    eventually("the file is read", || metrics_through(web) == (200, "one".into()));
    std::fs::write(&found, format!("[ \"{metrics}\", \"localhost:{}\", \"{web}\" ]", metrics.port()))
        .unwrap();
    eventually("the endpoint has gone", || {
        let (status, text) = metrics_through(web);
        assert!(!is_own(&text), "the metrics are published: {text}");
        status == 503
    });
    for _ in 0..20 {
        assert_eq!(metrics_through(web).0, 503);
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_endpoint_that_was_kept_from_before_leads_nowhere_either() {
    let _watchdog = watchdog("an_endpoint_that_was_kept_from_before_leads_nowhere_either");
    let upstream = Upstream::saying("one");
    let directory = Directory::new();
    let socket = directory.path().join("run/thalweg/admin.sock");
    std::fs::create_dir(directory.path().join("kept")).unwrap();
    let added = json!({ "url": format!("unix:{}", socket.display()), "weight": 1000 });
    directory.write("kept/runtime.json", &json!({ "services": { "s": { "added": [added] } } }).to_string());
    let text = config(&[&upstream.url()], &state_in(&directory));
    let proxy = Proxy::start_in(directory, &text);
    assert_eq!(admin_socket(&proxy), socket, "the endpoint names the admin socket");
    assert_eq!(urls(&Admin::of(&proxy)).len(), 2, "what was kept is there");
    for _ in 0..8 {
        assert_eq!(metrics_through(proxy.web()), (200, "one".into()));
    }
}
