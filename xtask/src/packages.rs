//! Whether what `dist` packs is in order: `cargo xtask test --packages`, some seven minutes, which is no step of
//! `cargo xtask ci`.
//!
//! Packs the binary of the profile dev, and looks at the results with the programs that are there: `dpkg-deb`, `rpm`,
//! `lintian`, `systemd-analyze`, `helm`; one that is missing is told. Then the package is installed, started, upgraded
//! and removed, in a copy of this machine that is thrown away (`packaging/test/debian.sh`).

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::{built, exists, output, root, run as run_command, target};
use crate::dist::{self, Piece};

/// The most that `systemd-analyze security` may say of the unit: 0 is a service that can do nothing, 10 one that can do
/// everything.
const EXPOSURE: f64 = 2.0;
/// The largest image with the binary that is shipped, compressed.
const IMAGE: u64 = 25_000_000;

/// Packs, looks and installs.
pub(crate) fn check() -> Result<()> {
    let folder = target()?.join("packages");
    let _ = fs::remove_dir_all(&folder);
    // The machine's own have no place in a test.
    let roots = folder.join("roots.pem");
    fs::create_dir_all(&folder)?;
    fs::write(&roots, "")?;
    let pack = |name: &str, release: u32, only: &[Piece]| {
        let (binary, to) = (Some(built("thalweg")?), folder.join(name));
        let (to, roots, only) = (Some(to), roots.clone(), only.to_vec());
        dist::run(&dist::Args { binary, to, release, roots, only, twice: false })?;
        Ok::<_, anyhow::Error>(folder.join(name))
    };
    let first = pack("first", 1, &[])?;
    unit()?;
    deb(&first)?;
    rpm(&first)?;
    image(&first)?;
    chart(&first)?;
    again(&first, &pack("again", 1, &[])?)?;
    let second = pack("second", 2, &[Piece::Deb])?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--fork"]).arg(root().join("packaging/test/debian.sh"));
    run_command(command.arg(named(&first, ".deb")?).arg(named(&second, ".deb")?))
}

/// The one file with this ending.
fn named(folder: &Path, ending: &str) -> Result<PathBuf> {
    let mut paths = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let found = paths.find(|path| path.to_string_lossy().ends_with(ending));
    found.with_context(|| format!("no file *{ending} in {}", folder.display()))
}

fn is_there(program: &str, what: &str) -> bool {
    let found = exists(program);
    if !found {
        println!("packages: {program} is not installed: {what} is not looked at");
    }
    found
}

/// The sandbox of the unit.
fn unit() -> Result<()> {
    if !is_there("systemd-analyze", "the unit") {
        return Ok(());
    }
    let path = root().join("packaging/systemd/thalweg.service");
    let mut command = Command::new("systemd-analyze");
    let said = output(command.args(["security", "--no-pager", "--offline=true"]).arg(&path))?;
    let last = said.lines().last().unwrap_or_default();
    let exposure = last.split_whitespace().find_map(|word| word.parse::<f64>().ok());
    println!("packages: {last}");
    if exposure.is_none_or(|exposure| exposure > EXPOSURE) {
        bail!("{} is exposed more than {EXPOSURE}", path.display());
    }
    Ok(())
}

fn deb(folder: &Path) -> Result<()> {
    let path = named(folder, ".deb")?;
    if is_there("dpkg-deb", "the package for Debian") {
        let listed = output(Command::new("dpkg-deb").arg("--contents").arg(&path))?;
        for part in
            ["./usr/bin/thalweg", "./etc/thalweg/thalweg.yaml", "./usr/share/man/man1/thalweg-run.1.gz"]
        {
            if !listed.lines().any(|line| line.ends_with(part) && line.contains("root/root")) {
                bail!("{part} is not in the package, or not root's:\n{listed}");
            }
        }
        let configuration = output(Command::new("dpkg-deb").arg("--info").arg(&path).arg("conffiles"))?;
        if configuration != "/etc/logrotate.d/thalweg\n/etc/thalweg/thalweg.yaml\n" {
            bail!("other conffiles than the two: {configuration}");
        }
    }
    if is_there("lintian", "Debian's policy") {
        let mut command = Command::new("lintian");
        command.args(["--fail-on", "error,warning", "--suppress-tags", LINTIAN]);
        run_command(command.arg(&path))?;
    }
    Ok(())
}

