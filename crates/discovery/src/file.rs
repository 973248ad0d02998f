//! `discover: { file: { path: endpoints.yaml } }`: a list that other programs write.
//!
//! The file is looked at by its path, so that a rename over it (editors) and the swap of a symbolic link (volumes of
//! Kubernetes) are seen; it is read when it has stayed the same from one look to the next.

mod documents;

use crate::document::endpoints;
use crate::feed::Feed;
use crate::http_servers::time;
use crate::kept::Document;
use crate::source::{Source, Watching};
use documents::FileDocuments;
use rustix::fs::OFlags;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thalweg_filter::ConfigFiles;

/// Largest file, in bytes.
const SIZE: u64 = 16 * 1024 * 1024;
/// Between two looks, where nothing is written.
const INTERVAL: Duration = Duration::from_secs(1);

/// How late a look may be on a busy machine before it is missed.
const PATIENCE: Duration = Duration::from_secs(2);

/// A file that other programs write.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `path`")]
pub struct FileSourceSpec {
    /// A YAML or JSON file: a list of endpoints, or a map with `endpoints`. A relative path begins at the directory
    /// of the configuration. In `route_sources`: a document, or a directory of them, whose names end with `.yaml`,
    /// `.yml`, `.json` or `.toml` and do not begin with a dot.
    #[schemars(extend("x-api" = "reference"))]
    path: String,
    /// Between two looks at it.
    #[schemars(extend("x-range" = ["100ms", "1h"], "x-default" = "1s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["1s"]))]
    interval: Option<String>,
}

impl FileSourceSpec {
    /// Checks the arguments.
    ///
    /// # Errors
    /// A sentence that names the wrong one.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source>, String> {
        Ok(Arc::new(File { path: files.path(&self.path), interval: self.interval()? }))
    }

    /// The file, or those of a directory, as documents.
    ///
    /// # Errors
    /// As for [`Self::build`].
    pub(crate) fn documents(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source<[Document]>>, String> {
        Ok(Arc::new(FileDocuments { path: files.path(&self.path), interval: self.interval()? }))
    }

    fn interval(&self) -> Result<Duration, String> {
        let range = (Duration::from_millis(100), Duration::from_secs(3600));
        time(("interval", self.interval.as_deref()), INTERVAL, range)
    }
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    interval: Duration,
}

impl Source for File {
    fn kind(&self) -> &'static str {
        "file"
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn query(&self) -> String {
        "endpoints".to_owned()
    }

    fn silence(&self) -> Duration {
        self.interval + PATIENCE
    }

    fn watch<'a>(&'a self, _members: &'a [Arc<dyn Source>], feed: Feed) -> Watching<'a> {
        Box::pin(async move {
            let mut read: Option<Stamp> = None;
            let mut last = None;
            loop {
                let path = self.path.clone();
                let is_settled = last.is_none();
                let now = match blocking(move || Stamp::of(&path)).await {
                    Ok(now) => now,
                    Err(why) => return format!("{}: {why}", self.path.display()),
                };
                if read != Some(now) && (is_settled || last == Some(now)) {
                    let path = self.path.clone();
                    let text = blocking(move || contents(&path)).await;
                    match text.and_then(|text| endpoints(&text)) {
                        Ok(found) => feed.found("endpoints", found),
                        Err(why) => return format!("{}: {why}", self.path.display()),
                    }
                    read = Some(now);
                }
                last = Some(now);
                feed.alive();
                tokio::time::sleep(self.interval).await;
            }
        })
    }
}

/// What tells one content from the next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stamp {
    /// When the inode changed: unlike the time of modification nobody can set it, as `cp -p` does.
    changed: (i64, i64),
    size: u64,
    inode: (u64, u64),
}

impl Stamp {
    fn of(path: &Path) -> Result<Self, String> {
        std::fs::metadata(path).map(|metadata| Self::from(&metadata)).map_err(|error| error.to_string())
    }
}

impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Self {
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Self { changed, size: metadata.size(), inode: (metadata.dev(), metadata.ino()) }
    }
}

fn contents(path: &Path) -> Result<Vec<u8>, String> {
    // Opening a pipe must not wait for its other end.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| error.to_string())?;
    if !file.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let mut text = Vec::new();
    file.take(SIZE + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > SIZE {
        return Err(format!("it has more than {} MiB", SIZE >> 20));
    }
    Ok(text)
}

/// Runs what may wait for a disk on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => Err("the look at it was ended".to_owned()),
    }
}
