//! Files and directories that the proxy writes to.

use super::{Subject, place};
use rustix::fs::{Access, access};
use std::path::Path;
use thalweg_config::SpecError;
use thalweg_config::settings::{AccessLog, LogTarget};

pub(super) fn check(subject: &Subject<'_>) -> Vec<SpecError> {
    let (settings, places) = (&subject.loaded.settings, subject.places);
    let mut found = Vec::new();
    if let Some(AccessLog { target: LogTarget::File(path), .. }) = &settings.access_log
        && let Some(why) = not_writable(path)
    {
        let message = format!("the access log {} cannot be written: {why}", path.display());
        found.push(SpecError::warning("files", place(places.access_log), message));
    }
    if let Some(path) = &settings.state
        && let Some(why) = not_a_directory(path)
    {
        let message = format!("the state cannot be kept in {}: {why}", path.display());
        found.push(SpecError::warning("files", place(places.state), message));
    }
    // Where it is started as root, the directories get their owner then.
    let help = match &settings.user {
        Some(user) => format!("it is written as the user `{}`, who has to be able to", user.user),
        None => "the user that runs the proxy has to be able to write there".to_owned(),
    };
    found.into_iter().map(|warning| warning.help(help.clone())).collect()
}

/// Whether this user may make files in a directory.
pub(super) fn may_write(directory: &Path) -> bool {
    access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Why a file could not be opened for writing; it is neither opened nor made.
fn not_writable(path: &Path) -> Option<&'static str> {
    if path.is_dir() {
        return Some("it is a directory");
    }
    if path.exists() {
        return access(path, Access::WRITE_OK).is_err().then_some("permission denied");
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match directory.is_dir() {
        false => Some("its directory does not exist"),
        true => (!may_write(directory)).then_some("its directory cannot be written to"),
    }
}

/// Why a directory could not be used or made.
fn not_a_directory(path: &Path) -> Option<&'static str> {
    let existing = path.ancestors().find(|part| part.as_os_str().is_empty() || part.exists());
    let existing = existing.filter(|part| !part.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !existing.is_dir() {
        return Some("a part of the path is a file");
    }
    let cannot =
        if existing == path { "it cannot be written to" } else { "it does not exist and cannot be made" };
    (!may_write(existing)).then_some(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_why_something_cannot_be_written() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert_eq!(not_writable(&file), None);
        assert_eq!(not_writable(Path::new("/")), Some("it is a directory"));
        assert_eq!(not_writable(Path::new("/no/such/file")), Some("its directory does not exist"));
        assert_eq!(not_a_directory(&file), Some("a part of the path is a file"));
        assert_eq!(not_a_directory(&file.join("below")), Some("a part of the path is a file"));
        assert_eq!(not_a_directory(&std::env::temp_dir().join("thalweg-nowhere/below")), None);
    }
}
