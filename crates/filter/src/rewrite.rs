//! `rewrite: { prefix: { from: /old, to: /new } }`: changes the path, the query and the host that go upstream.
//!
//! The route has been chosen by then. The result is brought to its normal form: dot segments are resolved, what may not
//! stand in a path is percent-encoded, and a result that is no path is a fault.

use crate::{
    Escape, Filter, Hooks, Moved, MovedPrefix, Moves, OneOrManySpec, QueryEdit, RequestCx, Template,
    TemplateSpec, Verdict,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use thalweg_core::{Fault, FaultKind};
use thalweg_http::{Span, matched_form, normalize_path, octet, parse_authority};
use thalweg_route::Regex;

/// What is changed: the path alone as a text, or a map with more.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, extend("x-sent" = true))]
pub enum RewriteSpec {
    /// The new path.
    Short(TemplateSpec),
    /// With more.
    Long(Box<RewriteMapSpec>),
}

crate::shape::by_shape!(RewriteSpec, "a path such as `/v2{path}`, or a map with `path`, `prefix`, `regex`, `query`, `host`", { text => Short, map => Long });

/// What is changed. Of `path`, `prefix` and `regex` one may be written.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
#[serde(deny_unknown_fields, default, expecting = "a map with `path`, `prefix`, `regex`, `query`, `host`")]
pub struct RewriteMapSpec {
    /// The new path, with placeholders: `/v2{upstream_path}`.
    #[schemars(extend("x-default-words" = "unchanged"))]
    #[schemars(extend("x-sent" = true))]
    path: Option<TemplateSpec>,
    /// Replaces a prefix of whole segments.
    #[schemars(extend("x-default-words" = "unchanged"))]
    prefix: Option<RewritePrefixSpec>,
    /// Replaces a path that a regular expression matches as a whole.
    #[schemars(extend("x-default-words" = "unchanged"))]
    regex: Option<RewriteRegexSpec>,
    /// Changes parameters of the query.
    #[schemars(extend("x-default-words" = "unchanged"))]
    #[schemars(extend("x-sent" = true))]
    query: Option<RewriteQuerySpec>,
    /// The host that the endpoint is asked for, and perhaps a port, with placeholders; wins over the service's `host`.
    #[schemars(extend("x-default-words" = "unchanged"))]
    #[schemars(extend("x-sent" = true))]
    #[schemars(extend("x-shown" = true))]
    host: Option<TemplateSpec>,
}

/// A prefix and what takes its place.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `from` and `to`")]
pub(crate) struct RewritePrefixSpec {
    /// Whole segments; begins with `/`.
    from: String,
    /// Begins with `/`.
    to: String,
}

/// A regular expression and what takes the place of the path.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `match` and `to`")]
pub(crate) struct RewriteRegexSpec {
    /// Over the whole path; linear time.
    r#match: String,
    /// With `$1` or `${name}` for what groups took, and `$$`.
    to: String,
}

/// Changes of the query, in this order.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `clear`, `remove`, `set` and `append`")]
pub(crate) struct RewriteQuerySpec {
    /// Removes all parameters first.
    #[schemars(extend("x-default" = false))]
    clear: bool,
    /// Names of parameters that are removed, one or a list.
    #[schemars(extend("x-default-words" = "none"))]
    remove: Option<OneOrManySpec<String>>,
    /// Parameters that are there once, with this value; with placeholders.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-named" = true))]
    set: BTreeMap<String, TemplateSpec>,
    /// Parameters that are added.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-named" = true))]
    append: BTreeMap<String, TemplateSpec>,
}

impl RewriteSpec {
    /// Checks and compiles it.
    ///
    /// # Errors
    /// A part that is wrong, more than one way to change the path, or nothing to do.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let long = match self {
            Self::Short(path) => RewriteMapSpec { path: Some(path.clone()), ..RewriteMapSpec::default() },
            Self::Long(long) => (**long).clone(),
        };
        let path = match (&long.path, &long.prefix, &long.regex) {
            (None, None, None) => PathChange::None,
            (Some(path), None, None) => PathChange::Template(checked_path(path)?),
            (None, Some(prefix), None) => PathChange::prefix(prefix)?,
            (None, None, Some(regex)) => PathChange::regex(regex)?,
            _ => return Err("write one of `path`, `prefix` and `regex`".into()),
        };
        let query = long.query.as_ref().map(QueryChange::of).transpose()?;
        let host = long.host.as_ref().map(TemplateSpec::build).transpose()?;
        if matches!(path, PathChange::None) && query.is_none() && host.is_none() {
            return Err(
                "`rewrite` changes nothing; write `path`, `prefix`, `regex`, `query` or `host`".into()
            );
        }
        Ok(Arc::new(Rewrite { path, query, host }))
    }
}

