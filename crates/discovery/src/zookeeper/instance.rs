//! Instances as Curator's service discovery writes them, and Spring Cloud Zookeeper with it.
//!
//! ```json
//! {"name": "checkout", "id": "1", "address": "10.0.0.1", "port": 8080, "sslPort": null, "enabled": true,
//!  "payload": {"@class": "…ZookeeperInstance", "metadata": {"instance_status": "UP", "zone": "eu-1a"}}}
//! ```

use crate::document::located;
use crate::entry::{entry, scalar, weight_of};
use crate::flaw;
use crate::found::Found;
use serde_json::{Map, Value};

/// Whether Spring Cloud holds the instance to be up.
const STATUS: &str = "instance_status";
/// Fields of a payload that is not a map of labels.
const OF_PAYLOAD: [&str; 3] = ["@class", "id", "name"];

/// The endpoint of an instance; `None`: it is not to be used.
///
/// # Errors
/// A sentence: it is no instance.
pub(super) fn curator(_name: &str, value: &[u8]) -> Result<Option<Found>, String> {
    let instance: Map<String, Value> = serde_json::from_slice(value).map_err(|error| {
        format!("it is no instance of Curator ({}); is `layout` right?", flaw::json(&error))
    })?;
    let payload = instance.get("payload").and_then(Value::as_object);
    let metadata = payload.and_then(|payload| payload.get("metadata")).and_then(Value::as_object);
    let status = metadata.and_then(|metadata| metadata.get(STATUS)).and_then(Value::as_str);
    let is_up = status.is_none_or(|status| status.eq_ignore_ascii_case("UP"));
    if instance.get("enabled") == Some(&Value::Bool(false)) || !is_up {
        return Ok(None);
    }
    let address = instance.get("address").and_then(Value::as_str).filter(|address| !address.is_empty());
    let address = address.ok_or("it has no `address`")?;
    let port = |name: &str| instance.get(name).and_then(Value::as_u64).filter(|port| *port != 0);
    let (scheme, port) = match (port("sslPort"), port("port")) {
        (Some(port), _) => ("https://", port),
        (None, Some(port)) => ("", port),
        (None, None) => return Err("it has no `port`".to_owned()),
    };
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let mut found = located(&format!("{scheme}{host}:{port}"))?;
    let labels = metadata.or(payload);
    if let Some(weight) = labels.and_then(|labels| labels.get("weight")) {
        found.weight = weight_of(weight).ok_or("its `weight` is no number from 0")?;
    }
    let id = instance.get("id").and_then(Value::as_str).map(|id| ("instance".to_owned(), id.to_owned()));
    let labels = labels.into_iter().flatten().filter(|(name, _)| !OF_PAYLOAD.contains(&name.as_str()));
    let labels = labels.filter_map(|(name, value)| Some((name.clone(), scalar(value)?)));
    found.labels =
        id.into_iter().chain(labels.filter(|(name, _)| name != STATUS && name != "weight")).collect();
    Ok(Some(found))
}

/// The data says the address, or else the node's own name.
///
/// # Errors
/// A sentence: neither does.
pub(super) fn plain(name: &str, value: &[u8]) -> Result<Option<Found>, String> {
    entry(name, value).or_else(|why| located(name).map(Some).map_err(|_| why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<Found> {
        curator("x", json.as_bytes()).unwrap()
    }

    #[test]
    fn an_instance_of_spring_is_read_with_its_metadata() {
        let found = read(
            r#"{"name":"checkout","id":"i-1","address":"10.0.0.1","port":8080,"sslPort":null,
                "payload":{"@class":"org.springframework.cloud.zookeeper.discovery.ZookeeperInstance",
                "id":"application-1","name":"checkout","metadata":{"instance_status":"UP","zone":"a","weight":"3"}},
                "registrationTimeUTC":1,"serviceType":"DYNAMIC","uriSpec":{"parts":[]},"enabled":true}"#,
        )
        .unwrap();
        assert_eq!((found.url("http"), found.weight), ("http://10.0.0.1:8080".to_owned(), 3));
        assert_eq!(found.labels.iter().collect::<Vec<_>>(), [("instance", "i-1"), ("zone", "a")]);
    }

    #[test]
    fn a_secure_port_is_spoken_to_with_tls_and_a_payload_of_its_own_is_labels() {
        let found = read(
            r#"{"address":"::1","port":80,"sslPort":443,"payload":{"@class":"x","zone":"a","more":{}}}"#,
        )
        .unwrap();
        assert_eq!(found.url("http"), "https://[::1]:443");
        assert_eq!(found.labels.iter().collect::<Vec<_>>(), [("zone", "a")]);
        assert_eq!(read(r#"{"address":"a","port":80,"payload":"text"}"#).unwrap(), Found::at("a", 80));
    }

    #[test]
    fn who_is_not_up_is_not_used_and_what_is_no_instance_is_refused() {
        assert_eq!(read(r#"{"address":"a","port":80,"enabled":false}"#), None);
        let out = r#"{"address":"a","port":80,"payload":{"metadata":{"instance_status":"OUT_OF_SERVICE"}}}"#;
        assert_eq!(read(out), None);
        for bad in ["", "10.0.0.1:80", "[]", "{}", r#"{"address":"a"}"#, r#"{"address":"a","port":70000}"#] {
            assert!(curator("x", bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_plain_node_says_its_address_in_its_data_or_its_name() {
        let url = |name: &str, data: &[u8]| plain(name, data).unwrap().unwrap().url("http");
        assert_eq!(url("i-1", b"10.0.0.1:80"), "http://10.0.0.1:80");
        assert_eq!(url("10.0.0.1:80", b""), "http://10.0.0.1:80");
        assert_eq!(url("10.0.0.1:80", b"\xac\xed\x00\x05"), "http://10.0.0.1:80");
        assert!(plain("i-1", b"").is_err());
    }
}
