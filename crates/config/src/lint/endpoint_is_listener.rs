//! Endpoints that are the proxy itself: each request would come back until `Via` stops it, and each connection without
//! end.

use super::{Subject, targets};
use crate::diagnose::{Problems, SpecError};
use crate::source::Span;
use crate::spec::{EndpointSpec, ToSpec};
use crate::validate::endpoint;
use std::collections::HashMap;
use thalweg_proxy::plan::{ListenAddress, Listener, ListenerProtocol};
use thalweg_upstream::Address;

pub(super) fn endpoint_is_listener(subject: &Subject<'_>, problems: &mut Problems) {
    let services = subject.spec.services.0.iter().flat_map(|(_, service)| service.written());
    let services = services.map(|item| match &item.value {
        EndpointSpec::Short(url) => (url.as_str(), item.span),
        EndpointSpec::Long(long) => (long.url.value.as_str(), long.url.span),
    });
    let routes = targets(subject).filter_map(|to| match to {
        ToSpec::Urls(urls) => Some(&urls.items),
        _ => None,
    });
    let inline = routes.flatten().map(|url| (url.value.as_str(), url.span));
    let mut listeners: Listeners<'_> = HashMap::new();
    for (listener, (_, spec)) in subject.plan.listeners.iter().zip(&subject.spec.listeners.0) {
        listeners.entry(port(&listener.address)).or_default().push((listener, spec.address.span));
    }
    for (url, span) in services.chain(inline) {
        look(&listeners, url, span, problems);
    }
}

/// Listeners with their places, by port; those on unix sockets under 0.
type Listeners<'a> = HashMap<u16, Vec<(&'a Listener, Span)>>;

fn port(address: &ListenAddress) -> u16 {
    match address {
        ListenAddress::Tcp { address, .. } | ListenAddress::Udp { address, .. } => address.port(),
        ListenAddress::Unix(_) => 0,
    }
}

fn look(listeners: &Listeners<'_>, url: &str, span: Span, problems: &mut Problems) {
    let Ok((_, address)) = endpoint(url) else { return };
    let port = if let Address::Socket(address) = &address { address.port() } else { 0 };
    let is_udp = url.starts_with("udp://");
    let of_kind = |listener: &Listener| is_udp == (listener.protocol == ListenerProtocol::Udp);
    for (listener, place) in listeners.get(&port).into_iter().flatten().filter(|(it, _)| of_kind(it)) {
        if is_same(&listener.address, &address) {
            let warning =
                SpecError::warning("endpoint_is_listener", span, "this endpoint is the proxy itself")
                    .related(*place, format!("the listener `{}`", listener.name))
                    .help(match listener.protocol {
                        ListenerProtocol::Http => {
                            "write the address of the service; a request that comes back is answered 508"
                        }
                        ListenerProtocol::Udp => {
                            "write the address of the service; a datagram would come back until every place is taken"
                        }
                        _ => "write the address of the service; a connection would come back until every place is taken",
                    });
            problems.push(warning);
        }
    }
}

/// Whether a connection to the endpoint certainly reaches the listener.
fn is_same(listener: &ListenAddress, endpoint: &Address) -> bool {
    match (listener, endpoint) {
        (ListenAddress::Unix(here), Address::Unix(there)) => here.as_path() == std::path::Path::new(&**there),
        (
            ListenAddress::Tcp { address, dual_stack } | ListenAddress::Udp { address, dual_stack },
            Address::Socket(there),
        ) => {
            let everywhere = address.ip().is_unspecified()
                && (*dual_stack || address.is_ipv4() == there.is_ipv4())
                && there.ip().is_loopback();
            address.port() == there.port() && (address.ip() == there.ip() || everywhere)
        }
        _ => false,
    }
}
