//! The router: which route does a request belong to?
//!
//! Configuration gives a list of [`RouteMatch`]; [`Table::build`] compiles it once per plan;
//! [`Table::find`] is called once per exchange, after the head was parsed and its path and host
//! were brought to their normal form, before any filter runs.
//!
//! # Precedence
//! 1. exact host, then longest wildcard host, then any host;
//! 2. exact path, then longest prefix, then pattern (more literal segments first, then one that does
//!    not end in a rest), then regex, then everything (`/*` or no path at all: were it a prefix like the
//!    others, a catch-all would shadow every pattern of its host);
//! 3. a route that names methods, then the one with more header conditions, then with more query
//!    conditions;
//! 4. the order of the file.
//!
//! When every candidate of a host level fails on its other conditions, the next level is tried.
//!
//! # Cost
//! A lookup hashes the host, then each segment of the path at most once, so it does not grow with the
//! number of hosts, exact paths and prefixes. What does grow: routes that differ in nothing but their
//! other conditions are tried one after the other, and so are the regexes of one host. It does not
//! allocate, with two exceptions: the scratch memory of a regex when a thread first uses it, and a
//! query value with escapes that is longer than [`query::DECODED_IN_PLACE`] bytes.
//!
//! No socket, no clock, no runtime: the same code answers `explain` and the tests in a configuration.
#![forbid(unsafe_code)]

pub mod host;
pub mod path;
pub mod query;
pub mod request;
pub mod table;
pub mod value;

mod advantage;
mod candidates;
mod clients;
mod conditions;
mod edges;
mod hosts;
mod level;
mod near;
mod precedence;
mod shadow;
mod shapes;
mod tree;

pub use advantage::Advantage;
pub use candidates::Candidate;
pub use conditions::Miss;
pub use host::HostPattern;
pub use path::{PathPattern, Pattern, Segment};
pub use precedence::Rank;
pub use request::{FieldLookup, NoFields, Query};
pub use shadow::{Shadow, shadows};
pub use table::{BuildError, RouteId, RouteMatch, Table};
pub use value::{FieldMatch, Regex, ValueMatch};
