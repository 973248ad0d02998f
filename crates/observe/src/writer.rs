//! The thread that writes the access log, and the batches that feed it.
//!
//! A worker pushes records into its [`LogBatch`]; full batches go through one bounded queue to a
//! thread of its own, which writes them to standard output, standard error, a file or a receiver of syslog. Invariant:
//! nothing a destination does (a full disk, a reader that stopped or left) makes a worker wait or
//! ends an exchange. What cannot be written is dropped and counted.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::meters::{LogMeters, WorkerMeters};
use crate::record::{Format, LogRecord, encode};
use crate::sample::{Draw, Sample};
use crate::stamp::Stamp;

mod drain;
mod rotation;
mod syslog;

use drain::Drain;
pub use rotation::Rotation;
use syslog::SyslogDrain;
pub use syslog::{Syslog, SyslogReceiver};

/// A batch goes to the writer when it holds this many bytes.
pub const BATCH_BYTES: usize = 64 * 1024;
/// Batches that wait for the writer; the next one is dropped.
pub const QUEUED_BATCHES: usize = 64;
/// How long the last lines may take where a disk takes them: one that is busy with other things can stand still for
/// seconds, and who starts containers kills them after ten.
const DISK_PATIENCE: Duration = Duration::from_secs(8);
/// How long they may take where somebody reads them, who may have stopped for good.
const READER_PATIENCE: Duration = Duration::from_secs(2);
/// A buffer that grew beyond this is freed rather than used again.
const RECYCLED_BYTES: usize = 2 * BATCH_BYTES;
/// Mode of a log file that is created, before the umask.
const FILE_MODE: u32 = 0o640;

/// Where the lines go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file, appended to; created with mode 0640. May be a FIFO that has a reader.
    File(PathBuf),
    /// A receiver of syslog.
    Syslog(Syslog),
}

/// What is written, and where.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Where the lines go.
    pub destination: Destination,
    /// How they look.
    pub format: Format,
    /// Which exchanges have one; `None`: all.
    pub sample: Option<Sample>,
    /// When a file moves on; of other destinations nothing does.
    pub rotation: Option<Rotation>,
}

impl Destination {
    fn open(&self) -> io::Result<File> {
        match self {
            Self::Stdout => io::stdout().as_fd().try_clone_to_owned().map(File::from),
            Self::Stderr => io::stderr().as_fd().try_clone_to_owned().map(File::from),
            // Without O_NONBLOCK, opening a FIFO that nobody reads would wait for ever.
            Self::File(path) => OpenOptions::new()
                .append(true)
                .create(true)
                .mode(FILE_MODE)
                .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
                .open(path),
            Self::Syslog(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("standard output"),
            Self::Stderr => f.write_str("standard error"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Syslog(syslog) => syslog.to.fmt(f),
        }
    }
}

/// The access log could not be started.
#[derive(Debug)]
pub struct LogError {
    destination: Destination,
    source: io::Error,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the access log {} cannot be written: {}", self.destination, self.source)
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// What goes through the queue.
enum Job {
    /// Whole lines, and how many.
    Batch(Vec<u8>, u64),
    /// Look at the flags.
    Wake,
}

/// What the writer's thread shares with those who feed it.
#[derive(Debug, Default)]
struct Shared {
    reopen: AtomicBool,
    stop: AtomicBool,
    recycled: Mutex<Vec<Vec<u8>>>,
}

/// The access log: owns the thread that writes it.
#[derive(Debug)]
pub struct LogWriter {
    format: Format,
    sample: Option<Sample>,
    queue: SyncSender<Job>,
    shared: Arc<Shared>,
    done: Mutex<Receiver<()>>,
    patience: Duration,
}

impl LogWriter {
    /// Opens the destination and starts the thread.
    ///
    /// # Errors
    /// The destination cannot be opened, or the thread cannot be started.
    pub fn start(destination: Destination, format: Format, meters: Arc<LogMeters>) -> Result<Self, LogError> {
        let options = LogOptions { destination, format, sample: None, rotation: None };
        Self::start_with(options, meters)
    }

    /// The same with more. A receiver of syslog need not be there yet.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(options: LogOptions, meters: Arc<LogMeters>) -> Result<Self, LogError> {
        let LogOptions { destination, format, sample, rotation } = options;
        let failed = |destination: Destination| move |source| LogError { destination, source };
        let mut patience = READER_PATIENCE;
        let mut outlet = match &destination {
            Destination::Syslog(syslog) => Outlet::Syslog(Box::new(SyslogDrain::new(syslog.clone(), meters))),
            _ => {
                let file = destination.open().map_err(failed(destination.clone()))?;
                if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
                    patience = DISK_PATIENCE;
                }
                Outlet::File(Drain::new(destination.clone(), file, rotation, meters))
            }
        };
        let (queue, jobs) = sync_channel(QUEUED_BATCHES);
        let (finished, done) = sync_channel(1);
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("thalweg-log".into())
            .spawn(move || {
                run(&mut outlet, &jobs, &of_thread);
                // Nobody waits unless the log is being shut down.
                let _ = finished.try_send(());
            })
            .map_err(failed(destination))?;
        Ok(Self { format, sample, queue, shared, done: Mutex::new(done), patience })
    }

    /// A batch for one worker. Its drops are counted in `meters.log_dropped`.
    pub fn batch(&self, meters: Arc<WorkerMeters>) -> LogBatch {
        LogBatch {
            format: self.format.clone(),
            draw: self.sample.clone().map(Draw::new),
            stamp: Stamp::new(TimeZone::system()),
            bytes: Vec::new(),
            lines: 0,
            queue: self.queue.clone(),
            shared: Arc::clone(&self.shared),
            meters,
        }
    }

    /// Opens the file anew, for log rotation (USR1). Returns at once; if it fails, the old file is
    /// written on and the error is counted. Lines that were queued may go to either file.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        // A full queue wakes the thread as well.
        let _ = self.queue.try_send(Job::Wake);
    }

