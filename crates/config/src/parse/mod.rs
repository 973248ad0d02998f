//! Text → one node tree with spans, whatever the format.
//!
//! Called by `load` right after a file was read. Invariants of the tree: at most [`DEPTH`] levels,
//! [`NODES`] nodes and [`TEXT`] bytes of text, so that the stages behind may recurse; map keys are
//! unique; every span lies inside its file.

mod node;
mod toml;
mod yaml;

pub(crate) use node::core_schema;
pub use node::{Key, Kind, Node};

use crate::diagnose::{Class, Problems, SpecError};
use crate::source::{MOST, Source, Sources, Span};

/// Largest file, in bytes.
pub const FILE: usize = 4 * 1024 * 1024;
/// Deepest nesting of lists and maps.
pub const DEPTH: usize = 64;
/// Most nodes of a tree, after aliases are expanded.
pub const NODES: usize = 1_000_000;
/// Most bytes of text in a tree, after aliases and `${…}` are expanded.
pub const TEXT: usize = 16 * 1024 * 1024;

/// How a file is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// YAML 1.2.
    Yaml,
    /// JSON, read by the YAML parser.
    Json,
    /// TOML 1.0.
    Toml,
}

impl Format {
    /// By the extension of the file's name; YAML unless it is `json` or `toml`.
    pub fn of(name: &str) -> Self {
        match name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).as_deref() {
            Some("json") => Self::Json,
            Some("toml") => Self::Toml,
            _ => Self::Yaml,
        }
    }
}

/// Adds the bytes of a file to `sources`: too large, not UTF-8 and control characters are errors.
pub fn decode(name: &str, bytes: &[u8], sources: &mut Sources, problems: &mut Problems) -> Option<u16> {
    if bytes.len() > FILE {
        let file = sources.add_unreadable(name);
        let limit = FILE / 1024 / 1024;
        let message = format!("`{name}` is larger than {limit} MiB");
        problems.push(SpecError::new(Class::Unreadable, Span::new(file, 0..0), message));
        return None;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let file = sources.add(name, String::from_utf8_lossy(bytes));
            let bom = if bytes.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
            let at = error.valid_up_to().saturating_sub(bom);
            let message = format!("the file is not UTF-8: byte 0x{:02x}", bytes[error.valid_up_to()]);
            let help = "save the file as UTF-8";
            problems.push(SpecError::new(Class::Syntax, Span::new(file, at..at), message).help(help));
            return None;
        }
    };
    let file = sources.add(name, text);
    let Some(text) = sources.get(file).map(Source::text) else {
        let message = format!("`{name}` is one text too many: a configuration is read from at most {MOST}");
        problems.push(SpecError::new(Class::Syntax, Span::new(file, 0..0), message));
        return None;
    };
    let allowed = |c: char| matches!(c, '\t' | '\n' | '\r');
    let bad = text.char_indices().find(|(_, c)| c.is_ascii_control() && !allowed(*c));
    if let Some((at, c)) = bad {
        let message =
            format!("the control character U+{:04X} may not stand in a configuration", u32::from(c));
        problems.push(SpecError::new(Class::Syntax, Span::new(file, at..at + 1), message));
        return None;
    }
    Some(file)
}

/// Parses a file of `sources`. `None` when nothing can be read of it; the reason is in `problems`.
pub fn parse(file: u16, format: Format, sources: &Sources, problems: &mut Problems) -> Option<Node> {
    let text = sources.get(file)?.text();
    match format {
        Format::Yaml => yaml::parse(text, file, false, problems),
        Format::Json => yaml::parse(text, file, true, problems),
        Format::Toml => toml::parse(text, file, problems),
    }
}

/// The error of a tree that is too deep.
fn too_deep(span: Span) -> SpecError {
    SpecError::new(Class::Syntax, span, format!("nested more than {DEPTH} levels deep"))
}

/// The error of a key that stands twice in one map.
pub(crate) fn duplicate(key: &Key, first: Span) -> SpecError {
    SpecError::new(Class::Syntax, key.span, format!("the key `{}` is written twice", key.name))
        .label("again here")
        .related(first, "first here")
        .help("remove one of the two; nothing is merged")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(name: &str, bytes: &[u8]) -> String {
        let mut sources = Sources::default();
        let mut problems = Problems::default();
        if let Some(file) = decode(name, bytes, &mut sources, &mut problems) {
            parse(file, Format::of(name), &sources, &mut problems);
        }
        problems.into_report(sources).lines()
    }

    #[test]
    fn refuses_bytes_that_are_not_text() {
        assert_eq!(problem("a", b"a: b\nc: \xff\n"), "a:2:4: the file is not UTF-8: byte 0xff\n");
        assert!(problem("a", b"a: b\nc: \0\n").starts_with("a:2:4: the control character U+0000"));
        assert!(problem("a.toml", b"a = \"\x01\"").starts_with("a.toml:1:6: the control character"));
        assert!(problem("a", &vec![b'#'; FILE + 1]).contains("larger than 4 MiB"));
    }

    #[test]
    fn one_text_too_many_is_an_error_and_no_other_text() {
        let (mut sources, mut problems) = (Sources::default(), Problems::default());
        for _ in 0..MOST {
            sources.add("a", "");
        }
        assert_eq!(decode("b.yaml", b"routes: []", &mut sources, &mut problems), None);
        let report = problems.into_report(sources).lines();
        assert!(report.contains("`b.yaml` is one text too many"), "{report}");
    }

    #[test]
    fn refuses_deep_nesting_in_every_format() {
        for (name, text) in [
            ("a.yaml", format!("{}{}", "[".repeat(100), "]".repeat(100))),
            ("b.yaml", "- ".repeat(100)),
            ("a.json", format!("{{\"a\": {}1{}}}", "[".repeat(64), "]".repeat(64))),
            ("a.toml", format!("a = {}1{}", "[".repeat(70), "]".repeat(70))),
            ("b.toml", format!("{}a = 1", "a.".repeat(70))),
        ] {
            let found = problem(name, text.as_bytes());
            assert!(found.contains(":1:"), "{name}: {found}");
        }
    }

    #[test]
    fn chooses_the_format_by_extension() {
        assert_eq!(Format::of("x.JSON"), Format::Json);
        assert_eq!(Format::of("a.b/x.toml"), Format::Toml);
        assert_eq!(Format::of("thalweg.conf"), Format::Yaml);
        assert_eq!(Format::of("-"), Format::Yaml);
    }
}
