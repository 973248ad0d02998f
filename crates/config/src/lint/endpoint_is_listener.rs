//! Endpoints that are the proxy itself: each request would come back until `Via` stops it.

use super::Subject;
use crate::diagnose::{Problems, SpecError};
use crate::source::Span;
use crate::spec::{EndpointSpec, ToSpec};
use crate::validate::endpoint;
use thalweg_proxy::plan::ListenAddress;
use thalweg_upstream::Address;

pub(super) fn endpoint_is_listener(subject: &Subject<'_>, problems: &mut Problems) {
    let services = subject.spec.services.0.iter().flat_map(|(_, service)| &service.endpoints.items);
    let services = services.map(|item| match &item.value {
        EndpointSpec::Short(url) => (url.as_str(), item.span),
        EndpointSpec::Long(long) => (long.url.value.as_str(), long.url.span),
    });
    let routes = subject.spec.routes.items.iter().filter_map(|route| match &route.to.value {
        ToSpec::Urls(urls) => Some(&urls.items),
        _ => None,
    });
    let inline = routes.flatten().map(|url| (url.value.as_str(), url.span));
    for (url, span) in services.chain(inline) {
        look(subject, url, span, problems);
    }
}

fn look(subject: &Subject<'_>, url: &str, span: Span, problems: &mut Problems) {
    let Ok((_, address)) = endpoint(url) else { return };
    for (listener, (_, spec)) in subject.plan.listeners.iter().zip(&subject.spec.listeners.0) {
        if is_same(&listener.address, &address) {
            let warning =
                SpecError::warning("endpoint_is_listener", span, "this endpoint is the proxy itself")
                    .related(spec.address.span, format!("the listener `{}`", listener.name))
                    .help("write the address of the service; a request that comes back is answered 508");
            problems.push(warning);
        }
    }
}

/// Whether a connection to the endpoint certainly reaches the listener.
fn is_same(listener: &ListenAddress, endpoint: &Address) -> bool {
    match (listener, endpoint) {
        (ListenAddress::Unix(here), Address::Unix(there)) => here.as_path() == std::path::Path::new(&**there),
        (ListenAddress::Tcp { address, dual_stack }, Address::Socket(there)) => {
            let everywhere = address.ip().is_unspecified()
                && (*dual_stack || address.is_ipv4() == there.is_ipv4())
                && there.ip().is_loopback();
            address.port() == there.port() && (address.ip() == there.ip() || everywhere)
        }
        _ => false,
    }
}
