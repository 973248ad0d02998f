//! What is written of a cache, and what it becomes.

use super::{Cache, CacheRule};
use crate::{Filter, OneOrManySpec, StatusSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_cache::{
    DefaultLifetime, KeyRule, MOST_SECONDS, Policy, QueryRule, Selected, SetCookie, Sharing,
};
use thalweg_core::units::{parse_duration, parse_percent, parse_size};

/// Statuses for which a lifetime without a status is meant: those that RFC 9110 §15.1 lets be kept by heuristics, but
/// for errors.
const SUCCESSES: [u16; 6] = [200, 203, 204, 206, 301, 308];
/// Statuses that may be named.
const MOST_STATUSES: usize = 64;
/// The word for [`SUCCESSES`] among statuses.
const DEFAULT: &str = "default";
/// How long a request waits for another one's response where nothing is written.
const WAIT: Duration = Duration::from_secs(5);
/// The longest that may be written.
const MOST_WAIT: Duration = Duration::from_secs(60);
/// The longest lifetime for one client.
const MOST_PER_CLIENT: Duration = Duration::from_secs(60 * 60);
/// The longest body of a POST that is part of a key, in bytes, where nothing is written, and the most that may be.
const MAX_BODY: u64 = 64 * 1024;
const MOST_BODY: u32 = 1024 * 1024;
/// Bytes that a name of a space may have.
const MOST_SPACE: usize = 128;

/// How responses are cached: `{}`, the lifetime of those that state none, or a map with more.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub enum CacheSpec {
    /// `default_ttl` alone.
    Short(
        #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["60s", "1h"]))]
        #[schemars(extend("x-range" = ["1s", "365d"]))]
        String,
    ),
    /// With more.
    Long(Box<CacheMapSpec>),
}

crate::shape::by_shape!(CacheSpec, "a duration such as `60s`, or a map; `{}` for the defaults", { text => Short, map => Long });

/// How responses are cached.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map; `{}` for the defaults")]
pub struct CacheMapSpec {
    /// How long responses are fresh that do not say it themselves: a duration for those with the status 200, 203, 204,
    /// 206, 301 or 308, or a map by status, `{ default: 60s, 404: 10s, 5xx: 1s }`. Never for those with `no-store` or
    /// `private`.
    #[schemars(extend("x-default-words" = "not at all, but see `heuristic`"))]
    default_ttl: Option<DefaultTtlSpec>,
    /// How long responses with `Last-Modified` are fresh that neither say it nor have a `default_ttl`: this share of
    /// the time for which they have not changed. `0%`: not at all.
    #[schemars(extend("x-range" = ["0%", "100%"], "x-default" = "10%"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*%[\s\u0085]*$"))]
    heuristic: Option<String>,
    /// The longest lifetime of that kind.
    #[schemars(extend("x-range" = ["0s", "365d"], "x-default" = "1d"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$"))]
    max_heuristic: Option<String>,
    /// How long a stale response is used at once, and fetched again beside that, where it does not say it itself (RFC
    /// 5861).
    #[schemars(extend("x-range" = ["0s", "365d"], "x-default" = "0s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$"))]
    stale_while_revalidate: Option<String>,
    /// How long a stale response is used while the service gives no response at all, where it does not say it itself
    /// (`stale-if-error`).
    #[schemars(extend("x-range" = ["0s", "365d"], "x-default" = "1h"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$"))]
    stale_if_unreachable: Option<String>,
    /// Whether `Cache-Control` of requests counts: `no-cache`, `max-age`, `min-fresh`, `max-stale`, `only-if-cached`.
    /// `no-store` always does.
    #[schemars(extend("x-default" = true))]
    request_directives: Option<bool>,
    /// What becomes of responses with `Set-Cookie`: they are not stored (`refuse`), or without the field (`strip`), or
    /// with it (`store`).
    #[schemars(extend("x-default" = "refuse"))]
    set_cookie: Option<SetCookieSpec>,
    /// Fields of responses that are looked at before `Cache-Control`, the most applicable first (RFC 9213); `[]`: none.
    #[schemars(extend("x-default-words" = "`CDN-Cache-Control`", "maxItems" = thalweg_cache::policy::MOST_TARGETS))]
    targeted_fields: Option<OneOrManySpec<String>>,
    /// Whether responses that vary by `Accept-Language` are the same for clients that name the same languages in
    /// another order.
    #[schemars(extend("x-default" = false))]
    ignore_language_order: bool,
    /// What of a request makes a difference, beside scheme, host, port and path.
    key: CacheKeySpec,
    /// Responses are used for the client that has caused them only, for this long, whatever they say to allow less
    /// sharing, and no longer than they say. The client's address, its `Authorization`, its cookies and the body of the
    /// request are parts of the key then. A duration, or a map with `ttl`.
    #[schemars(extend("x-default-words" = "not: they are shared"))]
    per_client: Option<PerClientSpec>,
    /// Whether clients that `auth` or their certificate has verified get what the service has answered to others:
    /// everything that it answers to them differently is in the key. Otherwise only responses are shared that allow it,
    /// with `public`, `s-maxage` or `must-revalidate`.
    #[schemars(extend("x-default" = false))]
    share_verified: bool,
    /// Larger bodies are not stored.
    #[schemars(extend("x-default-words" = "an eighth of `cache.memory`"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["1MiB"]))]
    max_object: Option<String>,
    /// A request for what another one fetches already waits so long for the first byte of the response; then it goes to
    /// the service itself. `0s`: it does not wait.
    #[schemars(extend("x-range" = ["0s", "1m"], "x-default" = "5s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$"))]
    wait: Option<String>,
    /// Whether clients are told in `Cache-Status` what the cache did (RFC 9211).
    #[schemars(extend("x-default" = true))]
    cache_status: Option<bool>,
}

