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
mod concealed;
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
/// The original is not supported, a file cannot be read, or the files are not a configuration of this kind; the error
/// quotes none of their text.
pub fn import(original: &str, paths: &[String], files: &dyn Files) -> Result<Imported, ImportError> {
    let Some((.., importer)) = FORMATS.iter().find(|(name, ..)| *name == original) else {
        return Err(ImportError::new(&Place::default(), format!("there is no importer for `{original}`")));
    };
    let imported = importer(paths, files)?;
    let Report { original, entries, .. } = &imported.report;
    match entries.first() {
        Some(first) if entries.iter().all(|entry| entry.grade == Grade::Lost) => {
            let message = format!("nothing from here on is known in a configuration of {original}");
            Err(ImportError::new(&first.place, message))
        }
        _ => Ok(imported),
    }
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

    /// Files by their paths.
    struct Texts(&'static [(&'static str, &'static str)]);

    impl Files for Texts {
        fn read(&self, path: &str) -> Result<String, String> {
            let found = self.0.iter().find(|(known, _)| *known == path);
            found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| format!("cannot read {path}"))
        }

        fn glob(&self, _: &str) -> Result<Vec<String>, String> {
            Ok(Vec::new())
        }
    }

    /// The text of a file that only root can read.
    const SHADOW: &str = "root:$6$salt$hash:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n";

    /// The whole output of an import.
    fn told(original: &str, path: &str, files: &dyn Files) -> String {
        match import(original, &[path.to_owned()], files) {
            Ok(Imported { configuration, report }) => {
                format!("{configuration}{}{}", report.text(), report.json())
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_file_of_another_kind_than_a_configuration_is_not_quoted() {
        for (original, ..) in FORMATS {
            for path in ["shadow", "shadow.yaml", "shadow.toml"] {
                let told = told(
                    original,
                    path,
                    &Texts(&[("shadow", SHADOW), ("shadow.yaml", SHADOW), ("shadow.toml", SHADOW)]),
                );
                assert!(!told.contains("$6$") && !told.contains("99999"), "{original} {path}: {told}");
            }
        }
    }

    #[test]
    fn a_line_that_cannot_be_a_pattern_is_told_by_its_number() {
        for (test, line) in [
            ("src -f shadow", 1),
            ("path -f shadow", 1),
            ("path_beg -f shadow", 1),
            ("hdr(host) -f shadow", 1),
            ("req.ssl_sni -f shadow", 1),
            ("status -f shadow", 1),
            ("src -f networks", 3),
        ] {
            let original = format!(
                "defaults\n mode http\nfrontend web\n bind :80\n acl found {test}\n http-request deny if found\n default_backend b\nbackend b\n server a 127.0.0.1:1\n"
            );
            let original: &'static str = Box::leak(original.into_boxed_str());
            let files: &'static [(&str, &str)] = Box::leak(Box::new([
                ("haproxy.cfg", original),
                ("shadow", SHADOW),
                ("networks", "# ours\n192.0.2.0/24\nroot:$6$salt$hash:19000:0:99999:7:::\n"),
            ]));
            let told = told("haproxy", "haproxy.cfg", &Texts(files));
            assert!(!told.contains("$6$") && !told.contains("99999"), "{test}: {told}");
            assert!(told.contains(&format!("line {line} of ")), "{test}: {told}");
        }
        let files = Texts(&[
            (
                "haproxy.cfg",
                "defaults\n mode http\nfrontend web\n bind :80\n acl found src -f networks\n http-request deny if found\n default_backend b\nbackend b\n server a 127.0.0.1:1\n",
            ),
            ("networks", "# ours\n192.0.2.0/24\n"),
        ]);
        assert!(told("haproxy", "haproxy.cfg", &files).contains("192.0.2.0/24"));
    }

    #[test]
    fn a_missing_file_has_no_line() {
        for (original, ..) in FORMATS {
            let error = import(original, &["gone.conf".to_owned()], &Nothing).unwrap_err();
            assert_eq!(error.to_string(), "cannot read gone.conf: it is not there", "{original}");
        }
    }
}
