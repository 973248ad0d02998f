//! What texts and addresses are compared with.

use std::net::IpAddr;

/// What a text is to be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Pattern {
    /// Exactly this.
    Exact(Box<[u8]>),
    /// The same, whatever the case of its letters.
    AnyCase(Box<[u8]>),
    /// This stands somewhere in it.
    Contains(Box<[u8]>),
    /// The parts between the stars, in this order; the first one at its beginning, the last one at its end.
    Glob(Box<[Box<[u8]>]>),
}

impl Pattern {
    /// `~ text`: a glob where it has a star, else a part.
    pub(super) fn like(text: &str) -> Self {
        if !text.contains('*') {
            return Self::Contains(text.as_bytes().into());
        }
        Self::Glob(text.split('*').map(|part| part.as_bytes().into()).collect())
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Exact(wanted) => **wanted == *text,
            Self::AnyCase(wanted) => wanted.eq_ignore_ascii_case(text),
            Self::Contains(part) => find(text, part).is_some(),
            Self::Glob(parts) => glob(parts, text),
        }
    }
}

/// There are two parts at least. Each one between is found as early as it can be: what is left is then the most.
fn glob(parts: &[Box<[u8]>], text: &[u8]) -> bool {
    let [first, between @ .., last] = parts else { return false };
    let Some(mut rest) = text.strip_prefix(&**first).and_then(|rest| rest.strip_suffix(&**last)) else {
        return false;
    };
    between.iter().all(|part| {
        let behind = find(rest, part).map(|at| &rest[at + part.len()..]);
        behind.inspect(|behind| rest = behind).is_some()
    })
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() { Some(0) } else { text.windows(part.len()).position(|window| window == part) }
}

/// Addresses with the same first bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Network {
    /// The address as one of IPv6.
    bits: u128,
    mask: u128,
}

impl Network {
    /// `192.0.2.7`, `10.0.0.0/8` or `2001:db8::/32`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        // An IPv4 address stands in the last 32 of 128 bits.
        let (before, most) = if address.is_ipv4() { (96, 32) } else { (0, 128) };
        let length = match length {
            Some(length) => length.parse::<u32>().ok().filter(|length| *length <= most)?,
            None => most,
        };
        let mask = u128::MAX.checked_shl(128 - before - length).unwrap_or(0);
        Some(Self { bits: bits(address) & mask, mask })
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        bits(address) & self.mask == self.bits
    }
}

/// One of IPv4 as it is written in IPv6 (RFC 4291 §2.5.5.2).
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}
