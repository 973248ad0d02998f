//! Secrets: read from where the file says they are. Files of certificates and keys are read here too, so that there is
//! one list of what a configuration was read from.

use crate::diagnose::{Class, Problems, SpecError};
use crate::inputs::{Inputs, cause, read_bounded};
use crate::interpolate::Environment;
use crate::source::Span;
use crate::spec::{SecretSpec, Spanned};
use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
}

impl<'a> Secrets<'a> {
    /// Variables are those of `environment`; the files that are read are added to `inputs`.
    pub(crate) fn new(environment: Environment<'a>, inputs: Inputs) -> Self {
        Self { environment, inputs: RefCell::new(inputs) }
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
        warn_of_readers(path, "this secret", problems);
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
        let file = Path::new(&path.value);
        let cause = match read_bounded(file, limit) {
            Ok(bytes) if bytes.len() > limit => format!("it is larger than {} KiB", limit / 1024),
            Ok(bytes) => {
                self.inputs.borrow_mut().add_secret(file, &bytes, limit);
                return Some(bytes);
            }
            Err(error) => cause(&error),
        };
        let message = format!("cannot read {what}: {cause}");
        problems.push(SpecError::new(Class::Invalid, path.span, message));
        None
    }
}

/// A secret that every user of the machine can read is none.
pub(super) fn warn_of_readers(path: &Spanned<String>, what: &str, problems: &mut Problems) {
    let mode = std::fs::metadata(&path.value).map_or(0, |metadata| metadata.permissions().mode());
    if mode & WORLD_READABLE != 0 {
        let message = format!("every user of this machine can read the file of {what}");
        let help = "`chmod o-r` takes that right away; the proxy's own user or group must keep it";
        problems.push(SpecError::new(Class::Warning, path.span, message).help(help));
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
    struct Temporary(std::path::PathBuf);

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
        let (secrets, mut problems) = (Secrets::new(&environment, Inputs::default()), Problems::default());
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
