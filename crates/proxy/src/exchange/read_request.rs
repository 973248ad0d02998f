//! Phase 1: receive a request head, refuse what is not allowed, and bring it to one normal form.
//!
//! After this phase the host, the path and the framing of the exchange are what every later phase,
//! the log and the upstream see; nobody looks at the raw target again. The rules and their
//! reasons: RFC 9112 §3, §5, §6, and the rows of `tests/wire/`.

use crate::exchange::grpc::note_deadline;
use crate::exchange::trace;
use crate::h2;
use crate::plan::Plan;
use crate::state::exchange::{Before, Client, EncodedQuery, Exchange, TargetQuery};
use crate::state::request_path::RequestPath;
use crate::state::worker::Worker;
use crate::tls::client_cert_fields::strip_client_cert_fields;
use crate::tls::layer::is_secure;
use crate::tls::misdirected::check_authority;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::task::Poll;
use thalweg_core::{Fault, FaultKind, RequestId};
use thalweg_http::h1::encode::write_decimal;
use thalweg_http::h1::framing::{request_framing, request_keeps_alive};
use thalweg_http::rules::{expects_continue, host_of, strip_request, wants_upgrade};
use thalweg_http::{
    Authority, Escapes, FieldId, Framing, Method, Progress, RequestRules, Span, TargetForm, Upgrade, Version,
    parse_authority, parse_target, path_is_normal, write_normal_host, write_query,
};

/// Addresses of a forwarded chain that are looked at; a longer chain is not believed further.
const CHAIN: usize = 64;

/// Bytes received at once while a head is awaited; what is pipelined behind it is moved up once per
/// request, so it should not be much.
const AT_ONCE: usize = 16 * 1024;

/// What came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Admitted {
    /// A request, ready for routing.
    Request,
    /// Nothing yet.
    Silence,
    /// The client closed its connection between requests.
    End,
}

/// Receives a request head and checks it.
pub(crate) async fn admit(worker: &Worker, client: &mut Client, x: &mut Exchange) -> Result<Admitted, Fault> {
    x.begin(worker.reactor.now());
    (x.client_ip, x.trusted_peer, x.is_secure) = (client.peer, false, is_secure(&client.socket));
    match h2::stream(&client.socket) {
        Some(stream) => h2::receive_head(worker, client, x, stream)?,
        None => match receive_head(worker, client, x).await? {
            Admitted::Request => {}
            none => return Ok(none),
        },
    }
    // Whatever deadline the connection brought along was for other waits.
    client.socket.set_deadline(None);
    worker.clear_slow(x);
    worker.note_held(x, 0);
    client.requests += 1;
    client.before = Before::Nothing;
    x.consumed = x.request.len;
    let view = worker.view_for(client);
    bring_to_normal_form(&view.plan, (client.peer, worker.next_id()), x)?;
    if let Some(tracing) = &view.plan.tracing {
        trace::begin(worker, &tracing.policy, x);
    }
    if x.is_secure {
        check_authority(client, x)?;
        strip_client_cert_fields(client, x);
    }
    Ok(Admitted::Request)
}

