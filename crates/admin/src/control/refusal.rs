//! Why the running proxy does not do what it is asked.

use super::configuration::Mistake;

/// What an `If-Match` field allows the present state to be (RFC 9110 §13.1.1).
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Expected<T> {
    /// Anything: no field, or `*`.
    Any,
    /// One of these. An empty list admits nothing.
    OneOf(Vec<T>),
}

impl<T: PartialEq> Expected<T> {
    /// Whether the change may be made on top of `current`. Ask under the lock that the change is made
    /// under: of several writers with the same expectation exactly one may win.
    pub fn admits(&self, current: &T) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(tags) => tags.contains(current),
        }
    }
}

/// A refusal. Texts are lower case without a full stop. Checked in the order of the variants: a
/// precondition is looked at only when the change could be made (RFC 9110 §13.2.1).
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// 404: there is no such thing; says which, as in ``there is no service `a` ``.
    Unknown(String),
    /// 400: a member of the request is wrong.
    Invalid {
        /// The member's name.
        field: String,
        /// What is wrong with it.
        detail: String,
        /// What to do about it.
        help: Option<String>,
    },
    /// 400: a configuration has mistakes.
    Mistakes(Vec<Mistake>),
    /// 403: what arrives by API may not introduce these.
    Forbidden {
        /// Paths of keys, as in `services.a.endpoints[0].url`.
        keys: Vec<String>,
    },
    /// 403: what arrives by API may not take these away.
    Unprotected {
        /// Paths of what would lack them, as in `routes.admin`.
        keys: Vec<String>,
        /// What would be lost, a sentence.
        detail: String,
    },
    /// 403: an address that a change by API may not use.
    Barred {
        /// Paths of the keys, as in `services.a.endpoints`.
        keys: Vec<String>,
        /// A sentence: which addresses, and why each is forbidden.
        detail: String,
    },
    /// 409: it is already there; says what.
    Duplicate(String),
    /// 409: the present state does not allow it, as a file that cannot be written.
    Conflict(String),
    /// 412: an endpoint set is not at an expected version.
    Stale {
        /// The present version.
        version: u64,
    },
    /// 412: the configuration is not the expected one.
    StaleConfig {
        /// The present tag.
        etag: String,
    },
    /// 503: it cannot be done now or here; says why.
    Unavailable(String),
}
