//! `when:` at a filter: it is called only for requests and responses that fit.

use crate::fields::FieldView;
use crate::identity::Identity;
use crate::request::Facts;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer, U64Deserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use thalweg_core::credentials::may_be_secret;
use thalweg_http::octet;
use thalweg_route::value::Regex;
use thalweg_route::{HostPattern, PathPattern};

/// A value, or a list of them.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub enum OneOrManySpec<T> {
    /// One.
    One(T),
    /// Several.
    Many(Vec<T>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrManySpec<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shape<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Shape<T> {
            type Value = OneOrManySpec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value or a list")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<OneOrManySpec<T>, E> {
                T::deserialize(StrDeserializer::new(text)).map(OneOrManySpec::One)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<OneOrManySpec<T>, E> {
                T::deserialize(U64Deserializer::new(number)).map(OneOrManySpec::One)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrManySpec<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(OneOrManySpec::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<OneOrManySpec<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrManySpec::Many)
            }
        }

        deserializer.deserialize_any(Shape(PhantomData))
    }
}

impl<T> OneOrManySpec<T> {
    /// The values.
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

/// The requests and responses that a filter is for; all that is written must fit. With `status` or `content_type` only
/// the filter's side of the response is called.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhenSpec {
    /// Hosts as those of routes: `example.com`, `*.example.com`; one must match.
    #[schemars(extend("x-default-words" = "all"))]
    #[schemars(extend("x-shown" = true))]
    host: Option<OneOrManySpec<String>>,
    /// Patterns of paths as those of routes: `/api/*`, `/users/{id}`; one must match.
    #[schemars(extend("x-default-words" = "all"))]
    path: Option<OneOrManySpec<String>>,
    /// Methods; one must match. `GET` does not stand for `HEAD`. For a service that obeys `X-HTTP-Method-Override`,
    /// `X-HTTP-Method` or `X-Method-Override`, remove these fields with `headers: { request: { remove: … } }`.
    #[schemars(extend("x-default-words" = "all"))]
    method: Option<OneOrManySpec<String>>,
    /// Fields of the request and their values: a text, `*` for any value, or `~` and a regular expression over the
    /// whole value; each must match. For the host there is `host`.
    #[schemars(extend("x-default-words" = "all"))]
    #[schemars(extend("x-named" = true))]
    header: Option<BTreeMap<String, String>>,
    /// Networks of clients, `10.0.0.0/8`; one must match.
    #[schemars(extend("x-default-words" = "all"))]
    client: Option<OneOrManySpec<String>>,
    /// Users, as `auth` before this filter has verified them: a text, `*` for anybody, or `~` and a regular expression
    /// over the whole name; one must match.
    #[schemars(extend("x-default-words" = "all"))]
    user: Option<OneOrManySpec<String>>,
    /// Claims that `auth` before this filter has verified, and their values, written likewise; each must match, of a
    /// list one of its texts.
    #[schemars(extend("x-default-words" = "all"))]
    claim: Option<BTreeMap<String, String>>,
    /// Statuses of responses, `404`, or classes, `5xx`; one must match.
    #[schemars(extend("x-default-words" = "all"))]
    status: Option<OneOrManySpec<StatusSpec>>,
    /// Content types of responses without parameters, `text/html` or `text/*`; one must match.
    #[schemars(extend("x-default-words" = "all"))]
    content_type: Option<OneOrManySpec<String>>,
}

/// A status, or a class of them.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub enum StatusSpec {
    /// `404`.
    Number(u16),
    /// `5xx`, or a number in quotes.
    Text(String),
}

crate::shape::by_shape!(StatusSpec, "a status such as `404`, or a class such as `5xx`", { number => Number, text => Text });

