//! Secrets: read from where the file says they are. Files of certificates and keys are read here too, so that there is
//! one list of what a configuration was read from.

use crate::diagnose::{Class, Problems, SpecError};
use crate::inputs::{Inputs, cause, read_bounded};
use crate::interpolate::Environment;
use crate::source::{Sources, Span};
use crate::spec::{SecretSpec, Spanned};
use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_access::rules::NamedList;
use thalweg_filter::ConfigFiles;
use thalweg_tls::{PeerPolicy, PeerTerms, PolicyError, Trust};

/// Shortest secret, in bytes.
const LEAST: usize = 16;
/// Largest file of a secret, in bytes.
const FILE: usize = 64 * 1024;
/// The right of everybody to read a file.
const WORLD_READABLE: u32 = 0o004;

/// Where secrets come from, and which files were read for them.
pub(crate) struct Secrets<'a> {
    environment: Environment<'a>,
    inputs: RefCell<Inputs>,
    /// The directory of each file of the configuration, which paths in it are relative to.
    directories: Vec<PathBuf>,
    /// Lists of addresses, once they are read.
    lists: RefCell<Vec<Arc<NamedList>>>,
}

impl<'a> Secrets<'a> {
    /// Variables are those of `environment`; the files that are read are added to `inputs`. Paths are relative to the
    /// file of `sources` that names them.
    pub(crate) fn new(environment: Environment<'a>, inputs: Inputs, sources: &Sources) -> Self {
        let directory = |name: &str| Path::new(name).parent().map(Path::to_owned).unwrap_or_default();
        let directories = sources.names().map(directory).collect();
        Self { environment, inputs: RefCell::new(inputs), directories, lists: RefCell::default() }
    }

    /// Filters find these lists from now on.
    pub(super) fn keep_lists(&self, lists: &[Arc<NamedList>]) {
        self.lists.replace(lists.to_vec());
    }

    /// The absolute path that is meant: a relative one begins at the directory of the file that names it.
    pub(super) fn path(&self, written: &Spanned<String>) -> PathBuf {
        let base = self.directories.get(usize::from(written.span.file));
        let joined = base.map_or_else(|| PathBuf::from(&written.value), |base| base.join(&written.value));
        std::path::absolute(&joined).unwrap_or(joined)
    }

    /// A kind of file with its path, for messages: without it where it came from the environment.
    pub(super) fn shown(&self, what: &str, written: &Spanned<String>) -> String {
        match written.span.filled {
            true => what.to_owned(),
            false => format!("{what} {}", self.path(written).display()),
        }
    }

    /// What was read.
    pub(crate) fn into_inputs(self) -> Inputs {
        self.inputs.into_inner()
    }

    /// The bytes of a secret that signs something.
    pub(super) fn read(&self, spec: &Spanned<SecretSpec>, problems: &mut Problems) -> Option<Vec<u8>> {
        let (bytes, span) = self.bytes(&spec.value, problems)?;
        if bytes.len() >= LEAST {
            return Some(bytes);
        }
        let error =
            SpecError::new(Class::Invalid, span, format!("the secret must have at least {LEAST} bytes"));
        problems.push(error.help("`openssl rand -hex 32` makes one"));
        None
    }

    /// The bytes, however few, and where they or their reference stand.
    pub(super) fn bytes(&self, spec: &SecretSpec, problems: &mut Problems) -> Option<(Vec<u8>, Span)> {
        match spec {
            SecretSpec::Value(text) => Some((text.value.clone().into_bytes(), text.span)),
            SecretSpec::Env(name) => Some((self.variable(name, problems)?.into_bytes(), name.span)),
            SecretSpec::File(path) => Some((self.first_line(path, problems)?, path.span)),
        }
    }

    /// The value of a variable that must be set.
    fn variable(&self, name: &Spanned<String>, problems: &mut Problems) -> Option<String> {
        let value = (self.environment)(&name.value);
        if value.is_none() {
            let message = format!("the variable `{}` is not set", name.value);
            problems.push(SpecError::value(name.span, "variable", message));
        }
        value
    }

