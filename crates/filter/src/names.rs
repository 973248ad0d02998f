//! Names of fields, classified once when a filter is built.
//!
//! Most names that filters are about are known ones, which heads carry as ids: whether a field is among them is one
//! test of a bit. Text is compared only for others, and only where the length is right.

use crate::headers::checked_name;
use thalweg_http::{Field, FieldId, FieldSet};

/// Ids that stand for many names.
const SHARED: FieldSet =
    FieldSet::of(&[FieldId::Other, FieldId::Alias, FieldId::XForwardedOther, FieldId::ClientCert]);

/// The name of one field.
#[derive(Clone, Debug)]
pub(crate) struct FieldName {
    text: Box<str>,
    id: FieldId,
}

impl FieldName {
    /// A name that a filter knows itself.
    pub(crate) fn new(name: &str) -> Self {
        Self { text: name.into(), id: FieldId::classify(name.as_bytes()) }
    }

    /// One that users have written.
    ///
    /// # Errors
    /// It is no name, or may not be changed.
    pub(crate) fn checked(name: &str) -> Result<Self, String> {
        checked_name(name).map(|name| Self::new(&name))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn id(&self) -> FieldId {
        self.id
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.text.eq_ignore_ascii_case(&other.text)
    }
}

/// What is known of names without looking at them: where two of these share nothing, no name is in both.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Sketch(u64);

impl Sketch {
    /// Of one name, whatever its case.
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Self {
        let [first, last] =
            [name.first(), name.last()].map(|byte| usize::from(byte.map_or(0, |byte| byte | 0x20)));
        Self(1 << ((name.len() + 5 * first + 11 * last) % 64))
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    #[inline]
    pub(crate) fn shares(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Names of fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldNames {
    all: Vec<Box<str>>,
    /// Ids that only these names have.
    own: FieldSet,
    /// Ids that others may have too.
    shared: FieldSet,
    sketch: Sketch,
}

impl FieldNames {
    pub(crate) fn insert(&mut self, name: &FieldName) {
        let ids = if SHARED.contains(name.id) { &mut self.shared } else { &mut self.own };
        ids.insert(name.id);
        self.sketch.add(Sketch::of(name.text.as_bytes()));
        self.all.push(name.text.clone());
    }

    /// All of both.
    pub(crate) fn union(mut self, other: Self) -> Self {
        self.own = self.own.union(other.own);
        self.shared = self.shared.union(other.shared);
        self.sketch.add(other.sketch);
        self.all.extend(other.all);
        self
    }

    pub(crate) fn sketch(&self) -> Sketch {
        self.sketch
    }

    /// All names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(AsRef::as_ref)
    }

    /// Whether a field as it was received has one of these names.
    #[inline]
    pub(crate) fn have(&self, field: &Field, bytes: &[u8]) -> bool {
        self.own.contains(field.id) || (self.shared.contains(field.id) && self.contains(field.name.of(bytes)))
    }

    /// Whether this is one of them, in whatever case.
    #[inline]
    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        self.sketch.shares(Sketch::of(name))
            && self.all.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
    }
}

impl<'a> FromIterator<&'a FieldName> for FieldNames {
    fn from_iter<T: IntoIterator<Item = &'a FieldName>>(names: T) -> Self {
        names.into_iter().fold(Self::default(), |mut all, name| {
            all.insert(name);
            all
        })
    }
}

/// Of names that a filter knows itself.
impl<'a> FromIterator<&'a str> for FieldNames {
    fn from_iter<T: IntoIterator<Item = &'a str>>(names: T) -> Self {
        names.into_iter().fold(Self::default(), |mut all, name| {
            all.insert(&FieldName::new(name));
            all
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_http::{HeadLimits, ResponseHead};

    #[test]
    fn names_are_found_in_whatever_case_and_nothing_else_is() {
        let names: FieldNames =
            ["Server", "X-Powered-By", "X-Forwarded-Prefix", "X_Forwarded_For"].into_iter().collect();
        let head = b"HTTP/1.1 200 OK\r\nserver: 1\r\nX-POWERED-BY: 2\r\nServes: 3\r\nX-Powered-Up: 4\r\n\
            x-forwarded-prefix: 5\r\nX-Forwarded-Suffix: 6\r\nx_forwarded_for: 7\r\nX.Forwarded.For: 8\r\nX-Forwarded-For: 9\r\n\r\n";
        let mut response = ResponseHead::new();
        response.parse(head, &HeadLimits::default()).unwrap();
        for (at, field) in response.fields.iter().enumerate() {
            let expected = [0, 1, 4, 6].contains(&at);
            assert_eq!(names.have(field, head), expected, "{at}");
            assert_eq!(names.contains(field.name.of(head)), expected, "{at}");
        }
    }
}
