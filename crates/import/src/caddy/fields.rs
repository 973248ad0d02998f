//! Fields of responses: what `header` says, in the order in which Caddy does it.
//!
//! Without `defer` a field is written before the request goes on: the response of a service then comes beside it. What
//! is deferred changes the response when it is there.

use crate::yaml::{Map, Value, one};

/// What is to be done to fields of responses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fields {
    /// Done to the finished response; the last one first.
    deferred: Vec<Map>,
    /// Written before anything answers.
    before: Vec<Before>,
}

#[derive(Clone, Debug, PartialEq)]
struct Before {
    name: String,
    value: String,
    /// Beside others of the name.
    added: bool,
    when: Option<Map>,
}

/// A filter of fields of the response.
fn response(key: &str, value: impl Into<Value>, when: Option<Map>) -> Map {
    let filter = one("headers", one("response", one(key, value)));
    match when {
        Some(when) => filter.with("when", when),
        None => filter,
    }
}

impl Fields {
    pub(super) fn defer(&mut self, key: &str, value: impl Into<Value>, when: Option<Map>) {
        self.deferred.push(response(key, value, when));
    }

    pub(super) fn write(&mut self, name: &str, value: String, added: bool, when: Option<Map>) {
        if when.is_none() && !added {
            self.before.retain(|it| !it.name.eq_ignore_ascii_case(name));
        }
        self.before.push(Before { name: name.to_owned(), value, added, when });
    }

    /// As filters: responses meet them from the last to the first.
    pub(super) fn filters(&self, from_service: bool) -> Vec<Map> {
        let mut all = self.deferred.clone();
        for field in self.before.iter().rev() {
            let key = if from_service || field.added { "append" } else { "set" };
            all.push(response(key, one(&field.name, field.value.as_str()), field.when.clone()));
        }
        all
    }
}
