//! Sessions of the dashboard: a browser shows a token once and then has a cookie.
//!
//! The gate (`auth`) asks for the role of a cookie on each request that has no `Authorization` field; the handlers of
//! `session` open and end sessions. Invariants: the id of a session is random and compared in constant time; a
//! session may do what its token may do now, so replacing the token ends it; the number of sessions, their lifetime,
//! and the wrong tokens per network (logins and bearer tokens) are bounded. Sessions are kept in memory only: a
//! restart ends them.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::http::HeaderMap;
use axum::http::header::COOKIE;

use crate::auth::{Peer, Role};
use crate::token::{Token, Tokens};

/// How long a session lasts.
pub(crate) const LIFE: Duration = Duration::from_secs(12 * 3600);
/// Sessions at once; the oldest one goes when a further one begins.
const SESSIONS: usize = 256;
/// Wrong tokens of one address within [`WINDOW`]; further attempts are not looked at.
const ATTEMPTS: u32 = 10;
/// After its first wrong token an address begins anew when this time is over.
const WINDOW: Duration = Duration::from_secs(60);
/// Most networks from which a bearer token was recently right, and how long that counts; a further network replaces
/// the oldest.
const KNOWN: usize = 256;
const KNOWN_FOR: Duration = Duration::from_secs(3600);
/// Addresses whose wrong tokens are counted; the oldest one is forgotten for a further one.
const ADDRESSES: usize = 1024;
/// The cookie's name; the port follows, because cookies of a host are the same on each of its ports.
const COOKIE_NAME: &str = "thalweg_admin";
/// The paths that the cookie is sent to.
const COOKIE_PATH: &str = "/api/";

/// The sessions of a listener.
#[derive(Debug)]
pub(crate) struct Sessions {
    tokens: Arc<Tokens>,
    /// Whether the listener has TLS, so that the cookie is for TLS alone.
    secure: bool,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// The oldest first.
    sessions: Vec<Session>,
    /// The oldest first.
    refused: Vec<Refused>,
    /// The oldest first.
    known: Vec<Known>,
}

/// A bearer token that was right from a network.
#[derive(Debug)]
struct Known {
    address: IpAddr,
    token: Token,
    since: Instant,
}

#[derive(Debug)]
struct Session {
    id: Token,
    /// What was shown. It is compared again on each request.
    token: Token,
    ends: Instant,
    expires: SystemTime,
}

/// Wrong tokens of an address.
#[derive(Debug)]
struct Refused {
    address: IpAddr,
    count: u32,
    since: Instant,
    /// The last wrong bearer token: repeating it does not count as a further guess.
    last: Option<Token>,
}

/// Why no session begins.
#[derive(Debug)]
pub(crate) enum NoSession {
    /// The token is not the right one.
    WrongToken,
    /// Too many wrong tokens came from this address; it may try again after this time.
    TooMany(Duration),
    /// The system gives no random bytes.
    NoRandomness(io::Error),
}

impl Sessions {
    /// None yet, for a listener that asks for `tokens` and has TLS or not.
    pub(crate) fn new(tokens: Arc<Tokens>, secure: bool) -> Self {
        Self { tokens, secure, table: Mutex::default() }
    }

    /// The tokens that the listener asks for.
    #[cfg(test)]
    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Begins a session for somebody who shows a token: its role and the value of `Set-Cookie`.
    pub(crate) fn open(
        &self,
        given: &str,
        peer: Peer,
        host: &str,
        now: Instant,
    ) -> Result<(Role, String), NoSession> {
        let address = network(peer);
        let mut table = self.table();
        if let Some(wait) = address.and_then(|address| table.wait(address, now)) {
            return Err(NoSession::TooMany(wait));
        }
        let role = role_of(self.tokens.match_any(given));
        let (Some(role), Ok(token)) = (role, Token::new(given)) else {
            if let Some(address) = address {
                table.refuse(address, None, now);
            }
            return Err(NoSession::WrongToken);
        };
        let id = Token::random().map_err(NoSession::NoRandomness)?;
        let cookie = self.cookie(host, id.reveal(), LIFE);
        table.sessions.retain(|session| session.ends > now);
        if table.sessions.len() >= SESSIONS {
            table.sessions.remove(0);
        }
        table.sessions.push(Session { id, token, ends: now + LIFE, expires: SystemTime::now() + LIFE });
        Ok((role, cookie))
    }

