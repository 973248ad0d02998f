//! Hashes of passwords: bcrypt as `htpasswd -B` writes it, and argon2id in the PHC form.
//!
//! What is parsed here is bounded in what a check of it costs. Checks take from milliseconds to seconds of CPU: never
//! on a worker.

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use std::fmt;

/// Costs of bcrypt that are taken: 16 is about four seconds.
const BCRYPT_COSTS: std::ops::RangeInclusive<u32> = 4..=16;
/// Bytes of a password that bcrypt looks at; it does not see those behind them.
pub const BCRYPT_BYTES: usize = 72;
/// Memory that a check with argon2id may take, in KiB.
const MEMORY: u32 = 256 * 1024;
/// Passes that it may make.
const PASSES: u32 = 16;
/// Lanes that it may have.
const LANES: u32 = 16;
/// Bytes of a salt and of a hash of argon2id.
const SALT: std::ops::RangeInclusive<usize> = 8..=64;
const HASH: std::ops::RangeInclusive<usize> = 16..=64;
/// Bytes that a hash may have as it is written.
const LENGTH: usize = 256;
/// The cost of bcrypt, and the parameters of argon2id (OWASP), of new hashes.
const NEW_BCRYPT: u32 = 12;
const NEW_ARGON2: (u32, u32, u32) = (19 * 1024, 2, 1);

/// The hash of a password.
pub struct PasswordHash {
    /// As it was written.
    text: Box<str>,
    kind: Kind,
}

enum Kind {
    Bcrypt,
    Argon2id { params: Params, salt: Box<[u8]>, hash: Box<[u8]> },
}

/// How a new hash is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NewHash {
    /// argon2id.
    Argon2id,
    /// bcrypt.
    Bcrypt,
}

impl PasswordHash {
    /// Reads a hash.
    ///
    /// # Errors
    /// Why it is none that is taken, without its text, as what follows "the hash".
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LENGTH {
            return Err(format!("has more than {LENGTH} bytes"));
        }
        let kind = if text.starts_with("$argon2id$") {
            argon2id(text)?
        } else if ["$2y$", "$2b$", "$2a$"].iter().any(|prefix| text.starts_with(prefix)) {
            bcrypt_fits(text)?;
            Kind::Bcrypt
        } else {
            return Err(format!(
                "{}; make a new one with `htpasswd -B` or `thalweg hash-password`",
                other(text)
            ));
        };
        Ok(Self { text: text.into(), kind })
    }

    /// Whether it is that of this password. Takes as long as its cost says, whatever the password.
    pub fn verify(&self, password: &[u8]) -> bool {
        match &self.kind {
            Kind::Bcrypt => bcrypt::verify(password, &self.text).unwrap_or(false),
            Kind::Argon2id { params, salt, hash } => {
                let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone());
                let mut made = vec![0; hash.len()];
                argon2.hash_password_into(password, salt, &mut made).is_ok()
                    && verify_slices_are_equal(&made, hash).is_ok()
            }
        }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Bcrypt => "bcrypt …",
            Kind::Argon2id { .. } => "argon2id …",
        })
    }
}

/// What a text is that is none of those that are taken.
fn other(text: &str) -> &'static str {
    match text {
        _ if text.starts_with("$apr1$") || text.starts_with("$1$") => {
            "is one of MD5, which is guessed quickly"
        }
        _ if text.starts_with("{SHA}") || text.starts_with("{SSHA}") => {
            "is one of SHA-1, which is guessed quickly"
        }
        _ if text.starts_with("$5$") || text.starts_with("$6$") => {
            "is one of crypt (SHA-2), which is not taken"
        }
        _ if text.starts_with("$2x$") => "is one of a broken bcrypt",
        _ if text.starts_with("$argon2") => "is one of argon2i or argon2d, of which only argon2id is taken",
        _ if text.starts_with('$') => "is of a kind that is not known",
        _ if text.len() == 13 => "is one of crypt (DES), which is guessed at once",
        _ => "is missing: a password is never written as it is",
    }
}

fn bcrypt_fits(text: &str) -> Result<(), String> {
    let rest = text.get(4..).unwrap_or_default();
    let (cost, rest) = rest.split_once('$').ok_or("has no cost")?;
    let cost: u32 = match cost.parse() {
        Ok(number) if cost.len() == 2 => number,
        _ => return Err("has no cost".into()),
    };
    if !BCRYPT_COSTS.contains(&cost) {
        return Err(format!(
            "has a cost of {cost}; from 4 to 16 is taken, as a check of more takes too long"
        ));
    }
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'/';
    if rest.len() != 53 || !rest.bytes().all(is_letter) {
        return Err("is cut off or damaged: one of bcrypt has 60 characters".into());
    }
    match bcrypt::verify(b"", &format!("{}04${rest}", &text[..4])) {
        Ok(_) => Ok(()),
        Err(_) => Err("is damaged".into()),
    }
}

