//! What a server answers: version 1 the list itself, version 2 the same under `data`, version 3 the instances alone
//! under `data`.

use crate::flaw;
use crate::found::{Found, scale_weights};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_upstream::Labels;

/// How long an answer holds that does not say so.
const HOLD: Duration = Duration::from_secs(10);
/// The largest weight of Nacos.
const WEIGHT: f64 = 10_000.0;
/// Weights are fractions there: 1.0 becomes 100.
const SCALE: f64 = 100.0;
/// The cluster of instances that say nothing.
const DEFAULT_CLUSTER: &str = "DEFAULT";

/// The endpoints, the first entry that is none, and how long they hold.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) found: Vec<Found>,
    pub(super) flaw: Option<String>,
    pub(super) hold: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NacosListSpec {
    hosts: Vec<Value>,
    #[serde(default)]
    cache_millis: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NacosInstanceSpec {
    ip: String,
    port: u16,
    #[serde(default)]
    weight: Option<f64>,
    healthy: bool,
    #[serde(default)]
    enabled: Option<bool>,
    #[serde(default)]
    cluster_name: Option<String>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, Value>>,
}

/// The endpoints of an answer; an entry that is none is left out.
///
/// # Errors
/// A sentence: it is no answer of Nacos.
pub(super) fn read(body: &[u8]) -> Result<Answer, String> {
    let flaw = |error| format!("the answer is no list of instances: {}", flaw::json(&error));
    let mut answer: Value = serde_json::from_slice(body).map_err(flaw)?;
    if let Some(code) = answer.get("code").and_then(Value::as_i64).filter(|code| *code != 0 && *code != 200) {
        return Err(format!("the server answers with the code {code}"));
    }
    if let Some(data) = answer.get_mut("data") {
        answer = data.take();
    }
    let list = match answer {
        Value::Array(hosts) => NacosListSpec { hosts, cache_millis: None },
        other => serde_json::from_value(other).map_err(flaw)?,
    };
    let (mut found, mut flaw) = (Vec::with_capacity(list.hosts.len()), None);
    for host in list.hosts {
        let host = serde_json::from_value(host);
        match host.map_err(|error| format!("an instance cannot be read: {}", flaw::json(&error))) {
            Ok(instance) => match endpoint(instance) {
                Ok(endpoint) => found.extend(endpoint),
                Err(why) => drop(flaw.get_or_insert(why)),
            },
            Err(why) => drop(flaw.get_or_insert(why)),
        }
    }
    scale_weights(&mut found);
    Ok(Answer { found, flaw, hold: list.cache_millis.map_or(HOLD, Duration::from_millis) })
}

/// `None`: it is not to be used.
fn endpoint(instance: NacosInstanceSpec) -> Result<Option<Found>, String> {
    let NacosInstanceSpec { ip, port, weight, healthy, enabled, cluster_name, metadata } = instance;
    if !healthy || enabled == Some(false) {
        return Ok(None);
    }
    if ip.is_empty() || port == 0 {
        return Err("an instance has no address or no port".to_owned());
    }
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let metadata = metadata.unwrap_or_default();
    let mut labels: BTreeMap<String, String> =
        metadata.into_iter().map(|(name, value)| (name, text(value))).collect();
    if let Some(cluster) = cluster_name.filter(|name| !name.is_empty()) {
        if cluster != DEFAULT_CLUSTER {
            labels.entry(Labels::ZONE.to_owned()).or_insert_with(|| cluster.clone());
        }
        labels.entry("cluster".to_owned()).or_insert(cluster);
    }
    // As Spring Cloud Alibaba tells it.
    let scheme = (labels.get("secure").map(String::as_str) == Some("true")).then_some("https");
    let (weight, labels) = (scaled(weight.unwrap_or(1.0)), labels.into_iter().collect());
    Ok(Some(Found { scheme, weight, labels, ..Found::at(ip, port) }))
}

/// 0 to 1,000,000; who has any share keeps at least 1.
fn scaled(weight: f64) -> u32 {
    let scaled = (weight.clamp(0.0, WEIGHT) * SCALE).round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 1,000,000")]
    let whole = scaled as u32;
    if weight > 0.0 { whole.max(1) } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(hosts: &str) -> String {
        format!(r#"{{"name":"DEFAULT_GROUP@@checkout","cacheMillis":3000,"hosts":[{hosts}],"valid":true}}"#)
    }

    const GOOD: &str = r#"{"ip":"10.0.0.1","port":80,"weight":1.0,"healthy":true,"enabled":true,
        "ephemeral":true,"clusterName":"DEFAULT","metadata":{"version":"2","n":3}}"#;

    #[test]
    fn the_three_versions_say_the_same() {
        let one = read(list(GOOD).as_bytes()).unwrap();
        let two =
            read(format!(r#"{{"code":0,"message":"success","data":{}}}"#, list(GOOD)).as_bytes()).unwrap();
        let three = read(format!(r#"{{"code":0,"message":"success","data":[{GOOD}]}}"#).as_bytes()).unwrap();
        assert_eq!((&one.found, &one.found), (&two.found, &three.found));
        assert_eq!((one.hold, three.hold), (Duration::from_secs(3), HOLD));
        let found = &one.found[0];
        assert_eq!(
            (found.weight, found.labels.get("version"), found.labels.get("n")),
            (100, Some("2"), Some("3"))
        );
        assert_eq!((found.labels.get("zone"), found.labels.get("cluster")), (None, Some("DEFAULT")));
    }

    #[test]
    fn only_instances_that_are_healthy_and_enabled_are_used() {
        let away = GOOD.replace(r#""healthy":true"#, r#""healthy":false"#);
        let off = GOOD.replace(r#""enabled":true"#, r#""enabled":false"#);
        assert_eq!(read(list(&format!("{away},{off},{GOOD}")).as_bytes()).unwrap().found.len(), 1);
    }

    #[test]
    fn weights_are_fractions_and_keep_their_proportion() {
        for (weight, scaled_to) in [
            (1.0, 100),
            (0.0, 0),
            (0.001, 1),
            (-3.0, 0),
            (f64::NAN, 0),
            (10_000.0, 1_000_000),
            (2e9, 1_000_000),
        ] {
            assert_eq!(scaled(weight), scaled_to, "{weight}");
        }
        let host = |weight: &str| GOOD.replace("1.0", weight);
        let found = read(list(&format!("{},{}", host("10000"), host("5"))).as_bytes()).unwrap().found;
        assert_eq!([found[0].weight, found[1].weight], [1000, 1]);
    }

    #[test]
    fn a_cluster_is_a_zone_and_secure_instances_take_tls() {
        let host = GOOD.replace("DEFAULT", "HZ").replace(r#""n":3"#, r#""secure":"true""#);
        let found = read(list(&host).as_bytes()).unwrap().found.remove(0);
        assert_eq!(
            (found.labels.get("zone"), found.url("http")),
            (Some("HZ"), "https://10.0.0.1:80".to_owned())
        );
    }

    #[test]
    fn what_is_no_answer_is_a_failure_and_what_is_no_instance_is_left_out() {
        for bad in ["", "{}", "[1", r#"{"code":0,"data":null}"#, r#"{"hosts":3}"#, "ok"] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
        let refused = read(br#"{"code":20004,"message":"resource not found","data":null}"#).unwrap_err();
        assert_eq!(refused, "the server answers with the code 20004");
        let answer = read(list(&format!(r#"{{"ip":"x"}},{GOOD}"#)).as_bytes()).unwrap();
        assert!(answer.found.len() == 1 && answer.flaw.is_some());
    }
}
