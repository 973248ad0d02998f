//! `signed_url:` links that somebody with a key has signed, good until a time.

use super::{Finding, Method, query};
use crate::{ConfigFiles, Facts, Identity, RequestCx, SecretSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_access::signed_url::{Signed, SigningKey};
use thalweg_core::units::{duration_text, parse_duration};

/// Keys that may be in force at a time, and parameters that may be signed.
const KEYS: usize = 16;
const PARAMETERS: usize = 16;
/// Longest scope, in bytes.
const SCOPE: usize = 128;
/// How long a link may be good at most, where nothing is written.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// Names of the parameters.
const EXPIRES: &str = "expires";
const KEY: &str = "key_id";
const SIGNATURE: &str = "signature";

/// Keys of signatures, and what is signed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `secrets`")]
pub(crate) struct SignedUrlSpec {
    /// Keys of at least 16 bytes by their id, which links name in `key_id`; with several, one after the other can be
    /// replaced.
    #[schemars(extend("x-default-words" = "required"))]
    secrets: BTreeMap<String, SecretSpec>,
    /// Parameters of the query that are signed too. Others may be changed by whoever has the link; one that services
    /// may take for a signed one, such as `user[]`, `+user` or `User` for `user`, is refused with 400.
    #[schemars(extend("x-default-words" = "none", "maxItems" = PARAMETERS))]
    parameters: Vec<String>,
    /// The text that a link signs with its path, by default the name of the route. Routes with equal scopes accept
    /// each other's links for the same host.
    #[schemars(extend("x-default-words" = "the name of the route"))]
    scope: Option<String>,
    /// Whether the method is signed: without, a link is good for GET and HEAD.
    #[schemars(extend("x-default" = false))]
    method: bool,
    /// Links that are good for longer are refused.
    #[schemars(extend("x-range" = ["1s", "366d"], "x-default" = "7d"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["1h", "7d"]))]
    max_ttl: Option<String>,
}

impl SignedUrlSpec {
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Method>, String> {
        if self.secrets.is_empty() || self.secrets.len() > KEYS {
            return Err(format!("`secrets` of `signed_url` takes from 1 to {KEYS} keys"));
        }
        let key = |(id, secret): (&String, &SecretSpec)| {
            let read = secret.read(files).and_then(|secret| SigningKey::new(id, &secret));
            read.map_err(|error| format!("`secrets` of `signed_url`: {error}"))
        };
        let keys = self.secrets.iter().map(key).collect::<Result<_, _>>()?;
        let own = [EXPIRES, KEY, SIGNATURE];
        if self.parameters.len() > PARAMETERS
            || self.parameters.iter().any(|name| name.is_empty() || own.contains(&name.as_str()))
        {
            return Err(format!(
                "`parameters` of `signed_url` takes at most {PARAMETERS} names, and none of {}",
                own.join(", ")
            ));
        }
        let is_scope =
            |scope: &String| (1..=SCOPE).contains(&scope.len()) && !scope.chars().any(char::is_control);
        if self.scope.as_ref().is_some_and(|scope| !is_scope(scope)) {
            return Err(format!(
                "`scope` of `signed_url` has from 1 to {SCOPE} bytes and no control characters"
            ));
        }
        let max_ttl = self.max_ttl.as_deref().map_or(Ok(LONGEST), parse_duration)?;
        if max_ttl < Duration::from_secs(1) || max_ttl > YEAR {
            return Err("`max_ttl` of `signed_url` must be from 1s to 366d".into());
        }
        let parameters = self.parameters.iter().map(|name| name.as_str().into()).collect();
        let scope = self.scope.as_deref().map(Into::into);
        Ok(Arc::new(SignedUrl { keys, parameters, scope, method: self.method, max_ttl }))
    }
}

#[derive(Debug)]
struct SignedUrl {
    keys: Box<[SigningKey]>,
    parameters: Box<[Box<str>]>,
    /// `None`: the name of the route.
    scope: Option<Box<str>>,
    method: bool,
    max_ttl: Duration,
}

impl SignedUrl {
    /// Who has signed it, or why that is nobody.
    fn verify(&self, cx: &RequestCx<'_>) -> Result<Option<&str>, Finding> {
        let sent = cx.facts.query.unwrap_or_default();
        let signature = query::only(sent, SIGNATURE)?;
        let (expires, id) = (query::only(sent, EXPIRES)?, query::only(sent, KEY)?);
        let Some(signature) = signature else { return Ok(None) };
        let (Some(expires), Some(id)) = (expires, id) else {
            return Err(wrong("`expires` or `key_id` is missing"));
        };
        let mut parameters = Vec::new();
        for name in &self.parameters {
            parameters.extend(query::only_in_any_spelling(sent, name)?);
        }
        let (expires, id) = (query::value(expires), query::value(id));
        let method = if self.method { Some(cx.facts.method) } else { None };
        if method.is_none() && !matches!(cx.facts.method, b"GET" | b"HEAD") {
            return Err(wrong("a method other than GET and HEAD, which the signature does not name"));
        }
        let Facts { host, route, path, .. } = cx.facts;
        let scope = self.scope.as_deref().unwrap_or(route).as_bytes();
        let signed = Signed { method, host, scope, path, expires, parameters };
        let Some(key) = self.keys.iter().find(|key| key.id().as_bytes() == id) else {
            return Err(wrong("an unknown key"));
        };
        if !key.verify(&signed, query::value(signature)) {
            return Err(wrong("the signature is not that of this link"));
        }
        let digits =
            str::from_utf8(expires).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let Some(expires) = digits.and_then(|text| text.parse::<u64>().ok()) else {
            return Err(wrong("`expires` is no number of seconds"));
        };
        if cx.facts.unix_seconds >= expires {
            return Err(Finding::refused(
                403,
                "the link has expired",
                format!("expired, key `{}`", key.id()),
            ));
        }
        if expires - cx.facts.unix_seconds > self.max_ttl.as_secs() {
            return Err(wrong("it is good for longer than `max_ttl`"));
        }
        Ok(Some(key.id()))
    }
}

fn wrong(reason: &'static str) -> Finding {
    Finding::refused(403, "the signature of the link is wrong", reason)
}

impl Method for SignedUrl {
    fn name(&self) -> &'static str {
        "signed_url"
    }

    fn argument(&self) -> String {
        let ids: Vec<_> = self.keys.iter().map(SigningKey::id).collect();
        let mut words = vec![format!("keys {}", ids.join(" "))];
        words.extend((!self.parameters.is_empty()).then(|| format!("signs {}", self.parameters.join(" "))));
        words.extend(self.scope.iter().map(|scope| format!("scope `{scope}`")));
        words.extend(self.method.then(|| "signs the method".to_owned()));
        words.push(format!("for at most {}", duration_text(self.max_ttl)));
        words.join(", ")
    }

    /// The name of the route is signed, unless there is a scope.
    fn decides_by_route(&self) -> bool {
        self.scope.is_none()
    }

    fn check(&self, cx: &mut RequestCx<'_>) -> Finding {
        match self.verify(cx) {
            Ok(Some(_)) => Finding::Verified(Identity::new("signed_url", "")),
            Ok(None) => Finding::Absent,
            Err(refused) => refused,
        }
    }

    fn strip(&self, cx: &mut RequestCx<'_>) {
        query::strip(cx, &[EXPIRES, KEY, SIGNATURE]);
    }
}
