//! What is wrong with a configuration, and how it is shown.
//!
//! Every stage pushes [`SpecError`]s into [`Problems`]; nothing stops at the first one. A
//! [`Report`] is what leaves this crate: the errors with the texts they point into, rendered like
//! rustc's or as one line each. Values that came from the environment are never shown.

use crate::source::{Source, Sources, Span};
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use std::fmt;
use std::fmt::Write as _;

/// Errors shown for one configuration; the rest is only announced.
pub const ERRORS: usize = 50;
/// Bytes of a message that are shown at its beginning and at its end, when it is longer than both.
const SHOWN: usize = 256;
/// Longest source line that is quoted, in bytes.
const QUOTED: usize = 16 * 1024;
/// The forms of a secret.
const SECRET_FORMS: &str = "a secret is written as `{ file: … }`, `{ env: … }` or `{ value: … }`";
/// Columns of a rendered error; longer source lines are cut around the mark.
const WIDTH: usize = 140;

/// What kind of mistake it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Class {
    /// The file could not be read.
    Unreadable,
    /// The text is not YAML, JSON or TOML, or uses a part of it that is refused.
    Syntax,
    /// A key, a value or a name that nothing knows.
    Unknown,
    /// A key of the design whose feature has not landed yet.
    Unavailable,
    /// A value that does not fit its key.
    Invalid,
    /// Suspicious, but the configuration runs.
    Warning,
}

/// One mistake: where, what, and what to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SpecError {
    /// What kind of mistake it is.
    pub class: Class,
    /// Where it is.
    pub span: Span,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What stands beside the mark, if the message does not say it all.
    pub label: Option<String>,
    /// What to write instead.
    pub help: Option<String>,
    /// Other places that matter, each with what is there.
    pub related: Vec<(Span, String)>,
    /// What the value should have been; set when the texts above may hold the value.
    subject: Option<&'static str>,
    /// The word of a single check; where there is none, that of the class.
    code: Option<&'static str>,
}

impl Class {
    /// The word for programs. These words stay.
    pub fn code(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Syntax => "syntax",
            Self::Unknown => "unknown",
            Self::Unavailable => "unavailable",
            Self::Invalid => "invalid",
            Self::Warning => "suspicious",
        }
    }
}

impl SpecError {
    /// A mistake whose texts do not hold any configured value.
    pub fn new(class: Class, span: Span, message: impl Into<String>) -> Self {
        Self {
            class,
            span,
            message: message.into(),
            label: None,
            help: None,
            related: Vec::new(),
            subject: None,
            code: None,
        }
    }

    /// A warning of the check with this word.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self { code: Some(code), ..Self::new(Class::Warning, span, message) }
    }

    /// Gives a mistake the word of a single check.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// The word for programs: that of the check which found it, else that of its class.
    pub fn word(&self) -> &'static str {
        self.code.unwrap_or(self.class.code())
    }

    /// A value that is not a valid `subject` ("duration", "endpoint URL"). The texts may hold the
    /// value: they are replaced when it came from the environment.
    pub fn value(span: Span, subject: &'static str, message: impl Into<String>) -> Self {
        Self { subject: Some(subject), ..Self::new(Class::Invalid, span, message) }
    }

    /// Adds what stands beside the mark.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Adds what to write instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds what to write instead, if anything is known.
    #[must_use]
    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    /// Adds another place.
    #[must_use]
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related.push((span, label.into()));
        self
    }

    /// Changes the class.
    #[must_use]
    pub fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// Takes out whatever may hold a value that came from the environment.
    fn redacted(mut self) -> Self {
        if let (true, Some(subject)) = (self.span.filled, self.subject) {
            self.message = match subject {
                "value" => "the environment's value does not fit here".into(),
                _ => format!("the environment's value here is not a valid {subject}"),
            };
            self.label = Some("filled in from the environment".into());
            self.help = None;
        }
        self
    }
}

/// Collects mistakes; never keeps two alike nor more than [`ERRORS`].
#[derive(Debug, Default)]
pub struct Problems {
    errors: Vec<SpecError>,
    warnings: Vec<SpecError>,
    overflow: bool,
}

