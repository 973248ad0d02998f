//! A plan and its settings as a list of objects: listeners, routes, and what stands at the top level.

use super::fields::{Fields, Times, list};
use super::{Object, ObjectKind, acme, services, settings};
use crate::settings::Settings;
use std::borrow::Cow;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{
    ClientTimeouts, Limits, Listener, ListenerTls, RequestsPolicy, Route, RouteLimits, SealedRoute,
    ServiceId, Shutdown, Split, TicketKeyFile, TicketPolicy, Timeouts, To,
};
use thalweg_route::{FieldMatch, HostPattern, PathPattern, RouteId, RouteMatch, ValueMatch};
use thalweg_tls::{Certificate, ClientAuth, ClientMode, Policy, Told, UnknownName};
use thalweg_upstream::{HashKey, Priority, QueuePolicy};

/// Everything that is configured.
pub(super) fn objects<'a>((plan, settings): (&'a Plan, &'a Settings)) -> Vec<Object<'a>> {
    let Plan {
        listeners,
        table,
        connections,
        routes,
        services,
        trusted_proxies,
        limits,
        client_timeouts,
        shutdown,
        requests,
        error_details,
        // Told with the settings.
        beside: _,
    } = plan;
    let mut objects: Vec<_> = listeners.iter().map(listener).collect();
    for (id, route) in (0..).map(RouteId).zip(routes) {
        let of_connection = || connections.written(RouteId(id.0 - table.len() as u32));
        objects.push(self::route(route, table.written(id).or_else(of_connection), plan));
    }
    services.iter().for_each(|service| services::describe(service, &mut objects));
    settings::describe(settings, &mut objects);
    objects.push(setting("trusted_proxies", move |fields| fields.put("", list(trusted_proxies))));
    objects.push(setting("limits", move |fields| process_limits(limits, fields)));
    objects.push(setting("defaults.timeouts", move |fields| {
        let ClientTimeouts { head, keep_alive } = client_timeouts;
        fields.time("head", *head);
        fields.time("keep_alive", *keep_alive);
    }));
    objects.push(setting("shutdown", move |fields| {
        let Shutdown { delay, grace } = shutdown;
        fields.time("delay", *delay);
        fields.time("grace", *grace);
    }));
    objects.push(setting("request_history", move |fields| {
        let RequestsPolicy { keep, slow } = requests;
        fields.put("keep", keep);
        fields.time("slow", *slow);
    }));
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
    let Listener {
        name,
        address,
        protocol,
        max_connections,
        max_streams,
        defer_accept,
        h2c,
        allow_half_close,
        proxy_protocol,
        tls,
        redirect_https,
        expected_responses,
    } = listener;
    named(
        ObjectKind::Listener,
        name,
        move || address.to_string(),
        move |fields| {
            fields.put("address", address);
            fields.put("protocol", protocol.name());
            fields.maybe("limits.max_connections", *max_connections);
            fields.put("limits.max_streams", max_streams);
            fields.put("defer_accept", defer_accept);
            fields.put("h2c", h2c);
            fields.put("allow_half_close", allow_half_close);
            fields.put("redirect_https", redirect_https);
            fields.maybe("expected_responses", *expected_responses);
            if let Some(policy) = proxy_protocol {
                fields.put("proxy_protocol.from", list(&policy.from));
                fields.put("proxy_protocol.required", policy.required);
            }
            tls.iter().for_each(|tls| listener_tls(tls, fields));
        },
    )
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
    issuance.iter().for_each(|policy| acme::acme(policy, fields));
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

fn process_limits(limits: &Limits, fields: &mut Fields) {
    let Limits { max_connections, max_connections_per_client, memory, max_in_flight, max_head, max_fields } =
        limits;
    fields.or("max_connections", *max_connections, "auto");
    fields.put("max_connections_per_client", max_connections_per_client);
    fields.or("memory", memory.map(thalweg_core::units::size_text), "auto");
    fields.or("max_in_flight", *max_in_flight, "auto");
    fields.size("max_head", *max_head as u64);
    fields.put("max_fields", max_fields);
}

fn route<'a>(route: &'a Route, conditions: Option<&'a RouteMatch>, plan: &'a Plan) -> Object<'a> {
    let Route { name, matches, conceals, filters, to, timeouts, service_timeouts, limits, allow_encoded } =
        route;
    let summary = move || format!("{matches} → {}", target(to, plan));
    named(ObjectKind::Route, name, summary, move |fields| {
        conditions.into_iter().for_each(|conditions| conditions_of((conditions, *conceals), plan, fields));
        for (at, filter) in filters.iter().enumerate() {
            // A filter may hold more than its argument says.
            let text = format!("{}: {}", filter.name(), filter.argument());
            fields.behind(format!("filters[{at}]"), &text, format_args!("{text} {filter:?}"));
        }
        fields.put("to", target(to, plan));
        if let To::Split(Split { parts: _, key }) = to {
            fields.maybe("sticky_by", key.as_ref().map(hash_key));
        }
        if let To::Sealed(sealed) = to {
            labels(sealed, plan, fields);
        }
        deadlines("", timeouts, fields);
        for (service, timeouts) in service_timeouts.iter() {
            let service = plan.services.get(service.0 as usize);
            let place = service.map(|service| format!("service `{}`: ", service.name)).unwrap_or_default();
            deadlines(&place, timeouts, fields);
        }
        let RouteLimits { max_body, min_rate, max_in_flight, queue, priority } = limits;
        fields.maybe("limits.max_body", max_body.map(thalweg_core::units::size_text));
        fields.put("limits.min_rate", format_args!("{min_rate}B/s"));
        fields.maybe("limits.max_in_flight", *max_in_flight);
        self::queue(*queue, fields);
        let priority = match priority {
            Priority::High => "high",
            Priority::Normal => "normal",
            Priority::Low => "low",
        };
        fields.put("limits.priority", priority);
        let names: Vec<_> = allow_encoded.names().collect();
        fields.maybe("allow_encoded", (!names.is_empty()).then(|| list(names)));
    })
}

