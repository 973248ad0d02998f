//! `route_sources: [ { docker: {} } ]`: routes that labels of containers say, one document for each service.
//!
//! The document is made of values, never of text that labels say: a label is a host, a path or a list of filters, and
//! cannot become anything else. Pure but for the Spec.

use super::Written;
use super::containers::{Choice, DockerContainerSpec, endpoint};
use crate::flaw;
use crate::found::{Found, scale_weights};
use crate::kept::Document;
use crate::source::Source;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_filter::ConfigFiles;

/// Labels of which one at least is there where a container is to have a route.
const OPT_IN: [&str; 3] = ["thalweg.host", "thalweg.path", ROUTE];
/// A route, but for its name and where it goes.
const ROUTE: &str = "thalweg.route";
const FILTERS: &str = "thalweg.filters";
const HEALTH: &str = "thalweg.health";
/// Labels that are lists, where they stand in a route, and what each of them begins with.
const LISTS: [(&str, &[&str], &str); 4] = [
    ("thalweg.host", &["match", "host"], ""),
    ("thalweg.path", &["match", "path"], "/"),
    ("thalweg.methods", &["match", "methods"], ""),
    ("thalweg.listeners", &["listeners"], ""),
];
/// What names begin with, where nothing is written.
const PREFIX: &str = "docker/";
/// Longest name of a route or service, in bytes, as the configuration has it.
const NAME: usize = 128;

/// Containers of Docker with labels that say routes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map, which may be empty")]
pub struct DockerRoutesSpec {
    /// What names of routes and services begin with; give each of several sources its own.
    #[schemars(extend("x-default" = "docker/"))]
    prefix: Option<String>,
    /// Where Docker listens: `unix:///var/run/docker.sock`, `tcp://10.0.0.1:2375` or, through TLS,
    /// `https://10.0.0.1:2376`.
    #[schemars(extend("x-default" = "unix:///var/run/docker.sock"))]
    #[schemars(extend("x-api" = "reference"))]
    socket: Option<String>,
    /// Only containers of this project of Docker Compose.
    #[schemars(extend("x-default-words" = "any"))]
    project: Option<String>,
    /// The network in which containers are reached, where they are in several; as Docker names it, or without the name
    /// of the project before it. The label `thalweg.network` of a container comes first.
    #[schemars(extend("x-default-words" = "the only one"))]
    network: Option<String>,
    /// Only containers that have all of these labels.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Containers are reached by the ports that are published on the host, not by their own addresses: where the proxy
    /// is in no network of theirs.
    #[schemars(extend("x-default" = false))]
    #[serde(default)]
    published: bool,
    /// Between two lists of all containers, beside the events. What is known is at most this old, and a little more.
    #[schemars(extend("x-range" = ["1s", "10m"], "x-default" = "15s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["15s"]))]
    interval: Option<String>,
    /// Certificates in PEM: only a server with a certificate that these vouch for is trusted. Default: those of the
    /// system.
    #[schemars(extend("x-default-words" = "those of the system"))]
    #[schemars(extend("x-api" = "reference"))]
    ca: Option<String>,
    /// A PEM file with the certificate that Docker is shown; needs `key`.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    cert: Option<String>,
    /// A PEM file with its key.
    #[schemars(extend("x-default-words" = "must be written with `cert`"))]
    #[schemars(extend("x-api" = "reference"))]
    key: Option<String>,
}

