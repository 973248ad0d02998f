//! `body_limit: 10MiB`: bounds the bytes of bodies, of requests and of what endpoints answer.
//!
//! A request that declares a longer body is refused before anything of it is forwarded, and before its client is told
//! to go on (`Expect: 100-continue`); one in chunks is refused when it has become too long. The relay counts, as it
//! does for `limits.max_body` of a route: what comes from the client or the endpoint, before any filter changes it.

use crate::{Filter, Hooks, RequestCx, ResponseCx, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use thalweg_core::Fault;
use thalweg_core::units::{parse_size, size_text};

/// The largest bound, in bytes.
const MOST: u64 = 1 << 40;

/// The bound for requests, or a map with bounds for both sides.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub enum BodyLimitSpec {
    /// Of requests alone.
    Short(
        #[schemars(extend("x-range" = ["0B", "1TiB"]))]
        #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["1MiB", "10MB"]))]
        String,
    ),
    /// Of both sides.
    Long(BodyLimitMapSpec),
}

crate::shape::by_shape!(BodyLimitSpec, "a size such as `10MiB`, or a map with `request`, `response`", { text => Short, map => Long });

/// Bounds of bodies.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
#[serde(deny_unknown_fields, default, expecting = "a map with `request`, `response`")]
pub struct BodyLimitMapSpec {
    /// Bytes of a request body; longer is answered 413.
    #[schemars(extend("x-range" = ["0B", "1TiB"], "x-default-words" = "no bound"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["1MiB", "10MB"]))]
    request: Option<String>,
    /// Bytes of the body of an endpoint's response; longer is answered 502, or breaks off where it has begun.
    #[schemars(extend("x-range" = ["0B", "1TiB"], "x-default-words" = "no bound"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["1MiB", "10MB"]))]
    response: Option<String>,
}

impl BodyLimitSpec {
    /// Checks the sizes.
    ///
    /// # Errors
    /// A size that is none or out of its range, or none at all.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let (request, response) = match self {
            Self::Short(request) => (Some(request), None),
            Self::Long(map) => (map.request.as_ref(), map.response.as_ref()),
        };
        let request = request.map(|text| size(text)).transpose()?;
        let response = response.map(|text| size(text)).transpose()?;
        if request.is_none() && response.is_none() {
            return Err(
                "`body_limit` without a size changes nothing; write a size, or `request`, `response` or both"
                    .into(),
            );
        }
        Ok(Arc::new(BodyLimit { request, response }))
    }
}

fn size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        size if size > MOST => Err(format!("`{text}` must be from 0B to 1TiB")),
        size => Ok(size),
    }
}

#[derive(Debug)]
struct BodyLimit {
    request: Option<u64>,
    response: Option<u64>,
}

impl Filter for BodyLimit {
    fn name(&self) -> &'static str {
        "body_limit"
    }

    fn argument(&self) -> String {
        let side = |name: &str, bytes: Option<u64>| bytes.map(|bytes| format!("{name} {}", size_text(bytes)));
        let sides = [side("request", self.request), side("response", self.response)];
        sides.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn hooks(&self) -> Hooks {
        let request = if self.request.is_some() { Hooks::REQUEST } else { Hooks::NONE };
        let response = if self.response.is_some() { Hooks::RESPONSE } else { Hooks::NONE };
        request | response
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let Some(most) = self.request else { return Verdict::Continue };
        if cx.content_length.is_some_and(|length| length > most) {
            return Verdict::Fault(Fault::request(413, "the request body is larger than allowed"));
        }
        cx.limit_body(most);
        Verdict::Continue
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        if let Some(most) = self.response {
            cx.limit_body(most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};

    #[test]
    fn the_smallest_bound_of_all_filters_counts() {
        let mut asked = Asked::at("/");
        for (json, limit) in [(r#""2KiB""#, 2048), (r#"{"request": "1MiB"}"#, 2048), (r#""1KiB""#, 1024)] {
            let filter = built::<BodyLimitSpec>(json).build().unwrap();
            assert!(matches!(asked.send(&*filter), Verdict::Continue));
            assert_eq!(asked.outcome.max_body, Some(limit), "{json}");
        }
        assert!(asked.outcome.transforms.is_empty());
        let filter = built::<BodyLimitSpec>(r#"{"response": "7B"}"#).build().unwrap();
        assert_eq!(asked.answer(&*filter).max_body, Some(7));
        assert_eq!((filter.hooks(), filter.argument().as_str()), (Hooks::RESPONSE, "response 7B"));
    }

    #[test]
    fn a_declared_length_is_refused_at_once() {
        let filter = built::<BodyLimitSpec>(r#""10B""#).build().unwrap();
        for (length, is_refused) in [(Some(10), false), (Some(11), true), (None, false)] {
            let mut asked = Asked::at("/");
            asked.content_length = length;
            let verdict = asked.send(&*filter);
            match verdict {
                Verdict::Fault(fault) => assert!(is_refused && fault.status == 413, "{length:?}"),
                verdict => assert!(!is_refused && matches!(verdict, Verdict::Continue), "{length:?}"),
            }
        }
    }

    #[test]
    fn wrong_settings_are_refused() {
        for (json, part) in [
            (r#""ten""#, "not a size"),
            (r#""2TiB""#, "from 0B to 1TiB"),
            ("{}", "changes nothing"),
            (r#"{"response": "5"}"#, "5B"),
        ] {
            let error = built::<BodyLimitSpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
