//! Whether files have changed: those of the configuration with `run --watch`, those of certificates always.
//!
//! The control thread looks at them twice a second (stat(2), nothing is read): that notices what an editor writes in
//! place, a new file that is renamed over the old one, and a symbolic link on the way that points elsewhere (as
//! Kubernetes exchanges a mounted ConfigMap), on any file system. A change counts when it is the same at
//! two looks: what is still being written is left alone. Each change counts once, whatever comes of it.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often files are looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What tells one state of a file from another: device, number, size, times of the last change of its content and
/// of anything of it. `None`: there is none.
pub(super) type Print = Option<(u64, u64, u64, [i64; 4])>;

pub(super) fn print(path: &Path) -> Print {
    let meta = fs::metadata(path).ok()?;
    let times = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()];
    Some((meta.dev(), meta.ino(), meta.size(), times))
}

/// Files, and how they were when they counted last.
#[derive(Debug, Default)]
pub(crate) struct Files {
    known: Vec<(PathBuf, Print)>,
    /// Another state, seen at the last look.
    seen: Option<Vec<Print>>,
    /// They changed before they were looked at for the first time.
    behind: bool,
}

impl Files {
    /// They have changed already since somebody read them: as they are now is news.
    pub(crate) fn fall_behind(&mut self) {
        self.behind = true;
    }

    /// These are the files from now on. Those that were watched before count as they did, others as they are now;
    /// whether there are any others.
    pub(crate) fn replace(&mut self, files: Vec<PathBuf>) -> bool {
        if self.known.iter().map(|(path, _)| path).eq(&files) {
            // A change that has been seen once goes on to be looked at.
            return false;
        }
        let before = std::mem::take(&mut self.known);
        let before: HashMap<_, _> = before.into_iter().collect();
        let of = |path: &PathBuf| before.get(path).copied();
        let mut others = false;
        let known = files.into_iter().map(|path| {
            let counted = of(&path).unwrap_or_else(|| {
                others = true;
                print(&path)
            });
            (path, counted)
        });
        self.known = known.collect();
        self.seen = None;
        others
    }

    /// Whether files have changed since they counted last, and are as they were at the last look. From then on they
    /// count as they are.
    pub(crate) fn have_changed(&mut self) -> bool {
        let was_behind = self.behind;
        !self.changed().is_empty() || (was_behind && !self.behind)
    }

    /// Which files have changed, in the same way.
    pub(crate) fn changed(&mut self) -> Vec<PathBuf> {
        let now: Vec<_> = self.known.iter().map(|(path, _)| print(path)).collect();
        if !self.behind && self.known.iter().map(|(_, print)| print).eq(&now) {
            self.seen = None;
            return Vec::new();
        }
        if self.seen.as_ref() != Some(&now) {
            self.seen = Some(now);
            return Vec::new();
        }
        (self.seen, self.behind) = (None, false);
        let mut changed = Vec::new();
        for ((path, print), now) in self.known.iter_mut().zip(now) {
            if *print != now {
                changed.push(path.clone());
                *print = now;
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A directory of its own, removed in the end.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("thalweg-files-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn watching(file: PathBuf) -> Files {
        let mut files = Files::default();
        assert!(files.replace(vec![file]));
        files
    }

    fn looks<const N: usize>(files: &mut Files) -> [bool; N] {
        std::array::from_fn(|_| files.have_changed())
    }

    #[test]
    fn a_change_counts_once_and_when_it_is_over() {
        let place = Place::new("once");
        let file = place.write("a.yaml", "one");
        let mut files = watching(file.clone());
        assert_eq!(looks(&mut files), [false, false]);
        place.write("a.yaml", "another");
        assert!(!files.have_changed(), "it may still be written");
        place.write("a.yaml", "another one");
        assert_eq!(looks(&mut files), [false, true, false, false]);
        fs::remove_file(&file).unwrap();
        assert_eq!(looks(&mut files), [false, true, false]);
        place.write("a.yaml", "back");
        assert_eq!(looks(&mut files), [false, true, false]);
    }

    #[test]
    fn a_file_that_is_renamed_over_the_old_one_is_a_change_though_its_text_is_as_long() {
        let place = Place::new("rename");
        let file = place.write("a.yaml", "one");
        let mut files = watching(file.clone());
        let new = place.write(".a.yaml.swp", "two");
        fs::rename(new, &file).unwrap();
        assert_eq!(looks(&mut files), [false, true, false]);
    }

    #[test]
    fn a_link_on_the_way_that_points_elsewhere_is_a_change() {
        let place = Place::new("link");
        place.write("..1/a.yaml", "one");
        place.write("..2/a.yaml", "two");
        let (data, file) = (place.0.join("..data"), place.0.join("a.yaml"));
        symlink("..1", &data).unwrap();
        symlink("..data/a.yaml", &file).unwrap();
        let mut files = watching(file);
        assert_eq!(looks(&mut files), [false, false]);
        let new = place.0.join("..data_tmp");
        symlink("..2", &new).unwrap();
        fs::rename(new, data).unwrap();
        assert_eq!(looks(&mut files), [false, true, false]);
    }

    #[test]
    fn the_same_files_again_do_not_put_a_change_off() {
        let place = Place::new("again");
        let file = place.write("a.yaml", "one");
        let mut files = watching(file.clone());
        place.write("a.yaml", "another");
        let mut look = || {
            assert!(!files.replace(vec![file.clone()]), "as after every change of an endpoint");
            files.have_changed()
        };
        assert_eq!([look(), look(), look()], [false, true, false]);
    }

    #[test]
    fn a_change_before_the_first_look_is_news_once() {
        let place = Place::new("behind");
        let mut files = watching(place.write("a.yaml", "another"));
        files.fall_behind();
        assert_eq!(looks(&mut files), [false, true, false, false]);
    }

    #[test]
    fn a_file_that_is_watched_on_counts_as_before_and_a_new_one_as_it_is() {
        let place = Place::new("replace");
        let (one, other) = (place.write("a.yaml", "one"), place.write("b.yaml", "one"));
        let mut files = watching(one.clone());
        place.write("a.yaml", "two and more");
        assert!(files.replace(vec![other.clone(), one.clone()]));
        assert!(!files.replace(vec![one, other.clone()]));
        assert_eq!(looks(&mut files), [false, true, false], "the change of the first is not lost");
        fs::remove_file(other).unwrap();
        assert_eq!(looks(&mut files), [false, true, false]);
    }
}