    /// The first line of a file, without its end.
    fn first_line(&self, path: &Spanned<String>, problems: &mut Problems) -> Option<Vec<u8>> {
        let mut bytes = self.file(path, (FILE, "the file of the secret"), problems)?;
        self.warn_of_readers(path, "this secret", problems);
        if let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            bytes.truncate(end);
        }
        Some(bytes)
    }

    /// A whole file of at most `limit` bytes, which becomes one of those that the configuration was read from. `what`
    /// names it in messages.
    pub(super) fn file(
        &self,
        path: &Spanned<String>,
        (limit, what): (usize, &str),
        problems: &mut Problems,
    ) -> Option<Vec<u8>> {
        let cause = match self.contents(&self.path(path), limit) {
            Ok(bytes) => return Some(bytes),
            Err(cause) => cause,
        };
        let message = format!("cannot read {}: {cause}", self.shown(what, path));
        let error = SpecError::new(Class::Invalid, path.span, message);
        let is_relative = Path::new(&path.value).is_relative() && !path.span.filled;
        problems.push(match is_relative {
            true => error.help("a relative path begins at the directory of the file that names it"),
            false => error,
        });
        None
    }

    /// The same of a file of certificates that are trusted; it is one.
    pub(super) fn roots(
        &self,
        path: &Spanned<String>,
        (limit, what): (usize, &str),
        problems: &mut Problems,
    ) -> Option<Arc<[u8]>> {
        let pem: Arc<[u8]> = self.file(path, (limit, what), problems)?.into();
        let told = |flaw| {
            let message = format!("{what} cannot be used: {flaw}");
            problems.push(SpecError::new(Class::Invalid, path.span, message));
        };
        are_roots(&pem).map_err(told).ok().map(|()| pem)
    }

    /// The bytes of a file, or why they cannot be had.
    fn contents(&self, file: &Path, limit: usize) -> Result<Vec<u8>, String> {
        match read_bounded(file, limit) {
            Ok(bytes) if bytes.len() > limit => Err(format!("it is larger than {} KiB", limit / 1024)),
            Ok(bytes) => {
                self.inputs.borrow_mut().add_secret(file, &bytes, limit);
                Ok(bytes)
            }
            Err(error) => Err(cause(&error)),
        }
    }

    /// A secret that every user of the machine can read is none.
    pub(super) fn warn_of_readers(&self, path: &Spanned<String>, what: &str, problems: &mut Problems) {
        let mode = std::fs::metadata(self.path(path)).map_or(0, |metadata| metadata.permissions().mode());
        if mode & WORLD_READABLE != 0 {
            let message = format!(
                "every user of this machine can read {}",
                self.shown(&format!("the file of {what}"), path)
            );
            let help = "`chmod o-r` takes that right away; the proxy's own user or group must keep it";
            problems.push(SpecError::new(Class::Warning, path.span, message).help(help));
        }
    }
}

/// Whether somebody can be trusted by this PEM.
fn are_roots(pem: &Arc<[u8]>) -> Result<(), PolicyError> {
    PeerTerms::new(PeerPolicy { trust: Trust::Only(pem.clone()), ..PeerPolicy::default() }).map(drop)
}

/// The files that filters name which stand at a place.
pub(super) struct FilesAt<'a>(pub(super) &'a Secrets<'a>, pub(super) Span);

