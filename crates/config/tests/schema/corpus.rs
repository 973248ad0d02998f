//! The files of the project as documents, and both verdicts on a document.

use super::certificates;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use thalweg_config::diagnose::Problems;
use thalweg_config::interpolate::interpolate;
use thalweg_config::parse::{Format, decode, parse};
use thalweg_config::{Loaded, Report, Sources, SpecError, check_bytes, schema};

/// The schema.
pub(crate) static SCHEMA: LazyLock<Value> = LazyLock::new(schema::value);

static VALIDATOR: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::draft202012::new(&SCHEMA).unwrap());

/// Variables that the files may use.
pub(crate) fn environment(name: &str) -> Option<String> {
    match name {
        "PORT" => Some("8080".into()),
        "UPSTREAM" => Some("http://127.0.0.1:9001".into()),
        "SECRET" => Some("hunter2".into()),
        "SIGNING" => Some("hunter2hunter2hunter2".into()),
        "SEAL_KEY" => Some("0123456789abcdef".repeat(8)),
        certificates::VARIABLE => Some(certificates::folder()),
        _ => None,
    }
}

/// The files of a folder below `tests/config`, except what stands beside them.
pub(crate) fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/config").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && path.extension().is_some_and(|extension| extension != "err"))
        .collect();
    files.sort();
    files
}

/// What the file holds; `None` when it is no document at all.
pub(crate) fn document(path: &Path) -> Option<Value> {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let name = path.file_name().unwrap().to_string_lossy();
    let file = decode(&name, &std::fs::read(path).unwrap(), &mut sources, &mut problems)?;
    let node = parse(file, Format::of(&name), &sources, &mut problems)?;
    problems.is_clean().then(|| schema::instance(&node))
}

/// Whether the schema lets a document pass.
pub(crate) fn fits(document: &Value) -> bool {
    VALIDATOR.is_valid(document)
}

/// Where and why it does not.
pub(crate) fn reasons(document: &Value) -> String {
    let errors = VALIDATOR.iter_errors(document);
    errors.map(|error| format!("{}: {error}\n", error.instance_path())).collect()
}

/// What the parser says of it, from the text to the plan.
pub(crate) fn check(document: &Value) -> Result<Loaded, Report> {
    check_bytes("document.json", document.to_string().as_bytes(), &environment)
}

/// What is wrong with it as far as the specs can tell, without validation.
pub(crate) fn read(document: &Value) -> Vec<String> {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let bytes = document.to_string().into_bytes();
    let file = decode("document.json", &bytes, &mut sources, &mut problems);
    if let Some(mut node) = file.and_then(|file| parse(file, Format::Json, &sources, &mut problems)) {
        interpolate(
            &mut node,
            &environment,
            &mut thalweg_config::interpolate::Filled::default(),
            &mut problems,
        );
        thalweg_config::spec::read(&mut node, &mut problems);
    }
    messages(&problems.into_report(sources))
}

/// What is said of a value that the environment has filled in, whatever it is.
pub(crate) const FILLED: &str = "the environment's value";

/// The errors, without their places.
pub(crate) fn messages(report: &Report) -> Vec<String> {
    let said = |error: &SpecError| if error.span.filled { FILLED.to_owned() } else { error.message.clone() };
    report.errors.iter().map(said).collect()
}
