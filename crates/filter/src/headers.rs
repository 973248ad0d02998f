//! `headers: { request: { set: { X-A: "1" } }, response: { remove: Server } }`: changes fields of requests and
//! responses.
//!
//! Within one side the order is remove, rename, set, append, default. Fields that frame a message or belong to one
//! connection cannot be named (RFC 9110 §7.6.1).

use crate::edits::{FieldSets, FieldWrites};
use crate::names::{FieldName, FieldNames};
use crate::{
    FieldView, Filter, HeadFields, Hooks, OneOrManySpec, RequestCx, ResponseCx, Template, TemplateSpec,
    Values, Verdict, may_be_changed,
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
    #[schemars(extend("x-sent" = true))]
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
    #[schemars(extend("x-named" = true))]
    set: BTreeMap<String, TemplateSpec>,
    /// Fields that are added to those of the same name.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-named" = true))]
    append: BTreeMap<String, TemplateSpec>,
    /// Fields that are added where there is none of that name.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-named" = true))]
    default: BTreeMap<String, TemplateSpec>,
}

impl HeadersSpec {
    /// Checks names and compiles values.
    ///
    /// # Errors
    /// A name that is none or may not be changed, a value that cannot be sent, or nothing to do.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let (request, response) =
            (Side::of(&self.request, "request")?, Side::of(&self.response, "response")?);
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

/// The changes of one side, prepared.
#[derive(Debug, Default)]
struct Side {
    /// Removed first.
    gone: FieldNames,
    rename: Vec<(FieldName, FieldName)>,
    /// How many names are removed as such.
    removed: usize,
    /// Then fields that are set, and those that are appended.
    sets: FieldSets,
    default: Vec<(FieldName, FieldWrites)>,
    /// A value may name a field of the request.
    uses_fields: bool,
    /// What it does, for people.
    words: Vec<String>,
    /// The fields to which it gives a value.
    given: Vec<Box<str>>,
    /// Captures of the path that its values use.
    captures: Vec<String>,
}

/// The values of one side, filled before any field changes: each may name a field that another one replaces.
struct Filled {
    sets: FieldWrites,
    default: Vec<FieldWrites>,
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

fn pairs(written: &BTreeMap<String, TemplateSpec>) -> Result<Vec<(FieldName, Template)>, String> {
    written.iter().map(|(name, value)| Ok((FieldName::checked(name)?, checked_value(value)?))).collect()
}

impl Side {
    fn of(spec: &SideSpec, side: &str) -> Result<Self, String> {
        let written = spec.remove.as_ref().map(OneOrManySpec::as_slice).unwrap_or_default();
        let remove = written.iter().map(|name| FieldName::checked(name)).collect::<Result<Vec<_>, _>>()?;
        let renamed = |(old, new): (&String, &String)| {
            Ok::<_, String>((FieldName::checked(old)?, FieldName::checked(new)?))
        };
        let rename = spec.rename.iter().map(renamed).collect::<Result<Vec<_>, _>>()?;
        let [set, append, default] = [&spec.set, &spec.append, &spec.default].map(pairs);
        let (set, append, default) = (set?, append?, default?);
        let mut words: Vec<_> =
            remove.iter().map(|name| format!("{side} remove {}", name.as_str())).collect();
        words.extend(
            rename.iter().map(|(old, new)| format!("{side} rename {} to {}", old.as_str(), new.as_str())),
        );
        for (verb, list) in [("set", &set), ("append", &append), ("default", &default)] {
            words.extend(list.iter().map(|(name, _)| format!("{side} {verb} {}", name.as_str())));
        }
        let names = [&set, &append, &default].into_iter().flatten().map(|(name, _)| name);
        let names = names.chain(rename.iter().map(|(_, new)| new));
        let given = names.map(|name| name.as_str().into()).collect();
        let values = || [&set, &append, &default].into_iter().flatten().map(|(_, value)| value);
        let captures = values().flat_map(Template::captures).map(str::to_owned).collect();
        let uses_fields = values().any(Template::uses_fields);
        let mut sets = FieldSets::new(&set);
        append.iter().for_each(|(name, value)| sets.append(name, value));
        let mut gone: FieldNames = remove.iter().collect();
        if rename.is_empty() {
            sets.remove_all(std::mem::take(&mut gone));
        }
        let default = default.iter().map(|(name, value)| (name.clone(), FieldWrites::one(name, value)));
        let default = default.collect();
        let removed = remove.len();
        Ok(Self { gone, rename, removed, sets, default, uses_fields, words, given, captures })
    }

    fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    fn filled(&self, values: &Values<'_>) -> Filled {
        let default = self.default.iter().map(|(_, write)| write.filled(values)).collect();
        Filled { sets: self.sets.writes().filled(values), default }
    }

    fn apply(&self, fields: &mut HeadFields<'_>, values: &Values<'_>, filled: Option<&Filled>) {
        fields.remove_all(&self.gone);
        for (old, new) in &self.rename {
            let moved: Vec<Vec<u8>> = fields.view().values(old.as_str()).map(<[u8]>::to_vec).collect();
            if fields.remove(old.as_str()) {
                fields.remove(new.as_str());
                moved.iter().for_each(|value| fields.append(new.as_str(), value));
            }
        }
        fields.remove_all(self.sets.gone());
        filled.map_or(self.sets.writes(), |filled| &filled.sets).write(fields, values);
        for (at, (name, write)) in self.default.iter().enumerate() {
            if !fields.contains(name.as_str()) {
                filled.and_then(|filled| filled.default.get(at)).unwrap_or(write).write(fields, values);
            }
        }
    }
}

impl Filter for Headers {
    fn name(&self) -> &'static str {
        "headers"
    }

    // Names only: values may hold credentials.
    fn argument(&self) -> String {
        [&self.request.words[..], &self.response.words].concat().join(", ")
    }

    fn own_fields(&self) -> Vec<&str> {
        let Side { gone, rename, sets, .. } = &self.request;
        let renamed = rename.iter().flat_map(|(old, new)| [old.as_str(), new.as_str()]);
        gone.names().chain(sets.gone().names()).chain(renamed).collect()
    }

    /// A field that is removed may decide something in the service. Fields that are set do not count: most of them
    /// differ between routes, and a service that believes one must have it set on each way to it.
    fn restricts(&self) -> bool {
        self.request.removed > 0
    }

    /// A field that is set may also permit something.
    fn fits_any_reading(&self) -> bool {
        let removes_only = self.request.words.len() == self.request.removed && self.response.is_empty();
        self.restricts() && removes_only
    }

    fn set_fields(&self) -> Vec<&str> {
        self.request.given.iter().map(AsRef::as_ref).collect()
    }

    fn hooks(&self) -> Hooks {
        let side = |side: &Side, hook| if side.is_empty() { Hooks::NONE } else { hook };
        side(&self.request, Hooks::REQUEST) | side(&self.response, Hooks::RESPONSE)
    }

    fn captures(&self) -> Vec<String> {
        [&self.request.captures[..], &self.response.captures].concat()
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let filled = self.request.uses_fields.then(|| self.request.filled(&cx.values()));
        let RequestCx { facts, target, fields, outcome, .. } = cx;
        let (target, identity) = (Some(&**target), outcome.identity.as_deref());
        let fields_of = FieldView::default();
        let values = Values { facts, fields: fields_of, target, identity, status: None, fault: None };
        self.request.apply(fields, &values, filled.as_ref());
        Verdict::Continue
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let (fields, values) = cx.fields_and_values();
        self.response.apply(fields, &values, None);
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
    fn of_one_name_in_several_spellings_the_last_value_stays() {
        let filter = headers(
            r#"{"response": {"set": {"X-A": "1", "x-a": "{path}", "Z": "z"}, "append": {"X-B": "{status}", "X-a": "2"}}}"#,
        );
        let mut asked = Asked::at("/p");
        asked.response = b"X-A: own\r\nx-b: own\r\n".to_vec();
        asked.answer(&*filter);
        assert_eq!(asked.response_lines(), "x-b: own\r\nZ: z\r\nx-a: /p\r\nX-B: 200\r\nX-a: 2\r\n");
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
