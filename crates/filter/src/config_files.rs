//! Files that stand beside a configuration and that filters name.

use std::path::PathBuf;
use std::sync::Arc;
use thalweg_access::rules::NamedList;

/// Where paths lead that are written in the argument of a filter. `config` gives this to filters while they are built:
/// a relative path begins at the directory of the file of the configuration in which the filter stands.
pub trait ConfigFiles {
    /// The absolute path.
    fn path(&self, written: &str) -> PathBuf;

    /// What is in a regular file. It becomes one of the files that the configuration was read from: where these are
    /// watched, a change of it is noticed.
    ///
    /// # Errors
    /// A sentence: it cannot be read, or has more than `limit` bytes.
    fn read(&self, written: &str, limit: usize) -> Result<Vec<u8>, String>;

    /// The same of a file of certificates that are trusted, in PEM; it is one.
    ///
    /// # Errors
    /// A sentence: as of [`Self::read`], or nobody can be trusted by what is in it.
    fn roots(&self, written: &str, limit: usize) -> Result<Vec<u8>, String> {
        self.read(written, limit)
    }

    /// The value of a variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;

    /// The list of addresses of this name, in the section `lists`; `None`: there is none.
    fn list(&self, _name: &str) -> Option<Arc<NamedList>> {
        None
    }
}
