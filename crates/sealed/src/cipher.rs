//! AES-256-SIV (RFC 5297) with one component of associated data and plaintexts of 22 bytes, which is all that labels
//! need.
//!
//! The keys are expanded and the associated data is worked in once per key. What is left for a label is 4 AES blocks:
//! 2 of the key stream, 2 of CMAC.

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes256Enc, Block};
use cmac::{Cmac, Mac};
use hmac::digest::CtOutput;

/// Length of the plaintext, in bytes.
pub(crate) const PLAIN: usize = 22;
/// Length of the synthetic initialization vector, in bytes.
pub(crate) const SIV: usize = 16;

/// A key with its associated data, ready for use.
pub(crate) struct Cipher {
    mac: Cmac<Aes256Enc>,
    stream: Aes256Enc,
    /// The state of S2V (§2.4) after the associated data.
    associated: u128,
}

impl Cipher {
    /// Expands the two halves of the secret: the first authenticates, the second encrypts (§2.2).
    pub(crate) fn new(secret: &[u8; 64], associated: &[u8]) -> Self {
        let (first, second) = secret.split_at(32);
        let half = |half: &[u8]| Aes256Enc::new_from_slice(half).expect("a half of 64 bytes is a key of 32");
        let mac = <Cmac<Aes256Enc> as cmac::digest::InnerInit>::inner_init(half(first));
        let mut cipher = Self { mac, stream: half(second), associated: 0 };
        cipher.associated = doubled(cipher.cmac(&[0; 16])) ^ cipher.cmac(associated);
        cipher
    }

    /// Seals 22 bytes.
    pub(crate) fn seal(&self, mut plain: [u8; PLAIN]) -> ([u8; SIV], [u8; PLAIN]) {
        let siv = self.s2v(&plain).into_bytes().into();
        self.apply_stream(&siv, &mut plain);
        (siv, plain)
    }

    /// Opens 22 bytes, and whether they are authentic. Takes the same time either way; what is not authentic must
    /// not be used.
    pub(crate) fn open(&self, siv: &[u8; SIV], mut sealed: [u8; PLAIN]) -> ([u8; PLAIN], bool) {
        self.apply_stream(siv, &mut sealed);
        // Compares in constant time.
        let authentic = self.s2v(&sealed) == CtOutput::new((*siv).into());
        (sealed, authentic)
    }

    /// The end of S2V for a last component of at least 16 bytes: the state is added to its end (`xorend`).
    fn s2v(&self, plain: &[u8; PLAIN]) -> CtOutput<Cmac<Aes256Enc>> {
        let mut ended = *plain;
        for (byte, state) in ended[PLAIN - 16..].iter_mut().zip(self.associated.to_be_bytes()) {
            *byte ^= state;
        }
        self.mac.clone().chain_update(ended).finalize()
    }

    /// Counter mode from the vector without the top bits of its last two words (§2.5).
    fn apply_stream(&self, siv: &[u8; SIV], text: &mut [u8; PLAIN]) {
        const KEPT: u128 = !(1 << 63 | 1 << 31);
        let first = u128::from_be_bytes(*siv) & KEPT;
        for (counter, part) in (0..).zip(text.chunks_mut(16)) {
            let mut block = Block::from(first.wrapping_add(counter).to_be_bytes());
            self.stream.encrypt_block(&mut block);
            part.iter_mut().zip(block).for_each(|(byte, key)| *byte ^= key);
        }
    }

    fn cmac(&self, text: &[u8]) -> u128 {
        u128::from_be_bytes(self.mac.clone().chain_update(text).finalize().into_bytes().into())
    }
}

/// Doubling in GF(2¹²⁸) (§2.3).
fn doubled(value: u128) -> u128 {
    (value << 1) ^ (0x87 * (value >> 127))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes_siv::siv::Aes256Siv;
    use proptest::prelude::*;

    proptest! {
        /// An implementation of the whole of RFC 5297 gives the same bytes, and opens them.
        #[test]
        fn agrees_with_another_implementation(
            secret: [u8; 32], other: [u8; 32], associated in prop::collection::vec(any::<u8>(), 0..260), plain: [u8; PLAIN],
        ) {
            let secret: [u8; 64] = std::array::from_fn(|i| if i < 32 { secret[i] } else { other[i - 32] });
            let (siv, sealed) = Cipher::new(&secret, &associated).seal(plain);
            let whole = Aes256Siv::new(&secret.into()).encrypt([&associated], &plain).unwrap();
            prop_assert_eq!(whole, [&siv[..], &sealed].concat());
        }

        #[test]
        fn what_is_sealed_is_opened_and_what_is_changed_is_not(plain: [u8; PLAIN], bit in 0..8 * (SIV + PLAIN)) {
            let cipher = Cipher::new(&[7; 64], b"x");
            let (mut siv, mut sealed) = cipher.seal(plain);
            prop_assert_eq!(cipher.open(&siv, sealed), (plain, true));
            let (at, mask) = (bit / 8, 1 << (bit % 8));
            match at.checked_sub(SIV) {
                None => siv[at] ^= mask,
                Some(at) => sealed[at] ^= mask,
            }
            prop_assert!(!cipher.open(&siv, sealed).1);
        }
    }

    #[test]
    fn counters_run_over_the_whole_block() {
        // The vector ends in ones: only the two top bits keep the counter from running over into what is above.
        let cipher = Cipher::new(&[9; 64], b"");
        let (plain, _) = cipher.open(&[0xff; SIV], [0; PLAIN]);
        let mut block = Block::from([0xff; 16]);
        (block[8], block[12]) = (0x7f, 0x7f);
        let next = u128::from_be_bytes(block.into()) + 1;
        let mut next = Block::from(next.to_be_bytes());
        cipher.stream.encrypt_block(&mut next);
        assert_eq!(plain[16..], next[..6]);
    }
}
