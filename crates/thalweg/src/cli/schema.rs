//! `thalweg schema`: the JSON Schema of the configuration of this version.

use super::say;
use std::process::ExitCode;

pub(crate) fn schema() -> ExitCode {
    say(format_args!("{}", thalweg_config::schema::document().trim_end()));
    ExitCode::SUCCESS
}