fn checked_path(path: &TemplateSpec) -> Result<Template, String> {
    let template = path.build()?;
    let text = template.as_str();
    if !text.starts_with('/') && !text.starts_with("{path") && !text.starts_with("{upstream_path}") {
        return Err(format!("`{text}` must begin with `/`; write `/{text}`"));
    }
    if text.contains(['?', '#']) {
        return Err(format!("`{text}` is a path; the query is changed by `query`"));
    }
    Ok(template)
}

#[derive(Debug)]
struct Rewrite {
    path: PathChange,
    query: Option<QueryChange>,
    host: Option<Template>,
}

#[derive(Debug)]
enum PathChange {
    None,
    Template(Template),
    /// `is_normal`: a normal path stays one with it.
    Prefix {
        moved: Arc<MovedPrefix>,
        is_normal: bool,
    },
    Regex {
        regex: Regex,
        to: Vec<Piece>,
        text: Box<str>,
    },
}

#[derive(Debug, PartialEq)]
enum Piece {
    Text(String),
    Group(String),
}

impl PathChange {
    fn prefix(spec: &RewritePrefixSpec) -> Result<Self, String> {
        for text in [&spec.from, &spec.to] {
            if !text.starts_with('/')
                || text.bytes().any(|byte| !octet::is_target(byte) || matches!(byte, b'?' | b'#'))
            {
                return Err(format!(
                    "`{text}` is no prefix of a path: it must begin with `/` and have no query"
                ));
            }
        }
        let [from, to] = [&spec.from, &spec.to].map(|text| text.trim_end_matches('/').as_bytes());
        let is_normal = to.is_empty() || normal(to).is_ok_and(|normal| normal == to);
        let moved = Arc::new(MovedPrefix { from: from.into(), to: to.into() });
        Ok(Self::Prefix { moved, is_normal })
    }

