//! The header of the PROXY protocol, without I/O: who the client of a balancer in front of us is, and who ours is for
//! those behind us. The source of every rule is HAProxy's proxy-protocol.txt, of which the sections are named.
//!
//! Read from the first bytes of a connection, before TLS and everything else; written as its first bytes. Only some
//! peers may be believed (§5): the caller knows them and calls for no others. What is read depends on the bytes of the
//! header alone, never on what follows or on the pieces that it came in.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use thalweg_core::limits::PROXY_HEADER;

/// What a header of version 1 begins with, the space included (§2.1).
const LINE_START: &[u8] = b"PROXY ";
/// Longest header of version 1, in bytes with its CRLF (§2.1).
const LINE: usize = 107;
/// What a header of version 2 begins with (§2.2).
const BLOCK_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of a header of version 2 before the addresses: the signature, version and command, family, length.
const BLOCK_HEAD: usize = BLOCK_START.len() + 4;
/// Version 2 with the command LOCAL: a connection of the sender itself, such as a health check.
const LOCAL: u8 = 0x20;
/// Version 2 with the command PROXY.
const PROXY: u8 = 0x21;
const TCP_IPV4: u8 = 0x11;
const UDP_IPV4: u8 = 0x12;
const TCP_IPV6: u8 = 0x21;
const UDP_IPV6: u8 = 0x22;
const STREAM_UNIX: u8 = 0x31;
const DATAGRAM_UNIX: u8 = 0x32;
/// Bytes of the two addresses of a pair of Unix sockets.
const UNIX: usize = 2 * 108;
// Types of TLVs (§2.2). NOOP (0x04) and all others are skipped.
const ALPN: u8 = 0x01;
const AUTHORITY: u8 = 0x02;
const CRC32C: u8 = 0x03;
const UNIQUE_ID: u8 = 0x05;
/// Longest name in a TLV, in bytes: as long as a name of ALPN (RFC 7301 §3.1), and no host name is longer (RFC 1035
/// §2.3.4).
const NAME: usize = 255;
/// Longest unique id, in bytes (§2.2.5).
const ID: usize = 128;

/// What was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Read {
    /// Call again with more bytes, all from the start. Fewer than [`PROXY_HEADER`] bytes have come.
    Incomplete,
    /// It begins with something else: one byte at least differs from either signature.
    Absent,
    /// All of it is there.
    Header(Header),
    /// It begins with a signature and will never be a header; why, without a subject. The connection is to be aborted.
    Malformed(&'static str),
}

/// A whole header, of either version.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Header {
    /// Its length in bytes: what is relayed begins there. At most [`PROXY_HEADER`].
    pub len: usize,
    /// The two ends of the connection that the sender took. `None`: those of the sender's own connection hold
    /// (`UNKNOWN`, LOCAL, what is unspecified, Unix sockets).
    pub addresses: Option<Addresses>,
    /// The name that the client asked for, as it was sent: 1 to 255 bytes. Whether it is a host name is not looked at.
    pub authority: Option<String>,
    /// The application protocol, as it was sent: 1 to 255 bytes.
    pub alpn: Option<Vec<u8>>,
    /// What the sender calls the connection: 0 to 128 bytes.
    pub unique_id: Option<Vec<u8>>,
}

/// The two ends of a connection, as they were sent: both IPv4 or both IPv6. An IPv4 address that is mapped into IPv6
/// stays so; who compares addresses makes them canonical.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Addresses {
    /// The client.
    pub source: SocketAddr,
    /// What the client connected to.
    pub destination: SocketAddr,
}

/// What is told to those behind us.
#[derive(Clone, Copy, Debug)]
pub struct Intro<'a> {
    /// The client.
    pub source: SocketAddr,
    /// What the client connected to.
    pub destination: SocketAddr,
    /// The name that the client asked for. Left out when it is empty or longer than 255 bytes.
    pub authority: Option<&'a str>,
    /// The application protocol. Left out when it is empty or longer than 255 bytes.
    pub alpn: Option<&'a [u8]>,
    /// What we call the connection. Left out when it is longer than 128 bytes.
    pub unique_id: Option<&'a [u8]>,
}

