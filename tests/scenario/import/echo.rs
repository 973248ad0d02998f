//! Services that answer with the request as it came.

use std::fmt::Write as _;
use std::net::SocketAddr;

use thalweg_tests::port::Refusing;
use thalweg_tests::{Message, Upstream};

/// The echo services, and an address that refuses.
#[derive(Debug)]
pub(super) struct Echo {
    services: Vec<Upstream>,
    refusing: Refusing,
}

impl Echo {
    pub(super) fn start() -> Self {
        let services = (1..=4).map(|number| Upstream::start(move |request| Some(answer(number, request))));
        Self { services: services.collect(), refusing: Refusing::new() }
    }

    /// A text with addresses of this run in place of the written ports.
    pub(super) fn placed(&self, text: &str) -> String {
        self.pairs().iter().fold(text.to_owned(), |text, (written, real)| text.replace(written, real))
    }

    /// The reverse of [`Echo::placed`].
    pub(super) fn written(&self, text: &str) -> String {
        self.pairs().iter().fold(text.to_owned(), |text, (written, real)| text.replace(real, written))
    }

    /// Addresses as they are written, and those of this run.
    fn pairs(&self) -> Vec<(String, String)> {
        let named = |port: u16, address: SocketAddr| (format!("127.0.0.1:{port}"), address.to_string());
        let mut pairs: Vec<(String, String)> =
            (9001..).zip(&self.services).map(|(port, service)| named(port, service.address())).collect();
        pairs.push(named(9009, self.refusing.address()));
        pairs
    }
}

/// The request as text; the field `X-Answer: 404 | Name=value | …` asks for another status and for fields.
fn answer(number: u16, request: &Message) -> Vec<u8> {
    let mut body = format!("service {number}\n{}\n", request.start);
    for (name, value) in &request.fields {
        let _ = writeln!(body, "{}: {value}", name.to_ascii_lowercase());
    }
    let _ = write!(body, "\n{}", request.text());
    let mut asked = request.value("x-answer").unwrap_or("200").split(';').map(str::trim);
    let status: u16 = asked.next().and_then(|status| status.parse().ok()).unwrap_or(200);
    let mut head = format!(
        "HTTP/1.1 {status} Told\r\nServer: echo\r\nX-Powered-By: echo\r\nX-Echo: {number} {}\r\n",
        request.start.trim_end_matches(" HTTP/1.1").trim_end_matches(" HTTP/1.0")
    );
    if !asked.clone().any(|field| field.starts_with("Content-Type=")) {
        head.push_str("Content-Type: text/plain\r\n");
    }
    for (name, value) in asked.filter_map(|field| field.split_once('=')) {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let bodiless = request.start.starts_with("HEAD ") || matches!(status, 204 | 304);
    if status != 204 && status != 304 {
        let _ = write!(head, "Content-Length: {}\r\n", body.len());
    }
    format!("{head}\r\n{}", if bodiless { "" } else { &body }).into_bytes()
}
