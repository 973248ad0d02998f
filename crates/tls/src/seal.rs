//! Seals plaintext that lies in slices into records.

use std::cell::RefCell;
use std::io::IoSlice;

use rustls::unbuffered::{EncryptError, WriteTraffic};

use crate::failure::{Failure, Refused};
use crate::session::{RECORD_OVERHEAD, Sealed};

/// Most plaintext of a record.
const RECORD: usize = 16 * 1024;

thread_local! {
    /// Where slices are put together that go into one record. rustls takes one slice, and a record for each of
    /// many small ones would cost the peer more than the copy costs us.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Seals as much of `slices` as fits into `out`. Records are full but for the last, so that the end of `out` is not
/// filled with small ones.
pub(crate) fn seal<D>(
    traffic: &mut WriteTraffic<'_, D>,
    slices: &[IoSlice<'_>],
    out: &mut [u8],
) -> Result<Sealed, Failure> {
    let total: usize = slices.iter().map(|slice| slice.len()).sum();
    let mut sealed = Sealed::default();
    let mut place = Place::default();
    while sealed.taken < total {
        let whole = RECORD.min(total - sealed.taken);
        let out = &mut out[sealed.written..];
        let mut length = whole.min(out.len().saturating_sub(RECORD_OVERHEAD));
        // Once more with less, where rustls puts a key update before it.
        let written = loop {
            if length == 0 || (length < whole && sealed.taken > 0) {
                return Ok(sealed);
            }
            match encrypt(traffic, slices, place, length, out) {
                Ok(written) => break written,
                Err(EncryptError::InsufficientSize(short)) => {
                    length = length.saturating_sub(short.required_size.saturating_sub(out.len()).max(1));
                }
                Err(EncryptError::EncryptExhausted) => {
                    let why = "the keys of this connection are used up".to_owned();
                    return Err(Failure::new(Refused::Limit, Some(why)));
                }
            }
        };
        sealed.taken += length;
        sealed.written += written;
        place.advance(slices, length);
    }
    Ok(sealed)
}

/// One record of `length` bytes, which the slices have from `place` on.
fn encrypt<D>(
    traffic: &mut WriteTraffic<'_, D>,
    slices: &[IoSlice<'_>],
    mut place: Place,
    length: usize,
    out: &mut [u8],
) -> Result<usize, EncryptError> {
    let first = place.rest(slices);
    if let Some(whole) = first.get(..length) {
        return traffic.encrypt(whole, out);
    }
    GATHERED.with_borrow_mut(|gathered| {
        gathered.clear();
        gathered.reserve_exact(RECORD);
        while gathered.len() < length {
            let rest = place.rest(slices);
            let part = &rest[..rest.len().min(length - gathered.len())];
            gathered.extend_from_slice(part);
            place.advance(slices, part.len());
        }
        traffic.encrypt(gathered, out)
    })
}

/// A place in slices.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    slice: usize,
    at: usize,
}

impl Place {
    /// What the slice has from here on; never empty while something follows.
    fn rest<'a>(&mut self, slices: &'a [IoSlice<'_>]) -> &'a [u8] {
        while let Some(slice) = slices.get(self.slice) {
            if self.at < slice.len() {
                return &slice[self.at..];
            }
            *self = Self { slice: self.slice + 1, at: 0 };
        }
        &[]
    }

    fn advance(&mut self, slices: &[IoSlice<'_>], mut count: usize) {
        while count > 0 {
            let here = self.rest(slices).len().min(count);
            if here == 0 {
                return;
            }
            self.at += here;
            count -= here;
        }
    }
}
