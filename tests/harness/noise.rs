//! Bytes that nothing can guess or compress, the same for the same seed: what a body is compared with, without
//! keeping it.

/// An endless row of bytes (xorshift64*; Vigna, 2014).
#[derive(Clone, Debug)]
pub struct Noise {
    state: u64,
    /// Of the word that is being given out.
    rest: [u8; 8],
    left: usize,
    given: u64,
}

impl Noise {
    /// The row of this seed.
    pub fn new(seed: u64) -> Self {
        // A state of 0 would stay 0.
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, rest: [0; 8], left: 0, given: 0 }
    }

    /// Writes the next bytes into `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.given += bytes.len() as u64;
        let begun = self.left.min(bytes.len());
        let (first, words) = bytes.split_at_mut(begun);
        first.copy_from_slice(&self.rest[8 - self.left..][..begun]);
        self.left -= begun;
        for word in words.chunks_mut(8) {
            self.rest = self.next().to_le_bytes();
            word.copy_from_slice(&self.rest[..word.len()]);
            self.left = 8 - word.len();
        }
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }

    /// Compares `bytes` with the next ones.
    ///
    /// # Errors
    /// Where the first of them stands that is another, counted from the start of the row.
    pub fn check(&mut self, bytes: &[u8]) -> Result<(), u64> {
        let start = self.given;
        let wanted = self.take(bytes.len());
        if wanted == bytes {
            return Ok(());
        }
        let at = wanted.iter().zip(bytes).position(|(wanted, got)| wanted != got);
        Err(start + at.unwrap_or_default() as u64)
    }

    /// Bytes given out or compared until now.
    pub fn given(&self) -> u64 {
        self.given
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

#[cfg(test)]
mod tests {
    use super::Noise;

    #[test]
    fn the_same_seed_gives_the_same_bytes_however_they_are_cut() {
        let whole = Noise::new(7).take(1000);
        let (mut cut, mut pieces) = (Noise::new(7), Vec::new());
        for len in [1, 7, 8, 9, 0, 3, 500, 472] {
            pieces.extend(cut.take(len));
        }
        assert_eq!(whole, pieces);
        assert_ne!(whole, Noise::new(8).take(1000));
    }

    #[test]
    fn a_difference_is_found_where_it_stands() {
        let mut bytes = Noise::new(7).take(100);
        bytes[42] ^= 1;
        let mut noise = Noise::new(7);
        assert_eq!(noise.check(&bytes[..40]), Ok(()));
        assert_eq!(noise.check(&bytes[40..]), Err(42));
    }
}
