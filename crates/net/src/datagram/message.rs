//! What the kernel is told of a datagram beside its bytes, and tells: addresses, and control messages (cmsg(3)). In its
//! own form, as bytes; pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Bytes of the longest address (`sockaddr_in6`).
const NAME: usize = 28;
/// Bytes for control messages: an address and an interface, and the size of segments.
const CONTROL: usize = 64;
/// Bytes of the head of a control message: a length, a level and a type.
const HEAD: usize = size_of::<usize>() + 8;

/// Where a datagram comes from or goes to, and at which address of this machine.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Way {
    /// The peer.
    pub peer: SocketAddr,
    /// The address of this machine that the peer speaks to; `None`: that of the socket.
    pub local: Option<IpAddr>,
}

/// A socket address as the kernel has it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Name(pub(super) [u8; NAME]);

impl Name {
    pub(super) const EMPTY: Self = Self([0; NAME]);

    /// Writes an address; how many bytes it has.
    pub(super) fn write(&mut self, address: SocketAddr) -> usize {
        let Self(bytes) = self;
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(address) => {
                bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                bytes[4..8].copy_from_slice(&address.ip().octets());
                bytes[8..16].fill(0);
                16
            }
            SocketAddr::V6(address) => {
                bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
                bytes[4..8].copy_from_slice(&address.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&address.ip().octets());
                bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
                NAME
            }
        }
    }

    /// The address that was written by the kernel, in so many bytes.
    pub(super) fn read(&self, length: usize) -> Option<SocketAddr> {
        let Self(bytes) = self;
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        match i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
            libc::AF_INET if length >= 16 => {
                let ip = Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
                Some(SocketAddrV4::new(ip, port).into())
            }
            libc::AF_INET6 if length >= NAME => {
                let ip = Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[8..24]).ok()?);
                let scope = u32::from_ne_bytes(<[u8; 4]>::try_from(&bytes[24..28]).ok()?);
                Some(SocketAddrV6::new(ip, port, 0, scope).into())
            }
            _ => None,
        }
    }
}

/// Control messages as the kernel has them.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Control {
    pub(super) bytes: [u8; CONTROL],
    pub(super) len: usize,
}

impl Control {
    pub(super) const EMPTY: Self = Self { bytes: [0; CONTROL], len: 0 };

    /// Adds the address that a datagram is to leave from. `of_v6`: the socket is one of IPv6.
    pub(super) fn add_source(&mut self, source: IpAddr, of_v6: bool) {
        match (source, of_v6) {
            (IpAddr::V4(ip), false) => {
                // in_pktinfo: interface, source, and what only is received.
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&ip.octets());
                self.add(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            (ip, _) => {
                let ip = match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                // in6_pktinfo: source, interface.
                let mut info = [0; 20];
                info[..16].copy_from_slice(&ip.octets());
                self.add(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
        }
    }

    /// Says that the datagram is several, of this length each but for the last.
    pub(super) fn add_segment(&mut self, length: u16) {
        self.add(libc::IPPROTO_UDP, libc::UDP_SEGMENT, &length.to_ne_bytes());
    }

    fn add(&mut self, level: i32, kind: i32, data: &[u8]) {
        let whole = HEAD + data.len();
        let Some(place) = self.bytes.get_mut(self.len..self.len + aligned(whole)) else {
            debug_assert!(false, "there is room for every control message that is sent");
            return;
        };
        place.fill(0);
        place[..size_of::<usize>()].copy_from_slice(&whole.to_ne_bytes());
        place[HEAD - 8..HEAD - 4].copy_from_slice(&level.to_ne_bytes());
        place[HEAD - 4..HEAD].copy_from_slice(&kind.to_ne_bytes());
        place[HEAD..whole].copy_from_slice(data);
        self.len += aligned(whole);
    }

    /// The address that a received datagram was sent to, in the form of its socket.
    pub(super) fn destination(&self) -> Option<IpAddr> {
        let mut rest = self.bytes.get(..self.len)?;
        loop {
            let length = usize::from_ne_bytes(rest.get(..size_of::<usize>())?.try_into().ok()?);
            let word = |at: usize| Some(i32::from_ne_bytes(rest.get(at..at + 4)?.try_into().ok()?));
            let (level, kind) = (word(HEAD - 8)?, word(HEAD - 4)?);
            let data = rest.get(HEAD..length)?;
            match (level, kind) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    // The local address of the datagram, which is another one than its destination where that is no
                    // address of one machine.
                    let ip = <[u8; 4]>::try_from(data.get(4..8)?).ok()?;
                    return Some(Ipv4Addr::from(ip).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let ip = Ipv6Addr::from(<[u8; 16]>::try_from(data.get(..16)?).ok()?);
                    // What was sent to a group cannot be answered from there: the kernel chooses.
                    return (!ip.is_multicast()).then_some(ip.into());
                }
                _ => rest = rest.get(aligned(length)..)?,
            }
        }
    }
}

/// What control messages are aligned to.
fn aligned(length: usize) -> usize {
    length.next_multiple_of(size_of::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_the_way_through_the_kernels_form() {
        for text in ["192.0.2.1:53", "[2001:db8::1]:53", "[::ffff:192.0.2.1]:65535", "[fe80::1%3]:9"] {
            let address: SocketAddr = text.parse().unwrap();
            let mut name = Name([0xff; NAME]);
            let length = name.write(address);
            assert_eq!(name.read(length), Some(address), "{text}");
            assert_eq!(name.read(length - 1), None, "{text}");
        }
        assert_eq!(Name::EMPTY.read(NAME), None);
    }

    #[test]
    fn a_source_is_read_as_the_destination_that_it_answers() {
        for (text, of_v6, read) in [
            ("192.0.2.1", false, "192.0.2.1"),
            ("192.0.2.1", true, "::ffff:192.0.2.1"),
            ("2001:db8::1", true, "2001:db8::1"),
        ] {
            let mut control = Control::EMPTY;
            control.add_source(text.parse().unwrap(), of_v6);
            assert_eq!(control.destination(), Some(read.parse().unwrap()), "{text}");
            for cut in 0..control.len {
                let _ = Control { len: cut, ..control }.destination();
            }
        }
    }

    #[test]
    fn nonsense_in_place_of_control_messages_is_nothing() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let mut control = Control::EMPTY;
            random.fill(&mut control.bytes);
            control.bytes[..8].copy_from_slice(&random.usize(..CONTROL * 2).to_ne_bytes());
            control.len = random.usize(..=CONTROL);
            let _ = control.destination();
        }
    }
}
