//! Writing HTTP/1: fields as they came, fields of our own, chunks.
//!
//! The forwarder's last step on both directions. Names, order and case of what is passed on stay
//! as they were; a line is copied whole, and lines that stand together are copied together.

use crate::field::Field;
use crate::octet;
use std::io::Write as _;
use std::net::IpAddr;

/// The line after the payload of every chunk.
pub const CHUNK_END: &[u8] = b"\r\n";
/// The last chunk of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// The last chunk before trailer lines; an empty line must follow these.
pub const LAST_CHUNK_LINE: &[u8] = b"0\r\n";
/// The field line that announces chunks.
pub const CHUNKED_FIELD: &[u8] = b"Transfer-Encoding: chunked\r\n";
/// Longest chunk head written, in bytes.
pub const CHUNK_HEAD_MAX: usize = 18;

/// Appends the size line of a chunk of `len` bytes. A chunk of 0 bytes would end the body: nothing is
/// written for it.
pub fn write_chunk_head(out: &mut Vec<u8>, len: usize) {
    debug_assert!(len > 0, "an empty chunk would end the body");
    if len == 0 {
        return;
    }
    let digits = (usize::BITS - len.leading_zeros()).div_ceil(4);
    for place in (0..digits).rev() {
        out.push(b"0123456789abcdef"[len >> (place * 4) & 15]);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the last chunk with trailer lines, each with its CR LF, as
/// [`crate::BodyReader::trailers`] gives them.
pub fn write_last_chunk(out: &mut Vec<u8>, trailers: &[u8]) {
    out.extend_from_slice(LAST_CHUNK_LINE);
    out.extend_from_slice(trailers);
    out.extend_from_slice(b"\r\n");
}

/// Appends the kept fields, of `fields` as parsed from `bytes`, in their order and spelling. Runs
/// of kept lines are copied with one copy each.
pub fn write_fields(out: &mut Vec<u8>, bytes: &[u8], fields: &[Field]) {
    let mut run: Option<usize> = None;
    for field in fields {
        let start = field.name.start as usize;
        match (run, field.keep) {
            (None, true) => run = Some(start),
            (Some(from), false) => {
                out.extend_from_slice(bytes.get(from..start).unwrap_or_default());
                run = None;
            }
            _ => {}
        }
    }
    if let (Some(from), Some(last)) = (run, fields.last()) {
        let rest = bytes.get(last.value.end as usize..).unwrap_or_default();
        let end = last.value.end as usize + memchr::memchr(b'\n', rest).map_or(rest.len(), |lf| lf + 1);
        out.extend_from_slice(bytes.get(from..end).unwrap_or_default());
    }
}

/// Appends a field of our own. What would break the message (a name that is no token, a value with
/// controls) is not written, whatever its source: false.
pub fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) -> bool {
    let sound =
        !name.is_empty() && octet::token_len(name) == name.len() && octet::value_len(value) == value.len();
    if sound {
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    sound
}

/// Appends `Content-Length: <length>` as a line.
pub fn write_content_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"Content-Length: ");
    write_decimal(out, length);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal.
pub fn write_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends an address as text; IPv4 without the formatting machinery, because every request does it.
pub fn write_ip(out: &mut Vec<u8>, ip: IpAddr) {
    let IpAddr::V4(v4) = ip else {
        let _ = write!(out, "{ip}");
        return;
    };
    for (i, octet) in v4.octets().into_iter().enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        if octet >= 100 {
            out.push(b'0' + octet / 100);
        }
        if octet >= 10 {
            out.push(b'0' + octet / 10 % 10);
        }
        out.push(b'0' + octet % 10);
    }
}

/// Appends `Date: <time>` as a line, in the form of RFC 9110 §5.6.7. `unix` is in seconds since the Unix epoch; years
/// after 9999 are written as 9999.
pub fn write_date(out: &mut Vec<u8>, unix: u64) {
    /// The last second of the year 9999.
    const LAST: u64 = 253_402_300_799;
    const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
    const MONTHS: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let unix = unix.min(LAST);
    let (days, second) = (unix / 86_400, unix % 86_400);
    // Years of this calendar begin in March, so that the leap day is a year's last one (Hinnant, "chrono-compatible
    // low-level date algorithms"). An era has 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    let two = |out: &mut Vec<u8>, number: u64, end: u8| {
        out.extend_from_slice(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8, end]);
    };
    out.extend_from_slice(b"Date: ");
    out.extend_from_slice(DAYS[(days % 7) as usize]);
    out.extend_from_slice(b", ");
    two(out, day, b' ');
    out.extend_from_slice(MONTHS[month as usize]);
    out.push(b' ');
    write_decimal(out, year);
    out.push(b' ');
    two(out, second / 3600, b':');
    two(out, second / 60 % 60, b':');
    two(out, second % 60, b' ');
    out.extend_from_slice(b"GMT\r\n");
}

