//! A package for Debian: an archive of `ar` with two compressed ones of `tar` in it (deb(5)).

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::tree::{Kind, Tree};
use super::{Job, tar};
use crate::command::{output, root};

/// Who is asked about the package.
const MAINTAINER: &str = "Thalweg's maintainers <thalweg@packages.invalid>";
/// Scripts of the package.
const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];

/// The package with these files.
pub(super) fn package(job: &Job, tree: &Tree) -> Result<Vec<u8>> {
    let data = tar::gzip(&tar::write(&tree.below("."), job.epoch)?)?;
    let control = tar::gzip(&tar::write(&control(job, tree)?.below("."), job.epoch)?)?;
    let mut out = b"!<arch>\n".to_vec();
    for (name, bytes) in
        [("debian-binary", &b"2.0\n"[..]), ("control.tar.gz", &control), ("data.tar.gz", &data)]
    {
        out.extend(
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", job.epoch, 0, 0, 100_644, bytes.len())
                .bytes(),
        );
        out.extend(bytes);
        if bytes.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    Ok(out)
}

/// What dpkg reads of the package.
fn control(job: &Job, tree: &Tree) -> Result<Tree> {
    let files = || {
        tree.entries().filter_map(|(path, entry)| match &entry.kind {
            Kind::File(bytes) => Some((path, bytes)),
            _ => None,
        })
    };
    let kib: usize = files().map(|(_, bytes)| bytes.len().div_ceil(1024)).sum();
    let mut control = Tree::default();
    control.file("control", 0o644, described(job, kib).into_bytes());
    let configuration: String =
        files().filter(|(path, _)| path.starts_with("etc/")).map(|(path, _)| format!("/{path}\n")).collect();
    control.file("conffiles", 0o644, configuration.into_bytes());
    control.file("md5sums", 0o644, sums(tree)?.into_bytes());
    for name in SCRIPTS {
        let path = root().join("packaging/deb").join(name);
        let script = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        control.file(name, 0o755, script);
    }
    Ok(control)
}

fn described(job: &Job, kib: usize) -> String {
    format!(
        "Package: thalweg\n\
         Version: {}-{}\n\
         Architecture: amd64\n\
         Maintainer: {MAINTAINER}\n\
         Installed-Size: {kib}\n\
         Depends: passwd\n\
         Recommends: ca-certificates\n\
         Suggests: logrotate\n\
         Section: httpd\n\
         Priority: optional\n\
         Provides: httpd\n\
         Description: reverse proxy, load balancer and API gateway\n \
         Thalweg says which route takes a request and why, keeps every queue and\n \
         buffer within bounds, and takes configurations over without losing\n \
         connections. It speaks HTTP/1.1, HTTP/2, gRPC, WebSocket, TCP and UDP,\n \
         renews its certificates, and has a cache and a dashboard.\n",
        job.version, job.release
    )
}

/// The sums by which `dpkg --verify` finds changed files: MD5, as its format has it.
fn sums(tree: &Tree) -> Result<String> {
    let folder = std::env::temp_dir().join(format!("thalweg-sums-{}", std::process::id()));
    let made = (|| {
        let mut command = Command::new("md5sum");
        command.current_dir(&folder);
        for (path, entry) in tree.entries().filter(|(path, _)| !path.starts_with("etc/")) {
            let Kind::File(bytes) = &entry.kind else { continue };
            let file = folder.join(path);
            fs::create_dir_all(file.parent().unwrap_or(&folder))?;
            fs::write(file, bytes)?;
            command.arg(path);
        }
        output(&mut command)
    })();
    let _ = fs::remove_dir_all(&folder);
    made
}

/// The changelog that Debian's policy wants, of one entry.
pub(super) fn changelog(job: &Job) -> Result<String> {
    let date =
        output(Command::new("date").args(["--utc", "--rfc-email", "--date"]).arg(format!("@{}", job.epoch)))?;
    Ok(format!(
        "thalweg ({}-{}) unstable; urgency=medium\n\n  * What is new stands in changelog.gz beside this file.\n\n \
         -- {MAINTAINER}  {}\n",
        job.version,
        job.release,
        date.trim()
    ))
}
