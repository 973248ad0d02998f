//! Archives in the format ustar (POSIX.1-1988), byte for byte the same for the same tree.

use std::process::Command;

use anyhow::{Context, Result};

use super::tree::{Entry, Kind, Tree};
use crate::command::filtered;

/// The size of a block.
const BLOCK: usize = 512;
/// Longest name, and longest folder before it.
const NAME: usize = 100;
const PREFIX: usize = 155;

/// The tree as an archive, with this time on every entry.
pub(super) fn write(tree: &Tree, epoch: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for (path, entry) in tree.entries() {
        let (name, content) = match &entry.kind {
            Kind::Folder => (format!("{path}/"), &[][..]),
            Kind::File(bytes) => (path.clone(), bytes.as_slice()),
        };
        out.extend(header(&name, entry, content.len(), epoch).with_context(|| path.clone())?);
        out.extend(content);
        out.resize(out.len().next_multiple_of(BLOCK), 0);
    }
    out.resize(out.len() + 2 * BLOCK, 0);
    Ok(out)
}

/// Compressed, without the name and time that gzip would add. By the program: xtask itself is not optimised.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    filtered(Command::new("gzip").args(["-9", "--no-name"]), bytes)
}

fn header(path: &str, entry: &Entry, size: usize, epoch: u64) -> Result<[u8; BLOCK]> {
    let (prefix, name) = parted(path)?;
    let (kind, owner) = (&entry.kind, entry.owner);
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, &format!("{:07o}", entry.mode));
    put(108, &format!("{:07o}", owner.id));
    put(116, &format!("{:07o}", owner.id));
    put(124, &format!("{size:011o}"));
    put(136, &format!("{epoch:011o}"));
    put(148, "        ");
    put(
        156,
        match kind {
            Kind::File(_) => "0",
            Kind::Folder => "5",
        },
    );
    put(257, "ustar\u{0}00");
    put(265, owner.name);
    put(297, owner.name);
    put(345, prefix);
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\u{0} ").as_bytes());
    Ok(header)
}

/// A long path in two, at a slash.
fn parted(path: &str) -> Result<(&str, &str)> {
    if path.len() <= NAME {
        return Ok(("", path));
    }
    let fits = |at: &usize| *at <= PREFIX && path.len() - at - 1 <= NAME && at + 1 < path.len();
    let at = path.match_indices('/').map(|(at, _)| at).find(fits);
    let at = at.context("the path is too long for ustar")?;
    Ok((&path[..at], &path[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_tar_reads_what_is_written() {
        let mut tree = Tree::default();
        let long = format!("{}{}", "folder/".repeat(20), "f".repeat(60));
        tree.file("usr/bin/a", 0o755, b"hello".to_vec());
        tree.file(&long, 0o644, vec![7; 1000]);
        let bytes = write(&tree, 86_400).unwrap();
        let folder = std::env::temp_dir().join(format!("thalweg-tar-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.tar");
        std::fs::write(&path, bytes).unwrap();
        let listed = Command::new("tar").args(["--utc", "-tvf"]).arg(&path).output().unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        for part in ["-rwxr-xr-x root/root", " 5 1970-01-02 00:00 usr/bin/a", &long, "drwxr-xr-x"] {
            assert!(listed.contains(part), "{part} is not in\n{listed}");
        }
    }

    #[test]
    fn a_path_that_does_not_fit_is_refused() {
        assert!(parted(&"a".repeat(101)).is_err());
        assert_eq!(parted(&format!("b/{}", "a".repeat(100))).unwrap().0, "b");
    }
}
