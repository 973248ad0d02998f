//! Certificates while the proxy runs: their files are looked at, those that change take over, and what is about to
//! expire is told.
//!
//! Called by control twice a second, and whenever another plan is in force. It looks as `run --watch` does
//! (`files.rs`), but always, and the configuration is not read again. Invariant: what does not fit changes nothing; the
//! old certificate goes on.

use super::admin::Shared;
use super::certificate_source::Source;
use super::config_events::event;
use super::files::Files;
use crate::operator_log::warn;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use thalweg_config::refresh_files;
use thalweg_config::settings::AdminTls;
use thalweg_core::EventKind;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{CertificateFiles, Listener, To};
use thalweg_tls::acme::local;
use thalweg_tls::{Certificate, TicketKeys};

/// Looks at which a pair that does not fit is tried again before it is told: of two files one is written first.
const RETRIES: u8 = 2;
/// Days before the end at which it is told that it comes, and that it has.
const STEPS: [u64; 4] = [0, 1, 7, 30];
/// Certificates that are told of one by one when the same happens to many.
const TOLD: usize = 20;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What it holds.
#[derive(Debug)]
pub(super) enum Found {
    Certificate(Arc<Certificate>),
    Keys(TicketKeys),
}

impl Source {
    fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Pair(CertificateFiles { cert, key }) => vec![cert, key],
            Self::Keys(path) => vec![path],
        }
    }

    fn read(&self) -> Result<Found, String> {
        match self {
            Self::Pair(files) => {
                refresh_files::certificate(files).map(|read| Found::Certificate(Arc::new(read)))
            }
            Self::Keys(path) => refresh_files::ticket_keys(path).map(Found::Keys),
        }
    }
}

impl Found {
    fn digest(&self) -> [u8; 32] {
        match self {
            Self::Certificate(certificate) => certificate.whole_digest(),
            Self::Keys(keys) => keys.digest(),
        }
    }
}

/// What is looked at.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    files: Files,
    /// All there is, and what of it is in use.
    used: HashMap<Source, Used>,
    /// How each was when it was read last.
    read: HashMap<Source, [u8; 32]>,
    /// To be read at the next look whatever their files say.
    due: HashSet<Source>,
    /// Those that do not fit, with the looks that are left before it is told.
    doubtful: HashMap<Source, u8>,
    /// That of the admin listener.
    admin: Option<AdminTls>,
    /// The nearest step at which the end of a certificate, by its digest, was told.
    told: HashMap<[u8; 32], u64>,
    /// Certificates of files that are here already, by digest.
    known: HashSet<[u8; 32]>,
}

/// What is in use of a source.
#[derive(Clone, Copy, Debug)]
struct Used {
    digest: [u8; 32],
    /// The certificate's end.
    ends: Option<SystemTime>,
}

impl Certificates {
    /// Whether there is nothing to look at.
    pub(crate) fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    /// Another plan is in force, or the first one. What has taken over is told, and from now on its files are looked
    /// at.
    pub(crate) fn follow(&mut self, shared: &Shared, before: Option<&Plan>, plan: &Plan) {
        let admin = shared.running_admin_tls();
        if before.is_some_and(|before| have_same_tls(before, plan)) && admin == self.admin {
            return;
        }
        if let Some(before) = before {
            let mut causes = replaced(before, plan);
            if let (Some(old), Some(new)) = (&self.admin, &admin)
                && old.acceptor != new.acceptor
                && old.files == new.files
            {
                let words = |of: &Arc<Certificate>| {
                    format!("{}: it is used now", named(None, of, Origin::Files(&new.files)))
                };
                causes.extend(new.acceptor.certificates().map(words));
            }
            tell(shared, EventKind::CertificateReplaced, causes);
        }
        self.admin = admin;
        self.used = used(plan, self.admin.as_ref());
        let paths: HashSet<PathBuf> =
            self.used.keys().flat_map(|source| source.paths()).map(Path::to_owned).collect();
        let mut paths: Vec<_> = paths.into_iter().collect();
        paths.sort_unstable();
        // A change between the reading of the configuration and now is not lost.
        let behind = self.files.replace(paths) && !shared.runs_what_is_written();
        for (source, Used { digest, .. }) in &self.used {
            // Brought back with an old configuration, or written since it was read.
            let differs = self.read.get(source).is_some_and(|read| read != digest);
            if behind || differs {
                self.due.insert(source.clone());
            } else {
                self.read.insert(source.clone(), *digest);
            }
        }
        self.read.retain(|source, _| self.used.contains_key(source));
        self.due.retain(|source| self.used.contains_key(source));
        self.doubtful.retain(|source, _| self.used.contains_key(source));
        shared.retain_problems(|source| self.used.contains_key(source));
        shared.show_certificates(plan, self.admin.as_ref());
        self.tell_ends(shared, plan, SystemTime::now());
    }

