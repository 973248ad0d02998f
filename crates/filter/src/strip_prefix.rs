//! `strip_prefix: /products`: `/products/42` goes upstream as `/42`, `/products` as `/`.

use crate::{Filter, Hooks, MovedPrefix, Moves, RequestCx, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

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
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let prefix = self.0.trim_end_matches('/');
        if !self.0.starts_with('/') {
            return Err(format!("`strip_prefix` must start with `/`; write `/{}`", self.0));
        }
        if let Some(bad) = prefix.chars().find(|c| "?#*%\\ ".contains(*c) || c.is_control()) {
            return Err(format!("`strip_prefix` may not hold `{}`", bad.escape_default()));
        }
        Ok(Arc::new(StripPrefix(Arc::new(MovedPrefix { from: prefix.as_bytes().into(), to: [].into() }))))
    }
}

#[derive(Debug)]
struct StripPrefix(Arc<MovedPrefix>);

impl Filter for StripPrefix {
    fn name(&self) -> &'static str {
        "strip_prefix"
    }

    fn argument(&self) -> String {
        match &*self.0.from {
            [] => "/".into(),
            prefix => String::from_utf8_lossy(prefix).into_owned(),
        }
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn moves(&self) -> Moves {
        Moves::Request
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        if !self.0.from.is_empty() {
            cx.target.move_prefix(&self.0);
        }
        Verdict::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Asked;

    fn strip(prefix: &str, path: &str) -> String {
        let mut asked = Asked::at(path);
        asked.send(&*StripPrefixSpec(prefix.into()).build().unwrap());
        asked.path()
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
