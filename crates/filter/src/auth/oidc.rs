//! `oidc:` browsers log in with an identity provider (OpenID Connect), and have a session in cookies afterwards.
//!
//! The protocol and what cookies hold are `thalweg_access::oidc`. Here: which request is what. Three paths are the
//! filter's own (callback, login, logout); on all others a session passes, a browser without one is sent to log in, and
//! everything else without one has no credential.

mod flow;
mod page;
#[cfg(test)]
mod tests;

use super::jwt::{leeway, times};
use super::{Finding, Method};
use crate::filter::{Upkeep, UpkeepTools};
use crate::{ConfigFiles, JobResult, RequestCx, ResponseCx, SecretSpec};
use flow::Asked;
use schemars::JsonSchema;
use serde::Deserialize;
use std::any::Any;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use thalweg_access::oidc::{Client, Provider, Sealer, safe_target};
use thalweg_access::{Recent, Times, https};
use thalweg_core::units::parse_duration;
use thalweg_http::HttpUrl;

/// Providers of one filter, scopes, parameters and places that may be listed.
const PROVIDERS: usize = 16;
const LISTED: usize = 32;
/// Largest file of certificates, in bytes.
const FILE: usize = 256 * 1024;
/// Sessions that are remembered as opened.
const REMEMBERED: usize = 8 * 1024;
/// How long a session lasts, where nothing is written, and the least and the most.
const MAX_AGE: Duration = Duration::from_secs(12 * 60 * 60);
const LEAST_AGE: Duration = Duration::from_secs(60);
const LONGEST_AGE: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Longest name of a provider or cookie, in bytes.
const NAME: usize = 64;

/// Identity providers, and the sessions of those who have logged in.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `providers` and `secret`")]
pub(crate) struct OidcSpec {
    /// Providers by a name of your own. With several, browsers choose on a page.
    #[schemars(extend("x-default-words" = "must be written", "minProperties" = 1, "maxProperties" = PROVIDERS))]
    providers: BTreeMap<String, OidcProviderSpec>,
    /// The secret of at least 32 bytes by which sessions are encrypted; the same on all replicas.
    #[schemars(extend("x-default-words" = "must be written"))]
    secret: Option<SecretSpec>,
    /// Secrets that were in use before: sessions under them go on.
    #[schemars(extend("x-default-words" = "none", "maxItems" = 7))]
    old_secrets: Vec<SecretSpec>,
    /// What clients call this site, `https://shop.example.com`.
    #[schemars(extend("x-default-words" = "as the request names it"))]
    #[schemars(extend("x-api" = "destination"))]
    url: Option<String>,
    /// The path that providers send browsers back to; it must be registered with them, and be one of this route.
    #[schemars(extend("x-default" = "/.auth/callback"))]
    callback: Option<String>,
    /// The path that begins a login: with `?to=/path` to return to, and `&provider=NAME`.
    #[schemars(extend("x-default" = "/.auth/login"))]
    login: Option<String>,
    /// The path that ends a session, here and with the provider.
    #[schemars(extend("x-default" = "/.auth/logout"))]
    logout: Option<String>,
    /// Where browsers go after a logout: paths of this site, or URLs. The first, or the one that `?to=` names.
    #[schemars(extend("x-default-words" = "`/`", "maxItems" = LISTED))]
    after_logout: Vec<String>,
    /// The name of the cookie; `__Host-` is put before it where there is TLS.
    #[schemars(extend("x-default" = "thalweg_session"))]
    cookie: Option<String>,
    /// How long a session lasts at most; it is refreshed until then.
    #[schemars(extend("x-range" = ["1m", "90d"], "x-default" = "12h"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["12h"]))]
    max_age: Option<String>,
    /// The claim that names the user.
    #[schemars(extend("x-default" = "sub"))]
    user: Option<String>,
    /// The claim that lists scopes, as a text with spaces or a list of texts.
    #[schemars(extend("x-default-words" = "`scope`, or else `scp`"))]
    scopes: Option<String>,
    /// Whether the session has the provider's access token, for `forward` as `{claim.access_token}`.
    #[schemars(extend("x-default" = false))]
    access_token: bool,
    /// How far the clocks of provider and proxy may differ.
    #[schemars(extend("x-range" = ["0s", "10m"], "x-default" = "30s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["30s"]))]
    leeway: Option<String>,
}

