//! Logins that were right lately: who has one need not wait for the check of a password again.
//!
//! Neither users nor passwords are kept: a login is known by its HMAC under a key that this process has drawn, and the
//! user's hash goes into it, so that a changed password ends it.

use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};
use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Logins that are remembered, in each of two generations.
const MOST: usize = 8192;

/// A login without what it is made of.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Login([u8; 32]);

/// Logins that were right lately.
pub struct Logins {
    key: Key,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// When each ends.
    young: HashMap<Login, Instant>,
    old: HashMap<Login, Instant>,
}

impl Logins {
    /// None, under a new key.
    ///
    /// # Errors
    /// A sentence: the system gives no random numbers.
    pub fn new() -> Result<Self, String> {
        let mut key = [0; 32];
        aws_lc_rs::rand::fill(&mut key).map_err(|_| "the system gives no random numbers")?;
        Ok(Self { key: Key::new(HMAC_SHA256, &key), memory: Mutex::default() })
    }

    /// What a login is known by: its parts and their borders.
    pub fn login(&self, parts: &[&[u8]]) -> Login {
        let mut context = Context::with_key(&self.key);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut login = [0; 32];
        for (place, byte) in login.iter_mut().zip(context.sign().as_ref()) {
            *place = *byte;
        }
        Login(login)
    }

    /// A number that belongs to a name, and that nobody outside can know.
    pub fn draw(&self, name: &str) -> u64 {
        let Login(bytes) = self.login(&[b"draw", name.as_bytes()]);
        bytes.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Whether it was right lately.
    pub fn knows(&self, login: &Login, now: Instant) -> bool {
        let Ok(memory) = self.memory.lock() else { return false };
        let end = memory.young.get(login).or_else(|| memory.old.get(login));
        end.is_some_and(|end| now < *end)
    }

    /// It was right, and is known for a while.
    pub fn remember(&self, login: Login, now: Instant, time: Duration) {
        let (Ok(mut memory), Some(end)) = (self.memory.lock(), now.checked_add(time)) else { return };
        if memory.young.len() >= MOST {
            memory.old = mem::take(&mut memory.young);
        }
        memory.young.insert(login, end);
    }
}

impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("logins")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_known_until_its_time_is_over() {
        let (logins, now) = (Logins::new().unwrap(), Instant::now());
        let ada = logins.login(&[b"ada", b"secret"]);
        assert!(!logins.knows(&ada, now));
        logins.remember(ada, now, Duration::from_secs(60));
        assert!(logins.knows(&ada, now + Duration::from_secs(59)));
        assert!(!logins.knows(&ada, now + Duration::from_secs(60)));
        for other in [[&b"ada"[..], b"secrets"], [b"adas", b"ecret"], [b"ad", b"asecret"]] {
            assert!(!logins.knows(&logins.login(&other), now));
        }
        assert!(!logins.knows(&Logins::new().unwrap().login(&[b"ada", b"secret"]), now));
        assert_eq!(logins.draw("ada"), logins.draw("ada"));
        assert_ne!(logins.draw("ada"), logins.draw("bob"));
    }

    #[test]
    fn memory_is_bounded_and_what_was_used_last_stays() {
        let (logins, now) = (Logins::new().unwrap(), Instant::now());
        let number = |number: usize| logins.login(&[&number.to_be_bytes()]);
        let count = 2 * MOST + 10;
        (0..count).for_each(|at| logins.remember(number(at), now, Duration::from_secs(60)));
        let known = (0..count).filter(|at| logins.knows(&number(*at), now)).count();
        assert!((MOST..=2 * MOST).contains(&known), "{known}");
        assert!(logins.knows(&number(count - 1), now) && !logins.knows(&number(0), now));
    }
}
