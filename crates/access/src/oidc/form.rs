//! Forms and queries (application/x-www-form-urlencoded), both ways.

/// Parameters of a query that are looked at, at most.
const PARAMETERS: usize = 64;

/// Text as a name or value of a form.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A form of these.
pub(super) fn form(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// The parameters of a query; those that are no text are left out.
pub fn parameters(query: &[u8]) -> impl Iterator<Item = (String, String)> {
    query.split(|byte| *byte == b'&').take(PARAMETERS).filter_map(|pair| {
        let mut parts = pair.splitn(2, |byte| *byte == b'=');
        Some((decoded(parts.next()?)?, decoded(parts.next().unwrap_or_default())?))
    })
}

fn decoded(text: &[u8]) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = str::from_utf8(tail.get(..2)?).ok()?;
                let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                out.push(is_hex.then(|| u8::from_str_radix(digits, 16).ok())??);
                rest = &tail[2..];
            }
            byte => out.push(*byte),
        }
    }
    String::from_utf8(out).ok()
}
