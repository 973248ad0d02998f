//! Logins with identity providers: one that is real (`oidc-provider` for Node), and one of the tests' own that behaves
//! badly.

mod browser;
mod hostile;
mod real;
