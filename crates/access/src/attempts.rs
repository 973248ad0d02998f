//! Limits guesses: how many different wrong credentials of one client network are checked per minute.
//!
//! Authentication methods call it before and after they compare a secret. A network is an IPv4 address or an IPv6
//! /64, as for passwords. A credential that was recently right from the same network is always checked, and one that
//! was recently wrong is not counted twice. So a program with an old key does not lock out its network, and guesses
//! from one network do not affect others. Invariant: memory is bounded, and only the SHA-256 of a credential is kept.

use crate::recent::{Digest, Recent, digest};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Different wrong credentials of a network per minute; further ones are not checked.
pub const WRONG: u32 = 20;
/// The window that a network's first wrong credential opens; afterwards its count starts again at zero.
const WINDOW: Duration = Duration::from_secs(60);
/// How long a credential is remembered as right.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);
/// Most networks, and most credentials, that are remembered.
const ENTRIES: usize = 16 * 1024;

/// The attempts of all networks.
pub struct Attempts {
    begun: Instant,
    /// Nanoseconds from `begun` to the end of the last window in which a credential was wrong.
    ends: AtomicU64,
    networks: Recent<(u32, Instant)>,
    right: Recent<Instant>,
    wrong: Recent<Instant>,
}

/// A credential that may be checked.
#[derive(Debug)]
#[must_use = "what comes of it is to be told"]
pub struct Attempt<'a> {
    of: &'a Attempts,
    network: [u8; 17],
    credential: Digest,
    now: Instant,
}

impl Attempts {
    /// No attempts yet.
    pub fn new() -> Self {
        Self {
            begun: Instant::now(),
            ends: AtomicU64::new(0),
            networks: Recent::new(ENTRIES),
            right: Recent::new(ENTRIES),
            wrong: Recent::new(ENTRIES),
        }
    }

    /// Whether a client's credential may be checked.
    ///
    /// # Errors
    /// The time that its network has to wait.
    pub fn begin(&self, client: IpAddr, credential: &[u8], now: Instant) -> Result<Attempt<'_>, Duration> {
        let network = network(client);
        let credential = digest(&[&network, credential]);
        let attempt = Attempt { of: self, network, credential, now };
        // The usual case: no recent wrong credential from any network.
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
    /// Records that the credential was right.
    pub fn was_right(self) {
        let known = self.of.right.get(&self.credential);
        // Refreshed only after half of its time, not with each request.
        if known.is_none_or(|ends| ends < self.now + REMEMBERED / 2) {
            self.of.right.put(self.credential, self.now + REMEMBERED);
        }
    }

    /// Records that the credential was wrong.
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

/// The address family and the compared bits.
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

    /// Sends twenty different wrong credentials from one network.
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
