//! Active health checks: who is to be asked, and what their answers mean for members.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use thalweg_core::Notice;
use thalweg_health::{Checks, News, Report, Target};
use thalweg_upstream::{EndpointSet, EndpointState, Health, Protocol};
use tokio::sync::mpsc;

/// Answers waiting to be taken over.
const WAITING: usize = 256;

/// The checks, and whom they are about.
pub(crate) struct Rounds {
    checks: Checks,
    news: mpsc::Receiver<News>,
    /// Each target with those that it stands for, and what is thought of it.
    asked: HashMap<Target, Asked>,
}

#[derive(Default)]
struct Asked {
    members: Vec<Arc<EndpointState>>,
    verdict: Option<(bool, String)>,
}

impl Rounds {
    /// Starts on the current tokio runtime, with nobody to ask.
    pub(crate) fn start() -> Self {
        let (sink, news) = mpsc::channel(WAITING);
        Self { checks: Checks::start(sink), news, asked: HashMap::new() }
    }

    /// From now on the members of these endpoint sets are asked, as their services say.
    pub(crate) fn ask(&mut self, endpoint_sets: &[Arc<EndpointSet>]) {
        let mut before = std::mem::take(&mut self.asked);
        for endpoint_set in endpoint_sets {
            let Some(policy) = &endpoint_set.service.health else {
                // An answer that was on its way when the checks were dropped may have come since.
                endpoint_set.entries.iter().for_each(|entry| {
                    entry.standing.set_health(Health::Unchecked, Instant::now(), "");
                });
                continue;
            };
            for entry in &endpoint_set.entries {
                let Some(endpoint) = endpoint_set.service.endpoints.get(entry.endpoint as usize) else {
                    continue;
                };
                // Who cannot be spoken to takes no requests either.
                let Ok(connector) = entry.standing.connector() else { continue };
                let target = Target {
                    address: entry.standing.address.clone(),
                    authority: endpoint.authority().into(),
                    tls: connector.cloned(),
                    speaks_http2: endpoint_set.service.protocol == Protocol::Http2,
                    policy: policy.clone(),
                };
                let known = before.remove(&target);
                let asked = self.asked.entry(target).or_default();
                if let Some(known) = known {
                    asked.verdict = known.verdict;
                }
                // Who is new, but is asked already for another service, is judged as that one is.
                if let Some((healthy, why)) = &asked.verdict {
                    judge(&entry.standing, *healthy, why);
                }
                asked.members.push(entry.standing.clone());
            }
        }
        self.checks.set(self.asked.keys().cloned().collect());
    }

    /// Takes over what the next answer says; a line for the operator, where there is one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Notice> {
        match self.news.recv().await {
            Some(News::Report(report)) => self.take_over(report),
            Some(News::Trouble(line)) => Some(Notice::warn(line)),
            None => std::future::pending().await,
        }
    }

    fn take_over(&mut self, report: Report) -> Option<Notice> {
        let asked = self.asked.get_mut(&report.target)?;
        let was = asked.verdict.replace((report.healthy, report.why.clone()));
        asked.members.iter().for_each(|member| judge(member, report.healthy, &report.why));
        let news = match was {
            Some((was, _)) => was != report.healthy,
            None => !report.healthy,
        };
        let line = |verdict: &str| format!("health check of {}: {verdict}: {}", report.target, report.why);
        news.then(|| match report.healthy {
            true => Notice::info(line("healthy again")),
            false => Notice::warn(line("unhealthy")),
        })
    }
}

fn judge(member: &EndpointState, healthy: bool, why: &str) {
    let health = if healthy { Health::Well } else { Health::Unwell };
    member.set_health(health, Instant::now(), why);
}
