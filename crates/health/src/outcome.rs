//! What one check found.

use rustix::io::Errno;
use std::io;

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

/// An error of the kernel in the words of this crate.
pub(crate) fn words(error: &io::Error) -> String {
    let known = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::CONNREFUSED) => "connection refused",
        Some(Errno::CONNRESET | Errno::PIPE) => "connection reset",
        Some(Errno::HOSTUNREACH) => "no route to the host",
        Some(Errno::NETUNREACH) => "network unreachable",
        Some(Errno::TIMEDOUT) => "the kernel gave up connecting",
        Some(Errno::NOENT) => "no such socket file",
        Some(Errno::ACCESS | Errno::PERM) => "not allowed to connect",
        Some(Errno::AGAIN) => "its queue of connections is full",
        Some(Errno::MFILE | Errno::NFILE) => "no descriptors left",
        Some(Errno::NOBUFS | Errno::NOMEM) => "no memory for sockets",
        Some(Errno::ADDRNOTAVAIL) => "no local address or port",
        _ => return error.to_string(),
    };
    known.to_owned()
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
