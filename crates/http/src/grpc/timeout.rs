//! `grpc-timeout`: how much time a client gives a call.
//!
//! Read from a request before it is routed, and written again with what is left of it. One to eight digits
//! and a unit (PROTOCOL-HTTP2 of gRPC): `100m`, `20S`.

use std::time::Duration;

use crate::h1::encode::write_decimal;

/// Most digits.
const DIGITS: usize = 8;
/// The first number that has more.
const LIMIT: u128 = 100_000_000;
/// Units with their nanoseconds, the finest first.
const UNITS: [(u8, u128); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60 * 1_000_000_000),
    (b'H', 3600 * 1_000_000_000),
];

/// Reads a timeout, up to 99,999,999 hours; none for anything but digits and one unit. 0 is a time that has passed.
pub fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > DIGITS {
        return None;
    }
    let number = digits
        .iter()
        .try_fold(0_u64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))?;
    match unit {
        b'n' => Some(Duration::from_nanos(number)),
        b'u' => Some(Duration::from_micros(number)),
        b'm' => Some(Duration::from_millis(number)),
        b'S' => Some(Duration::from_secs(number)),
        b'M' => Some(Duration::from_secs(number * 60)),
        b'H' => Some(Duration::from_secs(number * 3600)),
        _ => None,
    }
}

/// Appends a timeout in the finest unit that has room for it, rounded up, so that no time left becomes none. Above
/// 99,999,999 hours it is that.
pub fn write(out: &mut Vec<u8>, timeout: Duration) {
    let nanos = timeout.as_nanos();
    let (unit, number) = UNITS
        .iter()
        .map(|(unit, size)| (*unit, nanos.div_ceil(*size)))
        .find(|(_, number)| *number < LIMIT)
        .unwrap_or((b'H', LIMIT - 1));
    write_decimal(out, number as u64);
    out.push(unit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(timeout: Duration) -> String {
        let mut out = Vec::new();
        write(&mut out, timeout);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn reads_every_unit() {
        for (text, expected) in [
            ("1n", Duration::from_nanos(1)),
            ("20u", Duration::from_micros(20)),
            ("300m", Duration::from_millis(300)),
            ("00000001S", Duration::from_secs(1)),
            ("2M", Duration::from_secs(120)),
            ("99999999H", Duration::from_secs(99_999_999 * 3600)),
            ("0n", Duration::ZERO),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(expected), "{text}");
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in [
            "",
            "S",
            "1",
            "1s",
            "1h",
            "+1S",
            "-1S",
            " 1S",
            "1S ",
            "1 S",
            "1.5S",
            "0x1S",
            "123456789m",
            "1mS",
            "S1",
            "\u{661}S",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn writes_the_finest_unit_with_at_most_eight_digits() {
        assert_eq!(written(Duration::ZERO), "0n");
        assert_eq!(written(Duration::from_nanos(1)), "1n");
        assert_eq!(written(Duration::from_nanos(99_999_999)), "99999999n");
        assert_eq!(written(Duration::from_millis(100)), "100000u");
        assert_eq!(written(Duration::from_nanos(100_000_001)), "100001u");
        assert_eq!(written(Duration::from_secs(5)), "5000000u");
        assert_eq!(written(Duration::from_secs(3600)), "3600000m");
        assert_eq!(written(Duration::MAX), "99999999H");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_as_no_less_and_hardly_more(
            seconds in prop_oneof![0u64..10, 0u64..1_000_000, any::<u64>().prop_map(|n| n % 359_999_996_400)],
            nanos in 0u32..1_000_000_000,
        ) {
            let timeout = Duration::new(seconds, nanos);
            let text = written(timeout);
            prop_assert!(text.len() <= DIGITS + 1);
            let read = parse(text.as_bytes()).unwrap();
            prop_assert!(read >= timeout);
            // The coarsest step there is: an hour after 99,999,999 minutes.
            prop_assert!(read - timeout <= timeout / 10_000, "{text} for {timeout:?}");
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let _ = parse(&bytes);
        }
    }
}
