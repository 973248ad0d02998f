//! `bind`: listeners.

use super::Importer;
use super::lines::Line;
use crate::yaml::{Map, Value, one};
use crate::{Grade, Place};

/// A listener.
#[derive(Clone, Debug, Default)]
pub(super) struct Listener {
    pub(super) name: String,
    pub(super) address: String,
    /// 0 where it is not known.
    pub(super) port: u16,
    pub(super) certificates: Vec<Map>,
    pub(super) tls: Map,
    pub(super) is_tls: bool,
    pub(super) proxy_protocol: bool,
    pub(super) h2c: bool,
    /// Further keys.
    pub(super) rest: Map,
    /// Nothing may be forwarded: it has no certificate.
    pub(super) is_broken: bool,
}

/// Options of a `bind` that have a value.
const VALUED: &[&str] = &[
    "crt",
    "crt-list",
    "ca-file",
    "alpn",
    "proto",
    "ssl-min-ver",
    "ssl-max-ver",
    "verify",
    "maxconn",
    "ciphers",
    "ciphersuites",
    "curves",
    "ecdhe",
    "user",
    "group",
    "mode",
    "uid",
    "gid",
    "name",
    "backlog",
    "process",
    "thread",
    "id",
    "nice",
    "level",
    "mss",
    "npn",
];
/// Options that need nothing.
const HARMLESS: &[&str] =
    &["no-sslv3", "no-tlsv10", "no-tlsv11", "prefer-client-ciphers", "v4v6", "v6only", "tfo", "transparent"];

/// Ports that a range may have.
const RANGE: u16 = 256;

impl Listener {
    pub(super) fn is_secure(&self) -> bool {
        self.is_tls
    }

    /// Takes an option of a `bind`; gives what differs.
    fn option(&mut self, word: &str, value: &str) -> Option<(Grade, &'static str)> {
        let near = |about| Some((Grade::Near, about));
        match (word, value) {
            ("ssl", _) => self.is_tls = true,
            ("alpn", names) if !names.split(',').any(|name| name == "h2") => {
                return near("HTTP/2 is offered too");
            }
            ("proto", name) => self.h2c = name == "h2",
            ("accept-proxy", _) => {
                self.proxy_protocol = true;
                return near(
                    "every peer is believed; write the networks of those that say it in `proxy_protocol.from`",
                );
            }
            ("ssl-min-ver", "TLSv1.2") => self.tls.put("min_version", "1.2"),
            ("ssl-min-ver", "TLSv1.3") | ("force-tlsv13", _) => self.tls.put("min_version", "1.3"),
            ("ssl-max-ver", "TLSv1.2") | ("force-tlsv12", _) => self.tls.put("max_version", "1.2"),
            ("ssl-max-ver", "TLSv1.3") => {}
            ("ssl-min-ver" | "ssl-max-ver", _) => return near("TLS 1.0 and 1.1 are not spoken"),
            ("no-tls-tickets", _) => self.tls.put("tickets", "off"),
            ("strict-sni", _) => self.tls.put("unknown_name", "refuse"),
            ("verify", "optional") => self.tls.put("optional", true),
            ("maxconn", most) => {
                if let Ok(most) = most.parse::<u64>() {
                    self.rest.put("limits", one("max_connections", most.max(1)));
                }
            }
            ("ciphers" | "ciphersuites" | "curves" | "ecdhe", _) => {
                return near("Thalweg's own choice holds; write `suites` or `groups`");
            }
            ("user" | "group" | "mode" | "uid" | "gid", _) => {
                return near("the socket has the rights that the umask gives it");
            }
            (word, _) if VALUED.contains(&word) || HARMLESS.contains(&word) => {}
            _ => return Some((Grade::Lost, "an option of this bind has no counterpart")),
        }
        None
    }

