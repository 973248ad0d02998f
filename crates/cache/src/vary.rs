//! Which fields of a request choose among responses of one URL (`Vary`, RFC 9111 §4.1).
//!
//! A response that varies by something that the cache cannot compare is not stored: `*`, and what the proxy itself
//! writes into each request (`X-Forwarded-For` and its kin), which the fields of the request as they are seen here do
//! not have. What the key has anyway (the host, the scheme) is no difference.

use crate::policy::Policy;
use crate::request::FieldLines;
use crate::response::values;
use thalweg_http::{FieldId, FieldSet, octet};

/// Names that `Vary` may have; a response with more is not stored.
pub const MOST_VARY_NAMES: usize = 16;
/// Variants of one URL that a store keeps; it lets go of the one that was not used for longest.
pub const MOST_VARIANTS: usize = 64;
/// Bytes of the values that choose a variant; a request with more is not answered from the cache.
pub const MOST_VARIANT_KEY: usize = 8 * 1024;

/// Parts of the key.
const KEYED: FieldSet = FieldSet::of(&[
    FieldId::Host,
    FieldId::XForwardedHost,
    FieldId::XForwardedProto,
    FieldId::XForwardedPort,
]);

/// What the proxy writes into a request, other for each client, each request or each hop.
const WRITTEN: FieldSet = FieldSet::of(&[
    FieldId::Alias,
    FieldId::XForwardedFor,
    FieldId::XForwardedOther,
    FieldId::Forwarded,
    FieldId::XRealIp,
    FieldId::TrueClientIp,
    FieldId::XRequestId,
    FieldId::Traceparent,
    FieldId::Tracestate,
    FieldId::ClientCert,
    FieldId::Via,
    FieldId::ProxyAuthorization,
    FieldId::Connection,
    FieldId::Te,
]);

/// What a response varies by.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Vary {
    /// Nothing: it fits every request for its URL.
    #[default]
    Nothing,
    /// The fields of these names, in lower case, sorted, each once.
    Names(Box<[Box<str>]>),
    /// Something that cannot be compared: it fits no request.
    Everything,
}

impl Vary {
    /// Reads the lines of a response.
    pub fn read<'a>(fields: impl FieldLines<'a>) -> Self {
        let mut names: Vec<Box<str>> = Vec::new();
        for name in values(fields, "vary").flat_map(octet::list) {
            let id = FieldId::classify(name);
            if name == b"*" || octet::token_len(name) != name.len() || WRITTEN.contains(id) {
                return Self::Everything;
            }
            if KEYED.contains(id) {
                continue;
            }
            // A token is ASCII.
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            if !names.iter().any(|known| **known == *name) {
                names.push(name.into());
            }
            if names.len() > MOST_VARY_NAMES {
                return Self::Everything;
            }
        }
        names.sort_unstable();
        if names.is_empty() { Self::Nothing } else { Self::Names(names.into()) }
    }

    /// Whether it names this field, given in lower case.
    pub fn names(&self, name: &str) -> bool {
        matches!(self, Self::Names(names) if names.iter().any(|known| **known == *name))
    }

    /// Appends what tells the variant of this request from others: equal bytes, equal variant. False, and nothing is
    /// appended, where there is no such variant: the response fits no request, or the request says too much.
    pub fn write_key<'a>(&self, policy: &Policy, request: impl FieldLines<'a>, out: &mut Vec<u8>) -> bool {
        let names = match self {
            Self::Nothing => return true,
            Self::Everything => return false,
            Self::Names(names) => names,
        };
        let base = out.len();
        for name in names {
            write_part(name.as_bytes(), out);
            write_value(policy, name, request.clone(), out);
            if out.len() - base > MOST_VARIANT_KEY {
                out.truncate(base);
                return false;
            }
        }
        true
    }
}

/// Appends a part with its length in front.
pub(crate) fn write_part(part: &[u8], out: &mut Vec<u8>) {
    // What is longer than a 32-bit number of bytes is refused by all bounds before.
    out.extend_from_slice(&(part.len() as u32).to_be_bytes());
    out.extend_from_slice(part);
}

