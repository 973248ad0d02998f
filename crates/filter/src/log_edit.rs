//! What filters say of an exchange's line in the access log.

use std::sync::Arc;

/// Bytes of a field's name.
pub(crate) const NAME: usize = 64;
/// Bytes of a field's value that are kept.
pub(crate) const VALUE: usize = 1024;
/// Fields of a line, of all filters.
const FIELDS: usize = 32;

/// Changes of one line.
#[derive(Debug, Default)]
pub struct LogEdit {
    is_off: bool,
    /// A bit for each of the first 64 filters that has decided.
    decided: u64,
    fields: Vec<(Arc<str>, Vec<u8>)>,
}

impl LogEdit {
    /// Whether no line is written.
    pub fn is_off(&self) -> bool {
        self.is_off
    }

    /// Fields of the line, in the order in which filters have said them.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&str, &[u8])> {
        self.fields.iter().map(|(name, value)| (&**name, &value[..]))
    }

    /// Whether the filter at this place has not decided yet.
    pub(crate) fn is_new(&self, at: u16) -> bool {
        self.decided & bit(at) == 0
    }

    /// The same, and from now on it has.
    pub(crate) fn is_first(&mut self, at: u16) -> bool {
        let is_new = self.is_new(at);
        self.decided |= bit(at);
        is_new
    }

    /// No line is written.
    pub(crate) fn leave_out(&mut self) {
        self.is_off = true;
    }

    /// A field has this value; another filter may have said another one.
    pub(crate) fn set(&mut self, name: &Arc<str>, mut value: Vec<u8>) {
        value.truncate(VALUE);
        let has_room = self.fields.len() < FIELDS;
        match self.fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None if has_room => self.fields.push((name.clone(), value)),
            None => {}
        }
    }
}

fn bit(at: u16) -> u64 {
    1_u64.checked_shl(at.into()).unwrap_or(0)
}
