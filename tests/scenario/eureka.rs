//! Eureka as users of Spring Cloud run it: a real server, real services, and instances that come and go under load.

use std::collections::{BTreeSet, VecDeque};
use std::env;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::message::get;
use thalweg_tests::spring::{Jvm, Spring};
use thalweg_tests::upstream::ok;
use thalweg_tests::{Admin, Load, Proxy, Upstream, Watchdog};

/// Most that a test may take: virtual machines start slowly beside other tests.
const LIMIT: Duration = Duration::from_secs(240);
/// How long a change may take to be seen, on a machine that is busy: a virtual machine takes so long to start there
/// that the pause between two tries has grown to its longest, 37.5 s.
const SEEN: Duration = Duration::from_secs(60);
/// Instances of the service that is deployed anew.
const INSTANCES: usize = 20;
/// Clients that ask as fast as they are answered: of instances in this process, and of services of Spring, which
/// virtual machines start beside.
const CLIENTS: (usize, usize) = (8, 1);

/// `more` are further keys of the service.
fn config(registry: &Jvm, app: &str, more: &str) -> String {
    format!(
        "workers: 2\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         routes: [ {{ to: s }} ]\n\
         services:\n  s:\n    \
             discover: {{ eureka: {{ app: {app}, url: \"{}/eureka\", interval: 1s }} }}\n    \
             retry: {{ attempts: 3 }}\n    {more}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n",
        registry.url()
    )
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SEEN;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: it does not become so");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Who answers, of so many requests.
fn answers(proxy: &Proxy, count: usize) -> BTreeSet<String> {
    (0..count).filter_map(|_| get(proxy.web(), "/").ok()).map(|answer| answer.text()).collect()
}

/// The URLs of the endpoints that the proxy knows.
fn known(admin: &Admin) -> BTreeSet<String> {
    let service = admin.get("/api/v1/services/s");
    let all = service["endpoints"].as_array().unwrap();
    all.iter().map(|endpoint| endpoint["url"].as_str().unwrap().to_owned()).collect()
}

/// Whether the only source fails.
fn fails(admin: &Admin) -> bool {
    admin.get("/api/v1/sources")["sources"][0]["state"] == "failing"
}

/// An instance that registers by itself, as its protocol says.
struct Instance<'a> {
    registry: &'a Jvm,
    id: String,
    upstream: Upstream,
}

impl<'a> Instance<'a> {
    fn start(registry: &'a Jvm, number: usize) -> Self {
        let upstream = Upstream::start(|_| {
            thread::sleep(Duration::from_millis(2));
            Some(ok("here"))
        });
        let this = Self { registry, id: format!("i-{number}"), upstream };
        let body = format!(
            r#"{{"instance":{{"instanceId":"{}","hostName":"localhost","app":"ROLLING","ipAddr":"127.0.0.1","status":"UP",
                "port":{{"$":{},"@enabled":"true"}},"dataCenterInfo":{{
                "@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo","name":"MyOwn"}}}}}}"#,
            this.id,
            this.upstream.address().port()
        );
        this.tell("POST", "", &body);
        this
    }

    /// It leaves the registry and is gone at once, with the requests that it has.
    fn leave(self) {
        self.tell("DELETE", &format!("/{}", self.id), "");
    }

    fn tell(&self, method: &str, path: &str, body: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.registry.port)).unwrap();
        let request = format!(
            "{method} /eureka/apps/ROLLING{path} HTTP/1.1\r\nHost: eureka\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 20"), "{method} {path}: {answer}");
    }
}

/// Each instance is replaced by a new one, one after the other, and is gone as soon as it has left: what was sent to it
/// is tried elsewhere, and no client sees anything.
#[test]
fn a_rolling_deployment_is_seen_by_no_client() {
    let _watchdog = Watchdog::new("a_rolling_deployment_is_seen_by_no_client", LIMIT);
    let Some(spring) = Spring::built() else { return };
    let registry = spring.registry(0);
    let mut running: VecDeque<_> = (0..INSTANCES).map(|number| Instance::start(&registry, number)).collect();
    let proxy = Proxy::start(&config(&registry, "rolling", ""));
    let admin = Admin::of(&proxy);
    let urls = |running: &VecDeque<Instance<'_>>| -> BTreeSet<_> {
        running.iter().map(|instance| instance.upstream.url()).collect()
    };
    eventually("all are known", || known(&admin) == urls(&running));
    let load = Load::start(proxy.web(), CLIENTS.0);
    load.wait_for(100);
    let is_long = env::var("THALWEG_LONG").as_deref() == Ok("1");
    let pace = Duration::from_millis(if is_long { 1000 } else { 400 });
    for number in INSTANCES..2 * INSTANCES {
        thread::sleep(pace);
        running.push_back(Instance::start(&registry, number));
        running.pop_front().unwrap().leave();
    }
    eventually("the new ones are known, and no others", || known(&admin) == urls(&running));
    load.wait_for(100);
    let (answered, failures) = load.stop();
    assert!(failures.is_empty(), "{} of {answered}: {:?}", failures.len(), failures.first());
    eventually("each new one is used", || {
        answers(&proxy, INSTANCES);
        running.iter().all(|instance| instance.upstream.served() > 0)
    });
}

/// The server is frozen, killed, and begins again with an empty registry: traffic goes on all the while.
#[test]
fn services_of_spring_are_served_whatever_becomes_of_their_registry() {
    let _watchdog = Watchdog::new("services_of_spring_are_served_whatever_becomes_of_their_registry", LIMIT);
    let Some(spring) = Spring::built() else { return };
    let registry = spring.registry(0);
    let url = format!("{}/eureka/", registry.url());
    let services = thread::scope(|scope| {
        let start = |zone, answer| {
            let (spring, url) = (&spring, &url);
            scope.spawn(move || spring.service(url, "checkout", zone, answer))
        };
        [start("a", "first"), start("b", "second")].map(|service| service.join().unwrap())
    });
    let [first, second] = &services;
    let proxy = Proxy::start(&config(&registry, "checkout", ""));
    let admin = Admin::of(&proxy);
    let both = BTreeSet::from([first.url(), second.url()]);
    eventually("both are known", || known(&admin) == both);
    assert_eq!(answers(&proxy, 20), BTreeSet::from(["first".to_owned(), "second".to_owned()]));

    let near = Proxy::start(&config(&registry, "checkout", "prefer: { zone: b }"));
    eventually("both are known", || known(&Admin::of(&near)) == both);
    assert_eq!(answers(&near, 20), BTreeSet::from(["second".to_owned()]), "the zone is known");
    drop(near);

    let load = Load::start(proxy.web(), CLIENTS.1);
    load.wait_for(100);
    registry.signal("STOP");
    eventually("the silence is told", || fails(&admin));
    load.wait_for(100);
    registry.signal("CONT");
    eventually("it works again", || !fails(&admin));
    let port = registry.port;
    drop(registry);
    eventually("the end is told", || fails(&admin));
    load.wait_for(100);
    let registry = spring.registry(port);
    eventually("it works again", || !fails(&admin));
    let events = admin.events();
    events.wait("source_failed", None);
    events.wait("source_recovered", None);
    assert_eq!(known(&admin), both, "a server that knows nobody takes nobody away");
    load.wait_for(100);
    let (answered, failures) = load.stop();
    assert!(failures.is_empty(), "{} of {answered}: {:?}", failures.len(), failures.first());

    // In order: it says that it leaves.
    second.signal("TERM");
    eventually("the second has left", || known(&admin) == BTreeSet::from([first.url()]));
    drop(registry);
}
