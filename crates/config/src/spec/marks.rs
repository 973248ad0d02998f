//! Digests of written filters, by which two configurations are compared.
//!
//! Made of the tree when it is read, after `${…}` has been filled in, and put into the steps of the plan
//! ([`thalweg_filter::Written`]), where `protections` compares guards of two configurations. Digests are keyed with
//! what only this process knows: an argument may hold secrets that could be guessed.

use crate::parse::{Key, Kind, Node};
use crate::source::Span;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use thalweg_filter::Written;

/// The key of the conditions of a step.
const WHEN: &str = "when";

/// Where something stands.
type Place = (u16, u32, u32);

/// Digests of the steps of all lists of filters, without their conditions, and of these, by where they stand. `None`:
/// two things stand there.
#[derive(Clone, Debug, Default)]
pub struct Marks(HashMap<Place, Option<[u8; 32]>>);

impl Marks {
    /// Those of the filters of listeners, `defaults`, services, routes and chains.
    pub(super) fn of(root: &Node) -> Self {
        let mut marks = Self::default();
        for section in ["listeners", "services"] {
            for (_, entry) in entries(root.entry(section)) {
                marks.add_list(entry.entry("filters"));
            }
        }
        marks.add_list(root.entry("defaults").and_then(|defaults| defaults.entry("filters")));
        for route in items(root.entry("routes")) {
            marks.add_list(route.entry("filters"));
        }
        for (_, chain) in entries(root.entry("chains")) {
            marks.add_list(Some(chain));
        }
        marks
    }

    /// What tells the step at `span`, with conditions at these places, from others; `None`: nothing does.
    pub(crate) fn written(&self, span: Span, when: impl Iterator<Item = Span>) -> Option<Written> {
        let of = |span: Span| self.0.get(&place(span)).copied().flatten();
        let mut all = Sha256::new();
        let mut is_conditional = false;
        for condition in when {
            all.update(of(condition)?);
            is_conditional = true;
        }
        let when = if is_conditional { all.finalize().into() } else { [0; 32] };
        Some(Written { argument: of(span)?, when })
    }

    fn add_list(&mut self, list: Option<&Node>) {
        for step in items(list) {
            self.add(step, Some(WHEN));
            if let Some(when) = step.entry(WHEN) {
                self.add(when, None);
            }
        }
    }

    fn add(&mut self, node: &Node, without: Option<&str>) {
        let mut hash = Sha256::new_with_prefix(salt());
        feed(node, without, &mut hash);
        let digest: [u8; 32] = hash.finalize().into();
        let known = self.0.entry(place(node.span)).or_insert(Some(digest));
        if *known != Some(digest) {
            *known = None;
        }
    }
}

fn place(span: Span) -> Place {
    (span.file, span.start, span.end)
}

fn items(list: Option<&Node>) -> &[Node] {
    match list.map(|list| &list.kind) {
        Some(Kind::Seq(items)) => items,
        _ => &[],
    }
}

fn entries(map: Option<&Node>) -> &[(Key, Node)] {
    match map.map(|map| &map.kind) {
        Some(Kind::Map(entries)) => entries,
        _ => &[],
    }
}

/// What only this process knows.
fn salt() -> [u8; 32] {
    static SALT: OnceLock<[u8; 32]> = OnceLock::new();
    *SALT.get_or_init(|| {
        let mut salt = [0; 32];
        for (at, part) in salt.chunks_exact_mut(8).enumerate() {
            part.copy_from_slice(&RandomState::new().hash_one(at).to_le_bytes());
        }
        salt
    })
}

/// Each value with its kind and its length, so that no two trees read the same; the order of keys says nothing.
fn feed(node: &Node, without: Option<&str>, hash: &mut Sha256) {
    let mut tell = |kind: u8, bytes: &[u8]| {
        hash.update([kind]);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    if let Some(text) = &node.filled {
        return tell(b's', text.as_bytes());
    }
    match &node.kind {
        Kind::Null => tell(b'n', &[]),
        Kind::Bool(value) => tell(b'b', &[u8::from(*value)]),
        Kind::Int(value) => tell(b'i', &value.to_le_bytes()),
        Kind::Float(value) => tell(b'f', &value.to_bits().to_le_bytes()),
        Kind::Str(text) => tell(b's', text.as_bytes()),
        Kind::Seq(items) => {
            tell(b'l', &(items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| feed(item, None, hash));
        }
        Kind::Map(all) => {
            let mut entries: Vec<_> = all.iter().filter(|(key, _)| Some(&*key.name) != without).collect();
            entries.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
            tell(b'm', &(entries.len() as u64).to_le_bytes());
            for (key, value) in entries {
                hash.update((key.name.len() as u64).to_le_bytes());
                hash.update(key.name.as_bytes());
                feed(value, None, hash);
            }
        }
    }
}
