use super::*;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::thread;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const TIME: Duration = Duration::from_secs(20);

/// A bound socket on a reactor of its own.
fn bound(text: &str, dual_stack: bool) -> (SocketAddr, Datagrams, Rc<Reactor>) {
    let (address, mut fds) = bind(text.parse().unwrap(), dual_stack, (1, false)).unwrap();
    let reactor = Rc::new(Reactor::new().unwrap());
    (address, Datagrams::bound(&reactor, fds.remove(0), Owner(1)).unwrap(), reactor)
}

fn client(text: &str, to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(text).unwrap();
    socket.set_read_timeout(Some(TIME)).unwrap();
    socket.connect(to).unwrap();
    socket
}

/// Waits until something has come.
fn something(reactor: &Reactor) {
    assert_eq!(reactor.wait(Some(TIME), &mut Vec::new()).unwrap(), 1);
}

#[test]
fn datagrams_of_every_length_come_and_go_whole() {
    let (address, socket, reactor) = bound("127.0.0.1:0", false);
    let mut batch = Batch::default();
    let client = client("127.0.0.1:0", address);
    let mut answer = vec![0; PLACE_AND_MORE];
    for length in [0, 1, 512, 1472, 9000, 65_507] {
        let said: Vec<u8> = (0..length).map(|at| at as u8).collect();
        client.send(&said).unwrap();
        something(&reactor);
        assert_eq!(batch.receive(&socket, true).unwrap(), 1);
        let Received { bytes, way, is_cut } = batch.at(0);
        let way = way.unwrap();
        assert!(bytes == said && !is_cut && way.peer == client.local_addr().unwrap(), "{length}");
        let sent = batch.send(&socket, 0..1, Some(way));
        assert!(sent.count == 1 && sent.error.is_none(), "{sent:?}");
        let got = client.recv(&mut answer).unwrap();
        assert!(answer[..got] == said[..], "{length}");
    }
    assert_eq!(batch.receive(&socket, true).unwrap(), 0, "there is no more");
}

const PLACE_AND_MORE: usize = 70_000;

#[test]
fn answers_leave_from_the_address_that_was_spoken_to() {
    for (text, dual_stack, to, from) in [
        ("0.0.0.0:0", false, "127.0.0.3", "127.0.0.1:0"),
        ("[::]:0", true, "127.0.0.3", "127.0.0.1:0"),
        ("[::]:0", true, "::1", "[::1]:0"),
    ] {
        let (address, socket, reactor) = bound(text, dual_stack);
        let to = SocketAddr::new(to.parse().unwrap(), address.port());
        let client = client(from, to);
        client.send(b"whence").unwrap();
        something(&reactor);
        let mut batch = Batch::default();
        assert_eq!(batch.receive(&socket, true).unwrap(), 1);
        let way = batch.at(0).way.unwrap();
        assert_eq!(way.local.unwrap().to_canonical(), to.ip());
        assert_eq!(batch.send(&socket, 0..1, Some(way)).count, 1);
        let mut answer = [0; 16];
        // It is connected: it hears of nobody but whom it spoke to.
        assert_eq!(client.recv(&mut answer).unwrap(), 6, "{text} {to}");
    }
}

#[test]
fn as_many_as_there_are_places_come_at_once_and_go_on_in_their_order() {
    let (address, socket, reactor) = bound("127.0.0.1:0", false);
    let (there, end, its_reactor) = bound("127.0.0.1:0", false);
    let client = client("127.0.0.1:0", address);
    for number in 0..Batch::PLACES as u8 + 3 {
        client.send(&[number]).unwrap();
    }
    something(&reactor);
    let (mut batch, mut further) = (Batch::default(), Batch::default());
    let onward = Datagrams::connect(&reactor, there, Owner(2)).unwrap();
    let mut next = 0;
    for expected in [Batch::PLACES, 3] {
        assert_eq!(batch.receive(&socket, true).unwrap(), expected);
        let sent = batch.send(&onward, 0..expected, None);
        assert!(sent.count == expected && sent.error.is_none());
        something(&its_reactor);
        assert_eq!(further.receive(&end, false).unwrap(), expected);
        for place in 0..expected {
            assert_eq!(further.at(place).bytes, [next]);
            next += 1;
        }
    }
}

