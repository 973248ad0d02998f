//! An identity provider, as a client of it: discovery, keys, codes and refresh tokens for tokens.

use super::flights::Flights;
use super::form::{encoded, form};
use super::{Login, Metadata, Session};
use crate::jwt::{Algorithm, Flaw, KeySet, Rules, Token, Verified, object, verify};
use crate::remote::{Remote, Say, Times, keep};
use crate::{digest, jwks, web};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_client::HttpClient;
use thalweg_http::HttpUrl;
use tokio::task::JoinSet;

/// Longest token that is taken from a provider, in bytes.
const TOKEN: usize = 8 * 1024;
/// Tokens of a provider that says nothing of how long they last, and whose token says nothing either, in seconds.
const DEFAULT_LASTS: u64 = 3600;

/// Who the proxy is to a provider.
#[derive(Clone)]
pub struct Client {
    /// Its id.
    pub id: String,
    /// Its secret; none: it is a public client.
    pub secret: Option<String>,
    /// Scopes that it asks for.
    pub scopes: String,
    /// Parameters of the login, beside those of the standard.
    pub parameters: Vec<(String, String)>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)
    }
}

/// Why a provider gave nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Failure {
    /// It refuses: the code or the refresh token is worth nothing, or what it gave proves nothing.
    Refused(String),
    /// It cannot be asked, or answers nonsense.
    Unavailable(String),
}

/// A provider.
#[derive(Debug)]
pub struct Provider {
    /// Its name in the configuration.
    pub name: String,
    /// What sessions and logins name it by.
    mark: String,
    issuer: String,
    discovery: HttpUrl,
    /// Who the proxy is to it.
    pub client: Client,
    http: HttpClient,
    leeway: u64,
    keeps_access_token: bool,
    metadata: Remote<Metadata>,
    keys: Remote<KeySet>,
    flights: Flights,
}

impl Provider {
    /// Nothing is fetched yet. `keeps_access_token`: sessions have it too.
    ///
    /// # Errors
    /// The issuer is no URL.
    pub fn new(
        (name, issuer): (&str, &str),
        client: Client,
        http: HttpClient,
        (times, leeway): (Times, u64),
        keeps_access_token: bool,
    ) -> Result<Self, String> {
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let discovery = HttpUrl::parse(&url).map_err(|why| format!("`issuer` is no URL: {why}"))?;
        if issuer.contains('?') {
            return Err("`issuer` has no query".into());
        }
        let mark = digest(&[name.as_bytes(), issuer.as_bytes(), client.id.as_bytes()]);
        Ok(Self {
            name: name.to_owned(),
            mark: URL_SAFE_NO_PAD.encode(&mark[..12]),
            issuer: issuer.to_owned(),
            discovery,
            client,
            http,
            leeway,
            keeps_access_token,
            metadata: Remote::new(times),
            keys: Remote::new(times),
            flights: Flights::default(),
        })
    }

