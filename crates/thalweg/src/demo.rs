//! The sample services of `thalweg demo` and the configuration in front of them.
//!
//! The services are small HTTP servers on threads of this process, on loopback ports that the
//! kernel chooses: a shop's products, cart and payment.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Ports tried from the wanted one on.
const PORTS: u16 = 20;
/// The first port that is tried for TLS.
const SECURE: u16 = 8443;
/// The first port that is tried for the admin API.
const ADMIN: u16 = 9900;
/// Connections served by one sample service at once.
const CONNECTIONS: usize = 64;

/// The sample services: a name and what they say.
const SERVICES: [(&str, &str); 3] = [
    ("products", r#"[{"id":42,"name":"Lantern","price":"19.00"},{"id":43,"name":"Rope","price":"7.50"}]"#),
    ("cart", r#"{"items":[{"product":42,"quantity":1}],"total":"19.00"}"#),
    ("payment", r#"{"methods":["card","invoice"],"state":"open"}"#),
];

/// A running sample service.
pub(crate) struct Sample {
    name: &'static str,
    address: SocketAddr,
}

/// Starts the sample services; they end with the process.
pub(crate) fn start_services() -> io::Result<Vec<Sample>> {
    let start = |(name, text): (&'static str, &'static str)| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        thread::Builder::new().name(format!("sample-{name}")).spawn(move || serve(&listener, name, text))?;
        Ok(Sample { name, address })
    };
    SERVICES.into_iter().map(start).collect()
}

fn serve(listener: &TcpListener, name: &'static str, text: &'static str) {
    let open = std::sync::Arc::new(());
    for stream in listener.incoming().flatten() {
        if std::sync::Arc::strong_count(&open) > CONNECTIONS {
            continue;
        }
        let place = open.clone();
        let _ = thread::Builder::new().stack_size(64 * 1024).spawn(move || {
            let _ = answer(&stream, name, text);
            drop(place);
        });
    }
}

/// Answers requests on one connection, with the request's own words in the answer.
fn answer(stream: &TcpStream, name: &str, text: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let target = line.split(' ').nth(1).unwrap_or("/").escape_default().to_string();
        let mut length = 0;
        loop {
            let mut field = String::new();
            if reader.read_line(&mut field)? <= 2 {
                break;
            }
            if let Some((key, value)) = field.split_once(':')
                && key.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        io::copy(&mut io::Read::take(&mut reader, length), &mut io::sink())?;
        let body = format!("{{\"service\":\"{name}\",\"path\":\"{target}\",\"data\":{text}}}\n");
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length";
        let mut stream = stream;
        stream.write_all(format!("{head}: {}\r\n\r\n{body}", body.len()).as_bytes())?;
    }
}

/// The wanted address, or the first after it whose port is free.
fn free_address(wanted: &str) -> Option<SocketAddr> {
    let wanted = match wanted.strip_prefix(':') {
        Some(port) => SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?)),
        None => wanted.parse().ok()?,
    };
    let ports = (0..PORTS).filter_map(|step| wanted.port().checked_add(step));
    let mut addresses = ports.map(|port| SocketAddr::new(wanted.ip(), port));
    addresses.find_map(|address| TcpListener::bind(address).ok()?.local_addr().ok())
}

/// Where the demo listens.
pub(crate) struct Places {
    /// In the clear.
    pub(crate) plain: SocketAddr,
    /// Through TLS; `None`: no port is free.
    pub(crate) secure: Option<SocketAddr>,
    /// The admin API and its dashboard; `None`: no port is free.
    pub(crate) admin: Option<SocketAddr>,
}

impl Places {
    /// The wanted address, and one beside it for TLS.
    pub(crate) fn find(wanted: &str) -> Option<Self> {
        let plain = free_address(wanted)?;
        let first = if plain.port() < SECURE { SECURE } else { plain.port().saturating_add(1) };
        let secure = free_address(&SocketAddr::new(plain.ip(), first).to_string());
        let admin = free_address(&SocketAddr::from(([127, 0, 0, 1], ADMIN)).to_string());
        Some(Self { plain, secure, admin })
    }
}

/// The demo's configuration: every service by path and by host name. The dashboard asks for `token`.
pub(crate) fn config(places: &Places, services: &[Sample], token: &str) -> String {
    let mut text = String::new();
    if let Some(admin) = &places.admin {
        let _ = writeln!(text, "admin: {{ address: \"{admin}\", token: {{ value: \"{token}\" }} }}");
    }
    let _ = write!(text, "listeners:\n  web: {{ address: \"{}\" }}\n", places.plain);
    if let Some(secure) = &places.secure {
        let _ = writeln!(text, "  secure: {{ address: \"{secure}\", tls: {{ local: true }} }}");
    }
    text.push_str("routes:\n");
    for Sample { name, .. } in services {
        let _ =
            writeln!(text, "  - {{ name: {name} by host, match: {{ host: {name}.localhost }}, to: {name} }}");
        let _ = writeln!(
            text,
            "  - {{ name: {name} by path, match: {{ path: /{name}/* }}, filters: [ {{ strip_prefix: /{name} }} ], to: {name} }}"
        );
    }
    text.push_str("services:\n");
    for Sample { name, address } in services {
        let _ = writeln!(text, "  {name}: {{ endpoints: [ \"http://{address}\" ] }}");
    }
    text
}

/// What the user sees first. `authority` is the certificate to trust; `token` logs in to the dashboard.
pub(crate) fn welcome(places: &Places, services: &[Sample], authority: &Path, token: &str) -> String {
    let (address, port) = (&places.plain, places.plain.port());
    let mut text = String::from("Three sample services run behind one address. Try:\n\n");
    for Sample { name, .. } in services {
        let _ = writeln!(text, "  curl http://{address}/{name}/42");
    }
    text.push_str("\nThe same by host name (browsers know *.localhost by themselves):\n\n");
    for Sample { name, .. } in services {
        let _ = writeln!(text, "  http://{name}.localhost:{port}/");
    }
    if let Some(secure) = &places.secure {
        let _ = write!(
            text,
            "\nThrough TLS and HTTP/2, with a certificate of this machine's own:\n\n  curl --cacert {} https://cart.localhost:{}/\n",
            authority.display(),
            secure.port()
        );
    }
    if let Some(admin) = &places.admin {
        let _ = write!(text, "\nThe dashboard (this link logs in):\n\n  http://{admin}/#token={token}\n");
    }
    let _ = write!(
        text,
        "\n  curl -H 'Host: cart.localhost' http://{address}/\n  curl -i http://{address}/nowhere   (no route: an answer that says why)\n\nCtrl-C stops it."
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_configuration_is_valid() {
        let services = start_services().unwrap();
        let [plain, secure, admin] =
            ["127.0.0.1:8080", "127.0.0.1:8443", "127.0.0.1:9900"].map(|address| address.parse().unwrap());
        let places = Places { plain, secure: Some(secure), admin: Some(admin) };
        let text = config(&places, &services, "0123456789abcdef");
        let loaded =
            thalweg_config::check_text("demo.yaml", &text, &|_| None).map_err(|r| r.lines()).unwrap();
        assert_eq!(loaded.plan.routes.len(), 6);
    }
}
