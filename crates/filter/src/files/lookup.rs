//! From the path of a request to an open file below a root, and nowhere else.
//!
//! The path is taken apart and checked here, and the kernel resolves it below the root: whatever a name or a symbolic
//! link says, nothing outside is opened (`openat2` with `RESOLVE_BENEATH`). The root itself is opened for each request,
//! so that a link to it may be turned to another directory at any time.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use thalweg_http::octet;

/// The kernel asks to try again while something is renamed on the way.
const ATTEMPTS: usize = 8;

/// A path below a root.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Below {
    /// Names with `/` between them, as the file system has them; empty for the root.
    pub(super) path: Vec<u8>,
    /// Whether it was written with a slash at its end.
    pub(super) is_directory: bool,
}

impl Below {
    /// Parses the path of a URL. `None` for paths that are never served: an empty segment except at the end, a name
    /// with NUL, a slash or a backslash, `.` and `..` in any notation, and unless `hidden` names that begin with a
    /// dot, `/.well-known` (RFC 8615) aside. So no file has two paths that routes match differently (decision 0005).
    pub(super) fn parse(path: &[u8], hidden: bool) -> Option<Self> {
        let (mut out, mut is_first) = (Vec::with_capacity(path.len()), true);
        let names = path.strip_prefix(b"/").unwrap_or(path);
        let names = match names.strip_suffix(b"/") {
            Some([]) => return None,
            Some(names) => names,
            None => names,
        };
        for segment in names.split(|byte| *byte == b'/').filter(|_| !names.is_empty()) {
            if segment.is_empty() {
                return None;
            }
            let begins = out.len() + usize::from(!is_first);
            if !is_first {
                out.push(b'/');
            }
            decode(segment, &mut out)?;
            let name = &out[begins..];
            let is_well_known = is_first && name == b".well-known";
            if matches!(name, b"." | b"..") || (name.starts_with(b".") && !hidden && !is_well_known) {
                return None;
            }
            is_first = false;
        }
        Some(Self { path: out, is_directory: path.ends_with(b"/") || path.is_empty() })
    }

    /// A name in this directory.
    pub(super) fn join(&self, name: &str) -> Vec<u8> {
        match self.path.is_empty() {
            true => name.as_bytes().to_vec(),
            false => [&self.path, &b"/"[..], name.as_bytes()].concat(),
        }
    }
}

/// Appends what a segment stands for; `None`: no file has such a name.
fn decode(segment: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut at = 0;
    while let Some(&byte) = segment.get(at) {
        let byte = match byte {
            b'%' => {
                let digit = |at: usize| segment.get(at).copied().and_then(octet::hex_digit);
                let byte = digit(at + 1)? * 16 + digit(at + 2)?;
                at += 2;
                byte
            }
            byte => byte,
        };
        if matches!(byte, 0 | b'/' | b'\\') {
            return None;
        }
        out.push(byte);
        at += 1;
    }
    Some(())
}

/// The directory that is served.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    resolve: ResolveFlags,
}

/// What stands at a path.
#[derive(Debug)]
pub(super) enum Entry {
    File(File, Metadata),
    Directory(OwnedFd),
    /// Nothing, something outside, or something that is no file: a device, a pipe, a socket.
    Missing,
    /// The proxy's user may not read it.
    Denied,
    /// The machine has no descriptors left, or its disk is broken.
    Failed(Errno),
}

