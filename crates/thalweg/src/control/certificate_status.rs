//! Certificates as the admin API and the metrics show them, and how others take the place of those in use.

use super::admin::Shared;
use super::certificate_source::Source;
use super::certificates::{Found, IssuedOne, all, issued, valid_ones};
use super::start_error::explain;
use crate::operator_log::{info, warn};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_admin::CertificateStatus;
use thalweg_config::Settings;
use thalweg_config::settings::AdminTls;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{CertificateFiles, ListenerTls, TicketKeyFile, TicketPolicy};
use thalweg_tls::{Acceptor, Certificate, PolicyError};

/// Seconds of a day.
const DAY: i64 = 24 * 60 * 60;

impl Shared {
    /// How the admin listener is secured.
    pub(super) fn running_admin_tls(&self) -> Option<AdminTls> {
        self.admin_tls.get()?;
        self.origin().settings.admin.as_ref()?.tls.clone()
    }

    /// What is wrong with files; `None`: nothing any more.
    pub(super) fn note_problem(&self, source: &Source, problem: Option<String>) {
        let mut problems = self.certificate_problems();
        match problem {
            Some(problem) => problems.insert(source.clone(), problem),
            None => problems.remove(source),
        };
    }

    /// Forgets what is wrong with files that nobody uses.
    pub(super) fn retain_problems(&self, keep: impl Fn(&Source) -> bool) {
        self.certificate_problems().retain(|source, _| keep(source));
    }

    /// When certificates cease to hold, for the metrics. Of several with the same first name the earliest counts.
    pub(super) fn show_certificates(&self, plan: &Plan, admin: Option<&AdminTls>) {
        let mut ends: BTreeMap<[&str; 2], i64> = BTreeMap::new();
        for (listener, certificate, _) in all(plan, admin) {
            let name = certificate.names().first().map(String::as_str).unwrap_or_default();
            let end = unix(certificate.not_after());
            let known = ends.entry([listener.unwrap_or_default(), name]).or_insert(end);
            *known = end.min(*known);
        }
        let issued = issued(plan);
        // Names of the configuration: those on demand are whatever clients ask for.
        for one in issued.iter().filter(|one| !one.stands_in && one.is_configured) {
            let end = unix(one.certificate.not_after());
            let known = ends.entry([one.listener, &one.name]).or_insert(end);
            *known = end.min(*known);
        }
        self.registry.set_certificates(ends.into_iter());
    }

    /// All certificates that are in use.
    pub(super) fn list_certificates(&self) -> Vec<CertificateStatus> {
        let admin = self.running_admin_tls();
        let runtime = self.runtime();
        let problems = self.certificate_problems();
        let now = unix(SystemTime::now());
        let of_files = |(listener, position, certificate, names, files): Shown<'_>| CertificateStatus {
            default: position == 0,
            names: if names.is_empty() { certificate.names() } else { names }.to_vec(),
            cert: Some(files.cert.display().to_string()),
            key: Some(files.key.display().to_string()),
            problem: problems.get(&Source::Pair(files.clone())).cloned(),
            ..status(listener, certificate, now)
        };
        let of_authority = |one: &IssuedOne<'_>| CertificateStatus {
            default: one.is_default,
            names: vec![one.name.clone()],
            authority: Some(one.authority.clone()),
            placeholder: one.stands_in,
            ..status(Some(one.listener), &one.certificate, now)
        };
        let of_listeners = runtime.base.listeners.iter().flat_map(|listener| {
            let tls = listener.tls.iter();
            let entries = tls.flat_map(|tls| tls.acceptor.entries().zip(&*tls.files).enumerate());
            entries.map(|(at, ((certificate, names), files))| {
                (Some(&*listener.name), at, &**certificate, names, files)
            })
        });
        let of_admin = admin.iter().flat_map(|tls| {
            tls.acceptor.entries().map(|(certificate, names)| (None, 0, &**certificate, names, &tls.files))
        });
        let issued = issued(&runtime.base);
        let issued = issued.iter().map(of_authority);
        of_listeners.chain(of_admin).map(of_files).chain(issued).collect()
    }

    /// Valid certificates stay in use where a configuration that is about to take over brings expired ones from the
    /// same files.
    pub(super) fn keep_valid_certificates(
        &self,
        (running, running_settings): (&Plan, &Settings),
        (plan, settings): (&mut Plan, &mut Settings),
    ) {
        let admin = |settings: &Settings| settings.admin.as_ref().and_then(|admin| admin.tls.clone());
        let (before, after) = (admin(running_settings), admin(settings));
        let kept = valid_ones((running, before.as_ref()), (plan, after.as_ref()), SystemTime::now());
        if kept.is_empty() {
            return;
        }
        for listener in &mut plan.listeners {
            // What does not go with the rest of the configuration is what the files say.
            if let Some(Ok(Some(tls))) = listener.tls.as_ref().map(|tls| renewed(tls, &kept)) {
                listener.tls = Some(Arc::new(tls));
            }
        }
        if let Some(tls) = settings.admin.as_mut().and_then(|admin| admin.tls.as_mut())
            && let Some(Found::Certificate(certificate)) = kept.get(&Source::Pair(tls.files.clone()))
            && let Ok(acceptor) = tls.acceptor.with_certificates(vec![(certificate.clone(), Vec::new())])
        {
            tls.acceptor = Arc::new(acceptor);
        }
    }

    /// What files hold now takes the place of what they held: in the plan, which takes over as after a reload, and on
    /// the admin listener.
    pub(super) fn take_over_certificates(&self, fresh: &HashMap<Source, Found>) {
        let mut origin = self.origin();
        let mut runtime = self.runtime();
        let mut base = Plan::clone(&runtime.base);
        for listener in &mut base.listeners {
            let Some(tls) = &listener.tls else { continue };
            match renewed(tls, fresh) {
                Ok(None) => {}
                Ok(Some(tls)) => listener.tls = Some(Arc::new(tls)),
                Err(flaw) => {
                    warn(format_args!("listener `{}` keeps its certificates: {flaw}", listener.name))
                }
            }
        }
        let base = runtime.base.with_plan(base);
        let before = std::mem::replace(&mut runtime.base, base);
        if let Err(error) = self.set_plan(runtime.plan()) {
            runtime.base = before;
            warn(format_args!("certificates stay as they are: {}", explain(&error)));
            return;
        }
        drop(runtime);
        let running = origin.settings.admin.as_mut().and_then(|admin| admin.tls.as_mut());
        if let (Some(tls), Some(running)) = (self.admin_tls.get(), running)
            && let Some(Found::Certificate(certificate)) = fresh.get(&Source::Pair(running.files.clone()))
            && let Ok(acceptor) = running.acceptor.with_certificates(vec![(certificate.clone(), Vec::new())])
        {
            running.acceptor = Arc::new(acceptor);
            tls.replace(running.acceptor.clone());
        }
        drop(origin);
        self.stir();
    }
}

