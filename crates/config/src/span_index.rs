//! Where things stand in a configuration that can run, for checks that come after it: of the machine around it.

use crate::source::Span;
use crate::spec::{EndpointSpec, FileSpec, ToSpec};

/// Places in the text. Lists stand in the order of the plan.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The addresses of the listeners.
    pub listeners: Vec<Span>,
    /// The address of the admin API.
    pub admin: Option<Span>,
    /// The address of the metrics.
    pub metrics: Option<Span>,
    /// The path of the access log.
    pub access_log: Option<Span>,
    /// The user that the proxy becomes.
    pub user: Option<Span>,
    /// The path of the state.
    pub state: Option<Span>,
    /// The path of the cache on a disk.
    pub cache_disk: Option<Span>,
    /// `limits.max_connections`.
    pub max_connections: Option<Span>,
    /// `limits.memory`.
    pub memory: Option<Span>,
    /// The endpoints' URLs as they are written, each with its place.
    pub endpoints: Vec<(String, Span)>,
}

impl Places {
    pub(crate) fn of(spec: &FileSpec) -> Self {
        let services = spec.services.0.iter().flat_map(|(_, service)| service.written());
        let services = services.map(|item| match &item.value {
            EndpointSpec::Short(url) => (url.clone(), item.span),
            EndpointSpec::Long(long) => (long.url.value.clone(), long.url.span),
        });
        let routes = spec.routes.items.iter().filter_map(|route| match &route.to.as_ref()?.value {
            ToSpec::Urls(urls) => Some(&urls.items),
            _ => None,
        });
        let inline = routes.flatten().map(|url| (url.value.clone(), url.span));
        Self {
            listeners: spec.listeners.0.iter().map(|(_, listener)| listener.address.span).collect(),
            admin: spec.admin.as_ref().map(|admin| admin.address.span),
            metrics: spec.metrics.as_ref().map(|metrics| metrics.address.span),
            access_log: spec.access_log.as_ref().and_then(|log| log.path.as_ref()).map(|path| path.span),
            user: spec.user.as_ref().map(|user| user.span),
            state: spec.state.path.as_ref().map(|path| path.span),
            cache_disk: spec.cache.disk.as_ref().map(|disk| disk.value.path.span),
            max_connections: spec.limits.max_connections.as_ref().map(|limit| limit.span),
            memory: spec.limits.memory.as_ref().map(|limit| limit.span),
            endpoints: services.chain(inline).collect(),
        }
    }
}
