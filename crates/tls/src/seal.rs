//! Seals plaintext that lies in slices into records.

use std::cell::RefCell;
use std::io::IoSlice;

use rustls::unbuffered::{EncryptError, WriteTraffic};

use crate::failure::{Failure, Refused};
use crate::session::RECORD_OVERHEAD;
use thalweg_core::Sealed;

/// Most plaintext of a record.
const RECORD: usize = 16 * 1024;

thread_local! {
    /// Where slices are put together that go into one record. rustls takes one slice, and a record for each of
    /// many small ones would cost the peer more than the copy costs us.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Seals a record: as much of `slices` as it may hold and as fits into `out`.
pub(crate) fn seal<D>(
    traffic: &mut WriteTraffic<'_, D>,
    slices: &[IoSlice<'_>],
    out: &mut [u8],
) -> Result<Sealed, Failure> {
    let total: usize = slices.iter().map(|slice| slice.len()).sum();
    let mut length = RECORD.min(total).min(out.len().saturating_sub(RECORD_OVERHEAD));
    while length > 0 {
        match encrypt(traffic, slices, length, out) {
            Ok(written) => return Ok(Sealed { taken: length, written }),
            // Once more with less: rustls puts a key update before it.
            Err(EncryptError::InsufficientSize(short)) => {
                length = length.saturating_sub(short.required_size.saturating_sub(out.len()).max(1));
            }
            Err(EncryptError::EncryptExhausted) => {
                let why = "the keys of this connection are used up".to_owned();
                return Err(Failure::new(Refused::Limit, Some(why)));
            }
        }
    }
    Ok(Sealed::default())
}

/// One record of the first `length` bytes, which the slices have.
fn encrypt<D>(
    traffic: &mut WriteTraffic<'_, D>,
    slices: &[IoSlice<'_>],
    length: usize,
    out: &mut [u8],
) -> Result<usize, EncryptError> {
    let first = slices.iter().find(|slice| !slice.is_empty());
    if let Some(whole) = first.and_then(|slice| slice.get(..length)) {
        return traffic.encrypt(whole, out);
    }
    GATHERED.with_borrow_mut(|gathered| {
        gathered.clear();
        gathered.reserve_exact(RECORD);
        for slice in slices {
            let missing = length - gathered.len();
            gathered.extend_from_slice(&slice[..slice.len().min(missing)]);
        }
        traffic.encrypt(gathered, out)
    })
}
