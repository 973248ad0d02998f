//! The property suite of filters: every entry of the list is read from its example, and keeps what
//! the upstream relies on, whatever path comes.

#![expect(clippy::unwrap_used, reason = "a test: a panic is the report")]

use proptest::prelude::*;
use thalweg_config::check_text;
use thalweg_filter::{ALL, RequestEdit};

fn plan_with(name: &str, example: &str) -> thalweg_config::Loaded {
    let text = format!(
        "listeners: {{ web: {{ address: \":0\" }} }}\n\
         routes: [ {{ filters: [ {{ {name}: {example} }} ], to: [ \"http://127.0.0.1:1\" ] }} ]\n"
    );
    check_text("filter.yaml", &text, &|_| None).map_err(|report| report.lines()).unwrap()
}

#[test]
fn every_filter_is_described_and_its_example_compiles() {
    assert!(!ALL.is_empty());
    for entry in ALL {
        let loaded = plan_with(entry.name, entry.example);
        assert_eq!(loaded.plan.routes[0].filters[0].name(), entry.name);
        assert!(entry.about.len() > 20, "{}", entry.name);
    }
}

proptest! {
    /// A path stays a path: it begins with one slash, keeps no control bytes, and does not grow without reason.
    #[test]
    fn every_filter_leaves_a_path_a_path(segments in prop::collection::vec("[a-z]{0,3}|products|%2F", 1..6)) {
        let path = format!("/{}", segments.join("/"));
        for entry in ALL {
            let loaded = plan_with(entry.name, entry.example);
            let mut edited = path.clone().into_bytes();
            loaded.plan.routes[0].filters[0].on_request(&mut RequestEdit { path: &mut edited }).unwrap();
            prop_assert!(edited.starts_with(b"/"), "{}: {path}", entry.name);
            prop_assert!(edited.iter().all(|byte| byte.is_ascii_graphic()));
        }
    }
}
