//! A serde `Deserializer` over the node tree: every error leaves with the place it belongs to.
//!
//! Nodes that an earlier reading found wrong are skipped ([`Pruned`]), so that reading again finds
//! the next mistake. Structs read from nothing (`limits:`) are structs without entries. A value
//! from the environment fits the type that is asked for: `${PORT}` may be a number or a string.

use super::de_error::{self, Mistake};
use super::{filter_entry, spanned};
use crate::parse::{Key, Kind, Node, core_schema};
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Unexpected, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use std::cell::RefCell;
use std::collections::HashSet;

/// The numbers of the nodes to leave out.
pub(super) type Pruned = HashSet<u32>;

/// One node, about to be read.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'de> {
    pub(super) node: &'de Node,
    pub(super) pruned: &'de Pruned,
    /// Gets the numbers of the nodes that hold nothing and were read as not written.
    pub(super) empty: &'de RefCell<HashSet<u32>>,
    /// A key that is no choice, where one is read.
    pub(super) beside: Option<&'static str>,
    /// Read in place of the node: a part of where it stands.
    pub(super) number: Option<u64>,
}

/// What a visitor is shown. Found by code that is compiled once, not once for each type that is read.
enum Shape<'de> {
    Unit,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Str(&'de str),
    List(Elements<'de>),
    Map(Entries<'de>),
    /// A list where a map belongs: serde would read it as a struct whose fields have no names.
    ListForMap,
}

impl<'de> Cursor<'de> {
    fn on(self, node: &'de Node) -> Self {
        Self { node, beside: None, ..self }
    }

    /// Whether a child of this node was left out.
    pub(super) fn is_tainted(self) -> bool {
        match &self.node.kind {
            Kind::Seq(items) => items.iter().any(|node| self.pruned.contains(&node.id)),
            Kind::Map(entries) => entries.iter().any(|(_, node)| self.pruned.contains(&node.id)),
            _ => false,
        }
    }

    fn as_written(self) -> Shape<'de> {
        match &self.node.kind {
            Kind::Null => {
                if self.node.filled.is_none() {
                    self.empty.borrow_mut().insert(self.node.id);
                }
                Shape::Unit
            }
            Kind::Bool(value) => Shape::Bool(*value),
            Kind::Int(value) => Shape::integer(*value),
            Kind::Float(value) => Shape::Float(*value),
            Kind::Str(text) => Shape::Str(text),
            Kind::Seq(items) => {
                Shape::List(Elements { cursor: self, of: Of::Items(items.iter(), items.len()) })
            }
            Kind::Map(entries) => Shape::Map(Entries { cursor: self, rest: entries.iter(), value: None }),
        }
    }

    fn as_map(self) -> Shape<'de> {
        match &self.node.kind {
            // What a variable leaves empty is no section.
            Kind::Null if self.node.filled.is_none() => {
                Shape::Map(Entries { cursor: self, rest: [].iter(), value: None })
            }
            Kind::Seq(_) => Shape::ListForMap,
            _ => self.as_written(),
        }
    }

    /// A number or boolean: text from the environment is typed by what it holds.
    fn as_typed(self) -> Shape<'de> {
        if let Some(number) = self.number {
            return Shape::Unsigned(number);
        }
        match self.node.filled.as_deref().map(core_schema) {
            Some(Kind::Int(value)) => Shape::integer(value),
            Some(Kind::Bool(value)) => Shape::Bool(value),
            Some(Kind::Float(value)) => Shape::Float(value),
            _ => self.as_written(),
        }
    }

    fn as_text(self) -> Shape<'de> {
        match &self.node.filled {
            Some(text) => Shape::Str(text),
            None => self.as_written(),
        }
    }

    /// A struct by its name: two of them are no maps.
    fn as_struct(self, name: &str) -> Shape<'de> {
        match name {
            spanned::NAME => Shape::List(Elements {
                cursor: self,
                of: Of::Spanned(spanned::pack(self.node.span).into(), 0),
            }),
            filter_entry::NAME => Shape::List(Elements { cursor: self, of: Of::Step(0) }),
            _ => self.as_map(),
        }
    }
}

impl<'de> Shape<'de> {
    fn integer(value: i64) -> Self {
        u64::try_from(value).map_or(Self::Signed(value), Self::Unsigned)
    }

