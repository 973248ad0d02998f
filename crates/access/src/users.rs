//! Lists of users with hashes of their passwords, as `htpasswd` writes them.

use crate::password::PasswordHash;
use aws_lc_rs::digest::{Context, SHA256};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Bytes that a file of users may have.
pub const FILE: usize = 16 * 1024 * 1024;
/// Users that a list may have.
const USERS: usize = 100_000;
/// Bytes that a user's name may have.
pub const NAME: usize = 256;
/// Bytes that a password may have, as clients send it.
pub const PASSWORD: usize = 1024;

/// Users and hashes of their passwords.
#[derive(Default)]
pub struct Users {
    list: Vec<Arc<PasswordHash>>,
    by_name: HashMap<Box<str>, usize>,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.list).finish()
    }
}

/// What a password is compared with.
#[derive(Clone, Debug)]
pub struct PasswordCheck {
    hash: Arc<PasswordHash>,
    is_known: bool,
}

impl Users {
    /// Reads lines of `NAME:HASH`. Empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// A sentence that names the line and the remedy, and no hash.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut users = Self::default();
        for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let at = at + 1;
            let line = str::from_utf8(line).map_err(|_| format!("line {at} is no UTF-8"))?;
            let line = line.trim_end_matches('\r');
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((name, hash)) = line.split_once(':') else {
                return Err(format!("line {at} has no `:`; write `NAME:HASH`, as `htpasswd -B` does"));
            };
            users.add(name, hash.trim_end()).map_err(|error| format!("line {at}: {error}"))?;
        }
        Ok(users)
    }

    /// Adds a user.
    ///
    /// # Errors
    /// A sentence with the name and the remedy, and without the hash.
    pub fn add(&mut self, name: &str, hash: &str) -> Result<(), String> {
        if name.is_empty() || name.len() > NAME || name.contains(|c: char| c.is_control() || c == ':') {
            return Err(format!(
                "a user's name has from 1 to {NAME} bytes, without `:` and control characters"
            ));
        }
        if self.list.len() >= USERS {
            return Err(format!("there are more than {USERS} users"));
        }
        let hash = PasswordHash::parse(hash).map_err(|error| format!("the hash of `{name}` {error}"))?;
        if self.by_name.insert(name.into(), self.list.len()).is_some() {
            return Err(format!("`{name}` stands there before; remove one of the two"));
        }
        self.list.push(Arc::new(hash));
        Ok(())
    }

    /// A few digits that change with any user and any hash, and from which neither can be told.
    pub fn fingerprint(&self) -> String {
        let mut names: Vec<_> = self.by_name.iter().collect();
        names.sort_unstable();
        let mut context = Context::new(&SHA256);
        for (name, at) in names {
            for part in [name.as_bytes(), self.list.get(*at).map_or("", |hash| hash.as_str()).as_bytes()] {
                context.update(&(part.len() as u64).to_be_bytes());
                context.update(part);
            }
        }
        context.finish().as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What the password of `name` is compared with; of a user that is not known, the hash of one that is, always the
    /// same one for a name and a `draw`: nobody sees in the time that an answer takes who is known. `None`: there are
    /// no users.
    pub fn check(&self, name: &str, draw: impl FnOnce(&str) -> u64) -> Option<PasswordCheck> {
        let known = self.by_name.get(name).copied();
        // Drawn for known ones too: that takes time.
        let drawn = usize::try_from(draw(name) % (self.list.len().max(1) as u64)).unwrap_or(0);
        let hash = self.list.get(known.unwrap_or(drawn))?.clone();
        Some(PasswordCheck { hash, is_known: known.is_some() })
    }
}

impl PasswordCheck {
    /// Whether it is the user's password. Takes long: never on a worker.
    pub fn run(&self, password: &[u8]) -> bool {
        self.hash.verify(password) & self.is_known
    }

