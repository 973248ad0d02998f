//! What the conditions of guards depend on: a guard that another way has too protects nothing there if its condition
//! never holds, or if the way changes what the condition names.

use super::guards::{Guard, Guards, Terms, lacking};
use super::paths::{Paths, changes_path};
use super::ways::Way;
use thalweg_filter::{Step, Written};
use thalweg_route::{HostPattern, PathPattern};

/// What the conditions of the guards on a way name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Named {
    path: bool,
    host: bool,
    identity: bool,
    method_or_client: bool,
    /// Request fields, in lower case.
    fields: Vec<String>,
}

/// A filter that conditions depend on.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Input {
    /// A guard, by its name and its conditions.
    Guard(&'static str, [u8; 32]),
    /// A filter that may change what a condition names; `None`: it cannot be compared.
    Change(Option<Written>),
}

/// A way of the earlier plan whose guards have conditions.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Conditions {
    guards: Guards,
    named: Named,
    hosts: Vec<HostPattern>,
    paths: Paths,
    /// What the route matches beside hosts and paths, where a condition names such; empty: all requests.
    matched: String,
    /// The whole match, where its paths cannot be compared.
    route: String,
    inputs: Vec<Input>,
    /// No condition may hold on this way, so that it is open.
    pub(super) is_open: bool,
}

impl Conditions {
    /// `None`: its guards have none.
    pub(super) fn of(way: &Way<'_>) -> Option<Self> {
        if way.guards.iter().all(Guard::is_unconditional) {
            return None;
        }
        let named = Named::of(way);
        let inputs = inputs(way, &named, None);
        let is_changed = way.steps.iter().any(|step| changes_path(step) || named.is_changed_by(step));
        let hosts = if named.host { way.hosts.to_vec() } else { Vec::new() };
        let paths = if named.path { Paths::asked(way) } else { Paths::all() };
        let route = if paths.cover(&paths) { String::new() } else { way.route.matches.to_string() };
        let matched = named.matched(way);
        let is_open = !is_changed && !way.steps.iter().any(|step| may_run(step, way));
        Some(Self { guards: way.guards.clone(), named, hosts, paths, matched, route, inputs, is_open })
    }

    /// Whether the guards of another way run for its requests as those of this way do.
    pub(super) fn hold_alike(&self, way: &Way<'_>, terms: Terms) -> bool {
        let has_host = |host: &HostPattern| self.hosts.iter().any(|known| is_within(host, known));
        let has_hosts = self.hosts.is_empty() || !way.hosts.is_empty() && way.hosts.iter().all(has_host);
        let has_paths = || !self.named.path || self.paths.cover(&Paths::asked(way));
        let is_same = || !self.route.is_empty() && self.route == *way.route.matches;
        let has_rest = || self.matched.is_empty() || self.matched == self.named.matched(way);
        lacking(&self.guards, &way.guards, terms).next().is_none()
            && (self.is_open || is_same() || has_hosts && has_paths() && has_rest())
            && inputs(way, &self.named, Some(&self.inputs)) == self.inputs
    }
}

impl Named {
    fn of(way: &Way<'_>) -> Self {
        let mut named = Self::default();
        for when in way.steps.iter().filter(|step| step.filter.guards()).flat_map(|step| &step.when) {
            named.path |= when.is_about_path();
            named.host |= when.is_about_host();
            named.identity |= when.is_about_identity();
            named.method_or_client |= when.is_about_method_or_client();
            named.fields.extend(when.fields().map(str::to_ascii_lowercase));
        }
        named
    }

    /// Whether a filter may change what a condition names, apart from the path: [`Way::path_changes`] tells these.
    fn is_changed_by(&self, step: &Step) -> bool {
        let sets = |field: &String| {
            let mut own = step.filter.own_fields().into_iter().chain(step.filter.set_fields());
            own.any(|own| own.eq_ignore_ascii_case(field))
        };
        self.host && step.name() == "rewrite"
            || self.identity && step.name() == "auth"
            || self.fields.iter().any(sets)
            || step.filter.may_own_others()
    }

    /// What the route of a way matches of what conditions name, beside hosts and paths.
    fn matched(&self, way: &Way<'_>) -> String {
        let Some(route) = way.matched.filter(|_| self.method_or_client || !self.fields.is_empty()) else {
            return String::new();
        };
        let is_any = route.methods.is_empty() && route.headers.is_empty() && route.clients.is_empty();
        let text = || format!("{:?} {:?} {:?}", route.methods, route.headers, route.clients);
        if is_any { String::new() } else { text() }
    }
}

/// The filters of a way that conditions depend on, and its guards with conditions, in their order; `known`: no other
/// guards than these.
fn inputs(way: &Way<'_>, named: &Named, known: Option<&[Input]>) -> Vec<Input> {
    let input = |step: &Step| {
        let guard = Input::Guard(step.name(), step.written.map_or([0; 32], |written| written.when));
        let is_known = || known.is_none_or(|known| known.contains(&guard));
        let is_changed = named.is_changed_by(step);
        if step.filter.guards() && (is_changed || !step.when.is_empty()) && is_known() {
            return Some(guard);
        }
        is_changed.then_some(Input::Change(step.written))
    };
    way.steps.iter().filter_map(input).collect()
}

