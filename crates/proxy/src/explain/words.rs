//! A condition that failed, in the words of the configuration.

use super::explanation::Failed;
use super::trace::{Trace, lossy};
use crate::plan::Plan;
use thalweg_core::credentials::may_be_secret;
use thalweg_route::{FieldMatch, Miss, RouteId, RouteMatch, ValueMatch};

/// Hosts, methods and the like that are named in one sentence.
const NAMED: usize = 4;

/// Says why the route does not take the request.
pub(super) fn failed(plan: &Plan, trace: &Trace, route: RouteId, miss: Miss) -> Failed {
    let nothing = RouteMatch::default();
    let asks = plan.table.written(route).unwrap_or(&nothing);
    let conceals = plan.route(Some(route)).is_some_and(|route| route.conceals);
    let x = &trace.x;
    let plain = |condition, expected, found| Failed { condition, name: None, expected, found: Some(found) };
    match miss {
        Miss::Host => plain("host", one_of(&asks.hosts), lossy(x.host())),
        Miss::Path => {
            let paths: Vec<_> = asks.paths().flatten().collect();
            plain("path", one_of(&paths), lossy(x.matched_path()))
        }
        Miss::Method => plain("method", one_of(&asks.methods), lossy(x.request.method_text.of(&x.received))),
        Miss::Client => plain("client", format!("in {}", one_of(&asks.clients)), x.client_ip.to_string()),
        Miss::Listener => {
            let name = |at: &u16| plan.listeners.get(usize::from(*at)).map(|listener| listener.name.clone());
            let names: Vec<_> = asks.listeners.iter().filter_map(name).collect();
            plain("listener", one_of(&names), listener_name(plan, trace.listener))
        }
        Miss::Header(at) => match asks.headers.get(at) {
            Some(field) => value("header", field, header(trace, &field.name), conceals),
            None => plain("header", String::new(), String::new()),
        },
        Miss::Query(at) => match asks.query.get(at) {
            Some(field) => value("query", field, parameter(trace, &field.name), conceals),
            None => plain("query", String::new(), String::new()),
        },
    }
}

/// The name of a listener by its position.
pub(super) fn listener_name(plan: &Plan, at: u16) -> String {
    plan.listeners.get(usize::from(at)).map(|listener| listener.name.to_string()).unwrap_or_default()
}

fn value(condition: &'static str, field: &FieldMatch, found: Option<String>, conceals: bool) -> Failed {
    let expected = match &field.value {
        ValueMatch::Present => "any value".to_owned(),
        ValueMatch::Absent => "absent".to_owned(),
        _ if conceals => "a value from the environment".to_owned(),
        _ if may_be_secret(&field.name) => "a value that is not shown".to_owned(),
        ValueMatch::Exact(text) => format!("`{text}`"),
        ValueMatch::Prefix(text) => format!("one that begins with `{text}`"),
        ValueMatch::Suffix(text) => format!("one that ends with `{text}`"),
        ValueMatch::Contains(text) => format!("one that contains `{text}`"),
        ValueMatch::Regex(regex) => format!("one that matches `{}`", regex.as_str()),
    };
    Failed { condition, name: Some(field.name.clone()), expected, found }
}

/// The first value of a header.
fn header(trace: &Trace, name: &str) -> Option<String> {
    let (fields, bytes) = (&trace.x.request.fields, &trace.x.received);
    let is_it = |field: &&thalweg_http::Field| field.name.of(bytes).eq_ignore_ascii_case(name.as_bytes());
    fields.iter().find(is_it).map(|field| lossy(field.value.of(bytes)))
}

/// The first value of a parameter.
fn parameter(trace: &Trace, name: &str) -> Option<String> {
    let query = trace.x.query()?;
    let mut found = None;
    thalweg_route::query::any(query, name.as_bytes(), &mut |value| {
        found = Some(lossy(value));
        true
    });
    found
}

/// `a`, or one of several, a few of which are named.
fn one_of<T: ToString>(list: &[T]) -> String {
    let named = list.iter().take(NAMED).map(|item| format!("`{}`", item.to_string()));
    let named = named.collect::<Vec<_>>().join(", ");
    match list.len() {
        0 | 1 => named,
        n if n <= NAMED => format!("one of {named}"),
        n => format!("one of {named} and {} more", n - NAMED),
    }
}
