//! Reading specs: every mistake is found, each once, at its place.

use super::*;
use crate::parse::{Format, parse};
use crate::source::Sources;

fn read_text(text: &str) -> (Option<FileSpec>, String) {
    let mut sources = Sources::default();
    let file = sources.add("a.yaml", text);
    let mut problems = Problems::default();
    let mut node = parse(file, Format::Yaml, &sources, &mut problems).unwrap();
    let environment = |name: &str| (name == "N").then(|| "8".to_owned());
    crate::interpolate::interpolate(&mut node, &environment, &mut Default::default(), &mut problems);
    let spec = read(&mut node, &mut problems).0;
    (spec, problems.into_report(sources).lines())
}

#[test]
fn reports_every_mistake_in_one_reading() {
    let text = "workers: many\nlisteners:\n  web: { adress: ':80' }\n  b: { address: 5 }\nroutes:\n  - to: x\n    filters: [ { strip: /a } ]\n    match: { methods: 5 }\nlimits: { max_head: 64 }\nbogus: 1\n";
    let (spec, lines) = read_text(text);
    assert!(spec.is_some());
    let places: Vec<&str> = lines.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(
        places,
        [
            "a.yaml:1:10",
            "a.yaml:3:10",
            "a.yaml:4:17",
            "a.yaml:7:18",
            "a.yaml:8:23",
            "a.yaml:9:21",
            "a.yaml:10:1"
        ],
        "{lines}"
    );
}

#[test]
fn a_key_that_is_missing_because_its_value_was_wrong_is_not_reported() {
    let lines = read_text("listeners: { web: { address: [] } }\n").1;
    assert_eq!(lines, "a.yaml:1:30: `address` must be a string, found a list\n");
    assert!(read_text("listeners: { web: {} }\n").1.contains("the key `address` is missing in `web`"));
}

#[test]
fn the_value_of_a_choice_that_could_not_be_filled_in_is_one_mistake() {
    let text = "listeners: { web: { address: ':1' } }\nroutes: [ { to: a, filters: [ { strip_prefix: \"${UNSET}\" } ] } ]\n";
    assert_eq!(read_text(text).1, "a.yaml:2:47: the variable `UNSET` is not set\n");
}

#[test]
fn keys_of_the_design_are_not_available_rather_than_unknown() {
    let text = "listeners: { web: { address: ':1', http3: true } }\nroutes: [ { to: b, filters: [ waf: {} ], retry: {} } ]\nservices: { b: { endpoints: [] } }\n";
    let lines = read_text(text).1;
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(lines.lines().all(|line| line.ends_with("is not available in this version")), "{lines}");
}

#[test]
fn a_value_from_the_environment_fits_number_and_string() {
    let (spec, lines) = read_text(
        "workers: ${N}\nstate: { path: \"${N}\" }\nlimits: { max_connections: \"${N}\", max_fields: \"${N}\" }\nuser: ${N}\n",
    );
    assert_eq!(lines, "");
    let spec = spec.unwrap();
    assert_eq!(spec.workers.unwrap().value, AutoSpec::Number(8));
    assert_eq!(spec.limits.max_connections.unwrap().value, AutoSpec::Number(8));
    assert_eq!(spec.limits.max_fields.unwrap().value, 8);
    assert_eq!(spec.user.unwrap().value, "8");
    let path = spec.state.path.unwrap();
    assert!(path.value == "8" && path.span.filled);
}

#[test]
fn empty_sections_are_sections_without_entries() {
    let (spec, lines) = read_text("limits:\ndefaults:\n  timeouts:\nadmin: ~\n");
    assert_eq!(lines, "");
    assert!(spec.unwrap().admin.is_none());
    assert!(read_text("").0.is_some());
}

#[test]
fn a_root_that_is_no_map_is_one_error() {
    assert_eq!(read_text("[1]").1.lines().count(), 1);
    assert_eq!(read_text("x").1.lines().count(), 1);
}
