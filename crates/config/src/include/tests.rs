//! Configurations in several files.

use super::*;
use crate::load::{Loaded, check_bytes};
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory for temporary files, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            Self(std::env::temp_dir().join(format!("thalweg-include-{}-{next}", std::process::id())));
        files.iter().for_each(|(name, text)| folder.write(name, text));
        folder
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The configuration in `thalweg.yaml`, or its one-line errors with paths relative to the folder.
    fn load(&self) -> Result<Loaded, String> {
        let main = self.0.join("thalweg.yaml");
        let environment = |name: &str| (name == "SITE").then(|| "a".to_owned());
        check_bytes(main.to_str().unwrap(), &fs::read(&main).unwrap(), &environment)
            .map_err(|report| self.relative(&report.lines()))
    }

    fn relative(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.display()), "")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const LISTENER: &str = "listeners: { web: { address: \":80\" } }\n";

fn route(name: &str) -> String {
    format!("routes: [ {{ name: {name}, match: {{ path: /{name} }}, to: [ \"http://127.0.0.1:1\" ] }} ]\n")
}

fn names(loaded: &Loaded) -> Vec<&str> {
    loaded.plan.routes.iter().map(|route| &*route.name).collect()
}

/// A main file that includes what is given, and these others.
fn with(include: &str, files: &[(&str, &str)]) -> Folder {
    let folder = Folder::new(files);
    folder.write("thalweg.yaml", &format!("include: {include}\n{LISTENER}{}", route("main")));
    folder
}

#[test]
fn lists_follow_each_other_in_byte_order_and_maps_are_joined() {
    let folder = with(
        "[ \"routes.d/*\", services.json ]",
        &[
            ("routes.d/10-a.yaml", &route("ten")),
            ("routes.d/9-b.toml", "[[routes]]\nname = \"nine\"\nmatch.path = \"/nine\"\nto = \"api\"\n"),
            ("routes.d/B.yaml", &route("capital")),
            ("routes.d/a.yaml", "# nothing yet\n"),
            ("services.json", "{ \"services\": { \"api\": { \"endpoints\": [\"http://127.0.0.1:2\"] } } }"),
        ],
    );
    let loaded = folder.load().unwrap();
    assert_eq!(names(&loaded), ["main", "ten", "nine", "capital"]);
    assert_eq!(&*loaded.plan.services[0].name, "api");
    assert!(loaded.warnings.errors.is_empty(), "{}", loaded.warnings);
    let files: Vec<_> =
        loaded.files.iter().map(|path| folder.relative(&path.display().to_string())).collect();
    let expected = [
        "thalweg.yaml",
        "routes.d/10-a.yaml",
        "routes.d/9-b.toml",
        "routes.d/B.yaml",
        "routes.d/a.yaml",
        "services.json",
    ];
    assert_eq!(files, expected);
}

#[test]
fn paths_are_relative_to_the_file_they_stand_in() {
    let folder = with(
        "[ sites/main.yaml ]",
        &[
            ("sites/main.yaml", "include: [ \"${SITE}/*.yaml\", ../other.yaml ]\n"),
            ("sites/a/x.yaml", &route("x")),
            ("a/y.yaml", &route("y")),
            ("other.yaml", &route("other")),
        ],
    );
    assert_eq!(names(&folder.load().unwrap()), ["main", "x", "other"]);
}

#[test]
fn the_same_key_twice_names_both_places() {
    let service = "services:\n  api: { endpoints: [ \"http://127.0.0.1:2\" ] }\n";
    let folder = with(
        "[ a.yaml, b.yaml ]",
        &[
            ("a.yaml", service),
            ("b.yaml", &format!("# here\n{service}listeners: {{ web: {{ address: \":81\" }} }}\n")),
        ],
    );
    let said = folder.load().unwrap_err();
    assert_eq!(
        said,
        "b.yaml:3:3: the key `api` is written twice, first in a.yaml:2\n\
         b.yaml:4:14: the key `web` is written twice, first in thalweg.yaml:2\n"
    );
}

#[test]
fn sections_without_names_stand_in_one_file() {
    let folder = with("[ a.yaml ]", &[("a.yaml", "workers: 2\nlimits: { max_fields: 5 }\n")]);
    assert!(folder.load().is_ok());
    folder.write("a.yaml", "workers: 2\nlimits:\n");
    folder.write("b.yaml", "limits: { max_fields: 5 }\nworkers: 2\n");
    folder.write("thalweg.yaml", &format!("include: [ a.yaml, b.yaml ]\n{LISTENER}{}", route("main")));
    let said = folder.load().unwrap_err();
    assert!(said.contains("b.yaml:1:1: the key `limits` is written twice, first in a.yaml:2\n"), "{said}");
    assert!(said.contains("b.yaml:2:1: the key `workers` is written twice, first in a.yaml:1\n"), "{said}");
}

