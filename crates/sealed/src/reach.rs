//! What addresses a sealed label may name.
//!
//! A key that leaks, or a minter that is talked into something, must not turn the proxy into a door to everything it
//! can reach. Asked once per exchange, after a label was opened and before a connection is made.
//!
//! [`canonical`] finds the IPv4 address that an IPv6 address stands for, [`Special`] tells apart what is never
//! meant by a wide network, [`Own`] knows the proxy's own listeners, and [`Allow`] decides.

mod allow;
mod canonical;
mod own;
mod special;

pub use allow::{Allow, Entry, NotAllowed};
pub use canonical::canonical;
pub use own::Own;
pub use special::Special;
