//! The fields of a head that is on its way: those that were received, and those that filters have added.

use crate::edits::Lines;
use crate::names::{FieldName, FieldNames, Sketch};
use crate::template::Escape;
use crate::{Template, Values};
use thalweg_http::h1::encode::write_field;
use thalweg_http::{Field, FieldId, FieldSet, octet};

/// The fields of a head, to read.
///
/// Fields that end at this hop or may not be passed on are not among them.
#[derive(Clone, Copy, Debug, Default)]
pub struct FieldView<'a> {
    fields: &'a [Field],
    bytes: &'a [u8],
    added: &'a [u8],
    /// Of the names in `added`, and maybe of some that are gone; `None`: it is not known.
    present: Option<Sketch>,
}

impl<'a> FieldView<'a> {
    /// Fields as received in `bytes`, and lines that were added.
    pub fn new(fields: &'a [Field], bytes: &'a [u8], added: &'a [u8]) -> Self {
        Self { fields, bytes, added, present: None }
    }

    /// What may be among the lines that were added, for this name.
    fn lines_for(self, name: &str) -> &'a [u8] {
        match self.present {
            Some(present) if !present.shares(Sketch::of(name.as_bytes())) => &[],
            _ => self.added,
        }
    }

    /// All fields: those that were received, in their order, then those that were added.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
        let received = self.fields.iter().filter(|field| field.keep);
        let received = received.map(move |field| (field.name.of(self.bytes), field.value.of(self.bytes)));
        received.chain(lines(self.added).map(|(_, name, value)| (name, value)))
    }

    /// The values of a name, whatever its case.
    pub fn values(self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let is_it = move |(known, value): (&'a [u8], &'a [u8])| {
            known.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
        };
        Self { added: self.lines_for(name), ..self }.iter().filter_map(is_it)
    }

    /// The values of a name as they were received, whatever filters have made of them.
    pub fn as_sent(self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let named = self
            .fields
            .iter()
            .filter(move |field| field.name.of(self.bytes).eq_ignore_ascii_case(name.as_bytes()));
        named.map(move |field| field.value.of(self.bytes))
    }

    /// The first value of a name.
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        let is_it = |known: &[u8]| known.eq_ignore_ascii_case(name.as_bytes());
        let mut kept = self.fields.iter().filter(|field| field.keep);
        if let Some(field) = kept.find(|field| is_it(field.name.of(self.bytes))) {
            return Some(field.value.of(self.bytes));
        }
        lines(self.lines_for(name)).find(|(_, known, _)| is_it(known)).map(|(.., value)| value)
    }

    /// The value of a cookie of a request; the first one of that name.
    pub fn cookie(self, name: &str) -> Option<&'a [u8]> {
        let pairs = self.values("cookie").flat_map(|value| value.split(|byte| *byte == b';'));
        let mut values = pairs.filter_map(|pair| {
            let pair = pair.trim_ascii();
            let end = memchr::memchr(b'=', pair)?;
            (&pair[..end] == name.as_bytes()).then(|| &pair[end + 1..])
        });
        values.next()
    }
}

/// The fields of a head, to change.
///
/// What HTTP does not allow in a name or value is not written, whoever wants it: a message cannot be split.
#[derive(Debug)]
pub struct HeadFields<'a> {
    fields: &'a mut [Field],
    bytes: &'a [u8],
    added: &'a mut Vec<u8>,
    /// Where lines that were added begin in `added`.
    begins: usize,
    /// Known names among those that were added.
    known: &'a mut FieldSet,
    /// Of the names of all lines in `added`, and maybe of some that are gone.
    present: Sketch,
    changed: bool,
}

impl<'a> HeadFields<'a> {
    /// Fields as received in `bytes`; what is added goes behind the end of `added` as whole lines, and its name into
    /// `known`.
    pub fn new(
        fields: &'a mut [Field],
        bytes: &'a [u8],
        (added, begins): (&'a mut Vec<u8>, usize),
        known: &'a mut FieldSet,
    ) -> Self {
        let mut present = Sketch::default();
        for (_, name, _) in lines(&added[begins..]) {
            present.add(Sketch::of(name));
        }
        Self { fields, bytes, added, begins, known, present, changed: false }
    }

    /// The fields as they are now.
    pub fn view(&self) -> FieldView<'_> {
        let present = Some(self.present);
        FieldView { fields: self.fields, bytes: self.bytes, added: &self.added[self.begins..], present }
    }

