//! `request_id: {}`: sends the id of the request with the response, and takes one that the client has sent.
//!
//! The id that is taken is the id of the exchange from here on: the service gets it in `X-Request-Id`, and the log,
//! decision records, placeholders and the proxy's own answers have it.

use crate::headers::checked_name;
use crate::{Filter, Hooks, RequestCx, ResponseCx, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use thalweg_core::RequestId;

/// The field, where nothing is written.
const NAME: &str = "X-Request-Id";

/// The field of the id, and whose ids are taken.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `header` and `accept`")]
pub struct RequestIdSpec {
    /// The field in which the id comes from the client and goes to it; the service gets it in this one too, beside
    /// `X-Request-Id`.
    #[schemars(extend("x-default" = NAME))]
    header: Option<String>,
    /// Whose ids are taken: 1 to 36 letters, digits and `-_.:+/=`. Another one counts as none.
    #[schemars(extend("x-default" = "trusted"))]
    accept: AcceptSpec,
}

/// Whose ids are taken.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AcceptSpec {
    /// Those of peers in `trusted_proxies`.
    #[default]
    Trusted,
    /// Those of every client; clients can then choose ids that others have.
    Always,
    /// Nobody's: also a trusted peer's request gets a new one.
    Never,
}

impl RequestIdSpec {
    /// Checks the name.
    ///
    /// # Errors
    /// It is none, or one that filters may not write.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let name = checked_name(self.header.as_deref().unwrap_or(NAME))?;
        Ok(Arc::new(WithRequestId { name, accept: self.accept }))
    }
}

#[derive(Debug)]
struct WithRequestId {
    name: Box<str>,
    accept: AcceptSpec,
}

impl Filter for WithRequestId {
    fn name(&self) -> &'static str {
        "request_id"
    }

    fn argument(&self) -> String {
        let accept = match self.accept {
            AcceptSpec::Trusted => "those of trusted peers",
            AcceptSpec::Always => "those of all clients",
            AcceptSpec::Never => "none of clients",
        };
        format!("{}, {accept}", self.name)
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::BOTH
    }

    fn own_fields(&self) -> Vec<&str> {
        vec![&self.name]
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let is_taken = match self.accept {
            AcceptSpec::Trusted => cx.facts.is_trusted,
            AcceptSpec::Always => true,
            AcceptSpec::Never => false,
        };
        let given = cx.fields.received(&self.name).filter(|_| is_taken).and_then(RequestId::given);
        if given.is_some() {
            cx.facts.request_id = given;
        } else if self.accept == AcceptSpec::Never && is_the_clients(cx) {
            let random = u128::from(cx.facts.connection.chance()) << 64;
            let random = random | u128::from(cx.facts.connection.chance());
            cx.facts.request_id = Some(RequestId::new(cx.facts.unix_seconds * 1000, random));
        }
        if !self.name.eq_ignore_ascii_case(NAME) {
            match cx.facts.request_id {
                Some(id) => cx.fields.set(&self.name, id.as_bytes()),
                None => drop(cx.fields.remove(&self.name)),
            }
        }
        Verdict::Continue
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        if let Some(id) = cx.facts.request_id {
            cx.fields.set(&self.name, id.as_bytes());
        }
    }
}

/// Whether the id of the request is one that came with it: those of trusted peers are taken before filters are
/// called.
fn is_the_clients(cx: &RequestCx<'_>) -> bool {
    let given = cx.fields.received(NAME);
    given.is_some() && given == cx.facts.request_id.as_ref().map(RequestId::as_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{built, facts};
    use crate::{FilterStates, HeadFields, RequestOutcome, TargetEdit};
    use thalweg_http::{FieldSet, HeadLimits, RequestHead};

    /// The id of a request with this head, and the lines that were added to it.
    fn id(json: &str, is_trusted: bool, lines: &str) -> (String, String) {
        let filter = built::<RequestIdSpec>(json).build().unwrap();
        let head = format!("GET / HTTP/1.1\r\n{lines}\r\n");
        let mut request = RequestHead::new();
        request.parse(head.as_bytes(), &HeadLimits::default()).unwrap();
        let (mut added, mut known, mut target) = (Vec::new(), FieldSet::default(), TargetEdit::default());
        let (mut states, mut outcome) = (FilterStates::default(), RequestOutcome::default());
        let mut facts = facts("/");
        facts.is_trusted = is_trusted;
        let fields = HeadFields::new(&mut request.fields, head.as_bytes(), (&mut added, 0), &mut known);
        let lent = (&mut states, &mut outcome);
        let mut cx = RequestCx::new(facts, (&mut target, fields), lent, (false, None));
        filter.on_request(&mut cx);
        let id = cx.facts.request_id.unwrap().as_str().to_owned();
        (id, String::from_utf8(added).unwrap())
    }

    #[test]
    fn ids_are_taken_from_those_who_may_give_them() {
        let (mine, lines) = ("my.id", "X-Request-Id: my.id\r\n");
        for (json, is_trusted, expected) in [
            ("{}", false, "id-1"),
            ("{}", true, mine),
            (r#"{"accept": "always"}"#, false, mine),
            (r#"{"accept": "never"}"#, true, "id-1"),
        ] {
            assert_eq!(id(json, is_trusted, lines).0, expected, "{json} {is_trusted}");
        }
    }

    #[test]
    fn what_has_no_form_or_comes_twice_is_no_id() {
        for lines in ["X-Request-Id: a b\r\n", "X-Request-Id: a\r\nx-request-id: b\r\n", "X-Request-Id:\r\n"]
        {
            assert_eq!(id(r#"{"accept": "always"}"#, false, lines).0, "id-1", "{lines}");
        }
    }

    #[test]
    fn an_id_of_a_trusted_peer_that_was_taken_gives_way_to_a_new_one() {
        let new = id(r#"{"accept": "never"}"#, true, "X-Request-Id: id-1\r\n").0;
        assert!(new.len() == 36 && new.as_bytes()[14] == b'7', "{new}");
    }

    #[test]
    fn another_field_may_have_it() {
        let json = r#"{"header": "X-Correlation-Id", "accept": "always"}"#;
        let lines = "X-Correlation-Id: c-7\r\n";
        assert_eq!(id(json, false, lines), ("c-7".into(), "X-Correlation-Id: c-7\r\n".into()));
        assert!(built::<RequestIdSpec>(r#"{"header": "Host"}"#).build().is_err());
    }
}
