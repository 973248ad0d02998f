//! What one check found.

use rustix::io::Errno;
use std::io;
use thalweg_client::words;

/// The result of one check, with the reason in words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// As it should be.
    Passed(String),
    /// The endpoint is to blame.
    Failed(String),
    /// This process or its machine could not ask: it says nothing about the endpoint.
    NotAsked(String),
}

impl Outcome {
    /// What a failed connect says. That descriptors, memory or ports are short here must not make every
    /// endpoint look dead.
    pub(crate) fn of_connect(error: &io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::ADDRNOTAVAIL) => {
                Self::NotAsked(words(error))
            }
            _ => Self::Failed(words(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_here_says_nothing_about_the_endpoint() {
        let of = |errno: Errno| Outcome::of_connect(&io::Error::from_raw_os_error(errno.raw_os_error()));
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRNOTAVAIL] {
            assert!(matches!(of(errno), Outcome::NotAsked(_)), "{errno}");
        }
        for errno in [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::NOENT, Errno::AGAIN] {
            assert!(matches!(of(errno), Outcome::Failed(_)), "{errno}");
        }
    }
}