impl StatusSpec {
    /// The first and the last status.
    ///
    /// # Errors
    /// It is neither a status nor a class.
    pub fn build(&self) -> Result<(u16, u16), String> {
        let text = match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        };
        let class = text.strip_suffix("xx").and_then(|digit| digit.parse::<u16>().ok());
        match (class, text.parse::<u16>()) {
            (Some(class @ 1..=5), _) => Ok((class * 100, class * 100 + 99)),
            (None, Ok(status @ 100..=599)) => Ok((status, status)),
            _ => Err(format!(
                "`{text}` is no status; write a number from 100 to 599, or a class such as `5xx`"
            )),
        }
    }
}

/// A compiled condition.
#[derive(Debug, Default)]
pub struct When {
    hosts: Vec<HostPattern>,
    paths: Vec<PathPattern>,
    methods: Vec<Box<str>>,
    headers: Vec<(Box<str>, ValueTest)>,
    clients: Vec<IpNet>,
    users: Vec<ValueTest>,
    claims: Vec<(Box<str>, ValueTest)>,
    statuses: Vec<(u16, u16)>,
    types: Vec<Box<str>>,
    text: String,
}

#[derive(Debug)]
enum ValueTest {
    Any,
    Exact(Box<str>),
    Regex(Regex),
}

impl WhenSpec {
    /// Requests with these fields.
    pub(crate) fn of_header(header: BTreeMap<String, String>) -> Self {
        Self { header: Some(header), ..Self::default() }
    }

    /// Requests of these paths.
    pub(crate) fn of_path(path: OneOrManySpec<String>) -> Self {
        Self { path: Some(path), ..Self::default() }
    }

    /// Checks and compiles it.
    ///
    /// # Errors
    /// A sentence that names what is wrong and the remedy.
    pub fn build(&self) -> Result<When, String> {
        let mut when = When::default();
        let mut words = Vec::new();
        for host in list(self.host.as_ref()) {
            when.hosts.push(HostPattern::parse(host)?);
            words.push(host.clone());
        }
        for path in list(self.path.as_ref()) {
            when.paths.push(match path.strip_prefix('~') {
                Some(regex) => PathPattern::regex(regex)?,
                None => PathPattern::parse(path)?,
            });
            words.push(path.clone());
        }
        for method in list(self.method.as_ref()) {
            if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
                return Err(format!("`{method}` is no method; methods are written in capitals"));
            }
            when.methods.push(method.as_str().into());
            words.push(method.clone());
        }
        for (name, value) in self.header.iter().flatten() {
            if name.is_empty() || octet::token_len(name.as_bytes()) != name.len() {
                return Err(format!("`{name}` is not the name of a header"));
            }
            if name.eq_ignore_ascii_case("host") {
                return Err(
                    "the host is matched by `host`, not by a header; write `host: …` under `when`".into()
                );
            }
            when.headers.push((name.as_str().into(), ValueTest::parse(value)?));
            // The value may be a secret shared by clients.
            words.push(match may_be_secret(name) && value != "*" {
                true => format!("{name}: …"),
                false => format!("{name}: {value}"),
            });
        }
        self.who(&mut when, &mut words)?;
        for status in list(self.status.as_ref()) {
            let (first, last) = status.build()?;
            when.statuses.push((first, last));
            words.push(if first == last { first.to_string() } else { format!("{}xx", first / 100) });
        }
        for kind in list(self.content_type.as_ref()) {
            if !kind.contains('/') {
                return Err(format!("`{kind}` is no content type; write `text/html` or `text/*`"));
            }
            when.types.push(kind.to_ascii_lowercase().into());
            words.push(kind.clone());
        }
        if words.is_empty() {
            return Err(
                "`when` says nothing; write `host`, `path`, `method`, `header`, `client`, `user`, `claim`, `status` \
                 or `content_type`"
                    .into(),
            );
        }
        when.text = words.join(" ");
        Ok(when)
    }

    /// What is asked of the client.
    fn who(&self, when: &mut When, words: &mut Vec<String>) -> Result<(), String> {
        for client in list(self.client.as_ref()) {
            let network = client.parse().or_else(|_| client.parse::<IpAddr>().map(IpNet::from));
            when.clients.push(network.map_err(|_| {
                format!("`{client}` is not a network; write an address, or one as `10.0.0.0/8`")
            })?);
            words.push(client.clone());
        }
        for user in list(self.user.as_ref()) {
            when.users.push(ValueTest::parse(user)?);
            words.push(format!("user {user}"));
        }
        for (name, value) in self.claim.iter().flatten() {
            when.claims.push((name.as_str().into(), ValueTest::parse(value)?));
            words.push(format!("claim {name}: {value}"));
        }
        Ok(())
    }
}

