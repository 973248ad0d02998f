//! Segments: files to which records are appended, and that go as a whole, the oldest first.
//!
//! One thread owns them. Records are collected and written together; they are found only once they are written. What
//! breaks off in between ends at the end of the last whole record, or is cut there when the store is opened.

use crate::directory::Directory;
use crate::index::{Hashes, Slot};
use crate::record::{ALIGN, At, HEADER, Header, Meta, SUM};
use crate::settings::{BLOCK, WRITE};
use rustix::io::Errno;
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What a segment begins with.
const MAGIC: &[u8; 16] = b"thalweg segment1";
/// Where its first record stands.
pub(crate) const FIRST: u64 = 64;

/// A segment that is not written to any more.
pub(crate) struct Segment {
    pub(crate) number: u32,
    pub(crate) bytes: u64,
    /// The hashes of keys of its records.
    pub(crate) keys: Vec<u64>,
}

/// A record that was written.
pub(crate) struct Written {
    pub(crate) hashes: Hashes,
    pub(crate) slot: Slot,
    /// Where it was before.
    pub(crate) moved_from: Option<Slot>,
    /// The number of the last removal that does not concern it.
    pub(crate) removals: u64,
}

/// The segment that is written to.
struct Active {
    file: File,
    number: u32,
    /// Bytes of it that are written.
    flushed: u64,
    /// Bytes of it up to the end of the last whole record that is written.
    committed: u64,
    /// What is to be written behind them.
    buffer: Vec<u8>,
    keys: Vec<u64>,
    written: Vec<Written>,
}

impl Active {
    fn end(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }
}

/// The segments.
pub(crate) struct Log {
    pub(crate) directory: Arc<Directory>,
    pub(crate) instance: u64,
    /// Bytes after which a segment ends.
    segment: u64,
    /// The oldest first.
    pub(crate) segments: VecDeque<Segment>,
    /// Those that have not been read since the store was opened, with their sizes, the oldest first: all of them are
    /// older than the others.
    pub(crate) unread: VecDeque<(u32, u64)>,
    active: Option<Active>,
    /// Bytes of all but that one.
    closed: u64,
    /// Bytes of files that are not segments yet.
    pub(crate) unfinished: u64,
    next: u32,
    nonces: u64,
    /// Segments in which something was changed that is not on the disk yet.
    dirty: BTreeSet<u32>,
    /// The last one that was opened to be changed.
    opened: Option<(u32, File)>,
}

impl Log {
    pub(crate) fn new(
        directory: Arc<Directory>,
        (instance, nonces): (u64, u64),
        segment: u64,
    ) -> Result<Self, Errno> {
        let mut unread = directory.segments()?;
        unread.sort_unstable();
        let next = unread.last().map_or(1, |(number, _)| number.saturating_add(1));
        let mut log = Self {
            directory,
            instance,
            segment,
            segments: VecDeque::new(),
            unread: unread.into(),
            active: None,
            closed: 0,
            unfinished: 0,
            next,
            nonces,
            dirty: BTreeSet::new(),
            opened: None,
        };
        log.count();
        Ok(log)
    }

