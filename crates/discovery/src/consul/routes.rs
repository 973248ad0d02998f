//! `route_sources: [ { consul: { prefix: thalweg/routes/ } } ]`: keys under a prefix of Consul's key-value store, each
//! one document.

use super::ConsulConsistencySpec;
use super::agent::{Agent, Index, Written, words};
use crate::feed::Feed;
use crate::flaw;
use crate::http_servers::{encoded, refused};
use crate::kept::{Document, Kept, document};
use crate::source::{Source, Watching};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use thalweg_filter::{ConfigFiles, OneOrManySpec, SecretSpec};

/// Longest prefix, in bytes.
const PREFIX: usize = 512;
/// What the token needs.
const RIGHT: &str = "read of the prefix (key_prefix)";

/// Keys under a prefix of Consul's key-value store.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `prefix`")]
pub struct ConsulRoutesSpec {
    /// What the keys begin with, as `thalweg/routes/`. Each key is one document; keys that end with a slash are
    /// folders and are passed over.
    prefix: String,
    /// The agent, or several that know the same: the next is asked when one does not answer. Default
    /// `http://127.0.0.1:8500`.
    #[schemars(extend("x-default" = "http://127.0.0.1:8500"))]
    #[schemars(extend("x-api" = "destination"))]
    url: Option<OneOrManySpec<String>>,
    /// The ACL token, with `read` of the prefix (`key_prefix`).
    #[schemars(extend("x-default-words" = "none"))]
    token: Option<SecretSpec>,
    /// The data centre; default: the agent's own.
    #[schemars(extend("x-default-words" = "the agent's own"))]
    datacenter: Option<String>,
    /// The namespace (Consul Enterprise).
    #[schemars(extend("x-default-words" = "the usual one"))]
    namespace: Option<String>,
    /// The admin partition (Consul Enterprise).
    #[schemars(extend("x-default-words" = "none"))]
    partition: Option<String>,
    /// Who answers: `default`, the leader; `stale`, any server, also without a leader; `consistent`, the leader after
    /// it has asked the others.
    #[schemars(extend("x-default" = "default"))]
    consistency: Option<ConsulConsistencySpec>,
    /// How long a query waits for a change. What is known is at most this old, and a little more.
    #[schemars(extend("x-range" = ["1s", "10m"], "x-default" = "30s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["30s"]))]
    wait: Option<String>,
    /// Certificates in PEM: only a server with a certificate that these vouch for is trusted. Default: those of the
    /// system.
    #[schemars(extend("x-default-words" = "those that the system trusts"))]
    #[schemars(extend("x-api" = "reference"))]
    ca: Option<String>,
}

impl ConsulRoutesSpec {
    /// Checks the arguments.
    ///
    /// # Errors
    /// A sentence that names the wrong one.
    pub(crate) fn documents(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source<[Document]>>, String> {
        let prefix = self.prefix.as_str();
        // Consul's own server takes `//` in a path for a mistake and sends clients elsewhere.
        if prefix.is_empty() || prefix.len() > PREFIX || prefix.starts_with('/') || prefix.contains("//") {
            return Err(format!(
                "`prefix` must have 1 to {PREFIX} bytes, and begins without a slash, as `thalweg/routes/`"
            ));
        }
        if prefix.split('/').any(|part| matches!(part, "." | "..")) {
            return Err("`prefix` must not hold `.` or `..` between slashes".to_owned());
        }
        let (url, token) = (self.url.as_ref(), self.token.as_ref());
        let written = Written { url, token, ca: self.ca.as_deref(), wait: self.wait.as_deref() };
        let agent = Agent::new(&written, files)?;
        let parts: Vec<_> = prefix.split('/').map(encoded).collect();
        let place = [
            ("dc", self.datacenter.as_ref()),
            ("ns", self.namespace.as_ref()),
            ("partition", self.partition.as_ref()),
        ];
        let path = format!("/v1/kv/{}", parts.join("/"));
        let target = format!("{}&recurse=true", agent.target(path, place, self.consistency));
        let query = format!("{prefix}{}", words(place));
        Ok(Arc::new(ConsulKeys { agent, target, query, prefix: prefix.to_owned() }))
    }
}

#[derive(Debug)]
struct ConsulKeys {
    agent: Agent,
    target: String,
    query: String,
    prefix: String,
}

impl Source<[Document]> for ConsulKeys {
    fn kind(&self) -> &'static str {
        "consul"
    }

