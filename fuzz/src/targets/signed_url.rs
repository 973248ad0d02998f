//! Signed links (`auth: { signed_url: … }`).
//!
//! Input: three bytes that choose a character to change, and a link: host, path and query. Asserts: an unsigned link
//! does not pass; a signed one passes, and its own parameters are removed; with one character changed, it passes only
//! if all signed parts are unchanged.

use std::sync::{Arc, LazyLock};

use crate::filter_side::{Asked, Asking, NOW, ask, filter};
use thalweg_access::signed_url::{Signed, SigningKey};
use thalweg_filter::{Filter, Verdict};

const SECRET: &str = "a secret of this target";
/// Parameters that are signed.
const PARAMETERS: [&str; 2] = ["user", "size"];
/// Parameters of the signature, which are not forwarded.
const OWN: [&str; 3] = ["expires", "key_id", "signature"];

/// Its secret signs nothing, so that the fuzzer cannot copy a signature.
static STRANGE: LazyLock<Arc<dyn Filter>> = LazyLock::new(|| checks("a secret that signs nothing", ""));
static CHECKS: LazyLock<Arc<dyn Filter>> = LazyLock::new(|| checks(SECRET, ""));
static CHECKS_METHOD: LazyLock<Arc<dyn Filter>> = LazyLock::new(|| checks(SECRET, r#","method":true"#));
static KEY: LazyLock<SigningKey> =
    LazyLock::new(|| SigningKey::new("k1", SECRET.as_bytes()).unwrap_or_else(|why| panic!("{why}")));

fn checks(secret: &str, more: &str) -> Arc<dyn Filter> {
    let secrets = format!(r#"{{"k1":{{"value":"{secret}"}}}}"#);
    filter(&format!(
        r#"{{"auth":{{"signed_url":{{"secrets":{secrets},"parameters":["user","size"]{more}}}}}}}"#
    ))
}

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let Some(([high, low, other], link)) = input.split_first_chunk::<3>() else { return };
    let Some(link) = Link::read(link) else { return };
    for method in [&b"GET"[..], b"POST"] {
        assert!(!link.passes(&**STRANGE, method), "an unsigned link passes");
    }
    // A repeated parameter of the signature is refused, and so is a signed one in another spelling.
    let is_plain = link.pairs().all(|(name, _)| !OWN.contains(&&*name))
        && PARAMETERS.iter().all(|it| link.count(it) < 2 && link.spellings(it) == link.count(it));
    if !is_plain {
        return;
    }
    for (filter, signed_for, method) in [
        (&CHECKS, None, &b"GET"[..]),
        (&CHECKS, None, &b"HEAD"[..]),
        (&CHECKS_METHOD, Some(&b"PUT"[..]), &b"PUT"[..]),
    ] {
        let text = link.signed(signed_for);
        let signed = Link::read(&text).expect("it was one before it was signed");
        let Asked { verdict, query, .. } = signed.ask(&***filter, method);
        assert!(matches!(verdict, Verdict::Continue), "{verdict:?} for {signed:?}");
        let query = query.unwrap_or_default();
        assert!(
            pairs(&query).all(|(name, _)| !OWN.contains(&&*name)),
            "{:?}",
            String::from_utf8_lossy(&query)
        );
        let another: &[u8] = if method == b"PUT" { b"GET" } else { b"POST" };
        assert!(!signed.passes(&***filter, another), "with another method");
        let mut changed = text.clone();
        changed[usize::from(u16::from_be_bytes([*high, *low])) % text.len()] = *other;
        let Some(changed) = Link::read(&changed) else { continue };
        if changed.passes(&***filter, method) {
            assert_eq!(changed.covered(signed_for), signed.covered(signed_for));
        }
    }
}

/// A link in its parts, without characters that a parser refuses.
#[derive(Debug)]
struct Link<'a> {
    host: &'a [u8],
    path: &'a [u8],
    query: Option<&'a [u8]>,
}

impl<'a> Link<'a> {
    fn read(text: &'a [u8]) -> Option<Self> {
        if !text.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#') {
            return None;
        }
        let (host, rest) = text.split_at(text.iter().position(|byte| *byte == b'/')?);
        let question = rest.iter().position(|byte| *byte == b'?');
        let (path, query) = rest.split_at(question.unwrap_or(rest.len()));
        Some(Self { host, path, query: query.get(1..) })
    }

    fn ask(&self, filter: &dyn Filter, method: &[u8]) -> Asked {
        ask(filter, &Asking { method, host: self.host, path: self.path, query: self.query, cookie: b"" })
    }

    fn passes(&self, filter: &dyn Filter, method: &[u8]) -> bool {
        matches!(self.ask(filter, method).verdict, Verdict::Continue)
    }

    fn pairs(&self) -> impl Iterator<Item = (String, &'a [u8])> {
        pairs(self.query.unwrap_or_default())
    }

    fn count(&self, name: &str) -> usize {
        self.pairs().filter(|(known, _)| known == name).count()
    }

    /// How often the query may name a parameter, in any case and place.
    fn spellings(&self, name: &str) -> usize {
        let names = self.pairs().map(|(name, pair)| format!("{name} {}", decoded(pair)));
        let query = names.collect::<Vec<_>>().join(" ").to_ascii_lowercase();
        let exact = self.pairs().filter(|(known, pair)| known == name && pair.starts_with(name.as_bytes()));
        query.matches(name).count().saturating_sub(exact.count())
    }

    fn value(&self, name: &str) -> &'a [u8] {
        let found = self.pairs().find(|(known, _)| known == name).map_or(&b""[..], |(_, pair)| pair);
        found.iter().position(|byte| *byte == b'=').map_or(&b""[..], |at| &found[at + 1..])
    }

    /// The parts of this link that its signature covers. A new part is added here.
    fn signed_parts(&self, method: Option<&'a [u8]>) -> Signed<'a> {
        let parameter = |name: &&str| self.pairs().find(|(known, _)| known == *name).map(|(_, pair)| pair);
        Signed {
            method,
            host: self.host,
            scope: b"r",
            path: self.path,
            expires: self.value("expires"),
            parameters: PARAMETERS.iter().filter_map(parameter).collect(),
        }
    }

    /// The covered parts, the key and the signature, to compare.
    fn covered(&self, method: Option<&'a [u8]>) -> String {
        format!("{:?} {:?} {:?}", self.signed_parts(method), self.value("key_id"), self.value("signature"))
    }

    /// The same link with a signature.
    fn signed(&self, method: Option<&[u8]>) -> Vec<u8> {
        let mut text = [self.host, self.path, b"?", self.query.unwrap_or_default()].concat();
        text.extend(format!("&expires={}&key_id=k1", NOW + 60).bytes());
        let unsigned = text.clone();
        let link = Link::read(&unsigned).expect("it was one before");
        let signature = KEY.sign(&link.signed_parts(method));
        text.extend(format!("&signature={signature}").bytes());
        text
    }
}

/// Decoded names, with the raw pairs.
fn pairs(query: &[u8]) -> impl Iterator<Item = (String, &[u8])> {
    let pairs = query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
        (decoded(name), pair)
    })
}

/// Escapes are decoded, `+` is a space; a broken escape stays.
fn decoded(name: &[u8]) -> String {
    let (mut bytes, mut at) = (Vec::new(), 0);
    while at < name.len() {
        let escape = name
            .get(at + 1..at + 3)
            .filter(|digits| name[at] == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let value = escape.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(match value {
            Some(value) => value,
            None if name[at] == b'+' => b' ',
            None => name[at],
        });
        at += if value.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
