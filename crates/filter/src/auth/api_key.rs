//! `api_key:` a key of a program, in a field, as a Bearer token, or in the query.
//!
//! A key is found before anything is counted, which costs its SHA-256 and one lookup in a table. So a right key passes
//! however many wrong ones came from its network; wrong ones are answered 429 instead of 401 after the first 20.

use super::{Finding, Method, authorization, count_wrong, query, too_many};
use crate::filter::{Upkeep, UpkeepTools};
use crate::headers::checked_name;
use crate::{ConfigFiles, Identity, OneOrManySpec, RequestCx};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::any::Any;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use thalweg_access::Attempts;
use thalweg_access::api_keys::{ApiKey, ApiKeys, FILE, time};
use thalweg_access::live_keys::{self, LiveKeys};
use thalweg_access::watched_file::WatchedFile;

/// Where nothing is written.
const FIELD: &str = "X-API-Key";
/// For clients with a key that is not taken.
const UNKNOWN: &str = "the API key is not known or has expired";

/// Keys, and where clients show them.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `file`, `keys` or `list`")]
pub(crate) struct ApiKeySpec {
    /// A file with lines of `NAME sha256:HASH [scopes=A,B] [expires=TIME] [CLAIM=VALUE …]`, as `thalweg hash-key`
    /// writes them, at most 16 MiB. It is read again when it has changed; while it has a bad line, what was read before
    /// stays in force.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    file: Option<String>,
    /// The name of a list of keys that are added and revoked while the proxy runs, through the admin API
    /// (`/api/v1/keys`), beside those of `file` or `keys`. It has from 1 to 64 letters, digits and `-_.`.
    #[schemars(extend("x-default-words" = "none"), regex(pattern = r"^[A-Za-z0-9._-]{1,64}$"))]
    list: Option<String>,
    /// Names of keys, and what is known of each.
    #[schemars(extend("x-default-words" = "none"))]
    keys: BTreeMap<String, KnownKeySpec>,
    /// The field that clients send it in.
    #[schemars(extend("x-default-words" = "`X-API-Key`, unless `bearer` or `query` is written"))]
    header: Option<String>,
    /// Whether `Authorization: Bearer KEY` is taken. Tokens with a dot are left to other methods.
    #[schemars(extend("x-default" = false))]
    bearer: bool,
    /// A parameter of the query, whose value logs leave out: `api_key`, `key`, `token`, `access_token`, `secret`,
    /// `password`, `signature` or `sig`. URLs get into histories and logs of others: take a field where you can.
    #[schemars(extend("x-default-words" = "none"))]
    query: Option<String>,
}

/// What is known of a key.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `hash`")]
pub(crate) struct KnownKeySpec {
    /// The SHA-256 of the key, `sha256:` and hexadecimal digits or base64, as `thalweg hash-key` writes it.
    #[schemars(extend("x-api" = "secret"))]
    hash: String,
    /// What it may do, one or a list.
    #[serde(default)]
    #[schemars(extend("x-default-words" = "none"))]
    scopes: Option<OneOrManySpec<String>>,
    /// What else is known of it, such as `plan: gold`.
    #[serde(default)]
    #[schemars(extend("x-default-words" = "none"))]
    claims: BTreeMap<String, String>,
    /// From then on it is not taken: `2027-01-31`, or a time as in RFC 3339.
    #[serde(default)]
    #[schemars(extend("x-default-words" = "never"))]
    expires: Option<String>,
}

impl std::fmt::Debug for KnownKeySpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownKeySpec").field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

impl KnownKeySpec {
    fn build(&self, name: &str) -> Result<ApiKey, String> {
        let scopes = self.scopes.as_ref().map(OneOrManySpec::as_slice).unwrap_or_default().to_vec();
        let expires = self.expires.as_deref().map(time).transpose();
        let expires = expires.map_err(|error| format!("`keys`: `{name}`: {error}"))?;
        Ok(ApiKey { name: name.to_owned(), scopes, claims: self.claims.clone(), expires })
    }
}

impl ApiKeySpec {
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Method>, String> {
        let live = self.list.as_deref().map(live_keys::list).transpose();
        let live = live.map_err(|error| format!("`list` of `api_key`: {error}"))?;
        let source = match (&self.file, self.keys.is_empty()) {
            (Some(file), true) => Source::File(Arc::new(Keep(Arc::new(WatchedFile::open(
                files.path(file),
                FILE,
                ApiKeys::parse,
            )?)))),
            (None, false) => {
                let mut keys = ApiKeys::default();
                for (name, spec) in &self.keys {
                    keys.add(spec.build(name)?, &spec.hash).map_err(|error| format!("`keys`: {error}"))?;
                }
                Source::Inline(Arc::new(keys))
            }
            (Some(_), false) => return Err("`api_key` takes `file` or `keys`, not both".into()),
            (None, true) if live.is_some() => Source::Inline(Arc::default()),
            (None, true) => {
                return Err("`api_key` has no keys; write `file: keys.txt`, `keys`, or `list`".into());
            }
        };
        let header = match &self.header {
            None if self.bearer || self.query.is_some() => None,
            None => Some(FIELD.into()),
            Some(name) if name.eq_ignore_ascii_case("authorization") => {
                return Err("write `bearer: true` for keys in `Authorization: Bearer`".into());
            }
            Some(name) => Some(checked_name(name)?),
        };
        Ok(Arc::new(ApiKeyMethod {
            source,
            live,
            written: self.file.as_deref().map(Into::into),
            header,
            bearer: self.bearer,
            query: self.query.as_deref().map(query::hidden_name).transpose()?,
            attempts: RwLock::default(),
        }))
    }
}

