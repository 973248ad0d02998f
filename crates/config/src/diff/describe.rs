//! A plan and its settings as a list of objects: listeners, routes, and what stands at the top level.

use super::fields::{Fields, Times, list};
use super::{Object, ObjectKind, services, settings};
use crate::settings::Settings;
use std::borrow::Cow;
use thalweg_core::credentials::may_be_secret;
use thalweg_filter::Chain;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{
    Listener, ListenerTls, Route, SealedRoute, ServiceId, Split, TicketKeyFile, TicketPolicy, To,
};
use thalweg_route::{FieldMatch, HostPattern, PathPattern, RouteId, RouteMatch, ValueMatch};
use thalweg_tls::{Certificate, ClientAuth, ClientMode, Policy, Told, UnknownName};

/// Everything that is configured.
pub(super) fn objects<'a>((plan, settings): (&'a Plan, &'a Settings)) -> Vec<Object<'a>> {
    let Plan {
        listeners,
        table,
        connections,
        routes,
        services,
        trusted_proxies,
        access,
        limits,
        client_timeouts,
        shutdown,
        requests,
        cache,
        tracing,
        error_details,
        // Told with the filters that make them.
        calls: _,
        // Told with the settings.
        beside: _,
        // Told with the objects that hold them.
        secrets: _,
    } = plan;
    let mut objects: Vec<_> = listeners.iter().map(listener).collect();
    for (id, route) in (0..).map(RouteId).zip(routes) {
        let of_connection = || connections.written(RouteId(id.0 - table.len() as u32));
        objects.push(self::route(route, table.written(id).or_else(of_connection), plan));
    }
    services.iter().for_each(|service| services::describe(service, &mut objects));
    settings::describe(settings, &mut objects);
    objects.push(setting("trusted_proxies", move |fields| fields.put("", list(trusted_proxies))));
    objects.push(setting("lists", move |fields| {
        access.lists.iter().for_each(|list| fields.put(list.live.name().to_owned(), &list.text));
    }));
    objects.push(setting("bans", move |fields| {
        for rule in &access.bans {
            let text = rule.to_string();
            fields.behind(rule.name.to_string(), &text, format_args!("{text} {:?}", rule.never));
        }
    }));
    objects.push(setting("limits", move |fields| fields.all("", limits)));
    objects.push(setting("defaults.timeouts", move |fields| fields.all("", client_timeouts)));
    objects.push(setting("shutdown", move |fields| fields.all("", shutdown)));
    objects.push(setting("request_history", move |fields| fields.all("", requests)));
    objects.push(setting("cache", move |fields| fields.all("", cache)));
    if let Some(tracing) = tracing {
        objects.push(setting("tracing", move |fields| fields.all("", tracing)));
    }
    objects.push(setting("error_details", move |fields| fields.put("", error_details)));
    objects
}

/// A top-level key.
pub(super) fn setting<'a>(name: &'static str, describe: impl FnOnce(&mut Fields) + 'a) -> Object<'a> {
    named(ObjectKind::Setting, name, String::new, describe)
}

/// An object whose name is its identity.
pub(super) fn named<'a>(
    kind: ObjectKind,
    name: &'a str,
    summary: impl FnOnce() -> String + 'a,
    describe: impl FnOnce(&mut Fields) + 'a,
) -> Object<'a> {
    let (summary, describe) = (Box::new(summary), Box::new(describe));
    Object { kind, id: name.into(), name: name.into(), service: None, summary, describe }
}

fn listener(listener: &Listener) -> Object<'_> {
    let summary = move || listener.address.to_string();
    named(ObjectKind::Listener, &listener.name, summary, move |fields| {
        fields.all("", listener);
        listener.tls.iter().for_each(|tls| listener_tls(tls, fields));
    })
}

/// Certificates are told apart by their digests; what their files hold is not shown.
fn listener_tls(tls: &ListenerTls, fields: &mut Fields) {
    // Another file with the same certificate is no change.
    let ListenerTls { acceptor, files: _, tickets, handshake_timeout, acme: issuance, local } = tls;
    for (at, (certificate, names)) in acceptor.entries().enumerate() {
        put_certificate(format!("tls.certificates[{at}]"), certificate, fields);
        let names = (!names.is_empty()).then(|| list(names));
        fields.maybe(format!("tls.certificates[{at}].names"), names);
    }
    // Once, where all ask the same.
    let of_issued = acceptor.issued().map(|issued| issued.client_auth.as_ref());
    let mut asked = acceptor.client_auths().chain(of_issued);
    let first = asked.next().flatten();
    if asked.all(|other| other == first) {
        first.into_iter().for_each(|asked| client_auth("tls", asked, fields));
    } else {
        for (at, asked) in acceptor.client_auths().enumerate() {
            asked.into_iter().for_each(|a| client_auth(&format!("tls.certificates[{at}]"), a, fields));
        }
        of_issued.flatten().into_iter().for_each(|asked| client_auth("tls", asked, fields));
    }
    // What is agreed on above TLS is not configured.
    let Policy { min_version, max_version, suites, groups, unknown_name, alpn: _ } = acceptor.policy();
    let unknown_name = match unknown_name {
        UnknownName::Default => "default",
        UnknownName::Refuse => "refuse",
    };
    fields.put("tls.unknown_name", unknown_name);
    fields.put("tls.min_version", min_version);
    fields.put("tls.max_version", max_version);
    let suites = (!suites.is_empty()).then(|| list(suites.iter().map(|suite| suite.name())));
    fields.or("tls.suites", suites, "all");
    let groups = (!groups.is_empty()).then(|| list(groups.iter().map(|group| group.name())));
    fields.or("tls.groups", groups, "built in");
    match tickets {
        None => fields.put("tls.tickets", "off"),
        Some(TicketPolicy { rotate, keys }) => {
            fields.time("tls.tickets.rotate", *rotate);
            if let Some(TicketKeyFile { path, digest, tickets: _ }) = keys {
                fields.put("tls.tickets.keys.file", path.display());
                fields.secret("tls.tickets.keys", format_args!("{digest:?}"));
            }
        }
    }
    fields.time("tls.handshake_timeout", *handshake_timeout);
    issuance.iter().for_each(|policy| fields.all("tls.acme", &**policy));
    fields.put("tls.local", local);
}