/// How long responses are used for the client that has caused them, and for which requests.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(super) enum PerClientSpec {
    /// `ttl` alone.
    Ttl(
        #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["10s"]))]
        #[schemars(extend("x-range" = ["1s", "1h"]))]
        String,
    ),
    /// With more.
    Map(PerClientMapSpec),
}

crate::shape::by_shape!(PerClientSpec, "a duration such as `10s`, or a map with `ttl`", { text => Ttl, map => Map });

/// How long responses are used for the client that has caused them, and for which requests.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `ttl`")]
pub(super) struct PerClientMapSpec {
    /// For how long.
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "x-range" = ["1s", "1h"]))]
    ttl: String,
    /// Methods that are answered: `GET`, with HEAD, and `POST`, for services whose POST changes nothing. The same
    /// POST of the same client, body and all, reaches the service once in that time.
    #[schemars(extend("x-default" = "GET"))]
    methods: Option<OneOrManySpec<OwnMethodSpec>>,
    /// A POST with a longer body, or one whose length is not told (chunked), passes by. Shorter ones are received whole
    /// before the cache is asked.
    #[schemars(extend("x-range" = ["1B", "1MiB"], "x-default" = "64KiB"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$"))]
    max_body: Option<String>,
}

/// A method that is answered for one client.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "UPPERCASE", expecting = "`GET` or `POST`")]
pub(super) enum OwnMethodSpec {
    /// With HEAD.
    Get,
    /// With its body.
    Post,
}

/// What is used for one client.
struct Own {
    lifetime: u32,
    skips_get: bool,
    post_body: Option<u32>,
}

impl PerClientSpec {
    fn own(&self) -> Result<Own, String> {
        let map = match self {
            Self::Ttl(text) => {
                return Ok(Own { lifetime: lifetime(text)?, skips_get: false, post_body: None });
            }
            Self::Map(map) => map,
        };
        let methods = match &map.methods {
            None => &[OwnMethodSpec::Get][..],
            Some(OneOrManySpec::One(method)) => std::slice::from_ref(method),
            Some(OneOrManySpec::Many(methods)) => methods,
        };
        if methods.is_empty() {
            return Err("`methods: []` answers nothing; write `GET`, `POST` or both".into());
        }
        let posts = methods.contains(&OwnMethodSpec::Post);
        let most = map.max_body.as_deref().map_or(Ok(MAX_BODY), parse_size)?;
        let Some(most) = u32::try_from(most).ok().filter(|most| (1..=MOST_BODY).contains(most)) else {
            return Err("`max_body` must be from 1B to 1MiB".into());
        };
        if map.max_body.is_some() && !posts {
            return Err("`max_body` is for `methods: [ POST ]`; remove it".into());
        }
        Ok(Own {
            lifetime: lifetime(&map.ttl)?,
            skips_get: !methods.contains(&OwnMethodSpec::Get),
            post_body: posts.then_some(most),
        })
    }
}

