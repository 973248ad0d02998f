//! The filter `maintenance` of routes, turned on and off through the admin API: that holds, whatever the file says,
//! until it is taken back.

use super::admin::Shared;
use super::config_events::event;
use super::endpoints::with_place;
use super::overlay::OverlaySpec;
use super::route_status::route_status;
use super::runtime::Runtime;
use thalweg_admin::{Expected, MaintenanceChanged, Refusal, RouteStatus, encode};
use thalweg_core::{EventKind, Notice};
use thalweg_proxy::Plan;

impl Shared {
    /// Turns the filter of a route on or off; `None`: it is as the file says again.
    pub(super) fn switch_maintenance(
        &self,
        route: &str,
        on: Option<bool>,
        expected: &Expected<u64>,
    ) -> Result<MaintenanceChanged, Refusal> {
        let mut runtime = self.runtime();
        let found = self.status_of_route(&runtime, route);
        let before = found.as_ref().and_then(|found| found.maintenance);
        let was_set = runtime.overlay.maintenance.get(route).copied();
        // What was set of a route that the file has no more, or no such filter any more, can be taken back.
        if found.is_none() && (on.is_some() || was_set.is_none()) {
            return Err(Refusal::Unknown(format!("there is no route `{route}`")));
        }
        if before.is_none() && on.is_some() {
            return Err(Refusal::Conflict(format!(
                "the route `{route}` has no filter `maintenance`; write `filters: [ {{ maintenance: {{ on: false }} }} ]`"
            )));
        }
        runtime.admit(expected)?;
        let is_changed = on != was_set;
        if is_changed {
            match on {
                Some(on) => runtime.overlay.maintenance.insert(route.to_owned(), on),
                None => runtime.overlay.maintenance.remove(route),
            };
            self.commit_routes(&mut runtime);
        }
        let said = in_force_of(&runtime.overlay, &runtime.base, route);
        let (version, after) = (runtime.version, self.status_of_route(&runtime, route));
        drop(runtime);
        if is_changed {
            self.say(&Notice::info(
                said.unwrap_or_else(|| format!("route `{route}`: `maintenance` is {AS_IN_THE_FILE}")),
            ));
        }
        let now = after.as_ref().and_then(|after| after.maintenance);
        if let Some(now) = now.filter(|now| before != Some(*now)) {
            let kind = if now { EventKind::MaintenanceBegun } else { EventKind::MaintenanceEnded };
            self.publish(event(kind, format!("route `{route}`")));
        }
        Ok(MaintenanceChanged { version, before, route: after })
    }

    fn status_of_route(&self, runtime: &Runtime, route: &str) -> Option<RouteStatus> {
        let plan = self.worker_pool().plan();
        let found = plan.routes.iter().find(|known| *known.name == *route)?;
        Some(with_place(runtime, route_status(&plan, found)))
    }
}

/// What is said when nothing that was set is in force.
const AS_IN_THE_FILE: &str = "as in the file again";

/// A line for each route whose filter is not as the file `base` says.
pub(super) fn in_force(overlay: &OverlaySpec, base: &Plan) -> Vec<String> {
    overlay.maintenance.keys().filter_map(|route| in_force_of(overlay, base, route)).collect()
}

/// The line of one route; nothing where its filter is as the file says.
fn in_force_of(overlay: &OverlaySpec, base: &Plan, route: &str) -> Option<String> {
    let on = *overlay.maintenance.get(route)?;
    let written = base.routes.iter().find(|known| *known.name == *route)?.is_on()?;
    let word = |on: bool| if on { "on" } else { "off" };
    (on != written).then(|| {
        format!(
            "route `{route}`: `maintenance` is {}, as set through the admin API, not {} as in the file; \
             `DELETE /api/v1/routes/{}/maintenance` brings that back",
            word(on),
            word(written),
            encode(route)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_config::check_text;

    fn plan(filters: &str) -> Plan {
        let text = format!(
            "listeners: {{ web: {{ address: '127.0.0.1:0' }} }}\n\
             routes: [ {{ name: the shop, filters: [ {filters} ], to: [ 'http://127.0.0.1:1' ] }} ]\n"
        );
        check_text("t.yaml", &text, &|_| None).unwrap().plan
    }

    fn overlay(on: bool) -> OverlaySpec {
        OverlaySpec { maintenance: [("the shop".to_owned(), on)].into(), ..OverlaySpec::default() }
    }

    #[test]
    fn what_was_set_is_laid_over_the_file_and_said_with_the_way_back() {
        let (off, on) = (plan("{ maintenance: { on: false } }"), plan("{ maintenance: { on: true } }"));
        let laid = |overlay: OverlaySpec, base: Plan| {
            overlay
                .lay_over(
                    &crate::control::base::Base::new(base, &Default::default(), &Default::default()),
                    |_, _| false,
                )
                .routes[0]
                .is_on()
        };
        assert_eq!(laid(overlay(true), off.clone()), Some(true));
        assert_eq!(laid(overlay(false), on.clone()), Some(false));
        assert_eq!(laid(overlay(true), plan("{ hsts: {} }")), None);
        assert_eq!(
            in_force(&overlay(true), &off),
            ["route `the shop`: `maintenance` is on, as set through the admin API, not off as in the file; \
              `DELETE /api/v1/routes/the%20shop/maintenance` brings that back"]
        );
        assert!(in_force(&overlay(true), &on).is_empty(), "both say the same");
        assert!(in_force(&overlay(true), &plan("{ hsts: {} }")).is_empty(), "there is nothing to turn on");
    }
}
