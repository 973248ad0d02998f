//! Logins that were right lately: who has one need not wait for the check of a password again. Of those that come at
//! once with the same login, one has it checked, and the others wait for what comes of that.
//!
//! Neither users nor passwords are kept: a login is known by its HMAC under a key that this process has drawn, and the
//! user's hash goes into it, so that a changed password ends it.

use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Logins that are remembered, in each of two generations.
const MOST: usize = 8192;

/// A login without what it is made of.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Login([u8; 32]);

/// Logins that were right lately.
pub struct Logins {
    key: Key,
    memory: Mutex<Memory>,
    under_way: Mutex<HashMap<Login, Awaited>>,
}

/// What is known of a login.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Known {
    /// It was not right lately.
    No,
    /// It was, and that ends soon: one who comes now may have it checked again before everybody has to wait for it.
    EndsSoon,
    /// It was right lately.
    Yes,
}

/// A check that begins; the login is free for another one when this is dropped.
pub struct Checking {
    of: Arc<Logins>,
    login: Login,
    tell: watch::Sender<Option<bool>>,
}

/// Somebody else's check of the same login.
#[derive(Clone, Debug)]
pub struct Awaited(watch::Receiver<Option<bool>>);

impl Checking {
    /// Tells those who wait; a login that was right is remembered from `now` on.
    pub fn end(self, is_right: bool, now: Instant, remembered: Duration) {
        if is_right && !remembered.is_zero() {
            self.of.remember(self.login, now, remembered);
        }
        self.tell.send_replace(Some(is_right));
    }
}

impl Drop for Checking {
    fn drop(&mut self) {
        self.of.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.login);
    }
}

impl Awaited {
    /// Whether the login is right; `None`: the check did not come to an end.
    pub async fn wait(mut self) -> Option<bool> {
        *self.0.wait_for(Option::is_some).await.ok()?
    }
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
        Ok(Self { key: Key::new(HMAC_SHA256, &key), memory: Mutex::default(), under_way: Mutex::default() })
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

    /// Whether it was right lately, and whether that ends within `soon`.
    pub fn known(&self, login: &Login, now: Instant, soon: Duration) -> Known {
        let Ok(memory) = self.memory.lock() else { return Known::No };
        let ends = |of: &HashMap<Login, Instant>| of.get(login).map(|end| end.saturating_duration_since(now));
        match ends(&memory.young).max(ends(&memory.old)) {
            None | Some(Duration::ZERO) => Known::No,
            Some(rest) if rest < soon => Known::EndsSoon,
            Some(_) => Known::Yes,
        }
    }

    /// The check of it that is under way.
    pub fn awaited(&self, login: &Login) -> Option<Awaited> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).get(login).cloned()
    }

    /// Its check begins.
    ///
    /// # Errors
    /// The check of it that has begun meanwhile.
    pub fn begin(self: &Arc<Self>, login: Login) -> Result<Checking, Awaited> {
        match self.under_way.lock().unwrap_or_else(PoisonError::into_inner).entry(login) {
            Entry::Occupied(other) => Err(other.get().clone()),
            Entry::Vacant(place) => {
                let (tell, told) = watch::channel(None);
                place.insert(Awaited(told));
                Ok(Checking { of: self.clone(), login, tell })
            }
        }
    }

    /// It was right, and is known for a while.
    fn remember(&self, login: Login, now: Instant, time: Duration) {
        let (Ok(mut memory), Some(end)) = (self.memory.lock(), now.checked_add(time)) else { return };
        if memory.young.len() >= MOST {
            memory.old = mem::take(&mut memory.young);
        }
        memory.young.insert(login, end);
    }
}

impl fmt::Debug for Checking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the check of a login")
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
        let known = |login: &Login, second| {
            logins.known(login, now + Duration::from_secs(second), Duration::from_secs(6))
        };
        assert_eq!(known(&ada, 0), Known::No);
        logins.remember(ada, now, Duration::from_secs(60));
        assert_eq!(
            [54, 55, 59, 60].map(|second| known(&ada, second)),
            [Known::Yes, Known::EndsSoon, Known::EndsSoon, Known::No]
        );
        logins.remember(ada, now + Duration::from_secs(55), Duration::from_secs(60));
        assert_eq!(known(&ada, 60), Known::Yes);
        for other in [[&b"ada"[..], b"secrets"], [b"adas", b"ecret"], [b"ad", b"asecret"]] {
            assert_eq!(known(&logins.login(&other), 0), Known::No);
        }
        assert_eq!(known(&Logins::new().unwrap().login(&[b"ada", b"secret"]), 0), Known::No);
        assert_eq!(logins.draw("ada"), logins.draw("ada"));
        assert_ne!(logins.draw("ada"), logins.draw("bob"));
    }

    #[test]
    fn memory_is_bounded_and_what_was_used_last_stays() {
        let (logins, now) = (Logins::new().unwrap(), Instant::now());
        let number = |number: usize| logins.login(&[&number.to_be_bytes()]);
        let count = 2 * MOST + 10;
        (0..count).for_each(|at| logins.remember(number(at), now, Duration::from_secs(60)));
        let is_known = |at: usize| logins.known(&number(at), now, Duration::ZERO) == Known::Yes;
        let known = (0..count).filter(|at| is_known(*at)).count();
        assert!((MOST..=2 * MOST).contains(&known), "{known}");
        assert!(is_known(count - 1) && !is_known(0));
    }

    #[tokio::test]
    async fn those_with_the_same_login_wait_for_one_check() {
        let (logins, now) = (Arc::new(Logins::new().unwrap()), Instant::now());
        let (ada, bob) = (logins.login(&[b"ada", b"secret"]), logins.login(&[b"bob", b"secret"]));
        let minute = Duration::from_secs(60);
        for is_right in [false, true] {
            assert!(logins.awaited(&ada).is_none());
            let check = logins.begin(ada).unwrap();
            let others = [logins.awaited(&ada).unwrap(), logins.begin(ada).err().unwrap()];
            drop(logins.begin(bob).unwrap());
            assert!(logins.awaited(&bob).is_none());
            check.end(is_right, now, minute);
            assert!(logins.awaited(&ada).is_none());
            for other in others {
                assert_eq!(other.wait().await, Some(is_right));
            }
            assert_eq!(logins.known(&ada, now, Duration::ZERO) == Known::Yes, is_right);
        }
        let check = logins.begin(ada).unwrap();
        let other = logins.awaited(&ada).unwrap();
        drop(check);
        assert_eq!(other.wait().await, None, "it was given up");
        logins.begin(bob).unwrap().end(true, now, Duration::ZERO);
        assert_eq!(logins.known(&bob, now, Duration::ZERO), Known::No, "nothing is remembered");
    }
}