    /// The role of a bearer token. From a network with too many wrong tokens, only a token that was recently right
    /// from there is checked: guesses are bounded, and programs with the right token keep working.
    pub(crate) fn bearer(&self, given: &str, peer: Peer, now: Instant) -> Result<Role, NoSession> {
        let Some(address) = network(peer) else {
            return role_of(self.tokens.match_any(given)).ok_or(NoSession::WrongToken);
        };
        let mut table = self.table();
        if let Some(wait) = table.wait(address, now).filter(|_| !table.knows(address, given, now)) {
            return Err(NoSession::TooMany(wait));
        }
        match role_of(self.tokens.match_any(given)) {
            Some(role) => {
                table.know(address, given, now);
                Ok(role)
            }
            None => {
                table.refuse(address, Some(given), now);
                Err(NoSession::WrongToken)
            }
        }
    }

    /// What the session of this cookie may do, and until when it lasts.
    pub(crate) fn find(&self, id: &str, now: Instant) -> Option<(Role, SystemTime)> {
        let table = self.table();
        // Each is compared, so that the time says nothing about which one it is.
        let found = table.sessions.iter().fold(None, |found, session| {
            if session.id.matches(id) && session.ends > now { Some(session) } else { found }
        })?;
        let role = role_of(self.tokens.match_any(found.token.reveal()))?;
        Some((role, found.expires))
    }

    /// Ends a session: the value of `Set-Cookie` that takes the cookie back.
    pub(crate) fn close(&self, id: &str, host: &str) -> String {
        self.table().sessions.retain(|session| !session.id.matches(id));
        self.cookie(host, "", Duration::ZERO)
    }

    fn cookie(&self, host: &str, value: &str, life: Duration) -> String {
        let (name, secure) = (cookie_name(host), if self.secure { "; Secure" } else { "" });
        let life = life.as_secs();
        format!("{name}={value}; Path={COOKIE_PATH}; HttpOnly; SameSite=Strict; Max-Age={life}{secure}")
    }

    /// The table. It is never left half changed.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// How long an address has to wait that has shown too many wrong tokens.
    fn wait(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let refused = self.refused.iter().find(|refused| refused.address == address)?;
        let left = (refused.since + WINDOW).saturating_duration_since(now);
        (refused.count >= ATTEMPTS && !left.is_zero()).then_some(left)
    }

    /// Whether this token was recently right from this network.
    fn knows(&self, address: IpAddr, given: &str, now: Instant) -> bool {
        let mut lately = self.known.iter().filter(|known| known.since + KNOWN_FOR > now);
        lately.any(|known| known.address == address && known.token.matches(given))
    }

    fn know(&mut self, address: IpAddr, given: &str, now: Instant) {
        if let Some(known) =
            self.known.iter_mut().find(|known| known.address == address && known.token.matches(given))
        {
            known.since = now;
            return;
        }
        let Ok(token) = Token::new(given) else { return };
        if self.known.len() >= KNOWN {
            self.known.remove(0);
        }
        self.known.push(Known { address, token, since: now });
    }

    /// Counts a wrong token. `bearer` is that token: programs send the same one repeatedly.
    fn refuse(&mut self, address: IpAddr, bearer: Option<&str>, now: Instant) {
        self.refused.retain(|refused| refused.since + WINDOW > now);
        let last = bearer.and_then(|given| Token::new(given).ok());
        if let Some(refused) = self.refused.iter_mut().find(|refused| refused.address == address) {
            let is_same = refused.last.as_ref().zip(bearer).is_some_and(|(last, given)| last.matches(given));
            refused.count += u32::from(!is_same);
            refused.last = last.or_else(|| refused.last.take());
            return;
        }
        if self.refused.len() >= ADDRESSES {
            self.refused.remove(0);
        }
        self.refused.push(Refused { address, count: 1, since: now, last });
    }
}

