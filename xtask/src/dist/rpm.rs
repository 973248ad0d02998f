//! A package for Fedora and its like, made by `rpmbuild` where that is installed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Job;
use super::tree::{Kind, Tree};
use crate::command::{exists, output, root};

/// What makes the package the same on every machine, and keeps the builder from changing the files.
const SETTINGS: &[&str] = &[
    "_buildhost thalweg",
    "use_source_date_epoch_as_buildtime 1",
    "clamp_mtime_to_source_date_epoch 1",
    "_binary_payload w9.gzdio",
    "_build_id_links none",
    "__os_install_post %{nil}",
    "debug_package %{nil}",
    "_unpackaged_files_terminate_build 1",
];

/// Packs the tree; without `rpmbuild` it says so.
pub(super) fn package(job: &Job, tree: &Tree) -> Result<()> {
    if !exists("rpmbuild") {
        println!("dist: rpmbuild is not installed: no package of the kind rpm; help: apt-get install rpm");
        return Ok(());
    }
    let folder = std::env::temp_dir().join(format!("thalweg-rpm-{}", std::process::id()));
    let made = built(job, tree, &folder);
    let _ = fs::remove_dir_all(&folder);
    made
}

fn built(job: &Job, tree: &Tree, folder: &Path) -> Result<()> {
    let mut tree = tree.clone();
    tree.rename("usr/share/zsh/vendor-completions", "usr/share/zsh/site-functions");
    let files = folder.join("tree");
    for (path, entry) in tree.entries() {
        let path = files.join(path);
        match &entry.kind {
            Kind::Folder => fs::create_dir_all(&path)?,
            Kind::File(bytes) => {
                fs::create_dir_all(path.parent().unwrap_or(&files))?;
                fs::write(&path, bytes)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(entry.mode))?;
            }
        }
    }
    for path in ["var/lib/thalweg", "var/log/thalweg"] {
        fs::create_dir_all(files.join(path))?;
    }
    let mut command = Command::new("rpmbuild");
    command.args(["-bb", "--target", "x86_64-linux"]);
    let own = [
        format!("_topdir {}", folder.join("top").display()),
        format!("tree {}", files.display()),
        format!("version_of {}", job.version),
        format!("release_of {}", job.release),
    ];
    for setting in SETTINGS.iter().map(|setting| (*setting).to_owned()).chain(own) {
        command.args(["--define", &setting]);
    }
    command.arg(root().join("packaging/rpm/thalweg.spec")).env("SOURCE_DATE_EPOCH", job.epoch.to_string());
    output(&mut command)?;
    let name = format!("thalweg-{}-{}.x86_64.rpm", job.version, job.release);
    let path = folder.join("top/RPMS/x86_64").join(&name);
    job.write(&name, &fs::read(&path).with_context(|| format!("rpmbuild made no {}", path.display()))?)
}
