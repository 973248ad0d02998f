//! A table of networks: built once, never changed, asked for each request.
//!
//! Networks are nested or disjoint, so those inside others add nothing: what is left is a sorted list of disjoint
//! networks, and the one that may contain an address is the last one that begins at or before it. It is found in a
//! static tree: each level has every `NODE`th beginning of the one below, so a search among a million is four short
//! ones, whatever the networks are. Of IPv6, networks up to /64 are compared by the upper half of the address alone. A
//! million IPv4 networks take 5 MB, as many of IPv6 9 MB, or 18 MB where they are longer than /64 (decision 0075 has
//! what was measured).
//!
//! IPv4 within IPv6 (`::ffff:192.0.2.1`) is IPv4, in networks and in addresses.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::fmt::{self, Display, Formatter};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most networks of one table; at most 72 MB.
pub const NETWORKS: usize = 4_000_000;
/// Beginnings that are compared in one step of a search.
const NODE: usize = 32;
/// The longest prefix of IPv6 that is compared by the upper half of the address.
const UPPER: u8 = 64;
/// Length of the prefix of IPv4 within IPv6.
const MAPPED: u8 = 96;

/// An immutable set of networks of both families.
#[derive(Default)]
pub struct Networks {
    v4: Sorted<u32>,
    /// Up to [`UPPER`].
    v6: Sorted<u64>,
    /// Longer ones, none of them in one of [`Self::v6`].
    v6_long: Sorted<u128>,
}

/// A digest: there may be a million of them.
impl fmt::Debug for Networks {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut digest = DefaultHasher::new();
        self.v4.hash(&mut digest);
        self.v6.hash(&mut digest);
        self.v6_long.hash(&mut digest);
        write!(f, "networks {:x}", digest.finish())
    }
}

impl Networks {
    /// These networks. Bits behind a prefix do not count.
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        let (mut v4, mut v6, mut long) = (Vec::new(), Vec::new(), Vec::new());
        for network in networks {
            match canonical(network) {
                IpNet::V4(network) => v4.push((u32::from(network.network()), network.prefix_len())),
                IpNet::V6(network) if network.prefix_len() <= UPPER => {
                    v6.push((upper(network.network()), network.prefix_len()));
                }
                IpNet::V6(network) => long.push((u128::from(network.network()), network.prefix_len())),
            }
        }
        let v6 = Sorted::new(v6);
        long.retain(|(start, _)| v6.find(upper(Ipv6Addr::from(*start))).is_none());
        Self { v4: Sorted::new(v4), v6, v6_long: Sorted::new(long) }
    }

    /// The largest network of the table that contains the address.
    #[inline]
    pub fn find(&self, address: IpAddr) -> Option<IpNet> {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let (start, length) = self.v4.find(u32::from(address))?;
                Ipv4Net::new(Ipv4Addr::from(start), length).ok().map(IpNet::V4)
            }
            IpAddr::V6(address) => {
                let found =
                    self.v6.find(upper(address)).map(|(start, length)| (u128::from(start) << 64, length));
                let (start, length) = found.or_else(|| self.v6_long.find(u128::from(address)))?;
                Ipv6Net::new(Ipv6Addr::from(start), length).ok().map(IpNet::V6)
            }
        }
    }

    /// Whether the address is in one of the networks.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.find(address).is_some()
    }

    /// How many disjoint networks there are.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len() + self.v6_long.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the table, in bytes.
    pub fn bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes() + self.v6_long.bytes()
    }
}

/// The network in its own family, without bits behind its prefix.
pub fn canonical(network: IpNet) -> IpNet {
    let network = network.trunc();
    match network {
        IpNet::V6(v6) if v6.prefix_len() >= MAPPED => match v6.network().to_ipv4_mapped() {
            Some(v4) => Ipv4Net::new(v4, v6.prefix_len() - MAPPED).map_or(network, IpNet::V4),
            None => network,
        },
        _ => network,
    }
}

/// A network as people write it: an address where it is one.
#[derive(Clone, Copy, Debug)]
pub struct Written(pub IpNet);

