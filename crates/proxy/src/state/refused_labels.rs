//! Sealed labels that were refused, by client.

use crate::state::client_limits::Prefix;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Labels that a client may have refused at once, by each worker.
pub(crate) const GUESSES: u32 = 100;
/// The time after which it may have another one refused.
pub(crate) const GUESS_EVERY: Duration = Duration::from_millis(100);
/// Clients of whom that is known, by each worker.
pub(crate) const GUESSERS: usize = 4096;

/// How often clients have come with labels that were refused.
#[derive(Debug, Default)]
pub(crate) struct RefusedLabels(RefCell<HashMap<Prefix, Instant>>);

impl RefusedLabels {
    /// Counts one more; `false`: there were too many.
    pub(crate) fn may_guess(&self, client: Prefix, now: Instant) -> bool {
        let mut clients = self.0.borrow_mut();
        if clients.len() >= GUESSERS && !clients.contains_key(&client) {
            clients.retain(|_, made_good| *made_good > now);
            if clients.len() >= GUESSERS {
                return false;
            }
        }
        // All that it has had refused is made good at that time.
        let made_good = clients.entry(client).or_insert(now);
        let next = (*made_good).max(now) + GUESS_EVERY;
        let may = next <= now + GUESS_EVERY * GUESSES;
        if may {
            *made_good = next;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn a_client_may_guess_so_often_and_then_as_time_allows() {
        let (guesses, start) = (RefusedLabels::default(), Instant::now());
        let (one, other) = (IpAddr::from([192, 0, 2, 1]).into(), IpAddr::from([192, 0, 2, 2]).into());
        let count = |client, now| (0..1000).filter(|_| guesses.may_guess(client, now)).count();
        assert_eq!(count(one, start), 100);
        assert_eq!(count(other, start), 100);
        assert_eq!(count(one, start + GUESS_EVERY * 7), 7);
        assert_eq!(count(one, start + Duration::from_secs(3600)), 100);
    }

    #[test]
    fn as_many_clients_are_known_as_may_be() {
        let (guesses, start) = (RefusedLabels::default(), Instant::now());
        let client = |at: u32| IpAddr::from(at.to_be_bytes()).into();
        assert!((0..GUESSERS as u32).all(|at| guesses.may_guess(client(at), start)));
        assert!(!guesses.may_guess(client(u32::MAX), start));
        assert!(guesses.may_guess(client(0), start), "those that are known go on");
        assert!(guesses.may_guess(client(u32::MAX), start + Duration::from_secs(1)));
        assert!(guesses.0.borrow().len() <= 2);
    }
}
