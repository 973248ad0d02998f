//! Keys, heads and wakers as tests need them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use thalweg_cache::{Key, KeyRule, Policy, Request, Response, StoredHead, UnixMillis, Url};
use thalweg_http::Method;

/// When responses of tests are received.
pub(crate) const THEN: UnixMillis = UnixMillis::from_seconds(1_790_000_000);

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

/// The key of a path of one host.
pub(crate) fn key(path: &str) -> Key {
    key_of(&KeyRule::default(), "example.com", path, "")
}

/// A key.
pub(crate) fn key_of(rule: &KeyRule, host: &str, path: &str, fields: &str) -> Key {
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let url = Url {
        scheme: "https",
        host: host.as_bytes(),
        port: 443,
        path: path.as_bytes(),
        query: query.map(str::as_bytes),
    };
    Key::of(rule, &url, lines(fields), None).unwrap()
}

/// Counts how often it was woken.
#[derive(Default)]
pub(crate) struct Woken(AtomicUsize);

impl Woken {
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let woken = Arc::new(Self::default());
        (woken.clone(), woken.into())
    }

    pub(crate) fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
