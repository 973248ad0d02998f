//! API keys: random texts, of which only the SHA-256 is kept.
//!
//! A key has at least 128 bits of randomness, so that nobody can guess it from its hash, and finding it in a table by
//! its hash tells nobody anything of it.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

/// Bytes that a file of keys may have.
pub const FILE: usize = 16 * 1024 * 1024;
/// Keys that a list may have.
const KEYS: usize = 100_000;
/// Bytes that a name, a scope, or the name or value of a claim may have.
const WORD: usize = 256;
/// Scopes and claims that a key may have, each.
const WORDS: usize = 64;
/// Bytes of a key, as clients send it.
pub const KEY: std::ops::RangeInclusive<usize> = 16..=512;
/// Random bytes of a new key.
const NEW: usize = 32;

/// What is known of a key.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ApiKey {
    /// Whose it is.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// What else is known of it.
    pub claims: BTreeMap<String, String>,
    /// From then on it is not taken, in seconds since the Unix epoch.
    pub expires: Option<u64>,
}

/// Keys by their hash.
#[derive(Default)]
pub struct ApiKeys {
    by_hash: HashMap<[u8; 32], Arc<ApiKey>>,
    names: HashMap<String, [u8; 32]>,
}

impl ApiKeys {
    /// Reads lines of `NAME sha256:HASH [scopes=A,B] [expires=TIME] [CLAIM=VALUE …]`. Empty lines and those that begin
    /// with `#` say nothing.
    ///
    /// # Errors
    /// A sentence that names the line and the remedy, and no hash.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut keys = Self::default();
        for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let at = at + 1;
            let line = str::from_utf8(line).map_err(|_| format!("line {at} is no UTF-8"))?.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            keys.add_line(line).map_err(|error| format!("line {at}: {error}"))?;
        }
        Ok(keys)
    }

    fn add_line(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(hash)) = (words.next(), words.next()) else {
            return Err(
                "a line has a name and a hash: `NAME sha256:…`, as `thalweg hash-key` writes it".into()
            );
        };
        let mut key = ApiKey { name: name.into(), ..ApiKey::default() };
        for word in words {
            let (what, value) = word
                .split_once('=')
                .filter(|(what, value)| !what.is_empty() && !value.is_empty())
                .ok_or("behind the hash stand pairs such as `scopes=read,write`, `plan=gold`")?;
            let before = match what {
                "scopes" => {
                    let before = !key.scopes.is_empty();
                    key.scopes = value.split(',').map(str::to_owned).collect();
                    before
                }
                "expires" => key.expires.replace(time(value)?).is_some(),
                claim => key.claims.insert(claim.into(), value.into()).is_some(),
            };
            if before {
                return Err(format!("`{what}` stands there twice"));
            }
        }
        self.add(key, hash)
    }

    /// Adds a key.
    ///
    /// # Errors
    /// A sentence with the name and the remedy, and without the hash.
    pub fn add(&mut self, key: ApiKey, written: &str) -> Result<(), String> {
        let fits = |word: &str| {
            (1..=WORD).contains(&word.len()) && !word.contains(|c: char| c.is_control() || c.is_whitespace())
        };
        if !fits(&key.name) {
            return Err(format!(
                "the name of a key has from 1 to {WORD} bytes, without spaces and control characters"
            ));
        }
        let name = &key.name;
        let claims = key.claims.iter().flat_map(|(name, value)| [name, value]);
        if key.scopes.len() > WORDS
            || key.claims.len() > WORDS
            || !key.scopes.iter().chain(claims).all(|word| fits(word))
        {
            return Err(format!(
                "`{name}`: there may be {WORDS} scopes and claims of 1 to {WORD} bytes, without spaces"
            ));
        }
        if self.names.len() >= KEYS {
            return Err(format!("there are more than {KEYS} keys"));
        }
        let hash = hash(written).ok_or_else(|| {
            format!(
                "the hash of `{name}` is none: it is the SHA-256 of a key, as `thalweg hash-key` writes it"
            )
        })?;
        if self.names.contains_key(name) {
            return Err(format!("`{name}` stands there before; give each key its own name"));
        }
        if self.by_hash.contains_key(&hash) {
            return Err(format!("the key of `{name}` is that of another one"));
        }
        self.names.insert(name.clone(), hash);
        self.by_hash.insert(hash, Arc::new(key));
        Ok(())
    }

    /// What is known of a key as a client has sent it.
    pub fn find(&self, sent: &[u8]) -> Option<Arc<ApiKey>> {
        if !KEY.contains(&sent.len()) {
            return None;
        }
        self.by_hash.get(&sha256(sent)).cloned()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// A few digits that change with anything that is known of a key, and from which nothing can be told.
    pub fn fingerprint(&self) -> String {
        let mut all: Vec<_> = self.names.values().map(|hash| (hash, self.by_hash.get(hash))).collect();
        all.sort_unstable_by_key(|(hash, _)| **hash);
        sha256(format!("{all:?}").as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.len())
    }
}

