//! Filters that routes have beside their own: those of listeners, of `defaults` and of services.

use crate::diagnose::{Class, Problems, SpecError};
use crate::spec::FileSpec;
use crate::validate::{Chains, FilterPlace, asks_too_late};
use std::sync::Arc;
use thalweg_filter::{Chain, Filter, Step};
use thalweg_proxy::plan::{FilterVariant, Listener, ListenerProtocol, ServiceId};

/// Filters by the place where they are written.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    defaults: (Vec<Step>, Vec<FilterPlace>),
    /// Of every listener that takes requests, by its position.
    listeners: Vec<(u16, Vec<Step>)>,
    /// By the position of the service.
    services: Vec<Vec<Step>>,
}

impl Inherited {
    /// Reads them.
    pub(super) fn read<'a>(
        spec: &'a FileSpec,
        listeners: &[Listener],
        chains: &Chains<'a>,
        problems: &mut Problems,
    ) -> Self {
        let defaults = chains.filters(&spec.defaults.filters, problems);
        let mut of_listeners = Vec::new();
        for (at, listener) in (0..).zip(listeners) {
            let written = spec.listeners.0.iter().find(|(name, _)| *name.value == *listener.name);
            if let (Some((_, written)), ListenerProtocol::Http) = (written, listener.protocol) {
                let (steps, places) = chains.filters(&written.filters, problems);
                steps.iter().zip(&places).for_each(|(step, place)| asks_too_late(step, place, problems));
                of_listeners.push((at, steps));
            }
        }
        let services = spec.services.0.iter();
        let services = services.map(|(_, service)| {
            let (steps, places) = chains.filters(&service.filters, problems);
            steps.iter().zip(&places).for_each(|(step, place)| asks_too_late(step, place, problems));
            for (step, place) in
                steps.iter().zip(&places).filter(|(step, _)| !step.filter.choices().is_empty())
            {
                let message = format!("`{}` chooses a service, and stands at one", step.name());
                let error = SpecError::new(Class::Invalid, place.span, message);
                problems.push(error.help("write it at routes, or at listeners or in `defaults`"));
            }
            steps
        });
        let services = services.collect();
        Self { defaults, listeners: of_listeners, services }
    }

    /// The filters of a route with those of `defaults` before them, and where all of them stand.
    pub(super) fn base(
        &self,
        inherits: bool,
        (own, own_places): (Vec<Step>, Vec<FilterPlace>),
    ) -> (Chain, Vec<FilterPlace>) {
        if !inherits || self.defaults.0.is_empty() {
            return (Chain::new(own), own_places);
        }
        let (steps, places) = self.defaults.clone();
        // A cache of the route stands in place of those of all routes.
        let has_cache = own.iter().any(caches);
        let all = steps.into_iter().zip(places);
        let (mut steps, mut places): (Vec<_>, Vec<_>) =
            all.filter(|(step, _)| !has_cache || !caches(step)).unzip();
        steps.extend(own);
        places.extend(own_places);
        (Chain::new(steps), places)
    }

    /// The filters of a route, and those that stand anywhere beside routes.
    pub(super) fn all<'a>(&'a self, base: &'a Chain) -> impl Iterator<Item = &'a Arc<dyn Filter>> {
        let listeners = self.listeners.iter().flat_map(|(_, own)| own);
        let beside = listeners.chain(self.services.iter().flatten());
        base.steps().iter().chain(beside).map(|step| &step.filter)
    }

    /// What a route has in place of `base` at each listener and towards each of its services; empty where that is
    /// `base` everywhere. `on`: whether it inherits, and its listeners, all where none is named.
    pub(super) fn variants(
        &self,
        (inherits, on): (bool, &[u16]),
        base: &Chain,
        services: &[ServiceId],
    ) -> Arc<[FilterVariant]> {
        let of_service =
            |service: ServiceId| self.services.get(service.0 as usize).filter(|own| !own.is_empty());
        let has_own = inherits && self.listeners.iter().any(|(_, own)| !own.is_empty());
        // Responses of several services to one URL are not the same.
        let is_kept_apart =
            base.has_cache() && !services.iter().all(|service| services.first() == Some(service));
        let is_same = services.iter().all(|service| of_service(*service).is_none());
        if !has_own && !is_kept_apart && is_same {
            return Arc::new([]);
        }
        let mut variants = Vec::new();
        for (listener, own) in self.listeners.iter().filter(|(at, _)| on.is_empty() || on.contains(at)) {
            let own = if inherits { &own[..] } else { &[] };
            for service in services.iter().copied().map(Some).chain([None]) {
                let behind = service.and_then(of_service).map(Vec::as_slice).unwrap_or_default();
                let chain = Chain::joined(&[own, base.steps(), behind]);
                variants.push(FilterVariant { listener: *listener, service, chain });
            }
        }
        variants.into()
    }
}

fn caches(step: &Step) -> bool {
    step.filter.cache().is_some()
}

/// The filters of a route, which cache under its name: those of each of its services for themselves where there are
/// several. What is not known to go to one of them is not cached.
pub(super) fn cached(
    (base, variants): (Chain, Arc<[FilterVariant]>),
    route: &str,
    services: &[ServiceId],
    name_of: &dyn Fn(ServiceId) -> Option<Arc<str>>,
) -> (Chain, Arc<[FilterVariant]>) {
    let is_one = services.iter().all(|service| services.first() == Some(service));
    let has_cache = |variant: &FilterVariant| variant.chain.has_cache();
    if !base.has_cache() && !variants.iter().any(has_cache) {
        return (base, variants);
    }
    let of_variant = |variant: &FilterVariant| {
        let chain = variant.chain.clone();
        let chain = match variant.service.map(name_of) {
            _ if is_one => chain.cached_in(route, None),
            Some(Some(service)) => chain.cached_in(route, Some(&service)),
            _ => chain.uncached(),
        };
        FilterVariant { chain, ..variant.clone() }
    };
    let variants = variants.iter().map(of_variant).collect();
    (if is_one { base.cached_in(route, None) } else { base.uncached() }, variants)
}

/// The same, and nothing is cached.
pub(super) fn uncached(base: Chain, variants: Arc<[FilterVariant]>) -> (Chain, Arc<[FilterVariant]>) {
    let of_variant = |variant: &FilterVariant| FilterVariant {
        chain: variant.chain.clone().uncached(),
        ..variant.clone()
    };
    (base.uncached(), variants.iter().map(of_variant).collect())
}
