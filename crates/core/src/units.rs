//! Durations, sizes and shares as people write them: `250ms`, `1h30m`, `64KiB`, `10MB`, `20%`.
//!
//! A bare number is an error for all: its unit would be a guess.

use std::time::Duration;

/// Parses a duration: one or more `<integer><unit>` parts, units `us ms s m h d`, largest first.
/// `0` needs a unit too. At most 100 years.
///
/// # Errors
/// A sentence that says what is wrong and, where it can be guessed, what to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    const UNITS: &[(&str, u64)] = &[
        ("us", 1),
        ("ms", 1_000),
        ("s", 1_000_000),
        ("m", 60_000_000),
        ("h", 3_600_000_000),
        ("d", 86_400_000_000),
    ];
    const LIMIT: u64 = 100 * 365 * 86_400_000_000;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("a duration is missing, for example `5s`".into());
    }
    let mut total: u64 = 0;
    let mut last = u64::MAX;
    while !rest.is_empty() {
        let (number, unit, tail) = number_and_unit(rest);
        let Ok(number) = number.parse::<u64>() else {
            return Err(format!("`{text}` is not a duration; write for example `250ms`, `5s` or `1h30m`"));
        };
        if unit.is_empty() {
            return Err(format!("`{text}` has no unit; write for example `{number}s` or `{number}ms`"));
        }
        let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("`{unit}` is not a unit of time; use us, ms, s, m, h or d"));
        };
        if *factor >= last {
            return Err(format!("`{text}`: units go from large to small, each once, as in `1h30m`"));
        }
        last = *factor;
        total = number
            .checked_mul(*factor)
            .and_then(|part| total.checked_add(part))
            .filter(|sum| *sum <= LIMIT)
            .ok_or_else(|| format!("`{text}` is longer than 100 years"))?;
        rest = tail;
    }
    Ok(Duration::from_micros(total))
}

