//! Distinguished names as unambiguous text (RFC 4514), for every name that an issuer can write.
//!
//! Applications behind the proxy identify clients by these texts. Characters outside plain ASCII are therefore
//! escaped, and values that are not text, or of a type without a name, are written as hexadecimal bytes.

use x509_parser::asn1_rs::{Any, Tag, ToDer};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Short names of types: those of RFC 4514 §3, and those of RFC 4519 and RFC 2985 that stand in client certificates.
const TYPES: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.42", "GN"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

/// The name, its last part first: `CN=alice,O=Example`, as `openssl x509 -subject -nameopt RFC2253` prints it.
/// `None`: it cannot be written.
pub(crate) fn text(name: &X509Name<'_>) -> Option<String> {
    let mut text = String::new();
    let parts: Vec<_> = name.iter_rdn().collect();
    for part in parts.into_iter().rev() {
        for (at, attribute) in part.iter().enumerate() {
            match (at, text.is_empty()) {
                (0, true) => {}
                (0, false) => text.push(','),
                _ => text.push('+'),
            }
            write(attribute, &mut text)?;
        }
    }
    Some(text)
}

fn write(attribute: &AttributeTypeAndValue<'_>, text: &mut String) -> Option<()> {
    let oid = attribute.attr_type().to_id_string();
    let short = TYPES.iter().find(|(known, _)| *known == oid).map(|(_, short)| *short);
    text.push_str(short.unwrap_or(&oid));
    text.push('=');
    match short.and_then(|_| plain(attribute.attr_value())) {
        Some(value) => escape(value, text),
        None => {
            text.push('#');
            let der = attribute.attr_value().to_der_vec().ok()?;
            der.into_iter().for_each(|byte| hex(byte, text));
        }
    }
    Some(())
}

/// The text of a value, where its kind says which text its bytes are.
fn plain<'a>(value: &'a Any<'_>) -> Option<&'a str> {
    match value.header.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString | Tag::VisibleString => {
            std::str::from_utf8(value.data).ok()
        }
        _ => None,
    }
}

/// RFC 4514 §2.4.
fn escape(value: &str, text: &mut String) {
    let last = value.len().wrapping_sub(1);
    for (at, byte) in value.bytes().enumerate() {
        match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => {
                text.push('\\');
                text.push(char::from(byte));
            }
            b' ' if at == 0 || at == last => text.push_str("\\ "),
            b'#' if at == 0 => text.push_str("\\#"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => {
                text.push('\\');
                hex(byte, text);
            }
        }
    }
}

/// Two digits, in upper case.
pub(crate) fn hex(byte: u8, text: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.push(char::from(DIGITS[usize::from(byte >> 4)]));
    text.push(char::from(DIGITS[usize::from(byte & 15)]));
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};
    use x509_parser::certificate::X509Certificate;
    use x509_parser::prelude::FromDer;

    use super::*;

    fn subject(parts: Vec<(DnType, DnValue)>) -> String {
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        parts.into_iter().for_each(|(kind, value)| params.distinguished_name.push(kind, value));
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let (_, parsed) = X509Certificate::from_der(made.der()).unwrap();
        text(parsed.subject()).unwrap()
    }

    fn common(value: &str) -> String {
        subject(vec![(DnType::CommonName, value.into())])
    }

    #[test]
    fn the_last_part_stands_first() {
        let parts = vec![
            (DnType::CountryName, DnValue::PrintableString("DE".try_into().unwrap())),
            (DnType::OrganizationName, "Example".into()),
            (DnType::CommonName, "alice".into()),
        ];
        assert_eq!(subject(parts), "CN=alice,O=Example,C=DE");
        assert_eq!(subject(Vec::new()), "");
    }

    /// A name that says more than one thing must not look like two.
    #[test]
    fn nothing_in_a_value_can_pass_for_structure_or_end_a_line() {
        for (value, expected) in [
            ("eve,O=Admins", "CN=eve\\,O=Admins"),
            ("eve+O=Admins", "CN=eve\\+O=Admins"),
            ("a\r\nX-Admin: 1", "CN=a\\0D\\0AX-Admin: 1"),
            ("a\0b", "CN=a\\00b"),
            ("\"q\" \\ <x>;", "CN=\\\"q\\\" \\\\ \\<x\\>\\;"),
            (" both ", "CN=\\ both\\ "),
            (" ", "CN=\\ "),
            ("#1", "CN=\\#1"),
            ("Jürgen", "CN=J\\C3\\BCrgen"),
            ("\u{7f}", "CN=\\7F"),
        ] {
            assert_eq!(common(value), expected);
        }
    }

    #[test]
    fn what_has_no_name_or_is_no_text_is_written_as_bytes() {
        let unknown = vec![(DnType::CustomDnType(vec![1, 2, 3, 4]), DnValue::Utf8String("Hi".into()))];
        assert_eq!(subject(unknown), "1.2.3.4=#0C024869");
        let wide = vec![(DnType::CommonName, DnValue::BmpString("Hi".try_into().unwrap()))];
        assert_eq!(subject(wide), "CN=#1E0400480069");
    }
}