    fn regex(spec: &RewriteRegexSpec) -> Result<Self, String> {
        let regex = Regex::parse(&spec.r#match)?;
        let to = pieces(&spec.to)?;
        for piece in &to {
            if let Piece::Group(name) = piece
                && !regex.has_group(name)
            {
                return Err(format!("`{}` has no group `{name}`; a `$` is written `$$`", spec.r#match));
            }
        }
        Ok(Self::Regex { regex, to, text: spec.to.as_str().into() })
    }

    /// Changes the path.
    fn apply(&self, cx: &mut RequestCx<'_>) -> Result<(), Fault> {
        if let Self::Prefix { moved, is_normal } = self {
            let has_moved = cx.target.move_prefix(moved);
            if has_moved && (!*is_normal || cx.target.path().starts_with(b"//")) {
                let path = normal(cx.target.path())?;
                cx.target.normalize(path);
            }
        } else if let Some(path) = self.made(cx) {
            cx.target.set_path(normal(&path)?, Moved::Otherwise);
        }
        Ok(())
    }

    /// A path that is made anew; `None`: it stays.
    fn made(&self, cx: &RequestCx<'_>) -> Option<Vec<u8>> {
        let path = cx.target.path();
        match self {
            Self::None | Self::Prefix { .. } => None,
            Self::Template(template) => {
                let mut out = Vec::new();
                template.render(&cx.values(), Escape::Url, &mut out);
                // A value of the client must not leave its place: an empty path is refused as broken.
                Some(if out.split(|byte| *byte == b'/').any(is_dots) { Vec::new() } else { out })
            }
            Self::Regex { regex, to, .. } => {
                let made_of = |path: &[u8]| regex.matches(path).then(|| replaced(regex, to, path));
                // First the client's spelling, then the matched form.
                made_of(path).or_else(|| made_of(&matched_form(path)?))
            }
        }
    }
}

/// Whether a segment is `.` or `..`, escaped or not.
fn is_dots(segment: &[u8]) -> bool {
    let (mut rest, mut count) = (segment, 0);
    while let [b'.', behind @ ..] | [b'%', b'2', b'e' | b'E', behind @ ..] = rest {
        (rest, count) = (behind, count + 1);
    }
    rest.is_empty() && matches!(count, 1 | 2)
}

/// The replacement for a path that the expression matches.
fn replaced(regex: &Regex, to: &[Piece], path: &[u8]) -> Vec<u8> {
    to.iter().fold(Vec::new(), |mut out, piece| {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Group(name) => out.extend_from_slice(regex.capture(path, name).unwrap_or_default()),
        }
        out
    })
}

/// Splits `/users/$1` and `/${name}`.
fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find('$') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('$') {
            plain.push('$');
            rest = behind;
            continue;
        }
        let (name, behind) = match rest.strip_prefix('{') {
            Some(inner) => {
                inner.split_once('}').ok_or_else(|| format!("`{text}` has a `${{` without a `}}`"))?
            }
            None => {
                let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
                rest.split_at(end)
            }
        };
        if name.is_empty() {
            return Err(format!("`{text}` has a `$` without a group; write `$1`, or `$$` for the character"));
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
        }
        pieces.push(Piece::Group(name.to_owned()));
        rest = behind;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(pieces)
}

#[derive(Debug)]
struct QueryChange {
    clear: bool,
    remove: Vec<Box<str>>,
    set: Vec<(Box<str>, Template)>,
    append: Vec<(Box<str>, Template)>,
}

impl QueryChange {
    fn of(spec: &RewriteQuerySpec) -> Result<Self, String> {
        let pairs = |written: &BTreeMap<String, TemplateSpec>| -> Result<Vec<_>, String> {
            written.iter().map(|(name, value)| Ok((name.as_str().into(), value.build()?))).collect()
        };
        let remove = spec.remove.as_ref().map(OneOrManySpec::as_slice).unwrap_or_default();
        let remove = remove.iter().map(|name| name.as_str().into()).collect();
        let change = Self { clear: spec.clear, remove, set: pairs(&spec.set)?, append: pairs(&spec.append)? };
        if !change.clear && change.remove.is_empty() && change.set.is_empty() && change.append.is_empty() {
            return Err("`query` changes nothing; write `clear`, `remove`, `set` or `append`".into());
        }
        Ok(change)
    }

    fn apply(&self, cx: &RequestCx<'_>) -> QueryEdit {
        let now = match cx.target.query() {
            QueryEdit::Unchanged => cx.facts.query.unwrap_or_default(),
            QueryEdit::Removed => &[],
            QueryEdit::Replaced(query) => query,
        };
        let goes = |name: &[u8]| {
            let is_it = |known: &str| name == known.as_bytes();
            self.remove.iter().any(|known| is_it(known)) || self.set.iter().any(|(known, _)| is_it(known))
        };
        let mut out = Vec::with_capacity(now.len() + 32);
        let kept = if self.clear { &[][..] } else { now };
        for pair in kept.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            let end = memchr::memchr(b'=', pair).unwrap_or(pair.len());
            if !goes(&pair[..end]) {
                add(&mut out, pair);
            }
        }
        for (name, value) in self.set.iter().chain(&self.append) {
            let mut pair = Vec::new();
            encode(name.as_bytes(), &mut pair);
            pair.push(b'=');
            encode(&value.field(&cx.values()), &mut pair);
            add(&mut out, &pair);
        }
        if out.is_empty() { QueryEdit::Removed } else { QueryEdit::Replaced(out) }
    }
}

fn add(out: &mut Vec<u8>, pair: &[u8]) {
    if !out.is_empty() {
        out.push(b'&');
    }
    out.extend_from_slice(pair);
}

