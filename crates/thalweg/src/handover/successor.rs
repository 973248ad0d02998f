//! The process that takes over.

use super::channel::{Channel, Received};
use super::message::{MessageSpec, PassedSocketSpec, RuntimeChangesSpec};
use std::io;
use std::time::Duration;
use thalweg_net::inherited::InheritedSocket;
use thalweg_tls::Tickets;

/// How long the predecessor may take to let go once it knows that this process is ready.
const LETS_GO: Duration = Duration::from_secs(20);
/// How long it may take to read a message.
const READS: Duration = Duration::from_secs(5);

/// What a process is that takes over from another one, until it has.
#[derive(Debug)]
pub(crate) struct Successor {
    channel: Channel,
    /// The version of the predecessor.
    pub(crate) version: String,
    /// What was changed while that ran.
    pub(crate) changes: RuntimeChangesSpec,
}

impl Successor {
    /// Reads the offer of a predecessor. From here on configurations have its keys of session tickets.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn of(channel: Channel, received: Received) -> io::Result<(Self, Vec<InheritedSocket>)> {
        let MessageSpec::Offer(offer) = received.message else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it offers nothing"));
        };
        Tickets::take_over(offer.tickets);
        let sockets = PassedSocketSpec::join(offer.sockets, received.fds);
        Ok((Self { channel, version: offer.version, changes: offer.changes }, sockets))
    }

    /// Gives up: the predecessor goes on.
    pub(crate) fn fail(&self, why: &str) {
        let _ = self.channel.send(&MessageSpec::Failed { why: why.to_owned() }, &[], READS);
    }

    /// Says that this process could accept, waits until it may, has it begin, and says that it has.
    ///
    /// # Errors
    /// The predecessor has given up waiting: it goes on, and this process is to end.
    pub(crate) fn take_over(self, begin: impl FnOnce()) -> io::Result<()> {
        let ready = MessageSpec::Ready { pid: std::process::id(), version: env!("CARGO_PKG_VERSION").into() };
        let sent = self.channel.send(&ready, &[], READS);
        let answer = sent.and_then(|()| self.channel.receive(Some(LETS_GO)));
        match answer {
            Ok(Received { message: MessageSpec::Go, .. }) => {}
            Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
            // It has crashed: somebody has to accept.
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
        begin();
        // Who does not hear it goes on beside this process: nobody is lost.
        let _ = self.channel.send(&MessageSpec::Serving, &[], READS);
        Ok(())
    }
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}
