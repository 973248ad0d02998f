//! Wrong credentials of a client network: how many different ones are looked at in a minute.
//!
//! Called by methods that compare a secret with known ones, before and after they do. A network is an address of IPv4
//! or 64 bits of IPv6, as for passwords. A credential that was right from the same network lately is looked at in any
//! case, and one that was wrong lately is not counted twice: a program with an old key shuts nobody out, and guesses of
//! one network leave others alone. Invariant: memory is bounded, and nothing of a credential is kept but its SHA-256.

use crate::recent::{Digest, Recent, digest};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Different wrong credentials of a network within a minute; further ones are not looked at.
pub const WRONG: u32 = 20;
/// After its first wrong credential a network begins anew when this time is over.
const WINDOW: Duration = Duration::from_secs(60);
/// How long a credential is remembered as right.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);
/// Networks and credentials that are remembered, of each kind.
const ENTRIES: usize = 16 * 1024;

/// What is known of the attempts of all networks.
pub struct Attempts {
    begun: Instant,
    /// Nanoseconds from `begun` to the end of the last window in which a credential was wrong.
    ends: AtomicU64,
    networks: Recent<(u32, Instant)>,
    right: Recent<Instant>,
    wrong: Recent<Instant>,
}

/// A credential that may be looked at.
#[derive(Debug)]
#[must_use = "what comes of it is to be told"]
pub struct Attempt<'a> {
    of: &'a Attempts,
    network: [u8; 17],
    credential: Digest,
    now: Instant,
}

impl Attempts {
    /// None.
    pub fn new() -> Self {
        Self {
            begun: Instant::now(),
            ends: AtomicU64::new(0),
            networks: Recent::new(ENTRIES),
            right: Recent::new(ENTRIES),
            wrong: Recent::new(ENTRIES),
        }
    }

    /// Whether a client's credential may be looked at.
    ///
    /// # Errors
    /// How long its network has to wait.
    pub fn begin(&self, client: IpAddr, credential: &[u8], now: Instant) -> Result<Attempt<'_>, Duration> {
        let network = network(client);
        let credential = digest(&[&network, credential]);
        let attempt = Attempt { of: self, network, credential, now };
        // The usual case: nobody has been wrong lately.
        if self.at(now) >= self.ends.load(Ordering::Relaxed) {
            return Ok(attempt);
        }
        let Some((count, since)) = self.networks.get(&digest(&[&network])) else { return Ok(attempt) };
        let left = (since + WINDOW).saturating_duration_since(now);
        let is_known = || self.right.get(&credential).is_some_and(|ends| now < ends);
        if count < WRONG || left.is_zero() || is_known() { Ok(attempt) } else { Err(left) }
    }

    fn at(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.begun).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Attempt<'_> {
    /// It was right.
    pub fn was_right(self) {
        let known = self.of.right.get(&self.credential);
        // Not written anew with each request.
        if known.is_none_or(|ends| ends < self.now + REMEMBERED / 2) {
            self.of.right.put(self.credential, self.now + REMEMBERED);
        }
    }

    /// It was wrong.
    pub fn was_wrong(self) {
        let Self { of, network, credential, now } = self;
        if of.wrong.get(&credential).is_some_and(|ends| now < ends) {
            return;
        }
        of.wrong.put(credential, now + WINDOW);
        let key = digest(&[&network]);
        let known = of.networks.get(&key).filter(|(_, since)| now < *since + WINDOW);
        let (count, since) = known.unwrap_or((0, now));
        of.networks.put(key, (count.saturating_add(1), since));
        of.ends.fetch_max(of.at(now + WINDOW), Ordering::Relaxed);
    }
}

impl Default for Attempts {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("attempts")
    }
}

/// The family and the bits that count.
fn network(client: IpAddr) -> [u8; 17] {
    let mut network = [0; 17];
    match client.to_canonical() {
        IpAddr::V4(address) => {
            network[0] = 4;
            network[1..5].copy_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            network[0] = 6;
            network[1..9].copy_from_slice(&address.octets()[..8]);
        }
    }
    network
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Twenty different wrong ones of a network.
    fn exhaust(attempts: &Attempts, client: IpAddr, now: Instant) {
        for number in 0..WRONG {
            attempts.begin(client, &number.to_be_bytes(), now).unwrap().was_wrong();
        }
    }

    #[test]
    fn guesses_of_a_network_are_bounded_and_others_are_left_alone() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        exhaust(&attempts, ip("2001:db8::1"), now);
        let wait = attempts.begin(ip("2001:db8::2"), b"right", now + WINDOW / 2).unwrap_err();
        assert_eq!(wait, WINDOW / 2, "its /64 is one network");
        for other in ["2001:db8:0:1::1", "192.0.2.1", "::ffff:192.0.2.1"] {
            attempts.begin(ip(other), b"right", now).unwrap().was_right();
        }
        attempts.begin(ip("2001:db8::1"), b"right", now + WINDOW).unwrap().was_right();
    }

    #[test]
    fn a_credential_that_was_right_from_there_is_not_shut_out() {
        let (attempts, now, client) = (Attempts::new(), Instant::now(), ip("192.0.2.1"));
        attempts.begin(client, b"right", now).unwrap().was_right();
        exhaust(&attempts, client, now);
        attempts.begin(client, b"right", now).unwrap().was_right();
        assert!(attempts.begin(client, b"other", now).is_err());
        exhaust(&attempts, ip("192.0.2.2"), now);
        assert!(attempts.begin(ip("192.0.2.2"), b"right", now).is_err(), "it was not right from there");
    }

    #[test]
    fn the_same_wrong_credential_again_is_no_further_guess() {
        let (attempts, now, client) = (Attempts::new(), Instant::now(), ip("192.0.2.1"));
        for _ in 0..10 * WRONG {
            attempts.begin(client, b"an old key", now).unwrap().was_wrong();
        }
        attempts.begin(client, b"right", now).unwrap().was_right();
    }

    #[test]
    fn memory_is_bounded() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        for number in 0..100_000_u32 {
            let attempt = attempts.begin(IpAddr::V4(number.into()), &number.to_be_bytes(), now);
            attempt.unwrap().was_wrong();
        }
        assert!(attempts.networks.len() <= ENTRIES + 64 && attempts.wrong.len() <= ENTRIES + 64);
    }
}
