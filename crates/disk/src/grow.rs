//! What the writing thread does for responses that are written while they are fetched ([`Growth`]).
//!
//! The file of one has room for the front of a segment and the header of its record, and the body behind that. Both
//! are written last; then the file gets the name of a segment that is newer than all others.

use crate::counters::add;
use crate::growth::{Growth, Work};
use crate::log::{FIRST, Segment, blocks, front};
use crate::record::{HEADER, Header, SUM};
use crate::shared::lock;
use crate::writer::{Failure, Lost, Writer};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use thalweg_store::{CHUNK, Chunk};

/// Of the room for segments, unfinished responses have this part.
const PART_FOR_GROWTHS: u64 = 2;

/// One with a file.
pub(crate) struct Growing {
    growth: Arc<Growth>,
    file: Arc<File>,
    /// That of its file, until it becomes a segment.
    number: u32,
    /// Its body is as long as what is written.
    header: Header,
}

impl Growing {
    /// Bytes of the file up to the end of what is written.
    fn end(&self) -> u64 {
        let chunks = self.header.body.div_ceil(CHUNK as u64);
        FIRST + (HEADER + self.header.meta()) as u64 + self.header.body + chunks * SUM as u64
    }
}

impl Writer {
    /// Writes what there is of these.
    pub(crate) fn write_growths(&mut self, growths: Vec<Arc<Growth>>) -> Result<(), Lost> {
        for growth in growths {
            let work = growth.take();
            if work.is_over {
                self.drop_growth(&growth);
                continue;
            }
            let done = match self.may_write() {
                true => self.write_growth(&growth, &work),
                false => Ok(false),
            };
            match done {
                Ok(true) if work.has_more => growth.queue_again(),
                Ok(true) => {}
                Ok(false) => self.give_up(&growth),
                Err(Failure::Lost) => return Err(Lost),
                Err(Failure::Io(error)) => {
                    // Before its file goes: so much the disk has taken.
                    let settled = self.settle(Err(error));
                    self.give_up(&growth);
                    settled?;
                }
            }
        }
        Ok(())
    }

    /// Writes chunks of one, and stores it if they are the last; false: it is not stored.
    fn write_growth(&mut self, growth: &Arc<Growth>, work: &Work) -> Result<bool, Failure> {
        let place = match self.growing.iter().position(|growing| Arc::ptr_eq(&growing.growth, growth)) {
            Some(place) => place,
            None => self.open_growth(growth)?,
        };
        if !work.chunks.is_empty() && !self.append_chunks(place, &work.chunks)? {
            return Ok(false);
        }
        if !work.is_last {
            return Ok(true);
        }
        let is_stored = self.publish(place)?;
        if is_stored {
            self.forget_growth(growth);
            growth.stored();
        }
        Ok(is_stored)
    }

    fn open_growth(&mut self, growth: &Arc<Growth>) -> Result<usize, Failure> {
        let nonce = self.log.nonce();
        let (head, number) = (&growth.head, self.grown);
        self.grown = number.wrapping_add(1);
        let file = self.log.directory.create_growth(number).map_err(io::Error::from)?;
        let header = Header {
            is_live: true,
            nonce,
            body: 0,
            received: head.freshness.received.0,
            initial_age: head.freshness.initial_age,
            bans: 0,
            stale_from: None,
            part: None,
            key: growth.key as u32,
            url: growth.url as u32,
            variant: growth.variant as u32,
            lines: head.lines().len() as u32,
            status: head.status,
            meta_sum: Header::sum_of_meta(nonce, &growth.meta),
        };
        self.growing.push(Growing { growth: growth.clone(), file: Arc::new(file), number, header });
        Ok(self.growing.len() - 1)
    }

