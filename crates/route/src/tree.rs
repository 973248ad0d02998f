//! Exact paths and prefixes: a tree per host level whose edges are whole segments.
//!
//! Walked once per host level by [`crate::candidates`]. The walk hashes each segment at most once and ends
//! at the first that the tree does not know, so it grows neither with the number of paths nor, beyond what is
//! configured, with the length of the request's. Each node links to the nearest prefix above it: the
//! matching prefixes come out longest first without a list of them.

use crate::edges::{Edges, Filed, NONE};

/// The trees of all levels.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    edges: Edges,
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    /// Routes whose path ends here.
    exact: Filed,
    /// Routes whose prefix ends here.
    prefix: Filed,
    /// The nearest node above with prefix routes, [`NONE`] at a root.
    above: u32,
}

/// Where a walk ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'t> {
    /// Routes for exactly this path.
    pub exact: &'t [u32],
    /// The node of the longest prefix, for [`Tree::prefix`].
    pub prefix: u32,
}

impl Tree {
    /// Files a route under an exact path, which begins with a slash. Better routes come first. A level without
    /// a root gets one.
    pub(crate) fn insert_exact(&mut self, root: &mut u32, path: &str, route: u32) {
        let node = self.node(root, path);
        self.nodes[node].exact.push(route);
    }

    /// Files a route under a prefix without slash at its end, likewise.
    pub(crate) fn insert_prefix(&mut self, root: &mut u32, path: &str, route: u32) {
        let node = self.node(root, path);
        self.nodes[node].prefix.push(route);
    }

    /// The node of a path, made where it is missing.
    fn node(&mut self, root: &mut u32, path: &str) -> usize {
        if *root == NONE {
            *root = self.add(NONE);
        }
        let mut at = *root;
        for segment in path.as_bytes().split(|byte| *byte == b'/').skip(1) {
            at = self.edges.child(at, segment).unwrap_or_else(|| {
                // Links are settled by `finish`; until then they name the parent.
                let child = self.add(at);
                self.edges.insert(at, segment, child);
                child
            });
        }
        at as usize
    }

    fn add(&mut self, above: u32) -> u32 {
        self.nodes.push(Node { exact: Filed::None, prefix: Filed::None, above });
        (self.nodes.len() - 1) as u32
    }

    /// Settles the links once every route is in. Parents stand before their children.
    pub(crate) fn finish(&mut self) {
        for at in 0..self.nodes.len() {
            self.nodes[at].above = self.nearest(self.nodes[at].above);
        }
    }

    /// `node` if prefix routes end there, else the nearest such node above.
    fn nearest(&self, node: u32) -> u32 {
        match self.nodes.get(node as usize) {
            Some(Node { prefix: Filed::None, above, .. }) => *above,
            Some(_) => node,
            None => NONE,
        }
    }

    /// Follows a path from a level's root as far as the tree knows it.
    pub(crate) fn walk(&self, root: u32, path: &[u8]) -> Found<'_> {
        let mut at = root;
        let mut rest = path;
        while let Some((b'/', tail)) = rest.split_first() {
            let (segment, after) = tail.split_at(memchr::memchr(b'/', tail).unwrap_or(tail.len()));
            let Some(child) = self.edges.child(at, segment) else {
                return Found { exact: &[], prefix: self.nearest(at) };
            };
            at = child;
            rest = after;
        }
        // A path that does not begin with a slash ends at the root, where no route is filed.
        let exact = self.nodes.get(at as usize).map_or(&[][..], |node| node.exact.as_slice());
        Found { exact, prefix: self.nearest(at) }
    }

    /// The routes of a prefix node and the next shorter prefix; nothing for [`NONE`].
    pub(crate) fn prefix(&self, node: u32) -> Option<(&[u32], u32)> {
        self.nodes.get(node as usize).map(|node| (node.prefix.as_slice(), node.above))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(tree: &Tree, path: &str) -> Vec<u32> {
        let mut found = Vec::new();
        let mut node = tree.walk(0, path.as_bytes()).prefix;
        while let Some((routes, above)) = tree.prefix(node) {
            found.extend_from_slice(routes);
            node = above;
        }
        found
    }

    #[test]
    fn finds_prefixes_longest_first() {
        let mut tree = Tree::default();
        let mut root = NONE;
        tree.insert_prefix(&mut root, "/a/b/c/d", 0);
        tree.insert_prefix(&mut root, "/a/b", 1);
        tree.insert_prefix(&mut root, "/a", 2);
        tree.insert_prefix(&mut root, "/ab", 3);
        tree.finish();
        assert_eq!(prefixes(&tree, "/a/b/c/d/e"), [0, 1, 2]);
        assert_eq!(prefixes(&tree, "/a/b/c/x"), [1, 2]);
        assert_eq!(prefixes(&tree, "/a/bb"), [2]);
        assert_eq!(prefixes(&tree, "/ab/c"), [3]);
        assert_eq!(prefixes(&tree, "/abc"), [0_u32; 0]);
        assert_eq!(prefixes(&tree, "*"), [0_u32; 0]);
    }

    #[test]
    fn finds_exact_paths_only_at_their_end() {
        let mut tree = Tree::default();
        let mut root = NONE;
        tree.insert_exact(&mut root, "/", 0);
        tree.insert_exact(&mut root, "/a/b", 1);
        tree.insert_exact(&mut root, "/a/b", 1);
        tree.finish();
        assert_eq!(tree.walk(0, b"/").exact, [0]);
        assert_eq!(tree.walk(0, b"/a/b").exact, [1]);
        for path in ["", "*", "/a", "/a/b/", "/a/b/c", "//"] {
            assert!(tree.walk(0, path.as_bytes()).exact.is_empty(), "{path}");
        }
    }
}