/// A lifetime for one client, in seconds.
fn lifetime(text: &str) -> Result<u32, String> {
    if parse_duration(text).is_ok_and(|time| time > MOST_PER_CLIENT) {
        return Err("`per_client` must be from 1s to 1h".into());
    }
    seconds("per_client", text, 1)
}

/// A lifetime, or lifetimes by status.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(super) enum DefaultTtlSpec {
    /// For the statuses that are no errors.
    One(
        #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["60s"]))]
        #[schemars(extend("x-range" = ["1s", "365d"]))]
        String,
    ),
    /// By status, `404`, class, `5xx`, or `default` for those that are no errors. `4xx` is not for errors that one
    /// request caused, such as 400, 413, 421 or 429: only their number is.
    ByStatus(
        #[schemars(extend("minProperties" = 1, "maxProperties" = MOST_STATUSES))]
        #[schemars(extend("additionalProperties" = json!({
            "type": "string", "pattern": r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$"
        })))]
        BTreeMap<String, String>,
    ),
}

crate::shape::by_shape!(DefaultTtlSpec, "a duration such as `60s`, or a map of durations by status", { text => One, map => ByStatus });

/// What becomes of responses with `Set-Cookie`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", expecting = "`refuse`, `strip` or `store`")]
pub(super) enum SetCookieSpec {
    /// They are not stored.
    Refuse,
    /// They are stored without the field.
    Strip,
    /// They are stored as they are: the cookie reaches other clients.
    Store,
}

/// What of a request makes a difference.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `query`, `headers`, `cookies` or `space`")]
pub(super) struct CacheKeySpec {
    /// Which parameters of the query: `all`, `none`, or a map with `include` or `exclude`. Others are not sent to the
    /// service either.
    #[schemars(extend("x-default" = "all"))]
    query: Option<CacheQuerySpec>,
    /// Whether the order of parameters makes no difference. They are sent to the service in the order of their names.
    #[schemars(extend("x-default" = false))]
    sort_query: bool,
    /// Fields of the request whose values make a difference, as the service gets them.
    #[schemars(extend("x-default-words" = "none, but those that `Vary` of a response names count"))]
    headers: Option<OneOrManySpec<String>>,
    /// Cookies whose values make a difference.
    #[schemars(extend("x-default-words" = "none"))]
    cookies: Option<OneOrManySpec<String>>,
    /// Routes with the same one share what is stored, as far as they lead to the same place.
    #[schemars(extend("x-default-words" = "the name of the route", "minLength" = 1, "maxLength" = MOST_SPACE))]
    space: Option<String>,
}

/// Which parameters of the query.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(super) enum CacheQuerySpec {
    /// `all` or `none`.
    Word(AllOrNoneSpec),
    /// By their names.
    Names(CacheQueryNamesSpec),
}

crate::shape::by_shape!(CacheQuerySpec, "`all`, `none`, or a map with `include` or `exclude`", { text => Word, map => Names });

/// All parameters, or none.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", expecting = "`all` or `none`")]
pub(super) enum AllOrNoneSpec {
    /// All.
    All,
    /// None.
    None,
}

/// Parameters by their names.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
#[serde(deny_unknown_fields, default, expecting = "a map with `include` or `exclude`")]
pub(super) struct CacheQueryNamesSpec {
    /// Those with these names only.
    #[schemars(extend("x-default-words" = "all"))]
    include: Option<OneOrManySpec<String>>,
    /// All but those with these names; `utm_*`: all that begin so.
    #[schemars(extend("x-default-words" = "none"))]
    exclude: Option<OneOrManySpec<String>>,
}

