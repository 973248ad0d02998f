//! A service of real endpoints and a proxy before it, for the scenarios of health, ejection and balancing.

use std::time::Instant;

use thalweg_tests::message::fetch;
use thalweg_tests::{Endpoint, EventStream, Message, Proxy, STEP};

/// Checks that find out within half a second.
pub(super) const QUICK_CHECKS: &str = "health: { path: /healthz, expect: [ 200 ], interval: 100ms, timeout: 100ms, \
                                       unhealthy_after: 2, healthy_after: 2 }";

/// Endpoints called `a`, `b` and so on, and the proxy.
pub(super) struct House {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) proxy: Proxy,
    pub(super) events: EventStream,
}

/// So many endpoints.
pub(super) fn endpoints(count: u8) -> Vec<Endpoint> {
    let names = (b'a'..).take(count.into()).map(|name| char::from(name).to_string());
    names.map(|name| Endpoint::start(env!("CARGO_BIN_EXE_test-endpoint"), &name)).collect()
}

/// A configuration with a service `s` of all these endpoints; `service` are its further keys, a line each.
pub(super) fn config(endpoints: &[Endpoint], service: &[&str]) -> String {
    let urls: Vec<_> = endpoints.iter().map(|endpoint| format!("\"{}\"", endpoint.url())).collect();
    config_with(&format!("[ {} ]", urls.join(", ")), service)
}

/// The same with a list of endpoints as it is to be written.
pub(super) fn config_with(urls: &str, service: &[&str]) -> String {
    let service: String = service.iter().map(|line| format!("    {line}\n")).collect();
    format!("{HEAD}services:\n  s:\n    endpoints: {urls}\n{service}routes: [ {{ to: s }} ]\n", HEAD = head())
}

/// What stands before the services.
pub(super) fn head() -> &'static str {
    "workers: 2\n\
     metrics: { address: \"127.0.0.1:0\" }\n\
     listeners: { web: { address: \"127.0.0.1:0\" } }\n\
     shutdown: { delay: 0s, grace: 5s }\n"
}

/// Asks on a connection of its own; `fields` are lines of the head.
pub(super) fn ask(proxy: &Proxy, target: &str, fields: &str) -> Message {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}Connection: close\r\n\r\n");
    fetch(proxy.web(), &request).unwrap()
}

/// Who answered; the answer must be 200.
pub(super) fn who(answer: &Message) -> String {
    assert_eq!(answer.status(), 200, "{answer:?}");
    answer.value("x-endpoint").unwrap().to_owned()
}

impl House {
    pub(super) fn new(count: u8, service: &[&str]) -> Self {
        let endpoints = endpoints(count);
        let config = config(&endpoints, service);
        Self::of(endpoints, &config)
    }

    pub(super) fn of(endpoints: Vec<Endpoint>, config: &str) -> Self {
        let proxy = Proxy::start(config);
        let events = EventStream::of(&proxy);
        Self { endpoints, proxy, events }
    }

    /// Asks so often, on connections of their own, and says who answered.
    pub(super) fn answers(&self, count: usize) -> String {
        (0..count).map(|_| who(&ask(&self.proxy, "/", ""))).collect()
    }

    /// Waits until this has been told, about this endpoint or about none, behind the first `skip` events.
    pub(super) fn told(&self, skip: usize, kind: &str, endpoint: Option<usize>) {
        let url = endpoint.map(|endpoint| self.endpoints[endpoint].url()).unwrap_or_default();
        let told = self.events.wait(skip, kind, &url, STEP);
        assert!(told.is_some(), "no {kind} of {url:?} in {:#?}", self.events.all());
    }

    /// Asks until `is_it` is true of the answers of the last `count` requests.
    pub(super) fn ask_until(&self, what: &str, count: usize, is_it: impl Fn(&str) -> bool) {
        let end = Instant::now() + STEP;
        loop {
            let answers = self.answers(count);
            if is_it(&answers) {
                return;
            }
            assert!(Instant::now() < end, "{what}: {answers}");
        }
    }
}

/// How often `name` answered.
pub(super) fn count(answers: &str, name: char) -> usize {
    answers.chars().filter(|answer| *answer == name).count()
}
