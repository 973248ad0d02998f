//! What the admin API has changed, over what the configuration says.
//!
//! A layer of its own: a reload changes what is below it, and it is laid over the result. Where `state:` names a
//! directory it is kept there and survives a restart. Pure; `kept_file` reads and writes it.

use super::added_endpoints::{past_guards, urls_of};
use super::base::Base;
use super::canary::CanarySpec;
use super::traffic::differs;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use thalweg_config::endpoint_address;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::To;
use thalweg_tls::{PeerPolicy, PeerTerms, PolicyError};
use thalweg_upstream::{Endpoint, EndpointLimits, Mode, Service};

/// The file in the state directory.
pub(crate) const FILE: &str = "runtime.json";

/// All changes. The form in the file: a later version may add members, so unknown ones are no error.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct OverlaySpec {
    /// By the name of the service.
    pub(crate) services: BTreeMap<String, ServiceOverlaySpec>,
    /// Shares of routes that are split, by the route's name, then the service's.
    pub(crate) routes: BTreeMap<String, BTreeMap<String, u32>>,
    /// Where canaries stand, by the route's name.
    pub(crate) canaries: BTreeMap<String, CanarySpec>,
    /// Whether the filter `maintenance` of a route is on, by the route's name.
    pub(crate) maintenance: BTreeMap<String, bool>,
}

/// The changes of one service.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ServiceOverlaySpec {
    /// Endpoints that the configuration does not have.
    pub(crate) added: Vec<AddedEndpointSpec>,
    /// Endpoints that it has and that are not to be, by URL.
    pub(crate) removed: BTreeSet<String>,
    /// By URL, of those of the configuration and those added.
    pub(crate) changed: BTreeMap<String, ChangedEndpointSpec>,
}

/// An endpoint that was added.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct AddedEndpointSpec {
    pub(crate) url: String,
    pub(crate) weight: u32,
    #[serde(default)]
    pub(crate) tier: u8,
}

/// What differs of an endpoint.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ChangedEndpointSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) weight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<ModeSpec>,
}

/// As [`Mode`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ModeSpec {
    /// Nothing new; what is under way may finish.
    Draining,
    /// Nothing until further notice.
    Maintenance,
}

impl OverlaySpec {
    /// The plan with these changes. Endpoints that are removed stay, and drain, while `drains` says so.
    pub(crate) fn lay_over(&self, base: &Base, drains: impl Fn(&str, &str) -> bool) -> Plan {
        let (mut plan, left_out) = (Plan::clone(base), past_guards(self, base, None));
        for (at, service) in plan.services.iter_mut().enumerate() {
            if let Some(changes) = self.services.get(&*service.name) {
                let left_out = urls_of(&left_out, at);
                *service = Arc::new(changes.lay_over((base, at, service), &left_out, &drains));
            }
        }
        let names: Vec<Arc<str>> = plan.services.iter().map(|service| service.name.clone()).collect();
        for route in &mut plan.routes {
            let wanted = self.maintenance.get(&*route.name).copied();
            if let Some(on) = wanted.filter(|_| route.is_on().is_some()) {
                route.switch(on);
            }
            let Some(weights) = self.routes.get(&*route.name) else { continue };
            let To::Split(split) = &mut route.to else { continue };
            let mut parts = split.parts.clone();
            for (service, weight) in &mut parts {
                let name = names.get(service.0 as usize);
                *weight = name.and_then(|name| weights.get(&**name)).copied().unwrap_or(*weight);
            }
            // The file may have changed so that nothing would be left.
            if parts.iter().any(|(_, weight)| *weight > 0) {
                split.parts = parts;
            }
        }
        plan
    }

    /// The service at this position with its changes.
    pub(crate) fn lay_over_one(
        &self,
        base: &Base,
        at: usize,
        drains: impl Fn(&str, &str) -> bool,
    ) -> Option<Arc<Service>> {
        let service = base.services.get(at)?;
        let changes = self.services.get(&*service.name);
        let left_out = urls_of(&past_guards(self, base, Some(at)), at);
        let changed = changes.map(|changes| changes.lay_over((base, at, service), &left_out, &drains));
        Some(changed.map_or_else(|| service.clone(), Arc::new))
    }

