//! The files that a configuration was read from: what to watch, and whether they have changed.

use crate::include::expand;
use sha2::{Digest, Sha256};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Everything that decided what a configuration says, the environment aside: the main file, the files that
/// it includes, and the files that secrets, certificates and keys stand in. It holds digests, no contents.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Inputs {
    /// The main file first.
    files: Vec<Input>,
    /// Files that secrets, certificates and keys stand in.
    secrets: Vec<Input>,
    /// Patterns of `include:`, with the directory they are relative to and what they matched.
    patterns: Vec<Pattern>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Input {
    path: PathBuf,
    digest: [u8; 32],
    /// Bytes that were read at most.
    limit: usize,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Pattern {
    base: PathBuf,
    text: String,
    matched: Vec<PathBuf>,
}

impl Inputs {
    /// Every file, each once: the main file, then the included ones, then those of secrets, certificates and keys.
    pub fn paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for input in self.files.iter().chain(&self.secrets) {
            if !paths.contains(&input.path) {
                paths.push(input.path.clone());
            }
        }
        paths
    }

    /// The main file, then the included ones.
    pub fn texts(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|input| &*input.path)
    }

    /// Directories in which a new file would be included, each once. Only those that patterns begin with: a
    /// pattern such as `*/routes.yaml` may have more of them.
    pub fn directories(&self) -> Vec<PathBuf> {
        let mut directories: Vec<PathBuf> = Vec::new();
        for pattern in &self.patterns {
            let fixed = pattern.text.split('/').take_while(|part| !part.contains(['*', '?', '[']));
            let fixed: PathBuf = fixed.map(|part| if part.is_empty() { "/" } else { part }).collect();
            let directory = pattern.base.join(fixed);
            let directory = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
            if !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        directories
    }

    /// The tag of the configuration as it is written: of the main file's bytes and, where files are included, of
    /// their names and bytes in order. Files of secrets and certificates do not count: they are not shown either.
    pub fn etag(&self) -> String {
        let digest = match self.files.as_slice() {
            [only] => only.digest,
            files => {
                let mut whole = Sha256::new();
                for (at, file) in files.iter().enumerate() {
                    // The main file may be called by another path.
                    let name = if at == 0 { &b""[..] } else { file.path.as_os_str().as_encoded_bytes() };
                    whole.update((name.len() as u64).to_be_bytes());
                    whole.update(name);
                    whole.update(file.digest);
                }
                whole.finalize().into()
            }
        };
        digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether anything is different on disk now: a file's contents, one that is gone or cannot be read any
    /// more, or one that a pattern matches and did not before. It reads the files again, all of them together
    /// at most [`crate::include::TOTAL`] and the secrets.
    pub fn have_changed(&self) -> bool {
        let changed = |input: &Input| match read_bounded(&input.path, input.limit) {
            Ok(bytes) => digest(&bytes) != input.digest,
            // What came through a pipe is there only once.
            Err(_) => !std::fs::metadata(&input.path).is_ok_and(|m| !m.is_file() && !m.is_dir()),
        };
        self.files.iter().chain(&self.secrets).any(changed)
            || self.patterns.iter().any(|p| expand(&p.base, &p.text).ok().as_ref() != Some(&p.matched))
    }

    /// Whether an included file differs between two readings of one configuration, as far as both have it.
    pub fn differ_in_included(&self, other: &Self) -> bool {
        let differs = |file: &Input| {
            let known = other.files.iter().skip(1).find(|known| known.path == file.path);
            known.is_some_and(|known| known.digest != file.digest)
        };
        self.files.iter().skip(1).any(differs)
    }

    /// The first file that differs between two readings of one configuration: in what it holds, or in whether it is one
    /// of its files. Those that `is_free` do not count, nor does a secret that only `other` has.
    pub fn first_difference(&self, other: &Self, is_free: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let differs = |input: &&Input, known: &[Input]| {
            let known = known.iter().find(|known| known.path == input.path);
            known.is_none_or(|known| known.digest != input.digest)
        };
        // The main file may be called by another path.
        let main = self.files.first().zip(other.files.first());
        let main = main.filter(|(own, other)| own.digest != other.digest).map(|(own, _)| own);
        let (own, others) =
            (self.files.get(1..).unwrap_or_default(), other.files.get(1..).unwrap_or_default());
        main.or_else(|| own.iter().find(|input| differs(input, others)))
            .or_else(|| others.iter().find(|input| differs(input, own)))
            .or_else(|| {
                self.secrets.iter().find(|input| !is_free(&input.path) && differs(input, &other.secrets))
            })
            .map(|input| input.path.clone())
    }

    /// Adds a file of the configuration.
    pub(crate) fn add_file(&mut self, path: &Path, bytes: &[u8]) {
        let limit = crate::parse::FILE;
        self.files.push(Input { path: path.to_owned(), digest: digest(bytes), limit });
    }

    /// Adds a pattern of `include:`.
    pub(crate) fn add_pattern(&mut self, base: &Path, text: &str, matched: &[PathBuf]) {
        self.patterns.push(Pattern {
            base: base.to_owned(),
            text: text.to_owned(),
            matched: matched.to_owned(),
        });
    }

    /// Adds a file that a secret, a certificate or a key stands in.
    pub(crate) fn add_secret(&mut self, path: &Path, bytes: &[u8], limit: usize) {
        if self.secrets.iter().all(|known| known.path != path) {
            self.secrets.push(Input { path: path.to_owned(), digest: digest(bytes), limit });
        }
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The bytes of a regular file, at most one more than `limit`. Others could keep the reader waiting.
pub(crate) fn read_bounded(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    std::fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Why a file cannot be read, in a few words.
pub(crate) fn cause(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(files: &[(&str, &str)], secrets: &[(&str, &str)]) -> Inputs {
        let mut inputs = Inputs::default();
        files.iter().for_each(|(path, text)| inputs.add_file(Path::new(path), text.as_bytes()));
        secrets.iter().for_each(|(path, text)| inputs.add_secret(Path::new(path), text.as_bytes(), 100));
        inputs
    }

    #[test]
    fn the_first_file_that_differs_is_named_and_one_that_is_free_is_not() {
        let known = inputs(&[("a", "1"), ("b", "2")], &[("key", "3"), ("cert", "4")]);
        let differs = |files: &[(&str, &str)], secrets: &[(&str, &str)]| {
            let found = inputs(files, secrets).first_difference(&known, |path| path == Path::new("cert"));
            found.map(|path| path.display().to_string()).unwrap_or_default()
        };
        let (files, secrets) = ([("a", "1"), ("b", "2")], [("key", "3"), ("cert", "4")]);
        assert_eq!(differs(&files, &secrets), "");
        // By another path, and with a certificate that has been renewed.
        assert_eq!(differs(&[("./a", "1"), ("b", "2")], &[("key", "3"), ("cert", "5")]), "");
        assert_eq!(differs(&files, &secrets[1..]), "", "documents may have brought it");
        assert_eq!(differs(&[("a", "0"), ("b", "2")], &secrets), "a");
        assert_eq!(differs(&[("a", "1"), ("b", "0")], &secrets), "b");
        assert_eq!(differs(&files[..1], &secrets), "b");
        assert_eq!(differs(&[("a", "1"), ("b", "2"), ("c", "")], &secrets), "c");
        assert_eq!(differs(&files, &[("key", "0"), ("cert", "4")]), "key");
        assert_eq!(differs(&files, &[("key", "3"), ("new", "4")]), "new");
    }
}
