//! A connection whose server may answer and close before it has read the whole request.
//!
//! A server that refuses a large body (413) does so. The write fails then while the response already waits to be read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Drops what can no longer be written, so that the response is read. Where there is none, the read reports the end.
pub(crate) struct HalfClosed<S>(pub(crate) S);

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

impl<S: AsyncRead + Unpin> AsyncRead for HalfClosed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HalfClosed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match ready!(Pin::new(&mut self.0).poll_write(cx, buf)) {
            Err(error) if is_closed(&error) => Poll::Ready(Ok(buf.len())),
            done => Poll::Ready(done),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.0).poll_flush(cx)) {
            Err(error) if is_closed(&error) => Poll::Ready(Ok(())),
            done => Poll::Ready(done),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