/// Reads what was received so far.
///
/// Version 1 (§2.1): one line of 107 bytes at most. A CR or LF that is no CRLF is malformed, in the ignored part of an
/// `UNKNOWN` line too.
///
/// Version 2 (§2.2): [`PROXY_HEADER`] bytes at most. DGRAM is read as STREAM is: which protocol the sender took
/// changes nothing in who the client is. With LOCAL, and where family or protocol is unspecified, it is not known where
/// addresses end: all of the header is skipped then, checksum and TLVs too. A family or protocol that the specification
/// does not have is malformed, as it asks for.
///
/// TLVs: authority, ALPN and unique id are read and the checksum is verified; others are skipped. An authority or ALPN
/// that is empty or longer than 255 bytes, or an authority that is no UTF-8, is ignored. A longer unique id than 128
/// bytes, a checksum that is not 4 bytes or is wrong, and any of these four that stands twice, are malformed: two
/// readers would know two clients.
pub fn read(bytes: &[u8]) -> Read {
    let read = if bytes.starts_with(LINE_START) {
        read_line(bytes)
    } else if bytes.starts_with(BLOCK_START) {
        read_block(bytes)
    } else if LINE_START.starts_with(bytes) || BLOCK_START.starts_with(bytes) {
        return Read::Incomplete;
    } else {
        return Read::Absent;
    };
    match read {
        Ok(Some(header)) => Read::Header(header),
        Ok(None) => Read::Incomplete,
        Err(why) => Read::Malformed(why),
    }
}

/// Reads version 1; `None`: more must come.
fn read_line(bytes: &[u8]) -> Result<Option<Header>, &'static str> {
    let line = &bytes[..bytes.len().min(LINE)];
    let end = line.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(line.len());
    let text = match line.split_at(end) {
        (text, [b'\r', b'\n', ..]) => text,
        (_, [] | [b'\r']) if line.len() < LINE => return Ok(None),
        (_, [] | [b'\r']) => return Err("no CRLF within 107 bytes"),
        _ => return Err("a CR or LF that is no CRLF"),
    };
    let mut words = text[LINE_START.len()..].split(|byte| *byte == b' ');
    let addresses = match words.next() {
        Some(b"UNKNOWN") => None,
        Some(b"TCP4") => Some(read_words::<Ipv4Addr>(words)?),
        Some(b"TCP6") => Some(read_words::<Ipv6Addr>(words)?),
        _ => return Err("a protocol that is not TCP4, TCP6 or UNKNOWN"),
    };
    Ok(Some(Header { len: end + 2, addresses, ..Header::default() }))
}

/// Two addresses and two ports, which are all that there is.
fn read_words<'a, Ip>(mut words: impl Iterator<Item = &'a [u8]>) -> Result<Addresses, &'static str>
where
    Ip: FromStr + Into<IpAddr>,
{
    let mut next = || words.next().and_then(|word| std::str::from_utf8(word).ok());
    let mut ip = || next().and_then(|word| word.parse::<Ip>().ok()).ok_or("no address of its family");
    let (source, destination) = (ip()?, ip()?);
    let mut port = || next().and_then(read_port).ok_or("no port from 0 to 65535");
    let (source_port, destination_port) = (port()?, port()?);
    // Also bytes that are not text.
    if words.next().is_some() {
        return Err("more than two addresses and two ports");
    }
    Ok(Addresses {
        source: SocketAddr::new(source.into(), source_port),
        destination: SocketAddr::new(destination.into(), destination_port),
    })
}

/// A port without a sign and leading zeros, which std would take.
fn read_port(word: &str) -> Option<u16> {
    let is_canonical = word == "0" || word.starts_with(|first: char| matches!(first, '1'..='9'));
    word.parse().ok().filter(|_| is_canonical)
}

