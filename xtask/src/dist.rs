//! `cargo xtask dist`: everything that is shipped, in `target/dist/shipped/`.
//!
//! Order of a run: the binary, static and without debug information ([`binary`]) → what goes with it: man pages and
//! completions from its own `--help`, the list of its parts ([`sbom`]), their licences → the files as they lie on a
//! machine ([`tree`]) → the same files as an archive, a package for Debian, one for Fedora and its like, a container
//! image ([`oci`]) → the Helm chart → sums of all. Everything is written here ([`tar`], [`deb`]) but for the package of
//! the kind rpm, which `rpmbuild` makes.
//!
//! The same sources give the same bytes: times are those of the last commit (or `SOURCE_DATE_EPOCH`), owners and orders
//! are fixed, paths of the machine are replaced. `--twice` builds the binary again from a copy of the sources elsewhere
//! and compares.

mod binary;
mod deb;
mod licences;
mod man;
mod oci;
mod rpm;
mod sbom;
mod tar;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand};

use crate::command::{filtered, output, root, target};
use tree::Tree;

/// The file with the sums of all others.
const SUMS: &str = "SHA256SUMS";

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Pack this binary, stripped, instead of building one
    #[arg(long, value_name = "BINARY")]
    pub(crate) binary: Option<PathBuf>,
    /// Only these, with the binary and its debug information
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) only: Vec<Piece>,
    /// Where the results go (default: target/dist/shipped)
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// The number of the packages of one version
    #[arg(long, default_value_t = 1)]
    pub(crate) release: u32,
    /// The roots that the container image trusts
    #[arg(long, value_name = "PEM", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    pub(crate) roots: PathBuf,
    /// Build the binary again from a copy of the sources elsewhere, and fail when a byte differs
    #[arg(long, conflicts_with = "binary")]
    pub(crate) twice: bool,
}

/// What is made beside the binary.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Piece {
    /// Nothing
    Binary,
    /// The list of parts, and their licences
    Parts,
    /// An archive to unpack by hand
    Archive,
    /// The package for Debian
    Deb,
    /// The package for Fedora and its like
    Rpm,
    /// The container image
    Image,
    /// The Helm chart
    Chart,
}

/// What the parts of a run share.
struct Job {
    metadata: Metadata,
    version: String,
    release: u32,
    /// Seconds since 1970 that every file has for its time.
    epoch: u64,
    folder: PathBuf,
}

/// Builds and packs.
pub(crate) fn run(args: &Args) -> Result<()> {
    let job = Job::new(args)?;
    match &args.binary {
        Some(binary) => binary::split(binary, &job.folder)?,
        None => {
            let built = if args.twice {
                binary::build_twice(&target()?, job.epoch)?
            } else {
                binary::build(&root(), &target()?, job.epoch)?
            };
            binary::split(&built, &job.folder)?;
        }
    }
    pack(&job, args)?;
    sums(&job.folder)
}

impl Job {
    fn new(args: &Args) -> Result<Self> {
        let metadata = MetadataCommand::new()
            .current_dir(root())
            .other_options(["--filter-platform".to_owned(), binary::TARGET.to_owned(), "--locked".to_owned()])
            .exec()
            .context("cargo metadata")?;
        let product = metadata.packages.iter().find(|package| package.name.as_str() == "thalweg");
        let version = product.context("no package `thalweg`")?.version.to_string();
        let folder = match &args.to {
            Some(folder) => std::path::absolute(folder)?,
            None => target()?.join("dist/shipped"),
        };
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self { metadata, version, release: args.release, epoch: epoch()?, folder })
    }

    /// Writes a result.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        println!("dist: {} ({:.1} MB)", path.display(), bytes.len() as f64 / 1e6);
        Ok(())
    }
}

/// The time that results have: `SOURCE_DATE_EPOCH`, else that of the last commit.
fn epoch() -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()))?,
    };
    text.trim().parse().context("SOURCE_DATE_EPOCH is no number of seconds")
}

/// Everything but the binary.
fn pack(job: &Job, args: &Args) -> Result<()> {
    let wanted = |piece: Piece| args.only.is_empty() || args.only.contains(&piece);
    if wanted(Piece::Chart) {
        chart(job)?;
    }
    if args.only.iter().all(|piece| matches!(piece, Piece::Binary | Piece::Chart)) && !args.only.is_empty() {
        return Ok(());
    }
    let parts = sbom::parts(&job.metadata)?;
    let licences = licences::text(&parts)?;
    if wanted(Piece::Parts) {
        let sbom = sbom::document(job, &parts)?;
        job.write(&format!("thalweg-{}.cdx.json", job.version), sbom.as_bytes())?;
        job.write("THIRD-PARTY.txt", licences.as_bytes())?;
    }
    let tree = tree::machine(job, &job.folder.join("thalweg"), &licences)?;
    if wanted(Piece::Archive) {
        let name = format!("thalweg-{}-x86_64-linux", job.version);
        job.write(&format!("{name}.tar.gz"), &tar::gzip(&tar::write(&tree.below(&name), job.epoch)?)?)?;
    }
    if wanted(Piece::Deb) {
        let package = deb::package(job, &tree::debian(job, &tree)?)?;
        job.write(&format!("thalweg_{}-{}_amd64.deb", job.version, job.release), &package)?;
    }
    if wanted(Piece::Rpm) {
        rpm::package(job, &tree)?;
    }
    if wanted(Piece::Image) {
        let image = oci::image(job, &tree::image(&tree, &args.roots)?)?;
        job.write(&format!("thalweg-{}-oci.tar", job.version), &image)?;
    }
    Ok(())
}

/// The Helm chart, as `helm package` packs it.
fn chart(job: &Job) -> Result<()> {
    let folder = root().join("packaging/helm/thalweg");
    let described = fs::read_to_string(folder.join("Chart.yaml"))?;
    for key in ["version", "appVersion"] {
        let line = format!("{key}: {}", job.version);
        if !described.lines().any(|present| present.replace('"', "") == line) {
            bail!("packaging/helm/thalweg/Chart.yaml does not say `{line}`");
        }
    }
    let mut tree = Tree::default();
    tree.folder("thalweg", &folder)?;
    job.write(&format!("thalweg-{}.tgz", job.version), &tar::gzip(&tar::write(&tree, job.epoch)?)?)
}

/// The sums of everything that is in the folder.
fn sums(folder: &Path) -> Result<()> {
    let mut names: Vec<String> = fs::read_dir(folder)?
        .filter_map(|entry| entry.ok().filter(|entry| entry.path().is_file())?.file_name().into_string().ok())
        .filter(|name| name != SUMS)
        .collect();
    names.sort();
    let mut text = String::new();
    for name in names {
        let bytes = fs::read(folder.join(&name))?;
        text += &format!("{}  {name}\n", sha256(&bytes)?);
    }
    fs::write(folder.join(SUMS), &text)?;
    print!("{text}");
    Ok(())
}

/// The sum of some bytes, in hexadecimal digits.
fn sha256(bytes: &[u8]) -> Result<String> {
    let said = String::from_utf8(filtered(&mut Command::new("sha256sum"), bytes)?)?;
    Ok(said.split_whitespace().next().context("sha256sum says nothing")?.to_owned())
}
