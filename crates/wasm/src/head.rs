//! The fields of a head as a module sees them: a copy, and what the module changes, in its order.

/// A name and a value.
pub type Field = (Vec<u8>, Vec<u8>);

/// Changes of one head.
const EDITS: usize = 256;
/// Bytes of all their names and values.
const EDIT_BYTES: usize = 64 * 1024;

/// Whose fields they are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// Those of the request.
    Request,
    /// Those of the response.
    Response,
    /// Those of a response of the module's own.
    Reply,
    /// Those of a call to a service.
    Call,
}

/// Whether a module may write a field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Allowed {
    /// It may.
    Yes,
    /// It may, and sees it so; nobody else does: the field belongs to the proxy.
    WithoutEffect,
    /// It may not, or the name or value is none.
    No,
}

/// Decides about a field; `None`: it is to be removed. Names that begin with `:` are the parts of the first line.
pub type Rule = fn(Side, &[u8], Option<&[u8]>) -> Allowed;

/// A change of a head.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Edit {
    /// There is no field of this name any more.
    Remove(Vec<u8>),
    /// One more field. Where the name begins with `:`, there is one of it, and this is its value.
    Add(Vec<u8>, Vec<u8>),
}

/// Why a change was not made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Refusal {
    /// It may not be made at all.
    NotAllowed,
    /// There were too many.
    TooMuch,
}

/// The fields of a head. Names are in lower case; those that begin with `:` come first.
#[derive(Clone, Debug, Default)]
pub struct Head {
    fields: Vec<Field>,
    edits: Vec<Edit>,
    /// Changes since they were taken, those without effect among them, and their bytes.
    changes: usize,
    change_bytes: usize,
}

impl Head {
    /// These fields.
    pub fn new(fields: impl IntoIterator<Item = Field>) -> Self {
        let lower = |(mut name, value): Field| {
            name.make_ascii_lowercase();
            (name, value)
        };
        Self { fields: fields.into_iter().map(lower).collect(), ..Self::default() }
    }

    /// What has been changed; it is forgotten.
    pub(crate) fn take_edits(&mut self) -> Vec<Edit> {
        (self.changes, self.change_bytes) = (0, 0);
        std::mem::take(&mut self.edits)
    }

    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The values of a name; several are joined as HTTP has it.
    pub(crate) fn get(&self, name: &[u8]) -> Option<Vec<u8>> {
        joined(&self.fields, name)
    }

    /// Adds a field; `alone`: in place of others of its name.
    pub(crate) fn put(
        &mut self,
        (rule, side): (Rule, Side),
        (mut name, value): Field,
        alone: bool,
    ) -> Result<(), Refusal> {
        name.make_ascii_lowercase();
        let is_told = is_told(rule(side, &name, Some(&value)))?;
        let is_special = name.first() == Some(&b':');
        if is_special && let Some((_, known)) = self.fields.iter_mut().find(|(known, _)| *known == name) {
            if *known == value {
                return Ok(());
            }
            known.clone_from(&value);
            return self.note(Edit::Add(name, value), is_told);
        }
        if alone {
            self.drop_all(&name, is_told)?;
        }
        self.note(Edit::Add(name.clone(), value.clone()), is_told)?;
        self.fields.push((name, value));
        Ok(())
    }

    /// Removes all fields of a name.
    pub(crate) fn remove(&mut self, (rule, side): (Rule, Side), mut name: Vec<u8>) -> Result<(), Refusal> {
        name.make_ascii_lowercase();
        let is_told = is_told(rule(side, &name, None))?;
        self.drop_all(&name, is_told)
    }

