//! What the configuration says of a cache, as far as decisions depend on it.

use thalweg_http::octet;

/// Targeted fields that a policy may name.
pub const MOST_TARGETS: usize = 8;

/// Whose responses are kept for whom.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Sharing {
    /// A response may be used for every client (RFC 9111).
    #[default]
    Shared,
    /// The key names the client and what it has sent ([`crate::key`]): a response is only used for the client that
    /// caused it. It is fresh for this many seconds unless it says less itself.
    PerClient {
        /// The lifetime.
        lifetime: u32,
    },
}

/// What becomes of a response with `Set-Cookie` (RFC 9111 §7.3 allows to store it).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SetCookie {
    /// It is not stored: the cookie of one client may never reach another one.
    #[default]
    Refuse,
    /// It is stored without the field.
    Strip,
    /// It is stored as any other.
    Store,
}

/// A lifetime for responses that state none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DefaultLifetime {
    /// The statuses, first and last.
    pub statuses: (u16, u16),
    /// In seconds.
    pub seconds: u32,
}

/// How responses are stored and used.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Whose responses are kept for whom.
    pub sharing: Sharing,
    /// With [`Sharing::PerClient`]: GET and HEAD are not answered.
    pub skips_get: bool,
    /// With [`Sharing::PerClient`]: POST is answered, with the body as a part of the key, where that has at most so
    /// many bytes; `None`: it is not.
    pub post_body: Option<u32>,
    /// Targeted fields that are looked at before `Cache-Control`, the most applicable first (RFC 9213 §2.2).
    pub targets: Vec<Box<str>>,
    /// What becomes of a response with `Set-Cookie`.
    pub set_cookie: SetCookie,
    /// Lifetimes of responses that state none; the first that fits counts. Errors are stored without a stated lifetime
    /// only if they are named here or RFC 9110 §15.1 lets them be kept by heuristics.
    pub default_lifetimes: Vec<DefaultLifetime>,
    /// The share of the age of a representation that it is fresh for, in percent, where nothing else is known (RFC 9111
    /// §4.2.2); 0: never.
    pub heuristic_percent: u8,
    /// The longest lifetime of that kind, in seconds.
    pub heuristic_most: u32,
    /// Whether the directives of a request count (`no-cache`, `max-age`, `min-fresh`, `max-stale`, `only-if-cached`).
    /// `no-store` always does.
    pub honours_clients: bool,
    /// Seconds for which a stale response is used while no endpoint can be reached, where the response itself says
    /// nothing of it (RFC 9111 §4.2.4); 0: never.
    pub stale_when_unreachable: u32,
    /// Seconds for which a stale response is used at once and fetched again beside that, where the response itself says
    /// nothing of it (RFC 5861 §3); 0: never.
    pub stale_while_revalidate: u32,
    /// Whether a response to POST with a stated lifetime and its own URL in `Content-Location` answers a later GET (RFC
    /// 9110 §9.3.3).
    pub stores_post: bool,
    /// Whether `Accept-Language: de, en` and `en, de` mean the same to `Vary`; many servers read the order as
    /// preference.
    pub ignores_language_order: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            sharing: Sharing::Shared,
            skips_get: false,
            post_body: None,
            targets: vec!["CDN-Cache-Control".into()],
            set_cookie: SetCookie::Refuse,
            default_lifetimes: Vec::new(),
            heuristic_percent: 10,
            heuristic_most: 86_400,
            honours_clients: true,
            stale_when_unreachable: 3600,
            stale_while_revalidate: 0,
            stores_post: false,
            ignores_language_order: false,
        }
    }
}

/// Errors that one request caused by its own fields, time or rate: stored, they would be the answer to all others. Only
/// a lifetime for the status alone is for them.
const OF_ONE_REQUEST: [u16; 15] = [400, 408, 411, 412, 413, 414, 415, 416, 417, 421, 425, 426, 428, 429, 431];

