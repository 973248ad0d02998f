//! Where the endpoints of a service come from: the configuration, the source of the service, the admin API.

use super::runtime::Runtime;
use std::collections::{HashMap, HashSet};
use thalweg_admin::EndpointSource;
use thalweg_upstream::Service;

/// Of one service, for one look at all of its endpoints.
pub(super) struct EndpointOrigins<'a> {
    added: HashSet<&'a str>,
    /// Those that are written, and where, by their URLs.
    written: HashMap<&'a str, Option<String>>,
    /// The source of the service, in words.
    pub(super) source: Option<String>,
}

impl<'a> EndpointOrigins<'a> {
    /// `position`: of the service, in the plan that runs.
    pub(super) fn of(runtime: &'a Runtime, service: &Service, position: Option<usize>) -> Self {
        let added = runtime.overlay.services.get(&*service.name);
        let added = added.into_iter().flat_map(|of| &of.added).map(|added| &*added.url);
        let written = position.map_or(&[][..], |at| runtime.base.written(at));
        let mut places = runtime.base.provenance.endpoints(&service.name).into_iter();
        let place_of_next = || places.next().and_then(|origin| origin.in_words());
        let places = std::iter::repeat_with(place_of_next);
        let source = position.and_then(|at| runtime.base.source_of(at));
        Self {
            added: added.collect(),
            written: written.iter().map(|endpoint| &*endpoint.url).zip(places).collect(),
            source: source.map(|discover| thalweg_discovery::words(&*discover.source)),
        }
    }

    /// Where the endpoint with this URL comes from, and the same in words, where there are any.
    pub(super) fn get(&self, url: &str) -> (EndpointSource, Option<String>) {
        match (self.written.get(url), &self.source) {
            _ if self.added.contains(url) => {
                (EndpointSource::Runtime, Some("added through the admin API".into()))
            }
            (None, Some(source)) => (EndpointSource::Discovered, Some(format!("found by {source}"))),
            (written, _) => (EndpointSource::File, written.cloned().flatten()),
        }
    }
}