impl Root {
    /// A directory that is there.
    ///
    /// # Errors
    /// It is not, or the kernel has no `openat2`.
    pub(super) fn new(path: PathBuf, follows: bool) -> Result<Self, String> {
        let links = if follows { ResolveFlags::empty() } else { ResolveFlags::NO_SYMLINKS };
        let root = Self { resolve: ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | links, path };
        let shown = root.path.display();
        let opened = root.begin().map_err(|error| match error {
            Errno::NOENT => format!("`root`: there is no directory {shown}"),
            Errno::NOTDIR => format!("`root`: {shown} is no directory"),
            error => format!("`root`: cannot open {shown}: {error}"),
        })?;
        match openat2(&opened, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), root.resolve) {
            Err(Errno::NOSYS | Errno::PERM) => {
                Err("`files` needs the system call `openat2` (Linux 5.6 or later), and it is refused here"
                    .into())
            }
            _ => Ok(root),
        }
    }

    /// Opens the root itself.
    pub(super) fn begin(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(CWD, Path::new(&self.path), flags, Mode::empty())
    }

    /// Opens what stands at a path below it. With `looks` it is not opened for reading.
    pub(super) fn open(&self, root: &OwnedFd, path: &[u8], looks: bool) -> Entry {
        let path = if path.is_empty() { b"." } else { path };
        let access = if looks { OFlags::PATH } else { OFlags::RDONLY };
        // A pipe without a writer must not keep the worker waiting, and a terminal must not become the proxy's.
        let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let flags = if looks { OFlags::PATH | OFlags::CLOEXEC } else { flags };
        let mut opened = Err(Errno::AGAIN);
        for _ in 0..ATTEMPTS {
            opened = openat2(root, path, flags, Mode::empty(), self.resolve);
            if !matches!(opened, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        match opened {
            Ok(descriptor) => {
                let file = File::from(descriptor);
                match file.metadata() {
                    Ok(metadata) if metadata.is_file() => Entry::File(file, metadata),
                    Ok(metadata) if metadata.is_dir() => Entry::Directory(file.into()),
                    Ok(_) => Entry::Missing,
                    Err(_) => Entry::Failed(Errno::IO),
                }
            }
            Err(Errno::ACCESS | Errno::PERM) => Entry::Denied,
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO)) => Entry::Failed(error),
            // Among them: a link that leads outside (`EXDEV`), a socket (`ENXIO`), a name that is too long.
            Err(_) => Entry::Missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(path: &str) -> Option<String> {
        let below = Below::parse(path.as_bytes(), false)?;
        let slash = if below.is_directory { "/" } else { "" };
        Some(String::from_utf8_lossy(&below.path).into_owned() + slash)
    }

    #[test]
    fn paths_of_requests_become_names_of_files() {
        for (path, expected) in [
            ("/", "/"),
            ("/a.txt", "a.txt"),
            ("/a/b/", "a/b/"),
            ("/a%20b/%C3%A4", "a b/ä"),
            ("/%61", "a"),
            ("/a..b/...", ""),
            ("/.well-known/security.txt", ".well-known/security.txt"),
            ("/a+b", "a+b"),
        ] {
            let expected = (!expected.is_empty()).then(|| expected.to_owned());
            assert_eq!(below(path), expected, "{path}");
        }
    }

    #[test]
    fn paths_that_lead_elsewhere_are_no_paths() {
        for path in [
            "/..",
            "/../a",
            "/a/../b",
            "/%2e%2e/a",
            "/.%2e/a",
            "/%2E%2E%2Fa",
            "/a%2fb",
            "/a%5cb",
            "/a\\b",
            "/a%00",
            "/.git/config",
            "/a/.env",
            "/%2egit",
            "/a/.well-known/x",
            "/.",
            "/a/./b",
            "/%",
            "/%4",
            "/%zz",
            "/a%2",
            "//a",
            "/a//b",
            "/a//",
            "//",
        ] {
            assert_eq!(below(path), None, "{path}");
        }
        assert!(Below::parse(b"/.git", true).is_some());
        assert!(Below::parse(b"/..", true).is_none() && Below::parse(b"/%2e", true).is_none());
    }

    #[test]
    fn only_regular_files_below_the_root_are_opened() {
        let place = std::env::temp_dir().join(format!("thalweg-files-{}", std::process::id()));
        let inside = place.join("root");
        std::fs::create_dir_all(inside.join("d")).unwrap();
        std::fs::write(place.join("secret"), "s").unwrap();
        std::fs::write(inside.join("a"), "a").unwrap();
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, inside.join(name)).unwrap();
        link("../secret", "up");
        link("/etc/passwd", "absolute");
        link("a", "within");
        link("d/../a", "around");
        link("loop", "loop");
        link("/proc/self/root", "magic");
        let _listener = std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap();
        rustix::fs::mknodat(CWD, inside.join("fifo"), rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        let kind = |root: &Root, path: &str| match root.open(&root.begin().unwrap(), path.as_bytes(), false) {
            Entry::File(..) => "file",
            Entry::Directory(_) => "directory",
            Entry::Missing => "missing",
            Entry::Denied => "denied",
            Entry::Failed(_) => "failed",
        };
        let root = Root::new(inside.clone(), true).unwrap();
        for (path, expected) in [
            ("a", "file"),
            ("", "directory"),
            ("d", "directory"),
            ("within", "file"),
            ("around", "file"),
            ("up", "missing"),
            ("../secret", "missing"),
            ("absolute", "missing"),
            ("/etc/passwd", "missing"),
            ("magic/etc/passwd", "missing"),
            ("loop", "missing"),
            ("socket", "missing"),
            ("fifo", "missing"),
            ("a/b", "missing"),
            ("none", "missing"),
        ] {
            assert_eq!(kind(&root, path), expected, "{path}");
        }
        assert_eq!(kind(&root, &"x".repeat(300)), "missing");
        let strict = Root::new(inside, false).unwrap();
        assert_eq!((kind(&strict, "a"), kind(&strict, "within")), ("file", "missing"));
        assert!(Root::new(place.join("none"), true).unwrap_err().contains("there is no directory"));
        assert!(Root::new(place.join("secret"), true).unwrap_err().contains("is no directory"));
        std::fs::remove_dir_all(place).unwrap();
    }
}
