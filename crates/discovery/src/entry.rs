//! One endpoint as the value of a key: what etcd, Redis and ZooKeeper keep of an instance.
//!
//! - `10.0.0.1:8080` or a URL; where the value is empty, the key's end is the address;
//! - `{"url": "http://10.0.0.1:8080", "weight": 3, "zone": "eu-1a", "labels": {"version": "v2"}}`, the entry of a file
//!   of endpoints, also with `host` and `port`;
//! - `{"Op": 0, "Addr": "10.0.0.1:8080", "Metadata": {"weight": 3}}`, as etcd's own library for gRPC (`naming`) writes.

use crate::document::located;
use crate::flaw;
use crate::found::Found;
use serde_json::{Map, Value};
use thalweg_upstream::Labels;

/// The label with the name of the instance, where the store has one beside its address.
const INSTANCE: &str = "instance";

/// The endpoint of this value; `None`: the value says that there is none. `name` is the end of its key.
///
/// # Errors
/// A sentence: it is none.
pub(crate) fn entry(name: &str, value: &[u8]) -> Result<Option<Found>, String> {
    let text = std::str::from_utf8(value).map_err(|_| "it is not UTF-8".to_owned())?.trim();
    let last = name.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let mut found = match text.chars().next() {
        None => located(last)?,
        Some('{') => match object(text)? {
            None => return Ok(None),
            Some(found) => found,
        },
        Some('"') => {
            let text: String = serde_json::from_str(text).map_err(|error| flaw::json(&error))?;
            located(&text)?
        }
        Some(_) => located(text)?,
    };
    let is_named = found.labels.get(INSTANCE).is_some() || name.is_empty() || text.is_empty();
    if !is_named {
        let named = std::iter::once((INSTANCE, name));
        let others: Vec<_> = found.labels.iter().collect();
        found.labels = named.chain(others).collect();
    }
    Ok(Some(found))
}

fn object(text: &str) -> Result<Option<Found>, String> {
    let map: Map<String, Value> = serde_json::from_str(text).map_err(|error| flaw::json(&error))?;
    let any = |names: &[&str]| names.iter().find_map(|name| map.get(*name).filter(|value| !value.is_null()));
    // 1 is an update of etcd's library that deletes.
    if map.get("Op").and_then(Value::as_u64) == Some(1) {
        return Ok(None);
    }
    let mut found = match any(&["url", "address", "addr", "Addr"]).and_then(Value::as_str) {
        Some(url) if !url.is_empty() => located(url).or_else(|why| with_port(url, &map).ok_or(why))?,
        _ => {
            let host = any(&["host", "ip"]).and_then(Value::as_str);
            host.and_then(|host| with_port(host, &map)).ok_or("it names no address")?
        }
    };
    let labels = any(&["labels", "metadata", "Metadata"]).and_then(Value::as_object);
    let beside = |name: &str| map.get(name).or_else(|| labels.and_then(|labels| labels.get(name)));
    if let Some(weight) = beside("weight") {
        found.weight = weight_of(weight).ok_or("its `weight` is not a number from 0")?;
    }
    if let Some(tier) = beside("tier") {
        let tier = weight_of(tier).and_then(|tier| u8::try_from(tier).ok()).filter(|tier| *tier <= 9);
        found.tier = tier.ok_or("its `tier` is not from 0 to 9")?;
    }
    let own = [Labels::ZONE, Labels::VERSION];
    let own = own.into_iter().filter_map(|name| Some((name.to_owned(), scalar(map.get(name)?)?)));
    let labels =
        labels.into_iter().flatten().filter(|(name, _)| !["weight", "tier"].contains(&name.as_str()));
    let labels = labels.filter_map(|(name, value)| Some((name.clone(), scalar(value)?)));
    found.labels = own.chain(labels).collect();
    Ok(Some(found))
}

/// A host with the port that stands beside it.
fn with_port(host: &str, map: &Map<String, Value>) -> Option<Found> {
    let port = weight_of(map.get("port")?)?;
    let host =
        if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
    located(&format!("{host}:{port}")).ok()
}

/// A share: a number from 0, also as text. Parts of it are rounded up, so that who has any keeps some.
pub(crate) fn weight_of(value: &Value) -> Option<u32> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let number = number.filter(|number| number.is_finite() && *number >= 0.0)?;
    // In range, and a whole number.
    Some(number.ceil().min(f64::from(u32::MAX)) as u32)
}

/// The text of a value that is no list and no map.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(name: &str, value: &str) -> String {
        entry(name, value.as_bytes()).unwrap().unwrap().url("http")
    }

    #[test]
    fn a_value_is_an_address_or_an_object_or_the_key_says_it() {
        assert_eq!(url("a", "10.0.0.1:80\n"), "http://10.0.0.1:80");
        assert_eq!(url("a", "\"https://[::1]:8443\""), "https://[::1]:8443");
        assert_eq!(url("x/10.0.0.1:80", ""), "http://10.0.0.1:80");
        assert_eq!(url("a", r#"{"Op":0,"Addr":"10.0.0.1:80","Metadata":null}"#), "http://10.0.0.1:80");
        assert_eq!(url("a", r#"{"address":"10.0.0.1","port":80}"#), "http://10.0.0.1:80");
        assert_eq!(url("a", r#"{"host":"::1","port":"80"}"#), "http://[::1]:80");
    }

    #[test]
    fn what_stands_beside_the_address_is_kept() {
        let found = entry(
            "i-1",
            br#"{"url":"https://a:1","weight":2.5,"tier":1,"zone":"z","labels":{"version":2,"tags":[]}}"#,
        )
        .unwrap()
        .unwrap();
        assert_eq!((found.weight, found.tier, found.scheme), (3, 1, Some("https")));
        let labels: Vec<_> = found.labels.iter().collect();
        assert_eq!(labels, [("instance", "i-1"), ("version", "2"), ("zone", "z")]);
        let found = entry("", br#"{"Addr":"a:1","Metadata":{"weight":"7","zone":"z"}}"#).unwrap().unwrap();
        assert_eq!((found.weight, found.labels.get("zone")), (7, Some("z")));
    }

    #[test]
    fn an_update_that_deletes_is_none_and_what_is_no_endpoint_is_refused() {
        assert_eq!(entry("a", br#"{"Op":1,"Addr":"10.0.0.1:80"}"#), Ok(None));
        for bad in [
            &b""[..],
            b"\xff",
            b"nonsense",
            b"{",
            b"{}",
            b"[]",
            br#"{"url":5}"#,
            br#"{"url":"a:1","weight":-1}"#,
            br#"{"url":"a:1","tier":10}"#,
            br#"{"host":"a","port":0}"#,
            br#"{"host":"a","port":65536}"#,
            br#"{"host":"a b","port":1}"#,
        ] {
            assert!(entry("a", bad).is_err(), "{:?}", String::from_utf8_lossy(bad));
        }
        assert!(entry("a", "x".repeat(1000).as_bytes()).unwrap_err().len() < 300);
    }
}
