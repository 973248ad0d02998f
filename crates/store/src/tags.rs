//! Tags of responses, by which a purge finds them: `Cache-Tag` (members of a list) and `Surrogate-Key` (words).
//!
//! An object has digests of its tags in lower case: a purge of `News` takes what is tagged `news` too.

use foldhash::quality::RandomState;
use std::hash::{BuildHasher, Hasher};
use thalweg_cache::StoredHead;
use thalweg_cache::request::FieldLines;
use thalweg_http::octet;

/// Tags of one object; one with more is taken away by a purge of any tag.
pub const MOST_TAGS: usize = 512;
/// Longest tag that is taken apart from others, in bytes; of longer ones the front counts.
pub const MOST_TAG: usize = 1024;

/// The tags of an object.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) enum Tags {
    #[default]
    None,
    Known(Box<[u64]>),
    TooMany,
}

impl Tags {
    /// Those of a response.
    pub(crate) fn of(head: &StoredHead, hasher: &RandomState) -> Self {
        let mut found = Vec::new();
        for word in words(head.fields()) {
            found.push(digest(word, hasher));
            if found.len() > MOST_TAGS {
                return Self::TooMany;
            }
        }
        if found.is_empty() { Self::None } else { Self::Known(found.into()) }
    }

    /// Whether it has the tag with this digest.
    pub(crate) fn has(&self, tag: u64) -> bool {
        match self {
            Self::None => false,
            Self::Known(known) => known.contains(&tag),
            Self::TooMany => true,
        }
    }

    pub(crate) fn charge(&self) -> u64 {
        match self {
            Self::Known(known) => crate::size::allocated(size_of_val::<[u64]>(known)),
            Self::None | Self::TooMany => 0,
        }
    }
}

/// The tags of a response, as they are written.
fn words<'f>(fields: impl FieldLines<'f>) -> impl Iterator<Item = &'f [u8]> {
    let is_list = |name: &[u8]| name.eq_ignore_ascii_case(b"cache-tag");
    let lines = fields.filter(move |(name, _)| is_list(name) || name.eq_ignore_ascii_case(b"surrogate-key"));
    let of_line = move |(name, value): (&'f [u8], &'f [u8])| {
        let is_list = is_list(name);
        value.split(move |byte| if is_list { *byte == b',' } else { octet::is_ows(*byte) })
    };
    lines.flat_map(of_line).map(octet::trim_ows).filter(|word| !word.is_empty())
}

/// Whether a response with these fields has a tag; one with too many has all.
pub fn has_tag<'f>(fields: impl FieldLines<'f>, tag: &[u8]) -> bool {
    let front = |tag: &'f [u8]| &tag[..tag.len().min(MOST_TAG)];
    let tag = &tag[..tag.len().min(MOST_TAG)];
    let mut all = words(fields);
    all.by_ref().take(MOST_TAGS).any(|word| front(word).eq_ignore_ascii_case(tag)) || all.next().is_some()
}

/// The digest of a tag.
pub(crate) fn digest(tag: &[u8], hasher: &RandomState) -> u64 {
    let tag = &tag[..tag.len().min(MOST_TAG)];
    let mut state = hasher.build_hasher();
    state.write(&tag.to_ascii_lowercase());
    state.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::head;

    #[test]
    fn tags_are_members_or_words() {
        let hasher = RandomState::default();
        let tags = Tags::of(&head("Cache-Tag: a b, C\nSurrogate-Key: d,e  f\ncache-tag: g"), &hasher);
        let has = |tag: &str| tags.has(digest(tag.as_bytes(), &hasher));
        assert!(["a b", "c", "C", "d,e", "f", "g"].into_iter().all(has));
        let tagged = head("Cache-Tag: a b, C\nSurrogate-Key: d,e  f");
        let told = |tag: &str| has_tag(tagged.fields(), tag.as_bytes());
        assert!(["A b", "c", "d,e", "f"].into_iter().all(told) && !["a", "e", ""].into_iter().any(told));
        assert!(!["a", "b", "d", "e", ""].into_iter().any(has));
        assert_eq!(Tags::of(&head("Cache-Tag: ,"), &hasher), Tags::None);
    }

    #[test]
    fn one_with_too_many_has_all() {
        let hasher = RandomState::default();
        let many = |number: usize| {
            let words: Vec<_> = (0..number).map(|number| format!("t{number}")).collect();
            Tags::of(&head(&format!("Surrogate-Key: {}", words.join(" "))), &hasher)
        };
        assert!(!many(MOST_TAGS).has(digest(b"x", &hasher)));
        assert!(many(MOST_TAGS + 1).has(digest(b"x", &hasher)));
    }
}