/// Receives until a head is whole.
async fn receive_head(worker: &Worker, client: &mut Client, x: &mut Exchange) -> Result<Admitted, Fault> {
    let mut waited = false;
    loop {
        if client.before == Before::EmptyLine && x.received.starts_with(b"\r\n") {
            return Err(Fault::request(400, "more than one empty line before the request line"));
        }
        // Some clients end a body with an empty line: between requests it is no beginning of one.
        let only_line = client.requests > 0 && x.received == b"\r\n";
        if !x.received.is_empty() {
            x.head_limits = worker.view_for(client).head_limits;
            match x.request.parse(&x.received, &x.head_limits)? {
                Progress::Complete => return Ok(Admitted::Request),
                Progress::Partial => {}
            }
        }
        match receive(worker, client, x, waited && !only_line).await {
            Ok(Some(0)) if x.received.is_empty() => return Ok(Admitted::End),
            Ok(Some(0)) => {
                return Err(Fault::new(
                    FaultKind::ClientGone,
                    "the client closed the connection inside the request head",
                ));
            }
            Ok(Some(_)) if waited => worker.mark_slow(client, x, x.received.len() as u64),
            Ok(Some(_)) => {}
            Ok(None) if x.received.is_empty() && !client.socket.holds_part() => return Ok(Admitted::Silence),
            Ok(None) if only_line => {
                client.before = Before::EmptyLine;
                x.received.clear();
                return Ok(Admitted::Silence);
            }
            Ok(None) => {
                // The head has begun and is not whole: from here its deadline runs.
                client.socket.set_deadline(Some(worker.view_for(client).plan.client_timeouts.head));
                worker.mark_slow(client, x, x.received.len() as u64);
                waited = true;
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut && x.received.is_empty() => {
                return Ok(Admitted::End);
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(Fault {
                    status: 408,
                    ..Fault::new(FaultKind::ClientTimeout, "the request head took too long")
                });
            }
            Err(_) if x.received.is_empty() => return Ok(Admitted::End),
            Err(_) => {
                return Err(Fault::new(
                    FaultKind::ClientGone,
                    "the client closed the connection inside the request head",
                ));
            }
        }
    }
}

/// Receives once. Without `wait` it gives `None` when nothing is here yet.
async fn receive(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    wait: bool,
) -> io::Result<Option<usize>> {
    poll_fn(|_| {
        let mut scratch = worker.scratch.borrow_mut();
        match client.socket.poll_recv(&mut scratch[..AT_ONCE]) {
            Poll::Ready(Ok(n)) => {
                x.received.extend_from_slice(&scratch[..n]);
                Poll::Ready(Ok(Some(n)))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending if client.socket.expired() && wait => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Pending if wait => Poll::Pending,
            Poll::Pending => Poll::Ready(Ok(None)),
        }
    })
    .await
}

/// Checks a head that has been parsed whole and brings it to its normal form. The answer depends on nothing but
/// the plan, the peer and the head, so `explain` gives the same.
///
/// # Errors
/// Why the request is refused.
pub(crate) fn bring_to_normal_form(
    plan: &Plan,
    (peer, id): (IpAddr, RequestId),
    x: &mut Exchange,
) -> Result<(), Fault> {
    x.id = Some(id);
    let bytes = &x.received[..];
    let request = &x.request;
    x.framing = match request_framing(request, bytes)? {
        // The stream tells its end by itself.
        Framing::Empty if request.version == Version::Http2 => x.framing,
        said => said,
    };
    x.keep_alive = request_keeps_alive(request, bytes);
    match request.method {
        Method::Connect => return Err(Fault::request(405, "CONNECT is not allowed here")),
        Method::Trace => return Err(Fault::request(405, "TRACE is not allowed here")),
        _ => {}
    }
    let target = parse_target(request.method, bytes, request.target)?;
    let named = host_of(request, bytes)?;
    let authority = match target.form {
        TargetForm::Absolute => Some(target.authority),
        _ => named,
    };
    if let Some(span) = authority {
        let authority = parse_authority(bytes, span)?;
        let own = x.scheme_port();
        let host_len = match authority.is_normal && authority.port != Some(own) {
            true => {
                x.authority.is_at(span);
                authority.host.len()
            }
            false => write_normal_authority(&authority, own, bytes, x.authority.write()),
        };
        x.host_len = host_len as u32;
    }
    if x.framing == Framing::Empty && request.version == Version::Http11 {
        x.upgrade = wants_upgrade(request, bytes);
    }
    expects_continue(request, bytes)?;
    x.target_query = match target.query {
        None => TargetQuery::None,
        Some(query) if request.has_raw_target => {
            let mut encoded = Vec::new();
            write_query(query.of(bytes), &mut encoded);
            TargetQuery::Encoded(EncodedQuery(encoded).into())
        }
        Some(query) => TargetQuery::Received(query),
    };
    x.escapes = find_normal_path(bytes, target.path, target.form, &mut x.path)?;
    x.trusted_peer = plan.trusts(peer);
    x.client_ip = if x.trusted_peer { seen_through(plan, x, peer) } else { peer };
    if let Some(given) = given_id(x) {
        x.id = Some(given);
    }
    let keep_upgrade = matches!(x.upgrade, Upgrade::WebSocket | Upgrade::Other);
    let rules = RequestRules { trusted_peer: x.trusted_peer, keep_upgrade };
    strip_request(&mut x.request, &x.received, &rules);
    x.request.strip(FieldId::XRequestId);
    if x.request.version == Version::Http10 {
        // HTTP/1.0 has no expectations; the upstream, spoken to in 1.1, must not answer one (RFC 9110 §10.1.1).
        x.request.strip(FieldId::Expect);
    }
    note_deadline(x);
    Ok(())
}

/// Writes host and port in normal form, the port of the scheme left out; says how long the host is.
fn write_normal_authority(authority: &Authority, own: u16, bytes: &[u8], out: &mut Vec<u8>) -> usize {
    write_normal_host(authority.host.of(bytes), out);
    let host_len = out.len();
    if let Some(port) = authority.port.filter(|port| *port != own) {
        out.push(b':');
        write_decimal(out, u64::from(port));
    }
    host_len
}

fn find_normal_path(
    bytes: &[u8],
    path: Span,
    form: TargetForm,
    found: &mut RequestPath,
) -> Result<Escapes, Fault> {
    let raw = path.of(bytes);
    match form {
        TargetForm::Asterisk => found.is(b"*"),
        _ if raw.is_empty() => found.is(b"/"),
        _ if path_is_normal(raw) => found.is_at(path),
        _ => return found.normalize(raw),
    }
    Ok(Escapes::NONE)
}

/// The right-most address of the forwarded chain that is not a trusted proxy; what cannot be read
/// ends the walk.
fn seen_through(plan: &Plan, x: &Exchange, peer: IpAddr) -> IpAddr {
    let mut seen = peer;
    let mut left = CHAIN;
    let fields: Vec<&[u8]> = x.request.values(&x.received, FieldId::XForwardedFor).collect();
    for value in fields.iter().rev() {
        for element in value.rsplit(|byte| *byte == b',') {
            let address = std::str::from_utf8(element).ok().and_then(|text| address_in(text.trim()));
            let (Some(address), true) = (address, left > 0) else { return seen };
            left -= 1;
            seen = address;
            if !plan.trusts(address) {
                return seen;
            }
        }
    }
    seen
}

/// An address with or without a port or brackets; IPv4 within IPv6 is taken as IPv4.
fn address_in(text: &str) -> Option<IpAddr> {
    let address = text
        .parse::<IpAddr>()
        .or_else(|_| text.parse::<std::net::SocketAddr>().map(|address| address.ip()))
        .or_else(|_| text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>());
    Some(address.ok()?.to_canonical())
}

/// The id that a trusted peer gave, when it has the form of ours.
fn given_id(x: &Exchange) -> Option<RequestId> {
    if !x.trusted_peer {
        return None;
    }
    RequestId::from_bytes(x.request.value(&x.received, FieldId::XRequestId)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_forms_of_addresses_that_proxies_write() {
        let v4: IpAddr = "192.0.2.7".parse().unwrap();
        for text in ["192.0.2.7", "192.0.2.7:4711", "::ffff:192.0.2.7", "[::ffff:192.0.2.7]:80"] {
            assert_eq!(address_in(text), Some(v4), "{text}");
        }
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        for text in ["2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:443"] {
            assert_eq!(address_in(text), Some(v6), "{text}");
        }
        for text in ["", "unknown", "_hidden", "300.1.1.1", "192.0.2.7:", "a.example"] {
            assert_eq!(address_in(text), None, "{text}");
        }
    }
}
