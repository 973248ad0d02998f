//! Patterns with open segments: a tree per host level in which a node may have, beside its literal
//! children, one child for any segment.
//!
//! Asked by [`crate::candidates`] for one route after the other, best first. A request may fit several
//! shapes at once, so the walk has to try both ways at a node; it keeps its open ends in a fixed array.
//! The ends visited are bounded by the configured shapes, never by the request.

use crate::edges::{Edges, Filed, NONE};
use crate::path::{PATTERN_SEGMENTS, Pattern, Segment};

/// The trees of all levels.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    literal: Edges,
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    /// The child for any segment.
    one: u32,
    /// Routes whose pattern ends here.
    end: Filed,
    /// Routes whose pattern takes the rest from here.
    rest: Filed,
}

impl Shapes {
    /// Files a route under a pattern. Better routes come first. A level without a root gets one.
    pub(crate) fn insert(&mut self, root: &mut u32, pattern: &Pattern, route: u32) {
        if *root == NONE {
            *root = self.add();
        }
        let mut at = *root;
        for segment in pattern.segments() {
            at = match segment {
                Segment::Literal(text) => self.literal.child(at, text.as_bytes()).unwrap_or_else(|| {
                    let child = self.add();
                    self.literal.insert(at, text.as_bytes(), child);
                    child
                }),
                Segment::One(_) => {
                    if self.nodes[at as usize].one == NONE {
                        self.nodes[at as usize].one = self.add();
                    }
                    self.nodes[at as usize].one
                }
            };
        }
        let node = &mut self.nodes[at as usize];
        let list = if pattern.rest().is_some() { &mut node.rest } else { &mut node.end };
        list.push(route);
    }

    fn add(&mut self) -> u32 {
        self.nodes.push(Node { one: NONE, end: Filed::None, rest: Filed::None });
        (self.nodes.len() - 1) as u32
    }

    /// The best route of a level whose pattern fits `path` among those from `from` on.
    pub(crate) fn next(&self, root: u32, path: &[u8], from: u32) -> Option<&u32> {
        if root == NONE || !path.starts_with(b"/") {
            return None;
        }
        let mut best = None;
        let mut open = OpenEnds::at(root);
        while let Some((at, place)) = open.pop() {
            let node = &self.nodes[at as usize];
            consider(&mut best, node.rest.as_slice(), from);
            let Some(tail) = path.get(place + 1..) else {
                consider(&mut best, node.end.as_slice(), from);
                continue;
            };
            let segment = &tail[..memchr::memchr(b'/', tail).unwrap_or(tail.len())];
            let after = place + 1 + segment.len();
            if let Some(child) = self.literal.child(at, segment) {
                open.push(child, after);
            }
            if node.one != NONE && !segment.is_empty() {
                open.push(node.one, after);
            }
        }
        best
    }
}

/// Takes the first route of `list` from `from` on, if it is better than what was found.
fn consider<'t>(best: &mut Option<&'t u32>, list: &'t [u32], from: u32) {
    if let Some(first) = list.get(list.partition_point(|route| *route < from)) {
        *best = Some(best.map_or(first, |best| best.min(first)));
    }
}

/// The nodes still to be looked at, each with the place in the path of the slash that follows it. A step
/// takes one end and leaves at most two that are one segment deeper, so they never outgrow the depth by more
/// than one.
struct OpenEnds {
    ends: [(u32, usize); PATTERN_SEGMENTS + 1],
    count: usize,
}

impl OpenEnds {
    fn at(root: u32) -> Self {
        Self { ends: [(root, 0); PATTERN_SEGMENTS + 1], count: 1 }
    }

    fn push(&mut self, node: u32, place: usize) {
        debug_assert!(self.count < self.ends.len(), "patterns are bounded by PATTERN_SEGMENTS");
        if let Some(end) = self.ends.get_mut(self.count) {
            *end = (node, place);
            self.count += 1;
        }
    }

    fn pop(&mut self) -> Option<(u32, usize)> {
        self.count = self.count.checked_sub(1)?;
        Some(self.ends[self.count])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::PathPattern;

    fn shapes(patterns: &[&str]) -> Shapes {
        let mut shapes = Shapes::default();
        let mut root = NONE;
        for (route, text) in patterns.iter().enumerate() {
            match PathPattern::parse(text).unwrap() {
                PathPattern::Pattern(pattern) => shapes.insert(&mut root, &pattern, route as u32),
                other => panic!("{other} is not a pattern"),
            }
        }
        shapes
    }

    fn all(shapes: &Shapes, path: &str) -> Vec<u32> {
        let mut found = Vec::new();
        while let Some(route) = shapes.next(0, path.as_bytes(), found.last().map_or(0, |last| last + 1)) {
            found.push(*route);
        }
        found
    }

    #[test]
    fn gives_every_fitting_pattern_in_order() {
        let shapes =
            shapes(&["/a/{x}/c", "/{x}/b/c", "/a/{x}/{y}", "/a/{rest*}", "/{x}/{y}/{z}", "/a/{x}/d"]);
        assert_eq!(all(&shapes, "/a/b/c"), [0, 1, 2, 3, 4]);
        assert_eq!(all(&shapes, "/a/b/d"), [2, 3, 4, 5]);
        assert_eq!(all(&shapes, "/a"), [3]);
        assert_eq!(all(&shapes, "/a//c"), [3]);
        assert_eq!(all(&shapes, "/x/y"), [0_u32; 0]);
        assert_eq!(all(&shapes, "*"), [0_u32; 0]);
    }

    #[test]
    fn the_deepest_pattern_stays_within_the_open_ends() {
        let mut patterns = Vec::new();
        for literal in 0..PATTERN_SEGMENTS {
            let mut segments = vec!["*".to_owned(); PATTERN_SEGMENTS];
            segments[literal] = "a".into();
            patterns.push(
                format!("/{}", segments.join("/")) + if literal == PATTERN_SEGMENTS - 1 { "" } else { "/*" },
            );
        }
        let texts: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let shapes = shapes(&texts);
        assert_eq!(all(&shapes, &"/a".repeat(PATTERN_SEGMENTS)).len(), PATTERN_SEGMENTS);
    }
}