fn sha256(text: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    for (place, byte) in hash.iter_mut().zip(digest(&SHA256, text).as_ref()) {
        *place = *byte;
    }
    hash
}

/// 64 hexadecimal digits, or base64 of either alphabet; `sha256:` may stand before.
fn hash(written: &str) -> Option<[u8; 32]> {
    let text = written.strip_prefix("sha256:").unwrap_or(written);
    if text.len() == 64 {
        let mut hash = [0; 32];
        for (place, pair) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *place = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
        }
        return text.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(hash);
    }
    let text = text.trim_end_matches('=');
    let bytes = STANDARD_NO_PAD.decode(text).or_else(|_| URL_SAFE_NO_PAD.decode(text)).ok()?;
    bytes.try_into().ok()
}

/// A time as RFC 3339 writes it, or a day in UTC, at whose beginning it is.
///
/// # Errors
/// It is neither.
pub fn time(text: &str) -> Result<u64, String> {
    let day = || text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    let found = text.parse::<Timestamp>().ok().or_else(day);
    found.and_then(|time| u64::try_from(time.as_second()).ok()).ok_or_else(|| {
        format!("`{}` is no time; write `2027-01-31` or `2027-01-31T12:00:00Z`", text.escape_debug())
    })
}

/// A new key, and its hash as lists have it.
///
/// # Errors
/// The system gives no random numbers.
pub fn new_key() -> Result<(String, String), String> {
    let mut bytes = [0; NEW];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| "the system gives no random numbers")?;
    let key = URL_SAFE_NO_PAD.encode(bytes);
    let hash = hash_key(&key)?;
    Ok((key, hash))
}

/// The hash of a key as lists have it.
///
/// # Errors
/// The key is too short to be secret, or too long.
pub fn hash_key(key: &str) -> Result<String, String> {
    if !KEY.contains(&key.len()) || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(
            "a key has from 16 to 512 characters of ASCII, drawn at random; leave it out to have one made"
                .into(),
        );
    }
    let digits: String = sha256(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_what_clients_send() {
        let (key, hash) = new_key().unwrap();
        let base64 = STANDARD_NO_PAD.encode(sha256(b"another-key-of-somebody"));
        let text = format!(
            "# partners\n\nacme {hash} scopes=orders.read,orders.write plan=gold expires=2027-01-31\r\nother {base64}=\n"
        );
        let keys = ApiKeys::parse(text.as_bytes()).unwrap();
        let found = keys.find(key.as_bytes()).unwrap();
        assert_eq!((&*found.name, &*found.scopes.join(" ")), ("acme", "orders.read orders.write"));
        assert_eq!(
            (found.claims.get("plan").unwrap().as_str(), found.expires),
            ("gold", Some(1_801_353_600))
        );
        assert_eq!(keys.find(b"another-key-of-somebody").unwrap().name, "other");
        for wrong in [&b""[..], b"short", &b"x"[..].repeat(600), hash.as_bytes(), b"another-key-of-somebodY"]
        {
            assert!(keys.find(wrong).is_none());
        }
        assert_eq!(keys.fingerprint(), ApiKeys::parse(text.as_bytes()).unwrap().fingerprint());
        assert_ne!(
            keys.fingerprint(),
            ApiKeys::parse(text.replace("gold", "free").as_bytes()).unwrap().fingerprint()
        );
    }

    #[test]
    fn the_wrong_line_is_named_and_no_hash_is_shown() {
        let (_, hash) = new_key().unwrap();
        for (text, part) in [
            ("acme".to_owned(), "line 1: a line has a name and a hash"),
            ("\nacme sha256:abc".into(), "line 2: the hash of `acme` is none"),
            (format!("acme {}", "g".repeat(64)), "is none"),
            (format!("acme +{}", "1".repeat(63)), "is none"),
            (format!("acme {hash}\nacme {}", new_key().unwrap().1), "line 2: `acme` stands there before"),
            (format!("acme {hash}\nother {hash}"), "line 2: the key of `other` is that of another one"),
            (format!("acme {hash} gold"), "pairs such as"),
            (format!("acme {hash} plan=a plan=b"), "`plan` stands there twice"),
            (format!("acme {hash} expires=tomorrow"), "no time"),
            (format!("acme {hash} scopes=a,,b"), "1 to 256 bytes"),
        ] {
            let error = ApiKeys::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(part) && !error.contains(&hash[10..]), "{error}");
        }
        assert!(hash_key("short").is_err() && hash_key("with a space in its middle").is_err());
        assert_eq!(time("2027-01-31T12:00:00+02:00").unwrap(), 1_801_389_600);
    }
}
