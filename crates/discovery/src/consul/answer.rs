//! What an agent answers at `/v1/health/service/NAME`.

use super::ConsulHealthSpec;
use crate::flaw;
use crate::found::{Found, scale_weights};
use serde::Deserialize;
use std::collections::BTreeMap;
use thalweg_upstream::Labels;

/// The endpoints, and the first entry that is none.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) found: Vec<Found>,
    pub(super) flaw: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConsulEntrySpec {
    node: ConsulNodeSpec,
    service: ConsulInstanceSpec,
    #[serde(default)]
    checks: Option<Vec<ConsulCheckSpec>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConsulNodeSpec {
    #[serde(default)]
    address: String,
    #[serde(default)]
    locality: Option<ConsulLocalitySpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConsulInstanceSpec {
    #[serde(default)]
    address: String,
    port: u16,
    #[serde(default)]
    tags: Option<Vec<String>>,
    #[serde(default)]
    meta: Option<BTreeMap<String, String>>,
    #[serde(default)]
    weights: Option<ConsulWeightsSpec>,
    #[serde(default)]
    locality: Option<ConsulLocalitySpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConsulWeightsSpec {
    passing: u32,
    warning: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConsulLocalitySpec {
    #[serde(default)]
    zone: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConsulCheckSpec {
    #[serde(default, rename = "CheckID")]
    id: String,
    #[serde(default)]
    status: String,
}

/// The endpoints of an answer; an entry that is none is left out.
///
/// # Errors
/// A sentence: it is no answer of Consul.
pub(super) fn read(body: &[u8], health: ConsulHealthSpec) -> Result<Answer, String> {
    let entries: Vec<serde_json::Value> = serde_json::from_slice(body)
        .map_err(|error| format!("the answer is no list of instances: {}", flaw::json(&error)))?;
    let (mut found, mut flaw) = (Vec::with_capacity(entries.len()), None);
    for entry in entries {
        let entry = serde_json::from_value(entry);
        match entry.map_err(|error| format!("an instance cannot be read: {}", flaw::json(&error))) {
            Ok(entry) => match endpoint(entry, health) {
                Ok(endpoint) => found.extend(endpoint),
                Err(why) => drop(flaw.get_or_insert(why)),
            },
            Err(why) => drop(flaw.get_or_insert(why)),
        }
    }
    scale_weights(&mut found);
    Ok(Answer { found, flaw })
}

/// `None`: its checks say that it is not to be used.
fn endpoint(entry: ConsulEntrySpec, health: ConsulHealthSpec) -> Result<Option<Found>, String> {
    let state = state(entry.checks.as_deref().unwrap_or_default());
    if state > health {
        return Ok(None);
    }
    let ConsulInstanceSpec { address, port, tags, meta, weights, locality } = entry.service;
    let host = if address.is_empty() { entry.node.address } else { address };
    if host.is_empty() || port == 0 {
        return Err("an instance has no address or no port".to_owned());
    }
    let weight = match (state, weights) {
        (_, None) => 1,
        (ConsulHealthSpec::Passing, Some(weights)) => weights.passing,
        (_, Some(weights)) => weights.warning,
    };
    let mut labels = meta.unwrap_or_default();
    for tag in tags.unwrap_or_default() {
        match tag.split_once('=') {
            Some((name, value)) => labels.entry(name.to_owned()).or_insert_with(|| value.to_owned()),
            None => labels.entry(format!("tag.{tag}")).or_insert_with(|| "true".to_owned()),
        };
    }
    let zones = [locality, entry.node.locality].into_iter().flatten().map(|locality| locality.zone);
    if let Some(zone) = zones.into_iter().find(|zone| !zone.is_empty()) {
        labels.entry(Labels::ZONE.to_owned()).or_insert(zone);
    }
    Ok(Some(Found { weight, labels: labels.into_iter().collect(), ..Found::at(host, port) }))
}

/// The worst that the checks say, as Consul counts them together: one in maintenance is as bad as one that is critical.
fn state(checks: &[ConsulCheckSpec]) -> ConsulHealthSpec {
    let states = checks.iter().map(|check| {
        let is_away = check.id == "_node_maintenance" || check.id.starts_with("_service_maintenance:");
        match check.status.as_str() {
            "passing" if !is_away => ConsulHealthSpec::Passing,
            "warning" if !is_away => ConsulHealthSpec::Warning,
            _ => ConsulHealthSpec::Any,
        }
    });
    states.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(service: &str, checks: &str) -> String {
        format!(r#"{{"Node":{{"Address":"10.0.0.9"}},"Service":{service},"Checks":{checks}}}"#)
    }

    const PASSING: &str =
        r#"[{"CheckID":"serfHealth","Status":"passing"},{"CheckID":"c","Status":"passing"}]"#;
    const WARNING: &str =
        r#"[{"CheckID":"serfHealth","Status":"passing"},{"CheckID":"c","Status":"warning"}]"#;
    const CRITICAL: &str = r#"[{"CheckID":"c","Status":"warning"},{"CheckID":"d","Status":"critical"}]"#;
    const AWAY: &str = r#"[{"CheckID":"_service_maintenance:a","Status":"passing"}]"#;

    fn ports(health: ConsulHealthSpec) -> Vec<(u16, u32)> {
        let entries: Vec<_> = [PASSING, WARNING, CRITICAL, AWAY]
            .iter()
            .zip(1..)
            .map(|(checks, port)| {
                entry(&format!(r#"{{"Port":{port},"Weights":{{"Passing":10,"Warning":2}}}}"#), checks)
            })
            .collect();
        let answer = read(format!("[{}]", entries.join(",")).as_bytes(), health).unwrap();
        answer.found.iter().map(|found| (found.port, found.weight)).collect()
    }

    #[test]
    fn health_chooses_the_instances_and_their_weights() {
        assert_eq!(ports(ConsulHealthSpec::Passing), [(1, 10)]);
        assert_eq!(ports(ConsulHealthSpec::Warning), [(1, 10), (2, 2)]);
        assert_eq!(ports(ConsulHealthSpec::Any), [(1, 10), (2, 2), (3, 2), (4, 2)]);
    }

    #[test]
    fn an_instance_without_an_address_is_at_its_nodes() {
        let body = format!(
            "[{},{}]",
            entry(r#"{"Address":"","Port":80}"#, "null"),
            entry(r#"{"Address":"fd00::1","Port":81,"Tags":null,"Meta":null}"#, "[]")
        );
        let found = read(body.as_bytes(), ConsulHealthSpec::Passing).unwrap().found;
        assert_eq!(found, [Found::at("10.0.0.9", 80), Found::at("fd00::1", 81)]);
    }

    #[test]
    fn meta_tags_and_localities_become_labels() {
        let service = r#"{"Port":80,"Meta":{"version":"2","a":"meta"},"Tags":["blue","a=tag","b=tag"],
            "Locality":{"Region":"eu","Zone":"eu-1a"}}"#;
        let found = read(format!("[{}]", entry(service, "[]")).as_bytes(), ConsulHealthSpec::Passing);
        let labels = found.unwrap().found.remove(0).labels;
        let wanted = [("a", "meta"), ("b", "tag"), ("tag.blue", "true"), ("version", "2"), ("zone", "eu-1a")];
        assert_eq!(labels.iter().collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn an_entry_that_is_none_is_left_out_and_told() {
        let body = format!(
            r#"[{}, {{"Service":3}}, {}]"#,
            entry(r#"{"ID":"x","Port":0}"#, "[]"),
            entry(r#"{"Port":80}"#, "[]")
        );
        let answer = read(body.as_bytes(), ConsulHealthSpec::Passing).unwrap();
        assert_eq!(answer.found, [Found::at("10.0.0.9", 80)]);
        assert_eq!(answer.flaw.unwrap(), "an instance has no address or no port");
        assert!(read(b"{}", ConsulHealthSpec::Any).is_err() && read(b"", ConsulHealthSpec::Any).is_err());
    }

    #[test]
    fn large_weights_keep_their_proportion() {
        let service = |port, weight| {
            entry(&format!(r#"{{"Port":{port},"Weights":{{"Passing":{weight},"Warning":1}}}}"#), "[]")
        };
        let body = format!("[{},{}]", service(1, 50_000), service(2, 25_000));
        let found = read(body.as_bytes(), ConsulHealthSpec::Passing).unwrap().found;
        assert_eq!([found[0].weight, found[1].weight], [1000, 500]);
    }
}