fn role_of((write, read): (bool, bool)) -> Option<Role> {
    match (write, read) {
        (true, _) => Some(Role::Write),
        (false, true) => Some(Role::Read),
        (false, false) => None,
    }
}

/// Whose attempts are counted together: an address; in IPv6 what one subscriber has, a /64.
fn network(peer: Peer) -> Option<IpAddr> {
    match peer {
        Peer::Tcp(address) => Some(match address.ip().to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) >> 64 << 64).into()),
            ip @ IpAddr::V4(_) => ip,
        }),
        Peer::Unix { .. } | Peer::Unknown => None,
    }
}

/// The name of the cookie for a `Host`.
fn cookie_name(host: &str) -> String {
    match host.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{COOKIE_NAME}_{port}")
        }
        _ => COOKIE_NAME.to_owned(),
    }
}

/// The id of a session that a request for `host` shows.
pub(crate) fn shown<'a>(headers: &'a HeaderMap, host: &str) -> Option<&'a str> {
    let name = cookie_name(host);
    let fields = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = fields.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(found, _)| *found == name).map(|(_, value)| value).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "127.0.0.1:9900";

    fn sessions() -> Sessions {
        let token = |text| Token::new(text).unwrap();
        Sessions::new(Arc::new(Tokens::new(token("secret"), Some(token("reader"))).unwrap()), false)
    }

    fn peer(text: &str) -> Peer {
        Peer::Tcp(text.parse().unwrap())
    }

    fn open(sessions: &Sessions, token: &str) -> (Role, String) {
        let (role, cookie) = sessions.open(token, peer("10.0.0.1:1"), HOST, Instant::now()).unwrap();
        (role, cookie.split(['=', ';']).nth(1).unwrap().to_owned())
    }

    #[test]
    fn a_session_has_the_role_of_its_token_until_it_ends() {
        let (sessions, now) = (sessions(), Instant::now());
        let (role, id) = open(&sessions, "reader");
        assert_eq!((role, id.len()), (Role::Read, 64));
        assert_eq!(sessions.find(&id, now).map(|(role, _)| role), Some(Role::Read));
        let (_, other) = open(&sessions, "secret");
        assert_eq!(sessions.find(&other, now).map(|(role, _)| role), Some(Role::Write));
        for wrong in ["", "x", &id[1..], &format!("{id}0"), "secret"] {
            assert!(sessions.find(wrong, now).is_none(), "{wrong}");
        }
        assert!(sessions.find(&id, now + LIFE + Duration::from_secs(1)).is_none());
        assert!(sessions.close(&id, HOST).contains("Max-Age=0"));
        assert!(sessions.find(&id, now).is_none() && sessions.find(&other, now).is_some());
    }

    #[test]
    fn another_token_ends_the_sessions_of_the_old_one() {
        let (sessions, now) = (sessions(), Instant::now());
        let (_, writes) = open(&sessions, "secret");
        let (_, reads) = open(&sessions, "reader");
        sessions.tokens().replace(Some(Token::new("new").unwrap()), Token::new("reader").ok()).unwrap();
        assert!(sessions.find(&writes, now).is_none() && sessions.find(&reads, now).is_some());
    }

    #[test]
    fn wrong_tokens_of_an_address_are_counted() {
        let (sessions, now) = (sessions(), Instant::now());
        for _ in 0..ATTEMPTS {
            let wrong = sessions.open("x", peer("[2001:db8::1]:1"), HOST, now);
            assert!(matches!(wrong, Err(NoSession::WrongToken)));
        }
        // The right one is not looked at either, for the whole /64.
        let neighbour = peer("[2001:db8::2]:1");
        assert!(matches!(sessions.open("secret", neighbour, HOST, now), Err(NoSession::TooMany(_))));
        assert!(sessions.open("secret", peer("[2001:db8:1::2]:1"), HOST, now).is_ok());
        assert!(sessions.open("secret", neighbour, HOST, now + WINDOW).is_ok());
    }

    /// Only logins were bounded, not guesses of bearer tokens (issue 43).
    #[test]
    fn wrong_bearer_tokens_of_a_network_are_bounded_and_the_right_one_of_others_is_not_shut_out() {
        let (sessions, now) = (sessions(), Instant::now());
        let (attacker, operator, elsewhere) = (peer("10.0.0.1:1"), peer("10.0.0.1:2"), peer("10.0.0.2:1"));
        assert_eq!(sessions.bearer("reader", operator, now).ok(), Some(Role::Read));
        for number in 0..ATTEMPTS {
            let wrong = sessions.bearer(&format!("guess {number}"), attacker, now);
            assert!(matches!(wrong, Err(NoSession::WrongToken)), "{wrong:?}");
        }
        for guess in ["one more", "secret"] {
            let refused = sessions.bearer(guess, attacker, now);
            assert!(matches!(refused, Err(NoSession::TooMany(_))), "{guess}: {refused:?}");
        }
        assert!(matches!(sessions.open("secret", attacker, HOST, now), Err(NoSession::TooMany(_))));
        assert_eq!(sessions.bearer("reader", operator, now).ok(), Some(Role::Read), "it is known from there");
        assert_eq!(sessions.bearer("secret", elsewhere, now).ok(), Some(Role::Write));
        assert_eq!(sessions.bearer("secret", attacker, now + WINDOW).ok(), Some(Role::Write));
    }

    #[test]
    fn a_program_with_an_old_token_shuts_nobody_out() {
        let (sessions, now, address) = (sessions(), Instant::now(), peer("10.0.0.1:1"));
        for _ in 0..10 * ATTEMPTS {
            assert!(matches!(sessions.bearer("old", address, now), Err(NoSession::WrongToken)));
        }
        assert_eq!(sessions.bearer("secret", address, now).ok(), Some(Role::Write));
        (0..2 * KNOWN as u32).for_each(|number| {
            let peer = Peer::Tcp((std::net::Ipv4Addr::from(number), 1).into());
            assert!(sessions.bearer("secret", peer, now).is_ok());
        });
        assert_eq!(sessions.table().known.len(), KNOWN);
    }

    #[test]
    fn sessions_and_addresses_are_bounded() {
        let (sessions, now) = (sessions(), Instant::now());
        let (_, first) = open(&sessions, "secret");
        (0..SESSIONS).for_each(|_| drop(open(&sessions, "secret")));
        assert!(sessions.find(&first, now).is_none());
        for address in 0..2 * ADDRESSES as u32 {
            let peer = Peer::Tcp((std::net::Ipv4Addr::from(address), 1).into());
            assert!(sessions.open("x", peer, HOST, now).is_err());
        }
        let table = sessions.table();
        assert_eq!((table.sessions.len(), table.refused.len()), (SESSIONS, ADDRESSES));
    }

    #[test]
    fn the_cookie_is_for_this_port_and_these_paths_only() {
        let (_, cookie) = sessions().open("secret", Peer::Unknown, HOST, Instant::now()).unwrap();
        let (name, rest) = cookie.split_once('=').unwrap();
        let attributes = &rest[64..];
        assert_eq!(
            (name, attributes),
            ("thalweg_admin_9900", "; Path=/api/; HttpOnly; SameSite=Strict; Max-Age=43200")
        );
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=b; thalweg_admin=none; thalweg_admin_9900=x".parse().unwrap());
        assert_eq!(shown(&headers, HOST), Some("x"));
        assert_eq!(shown(&headers, "admin.example.com"), Some("none"));
        assert_eq!(shown(&headers, "[::1]:9901"), None);
    }
}
