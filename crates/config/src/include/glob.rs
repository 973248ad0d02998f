//! Which files a pattern such as `routes.d/*.yaml` means.
//!
//! `*` is any number of characters, `?` one, `[a-z]` one of them and `[!a-z]` one of the others; none of them is a
//! `/`. What editors and file systems keep beside files never matches: see [`is_hidden`].

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Most entries of directories that one pattern looks at.
const ENTRIES: usize = 100_000;

/// Whether the path holds a wildcard; if not, it is the name of one file.
pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// The files that match, sorted by the bytes of their paths. Directories do not match.
///
/// # Errors
/// A directory that is there and cannot be read, or more than [`ENTRIES`] entries.
pub(crate) fn expand(base: &Path, pattern: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![if pattern.starts_with('/') { PathBuf::from("/") } else { base.to_owned() }];
    let mut entries = 0;
    let mut parts = pattern.split('/').filter(|part| !part.is_empty()).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let mut next = Vec::new();
        for directory in found {
            if is_pattern(part) {
                matching(&directory, part, &mut entries, &mut next)?;
            } else {
                next.push(directory.join(part));
            }
        }
        // A link leads where it leads; one that leads nowhere stays, and is an error when it is read.
        next.retain(|path| match fs::metadata(path) {
            Ok(metadata) => is_last != metadata.is_dir(),
            Err(_) => is_last && fs::symlink_metadata(path).is_ok(),
        });
        found = next;
    }
    found.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    Ok(found)
}

/// Adds the entries of a directory that match one part of a pattern.
fn matching(directory: &Path, part: &str, entries: &mut usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    // The path of an entry of "" would begin with a "/".
    let place = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let listing = match fs::read_dir(place) {
        Ok(listing) => listing,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for entry in listing {
        *entries += 1;
        if *entries > ENTRIES {
            return Err(io::Error::other(format!("there are more than {ENTRIES} files to look at")));
        }
        let name = entry?.file_name();
        if !is_hidden(name.as_bytes(), part) && matches(part.as_bytes(), name.as_bytes()) {
            found.push(directory.join(name));
        }
    }
    Ok(())
}

/// `.name`, unless the pattern begins with a dot too; and what editors leave behind: `name~`, `#name#`,
/// `name.swp` and its like.
fn is_hidden(name: &[u8], part: &str) -> bool {
    let swap = [&b".swp"[..], b".swo", b".swx"].iter().any(|end| name.ends_with(end));
    let saved = name.ends_with(b"~") || (name.starts_with(b"#") && name.ends_with(b"#"));
    swap || saved || (name.starts_with(b".") && !part.starts_with('.'))
}

/// Whether a name matches one part of a pattern. Quadratic at worst: of several `*`, only the last one is
/// ever tried again.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at + 1, from));
            at += 1;
            continue;
        }
        if let Some(length) = one(&pattern[at..], name[from]) {
            (at, from) = (at + length, from + 1);
            continue;
        }
        let Some((behind, first)) = star else { return false };
        star = Some((behind, first + 1));
        (at, from) = (behind, first + 1);
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// How many bytes of the pattern stand for this one byte of a name; `None`: they do not.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => {
            let inner = &pattern[1..];
            let (inner, negated) = inner.strip_prefix(b"!").map_or((inner, false), |rest| (rest, true));
            // A `]` that stands first is one of the characters.
            let end = inner.iter().skip(1).position(|b| *b == b']')? + 1;
            let skipped = pattern.len() - inner.len();
            (in_class(&inner[..end], byte) != negated).then_some(skipped + end + 1)
        }
        literal => (literal == byte).then_some(1),
    }
}

fn in_class(class: &[u8], byte: u8) -> bool {
    let mut rest = class;
    while let Some(first) = rest.first() {
        if let [from, b'-', to, ..] = rest {
            if (*from..=*to).contains(&byte) {
                return true;
            }
            rest = &rest[3..];
        } else {
            if *first == byte {
                return true;
            }
            rest = &rest[1..];
        }
    }
    false
}

/// What is wrong with a pattern; `None`: nothing.
pub(super) fn flaw(pattern: &str) -> Option<&'static str> {
    let unclosed = |part: &str| {
        let mut rest = part;
        while let Some(at) = rest.find('[') {
            let inner = rest[at + 1..].strip_prefix('!').unwrap_or(&rest[at + 1..]);
            match inner.char_indices().skip(1).find(|(_, c)| *c == ']') {
                Some((end, _)) => rest = &inner[end + 1..],
                None => return true,
            }
        }
        false
    };
    if pattern.is_empty() || pattern.ends_with('/') {
        Some("the name of a file or a pattern such as `routes.d/*.yaml` is needed")
    } else if pattern.contains('\0') {
        Some("a path has no U+0000")
    } else if pattern.split('/').any(|part| part.contains("**")) {
        Some("`**` is not a pattern here; write a `*` for each directory")
    } else if pattern.split('/').any(unclosed) {
        Some("`[` without a closing `]`")
    } else {
        None
    }
}

/// A path without `.` in it, for people.
pub(super) fn tidy(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_characters_of_one_name() {
        for (pattern, name, expected) in [
            ("*.yaml", "a.yaml", true),
            ("*.yaml", ".yaml", true),
            ("*.yaml", "a.yml", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("*ab", "aab", true),
            ("?-a", "1-a", true),
            ("?-a", "-a", false),
            ("[0-9]x", "7x", true),
            ("[0-9]x", "ax", false),
            ("[!0-9]x", "ax", true),
            ("[]a]", "]", true),
            ("[a-]", "-", true),
            ("[a", "a", false),
            ("*", "", true),
            ("a", "a", true),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn many_wildcards_take_no_longer_than_the_square() {
        let name = vec![b'a'; 10_000];
        let pattern = b"*a".repeat(50);
        assert!(matches(&pattern, &name));
        assert!(!matches(&[&pattern[..], b"b"].concat(), &name));
    }

    #[test]
    fn what_editors_keep_is_hidden() {
        for name in ["a.yaml~", "#a.yaml#", ".a.yaml.swp", "a.swp", ".#a.yaml", "..data", ".git"] {
            assert!(is_hidden(name.as_bytes(), "*"), "{name}");
        }
        assert!(!is_hidden(b"a.yaml", "*") && !is_hidden(b".a.yaml", ".*"));
    }

    #[test]
    fn patterns_that_mean_nothing_are_known() {
        for bad in ["", "a/", "a/**/b", "[a", "x[!]", "a[]"] {
            assert!(flaw(bad).is_some(), "{bad}");
        }
        for good in ["a", "a/*.yaml", "[a]*", "x[]]", "/etc/thalweg/*.yaml"] {
            assert_eq!(flaw(good), None, "{good}");
        }
    }
}
