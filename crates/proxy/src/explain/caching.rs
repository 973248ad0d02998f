//! Whether a request would be looked up in the cache, and under which key.

use super::explanation::CacheSeen;
use super::trace::lossy;
use crate::exchange::filter_facts::{Surroundings, split};
use crate::plan::Route;
use crate::state::exchange::Exchange;
use thalweg_cache::{CREDENTIALS, Client, Forward, Key, KeyUrl, Request, Sharing, Url, passes};
use thalweg_core::units::size_text;
use thalweg_filter::{CacheRule, FieldView};
use thalweg_http::Method;

/// What the cache, on a disk or not, makes of a request that has gone through its filters; `None`: the route has no
/// cache.
pub(super) fn caching(
    (route, has_disk): (&Route, bool),
    around: &Surroundings<'_>,
    x: &mut Exchange,
) -> Option<CacheSeen> {
    let chain = route.chain(x.listener, x.target);
    if !chain.has_cache() {
        return route.has_cache().then(|| CacheSeen {
            because: Some("it is not known to which service it goes, or that is not cached".into()),
            ..CacheSeen::default()
        });
    }
    let (path, query) = (x.path.of(&x.received).to_vec(), x.query().map(<[u8]>::to_vec));
    let (method, has_body) = (x.request.method, !x.framing.is_empty());
    let (facts, parts) = split(x, route, around);
    let fields = FieldView::new(&parts.request.fields, parts.received, &parts.filtering.added);
    let identity = parts.filtering.outcome.identity.as_deref();
    let Some(rule) = chain.cache_for(&facts, fields, identity) else {
        let because = Some("no `when` of a `cache` of the route fits it".into());
        return Some(CacheSeen { because, ..CacheSeen::default() });
    };
    let mut request = Request::read(method, has_body, fields.iter());
    let is_verified = rule.has_credentials(&facts);
    request.has_credentials |= is_verified || fields.as_sent("authorization").next().is_some();
    let url = Url {
        scheme: facts.scheme,
        host: facts.host,
        port: facts.port,
        path: &path,
        query: query.as_deref(),
    };
    let client = match rule.policy.sharing {
        Sharing::Shared => None,
        Sharing::PerClient { .. } => {
            let method: &[u8] = if method == Method::Post { b"POST" } else { b"GET" };
            Some(Client { method, address: facts.client_ip, body: None })
        }
    };
    let is_posted = method == Method::Post && rule.policy.answers_post();
    let key = Key::of(&rule.key, &url, fields.iter(), client.as_ref()).ok();
    let key = key.as_ref().and_then(|key| KeyUrl::read(key.bytes())).map(|url| url.to_string());
    let because = match passes(&rule.policy, &request).or((has_body && !is_posted).then_some(Forward::Bypass))
    {
        Some(why) => Some(passed(why, &request, &lossy(facts.method))),
        None => key.is_none().then(|| "its URL is too long for a key".into()),
    };
    let mut remarks = remarks(rule, &request, is_verified);
    if has_disk && client.is_some() {
        remarks.push("responses for one client are not kept on the disk".into());
    }
    Some(CacheSeen { looked_up: because.is_none(), because, key, key_parts: key_parts(rule), remarks })
}

/// Why the cache has nothing to do with a request.
fn passed(why: Forward, request: &Request<'_>, method: &str) -> String {
    match why {
        Forward::Method => format!("{method} is not answered from a cache"),
        _ if request.has_origin_conditions => {
            "only the service can evaluate its conditions (`If-Match`, `If-Unmodified-Since`)".into()
        }
        _ => "it has a body".into(),
    }
}

/// What makes a difference beside the URL, by name: values may be secrets.
fn key_parts(rule: &CacheRule) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(rule.key.fields.iter().map(|name| format!("header {name}")));
    parts.extend(rule.key.cookies.iter().map(|name| format!("cookie {name}")));
    if rule.policy.sharing != Sharing::Shared {
        parts.push("client_ip".to_owned());
        parts.extend(CREDENTIALS.iter().chain(&["cookie"]).map(|name| format!("header {name}")));
        parts.extend(rule.policy.answers_post().then(|| "body of POST".to_owned()));
    }
    parts
}

/// What of the request decides whether a response is used or stored.
fn remarks(rule: &CacheRule, request: &Request<'_>, is_verified: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut say = |holds: bool, text: &str| remarks.extend(holds.then(|| text.to_owned()));
    let is_shared = rule.policy.sharing == Sharing::Shared;
    let by = if is_verified { "the client is verified" } else { "it has `Authorization`" };
    say(
        is_shared && request.has_credentials,
        &format!("{by}: only what says `public`, `s-maxage` or `must-revalidate` is stored"),
    );
    let most = rule.policy.post_body.filter(|_| request.method == Method::Post).unwrap_or(0);
    let told = format!(
        "its body is part of the key; one of more than {}, or without a length, passes by",
        size_text(most.into())
    );
    say(most > 0, &told);
    say(
        request.method == Method::Head,
        "what GET has brought answers it; what it brings itself is not stored",
    );
    say(request.range.is_some(), "it asks for a range: of a stored response, or one is stored as a part");
    let (counts, asked) = (rule.policy.honours_clients, request.directives);
    say(asked.no_store, "it says `no-store`: the response is not stored");
    say(
        counts && asked.no_cache,
        "it says `no-cache`: the service is asked whether what is stored still holds",
    );
    say(counts && asked.only_if_cached, "it says `only-if-cached`: where nothing fits, it is answered 504");
    say(
        !counts && (asked.no_cache || asked.only_if_cached),
        "its `Cache-Control` does not count here, but for `no-store`",
    );
    remarks
}