/// Reads version 2; `None`: more must come.
fn read_block(bytes: &[u8]) -> Result<Option<Header>, &'static str> {
    let Some(&command) = bytes.get(BLOCK_START.len()) else { return Ok(None) };
    if !matches!(command, LOCAL | PROXY) {
        return Err("a version that is not 2, or a command that is neither LOCAL nor PROXY");
    }
    let Some(&[.., family, high, low]) = bytes.first_chunk::<BLOCK_HEAD>() else { return Ok(None) };
    let len = BLOCK_HEAD + usize::from(u16::from_be_bytes([high, low]));
    if len > PROXY_HEADER {
        return Err("more than 4 KiB");
    }
    let Some(whole) = bytes.get(..len) else { return Ok(None) };
    let mut header = Header { len, ..Header::default() };
    if command == LOCAL {
        return Ok(Some(header));
    }
    let block = &whole[BLOCK_HEAD..];
    let tlvs = match family {
        TCP_IPV4 | UDP_IPV4 => read_addresses::<4>(&mut header, block),
        TCP_IPV6 | UDP_IPV6 => read_addresses::<16>(&mut header, block),
        STREAM_UNIX | DATAGRAM_UNIX => block.get(UNIX..),
        // One of the two is unspecified and the other one known.
        0x00..=0x02 | 0x10 | 0x20 | 0x30 => return Ok(Some(header)),
        _ => return Err("a family or protocol that the specification does not have"),
    };
    let tlvs = tlvs.ok_or("addresses that pass its end")?;
    read_tlvs(&mut header, whole, tlvs)?;
    Ok(Some(header))
}

/// Reads two addresses of `N` bytes and two ports; what follows them is returned. `None`: they do not fit.
fn read_addresses<'a, const N: usize>(header: &mut Header, block: &'a [u8]) -> Option<&'a [u8]>
where
    IpAddr: From<[u8; N]>,
{
    let (source, rest) = block.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (source_port, rest) = rest.split_first_chunk::<2>()?;
    let (destination_port, rest) = rest.split_first_chunk::<2>()?;
    header.addresses = Some(Addresses {
        source: SocketAddr::new(IpAddr::from(*source), u16::from_be_bytes(*source_port)),
        destination: SocketAddr::new(IpAddr::from(*destination), u16::from_be_bytes(*destination_port)),
    });
    Some(rest)
}

/// Reads the TLVs, which are the end of `whole`. Each takes 3 bytes at least: the header's length bounds the loop.
fn read_tlvs(header: &mut Header, whole: &[u8], tlvs: &[u8]) -> Result<(), &'static str> {
    let mut rest = tlvs;
    // The bit of each type that may stand once and was there.
    let mut seen = 0u8;
    while !rest.is_empty() {
        let (kind, value) = take_tlv(&mut rest).ok_or("a TLV that passes its end")?;
        if !matches!(kind, ALPN | AUTHORITY | CRC32C | UNIQUE_ID) {
            continue;
        }
        if seen & (1 << kind) != 0 {
            return Err("a TLV that stands twice");
        }
        seen |= 1 << kind;
        match kind {
            ALPN if is_name(value) => header.alpn = Some(value.to_vec()),
            AUTHORITY if is_name(value) => {
                header.authority = std::str::from_utf8(value).ok().map(str::to_owned);
            }
            CRC32C => verify(whole, value, rest)?,
            UNIQUE_ID if value.len() > ID => return Err("a unique id of more than 128 bytes"),
            UNIQUE_ID => header.unique_id = Some(value.to_vec()),
            _ => {}
        }
    }
    Ok(())
}

/// Takes type and value of the first TLV; `None`: it is not all there.
fn take_tlv<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let ([kind, high, low], after) = rest.split_first_chunk::<3>()?;
    let (value, after) = after.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
    *rest = after;
    Some((*kind, value))
}

fn is_name(value: &[u8]) -> bool {
    (1..=NAME).contains(&value.len())
}

