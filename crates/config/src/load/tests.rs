//! The whole way from text to plan.

use super::*;
use crate::diagnose::Look;
use proptest::prelude::*;
use std::time::Duration;
use thalweg_upstream::HostRule;

fn check(text: &str) -> Result<Loaded, Report> {
    check_text("a.yaml", text, &|_| None)
}

/// A complete file in each format.
const FULL: [(&str, &str); 3] = [
    ("a.yaml", include_str!("../../../../tests/config/good/full.yaml")),
    ("a.json", include_str!("../../../../tests/config/good/full.json")),
    ("a.toml", include_str!("../../../../tests/config/good/full.toml")),
];

#[test]
fn the_smallest_file_is_a_plan() {
    let text = "listeners: { web: { address: \":8080\" } }\nroutes:\n  - to: [ \"http://127.0.0.1:9001\", \"http://127.0.0.1:9002\" ]\n";
    let loaded = check(text).unwrap();
    assert_eq!(&*loaded.plan.listeners[0].name, "web");
    assert_eq!(&*loaded.plan.routes[0].name, "route 1");
    assert_eq!(loaded.plan.services[0].endpoints.len(), 2);
    assert_eq!(loaded.settings, Settings::default());
    assert!(loaded.warnings.errors.is_empty());
}

#[test]
fn timeouts_come_from_route_then_service_then_defaults() {
    let text = "listeners: { web: { address: \":1\" } }\ndefaults: { timeouts: { connect: 1s, idle: 9s, head: 3s } }\nservices: { a: { endpoints: [ \"http://b\" ], host: endpoint, timeouts: { connect: 4s, first_byte: 5s } } }\nroutes: [ { to: a, timeouts: { first_byte: 7s } } ]\n";
    let plan = check(text).unwrap().plan;
    let timeouts = plan.routes[0].timeouts;
    assert_eq!(timeouts.connect, Duration::from_secs(4));
    assert_eq!(timeouts.first_byte, Duration::from_secs(7));
    assert_eq!(timeouts.idle, Duration::from_secs(9));
    assert_eq!(plan.client_timeouts.head, Duration::from_secs(3));
    assert_eq!(plan.client_timeouts.keep_alive, Duration::from_secs(75));
    assert_eq!(plan.services[0].host, HostRule::Endpoint);
}

#[test]
fn references_to_wrong_services_are_not_reported_twice() {
    let text =
        "listeners: { web: { address: \":1\" } }\nroutes: [ { to: a } ]\nservices: { a: { endpoints: 5 } }\n";
    let report = check(text).unwrap_err();
    assert_eq!(report.errors.len(), 1, "{report}");
}

#[test]
fn the_environment_is_never_shown() {
    let text = "listeners: { web: { address: \"${A}\" } }\nroutes: [ { to: \"${B}\", match: { host: \"${A}\", methods: [ \"${A}\" ] } } ]\n";
    let report = check_text("a.yaml", text, &|_| Some("hunter2 hunter2".into())).unwrap_err();
    let shown = report.to_string() + &report.lines() + &format!("{:?}", report.errors);
    assert!(!shown.contains("hunter2"), "{shown}");
    assert_eq!(report.errors.len(), 4, "{shown}");
}

