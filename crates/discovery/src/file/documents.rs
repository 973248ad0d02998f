//! `route_sources: [ { file: { path: routes.d } } ]`: documents that other programs write, each a file of a directory,
//! or one file alone.
//!
//! Files are looked at by their paths, as for endpoints. A directory is read when it has stayed the same from one look
//! to the next, so that several files that are written together are one change; where it never does, the files in it
//! that do are read.

use super::{PATIENCE, SIZE, Stamp, blocking, contents};
use crate::feed::Feed;
use crate::kept::{Document, KEYS, document, only_document};
use crate::source::{Source, Watching};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What the name of a document ends with.
const ENDINGS: [&str; 4] = [".yaml", ".yml", ".json", ".toml"];
/// Looks at a directory that changes all the time before what has not changed in it is read.
const LOOKS: u32 = 5;
/// For what it asks.
const QUERY: &str = "documents";

#[derive(Debug)]
pub(super) struct FileDocuments {
    pub(super) path: PathBuf,
    pub(super) interval: Duration,
}

impl Source<[Document]> for FileDocuments {
    fn kind(&self) -> &'static str {
        "file"
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn query(&self) -> String {
        QUERY.to_owned()
    }

    fn silence(&self) -> Duration {
        self.interval + PATIENCE
    }

    fn watch<'a>(
        &'a self,
        _members: &'a [Arc<dyn Source<[Document]>>],
        feed: Feed<[Document]>,
    ) -> Watching<'a> {
        Box::pin(async move {
            let mut known = Known::default();
            loop {
                match self.look(known).await {
                    Ok((now, changed)) => {
                        known = now;
                        if changed {
                            known.tell(&feed);
                        }
                    }
                    Err(why) => return format!("{}: {why}", self.path.display()),
                }
                feed.alive();
                tokio::time::sleep(self.interval).await;
            }
        })
    }
}

impl FileDocuments {
    /// Looks once; what is known then, and whether that is news.
    async fn look(&self, mut known: Known) -> Result<(Known, bool), String> {
        let path = self.path.clone();
        blocking(move || {
            let changed = known.look(&path)?;
            Ok((known, changed))
        })
        .await
    }
}

/// Files by their names.
type Stamps = BTreeMap<Arc<str>, Stamp>;

/// What was seen of the files, and what was read of them.
#[derive(Debug, Default)]
struct Known {
    /// `None`: nothing was looked at yet.
    last: Option<Stamps>,
    /// Looks since the directory was last the same.
    restless: u32,
    documents: BTreeMap<Arc<str>, (Stamp, Document)>,
    /// The first that could not be read.
    flaw: Option<String>,
}

impl Known {
    /// Looks, and reads what has changed and stays as it is. Whether there is something to tell.
    fn look(&mut self, path: &Path) -> Result<bool, String> {
        let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
        if metadata.is_dir() { self.look_into(path) } else { self.look_at(path) }
    }

    /// One file alone: what cannot be read is a failure.
    fn look_at(&mut self, path: &Path) -> Result<bool, String> {
        let stamp = Stamp::of(path)?;
        let name = path.file_name().map_or_else(|| "document".into(), |name| name.to_string_lossy());
        let name: Arc<str> = name.into();
        let stays = self.stays(Stamps::from([(name.clone(), stamp)]));
        if !stays || self.documents.get(&name).is_some_and(|(read, _)| *read == stamp) {
            return Ok(false);
        }
        let all = only_document(&name, &contents(path)?)?;
        self.documents = all.into_iter().map(|one| (one.name.clone(), (stamp, one))).collect();
        self.flaw = None;
        Ok(true)
    }

    /// A directory: a file that cannot be read stays as it was read last.
    fn look_into(&mut self, path: &Path) -> Result<bool, String> {
        let now = stamps(path)?;
        let before = self.last.clone();
        if !self.stays(now.clone()) {
            return Ok(false);
        }
        let settled = |name: &Arc<str>, stamp: Option<&Stamp>| {
            before.as_ref().is_none_or(|before| before.get(name) == stamp)
        };
        let (count, flaw) = (self.documents.len(), self.flaw.take());
        self.documents.retain(|name, _| now.contains_key(name) || !settled(name, None));
        let mut changed = before.is_none() || self.documents.len() != count;
        for (name, stamp) in &now {
            let is_read = self.documents.get(name).is_some_and(|(read, _)| read == stamp);
            if is_read || !settled(name, Some(stamp)) {
                continue;
            }
            match contents(&path.join(&**name)).and_then(|text| document(name, &text)) {
                Ok(document) => {
                    changed = true;
                    self.documents.extend(document.map(|document| (name.clone(), (*stamp, document))));
                }
                Err(why) => drop(self.flaw.get_or_insert(format!("`{name}` is left as it was: {why}"))),
            }
        }
        Ok(changed || self.flaw != flaw)
    }

