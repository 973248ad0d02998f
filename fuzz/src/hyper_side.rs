//! The same byte stream as hyper's HTTP/1 server reads it.
//!
//! hyper runs over an in-memory connection that gives the input in pieces and swallows the answers.
//! Nothing in it waits for anything, so that polling it again and again is all the runtime it needs.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderMap;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};

use crate::engine::{Line, Message, sort, target_text};

/// Polls after which hyper is taken to wait for something that cannot come.
const POLLS: usize = 100_000;
/// Fields that hyper takes in one head: as many as we do.
const FIELDS: usize = thalweg_core::limits::FIELDS;

/// A request that hyper took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken {
    /// What it read.
    pub(crate) message: Message,
    /// Why the body could not be read; the message is then not whole.
    pub(crate) broken: Option<String>,
    /// Whether the body was read to its end or its fault.
    pub(crate) done: bool,
}

/// What hyper made of a stream.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The requests, in order.
    pub(crate) taken: Vec<Taken>,
    /// What ended the connection; nothing if hyper closed it without complaint.
    pub(crate) error: Option<String>,
}

/// Lets hyper serve a connection on which `pieces` arrive and then the end.
pub(crate) fn read(pieces: &[&[u8]]) -> Outcome {
    let taken = Rc::new(RefCell::new(Vec::new()));
    let service = service_fn(|request| answer(Rc::clone(&taken), request));
    let wire = Wire {
        pieces: pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| piece.to_vec()).rev().collect(),
    };
    let mut server = http1::Builder::new();
    server.half_close(true).max_headers(FIELDS);
    let mut connection = pin!(server.serve_connection(wire, service));
    let mut cx = Context::from_waker(Waker::noop());
    let mut polls = 0;
    let error = loop {
        match connection.as_mut().poll(&mut cx) {
            Poll::Ready(result) => break result.err().map(|error| describe(&error)),
            Poll::Pending => polls += 1,
        }
        assert!(polls < POLLS, "hyper waits for something");
    };
    let taken = taken.borrow().clone();
    Outcome { taken, error }
}

/// The error with its cause.
fn describe(error: &hyper::Error) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    format!("{error}: {cause}")
}

async fn answer(
    taken: Rc<RefCell<Vec<Taken>>>,
    request: Request<Incoming>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let (head, mut body) = request.into_parts();
    let uri = &head.uri;
    let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    let path = uri.path_and_query().map(|both| both.path()).unwrap_or_default();
    let message = Message {
        method: head.method.as_str().as_bytes().to_vec(),
        target: target_text(authority.as_bytes(), path.as_bytes(), uri.query().map(str::as_bytes)),
        is_http11: head.version == Version::HTTP_11,
        fields: lines(&head.headers),
        ..Message::default()
    };
    let status = if head.method == "CONNECT" { StatusCode::METHOD_NOT_ALLOWED } else { StatusCode::OK };
    let place = taken.borrow().len();
    taken.borrow_mut().push(Taken { message, ..Taken::default() });
    while let Some(frame) = body.frame().await {
        let taken = &mut taken.borrow_mut()[place];
        match frame.map(|frame| frame.into_data()) {
            Ok(Ok(bytes)) => taken.message.body.extend_from_slice(&bytes),
            Ok(Err(frame)) => taken.message.trailers = frame.trailers_ref().map(lines).unwrap_or_default(),
            Err(error) => {
                taken.broken = Some(describe(&error));
                break;
            }
        }
    }
    taken.borrow_mut()[place].done = true;
    let mut response = Response::new(Empty::new());
    *response.status_mut() = status;
    Ok(response)
}

fn lines(headers: &HeaderMap) -> Vec<Line> {
    let mut lines: Vec<Line> = headers
        .iter()
        .map(|(name, value)| (name.as_str().as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect();
    sort(&mut lines);
    lines
}

/// A connection whose input is known and whose output nobody reads.
struct Wire {
    /// The next piece last.
    pieces: Vec<Vec<u8>>,
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        if let Some(mut piece) = self.pieces.pop() {
            let rest = piece.split_off(piece.len().min(buffer.remaining()));
            buffer.put_slice(&piece);
            if !rest.is_empty() {
                self.pieces.push(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::byte_by_byte;
    use crate::engine;

    /// Without this, a target that compares nothing would look like one that finds nothing.
    #[test]
    fn both_sides_read_every_message_of_a_pipeline() {
        let stream = b"POST /a?b HTTP/1.1\r\nHost: a\r\nB: 1\r\nb: 2\r\nTransfer-Encoding: chunked\r\n\r\n\
            5;x=\"y\"\r\nhello\r\n0\r\nC: d\r\n\r\n\
            PUT http://a:80 HTTP/1.1\r\nHost: b\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc\
            GET / HTTP/1.0\r\n\r\nGET /never HTTP/1.1\r\nHost: a\r\n\r\n";
        let (ours, end) = engine::read(stream);
        assert!(matches!(end, engine::End::Close), "{end:?}");
        let ours: Vec<Message> = ours.into_iter().map(|read| read.message).collect();
        assert_eq!(ours.len(), 3);
        for pieces in [vec![&stream[..]], byte_by_byte(stream)] {
            let theirs = read(&pieces);
            assert_eq!(theirs.error, None);
            let theirs: Vec<Message> = theirs.taken.into_iter().map(|taken| taken.message).collect();
            assert_eq!(theirs, ours);
        }
    }

    #[test]
    fn a_stream_that_ends_within_a_body_is_seen_as_broken() {
        let outcome = read(&[b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc"]);
        assert!(outcome.taken[0].broken.is_some(), "{outcome:?}");
    }
}
