//! `jwt:` a signed token (RFC 7519), as APIs ask for it: in `Authorization: Bearer`, or where the configuration says.
//!
//! What a token proves is decided in `thalweg_access::jwt`. Here: where it stands, which keys there are, and what is
//! remembered, so that a token costs its signature once and then a digest. A token whose key is not known waits while
//! the keys are fetched again, which requests cannot bring about more than three times within 30 seconds.
//!
//! A token is verified before anything is counted: a right one passes however many wrong ones came from its network.
//! The bound on the work of a request is four signatures (`TRIES` in `thalweg_access::jwt`), as there are four keys at
//! most that one token is tried with; the rate of requests is for `rate_limit` before `auth`.

use super::credential_place::{CredentialPlace, TokenPlaceSpec};
use super::{Finding, Method, count_wrong, too_many};
use crate::filter::{Upkeep, UpkeepTools};
use crate::{ConfigFiles, Identity, Job, JobResult, OneOrManySpec, RequestCx, SecretSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::any::Any;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use thalweg_access::jwks::Jwks;
use thalweg_access::jwt::{Algorithm, Flaw, Key, KeySet, Rules, Token, unverified, verify};
use thalweg_access::{Attempts, Recent, Times, digest, https};
use thalweg_core::units::parse_duration;
use thalweg_core::{Fault, FaultKind};
use thalweg_http::HttpUrl;

/// For keys that a request waits for.
const FETCH: Duration = Duration::from_secs(6);
/// Tokens that are remembered as verified.
const REMEMBERED: usize = 16 * 1024;
/// Largest file of keys or certificates, in bytes.
const FILE: usize = 256 * 1024;
/// What is listed, at most.
const LISTED: usize = 64;
/// How old keys may become, where nothing is written, and the least and the most that may be.
const REFRESH: Duration = Duration::from_secs(5 * 60);
const STALE: Duration = Duration::from_secs(24 * 60 * 60);
const LEAST_REFRESH: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How far clocks may differ, where nothing is written, and at most.
const LEEWAY: Duration = Duration::from_secs(30);
const LONGEST_LEEWAY: Duration = Duration::from_secs(10 * 60);

/// Who signs tokens, and what they must claim.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `jwks_url`, `jwks_file` or `key`")]
pub(crate) struct JwtSpec {
    /// Where the issuer publishes its keys (RFC 7517). They are fetched again every `refresh`, and when a token names
    /// one that is not known, at most three times within 30 seconds.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "destination"))]
    jwks_url: Option<String>,
    /// A file with such a set of keys.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    jwks_file: Option<String>,
    /// One key.
    #[schemars(extend("x-default-words" = "none"))]
    key: Option<JwtKeySpec>,
    /// Certificates in PEM that vouch for the server of `jwks_url`.
    #[schemars(extend("x-default-words" = "those of the system"))]
    #[schemars(extend("x-api" = "reference"))]
    ca: Option<String>,
    /// Whether `jwks_url` may be without TLS: whoever stands in between can then sign tokens.
    #[schemars(extend("x-default" = false))]
    #[schemars(extend("x-api" = "trust"))]
    allow_http: bool,
    /// How often the keys are fetched.
    #[schemars(extend("x-range" = ["10s", "30d"], "x-default" = "5m"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["5m", "1h"]))]
    refresh: Option<String>,
    /// How long keys are used after they were fetched, when they cannot be fetched again.
    #[schemars(extend("x-range" = ["10s", "30d"], "x-default" = "24h"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["24h"]))]
    stale: Option<String>,
    /// Algorithms of signatures that are allowed: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA;
    /// with a shared secret HS256, HS384, HS512. `none` is none.
    #[schemars(extend("x-default-words" = "all that fit the keys; HS256 with a shared secret", "maxItems" = LISTED))]
    algorithms: Vec<AlgorithmSpec>,
    /// Issuers, one of which must be the token's `iss`.
    #[schemars(extend("x-default-words" = "any"))]
    issuer: Option<OneOrManySpec<String>>,
    /// Audiences, one of which must be among the token's `aud`.
    #[schemars(extend("x-default-words" = "any"))]
    audience: Option<OneOrManySpec<String>>,
    /// How far the clocks of issuer and proxy may differ.
    #[schemars(extend("x-range" = ["0s", "10m"], "x-default" = "30s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["30s"]))]
    leeway: Option<String>,
    /// Claims that a token must have.
    #[schemars(extend("x-default-words" = "`exp`", "maxItems" = LISTED))]
    required: Option<Vec<String>>,
    /// The claim that names the user.
    #[schemars(extend("x-default" = "sub"))]
    user: Option<String>,
    /// The claim that lists scopes, as a text with spaces or a list of texts.
    #[schemars(extend("x-default-words" = "`scope`, or else `scp`"))]
    scopes: Option<String>,
    /// Where the token stands.
    #[schemars(extend("x-default-words" = "in `Authorization: Bearer`"))]
    from: Option<TokenPlaceSpec>,
}

/// A key.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", expecting = "a map with `file` or `secret`")]
pub(crate) enum JwtKeySpec {
    /// A file with public keys or certificates in PEM.
    File(#[schemars(extend("x-api" = "reference"))] String),
    /// A secret of at least 32 bytes that the issuer shares: whoever has it can sign tokens.
    Secret(SecretSpec),
}

/// The name of an algorithm.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct AlgorithmSpec(String);

impl JwtSpec {
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Method>, String> {
        let fixed = |keys| Keys::Fixed(Arc::new(keys));
        let (keys, is_shared) = match (&self.jwks_url, &self.jwks_file, &self.key) {
            (Some(url), None, None) => (self.remote(url, files)?, false),
            (None, Some(file), None) => {
                let set = KeySet::jwks(&files.read(file, FILE)?);
                (
                    fixed(set.map_err(|why| format!("the set of keys in `{file}` cannot be used: {why}"))?),
                    false,
                )
            }
            (None, None, Some(JwtKeySpec::File(file))) => {
                let keys = Key::pem(&files.read(file, FILE)?);
                let keys = keys.map_err(|why| format!("the key in `{file}` cannot be used: {why}"))?;
                (fixed(KeySet::new(keys)), false)
            }
            (None, None, Some(JwtKeySpec::Secret(secret))) => {
                (fixed(KeySet::new(vec![Key::shared(&secret.read(files)?)?])), true)
            }
            (None, None, None) => {
                return Err("`jwt` has no keys; write `jwks_url`, `jwks_file` or `key`".into());
            }
            _ => return Err("`jwt` takes one of `jwks_url`, `jwks_file` and `key`".into()),
        };
        if !matches!(keys, Keys::Remote(_))
            && (self.refresh.is_some() || self.stale.is_some() || self.ca.is_some())
        {
            return Err("`refresh`, `stale` and `ca` of `jwt` are for `jwks_url`; leave them out".into());
        }
        let rules = self.rules(is_shared)?;
        if let Keys::Fixed(keys) = &keys
            && let Some(idle) = rules.algorithms.iter().find(|algorithm| !keys.fit(**algorithm))
            && !self.algorithms.is_empty()
        {
            return Err(format!("`algorithms` has {idle}, and there is no key for it"));
        }
        Ok(Arc::new(Jwt {
            written: self.written(&rules),
            keys,
            rules,
            place: CredentialPlace::new(self.from.as_ref())?,
            user: self.user.as_deref().unwrap_or("sub").into(),
            scopes: self.scopes.as_deref().map(Into::into),
            verified: Recent::new(REMEMBERED),
            attempts: RwLock::default(),
        }))
    }

    fn remote(&self, url: &str, files: &dyn ConfigFiles) -> Result<Keys, String> {
        let url = HttpUrl::parse(url).map_err(|why| format!("`jwks_url`: {why}"))?;
        if !url.tls() && !self.allow_http {
            return Err("`jwks_url` is without TLS: whoever stands in between can then sign tokens; write \
                        `https://`, or `allow_http: true`"
                .into());
        }
        let times = times(self.refresh.as_deref(), self.stale.as_deref())?;
        let ca = self.ca.as_deref().map(|file| files.read(file, FILE)).transpose()?;
        let jwks = Jwks::new(url, https(ca.as_deref())?, times);
        Ok(Keys::Remote(RwLock::new(Arc::new(Keep { jwks: Arc::new(jwks), ca, times }))))
    }

    fn rules(&self, is_shared: bool) -> Result<Rules, String> {
        let mut algorithms = Vec::new();
        for AlgorithmSpec(name) in &self.algorithms {
            let algorithm =
                Algorithm::named(name).ok_or_else(|| match name.to_ascii_lowercase().as_str() {
                    "none" => {
                        "`algorithms` has `none`: a token without a signature proves nothing".to_owned()
                    }
                    _ => format!(
                        "`{name}` is no algorithm of signatures; write for example RS256, ES256 or EdDSA"
                    ),
                })?;
            if algorithm.is_shared() != is_shared {
                return Err(format!(
                    "`algorithms` has {name}, which {}",
                    if is_shared {
                        "needs a public key; give it as `file`"
                    } else {
                        "needs a shared secret: `key: { secret: … }`"
                    }
                ));
            }
            algorithms.push(algorithm);
        }
        if algorithms.is_empty() {
            let all = Algorithm::ALL.into_iter().map(|(_, algorithm)| algorithm);
            algorithms = match is_shared {
                true => vec![Algorithm::Hs256],
                false => all.filter(|algorithm| !algorithm.is_shared()).collect(),
            };
        }
        let listed = |name: &str, written: Option<&OneOrManySpec<String>>| {
            let list = written.map(|written| written.as_slice().to_vec()).unwrap_or_default();
            if written.is_some() && list.is_empty()
                || list.len() > LISTED
                || list.iter().any(String::is_empty)
            {
                return Err(format!("`{name}` takes from 1 to {LISTED} texts"));
            }
            Ok(list)
        };
        let required = self.required.clone().unwrap_or_else(|| vec!["exp".into()]);
        if required.len() > LISTED {
            return Err(format!("`required` takes at most {LISTED} claims"));
        }
        Ok(Rules {
            algorithms,
            issuers: listed("issuer", self.issuer.as_ref())?,
            audiences: listed("audience", self.audience.as_ref())?,
            leeway: leeway(self.leeway.as_deref())?,
            required,
        })
    }

    /// All of it on one line.
    fn written(&self, rules: &Rules) -> Box<str> {
        let mut words = vec![match (&self.jwks_url, &self.jwks_file, &self.key) {
            (Some(url), ..) => {
                HttpUrl::parse(url).map_or_else(|_| String::new(), |url| format!("keys of {url}"))
            }
            (_, Some(file), _) | (.., Some(JwtKeySpec::File(file))) => format!("keys of {file}"),
            _ => "a shared secret".to_owned(),
        }];
        if !self.algorithms.is_empty() {
            let names: Vec<_> = rules.algorithms.iter().map(ToString::to_string).collect();
            words.push(names.join(" "));
        }
        words.extend(rules.issuers.iter().map(|issuer| format!("issuer {issuer}")));
        words.extend(rules.audiences.iter().map(|audience| format!("audience {audience}")));
        words.push(format!("leeway {} s", rules.leeway));
        let refresh = self.refresh.iter().filter(|time| *time != "5m");
        let stale = self.stale.iter().filter(|time| *time != "24h");
        words.push(format!("requires {}", rules.required.join(" ")));
        words.extend(refresh.map(|time| format!("refresh {time}")));
        words.extend(stale.map(|time| format!("stale {time}")));
        words.extend(self.ca.iter().map(|file| format!("ca {file}")));
        words.extend(self.user.iter().filter(|claim| *claim != "sub").map(|claim| format!("user {claim}")));
        words.extend(self.scopes.iter().map(|claim| format!("scopes {claim}")));
        words.extend(self.from.iter().map(ToString::to_string));
        words.join(", ").into()
    }
}

/// How long what is fetched is good.
pub(super) fn times(refresh: Option<&str>, stale: Option<&str>) -> Result<Times, String> {
    let time = |name: &str, written: Option<&str>, default| {
        let time = written.map_or(Ok(default), parse_duration)?;
        match (LEAST_REFRESH..=LONGEST).contains(&time) {
            true => Ok(time),
            false => Err(format!("`{name}` must be from 10s to 30d")),
        }
    };
    let refresh = time("refresh", refresh, REFRESH)?;
    let stale = time("stale", stale, STALE.max(refresh))?;
    if stale < refresh {
        return Err("`stale` is at least `refresh`: keys would be gone before they are fetched again".into());
    }
    Ok(Times { refresh, stale })
}

/// How far clocks may differ, in seconds.
pub(super) fn leeway(written: Option<&str>) -> Result<u64, String> {
    match written.map_or(Ok(LEEWAY), parse_duration)? {
        time if time <= LONGEST_LEEWAY => Ok(time.as_secs()),
        _ => Err("`leeway` must be from 0s to 10m".into()),
    }
}

/// Where keys come from.
#[derive(Debug)]
enum Keys {
    Fixed(Arc<KeySet>),
    /// One that goes on over a reload is that of the configuration before it.
    Remote(RwLock<Arc<Keep>>),
}

impl Keys {
    fn remote(&self) -> Option<Arc<Keep>> {
        match self {
            Self::Fixed(_) => None,
            Self::Remote(keep) => Some(keep.read().unwrap_or_else(PoisonError::into_inner).clone()),
        }
    }

    fn current(&self, now: Instant) -> Option<Arc<KeySet>> {
        match self {
            Self::Fixed(keys) => Some(keys.clone()),
            Self::Remote(keep) => keep.read().unwrap_or_else(PoisonError::into_inner).jwks.current(now),
        }
    }
}

/// Keys that are refreshed.
#[derive(Debug)]
struct Keep {
    jwks: Arc<Jwks>,
    ca: Option<Vec<u8>>,
    times: Times,
}

impl Upkeep for Keep {
    fn run(self: Arc<Self>, tools: UpkeepTools) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.jwks.clone().keep(tools.say))
    }
}

