//! What a connection to an endpoint runs over, as pools see it.

use std::fmt::Debug;
use std::time::Duration;
use thalweg_net::{DetachedSocket, Owner, Socket};

/// What a connection runs over: a [`Socket`], or what stands for one in a simulation.
pub trait Wire: Debug {
    /// The same off its reactor, able to go to another worker. Dropping it closes it.
    type DetachedSocket: Debug + Send;
    /// Whether it can carry no further request, as far as events have told: it has ended, or spoken
    /// unasked, or its deadline has passed.
    fn is_spent(&self) -> bool;
    /// Whether the kernel knows of nothing to receive: no byte, no end, no error. One system call.
    fn is_quiet(&self) -> bool;
    /// Who is called from now on.
    fn set_owner(&self, owner: Owner);
    /// Sets (or with `None` takes away) its deadline, from now on.
    fn set_deadline(&self, after: Option<Duration>);
    /// Says whether nothing is under way on it.
    fn rest(&self, at_rest: bool);
    /// Takes it off its reactor.
    fn loosen(self) -> Self::DetachedSocket;
}

impl Wire for Socket {
    type DetachedSocket = DetachedSocket;

    fn is_spent(&self) -> bool {
        self.peer_closed() || self.expired() || !self.is_silent()
    }

    fn is_quiet(&self) -> bool {
        Self::is_quiet(self)
    }

    fn set_owner(&self, owner: Owner) {
        Self::set_owner(self, owner);
    }

    fn set_deadline(&self, after: Option<Duration>) {
        Self::set_deadline(self, after);
    }

    fn rest(&self, at_rest: bool) {
        Self::rest(self, at_rest);
    }

    fn loosen(self) -> DetachedSocket {
        self.unwatch()
    }
}