/// What a certificate says of itself.
fn status(listener: Option<&str>, certificate: &Certificate, now: i64) -> CertificateStatus {
    CertificateStatus {
        listener: listener.map(str::to_owned),
        default: false,
        names: Vec::new(),
        addresses: certificate.addresses().iter().map(ToString::to_string).collect(),
        subject: certificate.subject().to_owned(),
        issuer: certificate.issuer().to_owned(),
        self_signed: certificate.is_self_signed(),
        serial: certificate.serial().to_owned(),
        sha256: certificate.digest().iter().map(|byte| format!("{byte:02x}")).collect(),
        key_type: certificate.key_type().to_owned(),
        not_before: certificate.not_before(),
        not_after: certificate.not_after(),
        days_left: (unix(certificate.not_after()) - now).div_euclid(DAY),
        cert: None,
        key: None,
        authority: None,
        placeholder: false,
        problem: None,
    }
}

/// Listener, position, certificate, the names that stand for its own, files.
type Shown<'a> = (Option<&'a str>, usize, &'a Certificate, &'a [String], &'a CertificateFiles);

/// The TLS of a listener with what its files hold now; `None`: nothing of it has changed.
fn renewed(tls: &ListenerTls, fresh: &HashMap<Source, Found>) -> Result<Option<ListenerTls>, PolicyError> {
    let certificate = |files: &CertificateFiles| match fresh.get(&Source::Pair(files.clone())) {
        Some(Found::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    let is_touched = tls.files.iter().any(|files| certificate(files).is_some());
    let acceptor = match is_touched {
        false => tls.acceptor.clone(),
        true => {
            let entries = tls.acceptor.entries().zip(&*tls.files);
            let entries = entries
                .map(|((known, names), files)| (certificate(files).unwrap_or(known).clone(), names.to_vec()));
            Arc::new(Acceptor::with_certificates(&tls.acceptor, entries.collect())?)
        }
    };
    let tickets = tls.tickets.as_ref().and_then(|policy| other_keys(policy, fresh));
    if !is_touched && tickets.is_none() {
        return Ok(None);
    }
    let tickets = tickets.or_else(|| tls.tickets.clone());
    Ok(Some(ListenerTls { acceptor, tickets, ..tls.clone() }))
}

/// Other ticket keys hold at once: who seals and who opens is told by what is shared with the acceptor.
fn other_keys(policy: &TicketPolicy, fresh: &HashMap<Source, Found>) -> Option<TicketPolicy> {
    let file = policy.keys.as_ref()?;
    let Some(Found::Keys(keys)) = fresh.get(&Source::Keys(file.path.clone())) else { return None };
    file.tickets.replace(keys).ok()?;
    info(format_args!("the ticket keys in {} have changed", file.path.display()));
    let keys = Some(TicketKeyFile { digest: keys.digest(), ..file.clone() });
    Some(TicketPolicy { keys, ..policy.clone() })
}

/// Seconds since the Unix epoch.
fn unix(time: SystemTime) -> i64 {
    let seconds = |time: std::time::Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    time.duration_since(UNIX_EPOCH).map_or_else(|before| -seconds(before.duration()), seconds)
}
