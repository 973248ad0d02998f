//! What `rate_limit` and `concurrency` count by: `key: client_ip`, `key: { header: X-Tenant }`, or several together.

use crate::request::{Facts, Values};
use crate::shape::one_key;
use crate::target::TargetEdit;
use crate::template::{Escape, Template, TemplateSpec, parameter};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{SeqAccessDeserializer, StrDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use thalweg_access::{Fingerprint, FingerprintMaker, SharedName, fingerprint};
use thalweg_http::octet;

/// Parts that a key may have.
const PARTS: usize = 8;

/// A part of a key.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyPartSpec {
    /// The client's address, seen through trusted proxies; see `prefix`.
    ClientIp,
    /// The user, as a filter before this one has verified it; of API keys, their names.
    User,
    /// The name of the route.
    Route,
    /// The name of the listener.
    Listener,
    /// The name of the service.
    Service,
    /// The host that the client named.
    Host,
    /// The first value of a field of the request.
    Header(String),
    /// The value of a cookie.
    Cookie(String),
    /// The first value of a query parameter.
    Query(String),
    /// What a filter before this one has verified of the client, by its name.
    Claim(String),
    /// A text with placeholders.
    Template(TemplateSpec),
}

/// What is counted by: one part, or several that make a key together. A text with braces is a `template`.
#[derive(Clone, Debug)]
pub(crate) struct KeySpec(Vec<KeyPartSpec>);

impl<'de> Deserialize<'de> for KeySpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ByShape)
    }
}

/// A part in any of its forms.
struct AnyPart(KeyPartSpec);

impl<'de> Deserialize<'de> for AnyPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PartByShape).map(Self)
    }
}

struct ByShape;

