//! `routes[].to:` names of services become positions.

use super::key::key;
use super::number;
use super::routes::{Names, show_nearest};
use crate::diagnose::{Class, Problems, SpecError, suggest};
use crate::source::Span;
use crate::spec::{ListSpec, PartSpec, SealedSpec, Spanned, SplitSpec, ToItemSpec, ToSpec};
use std::collections::HashMap;
use thalweg_upstream::HashKey;

/// Largest weight of a part.
const WEIGHT: u32 = 1000;
/// Most parts of a split.
const PARTS: usize = 100;

/// Where a route goes.
pub(crate) enum Target<'a> {
    /// To a service of the plan.
    Service(u32),
    /// To several of them.
    Split(Vec<Part>, Option<HashKey>),
    /// Wherever labels lead.
    Sealed(&'a SealedSpec, Span),
    /// To endpoints of its own.
    Urls(&'a ListSpec<String>, Span),
    /// Nowhere: the filters of the route answer, or what is written is wrong.
    Nowhere,
}

/// One service of a split.
pub(crate) struct Part {
    /// Its position.
    pub(crate) service: u32,
    /// Its share, 0–1000.
    pub(crate) weight: u32,
}

/// Reads `to:`.
pub(super) fn target<'a>(to: &'a Spanned<ToSpec>, names: &Names<'_>, problems: &mut Problems) -> Target<'a> {
    match &to.value {
        ToSpec::Urls(urls) => Target::Urls(urls, to.span),
        ToSpec::Sealed(spec) => Target::Sealed(spec, to.span),
        ToSpec::Split(spec) => split(spec, to.span, names, problems),
        ToSpec::Service(name) => {
            let name = Spanned::new(to.span, name.clone());
            service(&name, names, problems).map_or(Target::Nowhere, Target::Service)
        }
    }
}

/// The position of a service.
pub(super) fn service(name: &Spanned<String>, names: &Names<'_>, problems: &mut Problems) -> Option<u32> {
    if let Some(position) = names.services.get(name.as_str()) {
        return Some(*position);
    }
    // Each search for a near name looks at all of them: not for an error that is not shown.
    if !problems.is_full() && !names.written_services.contains(name) {
        let text = &name.value;
        let known: Vec<&str> = names.written_services.iter().map(String::as_str).collect();
        let help = if text.contains("://") || text.starts_with("unix:") {
            Some(format!("URLs stand in a list: `to: [ \"{text}\" ]`"))
        } else if known.is_empty() {
            Some("define it under `services:`, or list URLs: `to: [ \"http://…\" ]`".into())
        } else {
            suggest(name, "services", &known)
        };
        let error = SpecError::value(name.span, "service name", format!("no service `{text}`"))
            .class(Class::Unknown)
            .maybe_help(help);
        problems.push(show_nearest(error, name, &known, names.service_places));
    }
    None
}

fn split<'a>(spec: &SplitSpec, span: Span, names: &Names<'_>, problems: &mut Problems) -> Target<'a> {
    let mut parts: Vec<Part> = Vec::new();
    let mut seen: HashMap<&str, Span> = HashMap::new();
    for item in &spec.split.items {
        let part = match &item.value {
            ToItemSpec::Part(part) => part,
            ToItemSpec::Url(url) => {
                problems.push(url_in_split(url, item.span, names));
                continue;
            }
        };
        if let Some(first) = seen.insert(&part.service.value, part.service.span) {
            let error = SpecError::new(Class::Invalid, part.service.span, "this service is listed twice")
                .label("again here")
                .related(first, "first here")
                .help("a larger share is written `{ service: …, weight: 2 }`");
            problems.push(error);
        }
        parts.extend(self::part(part, names, problems));
    }
    if spec.split.written == 0 {
        let error = SpecError::new(Class::Invalid, span, "the list of services is empty")
            .help("add at least one: `{ service: a, weight: 1 }`");
        problems.push(error);
    } else if spec.split.written > PARTS {
        let message = format!("a route goes to at most {PARTS} services");
        problems.push(SpecError::new(Class::Invalid, span, message));
    } else if parts.len() == spec.split.written && parts.iter().all(|part| part.weight == 0) {
        let error = SpecError::new(Class::Invalid, span, "all weights are 0: no service would get a request")
            .help("give at least one of them a weight from 1 to 1000");
        problems.push(error);
    }
    Target::Split(parts, spec.sticky_by.as_ref().map(|spec| key(spec, problems)))
}

fn part(spec: &PartSpec, names: &Names<'_>, problems: &mut Problems) -> Option<Part> {
    let weight = match &spec.weight {
        Some(_) => number(spec.weight.as_ref(), 0, WEIGHT, problems),
        None => Some(1),
    };
    let service = service(&spec.service, names, problems)?;
    Some(Part { service, weight: weight? })
}

fn url_in_split(url: &str, span: Span, names: &Names<'_>) -> SpecError {
    let message = "only services stand in this list";
    let help = if names.written_services.iter().any(|name| name == url) {
        format!("write `{{ service: {url}, weight: 1 }}`")
    } else {
        "define a service with this endpoint and write `{ service: …, weight: … }`".to_owned()
    };
    SpecError::value(span, "part of a split", message).help(help)
}
