//! Parses a body as the type of its operation: for the handler, and for all operations without a running proxy.

use axum::response::IntoResponse as _;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::operations::operations;
use crate::problem::Problem;

/// The type of an operation's request body.
pub(crate) trait BodySpec: DeserializeOwned + JsonSchema {
    /// The checked value that the handler gets.
    type Checked;

    /// Checks the constraints that the type does not express.
    fn validate(self) -> Result<Self::Checked, Problem>;
}

/// The body of an operation, parsed and checked.
pub(crate) fn parse<T: BodySpec>(bytes: &[u8]) -> Result<T::Checked, Problem> {
    super::json::<T>(bytes)?.validate()
}

/// Parses bytes as the body of each operation that takes JSON, as its handler does. Gives the operation's id, and the
/// status of a refusal. Needs no running proxy.
pub fn read_bodies(bytes: &[u8]) -> impl Iterator<Item = (&'static str, Result<(), u16>)> {
    operations().filter_map(move |operation| {
        let read = operation.body?.read?;
        let refused = |problem: Problem| problem.into_response().status().as_u16();
        Some((operation.id, read(bytes).map_err(refused)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_but_a_configuration_can_be_read_without_a_proxy() {
        let with_body: Vec<_> = operations().filter(|it| it.body.is_some()).map(|it| it.id).collect();
        let read: Vec<_> = read_bodies(b"{}").map(|(id, _)| id).collect();
        let left: Vec<_> = with_body.iter().filter(|id| !read.contains(*id)).collect();
        assert_eq!(left, [&"replace_config"]);
    }

    #[test]
    fn a_body_is_taken_by_the_operations_that_it_is_for() {
        let taking = |body: &str| -> Vec<_> {
            read_bodies(body.as_bytes()).filter(|(_, read)| read.is_ok()).map(|(id, _)| id).collect()
        };
        assert_eq!(taking(r#"{"weight": 3}"#), ["set_weights", "change_endpoint"]);
        assert_eq!(taking(r#"{"on": true}"#), ["set_maintenance"]);
        assert!(taking("[]").is_empty() && taking("").is_empty());
        assert!(read_bodies(b"{\"a\":").all(|(_, read)| read == Err(400)));
    }
}