impl Display for Written {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.prefix_len() == self.0.max_prefix_len() {
            true => write!(f, "{}", self.0.addr()),
            false => write!(f, "{}", self.0),
        }
    }
}

/// Reads a network such as `10.0.0.0/8`, or an address.
///
/// # Errors
/// What is wrong with it, without quoting it.
pub fn network(text: &str) -> Result<IpNet, &'static str> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(canonical(address.into()));
    }
    let network: IpNet = text.parse().map_err(|_| "is neither a network nor an address")?;
    match network.trunc() == network {
        true => Ok(canonical(network)),
        false => Err("has bits set behind its prefix"),
    }
}

/// The bits of an address.
trait Bits: Copy + Ord {
    /// The last address.
    const LAST: Self;

    /// The first `length` of them.
    fn prefix(self, length: u8) -> Self;
}

/// The upper half of an address.
fn upper(address: Ipv6Addr) -> u64 {
    (u128::from(address) >> 64) as u64
}

impl Bits for u32 {
    const LAST: Self = Self::MAX;

    #[inline]
    fn prefix(self, length: u8) -> Self {
        self & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
    }
}

impl Bits for u64 {
    const LAST: Self = Self::MAX;

    #[inline]
    fn prefix(self, length: u8) -> Self {
        self & u64::MAX.checked_shl(64 - u32::from(length)).unwrap_or(0)
    }
}

impl Bits for u128 {
    const LAST: Self = Self::MAX;

    #[inline]
    fn prefix(self, length: u8) -> Self {
        self & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
    }
}

/// Disjoint networks of one family, in order.
#[derive(Hash)]
struct Sorted<A> {
    /// From the root, a single node, to the beginnings of the networks. The rest of a last node is filled up.
    levels: Vec<Box<[[A; NODE]]>>,
    /// Lengths of the prefixes.
    lengths: Box<[u8]>,
}

impl<A> Default for Sorted<A> {
    fn default() -> Self {
        Self { levels: Vec::new(), lengths: [].into() }
    }
}

impl<A: Bits> Sorted<A> {
    fn new(mut networks: Vec<(A, u8)>) -> Self {
        // A network that contains another one begins no later, and is shorter where both begin at once.
        networks.sort_unstable();
        let mut last: Option<(A, u8)> = None;
        networks.retain(|(start, length)| {
            let is_inside = last.is_some_and(|(of, outer)| outer <= *length && start.prefix(outer) == of);
            if !is_inside {
                last = Some((*start, *length));
            }
            !is_inside
        });
        let mut levels = Vec::new();
        let mut starts: Vec<A> = networks.iter().map(|(start, _)| *start).collect();
        while !starts.is_empty() {
            levels.push(nodes(&starts));
            starts = match starts.len() {
                0..=NODE => Vec::new(),
                _ => starts.iter().step_by(NODE).copied().collect(),
            };
        }
        levels.reverse();
        Self { levels, lengths: networks.iter().map(|(_, length)| *length).collect() }
    }

    #[inline]
    fn find(&self, address: A) -> Option<(A, u8)> {
        let at = match address == A::LAST {
            // What nodes are filled up with does not come after it.
            true => self.lengths.len().checked_sub(1)?,
            false => self.levels.iter().try_fold(0, |at, level| {
                let node = level.get(at)?;
                let before: usize = node.partition_point(|start| *start <= address);
                Some(at * NODE + before.checked_sub(1)?)
            })?,
        };
        let start = self.levels.last()?.get(at / NODE)?.get(at % NODE)?;
        let length = self.lengths.get(at)?;
        (address.prefix(*length) == *start).then_some((*start, *length))
    }

    fn len(&self) -> usize {
        self.lengths.len()
    }

    fn bytes(&self) -> usize {
        self.levels.iter().map(|level| size_of_val(&**level)).sum::<usize>() + self.lengths.len()
    }
}

/// These beginnings in nodes.
fn nodes<A: Bits>(starts: &[A]) -> Box<[[A; NODE]]> {
    let node = |part: &[A]| {
        let mut node = [A::LAST; NODE];
        node[..part.len()].copy_from_slice(part);
        node
    };
    starts.chunks(NODE).map(node).collect()
}

#[cfg(test)]
mod tests;
