//! `security_headers: {}`: fields by which browsers protect pages, with defaults that break nothing usual.
//!
//! What the service says itself in one of these fields is replaced, except for its Content-Security-Policy where none
//! is written here. Over TLS `hsts` is a filter of its own.

use crate::edits::FieldSets;
use crate::headers::checked_value;
use crate::names::FieldName;
use crate::{Filter, Hooks, ResponseCx, Template, TemplateSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// A value, or `false` for none.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum ValueOrOffSpec {
    /// `false`: the field is not sent, and that of the service stays.
    Switch(bool),
    /// The value.
    Value(TemplateSpec),
}

crate::shape::by_shape!(ValueOrOffSpec, "a value, or `false` for none", { switch => Switch, text => Value });

/// The fields; each can be `false`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map; `{}` for the defaults")]
pub struct SecurityHeadersSpec {
    /// `Content-Security-Policy`, as written.
    #[schemars(extend("x-default-words" = "that of the service"))]
    content_security_policy: Option<ValueOrOffSpec>,
    /// `X-Content-Type-Options`.
    #[schemars(extend("x-default" = "nosniff"))]
    content_type_options: Option<ValueOrOffSpec>,
    /// `X-Frame-Options`.
    #[schemars(extend("x-default" = "SAMEORIGIN"))]
    frame_options: Option<ValueOrOffSpec>,
    /// `Referrer-Policy`.
    #[schemars(extend("x-default" = "strict-origin-when-cross-origin"))]
    referrer_policy: Option<ValueOrOffSpec>,
    /// `Permissions-Policy`.
    #[schemars(extend("x-default" = "camera=(), geolocation=(), microphone=()"))]
    permissions_policy: Option<ValueOrOffSpec>,
    /// `Cross-Origin-Opener-Policy`.
    #[schemars(extend("x-default" = "same-origin-allow-popups"))]
    cross_origin_opener_policy: Option<ValueOrOffSpec>,
    /// Whether `Server` and `X-Powered-By` are removed.
    #[schemars(extend("x-default" = true))]
    hide_server: Option<bool>,
}

impl SecurityHeadersSpec {
    /// Compiles the values.
    ///
    /// # Errors
    /// A value that cannot be sent; `true`, which says nothing.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let rows = [
            ("Content-Security-Policy", &self.content_security_policy, None),
            ("X-Content-Type-Options", &self.content_type_options, Some("nosniff")),
            ("X-Frame-Options", &self.frame_options, Some("SAMEORIGIN")),
            ("Referrer-Policy", &self.referrer_policy, Some("strict-origin-when-cross-origin")),
            (
                "Permissions-Policy",
                &self.permissions_policy,
                Some("camera=(), geolocation=(), microphone=()"),
            ),
            (
                "Cross-Origin-Opener-Policy",
                &self.cross_origin_opener_policy,
                Some("same-origin-allow-popups"),
            ),
        ];
        let mut fields = Vec::new();
        for (name, written, default) in rows {
            let value = match (written, default) {
                (Some(ValueOrOffSpec::Switch(false)), _) | (None, None) => continue,
                (Some(ValueOrOffSpec::Value(value)), _) => value.clone(),
                (None | Some(ValueOrOffSpec::Switch(true)), Some(value)) => TemplateSpec(value.to_owned()),
                (Some(ValueOrOffSpec::Switch(true)), None) => {
                    return Err("`content_security_policy` has no default; write the policy".into());
                }
            };
            fields.push((FieldName::new(name), checked_value(&value)?));
        }
        let mut sets = FieldSets::new(&fields);
        if self.hide_server.unwrap_or(true) {
            ["Server", "X-Powered-By"].map(FieldName::new).iter().for_each(|name| sets.remove(name));
        }
        Ok(Arc::new(SecurityHeaders { fields, sets }))
    }
}

#[derive(Debug)]
struct SecurityHeaders {
    fields: Vec<(FieldName, Template)>,
    /// These, and what is removed.
    sets: FieldSets,
}

impl Filter for SecurityHeaders {
    fn name(&self) -> &'static str {
        "security_headers"
    }

    fn argument(&self) -> String {
        self.fields.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::RESPONSE
    }

    fn captures(&self) -> Vec<String> {
        self.fields.iter().flat_map(|(_, value)| value.captures()).map(str::to_owned).collect()
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        cx.write(&self.sets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};

    fn answered(json: &str) -> String {
        let mut asked = Asked::at("/");
        asked.response =
            b"Server: x\r\nX-Powered-By: y\r\nContent-Security-Policy: own\r\nX-Frame-Options: own\r\n"
                .to_vec();
        asked.answer(&*built::<SecurityHeadersSpec>(json).build().unwrap());
        asked.response_lines()
    }

    #[test]
    fn defaults_protect_and_keep_the_services_own_policy() {
        assert_eq!(
            answered("{}"),
            "Content-Security-Policy: own\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: SAMEORIGIN\r\n\
             Referrer-Policy: strict-origin-when-cross-origin\r\n\
             Permissions-Policy: camera=(), geolocation=(), microphone=()\r\n\
             Cross-Origin-Opener-Policy: same-origin-allow-popups\r\n"
        );
    }

    #[test]
    fn each_field_can_be_written_or_left_out() {
        let said = answered(
            r#"{"content_security_policy": "default-src 'self'", "frame_options": false, "permissions_policy": false,
                "referrer_policy": "no-referrer", "cross_origin_opener_policy": false, "hide_server": false}"#,
        );
        assert_eq!(
            said,
            "Server: x\r\nX-Powered-By: y\r\nX-Frame-Options: own\r\nContent-Security-Policy: default-src 'self'\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
        );
        let error = built::<SecurityHeadersSpec>(r#"{"content_security_policy": true}"#).build().unwrap_err();
        assert!(error.contains("write the policy"), "{error}");
    }
}
