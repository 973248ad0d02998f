//! `discover: { consul: { service: checkout } }`: the health endpoint of a Consul agent, by blocking queries.
//!
//! One query waits at the agent until what it asks for has changed or `wait` is over. The rules for the index are those
//! of Consul's documentation ("Blocking Queries"): it is taken from `X-Consul-Index`, forgotten when it goes back,
//! never 0 where one waits, and answers that come at once are limited in their rate.

mod answer;

use crate::feed::Feed;
use crate::http_servers::{HttpServers, encoded, refused, time, trust};
use crate::source::{Source, Watching};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use thalweg_filter::{ConfigFiles, OneOrManySpec, SecretSpec};

/// The agent of the same machine.
const URL: &str = "http://127.0.0.1:8500";
/// How long a query waits for a change, where nothing is written.
const WAIT: Duration = Duration::from_secs(30);
/// What an agent may take beyond the time that a query waits, and the sixteenth of it that it adds.
const GRACE: Duration = Duration::from_secs(5);
/// Between two queries: a service that changes all the time is not asked for all the time.
const PAUSE: Duration = Duration::from_millis(100);
/// After an index that went back: then the next query does not wait.
const AFTER_RESET: Duration = Duration::from_secs(1);
/// The most tags.
const TAGS: usize = 16;

/// A service in the catalogue of Consul.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `service`")]
pub struct ConsulSourceSpec {
    /// Its name there.
    service: String,
    /// The agent, or several that know the same: the next is asked when one does not answer. Default
    /// `http://127.0.0.1:8500`.
    #[schemars(extend("x-default" = "http://127.0.0.1:8500"))]
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
        let usual = OneOrManySpec::One(URL.to_owned());
        let urls = listed(self.url.as_ref().or(Some(&usual)));
        let mut fields = Vec::new();
        if let Some(token) = &self.token {
            let token = String::from_utf8(token.read(files)?)
                .map_err(|_| "`token` is not text; write the secret ID of the token")?;
            fields.push(("x-consul-token", token));
        }
        let servers = HttpServers::new(urls, fields, trust(self.ca.as_deref(), files)?)?;
        let range = (Duration::from_secs(1), Duration::from_secs(600));
        let wait = time(("wait", self.wait.as_deref()), WAIT, range)?;
        let health = self.health.unwrap_or_default();
        Ok(Arc::new(Consul {
            servers,
            wait,
            health,
            target: self.target(tags, wait),
            query: self.query(tags),
        }))
    }

    /// Path and query, without the index.
    fn target(&self, tags: &[String], wait: Duration) -> String {
        let mut target = format!("/v1/health/service/{}?wait={}ms", encoded(&self.service), wait.as_millis());
        let own = [("dc", &self.datacenter), ("ns", &self.namespace), ("partition", &self.partition)];
        for (name, value) in own {
            if let Some(value) = value {
                target.push_str(&format!("&{name}={}", encoded(value)));
            }
        }
        for tag in tags {
            target.push_str(&format!("&tag={}", encoded(tag)));
        }
        if self.health.unwrap_or_default() == ConsulHealthSpec::Passing {
            target.push_str("&passing=1");
        }
        target.push_str(match self.consistency {
            None | Some(ConsulConsistencySpec::Default) => "",
            Some(ConsulConsistencySpec::Stale) => "&stale",
            Some(ConsulConsistencySpec::Consistent) => "&consistent",
        });
        target
    }

    fn query(&self, tags: &[String]) -> String {
        let mut query = self.service.clone();
        let own = [
            ("datacenter", &self.datacenter),
            ("namespace", &self.namespace),
            ("partition", &self.partition),
        ];
        for (name, value) in own {
            if let Some(value) = value {
                query.push_str(&format!(", {name} {value}"));
            }
        }
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
    servers: HttpServers,
    wait: Duration,
    health: ConsulHealthSpec,
    target: String,
    query: String,
}

