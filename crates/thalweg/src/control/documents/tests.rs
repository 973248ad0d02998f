//! Which documents run, and what is told of the others.

use super::*;

fn documents(text: &str) -> Arc<[Document]> {
    [Document { name: "a".into(), text: text.into() }].into()
}

fn taken(text: &str, flaws: &[&str]) -> Accepted {
    let flaws = flaws.iter().map(|flaw| (*flaw).to_owned()).collect();
    let (question, running, good) = (Arc::from("etcd"), documents(text), documents(text));
    let sources = vec![AcceptedSource { question, running, good, flaws }];
    Accepted { sources, wait_for_found: false }
}

#[test]
fn what_comes_back_with_an_older_configuration_is_known_until_its_source_tells() {
    let mut all = Documents::default();
    all.put(&"other".into(), documents("new"));
    all.take(taken("old", &[]));
    assert!(all.are_running(&taken("old", &["a flaw"])) && !all.are_running(&taken("new", &[])));
    assert_eq!((all.told.len(), all.changes()), (1, 1));
    assert_eq!(all.told["etcd"].newest, documents("old"));
}

/// A service of the file whose endpoints are found, behind a filter.
const FILE: &str = "\
listeners: { web: { address: '127.0.0.1:0' } }
route_sources: [ { file: { path: routes } } ]
services: { inner: { discover: { dns: { name: inner.test, port: 80 } } } }
routes:
  - { name: inner, match: { host: inner.test }, to: inner, filters: [ { access: { allow: [ 192.0.2.1 ] } } ] }
";

#[test]
fn a_document_leaves_the_plan_when_the_file_protects_its_endpoint_and_comes_back() {
    let alone = || check_text("a.yaml", FILE, &|_| None).unwrap_or_else(|report| panic!("{report}"));
    let text = "services: { side: { endpoints: [ 'http://10.0.0.7' ] } }\n\
                routes: [ { name: side, match: { host: side.test }, to: side } ]";
    let (question, discover) =
        (alone().settings.route_sources[0].question.clone(), alone().settings.discover["inner"].clone());
    let (mut all, mut found) = (Documents::default(), FoundSets::default());
    all.put(&question, documents(text));
    let mut merge = |all: &mut Documents, hosts: &[&str]| {
        let set = hosts.iter().map(|host| thalweg_discovery::Found::at(*host, 80)).collect();
        found.put(&discover.id, set);
        let (loaded, accepted) = all.merge(alone(), ("a.yaml", FILE), &found);
        let is_other = !all.are_running(&accepted);
        all.take(accepted);
        let has_route = loaded.plan.routes.iter().any(|route| &*route.name == "side");
        (has_route, is_other, all.wait_for_found())
    };
    assert_eq!(merge(&mut all, &["10.0.0.1"]), (true, true, false));
    assert_eq!(merge(&mut all, &["10.0.0.1", "10.0.0.7"]), (false, true, true));
    assert!(all.flaws(&question)[0].contains("only the file may take protections away"));
    assert_eq!(merge(&mut all, &["10.0.0.7"]), (false, false, true), "it stays out");
    assert_eq!(merge(&mut all, &["10.0.0.1"]), (true, true, false), "it comes back");
    assert!(all.flaws(&question).is_empty());
}

#[test]
fn that_documents_are_behind_is_said_once() {
    let mut all = Documents::default();
    assert!(!all.take_behind());
    all.fall_behind();
    all.take(taken("old", &["a flaw"]));
    assert!(all.take_behind() && !all.take_behind());
}

#[test]
fn what_documents_wait_for_is_told_until_they_take_over() {
    let mut all = Documents::default();
    all.take(taken("old", &["a flaw"]));
    assert!(all.wait_for("a file") && !all.wait_for("a file") && all.wait_for("another"));
    assert_eq!(all.left_out("etcd"), ["documents of sources wait: another", "a flaw"]);
    all.take(taken("new", &[]));
    assert!(all.left_out("etcd").is_empty());
}

#[test]
fn of_many_flaws_it_is_told_how_many_more_there_are() {
    let flaws = |count: usize| in_sentences((0..count).map(|at| at.to_string()));
    assert_eq!(flaws(TOLD).len(), TOLD);
    assert_eq!(flaws(TOLD + 3).last().unwrap(), "… and 3 more");
    assert_eq!(flaws(TOLD + 3).len(), TOLD + 1);
}