    /// Bytes on the disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.closed + self.unfinished + self.active.as_ref().map_or(0, |active| blocks(active.end()))
    }

    /// Counts anew after segments have come or gone.
    pub(crate) fn count(&mut self) {
        let segments = self.segments.iter().map(|segment| segment.bytes);
        let unread = self.unread.iter().map(|(_, bytes)| *bytes);
        self.closed = segments.chain(unread).map(blocks).sum();
    }

    pub(crate) fn at(&self, segment: u32, offset: u64) -> At {
        At { instance: self.instance, segment, offset }
    }

    /// A number that no other record has.
    pub(crate) fn nonce(&mut self) -> u64 {
        self.nonces = self.nonces.wrapping_add(1);
        xxh3_64_with_seed(&self.nonces.to_le_bytes(), self.instance)
    }

    /// Begins a record: where it stands.
    pub(crate) fn begin(&mut self, header: &Header, meta: &[u8]) -> io::Result<(u32, u64)> {
        if self.active.is_none() {
            self.open_next()?;
        }
        let instance = self.instance;
        let Some(active) = &mut self.active else { return Err(io::ErrorKind::NotFound.into()) };
        let place = (active.number, active.end());
        let at = At { instance, segment: place.0, offset: place.1 };
        active.buffer.extend_from_slice(&header.encode(at));
        active.buffer.extend_from_slice(meta);
        Ok(place)
    }

    /// Adds a chunk to the record.
    pub(crate) fn chunk(&mut self, header: &Header, number: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(active) = &mut self.active else { return Ok(()) };
        active.buffer.extend_from_slice(bytes);
        active.buffer.extend_from_slice(&header.chunk_sum(number, bytes).to_le_bytes());
        if active.buffer.len() >= WRITE { self.spill() } else { Ok(()) }
    }

    /// Ends the record. What was written meanwhile is to be taken ([`Self::take_written`]).
    pub(crate) fn end(&mut self, written: Written) -> io::Result<()> {
        let Some(active) = &mut self.active else { return Ok(()) };
        let padding = active.end().next_multiple_of(ALIGN) - active.end();
        active.buffer.resize(active.buffer.len() + padding as usize, 0);
        active.written.push(written);
        if active.buffer.len() >= WRITE { self.flush() } else { Ok(()) }
    }

    /// The record that began here is not written.
    pub(crate) fn abandon(&mut self, begin: u64) -> io::Result<()> {
        let Some(active) = &mut self.active else { return Ok(()) };
        if begin >= active.flushed {
            active.buffer.truncate((begin - active.flushed) as usize);
            return Ok(());
        }
        active.buffer.clear();
        active.flushed = begin;
        active.file.set_len(begin)
    }

    /// Writes what was collected.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.spill()?;
        if let Some(active) = &mut self.active {
            active.committed = active.flushed;
        }
        Ok(())
    }

    /// Something could not be written: what is not whole is forgotten. How many records that were.
    pub(crate) fn give_up(&mut self) -> usize {
        let Some(active) = &mut self.active else { return 0 };
        let lost = active.written.iter().filter(|written| written.slot.offset() >= active.committed).count();
        active.written.retain(|written| written.slot.offset() < active.committed);
        active.buffer = Vec::new();
        let is_cut = active.file.set_len(active.committed).is_ok();
        active.flushed = active.committed;
        // What is behind it is not whole, and nothing may follow it.
        if !is_cut || active.committed < FIRST {
            self.retire();
        }
        lost
    }

    /// Takes the records that were written.
    pub(crate) fn take_written(&mut self) -> Vec<Written> {
        let Some(active) = &mut self.active else { return Vec::new() };
        let whole =
            active.written.iter().take_while(|written| written.slot.offset() < active.committed).count();
        let written: Vec<_> = active.written.drain(..whole).collect();
        active.keys.extend(written.iter().map(|written| written.hashes.key));
        written
    }

    /// The segment that is written to ends; what it has has been taken.
    pub(crate) fn retire(&mut self) {
        let Some(active) = self.active.take() else { return };
        let Active { number, flushed, mut keys, .. } = active;
        if keys.is_empty() {
            let _ = self.directory.remove_segment(number);
        } else {
            keys.shrink_to_fit();
            self.segments.push_back(Segment { number, bytes: flushed, keys });
        }
        self.count();
    }

    /// Whether the segment that is written to is long enough; then it is to be flushed, taken and retired.
    pub(crate) fn is_long(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.end() >= self.segment)
    }

    /// The numbers of all segments that were read or written.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let active = self.active.as_ref().map(|active| active.number);
        self.segments.iter().map(|segment| segment.number).chain(active).collect()
    }

    /// Whether a segment is not written to any more.
    pub(crate) fn is_closed(&self, number: u32) -> bool {
        self.active.as_ref().is_none_or(|active| active.number != number)
    }

    /// The hashes of keys of a segment.
    pub(crate) fn keys(&self, number: u32) -> Vec<u64> {
        match &self.active {
            Some(active) if active.number == number => active.keys.clone(),
            _ => {
                let found = self.segments.iter().find(|segment| segment.number == number);
                found.map(|segment| segment.keys.clone()).unwrap_or_default()
            }
        }
    }

    /// Removes a segment with all that it has.
    pub(crate) fn remove(&mut self, number: u32) -> Result<(), Errno> {
        self.directory.remove_segment(number)?;
        self.dirty.remove(&number);
        self.opened.take_if(|(opened, _)| *opened == number);
        self.segments.retain(|segment| segment.number != number);
        self.unread.retain(|(unread, _)| *unread != number);
        self.active.take_if(|active| active.number == number);
        self.count();
        Ok(())
    }

    /// Changes the header of a record; nothing is done where there is none.
    pub(crate) fn restamp(
        &mut self,
        segment: u32,
        offset: u64,
        change: impl FnOnce(&mut Header),
    ) -> io::Result<()> {
        if self.opened.as_ref().is_none_or(|(opened, _)| *opened != segment) {
            match self.directory.segment(segment, true) {
                Ok(file) => self.opened = Some((segment, file)),
                // It has gone as a whole.
                Err(Errno::NOENT) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
        let (at, mut bytes) = (self.at(segment, offset), [0; HEADER]);
        let Some((_, file)) = &self.opened else { return Ok(()) };
        file.read_exact_at(&mut bytes, offset)?;
        // A damaged one is found by nobody, and cut off when the store is opened.
        let Some(mut header) = Header::decode(&bytes, at) else { return Ok(()) };
        change(&mut header);
        let bytes = header.encode(at);
        // A removed one differs in what stands in front: 16 bytes within one sector.
        let changed = if header.is_live { &bytes[..] } else { &bytes[..16] };
        file.write_all_at(changed, offset)?;
        self.dirty.insert(segment);
        Ok(())
    }

    /// Whether something was changed that is not on the disk yet.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Has the disk write what was changed.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        while let Some(number) = self.dirty.pop_first() {
            match self.directory.segment(number, true) {
                Ok(file) => file.sync_data()?,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        let Some(active) = &mut self.active else { return Ok(()) };
        active.file.write_all_at(&active.buffer, active.flushed)?;
        active.flushed += active.buffer.len() as u64;
        active.buffer.clear();
        Ok(())
    }

    /// The number of the next segment.
    pub(crate) fn take_number(&mut self) -> io::Result<u32> {
        let number = self.next;
        // Where making it fails, something may stand in its place that is not ours.
        self.next = number.checked_add(1).ok_or(io::ErrorKind::StorageFull)?;
        Ok(number)
    }

    fn open_next(&mut self) -> io::Result<()> {
        let number = self.take_number()?;
        let file = self.directory.create_segment(number)?;
        let buffer = front(self.instance, number).to_vec();
        let active =
            Active { file, number, flushed: 0, committed: 0, buffer, keys: Vec::new(), written: Vec::new() };
        self.active = Some(active);
        Ok(())
    }
}

/// What a file of this length takes of the disk.
pub(crate) fn blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK)
}

