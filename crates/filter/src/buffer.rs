//! `buffer: {}`: the request goes upstream when its whole body is there, so that a slow upload holds no endpoint.

use crate::request::Buffering;
use crate::{Filter, Hooks, RequestCx, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use thalweg_core::units::{parse_size, size_text};

/// Bytes of a body, where nothing is written.
const MAX_BODY: u64 = 10 * 1024 * 1024;
/// The largest `max_body`.
const MOST: u64 = 1024 * 1024 * 1024;
/// Bytes in memory, where nothing is written.
const MEMORY: u64 = 64 * 1024;
/// The largest `memory`: about what the sockets of a request have anyway.
const MEMORY_MOST: u64 = 256 * 1024;

/// How much is kept, and where.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `max_body` and `memory`")]
pub struct BufferSpec {
    /// Bytes of a body; a request with more is answered 413.
    #[schemars(extend("x-range" = ["1KiB", "1GiB"], "x-default" = "10MiB"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["1MiB", "100MB"]))]
    max_body: Option<String>,
    /// Bytes of a body in memory; a longer one is kept in a file without a name in the directory for temporary files.
    #[schemars(extend("x-range" = ["0B", "256KiB"], "x-default" = "64KiB"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["16KiB", "0B"]))]
    memory: Option<String>,
}

impl BufferSpec {
    /// Checks the bounds.
    ///
    /// # Errors
    /// One is out of its range.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let max_body = self.max_body.as_deref().map_or(Ok(MAX_BODY), parse_size)?;
        if !(1024..=MOST).contains(&max_body) {
            return Err("`max_body` must be from 1KiB to 1GiB".into());
        }
        let memory = self.memory.as_deref().map_or(Ok(MEMORY), parse_size)?;
        let memory = usize::try_from(memory).ok().filter(|memory| *memory as u64 <= MEMORY_MOST);
        let memory = memory.ok_or("`memory` must be from 0B to 256KiB")?;
        Ok(Arc::new(Buffer(Buffering { max_body, memory })))
    }
}

#[derive(Debug)]
struct Buffer(Buffering);

impl Filter for Buffer {
    fn name(&self) -> &'static str {
        "buffer"
    }

    fn argument(&self) -> String {
        let Buffering { max_body, memory } = self.0;
        format!("bodies of {}, {} in memory", size_text(max_body), size_text(memory as u64))
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        if cx.has_body {
            cx.buffer_body(self.0);
        }
        Verdict::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};

    fn filter(json: &str) -> Arc<dyn Filter> {
        built::<BufferSpec>(json).build().unwrap()
    }

    #[test]
    fn the_smallest_bounds_of_all_filters_count() {
        let mut asked = Asked::at("/");
        asked.send(&*filter("{}"));
        assert_eq!(asked.outcome.buffering, Some(Buffering { max_body: MAX_BODY, memory: 64 * 1024 }));
        asked.send(&*filter(r#"{"max_body": "1MiB", "memory": "256KiB"}"#));
        assert_eq!(asked.outcome.buffering, Some(Buffering { max_body: 1024 * 1024, memory: 64 * 1024 }));
        assert_eq!(filter(r#"{"memory": "0B"}"#).argument(), "bodies of 10MiB, 0B in memory");
    }

    #[test]
    fn wrong_settings_are_refused() {
        for (json, part) in [
            (r#"{"max_body": "1B"}"#, "from 1KiB to 1GiB"),
            (r#"{"max_body": "2GiB"}"#, "from 1KiB to 1GiB"),
            (r#"{"memory": "1MiB"}"#, "from 0B to 256KiB"),
        ] {
            let error = built::<BufferSpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