#[derive(Debug)]
struct Jwt {
    written: Box<str>,
    keys: Keys,
    rules: Rules,
    place: CredentialPlace,
    user: Box<str>,
    scopes: Option<Box<str>>,
    verified: Recent<Known>,
    /// Attempts with wrong signatures; kept across reloads.
    attempts: RwLock<Arc<Attempts>>,
}

/// A token that was verified.
#[derive(Clone, Debug)]
struct Known {
    identity: Arc<Identity>,
    /// With one of these.
    keys: Arc<KeySet>,
    ends: u64,
}

impl Jwt {
    /// Verifies the token with the present keys. `may_wait`: the keys may be fetched first.
    ///
    /// # Errors
    /// The signature is wrong, and so were too many of the client's network: the time until its window ends.
    fn judge(&self, cx: &RequestCx<'_>, text: &[u8], may_wait: bool) -> Result<Finding, Duration> {
        let (now, second) = (cx.facts.now, cx.facts.unix_seconds);
        let wait = |keep: Arc<Keep>| {
            let fetch = async move { keep.jwks.refresh(now).await };
            Finding::Wait(Job::call(FETCH, fetch))
        };
        let Some(keys) = self.keys.current(now) else {
            return Ok(match self.keys.remote() {
                Some(keep) if may_wait && keep.jwks.remote().may_ask(now) => wait(keep),
                _ => Finding::Fault(NO_KEYS),
            });
        };
        let key = digest(&[text]);
        let known = self.verified.get(&key);
        if let Some(known) = known.filter(|known| second < known.ends && Arc::ptr_eq(&known.keys, &keys)) {
            return Ok(Finding::Verified((*known.identity).clone()));
        }
        let token = match Token::read(text) {
            Ok(token) => token,
            Err(flaw) => return Ok(wrong(&flaw)),
        };
        Ok(match verify(&token, &keys, &self.rules, second) {
            Ok(verified) => {
                let identity = Arc::new(self.identity(&verified.claims));
                let known = Known { identity: identity.clone(), keys, ends: verified.ends };
                self.verified.put(key, known);
                Finding::Verified((*identity).clone())
            }
            Err(Flaw::UnknownKey) if may_wait => match self.keys.remote() {
                Some(keep) if keep.jwks.remote().may_ask(now) => wait(keep),
                _ => wrong(&Flaw::UnknownKey),
            },
            Err(flaw) => {
                // An expired token, or one for another audience, does not count as a guess.
                if flaw == Flaw::Signature {
                    count_wrong(cx, &self.attempts, text)?;
                }
                wrong(&flaw)
            }
        })
    }

