//! What becomes of each request: a session, a step of a login, or none.

use super::super::jwt::scopes;
use super::{NewCookies, Oidc, page};
use crate::auth::Finding;
use crate::{Identity, Job, JobResult, Reply, RequestCx};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use thalweg_access::digest;
use thalweg_access::oidc::{
    Callback, Cookies, Failure, LOGIN_LASTS, Login, Metadata, Provider, Session, Stage, encoded, join,
    parameters, safe_target,
};
use thalweg_core::{Fault, FaultKind};

/// For all that a login or a refresh asks a provider.
const TIME: Duration = Duration::from_secs(18);
/// Logins of a browser under way; older ones are given up for another.
const LOGINS: usize = 6;
/// Logins that a browser may finish within [`AGAIN`] seconds and still have no session: more are a loop.
const LOOP: u64 = 4;
const AGAIN: u64 = 60;
const TRIES: &str = "tries";

/// A session that was opened, and who it is.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    session: Arc<Session>,
    identity: Arc<Identity>,
}

/// What was asked of a provider, and why.
pub(super) enum Asked {
    /// Its endpoints, to send the browser there, which returns to this target.
    ToLogIn(Arc<Provider>, String),
    /// A session for the code of this login.
    Session(Login),
    /// A session in place of this one, which had so many cookies.
    Renewed(Opened, usize),
    /// Its endpoints, to end this session, which had so many cookies.
    ToLogOut(Arc<Provider>, Arc<Session>, usize),
}

const NO_PROVIDER: Fault = Fault {
    status: 503,
    ..Fault::new(FaultKind::DestinationUnavailable, "the identity provider gives no usable answer")
};

impl Oidc {
    /// A request for the site itself.
    pub(super) fn on_other(&self, cx: &mut RequestCx<'_>) -> Finding {
        let (opened, had) = match self.session(cx) {
            Ok(found) => found,
            Err(reason) => return self.without(cx, reason),
        };
        let keep = self.keep();
        let Some(provider) = keep.marked(&opened.session.provider).cloned() else {
            return self.without(cx, "the session is of a provider that is not configured");
        };
        match opened.session.stage(self.max_age, cx.facts.unix_seconds) {
            Stage::Fresh => Finding::Verified((*opened.identity).clone()),
            Stage::Over => self.without(cx, "the session is over"),
            Stage::Ending | Stage::Ended => {
                let session = opened.session.clone();
                cx.remember(Asked::Renewed(opened, had));
                Finding::Wait(Job::call(TIME, async move { provider.renew(&session).await }))
            }
        }
    }

