//! `headers: { request: { set: { X-A: "1" } }, response: { remove: Server } }`: changes fields of requests and
//! responses.
//!
//! Within one side the order is remove, rename, set, append, default. Fields that frame a message or belong to one
//! connection cannot be named (RFC 9110 §7.6.1).

use crate::{
    Filter, HeadFields, Hooks, OneOrManySpec, RequestCx, ResponseCx, Template, TemplateSpec, Values, Verdict,
    may_be_changed,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_http::octet;

/// What is changed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `request` and `response`")]
pub struct HeadersSpec {
    /// Fields of the request that goes upstream.
    request: SideSpec,
    /// Fields of the response that goes to the client, also of the proxy's own.
    response: SideSpec,
}

/// Changes of one side. Values may have placeholders.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a map with `set`, `append`, `remove`, `rename` and `default`"
)]
pub(crate) struct SideSpec {
    /// Names of fields that are removed, one or a list.
    #[schemars(extend("x-default-words" = "none"))]
    remove: Option<OneOrManySpec<String>>,
    /// Old names and new ones; a field that has the new name already is removed.
    #[schemars(extend("x-default-words" = "none"))]
    rename: BTreeMap<String, String>,
    /// Fields that are there once, with this value.
    #[schemars(extend("x-default-words" = "none"))]
    set: BTreeMap<String, TemplateSpec>,
    /// Fields that are added to those of the same name.
    #[schemars(extend("x-default-words" = "none"))]
    append: BTreeMap<String, TemplateSpec>,
    /// Fields that are added where there is none of that name.
    #[schemars(extend("x-default-words" = "none"))]
    default: BTreeMap<String, TemplateSpec>,
}

impl HeadersSpec {
    /// Checks names and compiles values.
    ///
    /// # Errors
    /// A name that is none or may not be changed, a value that cannot be sent, or nothing to do.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let (request, response) = (Side::of(&self.request)?, Side::of(&self.response)?);
        if request.is_empty() && response.is_empty() {
            return Err("`headers` changes nothing; write `request` or `response`, as in `request: { set: { X-A: \"1\" } }`".into());
        }
        Ok(Arc::new(Headers { request, response }))
    }
}

#[derive(Debug)]
struct Headers {
    request: Side,
    response: Side,
}

#[derive(Debug, Default)]
struct Side {
    remove: Vec<Box<str>>,
    rename: Vec<(Box<str>, Box<str>)>,
    set: Vec<(Box<str>, Template)>,
    append: Vec<(Box<str>, Template)>,
    default: Vec<(Box<str>, Template)>,
}

/// Checks the name of a field that users want changed.
pub(crate) fn checked_name(name: &str) -> Result<Box<str>, String> {
    if name.is_empty() || octet::token_len(name.as_bytes()) != name.len() {
        return Err(format!("`{name}` is no name of a field"));
    }
    if !may_be_changed(name) {
        return Err(format!(
            "`{name}` belongs to the connection or frames the message and is the proxy's own; `rewrite: {{ host: … }}` changes the host"
        ));
    }
    Ok(name.into())
}

/// Compiles the value of a field.
pub(crate) fn checked_value(value: &TemplateSpec) -> Result<Template, String> {
    let template = value.build()?;
    let text = template.as_str();
    if octet::value_len(text.as_bytes()) != text.len() {
        return Err(format!(
            "`{}` cannot be the value of a field: it has a control character",
            text.escape_debug()
        ));
    }
    Ok(template)
}

fn pairs(written: &BTreeMap<String, TemplateSpec>) -> Result<Vec<(Box<str>, Template)>, String> {
    written.iter().map(|(name, value)| Ok((checked_name(name)?, checked_value(value)?))).collect()
}

impl Side {
    fn of(spec: &SideSpec) -> Result<Self, String> {
        let remove = spec.remove.as_ref().map(OneOrManySpec::as_slice).unwrap_or_default();
        let renamed =
            |(old, new): (&String, &String)| Ok::<_, String>((checked_name(old)?, checked_name(new)?));
        Ok(Self {
            remove: remove.iter().map(|name| checked_name(name)).collect::<Result<_, _>>()?,
            rename: spec.rename.iter().map(renamed).collect::<Result<_, _>>()?,
            set: pairs(&spec.set)?,
            append: pairs(&spec.append)?,
            default: pairs(&spec.default)?,
        })
    }

    fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.rename.is_empty() && self.written().next().is_none()
    }

    fn written(&self) -> impl Iterator<Item = &(Box<str>, Template)> {
        self.set.iter().chain(&self.append).chain(&self.default)
    }

    /// The values, before any field changes: each may name a field that another one replaces.
    fn values(&self, values: &Values<'_>) -> Vec<Vec<u8>> {
        self.written().map(|(_, template)| template.field(values)).collect()
    }

    fn apply(&self, fields: &mut HeadFields<'_>, values: &[Vec<u8>]) {
        for name in &self.remove {
            fields.remove(name);
        }
        for (old, new) in &self.rename {
            let moved: Vec<Vec<u8>> = fields.view().values(old).map(<[u8]>::to_vec).collect();
            if fields.remove(old) {
                fields.remove(new);
                moved.iter().for_each(|value| fields.append(new, value));
            }
        }
        let (set, rest) = values.split_at(self.set.len().min(values.len()));
        let (append, default) = rest.split_at(self.append.len().min(rest.len()));
        self.set.iter().zip(set).for_each(|((name, _), value)| fields.set(name, value));
        self.append.iter().zip(append).for_each(|((name, _), value)| fields.append(name, value));
        for ((name, _), value) in self.default.iter().zip(default) {
            if !fields.contains(name) {
                fields.append(name, value);
            }
        }
    }

    fn words(&self, side: &str, words: &mut Vec<String>) {
        let named = |verb: &str, list: &[(Box<str>, Template)], words: &mut Vec<String>| {
            words.extend(list.iter().map(|(name, _)| format!("{side} {verb} {name}")));
        };
        words.extend(self.remove.iter().map(|name| format!("{side} remove {name}")));
        words.extend(self.rename.iter().map(|(old, new)| format!("{side} rename {old} to {new}")));
        named("set", &self.set, words);
        named("append", &self.append, words);
        named("default", &self.default, words);
    }
}

impl Filter for Headers {
    fn name(&self) -> &'static str {
        "headers"
    }

    // Names only: values may hold credentials.
    fn argument(&self) -> String {
        let mut words = Vec::new();
        self.request.words("request", &mut words);
        self.response.words("response", &mut words);
        words.join(", ")
    }

    fn hooks(&self) -> Hooks {
        let side = |side: &Side, hook| if side.is_empty() { Hooks::NONE } else { hook };
        side(&self.request, Hooks::REQUEST) | side(&self.response, Hooks::RESPONSE)
    }

    fn captures(&self) -> Vec<String> {
        let all = self.request.written().chain(self.response.written());
        all.flat_map(|(_, template)| template.captures()).map(str::to_owned).collect()
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let values = self.request.values(&cx.values());
        self.request.apply(&mut cx.fields, &values);
        Verdict::Continue
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let values = self.response.values(&cx.values());
        self.response.apply(&mut cx.fields, &values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};

    fn headers(json: &str) -> Arc<dyn Filter> {
        built::<HeadersSpec>(json).build().unwrap()
    }

    #[test]
    fn fields_of_both_sides_change_in_the_order_of_the_operations() {
        let filter = headers(
            r#"{"request": {"remove": "A", "rename": {"B": "C"}, "set": {"D": "{client_ip}", "E": "{header.D}"},
                "append": {"F": "2"}, "default": {"G": "new", "H": "new"}},
                "response": {"set": {"X-Status": "{status}"}, "remove": ["Server", "X-Powered-By"]}}"#,
        );
        let fields = [("a", "1"), ("b", "2"), ("c", "old"), ("d", "3"), ("f", "1"), ("g", "here")];
        let mut asked = fields.iter().fold(Asked::at("/"), |asked, (name, value)| asked.with(name, value));
        asked.send(&*filter);
        assert_eq!(
            asked.request_lines(),
            "f: 1\r\ng: here\r\nC: 2\r\nD: 192.0.2.1\r\nE: 3\r\nF: 2\r\nH: new\r\n"
        );
        asked.response = b"server: x\r\nX-Status: 7\r\n".to_vec();
        asked.answer(&*filter);
        assert_eq!(asked.response_lines(), "X-Status: 200\r\n");
    }

    #[test]
    fn a_value_from_outside_cannot_split_the_message() {
        let filter = headers(r#"{"request": {"set": {"X-Q": "{query.q}"}}}"#);
        let mut asked = Asked::at("/");
        asked.query = Some("q=a%0d%0aX-Admin:%201".into());
        asked.send(&*filter);
        assert_eq!(asked.request_lines(), "X-Q: aX-Admin: 1\r\n");
    }

    #[test]
    fn what_cannot_be_changed_is_refused() {
        for (json, part) in [
            (r#"{"request": {"set": {"Host": "a"}}}"#, "`rewrite: { host"),
            (r#"{"request": {"remove": "Content-Length"}}"#, "the proxy's own"),
            (r#"{"request": {"set": {"a b": "a"}}}"#, "no name of a field"),
            (r#"{"request": {"set": {"A": "a\nb"}}}"#, "control character"),
            (r#"{"request": {"set": {"A": "{nothing}"}}}"#, "no placeholder"),
            (r#"{"request": {}}"#, "changes nothing"),
        ] {
            let error = built::<HeadersSpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }

    #[test]
    fn values_are_not_shown() {
        let filter = headers(r#"{"request": {"set": {"Authorization": "Bearer secret"}}}"#);
        assert_eq!(filter.argument(), "request set Authorization");
        assert!(filter.hooks() == Hooks::REQUEST);
    }
}