/// An identity provider.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `issuer` and `client_id`")]
pub(crate) struct OidcProviderSpec {
    /// Its URL, exactly as it names itself: `/.well-known/openid-configuration` below it says the rest.
    #[schemars(extend("x-default-words" = "must be written"))]
    #[schemars(extend("x-api" = "destination"))]
    issuer: String,
    /// Who the proxy is to it.
    #[schemars(extend("x-default-words" = "must be written"))]
    client_id: String,
    /// The proxy's secret with it.
    #[schemars(extend("x-default-words" = "a public client, with PKCE alone"))]
    client_secret: Option<SecretSpec>,
    /// Scopes that are asked for.
    #[schemars(extend("x-default-words" = "`openid`, `profile`, `email`", "maxItems" = LISTED))]
    scopes: Option<Vec<String>>,
    /// More parameters of the login, such as `prompt` or `hd`.
    #[schemars(extend("x-default-words" = "none", "maxProperties" = LISTED))]
    #[schemars(extend("x-named" = true))]
    parameters: BTreeMap<String, String>,
    /// What the page calls it on which browsers choose.
    #[schemars(extend("x-default-words" = "its name"))]
    title: Option<String>,
    /// Certificates in PEM that vouch for its servers.
    #[schemars(extend("x-default-words" = "those of the system"))]
    #[schemars(extend("x-api" = "reference"))]
    ca: Option<String>,
    /// Whether `issuer` may be without TLS: whoever stands in between can then log in as anybody.
    #[schemars(extend("x-default" = false))]
    #[schemars(extend("x-api" = "trust"))]
    allow_http: bool,
    /// How often its endpoints and keys are fetched.
    #[schemars(extend("x-range" = ["10s", "30d"], "x-default" = "5m"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["5m", "1h"]))]
    refresh: Option<String>,
    /// How long they are used after they were fetched, when they cannot be fetched again.
    #[schemars(extend("x-range" = ["10s", "30d"], "x-default" = "24h"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["24h"]))]
    stale: Option<String>,
}

impl OidcSpec {
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Method>, String> {
        if self.providers.is_empty() || self.providers.len() > PROVIDERS {
            return Err(format!("`oidc` takes from 1 to {PROVIDERS} providers"));
        }
        let secret =
            self.secret.as_ref().ok_or("`oidc` has no `secret`; `openssl rand -hex 32` makes one")?;
        let secrets = std::iter::once(secret).chain(&self.old_secrets).map(|secret| secret.read(files));
        let sealer = Sealer::new(secrets.collect::<Result<_, _>>()?)?;
        let leeway = leeway(self.leeway.as_deref())?;
        let known =
            self.providers.iter().map(|(name, spec)| spec.build(name, files, (leeway, self.access_token)));
        let keep = Arc::new(Keep(known.collect::<Result<_, _>>()?));
        let max_age = self.max_age.as_deref().map_or(Ok(MAX_AGE), parse_duration)?;
        if !(LEAST_AGE..=LONGEST_AGE).contains(&max_age) {
            return Err("`max_age` must be from 1m to 90d".into());
        }
        let cookie = self.cookie.as_deref().unwrap_or("thalweg_session");
        if !is_name(cookie) || cookie.starts_with("__") {
            return Err(format!("`{cookie}` is no name of a cookie; write letters, digits, `-` and `_`"));
        }
        let [callback, login, logout] = [
            path("callback", self.callback.as_deref(), "/.auth/callback")?,
            path("login", self.login.as_deref(), "/.auth/login")?,
            path("logout", self.logout.as_deref(), "/.auth/logout")?,
        ];
        if callback == login || login == logout || callback == logout {
            return Err("`callback`, `login` and `logout` are three different paths".into());
        }
        Ok(Arc::new(Oidc {
            written: self.written(),
            keep: RwLock::new(keep),
            sealer,
            url: self.url.as_deref().map(origin).transpose()?,
            callback,
            login,
            logout,
            after_logout: self.after_logout()?,
            cookie: cookie.into(),
            max_age: max_age.as_secs(),
            user: self.user.as_deref().unwrap_or("sub").into(),
            scopes: self.scopes.as_deref().map(Into::into),
            opened: Recent::new(REMEMBERED),
        }))
    }

    fn after_logout(&self) -> Result<Box<[Box<str>]>, String> {
        if self.after_logout.is_empty() {
            return Ok(Box::from(["/".into()]));
        }
        let is_place = |place: &String| *safe_target(place) == **place || HttpUrl::parse(place).is_ok();
        match self.after_logout.iter().find(|place| !is_place(place)) {
            Some(place) => Err(format!("`{place}` is neither a path of this site nor a URL")),
            None if self.after_logout.len() > LISTED => {
                Err(format!("`after_logout` has at most {LISTED} places"))
            }
            None => Ok(self.after_logout.iter().map(|place| place.as_str().into()).collect()),
        }
    }

