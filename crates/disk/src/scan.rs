//! What is read of whole segments: all of them when the store is opened, and those that bans may concern later.
//!
//! One segment at a time, by the thread that writes, between other things. When the store is opened the newest comes
//! first: of two records of one object the one that is there already is the newer one. Bodies are not read.

use crate::ban::Verdict;
use crate::counters::add;
use crate::log::{FIRST, Records, Segment, front};
use crate::record::Header;
use crate::shared::{Condition, lock};
use crate::writer::{Lost, Writer};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;
use thalweg_cache::{UnixMillis, Vary, split_lines};

/// Bans that all objects are being compared with.
pub(crate) struct Sweep {
    upto: u64,
    numbers: Vec<u32>,
}

/// What is to be changed of a record.
enum Change {
    Remove,
    MakeStale(Option<UnixMillis>),
}

impl Writer {
    /// Reads a segment of an earlier run; false: there is none left.
    pub(crate) fn read_next(&mut self) -> Result<bool, Lost> {
        let Some((number, _)) = self.log.unread.pop_back() else {
            let is_first = self.shared.is_unread.swap(false, Ordering::AcqRel);
            if is_first && self.shared.condition() == Condition::Indexing {
                self.set_ready();
            }
            return Ok(false);
        };
        let mut changes = Vec::new();
        let read = self.read_segment(number, &mut changes);
        if read.is_err() {
            add(&self.shared.counters.errors, 1);
        }
        match read {
            Ok(Some(segment)) => {
                self.log.segments.push_front(segment);
                self.log.count();
                self.apply(number, changes)?;
            }
            // What has been found in it so far cannot be read.
            Ok(None) | Err(_) => {
                self.log.segments.push_front(Segment { number, bytes: 0, keys: Vec::new() });
                self.remove_segment(number)?;
            }
        }
        Ok(true)
    }

    /// `None`: it is empty, or not one of this store.
    fn read_segment(&mut self, number: u32, changes: &mut Vec<(u64, Change)>) -> io::Result<Option<Segment>> {
        let file = self.log.directory.segment(number, true)?;
        let size = file.metadata()?.len();
        let mut records = Records::new(&file, size);
        let front = front(self.log.instance, number);
        if records.bytes(0, front.len())?.is_none_or(|bytes| bytes != front) {
            return Ok(None);
        }
        let (mut keys, mut at) = (Vec::new(), FIRST);
        while let Some(header) = records.header(self.log.at(number, at))? {
            if header.is_live {
                match self.read_record((number, at), &header, &mut records)? {
                    (Some(key), None) => keys.push(key),
                    (key, Some(change)) => {
                        keys.extend(key);
                        changes.push((at, change));
                    }
                    (None, None) => {}
                }
            }
            at += header.record();
        }
        if at < size {
            let is_torn = match records.bytes(at, crate::record::HEADER)? {
                None => true,
                Some(bytes) => Header::decode(bytes, self.log.at(number, at)).is_some(),
            };
            if !is_torn {
                self.shared.count_damage();
            }
            // What could be read again later may have been removed meanwhile.
            file.set_len(at)?;
        }
        keys.shrink_to_fit();
        Ok((at > FIRST).then_some(Segment { number, bytes: at, keys }))
    }

    /// Finds a record a place in the index: the hash of its key if it has one, and what is to be changed.
    fn read_record(
        &self,
        (number, at): (u32, u64),
        header: &Header,
        records: &mut Records<'_>,
    ) -> io::Result<(Option<u64>, Option<Change>)> {
        let shared = &self.shared;
        let gone = (None, Some(Change::Remove));
        let Some(meta) = records.meta(at, header)? else {
            shared.count_damage();
            return Ok(gone);
        };
        let name = (meta.key(), meta.url(), meta.lines());
        let Verdict::Kept(stale_from) = shared.bans.judge(header.bans, name, header.stale_from) else {
            add(&shared.counters.removed, 1);
            return Ok(gone);
        };
        let hashes = shared.index.hashes(meta.key(), meta.url());
        let vary = Vary::read(split_lines(meta.lines()));
        let place = (number, at, header.record());
        let Some(slot) = shared.index.slot(place, &vary, meta.variant()) else { return Ok(gone) };
        if !shared.index.insert_older(hashes, slot) {
            return Ok(gone);
        }
        // After it can be found: a removal that comes now finds it.
        if lock(&shared.removals).concern(0, &hashes.both()) && shared.index.take_at(hashes.key, &slot) {
            add(&shared.counters.removed, 1);
            return Ok(gone);
        }
        let is_stale = stale_from != header.stale_from;
        Ok((Some(hashes.key), is_stale.then_some(Change::MakeStale(stale_from))))
    }

