//! Config goldens: every file under `tests/config/good` compiles, and every file under
//! `tests/config/bad` gives the diagnostic that stands beside it (`name.err`).
//!
//! `UPDATE_GOLDENS=1` writes the diagnostics anew.

#![expect(clippy::unwrap_used, reason = "a test: a panic is the report")]

mod certificates;

use std::path::{Path, PathBuf};
use thalweg_config::{Look, Report, check_bytes};

/// Variables that the files may use.
fn environment(name: &str) -> Option<String> {
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

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/config").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension != "err"))
        .collect();
    files.sort();
    files
}

fn check(path: &Path) -> Result<Report, Report> {
    check_as(path, &path.file_name().unwrap().to_string_lossy())
}

/// The same under this name: files beside it are found only by its whole path.
fn check_as(path: &Path, name: &str) -> Result<Report, Report> {
    check_bytes(name, &std::fs::read(path).unwrap(), &environment).map(|loaded| loaded.warnings)
}

#[test]
fn good_files_compile_without_a_warning() {
    let files = files("good");
    assert!(files.len() >= 8);
    for path in files {
        match check(&path) {
            Ok(warnings) => assert!(warnings.errors.is_empty(), "{warnings}"),
            Err(report) => panic!("{report}"),
        }
    }
}

#[test]
fn the_examples_compile_without_a_warning() {
    let (whole, of_filters) = (files("../../examples"), files("../../examples/filters"));
    let of_sources = files("../../examples/discovery");
    assert!(whole.len() >= 6 && of_filters.len() >= 2 && of_sources.len() >= 9);
    for path in whole.into_iter().chain(of_filters).chain(of_sources) {
        match check_as(&path, path.to_str().unwrap()) {
            Ok(warnings) => assert!(warnings.errors.is_empty(), "{warnings}"),
            Err(report) => panic!("{report}"),
        }
    }
}

/// Examples of several files stand in directories, each with a `thalweg.yaml`.
#[test]
fn the_examples_of_several_files_compile_without_a_warning() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let directories = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mains: Vec<PathBuf> =
        directories.map(|path| path.join("thalweg.yaml")).filter(|path| path.exists()).collect();
    assert!(!mains.is_empty());
    for path in mains {
        let name = path.to_str().unwrap();
        let loaded = check_bytes(name, &std::fs::read(&path).unwrap(), &environment).unwrap();
        assert!(loaded.warnings.errors.is_empty(), "{}", loaded.warnings);
        assert!(loaded.files.len() > 1);
    }
}

#[test]
fn bad_files_give_the_diagnostic_beside_them() {
    let files = files("bad");
    assert!(files.len() >= 40, "{}", files.len());
    let update = std::env::var_os("UPDATE_GOLDENS").is_some();
    let mut wrong = Vec::new();
    for path in files {
        let report = match check(&path) {
            Ok(warnings) if !warnings.errors.is_empty() => warnings,
            Ok(_) => panic!("{} is not bad", path.display()),
            Err(report) => report,
        };
        let rendered = format!("{}\n{}", report.render(Look::Plain), report.lines());
        assert!(!rendered.contains("hunter2"), "{rendered}");
        // Paths are shown whole; the files of this test have no folder of their own.
        let here = std::env::current_dir().unwrap();
        let rendered = rendered.replace(here.parent().unwrap().parent().unwrap().to_str().unwrap(), "/here");
        let golden = path.with_added_extension("err");
        if update {
            std::fs::write(&golden, rendered).unwrap();
        } else if std::fs::read_to_string(&golden).unwrap_or_default() != rendered {
            wrong.push(format!("{}:\n{rendered}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "run with UPDATE_GOLDENS=1 and look at the change:\n{}", wrong.join("\n"));
}
