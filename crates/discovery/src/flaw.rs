//! Why an answer cannot be used: its kind and position, never bytes of it.
//!
//! A source can be told to ask any server, and its failures are shown to every reader of `/sources`. A sentence with a
//! part of the answer would show data of a server that this reader may not ask.

use serde_json::error::Category;

/// Why a text is not the JSON that is expected.
pub(crate) fn json(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        Category::Io => "it cannot be read",
        Category::Syntax => "it is not JSON",
        Category::Data => "a field is missing, or a value is of another kind",
        Category::Eof => "it ends too early",
    };
    // A value that was read before has no position.
    match error.line() {
        0 => kind.to_owned(),
        line => format!("{kind}, at line {line}, column {}", error.column()),
    }
}

/// Why a text is not the YAML that is expected.
pub(crate) fn yaml(error: &serde_saphyr::Error) -> String {
    let kind = "it is not YAML or JSON, or a value is missing or of another kind";
    match error.location().filter(|location| location.line() > 0) {
        None => kind.to_owned(),
        Some(location) => format!("{kind}, at line {}, column {}", location.line(), location.column()),
    }
}

/// A phrase that the server is known for, if `text` has it, in brackets after a space.
pub(crate) fn known(text: &str, phrases: &[&str]) -> String {
    let found = phrases.iter().find(|phrase| text.contains(**phrase));
    found.map(|phrase| format!(" ({phrase})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document;
    use crate::entry::entry;
    use crate::kept::only_document;

    #[test]
    fn a_position_is_told() {
        let of = |text: &str| json(&serde_json::from_str::<Vec<u8>>(text).unwrap_err());
        assert_eq!(
            of("[1,\n \"s3cret\"]"),
            "a field is missing, or a value is of another kind, at line 2, column 9"
        );
        assert_eq!(of("[s3cret"), "it is not JSON, at line 1, column 2");
        let value = serde_json::from_value::<u8>("s3cret".into()).unwrap_err();
        assert_eq!(json(&value), "a field is missing, or a value is of another kind");
        let of = |text: &str| yaml(&serde_saphyr::from_str::<Vec<u8>>(text).unwrap_err());
        assert!(of("- 1\n- s3cret").contains(", at line 2, column "), "{}", of("- 1\n- s3cret"));
        assert_eq!(known("etcdserver: no leader", &["denied", "no leader"]), " (no leader)");
        assert_eq!(known("s3cret", &["denied"]), "");
    }

    /// An answer of another server, which the source was told to ask, is not shown.
    #[test]
    fn no_answer_is_quoted() {
        for text in [
            "s3cret",
            "s3cret: s3cret",
            "{\"s3cret\": \"s3cret\"}",
            "[\"s3cret\"]",
            "[ { url: s3cret } ]",
            "- s3cret\n- [",
            "[ { url: 's3cret:1', tier: 12 } ]",
            "<html>s3cret</html>",
        ] {
            let found = document::endpoints(text.as_bytes()).map(drop);
            let entry = entry("key", text.as_bytes()).map(drop);
            let alone = only_document("a", text.as_bytes()).map(drop);
            for why in [found, entry, alone].into_iter().filter_map(Result::err) {
                assert!(!why.contains("s3cret"), "{text}: {why}");
            }
            assert!(document::endpoints(text.as_bytes()).is_err(), "{text}");
        }
    }
}
