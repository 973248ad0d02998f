//! Which endpoints a Service has: its EndpointSlices by the rules of Kubernetes' own proxy (kube-proxy).
//!
//! - Endpoints that are `ready`. Where none is, those that are terminating and still `serving`: the last of a Service
//!   answer until they are gone.
//! - One address of an endpoint, the first. The same endpoint in several slices, as while it moves from one to another,
//!   is as the slice that was written last says.
//! - Of a Service with both families of addresses, those of its primary family.

use super::objects::{EndpointSliceSpec, KubeServiceSpec, SliceEndpointSpec, SliceHintSpec, SlicePortSpec};
use crate::found::Found;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use thalweg_upstream::Labels;

/// The type of a Service that is another name for a host.
const EXTERNAL: &str = "ExternalName";

/// A port, as people write it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum PortOf {
    /// Its name in the Service.
    Name(String),
    /// Its number in the Service; where the Service has none of that number, the endpoints'.
    Number(u16),
}

impl fmt::Display for PortOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// A Service that is asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Wanted {
    pub(super) service: String,
    /// None: the only one.
    pub(super) port: Option<PortOf>,
}

/// Its endpoints, and what is odd.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) found: Vec<Found>,
    pub(super) flaw: Option<String>,
}

/// The endpoints of a Service. Without one, its slices alone are looked at.
///
/// # Errors
/// A sentence: what is known of it says no set of endpoints.
pub(super) fn endpoints(
    wanted: &Wanted,
    service: Option<&KubeServiceSpec>,
    slices: &[&EndpointSliceSpec],
) -> Result<Answer, String> {
    let name = &wanted.service;
    if let Some(service) = service.filter(|service| service.spec.kind == EXTERNAL) {
        let host = &service.spec.external_name;
        return Err(format!(
            "the Service `{name}` stands for the name `{host}` (ExternalName) and has no endpoints; help: write that \
             name with its port as the endpoint of the service, without `discover`"
        ));
    }
    let mut slices: Vec<_> = of_one_family(service, slices);
    slices.sort_by_key(|slice| version(slice));
    let port = Port::of(wanted, service, &slices)?;
    let (mut all, mut flaw) = (BTreeMap::new(), None);
    let mut is_known = slices.iter().all(|slice| slice.endpoints().is_empty());
    for slice in &slices {
        let Some((number, scheme)) = port.in_slice(slice) else { continue };
        is_known = true;
        for endpoint in slice.endpoints() {
            match address(&slice.address_type, endpoint) {
                Ok(host) => drop(all.insert((host, number), (endpoint, scheme))),
                Err(why) => drop(flaw.get_or_insert_with(|| format!("an endpoint of `{name}` {why}"))),
            }
        }
    }
    // The Service has changed and its slices have not, or the other way round.
    if !is_known {
        return Err(format!("no endpoint of the Service `{name}` has the port `{port}`"));
    }
    let is_any_ready = all.values().any(|(endpoint, _)| endpoint.conditions.is_ready());
    let is_used = |endpoint: &SliceEndpointSpec| match is_any_ready {
        true => endpoint.conditions.is_ready(),
        false => endpoint.conditions.is_leaving_and_serving(),
    };
    let used = all.into_iter().filter(|(_, (endpoint, _))| is_used(endpoint));
    let found = used.map(|((host, number), (endpoint, scheme))| Found {
        scheme,
        labels: labels(endpoint),
        ..Found::at(host, number)
    });
    if service.is_none() {
        flaw.get_or_insert_with(|| format!("there is no Service `{name}` in the namespace"));
    }
    Ok(Answer { found: found.collect(), flaw })
}

/// A Service with two families has each pod twice.
fn of_one_family<'a>(
    service: Option<&KubeServiceSpec>,
    slices: &[&'a EndpointSliceSpec],
) -> Vec<&'a EndpointSliceSpec> {
    let families = service.and_then(|service| service.spec.ip_families.as_deref()).unwrap_or_default();
    let primary = families.first().map_or("IPv4", String::as_str);
    let has_primary =
        slices.iter().any(|slice| slice.address_type == primary && !slice.endpoints().is_empty());
    let is_other = |slice: &EndpointSliceSpec| {
        has_primary && slice.address_type != primary && slice.address_type != "FQDN"
    };
    slices.iter().copied().filter(|slice| !is_other(slice)).collect()
}

/// Versions of objects of Kubernetes' own kinds are numbers that grow (comparable since 1.35, and before in fact).
fn version(slice: &EndpointSliceSpec) -> u128 {
    slice.metadata.resource_version.parse().unwrap_or(0)
}

/// How the port is found in slices.
enum Port<'a> {
    Named(&'a str),
    Numbered(u16),
}

impl fmt::Display for Port<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Numbered(number) => number.fmt(f),
        }
    }
}

