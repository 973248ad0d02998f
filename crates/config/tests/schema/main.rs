//! The schema of the configuration against the parser that it describes: on the files of the project, on
//! mutations of them, on documents drawn from the schema, and on what it says of ranges and defaults.

#![expect(clippy::unwrap_used, reason = "a test: a panic is the report")]

mod agreement;
#[path = "../certificates/mod.rs"]
mod certificates;
mod claims;
mod corpus;
mod draw;
mod files;
mod mutate;