    /// These fields and no others. What stays as it is, is no change.
    pub(crate) fn replace_all(&mut self, rules: (Rule, Side), new: Vec<Field>) -> Result<(), Refusal> {
        let new = Self::new(new);
        let names = |head: &Self| -> Vec<Vec<u8>> {
            let mut names: Vec<_> = head.fields.iter().map(|(name, _)| name.clone()).collect();
            names.sort();
            names.dedup();
            names
        };
        let values = |head: &Self, name: &[u8]| -> Vec<Vec<u8>> {
            let named = head.fields.iter().filter(|(known, _)| known == name);
            named.map(|(_, value)| value.clone()).collect()
        };
        for name in names(self).into_iter().filter(|name| name.first() != Some(&b':')) {
            if !new.fields.iter().any(|(known, _)| *known == name) {
                self.remove(rules, name)?;
            }
        }
        for name in names(&new) {
            let wanted = values(&new, &name);
            if values(self, &name) != wanted {
                for (at, value) in wanted.into_iter().enumerate() {
                    self.put(rules, (name.clone(), value), at == 0)?;
                }
            }
        }
        Ok(())
    }

    fn drop_all(&mut self, name: &[u8], is_told: bool) -> Result<(), Refusal> {
        if self.fields.iter().any(|(known, _)| known == name) {
            self.note(Edit::Remove(name.to_vec()), is_told)?;
            self.fields.retain(|(known, _)| known != name);
        }
        Ok(())
    }

    /// Counts a change; `is_told`: the owner makes it, too.
    fn note(&mut self, edit: Edit, is_told: bool) -> Result<(), Refusal> {
        let bytes = match &edit {
            Edit::Remove(name) => name.len(),
            Edit::Add(name, value) => name.len() + value.len(),
        };
        if self.changes >= EDITS || self.change_bytes + bytes > EDIT_BYTES {
            return Err(Refusal::TooMuch);
        }
        self.changes += 1;
        self.change_bytes += bytes;
        if is_told {
            self.edits.push(edit);
        }
        Ok(())
    }
}

/// Whether a change is one for the owner, too.
fn is_told(allowed: Allowed) -> Result<bool, Refusal> {
    match allowed {
        Allowed::Yes => Ok(true),
        Allowed::WithoutEffect => Ok(false),
        Allowed::No => Err(Refusal::NotAllowed),
    }
}

/// The values of a name; several are joined as HTTP has it.
pub(crate) fn joined(fields: &[Field], name: &[u8]) -> Option<Vec<u8>> {
    let mut values = fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
    let mut joined = values.next()?.1.clone();
    for (_, value) in values {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(value);
    }
    Some(joined)
}

/// Fields as the ABI has them: how many, the lengths of names and values, then each with a zero behind it.
pub(crate) fn serialize(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::with_capacity(serialized_len(fields));
    let number = |out: &mut Vec<u8>, length: usize| out.extend_from_slice(&(length as u32).to_le_bytes());
    number(&mut out, fields.len());
    for (name, value) in fields {
        number(&mut out, name.len());
        number(&mut out, value.len());
    }
    for text in fields.iter().flat_map(|(name, value)| [name, value]) {
        out.extend_from_slice(text);
        out.push(0);
    }
    out
}

/// The bytes of [`serialize`].
pub(crate) fn serialized_len(fields: &[Field]) -> usize {
    4 + fields.iter().map(|(name, value)| 10 + name.len() + value.len()).sum::<usize>()
}

