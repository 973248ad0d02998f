//! Chooses the program that a supervisor starts.
//!
//! A supervisor that is root starts every child as root, so the choice of the program is a right of root. A child
//! that has changed its user may be controlled by an attacker, so it may not choose a program that this user could
//! have written. Invariant: for such a child the supervisor starts only its own program, or one that only root can
//! write, in directories that only root can write, and with a name of this proxy. Other programs would misinterpret
//! the arguments of this process: a shell would run them as a script.

use crate::control::own_binary;
use crate::operator_log::warn;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thalweg_net::path_walk::trusted_program;

/// The program that this process runs, even if its file has been replaced since.
const RUNNING: &str = "/proc/self/exe";
/// Names of other binaries begin with this.
const NAME: &str = "thalweg";

/// The program for a successor; `None`: the file that this process was started from. `is_trusted`: the requesting
/// child has the user of this process.
///
/// # Errors
/// A sentence: why the program is refused.
pub(super) fn for_successor(binary: Option<PathBuf>, is_trusted: bool) -> io::Result<Option<PathBuf>> {
    if is_trusted {
        return Ok(binary);
    }
    let own = own_binary()?;
    match binary.filter(|binary| *binary != own) {
        Some(binary) => named(&binary, &own).map(Some),
        None => unchanged(&own).map(Some),
    }
}

/// The program for a child that replaces a crashed one. If the file at its path cannot be trusted, the supervisor's
/// running program is used.
pub(super) fn after_crash(is_trusted: bool) -> Option<PathBuf> {
    for_successor(None, is_trusted).unwrap_or_else(|error| {
        warn(format_args!("the proxy is started again as the supervisor runs it: {error}"));
        Some(RUNNING.into())
    })
}

fn named(binary: &Path, own: &Path) -> io::Result<PathBuf> {
    let refused = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!(
                "{}: {error}; help: the proxy runs as another user than its supervisor, so root alone may be able to \
                 write the file and the directories on the way to it",
                binary.display()
            ),
        )
    };
    let program = trusted_program(binary).map_err(refused)?;
    let name = program.file_name();
    let is_ours = name.is_some_and(|name| {
        Some(name) == own.file_name() || name.to_str().is_some_and(|name| name.starts_with(NAME))
    });
    if is_ours {
        return Ok(program);
    }
    let why = format!("its name does not begin with `{NAME}`");
    Err(refused(io::Error::new(io::ErrorKind::PermissionDenied, why)))
}

/// The file at the path of the supervisor's own program, if only root can have replaced it.
fn unchanged(own: &Path) -> io::Result<PathBuf> {
    let file = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    match trusted_program(own) {
        Ok(program) => Ok(program),
        Err(_) if file(own).is_some() && file(own) == file(Path::new(RUNNING)) => Ok(RUNNING.into()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_of_another_user_names_no_program_that_it_could_have_written() {
        let directory = std::env::temp_dir().join(format!("thalweg-program-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let script = directory.join("thalweg");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        assert_eq!(for_successor(Some(script.clone()), true).unwrap(), Some(script.clone()));
        // All users can write the temporary directory.
        let refused = for_successor(Some(script), false).unwrap_err().to_string();
        assert!(refused.contains("can be written by other users") && refused.contains("help: "), "{refused}");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_program_of_the_system_that_is_no_proxy_is_not_started() {
        let refused = for_successor(Some("/bin/sh".into()), false).unwrap_err().to_string();
        assert!(refused.contains("does not begin with `thalweg`"), "{refused}");
        assert!(for_successor(Some("/no/such/binary".into()), false).is_err());
    }

    #[test]
    fn a_crash_is_followed_by_the_program_that_runs() {
        assert_eq!(after_crash(true), None);
        let program = after_crash(false).unwrap();
        let file = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).unwrap();
        assert_eq!(file(&program), file(Path::new(RUNNING)));
    }
}
