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

pub(super) fn told(before: &str, after: &str) -> String {
    let lost = lost(&plan(before), &plan(after));
    lost.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// An endpoint may read `/w/private%2Fx` as a path below `/w/private`.
#[test]
fn no_route_allows_more_escapes_where_a_guard_holds_for_some_paths() {
    let open = |allowed: &str| {
        format!(
            "routes: [ {{ name: p, match: {{ path: /w/private/* }}, filters: [ AUTH ], to: a }}, \
             {{ name: w, match: {{ path: /w/* }}, {allowed} to: a }} ]"
        )
    };
    let whole = |allowed: &str| {
        format!("routes: [ {{ name: w, match: {{ path: /w/* }}, filters: [ AUTH ], {allowed} to: a }} ]")
    };
    let (slash, both) = ("allow_encoded: [ slash ],", "allow_encoded: [ slash, semicolon ],");
    assert!(told(&open(""), &open(slash)).contains("`routes.w` has no `refusal of encoded paths`"));
    assert!(told(&open(slash), &open(both)).contains("`routes.w` has no `refusal of encoded paths`"));
    assert_eq!(told(&open(both), &open(slash)), "");
    assert_eq!(told(&whole(""), &whole(both)), "", "the guard holds for all paths");
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

/// A service that is reached through listeners with `access` alone.
#[test]
fn access_of_listeners_guards_what_they_lead_to() {
    let file = |listeners: &str, routes: &str| {
        format!(
            "listeners: {{ inside: {{ address: ':8080', access: {{ allow: [ 10.0.0.0/8 ] }} }}, \
             partner: {{ address: ':8082', access: {{ allow: [ 192.0.2.0/24 ] }} }}, {listeners} }}\n\
             routes: [ {{ name: b, listeners: [ web, partner ], to: b }}, {routes} ]"
        )
    };
    let web = "web: { address: ':8081' }";
    let before = file(web, "{ name: a, match: { host: a.test }, listeners: [ inside ], to: a }");
    assert_eq!(told(&before, &before), "");
    for (routes, lost) in [
        // The route at another listener, or at all of them.
        ("{ name: a, match: { host: a.test }, listeners: [ inside, web ], to: a }", "routes.a"),
        ("{ name: a, match: { host: a.test }, to: a }", "routes.a"),
        ("{ name: a, match: { host: a.test }, listeners: [ partner ], to: a }", "routes.a"),
        // Another route, by the service or its endpoint.
        ("{ name: n, match: { path: /n }, listeners: [ web ], to: a }", "routes.n"),
        ("{ name: n, match: { path: /n }, to: [ 'http://10.0.0.1:1' ] }", "routes.n"),
        ("{ name: n, match: { path: /n }, listeners: [ partner ], to: a }", "routes.n"),
        (
            "{ name: n, listeners: [ web ], filters: [ { mirror: a } ], match: { path: /n }, to: b }",
            "routes.n",
        ),
    ] {
        let told = told(&before, &file(web, routes));
        assert!(told.starts_with(&format!("`{lost}` has no `access of the listener`")), "{routes}: {told}");
    }
    for routes in [
        "{ name: n, match: { path: /n }, listeners: [ inside ], to: a }",
        "{ name: n, match: { path: /n }, listeners: [ inside ], filters: [ { mirror: a } ], to: b }",
        "{ name: n, match: { path: /n }, to: b }",
    ] {
        assert_eq!(told(&before, &file(web, routes)), "", "{routes}");
    }
    // A listener with another name at another port has no `access`.
    let route = "{ name: a, match: { host: a.test }, listeners: [ inside ], to: a }";
    let moved = file(web, route).replace("inside", "moved").replace(":8080", ":8090");
    let moved = moved.replace("access: { allow: [ 10.0.0.0/8 ] }", "defer_accept: false");
    assert!(told(&before, &moved).contains("`routes.a` has no `access of the listener`"));
    // Where the operator changes the argument, ways stay.
    let edited = before.replace("10.0.0.0/8", "10.1.0.0/16");
    assert_eq!(told(&before, &edited), "");
}

/// One place, guarded by a listener on one way and by a filter on the other.
#[test]
fn a_way_needs_the_guard_that_its_listener_had_for_the_place() {
    let file = |routes: &str| {
        format!(
            "listeners: {{ inside: {{ address: ':8080', access: {{ allow: [ 10.0.0.0/8 ] }} }}, web: {{ address: ':8081' }} }}\n\
             routes: [ {{ name: b, match: {{ host: b.test }}, listeners: [ web ], filters: [ AUTH ], to: a }}, {routes} ]"
        )
    };
    let before = file("{ name: a, match: { host: a.test }, listeners: [ inside ], to: a }");
    let bare = "{ name: a, match: { host: a.test }, to: a }";
    assert!(told(&before, &file(bare)).contains("`routes.a` has no `auth`"));
    let guarded = "{ name: a, match: { host: a.test }, listeners: [ inside ], to: a }, \
                   { name: n, match: { host: n.test }, listeners: [ web ], filters: [ AUTH ], to: a }";
    assert_eq!(told(&before, &file(guarded)), "");
}

#[test]
fn a_listener_that_redirects_to_https_leads_nowhere_and_stays_so() {
    let file = |listener: &str| {
        format!(
            "listeners: {{ {listener}, inside: {{ address: ':8443', access: {{ allow: [ 10.0.0.0/8 ] }} }} }}\n\
             routes: [ {{ name: a, match: {{ host: a.test }}, to: a }} ]"
        )
    };
    let before = file("web: { address: ':8080', redirect_https: true }");
    assert_eq!(told(&before, &before), "");
    assert_eq!(told(&before, &file("web: { address: ':8081', redirect_https: true }")), "");
    for listener in ["web: { address: ':8080' }", "web: { address: ':8081' }", "other: { address: ':8080' }"]
    {
        let told = told(&before, &file(listener));
        assert!(told.contains("has no `redirect_https`, which the listener `web` has until now"), "{told}");
        assert!(told.contains("`routes.a` has no `access of the listener`"), "{told}");
    }
}

/// Routes without names, whose matches change.
#[test]
fn files_of_a_directory_are_behind_the_filters_of_its_routes() {
    let of = |routes: &str| format!("routes: [ {{ match: {{ host: b.test }}, to: b }}, {routes} ]");
    let before = of("{ match: { path: /a/* }, filters: [ AUTH, { files: /usr/lib } ] }");
    for routes in [
        "{ match: { path: /b/* }, filters: [ { files: /usr/lib } ] }",
        "{ match: { path: /b/* }, filters: [ { files: /usr/../usr/lib/. } ] }",
        "{ match: { path: /b/* }, filters: [ { files: { root: /usr, fall_through: true } } ], to: b }",
        "{ match: { path: /b/* }, filters: [ { files: { root: /usr/lib, fall_through: true } }, AUTH ], to: b }",
        "{ match: { path: /b/* }, filters: [ { auth: { network: 0.0.0.0/0 } }, { files: /usr/lib } ] }",
    ] {
        let told = told(&before, &of(routes));
        assert!(told.contains("which every way to the files in /usr/lib has until now"), "{routes}: {told}");
    }
    for routes in [
        "{ match: { path: /b/* }, filters: [ AUTH, { files: /usr/lib } ] }",
        "{ match: { path: /b/* }, filters: [ { files: /usr/bin } ] }",
    ] {
        assert_eq!(told(&before, &of(routes)), "", "{routes}");
    }
    // A directory below another one that is open.
    let open = "{ match: { path: /a/* }, filters: [ { files: /usr } ] }, \
                { match: { path: /c/* }, filters: [ AUTH, { files: /usr/bin } ] }";
    let below = of(&format!("{open}, {{ match: {{ path: /b/* }}, filters: [ {{ files: /usr/lib }} ] }}"));
    assert_eq!(told(&of(open), &below), "");
}

#[test]
fn fields_that_a_guard_has_verified_stay_out_of_the_hands_of_clients() {
    let of = |filters: &str| {
        format!("routes: [ {{ name: a, match: {{ host: a.test }}, filters: [ {filters} ], to: a }} ]")
    };
    let before = of("{ auth: { network: 10.0.0.0/8, forward: { X-User: '{user}' } } }");
    for filters in [
        "AUTH",
        "{ auth: { network: 10.0.0.0/8, forward: { X-Name: '{user}' } } }",
        "AUTH, { headers: { request: { set: { X-User: a } } }, when: { method: GET } }",
    ] {
        let expected =
            "`routes.a` has no `verified field x-user`, which every way to the service `a` has until now";
        assert_eq!(told(&before, &of(filters)), expected, "{filters}");
    }
    for filters in [
        "{ auth: { network: 10.1.0.0/16, forward: { X-User: '{user}', X-More: b } } }",
        "AUTH, { headers: { request: { remove: X-User } } }",
    ] {
        assert_eq!(told(&before, &of(filters)), "", "{filters}");
    }
}

/// A guard with a condition on the path, and a service that would get another path.
#[test]
fn the_path_stays_as_it_is_behind_a_guard_that_depends_on_it() {
    let of = |filters: &str| {
        format!("routes: [ {{ name: a, match: {{ host: a.test }}, filters: [ {filters} ], to: a }} ]")
    };
    let guard = "{ auth: { network: 10.0.0.0/8 }, when: { path: /admin/* } }";
    let rewrite = "{ rewrite: { prefix: { from: /x, to: /admin } } }";
    let before = of(guard);
    assert_eq!(told(&before, &before), "");
    for filters in [
        format!("{guard}, {rewrite}"),
        format!("{rewrite}, {guard}"),
        format!("{{ strip_prefix: /x }}, {guard}"),
    ] {
        let told = told(&before, &of(&filters));
        assert_eq!(
            told,
            "`routes.a` has no `unchanged path behind its guard`, which every way to the service `a` has until now",
            "{filters}"
        );
    }
    let same = of(&format!("{rewrite}, {guard}"));
    assert_eq!(told(&same, &same), "");
    assert!(told(&same, &before).contains("unchanged path"));
    // A guard that always runs does not depend on it.
    assert_eq!(told(&of("AUTH"), &of(&format!("AUTH, {rewrite}"))), "");
    assert_eq!(told(&before, &of(&format!("AUTH, {rewrite}"))), "");
}
