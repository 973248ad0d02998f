//! HMAC-SHA256 from its definition (FIPS 180-4, RFC 2104), independent of what the product uses: a receiver of
//! webhooks checks signatures with it.

const BLOCK: usize = 64;

const START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4 §4.2.2).
fn constants() -> [u32; 64] {
    let primes = (2_u128..).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0));
    let mut constants = [0; 64];
    for (constant, prime) in constants.iter_mut().zip(primes) {
        // The cube root of prime × 2^96 is the root times 2^32; its low 32 bits are the fraction.
        let (mut low, mut high) = (0_u128, 1 << 36);
        while high - low > 1 {
            let middle = (low + high) / 2;
            if middle * middle * middle <= prime << 96 { low = middle } else { high = middle }
        }
        *constant = (low & 0xffff_ffff) as u32;
    }
    constants
}

/// SHA-256 of `message`.
pub fn sha256(message: &[u8]) -> [u8; 32] {
    let constants = constants();
    let mut padded = message.to_vec();
    padded.push(0x80);
    while padded.len() % BLOCK != BLOCK - 8 {
        padded.push(0);
    }
    padded.extend_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    let mut state = START;
    for block in padded.chunks_exact(BLOCK) {
        let mut words = [0_u32; 64];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for at in 16..64 {
            let (near, far) = (words[at - 15], words[at - 2]);
            let small = near.rotate_right(7) ^ near.rotate_right(18) ^ (near >> 3);
            let large = far.rotate_right(17) ^ far.rotate_right(19) ^ (far >> 10);
            words[at] = words[at - 16].wrapping_add(small).wrapping_add(words[at - 7]).wrapping_add(large);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for (constant, word) in constants.iter().zip(words) {
            let large = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = (e & f) ^ (!e & g);
            let first = h.wrapping_add(large).wrapping_add(choice).wrapping_add(*constant).wrapping_add(word);
            let small = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let second = small.wrapping_add((a & b) ^ (a & c) ^ (b & c));
            (h, g, f, e) = (g, f, e, d.wrapping_add(first));
            (d, c, b, a) = (c, b, a, first.wrapping_add(second));
        }
        for (kept, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *kept = kept.wrapping_add(new);
        }
    }
    let mut digest = [0; 32];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

/// HMAC-SHA256 of `message`.
pub fn hmac_sha256_bytes(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&sha256(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |pad: u8, rest: &[u8]| {
        let mut whole: Vec<u8> = block.iter().map(|byte| byte ^ pad).collect();
        whole.extend_from_slice(rest);
        sha256(&whole)
    };
    padded(0x5c, &padded(0x36, message))
}

/// HMAC-SHA256 of `message`, in hexadecimal digits.
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> String {
    hmac_sha256_bytes(key, message).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_rfc_4231_and_of_the_guide() {
        assert_eq!(
            hmac_sha256(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hmac_sha256(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
        assert_eq!(
            hmac_sha256(b"hush", "1795330800.{\"id\":1,\"cause\":\"ä\"}".as_bytes()),
            "a0c38fa6bc34e373edab4ba9cb40616b5008864e4972d50ea519d1bbf509ae2c"
        );
    }
}