    /// Forgets what is not changed of a service any more.
    pub(crate) fn tidy(&mut self, service: &str) {
        let Some(of) = self.services.get_mut(service) else { return };
        of.changed.retain(|_, change| *change != ChangedEndpointSpec::default());
        if *of == ServiceOverlaySpec::default() {
            self.services.remove(service);
        }
    }

    /// The changes of a service, to be changed.
    pub(crate) fn of(&mut self, service: &str) -> &mut ServiceOverlaySpec {
        self.services.entry(service.to_owned()).or_default()
    }
}

impl ServiceOverlaySpec {
    fn lay_over(
        &self,
        (base, at, service): (&Base, usize, &Service),
        left_out: &HashSet<&str>,
        drains: &impl Fn(&str, &str) -> bool,
    ) -> Service {
        let (traffic, mut service) = (base.traffic_to(at), service.clone());
        // Secrets of the configuration are sent to endpoints of the configuration only.
        let added: &[_] = if base.secrets.are_sent_to(&service.name) { &[] } else { &self.added };
        for AddedEndpointSpec { url, weight, tier } in added.iter().filter(|it| !left_out.contains(&*it.url))
        {
            // What is kept in a file may be of another version: what cannot be read is left out.
            let Ok((url, address)) = endpoint_address(url) else { continue };
            let (limits, mode) = (EndpointLimits::default(), Mode::Ready);
            let endpoint = Endpoint {
                url,
                address,
                weight: *weight,
                tier: *tier,
                mode,
                labels: thalweg_upstream::Labels::default(),
                limits,
                is_added: true,
            };
            // The file may have made a service for connections of one for requests since.
            if differs(traffic, &service, &endpoint.url).is_some() {
                continue;
            }
            let is_there = service.endpoints.iter().any(|known| known.address == endpoint.address);
            if !is_there && secure(&mut service, &endpoint).is_ok() {
                service.endpoints.push(endpoint);
            }
        }
        service.endpoints.retain(|endpoint| {
            !self.removed.contains(&*endpoint.url) || drains(&service.name, &endpoint.url)
        });
        for endpoint in &mut service.endpoints {
            let changed = self.changed.get(&*endpoint.url).copied().unwrap_or_default();
            endpoint.weight = changed.weight.unwrap_or(endpoint.weight);
            endpoint.mode = match changed.mode {
                _ if self.removed.contains(&*endpoint.url) => Mode::Draining,
                Some(ModeSpec::Draining) => Mode::Draining,
                Some(ModeSpec::Maintenance) => Mode::Maintenance,
                None => Mode::Ready,
            };
        }
        service
    }
}