    /// What tells it from others: one that differs in it is another provider.
    pub fn is_same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.issuer == other.issuer
            && self.client.id == other.client.id
            && self.client.secret == other.client.secret
            && self.client.scopes == other.client.scopes
            && self.client.parameters == other.client.parameters
            && self.leeway == other.leeway
            && self.keeps_access_token == other.keeps_access_token
    }

    /// What sessions and logins name it by: one of another issuer or client is not one of this.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// As tokens have it.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Its endpoints, where they are known.
    pub fn known(&self, now: Instant) -> Option<Arc<Metadata>> {
        self.metadata.current(now)
    }

    /// How long it is until what is known of it is to be fetched again.
    pub fn due(&self, now: Instant) -> Duration {
        self.metadata.due(now).min(self.keys.due(now))
    }

    /// Fetches what is known of it again, unless somebody has since `asked`. Cancel-safe.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub async fn refresh(&self, asked: Instant) -> Result<(), String> {
        self.refresh_metadata(asked).await?;
        self.refresh_keys(asked).await
    }

    /// Refreshes what is known of these whenever that is due. Never ends. Cancel-safe. Needs a runtime.
    pub async fn keep_all(providers: Vec<Arc<Self>>, say: Say) {
        let mut all = JoinSet::new();
        for provider in providers {
            let say = say.clone();
            all.spawn(provider.keep(say));
        }
        while all.join_next().await.is_some() {}
    }

    async fn keep(self: Arc<Self>, say: Say) {
        let what = format!("auth: what is known of the provider `{}`", self.name);
        keep(what, |now| self.due(now), |asked| self.refresh(asked), say).await;
    }

    async fn refresh_metadata(&self, asked: Instant) -> Result<(), String> {
        let fetch = async || {
            let body = web::get(&self.http, &self.discovery).await?;
            let read = Metadata::read(&body, &self.issuer);
            let read =
                read.map_err(|why| format!("the document of {} cannot be used: {why}", self.discovery))?;
            Ok((read, digest(&[&body])))
        };
        self.metadata.refresh(asked, fetch).await
    }

    async fn refresh_keys(&self, asked: Instant) -> Result<(), String> {
        let metadata =
            self.metadata.current(Instant::now()).ok_or("the provider's endpoints are not known")?;
        self.keys.refresh(asked, || jwks::fetch(&self.http, &metadata.keys)).await
    }

    /// Its endpoints; fetched now where they are not known and may be asked for. Cancel-safe.
    ///
    /// # Errors
    /// They cannot be had.
    pub async fn metadata(&self) -> Result<Arc<Metadata>, Failure> {
        let now = Instant::now();
        if let Some(known) = self.metadata.current(now) {
            return Ok(known);
        }
        if self.metadata.may_ask(now) {
            self.refresh_metadata(now).await.map_err(Failure::Unavailable)?;
        }
        let why = || self.metadata.failure().unwrap_or_else(|| "its endpoints are not known".into());
        self.metadata.current(Instant::now()).ok_or_else(|| Failure::Unavailable(why()))
    }

    /// A session for the code of a callback (OpenID Connect Core §3.1.3). `is_named`: the callback names this issuer.
    /// Cancel-safe, but a code is valid only once.
    ///
    /// # Errors
    /// No session can be made.
    pub async fn log_in(
        &self,
        login: &Login,
        (code, is_named): (&str, bool),
        redirect: &str,
    ) -> Result<Session, Failure> {
        // RFC 9207 §2.4: the code may come from another provider.
        if self.metadata().await?.names_itself && !is_named {
            return Err(Failure::Refused("the callback does not name the provider, and must".into()));
        }
        let grant = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", &login.verifier),
        ];
        let tokens = self.ask(&grant).await?;
        let text = |name: &str| token(&tokens, name);
        let missing = || Failure::Unavailable("the provider gave no `id_token`".into());
        let id_token = text("id_token")?.ok_or_else(missing)?;
        let verified = self.verify(&id_token).await?;
        if verified.claims.get("nonce").and_then(Value::as_str) != Some(&login.nonce) {
            return Err(Failure::Refused(Flaw::Nonce.reason().into()));
        }
        let now = unix_seconds();
        Ok(Session {
            provider: self.mark.clone(),
            id_token,
            access_token: text("access_token")?.filter(|_| self.keeps_access_token),
            refresh_token: text("refresh_token")?,
            begun: now,
            renewed: now,
            ends: self.ends(&tokens, Some(&verified), now),
        })
    }

    /// The session with new tokens (OpenID Connect Core §12). Requests of one session share one refresh. Cancel-safe.
    ///
    /// # Errors
    /// There are none.
    pub async fn renew(self: &Arc<Self>, session: &Arc<Session>) -> Result<Arc<Session>, Failure> {
        let Some(refresh_token) = &session.refresh_token else {
            return Err(Failure::Refused("the session has no refresh token".into()));
        };
        let key = digest(&[self.name.as_bytes(), refresh_token.as_bytes()]);
        let (provider, session) = (Arc::clone(self), Arc::clone(session));
        let refresh = || async move { provider.renewed(&session).await.map(Arc::new) };
        self.flights.join(key, Instant::now(), refresh).await
    }

    async fn renewed(&self, session: &Session) -> Result<Session, Failure> {
        let old = session.refresh_token.as_deref().unwrap_or_default();
        let tokens = self.ask(&[("grant_type", "refresh_token"), ("refresh_token", old)]).await?;
        let text = |name: &str| token(&tokens, name);
        let mut verified = None;
        let id_token = match text("id_token")? {
            None => session.id_token.clone(),
            Some(id_token) => {
                let new = self.verify(&id_token).await?;
                let known = session.claims().unwrap_or_default();
                if new.claims.get("sub") != known.get("sub") {
                    return Err(Failure::Refused("the new token is another user's".into()));
                }
                verified = Some(new);
                id_token
            }
        };
        let now = unix_seconds();
        Ok(Session {
            provider: self.mark.clone(),
            id_token,
            access_token: text("access_token")?.filter(|_| self.keeps_access_token),
            refresh_token: Some(text("refresh_token")?.unwrap_or_else(|| old.to_owned())),
            begun: session.begun,
            renewed: now,
            ends: self.ends(&tokens, verified.as_deref(), now),
        })
    }

    /// When tokens end: as the provider says with them, else as the token says itself.
    fn ends(&self, tokens: &Map<String, Value>, verified: Option<&Verified>, now: u64) -> u64 {
        let lasts = tokens.get("expires_in").and_then(Value::as_u64);
        let own = || verified.map(|verified| verified.ends.saturating_sub(self.leeway));
        match lasts {
            Some(lasts) => now.saturating_add(lasts),
            None => own().unwrap_or(now.saturating_add(DEFAULT_LASTS)),
        }
    }

    /// Asks the token endpoint.
    async fn ask(&self, grant: &[(&str, &str)]) -> Result<Map<String, Value>, Failure> {
        let metadata = self.metadata().await?;
        let mut pairs = grant.to_vec();
        let mut basic = None;
        match &self.client.secret {
            // RFC 6749 §2.3.1: both as in a form, then as in Basic.
            Some(secret) if !metadata.secret_in_form => {
                let pair = format!("{}:{}", encoded(&self.client.id), encoded(secret));
                basic = Some(format!("Basic {}", STANDARD.encode(pair)));
            }
            secret => {
                pairs.push(("client_id", &self.client.id));
                pairs.extend(secret.as_deref().map(|secret| ("client_secret", secret)));
            }
        }
        let answer = web::post(&self.http, &metadata.token, form(&pairs), basic).await;
        let (status, body) = answer.map_err(Failure::Unavailable)?;
        let read = object(&body);
        if status.is_success() {
            return read
                .map_err(|why| Failure::Unavailable(format!("{} answers with {why}", metadata.token)));
        }
        // RFC 6749 §5.2: one of few words.
        let word = read.ok().and_then(|body| body.get("error").and_then(Value::as_str).map(word));
        let word = word.unwrap_or_default();
        let why = format!("{} answers {} {word}", metadata.token, status.as_u16());
        let why = why.trim_end().to_owned();
        match status.as_u16() {
            400 | 401 if word == "invalid_grant" => Err(Failure::Refused(why)),
            _ => Err(Failure::Unavailable(why)),
        }
    }

    /// Verifies a token that says who a user is (OpenID Connect Core §3.1.3.7).
    async fn verify(&self, text: &str) -> Result<Arc<Verified>, Failure> {
        let refused = |flaw: Flaw| Failure::Refused(flaw.reason().into());
        let token = Token::read(text.as_bytes()).map_err(refused)?;
        let asked = Instant::now();
        if self.keys.current(asked).is_none() {
            self.refresh_keys(asked).await.map_err(Failure::Unavailable)?;
        }
        let why = || self.keys.failure().unwrap_or_else(|| "the provider's keys are not known".into());
        let keys = |now| self.keys.current(now).ok_or_else(|| Failure::Unavailable(why()));
        let rules = self.rules();
        let mut verified = verify(&token, &*keys(asked)?, &rules, unix_seconds());
        if verified == Err(Flaw::UnknownKey) && self.keys.may_ask(Instant::now()) {
            self.refresh_keys(Instant::now()).await.map_err(Failure::Unavailable)?;
            verified = verify(&token, &*keys(Instant::now())?, &rules, unix_seconds());
        }
        let verified = verified.map_err(refused)?;
        match verified.claims.get("azp") {
            Some(party) if *party != self.client.id => Err(refused(Flaw::Audience)),
            _ => Ok(verified),
        }
    }

    fn rules(&self) -> Rules {
        Rules {
            algorithms: Algorithm::ALL
                .map(|(_, algorithm)| algorithm)
                .into_iter()
                .filter(|it| !it.is_shared())
                .collect(),
            issuers: vec![self.issuer.clone()],
            audiences: vec![self.client.id.clone()],
            leeway: self.leeway,
            required: ["iss", "sub", "aud", "exp", "iat"].map(str::to_owned).to_vec(),
        }
    }
}