    /// All of it on one line.
    fn written(&self) -> Box<str> {
        let mut words: Vec<String> = Vec::new();
        for (name, spec) in &self.providers {
            let scopes = spec.scopes.as_ref().map(|scopes| format!(" for {}", scopes.join(" ")));
            words.push(format!("{name} {} as {}{}", spec.issuer, spec.client_id, scopes.unwrap_or_default()));
            words.extend(spec.parameters.iter().map(|(name, value)| format!("{name} {value}")));
            words.extend(spec.title.iter().chain(&spec.ca).cloned());
            words.extend(other(&spec.refresh, "5m").chain(other(&spec.stale, "24h")).cloned());
        }
        words.extend(self.url.clone());
        for (written, default) in [
            (&self.callback, "/.auth/callback"),
            (&self.login, "/.auth/login"),
            (&self.logout, "/.auth/logout"),
            (&self.cookie, "thalweg_session"),
            (&self.max_age, "12h"),
        ] {
            words.extend(other(written, default).cloned());
        }
        words.extend(self.after_logout.iter().map(|place| format!("then {place}")));
        words.extend(other(&self.user, "sub").map(|claim| format!("user {claim}")));
        words.extend(self.scopes.iter().map(|claim| format!("scopes {claim}")));
        words.extend(self.access_token.then(|| "with the access token".to_owned()));
        words.extend(other(&self.leeway, "30s").map(|time| format!("leeway {time}")));
        words.extend(
            (!self.old_secrets.is_empty()).then(|| format!("{} old secrets", self.old_secrets.len())),
        );
        words.join(", ").into()
    }
}

impl OidcProviderSpec {
    fn build(
        &self,
        name: &str,
        files: &dyn ConfigFiles,
        (leeway, keeps): (u64, bool),
    ) -> Result<Known, String> {
        let fail = |why: String| format!("provider `{name}`: {why}");
        if !is_name(name) {
            return Err(format!("`{name}` is no name of a provider; write letters, digits, `-` and `_`"));
        }
        if self.client_id.is_empty() || self.issuer.is_empty() {
            return Err(fail("`issuer` and `client_id` must be written".into()));
        }
        let url = HttpUrl::parse(&self.issuer).map_err(|why| fail(format!("`issuer`: {why}")))?;
        if !url.tls() && !self.allow_http {
            return Err(fail(
                "`issuer` is without TLS: whoever stands in between can then log in as anybody; write `https://`, or \
                 `allow_http: true`"
                    .into(),
            ));
        }
        let scopes =
            self.scopes.clone().unwrap_or_else(|| ["openid", "profile", "email"].map(str::to_owned).to_vec());
        let is_scope =
            |scope: &String| !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic());
        if !scopes.iter().any(|scope| scope == "openid")
            || !scopes.iter().all(is_scope)
            || scopes.len() > LISTED
        {
            return Err(fail(format!("`scopes` has `openid` and at most {LISTED} words")));
        }
        let secret =
            self.client_secret.as_ref().map(|secret| secret.read(files)).transpose().map_err(fail)?;
        let secret = secret.map(String::from_utf8).transpose();
        let secret = secret.map_err(|_| fail("`client_secret` is not text".into()))?;
        let ca = self.ca.as_deref().map(|file| files.read(file, FILE)).transpose().map_err(fail)?;
        let times = times(self.refresh.as_deref(), self.stale.as_deref()).map_err(fail)?;
        let client = Client {
            id: self.client_id.clone(),
            secret,
            scopes: scopes.join(" "),
            parameters: self.parameters.clone().into_iter().collect(),
        };
        let http = https(ca.as_deref()).map_err(fail)?;
        let provider =
            Provider::new((name, &self.issuer), client, http, (times, leeway), keeps).map_err(fail)?;
        let title = self.title.as_deref().unwrap_or(name).into();
        Ok(Known { provider: Arc::new(provider), title, ca, times })
    }
}

/// What is written, unless that is the default.
fn other<'w>(written: &'w Option<String>, default: &str) -> impl Iterator<Item = &'w String> {
    written.iter().filter(move |written| *written != default)
}

