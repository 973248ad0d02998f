//! What the admin API refuses, told as the command line tells things.

use super::{complain, print_error};
use serde_json::Value;
use std::process::ExitCode;
use thalweg_admin::Answer;

/// Tells why; mistakes of a configuration a line each, `file:line:column: message`. Exit code 1.
pub(super) fn refused(answer: &Answer, file: &str) -> ExitCode {
    let Ok(problem) = serde_json::from_slice::<Value>(&answer.body) else {
        complain(format_args!("refused: {}", String::from_utf8_lossy(&answer.body).trim()));
        return ExitCode::FAILURE;
    };
    let text = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
    for mistake in problem["mistakes"].as_array().into_iter().flatten() {
        let message = text(mistake, "message").unwrap_or_default();
        let file = text(mistake, "file").unwrap_or_else(|| file.to_owned());
        print_error(format_args!("{file}:{}:{}: {message}", mistake["line"], mistake["column"]));
        if let Some(help) = text(mistake, "help") {
            print_error(format_args!("  help: {help}"));
        }
    }
    complain(format_args!("refused: {}", text(&problem, "detail").unwrap_or_default()));
    if let Some(help) = text(&problem, "help") {
        print_error(format_args!("  help: {help}"));
    }
    ExitCode::FAILURE
}

/// The document of an answer, or why there is none. `Err` has been told.
pub(super) fn document(answer: Result<Answer, String>, file: &str) -> Result<Value, ExitCode> {
    let answer = answer.map_err(|error| {
        complain(error);
        ExitCode::FAILURE
    })?;
    if answer.status >= 300 {
        return Err(refused(&answer, file));
    }
    serde_json::from_slice(&answer.body).map_err(|error| {
        complain(format_args!("the admin API gave no usable answer: {error}"));
        ExitCode::FAILURE
    })
}

/// Why something was refused, in a sentence.
pub(super) fn detail_of(answer: &Answer) -> String {
    let problem = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
    let said = problem["detail"].as_str().map(str::to_owned);
    said.unwrap_or_else(|| String::from_utf8_lossy(&answer.body).trim().to_owned())
}
