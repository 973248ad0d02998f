//! Secrets: read from where the file says they are.

use crate::diagnose::{Class, Problems, SpecError};
use crate::interpolate::Environment;
use crate::source::Span;
use crate::spec::{SecretSpec, Spanned};
use std::io::Read;
use std::path::Path;

/// Shortest secret, in bytes.
const LEAST: usize = 16;
/// Bytes of a file that are looked at for its first line.
const FILE: u64 = 64 * 1024;

/// The bytes of a secret that signs something.
pub(super) fn secret(
    spec: &Spanned<SecretSpec>,
    environment: Environment<'_>,
    problems: &mut Problems,
) -> Option<Vec<u8>> {
    let (bytes, span) = match &spec.value {
        SecretSpec::Value(text) => (text.value.clone().into_bytes(), text.span),
        SecretSpec::Env(name) => (variable(name, environment, problems)?.into_bytes(), name.span),
        SecretSpec::File(path) => (first_line(path, problems)?, path.span),
    };
    if bytes.len() >= LEAST {
        return Some(bytes);
    }
    problems.push(too_short(span));
    None
}

fn too_short(span: Span) -> SpecError {
    SpecError::new(Class::Invalid, span, format!("the secret must have at least {LEAST} bytes"))
        .help("`openssl rand -hex 32` makes one")
}

/// The value of a variable that must be set.
pub(super) fn variable(
    name: &Spanned<String>,
    environment: Environment<'_>,
    problems: &mut Problems,
) -> Option<String> {
    let value = environment(&name.value);
    if value.is_none() {
        let message = format!("the variable `{}` is not set", name.value);
        problems.push(SpecError::value(name.span, "variable", message));
    }
    value
}

fn first_line(path: &Spanned<String>, problems: &mut Problems) -> Option<Vec<u8>> {
    match read(Path::new(&path.value)) {
        Ok(mut bytes) => {
            if let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
                bytes.truncate(end);
            }
            Some(bytes)
        }
        Err(error) => {
            let cause = match error.kind() {
                std::io::ErrorKind::NotFound => "no such file",
                std::io::ErrorKind::PermissionDenied => "permission denied",
                std::io::ErrorKind::IsADirectory => "it is a directory",
                _ => "it cannot be read, or is not a regular file",
            };
            let message = format!("cannot read the file of the secret: {cause}");
            problems.push(SpecError::new(Class::Invalid, path.span, message));
            None
        }
    }
}

/// The beginning of a regular file; others could keep the reader waiting.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(spec: SecretSpec) -> Option<Vec<u8>> {
        let environment = |name: &str| (name == "KEY").then(|| "0123456789abcdef".to_owned());
        secret(&Spanned::new(Span::default(), spec), &environment, &mut Problems::default())
    }

    fn text(value: &str) -> Spanned<String> {
        Spanned::new(Span::default(), value.to_owned())
    }

    #[test]
    fn comes_from_the_first_line_of_a_file_a_variable_or_the_value() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/config/secret.txt");
        let line = b"the first line of this file is a secret of the tests";
        assert_eq!(of(SecretSpec::File(text(file))).as_deref(), Some(&line[..]));
        assert_eq!(of(SecretSpec::Env(text("KEY"))).as_deref(), Some(&b"0123456789abcdef"[..]));
        assert_eq!(
            of(SecretSpec::Value(text("sixteen bytes or"))).as_deref(),
            Some(&b"sixteen bytes or"[..])
        );
    }

    #[test]
    fn must_be_there_and_long_enough() {
        for spec in [
            SecretSpec::Value(text("fifteen bytes..")),
            SecretSpec::Env(text("NONE")),
            SecretSpec::File(text("/nonexistent")),
            SecretSpec::File(text("/")),
            SecretSpec::File(text("/dev/zero")),
        ] {
            assert_eq!(of(spec.clone()), None, "{spec:?}");
        }
    }
}