fn list<T>(written: Option<&OneOrManySpec<T>>) -> &[T] {
    written.map(OneOrManySpec::as_slice).unwrap_or_default()
}

impl When {
    /// Whether it is about responses.
    pub fn is_about_response(&self) -> bool {
        !self.statuses.is_empty() || !self.types.is_empty()
    }

    /// Whether it depends on the path of the request.
    pub fn is_about_path(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Whether it depends on the host of the request.
    pub fn is_about_host(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// The hosts that it names; none: all.
    pub fn hosts(&self) -> &[HostPattern] {
        &self.hosts
    }

    /// The paths that it names; none: all.
    pub fn paths(&self) -> &[PathPattern] {
        &self.paths
    }

    /// Whether it depends on the verified identity of the client.
    pub fn is_about_identity(&self) -> bool {
        !self.users.is_empty() || !self.claims.is_empty()
    }

    /// The names of the request fields that it depends on.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().map(|(name, _)| &**name)
    }

    /// Whether it depends on the method or the address of the client.
    pub fn is_about_method_or_client(&self) -> bool {
        !self.methods.is_empty() || !self.clients.is_empty()
    }

    /// Whether a request fits.
    pub fn fits_request(&self, facts: &Facts<'_>, fields: FieldView<'_>) -> bool {
        self.fits_path(facts.matched_path()) && self.fits_beside_path(facts, fields)
    }

    /// Whether a request matches in any reading of its path: for conditions of filters that restrict.
    pub(crate) fn fits_in_some_reading(&self, facts: &Facts<'_>, fields: FieldView<'_>) -> bool {
        facts.any_reading(|path| self.fits_path(path)) && self.fits_beside_path(facts, fields)
    }

    /// Whether a request matches in every reading of its path: for conditions that allow.
    pub(crate) fn fits_in_every_reading(&self, facts: &Facts<'_>, fields: FieldView<'_>) -> bool {
        !facts.any_reading(|path| !self.fits_path(path)) && self.fits_beside_path(facts, fields)
    }

    fn fits_path(&self, path: &[u8]) -> bool {
        one(&self.paths, |pattern| pattern.matches(path))
    }

    fn fits_beside_path(&self, facts: &Facts<'_>, fields: FieldView<'_>) -> bool {
        one(&self.hosts, |pattern| pattern.matches(facts.host))
            && one(&self.methods, |method| method.as_bytes() == facts.method)
            && one(&self.clients, |network| network.contains(&facts.client_ip))
            && self.headers.iter().all(|(name, test)| fields.values(name).any(|value| test.fits(value)))
    }

    /// Whether the client fits, as filters before have verified it.
    pub fn fits_identity(&self, identity: Option<&Identity>) -> bool {
        if self.users.is_empty() && self.claims.is_empty() {
            return true;
        }
        let Some(identity) = identity else { return false };
        let user = identity.user.as_bytes();
        one(&self.users, |test| !user.is_empty() && test.fits(user))
            && self.claims.iter().all(|(name, test)| match identity.value(name) {
                Some(Value::Array(list)) => {
                    list.iter().filter_map(Value::as_str).any(|text| test.fits(text.as_bytes()))
                }
                Some(_) => identity.claim(name).is_some_and(|text| test.fits(text.as_bytes())),
                None => false,
            })
    }

    /// Whether a response fits.
    pub fn fits_response(&self, status: u16, fields: FieldView<'_>) -> bool {
        one(&self.statuses, |(first, last)| (*first..=*last).contains(&status))
            && one(&self.types, |wanted| {
                fields.get("content-type").is_some_and(|value| is_type(value, wanted))
            })
    }
}

/// Whether one of them fits, or nothing is asked.
fn one<T>(list: &[T], fits: impl Fn(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(fits)
}

/// Whether a `Content-Type` is this one, `type/subtype` or `type/*` in lower case.
pub fn is_type(value: &[u8], wanted: &str) -> bool {
    let kind = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    match wanted.strip_suffix('*') {
        Some(group) => {
            kind.get(..group.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(group.as_bytes()))
        }
        None => kind.eq_ignore_ascii_case(wanted.as_bytes()),
    }
}

impl ValueTest {
    fn parse(written: &str) -> Result<Self, String> {
        Ok(match (written, written.strip_prefix('~')) {
            ("*", _) => Self::Any,
            (_, Some(regex)) => Self::Regex(Regex::parse(regex)?),
            (text, None) => Self::Exact(text.into()),
        })
    }

    fn fits(&self, value: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(text) => value == text.as_bytes(),
            Self::Regex(regex) => regex.matches(value),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::facts;

    fn when(change: impl FnOnce(&mut WhenSpec)) -> When {
        let mut spec = WhenSpec::default();
        change(&mut spec);
        spec.build().unwrap()
    }

    #[test]
    fn all_that_is_written_must_fit_and_one_of_each_list() {
        let when = when(|spec| {
            spec.path = Some(OneOrManySpec::Many(vec!["/x".into(), "/a/*".into()]));
            spec.method = Some(OneOrManySpec::One("GET".into()));
            spec.client = Some(OneOrManySpec::One("192.0.2.0/24".into()));
            spec.header = Some([("X-Kind".to_owned(), "~b.*".to_owned())].into());
        });
        let fields = FieldView::new(&[], &[], b"x-kind: a\r\nx-kind: beta\r\n");
        assert!(when.fits_request(&facts("/a/1"), fields) && !when.is_about_response());
        assert!(!when.fits_request(&facts("/b"), fields));
        assert!(!when.fits_request(&facts("/a/1"), FieldView::default()));
        assert_eq!(when.to_string(), "/x /a/* GET X-Kind: ~b.* 192.0.2.0/24");
    }

    #[test]
    fn hosts_fit_as_those_of_routes() {
        let fits = |host: &str| {
            let when = when(|spec| spec.host = Some(OneOrManySpec::One(host.into())));
            assert_eq!(when.to_string(), host);
            when.fits_request(&facts("/"), FieldView::default())
        };
        let host = String::from_utf8(facts("/").host.to_vec()).unwrap();
        let (_, parent) = host.split_once('.').unwrap();
        assert!(fits(&host) && fits(&format!("*.{parent}")) && fits("*"));
        assert!(!fits("other.example") && !fits(&format!("*.{host}")));
    }

    #[test]
    fn clients_fit_by_what_was_verified_of_them() {
        let claims = r#"{"plan": "gold", "groups": ["ops", "dev"], "a": {"b": 7}}"#;
        let ada = Identity { claims: serde_json::from_str(claims).unwrap(), ..Identity::new("jwt", "ada") };
        let fits = |change: &dyn Fn(&mut WhenSpec)| when(change).fits_identity(Some(&ada));
        let user = |name: &str| fits(&|spec| spec.user = Some(OneOrManySpec::One(name.into())));
        assert!(user("ada") && user("*") && user("~a.*") && !user("bob"));
        let claim = |name: &str, value: &str| {
            fits(&|spec| spec.claim = Some([(name.to_owned(), value.to_owned())].into()))
        };
        assert!(claim("plan", "gold") && claim("groups", "dev") && claim("a.b", "7") && claim("plan", "*"));
        assert!(!claim("plan", "free") && !claim("groups", "ops dev") && !claim("team", "*"));
        let anybody = when(|spec| spec.user = Some(OneOrManySpec::One("*".into())));
        assert!(!anybody.fits_identity(None) && !anybody.fits_identity(Some(&Identity::new("network", ""))));
        assert_eq!(anybody.to_string(), "user *");
        let nothing = when(|spec| spec.method = Some(OneOrManySpec::One("GET".into())));
        assert!(nothing.fits_identity(None));
    }

    /// A byte that is not UTF-8, or a line feed, got a value past `.*`.
    #[test]
    fn no_byte_gets_past_an_expression() {
        let guard = when(|spec| spec.header = Some([("X-Kind".to_owned(), "~.*sqlmap.*".to_owned())].into()));
        for value in [&b"sqlmap\xff"[..], b"\xffsqlmap", b"a\xc3 sqlmap"] {
            let lines = [&b"X-Kind: "[..], value, b"\r\n"].concat();
            assert!(guard.fits_request(&facts("/"), FieldView::new(&[], &[], &lines)), "{value:?}");
        }
        let claims = r#"{"note": "a\nsqlmap\n", "list": ["x", "\nsqlmap"]}"#;
        let it =
            Identity { claims: serde_json::from_str(claims).unwrap(), ..Identity::new("jwt", "x\nsqlmap") };
        for name in ["note", "list"] {
            let change =
                |spec: &mut WhenSpec| spec.claim = Some([(name.to_owned(), "~.*sqlmap.*".to_owned())].into());
            assert!(when(change).fits_identity(Some(&it)), "{name}");
        }
        let user = |spec: &mut WhenSpec| spec.user = Some(OneOrManySpec::One("~.*sqlmap".into()));
        assert!(when(user).fits_identity(Some(&it)));
    }

    #[test]
    fn responses_fit_by_status_and_type() {
        let when = when(|spec| {
            spec.status =
                Some(OneOrManySpec::Many(vec![StatusSpec::Number(404), StatusSpec::Text("5xx".into())]));
            spec.content_type = Some(OneOrManySpec::One("Text/*".into()));
        });
        let html = FieldView::new(&[], &[], b"Content-Type: text/html; charset=utf-8\r\n");
        let json = FieldView::new(&[], &[], b"Content-Type: application/json\r\n");
        assert!(when.is_about_response());
        assert!(when.fits_response(404, html) && when.fits_response(503, html));
        assert!(!when.fits_response(200, html) && !when.fits_response(404, json));
    }

    #[test]
    fn wrong_conditions_are_refused() {
        let error = |change: fn(&mut WhenSpec)| {
            let mut spec = WhenSpec::default();
            change(&mut spec);
            spec.build().unwrap_err()
        };
        assert!(error(|_| {}).contains("says nothing"));
        let header = |name: &str| {
            let header = Some([(name.to_owned(), "x".to_owned())].into());
            WhenSpec { header, ..WhenSpec::default() }.build().unwrap_err()
        };
        assert!(header("Host").contains("`host`") && header("a b").contains("not the name"));
        assert!(error(|spec| spec.host = Some(OneOrManySpec::One("a..b".into()))).contains("a..b"));
        assert!(error(|spec| spec.method = Some(OneOrManySpec::One("get".into()))).contains("capitals"));
        assert!(error(|spec| spec.client = Some(OneOrManySpec::One("x".into()))).contains("network"));
        assert!(
            error(|spec| spec.status = Some(OneOrManySpec::One(StatusSpec::Text("6xx".into()))))
                .contains("status")
        );
        assert!(
            error(|spec| spec.path = Some(OneOrManySpec::One("api".into()))).contains("must begin with `/`")
        );
    }
}
