//! The configuration that an operator supplied last. Changes with a token are compared with it (decision 0108).
//!
//! An operator supplies a configuration in the file (start, reload) or on the admin socket. A token may change it in
//! steps that are harmless one by one: the first removes a guarded route, the next adds the same route without its
//! guard. So each step is compared with the operator's configuration, beside the one that runs.
//!
//! [`Operator`] is data of [`super::origin::Origin`], under its lock. Invariant: a text that a token has written into
//! the file does not become the operator's when the file is read again. Where `state:` names a directory, this survives
//! a restart: the operator's text and the digests of the texts that tokens have written are kept there, before the file
//! is written.

use super::base::Base;
use super::history::Cause;
use super::kept_file;
use super::origin::Candidate;
use crate::operator_log::warn;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_admin::{ConfigOrigin, Refusal, Via};
use thalweg_config::protections::Apart;
use thalweg_config::settings::Discover;
use thalweg_config::{check_text, endpoint_address};
use thalweg_proxy::Plan;
use thalweg_upstream::{Endpoint, EndpointLimits, Labels, Mode, Service};

/// The file in the state directory.
const FILE: &str = "operator.json";

/// The configuration that an operator supplied last.
#[derive(Debug, Default)]
pub(crate) struct Operator {
    /// `None`: the configuration that runs is the operator's.
    supplied: Option<Arc<Supplied>>,
    /// Where it is kept; `None`: in memory alone.
    path: Option<PathBuf>,
}

/// The form in the file. A later version may add members, so unknown ones are no error.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct OperatorSpec {
    /// The text that the operator supplied.
    text: String,
    /// SHA-256 of texts that tokens have written into the file since, in hexadecimal digits.
    written: Vec<String>,
    /// URLs of the endpoints that sources found for its services, by the service's name.
    found: BTreeMap<String, Vec<String>>,
}

/// An operator's configuration that tokens have changed since.
#[derive(Debug)]
pub(crate) struct Supplied {
    spec: OperatorSpec,
    /// `Err`: why it cannot be read.
    made: Result<Made, String>,
}

/// It with the files that it includes, without documents.
#[derive(Clone, Debug)]
struct Made {
    plan: Plan,
    discover: BTreeMap<Arc<str>, Discover>,
}

impl Made {
    fn of(name: &str, text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("its record was damaged".to_owned());
        }
        let loaded = check_text(name, text, &|name| std::env::var(name).ok()).map_err(|report| {
            let first = report.errors.first();
            let first = first.map(|error| format!("{}: {}", report.place(error.span), error.message));
            first.unwrap_or_else(|| "it has mistakes".to_owned())
        })?;
        Ok(Self { plan: loaded.plan, discover: loaded.settings.discover })
    }
}

impl Operator {
    /// As kept in this directory, or by a predecessor, for a process that starts with this text.
    pub(crate) fn open(
        directory: Option<&Path>,
        passed: Option<OperatorSpec>,
        (name, text): (&str, &str),
    ) -> Self {
        let path = directory.map(|directory| directory.join(FILE));
        let kept = || path.as_deref().map_or_else(|| Ok(OperatorSpec::default()), kept_file::load);
        let passed = passed.filter(|passed| !passed.written.is_empty());
        let supplied = match passed.map_or_else(kept, Ok) {
            Ok(spec) if spec.written.contains(&digest(text)) => {
                let made = Made::of(name, &spec.text);
                Some(Supplied { spec, made })
            }
            // An operator has changed the file since.
            Ok(_) => None,
            Err(error) => {
                let at = path.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
                let why = format!("{at} cannot be read: {error}");
                warn(format_args!("{why}; until an operator supplies a configuration, tokens change none"));
                // Nor does it become the operator's when it is read again.
                let written = vec![digest(text)];
                Some(Supplied { spec: OperatorSpec { written, ..OperatorSpec::default() }, made: Err(why) })
            }
        };
        let operator = Self { supplied: supplied.map(Arc::new), path };
        if operator.supplied.is_none() {
            let _ = operator.keep(None);
        }
        operator
    }

    /// For a successor.
    pub(crate) fn passed(&self) -> OperatorSpec {
        self.supplied.as_ref().map(|supplied| supplied.spec.clone()).unwrap_or_default()
    }

    /// The operator's configuration, if tokens have changed it since.
    pub(crate) fn supplied(&self) -> Option<Arc<Supplied>> {
        self.supplied.clone()
    }

    /// A token is about to replace the running text, and the file's with `in_file`, by `next`.
    ///
    /// # Errors
    /// A sentence: it cannot be kept, and a restart would take the token's text for the operator's.
    pub(super) fn change(
        &mut self,
        (name, running, base): (&str, &str, &Base),
        (in_file, next): (Option<&str>, &str),
    ) -> Result<(), String> {
        let mut spec = match &self.supplied {
            Some(supplied) => supplied.spec.clone(),
            None => OperatorSpec { text: running.to_owned(), ..OperatorSpec::default() },
        };
        let made = match &self.supplied {
            Some(supplied) => supplied.made.clone(),
            None => Made::of(name, running),
        };
        if let Ok(made) = &made {
            spec.note_found(made, base);
        }
        if let Some(in_file) = in_file {
            // Until the file is written, it holds the text before.
            let before = digest(in_file);
            spec.written.retain(|known| *known == before);
            spec.written.push(digest(next));
        }
        let supplied = Some(Arc::new(Supplied { spec, made }));
        self.keep(supplied.as_deref())
            .map_err(|error| format!("the operator's configuration cannot be kept: {error}"))?;
        self.supplied = supplied;
        Ok(())
    }

