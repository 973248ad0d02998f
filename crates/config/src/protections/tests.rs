//! Tests of lost protections between two configurations, from text to plan.

use super::*;
use crate::check_text;

const AUTH: &str = "{ auth: { network: 10.0.0.0/8 } }";
const ACCESS: &str = "{ access: { deny: [ 192.0.2.0/24 ] } }";

fn plan(text: &str) -> Plan {
    let text = text.replace("AUTH", AUTH).replace("ACCESS", ACCESS);
    let around = match text.contains("listeners:") {
        true => text,
        false => format!("listeners: {{ web: {{ address: ':8080' }} }}\n{text}"),
    };
    let services = match around.contains("services:") {
        true => around,
        false => format!(
            "{around}\nservices: {{ a: {{ endpoints: 'http://10.0.0.1:1' }}, b: {{ endpoints: 'http://10.0.0.2:1' }} }}"
        ),
    };
    check_text("t.yaml", &services, &|_| None)
        .unwrap_or_else(|report| panic!("{}\n{services}", report.lines()))
        .plan
}

fn told(before: &str, after: &str) -> String {
    let lost = lost(&plan(before), &plan(after));
    lost.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn ordinary_edits_lose_nothing() {
    let before =
        "routes: [ { name: admin, match: { path: /admin/* }, filters: [ AUTH ], to: a }, { to: b } ]";
    for after in [
        before,
        "routes: [ { to: b } ]",
        // Other arguments, another place, other routes, a route that answers by itself.
        "routes: [ { name: admin, match: { path: /admin/* }, filters: [ { auth: { network: 10.9.0.0/16 } } ], to: a } ]",
        "routes: [ { to: b }, { match: { path: /x }, to: b }, { name: admin, match: { path: /admin/* }, filters: [ AUTH ], to: a } ]",
        "chains: { safe: [ AUTH ] }\nroutes: [ { name: admin, match: { path: /admin/* }, filters: [ { chain: safe } ], to: a } ]",
        "defaults: { filters: [ AUTH ] }\nroutes: [ { name: admin, match: { path: /admin/* }, to: a }, { to: a } ]",
        "routes: [ { match: { path: /health }, filters: [ { respond: 200 } ], to: a }, { name: admin, match: { path: /admin/* }, filters: [ AUTH ], to: a } ]",
        "services: { a: { endpoints: 'http://10.0.0.9:1', filters: [ AUTH ] } }\nroutes: [ { name: admin, match: { path: /admin/* }, to: a } ]",
    ] {
        assert_eq!(told(before, after), "", "{after}");
    }
    assert_eq!(told("routes: [ { to: a } ]", "routes: [ { to: b } ]"), "");
}

#[test]
fn a_route_that_lacks_what_it_had_is_named() {
    let before =
        "routes: [ { name: admin, match: { path: /admin/* }, filters: [ AUTH, ACCESS ], to: a }, { to: a } ]";
    for (after, expected) in [
        (
            "routes: [ { name: admin, match: { path: /admin/* }, filters: [ ACCESS ], to: a }, { to: a } ]",
            "`routes.admin` has no `auth`, which the route of `/admin/*` has until now",
        ),
        // Another name, or another match.
        (
            "routes: [ { name: x, match: { path: /admin/* }, filters: [ AUTH ], to: a }, { to: a } ]",
            "`routes.x` has no `access`, which the route of `/admin/*` has until now",
        ),
        (
            "routes: [ { name: admin, match: { path: /ad/* }, filters: [ AUTH ], to: a }, { to: a } ]",
            "`routes.admin` has no `access`, which it has until now",
        ),
        // The filter is conditional, or a dry run.
        (
            "routes: [ { name: admin, match: { path: /admin/* }, filters: [ { auth: { network: 10.0.0.0/8 }, when: { path: /admin/x } }, ACCESS ], to: a }, { to: a } ]",
            "`routes.admin` has no `auth`, which the route of `/admin/*` has until now",
        ),
        (
            "routes: [ { name: admin, match: { path: /admin/* }, filters: [ { auth: { network: 10.0.0.0/8, dry_run: true } }, ACCESS ], to: a }, { to: a } ]",
            "`routes.admin` has no `auth`, which the route of `/admin/*` has until now",
        ),
    ] {
        assert_eq!(told(before, after), expected);
    }
    let conditional = "routes: [ { name: admin, filters: [ { auth: { network: 10.0.0.0/8 }, when: { path: /x } } ], to: a } ]";
    assert_eq!(told(conditional, conditional), "");
    assert_eq!(told(conditional, "routes: [ { name: admin, filters: [ AUTH ], to: a } ]"), "");
    assert!(told(conditional, "routes: [ { name: admin, to: a } ]").contains("has no `auth when "));
}

#[test]
fn no_new_way_leads_to_what_was_reached_through_a_filter_alone() {
    let before =
        "routes: [ { match: { path: /a/* }, filters: [ AUTH ], to: a }, { match: { path: /b/* }, to: b } ]";
    for (after, expected) in [
        (
            "routes: [ { match: { path: /x }, to: a } ]",
            "`routes.route 1` has no `auth`, which every way to the service `a` has until now",
        ),
        // The same endpoint under another name, or by a split.
        (
            "routes: [ { match: { path: /x }, to: [ 'http://10.0.0.1:1' ] } ]",
            "`routes.route 1` has no `auth`, which every way to the endpoint 10.0.0.1:1 has until now",
        ),
        (
            "routes: [ { name: s, match: { path: /x }, to: [ { service: a, weight: 1 }, { service: b, weight: 99 } ] } ]",
            "`routes.s` has no `auth`, which every way to the service `a` has until now",
        ),
        // At one listener of two.
        (
            "listeners: { web: { address: ':8080', filters: [ AUTH ] }, more: { address: ':8081' } }\nroutes: [ { name: s, match: { path: /x }, to: a } ]",
            "`routes.s` has no `auth`, which every way to the service `a` has until now",
        ),
    ] {
        assert_eq!(told(before, after), expected);
    }
    let everywhere = "listeners: { web: { address: ':8080', filters: [ AUTH ] } }\nroutes: [ { name: s, match: { path: /x }, to: a } ]";
    assert_eq!(told(before, everywhere), "");
}

#[test]
fn a_listener_keeps_its_access() {
    let of = |listeners: &str| format!("listeners: {{ {listeners} }}\nroutes: [ {{ to: a }} ]");
    let before = of("web: { address: ':8080', access: { allow: [ 10.0.0.0/8 ] } }");
    assert_eq!(told(&before, &before), "");
    for after in ["web: { address: ':8081' }", "other: { address: ':8080' }"] {
        assert!(
            told(&before, &of(after)).contains("has no `access`, which the listener `web` has"),
            "{after}"
        );
    }
}

#[test]
fn a_new_listener_needs_an_access_that_the_others_have() {
    let of = |listeners: &str| format!("listeners: {{ {listeners} }}\nroutes: [ {{ to: a }} ]");
    let known = "web: { address: ':8080', access: { allow: [ 10.0.0.0/8 ] } }";
    let before = of(known);
    let after = |more: &str| of(&format!("{known}, {more}"));
    for (more, expected) in [
        ("other: { address: ':8081', access: { allow: [ 10.0.0.0/8 ] } }", ""),
        (
            "other: { address: ':8081' }",
            "`listeners.other` has no `access`, which every listener of this kind has until now",
        ),
        (
            "other: { address: ':8081', access: { allow: [ 0.0.0.0/0 ] } }",
            "`listeners.other` has no `access` with the argument, which every listener of this kind has until now",
        ),
    ] {
        assert_eq!(told(&before, &after(more)), expected, "{more}");
    }
    // In place of the other listener.
    assert!(told(&before, &of("other: { address: ':8081' }")).contains("`listeners.other` has no `access`"));
    // An open listener already serves the same routes.
    let open = of(&format!("{known}, open: {{ address: ':8082' }}"));
    assert_eq!(told(&open, &of(&format!("{known}, other: {{ address: ':8081' }}"))), "");
}

/// The service `a` behind `auth`, with additions.
fn guarded(more: &str) -> String {
    "chains: { safe: [ AUTH ] }\n\
     services: { a: { endpoints: 'http://127.0.0.1:1' }, b: { endpoints: 'http://10.0.0.2:1' }, SERVICES }\n\
     routes: [ { name: a, match: { host: a.test }, filters: [ { chain: safe } ], to: a }, \
     { name: b, match: { host: b.test }, to: b }, ROUTES ]"
        .replace("ROUTES", more)
        .replace(", SERVICES", "")
}

#[test]
fn a_new_route_needs_the_argument_that_the_file_has() {
    let before = guarded("");
    let route = |filters: &str| {
        guarded(&format!("{{ name: n, match: {{ path: /n }}, filters: [ {filters} ], to: a }}"))
    };
    for filters in [
        "{ chain: safe }",
        "AUTH",
        "{ strip_prefix: /n }, { auth: { network: 10.0.0.0/8 } }",
        "{ auth: { network: [ 0.0.0.0/0 ] } }, AUTH",
    ] {
        assert_eq!(told(&before, &route(filters)), "", "{filters}");
    }
    for filters in ["{ auth: { network: [ 0.0.0.0/0, '::/0' ] } }", "{ auth: { network: 10.0.0.0/9 } }"] {
        let expected =
            "`routes.n` has no `auth` with the argument, which every way to the service `a` has until now";
        assert_eq!(told(&before, &route(filters)), expected, "{filters}");
    }
    // A new route to the service; and the existing one, which an operator may edit.
    let edited = before.replace(
        "match: { host: b.test }, to: b",
        "match: { host: b.test }, filters: [ { auth: { network: 0.0.0.0/0 } } ], to: a",
    );
    assert!(told(&before, &edited).starts_with("`routes.b` has no `auth` with the argument"));
    let edited = before.replace(
        "filters: [ { chain: safe } ], to: a",
        "filters: [ { auth: { network: 0.0.0.0/0 } } ], to: a",
    );
    assert_eq!(told(&before, &edited), "");
    // One more route for the same requests, before it.
    let copy =
        "{ match: { host: a.test }, filters: [ { auth: { network: 0.0.0.0/0 } } ], to: a }, { name: a,";
    assert!(told(&before, &before.replace("{ name: a,", copy)).contains("has no `auth` with the argument"));
    // Another name for the route.
    assert_eq!(told(&before, &edited.replace("{ name: a,", "{ name: z,")), "");
}

/// The displayed argument contains no secrets; the compared one includes them.
#[test]
fn another_password_for_the_same_user_is_another_argument() {
    let hash = |last: char| {
        format!("$2b$05$C6UzMDM.H6dfI/f/IKcEeO7ZBX8vP3L5G5rXw8kUSGtYzwmSx2dG{last}").replace('$', "$$")
    };
    let auth = |last: char| format!("{{ auth: {{ basic: {{ users: {{ ada: '{}' }} }} }} }}", hash(last));
    let of = |more: &str| {
        format!(
            "routes: [ {{ name: a, match: {{ host: a.test }}, filters: [ {} ], to: a }}, {{ name: b, match: {{ host: b.test }}, to: b }}{more} ]",
            auth('W')
        )
    };
    let route = |last: char| {
        of(&format!(", {{ name: n, match: {{ path: /n }}, filters: [ {} ], to: a }}", auth(last)))
    };
    assert_eq!(told(&of(""), &route('W')), "");
    assert!(told(&of(""), &route('S')).contains("`routes.n` has no `auth` with the argument"));
}

#[test]
fn requests_of_filters_are_ways_to_what_they_call() {
    let before = guarded("");
    for filter in [
        "{ mirror: a }",
        "{ mirror: { to: a, share: 1% } }",
        "{ auth: { forward_auth: { service: a, path: /x } } }",
        "{ ext: { service: a } }",
    ] {
        let route = |filters: &str| {
            guarded(&format!("{{ name: n, match: {{ path: /n }}, filters: [ {filters} ], to: b }}"))
        };
        assert!(
            told(&before, &route(filter))
                .starts_with("`routes.n` has no `auth`, which every way to the service `a` has"),
            "{filter}: {}",
            told(&before, &route(filter))
        );
        assert!(
            told(&before, &route(&format!("{filter}, {{ chain: safe }}")))
                .contains("`routes.n` has no `auth`")
        );
        assert_eq!(told(&before, &route(&format!("{{ chain: safe }}, {filter}"))), "", "{filter}");
        // A service that the file calls may be called.
        assert_eq!(told(&route(filter), &route(filter)), "", "{filter}");
    }
    let chosen = guarded(
        "{ name: n, match: { path: /n }, filters: [ { split: { cookie: v, to: { x: a } } } ], to: b }",
    );
    assert!(told(&before, &chosen).contains("`routes.n` has no `auth`"));
}

#[test]
fn every_spelling_of_an_endpoint_is_that_endpoint() {
    let before = guarded("");
    for url in [
        "http://127.0.0.1:1",
        "http://localhost:1",
        "http://LOCALHOST.:1",
        "http://[::1]:1",
        "http://[::ffff:127.0.0.1]:1",
        "http://127.0.0.9:1",
        "http://0.0.0.0:1",
        "http://0x7f000001:1",
    ] {
        let after = guarded(&format!("{{ name: n, match: {{ path: /n }}, to: [ '{url}' ] }}"));
        assert_eq!(
            told(&before, &after),
            "`routes.n` has no `auth`, which every way to the endpoint 127.0.0.1:1 has until now",
            "{url}"
        );
    }
    for url in ["http://127.0.0.1:2", "http://10.0.0.1:1", "http://elsewhere.test:1"] {
        let after = guarded(&format!("{{ name: n, match: {{ path: /n }}, to: [ '{url}' ] }}"));
        assert_eq!(told(&before, &after), "", "{url}");
    }
}

#[test]
fn labels_lead_to_every_address_that_they_may_name() {
    let sealed = |id: u8, allow: &str| {
        let key = format!("{id}{}", "123456789abcdef0".repeat(8)).chars().take(128).collect::<String>();
        guarded(&format!(
            "{{ name: s, match: {{ host: '*.s.test' }}, to: {{ sealed: {{ domain: '*.s.test', \
             keys: [ {{ id: 1, secret: {{ value: '{key}' }} }} ], allow: [ '{allow}' ] }} }} }}"
        ))
    };
    let (before, holds, other) = (guarded(""), sealed(1, "127.0.0.0/8:1-9"), sealed(1, "10.0.0.0/8:1-9"));
    let lost = "`routes.s` has no `auth`, which every way to the endpoint 127.0.0.1:1 has until now";
    assert_eq!(told(&before, &holds), lost);
    assert_eq!(told(&before, &other), "");
    // As it is in the file; then with other keys, or for more addresses.
    assert_eq!(told(&holds, &holds), "");
    assert_eq!(told(&holds, &sealed(2, "127.0.0.0/8:1-9")), lost);
    assert_eq!(told(&other, &holds), lost);
}

#[test]
fn a_space_of_the_cache_is_behind_the_filters_of_its_routes() {
    let of = |more: &str| {
        format!(
            "routes: [ {{ name: a, match: {{ host: a.test }}, filters: [ AUTH, {{ cache: {{}} }} ], to: a }}, \
             {{ name: b, match: {{ host: b.test }}, to: b }}{more} ]"
        )
    };
    let route =
        |filters: &str| of(&format!(", {{ name: n, match: {{ path: /n }}, filters: [ {filters} ], to: b }}"));
    let space = "{ cache: { key: { space: a } } }";
    assert_eq!(
        told(&of(""), &route(space)),
        "`routes.n` has no `auth`, which every way to the cache space `a` has until now"
    );
    assert_eq!(told(&of(""), &route(&format!("AUTH, {space}"))), "");
    assert_eq!(told(&of(""), &route("{ cache: {} }")), "");
}
