//! Time series: the readings, where they are kept, and what the admin API sees of them.
//!
//! A task of the control thread reads the meters every ten seconds, piece by piece, and lets the thread do something
//! else between two pieces. Where `state:` names a directory, the series are written there every five minutes and when
//! the proxy ends, by a thread of their own.

use super::admin::Shared;
use super::kept_file;
use super::slos::SloBook;
use super::state_writer::StateWriter;
use crate::operator_log::warn;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_admin::{ObjectSeries, SeriesDocument, SeriesFilter, SeriesKind};
use thalweg_core::Notice;
use thalweg_observe::Registry;
use thalweg_observe::series::{self, Gauges, STEP, Sample, SeriesStore, Span};
use thalweg_observe::totals::{ObjectKind, Reading, Totals};

/// The file in the state directory.
const FILE: &str = "series";
/// The largest file that is read: larger than any that is written.
const FILE_BYTES: u64 = 96 << 20;
/// Readings between two times that series are kept: five minutes.
const KEEP_EVERY: u64 = 30;

/// All time series.
#[derive(Debug)]
pub(crate) struct TimeSeries {
    store: Arc<Mutex<SeriesStore>>,
    keeper: Option<StateWriter<()>>,
    /// Objectives, which are judged by the same readings.
    slos: Mutex<SloBook>,
    /// When the last reading ended.
    read: Mutex<Instant>,
}

impl TimeSeries {
    /// The series as they were before a restart, kept in this directory from now on. What cannot be read is given up
    /// with a word to the operator.
    pub(crate) fn open(directory: Option<&Path>, now: SystemTime) -> Self {
        let path = directory.map(|directory| directory.join(FILE));
        let store = path.as_deref().map(|path| (path, load(path, now)));
        let store = store.and_then(|(path, read)| read.inspect_err(|why| give_up(path, why)).ok());
        let store = Arc::new(Mutex::new(store.unwrap_or_default()));
        let keeper = path.and_then(|path| {
            let (what, store) = (format!("time series in {}", path.display()), store.clone());
            let keeper = StateWriter::start(what, move |()| write(&path, &store));
            keeper.inspect_err(|error| warn(format_args!("time series will not be kept: {error}"))).ok()
        });
        Self { store, keeper, slos: Mutex::new(SloBook::open(directory)), read: Mutex::new(Instant::now()) }
    }

    fn store(&self) -> MutexGuard<'_, SeriesStore> {
        lock(&self.store)
    }

    /// Objectives. No other lock is taken while it is held.
    pub(super) fn slos(&self) -> MutexGuard<'_, SloBook> {
        lock(&self.slos)
    }

    /// Has series and objectives kept soon, where they are kept at all.
    fn keep(&self) {
        self.keeper.as_ref().inspect(|keeper| keeper.keep(()));
        self.slos().keep();
    }

    /// Waits, no longer than `limit`, until series and objectives are kept. Says whether they are.
    pub(crate) fn settle(&self, limit: Duration) -> bool {
        let series = self.keeper.as_ref().is_none_or(|keeper| keeper.settle(limit));
        series && self.slos().keeper().is_none_or(|keeper| keeper.settle(limit))
    }

    /// Milliseconds since the last reading.
    fn elapsed_ms(&self) -> u64 {
        let now = Instant::now();
        let last = std::mem::replace(&mut *lock(&self.read), now);
        u64::try_from(now.saturating_duration_since(last).as_millis()).unwrap_or(u64::MAX)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn give_up(path: &Path, why: &str) {
    warn(format_args!("the time series in {} cannot be read: {why}; they begin empty", path.display()));
}

fn load(path: &Path, now: SystemTime) -> Result<SeriesStore, String> {
    let bytes = match kept_file::read(path, FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SeriesStore::default()),
        Err(error) => return Err(error.to_string()),
    };
    SeriesStore::decode(&bytes, unix_ms(now)).map_err(|error| error.to_string())
}

/// Writes the file anew, with the store's lock held for one object at a time.
fn write(path: &Path, store: &Mutex<SeriesStore>) -> io::Result<()> {
    let directory: PathBuf = path.parent().map(Path::to_path_buf).unwrap_or_default();
    fs::create_dir_all(&directory)?;
    let new = path.with_extension("new");
    let mut out = BufWriter::new(kept_file::create(&new)?);
    series::write_series(&mut out, |at, buffer| {
        let store = lock(store);
        store.encode(at, buffer);
        store.parts()
    })?;
    out.flush()?;
    out.get_ref().sync_all()?;
    fs::rename(&new, path)?;
    // The name is durable when the directory is.
    fs::File::open(&directory)?.sync_all()
}

/// How long until the next reading: to the end of a step, though never in a hurry.
fn until_next(now: SystemTime) -> Duration {
    let step = STEP * 1_000;
    let wait = step - unix_ms(now) % step;
    // A timer may come a moment early, and a reading just before the end of a step would be followed by another.
    Duration::from_millis(if wait < 1_000 { wait + step } else { wait })
}