/// A certificate: told apart by chain and key, shown by its leaf.
pub(super) fn put_certificate(
    name: impl Into<Cow<'static, str>>,
    certificate: &Certificate,
    fields: &mut Fields,
) {
    let text = certificate_text(certificate);
    fields.behind(name, text, format_args!("{:?}", certificate.whole_digest()));
}

fn client_auth(place: &str, asked: &ClientAuth, fields: &mut Fields) {
    let mode = match asked.mode() {
        ClientMode::Required => "required",
        ClientMode::Optional => "optional",
    };
    fields.put(format!("{place}.client_auth.mode"), mode);
    let names = asked.authorities().iter().map(|authority| &*authority.subject);
    let text = format!("sha256 {}… ({})", beginning(asked.authorities_digest()), first_of(names));
    fields.behind(format!("{place}.client_auth.ca"), text, format_args!("{:?}", asked.authorities_digest()));
    if !asked.revocations().is_empty() {
        let names = asked.revocations().iter().map(|list| &*list.issuer);
        let text = format!("sha256 {}… ({})", beginning(asked.revocations_digest()), first_of(names));
        let value = format!("{:?}", asked.revocations_digest());
        fields.behind(format!("{place}.client_auth.crl"), text, value);
        let unknown = if asked.allows_unknown() { "allow" } else { "deny" };
        fields.put(format!("{place}.client_auth.crl_unknown"), unknown);
    }
    let Told { subject, names, fingerprint, certificate } = asked.told();
    let words =
        [("subject", subject), ("san", names), ("fingerprint", fingerprint), ("certificate", certificate)];
    let told = words.into_iter().filter_map(|(word, is_told)| is_told.then_some(word));
    fields.put(format!("{place}.client_auth.forward"), list(told));
}

/// The first bytes of a digest.
fn beginning(digest: [u8; 32]) -> String {
    const BYTES: usize = 8;
    digest.iter().take(BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// The first of several names.
fn first_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const NAMES: usize = 3;
    let names: Vec<_> = names.take(NAMES + 1).collect();
    let more = if names.len() > NAMES { ", …" } else { "" };
    format!("{}{more}", names[..names.len().min(NAMES)].join(", "))
}

/// The first bytes of its digest, as `openssl x509 -fingerprint -sha256` prints it, and its first names.
pub(super) fn certificate_text(certificate: &Certificate) -> String {
    let names = certificate.names().iter().map(String::as_str);
    format!("sha256 {}… ({})", beginning(certificate.digest()), first_of(names))
}

fn route<'a>(route: &'a Route, conditions: Option<&'a RouteMatch>, plan: &'a Plan) -> Object<'a> {
    let summary = move || match target(&route.to, plan) {
        Some(to) => format!("{} → {to}", route.matches),
        None => format!("{}, answered by a filter", route.matches),
    };
    let describe = move |fields: &mut Fields| route_fields(route, conditions, plan, fields);
    named(ObjectKind::Route, &route.name, summary, describe)
}

fn chain(place: &str, chain: &Chain, fields: &mut Fields) {
    for (at, filter) in chain.steps().iter().enumerate() {
        // A filter may hold more than its argument says.
        let text = format!("{}: {}", filter.name(), filter.argument());
        fields.behind(format!("{place}[{at}]"), &text, format_args!("{text} {filter:?}"));
    }
}