    /// Whether what is seen now may be read.
    fn stays(&mut self, now: Stamps) -> bool {
        let is_same = self.last.as_ref().is_none_or(|last| *last == now);
        self.restless = if is_same { 0 } else { self.restless + 1 };
        self.last = Some(now);
        is_same || self.restless >= LOOKS
    }

    fn tell(&self, feed: &Feed<[Document]>) {
        let all: Vec<_> = self.documents.values().map(|(_, document)| document.clone()).collect();
        feed.found(QUERY, all);
        if let Some(flaw) = &self.flaw {
            feed.flawed(QUERY, flaw.clone());
        }
    }
}

/// The documents of a directory.
fn stamps(path: &Path) -> Result<Stamps, String> {
    let (mut all, mut bytes) = (Stamps::new(), 0);
    for entry in std::fs::read_dir(path).map_err(|error| error.to_string())? {
        let name = entry.map_err(|error| error.to_string())?.file_name();
        let Some(name) = name.to_str().filter(|name| is_document(name)) else { continue };
        // One that is gone, or leads nowhere, is none.
        let Ok(metadata) = std::fs::metadata(path.join(name)) else { continue };
        if metadata.is_file() {
            bytes += metadata.len();
            all.insert(name.into(), Stamp::from(&metadata));
        }
        if all.len() > KEYS {
            return Err(format!("it has more than {KEYS} documents"));
        }
        if bytes > SIZE {
            return Err(format!("the documents have more than {} MiB", SIZE >> 20));
        }
    }
    Ok(all)
}

fn is_document(name: &str) -> bool {
    !name.starts_with('.') && ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of its own, which is removed in the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("thalweg-documents-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.join(name), text).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn texts(known: &Known) -> Vec<(&str, &str)> {
        known.documents.iter().map(|(name, (_, one))| (&**name, &*one.text)).collect()
    }

    #[test]
    fn files_with_a_name_of_a_document_are_ones_and_all_others_are_not() {
        let folder = Folder::new("names");
        for name in ["b.json", "a.yaml", "c.yml", ".a.yaml", "a.yaml~", "a.yaml.new", "README"] {
            folder.write(name, "x");
        }
        std::fs::create_dir(folder.0.join("d.yaml")).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.0.join("e.yaml")).unwrap();
        let mut known = Known::default();
        assert_eq!(known.look(&folder.0), Ok(true), "the first look is believed");
        assert_eq!(texts(&known), [("a.yaml", "x"), ("b.json", "x"), ("c.yml", "x")]);
        assert_eq!(known.look(&folder.0), Ok(false));
    }

    #[test]
    fn a_directory_is_read_when_it_has_stayed_the_same_or_never_does() {
        let folder = Folder::new("settles");
        folder.write("a.yaml", "1");
        let mut known = Known::default();
        known.look(&folder.0).unwrap();
        folder.write("a.yaml", "22");
        folder.write("b.yaml", "1");
        assert_eq!(known.look(&folder.0), Ok(false));
        folder.write("c.yaml", "1");
        assert_eq!(known.look(&folder.0), Ok(false));
        assert_eq!(known.look(&folder.0), Ok(true));
        assert_eq!(texts(&known), [("a.yaml", "22"), ("b.yaml", "1"), ("c.yaml", "1")]);
        std::fs::remove_file(folder.0.join("b.yaml")).unwrap();
        for at in 1..LOOKS as usize {
            folder.write("c.yaml", &"x".repeat(at + 1));
            assert_eq!(known.look(&folder.0), Ok(false));
        }
        folder.write("c.yaml", "the last");
        assert_eq!(known.look(&folder.0), Ok(true));
        assert_eq!(texts(&known), [("a.yaml", "22"), ("c.yaml", "1")], "but for the one that changes");
        known.look(&folder.0).unwrap();
        assert_eq!(texts(&known)[1], ("c.yaml", "the last"));
    }

    #[test]
    fn number_and_size_are_bounded() {
        let folder = Folder::new("bounds");
        folder.write("a.yaml", "1");
        let large = std::fs::File::create(folder.0.join("large.yaml")).unwrap();
        large.set_len(SIZE).unwrap();
        let mut known = Known::default();
        assert!(known.look(&folder.0).unwrap_err().contains("16 MiB"));
        large.set_len(SIZE + 1).unwrap();
        assert!(known.look(&folder.0.join("large.yaml")).unwrap_err().contains("16 MiB"));
    }

    #[test]
    fn a_file_alone_is_a_map() {
        let folder = Folder::new("alone");
        folder.write("a.yaml", "routes: []");
        let path = folder.0.join("a.yaml");
        let mut known = Known::default();
        assert_eq!((known.look(&path), known.look(&path)), (Ok(true), Ok(false)));
        assert_eq!(texts(&known), [("a.yaml", "routes: []")]);
        folder.write("a.yaml", "routes: { [");
        assert_eq!(known.look(&path), Ok(false));
        assert!(known.look(&path).unwrap_err().contains("no map"));
    }
}
