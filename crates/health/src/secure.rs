//! TLS between a check and its connection: a session of the crate `tls` over a stream of tokio.
//!
//! Invariants: bytes that are sealed go out in their order before any others; an end that the endpoint did not tell of
//! is an error.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use thalweg_tls::{Connector, Offer, RECORD_MAX, Session};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Plaintext that is sealed at once.
const AT_ONCE: usize = 16 * 1024;

/// A connection with TLS.
#[derive(Debug)]
pub(crate) struct Secure<S> {
    stream: S,
    session: Session,
    /// Received and not opened.
    received: Vec<u8>,
    /// The session has not seen all of it, or has plaintext left.
    more: bool,
    /// The endpoint has said that nothing follows.
    ended: bool,
    /// Sealed and not sent: from `gone` on.
    unsent: Vec<u8>,
    gone: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Secure<S> {
    /// Shakes hands.
    ///
    /// # Errors
    /// What keeps the two from it, in words.
    pub(crate) async fn connect(stream: S, connector: &Arc<Connector>, offer: Offer) -> io::Result<Self> {
        let session = Session::connect(connector, offer).map_err(io::Error::other)?;
        let (received, unsent) = (Vec::new(), Vec::new());
        let mut secure = Self { stream, session, received, more: false, ended: false, unsent, gone: 0 };
        poll_fn(|context| secure.poll_handshake(context)).await?;
        Ok(secure)
    }

    fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            // The endpoint may read only when it has said its part: that is taken meanwhile.
            let sent = self.poll_send(context)?;
            if !self.session.is_shaking_hands() {
                return sent.map(Ok);
            }
            ready!(self.poll_receive(context))?;
            self.open(context, &mut [])?;
        }
    }

    /// Receives at least a byte.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; RECORD_MAX];
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        if buffer.filled().is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.received.extend_from_slice(buffer.filled());
        self.more = true;
        Poll::Ready(Ok(()))
    }

    /// Opens what was received; gives the plaintext's length.
    fn open(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> io::Result<usize> {
        match self.session.open(&mut self.received, into) {
            Ok(opened) => {
                self.received.drain(..opened.consumed);
                (self.more, self.ended) = (opened.more, opened.ended);
                Ok(opened.written)
            }
            Err(failure) => {
                // The endpoint is told why, as far as it listens.
                let _ = self.poll_send(context);
                Err(io::Error::other(failure))
            }
        }
    }

    /// Sends what waits, and what the session has to say.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut words = [0; 1024];
        loop {
            let said = self.session.say(&mut words);
            if said == 0 {
                break;
            }
            self.unsent.extend_from_slice(&words[..said]);
        }
        while self.gone < self.unsent.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &self.unsent[self.gone..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.gone += sent,
            }
        }
        self.unsent.clear();
        self.gone = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secure<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let secure = self.get_mut();
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            if secure.ended {
                return Poll::Ready(Ok(()));
            }
            if secure.more {
                let written = secure.open(context, buffer.initialize_unfilled())?;
                // What the session says to it is not waited for.
                let _ = secure.poll_send(context)?;
                if written > 0 {
                    buffer.advance(written);
                    return Poll::Ready(Ok(()));
                }
            } else {
                ready!(secure.poll_receive(context))?;
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secure<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let secure = self.get_mut();
        ready!(secure.poll_send(context))?;
        let bytes = &bytes[..bytes.len().min(AT_ONCE)];
        let mut out = [0; RECORD_MAX];
        let sealed =
            secure.session.seal(&[IoSlice::new(bytes)], false, &mut out).map_err(io::Error::other)?;
        if sealed.taken == 0 && !bytes.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        secure.unsent.extend_from_slice(&out[..sealed.written]);
        // What does not go now goes with the flush, or before the next bytes.
        let _ = secure.poll_send(context)?;
        Poll::Ready(Ok(sealed.taken))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let secure = self.get_mut();
        ready!(secure.poll_send(context))?;
        Pin::new(&mut secure.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let secure = self.get_mut();
        let mut farewell = [0; 256];
        let said = secure.session.part(&mut farewell);
        secure.unsent.extend_from_slice(&farewell[..said]);
        ready!(secure.poll_send(context))?;
        Pin::new(&mut secure.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