/// Whether a filter is a guard that may run for a request of a way, by host and path.
fn may_run(step: &Step, way: &Way<'_>) -> bool {
    let meets_host = |patterns: &[HostPattern]| {
        let meets =
            |one: &HostPattern| way.hosts.iter().any(|own| is_within(one, own) || is_within(own, one));
        patterns.is_empty() || way.hosts.is_empty() || patterns.iter().any(meets)
    };
    let meets_path = |patterns: &[PathPattern]| {
        patterns.is_empty() || Paths::matching(patterns).may_meet(&Paths::asked(way))
    };
    step.filter.guards() && step.when.iter().all(|when| meets_host(when.hosts()) && meets_path(when.paths()))
}

/// Whether every host of a pattern matches another one.
pub(super) fn is_within(host: &HostPattern, of: &HostPattern) -> bool {
    match (host, of) {
        (_, HostPattern::Any) => true,
        (HostPattern::Exact(host), of) => of.matches(host.as_bytes()),
        (HostPattern::Wildcard(host), HostPattern::Wildcard(of)) => {
            host == of || HostPattern::Wildcard(of.clone()).matches(host.as_bytes())
        }
        (HostPattern::Wildcard(_) | HostPattern::Any, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::told;

    const LOST: &str = "same requests for its `auth when";

    fn of(guard: &str, routes: &str) -> String {
        format!("defaults: {{ filters: [ {guard} ] }}\nroutes: [ {routes} ]")
    }

    #[test]
    fn a_guard_with_a_condition_protects_a_new_way_where_the_condition_holds_alike() {
        let guard = "{ auth: { network: 10.0.0.0/8 }, when: { host: admin.test } }";
        let known =
            "{ name: a, match: { host: admin.test }, to: a }, { name: b, match: { host: b.test }, to: b }";
        let before = of(guard, known);
        let after = |more: &str| of(guard, &format!("{known}, {{ name: n, {more} }}"));
        for more in [
            "match: { host: other.test }, filters: [ { rewrite: { host: admin.test } } ], to: a",
            "match: { host: other.test }, to: a",
            "match: { path: /n }, to: a",
            "match: { host: other.test }, filters: [ { mirror: a } ], to: b",
        ] {
            let told = told(&before, &after(more));
            assert!(told.starts_with(&format!("`routes.n` has no `{LOST}")), "{more}: {told}");
        }
        for more in [
            "match: { host: admin.test, path: /n }, to: a",
            "match: { host: other.test }, filters: [ AUTH ], to: a",
            // Where the guard never runs in the file, it does not count.
            "match: { host: other.test }, to: b",
        ] {
            assert_eq!(told(&before, &after(more)), "", "{more}");
        }
        // The existing route, with another match or host.
        let moved = known.replace("host: admin.test }, to: a", "host: other.test }, to: a");
        assert!(told(&before, &of(guard, &moved)).contains(LOST));
        let edited = of(&guard.replace("10.0.0.0/8", "10.1.0.0/16"), known);
        assert_eq!(told(&before, &edited), "");
    }

    #[test]
    fn no_new_way_sets_a_field_that_the_condition_of_its_guard_names() {
        let guard = "{ auth: { network: 10.0.0.0/8 }, when: { header: { X-Admin: '*' } } }";
        let known = "{ name: a, match: { host: a.test }, to: a }";
        let before = of(guard, known);
        let after =
            |more: &str| of(guard, &format!("{known}, {{ name: n, match: {{ path: /n }}, {more} to: a }}"));
        for request in [
            "set: { X-Admin: yes }",
            "append: { x-admin: yes }",
            "default: { X-Admin: yes }",
            "remove: X-Admin",
        ] {
            let more = format!("filters: [ {{ headers: {{ request: {{ {request} }} }} }} ],");
            let told = told(&before, &after(&more));
            assert!(told.starts_with(&format!("`routes.n` has no `{LOST}")), "{more}: {told}");
        }
        for more in
            ["", "filters: [ { headers: { request: { set: { X-Other: yes } } } }, { strip_prefix: /n } ],"]
        {
            assert_eq!(told(&before, &after(more)), "", "{more}");
        }
        // The file sets the field itself, so the guard always runs there.
        let sets = "{ name: a, match: { host: a.test }, filters: [ { headers: { request: { set: { X-Admin: yes } } } }, GUARD ], to: a }"
            .replace("GUARD", guard);
        let of = |more: &str| format!("routes: [ {sets}{more} ]");
        let bare = format!(", {{ name: n, match: {{ path: /n }}, filters: [ {guard} ], to: a }}");
        assert!(told(&of(""), &of(&bare)).contains(LOST));
    }

    #[test]
    fn routes_with_patterns_and_other_conditions_stay_as_they_are() {
        for (when, matches) in [
            ("path: '/users/{id}/admin'", "path: '/users/{id}/*'"),
            ("path: '/x/*'", "path_regex: '^/x/.*'"),
            ("method: POST", "methods: POST"),
            ("host: '*.test'", "host: a.test"),
        ] {
            let guard = format!("{{ access: {{ deny: [ 192.0.2.0/24 ] }}, when: {{ {when} }} }}");
            let text =
                of(&format!("AUTH, {guard}"), &format!("{{ name: a, match: {{ {matches} }}, to: a }}"));
            assert_eq!(told(&text, &text), "", "{when}");
        }
    }
}
