//! What the admin API has changed over what the configuration says, told for a plan: drift, and which part of it has
//! no effect on that plan.

use super::overlay::{ChangedEndpointSpec, ModeSpec, OverlaySpec, ServiceOverlaySpec};
use thalweg_admin::RuntimeChange;
use thalweg_config::endpoint_address;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::To;
use thalweg_upstream::Service;

/// Every change, by service and then by route, told for `base`: a plan as the configuration says.
pub(super) fn drift(overlay: &OverlaySpec, base: &Plan) -> Vec<RuntimeChange> {
    let mut changes = Vec::new();
    for (name, of) in &overlay.services {
        let service = base.services.iter().find(|service| *service.name == **name);
        of_service(name, of, service.map(|service| &**service), &mut changes);
    }
    for (name, weights) in &overlay.routes {
        let words: Vec<_> = weights.iter().map(|(service, weight)| format!("{service} {weight}")).collect();
        changes.push(RuntimeChange {
            kind: "route",
            name: name.clone(),
            endpoint: None,
            change: format!("shares [{}]", words.join(", ")),
            void: !has_effect(name, weights.keys().map(String::as_str), base),
        });
    }
    for (name, on) in &overlay.maintenance {
        let route = base.routes.iter().find(|route| *route.name == **name);
        changes.push(RuntimeChange {
            kind: "route",
            name: name.clone(),
            endpoint: None,
            change: format!("maintenance {}", if *on { "on" } else { "off" }),
            void: route.and_then(|route| route.is_on()).is_none(),
        });
    }
    changes
}

fn of_service(
    name: &str,
    overlay: &ServiceOverlaySpec,
    service: Option<&Service>,
    changes: &mut Vec<RuntimeChange>,
) {
    let ServiceOverlaySpec { added, removed, changed } = overlay;
    let in_file = |url: &str| {
        let address = endpoint_address(url).ok().map(|(_, address)| address);
        service.is_some_and(|service| {
            service
                .endpoints
                .iter()
                .any(|known| *known.url == *url || Some(&known.address) == address.as_ref())
        })
    };
    let mut tell = |url: &str, change: String, void: bool| {
        let (kind, name, endpoint) = ("service", name.to_owned(), Some(url.to_owned()));
        changes.push(RuntimeChange { kind, name, endpoint, change, void: void || service.is_none() });
    };
    for endpoint in added {
        let tier = if endpoint.tier == 0 { String::new() } else { format!(", tier {}", endpoint.tier) };
        let change = format!("added with weight {}{tier}", endpoint.weight);
        tell(&endpoint.url, change, in_file(&endpoint.url));
    }
    for url in removed {
        tell(url, "removed".into(), !in_file(url));
    }
    for (url, change) in changed {
        let ChangedEndpointSpec { weight, mode } = change;
        let mode = mode.map(|mode| match mode {
            ModeSpec::Draining => "draining",
            ModeSpec::Maintenance => "maintenance",
        });
        let weight = weight.map(|weight| format!("weight {weight}"));
        let words: Vec<String> = weight.into_iter().chain(mode.map(str::to_owned)).collect();
        let there = in_file(url) || added.iter().any(|endpoint| endpoint.url == *url);
        if !words.is_empty() {
            tell(url, words.join(", "), !there);
        }
    }
}

/// Whether the plan has the route, split between one of these services at least.
fn has_effect<'a>(route: &str, mut services: impl Iterator<Item = &'a str>, base: &Plan) -> bool {
    let route = base.routes.iter().find(|known| *known.name == *route);
    let Some(To::Split(split)) = route.map(|route| &route.to) else { return false };
    services.any(|name| {
        let of_part = |part: &thalweg_proxy::plan::ServiceId| base.services.get(part.0 as usize);
        split.parts.iter().any(|(part, _)| of_part(part).is_some_and(|service| *service.name == *name))
    })
}

#[cfg(test)]
mod tests {
    use super::super::overlay::AddedEndpointSpec;
    use super::*;
    use thalweg_config::check_text;

    fn plan(rest: &str) -> Plan {
        let text = format!("listeners: {{ web: {{ address: '127.0.0.1:0' }} }}\n{rest}");
        check_text("t.yaml", &text, &|_| None).unwrap().plan
    }

    #[test]
    fn what_the_next_configuration_makes_void_is_marked() {
        let split = plan(
            "routes: [ { name: r, to: [ { service: a, weight: 1 }, { service: b, weight: 1 } ] } ]\n\
             services: { a: { endpoints: ['http://127.0.0.1:1'] }, b: { endpoints: ['http://127.0.0.1:2'] } }\n",
        );
        let other = plan(
            "routes: [ { name: r, to: a } ]\n\
             services: { a: { endpoints: ['http://127.0.0.1:3'] } }\n",
        );
        let mut overlay = OverlaySpec::default();
        let added = AddedEndpointSpec { url: "http://127.0.0.1:3".into(), weight: 7, tier: 1 };
        overlay.of("a").added.push(added);
        overlay.of("a").removed.insert("http://127.0.0.1:1".into());
        let change = ChangedEndpointSpec { weight: Some(5), mode: Some(ModeSpec::Draining) };
        overlay.of("b").changed.insert("http://127.0.0.1:2".into(), change);
        overlay.routes.entry("r".into()).or_default().insert("b".into(), 9);
        let words: Vec<_> = drift(&overlay, &split).into_iter().map(|c| (c.change, c.void)).collect();
        let expected = ["added with weight 7, tier 1", "removed", "weight 5, draining", "shares [b 9]"];
        assert_eq!(words, expected.map(|text| (text.to_owned(), false)));
        assert!(drift(&overlay, &other).iter().all(|change| change.void), "{:?}", drift(&overlay, &other));
    }
}