/// Compares the checksum `value`, after which `rest` stands in the `whole` header, with that of the header in which
/// zeros stand for it (§2.2.3).
fn verify(whole: &[u8], value: &[u8], rest: &[u8]) -> Result<(), &'static str> {
    let Ok(value) = <[u8; 4]>::try_from(value) else { return Err("a checksum that is not 4 bytes") };
    let before = &whole[..whole.len() - rest.len() - value.len()];
    match crc32c([before, &[0; 4], rest]) == u32::from_be_bytes(value) {
        true => Ok(()),
        false => Err("a wrong checksum"),
    }
}

impl Intro<'_> {
    /// Appends the line of version 1, of 104 bytes at most. It has the addresses alone.
    ///
    /// Two IPv4 addresses are told as such, also where a socket for both families has mapped them into IPv6. An IPv4
    /// address beside an IPv6 address is mapped, in both versions. IPv6 scopes are not told.
    pub fn write_v1(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let ips = self.ips();
        out.extend_from_slice(LINE_START);
        out.extend_from_slice(if ips[0].is_ipv4() { b"TCP4" } else { b"TCP6" });
        // A write to a Vec does not fail.
        for ip in ips {
            drop(match ip {
                // std would write the last 32 bits as IPv4, which the specification does not have.
                IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => {
                    let [.., high, low] = ip.segments();
                    write!(out, " ::ffff:{high:x}:{low:x}")
                }
                ip => write!(out, " {ip}"),
            });
        }
        drop(write!(out, " {} {}\r\n", self.source.port(), self.destination.port()));
        debug_assert!(out.len() - start <= LINE);
    }

    /// Appends the header of version 2, of 699 bytes at most, without a checksum. Addresses are those of
    /// [`Intro::write_v1`].
    pub fn write_v2(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let ips = self.ips();
        out.extend_from_slice(BLOCK_START);
        let family = if ips[0].is_ipv4() { TCP_IPV4 } else { TCP_IPV6 };
        // The length is not known yet.
        out.extend_from_slice(&[PROXY, family, 0, 0]);
        for ip in ips {
            match ip {
                IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
                IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
            }
        }
        out.extend_from_slice(&self.source.port().to_be_bytes());
        out.extend_from_slice(&self.destination.port().to_be_bytes());
        let authority = self.authority.map(str::as_bytes).filter(|value| is_name(value));
        write_tlv(out, ALPN, self.alpn.filter(|value| is_name(value)));
        write_tlv(out, AUTHORITY, authority);
        write_tlv(out, UNIQUE_ID, self.unique_id.filter(|value| value.len() <= ID));
        let header = &mut out[start..];
        debug_assert!(header.len() <= PROXY_HEADER);
        let length = (header.len() - BLOCK_HEAD) as u16;
        header[BLOCK_HEAD - 2..BLOCK_HEAD].copy_from_slice(&length.to_be_bytes());
    }

    /// Both addresses: IPv4 if both can be, else IPv6.
    fn ips(&self) -> [IpAddr; 2] {
        let ips = [self.source.ip().to_canonical(), self.destination.ip().to_canonical()];
        match ips {
            [IpAddr::V4(_), IpAddr::V4(_)] => ips,
            ips => ips.map(|ip| match ip {
                IpAddr::V4(ip) => IpAddr::V6(ip.to_ipv6_mapped()),
                ip => ip,
            }),
        }
    }
}

/// `value` is [`NAME`] bytes at most.
fn write_tlv(out: &mut Vec<u8>, kind: u8, value: Option<&[u8]>) {
    if let Some(value) = value {
        debug_assert!(value.len() <= NAME);
        out.push(kind);
        out.extend_from_slice(&(value.len() as u16).to_be_bytes());
        out.extend_from_slice(value);
    }
}

/// The checksum of `parts` in a row: CRC-32C (RFC 4960 appendix B).
fn crc32c(parts: [&[u8]; 3]) -> u32 {
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ CRC32C_TABLE[usize::from(crc as u8 ^ byte)];
    !parts.into_iter().flatten().fold(!0, step)
}

/// What each byte adds to a CRC-32C, the polynomial's bits in reverse.
static CRC32C_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests;
