//! Importers: configurations of other proxies become Thalweg's, with a report of what was lost.
//!
//! Each original has a folder or file of its own and one line in [`FORMATS`]. It reads the text (files that it names
//! come through [`Files`]) into a draft (`draft.rs`), notes every directive in a [`Report`], and the draft is written
//! as YAML with comments. Nothing here touches a disk, a socket or the configuration's own types: whoever calls has the
//! result checked.
//!
//! Invariant: a directive is noted as exact, near or lost, and never passed over in silence. Requests of which the
//! original's treatment cannot be expressed get an answer that says so (501), never that of another route.
#![forbid(unsafe_code)]

mod arrange;
mod branch;
mod caddy;
mod document;
mod draft;
mod goloadbalance;
mod haproxy;
mod networks;
mod nginx;
mod paths;
mod pattern;
mod report;
mod spring;
mod toml;
mod traefik;
mod yaml;

pub use report::{Entry, Grade, Place, Report};

/// Where files are read that a configuration names.
pub trait Files {
    /// The text of a file.
    ///
    /// # Errors
    /// A sentence that names the file: it cannot be read.
    fn read(&self, path: &str) -> Result<String, String>;

    /// The files that a pattern with `*`, `?` and `[…]` names, in their order; a path without these names itself.
    ///
    /// # Errors
    /// A sentence: the directory cannot be read.
    fn glob(&self, pattern: &str) -> Result<Vec<String>, String>;
}

/// What an import gives.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Thalweg's configuration as YAML.
    pub configuration: String,
    /// What became of each directive.
    pub report: Report,
}

/// The original cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ImportError {
    /// Where; line 0: it is about a file as a whole, which the message names.
    pub place: Place,
    /// What is wrong, in a sentence.
    pub message: String,
}

impl std::fmt::Display for ImportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.place.line {
            // The message names the file.
            0 => f.write_str(&self.message),
            line => write!(f, "{}:{line}: {}", self.place.file, self.message),
        }
    }
}

impl std::error::Error for ImportError {}

impl ImportError {
    pub(crate) fn new(place: &Place, message: impl Into<String>) -> Self {
        Self { place: place.clone(), message: message.into() }
    }

    /// A file that is given cannot be read; `message` says which.
    pub(crate) fn unread(message: String) -> Self {
        Self { place: Place::default(), message }
    }
}

/// What reads one kind of configuration.
type Importer = fn(&[String], &dyn Files) -> Result<Imported, ImportError>;

/// Every original by its name on the command line, and what it is.
pub const FORMATS: &[(&str, &str, Importer)] = &[
    ("haproxy", "HAProxy: haproxy.cfg, or the files that are read one after the other", haproxy::import),
    ("nginx", "nginx: nginx.conf, or files of sites-enabled and conf.d", nginx::import),
    ("caddy", "Caddy: a Caddyfile", caddy::import),
    ("spring-cloud-gateway", "Spring Cloud Gateway: application.yml", spring::import),
    ("goloadbalance", "GoLoadBalance: its YAML file", goloadbalance::import),
    (
        "traefik",
        "Traefik 2 and 3: files of the static and the dynamic configuration in YAML or TOML, compose files with labels",
        traefik::import,
    ),
];

/// Reads files of `original` and gives Thalweg's configuration.
///
/// # Errors
/// The original is not known, or a file cannot be read.
pub fn import(original: &str, paths: &[String], files: &dyn Files) -> Result<Imported, ImportError> {
    let Some((.., importer)) = FORMATS.iter().find(|(name, ..)| *name == original) else {
        return Err(ImportError::new(&Place::default(), format!("there is no importer for `{original}`")));
    };
    importer(paths, files)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Files for Nothing {
        fn read(&self, path: &str) -> Result<String, String> {
            Err(format!("cannot read {path}: it is not there"))
        }

        fn glob(&self, _: &str) -> Result<Vec<String>, String> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_missing_file_has_no_line() {
        for (original, ..) in FORMATS {
            let error = import(original, &["gone.conf".to_owned()], &Nothing).unwrap_err();
            assert_eq!(error.to_string(), "cannot read gone.conf: it is not there", "{original}");
        }
    }
}