impl<'a> Port<'a> {
    fn of(
        wanted: &'a Wanted,
        service: Option<&'a KubeServiceSpec>,
        slices: &[&'a EndpointSliceSpec],
    ) -> Result<Self, String> {
        let declared = service.and_then(|service| service.spec.ports.as_deref()).unwrap_or_default();
        let has = || {
            let all = declared.iter().map(|port| match port.name.as_str() {
                "" => format!("`{}`", port.port),
                name => format!("`{name}` ({})", port.port),
            });
            all.collect::<Vec<_>>().join(", ")
        };
        let name = &wanted.service;
        match &wanted.port {
            Some(PortOf::Name(port)) => {
                if !declared.is_empty() && !declared.iter().any(|declared| declared.name == *port) {
                    return Err(format!("the Service `{name}` has no port `{port}`; it has {}", has()));
                }
                Ok(Self::Named(port))
            }
            Some(PortOf::Number(number)) => {
                if let Some(port) = declared.iter().find(|port| port.port == *number) {
                    return Ok(Self::Named(&port.name));
                }
                let here = Self::Numbered(*number);
                let is_endpoints = slices.iter().any(|slice| here.in_slice(slice).is_some());
                if !declared.is_empty() && !is_endpoints {
                    return Err(format!("the Service `{name}` has no port {number}; it has {}", has()));
                }
                Ok(here)
            }
            None => match declared {
                [port] => Ok(Self::Named(&port.name)),
                [] => Self::only(name, slices),
                _ => Err(format!(
                    "the Service `{name}` has several ports; help: write `port`: one of {}",
                    has()
                )),
            },
        }
    }

    /// The only one that there is in the slices.
    fn only(name: &str, slices: &[&'a EndpointSliceSpec]) -> Result<Self, String> {
        let names = slices
            .iter()
            .flat_map(|slice| slice.ports())
            .map(|port| port.name.as_deref().unwrap_or_default());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names.dedup();
        match names[..] {
            [only] => Ok(Self::Named(only)),
            [] if slices.iter().all(|slice| slice.endpoints().is_empty()) => Ok(Self::Named("")),
            _ => Err(format!("the Service `{name}` does not name one port; help: write `port`")),
        }
    }

    /// Its number there, and the scheme; `None`: the endpoints of the slice do not have it.
    fn in_slice(&self, slice: &EndpointSliceSpec) -> Option<(u16, Option<&'static str>)> {
        let ports = slice.ports();
        let found = match self {
            Self::Named(name) => ports.iter().find(|port| port.name.as_deref().unwrap_or_default() == *name),
            Self::Numbered(number) => {
                let is_any = |port: &&SlicePortSpec| port.port.is_none();
                let own = ports.iter().find(|port| port.port == Some(*number));
                let own = own.or_else(|| ports.iter().find(is_any));
                if ports.is_empty() && !slice.endpoints().is_empty() {
                    return Some((*number, None));
                }
                own
            }
        }?;
        let number = match (found.port, self) {
            (Some(number), _) => number,
            (None, Self::Numbered(number)) => *number,
            (None, Self::Named(_)) => return None,
        };
        let scheme = match found.app_protocol.as_deref() {
            Some("https" | "kubernetes.io/wss") => Some("https"),
            _ => None,
        };
        (number != 0).then_some((number, scheme))
    }
}

/// The address of an endpoint.
///
/// # Errors
/// The end of a sentence.
fn address(kind: &str, endpoint: &SliceEndpointSpec) -> Result<String, String> {
    let Some(text) = endpoint.addresses.first() else { return Err("has no address".to_owned()) };
    let address = match kind {
        "IPv4" => text.parse::<Ipv4Addr>().ok().map(|address| address.to_string()),
        "IPv6" => text.parse::<Ipv6Addr>().ok().map(|address| address.to_string()),
        "FQDN" => is_host_name(text).then(|| text.trim_end_matches('.').to_ascii_lowercase()),
        _ => return Err(format!("has an address of the unknown type `{kind}`")),
    };
    address.ok_or_else(|| format!("has the address `{text}`, which is no {kind} address"))
}

fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(is_plain)
    };
    text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(is_label)
}

fn labels(endpoint: &SliceEndpointSpec) -> Labels {
    let names = |hints: Option<&Vec<SliceHintSpec>>| {
        let names: Vec<_> =
            hints?.iter().map(|hint| hint.name.as_str()).filter(|name| !name.is_empty()).collect();
        (!names.is_empty()).then(|| names.join(","))
    };
    let hints = endpoint.hints.as_ref();
    let pod = endpoint.target_ref.as_ref().filter(|target| target.kind == "Pod" && !target.name.is_empty());
    let all = [
        (Labels::ZONE, endpoint.zone.clone()),
        ("node", endpoint.node_name.clone()),
        ("pod", pod.map(|pod| pod.name.clone())),
        ("hint_zones", names(hints.and_then(|hints| hints.for_zones.as_ref()))),
        ("hint_nodes", names(hints.and_then(|hints| hints.for_nodes.as_ref()))),
    ];
    all.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect()
}

#[cfg(test)]
mod tests;
