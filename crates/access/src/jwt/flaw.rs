//! Why a token proves nothing, in words for the operator. No part of the token is in them.

use super::Algorithm;
use std::borrow::Cow;

/// Why a token proves nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Flaw {
    /// It is longer than [`super::TOKEN`].
    TooLong,
    /// It is not three parts with dots between them.
    Form,
    /// A part is not base64url without padding (RFC 7515 §2).
    Base64,
    /// The head or the claims are no JSON object, too deep, or have a member twice.
    Json(&'static str),
    /// The head names no algorithm that is known here, or `none`.
    NoAlgorithm,
    /// The configuration does not allow this algorithm.
    Algorithm(Algorithm),
    /// The head has `crit`, or is otherwise not one of a signed token.
    Head(&'static str),
    /// No key has its `kid` and fits its algorithm.
    UnknownKey,
    /// The signature is not that of a known key.
    Signature,
    /// It has expired, this many seconds ago.
    Expired(u64),
    /// It is not valid before so many seconds have passed.
    NotYet(u64),
    /// It says that it was issued so many seconds from now.
    FromTheFuture(u64),
    /// A claim has another type than its standard says.
    Type(&'static str),
    /// A claim that is required is not there.
    Missing(Box<str>),
    /// It is from another issuer.
    Issuer,
    /// It is for somebody else.
    Audience,
    /// It answers another login.
    Nonce,
}

impl Flaw {
    /// For the log and the decision record.
    pub fn reason(&self) -> Cow<'static, str> {
        match self {
            Self::TooLong => "the token is longer than 16 KiB".into(),
            Self::Form => "the token is not three parts".into(),
            Self::Base64 => "a part of the token is not base64url".into(),
            Self::Json(why) => format!("the token has {why}").into(),
            Self::NoAlgorithm => "the token names no algorithm of signatures".into(),
            Self::Algorithm(name) => format!("the token is signed with {name}, which is not allowed").into(),
            Self::Head(why) => (*why).into(),
            Self::UnknownKey => "no key is known for the token's kid and algorithm".into(),
            Self::Signature => "the token's signature is wrong".into(),
            Self::Expired(ago) => format!("the token expired {ago} s ago").into(),
            Self::NotYet(wait) => format!("the token is not valid for another {wait} s").into(),
            Self::FromTheFuture(wait) => format!("the token was issued {wait} s in the future").into(),
            Self::Type(name) => format!("the token's `{name}` is of a wrong type").into(),
            Self::Missing(name) => format!("the token has no `{name}`").into(),
            Self::Issuer => "the token is from another issuer".into(),
            Self::Audience => "the token is for another audience".into(),
            Self::Nonce => "the token answers another login".into(),
        }
    }
}
