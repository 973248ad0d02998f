//! Files as they lie on a machine, before they are packed one way or another.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{Job, man, tar};
use crate::command::{output, root};

/// The service's user in the container image: by number, as nothing there knows its name but `/etc/passwd`.
const CONTAINER: Owner = Owner { id: 65532, name: "thalweg" };
/// Whose the rest is.
const ROOT: Owner = Owner { id: 0, name: "root" };

/// Files and folders by their path, which begins without a slash.
#[derive(Clone, Default)]
pub(super) struct Tree(BTreeMap<String, Entry>);

/// One of them.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) owner: Owner,
}

/// What it is.
#[derive(Clone)]
pub(super) enum Kind {
    Folder,
    File(Vec<u8>),
}

/// Whose it is; the group has the same name and number.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) id: u32,
    pub(super) name: &'static str,
}

impl Tree {
    /// Everything, folders before what is in them.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.0.iter()
    }

    /// Adds a file of root's, and the folders that it needs.
    pub(super) fn file(&mut self, path: &str, mode: u32, bytes: Vec<u8>) {
        self.add(path, Entry { kind: Kind::File(bytes), mode, owner: ROOT });
    }

    fn add(&mut self, path: &str, entry: Entry) {
        for (at, _) in path.match_indices('/') {
            let parent = Entry { kind: Kind::Folder, mode: 0o755, owner: ROOT };
            self.0.entry(path[..at].to_owned()).or_insert(parent);
        }
        self.0.insert(path.to_owned(), entry);
    }

    /// Adds a folder of the sources with all that is in it.
    pub(super) fn folder(&mut self, path: &str, from: &Path) -> Result<()> {
        let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = format!("{path}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.folder(&name, &entry.path())?;
            } else {
                self.file(&name, 0o644, fs::read(entry.path())?);
            }
        }
        Ok(())
    }

    /// The same with every path below another one.
    pub(super) fn below(&self, folder: &str) -> Self {
        let mut below = Self::default();
        for (path, entry) in &self.0 {
            below.add(&format!("{folder}/{path}"), entry.clone());
        }
        below
    }

    /// Takes a file or a folder with all that is in it out.
    fn remove(&mut self, path: &str) {
        let inside = format!("{path}/");
        self.0.retain(|present, _| present != path && !present.starts_with(&inside));
    }

    /// Moves a folder.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let inside = format!("{from}/");
        let moved: Vec<_> = self.0.iter().filter(|(path, _)| path.starts_with(&inside)).collect();
        let moved: Vec<_> =
            moved.into_iter().map(|(path, entry)| (path.replacen(from, to, 1), entry.clone())).collect();
        self.remove(from);
        moved.into_iter().for_each(|(path, entry)| self.add(&path, entry));
    }
}

/// What every package installs.
pub(super) fn machine(job: &Job, binary: &Path, licences: &str) -> Result<Tree> {
    let mut tree = Tree::default();
    let packaging = |path: &str| -> Result<Vec<u8>> {
        let path = root().join("packaging").join(path);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    tree.file("usr/bin/thalweg", 0o755, fs::read(binary)?);
    tree.file("etc/thalweg/thalweg.yaml", 0o644, packaging("etc/thalweg.yaml")?);
    tree.file("etc/logrotate.d/thalweg", 0o644, packaging("logrotate/thalweg")?);
    tree.file("usr/lib/systemd/system/thalweg.service", 0o644, packaging("systemd/thalweg.service")?);
    tree.file("usr/lib/sysusers.d/thalweg.conf", 0o644, packaging("systemd/thalweg.sysusers")?);
    tree.file("usr/share/thalweg/welcome.html", 0o644, packaging("etc/welcome.html")?);
    tree.file("usr/share/thalweg/schema.json", 0o644, fs::read(root().join("docs/reference/schema.json"))?);
    for (name, page) in man::pages(binary, job.epoch, &job.version)? {
        tree.file(&format!("usr/share/man/man1/{name}.1.gz"), 0o644, tar::gzip(page.as_bytes())?);
    }
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/thalweg"),
        ("zsh", "usr/share/zsh/vendor-completions/_thalweg"),
        ("fish", "usr/share/fish/vendor_completions.d/thalweg.fish"),
    ] {
        let script = output(std::process::Command::new(binary).args(["completions", shell]))?;
        tree.file(path, 0o644, script.into_bytes());
    }
    let docs = "usr/share/doc/thalweg";
    for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        tree.file(&format!("{docs}/{name}"), 0o644, fs::read(root().join(name))?);
    }
    tree.file(&format!("{docs}/THIRD-PARTY.txt.gz"), 0o644, tar::gzip(licences.as_bytes())?);
    tree.file(&format!("{docs}/changelog.gz"), 0o644, tar::gzip(&fs::read(root().join("CHANGELOG.md"))?)?);
    Ok(tree)
}

/// The same as Debian's policy wants it.
pub(super) fn debian(job: &Job, tree: &Tree) -> Result<Tree> {
    let mut tree = tree.clone();
    let docs = "usr/share/doc/thalweg";
    // The texts of common licences are there already.
    tree.remove(&format!("{docs}/LICENSE-APACHE"));
    tree.remove(&format!("{docs}/LICENSE-MIT"));
    tree.file(&format!("{docs}/copyright"), 0o644, fs::read(root().join("packaging/deb/copyright"))?);
    let changes = super::deb::changelog(job)?;
    tree.file(&format!("{docs}/changelog.Debian.gz"), 0o644, tar::gzip(changes.as_bytes())?);
    let hints = root().join("packaging/deb/lintian-overrides");
    tree.file("usr/share/lintian/overrides/thalweg", 0o644, fs::read(hints)?);
    Ok(tree)
}

/// What the container image holds: the binary, a page, roots to trust, and a user who owns what is written.
pub(super) fn image(machine: &Tree, roots: &Path) -> Result<Tree> {
    let mut tree = Tree::default();
    for path in
        ["usr/bin/thalweg", "usr/share/thalweg/welcome.html", "usr/share/doc/thalweg/THIRD-PARTY.txt.gz"]
    {
        if let Some(entry) = machine.0.get(path) {
            tree.add(path, entry.clone());
        }
    }
    let configuration = fs::read(root().join("packaging/container/thalweg.yaml"))?;
    tree.file("etc/thalweg/thalweg.yaml", 0o644, configuration);
    let user =
        "root:x:0:0:root:/:/sbin/nologin\nthalweg:x:65532:65532:thalweg:/var/lib/thalweg:/sbin/nologin\n";
    tree.file("etc/passwd", 0o644, user.into());
    tree.file("etc/group", 0o644, b"root:x:0:\nthalweg:x:65532:\n".to_vec());
    tree.file("etc/nsswitch.conf", 0o644, b"hosts: files dns\n".to_vec());
    let pem = fs::read(roots).with_context(|| {
        format!("cannot read {}; help: install ca-certificates, or name a file with --roots", roots.display())
    })?;
    tree.file("etc/ssl/certs/ca-certificates.crt", 0o644, pem);
    for path in ["var/lib/thalweg", "run/thalweg"] {
        tree.add(path, Entry { kind: Kind::Folder, mode: 0o700, owner: CONTAINER });
    }
    tree.add("tmp", Entry { kind: Kind::Folder, mode: 0o1777, owner: ROOT });
    Ok(tree)
}