impl Consul {
    /// The longest that an answer takes where all is well.
    fn patience(&self) -> Duration {
        self.wait + self.wait / 16 + GRACE
    }
}

impl Source for Consul {
    fn kind(&self) -> &'static str {
        "consul"
    }

    fn place(&self) -> String {
        self.servers.place()
    }

    fn query(&self) -> String {
        self.query.clone()
    }

    fn group(&self) -> String {
        format!("{} {}", self.servers.group(), self.target)
    }

    fn silence(&self) -> Duration {
        self.patience()
    }

    fn watch<'a>(&'a self, _members: &'a [Arc<dyn Source>], feed: Feed) -> Watching<'a> {
        Box::pin(async move {
            let mut index = Index::default();
            loop {
                let target = format!("{}{}", self.target, index.parameter());
                let response = match self.servers.get(&target, self.patience()).await {
                    Ok(response) => response,
                    Err(why) => return why,
                };
                let field = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
                match response.status().as_u16() {
                    200 => {}
                    403 => {
                        return format!("{}; `token` needs service:read and node:read", refused(&response));
                    }
                    _ => return refused(&response),
                }
                let Some(new) = field("x-consul-index").and_then(|index| index.parse().ok()) else {
                    return "the answer has no X-Consul-Index; is `url` that of a Consul agent?".to_owned();
                };
                let is_filtered = field("x-consul-results-filtered-by-acls") == Some("true");
                let answer = match answer::read(response.body(), self.health) {
                    Ok(answer) => answer,
                    Err(why) => return why,
                };
                // A token that has lost its rights sees nothing; that is not to say that there is nothing.
                if is_filtered && answer.found.is_empty() {
                    return "the token may not see the service; it needs service:read and node:read"
                        .to_owned();
                }
                feed.found(&self.query, answer.found);
                if let Some(flaw) = answer.flaw {
                    feed.flawed(&self.query, flaw);
                }
                tokio::time::sleep(index.moved(new)).await;
            }
        })
    }
}

/// Up to where what is known reaches; 0: nothing is known, and a query does not wait.
#[derive(Debug, Default)]
struct Index(u64);

impl Index {
    fn parameter(&self) -> String {
        if self.0 == 0 { String::new() } else { format!("&index={}", self.0) }
    }

    /// An answer with this index has come; how long to pause before the next query.
    fn moved(&mut self, new: u64) -> Duration {
        if new < self.0 {
            *self = Self::default();
            return AFTER_RESET;
        }
        self.0 = new.max(1);
        PAUSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_goes_back_is_forgotten_and_none_is_ever_zero() {
        let mut index = Index::default();
        assert_eq!(index.parameter(), "");
        assert_eq!((index.moved(0), index.parameter()), (PAUSE, "&index=1".to_owned()));
        assert_eq!((index.moved(12), index.parameter()), (PAUSE, "&index=12".to_owned()));
        assert_eq!((index.moved(12), index.parameter()), (PAUSE, "&index=12".to_owned()));
        assert_eq!((index.moved(3), index.parameter()), (AFTER_RESET, String::new()));
        assert_eq!((index.moved(3), index.parameter()), (PAUSE, "&index=3".to_owned()));
    }

    #[test]
    fn what_is_asked_for_stands_in_path_and_query() {
        let yaml = "{ service: a/b, datacenter: dc2, tags: [x y, z], health: warning, consistency: stale }";
        let spec: ConsulSourceSpec = serde_saphyr::from_str(yaml).unwrap();
        let tags = listed(spec.tags.as_ref());
        assert_eq!(
            spec.target(tags, WAIT),
            "/v1/health/service/a%2Fb?wait=30000ms&dc=dc2&tag=x%20y&tag=z&stale"
        );
        assert_eq!(spec.query(tags), "a/b, datacenter dc2, tag x y, tag z, also with warnings");
    }
}
