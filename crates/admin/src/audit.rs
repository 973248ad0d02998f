//! The audit log: one JSON line for every change that was asked for, done or refused.
//!
//! `<state>/audit.log`, mode 0600, appended to and moved on to `audit.log.1` … `.5` at 10 MiB, so it
//! never takes more than 60 MiB. Written by a thread of its own, from the first entry on, behind a bounded
//! queue: a slow disk delays no answer of the admin API. Invariant: a line that cannot be written is told to the
//! operator and stops no change.

mod file;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::auth::Role;
use crate::control::Control;
use crate::control::service::rfc3339;
use file::AuditFile;

/// Entries that may wait to be written.
const WAITING: usize = 1024;
/// Largest `before` and `after` together, in bytes of JSON; larger ones are left out.
const CHANGE: usize = 64 * 1024;
/// Entries that one request may read.
pub(crate) const READ: u64 = 1000;

/// One entry.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "AuditEntry")]
pub(crate) struct Entry {
    /// When it was answered, in RFC 3339.
    #[serde(serialize_with = "rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub(crate) at: SystemTime,
    /// The request's id; `X-Request-Id` of the answer.
    pub(crate) request_id: String,
    /// Who asked.
    pub(crate) who: Who,
    /// The method.
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// How it was before; absent where nothing changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Value>,
    /// How it is now; absent where nothing changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<Value>,
    /// The status of the answer; from 400 on, nothing was changed.
    pub(crate) status: u16,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
}

/// Who asked.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct Who {
    /// What the token, or the socket, allows.
    pub(crate) role: Role,
    /// The user at the other end of the unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<u32>,
    /// Address and port of the other end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peer: Option<String>,
}

/// What a handler changed, left on its response for the log.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

impl Change {
    pub(crate) fn new(before: Option<&impl Serialize>, after: Option<&impl Serialize>) -> Self {
        Self {
            before: before.and_then(|value| serde_json::to_value(value).ok()),
            after: after.and_then(|value| serde_json::to_value(value).ok()),
        }
    }
}

enum Job {
    Write(Box<Entry>),
    /// The newest entries, oldest first.
    Read(usize, oneshot::Sender<io::Result<Vec<Value>>>),
}

/// The log. Dropping it writes what waits and ends its thread.
pub(crate) struct AuditLog {
    state_dir: PathBuf,
    lost: Arc<AtomicU64>,
    control: Arc<dyn Control>,
    thread: Mutex<Option<Thread>>,
}

/// The thread that writes, and the way to it.
struct Thread {
    jobs: SyncSender<Job>,
    handle: JoinHandle<()>,
}

impl AuditLog {
    /// The file is made and the thread started with the first entry.
    pub(crate) fn new(state_dir: PathBuf, control: Arc<dyn Control>) -> Self {
        Self { state_dir, lost: Arc::default(), control, thread: Mutex::default() }
    }

    fn start(&self) -> io::Result<Thread> {
        let (jobs, queue) = sync_channel(WAITING);
        let writer = Writer {
            file: AuditFile::new(self.state_dir.clone()),
            lost: Arc::clone(&self.lost),
            control: Arc::clone(&self.control),
            failing: false,
        };
        let handle = thread::Builder::new().name("thalweg-audit".into()).spawn(move || writer.run(&queue))?;
        Ok(Thread { jobs, handle })
    }

    /// Hands a job over, or says that it cannot.
    fn send(&self, job: Job) -> Result<(), &'static str> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            *thread = Some(self.start().map_err(|_| "there can be no thread for the audit log")?);
        }
        let jobs = thread.as_ref().map(|thread| &thread.jobs);
        jobs.and_then(|jobs| jobs.try_send(job).ok()).ok_or("the audit log does not keep up")
    }

    /// Hands over an entry. Never waits: with a full queue the entry is lost, and the operator is told.
    pub(crate) fn record(&self, mut entry: Entry) {
        let size = |value: &Option<Value>| value.as_ref().map_or(0, |value| value.to_string().len());
        if size(&entry.before) + size(&entry.after) > CHANGE {
            (entry.before, entry.after) = (None, Some("[too large]".into()));
        }
        if let Err(why) = self.send(Job::Write(Box::new(entry)))
            && self.lost.fetch_add(1, Ordering::Relaxed) == 0
        {
            self.control.complain(&format!("{why}: entries are lost"));
        }
    }

    /// Asks for the newest entries, oldest first, those included that wait to be written. `None`: the
    /// queue is full, or there can be no thread.
    pub(crate) fn last(&self, count: usize) -> Option<oneshot::Receiver<io::Result<Vec<Value>>>> {
        let (answer, answered) = oneshot::channel();
        self.send(Job::Read(count, answer)).is_ok().then_some(answered)
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Thread { jobs, handle }) = thread {
            drop(jobs);
            let _ = handle.join();
        }
    }
}

/// The thread's side.
struct Writer {
    file: AuditFile,
    lost: Arc<AtomicU64>,
    control: Arc<dyn Control>,
    failing: bool,
}

impl Writer {
    fn run(mut self, queue: &Receiver<Job>) {
        while let Ok(job) = queue.recv() {
            match job {
                Job::Write(entry) => self.write(&entry),
                Job::Read(count, answer) => {
                    // Nobody waits any more: fine.
                    let _ = answer.send(self.file.last(count));
                }
            }
            let lost = self.lost.swap(0, Ordering::Relaxed);
            if lost > 0 {
                self.control.complain(&format!("{lost} entries of the audit log were lost"));
            }
        }
    }

    /// Writes an entry. The first of several failures in a row is told.
    fn write(&mut self, entry: &Entry) {
        let written =
            serde_json::to_vec(entry).map_err(io::Error::from).and_then(|line| self.file.append(line));
        match written {
            Ok(()) => self.failing = false,
            Err(_) if self.failing => {}
            Err(error) => {
                self.failing = true;
                let path = self.file.path().display().to_string();
                self.control.complain(&format!("the audit log {path} cannot be written: {error}"));
            }
        }
    }
}
