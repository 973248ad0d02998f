//! Waiting for a response that is fetched for the store, by oneself or by another.

use crate::exchange::cache::asked::{Asked, fields};
use crate::exchange::cache::own_response::{OwnReader, Taken};
use crate::exchange::cache::reply::{handled, of_given, of_object, of_passed};
use crate::exchange::cache::until::until;
use crate::exchange::cache::{LOOKS, Looked, look_again};
use crate::exchange::upstream::await_response::send_interim;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use thalweg_cache::{
    Failure, Forward, Found, Hit, Lookup, RequestDirectives, StoredHead, look_up, use_on_failure,
};
use thalweg_core::Fault;
use thalweg_filter::Reply;
use thalweg_http::Version;
use thalweg_observe::CacheUse;
use thalweg_store::{Alone, Given, Object, Reader, Seen};

/// Who fetches is not given up for its time: it has deadlines of its own.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Who waits, and for what.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) asked: Asked,
    pub(crate) why: Forward,
    pub(crate) reader: Reader,
    /// Of the client that has caused the fetch: its end of what is not for the store.
    pub(crate) own: Option<OwnReader>,
    /// Of one who follows: what is stored, and may stand in where the service fails.
    pub(crate) stored: Option<Arc<Object>>,
}

/// Waits until the response begins; `None`: the request goes to the service by itself. Cancel-safe: who leaves does not
/// end the fetch.
///
/// What breaks off before it begins, or is an error, may be so because of the one request that was sent. Of those who
/// wait, another one fetches then, once; where nothing comes of that either, each goes alone.
pub(crate) async fn wait(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    mut waiting: Box<Waiting>,
) -> Result<Option<Box<Reply>>, Fault> {
    for _ in 0..LOOKS {
        let Waiting { mut asked, why, mut reader, own, stored } = *waiting;
        let most = if own.is_some() { LONGEST } else { asked.rule.wait };
        let Some((seen, waited)) = watch(worker, client, x, (&mut reader, own.as_ref()), most).await? else {
            return Ok(alone(x, asked, why));
        };
        let may_use =
            |x: &Exchange, head: &StoredHead| own.is_some() || may_follow(worker, x, &asked, head, waited);
        let variant = match seen {
            Seen::Response(given) => {
                let variant = variant_of(x, &asked, &given);
                if own.is_some() || variant.as_deref() == Some(&*given.variant) {
                    if !may_use(x, &given.head) {
                        return Ok(alone(x, asked, why));
                    }
                    let used = with_given(worker, x, (&asked, why), (&given, reader), own.is_none());
                    return Ok(used.or_else(|| alone(x, asked, why)));
                }
                // It turned out to be for other requests.
                if variant.is_none() {
                    return Ok(alone(x, asked, why));
                }
                variant
            }
            Seen::Object(object) => {
                let stands_in = stored.is_some_and(|stored| Arc::ptr_eq(&stored, &object));
                let is_for_it = match stands_in {
                    true => may_stand_in(worker, x, &asked, object.head()),
                    false => may_use(x, object.head()),
                };
                if !is_for_it {
                    return Ok(alone(x, asked, why));
                }
                let used = with_object(worker, x, &asked, (&object, why, own.is_some()));
                return Ok(used.or_else(|| alone(x, asked, why)));
            }
            Seen::Alone(Alone::Failed(fault)) => return Err(fault),
            Seen::Alone(Alone::Broken(_)) if own.is_none() && !asked.is_again => {
                asked.is_again = true;
                None
            }
            Seen::Alone(_) => return with_own(worker, x, (asked, why), own),
        };
        drop(reader);
        waiting = match look_again(worker, client, x, (asked, variant)) {
            Looked::Forward => return Ok(None),
            Looked::Answered(reply) => return Ok(Some(reply)),
            Looked::Waits(next) => next,
            // The disk was asked before.
            Looked::Loads(loading) => return Ok(alone(x, loading.asked, why)),
        };
    }
    let Waiting { asked, why, .. } = *waiting;
    Ok(alone(x, asked, why))
}

/// Whether one who follows may use what another one has fetched (RFC 9111 §4): what is stale already, or is to be
/// validated for each use, answers only who has fetched it. One who has waited for it has asked before it came.
fn may_follow(worker: &Worker, x: &Exchange, asked: &Asked, head: &StoredHead, waited: bool) -> bool {
    let mut request = asked.request(x);
    if waited {
        request.directives = RequestDirectives::default();
    }
    let found = Found::Head(head);
    matches!(look_up(&asked.rule.policy, &request, found, worker.unix()), Lookup::Hit(_))
}