    /// How long [`Self::shutdown`] is to wait when the proxy ends: 8 s where the lines go to a disk, else 2 s.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Writes what is queued and ends the thread. Call it when the batches have been flushed or
    /// dropped. Returns whether everything was written within `deadline`; if not, the thread is
    /// left behind.
    pub fn shutdown(&self, deadline: Duration) -> bool {
        self.shared.stop.store(true, Ordering::Release);
        let _ = self.queue.try_send(Job::Wake);
        self.done.lock().is_ok_and(|done| done.recv_timeout(deadline).is_ok())
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let _ = self.queue.try_send(Job::Wake);
    }
}

/// The thread: one batch after the other until it is told to stop and the queue is empty.
fn run(outlet: &mut Outlet, jobs: &Receiver<Job>, shared: &Shared) {
    loop {
        let stops = shared.stop.load(Ordering::Acquire);
        let job = match outlet.rests().filter(|_| !stops) {
            _ if stops => jobs.try_recv().ok(),
            None => jobs.recv().ok(),
            Some(time) => match jobs.recv_timeout(time) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => Some(Job::Wake),
                Err(RecvTimeoutError::Disconnected) => None,
            },
        };
        if shared.reopen.swap(false, Ordering::AcqRel) {
            outlet.reopen();
        }
        match job {
            Some(Job::Batch(mut bytes, lines)) => {
                outlet.write(&bytes, lines, &shared.stop);
                bytes.clear();
                recycle(shared, bytes);
            }
            Some(Job::Wake) => outlet.tend(),
            None => return,
        }
    }
}

/// Where the thread writes.
#[derive(Debug)]
enum Outlet {
    File(Drain),
    Syslog(Box<SyslogDrain>),
}

impl Outlet {
    /// How long nothing has to be done by itself; `None`: for ever.
    fn rests(&self) -> Option<Duration> {
        match self {
            Self::File(drain) => drain.rests(),
            Self::Syslog(_) => None,
        }
    }

    fn tend(&mut self) {
        if let Self::File(drain) = self {
            drain.rotate_if_due(0);
        }
    }

    fn reopen(&mut self) {
        match self {
            Self::File(drain) => drain.reopen(),
            Self::Syslog(drain) => drain.reopen(),
        }
    }

    fn write(&mut self, batch: &[u8], lines: u64, stop: &AtomicBool) {
        match self {
            Self::File(drain) => drain.write(batch, lines),
            Self::Syslog(drain) => drain.write(batch, stop),
        }
    }
}

fn recycle(shared: &Shared, buffer: Vec<u8>) {
    if let Ok(mut recycled) = shared.recycled.lock()
        && buffer.capacity() <= RECYCLED_BYTES
        && recycled.len() < QUEUED_BATCHES
    {
        recycled.push(buffer);
    }
}

/// The lines of one worker that are not yet with the writer. Dropping it flushes it.
#[derive(Debug)]
pub struct LogBatch {
    format: Format,
    draw: Option<Draw>,
    stamp: Stamp,
    bytes: Vec<u8>,
    lines: u64,
    queue: SyncSender<Job>,
    shared: Arc<Shared>,
    meters: Arc<WorkerMeters>,
}

impl LogBatch {
    /// Adds one line, unless the exchange has none; hands the batch to the writer when it is full. Never waits.
    pub fn push(&mut self, record: &LogRecord<'_>) {
        match &mut self.draw {
            None => encode(&mut self.bytes, &self.format, &mut self.stamp, record),
            Some(draw) => {
                let Some(share) = draw.takes(record) else { return };
                let record = LogRecord { share, ..*record };
                encode(&mut self.bytes, &self.format, &mut self.stamp, &record);
            }
        }
        self.lines += 1;
        if self.bytes.len() >= BATCH_BYTES {
            self.flush();
        }
    }

    /// Whether there is nothing to flush.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Hands over what is there. Call it whenever the worker runs out of work, at least once a
    /// second. Never waits: if the writer is [`QUEUED_BATCHES`] behind, the lines are dropped and counted.
    pub fn flush(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        // The lock is held for a push or a pop; rather than wait even for that, take a new buffer.
        let fresh = self.shared.recycled.try_lock().ok().and_then(|mut buffers| buffers.pop());
        let batch = std::mem::replace(&mut self.bytes, fresh.unwrap_or_default());
        let lines = std::mem::take(&mut self.lines);
        if self.queue.try_send(Job::Batch(batch, lines)).is_err() {
            self.meters.log_dropped.add(lines);
        }
    }
}

impl Drop for LogBatch {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests;
