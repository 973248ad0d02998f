//! What the cache is asked: the request as it goes to the service, and its key.

use crate::exchange::cache::body;
use crate::exchange::cache::rule::Ruled;
use crate::exchange::cache::unkeyed::said_by_proxies;
use crate::state::exchange::Exchange;
use crate::state::filtering::Filtering;
use crate::state::forwarded::Forwarded;
use crate::state::worker::Worker;
use std::sync::Arc;
use thalweg_cache::request::FieldLines;
use thalweg_cache::{Client, Forward, Key, Request, Url};
use thalweg_disk::Disk;
use thalweg_filter::{CacheRule, FieldView, QueryEdit};
use thalweg_http::{FieldId, Method};
use thalweg_store::{Choice, Stored};

/// What the cache is asked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) rule: Arc<CacheRule>,
    /// The client is known by other means than `Authorization`.
    has_credentials: bool,
    pub(crate) key: Key,
    /// What tells the request from others under its key, as far as it is known.
    pub(crate) variant: Vec<u8>,
    /// The disk was asked.
    pub(crate) has_asked_disk: bool,
    /// What answers has come from there.
    pub(crate) is_from_disk: bool,
    /// It has waited for another one's fetch, of which nothing has come.
    pub(crate) is_again: bool,
}

impl Asked {
    /// What a request asks of the cache; `None`: its key is too long.
    pub(crate) fn of(worker: &Worker, x: &Exchange, ruled: &Ruled) -> Option<Self> {
        let Ruled { rule, has_credentials } = ruled;
        let mut key = worker.cache_key.take();
        let method: &[u8] = if x.request.method == Method::Post { b"POST" } else { b"GET" };
        let client = Client { method, address: x.client_ip, body: body::digest(x, rule) };
        let client = rule.policy.is_per_client().then_some(&client);
        key.set(&rule.key, &url(x), fields(x), client).ok()?;
        if let Some(target) = other_target(x, rule) {
            key.add_target(&target).ok()?;
        }
        key.add_said(said_by_proxies(x)).ok()?;
        if rule.shares_verified {
            key.add_shared().ok()?;
        }
        Some(Self {
            rule: rule.clone(),
            has_credentials: *has_credentials,
            key,
            variant: Vec::new(),
            has_asked_disk: disk_of(worker, rule).is_none(),
            is_from_disk: false,
            is_again: false,
        })
    }

    /// The request, as far as the cache is concerned.
    pub(crate) fn request<'x>(&self, x: &'x Exchange) -> Request<'x> {
        let mut request = request(x);
        request.has_credentials |= self.has_credentials;
        request
    }

    /// Which of that which is stored fits; only whether there is something.
    pub(crate) fn chosen<'s>(&self, stored: &'s Stored) -> Choice<'s> {
        if matches!(stored, Stored::Nothing) { Choice::Nothing } else { Choice::OtherVariants }
    }

    /// What is remembered of a request that goes to the service.
    pub(crate) fn into_forwarded(self, why: Forward) -> Forwarded {
        let Self { rule, has_credentials, key, variant, .. } = self;
        Forwarded { key, variant, has_credentials, ..Forwarded::new(&rule, why) }
    }

    /// Whether the client is known by other means than `Authorization`.
    pub(crate) fn has_credentials(&self) -> bool {
        self.has_credentials
    }

    /// The service gets the part of the query that counts: what is left out of the key may not choose what others see.
    pub(crate) fn write_query(&self, x: &mut Exchange) {
        let rule = &self.rule.key.query;
        if rule.is_plain() {
            return;
        }
        let Some(query) = x.upstream_query() else { return };
        let mut written = Vec::with_capacity(query.len());
        let edit = match rule.write(query, &mut written) {
            true => QueryEdit::Replaced(written),
            false => QueryEdit::Removed,
        };
        let Exchange { filtering, path, received, .. } = x;
        let filtering = filtering.get_or_insert_default();
        if !std::mem::replace(&mut filtering.is_begun, true) {
            filtering.target.begin(path.of(received));
        }
        filtering.target.set_query(edit);
    }
}

/// The disk, where responses of this rule are kept there: those for one client are not.
pub(crate) fn disk_of<'w>(worker: &'w Worker, rule: &CacheRule) -> Option<&'w Disk> {
    worker.shared.disk.as_ref().filter(|_| !rule.policy.is_per_client())
}

/// The fields of a request as they go to the service.
pub(crate) fn fields(x: &Exchange) -> impl FieldLines<'_> {
    let added = x.filtering.as_ref().map_or(&[][..], |filtering| &filtering.added);
    FieldView::new(&x.request.fields, &x.received, added).iter()
}

/// A request, as far as the cache is concerned. Who has sent credentials has them, whatever filters leave of them.
pub(crate) fn request(x: &Exchange) -> Request<'_> {
    let mut request = Request::read(x.request.method, !x.framing.is_empty(), fields(x));
    request.has_credentials |= x.request.present.contains(FieldId::Authorization);
    request
}

/// The URL that the client has asked for, in normal form.
pub(crate) fn url(x: &Exchange) -> Url<'_> {
    let port =
        x.authority().get(x.host_len as usize + 1..).and_then(|text| str::from_utf8(text).ok()?.parse().ok());
    Url {
        scheme: x.scheme(),
        host: x.host(),
        port: port.unwrap_or_else(|| x.scheme_port()),
        path: x.path.of(&x.received),
        query: x.query(),
    }
}

/// What filters have made of the URL, where that is another one.
fn other_target(x: &Exchange, rule: &CacheRule) -> Option<Vec<u8>> {
    let filtering = x.filtered()?;
    let has_query = !matches!(filtering.target.query(), QueryEdit::Unchanged);
    if filtering.host().is_none() && !has_query && filtering.target.path() == x.path.of(&x.received) {
        return None;
    }
    let mut target = Vec::new();
    target.extend_from_slice(filtering.host().unwrap_or_default());
    target.extend_from_slice(filtering.target.path());
    if let Some(Some(query)) = Filtering::query(filtering) {
        target.push(b'?');
        rule.key.query.write(query, &mut target);
    }
    Some(target)
}