impl DockerRoutesSpec {
    /// Checks the arguments.
    ///
    /// # Errors
    /// A sentence that names the wrong one.
    pub(crate) fn documents(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source<[Document]>>, String> {
        let prefix = self.prefix.as_deref().unwrap_or(PREFIX);
        if prefix.len() > NAME / 2 || prefix.contains(char::is_control) {
            return Err(format!("`prefix` has at most {} bytes, and no control characters", NAME / 2));
        }
        let choice = Choice {
            service: None,
            project: self.project.clone(),
            network: self.network.clone(),
            labels: self.labels.clone(),
            is_published: self.published,
            prefix: prefix.to_owned(),
        };
        let written = Written {
            socket: self.socket.as_deref(),
            interval: self.interval.as_deref(),
            ca: self.ca.as_deref(),
            cert: self.cert.as_deref(),
            key: self.key.as_deref(),
        };
        Ok(Arc::new(super::Docker::new(choice, &written, documents, files)?))
    }
}

/// The documents that these containers make, and what was left out.
fn documents(
    containers: &[DockerContainerSpec],
    choice: &Choice,
    host: &str,
) -> (Vec<Document>, Option<String>) {
    let mut services: BTreeMap<&str, Vec<&DockerContainerSpec>> = BTreeMap::new();
    for container in containers.iter().filter(|container| choice.takes(container) && opts_in(container)) {
        let service = container.service().unwrap_or_else(|| container.name());
        services.entry(service).or_default().push(container);
    }
    let (mut documents, mut flaws) = (Vec::new(), Vec::new());
    for (name, mut members) in services {
        members.sort_by_key(|container| (container.name(), &container.id));
        match document(name, &members, (choice, host), &mut flaws) {
            Ok(text) => {
                // Its ending says how it is read, whatever the service is called.
                documents.push(Document { name: format!("{name}.json").into(), text: text.into() });
            }
            Err(why) => flaws.push(format!("service `{name}` is left out: {why}")),
        }
    }
    let more = flaws.len().saturating_sub(1);
    let flaw = flaws.into_iter().next();
    (documents, flaw.map(|first| if more == 0 { first } else { format!("{first} (and {more} more)") }))
}

/// Whether a label asks for a route. A container that `docker compose run` starts has the labels of its service, and is
/// none of its instances.
fn opts_in(container: &DockerContainerSpec) -> bool {
    !container.is_one_off() && OPT_IN.iter().any(|label| container.label(label).is_some())
}

/// What the containers of a service must agree on.
fn says(container: &DockerContainerSpec) -> Vec<Option<&str>> {
    let lists = LISTS.iter().map(|(label, ..)| *label);
    lists.chain([ROUTE, FILTERS, HEALTH]).map(|label| container.label(label)).collect()
}

/// The document of a service.
fn document(
    name: &str,
    members: &[&DockerContainerSpec],
    (choice, host): (&Choice, &str),
    flaws: &mut Vec<String>,
) -> Result<String, String> {
    let name = format!("{}{name}", choice.prefix);
    if name.len() > NAME || name.contains(char::is_control) {
        return Err(format!("its name has more than {NAME} bytes with `prefix`, or control characters"));
    }
    let leader = members.iter().find(|member| member.is_well()).or(members.first()).ok_or("it is empty")?;
    let mut route = route(leader)?;
    route.insert("name".to_owned(), json!(name));
    route.insert("to".to_owned(), json!(name));
    // Containers of another project that say another thing are another service of the same name.
    let is_own =
        |member: &DockerContainerSpec| says(member) == says(leader) || member.project() == leader.project();
    for member in members.iter().filter(|member| says(member) != says(leader)) {
        let what = if is_own(member) { "its labels are not used" } else { "it is left out" };
        flaws.push(format!(
            "container `{}` has other labels than `{}`, which is of the same service: {what}",
            member.name(),
            leader.name()
        ));
    }
    let own: Vec<_> = members.iter().copied().filter(|member| is_own(member)).collect();
    let found = endpoints(&own, (choice, host), flaws);
    if found.is_empty() {
        return Err("none of its containers can be reached".to_owned());
    }
    let endpoints: Vec<_> = found.iter().map(written).collect();
    let mut service = Map::from_iter([("endpoints".to_owned(), Value::from(endpoints))]);
    if let Some(path) = leader.label(HEALTH) {
        if !path.starts_with('/') {
            return Err(format!("`{HEALTH}` is `{path}`, which is no path"));
        }
        service.insert("health".to_owned(), json!(path));
    }
    let services = Map::from_iter([(name, Value::Object(service))]);
    Ok(json!({ "routes": [route], "services": services }).to_string())
}

/// Those that are well; where none is, all of them without a share, so that requests are told that the service is down
/// and not that there is none.
fn endpoints(
    members: &[&DockerContainerSpec],
    (choice, host): (&Choice, &str),
    flaws: &mut Vec<String>,
) -> Vec<Found> {
    let mut of = |is_well: bool| {
        let mut found = Vec::new();
        for member in members.iter().filter(|member| member.is_well() == is_well) {
            match endpoint(member, choice, host) {
                Ok(one) => found.push(one),
                Err(why) => flaws.push(format!("container `{}`: {why}", member.name())),
            }
        }
        found.sort_by(|a: &Found, b| (&a.host, a.port).cmp(&(&b.host, b.port)));
        found.dedup_by(|a, b| (&a.host, a.port) == (&b.host, b.port));
        found
    };
    let mut found = of(true);
    if found.is_empty() {
        found = of(false);
        found.iter_mut().for_each(|found| found.weight = 0);
    }
    scale_weights(&mut found);
    found
}

/// An endpoint as the configuration has it.
fn written(found: &Found) -> Value {
    let labels: Map<_, _> =
        found.labels.iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    json!({ "url": found.url("http"), "weight": found.weight, "tier": found.tier, "labels": labels })
}

/// The route, without its name and where it goes.
fn route(container: &DockerContainerSpec) -> Result<Map<String, Value>, String> {
    let mut route = match container.label(ROUTE).map(|text| yaml(ROUTE, text)).transpose()? {
        None => Map::new(),
        Some(Value::Object(route)) => route,
        Some(_) => return Err(format!("`{ROUTE}` is no map")),
    };
    if let Some(key) = ["name", "to"].iter().find(|key| route.contains_key(**key)) {
        return Err(format!("`{ROUTE}` has `{key}`, which the service says; leave it out"));
    }
    for (label, place, begins) in LISTS {
        if let Some(text) = container.label(label) {
            let items: Vec<_> = text.split(',').map(str::trim).collect();
            if items.iter().any(|item| item.is_empty() || !item.starts_with(begins)) {
                let what = if begins.is_empty() { "values" } else { "paths" };
                return Err(format!(
                    "`{label}` has an entry that is not one of {what}; write {what} with commas between them"
                ));
            }
            put(&mut route, place, (label, json!(items)))?;
        }
    }
    if let Some(text) = container.label(FILTERS) {
        let filters = yaml(FILTERS, text)?;
        if !filters.is_array() {
            return Err(format!("`{FILTERS}` is no list"));
        }
        put(&mut route, &["filters"], (FILTERS, filters))?;
    }
    Ok(route)
}

/// Puts what a label says at its place, where nothing else does.
fn put(route: &mut Map<String, Value>, place: &[&str], (label, value): (&str, Value)) -> Result<(), String> {
    let twice = || format!("`{ROUTE}` and `{label}` both say `{}`; write one of them", place.join("."));
    let (last, above) = place.split_last().ok_or("a label has no place")?;
    let mut map = route;
    for key in above {
        let below = map.entry(*key).or_insert_with(|| json!({}));
        map = below.as_object_mut().ok_or_else(|| format!("`{key}` in `{ROUTE}` is no map"))?;
    }
    match map.insert((*last).to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(twice()),
    }
}

/// What a label says in YAML.
fn yaml(label: &str, text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! { strict_booleans: true };
    let value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| format!("`{label}` cannot be read: {}", flaw::yaml(&error)))?;
    if has_fraction(&value) {
        return Err(format!("`{label}` has a number with a fraction; write it in quotes"));
    }
    Ok(value)
}

/// A number with a fraction is mostly a version, which would lose a zero at its end.
fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(entries) => entries.values().any(has_fraction),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests;
