//! What a client gets from the cache.

use crate::exchange::cache::asked::{Asked, fields};
use crate::exchange::cache::disk::StreamPlace;
use crate::exchange::cache::own_response::Passed;
use crate::exchange::cache::source::{of_disk, of_fill, of_stored};
use crate::state::exchange::Exchange;
use crate::state::forwarded::NAME;
use std::ops::Range;
use thalweg_cache::{
    Answer, Body as Length, CacheStatus, Detail, Forward, Handled, Hit, Parts, StoredHead, answer,
    write_answer,
};
use thalweg_disk::{Load, Loaded};
use thalweg_filter::{CacheRule, Reply, ReplyBody};
use thalweg_store::{Body, Given, Reader};

/// How a stored response is used, and what of it is told.
pub(crate) struct Use {
    hit: Hit,
    handled: Handled,
}

/// The ways in which one is.
pub(crate) mod handled {
    use super::{Forward, Handled, Hit, Use};

    /// Without a question.
    pub(crate) fn hit(hit: Hit) -> Use {
        Use { hit, handled: Handled::Hit }
    }

    /// After the service was asked: whether what came is stored, and whether another request has asked.
    pub(crate) fn fetched(hit: Hit, why: Forward, (stored, collapsed): (bool, bool)) -> Use {
        let status = (!stored).then_some(304).filter(|_| matches!(why, Forward::Stale | Forward::Request));
        Use { hit, handled: Handled::Forwarded { why, status, stored, collapsed } }
    }
}

/// A stored response, or the part of it that is asked for; `None`: parts are stored, and not that one.
pub(crate) fn of_object(
    x: &Exchange,
    asked: &Asked,
    (head, body): (&StoredHead, &Body),
    used: &Use,
) -> Option<Box<Reply>> {
    let whole = head.part.map_or(body.len(), |part| part.total);
    let only = head.part.map(|part| Parts::of(&part));
    let parts = only.as_ref().map(|only| body.parts().unwrap_or(only));
    let length = parts.map_or(Length::Complete(whole), Length::Parts);
    // Joined parts have the positions of the whole.
    let from = head.part.filter(|_| body.parts().is_none()).map_or(0, |part| part.first);
    compose(x, asked, (head, length), used, |range| {
        let range = range.unwrap_or(0..whole);
        of_stored(body, range.start.saturating_sub(from)..range.end.saturating_sub(from))
    })
}

/// One that is on the disk, or the part of it that is asked for.
pub(crate) fn of_loaded(
    x: &Exchange,
    asked: &Asked,
    (loaded, load): (&Loaded, (Load, StreamPlace)),
    used: &Use,
) -> Option<Box<Reply>> {
    let head = &loaded.head;
    let whole = head.part.map_or(loaded.length, |part| part.total);
    let parts = head.part.map(|part| Parts::of(&part));
    let length = parts.as_ref().map_or(Length::Complete(whole), Length::Parts);
    let from = head.part.map_or(0, |part| part.first);
    compose(x, asked, (head, length), used, |range| {
        let range = range.unwrap_or(0..whole);
        of_disk(load, range.start.saturating_sub(from)..range.end.saturating_sub(from))
    })
}

/// A response that is being received; `None`: it is a part, and not the one that is asked for. Who has caused it
/// (`is_own`) gets what the service has chosen to send.
pub(crate) fn of_given(
    x: &Exchange,
    asked: &Asked,
    (given, reader, is_own): (&Given, Reader, bool),
    used: &Use,
) -> Option<Box<Reply>> {
    let Some(part) = given.head.part else {
        let length = given.length.map_or(Length::Growing, Length::Complete);
        return compose(x, asked, (&given.head, length), used, |range| of_fill(reader, given.length, range));
    };
    let parts = Parts::of(&part);
    let chosen = match answer(&asked.request(x), fields(x), &given.head, Length::Parts(&parts)) {
        Answer::Lacks if !is_own => return None,
        chosen @ (Answer::NotModified | Answer::Part(_)) => chosen,
        _ => Answer::Part(part),
    };
    Some(written(asked, (&given.head, &chosen), used, |range| {
        let range = range.unwrap_or_else(|| part.range());
        of_fill(reader, given.length, Some(range.start - part.first..range.end - part.first))
    }))
}

/// A response that is for one client.
pub(crate) fn of_passed(rule: &CacheRule, why: Forward, passed: Passed) -> Box<Reply> {
    let Passed { status, lines, body, not_stored } = passed;
    let mut reply = Reply::new(status);
    (reply.is_stored, reply.fields, reply.body) = (true, lines, body);
    let handled = Handled::Forwarded { why, status: None, stored: false, collapsed: false };
    write_status(rule, handled, (None, Some(Detail::NotStored(not_stored))), &mut reply.fields);
    Box::new(reply)
}

/// The client does not want the service to be asked.
pub(crate) fn unavailable(rule: &CacheRule) -> Box<Reply> {
    let mut reply =
        Reply::new(504).body("text/plain; charset=utf-8", &b"Nothing that is stored can be used.\n"[..]);
    let handled =
        Handled::Forwarded { why: Forward::UriMiss, status: Some(504), stored: false, collapsed: false };
    write_status(rule, handled, (None, None), &mut reply.fields);
    Box::new(reply)
}

fn compose(
    x: &Exchange,
    asked: &Asked,
    (head, length): (&StoredHead, Length<'_>),
    used: &Use,
    body: impl FnOnce(Option<Range<u64>>) -> ReplyBody,
) -> Option<Box<Reply>> {
    let chosen = match answer(&asked.request(x), fields(x), head, length) {
        // What is not there as a whole is never sent as such.
        Answer::Lacks => return None,
        Answer::Several(..) if matches!(length, Length::Parts(parts) if !parts.is_complete()) => return None,
        // The whole is as good, and one kind of answer less.
        Answer::Several(..) => Answer::Full,
        chosen => chosen,
    };
    Some(written(asked, (head, &chosen), used, body))
}

/// An answer in the form in which it is sent.
fn written(
    asked: &Asked,
    (head, answer): (&StoredHead, &Answer),
    used: &Use,
    body: impl FnOnce(Option<Range<u64>>) -> ReplyBody,
) -> Box<Reply> {
    let mut reply = Reply::new(0);
    reply.is_stored = true;
    reply.fields.reserve(head.lines().len() + 128);
    reply.status = write_answer(answer, head, &used.hit, &mut reply.fields);
    let detail = (asked.is_from_disk && used.handled == Handled::Hit).then_some(Detail::Disk);
    write_status(&asked.rule, used.handled, (Some(used.hit.ttl), detail), &mut reply.fields);
    reply.body = match answer {
        Answer::Full | Answer::Lacks | Answer::Several(..) => body(None),
        Answer::Part(range) => body(Some(range.range())),
        Answer::NotModified | Answer::Unsatisfiable(_) => ReplyBody::Empty,
    };
    Box::new(reply)
}

fn write_status(
    rule: &CacheRule,
    handled: Handled,
    (ttl, detail): (Option<i64>, Option<Detail>),
    out: &mut Vec<u8>,
) {
    if rule.tells_status {
        out.extend_from_slice(b"Cache-Status: ");
        CacheStatus { name: NAME, handled, ttl, key: None, detail }.write(out);
        out.extend_from_slice(b"\r\n");
    }
}