/// Writes a name or value of a parameter: all but unreserved characters are encoded (RFC 3986 §2.3).
fn encode(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match octet::is_unreserved(*byte) {
            true => out.push(*byte),
            false => drop(write!(out, "%{byte:02X}")),
        }
    }
}

/// Brings a path that was made to its normal form.
pub(crate) fn normal(path: &[u8]) -> Result<Vec<u8>, Fault> {
    let broken = || Fault::new(FaultKind::HttpRequestError, "the path that a filter made is no path");
    let mut encoded = Vec::with_capacity(path.len());
    for byte in path {
        match byte {
            b'?' | b'#' => drop(write!(encoded, "%{byte:02X}")),
            byte if octet::is_target(*byte) => encoded.push(*byte),
            byte => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    if !encoded.starts_with(b"/") {
        return Err(broken());
    }
    let slashes = encoded.iter().take_while(|byte| **byte == b'/').count();
    encoded.drain(..slashes - 1);
    let mut out = Vec::with_capacity(encoded.len());
    normalize_path(&encoded, &mut out).map_err(|_| broken())?;
    Ok(out)
}

impl Filter for Rewrite {
    fn name(&self) -> &'static str {
        "rewrite"
    }

    fn argument(&self) -> String {
        let mut words = Vec::new();
        match &self.path {
            PathChange::None => {}
            PathChange::Template(template) => words.push(format!("path {template}")),
            PathChange::Prefix { moved, .. } => {
                let [from, to] = [&moved.from, &moved.to].map(|text| String::from_utf8_lossy(text));
                words.push(format!("prefix {from}/ to {to}/"));
            }
            PathChange::Regex { regex, text, .. } => words.push(format!("{} to {text}", regex.as_str())),
        }
        words.extend(self.query.iter().map(|_| "query".to_owned()));
        words.extend(self.host.iter().map(|host| format!("host {host}")));
        words.join(", ")
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn moves(&self) -> Moves {
        match (&self.path, &self.host) {
            (PathChange::Prefix { .. }, _) | (_, Some(_)) => Moves::Request,
            // There is no way back from these.
            (PathChange::None | PathChange::Template(_) | PathChange::Regex { .. }, None) => Moves::Nothing,
        }
    }

    fn captures(&self) -> Vec<String> {
        let path = if let PathChange::Template(template) = &self.path { Some(template) } else { None };
        let query = self.query.iter().flat_map(|query| query.set.iter().chain(&query.append));
        let all = path.into_iter().chain(&self.host).chain(query.map(|(_, template)| template));
        all.flat_map(Template::captures).map(str::to_owned).collect()
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let query = self.query.as_ref().map(|query| query.apply(cx));
        let host = self.host.as_ref().map(|host| host.field(&cx.values()));
        if let Err(fault) = self.path.apply(cx) {
            return Verdict::Fault(fault);
        }
        if let Some(query) = query {
            cx.target.set_query(query);
        }
        if let Some(host) = host {
            if parse_authority(&host, Span::new(0, host.len())).is_err() {
                let detail = "the host that a filter made is no host";
                return Verdict::Fault(Fault::new(FaultKind::HttpRequestError, detail));
            }
            cx.target.set_host(host);
        }
        Verdict::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};

    fn rewritten(json: &str, path: &str, query: Option<&str>) -> Result<String, Fault> {
        let mut asked = Asked::at(path).with("X-V", "../../etc?x=1#y z");
        asked.query = query.map(str::to_owned);
        if let Verdict::Fault(fault) = asked.send(&*built::<RewriteSpec>(json).build().unwrap()) {
            return Err(fault);
        }
        let query = match asked.target.query() {
            QueryEdit::Unchanged => query.map(|query| format!("?{query}")).unwrap_or_default(),
            QueryEdit::Removed => String::new(),
            QueryEdit::Replaced(query) => format!("?{}", String::from_utf8_lossy(query)),
        };
        let host = asked.target.host().map(|host| format!("//{}", String::from_utf8_lossy(host)));
        Ok(format!("{}{}{query}", host.unwrap_or_default(), asked.path()))
    }

    #[test]
    fn paths_queries_and_hosts_change() {
        for (json, path, query, expected) in [
            (r#""/v2{path}""#, "/a", Some("b=1"), "/v2/a?b=1"),
            (r#"{"prefix": {"from": "/old", "to": "/new/"}}"#, "/old/x", None, "/new/x"),
            (r#"{"prefix": {"from": "/old", "to": "/"}}"#, "/old", None, "/"),
            (r#"{"prefix": {"from": "/old", "to": "/new"}}"#, "/older", None, "/older"),
            (r#"{"prefix": {"from": "/", "to": "/new"}}"#, "/a", None, "/new/a"),
            (r#"{"prefix": {"from": "/old", "to": "/a/../%6eew"}}"#, "/old/x", None, "/new/x"),
            (r#"{"prefix": {"from": "/old", "to": "/"}}"#, "/old//x", None, "/x"),
            (
                r#"{"regex": {"match": "/u/([0-9]+)(?<tail>/.*)?", "to": "/users/$1${tail}"}}"#,
                "/u/7/x",
                None,
                "/users/7/x",
            ),
            (r#"{"regex": {"match": "/u/([0-9]+)", "to": "/x/$$1"}}"#, "/u/7", None, "/x/$1"),
            (r#"{"regex": {"match": "/u", "to": "/x"}}"#, "/v", None, "/v"),
            (r#"{"regex": {"match": "/@([a-z]+)/(.*)", "to": "/$1/$2"}}"#, "/%40a/b%2Bc", None, "/a/b+c"),
            (r#"{"regex": {"match": "/a/(.*)", "to": "/$1"}}"#, "/a/b%2Bc//d", None, "/b%2Bc//d"),
            (r#"{"prefix": {"from": "/%40a/b", "to": "/x"}}"#, "/@a//b/c%2B", None, "/x/c%2B"),
            (
                r#"{"query": {"set": {"a": "{path}"}, "remove": "b"}}"#,
                "/p",
                Some("b=1&c=2&a=3"),
                "/p?c=2&a=%2Fp",
            ),
            (r#"{"query": {"clear": true}}"#, "/p", Some("b=1"), "/p"),
            (r#"{"query": {"append": {"b": "x&y"}}}"#, "/p", Some("b=1"), "/p?b=1&b=x%26y"),
            (r#"{"host": "{path.1}internal.test"}"#, "/p", None, "//internal.test/p"),
        ] {
            assert_eq!(rewritten(json, path, query).unwrap(), expected, "{json}");
        }
    }

    #[test]
    fn values_of_the_client_stay_in_their_place_of_the_path() {
        assert!(rewritten(r#""/a/b/{header.x-v}""#, "/", None).is_err(), "`..` of a value");
        for query in ["id=../x", "id=..%2fx", "id=%2e%2e/x", "id=a/%2E.", "id=."] {
            assert!(rewritten(r#""/a/{query.id}""#, "/", Some(query)).is_err(), "{query}");
        }
        assert_eq!(
            rewritten(r#""/a/{query.id}""#, "/", Some("id=..x#y z")).unwrap(),
            "/a/..x%23y%20z?id=..x#y z"
        );
        assert!(rewritten(r#"{"host": "{header.x-v}"}"#, "/", None).is_err());
        assert!(rewritten(r#""{path.9}""#, "/", None).is_err(), "an empty path");
    }

    #[test]
    fn wrong_changes_are_refused() {
        for (json, part) in [
            (r#""v2{path}""#, "must begin with `/`"),
            (r#"{"path": "/a?b"}"#, "changed by `query`"),
            (r#"{"path": "/a", "prefix": {"from": "/a", "to": "/b"}}"#, "one of"),
            (r#"{"prefix": {"from": "a", "to": "/b"}}"#, "begin with `/`"),
            (r#"{"regex": {"match": "/(", "to": "/"}}"#, "unclosed group"),
            (r#"{"regex": {"match": "/a", "to": "/$1"}}"#, "no group `1`"),
            (r#"{"regex": {"match": "/a", "to": "/$x"}}"#, "without a group"),
            ("{}", "changes nothing"),
            (r#"{"query": {}}"#, "`query` changes nothing"),
        ] {
            let error = built::<RewriteSpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