#[test]
fn no_secret_is_in_what_was_loaded_as_people_see_it() {
    let text = "listeners: { web: { address: \":1\" } }\nadmin: { address: \"127.0.0.1:0\", token: { value: hunter2-hunter2-hunter2 }, read_token: { env: TOKEN } }\nservices: { a: { endpoints: [ \"http://b\" ], sticky: { secret: { env: KEY } } } }\nroutes: [ { to: a } ]\nwebhooks: [ { url: \"http://c/\", secret: { value: \"${KEY}\" } }, { url: \"http://c/\", secret: { value: \"${NONE:-hunter2-hunter2-hunter2}\" } } ]\nchains: { unused: [] }\n";
    let environment = |name: &str| match name {
        "KEY" => Some("hunter2-in-the-environment".to_owned()),
        "TOKEN" => Some("hunter2-reads-0123456789".to_owned()),
        _ => None,
    };
    let loaded = check_text("a.yaml", text, &environment).unwrap();
    let shown = format!("{loaded:?}\n{loaded:#?}\n{}{}", loaded.warnings, loaded.warnings.lines());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert_eq!(loaded.settings.webhooks.len(), 2);
    let report = check_text("a.yaml", &text.replace("services:", "servces:"), &environment).unwrap_err();
    let shown = format!("{report:?}\n{report}{}", report.lines());
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn another_secret_is_another_configuration() {
    let text = "listeners: { web: { address: \":1\" } }\nadmin: { address: \"127.0.0.1:0\", token: { env: S } }\nservices: { a: { endpoints: [ \"http://b\" ], sticky: { secret: { env: S } } } }\nroutes: [ { to: a } ]\nwebhooks: [ { url: \"http://c/\", secret: { env: S } } ]\n";
    let with = |secret: &str| check_text("a.yaml", text, &|_| Some(secret.to_owned())).unwrap();
    let (one, same, other) = (with("0123456789abcdef"), with("0123456789abcdef"), with("0123456789abcdeF"));
    assert!(one.plan.services[0] == same.plan.services[0] && one.settings == same.settings);
    assert!(one.plan.services[0] != other.plan.services[0]);
    assert!(one.settings.webhooks != other.settings.webhooks && one.settings.admin != other.settings.admin);
}

#[test]
fn looks_in_the_places_of_the_design() {
    let environment = |name: &str| match name {
        "XDG_CONFIG_HOME" => Some("/x".to_owned()),
        _ => None,
    };
    let found = |there: &str| find(None, &environment, &|path| path == Path::new(there));
    assert_eq!(found("thalweg.yaml"), Some("thalweg.yaml".into()));
    assert_eq!(found("/x/thalweg/thalweg.yaml"), Some("/x/thalweg/thalweg.yaml".into()));
    assert_eq!(found("/etc/thalweg/thalweg.yaml"), Some("/etc/thalweg/thalweg.yaml".into()));
    assert_eq!(found("/nothing"), None);
    let named = |name: &str| (name == "THALWEG_CONFIG").then(|| "/c".to_owned());
    assert_eq!(find(None, &named, &|_| false), Some("/c".into()));
    assert_eq!(find(Some(Path::new("e")), &named, &|_| false), Some("e".into()));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let report = load_file(Path::new("/nonexistent/thalweg.yaml")).unwrap_err();
    assert_eq!(
        report.lines(),
        "/nonexistent/thalweg.yaml: cannot read `/nonexistent/thalweg.yaml`: no such file\n"
    );
    assert!(load_file(Path::new("/")).unwrap_err().to_string().contains("directory"));
}

/// Every error lies inside the text, has a line, and can be shown.
fn sound(name: &str, bytes: &[u8]) {
    let Err(report) = check_bytes(name, bytes, &|name| (name.len() == 1).then(|| "x: [1".into())) else {
        return;
    };
    assert!(!report.errors.is_empty());
    for error in &report.errors {
        assert!(report.sources.get(error.span.file).is_some());
        assert!(report.sources.position(error.span).line >= 1);
        assert!(!error.message.is_empty() && !error.message.ends_with('.'), "{}", error.message);
    }
    assert_eq!(report.lines().lines().count(), report.errors.len());
    report.render(Look::Plain);
    report.render(Look::Coloured);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), format in 0..3usize) {
        sound(["a.yaml", "a.json", "a.toml"][format], &bytes);
    }

    #[test]
    fn random_punctuation_never_panics(text in "[-:{}\\[\\]\"'#&*!|>%@`$,.a0 \t\n\r=~?<ä]{0,60}", format in 0..3usize) {
        sound(["a.yaml", "a.json", "a.toml"][format], text.as_bytes());
    }

    #[test]
    fn mutated_examples_never_panic(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0..20usize, "[-:{}\\[\\]\"'#&*!|>$, a0\n~\t]{0,3}"), 1..6),
        format in 0..3usize,
    ) {
        let (name, text) = FULL[format];
        let mut bytes = text.as_bytes().to_vec();
        for (at, removed, inserted) in edits {
            let start = at.index(bytes.len().max(1)).min(bytes.len());
            let end = (start + removed).min(bytes.len());
            bytes.splice(start..end, inserted.bytes());
        }
        sound(name, &bytes);
    }
}