/// Appends the value of a field in a normal form, with a mark for a field that is absent.
fn write_value<'a>(policy: &Policy, name: &str, fields: impl FieldLines<'a>, out: &mut Vec<u8>) {
    if values(fields.clone(), name).next().is_none() {
        out.push(0);
        return;
    }
    out.push(1);
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let lines = values(fields, name);
    match name {
        "accept-encoding" => write_set(lines, out),
        "accept-language" if policy.ignores_language_order => write_set(lines, out),
        "accept-language" => write_list(lines, true, out),
        // Their commas and spaces belong to their values.
        "cookie" | "authorization" | "user-agent" => write_lines(lines, out),
        _ => write_list(lines, false, out),
    }
    let length = (out.len() - length_at - 4) as u32;
    out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Lines as they are, each with its length.
fn write_lines<'a>(lines: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    lines.for_each(|line| write_part(line, out));
}

/// Members of a list in their order, whitespace around them gone, whatever the lines that they stand in.
fn write_list<'a>(lines: impl Iterator<Item = &'a [u8]>, is_lower: bool, out: &mut Vec<u8>) {
    let begins = out.len();
    for member in lines.flat_map(members) {
        if out.len() > begins {
            out.push(b',');
        }
        let at = out.len();
        out.extend_from_slice(octet::trim_ows(member));
        if is_lower {
            out[at..].make_ascii_lowercase();
        }
    }
}

/// Members of a list whose order means nothing, in lower case, without whitespace and weights of 1, sorted.
fn write_set<'a>(lines: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let normal = |member: &[u8]| {
        let mut text: Vec<u8> = member.iter().filter(|byte| !octet::is_ows(**byte)).copied().collect();
        text.make_ascii_lowercase();
        for one in [&b";q=1"[..], b";q=1.", b";q=1.0", b";q=1.00", b";q=1.000"] {
            if text.ends_with(one) {
                text.truncate(text.len() - one.len());
            }
        }
        text
    };
    let mut all: Vec<Vec<u8>> = lines.flat_map(octet::list).map(normal).collect();
    all.sort_unstable();
    all.dedup();
    out.extend_from_slice(&all.join(&b','));
}

