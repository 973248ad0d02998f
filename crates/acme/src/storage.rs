//! What must outlast the process, below `<state>/acme`:
//!
//! ```text
//! <host>-<digest of the directory's URL>/account.json
//! <host>-…/<kind of key>[-<profile>]/<name>/certificate.pem    chain and key, in one file: they change together
//! <host>-…/<kind of key>[-<profile>]/<name>/order.json         an order under way, with its key
//! ```
//!
//! A file is written beside its place, brought to the disk and put in its place by renaming; then the directory is
//! brought to the disk. Only the proxy's user can read any of it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use instant_acme::AccountCredentials;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thalweg_tls::AcmePolicy;
use thalweg_tls::Certificate;

use crate::failure::Failure;
use crate::lease::Lease;

/// Largest file that is read, in bytes.
const FILE: u64 = 1024 * 1024;

/// What is kept of an authority.
#[derive(Clone, Debug)]
pub(crate) struct Archive {
    directory: PathBuf,
}

/// What is kept of a name.
#[derive(Clone, Debug)]
pub(crate) struct Drawer {
    directory: PathBuf,
}

/// An account, as it is kept.
#[derive(Deserialize, Serialize)]
pub(crate) struct AccountSpec {
    pub(crate) email: String,
    pub(crate) credentials: AccountCredentials,
}

impl AccountSpec {
    /// What the authority knows it by.
    fn id(&self) -> Option<String> {
        let credentials = serde_json::to_value(&self.credentials).ok()?;
        Some(credentials.get("id")?.as_str()?.to_owned())
    }
}

/// An order that is under way, as it is kept.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct OrderSpec {
    /// Where the authority tells of it.
    pub(crate) url: String,
    /// The key of the certificate that is ordered, PEM.
    pub(crate) key: String,
}

impl Archive {
    /// That of a policy's authority, below the state directory.
    pub(crate) fn of(state: &Path, policy: &AcmePolicy) -> Self {
        let text = policy.directory.text();
        let digest: String = Sha256::digest(&text).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let host = policy.directory.host().replace([':', '/'], "_");
        Self { directory: state.join("acme").join(format!("{host}-{digest}")) }
    }

    /// What is kept of a name that is ordered by this policy.
    pub(crate) fn drawer(&self, policy: &AcmePolicy, name: &str) -> Drawer {
        // `+` is in no name that a client can send.
        Drawer { directory: self.kind(policy).join(name.replacen("*.", "+.", 1)) }
    }

    /// The names of which something is kept.
    pub(crate) fn names(&self, policy: &AcmePolicy) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.kind(policy)) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.map(|name| name.replacen("+.", "*.", 1)).collect()
    }

    fn kind(&self, policy: &AcmePolicy) -> PathBuf {
        let profile = policy.profile.as_ref().map(|profile| format!("-{profile}")).unwrap_or_default();
        self.directory.join(format!("{}{profile}", policy.key_type.name()))
    }

    /// Who may make an account.
    pub(crate) fn lease(&self) -> Result<Option<Lease>, Failure> {
        lease(&self.directory)
    }

    pub(crate) fn account(&self) -> Result<Option<AccountSpec>, Failure> {
        read_json(&self.directory.join("account.json"))
    }

    pub(crate) fn keep_account(&self, account: &AccountSpec) -> Result<(), Failure> {
        write_json(&self.directory.join("account.json"), account)
    }

    /// This account is of no use any more; its key stays at hand for whoever wants to know. Another process may have
    /// made a new one already.
    pub(crate) fn set_account_aside(&self, id: &str) -> Result<(), Failure> {
        if self.account()?.is_none_or(|kept| kept.id().as_deref() != Some(id)) {
            return Ok(());
        }
        let (from, to) = (self.directory.join("account.json"), self.directory.join("account.gone.json"));
        match fs::rename(&from, to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::file("set aside", &from, &error))
            }
            _ => Ok(()),
        }
    }
}

impl Drawer {
    /// Who may order the name.
    pub(crate) fn lease(&self) -> Result<Option<Lease>, Failure> {
        lease(&self.directory)
    }

    /// The certificate. One that cannot be read is as none: it is ordered anew.
    pub(crate) fn certificate(&self) -> Option<Arc<Certificate>> {
        let pem = read(&self.directory.join("certificate.pem")).ok()??;
        Certificate::read(&pem, &pem).ok().map(Arc::new)
    }

    /// The certificate, unless it has expired: names that clients have brought are forgotten with it.
    pub(crate) fn valid_certificate(&self) -> Option<Arc<Certificate>> {
        self.certificate().filter(|kept| kept.not_after() > SystemTime::now())
    }

    pub(crate) fn keep_certificate(&self, chain: &str, key: &str) -> Result<(), Failure> {
        let path = self.directory.join("certificate.pem");
        let text = format!("{}\n{key}", chain.trim_end());
        write_whole(&path, text.as_bytes()).map_err(|error| Failure::file("write", &path, &error))
    }

    /// The order that is under way.
    pub(crate) fn order(&self) -> Option<OrderSpec> {
        read_json(&self.directory.join("order.json")).ok()?
    }

    /// Whether the certificate that is kept has this key: what was ordered with it has come.
    pub(crate) fn has_come(&self, key: &str) -> bool {
        let kept = read(&self.directory.join("certificate.pem")).ok().flatten().unwrap_or_default();
        !key.is_empty() && String::from_utf8_lossy(&kept).contains(key.trim())
    }

    pub(crate) fn keep_order(&self, order: &OrderSpec) -> Result<(), Failure> {
        write_json(&self.directory.join("order.json"), order)
    }

    pub(crate) fn forget_order(&self) -> Result<(), Failure> {
        let path = self.directory.join("order.json");
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::file("remove", &path, &error))
            }
            _ => Ok(()),
        }
    }
}

/// Makes a directory, and those above it, that only their owner may enter.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Who may write to a directory.
pub(crate) fn lease(directory: &Path) -> Result<Option<Lease>, Failure> {
    let path = directory.join("lock");
    Lease::take(&path).map_err(|error| Failure::file("lock", &path, &error))
}

/// A whole file; `None`: there is none.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.len() > FILE => {
            Err(io::Error::other("it is larger than any that was written"))
        }
        // Reading from a pipe would block.
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is not a regular file")),
        Ok(_) => fs::read(path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>, Failure> {
    let bytes = read(path).map_err(|error| Failure::file("read", path, &error))?;
    let parse = |bytes: Vec<u8>| serde_json::from_slice(&bytes);
    // What the reader quotes may be a key.
    bytes
        .map(parse)
        .transpose()
        .map_err(|_| Failure::File(format!("{} is damaged; remove it", path.display())))
}

fn write_json(path: &Path, what: &impl Serialize) -> Result<(), Failure> {
    let failed = |error: &io::Error| Failure::file("write", path, error);
    let text = serde_json::to_vec(what).map_err(|error| failed(&error.into()))?;
    write_whole(path, &text).map_err(|error| failed(&error))
}

/// Writes a file whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    make_directory(directory)?;
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    // One that a crash has left may have other rights.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The name is durable when the directory is.
    File::open(directory)?.sync_all()
}

#[cfg(test)]
pub(crate) mod tests;