fn target(to: &To, plan: &Plan) -> String {
    let name = |service: ServiceId| {
        plan.services.get(service.0 as usize).map_or_else(String::new, |service| service.name.to_string())
    };
    match to {
        To::Service(service) => name(*service),
        To::Sealed(sealed) => format!("sealed *.{}", sealed.keyring.domain()),
        To::Split(Split { parts, key: _ }) => {
            list(parts.iter().map(|(service, weight)| format!("{} {weight}", name(*service))))
        }
    }
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
        match conceals {
            // Some of them came from the environment.
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

fn deadlines(place: &str, timeouts: &Timeouts, fields: &mut Fields) {
    let Timeouts { connect, first_byte, idle, request } = timeouts;
    fields.time(format!("{place}timeouts.connect"), *connect);
    fields.time(format!("{place}timeouts.first_byte"), *first_byte);
    fields.time(format!("{place}timeouts.idle"), *idle);
    fields.maybe_time(format!("{place}timeouts.request"), *request);
}

/// `limits.queue` of a route or a service.
pub(super) fn queue(policy: QueuePolicy, fields: &mut Fields) {
    let QueuePolicy { size, timeout } = policy;
    fields.put("limits.queue.size", size);
    fields.time("limits.queue.timeout", timeout);
}

/// What is hashed.
pub(super) fn hash_key(key: &HashKey) -> String {
    match key {
        HashKey::ClientIp => "client_ip".into(),
        HashKey::Path => "path".into(),
        HashKey::Header(name) => format!("header {name}"),
        HashKey::Cookie(name) => format!("cookie {name}"),
        HashKey::Query(name) => format!("query {name}"),
    }
}
