//! `strip_prefix: /products`: `/products/42` goes upstream as `/42`, `/products` as `/`.

use crate::{Filter, RequestEdit};
use schemars::JsonSchema;
use serde::Deserialize;
use thalweg_core::Fault;

/// The prefix to remove: a path of whole segments that starts with `/`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("pattern" = "^/"))]
pub struct StripPrefixSpec(String);

impl StripPrefixSpec {
    /// Checks the prefix.
    ///
    /// # Errors
    /// When it does not start with `/`, or holds a query, a fragment, a wildcard or an escape.
    pub(crate) fn build(&self) -> Result<Box<dyn Filter>, String> {
        let prefix = self.0.trim_end_matches('/');
        if !self.0.starts_with('/') {
            return Err(format!("`strip_prefix` must start with `/`; write `/{}`", self.0));
        }
        if let Some(bad) = prefix.chars().find(|c| "?#*%\\ ".contains(*c) || c.is_control()) {
            return Err(format!("`strip_prefix` may not hold `{}`", bad.escape_default()));
        }
        Ok(Box::new(StripPrefix(prefix.as_bytes().into())))
    }
}

#[derive(Debug)]
struct StripPrefix(Box<[u8]>);

impl Filter for StripPrefix {
    fn name(&self) -> &'static str {
        "strip_prefix"
    }

    fn on_request(&self, edit: &mut RequestEdit<'_>) -> Result<(), Fault> {
        if self.0.is_empty() {
            return Ok(());
        }
        let Some(rest) = edit.path.strip_prefix(&*self.0) else { return Ok(()) };
        match rest.first() {
            Some(b'/') => {
                edit.path.drain(..self.0.len());
            }
            None => {
                edit.path.clear();
                edit.path.push(b'/');
            }
            Some(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(prefix: &str, path: &str) -> String {
        let mut path = path.as_bytes().to_vec();
        let filter = StripPrefixSpec(prefix.into()).build().unwrap();
        filter.on_request(&mut RequestEdit { path: &mut path }).unwrap();
        String::from_utf8(path).unwrap()
    }

    #[test]
    fn removes_whole_segments_only() {
        assert_eq!(strip("/products", "/products/42"), "/42");
        assert_eq!(strip("/products/", "/products/42"), "/42");
        assert_eq!(strip("/products", "/products"), "/");
        assert_eq!(strip("/products", "/products/"), "/");
        assert_eq!(strip("/products", "/productsale"), "/productsale");
        assert_eq!(strip("/products", "/other"), "/other");
        assert_eq!(strip("/", "/other"), "/other");
    }

    #[test]
    fn refuses_what_is_not_a_plain_path() {
        for bad in ["products", "/a?b", "/a*", "/a b", "/a%20"] {
            assert!(StripPrefixSpec(bad.into()).build().is_err(), "{bad}");
        }
    }
}
