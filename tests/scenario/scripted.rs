//! A proxy before endpoints whose every connection the test has in hand: whichever is asked first, the test says what
//! it does.

use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver};

use thalweg_tests::upstream::Listener;
use thalweg_tests::{Message, Proxy, STEP, Talk};

use super::config;

pub(super) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
pub(super) const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// The proxy, and the connections that it makes.
pub(super) struct House {
    pub(super) proxy: Proxy,
    accepted: Receiver<TcpStream>,
    _listeners: Vec<Listener>,
}

/// The endpoint's end of an attempt whose head has come.
pub(super) struct Asked {
    pub(super) talk: Talk,
    pub(super) head: Message,
    /// Which endpoint it is.
    pub(super) port: u16,
}

impl Asked {
    /// Reads the request's body.
    pub(super) fn body(&mut self) -> Vec<u8> {
        let mut whole = Vec::new();
        self.talk.body(&self.head).each(|part| whole.extend_from_slice(part)).unwrap();
        whole
    }
}

impl House {
    /// So many endpoints, of one service with these further keys; `more` are further top-level keys.
    pub(super) fn start(endpoints: usize, service: &str, more: &str) -> Self {
        Self::start_bounded(endpoints, "", service, more)
    }

    /// As [`Self::start`], with these further keys for each endpoint.
    pub(super) fn start_bounded(endpoints: usize, each: &str, service: &str, more: &str) -> Self {
        Self::start_with(endpoints, each, (service, more), str::to_owned)
    }

    /// As [`Self::start`], with a configuration that is changed before it is used.
    pub(super) fn start_changed(
        endpoints: usize,
        (service, more): (&str, &str),
        change: impl FnOnce(&str) -> String,
    ) -> Self {
        Self::start_with(endpoints, "", (service, more), change)
    }

    fn start_with(
        endpoints: usize,
        each: &str,
        (service, more): (&str, &str),
        change: impl FnOnce(&str) -> String,
    ) -> Self {
        let (sender, accepted) = mpsc::channel();
        let listeners: Vec<_> = (0..endpoints).map(|_| Listener::start(sender.clone())).collect();
        let urls: Vec<_> =
            listeners.iter().map(|listener| format!("http://{}", listener.address())).collect();
        let urls: Vec<_> = urls.iter().map(|url| &**url).collect();
        let service = if service.is_empty() { String::new() } else { format!("{service},") };
        let mut config =
            config(&urls, more).replace("services: { s: {", &format!("services: {{ s: {{ {service}"));
        if !each.is_empty() {
            for url in urls {
                config = config.replace(&format!("\"{url}\""), &format!("{{ url: \"{url}\", {each} }}"));
            }
        }
        Self { proxy: Proxy::start(&change(&config)), accepted, _listeners: listeners }
    }

    /// A client that has said this.
    pub(super) fn client(&self, said: &str) -> Talk {
        let mut client = Talk::open(self.proxy.web()).unwrap();
        client.send(said).unwrap();
        client
    }

    /// The next attempt, at whichever endpoint.
    pub(super) fn asked(&self) -> Asked {
        let stream = self.accepted.recv_timeout(STEP).expect("an endpoint is asked");
        let port = stream.local_addr().unwrap().port();
        let mut talk = Talk::new(stream);
        let head = talk.head().unwrap();
        Asked { talk, head, port }
    }

    /// Whether no further connection has been made.
    pub(super) fn is_quiet(&self) -> bool {
        self.accepted.try_recv().is_err()
    }
}

/// Reads a response with a length: its head, and its body.
pub(super) fn response(client: &mut Talk) -> (Message, Vec<u8>) {
    let head = client.head().unwrap();
    let mut body = Vec::new();
    client.body(&head).each(|part| body.extend_from_slice(part)).unwrap();
    (head, body)
}
