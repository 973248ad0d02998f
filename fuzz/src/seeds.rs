//! Seeds, and the text form in which they are committed: one file, a pack, holds many.
//!
//! A line `== NAME` begins a seed; its bytes are those of the lines up to the next one, joined without their line
//! ends. Escapes stand for what a line cannot show: `\r`, `\n`, `\t`, `\\` and `\xHH`; a blank at the end of a line
//! is `\x20`, and `=` at its beginning `\x3d`. [`write()`] ends a line after each `\n` and after `WIDTH` characters.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::targets::Target;

/// Characters of a line after which [`write()`] begins another.
const WIDTH: usize = 100;

/// An input by its name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seed {
    /// Where it comes from: the row of the list of hostile inputs, or a word.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

/// The folder of this package: `fuzz/`.
pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every seed of a target.
///
/// # Errors
/// When a pack or a folder cannot be read.
pub fn of(target: &Target) -> io::Result<Vec<Seed>> {
    let mut seeds = Vec::new();
    for pack in target.packs {
        let path = folder().join("seeds").join(pack).with_extension("seeds");
        let text = fs::read_to_string(&path).map_err(|error| naming(&path, &error))?;
        seeds
            .extend(read(&text).map_err(|line| naming(&path, &format!("line {line} is no line of a pack")))?);
    }
    for name in target.folders {
        let path = folder().join("..").join(name);
        for entry in fs::read_dir(&path).map_err(|error| naming(&path, &error))? {
            let path = entry?.path();
            if path.is_file() {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                seeds.push(Seed { name, bytes: fs::read(&path)? });
            }
        }
    }
    // What a folder gives has no order, and names of two packs may be the same.
    seeds.sort_by(|a, b| (&a.name, &a.bytes).cmp(&(&b.name, &b.bytes)));
    Ok(seeds)
}

/// The path of a target's dictionary.
pub fn dictionary(target: &Target) -> PathBuf {
    folder().join("dictionaries").join(target.dictionary).with_extension("dict")
}

fn naming(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

/// Reads a pack.
///
/// # Errors
/// The number of the first line that is none of a pack.
pub fn read(text: &str) -> Result<Vec<Seed>, usize> {
    let mut seeds: Vec<Seed> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("== ") {
            seeds.push(Seed { name: name.to_owned(), bytes: Vec::new() });
        } else {
            let seed = seeds.last_mut().ok_or(index + 1)?;
            unescape(line, &mut seed.bytes).ok_or(index + 1)?;
        }
    }
    Ok(seeds)
}

/// Writes a seed as it stands in a pack.
pub fn write(name: &str, bytes: &[u8]) -> String {
    let mut text = format!("== {name}\n");
    let mut start = text.len();
    for byte in bytes {
        match byte {
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\\' => text.push_str("\\\\"),
            b'=' if text.len() == start => text.push_str("\\x3d"),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
        if *byte == b'\n' || text.len() - start >= WIDTH {
            end_line(&mut text);
            start = text.len();
        }
    }
    if text.len() > start {
        end_line(&mut text);
    }
    text
}

fn end_line(text: &mut String) {
    if text.ends_with(' ') {
        text.pop();
        text.push_str("\\x20");
    }
    text.push('\n');
}

/// The bytes of a text with escapes; nothing when one is not known.
pub(crate) fn unescape(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match rest.next()? {
            b'r' => b'\r',
            b'n' => b'\n',
            b't' => b'\t',
            escaped @ (b'\\' | b'"') => escaped,
            b'x' => {
                let digits = [rest.next()?, rest.next()?].map(|digit| char::from(digit).to_digit(16));
                let [Some(high), Some(low)] = digits else { return None };
                u8::try_from(high * 16 + low).ok()?
            }
            _ => return None,
        });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::TARGETS;

    #[test]
    fn every_target_has_seeds_and_a_dictionary() {
        for target in TARGETS {
            assert!(!of(target).unwrap().is_empty(), "{} has no seeds", target.name);
            assert!(dictionary(target).is_file(), "{} has no dictionary", target.name);
        }
    }

    #[test]
    fn every_pack_is_used_and_is_what_would_be_written() {
        for entry in fs::read_dir(folder().join("seeds")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(TARGETS.iter().any(|target| target.packs.contains(&name)), "{name} serves no target");
            let text = fs::read_to_string(&path).unwrap();
            let seeds = read(&text).unwrap_or_else(|line| panic!("{}:{line}", path.display()));
            let again: String = seeds.iter().map(|seed| write(&seed.name, &seed.bytes)).collect();
            assert_eq!(again, text, "{name}");
            let mut names: Vec<_> = seeds.iter().map(|seed| &seed.name).collect();
            names.sort();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{name} has a name twice");
        }
    }

    #[test]
    fn any_bytes_are_read_as_they_were_written() {
        let all: Vec<u8> = (0..=u8::MAX).rev().chain(*b"== a\n \n=\r\n\\x41 ").collect();
        for bytes in [b"".as_slice(), b" ", b"\n", &all] {
            let text = write("a name", bytes);
            assert_eq!(read(&text).unwrap(), [Seed { name: "a name".into(), bytes: bytes.to_vec() }]);
        }
        assert_eq!(read("x\n"), Err(1));
        assert_eq!(read("== a\n\\q\n"), Err(2));
    }
}