/// Reads what is counted at the end of every step, for ever.
pub(crate) async fn read_for_ever(shared: Arc<Shared>) {
    for number in 1u64.. {
        tokio::time::sleep(until_next(SystemTime::now())).await;
        shared.begin_reading();
        let registry = shared.registry.clone();
        let mut reading = registry.reading();
        while shared.read_piece(&mut reading) {
            tokio::task::yield_now().await;
        }
        shared.end_reading();
        if number.is_multiple_of(KEEP_EVERY) {
            shared.series().keep();
        }
    }
}

fn gone(registry: &Registry) -> [Totals; ObjectKind::ALL.len()] {
    ObjectKind::ALL.map(|kind| registry.gone(kind))
}

impl Shared {
    fn begin_reading(&self) {
        let gone = gone(&self.registry);
        self.series().store().begin(gone);
    }

    /// The next piece of a reading; whether there may be more.
    fn read_piece(&self, reading: &mut Reading<'_>) -> bool {
        let mut store = self.series().store();
        reading.next(|object, totals| store.see(object, totals))
    }

    /// The objectives of the configuration that has taken over are judged from now on.
    pub(super) fn follow_slos(&self) {
        let policies = self.origin().settings.slos.clone();
        self.series().slos().follow(&policies, &self.registry, unix_ms(SystemTime::now()));
    }

    /// Judges the objectives.
    fn judge_slos(&self) {
        let events = self.series().slos().note(&self.registry, unix_ms(SystemTime::now()));
        for event in events {
            self.say(&Notice::warn(event.cause.clone()));
            self.publish(event);
        }
    }

    fn end_reading(&self) {
        let gauges = self.gauges();
        let sample =
            Sample { unix_ms: unix_ms(SystemTime::now()), elapsed_ms: self.series().elapsed_ms(), gauges };
        self.series().store().commit(&sample);
        self.judge_slos();
    }

    /// The last reading, and what there is kept. No other must be under way.
    pub(crate) fn end_series(&self) {
        self.begin_reading();
        let mut reading = self.registry.reading();
        while self.read_piece(&mut reading) {}
        self.end_reading();
        self.series().keep();
    }

    fn gauges(&self) -> Gauges {
        self.worker_pool().measure();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Gauges {
            connections: count(self.worker_pool().clients()),
            in_flight: count(self.worker_pool().active()),
            saturation: self.registry.budget().saturation_ppm.value() as f32 / 1e6,
        }
    }

    pub(super) fn select_series(&self, filter: &SeriesFilter) -> SeriesDocument {
        let kind = match filter.kind {
            SeriesKind::Process => series::SeriesKind::Process,
            SeriesKind::Route => series::SeriesKind::Of(ObjectKind::Route),
            SeriesKind::Service => series::SeriesKind::Of(ObjectKind::Service),
            SeriesKind::Endpoint => series::SeriesKind::Of(ObjectKind::Endpoint),
        };
        let wanted = series::Selection {
            kind,
            name: filter.name.as_deref(),
            service: filter.service.as_deref(),
            span: if filter.is_long { Span::Long } else { Span::Short },
            limit: filter.limit,
        };
        let found = self.series().store().select(wanted, unix_ms(SystemTime::now()) / 1_000);
        let is_process = filter.kind == SeriesKind::Process;
        let gauges = |of: fn(&Gauges) -> u32| is_process.then(|| found.gauges.iter().map(of).collect());
        SeriesDocument {
            step_s: found.step_s,
            start: found.start,
            kind: filter.kind,
            connections: gauges(|gauges| gauges.connections),
            in_flight: gauges(|gauges| gauges.in_flight),
            saturation: is_process.then(|| found.gauges.iter().map(|gauges| gauges.saturation).collect()),
            series: found.series.into_iter().map(shown).collect(),
        }
    }
}

fn shown(series: series::SeriesOf) -> ObjectSeries {
    ObjectSeries {
        name: series.name,
        service: series.service,
        requests: series.requests,
        errors: series.errors,
        bytes_in: series.bytes_in,
        bytes_out: series.bytes_out,
        p50_us: series.p50_us,
        p99_us: series.p99_us,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_made_at_the_end_of_steps() {
        let at = |ms: u64| until_next(UNIX_EPOCH + Duration::from_millis(ms)).as_millis();
        assert_eq!((at(0), at(10_005), at(8_000), at(9_500)), (10_000, 9_995, 2_000, 10_500));
    }

    #[test]
    fn a_file_that_is_none_is_given_up_and_written_anew() {
        let directory = std::env::temp_dir().join(format!("thalweg-series-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(FILE);
        fs::write(&path, b"no series").unwrap();
        assert_eq!(load(&path, SystemTime::now()).unwrap_err(), "its checksum is wrong");
        let series = TimeSeries::open(Some(&directory), SystemTime::now());
        series.keep();
        assert!(series.settle(Duration::from_secs(30)));
        assert!(load(&path, SystemTime::now()).is_ok());
        fs::remove_dir_all(directory).unwrap();
    }
}