/// Whether one who follows may use a stale response because the service fails.
fn may_stand_in(worker: &Worker, x: &Exchange, asked: &Asked, head: &StoredHead) -> bool {
    let (policy, request) = (&asked.rule.policy, asked.request(x));
    use_on_failure(policy, &request, head, Failure::Unreachable, worker.unix()).is_some()
}

/// Waits for the head, at most so long; says whether it was not there at once. Interim responses before it go to the
/// client that has caused the fetch.
async fn watch(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (reader, own): (&mut Reader, Option<&OwnReader>),
    most: Duration,
) -> Result<Option<(Seen, bool)>, Fault> {
    let mut waited = false;
    until((worker, client), x, most, |x, context| {
        pass_interims(client, x, own, context);
        // Half of an interim response must not be followed by another one.
        if !x.downward.is_stalled()
            && let Poll::Ready(seen) = reader.poll_head(context)
        {
            return Poll::Ready((seen, waited));
        }
        waited = true;
        Poll::Pending
    })
    .await
}

fn pass_interims(client: &Client, x: &mut Exchange, own: Option<&OwnReader>, context: &Context<'_>) {
    if x.downward.is_stalled() {
        // The client was slow to take one; if it is gone, that shows elsewhere.
        let _ = x.downward.poll_flush(&client.socket);
    }
    while let Some(mut lines) = own.and_then(|own| own.next_interim(context)) {
        if x.request.version != Version::Http10 {
            send_interim(client, x, &mut lines);
        }
    }
}

/// What the `Vary` of a response makes of this request; `None`: nothing that could be compared.
fn variant_of(x: &Exchange, asked: &Asked, given: &Given) -> Option<Vec<u8>> {
    let mut variant = Vec::new();
    given.head.vary.write_key(&asked.rule.policy, fields(x), &mut variant).then_some(variant)
}

fn with_given(
    worker: &Worker,
    x: &mut Exchange,
    (asked, why): (&Asked, Forward),
    (given, reader): (&Given, Reader),
    collapsed: bool,
) -> Option<Box<Reply>> {
    x.cache_use = Some(if collapsed { CacheUse::Collapsed } else { CacheUse::Miss });
    let hit = Hit::of(&given.head, worker.unix());
    of_given(x, asked, (given, reader, !collapsed), &handled::fetched(hit, why, (true, collapsed)))
}

/// A stored response answers, which was validated, or is used because the service fails.
fn with_object(
    worker: &Worker,
    x: &mut Exchange,
    asked: &Asked,
    (object, why, is_own): (&Arc<Object>, Forward, bool),
) -> Option<Box<Reply>> {
    let hit = Hit::of(object.head(), worker.unix());
    x.cache_use = Some(match (hit.is_stale, is_own) {
        (true, _) => CacheUse::Stale,
        (false, true) => CacheUse::Revalidated,
        (false, false) => CacheUse::Collapsed,
    });
    let used = handled::fetched(hit, why, (false, !is_own));
    of_object(x, asked, (object.head(), object.body()), &used)
}

/// There is nothing for all: what is there for the client that has asked, or it goes to the service by itself.
fn with_own(
    worker: &Worker,
    x: &mut Exchange,
    (asked, why): (Asked, Forward),
    own: Option<OwnReader>,
) -> Result<Option<Box<Reply>>, Fault> {
    let taken = own.map_or(Ok(None), OwnReader::take)?;
    Ok(match taken {
        Some(Taken::Passed(passed)) => {
            x.cache_use = Some(CacheUse::Pass);
            Some(of_passed(&asked.rule, why, passed))
        }
        Some(Taken::Stored(head, object)) => {
            x.cache_use = Some(CacheUse::Revalidated);
            let used = handled::fetched(Hit::of(&head, worker.unix()), why, (false, false));
            of_object(x, &asked, (&head, object.body()), &used).or_else(|| alone(x, asked, why))
        }
        None => alone(x, asked, why),
    })
}

/// The request goes to the service by itself.
fn alone(x: &mut Exchange, asked: Asked, why: Forward) -> Option<Box<Reply>> {
    x.cache_use = Some(CacheUse::Pass);
    x.filtering.get_or_insert_default().forwarded = Some(Box::new(asked.into_forwarded(why)));
    None
}
