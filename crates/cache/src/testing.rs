//! Heads as tests write them.

/// Lines of `name: value`.
pub(crate) fn lines(head: &str) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    head.lines().filter(|line| !line.is_empty()).map(|line| {
        let (name, value) = line.split_once(':').unwrap();
        (name.as_bytes(), value.trim().as_bytes())
    })
}

use crate::policy::Policy;
use crate::request::Request;
use crate::response::Response;
use crate::storable::NotStored;
use crate::stored::StoredHead;
use crate::time::{UnixMillis, write_http_date};
use thalweg_http::Method;

/// When responses of tests are received, in seconds.
pub(crate) const THEN: u64 = 1_790_000_000;

/// So many seconds after that.
pub(crate) fn after(seconds: u64) -> UnixMillis {
    UnixMillis::from_seconds(THEN + seconds)
}

/// A date so many seconds after [`THEN`].
pub(crate) fn date(seconds: i64) -> String {
    let mut text = Vec::new();
    write_http_date(UnixMillis::from_seconds((THEN as i64 + seconds) as u64), &mut text);
    String::from_utf8(text).unwrap()
}

/// A head in which `{n}` stands for a date so many seconds after [`THEN`].
pub(crate) fn dated(head: &str) -> String {
    let mut parts = head.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (seconds, rest) = part.split_once('}').unwrap();
        out += &date(seconds.parse().unwrap());
        out += rest;
    }
    out
}

/// A GET with these fields.
pub(crate) fn get(head: &str) -> Request<'_> {
    Request::read(Method::Get, false, lines(head))
}

/// A response that was received at once at [`THEN`].
pub(crate) fn received<'a>(policy: &Policy, status: u16, head: &'a str) -> Response<'a> {
    Response::read(policy, status, (after(0), after(0)), lines(head))
}

/// What is stored of a response to this request.
pub(crate) fn store_for(
    policy: &Policy,
    request: &str,
    status: u16,
    head: &str,
) -> Result<StoredHead, NotStored> {
    let head = dated(head);
    StoredHead::new(policy, &get(request), &received(policy, status, &head), lines(&head))
}

/// What is stored of a 200 to a plain GET.
pub(crate) fn store(head: &str) -> StoredHead {
    store_for(&Policy::default(), "", 200, head).unwrap()
}
