//! Endpoints that the admin API has added and that a plan cannot have: they would lead past one of its guards, or past
//! one of the operator's last configuration.
//!
//! The [`overlay`](super::overlay) asks each time it is laid over a plan, so the answer is the same at a reload, `PUT`,
//! rollback, merge and start as when an endpoint arrives. Pure.

use super::base::Base;
use super::overlay::OverlaySpec;
use std::collections::HashSet;
use thalweg_config::endpoint_address;
use thalweg_config::protections::{LostProtection, lost_by_added};
use thalweg_proxy::Plan;
use thalweg_upstream::Address;

/// An endpoint that is left out.
pub(super) struct LeftOut<'o> {
    /// The position of the service.
    at: usize,
    service: &'o str,
    url: &'o str,
    why: String,
}

/// The endpoints of the overlay that this plan cannot have; `only`: of the service at this position.
pub(super) fn past_guards<'o>(
    overlay: &'o OverlaySpec,
    base: &Base,
    only: Option<usize>,
) -> Vec<LeftOut<'o>> {
    let changed = overlay.services.iter().filter(|(_, of)| !of.added.is_empty());
    let found = changed.filter_map(|(name, of)| {
        let at = match only {
            Some(at) => base.services.get(at).filter(|service| *service.name == **name).map(|_| at),
            None => base.services.iter().position(|service| *service.name == **name),
        };
        Some((at?, name, of))
    });
    let added: Vec<_> = found
        .flat_map(|(at, name, of)| {
            let urls = of.added.iter();
            urls.filter_map(move |it| Some((at, &**name, &*it.url, endpoint_address(&it.url).ok()?.1)))
        })
        .collect();
    let asked: Vec<(usize, &Address)> = added.iter().map(|(at, .., address)| (*at, address)).collect();
    let operator = base.operator.as_ref().and_then(|operator| operator.plan(base).ok());
    let lost = lost_of(base, operator.as_ref(), &asked);
    let each = added.iter().zip(lost).filter_map(|((at, service, url, address), lost)| {
        let of_guards = lost.map(|lost| format!("with it {lost}"));
        let why = of_guards.or_else(|| base.bars_checks(*at, address))?;
        Some(LeftOut { at: *at, service, url, why })
    });
    each.collect()
}

/// What each endpoint would take away first, of the plan itself or of the operator's.
fn lost_of(base: &Base, operator: Option<&Plan>, asked: &[(usize, &Address)]) -> Vec<Option<LostProtection>> {
    if asked.is_empty() {
        return Vec::new();
    }
    let mut lost: Vec<_> =
        lost_by_added(base, base, asked).into_iter().map(|of| of.into_iter().next()).collect();
    for (known, of) in
        lost.iter_mut().zip(operator.map(|operator| lost_by_added(operator, base, asked)).unwrap_or_default())
    {
        *known = known.take().or(of.into_iter().next());
    }
    lost
}

/// Those of the service at this position, by their URLs as they were added.
pub(super) fn urls_of<'o>(left_out: &[LeftOut<'o>], at: usize) -> HashSet<&'o str> {
    left_out.iter().filter(|it| it.at == at).map(|it| it.url).collect()
}