/// Sees to it that it is known what is asked of the endpoint, where it is reached through TLS and the file has no
/// such endpoint: that those whom the system trusts have signed its certificate.
///
/// # Errors
/// When the system trusts nobody.
pub(crate) fn secure(service: &mut Service, endpoint: &Endpoint) -> Result<(), PolicyError> {
    if endpoint.is_secure() && service.tls.is_none() {
        service.tls = Some(Arc::new(PeerTerms::new(PeerPolicy::default())?));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::kept_file::{load, store};
    use super::*;
    use std::fs;
    use thalweg_config::check_text;

    fn plan() -> Plan {
        let text = "listeners: { web: { address: '127.0.0.1:0' } }\nroutes: [ { to: a } ]\n\
                    services: { a: { endpoints: ['http://127.0.0.1:1', { url: 'http://127.0.0.1:2', weight: 3 }] } }\n";
        check_text("t.yaml", text, &|_| None).unwrap().plan
    }

    fn endpoints(overlay: &OverlaySpec, drains: bool) -> Vec<(String, u32, Mode)> {
        let plan =
            overlay.lay_over(&Base::new(plan(), &Default::default(), &Default::default()), |_, _| drains);
        let endpoints = plan.services[0].endpoints.iter();
        endpoints.map(|e| (e.url.to_string(), e.weight, e.mode)).collect()
    }

    #[test]
    fn changes_are_laid_over_what_the_file_says() {
        let mut overlay = OverlaySpec::default();
        let of = overlay.of("a");
        of.added.push(AddedEndpointSpec { url: "http://127.0.0.1:3".into(), weight: 7, tier: 0 });
        of.added.push(AddedEndpointSpec { url: "http://127.0.0.1:2".into(), weight: 9, tier: 0 });
        of.removed.insert("http://127.0.0.1:1".into());
        let change = ChangedEndpointSpec { weight: Some(5), mode: Some(ModeSpec::Maintenance) };
        of.changed.insert("http://127.0.0.1:3".into(), change);
        let (two, three) = ("http://127.0.0.1:2".to_owned(), "http://127.0.0.1:3".to_owned());
        let rest = [(two, 3, Mode::Ready), (three, 5, Mode::Maintenance)];
        assert_eq!(endpoints(&overlay, false), rest, "who is in the file already is not there twice");
        assert_eq!(endpoints(&overlay, true)[0], ("http://127.0.0.1:1".into(), 1, Mode::Draining));
    }

    /// A token could add an endpoint to a service, and then have a configuration take over that sends secrets there.
    #[test]
    fn added_endpoints_are_left_out_while_the_service_receives_secrets() {
        let plan = |filters: &str| {
            let text = format!(
                "listeners: {{ web: {{ address: '127.0.0.1:0' }} }}\nroutes: [ {{ to: a, filters: [ {filters} ] }} ]\n\
                 services: {{ a: {{ endpoints: 'http://127.0.0.1:1' }} }}\n"
            );
            check_text("t.yaml", &text, &|_| Some("hunter2".into())).unwrap().plan
        };
        let mut overlay = OverlaySpec::default();
        overlay.of("a").added.push(AddedEndpointSpec {
            url: "http://127.0.0.1:3".into(),
            weight: 7,
            tier: 0,
        });
        for (filters, count, lines) in [
            ("", 2, 0),
            ("{ headers: { request: { set: { Authorization: '${TOKEN}' } } } }", 1, 1),
            ("{ headers: { request: { set: { Authorization: 'Bearer hunter2' } } } }", 1, 1),
            ("{ rewrite: '/${TOKEN}{path}' }", 1, 1),
            ("{ headers: { request: { set: { X-User: '{user}' } } } }", 2, 0),
        ] {
            let base = Base::new(plan(filters), &Default::default(), &Default::default());
            let laid = overlay.lay_over(&base, |_, _| false);
            assert_eq!(laid.services[0].endpoints.len(), count, "{filters}");
            let one = overlay.lay_over_one(&base, 0, |_, _| false).unwrap();
            assert_eq!(one.endpoints.len(), count, "{filters}");
            let told = super::super::sent_secrets::left_out(&overlay, &base);
            assert_eq!(told.len(), lines, "{filters}: {told:?}");
        }
    }

    #[test]
    fn what_is_kept_is_read_back_and_nothing_is_no_error() {
        let directory = std::env::temp_dir().join(format!("thalweg-overlay-{}", std::process::id()));
        let path = directory.join(FILE);
        assert_eq!(load::<OverlaySpec>(&path).unwrap(), OverlaySpec::default());
        let mut overlay = OverlaySpec::default();
        overlay.of("a").removed.insert("http://127.0.0.1:1".into());
        overlay.routes.entry("r".into()).or_default().insert("a".into(), 4);
        store(&path, &overlay).unwrap();
        assert_eq!(load::<OverlaySpec>(&path).unwrap(), overlay);
        for damaged in ["{", "[]", "", "null", "{\"services\": []}"] {
            fs::write(&path, damaged).unwrap();
            assert!(load::<OverlaySpec>(&path).is_err(), "{damaged}");
        }
        fs::remove_dir_all(directory).unwrap();
    }
}
