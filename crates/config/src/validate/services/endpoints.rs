//! `endpoints:` of a service, and the URLs of a route.

use super::discover::labels;
use crate::diagnose::{Class, Problems, SpecError};
use crate::source::Span;
use crate::spec::{EndpointSpec, ListSpec, LongEndpointSpec, Spanned};
use crate::validate::limits::endpoint_limits;
use crate::validate::{address, number};
use std::collections::HashMap;
use thalweg_core::limits::ENDPOINTS;
use thalweg_upstream::{Address, Endpoint, EndpointLimits, Labels, Mode};

/// Largest weight of an endpoint.
const WEIGHT: u32 = 1000;
/// Highest tier.
const TIER: u32 = 9;

/// The endpoints of a service.
pub(super) fn endpoints(list: &ListSpec<EndpointSpec>, problems: &mut Problems) -> Vec<Endpoint> {
    let mut endpoints = Endpoints::default();
    for item in &list.items {
        match &item.value {
            EndpointSpec::Short(url) => endpoints.add(url, item.span, Terms::default(), problems),
            EndpointSpec::Long(long) => {
                let terms = Terms::read(long, problems);
                endpoints.add(&long.url, long.url.span, terms, problems);
            }
        }
    }
    endpoints.list
}

/// The endpoints of a route that lists URLs itself.
pub(super) fn urls(list: &[Spanned<String>], problems: &mut Problems) -> Vec<Endpoint> {
    let mut endpoints = Endpoints::default();
    for url in list {
        endpoints.add(&url.value, url.span, Terms::default(), problems);
    }
    endpoints.list
}

/// What stands beside a URL.
struct Terms {
    weight: u32,
    tier: u8,
    labels: Labels,
    limits: EndpointLimits,
}

impl Default for Terms {
    fn default() -> Self {
        Self { weight: 1, tier: 0, labels: Labels::default(), limits: EndpointLimits::default() }
    }
}

impl Terms {
    fn read(spec: &LongEndpointSpec, problems: &mut Problems) -> Self {
        let tier = number(spec.tier.as_ref(), 0, TIER, problems).and_then(|tier| u8::try_from(tier).ok());
        let backup = spec.backup.as_ref().map(|backup| u8::from(backup.value));
        if let (Some(tier), Some(backup)) = (&spec.tier, &spec.backup) {
            let error =
                SpecError::new(Class::Invalid, backup.span, "an endpoint has `tier` or `backup`, not both")
                    .related(tier.span, "the other one is here")
                    .help("`backup: true` is another word for `tier: 1`");
            problems.push(error);
        }
        Self {
            weight: number(spec.weight.as_ref(), 0, WEIGHT, problems).unwrap_or(1),
            tier: tier.or(backup).unwrap_or_default(),
            labels: labels(&spec.labels, problems),
            limits: endpoint_limits(spec.max_connections.as_ref(), spec.max_in_flight.as_ref(), problems),
        }
    }
}

#[derive(Default)]
struct Endpoints {
    list: Vec<Endpoint>,
    seen: HashMap<Address, Span>,
}

impl Endpoints {
    fn add(&mut self, url: &str, span: Span, terms: Terms, problems: &mut Problems) {
        let (url, address) = match address::endpoint(url) {
            Ok(read) => read,
            Err(flaw) => return problems.push(flaw.at(span, "endpoint URL")),
        };
        if let Some(first) = self.seen.get(&address) {
            let error = SpecError::new(Class::Invalid, span, "this endpoint is listed twice")
                .label("again here")
                .related(*first, "first here")
                .help("a larger share is written `{ url: …, weight: 2 }`");
            return problems.push(error);
        }
        if self.list.len() >= ENDPOINTS {
            let message = format!("a service has at most {ENDPOINTS} endpoints");
            return problems.push(SpecError::new(Class::Invalid, span, message));
        }
        self.seen.insert(address.clone(), span);
        let Terms { weight, tier, labels, limits } = terms;
        let (mode, is_added) = (Mode::default(), false);
        self.list.push(Endpoint { url, address, weight, tier, mode, labels, limits, is_added });
    }
}