    /// The first value of a name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.view().get(name)
    }

    /// The value of a name as it was received, whether it goes on or not; `None` where there is none, or more than
    /// one.
    pub fn received(&self, name: &str) -> Option<&'a [u8]> {
        let is_it = |field: &&Field| field.name.of(self.bytes).eq_ignore_ascii_case(name.as_bytes());
        let mut fields = self.fields.iter().filter(is_it);
        let only = fields.next()?;
        fields.next().is_none().then(|| only.value.of(self.bytes))
    }

    /// Whether there is a field of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// There is one field of this name, with this value, and no other.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        self.remove(name);
        self.append(name, value);
    }

    /// Adds a field; others of that name stay.
    pub fn append(&mut self, name: &str, value: &[u8]) {
        if write_field(self.added, name.as_bytes(), value) {
            self.note(FieldSet::of(&[FieldId::classify(name.as_bytes())]), Sketch::of(name.as_bytes()));
        }
    }

    /// Adds whole lines that were made before.
    pub(crate) fn append_lines(&mut self, lines: &Lines) {
        self.added.extend_from_slice(&lines.text);
        self.note(lines.ids, lines.sketch);
    }

    /// Adds a field whose value is made now; none where it could not tell exactly what was verified of the client.
    pub(crate) fn append_template(&mut self, name: &FieldName, value: &Template, values: &Values<'_>) {
        if value.inexact(values).is_some() {
            return;
        }
        let begin = self.added.len();
        self.added.extend_from_slice(name.as_str().as_bytes());
        self.added.extend_from_slice(b": ");
        let begin_of_value = self.added.len();
        value.render(values, Escape::Field, self.added);
        let written = &self.added[begin_of_value..];
        if octet::value_len(written) != written.len() {
            self.added.truncate(begin);
            return;
        }
        self.added.extend_from_slice(b"\r\n");
        self.note(FieldSet::of(&[name.id()]), Sketch::of(name.as_str().as_bytes()));
    }

    fn note(&mut self, ids: FieldSet, sketch: Sketch) {
        *self.known = self.known.union(ids);
        self.present.add(sketch);
        self.changed = true;
    }

    /// Removes all fields of these names; says whether there was one.
    pub(crate) fn remove_all(&mut self, names: &FieldNames) -> bool {
        let mut found = false;
        for field in self.fields.iter_mut() {
            if field.keep && names.have(field, self.bytes) {
                field.keep = false;
                found = true;
            }
        }
        if self.present.shares(names.sketch()) {
            while let Some(at) = self.line(|name| names.contains(name)) {
                self.added.drain(at);
                found = true;
            }
        }
        self.changed |= found;
        found
    }

    /// Whether there is a field of one of these names.
    pub(crate) fn contains_any(&self, names: &FieldNames) -> bool {
        self.fields.iter().any(|field| field.keep && names.have(field, self.bytes))
            || (self.present.shares(names.sketch())
                && lines(&self.added[self.begins..]).any(|(_, name, _)| names.contains(name)))
    }

    /// Removes all fields of a name; says whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let mut found = false;
        for field in self.fields.iter_mut().filter(|field| field.keep) {
            if field.name.of(self.bytes).eq_ignore_ascii_case(name.as_bytes()) {
                field.keep = false;
                found = true;
            }
        }
        if self.present.shares(Sketch::of(name.as_bytes())) {
            while let Some(at) = self.line(|known| known.eq_ignore_ascii_case(name.as_bytes())) {
                self.added.drain(at);
                found = true;
            }
        }
        self.changed |= found;
        found
    }

    /// There is no field of this name, and the proxy adds none of its own.
    pub fn withhold(&mut self, name: &str) {
        self.remove(name);
        self.known.insert(FieldId::classify(name.as_bytes()));
        self.changed = true;
    }

    /// Whether something was changed since this was asked last.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Where the first added line of such a name stands.
    fn line(&self, is_it: impl Fn(&[u8]) -> bool) -> Option<std::ops::Range<usize>> {
        let mut found = lines(&self.added[self.begins..]);
        let (at, ..) = found.find(|(_, known, _)| is_it(known))?;
        let start = self.begins + at;
        let length = memchr::memchr(b'\n', &self.added[start..])?;
        Some(start..start + length + 1)
    }
}