/// The version of Kubernetes that the chart is made for in tests.
const KUBERNETES: &str = "1.31.0";

/// What lintian says of every package that does not come out of Debian itself, and of a binary that is not the one that
/// is shipped: not static, and with its symbols.
const LINTIAN: &str = "initial-upload-closes-no-bugs,unstripped-binary-or-object,missing-dependency-on-libc";

fn rpm(folder: &Path) -> Result<()> {
    if !is_there("rpm", "the package of the kind rpm") || !exists("rpmbuild") {
        return Ok(());
    }
    let path = named(folder, ".rpm")?;
    let configuration =
        output(Command::new("rpm").args(["--query", "--configfiles", "--package"]).arg(&path))?;
    if configuration != "/etc/logrotate.d/thalweg\n/etc/thalweg/thalweg.yaml\n" {
        bail!("other configuration than the two files: {configuration}");
    }
    Ok(())
}

/// Whether the image's parts are what it says of them.
fn image(folder: &Path) -> Result<()> {
    let path = named(folder, "-oci.tar")?;
    let open = folder.join("image");
    fs::create_dir_all(&open)?;
    run_command(Command::new("tar").arg("-xf").arg(&path).arg("-C").arg(&open))?;
    let json = |path: &Path| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
    let blob = |described: &Value| -> Result<PathBuf> {
        let digest = described["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
        let path = open.join("blobs/sha256").join(digest.context("no digest")?);
        let sum = output(Command::new("sha256sum").arg(&path))?;
        if sum.split_whitespace().next() != digest
            || Some(fs::metadata(&path)?.len()) != described["size"].as_u64()
        {
            bail!("{} is not what the image says of it", path.display());
        }
        Ok(path)
    };
    let manifest = json(&blob(&json(&open.join("index.json"))?["manifests"][0])?)?;
    let config = json(&blob(&manifest["config"])?)?;
    let layer = blob(&manifest["layers"][0])?;
    if config["config"]["User"] != "65532:65532" || config["config"]["Healthcheck"].is_null() {
        bail!("the image runs as another user, or has no health check: {config}");
    }
    let listed = output(Command::new("tar").args(["--numeric-owner", "-tvzf"]).arg(&layer))?;
    for part in ["usr/bin/thalweg", "etc/thalweg/thalweg.yaml", "etc/ssl/certs/ca-certificates.crt"] {
        if !listed.lines().any(|line| line.ends_with(part)) {
            bail!("{part} is not in the image:\n{listed}");
        }
    }
    let size = fs::metadata(&layer)?.len();
    println!(
        "packages: the image has {:.1} MB with this binary, at most {:.1} when shipped",
        size as f64 / 1e6,
        IMAGE as f64 / 1e6
    );
    Ok(())
}

/// The chart, by Helm's own rules where there is Helm.
fn chart(folder: &Path) -> Result<()> {
    let path = named(folder, ".tgz")?;
    if !is_there("helm", "the chart") {
        return Ok(());
    }
    let values = root().join("packaging/test/helm-values.yaml");
    for values in [&[][..], &[OsStr::new("--values"), values.as_os_str()]] {
        run_command(Command::new("helm").args(["lint", "--strict"]).arg(&path).args(values))?;
        let made = output(
            Command::new("helm")
                .args(["template", "edge", "--kube-version", KUBERNETES])
                .arg(&path)
                .args(values),
        )?;
        if !made.contains("kind: Deployment") {
            bail!("the chart makes no Deployment:\n{made}");
        }
    }
    Ok(())
}

/// Whether two runs have made the same.
fn again(first: &Path, second: &Path) -> Result<()> {
    let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS"));
    if sums(first)? != sums(second)? {
        bail!("two runs over the same binary differ:\n{}\n{}", sums(first)?, sums(second)?);
    }
    Ok(())
}