    /// `verify optional` is said of what `ca-file` asks.
    fn finish_client_auth(&mut self) {
        let is_optional = self.tls.get("optional").is_some();
        let mut tls = Map::default();
        for (key, value) in self.tls.entries() {
            match (key.as_str(), value) {
                ("optional", _) => {}
                ("client_auth", Value::Map(map)) if is_optional => {
                    tls.put("client_auth", map.clone().with("mode", "optional"));
                }
                _ => tls.put(key.as_str(), value.clone()),
            }
        }
        self.tls = tls;
    }

    /// As the configuration has it.
    pub(super) fn value(&self) -> Map {
        let mut map = one("address", self.address.as_str());
        if self.is_tls && !self.certificates.is_empty() {
            let mut tls = one("certificates", self.certificates.clone());
            for (key, value) in self.tls.entries() {
                tls.put(key.as_str(), value.clone());
            }
            map.put("tls", tls);
        }
        if self.h2c && !self.is_tls {
            map.put("h2c", true);
        }
        if self.proxy_protocol {
            map.put("proxy_protocol", one("from", vec!["0.0.0.0/0", "::/0"]));
        }
        for (key, value) in self.rest.entries() {
            map.put(key.as_str(), value.clone());
        }
        map
    }
}

impl Importer<'_> {
    /// The listeners of a `bind`, by their numbers.
    pub(super) fn bind(&mut self, line: &Line, owner: &str) -> Vec<usize> {
        let mut made = Listener::default();
        self.options_of_bind(line, &mut made);
        if made.is_tls && made.certificates.is_empty() {
            let about = "there is no certificate; requests are answered 501 in the clear";
            self.note(line, Grade::Lost, about, owner);
            made.is_tls = false;
            made.is_broken = true;
        }
        let mut numbers = Vec::new();
        for (address, port) in line.word(1).split(',').flat_map(addresses) {
            let is_v4_too = line.words.iter().any(|word| word == "v4v6") && address.starts_with("[::]");
            let address = if is_v4_too { address.trim_start_matches("[::]").to_owned() } else { address };
            let name = self.listener_name(port, &address);
            self.listeners.push(Listener { name, address, port, ..made.clone() });
            numbers.push(self.listeners.len() - 1);
        }
        numbers
    }

    fn listener_name(&self, port: u16, address: &str) -> String {
        let name = match port {
            80 => "http".to_owned(),
            443 => "https".to_owned(),
            0 if address.starts_with("unix:") => "socket".to_owned(),
            0 => "listener".to_owned(),
            port => format!("port-{port}"),
        };
        let taken = |name: &str| self.listeners.iter().any(|known| known.name == name);
        let mut names = (1..).map(|n| if n == 1 { name.clone() } else { format!("{name}-{n}") });
        names.find(|name| !taken(name)).unwrap_or_default()
    }

    fn options_of_bind(&mut self, line: &Line, made: &mut Listener) {
        let mut words = line.rest(2).iter();
        let mut told: Vec<(Grade, String)> = Vec::new();
        let mut crts: Vec<String> = Vec::new();
        let mut lists: Vec<String> = Vec::new();
        while let Some(word) = words.next() {
            let has_value = VALUED.contains(&word.as_str());
            let value = if has_value { words.next().map_or("", String::as_str) } else { "" };
            match word.as_str() {
                "crt" => crts.push(value.to_owned()),
                "crt-list" => lists.push(value.to_owned()),
                "ca-file" => made.tls.put("client_auth", one("ca", self.based(value, "ca-base"))),
                word => {
                    let found = made.option(word, value);
                    told.extend(found.map(|(grade, about)| (grade, about.to_owned())));
                }
            }
        }
        made.finish_client_auth();
        for crt in crts {
            self.certificates(&crt, None, made);
        }
        for list in lists {
            self.certificate_list(line, &list, made);
        }
        for (grade, about) in told {
            self.note(line, grade, about, "its connections");
        }
    }

    /// A file relative to `crt-base` or `ca-base`.
    pub(super) fn based(&self, path: &str, key: &str) -> String {
        match self.bases.get(key) {
            Some(base) if !path.starts_with('/') => format!("{}/{path}", base.trim_end_matches('/')),
            _ => path.to_owned(),
        }
    }

    /// A file with a certificate and its key, or a directory of them.
    fn certificates(&self, path: &str, names: Option<Vec<String>>, made: &mut Listener) {
        let path = self.based(path, "crt-base");
        let is_file = self.files.glob(&path).is_ok_and(|found| !found.is_empty());
        let inside = if is_file {
            Vec::new()
        } else {
            self.files.glob(&format!("{}/*", path.trim_end_matches('/'))).unwrap_or_default()
        };
        let not_certificates = [".key", ".ocsp", ".issuer", ".sctl", ".dh"];
        let files = match inside.is_empty() {
            true => vec![path],
            false => inside
                .into_iter()
                .filter(|file| !not_certificates.iter().any(|end| file.ends_with(end)))
                .collect(),
        };
        for file in files {
            let apart = format!("{file}.key");
            let key = if self.files.read(&apart).is_ok() { apart } else { file.clone() };
            let mut map = one("cert", file).with("key", key);
            if let Some(names) = names.clone().filter(|names| !names.is_empty()) {
                map.put("names", names);
            }
            made.certificates.push(map);
        }
    }

    fn certificate_list(&mut self, line: &Line, path: &str, made: &mut Listener) {
        let text = match self.files.read(path) {
            Ok(text) => text,
            Err(error) => {
                return self.note(
                    line,
                    Grade::Lost,
                    format!("its list is not there: {error}"),
                    "its certificates",
                );
            }
        };
        for entry in text.lines().map(str::trim).filter(|entry| !entry.is_empty() && !entry.starts_with('#'))
        {
            let bare = match (entry.split_once('['), entry.split_once(']')) {
                (Some((file, _)), Some((_, names))) => {
                    self.note(
                        line,
                        Grade::Near,
                        "settings of single certificates are left out",
                        "its certificates",
                    );
                    format!("{file} {names}")
                }
                _ => entry.to_owned(),
            };
            let mut words = bare.split_whitespace();
            let Some(file) = words.next() else { continue };
            let names: Vec<String> = words.filter(|name| !name.starts_with('!')).map(str::to_owned).collect();
            self.certificates(file, Some(names), made);
        }
    }

    /// Notes a line.
    pub(super) fn note(&mut self, line: &Line, grade: Grade, about: impl Into<String>, concerns: &str) {
        let place: &Place = &line.place;
        self.report.note(place, line.text.as_str(), grade, about, concerns);
    }
}