/// Lines of a head, each with its place, name and value.
fn lines(added: &[u8]) -> impl Iterator<Item = (usize, &[u8], &[u8])> + Clone {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = added.get(at..).filter(|rest| !rest.is_empty())?;
        let end = memchr::memchr(b'\n', rest)?;
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        let colon = memchr::memchr(b':', line)?;
        let found = (at, &line[..colon], line[colon + 1..].trim_ascii());
        at += end + 1;
        Some(found)
    })
}

/// Whether a filter may name this field at all: those that frame a message or belong to a connection are the proxy's
/// own.
pub fn may_be_changed(name: &str) -> bool {
    use FieldId as Id;
    !matches!(
        FieldId::classify(name.as_bytes()),
        Id::Alias
            | Id::Host
            | Id::Connection
            | Id::ContentLength
            | Id::TransferEncoding
            | Id::Te
            | Id::Trailer
            | Id::Upgrade
            | Id::Expect
            | Id::KeepAlive
            | Id::ProxyConnection
            | Id::Http2Settings
            | Id::Via
            | Id::SecWebSocketKey
            | Id::SecWebSocketAccept
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_http::h1::encode::write_fields;
    use thalweg_http::{HeadLimits, ResponseHead};

    #[test]
    fn fields_are_set_appended_and_removed_among_those_that_came() {
        let head = b"HTTP/1.1 200 OK\r\nA: 1\r\nX: own\r\nB: 2\r\nx: again\r\n\r\n";
        let mut response = ResponseHead::new();
        response.parse(head, &HeadLimits::default()).unwrap();
        let (mut out, mut known) = (b"HTTP/1.1 200 OK\r\n".to_vec(), FieldSet::default());
        let begins = out.len();
        let mut fields = HeadFields::new(&mut response.fields, head, (&mut out, begins), &mut known);
        assert_eq!(fields.get("x"), Some(&b"own"[..]));
        assert!(!fields.take_changed());
        fields.set("X", b"first");
        fields.append("Y", b"y");
        fields.append("y", b"z");
        fields.set("x", b"last");
        assert_eq!(fields.view().values("Y").collect::<Vec<_>>(), [b"y", b"z"]);
        assert!(fields.remove("b") && !fields.remove("b"));
        // What would split the message is not written.
        fields.set("Z", b"a\r\nB: 3");
        fields.append("Bad Name", b"1");
        assert!(fields.take_changed() && !fields.take_changed());
        write_fields(&mut out, head, &response.fields);
        assert_eq!(out.as_slice(), b"HTTP/1.1 200 OK\r\nY: y\r\ny: z\r\nx: last\r\nA: 1\r\n");
    }

    #[test]
    fn cookies_are_found_by_name() {
        let view = FieldView::new(&[], &[], b"Cookie: a=1; b=2;c=x=y\r\nCookie: d=4\r\n");
        let cookie = |name| view.cookie(name).map(|value| String::from_utf8_lossy(value).into_owned());
        assert_eq!(cookie("b").as_deref(), Some("2"));
        assert_eq!(cookie("c").as_deref(), Some("x=y"));
        assert_eq!(cookie("d").as_deref(), Some("4"));
        assert_eq!(cookie("B"), None);
    }

    #[test]
    fn fields_of_the_connection_are_the_proxys() {
        for name in ["content-length", "Transfer-Encoding", "HOST", "te", "Content_Length"] {
            assert!(!may_be_changed(name), "{name}");
        }
        for name in ["X-Forwarded-Proto", "Authorization", "Server", "x-anything"] {
            assert!(may_be_changed(name), "{name}");
        }
    }
}
