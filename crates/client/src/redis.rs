//! A connection to Redis or Valkey, for those who read what is kept there and for those who tell each other something.
//!
//! Invariant: what a server sends is read within bounds, whatever it is.

mod wire;

use crate::{Destination, HttpClient};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_http::HttpUrl;
use tokio::time::timeout;

pub use wire::{Answers, Commands, Connection, Reply, refusal};

/// The port, where none is written.
const PORT: u16 = 6379;

/// Where a server is, and as whom it is asked.
pub struct RedisServer {
    /// What opens connections.
    pub client: HttpClient,
    /// Where it is.
    pub to: Destination,
    /// The user; none is the default one.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<Vec<u8>>,
    /// The number of the database.
    pub database: u16,
}

impl RedisServer {
    /// A connection that is logged in, within the time.
    ///
    /// # Errors
    /// A sentence. It has no password in it.
    pub async fn connect(&self, within: Duration) -> Result<Connection, String> {
        let stream = self.client.open(&self.to, within).await.map_err(|error| error.to_string())?;
        let mut connection = Connection::new(stream);
        let greeting = async {
            if let Some(password) = &self.password {
                let user = self.user.as_ref().map(|user| user.as_bytes());
                let words: Vec<&[u8]> =
                    [&b"AUTH"[..]].into_iter().chain(user).chain([password.as_slice()]).collect();
                connection.ask(&words).await?;
            }
            if self.database > 0 {
                connection.ask(&[b"SELECT", self.database.to_string().as_bytes()]).await?;
            }
            Ok(connection)
        };
        timeout(within, greeting).await.unwrap_or_else(|_| Err(late(within)))
    }
}

/// Nothing of the password.
impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer").field("to", &self.to).finish_non_exhaustive()
    }
}

/// That nothing came within a time.
pub fn late(time: Duration) -> String {
    format!("it has not answered within {:.1} s", time.as_secs_f64())
}

/// Reads where a server is.
///
/// # Errors
/// A sentence.
pub fn destination(url: &str) -> Result<Destination, String> {
    let wrong = || {
        format!(
            "`{url}` is no server; write `redis://HOST:PORT`, `rediss://HOST:PORT` for TLS, or `unix:/PATH`"
        )
    };
    if url.contains('@') {
        return Err("`url` has no user and no password; write them beside it".to_owned());
    }
    if let Some(path) = url.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return if path.starts_with('/') { Ok(Destination::Unix(PathBuf::from(path))) } else { Err(wrong()) };
    }
    let schemes = [("redis://", false), ("rediss://", true), ("valkey://", false), ("valkeys://", true)];
    let read = schemes.into_iter().find_map(|(scheme, tls)| Some((url.strip_prefix(scheme)?, tls)));
    let (rest, tls) = read.ok_or_else(wrong)?;
    let read = HttpUrl::parse(&format!("http://{rest}")).map_err(|_| wrong())?;
    if read.target() != "/" {
        return Err(format!("`{url}` has a path; write the number of the database as `database`"));
    }
    let has_port = rest.trim_end_matches('/').rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let port = if has_port { read.port() } else { PORT };
    Ok(Destination::Tcp { host: read.host().to_owned(), port, tls })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_from_urls() {
        let tcp = |host: &str, port, tls| Ok(Destination::Tcp { host: host.into(), port, tls });
        assert_eq!(destination("redis://a"), tcp("a", 6379, false));
        assert_eq!(destination("rediss://a:1/"), tcp("a", 1, true));
        assert_eq!(destination("valkey://[::1]"), tcp("::1", 6379, false));
        assert_eq!(destination("valkeys://[::1]:80"), tcp("::1", 80, true));
        assert_eq!(destination("unix:///run/r.sock"), Ok(Destination::Unix("/run/r.sock".into())));
        for bad in ["a:6379", "http://a", "redis://a/1", "redis://u:p@a", "unix:x", "redis://"] {
            assert!(destination(bad).is_err(), "{bad}");
        }
        assert!(!destination("redis://u:secret@a").unwrap_err().contains("secret"));
    }
}
