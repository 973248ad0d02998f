//! What sources have found last, on disk: a start whose registry does not answer goes on with it.
//!
//! One file in the directory of `state:`, written whole by a thread of its own, at most every [`KEEP_PAUSE`] and once
//! more when the proxy ends. Sources stand in it by names ([`KeptNames`]) that show no secret of their settings. It has
//! a section for sets of endpoints and one for documents (`route_sources`).

use super::base::Base;
use super::kept_file;
use super::state_writer::StateWriter;
use crate::operator_log::warn;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_core::limits::ENDPOINTS;
use thalweg_discovery::{Document, Found, SourceStatus, Sources};

/// The file in the state directory.
const FILE: &str = "sources.json";
/// The largest file that is written, and read.
const FILE_BYTES: usize = 64 << 20;
/// The least time between two times that sets are kept.
const KEEP_PAUSE: Duration = Duration::from_secs(5);
/// How often it is kept that sets are still right, where none has changed.
const KEEP_EVERY: Duration = Duration::from_secs(300);
/// An older set is not used: its addresses may be somebody else's by now.
const OLDEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// What a source has found, and when it was last known to be right.
#[derive(Debug)]
pub(crate) struct KeptSet<T: ?Sized> {
    pub(crate) at: SystemTime,
    pub(crate) set: Arc<T>,
}

impl<T: ?Sized> Clone for KeptSet<T> {
    fn clone(&self) -> Self {
        Self { at: self.at, set: self.set.clone() }
    }
}

/// Names of sources in the file: keyed digests of all their settings. Those of sources with other settings differ, and
/// outlast a restart.
#[derive(Clone, Default, Eq, PartialEq)]
pub(crate) struct KeptNames(Arc<str>);

impl KeptNames {
    /// With a key of their own, from the random numbers of the system that `RandomState` begins with.
    fn random() -> Self {
        let random = RandomState::new();
        let key: Vec<u8> = (0..4_u8).flat_map(|part| random.hash_one(part).to_be_bytes()).collect();
        Self(hex(&key).into())
    }

    /// The name of the source with this id, or with this question.
    pub(crate) fn name(&self, id: &str) -> String {
        // The key has one length, so no other pair of a key and an id has the same bytes.
        hex(&Sha256::new().chain_update(&*self.0).chain_update(id).finalize())
    }
}

impl fmt::Debug for KeptNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeptNames(…)")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What sources have found, by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) names: KeptNames,
    pub(crate) endpoints: BTreeMap<String, KeptSet<[Found]>>,
    pub(crate) documents: BTreeMap<String, KeptSet<[Document]>>,
}

impl Findings {
    fn is_empty(&self) -> bool {
        self.endpoints.is_empty() && self.documents.is_empty()
    }
}

/// Who keeps findings on disk, where `state:` says so.
#[derive(Debug, Default)]
pub(crate) struct KeptSources {
    /// `None`: they are not kept.
    path: Option<PathBuf>,
    /// Begun when there is something to keep.
    writer: Option<StateWriter<Findings>>,
    /// As they are on disk, or are about to be.
    findings: Findings,
    /// The change that they were kept after, and when.
    kept: Option<(u64, Instant)>,
}

impl KeptSources {
    /// What was kept before a restart. A file that cannot be read is given up with a word to the operator.
    pub(crate) fn open(directory: Option<&Path>, now: SystemTime) -> Self {
        let Some(path) = directory.map(|directory| directory.join(FILE)) else { return Self::default() };
        let mut findings = load(&path, now).unwrap_or_else(|error| {
            let path = path.display();
            warn(format_args!(
                "what sources found before cannot be read from {path}: {error}; it is not used"
            ));
            Findings::default()
        });
        if findings.names == KeptNames::default() {
            findings.names = KeptNames::random();
        }
        Self { path: Some(path), writer: None, findings, kept: None }
    }

