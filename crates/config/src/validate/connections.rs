//! `listeners.<name>.to` and `.sni`: where listeners send connections that they take whole, and datagrams.

use super::routes::Names;
use super::sealed::check_hosts;
use super::targets::{Target, target};
use crate::diagnose::{Class, Problems, SpecError};
use crate::source::Span;
use crate::spec::{FileSpec, ListenerSpec, ProtocolSpec, Spanned, ToSpec};
use std::collections::HashMap;
use thalweg_route::{HostPattern, RouteMatch};

/// The key under `sni` for names that no other has, and none.
const DEFAULT: &str = "default";

/// What goes to a service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Traffic {
    Requests,
    Connections,
    Datagrams,
}

/// Where some connections of a listener go, or its datagrams.
pub(crate) struct Link<'a> {
    pub(crate) traffic: Traffic,
    /// What they are called, unless a route has the name.
    pub(crate) name: String,
    /// What they have in common, for people.
    pub(crate) in_words: String,
    pub(crate) matches: RouteMatch,
    pub(crate) target: Target<'a>,
    /// Where that is written.
    pub(crate) span: Span,
}

/// Reads where connections go, of all listeners.
pub(crate) fn connections<'a>(
    spec: &'a FileSpec,
    names: &Names<'_>,
    problems: &mut Problems,
) -> Vec<Link<'a>> {
    let mut links = Vec::new();
    for (name, listener) in &spec.listeners.0 {
        check(name, listener, problems);
        let position = names.listeners.get(name.value.as_str()).copied();
        let mut add = |host: Option<&Spanned<String>>, to: &'a Spanned<ToSpec>, problems: &mut Problems| {
            let asked = host.filter(|host| host.value != DEFAULT);
            let hosts = asked.map(|host| {
                let pattern = HostPattern::parse(host);
                pattern.map_err(|message| problems.push(SpecError::value(host.span, "host", message))).ok()
            });
            let target = target(to, names, problems);
            if let Target::Sealed(sealed, span) = target {
                match listener.protocol {
                    ProtocolSpec::TlsPassthrough => {
                        check_hosts(sealed, host.map(|host| host.value.as_str()), problems);
                    }
                    _ if listener.tls.is_none() => problems.push(nameless(span)),
                    _ => {}
                }
            }
            let said = host.map_or_else(|| listener.protocol.name().to_owned(), |host| host.value.clone());
            let label =
                host.map_or_else(|| name.value.clone(), |host| format!("{} {}", name.value, host.value));
            links.push(Link {
                traffic: match listener.protocol {
                    ProtocolSpec::Udp => Traffic::Datagrams,
                    _ => Traffic::Connections,
                },
                name: label,
                in_words: format!("{said} at {}", listener.address.value),
                matches: RouteMatch {
                    hosts: hosts.flatten().into_iter().collect(),
                    listeners: position.into_iter().collect(),
                    ..RouteMatch::default()
                },
                target,
                span: to.span,
            });
        };
        match listener.protocol {
            ProtocolSpec::Http => {}
            ProtocolSpec::Tcp | ProtocolSpec::Udp => {
                listener.to.iter().for_each(|to| add(None, to, problems))
            }
            ProtocolSpec::TlsPassthrough => {
                once_each(listener, problems);
                listener.sni.0.iter().for_each(|(host, to)| add(Some(host), to, problems));
            }
        }
    }
    links
}

/// Labels stand in names, and there is none.
fn nameless(span: Span) -> SpecError {
    let message = "clients of this listener name no host that a label could stand in";
    SpecError::new(Class::Invalid, span, message).help(
        "add `tls: { … }`, or write `protocol: tls_passthrough` and `sni: { \"*.svc.example.com\": … }`",
    )
}

/// A name twice, however it is written, would leave one of them without a connection.
fn once_each(listener: &ListenerSpec, problems: &mut Problems) {
    let mut seen: HashMap<String, Span> = HashMap::new();
    for (host, _) in &listener.sni.0 {
        if let Some(first) = seen.insert(host.value.to_ascii_lowercase(), host.span) {
            let error = SpecError::new(Class::Invalid, host.span, "this name is listed twice");
            problems.push(error.label("again here").related(first, "first here"));
        }
    }
}

/// What is there without a meaning, and what is missing.
fn check(name: &Spanned<String>, spec: &ListenerSpec, problems: &mut Problems) {
    let protocol = spec.protocol;
    let sni = spec.sni.0.first().map(|(host, _)| host.span);
    let is_http = protocol == ProtocolSpec::Http;
    let to = spec.to.as_ref().map(|to| to.span);
    let is_udp = protocol == ProtocolSpec::Udp;
    let flags = [
        ("h2c", spec.h2c.is_some() && !is_http),
        ("allow_half_close", spec.allow_half_close.is_some() && !is_http),
        ("redirect_https", spec.redirect_https.is_some() && !is_http),
        ("defer_accept", spec.defer_accept.is_some() && is_udp),
    ];
    let mut strange = |key: &str, span: Span, help: String| {
        let message = format!("`{key}` has no meaning with `protocol: {}`", protocol.name());
        problems.push(SpecError::new(Class::Invalid, span, message).help(help));
    };
    if let (Some(span), true) = (to, !is_udp && protocol != ProtocolSpec::Tcp) {
        let help = match protocol {
            ProtocolSpec::TlsPassthrough => "write `sni: { default: … }`",
            _ => "requests go where `routes` say; whole connections go to a service with `protocol: tcp`",
        };
        strange("to", span, help.to_owned());
    }
    if let (Some(span), true) = (sni, protocol != ProtocolSpec::TlsPassthrough) {
        strange("sni", span, "write `protocol: tls_passthrough`, or remove it".to_owned());
    }
    if let (Some(tls), ProtocolSpec::TlsPassthrough) = (&spec.tls, protocol) {
        strange(
            "tls",
            tls.span,
            "TLS is ended by the endpoints; remove it, or write `protocol: tcp`".to_owned(),
        );
    }
    if let (Some(tls), true) = (&spec.tls, is_udp) {
        strange(
            "tls",
            tls.span,
            "remove it: endpoints speak DTLS or QUIC with clients themselves".to_owned(),
        );
    }
    if let (Some(told), true) = (&spec.proxy_protocol, is_udp) {
        strange("proxy_protocol", told.span, "remove it: clients are known by their addresses".to_owned());
    }
    if let (Some(responses), false) = (&spec.expected_responses, is_udp) {
        strange("expected_responses", responses.span, "remove it, or write `protocol: udp`".to_owned());
    }
    for (key, _) in flags.iter().filter(|(_, is_strange)| *is_strange) {
        strange(key, name.span, "remove it".to_owned());
    }
    if let (Some(most), false) = (&spec.limits.max_streams, is_http) {
        strange("max_streams", most.span, "remove it".to_owned());
    }
    let missing = match protocol {
        ProtocolSpec::Tcp if to.is_none() => "add the name of a service: `to: db`",
        ProtocolSpec::Udp if to.is_none() => "add the name of a service: `to: resolvers`",
        ProtocolSpec::TlsPassthrough if sni.is_none() => "add `sni: { \"a.example.com\": a, default: b }`",
        _ => return,
    };
    if !problems.has_error_in(name.span) {
        let what = if is_udp { "datagrams" } else { "connections" };
        let message = format!("{what} to the listener `{}` go nowhere", name.value);
        problems.push(SpecError::new(Class::Invalid, name.span, message).help(missing));
    }
}
