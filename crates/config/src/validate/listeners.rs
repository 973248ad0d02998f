//! `listeners:` where clients connect.

use super::access::listener_access;
use super::secret::Secrets;
use super::{acme, address, bounded, check_name, network, tls};
use crate::diagnose::{Class, Problems, SpecError};
use crate::source::Span;
use crate::spec::{FileSpec, ListenerSpec, ProtocolSpec, ProxyProtocolSpec, Spanned};
use std::sync::Arc;
use thalweg_proxy::plan::{ListenAddress, Listener, ListenerProtocol, ProxyProtocolPolicy};

/// Most listeners. Each is a socket per worker; their positions must fit into 16 bits.
const LISTENERS: usize = 4096;

/// Most answers to a datagram.
const RESPONSES: u64 = 1000;

/// An address that is taken, and by what.
pub(crate) type Taken = Vec<(ListenAddress, Span)>;

/// Checks the listeners and reads their certificates; `taken` gets their addresses.
pub(crate) fn listeners(
    file: &FileSpec,
    taken: &mut Taken,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Vec<Listener> {
    let specs = &file.listeners;
    if let Some((name, _)) = specs.0.get(LISTENERS) {
        let message = format!("there are more than {LISTENERS} listeners");
        problems.push(SpecError::new(Class::Invalid, name.span, message));
        return Vec::new();
    }
    let mut listeners = Vec::with_capacity(specs.0.len());
    for (name, spec) in &specs.0 {
        check_name(name, name.span, problems);
        let tls = spec.tls.as_ref().and_then(|tls| {
            let hosts = || acme::hosts_of(file, name);
            tls::listener_tls((tls, spec.protocol), hosts, secrets, problems)
        });
        let redirect_https = spec.redirect_https.is_some_and(|written| written.value);
        if let (true, Some(_), Some(written)) = (redirect_https, &spec.tls, &spec.redirect_https) {
            let message = "clients of this listener use TLS already";
            let error = SpecError::new(Class::Invalid, written.span, message)
                .help("write it at the plain listener, for example that of port 80");
            problems.push(error);
        }
        if let Some(address) = claim((&spec.address, spec.protocol == ProtocolSpec::Udp), taken, problems) {
            listeners.push(Listener {
                name: name.value.as_str().into(),
                address,
                protocol: match spec.protocol {
                    ProtocolSpec::Http => ListenerProtocol::Http,
                    ProtocolSpec::Tcp => ListenerProtocol::Tcp,
                    ProtocolSpec::TlsPassthrough => ListenerProtocol::TlsPassthrough,
                    ProtocolSpec::Udp => ListenerProtocol::Udp,
                },
                limits: spec.limits.policy(problems),
                // Endpoints may have the first word.
                defer_accept: spec
                    .defer_accept
                    .unwrap_or(!matches!(spec.protocol, ProtocolSpec::Tcp | ProtocolSpec::Udp)),
                h2c: spec.h2c.unwrap_or(false),
                allow_half_close: spec.allow_half_close.unwrap_or(false),
                proxy_protocol: spec
                    .proxy_protocol
                    .as_ref()
                    .and_then(|it| proxy_protocol(it, spec, problems)),
                access: spec.access.as_ref().and_then(|it| listener_access(it, secrets, problems)),
                tls,
                redirect_https,
                expected_responses: spec
                    .expected_responses
                    .as_ref()
                    .and_then(|n| bounded(n, 1, RESPONSES, problems))
                    .and_then(|n| u32::try_from(n).ok()),
            });
        }
    }
    listeners
}

fn proxy_protocol(
    written: &Spanned<ProxyProtocolSpec>,
    listener: &ListenerSpec,
    problems: &mut Problems,
) -> Option<Arc<ProxyProtocolPolicy>> {
    let list = &written.value.from;
    if list.value.written == 0 {
        let error = SpecError::new(Class::Invalid, list.span, "the list of trusted proxies is empty")
            .help("write the addresses of the proxies in front, as in `from: [ 10.0.0.0/8 ]`");
        problems.push(error);
    }
    let from: Vec<_> = list.value.items.iter().filter_map(|text| network(text, problems)).collect();
    let required = written.value.required.is_none_or(|required| required.value);
    if let (false, ProxyProtocolSpec { required: Some(at), .. }) = (required, &written.value)
        && listener.protocol == ProtocolSpec::Tcp
        && listener.tls.is_none()
    {
        let message = "the proxy cannot tell a late PROXY header from a silent client";
        let error = SpecError::new(Class::Invalid, at.span, message)
            .help("remove it: the header is always required then");
        problems.push(error);
    }
    (!from.is_empty()).then(|| Arc::new(ProxyProtocolPolicy { from, required }))
}

/// Reads an address, perhaps of datagrams, and reports when something else already listens there.
pub(super) fn claim(
    (text, is_udp): (&Spanned<String>, bool),
    taken: &mut Taken,
    problems: &mut Problems,
) -> Option<ListenAddress> {
    let address = match address::listen(text) {
        Ok(ListenAddress::Tcp { address, dual_stack }) if is_udp => {
            ListenAddress::Udp { address, dual_stack }
        }
        Ok(ListenAddress::Unix(_)) if is_udp => {
            let error =
                SpecError::new(Class::Invalid, text.span, "datagrams of clients come to no unix socket")
                    .help("write an address and a port, as in `:53`");
            problems.push(error);
            return None;
        }
        Ok(address) => address,
        Err(flaw) => {
            problems.push(flaw.at(text.span, "address"));
            return None;
        }
    };
    if let Some((other, first)) = taken.iter().find(|(other, _)| address::collide(other, &address)) {
        let error = match other == &address {
            true => SpecError::new(Class::Invalid, text.span, "two listeners have the same address")
                .label("again here")
                .related(*first, "first here"),
            false => SpecError::new(Class::Invalid, text.span, "two listeners need the same port of one address")
                .label("this one")
                .related(*first, "and this one")
                .help("`:PORT`, `0.0.0.0:PORT` and `[::]:PORT` take the port at every address; use another port, or name each address"),
        };
        problems.push(error);
    }
    taken.push((address.clone(), text.span));
    Some(address)
}