    /// What an authority has issued meanwhile shows in the metrics too.
    pub(crate) fn show(&self, shared: &Shared, plan: &Plan) {
        shared.show_certificates(plan, self.admin.as_ref());
    }

    /// Looks at the files. What has changed and fits takes over.
    pub(crate) fn look(&mut self, shared: &Shared) {
        let changed: HashSet<PathBuf> = self.files.changed().into_iter().collect();
        if !changed.is_empty() {
            let is_changed = |source: &&Source| source.paths().iter().any(|path| changed.contains(*path));
            for source in self.used.keys().filter(is_changed) {
                self.due.insert(source.clone());
                self.doubtful.remove(source);
            }
        }
        let again = self.doubtful.keys().cloned();
        let due: HashSet<Source> = self.due.drain().chain(again).collect();
        let (mut fresh, mut failed) = (HashMap::new(), Vec::new());
        for source in due {
            match source.read() {
                Ok(found) => {
                    if let Some(why) = self.refusal(&source, &found, SystemTime::now()) {
                        failed.extend(self.doubt(shared, source, why));
                        continue;
                    }
                    let digest = found.digest();
                    self.doubtful.remove(&source);
                    self.read.insert(source.clone(), digest);
                    shared.note_problem(&source, None);
                    if self.used.get(&source).is_some_and(|used| used.digest != digest) {
                        fresh.insert(source, found);
                    }
                }
                Err(why) => failed.extend(self.doubt(shared, source, why)),
            }
        }
        tell(shared, EventKind::CertificateFailed, failed);
        if !fresh.is_empty() {
            shared.take_over_certificates(&fresh);
        }
    }

    /// Why what a source holds does not take over although it fits: an expired certificate never replaces a valid one.
    fn refusal(&self, source: &Source, found: &Found, now: SystemTime) -> Option<String> {
        let used = self.used.get(source)?;
        match found {
            Found::Certificate(certificate)
                if certificate.has_expired(now) && used.ends.is_some_and(|ends| ends > now) =>
            {
                Some("the certificate in the file has expired, and the one in use is valid".to_owned())
            }
            Found::Certificate(_) | Found::Keys(_) => None,
        }
    }

    /// It does not fit: that is told when it still does not some looks later.
    fn doubt(&mut self, shared: &Shared, source: Source, why: String) -> Option<String> {
        let left = self.doubtful.entry(source.clone()).or_insert(RETRIES + 1);
        *left -= 1;
        if *left > 0 {
            return None;
        }
        self.doubtful.remove(&source);
        let file = source.paths().first().map(|path| path.display().to_string()).unwrap_or_default();
        shared.note_problem(&source, Some(why.clone()));
        Some(format!("{file}: {why}; what was read before goes on"))
    }

    /// Tells which certificates will have expired before long, once for each step.
    pub(crate) fn tell_ends(&mut self, shared: &Shared, plan: &Plan, now: SystemTime) {
        let (mut known, mut causes) = (HashSet::new(), Vec::new());
        let issued = issued(plan);
        let of_files = all(plan, self.admin.as_ref())
            .map(|(listener, certificate, files)| (listener, certificate, Origin::Files(files)));
        let of_authority = issued.iter().filter(|one| !one.stands_in);
        let of_authority =
            of_authority.map(|one| (Some(one.listener), &one.certificate, Origin::Authority(&one.authority)));
        for (listener, certificate, origin) in of_files.chain(of_authority) {
            let digest = certificate.digest();
            if !known.insert(digest) {
                continue;
            }
            // Those that renew themselves do so well before: what is nearer than that is news.
            let first = if matches!(origin, Origin::Files(_)) { STEPS[3] } else { STEPS[2] };
            let passed = step(now, certificate.not_before(), certificate.not_after());
            // One of a file is told of as soon as it is here, however short its life is: it may be the wrong one.
            let is_new = matches!(origin, Origin::Files(_)) && self.known.insert(digest);
            let at_once = || step_at_arrival(now, certificate.not_after());
            let passed = passed.filter(|step| *step <= first).or_else(|| is_new.then(at_once).flatten());
            let Some(passed) = passed.filter(|step| self.told.get(&digest).is_none_or(|told| step < told))
            else {
                continue;
            };
            self.told.insert(digest, passed);
            let left = certificate.not_after().duration_since(now).unwrap_or_default();
            let when = match (passed, left.as_secs() / DAY.as_secs()) {
                (0, _) => "it has expired".to_owned(),
                (_, 0) => "it expires in less than a day".to_owned(),
                (_, 1) => "it expires in 1 day".to_owned(),
                (_, days) => format!("it expires in {days} days"),
            };
            causes.push(format!("{}: {when}", named(listener, certificate, origin)));
        }
        tell(shared, EventKind::CertificateExpiring, causes);
        self.told.retain(|digest, _| known.contains(digest));
        self.known.retain(|digest| known.contains(digest));
    }
}

