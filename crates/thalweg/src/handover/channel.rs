//! A pair of unix sockets: messages in JSON, each with descriptors.

use super::message::MessageSpec;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The longest message, in bytes of JSON.
const LONGEST: usize = 64 * 1024 * 1024;
/// Descriptors of a message, at most.
const MOST: usize = 16 * 1024;
/// Descriptors that go at a time; the kernel takes 253.
const AT_A_TIME: usize = 128;

/// One end. Another process has the other.
#[derive(Debug)]
pub(crate) struct Channel(UnixStream);

/// A message with its descriptors.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) message: MessageSpec,
    pub(crate) fds: Vec<OwnedFd>,
}

impl Channel {
    /// Both ends of a new one.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        UnixStream::pair().map(|(one, other)| (Self(one), Self(other)))
    }

    /// For a process that is started with it.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.0.into()
    }

    /// Another handle of the same end.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Ends it for both.
    pub(crate) fn shutdown(&self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }

    /// Sends a message; waits at most as long for the other end to take it.
    ///
    /// # Errors
    /// The other end is gone, or takes nothing.
    pub(crate) fn send(
        &self,
        message: &MessageSpec,
        fds: &[BorrowedFd<'_>],
        limit: Duration,
    ) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        if text.len() > LONGEST || fds.len() > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is too much to hand over"));
        }
        self.0.set_write_timeout(Some(limit))?;
        let mut bytes = Vec::with_capacity(text.len() + 8);
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(fds.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&text);
        (&self.0).write_all(&bytes)?;
        for some in fds.chunks(AT_A_TIME) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_A_TIME))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !control.push(SendAncillaryMessage::ScmRights(some)) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            sendmsg(&self.0, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    /// The next message; waits at most this long for it, for ever without a limit.
    ///
    /// # Errors
    /// The other end is gone (`UnexpectedEof`), says nothing (`WouldBlock`), or what is no message.
    pub(crate) fn receive(&self, limit: Option<Duration>) -> io::Result<Received> {
        self.0.set_read_timeout(limit)?;
        let mut sizes = [0; 8];
        (&self.0).read_exact(&mut sizes)?;
        let size =
            |at: usize| u32::from_le_bytes([sizes[at], sizes[at + 1], sizes[at + 2], sizes[at + 3]]) as usize;
        let (length, count) = (size(0), size(4));
        if length > LONGEST || count > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
        }
        let mut text = vec![0; length];
        (&self.0).read_exact(&mut text)?;
        let mut fds = Vec::with_capacity(count);
        while fds.len() < count {
            let before = fds.len();
            self.receive_fds(&mut fds)?;
            if fds.len() == before {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(Received { message: serde_json::from_slice(&text)?, fds })
    }

    fn receive_fds(&self, fds: &mut Vec<OwnedFd>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_A_TIME))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        recvmsg(&self.0, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                fds.extend(some);
            }
        }
        Ok(())
    }
}

impl From<OwnedFd> for Channel {
    fn from(fd: OwnedFd) -> Self {
        Self(fd.into())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn messages_arrive_with_their_descriptors() {
        let (one, other) = Channel::pair().unwrap();
        let listeners: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        // More than go at a time.
        let fds: Vec<_> = (0..300).map(|at| listeners[at % 3].as_fd()).collect();
        let sender = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                one.send(&MessageSpec::Failed { why: "because".into() }, &[], LIMIT)?;
                one.send(&MessageSpec::Serving, &fds, LIMIT)
            });
            let received = other.receive(Some(LIMIT)).unwrap();
            assert!(matches!(received.message, MessageSpec::Failed { why } if why == "because"));
            let received = other.receive(Some(LIMIT)).unwrap();
            assert!(matches!(received.message, MessageSpec::Serving) && received.fds.len() == 300);
            let address = TcpListener::from(received.fds.into_iter().nth(4).unwrap()).local_addr().unwrap();
            assert_eq!(address, listeners[1].local_addr().unwrap());
            sender.join().unwrap()
        });
        sender.unwrap();
        drop(one);
        assert_eq!(other.receive(Some(LIMIT)).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn who_says_nothing_is_not_waited_for() {
        let (_one, other) = Channel::pair().unwrap();
        let error = other.receive(Some(Duration::from_millis(10))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
