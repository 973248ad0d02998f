//! `listeners.<name>.to` and `.sni`: where listeners send connections that they take whole.

use super::routes::Names;
use super::targets::{Target, target};
use crate::diagnose::{Class, Problems, SpecError};
use crate::source::Span;
use crate::spec::{FileSpec, ListenerSpec, ProtocolSpec, Spanned, ToSpec};
use std::collections::HashMap;
use thalweg_route::{HostPattern, RouteMatch};

/// The key under `sni` for names that no other has, and none.
const DEFAULT: &str = "default";

/// Where some connections of a listener go.
pub(crate) struct Link<'a> {
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
            let said = host.map_or_else(|| listener.protocol.name().to_owned(), |host| host.value.clone());
            let label =
                host.map_or_else(|| name.value.clone(), |host| format!("{} {}", name.value, host.value));
            links.push(Link {
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
            ProtocolSpec::Tcp => listener.to.iter().for_each(|to| add(None, to, problems)),
            ProtocolSpec::TlsPassthrough => {
                once_each(listener, problems);
                listener.sni.0.iter().for_each(|(host, to)| add(Some(host), to, problems));
            }
        }
    }
    links
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
    let flags = [("h2c", spec.h2c.is_some()), ("redirect_https", spec.redirect_https.is_some())];
    let mut strange = |key: &str, span: Span, help: String| {
        let message = format!("`{key}` has no meaning where `{}` is spoken", protocol.name());
        problems.push(SpecError::new(Class::Invalid, span, message).help(help));
    };
    if let (Some(span), true) = (to, protocol != ProtocolSpec::Tcp) {
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
    for (key, is_there) in flags {
        if is_there && !is_http {
            strange(key, name.span, "remove it".to_owned());
        }
    }
    if let (Some(most), false) = (&spec.limits.max_streams, is_http) {
        strange("max_streams", most.span, "remove it".to_owned());
    }
    let missing = match protocol {
        ProtocolSpec::Tcp if to.is_none() => "add the name of a service: `to: db`",
        ProtocolSpec::TlsPassthrough if sni.is_none() => "add `sni: { \"a.example.com\": a, default: b }`",
        _ => return,
    };
    if !problems.has_error_in(name.span) {
        let message = format!("connections to the listener `{}` go nowhere", name.value);
        problems.push(SpecError::new(Class::Invalid, name.span, message).help(missing));
    }
}
