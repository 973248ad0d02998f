//! Why there is no certificate.

use std::fmt;
use std::io;
use std::path::Path;

use instant_acme::Error;

/// Longest sentence that is made of what others say, in characters.
const WORDS: usize = 500;

/// Why there is no certificate.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The authority says no, or cannot be asked.
    Authority(Error),
    /// A file cannot be read or written.
    File(String),
    /// All else, in a sentence.
    Other(String),
}

impl Failure {
    pub(crate) fn file(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::File(format!("cannot {what} {}: {error}", path.display()))
    }

    /// Whether a nonce was refused, which says nothing of the request (RFC 8555 §6.5).
    pub(crate) fn is_bad_nonce(error: &Error) -> bool {
        kind(error) == Some("badNonce")
    }

    /// Whether the authority does not know the account.
    pub(crate) fn is_account_gone(error: &Error) -> bool {
        kind(error) == Some("accountDoesNotExist")
    }

    /// Whether the account may not do what it asked for: it may have been deactivated.
    pub(crate) fn is_unauthorized(error: &Error) -> bool {
        kind(error) == Some("unauthorized")
    }

    /// Whether the same request, put in another way, may be granted: it was understood, and is not what comes too
    /// often. An account that is not authorized may be so for the rest of it: the certificate that is renewed may be
    /// another account's.
    pub(crate) fn may_mind_details(error: &Error) -> bool {
        match error {
            Error::Api(_) => !matches!(kind(error), Some("accountDoesNotExist" | "rateLimited")),
            error => matches!(error, Error::Unsupported(_)),
        }
    }

    /// Whether the authority has answered, and the answer was no.
    pub(crate) fn is_answer(error: &Error) -> bool {
        matches!(error, Error::Api(_))
    }
}

/// The last word of the problem's type (RFC 8555 §6.7).
fn kind(error: &Error) -> Option<&str> {
    match error {
        Error::Api(problem) => problem.r#type.as_deref()?.strip_prefix("urn:ietf:params:acme:error:"),
        _ => None,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Authority(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Authority(Error::Api(problem)) => {
                let detail = problem.detail.clone().unwrap_or_else(|| "no reason is given".to_owned());
                let subproblems: Vec<_> = problem.subproblems.iter().map(ToString::to_string).collect();
                let more = if subproblems.is_empty() { "" } else { ": " };
                format!("the authority says: {detail}{more}{}", subproblems.join(", "))
            }
            Self::Authority(error) => format!("the authority cannot be asked: {error}"),
            Self::File(why) | Self::Other(why) => why.clone(),
        };
        f.write_str(&tame(&text))
    }
}

/// What others say, on one line and not too long.
pub(crate) fn tame(text: &str) -> String {
    let text = text.trim_end_matches(['.', '\n', '\r', ' ']);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WORDS).collect()
}
