//! `hsts: { max_age: 365d }`: tells browsers to come back through TLS only (RFC 6797).
//!
//! The field is sent through TLS alone (§7.2), once, in place of what the service says of it (§6.1), also with answers
//! that the proxy makes itself once a route has taken the request.

use crate::edits::FieldSets;
use crate::{Filter, Hooks, ResponseCx};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::units::{duration_text, parse_duration};

/// For how long, where nothing is written.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The longest time.
const MAX_AGE: Duration = Duration::from_secs(10 * YEAR.as_secs());

/// What browsers are told.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map such as `{ max_age: 365d }`")]
pub struct HstsSpec {
    /// How long a browser remembers it, whole seconds; 0s: it forgets.
    #[schemars(extend("x-range" = ["0s", "3650d"], "x-default" = "365d"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["365d", "30d"]))]
    max_age: Option<String>,
    /// It holds for all hosts below this one too.
    #[schemars(extend("x-default" = false))]
    include_subdomains: bool,
    /// Browsers may have it built in: a promise that is hard to take back (<https://hstspreload.org>). Needs
    /// `include_subdomains` and a `max_age` of 365d or more.
    #[schemars(extend("x-default" = false))]
    preload: bool,
}

impl HstsSpec {
    /// Checks what belongs together.
    ///
    /// # Errors
    /// When the time is none, or `preload` is written without what it needs.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let max_age = self.max_age.as_deref().map_or(Ok(YEAR), parse_duration)?;
        if max_age > MAX_AGE {
            return Err("`max_age` must be from 0s to 3650d".to_owned());
        }
        if max_age.subsec_nanos() != 0 {
            return Err("`max_age` is told in whole seconds".to_owned());
        }
        if self.preload && !(self.include_subdomains && max_age >= YEAR) {
            let message = "`preload` needs `include_subdomains: true` and a `max_age` of 365d or more";
            return Err(message.to_owned());
        }
        let mut value = format!("max-age={}", max_age.as_secs());
        for (is_set, word) in [(self.include_subdomains, "; includeSubDomains"), (self.preload, "; preload")]
        {
            value.push_str(if is_set { word } else { "" });
        }
        let sets = FieldSets::constant("Strict-Transport-Security", &value);
        Ok(Arc::new(Hsts { value, max_age, sets }))
    }
}

#[derive(Debug)]
struct Hsts {
    /// Of the field.
    value: String,
    max_age: Duration,
    sets: FieldSets,
}

impl Filter for Hsts {
    fn name(&self) -> &'static str {
        "hsts"
    }

    fn argument(&self) -> String {
        let flags = self.value.split_once(';').map(|(_, flags)| format!(";{flags}")).unwrap_or_default();
        format!("{}{flags}", duration_text(self.max_age))
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::RESPONSE
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        if cx.facts.scheme == "https" {
            cx.write(&self.sets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Asked;

    fn spec(max_age: Option<&str>, include_subdomains: bool, preload: bool) -> HstsSpec {
        HstsSpec { max_age: max_age.map(str::to_owned), include_subdomains, preload }
    }

    fn sent(spec: &HstsSpec, is_secure: bool) -> Option<String> {
        let mut asked = Asked::at("/");
        asked.scheme = if is_secure { "https" } else { "http" };
        asked.answer(&*spec.build().unwrap());
        let lines = asked.response_lines();
        (!lines.is_empty())
            .then(|| lines.strip_prefix("Strict-Transport-Security: ").unwrap().trim_end().to_owned())
    }

    #[test]
    fn the_field_says_what_is_configured_and_only_through_tls() {
        for (written, expected) in [
            (HstsSpec::default(), "max-age=31536000"),
            (spec(Some("1h"), false, false), "max-age=3600"),
            (spec(Some("0s"), true, false), "max-age=0; includeSubDomains"),
            (spec(None, true, true), "max-age=31536000; includeSubDomains; preload"),
        ] {
            assert_eq!(sent(&written, true).as_deref(), Some(expected));
            assert_eq!(sent(&written, false), None);
        }
        assert_eq!(spec(None, true, true).build().unwrap().argument(), "365d; includeSubDomains; preload");
    }

    #[test]
    fn refuses_what_cannot_be_told_or_promised() {
        for wrong in [
            spec(Some("1y"), false, false),
            spec(Some("500ms"), false, false),
            spec(Some("3651d"), false, false),
            spec(Some("300"), false, false),
            spec(None, false, true),
            spec(Some("364d"), true, true),
        ] {
            assert!(wrong.build().is_err(), "{wrong:?}");
        }
    }
}
