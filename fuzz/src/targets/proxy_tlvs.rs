//! The TLVs behind the addresses in a header of the PROXY protocol, version 2.
//!
//! Input: a byte that chooses the family, and TLVs. The header around them is valid, so that every change of the
//! input reaches a TLV. Asserts: a plain reader finds the same authority, ALPN and unique id, or the same refusal; no
//! TLV exceeds the header; a correct checksum is accepted, and is refused after a change of one header bit.

use thalweg_core::limits::PROXY_HEADER;
use thalweg_net::proxy_protocol::{Header, Read, read};

const START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21";
/// Families with the bytes of their addresses.
const FAMILIES: [(u8, usize); 6] = [(0x11, 12), (0x12, 12), (0x21, 36), (0x22, 36), (0x31, 216), (0x32, 216)];
const ALPN: u8 = 1;
const AUTHORITY: u8 = 2;
const CRC32C: u8 = 3;
const UNIQUE_ID: u8 = 5;

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let Some((family, tlvs)) = input.split_first() else { return };
    let (family, addresses) = FAMILIES[usize::from(*family) % FAMILIES.len()];
    let header = header((family, addresses), tlvs);
    let verdict = read(&header);
    match (&verdict, expected(&header, START.len() + 3 + addresses)) {
        (Read::Malformed(_), None) => {}
        (Read::Header(ours), Some(theirs)) => {
            assert_eq!((ours.len, ours.addresses.is_some()), (header.len(), addresses < 216));
            assert_eq!((&ours.authority, &ours.alpn), (&theirs.authority, &theirs.alpn));
            assert_eq!(ours.unique_id, theirs.unique_id);
        }
        (ours, theirs) => panic!("we read {ours:?}, and another {theirs:?}"),
    }
    assert_eq!(read(&[&header[..], b"\x02\0\x01x"].concat()), verdict, "what follows is read too");
    assert_eq!(read(&header[..header.len() - 1]), too_short(&header));
    summed((family, addresses), tlvs);
}

/// A header cut by one byte is incomplete, unless its declared length is impossible.
fn too_short(header: &[u8]) -> Read {
    if header.len() > PROXY_HEADER { read(header) } else { Read::Incomplete }
}

fn header((family, addresses): (u8, usize), tlvs: &[u8]) -> Vec<u8> {
    let length = u16::try_from(addresses + tlvs.len()).expect("inputs are short").to_be_bytes();
    [START, &[family], &length, &vec![7; addresses], tlvs].concat()
}

/// The TLVs behind `at`, as a plain reader finds them; `None`: the header is refused.
fn expected(header: &[u8], at: usize) -> Option<Header> {
    if header.len() > PROXY_HEADER {
        return None;
    }
    let (mut found, mut at, mut seen) = (Header::default(), at, Vec::new());
    while at < header.len() {
        let length = usize::from(u16::from_be_bytes([*header.get(at + 1)?, *header.get(at + 2)?]));
        let value = header.get(at + 3..at + 3 + length)?;
        let kind = header[at];
        at += 3 + length;
        if ![ALPN, AUTHORITY, CRC32C, UNIQUE_ID].contains(&kind) {
            continue;
        }
        if seen.contains(&kind) {
            return None;
        }
        seen.push(kind);
        let name = (1..=255).contains(&length).then(|| value.to_vec());
        match kind {
            ALPN => found.alpn = name,
            AUTHORITY => found.authority = name.and_then(|name| String::from_utf8(name).ok()),
            UNIQUE_ID if length > 128 => return None,
            UNIQUE_ID => found.unique_id = Some(value.to_vec()),
            _ => {
                let mut zeroed = header.to_vec();
                zeroed[at - length..at].fill(0);
                let sum: [u8; 4] = value.try_into().ok()?;
                if crc32c(&zeroed) != u32::from_be_bytes(sum) {
                    return None;
                }
            }
        }
    }
    Some(found)
}

/// The same with a correct checksum, which is accepted if the rest is; and with a changed bit.
fn summed(family: (u8, usize), tlvs: &[u8]) {
    // A last TLV that is too long would hold the checksum.
    let Read::Header(_) = read(&header(family, tlvs)) else { return };
    let mut header = header(family, &[tlvs, &[CRC32C, 0, 4, 0, 0, 0, 0]].concat());
    let sum = crc32c(&header).to_be_bytes();
    let end = header.len();
    header[end - 4..].copy_from_slice(&sum);
    let Read::Header(_) = read(&header) else { return };
    // The input chooses the bit.
    let bit = tlvs.iter().fold(end, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let at = START.len() + 3 + bit % (end - START.len() - 3);
    header[at] ^= 1 << (bit % 8);
    // The change may affect a type or a length, so that the checksum TLV is no longer recognised.
    if let Read::Header(changed) = read(&header) {
        let whole = expected(&header, START.len() + 3 + family.1).expect("both read it");
        assert_eq!((changed.authority, changed.alpn), (whole.authority, whole.alpn));
        assert!(at >= START.len() + 3 + family.1, "an address was changed under a checksum");
    }
}

/// CRC-32C (RFC 4960 appendix B), bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1)))
    };
    !bytes.iter().fold(!0, step)
}