impl Problems {
    /// Adds a mistake.
    pub fn push(&mut self, error: SpecError) {
        let mut error = error.redacted();
        shorten(&mut error.message);
        error.help.iter_mut().chain(&mut error.label).for_each(shorten);
        let list = if error.class == Class::Warning { &mut self.warnings } else { &mut self.errors };
        if list.iter().any(|e| e.span == error.span && e.message == error.message) {
            return;
        }
        if list.len() >= ERRORS {
            self.overflow = true;
        } else {
            list.push(error);
        }
    }

    /// Takes secrets that a message, a label or a help line quotes out of them. What is said of a value at one of the
    /// `places` does not quote it at all.
    pub(crate) fn hide(&mut self, secrets: &[String], places: &[Span]) {
        const SHOWN: &str = "***";
        /// A shorter secret is part of common words: it is taken out where it is quoted.
        const LEAST: usize = 4;
        let hide = |text: &mut String| {
            for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
                if secret.len() < LEAST {
                    *text = text.replace(&format!("`{secret}`"), &format!("`{SHOWN}`"));
                } else if text.contains(secret) {
                    *text = text.replace(secret, SHOWN);
                }
            }
        };
        let at_secret = |span: Span| {
            places.iter().any(|place| {
                place.file == span.file
                    && place.start <= span.start
                    && span.end <= place.end
                    && span.start < span.end
            })
        };
        for error in self.errors.iter_mut().chain(&mut self.warnings) {
            if let (Some(subject @ ("value" | "choice")), true) = (error.subject, at_secret(error.span)) {
                error.message = "the value here does not fit".into();
                error.label = None;
                error.help = (subject == "choice").then(|| SECRET_FORMS.to_owned());
            }
            hide(&mut error.message);
            error.label.iter_mut().chain(&mut error.help).for_each(hide);
            error.related.iter_mut().for_each(|(_, label)| hide(label));
        }
    }

    /// Whether a mistake has been found within a place.
    pub(crate) fn is_within(&self, place: Span) -> bool {
        self.errors.iter().any(|error| {
            let at = error.span;
            at.file == place.file && place.start <= at.start && at.end <= place.end
        })
    }

    /// Whether there is no room for another error.
    pub fn is_full(&self) -> bool {
        self.errors.len() >= ERRORS
    }

    /// Whether no error (warnings aside) was found.
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty()
    }

    /// How many errors (warnings aside) were found.
    pub(crate) fn count(&self) -> usize {
        self.errors.len()
    }

    /// Whether an error was found inside this place: what seems to be missing there may only be wrong.
    pub fn has_error_in(&self, place: Span) -> bool {
        let inside = |span: Span| span.file == place.file && (place.start..=place.end).contains(&span.start);
        self.errors.iter().any(|error| inside(error.span))
    }

    /// The errors with the texts they point into, in the order of the text.
    pub fn into_report(mut self, sources: Sources) -> Report {
        self.errors.sort_by_key(|e| (e.span.file, e.span.start));
        Report { sources, errors: self.errors, more: self.overflow }
    }

    /// The warnings, in the order of the text.
    pub fn take_warnings(&mut self) -> Vec<SpecError> {
        self.warnings.sort_by_key(|e| (e.span.file, e.span.start));
        std::mem::take(&mut self.warnings)
    }
}

/// Errors (or warnings) with the texts they point into.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The texts.
    pub sources: Sources,
    /// In the order of the text; never empty in an `Err`.
    pub errors: Vec<SpecError>,
    /// There are more errors than [`ERRORS`].
    pub more: bool,
}

/// How a report looks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Look {
    /// Quoted source without colours.
    Plain,
    /// Quoted source with colours.
    Coloured,
}

impl Look {
    /// Colours only on a terminal and without `NO_COLOR` (any value but the empty one forbids them).
    pub fn choose(is_terminal: bool, no_color: Option<&str>) -> Self {
        if is_terminal && no_color.is_none_or(str::is_empty) { Self::Coloured } else { Self::Plain }
    }
}

impl Report {
    /// Every error with its quoted source, separated by empty lines.
    pub fn render(&self, look: Look) -> String {
        let mut out = String::new();
        for error in &self.errors {
            if !out.is_empty() {
                out.push('\n');
            }
            render_one(&self.sources, error, look, &mut out);
        }
        if self.more {
            let _ = writeln!(out, "\nerror: more than {ERRORS} errors; the rest is not shown");
        }
        out
    }

