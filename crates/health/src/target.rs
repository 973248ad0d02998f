//! What is checked.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use thalweg_tls::Connector;
use thalweg_upstream::{HealthPolicy, PeerAddress};

/// Bounds of every time of a policy, wider than those of the configuration: whatever a policy says, no sum
/// overflows and no check follows on itself without a pause.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
const SHORTEST: Duration = Duration::from_millis(1);

/// One address, and how it is asked. Equal targets are one check; equality looks at what policies say, not
/// at where they stand, so that a reload that changes nothing here goes unnoticed.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where the endpoint takes requests. The check goes to [`HealthPolicy::port`] instead, if there is one.
    pub address: PeerAddress,
    /// What `host` says, unless the policy's headers do: as
    /// [`Endpoint::authority`](thalweg_upstream::Endpoint::authority).
    pub authority: Arc<str>,
    /// How connections to it are secured; `None`: they are not. The connector is the one that requests use.
    pub tls: Option<Arc<Connector>>,
    /// It speaks HTTP/2 alone, on the port that takes requests.
    pub speaks_http2: bool,
    /// How it is asked.
    pub policy: Arc<HealthPolicy>,
}

impl Target {
    /// Where the check goes.
    pub(crate) fn asked(&self) -> PeerAddress {
        match (&self.address, self.policy.port) {
            (PeerAddress::Tcp(address), Some(port)) => {
                let mut address = *address;
                address.set_port(port);
                PeerAddress::Tcp(address)
            }
            (address, _) => address.clone(),
        }
    }

    /// Whether a request of a check goes through HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.speaks_http2 && self.policy.port.is_none()
    }

    /// Time that one check has.
    pub(crate) fn timeout(&self) -> Duration {
        self.policy.timeout.min(LONGEST)
    }

    /// Time between two checks, before it is varied.
    pub(crate) fn interval(&self, down: bool) -> Duration {
        let HealthPolicy { interval, interval_down, .. } = *self.policy;
        let chosen = if down { interval_down.unwrap_or(interval) } else { interval };
        chosen.clamp(SHORTEST, LONGEST)
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
            && self.authority == other.authority
            && self.tls == other.tls
            && self.speaks_http2 == other.speaks_http2
            && (Arc::ptr_eq(&self.policy, &other.policy) || self.policy == other.policy)
    }
}

// Policies hold no floating-point numbers, so that equality is reflexive.
impl Eq for Target {}

impl Hash for Target {
    /// Without the policy: one address is rarely asked in two ways.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address.hash(state);
        self.authority.hash(state);
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.asked() {
            PeerAddress::Tcp(address) => write!(f, "{address}"),
            PeerAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(policy: HealthPolicy) -> Target {
        Target {
            address: PeerAddress::Tcp(([127, 0, 0, 1], 80).into()),
            authority: "a.test".into(),
            tls: None,
            speaks_http2: false,
            policy: policy.into(),
        }
    }

    #[test]
    fn policies_that_say_the_same_make_equal_targets() {
        assert_eq!(target(HealthPolicy::default()), target(HealthPolicy::default()));
        let other = HealthPolicy { healthy_after: 9, ..HealthPolicy::default() };
        assert_ne!(target(HealthPolicy::default()), target(other));
    }

    #[test]
    fn the_check_goes_to_the_port_of_the_policy() {
        let asked = target(HealthPolicy { port: Some(9), ..HealthPolicy::default() });
        assert_eq!(asked.to_string(), "127.0.0.1:9");
        assert_eq!(target(HealthPolicy::default()).to_string(), "127.0.0.1:80");
    }

    #[test]
    fn what_is_down_has_an_interval_of_its_own_if_the_policy_says_so() {
        let plain = target(HealthPolicy::default());
        assert_eq!(plain.interval(true), plain.interval(false));
        let absurd =
            HealthPolicy { interval: Duration::ZERO, timeout: Duration::MAX, ..HealthPolicy::default() };
        assert_eq!(target(absurd.clone()).interval(false), SHORTEST);
        assert_eq!(target(absurd).timeout(), LONGEST);
        let slower = HealthPolicy { interval_down: Some(Duration::from_secs(30)), ..HealthPolicy::default() };
        assert_eq!(target(slower).interval(true), Duration::from_secs(30));
    }
}
