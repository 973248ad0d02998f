//! The files of the project.

use super::corpus::{document, files, fits, reasons};

/// What makes an editor read the schema beside an example.
const HINT: &str = "# yaml-language-server: $schema=../docs/reference/schema.json";

#[test]
fn the_schema_is_itself_valid() {
    assert!(jsonschema::draft202012::meta::is_valid(&super::corpus::SCHEMA));
}

#[test]
fn good_files_fit() {
    let files = files("good");
    assert!(files.len() >= 8);
    for path in files {
        let document = document(&path).unwrap();
        assert!(fits(&document), "{}:\n{}", path.display(), reasons(&document));
    }
}

#[test]
fn examples_fit_and_tell_editors_so() {
    let (whole, of_filters) = (files("../../examples"), files("../../examples/filters"));
    assert!(whole.len() >= 6 && of_filters.len() >= 2);
    for path in whole.iter().chain(&of_filters) {
        let document = document(path).unwrap();
        assert!(fits(&document), "{}:\n{}", path.display(), reasons(&document));
    }
    for path in whole {
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().next(), Some(HINT), "{}", path.display());
    }
}

#[test]
fn the_schema_in_the_docs_is_that_of_the_code() {
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/schema.json");
    let is_the_same = std::fs::read_to_string(schema).unwrap() == thalweg_config::schema::document();
    assert!(is_the_same, "run `cargo xtask gen` and commit the result");
}
