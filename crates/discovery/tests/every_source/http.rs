//! A server with a document: once it answers at once, once it holds its answer back.

use super::gate::Gate;
use super::http_fake::{Ask, HttpFake, Reply};
use super::registry::Registry;
use super::watch::{Told, Watched};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

#[derive(Default)]
struct State {
    version: u64,
    document: String,
    status: Option<u16>,
    asked: usize,
    unchanged: usize,
}

type Shared = Arc<(Mutex<State>, Condvar)>;

pub(crate) struct HttpRegistry {
    server: HttpFake,
    shared: Shared,
}

impl HttpRegistry {
    fn publish_text(&self, document: &str) {
        let mut state = self.shared.0.lock().unwrap();
        assert!(state.asked < 500, "asked {} times since the last change: a loop that is busy", state.asked);
        *state = State { version: state.version + 1, document: document.to_owned(), ..State::default() };
        self.shared.1.notify_all();
    }

    fn watched(&self, argument: &str) -> Watched {
        Watched::of(&format!(
            "http: {{ url: '{}/e.json?v=1', token: {{ value: t }}, {argument} }}",
            self.server.url()
        ))
    }
}

impl Registry for HttpRegistry {
    fn start() -> Self {
        let shared: Shared = Arc::default();
        let state = shared.clone();
        Self { server: HttpFake::start(move |ask| answer(ask, &state)), shared }
    }

    fn argument(&self) -> String {
        let url = self.server.url();
        format!("http: {{ url: '{url}/e.json?v=1', token: {{ value: t }}, interval: 100ms }}")
    }

    fn publish(&mut self, ports: &[u16]) {
        let entries: Vec<_> = ports.iter().map(|port| format!(r#"{{"url":"127.0.0.1:{port}"}}"#)).collect();
        self.publish_text(&format!(r#"{{"endpoints":[{}]}}"#, entries.join(",")));
    }

    fn gate(&self) -> Option<&Gate> {
        Some(&self.server.gate)
    }
}

/// The same, asked by requests that wait.
pub(crate) struct HeldRegistry(HttpRegistry);

impl Registry for HeldRegistry {
    fn start() -> Self {
        Self(HttpRegistry::start())
    }

    fn argument(&self) -> String {
        self.0.argument().replace("interval: 100ms", "interval: 30s, long_poll: 1s")
    }

    fn publish(&mut self, ports: &[u16]) {
        self.0.publish(ports);
    }

    fn cut(&mut self) {
        self.0.cut();
    }

    fn garble(&mut self) {
        self.0.garble();
    }

    fn freeze(&mut self) -> bool {
        self.0.freeze()
    }

    fn mend(&mut self) {
        self.0.mend();
    }

    fn connections(&self) -> usize {
        self.0.connections()
    }
}

fn answer(ask: &Ask, shared: &Shared) -> Reply {
    if ask.fields.get("authorization").map(String::as_str) != Some("Bearer t") {
        return Reply::of(401, "");
    }
    assert_eq!((&*ask.path, ask.parameter("v")), ("/e.json", Some("1")));
    let known = ask.fields.get("if-none-match").cloned();
    let wait = ask.fields.get("prefer").map(|prefer| prefer.strip_prefix("wait=").unwrap().parse().unwrap());
    let deadline = Instant::now() + Duration::from_secs(wait.unwrap_or(0));
    let mut state = shared.0.lock().unwrap();
    state.asked += 1;
    loop {
        let tag = format!("\"{}\"", state.version);
        if let Some(status) = state.status {
            return Reply::of(status, "");
        }
        if known.as_ref() != Some(&tag) {
            return Reply::json(state.document.clone()).with("etag", tag);
        }
        let rest = deadline.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            state.unchanged += 1;
            return Reply::of(304, "").with("etag", tag);
        }
        state = shared.1.wait_timeout(state, rest).unwrap().0;
    }
}

#[test]
fn a_document_that_has_not_changed_is_not_sent_again_and_is_a_sign_of_life() {
    let mut registry = HttpRegistry::start();
    registry.publish(&[1001]);
    let mut watched = registry.watched("interval: 100ms");
    assert_eq!(watched.ports(), [1001]);
    let heard = watched.status().heard.unwrap();
    assert!(matches!(watched.next(Duration::from_millis(400)), Told::Nothing));
    let state = registry.shared.0.lock().unwrap();
    assert!(
        state.unchanged > 0 && state.asked == state.unchanged + 1,
        "{} of {}",
        state.unchanged,
        state.asked
    );
    assert!(watched.status().heard.unwrap() > heard && watched.status().updates == 1);
}

#[test]
fn no_answer_but_a_document_takes_endpoints_away() {
    let mut registry = HttpRegistry::start();
    registry.publish(&[1001]);
    let mut watched = registry.watched("interval: 100ms");
    assert_eq!(watched.ports(), [1001]);
    for (status, why) in [
        (404, "the server answers 404 Not Found; a service without endpoints is an empty list"),
        (
            302,
            "the server answers 302 Found; redirects are not followed: write the URL of the document itself",
        ),
        (204, "the server answers 204 No Content"),
        (503, "the server answers 503 Service Unavailable"),
    ] {
        registry.shared.0.lock().unwrap().status = Some(status);
        assert_eq!(watched.failure(), why);
        registry.shared.0.lock().unwrap().status = None;
        assert!(matches!(watched.next(Duration::from_secs(20)), Told::Works));
    }
    registry.publish_text("<html>it works</html>");
    watched.failure();
    registry.publish_text(r#"["127.0.0.1:1002", {"url": "127.0.0.1"}]"#);
    registry.publish_text("[]");
    assert_eq!(watched.until_ports(), [0; 0], "an empty list is an answer");
}

#[test]
fn one_document_has_the_name_of_the_last_part_of_its_path_and_is_a_map() {
    let registry = HttpRegistry::start();
    registry.publish_text("routes: []");
    let mut watched = Watched::documents_of(&registry.argument());
    assert_eq!(watched.documents(), [("e.json".to_owned(), "routes: []".to_owned())]);
    registry.publish_text("<html>it works</html>");
    assert!(watched.failure().contains("no map in YAML or JSON"));
}