    /// Compares the objects of another segment with the bans, if it is time; forgets these after the last.
    pub(crate) fn sweep_next(&mut self) -> Result<(), Lost> {
        let Some(sweep) = &mut self.sweep else {
            let is_asked = lock(&self.shared.tasks).sweeps;
            if self.must_sweep(is_asked) {
                let (upto, numbers) = (self.shared.bans.last(), self.log.numbers());
                self.sweep = Some(Sweep { upto, numbers });
            }
            return Ok(());
        };
        if let Some(number) = sweep.numbers.pop() {
            return self.sweep_segment(number);
        }
        let upto = sweep.upto;
        self.shared.judge_growths(upto);
        self.shared.bans.forget(upto);
        (self.sweep, self.swept) = (None, Instant::now());
        self.write_state();
        Ok(())
    }

    fn sweep_segment(&mut self, number: u32) -> Result<(), Lost> {
        let shared = self.shared.clone();
        let mut keys = self.log.keys(number);
        keys.sort_unstable();
        keys.dedup();
        let in_segment =
            |key: u64| shared.index.in_segment(key, number).into_iter().map(move |slot| (key, slot));
        let mut slots: Vec<_> = keys.into_iter().flat_map(in_segment).collect();
        slots.sort_unstable_by_key(|(_, slot)| slot.offset());
        let Ok(file) = shared.file(number) else {
            // It has gone, or cannot be compared.
            return self.remove_segment(number);
        };
        let size = slots.last().map_or(0, |(_, slot)| slot.offset() + slot.length());
        let (mut records, mut changes, mut live) = (Records::new(&file, size), Vec::new(), 0);
        for (key, slot) in slots {
            let at = slot.offset();
            let header = records.header(self.log.at(number, at)).ok().flatten();
            let meta = header.as_ref().and_then(|header| records.meta(at, header).ok().flatten());
            let verdict = header.as_ref().zip(meta.as_ref()).map(|(header, meta)| {
                let name = (meta.key(), meta.url(), meta.lines());
                (header.stale_from, shared.bans.judge(header.bans, name, header.stale_from))
            });
            match verdict {
                Some((before, Verdict::Kept(stale_from))) => {
                    live += 1;
                    if before != stale_from {
                        changes.push((at, Change::MakeStale(stale_from)));
                    }
                }
                Some((_, Verdict::Gone)) => {
                    if shared.index.take_at(key, &slot) {
                        add(&shared.counters.removed, 1);
                    }
                    changes.push((at, Change::Remove));
                }
                None => {
                    shared.count_damage();
                    shared.index.take_at(key, &slot);
                    changes.push((at, Change::Remove));
                }
            }
        }
        if live == 0 && self.log.is_closed(number) {
            return self.remove_segment(number);
        }
        self.apply(number, changes)
    }

    fn apply(&mut self, number: u32, changes: Vec<(u64, Change)>) -> Result<(), Lost> {
        for (at, change) in changes {
            match change {
                Change::Remove => self.mark(number, at)?,
                Change::MakeStale(from) => {
                    if self.log.restamp(number, at, |header| header.stale_from = from).is_err() {
                        add(&self.shared.counters.errors, 1);
                        return self.remove_segment(number);
                    }
                }
            }
        }
        Ok(())
    }
}