/// The members of a list; a comma in a quoted string ends none, and a string without an end is as it is.
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut quoted, mut escaped) = (false, false);
        let end = text.iter().position(|byte| {
            let is_end = *byte == b',' && !quoted;
            quoted ^= *byte == b'"' && !escaped;
            escaped = quoted && *byte == b'\\' && !escaped;
            is_end
        });
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::lines;

    fn names(head: &str) -> Option<Vec<String>> {
        match Vary::read(lines(head)) {
            Vary::Nothing => Some(Vec::new()),
            Vary::Names(names) => Some(names.iter().map(|name| name.to_string()).collect()),
            Vary::Everything => None,
        }
    }

    fn key(vary: &str, request: &str, policy: &Policy) -> Option<Vec<u8>> {
        let mut out = b"before".to_vec();
        let vary = Vary::read(lines(&format!("vary: {vary}")));
        vary.write_key(policy, lines(request), &mut out).then_some(out)
    }

    fn same(vary: &str, one: &str, other: &str) -> bool {
        let policy = Policy::default();
        key(vary, one, &policy).unwrap() == key(vary, other, &policy).unwrap()
    }

    #[test]
    fn names_are_sorted_and_stand_once() {
        assert_eq!(names(""), Some(vec![]));
        assert_eq!(
            names("vary: Foo, Bar\nVARY: foo, baz"),
            Some(vec!["bar".into(), "baz".into(), "foo".into()])
        );
        assert_eq!(names("vary: , ,"), Some(vec![]));
    }

    #[test]
    fn a_star_fits_no_request_wherever_it_stands() {
        for head in [
            "vary: *",
            "vary: *, *",
            "vary: *\nvary: *",
            "vary: , *",
            "vary:\nvary: *",
            "vary: *, Foo",
            "vary: Foo, *",
        ] {
            assert_eq!(names(head), None, "{head}");
        }
    }

    #[test]
    fn what_is_no_name_or_is_written_by_the_proxy_fits_no_request() {
        for head in [
            "vary: a b",
            "vary: \"a\"",
            "vary: X-Forwarded-For",
            "vary: x-real-ip",
            "vary: Forwarded",
            "vary: X_Forwarded_For",
        ] {
            assert_eq!(names(head), None, "{head}");
        }
        let many: Vec<_> = (0..=MOST_VARY_NAMES).map(|number| format!("a{number}")).collect();
        assert_eq!(names(&format!("vary: {}", many.join(","))), None);
        assert!(names(&format!("vary: {}", many[1..].join(","))).is_some());
    }

    #[test]
    fn what_the_key_has_makes_no_variants() {
        assert_eq!(names("vary: Host, X-Forwarded-Proto, X-Forwarded-Host, A"), Some(vec!["a".into()]));
    }

    #[test]
    fn values_are_compared_in_a_normal_form() {
        for (vary, one, other) in [
            ("foo", "Foo: 1", "fOO:  1 "),
            ("foo", "foo: 1, 2", "foo: 1\nfoo: 2"),
            ("foo", "foo: 1,2", "foo:  1 ,  2 "),
            ("foo, bar", "foo: 1", "foo: 1\nbaz: 2"),
            ("foo", "foo: \"a,b\",c", "foo: \"a,b\" , c"),
            ("accept-language", "accept-language: en, de", "Accept-Language: eN,   De"),
            ("accept-encoding", "accept-encoding: gzip, br", "accept-encoding: BR;q=1.0, gzip;q=1"),
            ("accept-encoding", "accept-encoding: gzip ; q=0.5", "accept-encoding: gzip;q=0.5, gzip;q=0.5"),
        ] {
            assert!(same(vary, one, other), "{vary}: {one} and {other}");
        }
    }

    #[test]
    fn what_differs_is_another_variant() {
        for (vary, one, other) in [
            ("foo", "foo: 1", "foo: 2"),
            ("foo", "foo: 1", ""),
            ("foo", "foo:", ""),
            ("foo, bar", "foo: 1\nbar: 2", "foo: 2\nbar: 1"),
            ("foo, bar", "foo: 1", "bar: 1"),
            ("foo", "foo: a", "foo: A"),
            ("foo", "foo: \"a, b\"", "foo: \"a,b\""),
            ("foo", "foo: 1, 2", "foo: 2, 1"),
            ("foo", "foo: 1,", "foo: 1"),
            ("cookie", "cookie: a=1, b=2", "cookie: a=1,b=2"),
            ("cookie", "cookie: a=1\ncookie: b=2", "cookie: a=1, b=2"),
            ("accept-language", "accept-language: en, de", "accept-language: de, en"),
            ("accept-encoding", "accept-encoding: gzip", "accept-encoding: gzip;q=0"),
        ] {
            assert!(!same(vary, one, other), "{vary}: {one} and {other}");
        }
    }

    #[test]
    fn the_order_of_languages_can_be_ignored() {
        let policy = Policy { ignores_language_order: true, ..Policy::default() };
        let of = |request| key("accept-language", request, &policy).unwrap();
        assert_eq!(of("accept-language: en, de"), of("accept-language: DE,en"));
        assert_ne!(of("accept-language: en, de"), of("accept-language: en, de;q=0.5"));
    }

    #[test]
    fn no_value_can_pass_for_another_field() {
        assert!(!same("a, b", "a: x\nb: y", "a: x\u{0}\u{0}b"));
        let mut out = Vec::new();
        assert!(Vary::Nothing.write_key(&Policy::default(), lines("a: b"), &mut out) && out.is_empty());
    }

    #[test]
    fn a_request_that_says_too_much_has_no_variant() {
        let long = format!("foo: {}", "x".repeat(MOST_VARIANT_KEY));
        let mut out = b"kept".to_vec();
        let vary = Vary::read(lines("vary: foo"));
        assert!(!vary.write_key(&Policy::default(), lines(&long), &mut out));
        assert_eq!(out, b"kept");
    }
}
