//! Requests by the name of an operation, for `thalweg api`: method, path and query come from the table.

use crate::encode;
use crate::operation::Operation;
use crate::operations::operations;
use crate::query::Kind;

/// One line of the list of operations.
pub struct Line {
    /// Its name.
    pub id: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// The parameters that it takes; those of the path, which are needed, first.
    pub parameters: Vec<&'static str>,
}

/// All operations, in the order of the table.
pub fn lines() -> impl Iterator<Item = Line> {
    operations().map(|operation| {
        let query = operation.query.iter().map(|parameter| parameter.name);
        let parameters = in_path(operation).chain(query).collect();
        Line { id: operation.id, summary: operation.summary, parameters }
    })
}

/// A request that can be sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Named {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The media type of the body, where the operation takes one.
    pub body: Option<&'static str>,
}

/// The request for an operation and its parameters.
///
/// # Errors
/// There is no such operation or parameter, or one of the path is missing; a sentence.
pub fn named(id: &str, parameters: &[(String, String)]) -> Result<Named, String> {
    let Some(operation) = operations().find(|operation| operation.id == id) else {
        return Err(format!("there is no operation `{id}`; `thalweg api` lists them"));
    };
    let mut path = operation.path.to_owned();
    for name in in_path(operation) {
        let value = parameters.iter().find(|(given, _)| given == name);
        let (_, value) = value.ok_or_else(|| format!("`{id}` needs `{name}=…`"))?;
        path = path.replace(&format!("{{{name}}}"), &encode(value));
    }
    let mut sign = '?';
    for (name, value) in parameters {
        if in_path(operation).any(|known| known == name) {
            continue;
        }
        let Some(known) = operation.query.iter().find(|parameter| parameter.name == name) else {
            return Err(format!("`{id}` takes no `{name}`; `thalweg api` lists what it takes"));
        };
        let text = if matches!(known.kind, Kind::Flag) && value.is_empty() { "true" } else { value };
        path.push_str(&format!("{sign}{name}={}", encode(text)));
        sign = '&';
    }
    let body = operation.body.and_then(|content| content.types.first().copied());
    Ok(Named { method: operation.method.to_string(), path, body })
}

fn in_path(operation: &Operation) -> impl Iterator<Item = &'static str> {
    operation.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: &str, parameters: &[(&str, &str)]) -> Result<String, String> {
        let parameters: Vec<_> = parameters.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        named(id, &parameters).map(|named| format!("{} {}", named.method, named.path))
    }

    #[test]
    fn requests_are_made_from_the_table() {
        assert_eq!(request("limits", &[]).unwrap(), "GET /api/v1/limits");
        let one = [("id", "http://a:1"), ("service", "a b"), ("drain", "0s")];
        let path = "/api/v1/services/a%20b/endpoints/http%3A%2F%2Fa%3A1?drain=0s";
        assert_eq!(request("remove_endpoint", &one).unwrap(), format!("DELETE {path}"));
        assert!(request("service", &[]).unwrap_err().contains("`service=…`"));
        assert!(request("limits", &[("x", "1")]).unwrap_err().contains("no `x`"));
        assert!(request("nothing", &[]).unwrap_err().contains("no operation"));
    }
}