/// What a segment begins with.
pub(crate) fn front(instance: u64, number: u32) -> [u8; FIRST as usize] {
    let mut out = [0; FIRST as usize];
    out[..16].copy_from_slice(MAGIC);
    out[16..24].copy_from_slice(&instance.to_le_bytes());
    out[24..28].copy_from_slice(&number.to_le_bytes());
    let sum = xxh3_64_with_seed(&out[..56], 0);
    out[56..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Reads records one after the other.
pub(crate) struct Records<'f> {
    pub(crate) file: &'f File,
    pub(crate) size: u64,
    bytes: Vec<u8>,
    /// Where `bytes` stand in the file.
    from: u64,
}

impl<'f> Records<'f> {
    pub(crate) fn new(file: &'f File, size: u64) -> Self {
        Self { file, size, bytes: Vec::new(), from: 0 }
    }

    /// Bytes of the file; `None`: it has not so many.
    pub(crate) fn bytes(&mut self, at: u64, length: usize) -> io::Result<Option<&[u8]>> {
        const READ: u64 = 64 * 1024;
        let Some(end) = at.checked_add(length as u64).filter(|end| *end <= self.size) else {
            return Ok(None);
        };
        if at < self.from || end > self.from + self.bytes.len() as u64 {
            let until = end.max(at + READ).min(self.size);
            self.bytes.resize((until - at) as usize, 0);
            self.from = at;
            let read = self.file.read_exact_at(&mut self.bytes, at);
            read.inspect_err(|_| self.bytes.clear())?;
        }
        let from = (at - self.from) as usize;
        Ok(Some(&self.bytes[from..from + length]))
    }

    /// The header of the record that stands here; `None`: there is none, or not the whole of it.
    pub(crate) fn header(&mut self, at: At) -> io::Result<Option<Header>> {
        let size = self.size;
        let header = self.bytes(at.offset, HEADER)?.and_then(|bytes| Header::decode(bytes, at));
        Ok(header.filter(|header| at.offset + header.record() <= size))
    }

    /// Key, variant and lines of it; `None`: they are damaged.
    pub(crate) fn meta(&mut self, offset: u64, header: &Header) -> io::Result<Option<Meta<&[u8]>>> {
        let bytes = self.bytes(offset + HEADER as u64, header.meta())?;
        Ok(bytes.and_then(|bytes| Meta::check(header, bytes)))
    }

    /// A chunk of it; `None`: it is damaged.
    pub(crate) fn chunk(&mut self, offset: u64, header: &Header, number: u64) -> io::Result<Option<&[u8]>> {
        let Some((from, length)) = header.chunk(number) else { return Ok(None) };
        let bytes = self.bytes(offset + from, length + SUM)?;
        Ok(bytes.and_then(|bytes| header.checked_chunk(number, bytes)))
    }
}