/// Positions of services mean nothing in another plan: what holds them is told by name.
pub(super) fn route_fields(route: &Route, conditions: Option<&RouteMatch>, plan: &Plan, fields: &mut Fields) {
    conditions.into_iter().for_each(|conditions| conditions_of((conditions, route.conceals), plan, fields));
    chain("filters", &route.filters, fields);
    for variant in route.filter_variants.iter() {
        let listener =
            plan.listeners.get(usize::from(variant.listener)).map_or("", |listener| &listener.name);
        let service = variant.service.and_then(|service| plan.services.get(service.0 as usize));
        let to = service.map(|service| format!(" to `{}`", service.name)).unwrap_or_default();
        chain(&format!("from `{listener}`{to}: filters"), &variant.chain, fields);
    }
    fields.maybe("to", target(&route.to, plan).as_ref());
    if let To::Split(Split { parts: _, key }) = &route.to {
        fields.maybe("sticky_by", key.as_ref());
    }
    if let To::Sealed(sealed) = &route.to {
        labels(sealed, plan, fields);
    }
    for (service, timeouts) in route.service_timeouts.iter() {
        let service = plan.services.get(service.0 as usize);
        let place = service.map(|service| format!("service `{}`: ", service.name)).unwrap_or_default();
        fields.all(&format!("{place}timeouts"), timeouts);
    }
    fields.all("", route);
}

/// Where a route leads; `None`: nowhere.
fn target(to: &To, plan: &Plan) -> Option<String> {
    let name = |service: ServiceId| {
        plan.services.get(service.0 as usize).map_or_else(String::new, |service| service.name.to_string())
    };
    Some(match to {
        To::Service(service) => name(*service),
        To::Sealed(sealed) => format!("sealed *.{}", sealed.keyring.domain()),
        To::Split(Split { parts, key: _ }) => {
            list(parts.iter().map(|(service, weight)| format!("{} {weight}", name(*service))))
        }
        To::Nowhere => return None,
    })
}

fn labels(route: &SealedRoute, plan: &Plan, fields: &mut Fields) {
    let SealedRoute { service: _, keyring, allow, named, found: _, revoked, max_ttl } = route;
    fields.put("sealed.keys", list(keyring.ids()));
    fields.secret("sealed.keys.secret", list(keyring.fingerprints().map(|print| format!("{print:?}"))));
    fields.put("sealed.allow", list(allow.entries()));
    if !named.is_empty() {
        let named = named.iter().filter_map(|service| plan.services.get(service.0 as usize));
        fields.put("sealed.services", list(named.map(|service| &*service.name)));
    }
    if let Some(revoked) = revoked {
        fields.put("sealed.revoked.file", revoked.path.display());
        fields.put("sealed.revoked", format_args!("{} labels", revoked.len()));
    }
    fields.time("sealed.max_ttl", *max_ttl);
}

fn conditions_of((conditions, conceals): (&RouteMatch, bool), plan: &Plan, fields: &mut Fields) {
    let RouteMatch { hosts, path, more_paths, methods, headers, query, clients, listeners } = conditions;
    if !hosts.is_empty() && *hosts != [HostPattern::Any] {
        fields.put("match.host", list(hosts));
    }
    match path {
        None => {}
        Some(PathPattern::Regex(regex)) => fields.put("match.path_regex", regex.as_str()),
        Some(path @ (PathPattern::Exact(_) | PathPattern::Prefix(_) | PathPattern::Pattern(_))) => {
            match more_paths.is_empty() {
                true => fields.put("match.path", path),
                false => fields.put("match.path", list(std::iter::once(path).chain(more_paths))),
            }
        }
    }
    let some = |items: &[String]| (!items.is_empty()).then(|| list(items));
    fields.maybe("match.methods", some(methods));
    conditions_on("match.headers", (headers, conceals), fields);
    conditions_on("match.query", (query, conceals), fields);
    fields.maybe("match.client", (!clients.is_empty()).then(|| list(clients)));
    // By name: positions mean nothing in another plan.
    let names = listeners.iter().map(|at| {
        plan.listeners.get(usize::from(*at)).map_or_else(String::new, |listener| listener.name.to_string())
    });
    fields.maybe("listeners", some(&names.collect::<Vec<_>>()));
}

fn conditions_on(place: &str, (conditions, conceals): (&[FieldMatch], bool), fields: &mut Fields) {
    let mut times = Times::default();
    for FieldMatch { name, value } in conditions {
        // The same name may have several conditions.
        let field = match times.before(name) {
            0 => format!("{place}.{name}"),
            again => format!("{place}.{name}[{again}]"),
        };
        let is_open = matches!(value, ValueMatch::Present | ValueMatch::Absent);
        match conceals || (may_be_secret(name) && !is_open) {
            // Some values come from the environment, and some are credentials.
            true => fields.secret(field, in_words(value)),
            false => fields.put(field, in_words(value)),
        }
    }
}

fn in_words(value: &ValueMatch) -> String {
    match value {
        ValueMatch::Present => "present".into(),
        ValueMatch::Absent => "absent".into(),
        ValueMatch::Exact(text) => format!("\"{text}\""),
        ValueMatch::Prefix(text) => format!("prefix \"{text}\""),
        ValueMatch::Suffix(text) => format!("suffix \"{text}\""),
        ValueMatch::Contains(text) => format!("contains \"{text}\""),
        ValueMatch::Regex(regex) => format!("regex \"{}\"", regex.as_str()),
    }
}
