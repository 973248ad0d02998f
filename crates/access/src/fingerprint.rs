//! Fingerprints of keys: 128 bits that nobody outside can make collide.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// A key of any length, in 128 bits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Fingerprint(pub(crate) u64, pub(crate) u64);

impl Fingerprint {
    /// A number that is as hard to foresee.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// What fingerprints are made with: two functions (SipHash) with secrets of this process. Without these, nobody can
/// find two keys with one fingerprint, and fingerprints say nothing of keys.
fn secrets() -> &'static (RandomState, RandomState) {
    static SECRETS: OnceLock<(RandomState, RandomState)> = OnceLock::new();
    SECRETS.get_or_init(|| (RandomState::new(), RandomState::new()))
}

/// Makes a fingerprint of the parts of a key.
pub struct FingerprintMaker {
    first: <RandomState as BuildHasher>::Hasher,
    second: <RandomState as BuildHasher>::Hasher,
}

impl FingerprintMaker {
    /// None of the key is known yet; keys of different `kind`s are different.
    pub fn new(kind: u64) -> Self {
        let (first, second) = secrets();
        let mut maker = Self { first: first.build_hasher(), second: second.build_hasher() };
        maker.first.write_u64(kind);
        maker.second.write_u64(kind);
        maker
    }

    /// Adds a part. The same bytes in other parts are another key.
    pub fn part(&mut self, bytes: &[u8]) {
        for hasher in [&mut self.first, &mut self.second] {
            hasher.write_usize(bytes.len());
            hasher.write(bytes);
        }
    }

    /// The fingerprint.
    pub fn finish(self) -> Fingerprint {
        Fingerprint(self.first.finish(), self.second.finish())
    }
}

impl std::fmt::Debug for FingerprintMaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FingerprintMaker")
    }
}

/// A fingerprint of a key of one part.
pub fn fingerprint(kind: u64, key: &[u8]) -> Fingerprint {
    let mut maker = FingerprintMaker::new(kind);
    maker.part(key);
    maker.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_kinds_make_keys_different() {
        let of = |kind, parts: &[&str]| {
            let mut maker = FingerprintMaker::new(kind);
            parts.iter().for_each(|part| maker.part(part.as_bytes()));
            maker.finish()
        };
        assert_eq!(of(1, &["ab", "c"]), of(1, &["ab", "c"]));
        assert_ne!(of(1, &["ab", "c"]), of(1, &["a", "bc"]));
        assert_ne!(of(1, &["abc"]), of(1, &["abc", ""]));
        assert_ne!(of(1, &["a"]), of(2, &["a"]));
        assert_eq!(fingerprint(1, b"a"), of(1, &["a"]));
    }
}