#[derive(Debug)]
enum Source {
    File(Arc<Keep>),
    Inline(Arc<ApiKeys>),
}

#[derive(Debug)]
struct Keep(Arc<WatchedFile<ApiKeys>>);

impl Upkeep for Keep {
    fn run(self: Arc<Self>, tools: UpkeepTools) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.0.clone().keep(tools.say))
    }
}

#[derive(Debug)]
struct ApiKeyMethod {
    source: Source,
    /// Those that are added while the proxy runs.
    live: Option<Arc<LiveKeys>>,
    /// The file as it was written.
    written: Option<Box<str>>,
    header: Option<Box<str>>,
    bearer: bool,
    query: Option<Box<str>>,
    /// Attempts with wrong keys; kept across reloads.
    attempts: RwLock<Arc<Attempts>>,
}

impl ApiKeyMethod {
    fn keys(&self) -> Arc<ApiKeys> {
        match &self.source {
            Source::File(file) => file.0.current(),
            Source::Inline(keys) => keys.clone(),
        }
    }

    /// The key that was sent.
    fn sent(&self, cx: &RequestCx<'_>) -> Result<Option<Vec<u8>>, Finding> {
        let fields = cx.fields.view();
        let mut sent: Vec<Vec<u8>> = Vec::new();
        if let Some(name) = &self.header {
            sent.extend(fields.values(name).take(2).map(|value| value.trim_ascii().to_vec()));
        }
        if self.bearer {
            let bearer = authorization::credential(fields, "bearer")?;
            sent.extend(bearer.filter(|token| !token.contains(&b'.')).map(<[u8]>::to_vec));
        }
        if let Some(name) = &self.query {
            let pair = query::only(cx.facts.query.unwrap_or_default(), name)?;
            sent.extend(pair.map(|pair| query::octet_decoded(query::value(pair))));
        }
        match sent.len() {
            0 => Ok(None),
            1 => Ok(sent.pop()),
            _ => Err(Finding::refused(400, "a request with more than one API key", "more than one key")),
        }
    }
}

impl Method for ApiKeyMethod {
    fn name(&self) -> &'static str {
        "api_key"
    }

    fn argument(&self) -> String {
        let written = match &self.written {
            Some(file) => Some(format!("keys of {file}")),
            None if self.keys().is_empty() => None,
            // A change of a hash is a difference, and is not to be shown.
            None => Some(format!("{} keys, {}", self.keys().len(), self.keys().fingerprint())),
        };
        let live = self.live.as_ref().map(|live| format!("the list {}", live.name()));
        let places = self.header.iter().map(|name| format!("in {name}"));
        let places = places.chain(self.bearer.then(|| "as Bearer".to_owned()));
        let places = places.chain(self.query.iter().map(|name| format!("in ?{name}")));
        written.into_iter().chain(live).chain(places).collect::<Vec<_>>().join(", ")
    }

    fn challenge(&self, realm: &str) -> Option<String> {
        self.bearer.then(|| format!("Bearer realm=\"{realm}\""))
    }

    fn credential_field(&self) -> Option<&str> {
        self.header.as_deref()
    }

    fn check(&self, cx: &mut RequestCx<'_>) -> Finding {
        let sent = match self.sent(cx) {
            Ok(Some(sent)) => sent,
            Ok(None) => return Finding::Absent,
            Err(refused) => return refused,
        };
        let live = || self.live.as_ref().and_then(|live| live.current().find(&sent));
        let Some(key) = self.keys().find(&sent).or_else(live) else {
            return match count_wrong(cx, &self.attempts, &sent) {
                Ok(()) => Finding::refused(401, UNKNOWN, "an unknown key"),
                Err(wait) => too_many(cx, wait),
            };
        };
        if key.expires.is_some_and(|expires| cx.facts.unix_seconds >= expires) {
            let reason = format!("the key `{}` has expired", key.name);
            return Finding::refused(401, UNKNOWN, reason);
        }
        let mut identity = Identity::new("api_key", key.name.as_str());
        identity.scopes.clone_from(&key.scopes);
        let claims = key.claims.iter().map(|(name, value)| (name.clone(), Value::String(value.clone())));
        identity.claims.extend(claims);
        Finding::Verified(identity)
    }

    fn strip(&self, cx: &mut RequestCx<'_>) {
        if let Some(name) = &self.header {
            cx.fields.remove(name);
        }
        if self.bearer {
            authorization::strip(cx, "bearer");
        }
        if let Some(name) = &self.query {
            query::strip(cx, &[name]);
        }
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        match &self.source {
            Source::File(file) => Some(file.clone()),
            Source::Inline(_) => None,
        }
    }

    fn adopt(&self, former: &dyn Method) {
        if let Some(former) = (former as &dyn Any).downcast_ref::<Self>() {
            let attempts = former.attempts.read().unwrap_or_else(PoisonError::into_inner).clone();
            *self.attempts.write().unwrap_or_else(PoisonError::into_inner) = attempts;
        }
    }
}