/// Tells of each up to a bound, and how many more there are: a disk that is gone is one thing, however many
/// certificates stand on it.
fn tell(shared: &Shared, kind: EventKind, causes: Vec<String>) {
    let more = causes.len().saturating_sub(TOLD);
    let rest = (more > 0).then(|| format!("and {more} more certificates"));
    for cause in causes.into_iter().take(TOLD).chain(rest) {
        warn(format_args!("{}: {cause}", kind.name()));
        shared.publish(event(kind, cause));
    }
}

/// Where a certificate comes from.
#[derive(Clone, Copy, Debug)]
enum Origin<'a> {
    Files(&'a CertificateFiles),
    Authority(&'a str),
}

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(files) => write!(f, "{}", files.cert.display()),
            Self::Authority(authority) => write!(f, "from {authority}"),
        }
    }
}

/// ``listener `web`, a.test, b.test (site.pem)``
fn named(listener: Option<&str>, certificate: &Certificate, origin: Origin<'_>) -> String {
    const NAMES: usize = 3;
    let listener = listener.map_or("the admin API".to_owned(), |name| format!("listener `{name}`"));
    let names = certificate.names();
    let more = if names.len() > NAMES { ", …" } else { "" };
    let first = names[..names.len().min(NAMES)].join(", ");
    let first = if first.is_empty() { String::new() } else { format!(", {first}{more}") };
    format!("{listener}{first} ({origin})")
}

/// One that an authority issues, or what stands in for it.
#[derive(Debug)]
pub(super) struct IssuedOne<'a> {
    pub(super) listener: &'a str,
    /// As it was asked for.
    pub(super) name: String,
    pub(super) certificate: Arc<Certificate>,
    pub(super) stands_in: bool,
    /// The configuration has the name; a client came with it otherwise.
    pub(super) is_configured: bool,
    /// It answers clients that name no host.
    pub(super) is_default: bool,
    /// Its directory, or `local`.
    pub(super) authority: String,
}

/// Everything that authorities have issued for the listeners of a plan.
pub(super) fn issued(plan: &Plan) -> Vec<IssuedOne<'_>> {
    let mut all = Vec::new();
    for listener in &plan.listeners {
        let Some(tls) = &listener.tls else { continue };
        let Some(issued) = tls.acceptor.issued() else { continue };
        let authority = tls.acme.as_ref().map_or(local::MARK.to_owned(), |acme| acme.directory.to_string());
        let configured: HashSet<&String> = issued.names.iter().collect();
        let first = issued.names.first().filter(|_| tls.files.is_empty());
        all.extend(issued.shown().into_iter().map(|(name, certificate, stands_in)| IssuedOne {
            listener: &listener.name,
            is_configured: configured.contains(&name),
            is_default: first == Some(&name),
            authority: authority.clone(),
            name,
            certificate,
            stands_in,
        }));
    }
    all
}

/// Every certificate of a file that is in use, with its listener, if it is one of a listener.
pub(super) fn all<'a>(
    plan: &'a Plan,
    admin: Option<&'a AdminTls>,
) -> impl Iterator<Item = (Option<&'a str>, &'a Arc<Certificate>, &'a CertificateFiles)> {
    let of_listener = |listener: &'a Listener| {
        let tls = listener.tls.iter();
        tls.flat_map(|tls| tls.acceptor.certificates().zip(&*tls.files))
            .map(|(certificate, files)| (Some(&*listener.name), certificate, files))
    };
    let of_admin = admin
        .into_iter()
        .flat_map(|tls| tls.acceptor.certificates().map(|certificate| (None, certificate, &tls.files)));
    plan.listeners.iter().flat_map(of_listener).chain(of_admin)
}

/// For each of these listeners, and the admin API, the certificates in use that are valid while their files hold
/// expired ones.
pub(super) fn valid_ones(
    (before, admin_before): (&Plan, Option<&AdminTls>),
    (after, admin_after): (&Plan, Option<&AdminTls>),
    now: SystemTime,
) -> HashMap<Source, Found> {
    let valid = all(before, admin_before).filter(|(_, certificate, _)| !certificate.has_expired(now));
    let valid: HashMap<_, _> = valid.map(|(_, certificate, files)| (files, certificate)).collect();
    let expired = all(after, admin_after).filter(|(_, certificate, _)| certificate.has_expired(now));
    let kept = expired.filter_map(|(_, _, files)| Some((files, *valid.get(files)?)));
    kept.map(|(files, valid)| (Source::Pair(files.clone()), Found::Certificate(valid.clone()))).collect()
}

