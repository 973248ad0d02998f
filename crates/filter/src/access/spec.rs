//! How networks, lists and the like are written, in `access`, in `lists` and at listeners.

use crate::shape::one_key;
use crate::when::{When, WhenSpec};
use crate::{ConfigFiles, OneOrManySpec};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thalweg_access::geo::Database;
use thalweg_access::networks::{Networks, network};
use thalweg_access::rules::{AddressRules, AddressSet, Member};
use thalweg_access::sources::{self, Source};
use thalweg_core::units::parse_duration;

/// How often URLs are asked, where nothing is written.
const EVERY: Duration = Duration::from_secs(15 * 60);
/// Most members that are written one by one.
const MEMBERS: usize = 65_536;
/// Characters of a list that are told of it in one line.
const TOLD: usize = 400;

/// Networks and the like: one, or a list of them.
#[derive(Clone, Debug, Default)]
pub struct MembersSpec(Vec<MemberSpec>);

/// A network, or what stands for many.
#[derive(Clone, Debug)]
enum MemberSpec {
    Network(String),
    Kind(KindSpec),
}

/// What stands for many addresses, or for requests.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    rename_all = "snake_case",
    expecting = "a map with one of `list`, `file`, `url`, `country`, `asn`, `header` and `path`"
)]
enum KindSpec {
    /// A list of the section `lists`, or `blocked`, by its name.
    List(String),
    /// A file with a network on each line, `#` begins a comment; it is read again when it has changed.
    File(#[schemars(extend("x-api" = "reference"))] String),
    /// The same at a URL, which is asked every 15 minutes, or as often as `every` says.
    Url(#[schemars(extend("x-api" = "address"))] UrlSpec),
    /// Countries by their codes of two letters (ISO 3166-1).
    Country(OneOrManySpec<String>),
    /// Autonomous systems by their numbers.
    Asn(#[schemars(schema_with = "systems")] OneOrManySpec<u32>),
    /// Fields of requests, as in `when.header`.
    Header(#[schemars(extend("x-named" = true))] BTreeMap<String, String>),
    /// Paths of requests, as in `when.path`.
    Path(OneOrManySpec<String>),
}

/// Numbers of networks (RFC 6793): one or several.
fn systems(_: &mut SchemaGenerator) -> Schema {
    let number = json_schema!({ "type": "integer", "minimum": 0, "maximum": u32::MAX });
    json_schema!({ "anyOf": [number, { "type": "array", "items": number }] })
}

/// A list at a URL.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a URL, or a map with `at` and `every`")]
enum UrlSpec {
    /// Its URL.
    Short(String),
    /// Its URL and how often it is asked.
    Long(UrlTermsSpec),
}

/// A list at a URL, and how often it is asked.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UrlTermsSpec {
    /// `http://…` or `https://…`.
    #[schemars(extend("x-api" = "address"))]
    at: String,
    /// How often it is asked, with the tag of what was there (`If-None-Match`).
    #[schemars(extend("x-range" = ["2s", "30d"], "x-default" = "15m"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["15m", "1d"]))]
    every: Option<String>,
}

/// Who may connect to a listener. What is in `deny` may not; where `allow` is written, nobody else may.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `allow` and `deny`")]
pub struct AddressRulesSpec {
    /// Who may connect: networks, or maps with one of `list`, `file`, `url`, `country` and `asn`.
    #[schemars(extend("x-default-words" = "everybody"))]
    allow: Option<MembersSpec>,
    /// Who may not, likewise.
    #[schemars(extend("x-default-words" = "nobody"))]
    deny: Option<MembersSpec>,
    /// Databases in MaxMind's format (MMDB) that know countries and autonomous systems.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    geo_file: Option<OneOrManySpec<String>>,
}

impl AddressRulesSpec {
    /// Checks it and reads lists and databases.
    ///
    /// # Errors
    /// A sentence: something is wrong, or a list cannot be read.
    pub fn build(&self, files: &dyn ConfigFiles) -> Result<AddressRules, String> {
        if self.allow.is_none() && self.deny.is_none() {
            return Err("`access` says nothing; write `allow` or `deny`".into());
        }
        let databases = databases(self.geo_file.as_ref(), files)?;
        let set = |members: &Option<MembersSpec>| {
            members.as_ref().map(|members| members.addresses(files, &databases)).transpose()
        };
        let written = [("allow", &self.allow), ("deny", &self.deny)];
        let words = written.iter().filter_map(|(key, members)| Some(format!("{key} {}", members.as_ref()?)));
        let text = words.collect::<Vec<_>>().join(", ");
        Ok(AddressRules { allow: set(&self.allow)?, deny: set(&self.deny)?.unwrap_or_default(), text })
    }
}

/// What is allowed or denied.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) addresses: AddressSet,
    /// Conditions, and what they are called.
    pub(super) requests: Vec<(When, String)>,
}

/// Databases as they are named.
pub(super) fn databases(
    written: Option<&OneOrManySpec<String>>,
    files: &dyn ConfigFiles,
) -> Result<Arc<[Arc<Database>]>, String> {
    let paths = written.map(OneOrManySpec::as_slice).unwrap_or_default();
    paths.iter().map(|path| sources::database(&files.path(path))).collect()
}

impl MembersSpec {
    /// As a set of addresses, without what is about requests.
    ///
    /// # Errors
    /// A sentence: something is wrong, or a list cannot be read.
    pub fn addresses(
        &self,
        files: &dyn ConfigFiles,
        databases: &Arc<[Arc<Database>]>,
    ) -> Result<AddressSet, String> {
        let side = self.side(files, databases)?;
        match side.requests.is_empty() {
            true => Ok(side.addresses),
            false => Err("`header` and `path` belong to requests; write them in the filter `access`".into()),
        }
    }

    /// As a list of the section `lists`, which has networks, files and URLs.
    ///
    /// # Errors
    /// A sentence: something is wrong, or a list cannot be read.
    pub fn list(&self, files: &dyn ConfigFiles) -> Result<AddressSet, String> {
        let is_plain = |member: &MemberSpec| {
            matches!(member, MemberSpec::Network(_) | MemberSpec::Kind(KindSpec::File(_) | KindSpec::Url(_)))
        };
        let none: Arc<[Arc<Database>]> = Arc::new([]);
        match self.0.iter().all(is_plain) {
            true => self.addresses(files, &none),
            false => {
                Err("a list has networks, `file` and `url`; write the rest where the list is used".into())
            }
        }
    }

    pub(super) fn side(
        &self,
        files: &dyn ConfigFiles,
        databases: &Arc<[Arc<Database>]>,
    ) -> Result<Side, String> {
        if self.0.len() > MEMBERS {
            return Err(format!("there are more than {MEMBERS} entries; put them into a file"));
        }
        let (mut side, mut networks) = (Side::default(), Vec::new());
        for member in &self.0 {
            match member {
                MemberSpec::Network(text) => {
                    networks.push(network(text).map_err(|what| wrong_network(text, what))?);
                }
                MemberSpec::Kind(KindSpec::Header(fields)) => {
                    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
                    let label = format!("the field {}", names.join(", "));
                    side.requests.push((WhenSpec::of_header(fields.clone()).build()?, label));
                }
                MemberSpec::Kind(KindSpec::Path(paths)) => {
                    let label = format!("the path {}", paths.as_slice().join(", "));
                    side.requests.push((WhenSpec::of_path(paths.clone()).build()?, label));
                }
                MemberSpec::Kind(kind) => side.addresses.members.push(kind.member(files, databases)?),
            }
        }
        side.addresses.networks = Networks::new(networks);
        Ok(side)
    }
}

fn wrong_network(text: &str, what: &str) -> String {
    let shown: String = text.chars().take(60).collect();
    format!("`{shown}` {what}; write for example `10.0.0.0/8`, `2001:db8::/32` or `192.0.2.7`")
}

impl KindSpec {
    fn member(&self, files: &dyn ConfigFiles, databases: &Arc<[Arc<Database>]>) -> Result<Member, String> {
        let known = |what: &str| match databases.is_empty() {
            true => Err(format!("`{what}` needs a database; write `geo_file`")),
            false => Ok(databases.clone()),
        };
        Ok(match self {
            Self::List(name) => Member::List(files.list(name).ok_or_else(|| {
                format!("there is no list `{name}`; lists stand in the section `lists`, by name")
            })?),
            Self::File(path) => Member::Source(Source::file(&files.path(path))?),
            Self::Url(url) => Member::Source(url.build()?),
            Self::Country(codes) => {
                let codes = codes.as_slice().iter().map(|code| country(code)).collect::<Result<_, _>>()?;
                Member::Countries(codes, known("country")?)
            }
            Self::Asn(numbers) => Member::Systems(numbers.as_slice().into(), known("asn")?),
            Self::Header(_) | Self::Path(_) => return Err("`header` and `path` belong to requests".into()),
        })
    }
}

impl UrlSpec {
    fn build(&self) -> Result<Arc<Source>, String> {
        let (at, every) = match self {
            Self::Short(at) => (at, None),
            Self::Long(terms) => (&terms.at, terms.every.as_deref()),
        };
        let every = every.map_or(Ok(EVERY), parse_duration)?;
        if every < Duration::from_secs(2) || every > Duration::from_secs(30 * 24 * 60 * 60) {
            return Err("`every` must be from 2s to 30d".into());
        }
        Source::url(at, every)
    }
}

fn country(code: &str) -> Result<[u8; 2], String> {
    let bytes: Option<[u8; 2]> = code.as_bytes().try_into().ok();
    bytes.filter(|bytes| bytes.iter().all(u8::is_ascii_uppercase)).ok_or_else(|| {
        let shown: String = code.chars().take(20).collect();
        format!("`{shown}` is no code of a country; write two capitals, such as `DE`")
    })
}

impl fmt::Display for MembersSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = 0;
        for (at, member) in self.0.iter().enumerate() {
            let text = member.to_string();
            told += text.len();
            if told > TOLD {
                return write!(f, " and {} more", self.0.len() - at);
            }
            write!(f, "{}{text}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl fmt::Display for MemberSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(text) => f.write_str(text),
            Self::Kind(KindSpec::List(name)) => write!(f, "list {name}"),
            Self::Kind(KindSpec::File(path)) => write!(f, "file {path}"),
            Self::Kind(KindSpec::Url(UrlSpec::Short(url) | UrlSpec::Long(UrlTermsSpec { at: url, .. }))) => {
                // What stands behind `?` may be a secret.
                write!(f, "url {}", url.split('?').next().unwrap_or_default())
            }
            Self::Kind(KindSpec::Country(codes)) => write!(f, "country {}", codes.as_slice().join("+")),
            Self::Kind(KindSpec::Asn(numbers)) => {
                let numbers: Vec<String> = numbers.as_slice().iter().map(u32::to_string).collect();
                write!(f, "asn {}", numbers.join("+"))
            }
            Self::Kind(KindSpec::Header(fields)) => {
                // A value may be a secret that clients share.
                write!(f, "header {}", fields.keys().map(String::as_str).collect::<Vec<_>>().join("+"))
            }
            Self::Kind(KindSpec::Path(paths)) => write!(f, "path {}", paths.as_slice().join("+")),
        }
    }
}

impl<'de> Deserialize<'de> for MembersSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = MembersSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a network, a map with one of `list`, `file`, `url` and so on, or a list of them")
            }

            fn visit_str<E>(self, text: &str) -> Result<MembersSpec, E> {
                Ok(MembersSpec(vec![MemberSpec::Network(text.to_owned())]))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MembersSpec, A::Error> {
                Ok(MembersSpec(vec![MemberSpec::Kind(one_key(map)?)]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<MembersSpec, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(MembersSpec)
            }
        }

        deserializer.deserialize_any(Members)
    }
}

impl<'de> Deserialize<'de> for MemberSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One;

        impl<'de> Visitor<'de> for One {
            type Value = MemberSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a network, or a map with one of `list`, `file`, `url`, `country`, `asn`, `header` and `path`")
            }

            fn visit_str<E>(self, text: &str) -> Result<MemberSpec, E> {
                Ok(MemberSpec::Network(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MemberSpec, A::Error> {
                one_key(map).map(MemberSpec::Kind)
            }
        }

        deserializer.deserialize_any(One)
    }
}

impl JsonSchema for MemberSpec {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "MemberSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [ { "type": "string" }, generator.subschema_for::<KindSpec>() ] })
    }
}

impl JsonSchema for MembersSpec {
    fn schema_name() -> Cow<'static, str> {
        "MembersSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = MemberSpec::json_schema(generator);
        json_schema!({
            "description": "A network, a map with one of `list`, `file`, `url`, `country`, `asn`, `header` and `path`, or a list of them.",
            "anyOf": [ one, { "type": "array", "items": one } ],
        })
    }
}
