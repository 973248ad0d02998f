//! A share of all exchanges, drawn by their ids.
//!
//! The same id is drawn everywhere or nowhere: by each worker, and by every proxy that a request passes. So nothing has
//! to be remembered between the beginning of an exchange and its end.

use std::fmt;

/// The share that is drawn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IdShare {
    /// Millionths.
    millionths: u32,
}

/// All there is of a whole.
const WHOLE: u32 = 1_000_000;

impl IdShare {
    /// Everything.
    pub const ALL: Self = Self { millionths: WHOLE };

    /// Reads `1%`, `0.1%` or `100%`: more than nothing, with up to four digits behind the point.
    ///
    /// # Errors
    /// A sentence that says what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a share; write for example `1%` or `0.1%`, from 0.0001% to 100%");
        let number = text.trim().strip_suffix('%').ok_or_else(wrong)?;
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || part.len() > 4 {
            return Err(wrong());
        }
        let whole: u32 = whole.parse().ok().filter(|whole| *whole <= 100).ok_or_else(wrong)?;
        let part: u32 = format!("{part:0<4}").parse().map_err(|_| wrong())?;
        let millionths = whole * 10_000 + part;
        if millionths == 0 || millionths > WHOLE { Err(wrong()) } else { Ok(Self { millionths }) }
    }

    /// Whether it is everything.
    pub fn is_all(self) -> bool {
        self.millionths == WHOLE
    }

    /// Whether the exchange with this id is drawn.
    pub fn takes(self, id: &[u8]) -> bool {
        self.is_all() || (u64::from(hash(id)) * u64::from(WHOLE)) >> 32 < u64::from(self.millionths)
    }
}

impl fmt::Display for IdShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.millionths / 10_000, self.millionths % 10_000);
        if part == 0 {
            return write!(f, "{whole}%");
        }
        write!(f, "{whole}.{}%", format!("{part:04}").trim_end_matches('0'))
    }
}

/// FNV-1a with the last mixing of MurmurHash3: ids that are counted are spread as well as random ones. Whoever chooses
/// ids may choose whether they are drawn, which harms nobody.
fn hash(id: &[u8]) -> u32 {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = id.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ hash >> 33).wrapping_mul(factor);
    }
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_written() {
        for (text, written) in
            [("1%", "1%"), ("0.1%", "0.1%"), ("100%", "100%"), ("0.0001%", "0.0001%"), (" 12.50% ", "12.5%")]
        {
            assert_eq!(IdShare::parse(text).unwrap().to_string(), written);
        }
        for text in [
            "",
            "%",
            "1",
            "0%",
            "0.0%",
            "101%",
            "100.1%",
            "-1%",
            "1.%",
            ".5%",
            "0.00001%",
            "1e1%",
            "99999999999%",
        ] {
            assert!(IdShare::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_of_counted_ids_is_drawn_and_a_larger_share_has_all_of_a_smaller_one() {
        let [one, ten] = ["1%", "10%"].map(|text| IdShare::parse(text).unwrap());
        let ids: Vec<_> = (0..100_000).map(|number| format!("id-{number}")).collect();
        let drawn = |sample: IdShare| ids.iter().filter(|id| sample.takes(id.as_bytes())).count();
        assert!((900..1100).contains(&drawn(one)), "{}", drawn(one));
        assert!((9_700..10_300).contains(&drawn(ten)), "{}", drawn(ten));
        assert_eq!(drawn(IdShare::ALL), ids.len());
        assert!(ids.iter().all(|id| !one.takes(id.as_bytes()) || ten.takes(id.as_bytes())));
    }
}
