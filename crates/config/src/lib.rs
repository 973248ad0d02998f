//! Configuration: files → Spec → Plan, with every mistake named by line, column, cause and fix.
//!
//! [`load_file`] runs the stages in the order of the modules below: find and read the file, parse
//! it into one node tree whatever its format, fill in `${…}`, add what it includes, read the specs, validate
//! them and compile the plan. No stage stops at its first mistake, and none panics, whatever the text holds.
//! The data plane never names this crate: it gets the finished plan.
#![forbid(unsafe_code)]

// The stages, in order.
pub mod load;

pub mod parse;

pub mod interpolate;

pub mod include;

pub mod documents;

pub mod spec;

mod validate;

mod compile;

mod lint;

// What is done with the result.
pub mod diff;

// What needs no file.
pub mod command_line;

// What they share and what they make.
pub mod api_restrictions;
pub mod diagnose;
pub mod inputs;
pub mod own_addresses;
pub mod protections;
pub mod provenance;
pub mod refresh_files;
pub mod schema;
pub mod settings;
pub mod source;
pub mod span_index;

pub use command_line::{Arguments, ArgumentsFile, Https};
pub use diagnose::{Class, Look, Report, SpecError};
pub use diff::{Change, diff};
pub use documents::{DocumentFlaw, Merged, Offer, RefusedDocument, with_documents};
pub use inputs::Inputs;
pub use lint::WARNINGS;
pub use load::{Loaded, check_bytes, check_documents, check_text, find, load_file, places};
pub use provenance::{Object, Origin, Provenance};
pub use settings::Settings;
pub use source::{Position, Sources, Span};

/// The URL of an endpoint in its written form and the address that it means, by the rules of the configuration.
///
/// # Errors
/// What is wrong with it, and what to write.
pub fn endpoint_address(url: &str) -> Result<(std::sync::Arc<str>, thalweg_upstream::Address), UrlError> {
    validate::endpoint(url).map_err(|(message, help)| UrlError { message, help })
}

/// Why a text is not the URL of an endpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UrlError {
    /// What is wrong with it.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}