fn argon2id(text: &str) -> Result<Kind, String> {
    let damaged = || "is damaged: it is written as `$argon2id$v=19$m=…,t=…,p=…$SALT$HASH`".to_owned();
    let mut parts = text.split('$').skip(2);
    let mut next = || parts.next().ok_or_else(damaged);
    if next()? != "v=19" {
        return Err("is of an old version of argon2id; `v=19` is taken".into());
    }
    let (mut memory, mut passes, mut lanes) = (None, None, None);
    for pair in next()?.split(',') {
        let (name, number) = pair.split_once('=').ok_or_else(damaged)?;
        let number: u32 = number.parse().map_err(|_| damaged())?;
        let place = match name {
            "m" => &mut memory,
            "t" => &mut passes,
            "p" => &mut lanes,
            _ => return Err(damaged()),
        };
        if place.replace(number).is_some() {
            return Err(damaged());
        }
    }
    let (Some(memory), Some(passes), Some(lanes)) = (memory, passes, lanes) else { return Err(damaged()) };
    if memory > MEMORY || passes > PASSES || lanes > LANES {
        return Err(format!(
            "costs too much: at most m={MEMORY} (KiB), t={PASSES} and p={LANES} are taken, and m={memory},t={passes},p={lanes} stand there"
        ));
    }
    let mut bytes = || STANDARD_NO_PAD.decode(next()?.trim_end_matches('=')).map_err(|_| damaged());
    let (salt, hash) = (bytes()?, bytes()?);
    if parts.next().is_some() || !SALT.contains(&salt.len()) || !HASH.contains(&hash.len()) {
        return Err(damaged());
    }
    let params = Params::new(memory, passes, lanes, Some(hash.len())).map_err(|_| damaged())?;
    Ok(Kind::Argon2id { params, salt: salt.into(), hash: hash.into() })
}

/// A new hash of a password.
///
/// # Errors
/// A sentence: the password is empty, or longer than bcrypt looks at; or there is no randomness.
pub fn hash_password(password: &[u8], how: NewHash) -> Result<String, String> {
    if password.is_empty() {
        return Err("the password is empty".into());
    }
    let mut salt = [0; 16];
    aws_lc_rs::rand::fill(&mut salt).map_err(|_| "the system gives no random numbers")?;
    match how {
        NewHash::Bcrypt if password.len() > BCRYPT_BYTES => {
            Err(format!("bcrypt looks at {BCRYPT_BYTES} bytes of a password; take argon2id for a longer one"))
        }
        NewHash::Bcrypt => bcrypt::hash_with_salt(password, NEW_BCRYPT, salt)
            .map(|parts| parts.format_for_version(bcrypt::Version::TwoY))
            .map_err(|error| format!("no hash could be made: {error}")),
        NewHash::Argon2id => {
            let (memory, passes, lanes) = NEW_ARGON2;
            let mut hash = [0; 32];
            let params = Params::new(memory, passes, lanes, Some(hash.len()));
            let params = params.map_err(|error| format!("no hash could be made: {error}"))?;
            let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
            let made = argon2.hash_password_into(password, &salt, &mut hash);
            made.map_err(|error| format!("no hash could be made: {error}"))?;
            let (salt, hash) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(hash));
            Ok(format!("$argon2id$v=19$m={memory},t={passes},p={lanes}${salt}${hash}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_hashes_are_those_of_their_password_alone() {
        for how in [NewHash::Argon2id, NewHash::Bcrypt] {
            let text = hash_password("pässword".as_bytes(), how).unwrap();
            let hash = PasswordHash::parse(&text).unwrap();
            assert!(hash.verify("pässword".as_bytes()), "{text}");
            for wrong in ["", "passwort", "pässword ", "PÄSSWORD"] {
                assert!(!hash.verify(wrong.as_bytes()), "{text} {wrong}");
            }
            assert!(!format!("{hash:?}").contains(&text[12..]));
        }
        assert!(hash_password(&[b'a'; 73], NewHash::Bcrypt).is_err());
        assert!(hash_password(b"", NewHash::Argon2id).is_err());
    }

    #[test]
    fn hashes_that_others_made_are_taken() {
        // From the tests of the reference implementation of argon2, and of crypt_blowfish.
        let argon2 = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
        assert!(PasswordHash::parse(argon2).unwrap().verify(b"password"));
        let bcrypt = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
        let hash = PasswordHash::parse(bcrypt).unwrap();
        assert!(hash.verify(b"U*U") && !hash.verify(b"U*V"));
    }

    #[test]
    fn weak_costly_and_damaged_hashes_are_refused_without_being_shown() {
        for (text, part) in [
            ("$apr1$ssssssss$hhhhhhhhhhhhhhhhhhhhhh", "MD5"),
            ("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "SHA-1"),
            ("$6$saltsalt$hhhhhhhhhh", "crypt (SHA-2)"),
            ("rqXexS6ZhobKA", "DES"),
            ("hunter2", "never written as it is"),
            ("", "never written as it is"),
            ("$2y$17$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "cost of 17"),
            ("$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOe", "cut off"),
            ("$2y$5$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeWW", "no cost"),
            ("$2y$05", "no cost"),
            ("$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEg", "only argon2id"),
            ("$argon2id$v=16$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEg", "v=19"),
            ("$argon2id$v=19$m=9999999,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEg", "costs too much"),
            ("$argon2id$v=19$m=256,t=2,m=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEg", "damaged"),
            ("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ", "damaged"),
            ("$argon2id$v=19$m=256,t=2,p=1$!$nf65EOgLrQMR/uIPnA4rEg", "damaged"),
            ("$argon2id$v=19$m=1,t=0,p=9$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEg", "damaged"),
        ] {
            let error = PasswordHash::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
            assert!(text.len() < 12 || !error.contains(&text[8..]), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(PasswordHash::parse(&"a".repeat(300)).unwrap_err().contains("256"));
    }
}
