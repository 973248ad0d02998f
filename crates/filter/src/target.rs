//! The target that goes upstream, as the filters of a request change it.

use std::sync::Arc;
use thalweg_http::{matched_form, prefix_len};

/// A query that goes upstream.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum QueryEdit {
    /// As the client sent it.
    #[default]
    Unchanged,
    /// None.
    Removed,
    /// This one, without `?`.
    Replaced(Vec<u8>),
}

/// The target that goes upstream.
#[derive(Clone, Debug, Default)]
pub struct TargetEdit {
    path: Vec<u8>,
    query: QueryEdit,
    host: Option<Vec<u8>>,
    moved: Vec<Moved>,
    changed: bool,
}

/// How a filter has moved a path.
#[derive(Clone, Debug)]
pub enum Moved {
    /// One prefix of whole segments has taken the place of another; neither ends in `/`.
    Prefix(Arc<MovedPrefix>),
    /// In a way that has no way back.
    Otherwise,
}

/// A prefix, and what has taken its place.
#[derive(Debug)]
pub struct MovedPrefix {
    /// As the client says it.
    pub from: Box<[u8]>,
    /// As the service knows it.
    pub to: Box<[u8]>,
}

impl TargetEdit {
    /// Begins with a path, and keeps the memory.
    pub fn begin(&mut self, path: &[u8]) {
        self.path.clear();
        self.path.extend_from_slice(path);
        self.query = QueryEdit::Unchanged;
        self.host = None;
        self.moved.clear();
        self.changed = false;
    }

    /// Forgets everything, and gives memory back beyond `capacity` bytes.
    pub fn shrink(&mut self, capacity: usize) {
        self.begin(&[]);
        self.path.shrink_to(capacity);
    }

    /// The path. Begins with one `/`, has no query, and contains only characters of a target.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The query.
    pub fn query(&self) -> &QueryEdit {
        &self.query
    }

    /// The host and port in place of what the client named; wins over the service's `host`.
    pub fn host(&self) -> Option<&[u8]> {
        self.host.as_deref()
    }

    /// How filters have moved the path, in their order.
    pub fn moved(&self) -> &[Moved] {
        &self.moved
    }

    /// Another path, in its normal form, and how it has come from the one before.
    pub fn set_path(&mut self, path: Vec<u8>, how: Moved) {
        self.changed |= self.path != path;
        self.path = path;
        self.moved.push(how);
    }

    /// Replaces one prefix of whole segments by another, if the path has it in any spelling; returns whether it did.
    pub fn move_prefix(&mut self, moved: &Arc<MovedPrefix>) -> bool {
        let (from, to) = (&*moved.from, &*moved.to);
        let Some(taken) = prefix_len(&self.path, from) else { return false };
        match (to, &self.path[taken..]) {
            ([], []) => {
                self.path.clear();
                self.path.push(b'/');
            }
            _ => drop(self.path.splice(..taken, to.iter().copied())),
        }
        self.changed |= from != to;
        self.moved.push(Moved::Prefix(moved.clone()));
        true
    }

    /// A target with its path in the matched form; `None`: the path already has that form.
    pub(crate) fn matched(&self) -> Option<Self> {
        let path = matched_form(&self.path)?;
        Some(Self { path, ..Self::default() })
    }

    /// The path in its normal form, after one of its prefixes was moved.
    pub(crate) fn normalize(&mut self, normal: Vec<u8>) {
        self.path = normal;
    }

    /// Another query.
    pub fn set_query(&mut self, query: QueryEdit) {
        self.changed |= self.query != query;
        self.query = query;
    }

    /// Another host, with its port where it has one.
    pub fn set_host(&mut self, host: Vec<u8>) {
        self.changed |= self.host.as_ref() != Some(&host);
        self.host = Some(host);
    }

    /// Whether something was changed since this was asked last.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(path: &str, (from, to): (&str, &str)) -> (String, bool) {
        let mut target = TargetEdit::default();
        target.begin(path.as_bytes());
        let prefix = MovedPrefix { from: from.as_bytes().into(), to: to.as_bytes().into() };
        assert_eq!(target.move_prefix(&Arc::new(prefix)), !target.moved().is_empty());
        (String::from_utf8(target.path().to_vec()).unwrap(), target.take_changed())
    }

    #[test]
    fn prefixes_of_whole_segments_move() {
        for (path, prefix, expected) in [
            ("/a/b", ("/a", ""), ("/b", true)),
            ("/a", ("/a", ""), ("/", true)),
            ("/a/", ("/a", "/x/y"), ("/x/y/", true)),
            ("/a", ("", "/x"), ("/x/a", true)),
            ("/ab", ("/a", "/x"), ("/ab", false)),
            ("/%40a/b%2Bc", ("/@a", "/x"), ("/x/b%2Bc", true)),
            ("/a//b/c", ("/a/b", "/x"), ("/x/c", true)),
            ("/a/b", ("/a", "/a"), ("/a/b", false)),
            ("*", ("", "/x"), ("*", false)),
        ] {
            assert_eq!(moved(path, prefix), (expected.0.to_owned(), expected.1), "{path} {prefix:?}");
        }
    }

    #[test]
    fn what_is_the_same_again_is_no_change() {
        let mut target = TargetEdit::default();
        target.begin(b"/a");
        target.set_query(QueryEdit::Unchanged);
        target.set_path(b"/a".to_vec(), Moved::Otherwise);
        assert!(!target.take_changed());
        target.set_query(QueryEdit::Removed);
        assert!(target.take_changed() && !target.take_changed());
        target.set_host(b"b".to_vec());
        assert!(target.take_changed());
        target.shrink(0);
        assert!(
            target.host().is_none() && target.path().is_empty() && *target.query() == QueryEdit::Unchanged
        );
    }
}
