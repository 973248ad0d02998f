//! `listen`, `server_name` and certificates: where a server is asked.

use super::Importer;
use super::server::Server;
use super::tree::Directive;
use crate::Grade;
use crate::yaml::{Map, one};

/// A listener that several servers share.
#[derive(Clone, Debug, Default)]
pub(super) struct Listener {
    pub(super) address: String,
    pub(super) name: String,
    pub(super) port: Option<u16>,
    pub(super) is_secure: bool,
    pub(super) proxy_protocol: bool,
    pub(super) h2c: bool,
    pub(super) certificates: Vec<Map>,
    pub(super) servers: Vec<usize>,
    pub(super) default: Option<usize>,
}

impl Importer<'_> {
    /// What `listen` says that is not taken over.
    pub(super) fn note_listen(
        &mut self,
        rest: &[&Directive],
        certificate: &(Option<String>, Option<String>),
        concerns: &str,
    ) {
        for inner in rest.iter().filter(|inner| inner.name == "listen") {
            let has = |word: &str| inner.args.iter().any(|arg| arg == word);
            let about = if has("proxy_protocol") {
                "write `proxy_protocol: { from: … }` at the listener, with the networks that say it"
            } else if has("quic") {
                "HTTP/3 is not spoken"
            } else if has("ssl") && (certificate.0.is_none() || certificate.1.is_none()) {
                "there is no certificate: the listener speaks in the clear"
            } else {
                continue;
            };
            self.report.note(&inner.place, inner.text(), Grade::Lost, about, concerns);
        }
    }

    pub(super) fn listen(&mut self, args: &[String], at: usize, server: &mut Server) {
        let text = args.first().map_or("80", String::as_str);
        let has = |word: &str| args.iter().any(|arg| arg == word);
        let (address, port) = address(text);
        let every = port.map(|port| (format!("0.0.0.0:{port}"), format!("[::]:{port}"), format!(":{port}")));
        let found = self.listeners.iter().position(|known| {
            let is_other = every.as_ref().is_some_and(|(four, six, both)| {
                let is_half = |address: &String| address == four || address == six;
                (is_half(&address) && is_half(&known.address))
                    || (is_half(&address) && known.address == *both)
            });
            known.address == address || is_other
        });
        let index = found.unwrap_or_else(|| {
            let name = match port {
                Some(80) => "http".to_owned(),
                Some(443) => "https".to_owned(),
                Some(port) => format!("port-{port}"),
                None => "socket".to_owned(),
            };
            let taken = |name: &str| self.listeners.iter().any(|known| known.name == name);
            let name = (1..)
                .map(|n| if n == 1 { name.clone() } else { format!("{name}-{n}") })
                .find(|name| !taken(name));
            let name = name.unwrap_or_default();
            let address = address.clone();
            self.listeners.push(Listener { address, name, port, ..Listener::default() });
            self.listeners.len() - 1
        });
        let listener = &mut self.listeners[index];
        if let Some((.., both)) = every.filter(|_| listener.address != address) {
            listener.address = both;
        }
        listener.is_secure |= has("ssl");
        listener.h2c |= has("http2");
        listener.proxy_protocol |= has("proxy_protocol");
        if has("default_server") || has("default") {
            listener.default = Some(at);
        }
        if !listener.servers.contains(&at) {
            listener.servers.push(at);
        }
        if !server.listeners.contains(&index) {
            server.listeners.push(index);
        }
    }

    pub(super) fn certify(&mut self, certificate: (Option<String>, Option<String>), server: &Server) {
        let (Some(cert), Some(key)) = certificate else { return };
        let mut map = one("cert", cert).with("key", key);
        if !server.names.is_empty() {
            map.put("names", server.names.clone());
        }
        for index in &server.listeners {
            let listener = &mut self.listeners[*index];
            // The certificate of the default server answers clients that name no host: it stands first.
            let is_first = listener.default == Some(self.servers.len());
            let at = if is_first { 0 } else { listener.certificates.len() };
            listener.certificates.insert(at, map.clone());
        }
    }
}

/// The address of a listener, and its port.
fn address(text: &str) -> (String, Option<u16>) {
    if text.starts_with("unix:") {
        return (text.to_owned(), None);
    }
    if let Ok(port) = text.parse::<u16>() {
        return (format!("0.0.0.0:{port}"), Some(port));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => (host, port.parse().unwrap_or(80)),
        _ => (text, 80),
    };
    let host = match host {
        "*" => "0.0.0.0",
        "localhost" => "127.0.0.1",
        host => host,
    };
    (format!("{host}:{port}"), Some(port))
}
