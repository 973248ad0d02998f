use super::*;
use crate::{Owner, Reactor, Socket};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// A test that waits longer for an event has failed.
const STEP: Duration = Duration::from_secs(10);
const PIPE: usize = 64 * 1024;

/// A socket of the reactor, and its peer.
fn tcp(reactor: &Rc<Reactor>) -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    (Socket::accepted(reactor, stream.into(), Owner(0)).unwrap(), peer)
}

fn unix(reactor: &Rc<Reactor>) -> (Socket, UnixStream) {
    let (stream, peer) = UnixStream::pair().unwrap();
    stream.set_nonblocking(true).unwrap();
    (Socket::accepted(reactor, stream.into(), Owner(0)).unwrap(), peer)
}

/// Waits for events until `poll` is ready.
fn ready<T>(reactor: &Reactor, mut poll: impl FnMut() -> Poll<io::Result<T>>) -> io::Result<T> {
    let mut called = Vec::new();
    loop {
        if let Poll::Ready(done) = poll() {
            return done;
        }
        assert!(reactor.wait(Some(STEP), &mut called).unwrap() > 0, "no event came");
    }
}

fn noise(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// Moves all that `from` sends through a pipe, while `peer` reads it.
fn moves(reactor: &Rc<Reactor>, from: &Socket, to: Socket, mut peer: impl Read + Send) -> Vec<u8> {
    let pipe = Pipe::new(PIPE).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut got = Vec::new();
            peer.read_to_end(&mut got).unwrap();
            got
        });
        let mut called = Vec::new();
        let mut ended = false;
        while !ended || pipe.held() > 0 {
            let mut moved = false;
            if !ended && let Poll::Ready(n) = from.poll_fill(&pipe, PIPE) {
                (ended, moved) = (n.unwrap() == 0, true);
            }
            while pipe.held() > 0 && to.poll_drain(&pipe).map(Result::unwrap).is_ready() {
                moved = true;
            }
            assert!(moved || reactor.wait(Some(STEP), &mut called).unwrap() > 0, "it hangs");
        }
        drop(to);
        reader.join().unwrap()
    })
}

#[test]
fn bytes_get_through_whole_whatever_the_sockets_are() {
    let reactor = Rc::new(Reactor::new().unwrap());
    let sent = noise(3_000_000);
    let send = |mut peer: Box<dyn Write + Send>| {
        let sent = sent.clone();
        std::thread::spawn(move || peer.write_all(&sent).unwrap())
    };
    let ((from, sender), (to, receiver)) = (tcp(&reactor), unix(&reactor));
    let sending = send(Box::new(sender));
    assert_eq!(moves(&reactor, &from, to, receiver), sent);
    sending.join().unwrap();
    let ((from, sender), (to, receiver)) = (unix(&reactor), tcp(&reactor));
    let sending = send(Box::new(sender));
    assert_eq!(moves(&reactor, &from, to, receiver), sent);
    sending.join().unwrap();
}

#[test]
fn a_fill_takes_no_more_than_was_asked_for() {
    let reactor = Rc::new(Reactor::new().unwrap());
    let (from, mut peer) = tcp(&reactor);
    let pipe = Pipe::new(PIPE).unwrap();
    peer.write_all(b"bodynext").unwrap();
    assert_eq!(ready(&reactor, || from.poll_fill(&pipe, 4)).unwrap(), 4);
    from.look();
    assert!(from.is_readable(), "there is more");
    let mut bytes = [0; 16];
    assert_eq!((pipe.read(&mut bytes).unwrap(), &bytes[..4]), (4, &b"body"[..]));
    assert_eq!(ready(&reactor, || from.poll_recv(&mut bytes)).unwrap(), 4);
    assert_eq!(&bytes[..4], b"next");
    peer.write_all(b"last").unwrap();
    assert_eq!(ready(&reactor, || from.poll_fill(&pipe, 4)).unwrap(), 4);
    from.look();
    assert!(!from.is_readable(), "that was all");
}

#[test]
fn a_pipe_that_is_full_leaves_the_socket_readable() {
    let reactor = Rc::new(Reactor::new().unwrap());
    let (from, mut peer) = tcp(&reactor);
    let pipe = Pipe::new(4096).unwrap();
    let full = pipe.write(&noise(8192)).unwrap();
    peer.write_all(b"more").unwrap();
    let mut called = Vec::new();
    while !from.is_readable() {
        assert!(reactor.wait(Some(STEP), &mut called).unwrap() > 0);
    }
    assert!(from.poll_fill(&pipe, PIPE).is_pending() && from.is_readable());
    assert_eq!(pipe.read(&mut [0; 8192]).unwrap(), full);
    assert!(from.poll_fill(&pipe, PIPE).is_ready(), "without another event");
    assert_eq!(pipe.read(&mut [0; 8192]).unwrap(), 4);
    assert!(from.poll_fill(&pipe, PIPE).is_pending() && !from.is_readable(), "now it is known to be empty");
}

#[test]
fn what_stands_behind_urgent_data_is_not_for_a_pipe() {
    let reactor = Rc::new(Reactor::new().unwrap());
    let (from, mut peer) = tcp(&reactor);
    let pipe = Pipe::new(PIPE).unwrap();
    rustix::net::send(&peer, b"!", rustix::net::SendFlags::OOB).unwrap();
    peer.write_all(b"behind").unwrap();
    let filled = ready(&reactor, || from.poll_fill(&pipe, PIPE)).map_err(|error| error.kind());
    assert_eq!(filled, Err(ErrorKind::Unsupported));
    let mut bytes = [0; 16];
    assert_eq!(ready(&reactor, || from.poll_recv(&mut bytes)).unwrap(), 6);
}

#[test]
fn an_end_and_a_reset_are_seen() {
    let reactor = Rc::new(Reactor::new().unwrap());
    let pipe = Pipe::new(PIPE).unwrap();
    let (from, peer) = tcp(&reactor);
    drop(peer);
    assert_eq!(ready(&reactor, || from.poll_fill(&pipe, 1)).unwrap(), 0);
    let (from, peer) = tcp(&reactor);
    rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    drop(peer);
    let reset = ready(&reactor, || from.poll_fill(&pipe, 1)).map_err(|error| error.kind());
    assert_eq!(reset, Err(ErrorKind::ConnectionReset));
    pipe.write(b"for nobody").unwrap();
    let broken = ready(&reactor, || from.poll_drain(&pipe)).map_err(|error| error.kind());
    assert_eq!(broken, Err(ErrorKind::BrokenPipe));
}
