//! What a label says once it is open: the 22 bytes of a destination.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::cipher::PLAIN;
use crate::hex::Hex;
use crate::minutes::Minutes;

/// The two bits of the kind.
const KIND: u8 = 0b0000_0011;
const KIND_ADDRESS: u8 = 0;
const KIND_SERVICE: u8 = 1;
/// Set when the target is spoken to with TLS.
const TLS: u8 = 0b0000_0100;

/// Where a request goes, and until when.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Destination {
    /// The target.
    pub to: To,
    /// Whether the target is spoken to with TLS; never with a service, whose endpoints say it.
    pub tls: bool,
    /// The first instant at which the label is not valid any more.
    pub expires: Minutes,
}

/// A target.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum To {
    /// An address and a port from 1 to 65535. IPv4 addresses that are mapped into IPv6 come out of a label as IPv4.
    Address(SocketAddr),
    /// A service of the configuration, by the digest of its name.
    Service(ServiceDigest),
}

/// The digest of a service's name under the secret of one key: the first 16 bytes of HMAC-SHA256 of
/// `thalweg sealed service`, a zero byte, and the name.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct ServiceDigest(pub(crate) [u8; 16]);

impl fmt::Debug for ServiceDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceDigest({})", Hex(&self.0))
    }
}

/// Why a destination has no label.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SealError {
    /// The port is 0.
    PortZero,
    /// The address has a scope (`fe80::1%eth0`).
    Scope,
    /// A service says of its endpoints itself how they are spoken to.
    SecureService,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PortZero => "port 0 cannot be reached; give one from 1 to 65535",
            Self::Scope => {
                "an address with a scope (`%`) means something on one machine only and has no label"
            }
            Self::SecureService => "whether TLS is spoken with a service is written in its endpoints",
        })
    }
}

impl std::error::Error for SealError {}

/// The 22 bytes by their fields: flags and kind, address or digest, port, expiry.
pub(crate) struct Plain {
    flags: u8,
    target: [u8; 16],
    port: u16,
    pub(crate) expires: Minutes,
}

impl Plain {
    pub(crate) fn of(destination: &Destination) -> Result<Self, SealError> {
        let (kind, target, port) = match destination.to {
            To::Address(address) if address.port() == 0 => return Err(SealError::PortZero),
            To::Address(SocketAddr::V6(address)) if address.scope_id() != 0 => return Err(SealError::Scope),
            To::Address(address) => {
                let target = match address.ip() {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                (KIND_ADDRESS, target.octets(), address.port())
            }
            To::Service(_) if destination.tls => return Err(SealError::SecureService),
            To::Service(ServiceDigest(digest)) => (KIND_SERVICE, digest, 0),
        };
        let flags = if destination.tls { kind | TLS } else { kind };
        Ok(Self { flags, target, port, expires: destination.expires })
    }

    pub(crate) fn read(bytes: &[u8; PLAIN]) -> Self {
        let [flags, rest @ ..] = *bytes;
        let [.., p, q, a, b, c] = rest;
        let mut target = [0; 16];
        target.copy_from_slice(&rest[..16]);
        Self { flags, target, port: u16::from_be_bytes([p, q]), expires: Minutes::from_be_bytes([a, b, c]) }
    }

    pub(crate) fn to_bytes(&self) -> [u8; PLAIN] {
        let mut bytes = [0; PLAIN];
        bytes[0] = self.flags;
        bytes[1..17].copy_from_slice(&self.target);
        bytes[17..19].copy_from_slice(&self.port.to_be_bytes());
        bytes[19..].copy_from_slice(&self.expires.to_be_bytes());
        bytes
    }

    /// Whether this version knows the flags and the kind, and the port fits the kind.
    pub(crate) fn is_sound(&self) -> bool {
        let (kind, has_port) = (self.flags & KIND, self.port != 0);
        let (known, tls) = (self.flags & !(KIND | TLS) == 0, self.flags & TLS != 0);
        known & ((kind == KIND_ADDRESS) & has_port | (kind == KIND_SERVICE) & !has_port & !tls)
    }

    /// What it says. Only for what [is sound](Self::is_sound).
    pub(crate) fn destination(&self) -> Destination {
        debug_assert!(self.is_sound());
        let to = match self.flags & KIND {
            KIND_SERVICE => To::Service(ServiceDigest(self.target)),
            _ => To::Address(SocketAddr::new(Ipv6Addr::from(self.target).to_canonical(), self.port)),
        };
        Destination { to, tls: self.flags & TLS != 0, expires: self.expires }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str, tls: bool) -> [u8; PLAIN] {
        let to = To::Address(text.parse().unwrap());
        Plain::of(&Destination { to, tls, expires: Minutes::MAX }).unwrap().to_bytes()
    }

    #[test]
    fn fields_stand_where_the_reference_says() {
        let v4 = bytes("192.0.2.10:8080", true);
        assert_eq!(v4[0], 0b100);
        assert_eq!(v4[1..17], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 10]);
        assert_eq!(v4[17..], [0x1f, 0x90, 0xff, 0xff, 0xff]);
        let service = To::Service(ServiceDigest([0xab; 16]));
        let plain = Plain::of(&Destination { to: service, tls: false, expires: Minutes::MAX }).unwrap();
        assert_eq!(plain.to_bytes()[..1], [1]);
        assert_eq!(plain.to_bytes()[1..19], [[0xab; 16].as_slice(), &[0, 0]].concat());
    }

    #[test]
    fn a_mapped_address_comes_out_as_ipv4() {
        for text in ["[::ffff:192.0.2.10]:8080", "192.0.2.10:8080"] {
            let to = Plain::read(&bytes(text, false)).destination().to;
            assert_eq!(to, To::Address("192.0.2.10:8080".parse().unwrap()));
        }
        let to = Plain::read(&bytes("[2001:db8::1]:443", false)).destination().to;
        assert_eq!(to, To::Address("[2001:db8::1]:443".parse().unwrap()));
    }

    #[test]
    fn only_known_flags_kinds_and_ports_are_sound() {
        for flags in 0..=255 {
            for (port, sound) in [(0, flags == 1), (1, [0, 4].contains(&flags))] {
                let plain = Plain { flags, target: [0; 16], port, expires: Minutes::MAX };
                assert_eq!(plain.is_sound(), sound, "{flags} {port}");
            }
        }
    }

    #[test]
    fn ports_of_zero_and_scopes_have_no_label() {
        let seal = |address: SocketAddr| {
            Plain::of(&Destination { to: To::Address(address), tls: false, expires: Minutes::MAX }).err()
        };
        assert_eq!(seal("10.0.0.1:0".parse().unwrap()), Some(SealError::PortZero));
        assert_eq!(seal("[fe80::1%2]:80".parse().unwrap()), Some(SealError::Scope));
        assert_eq!(seal("[fe80::1]:80".parse().unwrap()), None);
    }
}
