//! Durations and sizes as Go writes them.

/// Milliseconds of `1m30s`, `250ms`, `2d`.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let (mut total, mut rest) = (0_f64, text);
    if text.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let behind = &rest[end..];
        let length = behind.find(|letter: char| letter.is_ascii_digit()).unwrap_or(behind.len());
        let factor = match &behind[..length] {
            "ns" => 1e-6,
            "us" | "µs" => 1e-3,
            "ms" => 1.0,
            "s" => 1e3,
            "m" => 6e4,
            "h" => 3.6e6,
            "d" => 8.64e7,
            _ => return None,
        };
        total += number * factor;
        rest = &behind[length..];
    }
    // Durations of a configuration are far below what a float tells apart.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is not negative, and bounded"
    )]
    (total < 1e15).then_some(total.ceil() as u64)
}

/// Bytes of `10MB`, `1MiB`, `512`.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let factor: u64 = match text[end..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "kib" | "ki" => 1 << 10,
        "mib" | "mi" => 1 << 20,
        "gib" | "gi" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read_as_go_writes_them() {
        assert_eq!(milliseconds("1m30s"), Some(90_000));
        assert_eq!(milliseconds("1.5s"), Some(1500));
        assert_eq!(milliseconds("10"), None);
        assert_eq!(bytes("10MB"), Some(10_000_000));
        assert_eq!(bytes("1MiB"), Some(1 << 20));
        assert_eq!(bytes("1 cow"), None);
    }
}