    /// As kept.
    pub(crate) fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Whether it is time to keep what is known: it has changed, or is still right and that was not kept for long.
    pub(crate) fn is_due(&self, change: u64, now: Instant) -> bool {
        let Some((kept, at)) = self.kept else { return self.path.is_some() };
        let pause = if change == kept { KEEP_EVERY } else { KEEP_PAUSE };
        self.path.is_some() && now.saturating_duration_since(at) >= pause
    }

    /// Has these kept soon, in place of all that were.
    pub(crate) fn keep(&mut self, findings: Findings, change: u64, now: Instant) {
        self.kept = Some((change, now));
        let Some(path) = self.path.clone().filter(|_| !findings.is_empty() || !self.findings.is_empty())
        else {
            return;
        };
        self.findings = findings;
        if self.writer.is_none() {
            let what = format!("what sources have found in {}", path.display());
            match StateWriter::start(what, move |findings| store(&path, &findings)) {
                Ok(writer) => self.writer = Some(writer),
                Err(error) => warn(format_args!("what sources find is not kept: {error}")),
            }
        }
        self.writer.iter().for_each(|writer| writer.keep(self.findings.clone()));
    }

    /// Waits, no longer than `limit`, until all is kept. Says whether it is.
    pub(crate) fn settle(&self, limit: Duration) -> bool {
        self.writer.as_ref().is_none_or(|writer| writer.settle(limit))
    }

    /// Tells which sources have not answered, so that what was kept of them is used.
    pub(crate) fn tell(&self, base: &Base, board: &Sources) {
        let mut told: Vec<_> = base.sources().map(|(_, discover)| &discover.id).collect();
        told.sort_unstable();
        told.dedup();
        told.into_iter().filter_map(|id| board.get(id)).for_each(|status| tell_kept(&status, "endpoint"));
    }

    /// Says on the board what was kept of sources that have not answered yet.
    pub(crate) fn show(&self, base: &Base, board: &Sources) {
        for (_, discover) in base.sources() {
            if let Some(kept) = self.findings.endpoints.get(&self.findings.names.name(&discover.id)) {
                board.tell_kept(&discover.id, (kept.at, kept.set.len()));
            }
        }
    }

    /// What is known of the endpoints of these sources now, and when each was right: as long as a source has told of
    /// nothing, as kept.
    pub(crate) fn endpoints_now(
        &self,
        base: &Base,
        board: &Sources,
        now: SystemTime,
    ) -> BTreeMap<String, KeptSet<[Found]>> {
        let mut all = BTreeMap::new();
        for (_, discover) in base.sources() {
            let Some(set) = base.found().get(&discover.id) else { continue };
            let name = self.findings.names.name(&discover.id);
            let status = board.get(&discover.id).filter(|status| status.count.is_some());
            let heard = status.and_then(|status| now.checked_sub(status.heard?.elapsed()));
            let before = self.findings.endpoints.get(&name).map(|kept| kept.at);
            all.insert(name, KeptSet { at: heard.or(before).unwrap_or(now), set: set.clone() });
        }
        all
    }
}

/// Tells that what was kept of a source is used, where that is so.
pub(super) fn tell_kept(status: &SourceStatus, what: &str) {
    let (None, Some((at, count))) = (status.count, status.kept) else { return };
    let SourceStatus { kind, place, query, .. } = status;
    let are = if count == 1 { " is" } else { "s are" };
    let at = Date(at);
    warn(format_args!(
        "source {kind} of {place}, {query}: {count} {what}{are} used from {at} until the source answers"
    ));
}

/// A time for people, to the second.
struct Date(SystemTime);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", Timestamp::try_from(self.0).unwrap_or(Timestamp::MAX))
    }
}

/// The form in the file: a later version may add members, so unknown ones are no error.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct FindingsSpec {
    /// The key of the names of sources.
    key: String,
    /// By the name of the source.
    endpoints: BTreeMap<String, EndpointsSpec>,
    /// Likewise.
    documents: BTreeMap<String, DocumentsSpec>,
}

#[derive(Deserialize, Serialize)]
struct EndpointsSpec {
    /// Seconds since the Unix epoch: when it was last known to be right.
    at: u64,
    set: Vec<FoundSpec>,
}