    /// Every error as one line, `file:line:column: message`.
    pub fn lines(&self) -> String {
        let mut out = String::new();
        for error in &self.errors {
            let kind = if error.class == Class::Warning { "warning: " } else { "" };
            let _ = writeln!(out, "{}: {kind}{}", self.place(error.span), one_line(&error.message));
        }
        out
    }

    /// `file:line:column`, or the file alone when it could not be read.
    pub fn place(&self, span: Span) -> String {
        let source = self.sources.get(span.file);
        let name = source.map_or("?", Source::name);
        if source.is_some_and(Source::is_readable) {
            let position = self.sources.position(span);
            format!("{name}:{}:{}", position.line, position.column)
        } else {
            name.to_owned()
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Look::Plain))
    }
}

impl std::error::Error for Report {}

/// Cuts a text that quotes a very long value, in its middle.
fn shorten(text: &mut String) {
    if text.len() <= 2 * SHOWN {
        return;
    }
    let (mut head, mut tail) = (SHOWN, text.len() - SHOWN);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    text.replace_range(head..tail, " … ");
}

/// A message without line breaks and other control characters.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn render_one(sources: &Sources, error: &SpecError, look: Look, out: &mut String) {
    let level = if error.class == Class::Warning { Level::WARNING } else { Level::ERROR };
    let title = one_line(&error.message);
    let place = sources.position(error.span);
    let mut main = level.primary_title(&title).elements(std::iter::empty::<Snippet<'_, Annotation<'_>>>());
    if is_quotable(sources, error) {
        for snippet in snippets(sources, error) {
            main = main.element(snippet);
        }
    } else if let Some(source) = sources.get(error.span.file) {
        main = main.element(Origin::path(source.name()).line(place.line).char_column(place.column));
    }
    let mut groups = vec![main];
    let help = error.help.as_deref().map(one_line);
    if let Some(help) = &help {
        groups.push(Group::with_title(Level::HELP.secondary_title(help)));
    }
    let renderer = match look {
        Look::Plain => Renderer::plain(),
        Look::Coloured => Renderer::styled(),
    };
    out.push_str(renderer.term_width(WIDTH).render(&groups).trim_end());
    out.push('\n');
}

/// Whether none of the lines with a mark is too long to be quoted: cutting it down costs more than it tells.
fn is_quotable(sources: &Sources, error: &SpecError) -> bool {
    let spans = error.related.iter().map(|(span, _)| *span).chain([error.span]);
    let mut lines = spans.filter_map(|span| Some(sources.get(span.file)?.line_of(span.start as usize).1));
    lines.all(|line| line.len() <= QUOTED)
}

/// The quoted source: one snippet per file, the file of the error itself first.
fn snippets<'a>(sources: &'a Sources, error: &'a SpecError) -> Vec<Snippet<'a, Annotation<'a>>> {
    let mut marks = vec![(error.span, error.label.as_deref(), true)];
    marks.extend(error.related.iter().map(|(span, label)| (*span, Some(label.as_str()), false)));
    let mut files: Vec<u16> = Vec::new();
    for (span, ..) in &marks {
        if !files.contains(&span.file) {
            files.push(span.file);
        }
    }
    files
        .into_iter()
        .filter_map(|file| sources.get(file).map(|source| (file, source)))
        .filter(|(_, source)| source.is_readable())
        .map(|(file, source)| snippet(source, marks.iter().filter(|mark| mark.0.file == file).copied()))
        .collect()
}

/// The lines of one file that hold the marks.
fn snippet<'a>(
    source: &'a Source,
    marks: impl Iterator<Item = (Span, Option<&'a str>, bool)> + Clone,
) -> Snippet<'a, Annotation<'a>> {
    let text = source.text();
    let ranges = marks.clone().map(|(span, ..)| visible(source, span));
    let first = ranges.clone().map(|r| r.start).min().unwrap_or(0);
    let last = ranges.map(|r| r.end).max().unwrap_or(0);
    let (line, window) = source.line_of(first);
    let end = source.line_of(last).1.end;
    let shown = text.get(window.start..end).unwrap_or("");
    let mut snippet = Snippet::source(shown).line_start(line + 1).path(source.name());
    for (span, label, primary) in marks {
        let range = visible(source, span);
        let kind = if primary { AnnotationKind::Primary } else { AnnotationKind::Context };
        let range = range.start - window.start..range.end - window.start;
        snippet = snippet.annotation(kind.span(range).label(label.map(one_line)));
    }
    snippet
}