    fn place(&self) -> String {
        self.agent.servers.place()
    }

    fn query(&self) -> String {
        self.query.clone()
    }

    fn group(&self) -> String {
        format!("{} {}", self.agent.servers.group(), self.target)
    }

    fn silence(&self) -> Duration {
        self.agent.patience()
    }

    fn watch<'a>(
        &'a self,
        _members: &'a [Arc<dyn Source<[Document]>>],
        feed: Feed<[Document]>,
    ) -> Watching<'a> {
        Box::pin(async move {
            let mut index = Index::default();
            loop {
                let answer = match self.agent.ask(&self.target, &index, RIGHT).await {
                    Ok(answer) => answer,
                    Err(why) => return why,
                };
                // Half of a configuration is not one.
                if answer.is_filtered {
                    return format!("the token may not see all keys; it needs {RIGHT}");
                }
                // A proxy before the agent would say something; an agent without keys says nothing.
                let body = match answer.response.body() {
                    body if answer.is_there() => body,
                    body if body.is_empty() => &b"[]"[..],
                    _ => return refused(&answer.response),
                };
                match read(body, &self.prefix) {
                    Ok(kept) => kept.tell(&feed, &self.query),
                    Err(why) => return why,
                }
                index.pass(&answer).await;
            }
        })
    }
}

/// What an agent answers at `/v1/kv/PREFIX?recurse`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConsulKeySpec {
    key: String,
    /// In base64; none where it is empty.
    #[serde(default)]
    value: Option<String>,
}

fn read(body: &[u8], prefix: &str) -> Result<Kept<Document>, String> {
    let keys: Vec<ConsulKeySpec> = serde_json::from_slice(body)
        .map_err(|error| format!("the answer is no list of keys: {}", flaw::json(&error)))?;
    let mut kept = Kept::new(document);
    for ConsulKeySpec { key, value } in keys.into_iter().filter(|key| !key.key.ends_with('/')) {
        let Some(rest) = key.strip_prefix(prefix) else {
            return Err("the answer has keys that do not begin with the prefix".to_owned());
        };
        // The prefix is a key of its own.
        let name = if rest.is_empty() { key.rsplit('/').next().unwrap_or(&key) } else { rest };
        let value = STANDARD.decode(value.unwrap_or_default());
        kept.put(name, &value.map_err(|_| "the value of a key is not in base64".to_owned())?)?;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::tests::Nothing;

    fn built(yaml: &str) -> Result<Arc<dyn Source<[Document]>>, String> {
        serde_saphyr::from_str::<ConsulRoutesSpec>(yaml).unwrap().documents(&Nothing)
    }

    #[test]
    fn keys_are_documents_and_folders_are_none() {
        let body = br#"[{"Key":"r/","Value":null,"Flags":0},{"Key":"r/a","Value":"cm91dGVzOiBbXQ=="},
            {"Key":"r/b/","Value":"eA=="},{"Key":"r/b/c","Value":null}]"#;
        assert_eq!(read(body, "r/").unwrap().count(), 2);
        assert!(read(br#"[{"Key":"r/a","Value":"?"}]"#, "r/").unwrap_err().contains("base64"));
        for bad in [&b"{}"[..], b"", br#"[{"Key":"s/a","Value":""}]"#, br#"[{"Value":""}]"#] {
            assert!(read(bad, "r/").is_err());
        }
        assert_eq!(read(br#"[{"Key":"r/a","Value":""}]"#, "r/a").unwrap().count(), 1);
    }

    #[test]
    fn a_prefix_is_that_of_keys() {
        let source = built("{ prefix: 'a b/c', datacenter: d, namespace: n }").unwrap();
        assert_eq!(source.query(), "a b/c, datacenter d, namespace n");
        assert!(source.group().ends_with("/v1/kv/a%20b/c?wait=30000ms&dc=d&ns=n&recurse=true"));
        for bad in ["''", "/a", "a//b", "a/../b", "."] {
            assert!(built(&format!("{{ prefix: {bad} }}")).is_err(), "{bad}");
        }
    }
}
