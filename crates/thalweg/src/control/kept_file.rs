//! A file of JSON in the state directory: read at the start, replaced whole.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Reads what was kept; nothing when there is none.
///
/// # Errors
/// Of the file system, and what is no object of this kind.
pub(crate) fn load<T: DeserializeOwned + Default>(path: &Path) -> io::Result<T> {
    match fs::read(path) {
        Ok(bytes) => {
            // A list would be read as a struct without members.
            let value: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&bytes)?;
            Ok(serde_json::from_value(value.into())?)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error),
    }
}

/// Keeps this: whole or not at all (a new file, synced, renamed), readable for this user alone.
///
/// # Errors
/// Of the file system.
pub(crate) fn store(path: &Path, kept: &impl Serialize) -> io::Result<()> {
    store_bytes(path, &serde_json::to_vec_pretty(kept)?)
}

/// The same of what is JSON already.
///
/// # Errors
/// Of the file system.
pub(crate) fn store_bytes(path: &Path, kept: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let new = path.with_extension("json.new");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(kept)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The name is durable when the directory is.
    path.parent().map_or(Ok(()), |directory| fs::File::open(directory)?.sync_all())
}
