//! Who asks: a user that logs in and gets a token for some time, or a token that is written.

use super::TIMEOUT;
use crate::http_servers::{HttpServers, encoded, refused};
use serde::Deserialize;
use std::time::{Duration, Instant};
use thalweg_client::{Bounds, Bytes};

/// Largest answer to a login, in bytes.
const LOGIN: usize = 64 * 1024;
/// Where one logs in; the second is that of servers that have not the first.
const PATHS: [&str; 2] = ["/v1/auth/login", "/v3/auth/user/login"];
/// The shortest time for which a token is used.
const SHORTEST: Duration = Duration::from_secs(5);
/// The longest.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// What is written. Never shown.
pub(super) enum Credentials {
    None,
    Token(String),
    User { username: String, password: String },
}

impl Credentials {
    /// All of it, to be digested.
    pub(super) fn text(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Token(token) => format!("token {token}"),
            Self::User { username, password } => format!("user {username} {password}"),
        }
    }

    pub(super) fn can_log_in(&self) -> bool {
        matches!(self, Self::User { .. })
    }
}

/// The token that is used, and when it is renewed.
#[derive(Default)]
pub(super) struct Session(Option<(String, Option<Instant>)>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NacosLoginSpec {
    access_token: String,
    /// In seconds.
    token_ttl: u64,
}

impl Session {
    /// Logs in, if there is no token or it has nearly run out; whether it did.
    pub(super) async fn renew(
        &mut self,
        credentials: &Credentials,
        servers: &HttpServers,
    ) -> Result<bool, String> {
        match credentials {
            Credentials::None => {}
            Credentials::Token(token) => self.0 = Some((token.clone(), None)),
            Credentials::User { username, password } => {
                let is_good =
                    self.0.as_ref().is_some_and(|(_, end)| end.is_none_or(|end| end > Instant::now()));
                if !is_good {
                    self.log_in(username, password, servers).await?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The token is of no use any more.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }

    /// The value of `Authorization`.
    pub(super) fn field(&self) -> Option<String> {
        self.0.as_ref().map(|(token, _)| format!("Bearer {token}"))
    }

    async fn log_in(&mut self, username: &str, password: &str, servers: &HttpServers) -> Result<(), String> {
        let body: Bytes = format!("username={}&password={}", encoded(username), encoded(password)).into();
        let fields = [("content-type", "application/x-www-form-urlencoded")];
        let mut refusal = String::new();
        for path in PATHS {
            let response =
                servers.send("POST", path, &fields, body.clone(), Bounds::new(TIMEOUT, LOGIN)).await?;
            match response.status().as_u16() {
                200 => {
                    let (token, time) = token(response.body())?;
                    self.0 = Some((token, Some(Instant::now() + time)));
                    return Ok(());
                }
                401 | 403 => return Err("the login is refused; check `username` and `password`".to_owned()),
                _ => refusal = format!("the login fails: {}", refused(&response)),
            }
        }
        Err(refusal)
    }
}

/// A token, and for how long it is used: a tenth less than it is good for.
fn token(body: &[u8]) -> Result<(String, Duration), String> {
    // What an answer that cannot be read holds may be secret.
    let login: NacosLoginSpec = serde_json::from_slice(body)
        .map_err(|_| "the answer to the login has no `accessToken`".to_owned())?;
    if login.access_token.is_empty() || !login.access_token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the answer to the login has no `accessToken`".to_owned());
    }
    let time = Duration::from_secs(login.token_ttl.min(LONGEST.as_secs())) * 9 / 10;
    Ok((login.access_token, time.max(SHORTEST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_before_it_runs_out() {
        let read = |text: &str| token(text.as_bytes());
        assert_eq!(
            read(r#"{"accessToken":"abc","tokenTtl":18000,"globalAdmin":true}"#),
            Ok(("abc".to_owned(), Duration::from_secs(16_200)))
        );
        assert_eq!(read(r#"{"accessToken":"abc","tokenTtl":0}"#), Ok(("abc".to_owned(), SHORTEST)));
        for bad in ["", "{}", r#"{"accessToken":"","tokenTtl":1}"#, r#"{"accessToken":"a\nb","tokenTtl":1}"#]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
