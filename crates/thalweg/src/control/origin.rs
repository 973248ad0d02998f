//! The configuration that runs and one that can take over: data under the lock of `Shared`.

use super::base::Base;
use super::discovered::FoundSets;
use super::documents::{Accepted, Documents};
use super::history::History;
use super::operator::{Operator, Supplied};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_config::protections::Apart;
use thalweg_config::{Inputs, Loaded, Provenance, Report, Settings};
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{CachePlan, Limits};

/// Where the configuration came from, and what was said in it around the plan.
#[derive(Debug)]
pub(crate) struct Origin {
    /// `None`: from the command line.
    pub(crate) file: Option<PathBuf>,
    /// As read last.
    pub(crate) text: String,
    /// Those in force; some wait for a restart.
    pub(crate) settings: Settings,
    /// The files that were read, that it includes and that hold secrets.
    pub(crate) inputs: Inputs,
    /// Where its values are written.
    pub(crate) provenance: Arc<Provenance>,
    /// Those that the process started with; some wait for a restart.
    pub(crate) limits: Limits,
    /// What its cache may use, likewise.
    pub(crate) cache: CachePlan,
    /// This configuration and those before it.
    pub(crate) history: History,
    /// What sources of routes have told.
    pub(crate) documents: Documents,
    /// The configuration that an operator supplied last.
    pub(crate) operator: Operator,
}

/// A configuration that can take over. The one that ran before is kept as one while a watch runs: all that it takes
/// to bring it back, whatever has become of the files and variables that it referred to.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(super) plan: Plan,
    pub(super) settings: Settings,
    pub(super) warnings: Report,
    pub(super) text: String,
    pub(super) inputs: Inputs,
    pub(super) provenance: Arc<Provenance>,
    /// The documents of sources in it.
    pub(super) documents: Accepted,
    /// What these may not lead to, whatever sources find.
    pub(super) apart: Apart,
    /// Of one that ran before: the operator's configuration then, if tokens had changed it.
    pub(super) operator: Option<Arc<Supplied>>,
}

impl Candidate {
    pub(super) fn new(loaded: Loaded, text: String, documents: Accepted) -> Self {
        let Loaded { plan, settings, warnings, inputs, provenance, apart, .. } = loaded;
        let provenance = Arc::new(provenance);
        Self { plan, settings, warnings, text, inputs, provenance, documents, apart, operator: None }
    }
}

impl Origin {
    /// What was read, with the documents of its sources, as far as these may lead to what was `found`.
    pub(super) fn candidate(&self, alone: Loaded, text: String, found: &FoundSets) -> Candidate {
        let (loaded, documents) = self.documents.merge(alone, (&self.name(), &text), found);
        Candidate::new(loaded, text, documents)
    }

    /// What has run until now, to be brought back; `before` is its plan with what sources found.
    pub(super) fn running(&self, before: &Base) -> Candidate {
        Candidate {
            plan: before.as_written(),
            settings: self.settings.clone(),
            warnings: Report::default(),
            text: self.text.clone(),
            inputs: self.inputs.clone(),
            provenance: self.provenance.clone(),
            documents: self.documents.running(),
            apart: before.apart().clone(),
            operator: self.operator.supplied(),
        }
    }

    pub(super) fn etag(&self) -> String {
        self.inputs.etag()
    }

    /// All files that it was read from, and the directories in which a new one would be read too.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files = self.inputs.paths();
        files.extend(self.inputs.directories());
        files
    }

    /// The file, or what stands for it.
    pub(super) fn name(&self) -> String {
        self.file.as_ref().map_or_else(|| "configuration.yaml".into(), |file| file.display().to_string())
    }

    pub(super) fn is_writable(&self) -> bool {
        let directory = self.file.as_deref().and_then(Path::parent);
        directory.is_some_and(|directory| {
            let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
            rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok()
        })
    }

    /// The file as it is now; what was read last where it cannot be read.
    pub(super) fn on_disk(&self) -> String {
        let read = self.file.as_ref().and_then(|file| fs::read_to_string(file).ok());
        read.unwrap_or_else(|| self.text.clone())
    }

    /// Puts a text that is brought back into the file. `Err`: why the file stays as it is.
    pub(super) fn take_file_back(&self, text: &str) -> Result<(), String> {
        let Some(file) = &self.file else { return Err("there is no configuration file".into()) };
        let on_disk = self.on_disk();
        if on_disk == text {
            return Ok(());
        }
        if on_disk != self.text {
            return Err(format!("{} has been changed since it was read", file.display()));
        }
        write_whole(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
    }
}

/// Writes a file whole or not at all, with the rights that it has.
pub(super) fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    // What a link points to is replaced, not the link.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mode = fs::metadata(path).map_or(0o600, |metadata| metadata.permissions().mode() & 0o777);
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The name is durable when the directory is.
    path.parent().map_or(Ok(()), |directory| fs::File::open(directory)?.sync_all())
}