/// A line for each endpoint that is left out.
pub(super) fn lines(overlay: &OverlaySpec, base: &Base) -> Vec<String> {
    let line = |LeftOut { service, url, why, .. }: &LeftOut<'_>| {
        format!(
            "service `{service}`: the endpoint {url} that the admin API has added is left out, because {why}; write \
             it in the file"
        )
    };
    past_guards(overlay, base, None).iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::operator::Operator;
    use super::super::overlay::AddedEndpointSpec;
    use super::*;
    use thalweg_config::check_text;

    const GUARDED: &str =
        "{ match: { host: in.test }, to: inner, filters: [ { access: { allow: [ 10.0.0.0/8 ] } } ] }";

    fn base(routes: &str) -> Base {
        let text = format!(
            "listeners: {{ web: {{ address: '127.0.0.1:0' }} }}\nroutes: [ {routes}, {{ match: {{ host: out.test }}, to: outer }} ]\n\
             services: {{ t: {{ endpoints: 'http://10.0.0.3:1' }}, inner: {{ endpoints: 'http://10.0.0.1:1' }}, \
             outer: {{ endpoints: 'http://10.0.0.2:1' }} }}\n"
        );
        let loaded =
            check_text("t.yaml", &text, &|_| None).unwrap_or_else(|report| panic!("{}", report.lines()));
        Base::new(loaded.plan, &Default::default(), &Default::default())
    }

    fn overlay(service: &str, url: &str) -> OverlaySpec {
        let mut overlay = OverlaySpec::default();
        overlay.of(service).added.push(AddedEndpointSpec { url: url.into(), weight: 1, tier: 0 });
        overlay
    }

    /// The endpoints of the service with this overlay, by either way to lay it over, and the lines.
    fn laid(overlay: &OverlaySpec, base: &Base, service: &str) -> (usize, usize) {
        let at = base.services.iter().position(|known| *known.name == *service).unwrap();
        let one = overlay.lay_over_one(base, at, |_, _| false).unwrap();
        assert_eq!(overlay.lay_over(base, |_, _| false).services[at].endpoints.len(), one.endpoints.len());
        (one.endpoints.len(), lines(overlay, base).len())
    }

    /// A token added the endpoint while no way led to the service, and a route there afterwards.
    #[test]
    fn an_added_endpoint_is_left_out_of_a_plan_that_leads_through_it_past_a_guard() {
        for url in ["http://10.0.0.1:1", "http://[::ffff:10.0.0.1]:1"] {
            let added = overlay("t", url);
            assert_eq!(laid(&added, &base(GUARDED), "t"), (2, 0), "no way leads there");
            let led = format!("{GUARDED}, {{ match: {{ path: /t/* }}, to: t }}");
            assert_eq!(laid(&added, &base(&led), "t"), (1, 1));
            assert!(
                lines(&added, &base(&led))[0].contains("no `access`"),
                "{:?}",
                lines(&added, &base(&led))
            );
            let mirrored =
                format!("{GUARDED}, {{ match: {{ path: /t/* }}, filters: [ {{ mirror: t }} ], to: outer }}");
            assert_eq!(laid(&added, &base(&mirrored), "t"), (1, 1));
            // It comes back with the guard, or where the file leads there openly.
            let as_guarded = GUARDED.replace("host: in.test", "path: /t/*").replace("to: inner", "to: t");
            assert_eq!(laid(&added, &base(&format!("{GUARDED}, {as_guarded}")), "t"), (2, 0));
            let open = "{ match: { host: in.test }, to: inner }, { match: { path: /t/* }, to: t }";
            assert_eq!(laid(&added, &base(open), "t"), (2, 0));
        }
        assert_eq!(laid(&overlay("outer", "http://10.0.0.9:1"), &base(GUARDED), "outer"), (2, 0));
        assert_eq!(laid(&overlay("outer", "http://10.0.0.1:1"), &base(GUARDED), "outer"), (1, 1));
    }

    #[test]
    fn an_added_endpoint_is_left_out_where_the_operator_has_a_guard_that_a_token_has_removed() {
        let text = |routes: &str| {
            format!(
                "listeners: {{ web: {{ address: '127.0.0.1:0' }} }}\n\
                 routes: [ {routes}{{ match: {{ host: out.test }}, to: outer }} ]\n\
                 services: {{ inner: {{ endpoints: 'http://10.0.0.1:1' }}, outer: {{ endpoints: 'http://10.0.0.2:1' }} }}\n"
            )
        };
        let (before, after) = (text(&format!("{GUARDED}, ")), text(""));
        let base_of = |text: &str| {
            let loaded = check_text("t.yaml", text, &|_| None).unwrap();
            Base::new(loaded.plan, &Default::default(), &Default::default())
        };
        let mut operator = Operator::default();
        operator.change(("t.yaml", &before, &base_of(&before)), (None, &after)).unwrap();
        let (added, mut base) = (overlay("outer", "http://10.0.0.1:1"), base_of(&after));
        assert_eq!(laid(&added, &base, "outer"), (2, 0));
        base.operator = operator.supplied();
        assert_eq!(laid(&added, &base, "outer"), (1, 1));
    }
}
