//! The file that says which store this is, and has its bans.
//!
//! It has its full length from the start, so that a ban can be written when the disk is full. Where it cannot be read,
//! nothing of the store is used: a ban may have been lost. A file of another version counts as that.

use crate::ban::Ban;
use crate::directory::{Directory, NEXT_STATE, STATE};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What it begins with. The number is the version of all files of the store.
const MAGIC: &[u8; 16] = b"thalweg cache  1";
/// Bytes of its header: what it begins with, the number of the store, that of the last forgotten ban, a checksum.
const HEADER: usize = 40;
/// Bytes of the file.
pub(crate) const SIZE: usize = 256 * 1024;
/// The largest ban; a purge with a larger one empties the store.
const MOST_BAN: usize = SIZE / 4;
/// In front of a ban: its length and a checksum.
const FRONT: usize = 12;

/// The file.
#[derive(Debug)]
pub(crate) struct State {
    file: File,
    /// The number of the store.
    pub(crate) instance: u64,
    used: usize,
}

/// What the file says.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Kept {
    /// Bans up to this number are forgotten.
    pub(crate) forgotten: u64,
    pub(crate) bans: Vec<Ban>,
}

/// A ban has no place.
#[derive(Debug)]
pub(crate) enum NotWritten {
    /// Others must be forgotten first.
    Full,
    /// It is too large, or the disk refuses it.
    Failed,
}

impl State {
    /// Reads it. `None`: it is not there, damaged, or of another version.
    pub(crate) fn read(directory: &Directory) -> Result<Option<(Self, Kept)>, Errno> {
        let mut file = match directory.open_ours(STATE, OFlags::RDWR) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let mut bytes = Vec::with_capacity(SIZE);
        let read = (&mut file).take(SIZE as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let Some((instance, used, kept)) = parse(&bytes) else { return Ok(None) };
        Ok(Some((Self { file, instance, used }, kept)))
    }

    /// Writes a new one in the place of the old.
    pub(crate) fn write(
        directory: &Directory,
        instance: u64,
        forgotten: u64,
        bans: &[&Ban],
    ) -> io::Result<Self> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&instance.to_le_bytes());
        bytes.extend_from_slice(&forgotten.to_le_bytes());
        bytes.extend_from_slice(&xxh3_64_with_seed(&bytes, 0).to_le_bytes());
        bans.iter().for_each(|ban| append(ban, instance, &mut bytes));
        let used = bytes.len();
        if used > SIZE {
            return Err(io::ErrorKind::StorageFull.into());
        }
        bytes.resize(SIZE, 0);
        directory.remove(NEXT_STATE)?;
        let file = directory.create(NEXT_STATE)?;
        file.write_all_at(&bytes, 0)?;
        file.sync_all()?;
        directory.rename(NEXT_STATE, STATE)?;
        directory.sync()?;
        Ok(Self { file, instance, used })
    }

    /// Adds a ban; it is on the disk when this returns.
    pub(crate) fn add(&mut self, ban: &Ban) -> Result<(), NotWritten> {
        let mut bytes = Vec::new();
        append(ban, self.instance, &mut bytes);
        if bytes.len() > MOST_BAN {
            return Err(NotWritten::Failed);
        }
        if self.used + bytes.len() > SIZE {
            return Err(NotWritten::Full);
        }
        let written = self.file.write_all_at(&bytes, self.used as u64).and_then(|()| self.file.sync_data());
        written.map_err(|_| NotWritten::Failed)?;
        self.used += bytes.len();
        Ok(())
    }
}

fn append(ban: &Ban, instance: u64, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; FRONT]);
    ban.encode(out);
    let length = (out.len() - at - FRONT) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
    let sum = xxh3_64_with_seed(&out[at + FRONT..], instance ^ u64::from(length));
    out[at + 4..at + FRONT].copy_from_slice(&sum.to_le_bytes());
}

/// The number of the store, the bytes that are used, and what is kept.
fn parse(bytes: &[u8]) -> Option<(u64, usize, Kept)> {
    let (head, mut rest) = bytes.split_at_checked(HEADER)?;
    let number = |at: usize| head[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let is_whole = bytes.len() == SIZE && head.starts_with(MAGIC);
    if !is_whole || number(32)? != xxh3_64_with_seed(&head[..32], 0) {
        return None;
    }
    let (instance, forgotten, mut bans) = (number(16)?, number(24)?, Vec::new());
    while let Some((front, after)) = rest.split_first_chunk::<FRONT>() {
        let length = u32::from_le_bytes(*front.first_chunk()?);
        if length == 0 {
            break;
        }
        let (ban, after) = after.split_at_checked(length as usize)?;
        let sum = xxh3_64_with_seed(ban, instance ^ u64::from(length));
        if front[4..] != sum.to_le_bytes() {
            return None;
        }
        bans.push(Ban::decode(ban)?);
        rest = after;
    }
    // Behind the last ban there is nothing: no length of one has become 0.
    rest.iter().all(|byte| *byte == 0).then_some((
        instance,
        bytes.len() - rest.len(),
        Kept { forgotten, bans },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ban::Which;
    use crate::testing::Folder;
    use thalweg_store::How;

    fn ban(number: u64) -> Ban {
        Ban { number, how: How::Remove, which: Which::Url(vec![b'u'; number as usize].into()) }
    }

    #[test]
    fn bans_are_kept() {
        let folder = Folder::new();
        let directory = Directory::open(&folder.path().join("cache")).unwrap();
        assert!(State::read(&directory).unwrap().is_none());
        let mut state = State::write(&directory, 5, 2, &[&ban(3)]).unwrap();
        state.add(&ban(4)).unwrap();
        assert!(matches!(state.add(&ban(MOST_BAN as u64)), Err(NotWritten::Failed)));
        for expected in [vec![ban(3), ban(4)], vec![ban(3), ban(4), ban(5)]] {
            let (mut state, kept) = State::read(&directory).unwrap().unwrap();
            assert_eq!((state.instance, kept), (5, Kept { forgotten: 2, bans: expected }));
            state.add(&ban(5)).unwrap();
        }
        while state.used < SIZE - 40_000 {
            state.add(&ban(20_000)).unwrap();
        }
        assert!(matches!(state.add(&ban(45_000)), Err(NotWritten::Full)));
    }

    #[test]
    fn a_flip_of_any_bit_is_found() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&5_u64.to_le_bytes());
        bytes.extend_from_slice(&2_u64.to_le_bytes());
        bytes.extend_from_slice(&xxh3_64_with_seed(&bytes, 0).to_le_bytes());
        append(&ban(3), 5, &mut bytes);
        append(&ban(4), 5, &mut bytes);
        let used = bytes.len();
        bytes.resize(SIZE, 0);
        assert!(parse(&bytes).is_some() && parse(&bytes[..SIZE - 1]).is_none());
        for bit in 0..(used + 40) * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&bytes).is_none(), "{bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        // Lengths that became 0 hide nothing.
        bytes[HEADER..HEADER + 4].fill(0);
        assert!(parse(&bytes).is_none());
    }
}
