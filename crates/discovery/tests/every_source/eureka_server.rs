//! A real server of Eureka, the one of Spring Cloud, behind a gate. All tests share it; each has an application.

use super::gate::Gate;
use super::http_fake::NONSENSE;
use super::registry::Registry;
use super::spring::{Jvm, Spring};
use super::watch::{Here, PATIENCE, Watched};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;
use thalweg_discovery::{Heartbeat, RegistrationSpec, Registrations};

pub(crate) struct EurekaServer {
    server: Arc<Jvm>,
    gate: Gate,
    app: String,
    ports: Vec<u16>,
    /// Nobody is kept from the server.
    is_open: bool,
}

impl EurekaServer {
    /// `None` where it cannot be had.
    pub(crate) fn try_start() -> Option<Self> {
        static SHARED: Mutex<Weak<Jvm>> = Mutex::new(Weak::new());
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let server = match shared.upgrade() {
            Some(server) => server,
            None => {
                let server = Arc::new(Spring::built()?.registry(0));
                *shared = Arc::downgrade(&server);
                server
            }
        };
        let gate = Gate::before(SocketAddr::from(([127, 0, 0, 1], server.port)), NONSENSE);
        let app = format!("APP{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Some(Self { server, gate, app, ports: Vec::new(), is_open: true })
    }

    /// Thalweg registers there, is found by its own source, and leaves.
    pub(crate) fn takes_registrations() {
        let Some(registry) = Self::try_start() else { return };
        let (url, app) = (format!("http://{}/eureka", registry.gate.address()), &registry.app);
        let yaml = format!("eureka: {{ url: '{url}', app: {app}, host: 127.0.0.1, port: 1001 }}");
        let spec: RegistrationSpec = serde_saphyr::from_str(&yaml).unwrap();
        let registration = Arc::new(spec.build(&Here).unwrap());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut registrations = Registrations::default();
        runtime.block_on(async {
            registrations.keep(std::slice::from_ref(&registration));
            assert_eq!(registrations.next().await.failure, None);
            assert_eq!(registration.heartbeat().await, Ok(Heartbeat::Renewed));
        });
        let mut watched = Watched::start(&registry);
        assert_eq!(watched.ports(), [1001]);
        runtime.block_on(registrations.leave());
        assert!(watched.ports().is_empty());
        assert_eq!(runtime.block_on(registration.heartbeat()), Ok(Heartbeat::Unknown));
    }

    /// The answer, head and all.
    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.server.port)).unwrap();
        let request = format!(
            "{method} /eureka/apps/{}{path} HTTP/1.1\r\nhost: eureka\r\nconnection: close\r\naccept: application/json\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.app,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn tell(&self, method: &str, path: &str, body: &str) {
        let answer = self.ask(method, path, body);
        assert!(answer.starts_with("HTTP/1.1 20"), "{method} {path}: {answer}");
    }

    fn register(&self, port: u16) {
        let app = &self.app;
        let body = format!(
            r#"{{"instance":{{"instanceId":"i-{port}","hostName":"localhost","app":"{app}","ipAddr":"127.0.0.1",
                "status":"UP","port":{{"$":{port},"@enabled":"true"}},
                "dataCenterInfo":{{"@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo",
                "name":"MyOwn"}}}}}}"#
        );
        self.tell("POST", "", &body);
    }

    /// What the server answers to those who ask for instances.
    fn shown(&self) -> Vec<u16> {
        let answer = self.ask("GET", "", "");
        if answer.starts_with("HTTP/1.1 404") {
            return Vec::new();
        }
        let ports = answer.split(r#""port":{"$":"#).skip(1);
        let mut ports: Vec<u16> =
            ports.map(|rest| rest.split(',').next().unwrap().parse().unwrap()).collect();
        ports.sort_unstable();
        ports
    }
}

impl Registry for EurekaServer {
    fn start() -> Self {
        Self::try_start().unwrap()
    }

    fn argument(&self) -> String {
        format!("eureka: {{ app: {}, url: 'http://{}/eureka', interval: 1s }}", self.app, self.gate.address())
    }

    /// All at once: nobody sees a part of it.
    fn publish(&mut self, ports: &[u16]) {
        if self.is_open {
            self.gate.freeze();
        }
        for port in ports.iter().filter(|port| !self.ports.contains(port)) {
            self.register(*port);
        }
        for port in self.ports.iter().filter(|port| !ports.contains(port)) {
            self.tell("DELETE", &format!("/i-{port}"), "");
        }
        self.ports = ports.to_vec();
        // The server keeps answers, and one that it was making when something changed may be kept after that: the next
        // change takes it away.
        let end = Instant::now() + PATIENCE;
        while self.shown() != ports {
            assert!(Instant::now() < end, "the server answers {:?}, not {ports:?}", self.shown());
            const OTHER: u16 = 1;
            self.register(OTHER);
            self.tell("DELETE", &format!("/i-{OTHER}"), "");
        }
        if self.is_open {
            self.gate.mend();
        }
    }

    fn cut(&mut self) {
        self.is_open = false;
        self.gate.cut();
    }

    fn garble(&mut self) {
        self.is_open = false;
        self.gate.garble();
    }

    fn freeze(&mut self) -> bool {
        self.is_open = false;
        self.gate.freeze();
        true
    }

    fn mend(&mut self) {
        self.is_open = true;
        self.gate.mend();
    }

    fn gate(&self) -> Option<&Gate> {
        Some(&self.gate)
    }
}
