//! Statuses of gRPC: their names, what an answer of the proxy's own says, and what an endpoint's status
//! says about the endpoint.

use crate::h1::encode::write_decimal;
use crate::octet;

macro_rules! codes {
    ($( $number:literal $variant:ident $name:literal, )*) => {
        /// A status of a call, as in `grpc-status`.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum Code { $( #[doc = concat!("`", $name, "`")] $variant = $number, )* }

        impl Code {
            /// Every status, in the order of their numbers.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];

            /// The name, as in configuration, metrics and logs.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }
        }
    };
}

codes! {
    0 Ok "ok",
    1 Cancelled "cancelled",
    2 Unknown "unknown",
    3 InvalidArgument "invalid_argument",
    4 DeadlineExceeded "deadline_exceeded",
    5 NotFound "not_found",
    6 AlreadyExists "already_exists",
    7 PermissionDenied "permission_denied",
    8 ResourceExhausted "resource_exhausted",
    9 FailedPrecondition "failed_precondition",
    10 Aborted "aborted",
    11 OutOfRange "out_of_range",
    12 Unimplemented "unimplemented",
    13 Internal "internal",
    14 Unavailable "unavailable",
    15 DataLoss "data_loss",
    16 Unauthenticated "unauthenticated",
}

impl Code {
    /// Reads a `grpc-status`. A number without a name is [`Code::Unknown`]; none for what is no number of at
    /// most ten digits.
    pub fn parse(value: &[u8]) -> Option<Self> {
        if value.is_empty() || value.len() > 10 || !value.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let number = value.iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        let known = usize::try_from(number).ok().and_then(|number| Self::ALL.get(number));
        Some(known.copied().unwrap_or(Self::Unknown))
    }

    /// The status with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }

    /// The number, as `grpc-status` has it.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// What an answer of the proxy's own with this HTTP status says to a gRPC client. 504 is [`Code::Unavailable`];
    /// where it was the client's own deadline that passed, [`Code::DeadlineExceeded`] is said instead.
    ///
    /// It differs from what clients make of an answer without a status (grpc's `http-grpc-status-mapping`)
    /// where the proxy knows more.
    pub const fn of_answer(http_status: u16) -> Self {
        match http_status {
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 | 405 | 501 | 505 => Self::Unimplemented,
            413 | 414 | 431 => Self::ResourceExhausted,
            408 | 421 | 429 | 502 | 503 | 504 => Self::Unavailable,
            499 => Self::Cancelled,
            400 | 417 | 500 | 508 => Self::Internal,
            _ => Self::Unknown,
        }
    }

    /// The HTTP status that says the same of an endpoint's health; none for statuses that are the answer of
    /// a healthy one.
    pub const fn as_failure(self) -> Option<u16> {
        match self {
            Self::Unavailable => Some(503),
            Self::Internal => Some(500),
            Self::DeadlineExceeded => Some(504),
            Self::Unknown => Some(502),
            _ => None,
        }
    }

    /// Appends `grpc-status` as a line.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"grpc-status: ");
        write_decimal(out, u64::from(self.number()));
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends text as a `grpc-message` has it: all but printable ASCII, and `%`, as `%XX`.
pub fn write_message(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'%' | ..=0x1f | 0x7f.. => {
                out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            _ => out.push(byte),
        }
    }
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Reads a `grpc-message`. An escape that is none stays as it is, and bytes that are no UTF-8 become U+FFFD: a message
/// is for people, and one that is broken still says something.
pub fn read_message(value: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = match after {
            [high, low, ..] if byte == b'%' => octet::hex_digit(*high).zip(octet::hex_digit(*low)),
            _ => None,
        };
        bytes.push(escaped.map_or(byte, |(high, low)| high << 4 | low));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thalweg_core::{FaultKind, GRPC_STATUSES};

    #[test]
    fn numbers_and_names_stand_for_each_other() {
        assert!(Code::ALL.iter().map(|code| code.name()).eq(GRPC_STATUSES), "all crates say the same words");
        assert_eq!(Code::ALL.len(), 17);
        for (number, code) in Code::ALL.iter().enumerate() {
            assert_eq!((usize::from(code.number()), Code::from_name(code.name())), (number, Some(*code)));
            assert_eq!(Code::parse(number.to_string().as_bytes()), Some(*code));
            let mut line = Vec::new();
            code.write(&mut line);
            assert_eq!(line, format!("grpc-status: {number}\r\n").into_bytes());
        }
        assert_eq!(Code::parse(b"17"), Some(Code::Unknown));
        assert_eq!(Code::parse(b"4294967295"), Some(Code::Unknown));
        for none in [&b""[..], b"-1", b"+1", b" 1", b"1 ", b"ok", b"0x1", b"12345678901"] {
            assert_eq!(Code::parse(none), None);
        }
        assert_eq!(Code::from_name("OK"), None);
    }

    #[test]
    fn every_fault_of_the_proxy_has_a_status_that_says_something() {
        for kind in FaultKind::ALL {
            let code = Code::of_answer(kind.rule().status);
            assert!(code != Code::Ok && code != Code::Unknown, "{kind:?}");
        }
        for status in [400, 405, 408, 413, 414, 417, 421, 431, 501, 505] {
            assert_ne!(Code::of_answer(status), Code::Unknown, "{status}");
        }
        assert_eq!(Code::of_answer(418), Code::Unknown);
    }

    #[test]
    fn failures_are_those_of_the_endpoint() {
        let failures: Vec<_> =
            Code::ALL.iter().filter_map(|code| Some((*code, code.as_failure()?))).collect();
        assert_eq!(
            failures,
            [
                (Code::Unknown, 502),
                (Code::DeadlineExceeded, 504),
                (Code::Internal, 500),
                (Code::Unavailable, 503)
            ]
        );
    }

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write_message(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn messages_are_escaped_where_a_field_value_could_not_hold_them() {
        assert_eq!(written("no route matches"), "no route matches");
        assert_eq!(written("50% of\r\n\u{e9}\u{7f}"), "50%25 of%0D%0A%C3%A9%7F");
        assert_eq!(read_message(b"50%25 of%0d%0A%C3%a9"), "50% of\r\n\u{e9}");
        for odd in ["%", "%4", "%zz", "a%", "%%41"] {
            assert_eq!(read_message(odd.as_bytes()), odd.replace("%41", "A"), "{odd}");
        }
        assert_eq!(read_message(b"\xff%ff"), "\u{fffd}\u{fffd}");
    }

    proptest! {
        #[test]
        fn a_message_survives(text in any::<String>()) {
            let value = written(&text);
            prop_assert!(value.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            prop_assert_eq!(read_message(value.as_bytes()), text);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = (read_message(&bytes), Code::parse(&bytes));
        }
    }
}