#[test]
fn what_goes_as_one_comes_as_it_was() {
    let (address, socket, reactor) = bound("127.0.0.1:0", false);
    let (there, end, its_reactor) = bound("127.0.0.1:0", false);
    let client = client("127.0.0.1:0", address);
    let (mut batch, mut further) = (Batch::default(), Batch::default());
    let onward = Datagrams::connect(&reactor, there, Owner(2)).unwrap();
    for lengths in
        [&[1200, 1200, 1200][..], &[1200, 1200, 7], &[7, 1200], &[0, 0], &[5, 5, 0], &[9000; 8], &[1; 32]]
    {
        for (number, length) in (0_u8..).zip(lengths) {
            client.send(&vec![number; *length]).unwrap();
        }
        something(&reactor);
        assert_eq!(batch.receive(&socket, true).unwrap(), lengths.len());
        let is_one = batch.segment(0..lengths.len()).is_some();
        assert_eq!(is_one, matches!(lengths, [1200, 1200, _] | [1, ..]), "{lengths:?}");
        assert_eq!(batch.send(&onward, 0..lengths.len(), None).count, lengths.len());
        something(&its_reactor);
        assert_eq!(further.receive(&end, false).unwrap(), lengths.len());
        for (place, length) in lengths.iter().enumerate() {
            assert!(further.at(place).bytes == vec![place as u8; *length], "{lengths:?}");
        }
        // And back, from the address that the client spoke to.
        let way = batch.at(0).way;
        assert_eq!(batch.send(&socket, 0..lengths.len(), way).count, lengths.len());
        for (number, length) in (0_u8..).zip(lengths) {
            let mut answer = vec![0; PLACE_AND_MORE];
            let got = client.recv(&mut answer).unwrap();
            assert!(answer[..got] == vec![number; *length]);
        }
    }
    assert!(onward.joins() && socket.joins());
}

#[test]
fn who_sends_to_nobody_is_told() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let reactor = Rc::new(Reactor::new().unwrap());
    let socket = Datagrams::connect(&reactor, nobody, Owner(1)).unwrap();
    socket.send(b"anybody").unwrap();
    something(&reactor);
    let error = Batch::default().receive(&socket, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_port_is_shared_by_our_own_sockets_and_by_nobody_else() {
    let (address, fds) = bind(SocketAddr::new(LOOPBACK, 0), false, (3, false)).unwrap();
    assert_eq!(fds.len(), 3);
    assert_eq!(bind(address, false, (1, false)).unwrap_err().kind(), ErrorKind::AddrInUse);
    assert!(probe(address, false).is_err());
    assert_eq!(bind(address, false, (2, true)).unwrap().1.len(), 2, "beside ours");
    drop(fds);
    probe(address, false).unwrap();
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    assert!(bind(any, true, (2, false)).unwrap().0.port() > 0);
}

#[test]
fn a_client_stays_at_one_of_several_sockets() {
    let (address, fds) = bind(SocketAddr::new(LOOPBACK, 0), false, (4, false)).unwrap();
    let senders = (0..8).map(|_| {
        thread::spawn(move || {
            let client = client("127.0.0.1:0", address);
            (0..8).for_each(|_| assert_eq!(client.send(b"x").unwrap(), 1));
            client.local_addr().unwrap()
        })
    });
    let senders: Vec<_> = senders.map(|sender| sender.join().unwrap()).collect();
    let mut batch = Batch::default();
    let mut homes = vec![0; senders.len()];
    for fd in &fds {
        let mut seen = std::collections::HashSet::new();
        loop {
            let count = batch.receive(fd, true).unwrap();
            seen.extend((0..count).map(|place| batch.at(place).way.unwrap().peer));
            if count < Batch::PLACES {
                break;
            }
        }
        senders.iter().zip(&mut homes).for_each(|(sender, homes)| *homes += i32::from(seen.contains(sender)));
    }
    assert!(homes.iter().all(|homes| *homes == 1), "{homes:?}");
}