    /// The operator's configuration once this candidate has taken over.
    pub(super) fn after(
        &self,
        name: &str,
        (cause, candidate): (&Cause, &Candidate),
    ) -> Option<Arc<Supplied>> {
        if cause.origin == ConfigOrigin::Watch {
            return candidate.operator.clone().filter(|supplied| supplied.text() != candidate.text);
        }
        let supplied = self.supplied.as_ref()?;
        let is_back = candidate.text == supplied.spec.text;
        match cause.origin {
            ConfigOrigin::Source => Some(supplied.clone()),
            ConfigOrigin::Put | ConfigOrigin::Rollback => {
                (cause.by.via != Via::Socket && !is_back).then(|| supplied.clone())
            }
            // The file was read: what a token has written there is not the operator's. Files that it includes are.
            _ if supplied.spec.written.contains(&digest(&candidate.text)) && !is_back => {
                let (spec, made) = (supplied.spec.clone(), Made::of(name, &supplied.spec.text));
                Some(Arc::new(Supplied { spec, made }))
            }
            _ => None,
        }
    }

    /// A configuration has taken over, after which this is the operator's.
    pub(super) fn take(&mut self, supplied: Option<Arc<Supplied>>) {
        let is_same = match (&supplied, &self.supplied) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        if is_same {
            return;
        }
        if let Err(error) = self.keep(supplied.as_deref()) {
            // A restart compares with an older configuration then.
            warn(format_args!("the operator's configuration is not kept: {error}"));
        }
        self.supplied = supplied;
    }

    fn keep(&self, supplied: Option<&Supplied>) -> std::io::Result<()> {
        match (&self.path, supplied) {
            (None, _) => Ok(()),
            (Some(path), Some(supplied)) => kept_file::store(path, &supplied.spec),
            (Some(path), None) => match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }
}

impl OperatorSpec {
    /// Takes note of the endpoints that sources have found for services of the operator. Those of services that are
    /// gone stay as they were.
    fn note_found(&mut self, made: &Made, base: &Base) {
        for (service, discover) in
            base.sources().filter(|(service, discover)| made.has(&service.name, discover))
        {
            let found = service.endpoints.iter().skip(discover.written.len());
            self.found.insert(service.name.to_string(), found.map(|it| it.url.to_string()).collect());
        }
    }
}

impl Made {
    /// Whether the operator has this service with this source.
    fn has(&self, service: &str, source: &Discover) -> bool {
        let own = self.discover.get(service);
        own.is_some_and(|own| own.id == source.id)
    }
}

impl Supplied {
    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.spec.text
    }

    /// The plan, with the endpoints that sources have found.
    ///
    /// # Errors
    /// The refusal of a change: the configuration cannot be read any more.
    pub(super) fn plan(&self, base: &Base) -> Result<Plan, Refusal> {
        let made = self.made.as_ref().map_err(|why| {
            Refusal::Conflict(format!(
                "the configuration that an operator supplied last cannot be read: {why}; change the file and reload \
                 it, or send the configuration on the admin socket"
            ))
        })?;
        Ok(self.filled(made, base))
    }

    fn filled(&self, made: &Made, base: &Base) -> Plan {
        let mut plan = made.plan.clone();
        let running: BTreeMap<&str, &Arc<Service>> = base
            .sources()
            .filter(|(service, discover)| made.has(&service.name, discover))
            .map(|(service, _)| (&*service.name, service))
            .collect();
        for service in plan.services.iter_mut().filter(|service| made.discover.contains_key(&service.name)) {
            let found = match running.get(&*service.name) {
                Some(running) => running.endpoints.clone(),
                None => {
                    let urls = self.spec.found.get(&*service.name).into_iter().flatten();
                    urls.filter_map(|url| found(url)).collect()
                }
            };
            let known = &service.endpoints;
            let new = found.into_iter().filter(|it| known.iter().all(|known| known.address != it.address));
            let endpoints = known.iter().cloned().chain(new).collect();
            *service = Arc::new(Service { endpoints, ..Service::clone(service) });
        }
        plan
    }

    /// Services that tokens have brought or changed in a plan, and the services of the operator that they must stay
    /// apart from.
    pub(super) fn apart(
        &self,
        base: &Base,
        (plan, discover): (&Plan, &BTreeMap<Arc<str>, Discover>),
    ) -> Apart {
        let Ok(made) = &self.made else { return Apart::default() };
        let before = self.filled(made, base);
        let is_changed = |name: &str| {
            let of = |plan: &Plan| plan.services.iter().find(|service| *service.name == *name).cloned();
            let (Some(own), Some(now)) = (of(&made.plan), of(plan)) else { return true };
            let has_source = match discover.get(name) {
                Some(source) => made.has(name, source),
                None => !made.discover.contains_key(name),
            };
            let subset = |service: &Service| service.discover.as_ref().map(|policy| policy.subset.clone());
            !has_source || subset(&own) != subset(&now)
        };
        Apart::of_change(&before, plan, &is_changed)
    }
}

/// An endpoint that a source found.
fn found(url: &str) -> Option<Endpoint> {
    let (url, address) = endpoint_address(url).ok()?;
    let (weight, tier, mode, is_added) = (1, 0, Mode::Ready, true);
    let (labels, limits) = (Labels::default(), EndpointLimits::default());
    Some(Endpoint { url, address, weight, tier, mode, labels, limits, is_added })
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
