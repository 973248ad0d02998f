//! What authorities are answered that check a host over HTTP (RFC 8555 §8.3). Control writes, workers read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use thalweg_core::limits::ACME_CHALLENGES;

/// Where the authority looks.
const PATH: &[u8] = b"/.well-known/acme-challenge/";

/// Answers by token. Control writes, workers read.
#[derive(Debug, Default)]
pub struct Challenges {
    count: AtomicUsize,
    answers: RwLock<HashMap<String, Arc<str>>>,
}

impl Challenges {
    /// Answers this token with that; `None`: no longer.
    pub fn set(&self, token: &str, answer: Option<&str>) {
        let mut answers = self.answers.write().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Some(answer) if answers.len() < ACME_CHALLENGES => {
                answers.insert(token.to_owned(), answer.into())
            }
            Some(_) => None,
            None => answers.remove(token),
        };
        self.count.store(answers.len(), Ordering::Release);
    }

    /// The answer for a path.
    pub(crate) fn find(&self, path: &[u8]) -> Option<Arc<str>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let token = std::str::from_utf8(path.strip_prefix(PATH)?).ok()?;
        self.answers.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_answered_as_long_as_it_is_known() {
        let challenges = Challenges::default();
        let find = |path: &str| challenges.find(path.as_bytes()).map(|answer| answer.to_string());
        assert_eq!(find("/.well-known/acme-challenge/t"), None);
        challenges.set("t", Some("t.thumb"));
        assert_eq!(find("/.well-known/acme-challenge/t").as_deref(), Some("t.thumb"));
        for other in [
            "/.well-known/acme-challenge/",
            "/.well-known/acme-challenge/T",
            "/t",
            "/.well-known/acme-challenge/t/",
        ] {
            assert_eq!(find(other), None, "{other}");
        }
        challenges.set("t", None);
        assert_eq!(find("/.well-known/acme-challenge/t"), None);
    }

    #[test]
    fn there_is_a_bound() {
        let challenges = Challenges::default();
        for at in 0..=ACME_CHALLENGES {
            challenges.set(&at.to_string(), Some("a"));
        }
        assert_eq!(challenges.count.load(Ordering::Relaxed), ACME_CHALLENGES);
    }
}
