//! The kind of traffic that goes to a service: requests, connections or datagrams.

use thalweg_proxy::plan::Traffic;
use thalweg_upstream::{Address, Endpoint, Service};

/// Why an endpoint is not for what goes to a service: requests, or whole connections. A unix socket may take either.
pub(super) fn differs(traffic: Traffic, service: &Service, url: &str) -> Option<String> {
    let datagrams = traffic.datagrams || service.endpoints.iter().any(Endpoint::takes_datagrams);
    match (datagrams, url.starts_with("udp://")) {
        (true, true) => return None,
        (true, false) => {
            return Some(format!("datagrams go to the service `{}`, and {url} takes none", service.name));
        }
        (false, true) => {
            return Some(format!(
                "no datagrams go to the service `{}`, and {url} takes nothing else",
                service.name
            ));
        }
        (false, false) => {}
    }
    let (mut requests, mut connections) = (traffic.requests, traffic.connections);
    for known in service.endpoints.iter().filter(|known| !matches!(known.address, Address::Unix(_))) {
        let takes_connections = known.takes_connections();
        (requests, connections) = (requests || !takes_connections, connections || takes_connections);
    }
    let (goes, other) = match url.starts_with("tcp://") {
        true if requests => ("requests", "connections"),
        false if connections && !url.starts_with("unix:") => ("connections", "requests"),
        _ => return None,
    };
    Some(format!("{goes} go to the service `{}`, and {url} is for {other}", service.name))
}
