//! Base32 of exactly 39 bytes (RFC 4648 §6, without padding): 63 digits of 5 bits, of which the last 3 bits are spare.
//!
//! Decoding neither branches on a digit nor looks it up in a table, so its time tells nothing of the text.

/// Length of the binary form, in bytes.
pub(crate) const BYTES: usize = 39;
/// Length of the text form, in digits.
pub(crate) const DIGITS: usize = 63;

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// What decoding found. The bytes mean something only when both others say so.
pub(crate) struct Decoded {
    pub(crate) bytes: [u8; BYTES],
    /// Whether every digit is one of the alphabet, in either case.
    pub(crate) in_alphabet: bool,
    /// Whether the 3 bits behind the last byte are zero.
    pub(crate) spare_bits_zero: bool,
}

/// The text form, in lower case.
pub(crate) fn encode(bytes: &[u8; BYTES]) -> [u8; DIGITS] {
    let mut text = [0; DIGITS];
    let (mut bits, mut count, mut rest) = (0u32, 0, bytes.iter());
    for digit in &mut text {
        if count < 5 {
            // Behind the last byte stand the spare bits.
            bits = bits << 8 | u32::from(rest.next().copied().unwrap_or(0));
            count += 8;
        }
        count -= 5;
        *digit = ALPHABET[(bits >> count & 31) as usize];
    }
    text
}

/// The binary form. All digits are read, whatever the first ones are.
pub(crate) fn decode(text: &[u8; DIGITS]) -> Decoded {
    let mut bytes = [0; BYTES];
    let (mut bits, mut count, mut at, mut wrong) = (0u32, 0, 0, 0i16);
    for digit in text {
        let value = value(*digit);
        wrong |= value;
        bits = bits << 5 | u32::from(value.unsigned_abs() & 31);
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes[at] = (bits >> count & 0xff) as u8;
            at += 1;
        }
    }
    debug_assert!(at == BYTES && count == 3);
    Decoded { bytes, in_alphabet: wrong >= 0, spare_bits_zero: bits & 7 == 0 }
}

/// The value of a digit, 0–31, or -1.
fn value(digit: u8) -> i16 {
    let digit = i16::from(digit);
    // All ones when the digit lies strictly between the two: then both differences are negative.
    let between = |below: u8, above: u8| ((i16::from(below) - digit) & (digit - i16::from(above))) >> 8;
    let mut value = -1;
    value += between(b'a' - 1, b'z' + 1) & (digit - i16::from(b'a') + 1);
    value += between(b'A' - 1, b'Z' + 1) & (digit - i16::from(b'A') + 1);
    value += between(b'2' - 1, b'7' + 1) & (digit - i16::from(b'2') + 27);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_digit_in_either_case_or_none() {
        for byte in 0..=255u8 {
            let at = ALPHABET.iter().position(|digit| *digit == byte.to_ascii_lowercase());
            assert_eq!(value(byte), at.map_or(-1, |at| at as i16), "{byte}");
        }
    }

    #[test]
    fn agrees_with_the_examples_of_rfc_4648() {
        let mut bytes = [0; BYTES];
        bytes[..6].copy_from_slice(b"foobar");
        // `MZXW6YTBOI======` of §10.
        assert!(encode(&bytes).starts_with(b"mzxw6ytboiaaaa"));
        // Two bits of the last byte are left for the last digit.
        assert_eq!(encode(&[0xff; BYTES])[60..], *b"77y");
    }

    #[test]
    fn what_is_encoded_is_decoded_and_spare_bits_are_seen() {
        let bytes: [u8; BYTES] = std::array::from_fn(|i| (i * 53 + 7) as u8);
        let mut text = encode(&bytes);
        let decoded = decode(&text);
        assert_eq!(decoded.bytes, bytes);
        assert!(decoded.in_alphabet && decoded.spare_bits_zero);
        let last = ALPHABET.iter().position(|digit| *digit == text[62]).unwrap();
        for spare in 1..8 {
            text[62] = ALPHABET[last + spare];
            assert!(!decode(&text).spare_bits_zero);
            assert_eq!(decode(&text).bytes, bytes);
        }
    }

    #[test]
    fn one_wrong_digit_anywhere_is_seen() {
        for at in 0..DIGITS {
            for wrong in [b'0', b'1', b'8', b'9', b'=', b'-', b'.', b'@', b'[', b'`', b'{', 0, 0x80, 0xff] {
                let mut text = [b'a'; DIGITS];
                text[at] = wrong;
                assert!(!decode(&text).in_alphabet, "{at} {wrong}");
            }
        }
    }
}