/// Addresses of a text, of which each may have a range of ports.
fn addresses(text: &str) -> Vec<(String, u16)> {
    if let Some(path) = text.strip_prefix("unix@").or(text.starts_with('/').then_some(text)) {
        return vec![(format!("unix:{path}"), 0)];
    }
    let text = ["ipv4@", "ipv6@"].iter().find_map(|word| text.strip_prefix(word)).unwrap_or(text);
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let host = match host {
        "" | "*" => "0.0.0.0".to_owned(),
        "::" => "[::]".to_owned(),
        host if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
        host => host.to_owned(),
    };
    if let Some((from, to)) = port.split_once('-')
        && let (Ok(from), Ok(to)) = (from.parse::<u16>(), to.parse::<u16>())
    {
        return (from..=to).take(RANGE.into()).map(|port| (format!("{host}:{port}"), port)).collect();
    }
    vec![(format!("{host}:{port}"), port.parse().unwrap_or(0))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (text, expected) in [
            ("*:80", vec![("0.0.0.0:80", 80)]),
            (":443", vec![("0.0.0.0:443", 443)]),
            ("10.0.0.1:8080-8081", vec![("10.0.0.1:8080", 8080), ("10.0.0.1:8081", 8081)]),
            ("/run/a.sock", vec![("unix:/run/a.sock", 0)]),
            ("[::]:80", vec![("[::]:80", 80)]),
            (":::80", vec![("[::]:80", 80)]),
            ("ipv4@127.0.0.1:80", vec![("127.0.0.1:80", 80)]),
        ] {
            let found = addresses(text);
            let found: Vec<(&str, u16)> =
                found.iter().map(|(address, port)| (address.as_str(), *port)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
