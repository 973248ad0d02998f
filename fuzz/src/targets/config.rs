//! Configuration files of every format.
//!
//! Input: a file, read as YAML, as JSON and as TOML. Asserts: no panic in any stage nor in the rendering;
//! an error report is never empty, and each of its errors says something and has a place inside the text:
//! file, line, column, on a character's edge; the short form is one line per error without control
//! characters; a value that came from the environment is never shown.

use thalweg_config::{Look, Report, Span, check_bytes};

/// What `${SECRET}`, and every other name that begins with S, stands for.
const SECRET: &str = "zqjx://kvwz:77";

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let environment = |name: &str| name.starts_with('S').then(|| SECRET.to_owned());
    for name in ["fuzz.yaml", "fuzz.json", "fuzz.toml"] {
        match check_bytes(name, input, &environment) {
            Ok(loaded) => check(&loaded.warnings, input),
            Err(report) => {
                assert!(!report.errors.is_empty(), "refused without an error");
                check(&report, input);
            }
        }
    }
}

fn check(report: &Report, input: &[u8]) {
    let lines = report.lines();
    assert_eq!(lines.lines().count(), report.errors.len(), "not one line per error:\n{lines}");
    assert!(!lines.chars().any(|c| c.is_control() && c != '\n'), "control characters in {lines:?}");
    let long = report.render(Look::Plain);
    let _ = report.render(Look::Coloured);
    assert!(!long.chars().any(|c| c.is_ascii_control() && c != '\n'), "control characters in {long:?}");
    if !String::from_utf8_lossy(input).contains("kvwz") {
        assert!(!lines.contains("kvwz") && !long.contains("kvwz"), "the environment is shown:\n{long}");
    }
    for error in &report.errors {
        assert!(!error.message.is_empty());
        place(report, error.span);
        for (span, _) in &error.related {
            place(report, *span);
        }
    }
}

fn place(report: &Report, span: Span) {
    let source = report.sources.get(span.file).expect("the error's file is known");
    // Another one than the input where an `include` happens to find something.
    let name = source.name();
    if !source.is_readable() {
        return;
    }
    assert!(source.text().get(span.range()).is_some(), "{span:?} is not a range of characters of the text");
    let place = report.place(span);
    let numbers = place
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix(':'))
        .and_then(|rest| rest.split_once(':'));
    let (line, column) = numbers.expect("file:line:column");
    let [line, column] = [line, column].map(|number| number.parse::<usize>().unwrap_or(0));
    assert!(line >= 1 && column >= 1, "{place}");
    assert!(line <= source.text().split('\n').count(), "{place} is behind the text");
}
