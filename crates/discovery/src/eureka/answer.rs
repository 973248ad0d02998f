//! What a server answers at `/apps` and `/apps/delta`.

use super::loose::{Loose, one_or_many};
use crate::flaw;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_upstream::Labels;

/// How long a server waits for an instance to renew its lease, where an instance says nothing.
const LEASE: u64 = 90;
/// The longest lease that is believed, in seconds.
const LONGEST_LEASE: u64 = 300;

/// The instances that an answer tells of.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// How many instances the server counts in each state, as a text.
    pub(super) count: Option<String>,
    pub(super) instances: Vec<Instance>,
}

/// One instance.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Instance {
    /// Upper case.
    pub(super) app: String,
    pub(super) id: String,
    pub(super) host: String,
    pub(super) ip: String,
    pub(super) status: String,
    /// If it is enabled.
    pub(super) port: Option<u16>,
    pub(super) secure_port: Option<u16>,
    /// Names with commas between them.
    pub(super) vip: String,
    pub(super) secure_vip: String,
    pub(super) weight: u32,
    pub(super) labels: Labels,
    pub(super) lease: Duration,
    /// When the server last changed it, by the server's clock.
    pub(super) updated: u64,
    /// In an answer about changes: it is gone.
    pub(super) is_deleted: bool,
}

#[derive(Deserialize)]
struct EurekaAnswerSpec {
    applications: EurekaApplicationsSpec,
}

#[derive(Deserialize)]
struct EurekaApplicationsSpec {
    #[serde(default, rename = "apps__hashcode")]
    count: Option<Loose>,
    #[serde(default, deserialize_with = "one_or_many")]
    application: Vec<EurekaApplicationSpec>,
}

#[derive(Deserialize)]
struct EurekaApplicationSpec {
    #[serde(default)]
    name: Loose,
    #[serde(default, deserialize_with = "one_or_many")]
    instance: Vec<EurekaInstanceSpec>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EurekaInstanceSpec {
    instance_id: Loose,
    host_name: Loose,
    ip_addr: Loose,
    status: Loose,
    port: Loose,
    secure_port: Option<Loose>,
    vip_address: Loose,
    secure_vip_address: Loose,
    metadata: Option<BTreeMap<String, Loose>>,
    data_center_info: EurekaDataCenterSpec,
    lease_info: Option<EurekaLeaseSpec>,
    last_updated_timestamp: Loose,
    action_type: Loose,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EurekaDataCenterSpec {
    metadata: Option<BTreeMap<String, Loose>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EurekaLeaseSpec {
    duration_in_secs: Loose,
}

/// What stands in an answer.
///
/// # Errors
/// A sentence: it is no answer of Eureka.
pub(super) fn read(body: &[u8]) -> Result<Answer, String> {
    let answer: EurekaAnswerSpec = serde_json::from_slice(body)
        .map_err(|error| format!("the answer is not what Eureka says at /apps: {}", flaw::json(&error)))?;
    let EurekaApplicationsSpec { count, application } = answer.applications;
    let mut instances = Vec::new();
    for EurekaApplicationSpec { name, instance } in application {
        let app = name.text.to_ascii_uppercase();
        instances.extend(instance.into_iter().map(|spec| instance_of(&app, spec)));
    }
    Ok(Answer { count: count.map(|count| count.text), instances })
}

fn instance_of(app: &str, spec: EurekaInstanceSpec) -> Instance {
    let centre = spec.data_center_info.metadata.unwrap_or_default();
    let of_centre = |name| centre.get(name).map(|value: &Loose| value.text.clone());
    let id = match (spec.instance_id.text, of_centre("instance-id")) {
        (id, _) if !id.is_empty() => id,
        (_, Some(id)) => id,
        _ => spec.host_name.text.clone(),
    };
    let metadata = spec.metadata.unwrap_or_default();
    let weight = metadata.get("weight").and_then(|weight| weight.text.parse().ok()).unwrap_or(1);
    // `@class` is what XStream adds.
    let own = metadata.into_iter().filter(|(name, _)| !name.starts_with('@'));
    let mut labels: BTreeMap<String, String> = own.map(|(name, value)| (name, value.text)).collect();
    if let Some(zone) = of_centre("availability-zone") {
        labels.entry(Labels::ZONE.to_owned()).or_insert(zone);
    }
    let lease = spec.lease_info.and_then(|lease| lease.duration_in_secs.text.parse().ok());
    Instance {
        app: app.to_owned(),
        id,
        host: spec.host_name.text,
        ip: spec.ip_addr.text,
        status: spec.status.text,
        port: enabled(&spec.port),
        secure_port: spec.secure_port.as_ref().and_then(enabled),
        vip: spec.vip_address.text,
        secure_vip: spec.secure_vip_address.text,
        weight,
        labels: labels.into_iter().collect(),
        lease: Duration::from_secs(lease.unwrap_or(LEASE).min(LONGEST_LEASE)),
        updated: spec.last_updated_timestamp.text.parse().unwrap_or(0),
        is_deleted: spec.action_type.text == "DELETED",
    }
}

fn enabled(port: &Loose) -> Option<u16> {
    port.text.parse().ok().filter(|port| *port != 0).filter(|_| port.is_enabled)
}
