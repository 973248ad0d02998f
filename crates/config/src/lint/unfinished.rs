//! A file that may have been cut off.

use crate::diagnose::{Problems, SpecError};
use crate::parse::Format;
use crate::source::{Sources, Span};

/// Warns where the last line of a YAML file has no line break and ends in a value that could go on: half a number
/// is a number too. Quotes and brackets say by themselves that they are complete, and so do JSON and TOML tables.
pub(crate) fn unfinished(file: u16, format: Format, sources: &Sources, problems: &mut Problems) {
    let Some(text) = sources.get(file).map(crate::source::Source::text) else { return };
    let last = text.rsplit('\n').next().unwrap_or("");
    let ends = last.ends_with(['}', ']', '"', '\'']) || last.trim().is_empty();
    if format != Format::Yaml || ends || !text.contains('\n') {
        return;
    }
    let start = text.len() - last.trim_start().len();
    let message = "the last line does not end with a line break: the file may be cut off";
    let warning = SpecError::warning("unfinished", Span::new(file, start..text.len()), message)
        .help("where it is complete, end it with a line break");
    problems.push(warning);
}
