//! Where input is cut, and the draws that decide it.
//!
//! Used by every target that asserts that splits do not matter. The draws depend on the input alone:
//! the same input always does the same.

use thalweg_http::Progress;

/// Most cuts that are drawn for one input.
const CUTS: u64 = 8;

/// A stream of numbers that the input decides (FNV-1a, then xorshift).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// The draws of this input.
    pub(crate) fn of(input: &[u8]) -> Self {
        let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        Self(hash | 1)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.checked_rem(bound).unwrap_or(0)
    }

    /// Ends of up to [`CUTS`] pieces of `len` bytes in rising order; the last one is `len`.
    pub(crate) fn ends(&mut self, len: usize) -> Vec<usize> {
        let count = self.below(CUTS);
        let mut ends: Vec<usize> = (0..count).map(|_| self.below(len as u64 + 1) as usize).collect();
        ends.push(len);
        ends.sort_unstable();
        ends
    }
}

/// The pieces that end at `ends`, which rise.
pub(crate) fn cut<'a>(input: &'a [u8], ends: &[usize]) -> Vec<&'a [u8]> {
    let mut start = 0;
    ends.iter().map(|end| &input[std::mem::replace(&mut start, *end)..*end]).collect()
}

/// Every byte as a piece of its own.
pub(crate) fn byte_by_byte(input: &[u8]) -> Vec<&[u8]> {
    input.chunks(1).collect()
}

/// Calls `parse` with prefixes of the input that end at `ends`, until it has decided. A head parser
/// must come to the same result whatever the ends are.
pub(crate) fn growing<E>(
    input: &[u8],
    ends: impl IntoIterator<Item = usize>,
    mut parse: impl FnMut(&[u8]) -> Result<Progress, E>,
) -> Result<Progress, E> {
    let mut result = Ok(Progress::Partial);
    for end in ends {
        result = parse(&input[..end]);
        if !matches!(result, Ok(Progress::Partial)) {
            break;
        }
    }
    result
}