    /// Whether the user is in the list.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// The hash as it was written.
    pub fn hash(&self) -> &str {
        self.hash.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";

    fn read(text: &str) -> Result<Users, String> {
        Users::parse(text.as_bytes())
    }

    #[test]
    fn users_are_read_and_checked() {
        let users = read(&format!("# staff\r\n\r\nada:{HASH}\r\nzoë:{HASH}\n")).unwrap();
        assert_eq!(users.len(), 2);
        for (name, password, fits) in [
            ("ada", "U*U", true),
            ("zoë", "U*U", true),
            ("ada", "U*V", false),
            ("bob", "U*U", false),
            ("", "U*U", false),
        ] {
            let check = users.check(name, |_| 7).unwrap();
            assert_eq!(check.run(password.as_bytes()), fits, "{name} {password}");
            assert_eq!(check.is_known(), matches!(name, "ada" | "zoë"));
        }
        assert!(Users::default().check("ada", |_| 7).is_none());
    }

    #[test]
    fn the_wrong_line_is_named_and_no_hash_is_shown() {
        for (text, part) in [
            (format!("ada:{HASH}\nbob"), "line 2 has no `:`"),
            (format!("ada:{HASH}\n:{HASH}"), "line 2: a user's name"),
            (format!("ada:{HASH}\nada:{HASH}"), "line 2: `ada` stands there before"),
            ("\n\nbob:$apr1$abcdefgh$secretsecretsecret".into(), "line 3: the hash of `bob` is one of MD5"),
            ("bob:hunter2".into(), "line 1: the hash of `bob` is missing"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(part), "{error}");
            assert!(
                !error.contains("CCCC") && !error.contains("secret") && !error.contains("hunter"),
                "{error}"
            );
        }
        assert!(Users::parse(b"a\xff:x").unwrap_err().contains("UTF-8"));
    }

    /// How long a check takes in turns, of a user that is there and of one that is not: medians, the means of the
    /// middle halves, and how many standard errors these lie apart.
    ///
    /// `cargo test -p thalweg-access --lib -- --ignored --nocapture known_and_unknown`
    #[test]
    #[ignore = "takes a minute, and wants a machine without other work"]
    fn known_and_unknown_users_take_the_same_time() {
        const SAMPLES: usize = 2000;
        const ARGON2: &str =
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
        for (kind, hash) in [("bcrypt, cost 5", HASH), ("argon2id, 256 KiB", ARGON2)] {
            let lines: String = (0..1000).map(|number| format!("user{number}:{hash}\n")).collect();
            let users = read(&lines).unwrap();
            let logins = crate::logins::Logins::new().unwrap();
            let time = |name: &str| {
                let began = std::time::Instant::now();
                let check = users.check(name, |name| logins.draw(name)).unwrap();
                assert!(!check.run(b"a wrong password"));
                began.elapsed().as_secs_f64() * 1e6
            };
            let (mut known, mut unknown) = (Vec::new(), Vec::new());
            for at in 0..SAMPLES {
                known.push(time(&format!("user{}", at % 1000)));
                unknown.push(time(&format!("none{}", at % 1000)));
            }
            let of = |samples: &mut Vec<f64>| {
                samples.sort_by(f64::total_cmp);
                let middle = &samples[SAMPLES / 4..SAMPLES * 3 / 4];
                let count = middle.len() as f64;
                let mean = middle.iter().sum::<f64>() / count;
                let spread = middle.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / count;
                (samples[SAMPLES / 2], mean, spread / count)
            };
            let ((median, mean, error), (other_median, other, other_error)) =
                (of(&mut known), of(&mut unknown));
            let apart = (mean - other) / (error + other_error).sqrt();
            println!(
                "{kind}: {SAMPLES} of each; known {median:.1} µs, unknown {other_median:.1} µs (medians); \
                 {mean:.1} and {other:.1} µs (means), {apart:+.1} standard errors apart"
            );
            assert!((mean - other).abs() < mean / 100.0, "they differ by more than 1 %");
        }
    }
}