/// A word of a provider for a log: short, and of letters alone.
fn word(text: &str) -> String {
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
    text.chars().filter(is_plain).take(40).collect()
}

/// A token of an answer.
fn token(answer: &Map<String, Value>, name: &str) -> Result<Option<String>, Failure> {
    match answer.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() <= TOKEN => Ok(Some(text.clone())),
        Some(_) => {
            Err(Failure::Unavailable(format!("the provider's `{name}` is not text, or longer than 8 KiB")))
        }
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &[u8] =
        br#"{"issuer": "https://id.test", "authorization_endpoint": "https://id.test/auth",
        "token_endpoint": "https://id.test/token", "jwks_uri": "https://id.test/keys",
        "authorization_response_iss_parameter_supported": true}"#;

    /// After a start, a callback may come before the provider's document is known.
    #[test]
    fn a_callback_that_must_name_its_provider_and_does_not_is_refused() {
        let time = Duration::from_secs(60);
        let client = Client { id: "c".into(), secret: None, scopes: "openid".into(), parameters: Vec::new() };
        let times = (Times { refresh: time, stale: time }, 0);
        let http = web::https(None).unwrap();
        let provider = Provider::new(("corp", "https://id.test"), client, http, times, false).unwrap();
        let login = Login::begin("corp", "/", 0).unwrap();
        let document = Metadata::read(DOCUMENT, "https://id.test").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let known = async || Ok((document.clone(), digest(&[b"it"])));
            provider.metadata.refresh(Instant::now(), known).await.unwrap();
            let refused = provider.log_in(&login, ("code", false), "https://a.test/cb").await;
            let Err(Failure::Refused(why)) = refused else { panic!("{refused:?}") };
            assert!(why.contains("does not name"), "{why}");
        });
    }
}
