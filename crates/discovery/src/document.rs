//! Lists of endpoints as documents: what stands in a file, or what a server answers.
//!
//! ```yaml
//! endpoints:
//!   - "http://10.0.0.1:8080"
//!   - { url: "10.0.0.2:8080", weight: 3, zone: eu-1a, labels: { version: v2 } }
//! ```
//! A list alone is one too. JSON is YAML.

use crate::flaw;
use crate::found::{Found, scale_weights};
use serde::Deserialize;
use std::collections::BTreeMap;
use thalweg_upstream::Labels;

/// What a document holds.
#[derive(Deserialize)]
#[serde(untagged)]
enum DocumentSpec {
    Map(DocumentMapSpec),
    List(Vec<EntrySpec>),
}

#[derive(Deserialize)]
struct DocumentMapSpec {
    endpoints: Vec<EntrySpec>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum EntrySpec {
    Short(String),
    Long(LongEntrySpec),
}

#[derive(Deserialize)]
struct LongEntrySpec {
    #[serde(alias = "address")]
    url: String,
    weight: Option<u32>,
    #[serde(default)]
    tier: u8,
    zone: Option<String>,
    version: Option<String>,
    #[serde(default, alias = "metadata")]
    labels: BTreeMap<String, String>,
}

/// The endpoints of a document.
///
/// # Errors
/// A sentence: it is no such document, or an entry is none. Then none of it is used.
pub(crate) fn endpoints(text: &[u8]) -> Result<Vec<Found>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "the document is not UTF-8".to_owned())?;
    let document: DocumentSpec = serde_saphyr::from_str(text)
        .map_err(|error| format!("the document is not a list of endpoints: {}", flaw::yaml(&error)))?;
    let entries = match document {
        DocumentSpec::Map(map) => map.endpoints,
        DocumentSpec::List(list) => list,
    };
    let each = entries.into_iter().enumerate();
    let each = each
        .map(|(at, entry)| endpoint(entry).map_err(|why| format!("entry {} of the document: {why}", at + 1)));
    let mut found = each.collect::<Result<Vec<_>, _>>()?;
    scale_weights(&mut found);
    Ok(found)
}

fn endpoint(entry: EntrySpec) -> Result<Found, String> {
    let long = match entry {
        EntrySpec::Long(long) => long,
        EntrySpec::Short(url) => {
            LongEntrySpec { url, weight: None, tier: 0, zone: None, version: None, labels: BTreeMap::new() }
        }
    };
    let mut found = located(&long.url)?;
    if long.tier > 9 {
        return Err("its tier must be from 0 to 9".to_owned());
    }
    (found.weight, found.tier) = (long.weight.unwrap_or(1), long.tier);
    let own = [(Labels::ZONE, long.zone), (Labels::VERSION, long.version)];
    let own = own.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)));
    found.labels = own.chain(long.labels).collect();
    Ok(found)
}

/// `[scheme://]host:port`.
///
/// # Errors
/// A sentence, without the text.
pub(crate) fn located(text: &str) -> Result<Found, String> {
    let flaw = || "it is not an endpoint; write `host:port` or `http://host:port`".to_owned();
    let (scheme, rest) = match text.split_once("://") {
        None => (None, text),
        Some((scheme, rest)) => {
            let known =
                ["http", "https", "tcp", "udp"].into_iter().find(|known| scheme.eq_ignore_ascii_case(known));
            (Some(known.ok_or_else(flaw)?), rest.trim_end_matches('/'))
        }
    };
    let usual = match scheme {
        Some("http") => Some(80),
        Some("https") => Some(443),
        _ => None,
    };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
        _ => (rest, usual),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match port.filter(|port| *port != 0) {
        Some(port) if !host.is_empty() && !host.contains(['/', '@', ' ', '?', '#']) => {
            Ok(Found { scheme, ..Found::at(host, port) })
        }
        _ => Err(flaw()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use thalweg_filter::ConfigFiles;

    /// No file, and one variable that holds a secret.
    pub(crate) struct Nothing;

    impl ConfigFiles for Nothing {
        fn path(&self, written: &str) -> std::path::PathBuf {
            written.into()
        }

        fn read(&self, _: &str, _: usize) -> Result<Vec<u8>, String> {
            Err("no file".to_owned())
        }

        fn variable(&self, name: &str) -> Option<String> {
            (name == "KEY").then(|| "k3y\n".to_owned())
        }
    }

    #[test]
    fn a_document_is_a_map_or_a_list_in_yaml_or_json() {
        let yaml =
            endpoints(b"endpoints:\n  - 10.0.0.1:80\n  - { url: 'https://[::1]', weight: 3, zone: a }\n")
                .unwrap();
        let json =
            endpoints(br#"["10.0.0.1:80", {"url":"https://[::1]:443","weight":3,"labels":{"zone":"a"}}]"#);
        assert_eq!(yaml, json.unwrap());
        assert_eq!(yaml[1].url("http"), "https://[::1]:443");
        assert_eq!(yaml[0].url("http"), "http://10.0.0.1:80");
        assert_eq!(yaml[1].labels.get("zone"), Some("a"));
        assert_eq!(endpoints(b"[]").unwrap(), []);
    }

    #[test]
    fn what_is_none_is_refused_whole() {
        for bad in [
            &b""[..],
            b"{",
            b"endpoints: 3",
            b"[10.0.0.1]",
            b"['ftp://a:1']",
            b"[a:0]",
            b"['u@a:1']",
            b"\xff",
        ] {
            assert!(endpoints(bad).is_err(), "{:?}", String::from_utf8_lossy(bad));
        }
        assert!(endpoints(b"[{ url: 'a:1', tier: 10 }]").is_err());
    }
}