    fn identity(&self, claims: &Map<String, Value>) -> Identity {
        let mut identity = Identity { claims: claims.clone(), ..Identity::new("jwt", "") };
        identity.user = identity.user_of(&self.user);
        identity.scopes = scopes(&identity, self.scopes.as_deref());
        identity
    }
}

/// The scopes among claims.
pub(super) fn scopes(identity: &Identity, claim: Option<&str>) -> Vec<String> {
    let text = match claim {
        Some(claim) => identity.claim(claim),
        None => identity.claim("scope").or_else(|| identity.claim("scp")),
    };
    text.map(|text| text.split_ascii_whitespace().map(str::to_owned).collect()).unwrap_or_default()
}

const NO_KEYS: Fault =
    Fault::new(FaultKind::DestinationUnavailable, "the keys that tokens are verified with cannot be had");

fn wrong(flaw: &Flaw) -> Finding {
    Finding::refused(401, "the token is not valid", flaw.reason())
}

impl Method for Jwt {
    fn name(&self) -> &'static str {
        "jwt"
    }

    fn argument(&self) -> String {
        self.written.to_string()
    }

    fn challenge(&self, realm: &str) -> Option<String> {
        Some(format!("Bearer realm=\"{realm}\""))
    }

    fn credential_field(&self) -> Option<&str> {
        self.place.field()
    }

    fn check(&self, cx: &mut RequestCx<'_>) -> Finding {
        let judged = match self.place.find(cx) {
            Ok(Some(text)) => self.judge(cx, text, true),
            Ok(None) => return Finding::Absent,
            Err(refused) => return refused,
        };
        judged.unwrap_or_else(|wait| too_many(cx, wait))
    }

    fn resume(&self, cx: &mut RequestCx<'_>, got: JobResult) -> Finding {
        let text = match self.place.find(cx) {
            Ok(Some(text)) => text,
            Ok(None) => return Finding::Absent,
            Err(refused) => return refused,
        };
        if matches!(got, JobResult::NotAsked) {
            // Nothing is sent anywhere: what the token would be worth if its signature were right.
            let read = Token::read(text);
            let claims = read.and_then(|token| unverified(&token, &self.rules, cx.facts.unix_seconds));
            return match claims {
                Ok(verified) => Finding::Verified(self.identity(&verified.claims)),
                Err(flaw) => wrong(&flaw),
            };
        }
        let judged = self.judge(cx, text, false);
        judged.unwrap_or_else(|wait| too_many(cx, wait))
    }

    fn strip(&self, cx: &mut RequestCx<'_>) {
        self.place.strip(cx);
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        self.keys.remote().map(|keep| keep as Arc<dyn Upkeep>)
    }

    fn adopt(&self, former: &dyn Method) {
        let Some(former) = (former as &dyn Any).downcast_ref::<Self>() else { return };
        let attempts = former.attempts.read().unwrap_or_else(PoisonError::into_inner).clone();
        *self.attempts.write().unwrap_or_else(PoisonError::into_inner) = attempts;
        let Some(former) = former.keys.remote() else { return };
        if let Keys::Remote(keep) = &self.keys {
            let mut keep = keep.write().unwrap_or_else(PoisonError::into_inner);
            let is_same =
                keep.jwks.url() == former.jwks.url() && keep.ca == former.ca && keep.times == former.times;
            if is_same {
                *keep = former;
            }
        }
    }
}

#[cfg(test)]
mod tests;