/// A duration as [`parse_duration`] reads it, in the largest units that fit: `1m30s`. Parts below a microsecond are
/// left out.
pub fn duration_text(duration: Duration) -> String {
    const UNITS: [(&str, u128); 6] = [
        ("d", 86_400_000_000),
        ("h", 3_600_000_000),
        ("m", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1_000),
        ("us", 1),
    ];
    let (mut rest, mut text) = (duration.as_micros(), String::new());
    for (unit, size) in UNITS {
        if rest >= size {
            text.push_str(&format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

/// A size as [`parse_size`] reads it, in the largest unit that leaves no rest: `64KiB`.
pub fn size_text(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.iter().find(|(_, size)| bytes >= *size && bytes.is_multiple_of(*size));
    unit.map_or_else(|| format!("{bytes}B"), |(unit, size)| format!("{}{unit}", bytes / size))
}

/// Parses a size in bytes: an integer with a unit, `B KB MB GB TB` (powers of 1000) or `KiB MiB GiB TiB` (of 1024).
///
/// # Errors
/// A sentence that says what is wrong and, where it can be guessed, what to write instead.
pub fn parse_size(text: &str) -> Result<u64, String> {
    const UNITS: &[(&str, u64)] = &[
        ("B", 1),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ];
    let (number, unit, tail) = number_and_unit(text.trim());
    let unit = unit.trim();
    let (Ok(number), true) = (number.parse::<u64>(), tail.is_empty()) else {
        return Err(format!("`{text}` is not a size; write for example `64KiB` or `10MB`"));
    };
    if unit.is_empty() {
        return Err(format!("`{text}` has no unit; write for example `{number}KiB` or `{number}B`"));
    }
    let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let near = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        return Err(match near {
            Some((name, _)) => format!("`{unit}` is not a unit of size; write `{number}{name}`"),
            None => format!("`{unit}` is not a unit of size; use B, KB, MB, GB, TB, KiB, MiB, GiB or TiB"),
        });
    };
    number.checked_mul(*factor).ok_or_else(|| format!("`{text}` is too large"))
}

/// Parses a share in whole percent: `20%`. At most 1,000,000 %.
///
/// # Errors
/// A sentence that says what is wrong and, where it can be guessed, what to write instead.
pub fn parse_percent(text: &str) -> Result<u32, String> {
    const LIMIT: u32 = 1_000_000;
    let text = text.trim();
    let Some(number) = text.strip_suffix('%').map(str::trim_end) else {
        return Err(match text.parse::<f64>() {
            Ok(number) if (0.0..=10.0).contains(&number) && text.contains('.') => {
                format!("`{text}` has no unit; write `{:.0}%`", number * 100.0)
            }
            Ok(number) if number.fract() != 0.0 => format!("`{text}`: a share is in whole percent"),
            Ok(_) => format!("`{text}` has no unit; write `{text}%`"),
            Err(_) => format!("`{text}` is not a share; write for example `20%`"),
        });
    };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(match number.parse::<f64>() {
            Ok(number) if number > 0.0 => format!("`{text}`: a share is in whole percent"),
            _ => format!("`{text}` is not a share; write for example `20%`"),
        });
    }
    number
        .parse::<u32>()
        .ok()
        .filter(|percent| *percent <= LIMIT)
        .ok_or_else(|| format!("`{text}` is too large"))
}

/// Splits `12ms34` into `12`, `ms` and `34`.
fn number_and_unit(text: &str) -> (&str, &str, &str) {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, tail) = rest.split_at(letters);
    (number, unit, tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["0s", "1us", "250ms", "1s500ms", "1m30s", "1h", "2d3h4m5s6ms7us"] {
            assert_eq!(duration_text(parse_duration(text).unwrap()), text);
        }
        assert_eq!(duration_text(Duration::from_secs(90)), "1m30s");
        for text in ["0B", "1B", "1023B", "64KiB", "3MiB", "1025KiB", "2GiB", "5TiB"] {
            assert_eq!(size_text(parse_size(text).unwrap()), text);
        }
    }

    #[test]
    fn reads_shares() {
        for (text, percent) in [("20%", 20), ("0%", 0), ("100 %", 100), (" 1000000% ", 1_000_000)] {
            assert_eq!(parse_percent(text), Ok(percent), "{text}");
        }
    }

    #[test]
    fn refuses_shares_that_need_a_guess() {
        for text in
            ["", "%", "20", "0.2", "-5%", "+5%", "1.5%", "nan%", "inf", "1000001%", "99999999999%", "2%%"]
        {
            assert!(parse_percent(text).is_err(), "{text}");
        }
        assert!(parse_percent("20").unwrap_err().ends_with("write `20%`"));
        assert!(parse_percent("0.5").unwrap_err().ends_with("write `50%`"));
        assert!(parse_percent("1.25").unwrap_err().ends_with("write `125%`"));
    }

    #[test]
    fn reads_durations() {
        for (text, ms) in [
            ("250ms", 250),
            ("5s", 5_000),
            ("1h30m", 5_400_000),
            ("2m", 120_000),
            ("1d", 86_400_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn refuses_durations_that_need_a_guess() {
        for text in
            ["", "5", "s", "5 s", "-5s", "1.5s", "5S", "5sec", "30m1h", "1s1s", "9999999999999999d", "5s5"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert!(parse_duration("30").unwrap_err().contains("`30s`"));
    }

    #[test]
    fn reads_and_refuses_sizes() {
        assert_eq!(parse_size("64KiB"), Ok(65_536));
        assert_eq!(parse_size("10MB"), Ok(10_000_000));
        assert_eq!(parse_size("0B"), Ok(0));
        for text in ["", "64", "KiB", "-1B", "1.5MB", "64kib", "10XB", "99999999999TB", "1MB1"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert!(parse_size("64kib").unwrap_err().contains("`64KiB`"));
    }
}