    /// The session of the request's cookies, and how many these are.
    fn session(&self, cx: &RequestCx<'_>) -> Result<(Opened, usize), &'static str> {
        let (cookies, view) = (self.cookies(cx, ""), cx.fields.view());
        if view.cookie(&cookies.name).is_none() {
            return Err("no session");
        }
        let (value, had) = join(&cookies.name, |name| view.cookie(name))
            .ok_or("the cookies of the session are not whole")?;
        let key = digest(&[&value]);
        if let Some(opened) = self.opened.get(&key) {
            return Ok((opened, had));
        }
        let session =
            Session::open(&self.sealer, &value).ok_or("the session was not made here, or was changed")?;
        let opened = self.opened(session.into()).ok_or("the session holds no token")?;
        self.opened.put(key, opened.clone());
        Ok((opened, had))
    }

    fn opened(&self, session: Arc<Session>) -> Option<Opened> {
        let mut identity = Identity { claims: session.claims()?, ..Identity::new("oidc", "") };
        identity.user = identity.user_of(&self.user);
        identity.scopes = scopes(&identity, self.scopes.as_deref());
        if let Some(token) = &session.access_token {
            identity.claims.insert("access_token".into(), Value::String(token.clone()));
        }
        Some(Opened { session, identity: identity.into() })
    }

    /// There is no session that counts: a browser that loads a page logs in, and all else has no credential.
    fn without(&self, cx: &mut RequestCx<'_>, reason: &'static str) -> Finding {
        if !is_page(cx) {
            return Finding::Absent;
        }
        cx.explain(format!("oidc: {reason}"));
        let to = target(cx);
        let keep = self.keep();
        match &keep.0[..] {
            [only] => self.log_in(cx, &only.provider, to),
            _ => redirect(&format!("{}?to={}", self.login, encoded(safe_target(&to))), Vec::new()),
        }
    }

    /// `login`: begins one, with the provider that the query names.
    pub(super) fn on_login(&self, cx: &mut RequestCx<'_>) -> Finding {
        let query = cx.facts.query.unwrap_or_default();
        let parameter =
            |wanted: &str| parameters(query).find(|(name, _)| name == wanted).map(|(_, value)| value);
        let to = parameter("to").unwrap_or_default();
        let keep = self.keep();
        let named = parameter("provider").and_then(|name| keep.named(&name).cloned());
        match (named, &keep.0[..]) {
            (Some(provider), _) => self.log_in(cx, &provider, to),
            (None, [only]) => self.log_in(cx, &only.provider, to),
            (None, all) => {
                let links = all.iter().map(|known| (known.provider.name.as_str(), &*known.title));
                Finding::Reply(Box::new(page::choose(links, &self.login, safe_target(&to))))
            }
        }
    }

    fn log_in(&self, cx: &mut RequestCx<'_>, provider: &Arc<Provider>, to: String) -> Finding {
        if self.tries(cx) >= LOOP {
            return Finding::refused(
                403,
                "logging in gives no session that lasts; are cookies of this site blocked?",
                "several logins within a minute, and none gave a session that lasts",
            );
        }
        if let Some(metadata) = provider.known(cx.facts.now) {
            return self.send_to_provider(cx, (provider, &metadata), &to);
        }
        let asked = provider.clone();
        cx.remember(Asked::ToLogIn(provider.clone(), to));
        Finding::Wait(Job::call(TIME, async move { asked.metadata().await }))
    }

    fn send_to_provider(
        &self,
        cx: &mut RequestCx<'_>,
        (provider, metadata): (&Provider, &Metadata),
        to: &str,
    ) -> Finding {
        let begun = Login::begin(provider.mark(), to, cx.facts.unix_seconds);
        let sealed = begun.and_then(|login| Some((login.seal(&self.sealer)?, login)));
        let Some((sealed, login)) = sealed else { return no_randomness() };
        let cookies = self.cookies(cx, &login_suffix(&login.state));
        let Some(mut set) = cookies.keep(&sealed, LOGIN_LASTS, 0) else { return no_randomness() };
        let under_way = self.logins(cx);
        if under_way.len() >= LOGINS {
            set.extend(under_way.iter().flat_map(|cookies| cookies.remove(1)));
        }
        let client = &provider.client;
        let more: Vec<_> =
            client.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let url = login.url(metadata, (&client.id, &client.scopes, &self.redirect_uri(cx)), &more);
        redirect(&url, set)
    }

    /// `callback`: the provider has sent the browser back.
    pub(super) fn on_callback(&self, cx: &mut RequestCx<'_>) -> Finding {
        let Some(callback) = Callback::read(cx.facts.query.unwrap_or_default()) else {
            return broken("the callback has no code and state");
        };
        let keep = self.keep();
        let login = match self.login_of(cx, &callback) {
            Ok(login) => login,
            // The button "back" after a login, or the second of two clicks.
            Err(_) if self.session(cx).is_ok() => return redirect("/", Vec::new()),
            Err(reason) => return broken(reason),
        };
        let Some(provider) = keep.marked(&login.provider).cloned() else {
            return broken("the login is with a provider that is not configured");
        };
        // The provider's document may not be known yet; then the login checks `iss` after fetching it.
        let names_itself = provider.known(cx.facts.now).is_some_and(|metadata| metadata.names_itself);
        let is_named = callback.issuer.is_some();
        if callback.issuer.as_deref().map_or(names_itself, |issuer| issuer != provider.issuer()) {
            return broken("the callback is of another provider");
        }
        let Some(code) = callback.code else {
            let word: String = callback.error.unwrap_or_default();
            let word: String =
                word.chars().filter(|it| it.is_ascii_alphanumeric() || *it == '_').take(40).collect();
            return Finding::refused(
                403,
                "the identity provider has refused the login",
                format!("the provider says {word}"),
            );
        };
        let redirect = self.redirect_uri(cx);
        let asked = login.clone();
        cx.remember(Asked::Session(login));
        Finding::Wait(Job::call(
            TIME,
            async move { provider.log_in(&asked, (&code, is_named), &redirect).await },
        ))
    }

    /// The login that a callback answers, by the cookie of the browser that began it.
    fn login_of(&self, cx: &RequestCx<'_>, callback: &Callback) -> Result<Login, &'static str> {
        const NONE: &str = "no such login is under way in this browser";
        Login::tag(&callback.state).ok_or(NONE)?;
        let cookies = self.cookies(cx, &login_suffix(&callback.state));
        let view = cx.fields.view();
        let (value, _) = join(&cookies.name, |name| view.cookie(name)).ok_or(NONE)?;
        let login = Login::open(&self.sealer, &value, cx.facts.unix_seconds);
        let login = login.ok_or("the login took too long, or its cookie was changed")?;
        if login.is_answered_by(&callback.state) {
            Ok(login)
        } else {
            Err("the callback answers another login")
        }
    }

    /// `logout`: a page with a button, whose form ends the session here and at the provider. A page of another site
    /// can neither submit that form nor end a session with a link or an image.
    pub(super) fn on_logout(&self, cx: &mut RequestCx<'_>) -> Finding {
        match cx.facts.method {
            b"POST" if self.is_sent_by_own_page(cx) => {}
            b"POST" => {
                let detail = "a logout is sent by a page of this site";
                return Finding::refused(
                    403,
                    detail,
                    "the form of a logout was not sent by a page of this site",
                );
            }
            b"GET" | b"HEAD" => {
                let to = self.place_after_logout(cx);
                return Finding::Reply(Box::new(page::log_out(&self.logout, to)));
            }
            _ => {
                let reply = Reply::new(405).field("Allow", b"GET, HEAD, POST");
                return Finding::Reply(Box::new(reply.field("Cache-Control", b"no-store")));
            }
        }
        let keep = self.keep();
        let found = self.session(cx).ok();
        let found = found
            .and_then(|(opened, had)| Some((keep.marked(&opened.session.provider)?.clone(), opened, had)));
        let Some((provider, opened, had)) = found else {
            let all = thalweg_access::oidc::CHUNKS;
            return see_other(self.place_after_logout(cx), self.gone(cx, all));
        };
        if let Some(metadata) = provider.known(cx.facts.now) {
            return self.send_to_log_out(cx, Some((&provider, &metadata)), (&opened.session, had));
        }
        cx.remember(Asked::ToLogOut(provider.clone(), opened.session, had));
        Finding::Wait(Job::call(TIME, async move { provider.metadata().await }))
    }

    fn send_to_log_out(
        &self,
        cx: &RequestCx<'_>,
        at: Option<(&Provider, &Metadata)>,
        (session, had): (&Session, usize),
    ) -> Finding {
        let after = self.place_after_logout(cx);
        let there = at.and_then(|(provider, metadata)| Some((provider, metadata.end_session.as_ref()?)));
        let Some((provider, url)) = there else { return see_other(after, self.gone(cx, had)) };
        let back =
            if after.starts_with('/') { format!("{}{after}", self.origin(cx)) } else { after.to_owned() };
        let url = url.text();
        let joint = if url.contains('?') { '&' } else { '?' };
        let to = format!(
            "{url}{joint}id_token_hint={}&client_id={}&post_logout_redirect_uri={}",
            encoded(&session.id_token),
            encoded(&provider.client.id),
            encoded(&back)
        );
        see_other(&to, self.gone(cx, had))
    }

    /// Whether, according to the browser, a page of this site has submitted the form. If a referrer policy hides the
    /// page from `Origin`, `Sec-Fetch-Site` still tells whether the site is the same.
    fn is_sent_by_own_page(&self, cx: &RequestCx<'_>) -> bool {
        let view = cx.fields.view();
        let mut sites = view.values("sec-fetch-site");
        match (sites.next(), sites.next()) {
            (Some(site), None) => return site == b"same-origin",
            (Some(_), Some(_)) => return false,
            (None, _) => {}
        }
        let own = self.origin(cx);
        let mut origins = view.values("origin");
        let is_own = origins.next().is_some_and(|origin| origin.eq_ignore_ascii_case(own.as_bytes()));
        is_own && origins.next().is_none()
    }

    /// One of the places that the configuration lists.
    fn place_after_logout(&self, cx: &RequestCx<'_>) -> &str {
        let query = cx.facts.query.unwrap_or_default();
        let wanted = parameters(query).find(|(name, _)| name == "to").map(|(_, value)| value);
        let listed = self.after_logout.iter().find(|place| Some(&***place) == wanted.as_deref());
        listed.or(self.after_logout.first()).map_or("/", |place| place)
    }

    /// A provider has answered, or not.
    pub(super) fn resumed(&self, cx: &mut RequestCx<'_>, asked: Asked, got: JobResult) -> Finding {
        if matches!(got, JobResult::NotAsked) {
            return match asked {
                Asked::Renewed(opened, _) => Finding::Verified((*opened.identity).clone()),
                // In a dry run nobody goes anywhere.
                _ => redirect("/", Vec::new()),
            };
        }
        match asked {
            Asked::ToLogIn(provider, to) => match answer::<Arc<Metadata>>(got) {
                Ok(metadata) => self.send_to_provider(cx, (&provider, &metadata), &to),
                Err(failure) => failed(cx, failure),
            },
            Asked::Session(login) => match answer::<Session>(got) {
                Ok(session) => self.begin_session(cx, &login, &session),
                Err(failure) => failed(cx, failure),
            },
            Asked::Renewed(opened, had) => self.renewed(cx, (opened, had), answer::<Arc<Session>>(got)),
            Asked::ToLogOut(provider, session, had) => {
                // Here the session ends in any case.
                let metadata = answer::<Arc<Metadata>>(got).ok();
                let at = metadata.as_deref().map(|metadata| (&*provider, metadata));
                self.send_to_log_out(cx, at, (&session, had))
            }
        }
    }

    /// The login is done.
    fn begin_session(&self, cx: &RequestCx<'_>, login: &Login, session: &Session) -> Finding {
        let Some(sealed) = session.seal(&self.sealer) else { return no_randomness() };
        let Some(mut set) = self.cookies(cx, "").keep(&sealed, self.max_age, self.count(cx)) else {
            return Finding::Fault(Fault {
                status: 502,
                ..Fault::new(
                    FaultKind::HttpResponseIncomplete,
                    "the tokens of the identity provider are too long for cookies",
                )
            });
        };
        set.extend(self.cookies(cx, &login_suffix(&login.state)).remove(1));
        let tries = json!([self.tries(cx) + 1, cx.facts.unix_seconds]).to_string();
        let tries = self.sealer.seal(TRIES, tries.as_bytes());
        let cookies = self.cookies(cx, "_tries");
        set.extend(tries.and_then(|tries| cookies.keep(&tries, AGAIN, 0)).into_iter().flatten());
        redirect(&login.to, set)
    }

    fn renewed(
        &self,
        cx: &mut RequestCx<'_>,
        (old, had): (Opened, usize),
        got: Result<Arc<Session>, Failure>,
    ) -> Finding {
        let counts = old.session.stage(self.max_age, cx.facts.unix_seconds) == Stage::Ending;
        match got {
            Ok(session) => {
                let begun = session.begun.saturating_add(self.max_age);
                let lasts = begun.saturating_sub(cx.facts.unix_seconds);
                let cookies = session.seal(&self.sealer);
                let cookies = cookies.and_then(|sealed| self.cookies(cx, "").keep(&sealed, lasts, had));
                let (Some(cookies), Some(new)) = (cookies, self.opened(session)) else {
                    return no_randomness();
                };
                cx.remember(NewCookies(cookies));
                Finding::Verified((*new.identity).clone())
            }
            // Another replica may have used the refresh token, and its answer be on its way to the browser.
            Err(_) if counts => Finding::Verified((*old.identity).clone()),
            Err(Failure::Refused(why)) => {
                cx.explain(format!("oidc: {why}"));
                self.without(cx, "the provider does not refresh the session")
            }
            Err(failure) => failed(cx, failure),
        }
    }

    /// Cookies of the session, or others whose names begin alike.
    fn cookies(&self, cx: &RequestCx<'_>, suffix: &str) -> Cookies {
        Cookies::new(&format!("{}{suffix}", self.cookie), self.origin(cx).starts_with("https://"))
    }

    /// How many cookies of a session the browser has.
    fn count(&self, cx: &RequestCx<'_>) -> usize {
        let (cookies, view) = (self.cookies(cx, ""), cx.fields.view());
        names(view.values("cookie")).filter(|name| cookies.has(name)).count()
    }

    /// The cookies of logins under way.
    fn logins(&self, cx: &RequestCx<'_>) -> Vec<Cookies> {
        let (cookies, view) = (self.cookies(cx, "_login_"), cx.fields.view());
        let found = names(view.values("cookie")).filter(|name| name.starts_with(cookies.name.as_bytes()));
        let named =
            |name: &[u8]| Some(Cookies { name: str::from_utf8(name).ok()?.to_owned(), ..cookies.clone() });
        found.filter_map(named).take(2 * LOGINS).collect()
    }

    /// Values of `Set-Cookie` that end a session.
    fn gone(&self, cx: &RequestCx<'_>, had: usize) -> Vec<String> {
        let mut set = self.cookies(cx, "").remove(had);
        set.extend(self.cookies(cx, "_tries").remove(1));
        set
    }

    /// Logins that the browser has finished lately.
    fn tries(&self, cx: &RequestCx<'_>) -> u64 {
        let (cookies, view) = (self.cookies(cx, "_tries"), cx.fields.view());
        let opened = join(&cookies.name, |name| view.cookie(name))
            .and_then(|(value, _)| self.sealer.open(TRIES, &value));
        let read = opened.and_then(|plain| serde_json::from_slice::<(u64, u64)>(&plain).ok());
        read.filter(|(_, at)| cx.facts.unix_seconds.saturating_sub(*at) < AGAIN).map_or(0, |(tries, _)| tries)
    }

    /// Scheme, host and port as the client knows them.
    fn origin(&self, cx: &RequestCx<'_>) -> Cow<'_, str> {
        if let Some(url) = &self.url {
            return Cow::Borrowed(url);
        }
        let facts = &cx.facts;
        let host = String::from_utf8_lossy(facts.host);
        let is_usual = facts.port == if facts.scheme == "https" { 443 } else { 80 };
        Cow::Owned(match is_usual {
            true => format!("{}://{host}", facts.scheme),
            false => format!("{}://{host}:{}", facts.scheme, facts.port),
        })
    }

    fn redirect_uri(&self, cx: &RequestCx<'_>) -> String {
        format!("{}{}", self.origin(cx), self.callback)
    }
}

/// The end of the name of a login's cookie.
fn login_suffix(state: &str) -> String {
    format!("_login_{}", Login::tag(state).unwrap_or_default())
}

/// The names of cookies.
fn names<'a>(values: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a [u8]> {
    let pairs = values.flat_map(|value| value.split(|byte| *byte == b';'));
    pairs.filter_map(|pair| pair.trim_ascii().split(|byte| *byte == b'=').next())
}

/// Path and query as the client has sent them.
fn target(cx: &RequestCx<'_>) -> String {
    let mut target = cx.facts.path.to_vec();
    if let Some(query) = cx.facts.query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    String::from_utf8(target).unwrap_or_default()
}

/// Whether a browser loads a page: what is fetched by a script, a form that is sent and a client of an API could do
/// nothing with the pages of a login.
fn is_page(cx: &RequestCx<'_>) -> bool {
    let view = cx.fields.view();
    let accepts = view
        .values("accept")
        .any(|value| value.windows(9).any(|part| part.eq_ignore_ascii_case(b"text/html")));
    let is_script = view.get("x-requested-with").is_some()
        || view.get("sec-fetch-mode").is_some_and(|mode| mode != b"navigate");
    cx.facts.method == b"GET" && accepts && !is_script
}

fn redirect(to: &str, cookies: Vec<String>) -> Finding {
    redirect_with(302, to, cookies)
}

/// The answer to a form: the browser continues with GET.
fn see_other(to: &str, cookies: Vec<String>) -> Finding {
    redirect_with(303, to, cookies)
}

fn redirect_with(status: u16, to: &str, cookies: Vec<String>) -> Finding {
    let reply = Reply::new(status).field("Location", to.as_bytes()).field("Cache-Control", b"no-store");
    let set = |reply: Reply, cookie: String| reply.field("Set-Cookie", cookie.as_bytes());
    Finding::Reply(Box::new(cookies.into_iter().fold(reply, set)))
}

fn broken(reason: &'static str) -> Finding {
    Finding::refused(400, "the login could not be completed; open the site again to begin another", reason)
}

fn no_randomness() -> Finding {
    Finding::Fault(Fault::new(FaultKind::ProxyInternalError, "a session could not be made"))
}

/// What a call to a provider gave.
fn answer<T: 'static>(got: JobResult) -> Result<T, Failure> {
    match got.called::<Result<T, Failure>>() {
        Ok(answer) => answer,
        Err(fault) => Err(Failure::Unavailable(fault.detail.into())),
    }
}

fn failed(cx: &mut RequestCx<'_>, failure: Failure) -> Finding {
    match failure {
        Failure::Refused(why) => Finding::refused(403, "the login is not valid", why),
        Failure::Unavailable(why) => {
            cx.explain(format!("oidc: {why}"));
            Finding::Fault(NO_PROVIDER)
        }
    }
}