impl Policy {
    /// Whether the names and numbers can be used.
    ///
    /// # Errors
    /// What is wrong, as a sentence with its remedy.
    pub fn check(&self) -> Result<(), String> {
        if self.targets.len() > MOST_TARGETS {
            return Err(format!(
                "more than {MOST_TARGETS} targeted fields; help: name those that are in use"
            ));
        }
        let is_name = |name: &str| !name.is_empty() && octet::token_len(name.as_bytes()) == name.len();
        if let Some(name) = self.targets.iter().find(|name| !is_name(name)) {
            return Err(format!(
                "\"{name}\" is not the name of a field; help: write one like CDN-Cache-Control"
            ));
        }
        if self.heuristic_percent > 100 {
            return Err("a heuristic lifetime of more than 100 percent; help: 10 is usual".into());
        }
        let is_wrong = |given: &&DefaultLifetime| {
            let (first, last) = given.statuses;
            first > last || !(200..=599).contains(&first) || !(200..=599).contains(&last)
        };
        match self.default_lifetimes.iter().find(is_wrong) {
            Some(given) => Err(format!(
                "{} to {} are not statuses of responses that can be stored; help: write 200 to 599",
                given.statuses.0, given.statuses.1
            )),
            None => Ok(()),
        }
    }

    /// The lifetime that is configured for a status; a range is not for errors that one request caused.
    pub(crate) fn default_lifetime(&self, status: u16) -> Option<u32> {
        let is_of_one = OF_ONE_REQUEST.contains(&status);
        let fits = |given: &&DefaultLifetime| {
            let (first, last) = given.statuses;
            (first..=last).contains(&status) && (first == last || !is_of_one)
        };
        self.default_lifetimes.iter().find(fits).map(|given| given.seconds)
    }

    /// Whether POST is answered: for its client alone, for the lifetime of the policy, and by what is in its key.
    pub fn answers_post(&self) -> bool {
        self.is_per_client() && self.post_body.is_some()
    }

    /// Whether a response is for the client alone that caused it.
    pub fn is_per_client(&self) -> bool {
        matches!(self.sharing, Sharing::PerClient { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_can_be_used() {
        assert_eq!(Policy::default().check(), Ok(()));
    }

    #[test]
    fn nonsense_is_refused_with_a_remedy() {
        let with = |change: fn(&mut Policy)| {
            let mut policy = Policy::default();
            change(&mut policy);
            policy.check().unwrap_err()
        };
        for error in [
            with(|policy| policy.targets = vec!["a b".into()]),
            with(|policy| policy.targets = vec!["".into()]),
            with(|policy| policy.targets = vec!["a".into(); 9]),
            with(|policy| policy.heuristic_percent = 101),
            with(|policy| {
                policy.default_lifetimes = vec![DefaultLifetime { statuses: (404, 400), seconds: 1 }];
            }),
            with(|policy| {
                policy.default_lifetimes = vec![DefaultLifetime { statuses: (100, 204), seconds: 1 }];
            }),
        ] {
            assert!(error.contains("help: "), "{error}");
        }
    }

    #[test]
    fn the_first_lifetime_that_fits_counts() {
        let lifetime = |first, last, seconds| DefaultLifetime { statuses: (first, last), seconds };
        let policy = Policy {
            default_lifetimes: vec![lifetime(404, 404, 5), lifetime(400, 599, 1)],
            ..Policy::default()
        };
        assert_eq!(policy.default_lifetime(404), Some(5));
        assert_eq!(policy.default_lifetime(503), Some(1));
        assert_eq!(policy.default_lifetime(200), None);
    }

    /// `4xx: 60s` stored the answer to one client's bad request for all.
    #[test]
    fn errors_of_one_request_have_the_lifetime_of_their_number_alone() {
        let lifetime = |first, last| DefaultLifetime { statuses: (first, last), seconds: 60 };
        let lifetimes = |list: &[(u16, u16)]| Policy {
            default_lifetimes: list.iter().map(|(first, last)| lifetime(*first, *last)).collect(),
            ..Policy::default()
        };
        for status in [400, 408, 411, 412, 413, 414, 415, 416, 417, 421, 425, 426, 428, 429, 431] {
            assert_eq!(lifetimes(&[(400, 499)]).default_lifetime(status), None, "{status}");
            assert_eq!(lifetimes(&[(status, status)]).default_lifetime(status), Some(60), "{status}");
        }
        for status in [401, 403, 404, 405, 410, 451] {
            assert_eq!(lifetimes(&[(400, 499)]).default_lifetime(status), Some(60), "{status}");
        }
    }
}