impl CacheSpec {
    /// Checks the values.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let rule = match self {
            Self::Short(ttl) => {
                let default_ttl = Some(DefaultTtlSpec::One(ttl.clone()));
                CacheMapSpec { default_ttl, ..CacheMapSpec::default() }.rule()?
            }
            Self::Long(map) => map.rule()?,
        };
        Ok(Arc::new(Cache { rule: Arc::new(rule) }))
    }
}

impl CacheMapSpec {
    fn rule(&self) -> Result<CacheRule, String> {
        let policy = self.policy()?;
        let key = self.key.rule()?;
        policy.check().and_then(|()| key.check()).map_err(|error| error.replace("; help: ", "; "))?;
        let max_object = self.max_object.as_deref().map_or(Ok(u64::MAX), parse_size)?;
        if max_object == 0 {
            return Err("`max_object: 0B` stores nothing; remove the filter".into());
        }
        let wait = self.wait.as_deref().map_or(Ok(WAIT), parse_duration)?;
        if wait > MOST_WAIT {
            return Err("`wait` must be from 0s to 1m".into());
        }
        Ok(CacheRule {
            policy,
            key,
            max_object,
            wait,
            tells_status: self.cache_status.unwrap_or(true),
            shares_verified: self.share_verified,
            is_behind_auth: false,
        })
    }

    fn policy(&self) -> Result<Policy, String> {
        let built_in = Policy::default();
        let time = |name: &str, written: &Option<String>, default: u32| {
            written.as_deref().map_or(Ok(default), |text| seconds(name, text, 0))
        };
        let heuristic = self.heuristic.as_deref().map(parse_percent).transpose()?;
        let heuristic = heuristic.unwrap_or(u32::from(built_in.heuristic_percent));
        let Some(heuristic_percent) = u8::try_from(heuristic).ok().filter(|percent| *percent <= 100) else {
            return Err("`heuristic` must be from 0% to 100%".into());
        };
        if heuristic_percent == 0 && self.max_heuristic.is_some() {
            return Err("`max_heuristic` bounds nothing where `heuristic` is 0%; remove one of them".into());
        }
        let own = self.per_client.as_ref().map(PerClientSpec::own).transpose()?;
        let sharing =
            own.as_ref().map_or(Sharing::Shared, |own| Sharing::PerClient { lifetime: own.lifetime });
        if sharing != Sharing::Shared && self.default_ttl.is_some() {
            return Err("`per_client` is the lifetime of all responses; remove `default_ttl`".into());
        }
        Ok(Policy {
            sharing,
            skips_get: own.as_ref().is_some_and(|own| own.skips_get),
            post_body: own.as_ref().and_then(|own| own.post_body),
            targets: match &self.targeted_fields {
                Some(names) => boxed(Some(names)),
                None => built_in.targets,
            },
            set_cookie: match self.set_cookie.unwrap_or(SetCookieSpec::Refuse) {
                SetCookieSpec::Refuse => SetCookie::Refuse,
                SetCookieSpec::Strip => SetCookie::Strip,
                SetCookieSpec::Store => SetCookie::Store,
            },
            default_lifetimes: self.default_ttl.as_ref().map_or(Ok(Vec::new()), DefaultTtlSpec::lifetimes)?,
            heuristic_percent,
            heuristic_most: time("max_heuristic", &self.max_heuristic, built_in.heuristic_most)?,
            honours_clients: self.request_directives.unwrap_or(built_in.honours_clients),
            stale_when_unreachable: time(
                "stale_if_unreachable",
                &self.stale_if_unreachable,
                built_in.stale_when_unreachable,
            )?,
            stale_while_revalidate: time(
                "stale_while_revalidate",
                &self.stale_while_revalidate,
                built_in.stale_while_revalidate,
            )?,
            // There is no way yet from a POST that is forwarded into the store.
            stores_post: false,
            ignores_language_order: self.ignore_language_order,
        })
    }
}

