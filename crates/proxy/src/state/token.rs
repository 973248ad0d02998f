//! The numbers by which a worker's reactor calls back: what kind of thing, and which one.

use thalweg_net::Owner;

/// Bits that tell the kind.
const KIND: u32 = 8;

/// Who is called when a socket is ready or its deadline has passed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Token {
    /// A listening socket, by its place among the worker's.
    Acceptor(u32),
    /// A client connection between exchanges.
    Idle(u32),
    /// A task in which an exchange runs.
    Task(u32),
    /// A tunnel.
    Tunnel(u32),
    /// The idle upstream connections of a service.
    Pool(u32),
    /// Those to one destination that requests have named, of a service with a number below 2²⁴.
    Destination(u32, u32),
    /// A connection that was refused and drains.
    Refusal(u32),
    /// A connection that speaks HTTP/2.
    Session(u32),
    /// A socket at which clients send datagrams.
    Port(u32),
    /// A client's datagrams to an endpoint.
    Datagrams(u32),
    /// The worker's mailbox.
    Notifier,
}

impl From<Token> for Owner {
    fn from(target: Token) -> Self {
        let (kind, index) = match target {
            Token::Acceptor(index) => (0, index),
            Token::Idle(index) => (1, index),
            Token::Task(index) => (2, index),
            Token::Pool(index) => (3, index),
            Token::Refusal(index) => (4, index),
            Token::Tunnel(index) => (5, index),
            Token::Session(index) => (6, index),
            Token::Destination(slot, index) => (8 | u64::from(slot) << KIND, index),
            Token::Notifier => (7, 0),
            Token::Port(index) => (9, index),
            Token::Datagrams(index) => (10, index),
        };
        Self(kind << 32 | u64::from(index))
    }
}

impl From<Owner> for Token {
    fn from(owner: Owner) -> Self {
        let index = owner.0 as u32;
        let (kind, slot) = ((owner.0 >> 32) & ((1 << KIND) - 1), (owner.0 >> (32 + KIND)) as u32);
        match kind {
            0 => Self::Acceptor(index),
            1 => Self::Idle(index),
            2 => Self::Task(index),
            3 => Self::Pool(index),
            4 => Self::Refusal(index),
            5 => Self::Tunnel(index),
            6 => Self::Session(index),
            8 => Self::Destination(slot, index),
            9 => Self::Port(index),
            10 => Self::Datagrams(index),
            _ => Self::Notifier,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_survives_the_way_through_the_reactor() {
        for index in [0, 7, u32::MAX] {
            let kinds: [fn(u32) -> Token; 9] = [
                Token::Acceptor,
                Token::Idle,
                Token::Task,
                Token::Tunnel,
                Token::Pool,
                Token::Refusal,
                Token::Session,
                Token::Port,
                Token::Datagrams,
            ];
            for target in kinds.map(|kind| kind(index)) {
                assert_eq!(Token::from(Owner::from(target)), target);
            }
        }
        for target in [Token::Destination(0, u32::MAX), Token::Destination((1 << 24) - 1, 7), Token::Notifier]
        {
            assert_eq!(Token::from(Owner::from(target)), target);
        }
    }
}
