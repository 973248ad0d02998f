//! Folders, objects and stores as tests need them.

use crate::{Disk, Load, Say, Settings};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use thalweg_cache::{Key, KeyRule, Policy, Request, Response, StoredHead, UnixMillis, Url};
use thalweg_http::Method;
use thalweg_store::{Body, Limits, Object, Store};

/// When responses of tests are received.
pub(crate) const THEN: UnixMillis = UnixMillis::from_seconds(1_790_000_000);

/// A folder that goes when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("thalweg-disk-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        // In memory, where there is such a place: the tests sync much.
        let memory = Path::new("/dev/shm");
        let path = if memory.is_dir() { memory.join(name) } else { std::env::temp_dir().join(name) };
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Lines of `name: value`.
pub(crate) fn lines(head: &str) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    head.lines().filter(|line| !line.is_empty()).map(|line| {
        let (name, value) = line.split_once(':').unwrap();
        (name.as_bytes(), value.trim().as_bytes())
    })
}

/// What is stored of a 200 that is fresh for a minute.
pub(crate) fn head(fields: &str) -> StoredHead {
    let (policy, fields) = (Policy::default(), format!("Cache-Control: max-age=60\n{fields}"));
    let request = Request::read(Method::Get, false, lines(""));
    let response = Response::read(&policy, 200, (THEN, THEN), lines(&fields));
    StoredHead::new(&policy, &request, &response, lines(&fields)).unwrap()
}

/// The key of a path.
pub(crate) fn key(path: &str) -> Key {
    key_of(&KeyRule::default(), path, "")
}

/// The key of a path, by a rule.
pub(crate) fn key_of(rule: &KeyRule, path: &str, fields: &str) -> Key {
    let url = Url { scheme: "https", host: b"a.com", port: 443, path: path.as_bytes(), query: None };
    Key::of(rule, &url, lines(fields), None).unwrap()
}

/// An object, stored in memory.
pub(crate) fn object(key: &Key, fields: &str, request: &str, body: &[u8]) -> Arc<Object> {
    let (head, mut variant) = (head(fields), Vec::new());
    assert!(head.vary.write_key(&Policy::default(), lines(request), &mut variant));
    memory().put(key, &variant, head, Body::copy_of(body)).unwrap()
}

/// A store in memory.
pub(crate) fn memory() -> Store {
    Store::new(Limits::of(64 << 20)).unwrap()
}

/// Lines for the operator.
#[derive(Clone, Default)]
pub(crate) struct Said(Arc<Mutex<Vec<String>>>);

impl Said {
    pub(crate) fn say(&self) -> Say {
        let said = self.0.clone();
        Arc::new(move |notice| said.lock().unwrap().push(notice.text))
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The smallest store in a folder, when all that it has can be found.
pub(crate) fn open(folder: &Folder) -> Disk {
    let disk = open_now(folder);
    disk.wait_idle();
    disk
}

/// The same at once.
pub(crate) fn open_now(folder: &Folder) -> Disk {
    let settings =
        Settings { readers: 1, ..Settings::of(folder.path().join("cache"), crate::settings::LEAST_BYTES) };
    Disk::open(settings, Said::default().say()).unwrap()
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls until something is there.
pub(crate) fn wait<T>(mut poll: impl FnMut(&Context<'_>) -> Poll<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = poll(&context) {
            return done;
        }
        thread::park();
    }
}

/// What a store gives for a key.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Got {
    Nothing,
    /// It began, and broke off after these bytes.
    Broken(Vec<u8>),
    /// The lines of its head, whether it is fresh ten seconds after it was received, its body.
    Object(String, bool, Vec<u8>),
}

impl Got {
    pub(crate) fn body(self) -> Option<Vec<u8>> {
        match self {
            Self::Object(_, _, body) => Some(body),
            Self::Nothing | Self::Broken(_) => None,
        }
    }
}

/// Asks a store for a key.
pub(crate) fn get(disk: &Disk, key: &Key, fields: &str) -> Got {
    let (policy, mut variant) = (Policy::default(), Vec::new());
    let Some(place) = disk.find(key, &policy, lines(fields), &mut variant) else { return Got::Nothing };
    let mut load = disk.load(place, key, &variant).unwrap();
    let Some(loaded) = wait(|context| load.poll_head(context, &policy)) else { return Got::Nothing };
    let lines = String::from_utf8(loaded.head.lines().to_vec()).unwrap();
    let is_fresh = loaded.head.freshness.is_fresh(UnixMillis(THEN.0 + 10_000));
    match read(&mut load) {
        Ok(body) => {
            assert_eq!(body.len() as u64, loaded.length);
            Got::Object(lines, is_fresh, body)
        }
        Err(body) => Got::Broken(body),
    }
}

/// The rest of a body; the error is what came before it broke off.
pub(crate) fn read(load: &mut Load) -> Result<Vec<u8>, Vec<u8>> {
    let mut body = Vec::new();
    loop {
        match wait(|context| load.poll_piece(context)) {
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            Ok(None) => return Ok(body),
            Err(_) => return Err(body),
        }
    }
}