fn is_name(text: &str) -> bool {
    (1..=NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// A path of the filter's own.
fn path(key: &str, written: Option<&str>, default: &str) -> Result<Box<str>, String> {
    let path = written.unwrap_or(default);
    if safe_target(path) != path || path == "/" || path.contains(['?', '#', '%']) {
        return Err(format!("`{key}` is a path of this site, such as `{default}`"));
    }
    Ok(path.into())
}

/// What clients call the site: scheme, host and port.
fn origin(written: &str) -> Result<Box<str>, String> {
    let url = HttpUrl::parse(written).map_err(|why| format!("`url`: {why}"))?;
    if url.target() != "/" {
        return Err("`url` has no path; write `https://shop.example.com`".into());
    }
    Ok(url.to_string().into())
}

/// A provider of the configuration.
#[derive(Debug)]
struct Known {
    provider: Arc<Provider>,
    title: Box<str>,
    ca: Option<Vec<u8>>,
    times: Times,
}

/// What is known of providers is refreshed.
#[derive(Debug)]
struct Keep(Vec<Known>);

impl Keep {
    fn is_same(&self, other: &Self) -> bool {
        let is_same = |(one, two): (&Known, &Known)| {
            one.provider.is_same(&two.provider)
                && one.ca == two.ca
                && one.times == two.times
                && one.title == two.title
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(is_same)
    }

    fn marked(&self, mark: &str) -> Option<&Arc<Provider>> {
        self.0.iter().map(|known| &known.provider).find(|provider| provider.mark() == mark)
    }

    fn named(&self, name: &str) -> Option<&Arc<Provider>> {
        self.0.iter().map(|known| &known.provider).find(|provider| provider.name == name)
    }
}

impl Upkeep for Keep {
    fn run(self: Arc<Self>, tools: UpkeepTools) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let providers = self.0.iter().map(|known| known.provider.clone()).collect();
            Provider::keep_all(providers, tools.say).await;
        })
    }
}

#[derive(Debug)]
struct Oidc {
    written: Box<str>,
    keep: RwLock<Arc<Keep>>,
    sealer: Sealer,
    /// Scheme, host and port as clients know them; `None`: as each request has them.
    url: Option<Box<str>>,
    callback: Box<str>,
    login: Box<str>,
    logout: Box<str>,
    after_logout: Box<[Box<str>]>,
    cookie: Box<str>,
    max_age: u64,
    user: Box<str>,
    scopes: Option<Box<str>>,
    opened: Recent<flow::Opened>,
}

/// Values of `Set-Cookie` for the response.
struct NewCookies(Vec<String>);

impl Oidc {
    fn keep(&self) -> Arc<Keep> {
        self.keep.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Method for Oidc {
    fn name(&self) -> &'static str {
        "oidc"
    }

    fn argument(&self) -> String {
        self.written.to_string()
    }

    /// A browser is sent to the provider. What gets a 401 is a program: it is told that a token is what it lacks, which
    /// makes no browser ask for a password.
    fn challenge(&self, realm: &str) -> Option<String> {
        Some(format!("Bearer realm=\"{realm}\""))
    }

    fn check(&self, cx: &mut RequestCx<'_>) -> Finding {
        let path = cx.facts.path;
        match () {
            () if path == self.callback.as_bytes() => self.on_callback(cx),
            () if path == self.login.as_bytes() => self.on_login(cx),
            () if path == self.logout.as_bytes() => self.on_logout(cx),
            () => self.on_other(cx),
        }
    }

    fn resume(&self, cx: &mut RequestCx<'_>, got: JobResult) -> Finding {
        match cx.recall::<Asked>() {
            Some(asked) => self.resumed(cx, asked, got),
            None => Finding::refused(401, "the login could not be checked", "resumed without a question"),
        }
    }

    fn strip(&self, cx: &mut RequestCx<'_>) {
        let name = self.cookie.as_bytes();
        super::credential_place::strip_cookies(cx, |known| {
            let known = known.strip_prefix(b"__Host-").unwrap_or(known);
            // Sessions, logins and the count of logins: all begin alike.
            known.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"_"))
        });
    }

    fn sees_responses(&self) -> bool {
        true
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let Some(NewCookies(cookies)) = cx.remembered::<NewCookies>() else { return };
        for cookie in cookies.clone() {
            cx.fields.append("Set-Cookie", cookie.as_bytes());
        }
        // A cache that others share must not give them this session.
        cx.fields.append("Cache-Control", b"private");
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        Some(self.keep() as Arc<dyn Upkeep>)
    }

    fn adopt(&self, former: &dyn Method) {
        let Some(former) = (former as &dyn Any).downcast_ref::<Self>() else { return };
        let before = former.keep();
        if self.keep().is_same(&before) {
            *self.keep.write().unwrap_or_else(PoisonError::into_inner) = before;
        }
    }
}
