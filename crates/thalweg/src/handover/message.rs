//! What processes say to each other. Both may be of different versions: members that are missing have defaults, unknown
//! ones are passed over, and what cannot be read fails the upgrade and nothing else.

use crate::control::{AccessSpec, KeptKeysSpec, OperatorSpec, OverlaySpec};
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use thalweg_net::inherited::InheritedSocket;
use thalweg_tls::PassedKeysSpec;

/// A message.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(crate) enum MessageSpec {
    /// To a process that begins: listen, on these sockets where they are yours. With their descriptors, and one for
    /// what is to be told of a crash. `uid`: the only user that it may become.
    Start {
        sockets: Vec<PassedSocketSpec>,
        #[serde(default)]
        uid: Option<u32>,
    },
    /// To a process that begins: take over from the one at the other end of this descriptor. Another one is for what is
    /// to be told of a crash. `uid`: as in `Start`.
    TakeOver {
        #[serde(default)]
        uid: Option<u32>,
    },
    /// To the successor: what the predecessor has. With the descriptors of the sockets.
    Offer(Box<OfferSpec>),
    /// The successor could accept.
    Ready { pid: u32, version: String },
    /// It could not, and ends.
    Failed { why: String },
    /// To the successor: accept.
    Go,
    /// To the supervisor: hold copies of these sockets, and no others. With their descriptors.
    Hold { sockets: Vec<PassedSocketSpec> },
    /// To the supervisor, before all other messages and before the sender changes its user: its state directory and
    /// its new user.
    Begins { state: Option<PathBuf>, uid: u32 },
    /// To the supervisor: the sender accepts connections, and is now the current process. To the predecessor: it may
    /// leave.
    Serving,
    /// To the supervisor: start a successor, of another binary where one is named.
    Upgrade {
        #[serde(default)]
        binary: Option<PathBuf>,
    },
    /// To the predecessor: give to the successor at the other end of this descriptor.
    Give,
    /// To the predecessor: there can be no successor.
    Refused { why: String },
    /// To the supervisor: the sender ends as it was told to; hold nothing any more.
    Leaving,
}

/// What the predecessor has.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct OfferSpec {
    /// Its version, for people.
    pub(crate) version: String,
    pub(crate) sockets: Vec<PassedSocketSpec>,
    pub(crate) tickets: PassedKeysSpec,
    pub(crate) changes: RuntimeChangesSpec,
}

/// A socket, whose descriptor comes at the same place.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct PassedSocketSpec {
    /// Of its listener.
    pub(crate) name: String,
    /// As in the configuration.
    pub(crate) address: String,
}

/// What was changed at run time.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct RuntimeChangesSpec {
    pub(crate) overlay: OverlaySpec,
    pub(crate) access: AccessSpec,
    pub(crate) api_keys: KeptKeysSpec,
    pub(crate) operator: OperatorSpec,
}

impl PassedSocketSpec {
    /// Of each of these.
    pub(crate) fn of(sockets: &[InheritedSocket]) -> Vec<Self> {
        let one =
            |socket: &InheritedSocket| Self { name: socket.name.clone(), address: socket.written.clone() };
        sockets.iter().map(one).collect()
    }

    /// Sockets with the descriptors that came along.
    pub(crate) fn join(passed: Vec<Self>, fds: Vec<OwnedFd>) -> Vec<InheritedSocket> {
        let one = |(socket, fd): (Self, OwnedFd)| InheritedSocket {
            name: socket.name,
            written: socket.address,
            fd,
        };
        passed.into_iter().zip(fds).map(one).collect()
    }
}