/// The same read back; `None`: it is none.
pub(crate) fn deserialize(bytes: &[u8]) -> Option<Vec<Field>> {
    if matches!(bytes, [] | [0]) {
        return Some(Vec::new());
    }
    let number = |at: usize| -> Option<usize> {
        let four = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(four.try_into().ok()?) as usize)
    };
    let count = number(0)?;
    let mut at = count.checked_mul(8)?.checked_add(4)?;
    if count > EDITS || at > bytes.len() {
        return None;
    }
    let mut take = |length: usize| -> Option<Vec<u8>> {
        let end = at.checked_add(length)?;
        let text = bytes.get(at..end)?.to_vec();
        if *bytes.get(end)? != 0 {
            return None;
        }
        at = end + 1;
        Some(text)
    };
    (0..count).map(|field| Some((take(number(4 + 8 * field)?)?, take(number(8 + 8 * field)?)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: (Rule, Side) = (|_, _, _| Allowed::Yes, Side::Request);

    fn field(name: &str, value: &str) -> Field {
        (name.into(), value.into())
    }

    fn head() -> Head {
        Head::new([field(":path", "/a"), field("X-A", "1"), field("x-b", "2"), field("x-b", "3")])
    }

    #[test]
    fn fields_read_back_are_the_same_and_what_is_cut_short_is_none() {
        let fields = [field("a", "1"), field("bc", ""), field("d", "22")];
        let bytes = serialize(&fields);
        assert_eq!(bytes.len(), serialized_len(&fields));
        assert_eq!(deserialize(&bytes).unwrap(), fields);
        for end in 2..bytes.len() {
            assert_eq!(deserialize(&bytes[..end]), None, "{end}");
        }
        assert_eq!(deserialize(&[0xff; 64]), None);
        assert_eq!(deserialize(&[0]), Some(Vec::new()));
    }

    #[test]
    fn changes_are_seen_at_once_and_told_in_their_order() {
        let mut head = head();
        assert_eq!(head.get(b"X-B").unwrap(), b"2, 3");
        head.put(ANY, field("X-B", "4"), true).unwrap();
        head.put(ANY, field("x-c", "5"), false).unwrap();
        head.remove(ANY, b"X-A".to_vec()).unwrap();
        head.remove(ANY, b"x-none".to_vec()).unwrap();
        head.put(ANY, field(":path", "/b"), true).unwrap();
        assert_eq!((head.get(b"x-b").unwrap(), head.get(b"x-a")), (b"4".to_vec(), None));
        let add = |name: &str, value: &str| Edit::Add(name.into(), value.into());
        let remove = |name: &str| Edit::Remove(name.into());
        let expected = [remove("x-b"), add("x-b", "4"), add("x-c", "5"), remove("x-a"), add(":path", "/b")];
        assert_eq!(head.take_edits(), expected);
        assert!(head.take_edits().is_empty());
    }

    #[test]
    fn a_whole_new_set_changes_only_what_differs() {
        let mut head = head();
        let new = vec![field(":path", "/a"), field("x-b", "2"), field("x-b", "3"), field("x-d", "6")];
        head.replace_all(ANY, new).unwrap();
        assert_eq!(
            head.take_edits(),
            [Edit::Remove(b"x-a".to_vec()), Edit::Add(b"x-d".to_vec(), b"6".to_vec())]
        );
    }

    #[test]
    fn changes_are_bounded_and_follow_the_rule() {
        let mut head = head();
        assert_eq!(head.put(ANY, (b"x".to_vec(), vec![b'1'; EDIT_BYTES]), false), Err(Refusal::TooMuch));
        let made = (0..EDITS + 9).take_while(|_| head.put(ANY, field("x", "1"), false).is_ok()).count();
        assert_eq!(made, EDITS);
        let mut head = self::head();
        let none: (Rule, Side) = (|_, _, _| Allowed::No, Side::Request);
        assert_eq!(head.remove(none, b"x-a".to_vec()), Err(Refusal::NotAllowed));
        // What has no effect is seen by the module, and bounded likewise.
        let idle: (Rule, Side) = (|_, _, _| Allowed::WithoutEffect, Side::Request);
        assert_eq!(head.put(idle, field("x-a", "2"), true), Ok(()));
        assert_eq!((head.get(b"x-a").unwrap(), head.take_edits()), (b"2".to_vec(), Vec::new()));
        assert_eq!((head.remove(idle, b"x-a".to_vec()), head.get(b"x-a")), (Ok(()), None));
        let made = (0..EDITS + 9).take_while(|_| head.put(idle, field("x", "1"), false).is_ok()).count();
        assert_eq!((made, head.take_edits()), (EDITS - 1, Vec::new()));
    }
}
