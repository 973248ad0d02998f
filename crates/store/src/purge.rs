//! Purges: what an operator takes away by URL, prefix, host or tag.
//!
//! A purge looks at every object, some at a time, so that no lock is held for long; it is for threads other than
//! workers. Fills that fit are not stored when they end. What is stored after a purge began may stay.

use crate::counters::add;
use crate::fill::Fill;
use crate::object::Object;
use crate::shard::Shard;
use crate::store::{Inner, Store};
use crate::tags::{Tags, digest, has_tag};
use std::sync::Arc;
use thalweg_cache::request::FieldLines;
use thalweg_cache::{KeyUrl, StoredHead, UnixMillis};

/// Objects that are looked at under one lock.
const AT_A_TIME: usize = 128;

/// Which objects. All that is given must fit; nothing given: all objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Select<'a> {
    /// One of these spaces, or those of services within them; empty: any.
    pub spaces: &'a [&'a [u8]],
    /// The scheme.
    pub scheme: Option<&'a [u8]>,
    /// The host in normal form.
    pub host: Option<&'a [u8]>,
    /// The port.
    pub port: Option<u16>,
    /// The path.
    pub path: Option<PathIs<'a>>,
    /// A tag.
    pub tag: Option<&'a [u8]>,
}

/// Which paths.
#[derive(Clone, Copy, Debug)]
pub enum PathIs<'a> {
    /// This one, with one of these queries as keys have them.
    Exactly(&'a [u8], &'a [Option<&'a [u8]>]),
    /// This one, with any query.
    Path(&'a [u8]),
    /// Those that begin so.
    Prefix(&'a [u8]),
}

/// How they are taken away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum How {
    /// They are gone.
    Remove,
    /// They are stale from now on: they are validated, or used where a stale response may be.
    MakeStale(UnixMillis),
}

impl Select<'_> {
    /// Whether it fits the response with this key and these fields: for a store that has no digests of tags.
    pub fn fits<'f>(&self, key: &[u8], fields: impl FieldLines<'f>) -> bool {
        self.fits_key(key) && self.tag.is_none_or(|tag| has_tag(fields, tag))
    }

    fn fits_key(&self, key: &[u8]) -> bool {
        let Some(url) = KeyUrl::read(key) else { return false };
        let is = |wanted: Option<&[u8]>, found: &[u8]| wanted.is_none_or(|wanted| wanted == found);
        let is_path = match self.path {
            None => true,
            Some(PathIs::Exactly(path, queries)) => url.path == path && queries.contains(&url.query),
            Some(PathIs::Path(path)) => url.path == path,
            Some(PathIs::Prefix(prefix)) => url.path.starts_with(prefix),
        };
        is_path
            && (self.spaces.is_empty() || self.spaces.contains(&url.space_name()))
            && is(self.scheme, url.scheme)
            && is(self.host, url.host)
            && self.port.is_none_or(|port| port == url.port)
    }
}

impl Store {
    /// Takes objects away; how many.
    pub fn purge(&self, select: &Select<'_>, how: How) -> u64 {
        let inner = &self.inner;
        let tag = select.tag.map(|tag| digest(tag, &inner.hasher));
        let fits =
            |object: &Object| select.fits_key(object.key()) && tag.is_none_or(|tag| object.tags.has(tag));
        let mut count = 0;
        for number in 0..inner.shards.len() {
            inner.purge_fills(number, |fill| select.fits_key(fill.name.key()) && inner.may_have(fill, tag));
            count += match how {
                How::Remove => inner.remove_all(number, &fits),
                How::MakeStale(now) => inner.make_stale(number, &fits, now),
            };
        }
        let counters = &inner.counters;
        add(if how == How::Remove { &counters.removed } else { &counters.made_stale }, count);
        count
    }
}

impl Inner {
    /// Lets fills not be stored. Their heads stand behind locks of their own, so that they are looked at in between.
    fn purge_fills(&self, number: usize, fits: impl Fn(&Arc<Fill>) -> bool) {
        let all: Vec<_> = self.shards[number].lock().fills.values().cloned().collect();
        let fitting: Vec<_> = all.into_iter().filter(|fill| fits(fill)).collect();
        if !fitting.is_empty() {
            self.change_in(number, |shard| {
                shard.drop_fills(|fill| fitting.iter().any(|other| Arc::ptr_eq(fill, other)));
            });
        }
    }

    /// Whether a fill has a tag; one without a head may have any.
    fn may_have(&self, fill: &Arc<Fill>, tag: Option<u64>) -> bool {
        let Some(tag) = tag else { return true };
        let head = fill.change(|state, _| state.given_head());
        head.is_none_or(|head| Tags::of(&head, &self.hasher).has(tag))
    }

    fn remove_all(&self, number: usize, fits: &impl Fn(&Object) -> bool) -> u64 {
        let mut count = 0;
        self.scan(number, |shard, hash, object, gone| {
            if fits(object) {
                shard.take(hash, |other| Arc::ptr_eq(other, object), gone);
                count += 1;
            }
        });
        count
    }

    fn make_stale(&self, number: usize, fits: &impl Fn(&Object) -> bool, now: UnixMillis) -> u64 {
        let mut count = 0;
        self.scan(number, |shard, hash, object, _| {
            if !fits(object) {
                return;
            }
            count += 1;
            let stale = Arc::new(object.with_head(Arc::new(stale(object.head(), now)), &self.hasher));
            // The same sizes: what is charged stays right.
            debug_assert_eq!(stale.charge(), object.charge());
            shard.replace(hash, object, &stale);
        });
        count
    }

    /// Looks at every object of a shard, some at a time.
    fn scan(
        &self,
        number: usize,
        mut look: impl FnMut(&mut Shard, u64, &Arc<Object>, &mut Vec<Arc<Object>>),
    ) {
        let mut from = 0;
        loop {
            let mut gone = Vec::new();
            let end = self.change_in(number, |shard| {
                let end = shard.nodes().min(from + AT_A_TIME);
                for node in from..end {
                    if let Some((hash, object)) = shard.at(node) {
                        let object = object.clone();
                        look(shard, hash, &object, &mut gone);
                    }
                }
                end
            });
            self.forget(&gone);
            if end == from {
                return;
            }
            from = end;
        }
    }
}

/// A head that is stale from now on, if it was not before.
fn stale(head: &StoredHead, now: UnixMillis) -> StoredHead {
    let mut head = head.clone();
    make_stale(&mut head, now);
    head
}

/// Makes a head stale from a moment on, if it was not before.
pub fn make_stale(head: &mut StoredHead, from: UnixMillis) {
    let age = head.freshness.age_seconds(from);
    head.freshness.lifetime.seconds = head.freshness.lifetime.seconds.min(age);
}

#[cfg(test)]
mod tests;
