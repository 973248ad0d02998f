use super::*;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::task::Waker;
use std::time::Duration;
use thalweg_http::h2::FloodLimits;
use thalweg_net::{Owner, Reactor};
use thalweg_upstream::StreamLine;

/// The client's connection preface and settings.
const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Size of a frame with its head: the same as that of a receive after a partial head.
const FRAME: usize = BEHIND_A_PART;
/// Frames that are sent.
const FRAMES: usize = 4096;
/// Bound on the buffers of a connection: one receive, and a little.
const MOST: usize = 2 * AT_ONCE;

struct End(Socket);

impl Peer for End {
    fn socket(&self) -> &Socket {
        &self.0
    }
}

/// A DATA frame of stream 1.
fn data() -> Vec<u8> {
    let len = (FRAME - 9) as u32;
    [&len.to_be_bytes()[1..], &[0, 0, 0, 0, 0, 1], &vec![b'x'; FRAME - 9]].concat()
}

/// Passes all received bytes to the engine; returns their number, and the largest size of the buffers.
fn read_all(pipe: &Pipe<End>, reactor: &Reactor) -> (usize, usize) {
    let (mut all, mut most) = (0, 0);
    let mut memory = [0; 8192];
    reactor.wait(Some(Duration::ZERO), &mut Vec::new()).unwrap();
    loop {
        let mut buffer = ReadBuf::new(&mut memory);
        let polled = pipe.0.borrow_mut().poll_read(&mut buffer);
        most = most.max(pipe.spare());
        match polled {
            Poll::Ready(read) => read.unwrap(),
            Poll::Pending if pipe.open() == Intake::Turn => pipe.begin_turn(),
            Poll::Pending => return (all, most),
        }
        all += buffer.filled().len();
    }
}

/// A peer sends `FRAMES` frames so that all but `cut` bytes of each arrive with the head of the next one; returns the
/// bytes that the engine got, and the largest size of the buffers.
fn shifted(shared: Shared, full: Full, begin: &[u8], cut: usize) -> (usize, usize) {
    let reactor = Rc::new(Reactor::new().unwrap());
    let (near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let near = Socket::accepted(&reactor, OwnedFd::from(near), Owner::default()).unwrap();
    let pipe = Pipe::new(End(near), &Rc::new(shared), Vec::new(), full);
    let frame = data();
    far.write_all(&[begin, &frame[..cut]].concat()).unwrap();
    let (mut all, mut most) = read_all(&pipe, &reactor);
    let next = [&frame[cut..], &frame[..cut]].concat();
    for _ in 0..FRAMES {
        far.write_all(&next).unwrap();
        let (read, held) = read_all(&pipe, &reactor);
        (all, most) = (all + read, most.max(held));
    }
    (all, most)
}

#[test]
fn frames_that_never_end_where_a_receive_does_are_not_kept() {
    for cut in 1..9 {
        let client = Shared::with_client(Waker::noop().clone(), None, FloodLimits::default());
        let (all, most) = shifted(client, Full::StopsReading, BEGIN, cut);
        assert_eq!(all, BEGIN.len() + FRAMES * FRAME, "of a client, {cut}");
        assert!(most <= MOST, "of a client, {cut}: {most} bytes");
        let line = Rc::new(StreamLine::default());
        let endpoint = Shared::with_endpoint(Waker::noop().clone(), line, FloodLimits::default());
        let (all, most) = shifted(endpoint, Full::ReadsOn, &BEGIN[24..], cut);
        assert_eq!(all, BEGIN.len() - 24 + FRAMES * FRAME, "of an endpoint, {cut}");
        assert!(most <= MOST, "of an endpoint, {cut}: {most} bytes");
    }
}