    /// Writes chunks behind what is there; false: it becomes too large.
    fn append_chunks(&mut self, place: usize, chunks: &[Chunk]) -> Result<bool, Failure> {
        let more: u64 = chunks.iter().map(|chunk| (chunk.len() + SUM) as u64).sum();
        let of_all = self.growing.iter().map(Growing::end).sum::<u64>() + more;
        let Some(growing) = self.growing.get(place) else { return Ok(false) };
        let body = growing.header.body + chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
        if body > self.shared.settings.largest() || of_all > self.room / PART_FOR_GROWTHS {
            return Ok(false);
        }
        self.make_room(more).map_err(|Lost| Failure::Lost)?;
        let growing = &mut self.growing[place];
        let (mut bytes, from) = (Vec::with_capacity(more as usize), growing.end());
        for chunk in chunks {
            let number = growing.header.body / CHUNK as u64;
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(&growing.header.chunk_sum(number, chunk).to_le_bytes());
            growing.header.body += chunk.len() as u64;
        }
        growing.file.write_all_at(&bytes, from)?;
        growing.growth.wrote(&growing.file, &growing.header);
        self.count_growths();
        Ok(true)
    }

    /// Makes a segment of one whose body is complete; false: it was purged or removed meanwhile.
    fn publish(&mut self, place: usize) -> Result<bool, Failure> {
        let shared = self.shared.clone();
        let Some(growing) = self.growing.get(place) else { return Ok(false) };
        let (growth, file, unfinished) = (growing.growth.clone(), growing.file.clone(), growing.number);
        let Some((ticket, stale_from)) = growth.judge() else { return Ok(false) };
        let header = Header { bans: ticket.bans, stale_from, ..growing.header.clone() };
        let hashes = shared.index.hashes(growth.key(), growth.url());
        let all = [hashes.key, hashes.url, shared.index.same(hashes.key, growth.variant())];
        if lock(&shared.removals).concern(ticket.removals, &all) || !header.is_possible() {
            return Ok(false);
        }
        // What was written before is older.
        self.end_segment()?;
        let number = self.log.take_number()?;
        let place = (number, FIRST, header.record());
        let Some(slot) = shared.index.slot(place, &growth.head.vary, growth.variant()) else {
            return Ok(false);
        };
        let mut bytes = front(self.log.instance, number).to_vec();
        bytes.extend_from_slice(&header.encode(self.log.at(number, FIRST)));
        bytes.extend_from_slice(&growth.meta);
        file.set_len(FIRST + header.record())?;
        file.write_all_at(&bytes, 0)?;
        self.log.directory.finish_growth(unfinished, number).map_err(io::Error::from)?;
        let bytes = FIRST + header.record();
        self.log.segments.push_back(Segment { number, bytes, keys: vec![hashes.key] });
        self.log.count();
        self.index_new(hashes, slot, ticket.removals).map_err(|Lost| Failure::Lost)?;
        Ok(true)
    }

    /// One is not stored.
    fn give_up(&mut self, growth: &Arc<Growth>) {
        add(&self.shared.counters.not_written, 1);
        growth.fail();
        self.drop_growth(growth);
    }

    /// Removes the file of one that is not stored.
    fn drop_growth(&mut self, growth: &Arc<Growth>) {
        if let Some(growing) = self.forget_growth(growth)
            && self.log.directory.remove_growth(growing.number).is_err()
        {
            add(&self.shared.counters.errors, 1);
        }
    }

    fn forget_growth(&mut self, growth: &Arc<Growth>) -> Option<Growing> {
        let place = self.growing.iter().position(|growing| Arc::ptr_eq(&growing.growth, growth))?;
        let growing = self.growing.swap_remove(place);
        self.count_growths();
        Some(growing)
    }

    /// Ends all of them, and removes their files.
    pub(crate) fn end_growths(&mut self) {
        self.shared.end_growths();
        while let Some(growth) = self.growing.first().map(|growing| growing.growth.clone()) {
            self.drop_growth(&growth);
        }
    }

    fn count_growths(&mut self) {
        self.log.unfinished = self.growing.iter().map(|growing| blocks(growing.end())).sum();
    }
}
