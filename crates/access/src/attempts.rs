//! Counts guesses: how many different wrong credentials a client network has sent within a minute.
//!
//! Authentication methods whose credentials are random (API keys, signed tokens) compare a credential first and count
//! it here only if it is wrong. So a right credential is never refused because of others behind the same address. The
//! count decides the answer to further wrong credentials: 429 with the time to wait. It does not bound how many are
//! compared; what bounds the work is the cost of one comparison, which the method documents. Passwords can be guessed
//! and are slow to check: `basic` bounds them before the check.
//!
//! A network is an IPv4 address or an IPv6 /64, as for passwords. A credential that was recently wrong is not counted
//! twice, so that a program with an old key is one guess. Invariant: memory is bounded, and only the SHA-256 of a
//! credential is kept.

use crate::recent::{Recent, digest};
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Different wrong credentials of a network per minute that are answered as wrong; further ones are answered 429.
pub const WRONG: u32 = 20;
/// The window that a network's first wrong credential opens; afterwards its count starts again at zero.
const WINDOW: Duration = Duration::from_secs(60);
/// Most networks, and most credentials, that are remembered.
const ENTRIES: usize = 16 * 1024;

/// The wrong credentials of all networks.
pub struct Attempts {
    networks: Recent<(u32, Instant)>,
    wrong: Recent<Instant>,
}

impl Attempts {
    /// No attempts yet.
    pub fn new() -> Self {
        Self { networks: Recent::new(ENTRIES), wrong: Recent::new(ENTRIES) }
    }

    /// Records that a credential of a client was wrong.
    ///
    /// # Errors
    /// The time until the window ends, if the network has sent [`WRONG`] different ones in it before.
    pub fn was_wrong(&self, client: IpAddr, credential: &[u8], now: Instant) -> Result<(), Duration> {
        let network = network(client);
        let key = digest(&[&network]);
        let known = self.networks.get(&key).filter(|(_, since)| now < *since + WINDOW);
        let (count, since) = known.unwrap_or((0, now));
        if count >= WRONG {
            return Err((since + WINDOW).saturating_duration_since(now));
        }
        let credential = digest(&[&network, credential]);
        if self.wrong.get(&credential).is_none_or(|ends| now >= ends) {
            self.wrong.put(credential, now + WINDOW);
            self.networks.put(key, (count + 1, since));
        }
        Ok(())
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
            attempts.was_wrong(client, &number.to_be_bytes(), now).unwrap();
        }
    }

    #[test]
    fn wrong_credentials_of_a_network_are_counted_and_others_are_left_alone() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        exhaust(&attempts, ip("2001:db8::1"), now);
        let wait = attempts.was_wrong(ip("2001:db8::2"), b"one more", now + WINDOW / 2).unwrap_err();
        assert_eq!(wait, WINDOW / 2, "its /64 is one network");
        for other in ["2001:db8:0:1::1", "192.0.2.1", "::ffff:192.0.2.2"] {
            attempts.was_wrong(ip(other), b"one more", now).unwrap();
        }
        attempts.was_wrong(ip("2001:db8::1"), b"one more", now + WINDOW).unwrap();
    }

    #[test]
    fn the_same_wrong_credential_again_is_no_further_guess() {
        let (attempts, now, client) = (Attempts::new(), Instant::now(), ip("192.0.2.1"));
        for _ in 0..10 * WRONG {
            attempts.was_wrong(client, b"an old key", now).unwrap();
        }
        attempts.was_wrong(client, b"another one", now).unwrap();
    }

    #[test]
    fn memory_is_bounded() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        for number in 0..100_000_u32 {
            attempts.was_wrong(IpAddr::V4(number.into()), &number.to_be_bytes(), now).unwrap();
        }
        assert!(attempts.networks.len() <= ENTRIES + 64 && attempts.wrong.len() <= ENTRIES + 64);
    }
}