/// Files that are looked at all the time, so that what changes in them needs no reload: certificates with their keys,
/// keys of tickets, and revoked labels.
pub(super) fn refreshed_files(plan: &Plan, admin: Option<&AdminTls>) -> HashSet<PathBuf> {
    let sources = used(plan, admin);
    let files = sources.keys().flat_map(|source| source.paths()).map(Path::to_owned);
    let revoked = plan.routes.iter().filter_map(|route| match &route.to {
        To::Sealed(sealed) => sealed.revoked.as_ref().map(|file| file.path.to_path_buf()),
        _ => None,
    });
    files.chain(revoked).collect()
}

fn used(plan: &Plan, admin: Option<&AdminTls>) -> HashMap<Source, Used> {
    let pairs = all(plan, admin).map(|(_, certificate, files)| {
        let used = Used { digest: certificate.whole_digest(), ends: Some(certificate.not_after()) };
        (Source::Pair(files.clone()), used)
    });
    let tickets =
        plan.listeners.iter().filter_map(|listener| listener.tls.as_ref()?.tickets.as_ref()?.keys.as_ref());
    let used = |digest| Used { digest, ends: None };
    let keys = tickets.map(|keys| (Source::Keys(keys.path.clone()), used(keys.digest)));
    pairs.chain(keys).collect()
}

/// Whether nothing about TLS differs; what differs is another object at least.
fn have_same_tls(one: &Plan, other: &Plan) -> bool {
    let same = |(one, other): (&Listener, &Listener)| {
        one.name == other.name
            && match (&one.tls, &other.tls) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (None, None) => true,
                _ => false,
            }
    };
    one.listeners.len() == other.listeners.len() && one.listeners.iter().zip(&other.listeners).all(same)
}

/// The certificates that stand in the same files as others before, in words.
fn replaced(before: &Plan, after: &Plan) -> Vec<String> {
    let old: HashMap<_, _> = all(before, None)
        .map(|(listener, certificate, files)| ((listener, &files.cert), certificate))
        .collect();
    let is_other = |(listener, certificate, files): &(Option<&str>, &Arc<Certificate>, &CertificateFiles)| {
        old.get(&(*listener, &files.cert)).is_some_and(|old| old != certificate)
    };
    let words = |(listener, certificate, files): (_, &Arc<Certificate>, _)| {
        format!("{}: it is used now", named(listener, certificate, Origin::Files(files)))
    };
    all(after, None).filter(is_other).map(words).collect()
}

/// The nearest step before the end of a certificate that has been passed; a step as long as its whole life is none.
fn step(now: SystemTime, not_before: SystemTime, not_after: SystemTime) -> Option<u64> {
    let left = not_after.duration_since(now).unwrap_or_default();
    let life = not_after.duration_since(not_before).unwrap_or_default();
    let whole = |step: u64| Duration::from_secs(step * DAY.as_secs());
    STEPS.into_iter().find(|step| left <= whole(*step) && (*step == 0 || life > whole(*step)))
}

/// The same for one that has just come: a week before its end, whatever its whole life is.
fn step_at_arrival(now: SystemTime, not_after: SystemTime) -> Option<u64> {
    step(now, SystemTime::UNIX_EPOCH, not_after).filter(|step| *step <= STEPS[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_step_that_has_been_passed_is_told() {
        let begin = SystemTime::UNIX_EPOCH;
        let at = |days: f64| begin + DAY.mul_f64(days);
        let of_90_days = |now: f64| step(at(now), begin, at(90.0));
        for (now, expected) in [
            (0.0, None),
            (59.9, None),
            (60.0, Some(30)),
            (82.9, Some(30)),
            (83.0, Some(7)),
            (89.0, Some(1)),
            (89.9, Some(1)),
            (90.0, Some(0)),
            (900.0, Some(0)),
        ] {
            assert_eq!(of_90_days(now), expected, "{now}");
        }
        // One for six days is not about to expire when it is new.
        assert_eq!(step(at(0.0), begin, at(6.0)), None);
        assert_eq!(step(at(5.0), begin, at(6.0)), Some(1));
        assert_eq!(step(at(3.0), begin, at(7.0)), None);
        // In a file it may be the wrong one.
        assert_eq!(step_at_arrival(at(20.0), at(26.0)), Some(7));
        assert_eq!(step_at_arrival(at(20.0), at(20.5)), Some(1));
        assert_eq!(step_at_arrival(at(20.0), at(28.0)), None);
    }
}