impl DefaultTtlSpec {
    /// The narrowest range of statuses first.
    fn lifetimes(&self) -> Result<Vec<DefaultLifetime>, String> {
        let successes =
            |seconds| SUCCESSES.map(|status| DefaultLifetime { statuses: (status, status), seconds });
        let by_status = match self {
            Self::One(text) => return Ok(successes(seconds("default_ttl", text, 1)?).into()),
            Self::ByStatus(map) => map,
        };
        if by_status.is_empty() || by_status.len() > MOST_STATUSES {
            return Err(format!("`default_ttl` by status takes from 1 to {MOST_STATUSES} statuses"));
        }
        let (mut lifetimes, mut others) = (Vec::new(), None);
        for (status, text) in by_status {
            let seconds = seconds(&format!("default_ttl: {status}"), text, 0)?;
            if status == DEFAULT {
                others = Some(seconds);
                continue;
            }
            let statuses = StatusSpec::Text(status.clone()).build().map_err(|error| {
                format!("`default_ttl`: {error}, or `default` for those that are no errors")
            })?;
            lifetimes.push(DefaultLifetime { statuses, seconds });
        }
        lifetimes.sort_by_key(|lifetime| lifetime.statuses.1 - lifetime.statuses.0);
        // Before a class, behind a status of its own.
        let at = lifetimes.partition_point(|lifetime| lifetime.statuses.0 == lifetime.statuses.1);
        let behind = lifetimes.split_off(at);
        lifetimes.extend(others.into_iter().flat_map(successes));
        lifetimes.extend(behind);
        Ok(lifetimes)
    }
}

impl CacheKeySpec {
    fn rule(&self) -> Result<KeyRule, String> {
        let selected = match &self.query {
            None | Some(CacheQuerySpec::Word(AllOrNoneSpec::All)) => Selected::All,
            Some(CacheQuerySpec::Word(AllOrNoneSpec::None)) => Selected::Nothing,
            Some(CacheQuerySpec::Names(names)) => match (&names.include, &names.exclude) {
                (Some(names), None) => Selected::Only(boxed(Some(names))),
                (None, Some(names)) => Selected::But(boxed(Some(names))),
                _ => return Err("`query` of a key takes `include` or `exclude`; write one of them".into()),
            },
        };
        if self.sort_query && selected == Selected::Nothing {
            return Err("`sort_query` sorts nothing where `query` is `none`; remove it".into());
        }
        if let Selected::Only(names) = &selected
            && let Some(wrong) = names.iter().find(|name| name.ends_with('*'))
        {
            return Err(format!(
                "`include: {wrong}`: `*` stands for names in `exclude` only; write whole names"
            ));
        }
        let space = self.space.as_deref().unwrap_or_default();
        let is_wrong =
            space.len() > MOST_SPACE || space.trim().is_empty() || space.chars().any(char::is_control);
        if self.space.is_some() && is_wrong {
            return Err(format!("`space` has 1 to {MOST_SPACE} bytes, and no control characters"));
        }
        Ok(KeyRule {
            space: space.into(),
            query: QueryRule { selected, sorted: self.sort_query },
            fields: boxed(self.headers.as_ref()),
            cookies: boxed(self.cookies.as_ref()),
        })
    }
}

fn boxed(names: Option<&OneOrManySpec<String>>) -> Vec<Box<str>> {
    let names = names.map(OneOrManySpec::as_slice).unwrap_or_default();
    names.iter().map(|name| name.as_str().into()).collect()
}

/// Whole seconds, from `least` on.
fn seconds(name: &str, text: &str, least: u32) -> Result<u32, String> {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    const { assert!(YEAR.as_secs() <= MOST_SECONDS as u64) }
    let time = parse_duration(text)?;
    if time.subsec_nanos() != 0 {
        return Err(format!("`{name}: {text}`: lifetimes are whole seconds"));
    }
    match u32::try_from(time.as_secs()) {
        Ok(seconds) if seconds >= least && time <= YEAR => Ok(seconds),
        _ => Err(format!("`{name}` must be from {least}s to 365d")),
    }
}
