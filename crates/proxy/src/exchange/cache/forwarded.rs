//! A request that goes to the service although its route has a cache: what its response changes there.

use crate::exchange::cache::asked::{fields, request, url};
use crate::exchange::cache::unkeyed::has_other_method;
use crate::state::exchange::Exchange;
use crate::state::forwarded::Forwarded;
use crate::state::worker::Worker;
use thalweg_cache::request::FieldLines;
use thalweg_cache::{
    HeadEffect, Key, Response, StoredHead, UnixMillis, Url, head_effect, invalidates, same_origin,
};
use thalweg_filter::FieldView;
use thalweg_http::Method;
use thalweg_http::h1::framing::response_length;
use thalweg_store::Object;

/// The final response to a request that went to the service has come, with this head: what is stored may go, hold for
/// longer, or be worth another try.
#[inline]
pub(crate) fn see_response(worker: &Worker, x: &mut Exchange, head: &[u8]) {
    if let Some(forwarded) = x.filtering.as_mut().and_then(|filtering| filtering.forwarded.take()) {
        change_store(worker, x, head, forwarded);
    }
}

fn change_store(worker: &Worker, x: &mut Exchange, head: &[u8], mut forwarded: Box<Forwarded>) {
    if !forwarded.key.bytes().is_empty() {
        let lines = FieldView::new(&x.response.fields, head, &[]).iter();
        let length = response_length(&x.response, head).ok().flatten();
        see(worker, x, &mut forwarded, (lines, length));
    }
    x.filtering.get_or_insert_default().forwarded = Some(forwarded);
}

fn see<'a>(
    worker: &Worker,
    x: &Exchange,
    forwarded: &mut Forwarded,
    (lines, length): (impl FieldLines<'a>, Option<u64>),
) {
    let (store, policy, now) = (&worker.shared.cache, &forwarded.rule.policy, worker.unix());
    let asked = UnixMillis(now.0.saturating_sub(x.age(worker.reactor.now()).as_millis() as u64));
    let mut response = Response::read(policy, x.response.status, (asked, now), lines.clone());
    response.content_length = length;
    if invalidates(x.request.method, response.status) && !is_read(x, forwarded) {
        invalidate(worker, x, forwarded, [response.location, response.content_location]);
        return;
    }
    let mut request = request(x);
    request.has_credentials |= forwarded.has_credentials;
    if let Some(object) = &forwarded.selected {
        let length = object.body().len();
        match head_effect(policy, &request, (object.head(), length), &response, lines.clone()) {
            HeadEffect::Freshened(head) => {
                // The disk has the earlier head.
                forget(worker, object);
                store.freshen(object, *head);
            }
            HeadEffect::Dropped => {
                forget(worker, object);
                store.remove_object(object);
            }
            HeadEffect::Nothing => {}
        }
    }
    if forwarded.is_marked {
        match StoredHead::new(policy, &request, &response, lines) {
            Ok(_) => store.unmark(&forwarded.key, &forwarded.variant),
            Err(why) => forwarded.detail = Some(why),
        }
    }
}

/// Whether the configuration says that a POST changes nothing (`per_client: { methods: [ POST ] }`). One that passes by
/// changes nothing either, but where a field makes another method of it.
fn is_read(x: &Exchange, forwarded: &Forwarded) -> bool {
    x.request.method == Method::Post && forwarded.rule.policy.answers_post() && !has_other_method(x)
}

/// A stored response goes from the disk.
fn forget(worker: &Worker, object: &Object) {
    if let Some(disk) = &worker.shared.disk {
        disk.remove_object(object);
    }
}

/// What is stored for the URL of an unsafe request goes, whichever service of its route has answered, and what its
/// response names (RFC 9111 §4.4).
fn invalidate(worker: &Worker, x: &Exchange, forwarded: &Forwarded, named: [Option<&[u8]>; 2]) {
    // From the disk first: what is read there meanwhile does not go back into memory.
    let remove = |url: &[u8]| {
        if let Some(disk) = &worker.shared.disk {
            disk.remove_url(url);
        }
        worker.shared.cache.remove_url(url);
    };
    let own = url(x);
    let targets = named.into_iter().flatten().filter_map(|reference| same_origin(&own, reference));
    let targets: Vec<_> = targets.collect();
    let named =
        targets.iter().map(|target| Url { path: &target.path, query: target.query.as_deref(), ..own });
    let urls: Vec<_> = std::iter::once(own).chain(named).collect();
    let rules = x.route.iter().flat_map(|route| route.route().cache_rules());
    let mut gone = Vec::new();
    for rule in std::iter::once(&forwarded.rule).chain(rules) {
        for key in urls.iter().filter_map(|url| Key::of(&rule.key, url, fields(x), None).ok()) {
            if !gone.iter().any(|known: &Key| known.url() == key.url()) {
                remove(key.url());
                gone.push(key);
            }
        }
    }
}
