//! What was found in a configuration, as JSON for programs.
//!
//! The keys and the words of `severity` and `code` stay; new keys may come.

use serde_json::{Value, json};
use thalweg_config::{Class, Report, Span};

/// An array with one object for each error or warning, in the order of the text.
pub(crate) fn json(report: &Report) -> String {
    let all = report.errors.iter().map(|error| {
        let related = error.related.iter().map(|(span, label)| {
            let mut related = place(report, *span);
            related["message"] = label.as_str().into();
            related
        });
        let mut object = place(report, error.span);
        object["severity"] = if error.class == Class::Warning { "warning" } else { "error" }.into();
        object["code"] = error.word().into();
        object["message"] = error.message.as_str().into();
        object["label"] = error.label.as_deref().into();
        object["help"] = error.help.as_deref().into();
        object["related"] = related.collect();
        object
    });
    format!("{:#}", all.collect::<Value>())
}

/// Where it is: lines and columns (characters) from 1, the end behind the last character; `null` when the file
/// could not be read.
fn place(report: &Report, span: Span) -> Value {
    let source = report.sources.get(span.file);
    let name = source.map(thalweg_config::source::Source::name);
    if !source.is_some_and(thalweg_config::source::Source::is_readable) {
        return json!({ "file": name, "line": null, "column": null, "end_line": null, "end_column": null });
    }
    let start = report.sources.position(span);
    let end = span.end as usize;
    let end = report.sources.position(Span::new(span.file, end..end));
    json!({
        "file": name,
        "line": start.line,
        "column": start.column,
        "end_line": end.line,
        "end_column": end.column,
    })
}