    fn show<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self {
            Self::Unit => visitor.visit_unit(),
            Self::Bool(value) => visitor.visit_bool(value),
            Self::Unsigned(value) => visitor.visit_u64(value),
            Self::Signed(value) => visitor.visit_i64(value),
            Self::Float(value) => visitor.visit_f64(value),
            Self::Str(text) => visitor.visit_borrowed_str(text),
            Self::List(elements) => visitor.visit_seq(elements),
            Self::Map(entries) => visitor.visit_map(entries),
            Self::ListForMap => Err(Mistake::invalid_type(Unexpected::Seq, &visitor)),
        }
    }
}

macro_rules! typed {
    ($($method:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
            self.as_typed().show(visitor)
        }
    )* };
}

impl<'de> Deserializer<'de> for Cursor<'de> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.as_written().show(visitor)
    }

    typed! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.as_text().show(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.as_text().show(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.node.kind {
            Kind::Null if self.node.filled.is_none() => {
                self.empty.borrow_mut().insert(self.node.id);
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.as_struct(name).show(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.as_map().show(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        match &self.node.kind {
            Kind::Str(_) => visitor.visit_enum(Choice { cursor: self, key: None, value: None }),
            Kind::Map(entries) => {
                let mut choices = entries.iter().filter(|(key, _)| self.beside != Some(key.name.as_str()));
                match (choices.next(), choices.next()) {
                    (Some((key, value)), None) => {
                        visitor.visit_enum(Choice { cursor: self, key: Some(key), value: Some(value) })
                    }
                    (_, Some((key, _))) => {
                        // An entry of a list of filters is the one that has a key beside it.
                        let message = match self.beside {
                            Some(_) => "only one key may stand here; put a `-` before each",
                            None => "only one key may stand here; remove the others",
                        };
                        Err(Mistake::custom(message).with_span(key.span))
                    }
                    (None, None) => {
                        Err(Mistake::custom(format!("write one of the keys {}", de_error::quoted(variants))))
                    }
                }
            }
            _ => Err(Mistake::invalid_type(unexpected(self.node), &"a map with one key")),
        }
    }

    forward_to_deserialize_any! {
        char bytes byte_buf unit unit_struct seq tuple tuple_struct identifier ignored_any
    }
}

fn unexpected(node: &Node) -> Unexpected<'_> {
    match &node.kind {
        Kind::Null => Unexpected::Unit,
        Kind::Bool(value) => Unexpected::Bool(*value),
        Kind::Int(value) => Unexpected::Signed(*value),
        Kind::Float(value) => Unexpected::Float(*value),
        Kind::Str(text) => Unexpected::Str(text),
        Kind::Seq(_) => Unexpected::Seq,
        Kind::Map(_) => Unexpected::Map,
    }
}

/// The elements of a list, or what is read like one: the same type for all, so that visitors are compiled once for it.
struct Elements<'de> {
    cursor: Cursor<'de>,
    of: Of<'de>,
}

enum Of<'de> {
    /// A list, and how many elements it has, the pruned ones too: see [`super::ListSpec`].
    Items(std::slice::Iter<'de, Node>, usize),
    /// A value and where it stands: two numbers, then the value. How many have been read.
    Spanned([u64; 2], usize),
    /// An entry of a list of filters: its choice, then what stands beside it. How many have been read.
    Step(usize),
}

/// Where an element stands.
#[derive(Clone, Copy)]
enum At<'de> {
    /// Where its parent does.
    Same,
    Item(&'de Node),
    Entry(&'de Key, &'de Node),
}

impl<'de> At<'de> {
    fn mistake(self, mistake: Mistake, cursor: Cursor<'de>) -> Mistake {
        match self {
            Self::Same => mistake,
            Self::Item(node) => mistake.at(node, cursor.is_tainted()),
            Self::Entry(key, node) => mistake.at_entry(key, node, cursor.is_tainted()),
        }
    }
}

impl<'de> Elements<'de> {
    fn step(&mut self) -> Option<(Cursor<'de>, At<'de>)> {
        let Self { cursor, of } = self;
        match of {
            Of::Items(rest, _) => {
                let node = rest.find(|node| !cursor.pruned.contains(&node.id))?;
                Some((cursor.on(node), At::Item(node)))
            }
            Of::Spanned(numbers, read) => {
                let number = numbers.get(*read).copied();
                *read += 1;
                (*read <= numbers.len() + 1).then_some((Cursor { number, ..*cursor }, At::Same))
            }
            Of::Step(read) => {
                *read += 1;
                if *read == 1 {
                    return Some((Cursor { beside: Some(filter_entry::WHEN), ..*cursor }, At::Same));
                }
                let Kind::Map(entries) = &cursor.node.kind else { return None };
                let (key, node) = entries.iter().find(|(key, _)| key.name == filter_entry::WHEN)?;
                let is_there = *read == 2 && !cursor.pruned.contains(&node.id);
                is_there.then(|| (cursor.on(node), At::Entry(key, node)))
            }
        }
    }
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mistake> {
        let Some((cursor, at)) = self.step() else { return Ok(None) };
        match seed.deserialize(cursor) {
            Ok(value) => Ok(Some(value)),
            Err(mistake) => Err(at.mistake(mistake, cursor)),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        match self.of {
            Of::Items(_, all) => Some(all),
            Of::Spanned(..) | Of::Step(_) => None,
        }
    }
}

/// The entries of a map.
struct Entries<'de> {
    cursor: Cursor<'de>,
    rest: std::slice::Iter<'de, (Key, Node)>,
    value: Option<&'de (Key, Node)>,
}

impl<'de> Entries<'de> {
    fn step(&mut self) -> Option<&'de (Key, Node)> {
        let pruned = self.cursor.pruned;
        self.value = self.rest.find(|(_, node)| !pruned.contains(&node.id));
        self.value
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mistake> {
        let Some((key, node)) = self.step() else { return Ok(None) };
        match seed.deserialize(KeyCursor(key)) {
            Ok(key) => Ok(Some(key)),
            Err(mistake) => Err(mistake.at_key(key, node)),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mistake> {
        let Some((key, node)) = self.value.take() else {
            return Err(Mistake::custom("a value was read before its key"));
        };
        let cursor = self.cursor.on(node);
        match seed.deserialize(cursor) {
            Ok(value) => Ok(value),
            Err(mistake) => Err(At::Entry(key, node).mistake(mistake, cursor)),
        }
    }
}

/// A key, read as text.
struct KeyCursor<'de>(&'de Key);

impl<'de> Deserializer<'de> for KeyCursor<'de> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_borrowed_str(&self.0.name)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        if name == spanned::NAME {
            return visitor.visit_seq(spanned::Parts::new(self.0.span, self));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        visitor.visit_enum(BorrowedStrDeserializer::new(&self.0.name))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

/// A variant: a word, or a map with one key.
struct Choice<'de> {
    cursor: Cursor<'de>,
    key: Option<&'de Key>,
    value: Option<&'de Node>,
}

impl<'de> EnumAccess<'de> for Choice<'de> {
    type Error = Mistake;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Mistake> {
        let value = match self.key {
            Some(key) => seed.deserialize(KeyCursor(key)).map_err(|mistake| mistake.in_key(key)),
            None => seed.deserialize(self.cursor),
        }?;
        Ok((value, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'de> {
    type Error = Mistake;

    fn unit_variant(self) -> Result<(), Mistake> {
        match self.value {
            Some(_) => Err(Mistake::custom("this word takes no value")),
            None => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Mistake> {
        let (Some(key), Some(node)) = (self.key, self.value) else {
            return Err(Mistake::custom("a value is needed, as in `name: value`"));
        };
        if self.cursor.pruned.contains(&node.id) {
            return Err(Mistake::consequence(node));
        }
        let cursor = self.cursor.on(node);
        seed.deserialize(cursor).map_err(|mistake| mistake.in_choice(key, node, cursor.is_tainted()))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, _visitor: V) -> Result<V::Value, Mistake> {
        Err(Mistake::custom("this word takes one value"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let (Some(key), Some(node)) = (self.key, self.value) else {
            return Err(Mistake::custom("this word needs a map: `name: { … }`"));
        };
        if self.cursor.pruned.contains(&node.id) {
            return Err(Mistake::consequence(node));
        }
        let cursor = self.cursor.on(node);
        cursor.as_map().show(visitor).map_err(|mistake| mistake.in_choice(key, node, cursor.is_tainted()))
    }
}
