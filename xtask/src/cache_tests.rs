//! `cargo xtask cache-tests --suite DIR`: the public suite of tests for HTTP caches (`http-tests/cache-tests`) with the
//! product between its client and its origin server.
//!
//! The suite is not part of the tree: `DIR` is a checkout of it with its client library installed. Order of a run: the
//! suite's origin server ([`suite`]) → what stands before it ([`between`]) → the suite's client, which plays all tests
//! 25 at a time → the suite's own judgement of what the client saw → score and failures ([`mod@score`]). All ports are
//! chosen by the kernel; every program ends with the run.

mod between;
mod score;
mod suite;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use between::Against;
use score::Score;
use suite::Suite;

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// A checkout of the suite, with undici installed (`npm install --no-save undici@7` in it)
    #[arg(long, value_name = "DIR")]
    suite: PathBuf,
    /// The product's binary (default: built with the profile dev)
    #[arg(long, value_name = "BINARY")]
    thalweg: Option<PathBuf>,
    /// Another cache in the product's place, or nothing at all
    #[arg(long, value_enum, conflicts_with = "thalweg")]
    against: Option<Against>,
    /// The product's filters, in the place of a cache; `[]` for none
    #[arg(long, value_name = "YAML", conflicts_with = "against")]
    filters: Option<String>,
    /// Play one test and show its messages, without a score
    #[arg(long, value_name = "ID")]
    test: Option<String>,
    /// Write the outcome of every test to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Judge this file of results, as the suite's client writes it, and play nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["against", "thalweg", "test"])]
    results: Option<PathBuf>,
    /// Seconds after which the suite's client is given up
    #[arg(long, default_value_t = LIMIT)]
    limit: u64,
}

const LIMIT: u64 = 300;

/// Plays the suite and fails when the product fails a test without a documented reason, or passes one that has one.
pub(crate) fn run(args: &Args) -> Result<()> {
    let suite = Suite::find(&args.suite)?;
    if let Some(results) = &args.results {
        return tell(args, &suite.judge(results)?, "results of a file");
    }
    if let Some(test) = &args.test {
        let folder = Folder::new()?;
        let origin = suite.origin(&folder.0)?;
        return suite.show(test, between::start(args, origin.address, &folder.0)?.address);
    }
    let (score, what) = play(&suite, args)?;
    tell(args, &score, &what)?;
    // Exceptions are those of the configuration that is played when nothing else is asked for.
    if args.against.is_none() && args.filters.is_none() { judge(&score) } else { Ok(()) }
}

/// Plays a checkout of the suite to the product: the score in words, and whether it is as documented.
pub(crate) fn score(suite: &Path) -> Result<(String, Result<()>)> {
    let args = Args { suite: suite.to_owned(), limit: LIMIT, ..Args::default() };
    let (score, _) = play(&Suite::find(suite)?, &args)?;
    Ok((score.words(), judge(&score)))
}

/// The score, and what was played.
fn play(suite: &Suite, args: &Args) -> Result<(Score, String)> {
    let folder = Folder::new()?;
    let origin = suite.origin(&folder.0)?;
    let between = between::start(args, origin.address, &folder.0)?;
    let start = Instant::now();
    let results = suite.play(between.address, &folder.0, Duration::from_secs(args.limit));
    let results = results.with_context(|| format!("{} said:\n{}", between.version, between.said()))?;
    let what = format!("{}, {} s", between.version, start.elapsed().as_secs());
    Ok((suite.judge(&results)?, what))
}

/// Prints the score, and writes it where that was asked for.
fn tell(args: &Args, score: &Score, what: &str) -> Result<()> {
    println!("cache-tests: {what}\n{score}");
    if let Some(path) = &args.json {
        fs::write(path, score.json()?).with_context(|| format!("{}", path.display()))?;
    }
    Ok(())
}

/// Whether exactly those tests fail that may.
fn judge(score: &Score) -> Result<()> {
    let (unexplained, needless) = (score.unexplained(), score.needless());
    if !unexplained.is_empty() {
        bail!("without a documented reason fail: {}", unexplained.join(", "));
    }
    if !needless.is_empty() {
        bail!("no exceptions any more, since they pass or are gone: {}", needless.join(", "));
    }
    Ok(())
}

/// A folder for configurations and output, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("thalweg-cache-tests-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
