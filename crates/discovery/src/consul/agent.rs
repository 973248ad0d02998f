//! An agent of Consul, asked by queries that wait.

use super::{ConsulConsistencySpec, listed};
use crate::http_servers::{HttpServers, encoded, refused, time, trust};
use std::fmt;
use std::time::Duration;
use thalweg_client::{Bytes, Response};
use thalweg_filter::{ConfigFiles, OneOrManySpec, SecretSpec};

/// The agent of the same machine.
const URL: &str = "http://127.0.0.1:8500";
/// How long a query waits for a change, where nothing is written.
const WAIT: Duration = Duration::from_secs(30);
/// What an agent may take beyond the time that a query waits, and the sixteenth of it that it adds.
const GRACE: Duration = Duration::from_secs(5);
/// Between two queries: what changes all the time is not asked for all the time.
const PAUSE: Duration = Duration::from_millis(100);
/// After an index that went back: then the next query does not wait.
const AFTER_RESET: Duration = Duration::from_secs(1);

/// How an agent is reached, as it is written.
pub(super) struct Written<'a> {
    pub(super) url: Option<&'a OneOrManySpec<String>>,
    pub(super) token: Option<&'a SecretSpec>,
    pub(super) ca: Option<&'a str>,
    pub(super) wait: Option<&'a str>,
}

/// Where in Consul something is, with the names of the parameters of a query.
pub(super) type Place<'a> = [(&'static str, Option<&'a String>); 3];

/// The same for people, behind what is asked for.
pub(super) fn words(place: Place<'_>) -> String {
    let named = ["datacenter", "namespace", "partition"].into_iter().zip(place);
    named.filter_map(|(name, (_, value))| Some(format!(", {name} {}", value?))).collect()
}

/// The agent, or several that know the same.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) servers: HttpServers,
    wait: Duration,
}

/// An answer of an agent.
pub(super) struct Answer {
    pub(super) response: Response<Bytes>,
    index: u64,
    /// Whether the token may not see all that there is.
    pub(super) is_filtered: bool,
}

impl Answer {
    /// Whether there is what was asked for.
    pub(super) fn is_there(&self) -> bool {
        self.response.status().as_u16() == 200
    }
}

impl Agent {
    /// # Errors
    /// A sentence that names the wrong key.
    pub(super) fn new(written: &Written<'_>, files: &dyn ConfigFiles) -> Result<Self, String> {
        let usual = OneOrManySpec::One(URL.to_owned());
        let urls = listed(written.url.or(Some(&usual)));
        let mut fields = Vec::new();
        if let Some(token) = written.token {
            let token = String::from_utf8(token.read(files)?)
                .map_err(|_| "`token` is not text; write the secret ID of the token")?;
            fields.push(("x-consul-token", token));
        }
        let servers = HttpServers::new(urls, fields, trust(written.ca, files)?)?;
        let range = (Duration::from_secs(1), Duration::from_secs(600));
        let wait = time(("wait", written.wait), WAIT, range)?;
        Ok(Self { servers, wait })
    }

    /// Path and query of what waits for a change, without the index.
    pub(super) fn target(
        &self,
        path: impl fmt::Display,
        place: Place<'_>,
        consistency: Option<ConsulConsistencySpec>,
    ) -> String {
        let mut target = format!("{path}?wait={}ms", self.wait.as_millis());
        for (name, value) in place {
            if let Some(value) = value {
                target.push_str(&format!("&{name}={}", encoded(value)));
            }
        }
        target.push_str(match consistency {
            None | Some(ConsulConsistencySpec::Default) => "",
            Some(ConsulConsistencySpec::Stale) => "&stale",
            Some(ConsulConsistencySpec::Consistent) => "&consistent",
        });
        target
    }

    /// The longest that an answer takes where all is well.
    pub(super) fn patience(&self) -> Duration {
        self.wait + self.wait / 16 + GRACE
    }

    /// What has changed since the index; 404 means that there is nothing. `right` is what the token needs.
    ///
    /// # Errors
    /// A sentence.
    pub(super) async fn ask(&self, target: &str, index: &Index, right: &str) -> Result<Answer, String> {
        let target = format!("{target}{}", index.parameter());
        let response = self.servers.get(&target, self.patience()).await?;
        let field = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        match response.status().as_u16() {
            200 | 404 => {}
            403 => return Err(format!("{}; `token` needs {right}", refused(&response))),
            _ => return Err(refused(&response)),
        }
        let Some(index) = field("x-consul-index").and_then(|index| index.parse().ok()) else {
            return Err(match response.status().as_u16() {
                200 => "the answer has no X-Consul-Index; is `url` that of a Consul agent?".to_owned(),
                _ => refused(&response),
            });
        };
        let is_filtered = field("x-consul-results-filtered-by-acls") == Some("true");
        Ok(Answer { response, index, is_filtered })
    }
}

/// Up to where what is known reaches; 0: nothing is known, and a query does not wait.
#[derive(Debug, Default)]
pub(super) struct Index(u64);

impl Index {
    fn parameter(&self) -> String {
        if self.0 == 0 { String::new() } else { format!("&index={}", self.0) }
    }

    /// An answer has been taken over; pauses before the next query.
    pub(super) async fn pass(&mut self, answer: &Answer) {
        let pause = self.moved(answer.index);
        tokio::time::sleep(pause).await;
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
}