impl<'de> Visitor<'de> for ByShape {
    type Value = KeySpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what to count by, such as `client_ip` or `{ header: X-Tenant }`, or a list of these")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<KeySpec, E> {
        PartByShape.visit_str(text).map(|part| KeySpec(vec![part]))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<KeySpec, A::Error> {
        PartByShape.visit_map(map).map(|part| KeySpec(vec![part]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<KeySpec, A::Error> {
        let parts = Vec::<AnyPart>::deserialize(SeqAccessDeserializer::new(seq))?;
        Ok(KeySpec(parts.into_iter().map(|part| part.0).collect()))
    }
}

struct PartByShape;

impl<'de> Visitor<'de> for PartByShape {
    type Value = KeyPartSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what to count by, such as `client_ip` or `{ header: X-Tenant }`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<KeyPartSpec, E> {
        if text.contains('{') {
            return Ok(KeyPartSpec::Template(TemplateSpec(text.to_owned())));
        }
        KeyPartSpec::deserialize(StrDeserializer::new(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<KeyPartSpec, A::Error> {
        one_key(map)
    }
}

impl JsonSchema for KeySpec {
    fn schema_name() -> Cow<'static, str> {
        "KeySpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let part = generator.subschema_for::<KeyPartSpec>();
        let text =
            json_schema!({ "type": "string", "pattern": r"\{", "description": "A text with placeholders." });
        json_schema!({
            "description": "What is counted by: one part, or several that make a key together.",
            "anyOf": [
                part,
                text,
                { "type": "array", "items": { "anyOf": [part, text] }, "minItems": 1, "maxItems": PARTS },
            ],
        })
    }
}

/// What becomes of requests without a key.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MissingSpec {
    /// They are counted together.
    #[default]
    Share,
    /// They are not counted.
    Allow,
    /// They are refused.
    Deny,
}

/// How many leading bits of addresses make a key: a client with a network of its own is one client.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PrefixSpec {
    /// Bits of an IPv4 address.
    #[schemars(extend("x-range" = [1, 32], "x-default" = 32))]
    v4: Option<u8>,
    /// Bits of an IPv6 address.
    #[schemars(extend("x-range" = [1, 128], "x-default" = 64))]
    v6: Option<u8>,
}

#[derive(Debug)]
enum Part {
    ClientIp,
    User,
    Route,
    Listener,
    Service,
    Host,
    Header(Box<str>),
    Cookie(Box<str>),
    Query(Box<str>),
    Claim(Box<str>),
    Template(Template),
}

/// What is counted by.
#[derive(Debug)]
pub(crate) struct Key {
    parts: Box<[Part]>,
    /// Bits of IPv4 and of IPv6 addresses.
    prefix: (u8, u8),
    /// Keys of other limits are other keys.
    kind: u64,
    /// The same for other proxies.
    kind_text: Box<str>,
    text: Box<str>,
}

impl KeySpec {
    /// The client's address.
    pub(crate) fn client_ip() -> Self {
        Self(vec![KeyPartSpec::ClientIp])
    }

    /// Checks names and templates. `purpose` makes keys of other limits different.
    ///
    /// # Errors
    /// A sentence that names the wrong part.
    pub(crate) fn build(&self, prefix: &PrefixSpec, purpose: &str) -> Result<Key, String> {
        if self.0.is_empty() || self.0.len() > PARTS {
            return Err(format!("`key` has 1 to {PARTS} parts"));
        }
        let parts = self.0.iter().map(KeyPartSpec::build).collect::<Result<Box<[Part]>, _>>()?;
        let (v4, v6) = (prefix.v4.unwrap_or(32), prefix.v6.unwrap_or(64));
        if !(1..=32).contains(&v4) || !(1..=128).contains(&v6) {
            return Err("`prefix` must be from 1 to 32 bits for `v4`, from 1 to 128 for `v6`".into());
        }
        let has_address = parts.iter().any(|part| matches!(part, Part::ClientIp));
        if !has_address && (prefix.v4.is_some() || prefix.v6.is_some()) {
            return Err("`prefix` is for `key: client_ip`, and this key has none".into());
        }
        let words: Vec<String> = parts.iter().map(Part::text).collect();
        let mut text = words.join(" + ");
        if has_address && (v4, v6) != (32, 64) {
            text.push_str(&format!(" /{v4} /{v6}"));
        }
        let kind_text = format!("{text} {purpose}");
        let kind = fingerprint(0, kind_text.as_bytes()).number();
        Ok(Key { parts, prefix: (v4, v6), kind, kind_text: kind_text.into(), text: text.into() })
    }
}

impl KeyPartSpec {
    fn build(&self) -> Result<Part, String> {
        let token = |what: &str, name: &String| {
            if name.is_empty() || octet::token_len(name.as_bytes()) != name.len() {
                return Err(format!("`{name}` is no name of a {what}"));
            }
            Ok(name.as_str().into())
        };
        let name = |what: &str, name: &String| {
            if name.is_empty() {
                Err(format!("the {what} of a key has no name"))
            } else {
                Ok(name.as_str().into())
            }
        };
        Ok(match self {
            Self::ClientIp => Part::ClientIp,
            Self::User => Part::User,
            Self::Route => Part::Route,
            Self::Listener => Part::Listener,
            Self::Service => Part::Service,
            Self::Host => Part::Host,
            Self::Header(header) => Part::Header(token("field", header)?),
            Self::Cookie(cookie) => Part::Cookie(token("cookie", cookie)?),
            Self::Query(parameter) => Part::Query(name("query parameter", parameter)?),
            Self::Claim(claim) => Part::Claim(name("claim", claim)?),
            Self::Template(template) => {
                let template = template.build()?;
                if template.uses_status() {
                    return Err("`{status}` is not known when a request is counted".into());
                }
                Part::Template(template)
            }
        })
    }
}

impl Part {
    fn text(&self) -> String {
        match self {
            Self::ClientIp => "client_ip".into(),
            Self::User => "user".into(),
            Self::Route => "route".into(),
            Self::Listener => "listener".into(),
            Self::Service => "service".into(),
            Self::Host => "host".into(),
            Self::Header(name) => format!("header {name}"),
            Self::Cookie(name) => format!("cookie {name}"),
            Self::Query(name) => format!("query {name}"),
            Self::Claim(name) => format!("claim {name}"),
            Self::Template(template) => template.to_string(),
        }
    }

    /// Its value; `None`: the request has none.
    fn value<'v>(&'v self, values: &Values<'v>) -> Option<Cow<'v, [u8]>> {
        let facts = values.facts;
        Some(match self {
            // Its bits are counted, not its text: see `Key::address`.
            Self::ClientIp => return None,
            Self::User => {
                values.identity.map(|it| it.user.as_bytes()).filter(|user| !user.is_empty())?.into()
            }
            Self::Route => facts.route.as_bytes().into(),
            Self::Listener => facts.listener.as_bytes().into(),
            Self::Service => facts.service.as_bytes().into(),
            Self::Host => facts.host.into(),
            Self::Header(name) => values.fields.get(name)?.into(),
            Self::Cookie(name) => values.fields.cookie(name)?.into(),
            Self::Query(name) => parameter(facts.query?, name)?.into(),
            Self::Claim(name) => match values.identity?.claim(name)? {
                Cow::Borrowed(text) => text.as_bytes().into(),
                Cow::Owned(text) => text.into_bytes().into(),
            },
            Self::Template(template) => {
                let mut out = Vec::new();
                // All spellings of a path share one counter.
                let facts = Facts { path: facts.matched_path(), readings: None, ..*facts };
                let target = values.target.and_then(TargetEdit::matched);
                let target = target.as_ref().or(values.target);
                template.render(&Values { facts: &facts, target, ..*values }, Escape::Field, &mut out);
                out.into()
            }
        })
    }
}

impl Key {
    /// As it is written, for people.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether all requests have the same one.
    pub(crate) fn is_of_place(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Route | Part::Listener | Part::Service))
    }

    /// Captures of the route's path that it uses.
    pub(crate) fn captures(&self) -> impl Iterator<Item = String> {
        let captures = self.parts.iter().filter_map(|part| match part {
            Part::Template(template) => Some(template.captures().map(str::to_owned)),
            _ => None,
        });
        captures.flatten()
    }

    /// The key of a request, and whether the request has all of its parts.
    pub(crate) fn of(&self, values: &Values<'_>) -> (Fingerprint, bool) {
        let mut maker = FingerprintMaker::new(self.kind);
        let is_whole = self.each(values, |bytes| maker.part(bytes));
        (maker.finish(), is_whole)
    }

    /// Its name in a store that several proxies share.
    pub(crate) fn name(&self, values: &Values<'_>, scope: &str) -> String {
        let mut name = SharedName::new(scope, &self.kind_text);
        self.each(values, |bytes| name.part(bytes));
        name.finish()
    }

    /// Gives every part to `with`, one that is missing as nothing; says whether none is.
    pub(crate) fn each(&self, values: &Values<'_>, mut with: impl FnMut(&[u8])) -> bool {
        let mut is_whole = true;
        for part in &self.parts {
            if let Part::ClientIp = part {
                let (bytes, length) = self.address(values.facts.client_ip);
                with(&bytes[..length]);
                continue;
            }
            let value = part.value(values);
            is_whole &= value.is_some();
            with(value.as_deref().unwrap_or_default());
        }
        is_whole
    }

    /// The bits of an address that count.
    fn address(&self, address: IpAddr) -> ([u8; 16], usize) {
        let mut bytes = [0; 16];
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let kept = u32::MAX.checked_shl(32 - u32::from(self.prefix.0)).unwrap_or(0);
                bytes[..4].copy_from_slice(&(address.to_bits() & kept).to_be_bytes());
                (bytes, 4)
            }
            IpAddr::V6(address) => {
                let kept = u128::MAX.checked_shl(128 - u32::from(self.prefix.1)).unwrap_or(0);
                bytes.copy_from_slice(&(address.to_bits() & kept).to_be_bytes());
                (bytes, 16)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::FieldView;
    use crate::identity::Identity;
    use crate::tests::{Asked, built, facts};

    fn key(json: &str, prefix: &str) -> Key {
        built::<KeySpec>(json).build(&built(prefix), "test").unwrap()
    }

    fn same(key: &Key, one: &str, other: &str) -> bool {
        let of = |address: &str| {
            let mut facts = facts("/");
            facts.client_ip = address.parse().unwrap();
            let values = Values {
                facts: &facts,
                fields: FieldView::default(),
                target: None,
                identity: None,
                status: None,
                fault: None,
            };
            key.of(&values)
        };
        assert!(of(one).1);
        of(one) == of(other)
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let usual = key(r#""client_ip""#, "{}");
        assert!(same(&usual, "2001:db8::1", "2001:db8::ffff:1"));
        assert!(!same(&usual, "2001:db8::1", "2001:db8:0:1::1"));
        assert!(!same(&usual, "192.0.2.1", "192.0.2.2"));
        assert!(
            same(&usual, "192.0.2.1", "::ffff:192.0.2.1"),
            "one client, whichever socket it came through"
        );
        assert!(same(&key(r#""client_ip""#, r#"{"v4": 24, "v6": 48}"#), "192.0.2.1", "192.0.2.200"));
    }

    #[test]
    fn all_spellings_of_a_path_are_counted_together() {
        let counted = |json: &str, path: &str| {
            let mut asked = Asked::at(path);
            asked.call(|cx| key(json, "{}").of(&cx.values()))
        };
        for json in [r#""{path}""#, r#""{upstream_path}""#] {
            for path in ["/%40team/x", "/@team//x", "/@team/x"] {
                assert_eq!(counted(json, path), counted(json, "/@team/x"), "{json} {path}");
            }
            assert_ne!(counted(json, "/@team/y"), counted(json, "/@team/x"));
        }
    }

    #[test]
    fn keys_are_made_of_what_requests_have() {
        let identity = Identity {
            claims: serde_json::from_str(r#"{"plan": "gold", "n": 7}"#).unwrap(),
            ..Identity::new("api_key", "ada")
        };
        let parts = |json: &str, identity: Option<&Identity>| {
            let facts = facts("/a");
            let fields = FieldView::new(&[], &[], b"X-Tenant: blue\r\nCookie: sid=1\r\n");
            let values = Values { facts: &facts, fields, target: None, identity, status: None, fault: None };
            let mut parts = Vec::new();
            let is_whole =
                key(json, "{}").each(&values, |part| parts.push(String::from_utf8_lossy(part).into_owned()));
            (parts.join("|"), is_whole)
        };
        for (json, expected, is_whole) in [
            (r#"{"header": "x-tenant"}"#, "blue", true),
            (r#"{"header": "X-None"}"#, "", false),
            (r#"["user", {"claim": "plan"}, {"claim": "n"}]"#, "ada|gold|7", true),
            (r#"[{"cookie": "sid"}, {"query": "q"}, "route"]"#, "1||r", false),
            (r#""{host}{path}""#, "shop.test/a", true),
            (r#"["listener", "service", "host"]"#, "web|s|shop.test", true),
        ] {
            assert_eq!(parts(json, Some(&identity)), (expected.to_owned(), is_whole), "{json}");
        }
        assert_eq!(parts(r#""user""#, None), (String::new(), false));
    }

    #[test]
    fn wrong_keys_are_refused() {
        for (json, prefix, part) in [
            ("[]", "{}", "1 to 8"),
            (r#"{"header": "a b"}"#, "{}", "no name of a field"),
            (r#"{"query": ""}"#, "{}", "no name"),
            (r#""{nothing}""#, "{}", "no placeholder"),
            (r#""{status}""#, "{}", "not known"),
            (r#""client_ip""#, r#"{"v4": 33}"#, "1 to 32"),
            (r#""route""#, r#"{"v4": 24}"#, "has none"),
        ] {
            let error = built::<KeySpec>(json).build(&built(prefix), "test").unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
        for json in [r#"{"query": "k", "header": "x"}"#, r#"[{"query": "k", "header": "x"}]"#] {
            let error = serde_json::from_str::<KeySpec>(json).unwrap_err().to_string();
            assert!(error.contains("`header` is one key too many"), "{error}");
        }
        let error = serde_json::from_str::<KeySpec>(r#""client-ip""#).unwrap_err().to_string();
        assert!(error.contains("client_ip"), "{error}");
    }
}