#[test]
fn sections_of_the_wrong_shape_are_named_where_they_are() {
    for (text, said) in [
        ("routes: { a: 1 }\n", "a.yaml:1:9: `routes` must be a list\n"),
        ("listeners: []\n", "a.yaml:1:12: `listeners` must be a map\n"),
        ("[ 1 ]\n", "a.yaml:1:1: an included file is a map of sections such as `routes`\n"),
        ("include: x\n", "a.yaml:1:10: `include` must be a list\n"),
    ] {
        assert_eq!(with("[ a.yaml ]", &[("a.yaml", text)]).load().unwrap_err(), said, "{text}");
    }
}

#[test]
fn mistakes_are_shown_in_the_file_in_which_they_stand() {
    let folder = with(
        "[ a.yaml ]",
        &[("a.yaml", "\nservices:\n  api: { endpoints: [ \"http://127.0.0.1:2\" ], balanc: random }\n")],
    );
    assert_eq!(folder.load().unwrap_err(), "a.yaml:3:47: unknown key `balanc`\n");
    folder.write("a.yaml", "routes: [ {\n");
    let said = folder.load().unwrap_err();
    // Only that: what the file would have brought is not missed.
    assert!(said.starts_with("a.yaml:2:") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_pattern_without_files_is_a_warning_and_a_name_without_one_an_error() {
    let folder = with("[ \"none.d/*.yaml\" ]", &[]);
    let warnings = folder.load().unwrap().warnings;
    assert_eq!(
        folder.relative(&warnings.lines()),
        "thalweg.yaml:1:12: warning: no file matches this pattern\n"
    );
    for (include, said) in [
        ("[ none.yaml ]", "thalweg.yaml:1:12: cannot read `none.yaml`: no such file\n"),
        ("[ sub ]", "thalweg.yaml:1:12: cannot read `sub`: it is a directory\n"),
        (
            "[ \"sub/\" ]",
            "thalweg.yaml:1:12: the name of a file or a pattern such as `routes.d/*.yaml` is needed\n",
        ),
        ("[ \"a/**/b\" ]", "thalweg.yaml:1:12: `**` is not a pattern here; write a `*` for each directory\n"),
        ("[ /dev/zero ]", "thalweg.yaml:1:12: cannot read `/dev/zero`: it is not a regular file\n"),
        ("[ \"${NONE}\" ]", "thalweg.yaml:1:12: the variable `NONE` is not set\n"),
        ("a.yaml", "thalweg.yaml:1:10: `include` must be a list, found a string\n"),
    ] {
        let folder = with(include, &[("sub/a.yaml", "")]);
        assert_eq!(folder.load().unwrap_err(), said, "{include}");
    }
}

#[test]
fn a_file_that_includes_itself_is_an_error_with_the_way_there() {
    let folder = with(
        "[ a.yaml ]",
        &[("a.yaml", "include: [ sub/b.yaml ]\n"), ("sub/b.yaml", "include: [ ../a.yaml ]\n")],
    );
    let said = folder.load().unwrap_err();
    assert_eq!(said, "sub/b.yaml:1:12: a file includes itself: a.yaml → sub/b.yaml → sub/../a.yaml\n");
    let folder = with("[ \"*.yaml\" ]", &[]);
    assert!(folder.load().unwrap_err().contains("a file includes itself: thalweg.yaml → thalweg.yaml"));
}

#[test]
fn a_file_that_is_named_twice_is_read_once() {
    let folder =
        with("[ d/b.yaml, \"d/*.yaml\", link ]", &[("d/a.yaml", &route("a")), ("d/b.yaml", &route("b"))]);
    symlink("d/a.yaml", folder.0.join("link")).unwrap();
    assert_eq!(names(&folder.load().unwrap()), ["main", "b", "a"]);
}

#[test]
fn links_are_followed_and_what_editors_keep_is_not_read() {
    let folder = with(
        "[ \"d/*\", \"*/deep/*.yaml\" ]",
        &[("d/a.yaml", &route("a")), ("elsewhere/b.yaml", &route("b"))],
    );
    for name in ["a.yaml~", ".a.yaml.swp", ".hidden.yaml", "#a.yaml#", "a.swp"] {
        folder.write(&format!("d/{name}"), "not: [ yaml");
    }
    folder.write("d/sub/c.yaml", "not: [ yaml");
    symlink("../elsewhere/b.yaml", folder.0.join("d/b.yaml")).unwrap();
    symlink("../elsewhere", folder.0.join("d/deep")).unwrap();
    assert_eq!(names(&folder.load().unwrap()), ["main", "a", "b"]);
    // As a name it is read.
    folder.write("d/.hidden.yaml", &route("hidden"));
    folder.write("thalweg.yaml", &format!("include: [ d/.hidden.yaml ]\n{LISTENER}"));
    assert_eq!(names(&folder.load().unwrap()), ["hidden"]);
    // A link that leads nowhere is not passed over.
    folder.write("thalweg.yaml", &format!("include: [ \"d/*.yaml\" ]\n{LISTENER}"));
    symlink("nowhere", folder.0.join("d/z.yaml")).unwrap();
    assert!(folder.load().unwrap_err().contains("cannot read `d/z.yaml`: no such file"));
}

#[test]
fn includes_are_bounded_in_depth_number_and_size() {
    let folder = with("[ 1.yaml ]", &[]);
    for at in 1..DEPTH {
        folder.write(&format!("{at}.yaml"), &format!("include: [ {}.yaml ]\n", at + 1));
    }
    folder.write(&format!("{DEPTH}.yaml"), "");
    let said = folder.load().unwrap_err();
    assert!(said.contains(&format!("nested more than {DEPTH} files deep")), "{said}");
    folder.write(&format!("{}.yaml", DEPTH - 1), "");
    assert!(folder.load().is_ok());

    let folder = with("[ \"d/*\" ]", &[]);
    (1..FILES).for_each(|at| folder.write(&format!("d/{at}.yaml"), ""));
    assert_eq!(folder.load().unwrap().files.len(), FILES);
    folder.write("d/one-more", "");
    assert!(folder.load().unwrap_err().contains("at most 1000 files"));

    let comment = format!("#{}\n", "x".repeat(FILE - 2));
    let folder = with("[ \"d/*\" ]", &[]);
    (0..TOTAL / FILE).for_each(|at| folder.write(&format!("d/{at}"), &comment));
    assert!(folder.load().is_ok());
    folder.write("d/more", "#\n");
    assert!(folder.load().unwrap_err().contains("larger than 16 MiB together"));
    folder.write("d/0", &format!("{comment}#"));
    assert!(folder.load().unwrap_err().contains("larger than 4 MiB"));
}

#[test]
fn many_sections_in_two_files_take_no_longer_than_their_sum() {
    let section = |letter: &str| (0..100_000).map(|at| format!("{letter}{at}: 1\n")).collect::<String>();
    let folder = with("[ a.yaml, b.yaml ]", &[("a.yaml", &section("a")), ("b.yaml", &section("a"))]);
    assert!(folder.load().is_err());
}

#[test]
fn the_tag_follows_every_file_and_nothing_else() {
    let folder = with("[ \"d/*\" ]", &[("d/a.yaml", &route("a"))]);
    let before = folder.load().unwrap().inputs;
    assert_eq!(before.etag(), folder.load().unwrap().inputs.etag());
    assert!(!before.have_changed());
    folder.write("d/a.yaml", &route("b"));
    assert!(before.have_changed());
    let after = folder.load().unwrap().inputs;
    assert_ne!(before.etag(), after.etag());
    assert!(before.differ_in_included(&after) && !after.differ_in_included(&after.clone()));
    folder.write("d/b.yaml", "");
    assert!(after.have_changed());
    fs::remove_file(folder.0.join("d/b.yaml")).unwrap();
    assert!(!after.have_changed());
    fs::remove_file(folder.0.join("d/a.yaml")).unwrap();
    assert!(after.have_changed());
    assert_eq!(after.directories(), [folder.0.join("d")]);
}

#[test]
fn the_tag_of_one_file_is_that_of_its_text() {
    let text = format!("{LISTENER}{}", route("main"));
    let loaded = check_bytes("t.yaml", text.as_bytes(), &|_| None).unwrap();
    assert_eq!(loaded.inputs.etag().len(), 32);
    assert_eq!(loaded.files, [PathBuf::from("t.yaml")]);
    assert!(loaded.inputs.have_changed(), "there is no such file");
}
