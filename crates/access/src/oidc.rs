//! Logins with an identity provider: OpenID Connect Core 1.0, the authorization code flow with PKCE (RFC 7636).
//!
//! Everything that must be remembered between two requests is in cookies that only this proxy and its replicas can read
//! ([`Sealer`]): a login under way ([`Login`]) and a session ([`Session`]). There is no store. [`Provider`] is what
//! talks to the provider; the rest is pure.

mod cookies;
mod flights;
mod form;
mod login;
mod metadata;
mod provider;
mod seal;
mod session;

pub use cookies::{CHUNKS, Cookies, join};
pub use form::{encoded, parameters};
pub use login::{Callback, LOGIN_LASTS, Login, safe_target};
pub use metadata::Metadata;
pub use provider::{Client, Failure, Provider};
pub use seal::Sealer;
pub use session::{Session, Stage};

#[cfg(test)]
mod tests;