impl ConfigFiles for FilesAt<'_> {
    fn path(&self, written: &str) -> PathBuf {
        self.0.path(&Spanned::new(self.1, written.to_owned()))
    }

    fn read(&self, written: &str, limit: usize) -> Result<Vec<u8>, String> {
        let path = self.path(written);
        self.0
            .contents(&path, limit)
            .map_err(|cause| format!("cannot read the file {}: {cause}", path.display()))
    }

    fn roots(&self, written: &str, limit: usize) -> Result<Vec<u8>, String> {
        let pem = self.read(written, limit)?;
        let told = |flaw| format!("the file {} cannot be used: {flaw}", self.path(written).display());
        are_roots(&Arc::from(&*pem)).map_err(told).map(|()| pem)
    }

    fn variable(&self, name: &str) -> Option<String> {
        (self.0.environment)(name)
    }

    fn list(&self, name: &str) -> Option<Arc<NamedList>> {
        self.0.lists.borrow().iter().find(|list| list.live.name() == name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn text(value: &str) -> Spanned<String> {
        Spanned::new(Span::default(), value.to_owned())
    }

    /// A file in the directory for temporary ones, gone when dropped.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str, contents: &[u8], mode: u32) -> Self {
            let path = std::env::temp_dir().join(format!("thalweg-secret-{}-{name}", std::process::id()));
            let mut file = std::fs::File::create(&path).unwrap();
            file.write_all(contents).unwrap();
            file.set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
            Self(path)
        }

        fn spec(&self) -> SecretSpec {
            SecretSpec::File(text(self.0.to_str().unwrap()))
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// The secret, what is said of it, and the files that were read.
    fn of(spec: SecretSpec) -> (Option<Vec<u8>>, String, Inputs) {
        let environment = |name: &str| (name == "KEY").then(|| "0123456789abcdef".to_owned());
        let (secrets, mut problems) =
            (Secrets::new(&environment, Inputs::default(), &Sources::default()), Problems::default());
        let secret = secrets.read(&Spanned::new(Span::default(), spec), &mut problems);
        let said: Vec<String> = problems.take_warnings().into_iter().map(|warning| warning.message).collect();
        (secret, problems.into_report(Default::default()).lines() + &said.join("\n"), secrets.into_inputs())
    }

    #[test]
    fn come_from_a_file_the_environment_or_the_configuration() {
        let file = Temporary::new("good", b"a secret of 25 bytes here\r\nanother line", 0o600);
        let (secret, said, inputs) = of(file.spec());
        assert_eq!(secret.as_deref(), Some(&b"a secret of 25 bytes here"[..]));
        assert_eq!((said.as_str(), inputs.paths()), ("", vec![file.0.clone()]));
        assert!(!inputs.have_changed());
        std::fs::write(&file.0, "another secret of more bytes\n").unwrap();
        assert!(inputs.have_changed());
        assert_eq!(of(SecretSpec::Env(text("KEY"))).0.as_deref(), Some(&b"0123456789abcdef"[..]));
        let value = of(SecretSpec::Value(text("sixteen bytes or"))).0;
        assert_eq!(value.as_deref(), Some(&b"sixteen bytes or"[..]));
    }

    #[test]
    fn must_be_there_and_long_enough() {
        let large = Temporary::new("large", &[b'a'; FILE + 1], 0o600);
        for (spec, cause) in [
            (SecretSpec::Value(text("fifteen bytes..")), "at least 16 bytes"),
            (SecretSpec::Env(text("NONE")), "`NONE` is not set"),
            (SecretSpec::File(text("/nonexistent")), "no such file"),
            (SecretSpec::File(text("/")), "directory"),
            (SecretSpec::File(text("/dev/zero")), "not a regular file"),
            (large.spec(), "larger than 64 KiB"),
        ] {
            let (secret, said, _) = of(spec.clone());
            assert!(secret.is_none() && said.contains(cause), "{spec:?}: {said}");
        }
    }

    #[test]
    fn a_file_that_everybody_can_read_is_warned_of() {
        for (mode, warned) in [(0o644, true), (0o604, true), (0o640, false), (0o600, false)] {
            let file = Temporary::new(&format!("{mode:o}"), &[b'x'; 20], mode);
            let (secret, said, _) = of(file.spec());
            assert!(secret.is_some());
            assert_eq!(said.contains("every user"), warned, "{mode:o}: {said}");
        }
    }

    #[test]
    fn are_not_shown_by_debug() {
        let shown = format!("{:?}", SecretSpec::Value(text("hunter2hunter2")));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
