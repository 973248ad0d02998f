//! Why an answer, a document or a value cannot be read: kind and position, and none of its bytes.
//!
//! `GET /sources` shows these sentences to readers, and a server that is asked by mistake may answer anything. Used by
//! every source that reads JSON or YAML.

use serde_json::error::Category;

/// Why bytes are not the JSON that is asked for.
pub(crate) fn json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let kind = match error.classify() {
        // The name of a field that is asked for.
        Category::Data if text.starts_with("missing field") => {
            text.split(" at line").next().unwrap_or_default()
        }
        Category::Data => "a value has another type",
        Category::Eof => "it ends too early",
        Category::Syntax | Category::Io => "it is not in JSON",
    };
    match error.line() {
        0 => kind.to_owned(),
        line => format!("{kind} (line {line}, column {})", error.column()),
    }
}

/// Why a text is not the YAML that is asked for.
pub(crate) fn yaml(error: &serde_saphyr::Error) -> String {
    match error.location() {
        Some(place) => format!("it cannot be read at line {}, column {}", place.line(), place.column()),
        None => "it cannot be read".to_owned(),
    }
}

/// A text that is not shown.
pub(crate) fn value(text: &str) -> String {
    match text.chars().count() {
        1 => "a value of 1 character".to_owned(),
        count => format!("a value of {count} characters"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only errors are looked at")]
    struct WantedSpec {
        port: u16,
    }

    #[test]
    fn a_sentence_holds_no_byte_of_an_answer() {
        for (answer, why) in [
            ("{\"port\": \"hunter2\"}", "a value has another type (line 1, column 18)"),
            ("hunter2", "it is not in JSON (line 1, column 1)"),
            ("{\"hunter2\": 1}", "missing field `port` (line 1, column 14)"),
            ("{\"port\": 1", "it ends too early (line 1, column 10)"),
        ] {
            assert_eq!(json(&serde_json::from_str::<WantedSpec>(answer).unwrap_err()), why, "{answer}");
        }
        for text in ["port: hunter2", "hunter2", "{ hunter2", "a: b: hunter2"] {
            let why = yaml(&serde_saphyr::from_str::<WantedSpec>(text).unwrap_err());
            assert!(why.starts_with("it cannot be read") && !why.contains("hunter2"), "{text}: {why}");
        }
        assert_eq!(value("hunter2"), "a value of 7 characters");
    }
}