#[derive(Deserialize, Serialize)]
struct DocumentsSpec {
    at: u64,
    set: Vec<DocumentSpec>,
}

/// As [`Found`].
#[derive(Deserialize, Serialize)]
struct FoundSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scheme: Option<String>,
    host: String,
    port: u16,
    weight: u32,
    tier: u8,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
}

/// As [`Document`].
#[derive(Deserialize, Serialize)]
struct DocumentSpec {
    name: String,
    text: String,
}

impl FoundSpec {
    fn of(found: &Found) -> Self {
        let labels = found.labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            scheme: found.scheme.map(str::to_owned),
            host: found.host.clone(),
            port: found.port,
            weight: found.weight,
            tier: found.tier,
            labels: labels.collect(),
        }
    }

    /// `None`: it is of another version, or damaged.
    fn read(self) -> Option<Found> {
        let scheme = match self.scheme.as_deref() {
            None => None,
            Some(scheme) => Some(*SCHEMES.iter().find(|known| **known == scheme)?),
        };
        let labels = self.labels.into_iter().collect();
        let Self { host, port, weight, tier, .. } = self;
        Some(Found { scheme, host, port, weight, tier, labels }).filter(|_| port != 0)
    }
}

/// Schemes of endpoints.
const SCHEMES: &[&str] = &["http", "https", "tcp", "udp"];

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The time, unless it is too long ago. One that is yet to come is now.
fn time(seconds: u64, now: SystemTime) -> Option<SystemTime> {
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(now).min(now);
    now.duration_since(at).is_ok_and(|age| age <= OLDEST).then_some(at)
}

fn load(path: &Path, now: SystemTime) -> io::Result<Findings> {
    let size = fs::symlink_metadata(path).map_or(0, |found| found.len());
    if size > FILE_BYTES as u64 {
        return Err(io::Error::other(format!("it is larger than {} MiB", FILE_BYTES >> 20)));
    }
    let FindingsSpec { key, endpoints, documents } = kept_file::load(path)?;
    let endpoints = endpoints.into_iter().filter_map(|(name, EndpointsSpec { at, set })| {
        let set = set.into_iter().filter_map(FoundSpec::read).take(ENDPOINTS).collect();
        Some((name, KeptSet { at: time(at, now)?, set }))
    });
    let documents = documents.into_iter().filter_map(|(name, DocumentsSpec { at, set })| {
        let document = |DocumentSpec { name, text }| Document { name: name.into(), text: text.into() };
        Some((name, KeptSet { at: time(at, now)?, set: set.into_iter().map(document).collect() }))
    });
    let names = KeptNames(key.into());
    Ok(Findings { names, endpoints: endpoints.collect(), documents: documents.collect() })
}