/// The part of a span on its first line, on character boundaries.
fn visible(source: &Source, span: Span) -> std::ops::Range<usize> {
    let text = source.text();
    let mut start = (span.start as usize).min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let line = source.line_of(start).1;
    start = start.min(line.end);
    let mut end = (span.end as usize).clamp(start, line.end.max(start));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    start..end.max(start)
}

/// The known name that `name` was probably meant to be.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    let length = name.chars().count();
    let allowed = (length / 3).max(1);
    let lower = name.to_lowercase().replace('-', "_");
    known
        .into_iter()
        .filter(|other| other.len() <= LONGEST)
        // What differs more in length is further away; most known names are told apart by that.
        .filter(|other| other.chars().count().abs_diff(length) <= allowed)
        .map(|other| (strsim::damerau_levenshtein(&lower, &other.to_lowercase().replace('-', "_")), other))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other)
}

/// What to write instead of an unknown name: the nearest one, else the whole list when it is short.
pub(crate) fn suggest(name: &str, what: &str, known: &[&str]) -> Option<String> {
    const LISTED: usize = 12;
    let list = || known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    did_you_mean(name, known.iter().copied())
        .or_else(|| (1..=LISTED).contains(&known.len()).then(|| format!("the {what} are {}", list())))
}

/// "did you mean …", when something is near.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(|near| format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str, error: SpecError) -> Report {
        let mut sources = Sources::default();
        sources.add("thalweg.yaml", text);
        let mut problems = Problems::default();
        problems.push(error);
        problems.into_report(sources)
    }

    #[test]
    fn quotes_the_source_and_ends_with_help() {
        let error = SpecError::new(Class::Unknown, Span::new(0, 3..9), "unknown key `adress`")
            .help("did you mean `address`?");
        let report = report("a:\nadress: x\n", error);
        let text = report.render(Look::Plain);
        assert!(text.starts_with("error: unknown key `adress`\n"), "{text}");
        assert!(text.contains("thalweg.yaml:2:1") && text.contains("adress: x"), "{text}");
        assert!(text.contains("help: did you mean `address`?"), "{text}");
        assert_eq!(report.lines(), "thalweg.yaml:2:1: unknown key `adress`\n");
        assert!(report.render(Look::Coloured).contains('\u{1b}') && !text.contains('\u{1b}'));
    }

    #[test]
    fn never_shows_a_value_from_the_environment() {
        let span = Span { filled: true, ..Span::new(0, 3..7) };
        let error = SpecError::value(span, "duration", "`hunter2` is not a duration").help("hunter2s");
        let text = report("a: ${X}", error).render(Look::Plain);
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("not a valid duration"), "{text}");
    }

    #[test]
    fn shows_spans_that_do_not_fit_without_panic() {
        for range in [0..0, 900..901, 2..900, 1..2, 4..4] {
            let report = report("ä\nb", SpecError::new(Class::Invalid, Span::new(0, range), "x\ny"));
            assert!(report.render(Look::Plain).contains("thalweg.yaml:"));
        }
    }

    #[test]
    fn does_not_repeat_what_is_very_long() {
        let long = "ä".repeat(100_000);
        let error = SpecError::value(Span::new(0, 3..9), "duration", format!("`{long}` is not a duration"));
        let report = report(&format!("a: {long}\nb: 1\n"), error);
        let text = report.render(Look::Plain);
        assert!(text.len() < 1024 && text.contains("thalweg.yaml:1:4"), "{text}");
        assert!(text.contains("ä … ä") && text.contains("is not a duration"), "{text}");
    }

    #[test]
    fn guesses_near_names_only() {
        let known = ["address", "protocol", "round_robin"];
        assert_eq!(nearest("adress", known), Some("address"));
        assert_eq!(nearest("Round-Robin", known), Some("round_robin"));
        assert_eq!(nearest("zzz", known), None);
    }

    #[test]
    fn colours_need_a_terminal_and_no_ban() {
        assert_eq!(Look::choose(true, None), Look::Coloured);
        assert_eq!(Look::choose(true, Some("1")), Look::Plain);
        assert_eq!(Look::choose(false, None), Look::Plain);
    }
}
