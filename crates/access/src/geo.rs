//! Where addresses are registered: databases in MaxMind's format (MMDB), of countries or of autonomous systems.
//!
//! The file is read into memory, and read again when another one takes its place. What cannot be read leaves the old
//! database in place.

use crate::stamp::{Stamp, Watch, read};
use arc_swap::ArcSwap;
use maxminddb::{PathElement, Reader};
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thalweg_core::Notice;

/// Largest database, in bytes.
pub const DATABASE: u64 = 256 << 20;

/// A database.
pub struct Database {
    path: PathBuf,
    reader: ArcSwap<Reader<Vec<u8>>>,
    state: Mutex<(Watch, Option<String>)>,
}

/// Without what changes while it runs: configurations are compared by this.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

impl Database {
    /// Reads it.
    ///
    /// # Errors
    /// A sentence: it cannot be read, or is no database.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let (reader, stamp) = load(path).map_err(|why| format!("the database {}: {why}", path.display()))?;
        let mut watch = Watch::default();
        watch.has_read(stamp);
        Ok(Self {
            path: path.to_owned(),
            reader: ArcSwap::from_pointee(reader),
            state: Mutex::new((watch, None)),
        })
    }

    fn state(&self) -> MutexGuard<'_, (Watch, Option<String>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads it again: `now`, where it is another one, or else where it has stopped changing. Says whether it did.
    pub(crate) fn look(&self, now: bool) -> Result<bool, String> {
        let stamp = Stamp::of(&self.path).ok();
        let mut state = self.state();
        let is_due = match stamp {
            Some(stamp) if now => !state.0.knows(stamp),
            None if now => true,
            stamp => state.0.is_due(stamp) || (stamp.is_none() && state.1.is_none()),
        };
        if !is_due {
            return Ok(false);
        }
        stamp.into_iter().for_each(|stamp| state.0.has_read(stamp));
        let named = |why| format!("the database {}: {why}", self.path.display());
        let (reader, stamp) = load(&self.path).map_err(named)?;
        state.0.has_read(stamp);
        state.1 = None;
        self.reader.store(Arc::new(reader));
        Ok(true)
    }

    /// The same, as a line for the operator.
    pub(crate) fn look_and_tell(&self) -> Option<Notice> {
        match self.look(false) {
            Ok(true) => Some(Notice::info(format!("the database {} is read again", self.path.display()))),
            Ok(false) => None,
            Err(problem) => {
                let mut state = self.state();
                if state.1.as_ref() == Some(&problem) {
                    return None;
                }
                state.1 = Some(problem.clone());
                Some(Notice::warn(format!("{problem}; the old one stays")))
            }
        }
    }

    /// The country of an address as a code of two capitals (ISO 3166-1), where the database knows it.
    pub fn country(&self, address: IpAddr) -> Option<[u8; 2]> {
        let reader = self.reader.load();
        let found = reader.lookup(address.to_canonical()).ok()?;
        let path = ["country", "registered_country"];
        path.iter().find_map(|key| {
            let path = [PathElement::Key(key), PathElement::Key("iso_code")];
            let code = found.decode_path::<&str>(&path).ok().flatten()?;
            code.as_bytes().try_into().ok()
        })
    }

    /// The autonomous system of an address, where the database knows it.
    pub fn system(&self, address: IpAddr) -> Option<u32> {
        let reader = self.reader.load();
        let found = reader.lookup(address.to_canonical()).ok()?;
        found.decode_path::<u32>(&[PathElement::Key("autonomous_system_number")]).ok().flatten()
    }
}

fn load(path: &Path) -> Result<(Reader<Vec<u8>>, Stamp), String> {
    let (bytes, stamp) = read(path, DATABASE)?;
    let reader = Reader::from_source(bytes).map_err(|error| format!("it is no MMDB: {error}"))?;
    Ok((reader, stamp))
}

#[cfg(test)]
pub(crate) mod tests;