fn store(path: &Path, findings: &Findings) -> io::Result<()> {
    let mut spec = FindingsSpec { key: findings.names.0.to_string(), ..FindingsSpec::default() };
    for (name, kept) in &findings.endpoints {
        let set = kept.set.iter().map(FoundSpec::of).collect();
        spec.endpoints.insert(name.clone(), EndpointsSpec { at: seconds(kept.at), set });
    }
    for (name, kept) in &findings.documents {
        let document = |document: &Document| {
            let (name, text) = (document.name.to_string(), document.text.to_string());
            DocumentSpec { name, text }
        };
        let set = kept.set.iter().map(document).collect();
        spec.documents.insert(name.clone(), DocumentsSpec { at: seconds(kept.at), set });
    }
    let bytes = serde_json::to_vec(&spec)?;
    if bytes.len() > FILE_BYTES {
        // The next start would not read it; what is there is older, and can be used.
        return Err(io::Error::other(format!("it is more than {} MiB", FILE_BYTES >> 20)));
    }
    kept_file::store_bytes(path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("thalweg-sources-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    fn findings(at: SystemTime) -> Findings {
        findings_of(at, &KeptNames::random())
    }

    fn findings_of(at: SystemTime, names: &KeptNames) -> Findings {
        let labels = [("zone", "a"), ("version", "v2")].into_iter().collect();
        let secure = Found { scheme: Some("https"), weight: 3, tier: 2, labels, ..Found::at("::1", 8443) };
        let document = Document { name: "checkout".into(), text: "routes: [ { to: a } ]\n".into() };
        let mut findings = Findings { names: names.clone(), ..Findings::default() };
        let set = [Found::at("10.0.0.1", 80), secure].into();
        findings.endpoints.insert(names.name("etcd: /s/"), KeptSet { at, set });
        findings.documents.insert(names.name("redis: r"), KeptSet { at, set: [document].into() });
        findings
    }

    #[test]
    fn what_is_kept_is_read_back_with_its_time() {
        let directory = directory("back");
        let at = UNIX_EPOCH + Duration::from_secs(1_764_000_000);
        let now = Instant::now();
        let mut kept = KeptSources::open(Some(&directory), at);
        assert!(kept.findings().endpoints.is_empty() && kept.is_due(0, now));
        let names = kept.findings().names.clone();
        kept.keep(findings_of(at, &names), 1, now);
        assert!(
            !kept.is_due(1, now + KEEP_PAUSE) && !kept.is_due(2, now) && kept.is_due(2, now + KEEP_PAUSE)
        );
        assert!(kept.is_due(1, now + KEEP_EVERY), "that it is still right is kept too");
        assert!(kept.settle(Duration::from_secs(30)));
        let read = KeptSources::open(Some(&directory), at + Duration::from_secs(60));
        let (one, other) = (findings_of(at, &names), read.findings());
        assert_eq!(other.names, names, "a source has the same name after a restart");
        for (name, set) in &one.endpoints {
            assert_eq!((other.endpoints[name].at, &other.endpoints[name].set), (at, &set.set));
        }
        for (name, set) in &one.documents {
            assert_eq!((other.documents[name].at, &other.documents[name].set), (at, &set.set));
        }
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn names_tell_sources_apart_and_show_none_of_their_settings() {
        let names = KeptNames::random();
        assert_ne!(names.name("http token a"), names.name("http token b"));
        assert_ne!(names.name("http token a"), KeptNames::random().name("http token a"));
        assert!(!format!("{names:?}").contains(&*names.0) && !names.name("token").contains("token"));
    }

    #[test]
    fn what_is_old_or_damaged_is_not_used() {
        let directory = directory("damaged");
        let at = UNIX_EPOCH + Duration::from_secs(1_764_000_000);
        store(&directory.join(FILE), &findings(at)).unwrap();
        let late = KeptSources::open(Some(&directory), at + OLDEST + Duration::from_secs(1));
        assert!(late.findings().endpoints.is_empty() && late.findings().documents.is_empty());
        let early = KeptSources::open(Some(&directory), at - Duration::from_secs(60));
        assert_eq!(early.findings().endpoints.len(), 1, "a clock that was set back does no harm");
        let whole = fs::read_to_string(directory.join(FILE)).unwrap();
        for damaged in ["", "{", "[]", "null", &whole[..whole.len() / 2], &whole.replace("8443", "84430")] {
            fs::write(directory.join(FILE), damaged).unwrap();
            assert!(load(&directory.join(FILE), at).is_err(), "{damaged}");
            assert!(KeptSources::open(Some(&directory), at).findings().endpoints.is_empty());
        }
        fs::write(directory.join(FILE), whole.replace("https", "gopher")).unwrap();
        let strange = load(&directory.join(FILE), at).unwrap();
        assert_eq!(strange.endpoints.values().map(|kept| kept.set.len()).sum::<usize>(), 1);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn without_a_directory_nothing_is_kept() {
        let mut kept = KeptSources::open(None, SystemTime::now());
        assert!(!kept.is_due(0, Instant::now()));
        kept.keep(findings(SystemTime::now()), 1, Instant::now());
        assert!(kept.findings().endpoints.is_empty() && kept.settle(Duration::ZERO));
    }
}
