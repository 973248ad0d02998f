//! `discover: { consul: { service: checkout } }`: the health endpoint of a Consul agent, by blocking queries.
//!
//! One query waits at the agent until what it asks for has changed or `wait` is over. The rules for the index are those
//! of Consul's documentation ("Blocking Queries"): it is taken from `X-Consul-Index`, forgotten when it goes back,
//! never 0 where one waits, and answers that come at once are limited in their rate.

mod agent;
mod answer;
pub(crate) mod routes;

use crate::feed::Feed;
use crate::http_servers::{encoded, refused};
use crate::source::{Source, Watching};
use agent::{Agent, Index, Place, Written};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use thalweg_filter::{ConfigFiles, OneOrManySpec, SecretSpec};

/// The most tags.
const TAGS: usize = 16;
/// What the token needs.
const RIGHT: &str = "service:read and node:read";

/// A service in the catalogue of Consul.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `service`")]
pub struct ConsulSourceSpec {
    /// Its name there.
    #[schemars(extend("x-shown" = true))]
    service: String,
    /// The agent, or several that know the same: the next is asked when one does not answer. Default
    /// `http://127.0.0.1:8500`.
    #[schemars(extend("x-default" = "http://127.0.0.1:8500"))]
    #[schemars(extend("x-api" = "destination"))]
    url: Option<OneOrManySpec<String>>,
    /// The ACL token, with `service:read` and `node:read`.
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
    /// Only instances that have all of these tags.
    #[schemars(extend("x-default-words" = "any"))]
    tags: Option<OneOrManySpec<String>>,
    /// Which instances are used: `passing`, those whose checks all pass (default); `warning`, those with warnings too,
    /// with their weight for warnings; `any`, whatever their checks say.
    #[schemars(extend("x-default" = "passing"))]
    health: Option<ConsulHealthSpec>,
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

/// Which instances are used.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ConsulHealthSpec {
    /// Those whose checks all pass.
    #[default]
    Passing,
    /// Those with warnings too.
    Warning,
    /// All.
    Any,
}

/// Who answers.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ConsulConsistencySpec {
    /// The leader.
    Default,
    /// Any server.
    Stale,
    /// The leader, after it has asked the others.
    Consistent,
}

impl ConsulSourceSpec {
    /// Checks the arguments.
    ///
    /// # Errors
    /// A sentence that names the wrong one.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source>, String> {
        if self.service.is_empty() {
            return Err("`service` is empty; write the name under which it is registered".to_owned());
        }
        let tags = listed(self.tags.as_ref());
        if tags.len() > TAGS || tags.iter().any(String::is_empty) {
            return Err(format!("`tags` must be at most {TAGS}, and none of them empty"));
        }
        let (url, token) = (self.url.as_ref(), self.token.as_ref());
        let written = Written { url, token, ca: self.ca.as_deref(), wait: self.wait.as_deref() };
        let agent = Agent::new(&written, files)?;
        let health = self.health.unwrap_or_default();
        Ok(Arc::new(Consul { target: self.target(&agent, tags), query: self.query(tags), agent, health }))
    }

    /// In which place of Consul the service is.
    fn place(&self) -> Place<'_> {
        [
            ("dc", self.datacenter.as_ref()),
            ("ns", self.namespace.as_ref()),
            ("partition", self.partition.as_ref()),
        ]
    }

    /// Path and query, without the index.
    fn target(&self, agent: &Agent, tags: &[String]) -> String {
        let path = format!("/v1/health/service/{}", encoded(&self.service));
        let mut target = agent.target(path, self.place(), self.consistency);
        for tag in tags {
            target.push_str(&format!("&tag={}", encoded(tag)));
        }
        if self.health.unwrap_or_default() == ConsulHealthSpec::Passing {
            target.push_str("&passing=1");
        }
        target
    }

    fn query(&self, tags: &[String]) -> String {
        let mut query = self.service.clone();
        query.push_str(&agent::words(self.place()));
        for tag in tags {
            query.push_str(&format!(", tag {tag}"));
        }
        match self.health.unwrap_or_default() {
            ConsulHealthSpec::Passing => {}
            ConsulHealthSpec::Warning => query.push_str(", also with warnings"),
            ConsulHealthSpec::Any => query.push_str(", in any health"),
        }
        query
    }
}

/// What is written, as a list.
fn listed(written: Option<&OneOrManySpec<String>>) -> &[String] {
    written.map_or(&[], OneOrManySpec::as_slice)
}

#[derive(Debug)]
struct Consul {
    agent: Agent,
    health: ConsulHealthSpec,
    target: String,
    query: String,
}

impl Source for Consul {
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

    fn watch<'a>(&'a self, _members: &'a [Arc<dyn Source>], feed: Feed) -> Watching<'a> {
        Box::pin(async move {
            let mut index = Index::default();
            loop {
                let asked = match self.agent.ask(&self.target, &index, RIGHT).await {
                    Ok(answer) if answer.is_there() => answer,
                    Ok(answer) => return refused(&answer.response),
                    Err(why) => return why,
                };
                let answer = match answer::read(asked.response.body(), self.health) {
                    Ok(answer) => answer,
                    Err(why) => return why,
                };
                // A token that has lost its rights sees nothing; that is not to say that there is nothing.
                if asked.is_filtered && answer.found.is_empty() {
                    return format!("the token may not see the service; it needs {RIGHT}");
                }
                feed.found(&self.query, answer.found);
                if let Some(flaw) = answer.flaw {
                    feed.flawed(&self.query, flaw);
                }
                index.pass(&asked).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::tests::Nothing;

    #[test]
    fn what_is_asked_for_stands_in_path_and_query() {
        let yaml = "{ service: a/b, datacenter: dc2, tags: [x y, z], health: warning, consistency: stale }";
        let spec: ConsulSourceSpec = serde_saphyr::from_str(yaml).unwrap();
        let source = spec.build(&Nothing).unwrap();
        let target = "/v1/health/service/a%2Fb?wait=30000ms&dc=dc2&stale&tag=x%20y&tag=z";
        assert!(source.group().ends_with(target), "{}", source.group());
        assert_eq!(source.query(), "a/b, datacenter dc2, tag x y, tag z, also with warnings");
    }
}
