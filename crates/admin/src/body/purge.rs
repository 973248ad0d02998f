//! The body of a purge.

use schemars::JsonSchema;
use thalweg_proxy::{Purge, PurgeWhat, Unpurgeable};

use super::{BodySpec, present, without_defaults};
use crate::problem::Problem;

/// Longest tag: of longer ones the front counts.
const TAG: usize = 1024;
/// Longest name of a space or a route.
const NAME: usize = 256;

/// The body of `POST /api/v1/cache/purge`: one of `url`, `prefix`, `host`, `tag` and `all`.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[schemars(rename = "Purge", transform = without_defaults, extend("oneOf" = [
    { "required": ["url"] }, { "required": ["prefix"] }, { "required": ["host"] }, { "required": ["tag"] },
    { "required": ["all"] },
], "dependentRequired" = { "any_query": ["url"] }))]
#[serde(deny_unknown_fields)]
pub(crate) struct PurgeSpec {
    /// One URL, in all its variants, with exactly this query as far as it counts in keys; without one, what was stored
    /// for the URL without a query.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String", extend("format" = "thalweg-cached-url"))]
    url: Option<String>,
    /// With `url`: whatever the query.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "bool")]
    any_query: Option<bool>,
    /// What begins with this URL, without a query: `https://shop.example.com/images/`.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String", extend("format" = "thalweg-cached-url"))]
    prefix: Option<String>,
    /// What is stored for this host, with any scheme, and with any port unless one is written.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String", extend("format" = "thalweg-host"))]
    host: Option<String>,
    /// What has this tag in `Cache-Tag` or `Surrogate-Key`, in lower or upper case.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String", length(min = 1, max = 1024),
        extend("pattern" = r"^[!-+\--~]([ -+\--~]*[!-+\--~])?$"))]
    tag: Option<String>,
    /// Everything.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "bool", extend("const" = true))]
    all: Option<bool>,
    /// Stale from now on, in place of gone: the next request validates it, or gets it stale where that is allowed.
    #[serde(default)]
    soft: bool,
    /// Only what is stored in this space: `key.space` of the filter `cache`, or the name of the route.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String", length(min = 1, max = 256), extend("pattern" = r"^[^\u0000-\u001f\u007f-\u009f]+$"))]
    space: Option<String>,
    /// Only what this route uses, together with what other routes store in the same space.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String", length(min = 1, max = 256), extend("pattern" = r"^[^\u0000-\u001f\u007f-\u009f]+$"))]
    route: Option<String>,
}

impl BodySpec for PurgeSpec {
    type Checked = Purge;

    /// Brings what is named to its normal form.
    fn validate(self) -> Result<Purge, Problem> {
        let invalid = |field: &str, why: Unpurgeable| {
            Problem::invalid(field, format!("`{field}`: {}", why.message)).help(why.help.map(str::to_owned))
        };
        let mut named = Vec::new();
        if let Some(url) = &self.url {
            named.push(PurgeWhat::url(url, self.any_query == Some(true)).map_err(|why| invalid("url", why))?);
        }
        if let Some(prefix) = &self.prefix {
            named.push(PurgeWhat::prefix(prefix).map_err(|why| invalid("prefix", why))?);
        }
        if let Some(host) = &self.host {
            named.push(PurgeWhat::host(host).map_err(|why| invalid("host", why))?);
        }
        if let Some(tag) = &self.tag {
            if tag.len() > TAG {
                return Err(Problem::invalid("tag", format!("`tag` has at most {TAG} bytes")));
            }
            named.push(PurgeWhat::tag(tag).map_err(|why| invalid("tag", why))?);
        }
        match self.all {
            Some(true) => named.push(PurgeWhat::All),
            Some(false) => return Err(Problem::invalid("all", "`all` is `true`, or not there")),
            None => {}
        }
        if self.any_query.is_some() && self.url.is_none() {
            return Err(Problem::invalid("any_query", "`any_query` belongs to `url`"));
        }
        for (field, value) in [("space", &self.space), ("route", &self.route)] {
            let is_name = |name: &String| {
                (1..=NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control)
            };
            if !value.as_ref().is_none_or(is_name) {
                return Err(Problem::invalid(field, format!("`{field}` is not a name")));
            }
        }
        match (named.pop(), named.is_empty()) {
            (Some(what), true) => {
                Ok(Purge { what, space: self.space, route: self.route, is_soft: self.soft })
            }
            _ => {
                let detail = "write one of `url`, `prefix`, `host`, `tag` and `all`";
                Err(Problem::new(axum::http::StatusCode::BAD_REQUEST, detail))
            }
        }
    }
}

/// A purge as other replicas and applications write it on a channel: a body of `POST /api/v1/cache/purge`.
///
/// # Errors
/// What is wrong with it.
pub fn purge_of(bytes: &[u8]) -> Result<Purge, String> {
    super::parse::<PurgeSpec>(bytes).map_err(|problem| problem.detail().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_thing_is_named() {
        let purge = |value: serde_json::Value| purge_of(value.to_string().as_bytes());
        let said = |value| purge(value).map(|purge| purge.to_string());
        assert_eq!(said(json!({ "url": "http://A/b?c" })).unwrap(), "http://a/b?c");
        assert_eq!(said(json!({ "all": true, "soft": true })).unwrap(), "everything, softly");
        assert_eq!(
            said(json!({ "tag": "News 1", "route": "shop" })).unwrap(),
            "tag News 1 of the route `shop`"
        );
        for bad in [
            json!({}),
            json!({ "all": false }),
            json!({ "all": null }),
            json!({ "url": "http://a/", "tag": "b" }),
            json!({ "tag": "a", "any_query": true }),
            json!({ "tag": " a" }),
            json!({ "tag": "a,b" }),
            json!({ "tag": "x".repeat(1025) }),
            json!({ "prefix": "http://a/?b" }),
            json!({ "host": "a/b" }),
            json!({ "host": "a", "space": "" }),
            json!({ "urls": "http://a/" }),
            json!([{ "all": true }]),
        ] {
            assert!(purge(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_told_to_others_is_read_as_it_was_meant() {
        for body in [
            json!({ "url": "https://a/b?c=%20", "any_query": true }),
            json!({ "url": "http://a:81/?", "soft": true, "space": "s", "route": "r" }),
            json!({ "prefix": "http://[::1]/x" }),
            json!({ "host": "a:81" }),
            json!({ "all": true }),
        ] {
            let purge = purge_of(body.to_string().as_bytes()).unwrap();
            assert_eq!(purge_of(&serde_json::to_vec(&purge).unwrap()).as_ref(), Ok(&purge), "{body}");
        }
    }
}
