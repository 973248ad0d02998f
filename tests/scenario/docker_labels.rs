//! Routes from labels of containers: a socket of Docker that is played, a proxy, and containers that come and go.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::message::fetch;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Proxy, Upstream, Watchdog};

/// Most that the test may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a change may take to be seen, on a machine that is busy.
const SEEN: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Containers {
    /// In JSON.
    list: String,
    /// Streams of events that are open.
    streams: Vec<TcpStream>,
}

type Shared = Arc<Mutex<Containers>>;

/// Answers `/containers/json` and `/events`.
fn docker(shared: &Shared) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let shared = shared.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let Some(first) = lines.next() else { continue };
            lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
            let mut containers = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if first.contains("/events") {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
                containers.streams.push(stream);
            } else {
                let list = &containers.list;
                let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}", list.len());
                let _ = stream.write_all(format!("{head}\r\n\r\n{list}").as_bytes());
            }
        }
    });
    address
}

/// These run from now on; it is told.
fn run(shared: &Shared, containers: &[String]) {
    let mut all = shared.lock().unwrap();
    all.list = format!("[{}]", containers.join(","));
    let event = b"{\"Type\":\"container\",\"Action\":\"start\",\"Actor\":{\"ID\":\"x\"}}\n";
    all.streams.retain_mut(|stream| stream.write_all(event).is_ok());
}

/// A container on the network of the host.
fn container(name: &str, upstream: &Upstream, labels: &str) -> String {
    let port = upstream.address().port();
    format!(
        r#"{{"Id":"{name}","Names":["/{name}"],"State":"running","Status":"Up 1 second",
            "Labels":{{"com.docker.compose.service":"{name}","thalweg.port":"{port}",{labels}}},
            "HostConfig":{{"NetworkMode":"host"}}}}"#
    )
}

fn ask(proxy: &Proxy, host: &str, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let answer = fetch(proxy.web(), &request).unwrap();
    (answer.status(), answer.text())
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SEEN;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: it does not become so");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_container_with_labels_has_a_route_and_one_with_mistakes_harms_nobody() {
    let _watchdog = Watchdog::new("docker_labels", LIMIT);
    let [shop, pay] = ["shop", "pay"].map(|name| Upstream::start(move |_| Some(ok(name))));
    let shared = Shared::default();
    let address = docker(&shared);
    let shop_labels = r#""thalweg.host":"shop.test","thalweg.path":"/shop/*","thalweg.filters":"[ { strip_prefix: /shop } ]""#;
    run(&shared, &[container("shop", &shop, shop_labels)]);
    let proxy = Proxy::start(&format!(
        "listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         route_sources: [ {{ docker: {{ socket: \"tcp://{address}\", interval: 1s }} }} ]\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n"
    ));
    assert_eq!(ask(&proxy, "shop.test", "/shop/cart").0, 200, "the start waits for the first answer");
    assert_eq!(ask(&proxy, "shop.test", "/other").0, 404);
    let good = container("shop", &shop, shop_labels);
    run(&shared, &[good.clone(), container("pay", &pay, r#""thalweg.host":"pay.test""#)]);
    eventually("a new container has a route", || ask(&proxy, "pay.test", "/").1 == "pay");
    // A filter that there is not, and a file that a label may not name.
    for filters in [r#"[ { no_such_filter: {} } ]"#, r#"[ { static_files: { root: /etc } } ]"#] {
        let bad =
            container("bad", &pay, &format!(r#""thalweg.host":"bad.test","thalweg.filters":"{filters}""#));
        let new = container("new", &pay, r#""thalweg.host":"new.test""#);
        run(&shared, &[good.clone(), bad, new]);
        eventually("others are taken over", || ask(&proxy, "new.test", "/").1 == "pay");
        assert_eq!((ask(&proxy, "bad.test", "/").0, ask(&proxy, "shop.test", "/shop/").0), (404, 200));
        run(&shared, std::slice::from_ref(&good));
        eventually("a container that is gone has no route", || ask(&proxy, "new.test", "/").0 == 404);
    }
}