/// Appends the status line, always in HTTP/1.1 (RFC 9110 §2.5). `status` is within 100 and 599; a
/// reason that is no field value is left out.
pub fn write_status_line(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    debug_assert!((100..600).contains(&status));
    out.extend_from_slice(b"HTTP/1.1 ");
    write_decimal(out, u64::from(status));
    out.push(b' ');
    if octet::value_len(reason) == reason.len() {
        out.extend_from_slice(reason);
    }
    out.extend_from_slice(b"\r\n");
}

/// The usual reason phrase of a status (RFC 9110 §15, RFC 6585, RFC 8297 and others of IANA's list); empty where there
/// is none.
pub const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::HeadLimits;
    use crate::h1::request::RequestHead;

    #[test]
    fn writes_addresses_as_the_standard_library_does() {
        for text in ["0.0.0.0", "127.0.0.1", "10.20.30.40", "255.100.99.9", "::1", "2001:db8::7"] {
            let mut out = Vec::new();
            write_ip(&mut out, text.parse().unwrap());
            assert_eq!(out, text.as_bytes());
        }
    }

    #[test]
    fn kept_fields_are_copied_in_order_and_as_written() {
        let input = b"GET / HTTP/1.1\r\nB: 1\r\na:2 \r\nHOST:\tx\r\nc:\r\nD: 4\t\r\n\r\nafter\n";
        let mut head = RequestHead::new();
        head.parse(input, &HeadLimits::default()).unwrap();
        for (dropped, expected) in [
            (vec![], &b"B: 1\r\na:2 \r\nHOST:\tx\r\nc:\r\nD: 4\t\r\n"[..]),
            (vec![0], b"a:2 \r\nHOST:\tx\r\nc:\r\nD: 4\t\r\n"),
            (vec![2, 4], b"B: 1\r\na:2 \r\nc:\r\n"),
            (vec![1, 3], b"B: 1\r\nHOST:\tx\r\nD: 4\t\r\n"),
            (vec![0, 1, 2, 3, 4], b""),
        ] {
            let mut fields = head.fields.clone();
            dropped.iter().for_each(|&i: &usize| fields[i].keep = false);
            let mut out = Vec::new();
            write_fields(&mut out, input, &fields);
            assert_eq!(out, expected, "without {dropped:?}");
        }
    }

    #[test]
    fn numbers_are_written_in_full() {
        let mut out = Vec::new();
        for len in [1, 9, 10, 15, 16, 255, 256, 65_536, usize::MAX] {
            out.clear();
            write_chunk_head(&mut out, len);
            assert_eq!(out, format!("{len:x}\r\n").into_bytes());
            assert!(out.len() <= CHUNK_HEAD_MAX);
            out.clear();
            write_content_length(&mut out, len as u64 - 1);
            assert_eq!(out, format!("Content-Length: {}\r\n", len - 1).into_bytes());
        }
    }

    #[test]
    fn a_field_that_would_split_the_message_is_not_written() {
        let mut out = Vec::new();
        for (name, value) in
            [("A", "b\r\nC: d"), ("A\r\nB", "c"), ("", "a"), ("A:", "b"), ("A", "\0"), ("A B", "c")]
        {
            assert!(!write_field(&mut out, name.as_bytes(), value.as_bytes()), "{name:?} {value:?}");
        }
        assert!(out.is_empty());
        assert!(write_field(&mut out, b"A", b"b c\xff"));
        assert_eq!(out, b"A: b c\xff\r\n");
    }

    #[test]
    fn status_lines_are_always_http_1_1() {
        let mut out = Vec::new();
        write_status_line(&mut out, 502, reason(502).as_bytes());
        write_status_line(&mut out, 299, b"a\r\nb");
        assert_eq!(out, b"HTTP/1.1 502 Bad Gateway\r\nHTTP/1.1 299 \r\n");
    }

    #[test]
    fn dates_have_the_form_of_http() {
        let date = |unix| {
            let mut out = Vec::new();
            write_date(&mut out, unix);
            String::from_utf8(out).unwrap()
        };
        for (unix, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(date(unix), format!("Date: {expected}\r\n"));
        }
    }
}
