//! Parts of responses: a request for a range of what is not stored fetches that range, and what comes is stored with
//! the other parts of the same representation (RFC 9111 §3.4).
//!
//! Only those who ask for the very same range wait for each other. A request with `If-Range` may get a head without
//! what its client knows (RFC 9110 §15.3.7): what answers it is stored only if it joins parts that are stored.

use crate::exchange::cache::asked::Asked;
use crate::exchange::cache::goes_alone;
use crate::state::worker::Worker;
use thalweg_cache::request::FieldLines;
use thalweg_cache::{NotStored, Ranges, Request, Response, StoredHead, joined};
use thalweg_filter::CacheRule;
use thalweg_http::Method;
use thalweg_store::{Claim, Object, Pass, Stored};

/// The longest `Range` that is fetched for the store: two numbers and more room than they need.
const MOST_RANGE: usize = 64;

/// Claims the part that a request asks for. `has_parts`: some are stored.
pub(super) fn claim(
    worker: &Worker,
    asked: &Asked,
    request: &Request<'_>,
    (stored, has_parts): (&Stored, bool),
) -> Claim {
    let Some(range) = request.range.filter(|range| is_one(range)) else {
        return Claim::Pass(Pass::NotStored);
    };
    let store = &worker.shared.cache;
    if request.if_range.is_some() && !has_parts {
        return Claim::Pass(Pass::NotStored);
    }
    if request.if_range.is_some() || goes_alone(&asked.rule.policy, request, None) {
        return store.lead_alone(&asked.key).map_or(Claim::Pass(Pass::Busy), Claim::Lead);
    }
    // What tells variants apart never goes on so: it is a claim of its own beside that of the whole.
    let name = [&asked.variant[..], &[0xff], range].concat();
    store.claim(&asked.key, &name, stored, worker.unix())
}

/// Whether it is one range of bytes, whatever the length of the whole.
fn is_one(range: &[u8]) -> bool {
    let is_one = |total: u64| matches!(Ranges::parse(range, total), Ranges::One(_));
    range.len() <= MOST_RANGE && !range.contains(&b',') && is_one(u64::MAX)
}

/// The head of the answer to a request for a part, as it is stored; `parts` are those that are stored.
pub(super) fn head_of<'a>(
    rule: &CacheRule,
    request: &Request<'_>,
    parts: Option<&Object>,
    response: &Response<'_>,
    fields: impl FieldLines<'a>,
) -> Result<StoredHead, NotStored> {
    debug_assert_eq!(request.method, Method::Get);
    match response.status {
        200 => return StoredHead::new(&rule.policy, request, response, fields),
        206 => {}
        // It may be about the range: it is not what others get who ask for the whole.
        _ => return Err(NotStored::Part),
    }
    let old = parts.map(Object::head);
    let found = old.and_then(|old| joined(&rule.policy, request, old, response, fields.clone()));
    match found {
        Some((head, part)) => Ok(head.with_part(Some(part))),
        None if request.if_range.is_some() => Err(NotStored::Part),
        None => StoredHead::new(&rule.policy, request, response, fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_fetched() {
        for range in ["bytes=0-", "bytes=0-0", "bytes=5-99999999999", "bytes=-7", "BYTES=1-2"] {
            assert!(is_one(range.as_bytes()), "{range}");
        }
        for range in
            ["bytes=0-1,5-6", "bytes=0-1,", "bytes=-0", "lines=0-1", "bytes=2-1", "bytes=", "bytes=a-b"]
        {
            assert!(!is_one(range.as_bytes()), "{range}");
        }
        assert!(!is_one(format!("bytes=0-{}", "1".repeat(MOST_RANGE)).as_bytes()));
    }
}
