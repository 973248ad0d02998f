//! What a store keeps under a prefix, as a source knows it: one thing for each key, whatever it is.

use crate::feed::{Content, Feed};
use crate::flaw;
use crate::found::{Found, scale_weights};
use crate::http_servers::ANSWER;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most keys under one prefix.
pub(crate) const KEYS: usize = 20_000;

/// Makes a thing of the end of a key and its value; `None`: the value says that there is none. The error is a sentence.
pub(crate) type ReadValue<I> = fn(&str, &[u8]) -> Result<Option<I>, String>;

/// A thing that a store keeps under a key.
pub(crate) trait Item: Clone + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    /// Looks at all together.
    fn settle(_all: &mut [Self]) {}
}

impl Item for Found {
    fn settle(all: &mut [Self]) {
        scale_weights(all);
    }
}

/// A document that stands under a key, such as a part of a configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Document {
    /// The key behind the prefix.
    pub name: Arc<str>,
    /// As it stands there.
    pub text: Arc<str>,
}

impl Item for Document {}

impl Content for [Document] {
    fn count(&self) -> usize {
        self.len()
    }

    /// All of them or none: the number of keys has its bound, and half of a configuration is not one.
    fn bounded(set: Arc<Self>) -> (Arc<Self>, Option<String>) {
        (set, None)
    }
}

/// Of a value that is one of several documents. A value that is not text is a document too, whose text says so and can
/// be no part of a configuration: whoever reads documents keeps the last good version of it.
pub(crate) fn document(name: &str, value: &[u8]) -> Result<Option<Document>, String> {
    let text = std::str::from_utf8(value).unwrap_or("the document is not UTF-8");
    Ok(Some(Document { name: name.into(), text: text.into() }))
}

/// Of all that a server or a file says. What is no map at all, such as a page in HTML, is a failure.
///
/// # Errors
/// A sentence.
pub(crate) fn only_document(name: &str, text: &[u8]) -> Result<Vec<Document>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "the document is not UTF-8".to_owned())?;
    if text.trim().is_empty() {
        return Err("the document is empty".to_owned());
    }
    if !name.ends_with(".toml") {
        serde_saphyr::from_str::<BTreeMap<String, IgnoredAny>>(text)
            .map_err(|error| format!("the document is no map in YAML or JSON: {}", flaw::yaml(&error)))?;
    }
    Ok(vec![Document { name: name.into(), text: text.into() }])
}

/// All keys that are known, with what they hold.
#[derive(Debug)]
pub(crate) struct Kept<I> {
    read: ReadValue<I>,
    things: BTreeMap<Box<str>, Thing<I>>,
    /// Of all keys and values.
    bytes: usize,
}

#[derive(Debug)]
struct Thing<I> {
    read: Result<Option<I>, String>,
    bytes: usize,
}

impl<I: Item> Kept<I>
where
    [I]: Content,
{
    /// None.
    pub(crate) fn new(read: ReadValue<I>) -> Self {
        Self { read, things: BTreeMap::new(), bytes: 0 }
    }

    /// How many keys.
    pub(crate) fn count(&self) -> usize {
        self.things.len()
    }

    /// This key has this value now.
    ///
    /// # Errors
    /// A sentence: that is too much.
    pub(crate) fn put(&mut self, name: &str, value: &[u8]) -> Result<(), String> {
        self.remove(name);
        let bytes = name.len() + value.len();
        self.bytes += bytes;
        self.things.insert(name.into(), Thing { read: (self.read)(name, value), bytes });
        if self.things.len() > KEYS {
            return Err(format!("there are more than {KEYS} keys; write a longer prefix"));
        }
        if self.bytes > ANSWER {
            return Err(format!("the values have more than {} MiB; write a longer prefix", ANSWER >> 20));
        }
        Ok(())
    }

    /// This key is there, and cannot be used for this reason.
    pub(crate) fn put_flaw(&mut self, name: &str, why: &str) {
        self.remove(name);
        self.bytes += name.len();
        self.things.insert(name.into(), Thing { read: Err(why.to_owned()), bytes: name.len() });
    }

    /// This key is gone. Whether it was there.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let removed = self.things.remove(name);
        self.bytes -= removed.as_ref().map_or(0, |thing| thing.bytes);
        removed.is_some()
    }

    /// Those keys are gone that it does not say.
    pub(crate) fn retain(&mut self, stays: impl Fn(&str) -> bool) {
        let bytes = &mut self.bytes;
        self.things.retain(|name, thing| {
            let stays = stays(name);
            *bytes -= if stays { 0 } else { thing.bytes };
            stays
        });
    }

    /// Takes over what another one holds and this one does not; how much that is.
    pub(crate) fn adopt(&mut self, other: &Self) -> usize {
        let mut count = 0;
        for (name, thing) in &other.things {
            if !self.things.contains_key(name) {
                let thing = Thing { read: thing.read.clone(), bytes: thing.bytes };
                self.bytes += thing.bytes;
                self.things.insert(name.clone(), thing);
                count += 1;
            }
        }
        count
    }

    /// Tells all that there is, in the order of the keys, and what cannot be used.
    pub(crate) fn tell(&self, feed: &Feed<[I]>, query: &str) {
        let things = self.things.values().filter_map(|thing| thing.read.as_ref().ok());
        let mut all: Vec<I> = things.flatten().cloned().collect();
        I::settle(&mut all);
        feed.found(query, all);
        let mut flaws =
            self.things.iter().filter_map(|(name, thing)| Some((name, thing.read.as_ref().err()?)));
        if let Some((name, flaw)) = flaws.next() {
            let others = match flaws.count() {
                0 => String::new(),
                count => format!(" (and {count} more)"),
            };
            feed.flawed(query, format!("`{name}` is left out: {flaw}{others}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_alone_is_a_map() {
        for good in [&b"routes: []"[..], b"{}", br#"{"routes":[{"to":"http://a:1"}]}"#] {
            assert_eq!(only_document("a.yaml", good).unwrap().len(), 1);
        }
        for bad in
            [&b""[..], b" \n", b"\xff", b"<html>it works</html>", b"[]", b"routes: { [", b"a: 1\na: 2\n"]
        {
            assert!(only_document("a.yaml", bad).is_err(), "{:?}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn a_value_that_is_no_text_is_a_document_that_can_be_none() {
        let read = document("a", b"routes: \xff").unwrap().unwrap();
        assert!(only_document("a", read.text.as_bytes()).is_err());
    }

    #[test]
    fn what_is_kept_is_bounded_in_number_and_size() {
        let mut kept = Kept::new(document);
        kept.put("a", &vec![b'x'; ANSWER - 2]).unwrap();
        assert!(kept.put("b", b"xx").is_err());
        kept.remove("a");
        kept.remove("b");
        assert_eq!((kept.count(), kept.bytes), (0, 0));
        for at in 0..KEYS {
            kept.put(&at.to_string(), b"").unwrap();
        }
        kept.put("0", b"again").unwrap();
        assert!(kept.put("one more", b"").is_err());
    }
}
