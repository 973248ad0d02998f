//! What sources find, and what documents and the process itself are kept from.

use super::*;
use thalweg_config::{Loaded, Offer, check_text, with_documents};
use thalweg_discovery::Document;

const FILE: &str = "\
listeners: { web: { address: '127.0.0.1:0' } }
metrics: { address: '127.0.0.1:9901' }
services: { inner: { discover: { dns: { name: inner.test, port: 80 } } } }
routes:
  - { name: inner, match: { host: inner.test }, to: inner, filters: [ { access: { allow: [ 192.0.2.1 ] } } ] }
";

/// A service of a document that is found, one that is written, and one that is as well guarded as the file's.
const DOCUMENT: &str = "\
services:
  found: { discover: { dns: { name: found.test, port: 80 } } }
  written: { endpoints: [ 'http://10.0.0.7' ] }
  guarded: { discover: { dns: { name: guarded.test, port: 80 } } }
  named: { endpoints: [ 'http://named.test' ] }
routes:
  - { name: found, match: { host: found.test }, to: found }
  - { name: written, match: { host: written.test }, to: written }
  - { name: named, match: { host: named.test }, to: named }
  - { name: guarded, match: { host: guarded.test }, to: guarded, filters: [ { access: { allow: [ 192.0.2.1 ] } } ] }
";

fn loaded() -> Loaded {
    loaded_of(FILE, DOCUMENT)
}

fn loaded_of(file: &str, document: &str) -> Loaded {
    let alone = check_text("a.yaml", file, &|_| None).unwrap_or_else(|report| panic!("{}", report.lines()));
    let documents = [Document { name: "a".into(), text: document.into() }].into();
    let (good, refused) = (Arc::default(), Arc::default());
    let offer = Offer { source: "etcd".into(), documents, good, refused };
    let merged = with_documents(alone, ("a.yaml", file.as_bytes()), &|_| None, (&[offer], &|_| None));
    assert!(merged.flaws.is_empty(), "{:?}", merged.flaws);
    merged.loaded
}

fn base() -> Base {
    base_of(FILE, DOCUMENT)
}

fn base_of(file: &str, document: &str) -> Base {
    let loaded = loaded_of(file, document);
    let found = (&loaded.settings.discover, &FoundSets::default());
    Base::with_documents(loaded.plan, found, loaded.apart)
}

fn id(base: &Base, service: &str) -> Arc<str> {
    let mut sources = base.sources();
    sources.find(|(known, _)| &*known.name == service).map(|(_, discover)| discover.id.clone()).unwrap()
}

fn take(base: &mut Base, service: &str, hosts: &[&str]) -> TakenSet {
    let found = hosts.iter().map(|host| Found::at(*host, 80)).collect();
    base.take_found(&id(base, service), found)
}

fn endpoints(base: &Base, service: &str) -> Vec<String> {
    let service = base.services.iter().find(|known| &*known.name == service).unwrap();
    service.endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect()
}

#[test]
fn what_is_found_later_leads_no_document_past_a_protection_of_the_file() {
    let mut base = base();
    take(&mut base, "inner", &["10.0.0.1", "10.0.0.2"]);
    let taken = take(&mut base, "found", &["10.0.0.2", "10.0.0.3"]);
    assert_eq!(endpoints(&base, "found"), ["10.0.0.3:80"]);
    assert_eq!(
        taken.flaw.as_deref(),
        Some(
            "`http://10.0.0.2:80` is left out: the route `found` has no `access` of the file; it is one of the service \
             `inner`"
        )
    );
    // The other way round: it is the file's from now on.
    let taken = take(&mut base, "inner", &["10.0.0.3"]);
    assert_eq!(endpoints(&base, "found"), ["10.0.0.2:80"]);
    assert_eq!(
        taken.services.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["inner", "found", "written", "named"]
    );
    assert_eq!(taken.flaw, None, "it is one of another source");
    assert_eq!(endpoints(&base, "inner"), ["10.0.0.3:80"]);
    // Who has the same protection may have the same endpoints.
    take(&mut base, "guarded", &["10.0.0.3"]);
    assert_eq!(endpoints(&base, "guarded"), ["10.0.0.3:80"]);
    assert!(!base.take_crossed());
}

#[test]
fn health_checks_of_a_document_ask_no_endpoint_of_the_file_at_their_port() {
    let checked = "  checked: { discover: { dns: { name: checked.test, port: 81 } }, health: { path: /up, port: 80 } }\nroutes:";
    let mut base = base_of(FILE, &DOCUMENT.replace("routes:", checked));
    take(&mut base, "inner", &["10.0.0.1"]);
    let found = ["10.0.0.1", "10.0.0.2"].map(|host| Found::at(host, 81));
    let source = id(&base, "checked");
    let taken = base.take_found(&source, found.into());
    assert_eq!(endpoints(&base, "checked"), ["10.0.0.2:81"]);
    let told = taken.flaw.unwrap();
    assert!(told.contains("nothing stands before health checks of the service `checked`"), "{told}");
}

/// Listeners that ask something of clients guard as filters do.
#[test]
fn what_is_found_later_leads_no_document_past_the_access_of_a_listener() {
    let file = FILE.replace(", filters: [ { access: { allow: [ 192.0.2.1 ] } } ]", ", listeners: [ inside ]");
    let file = file.replace(
        "listeners: { web:",
        "listeners: { inside: { address: '127.0.0.1:0', access: { allow: [ 192.0.2.1 ] } }, web:",
    );
    let mut base = base_of(&file, DOCUMENT);
    take(&mut base, "inner", &["10.0.0.1"]);
    let taken = take(&mut base, "found", &["10.0.0.1", "10.0.0.2"]);
    assert_eq!(endpoints(&base, "found"), ["10.0.0.2:80"]);
    assert_eq!(
        taken.flaw.as_deref(),
        Some(
            "`http://10.0.0.1:80` is left out: the listener `web` of the route `found` has no `access` of the file; it is \
             one of the service `inner`"
        )
    );
}

/// The address of a host name is known only after resolution.
#[test]
fn host_names_of_documents_are_kept_off_what_the_file_protects() {
    let mut base = base();
    let kept_off = |base: &Base, service: &str| -> Vec<String> {
        let service = base.services.iter().find(|known| &*known.name == service).unwrap();
        service.kept_off.iter().map(ToString::to_string).collect()
    };
    assert!(kept_off(&base, "named").is_empty());
    take(&mut base, "inner", &["10.0.0.1", "::ffff:10.0.0.2"]);
    assert_eq!(kept_off(&base, "named"), ["10.0.0.1:80", "[::ffff:10.0.0.2]:80"]);
    assert!(kept_off(&base, "guarded").is_empty() && kept_off(&base, "inner").is_empty());
    // All spellings of a discovered address count as one.
    take(&mut base, "found", &["10.0.0.2", "::ffff:10.0.0.1", "10.0.0.3"]);
    assert_eq!(endpoints(&base, "found"), ["10.0.0.3:80"]);
}

#[test]
fn a_plan_that_takes_over_keeps_documents_from_what_is_known_already() {
    let mut before = base();
    take(&mut before, "inner", &["10.0.0.1"]);
    take(&mut before, "found", &["10.0.0.1", "10.0.0.4"]);
    let loaded = loaded();
    let found = (&loaded.settings.discover, before.found());
    let base = Base::with_documents(loaded.plan, found, loaded.apart);
    assert_eq!(endpoints(&base, "found"), ["10.0.0.4:80"]);
    assert_eq!(endpoints(&base, "inner"), ["10.0.0.1:80"]);
}

#[test]
fn an_endpoint_that_a_document_writes_and_the_file_finds_later_is_told() {
    let mut base = base();
    take(&mut base, "inner", &["10.0.0.1"]);
    assert!(!base.take_crossed());
    take(&mut base, "inner", &["10.0.0.7"]);
    assert!(base.take_crossed() && !base.take_crossed());
}

#[test]
fn what_is_found_is_never_the_process_itself() {
    let mut base = base();
    let found = ["127.0.0.1", "10.0.0.1", "::1"].map(|host| Found::at(host, 9901));
    let source = id(&base, "inner");
    let taken = base.take_found(&source, found.into());
    assert_eq!(endpoints(&base, "inner"), ["10.0.0.1:9901"]);
    let told = taken.flaw.unwrap();
    assert!(told.ends_with("is left out: it is the admin API or the metrics"), "{told}");
}

/// Two URLs, logins or search domains are two sources, whatever their words.
#[test]
fn a_source_of_a_document_puts_nothing_into_a_service_of_the_file() {
    let url =
        |rest: &str| format!("{{ discover: {{ http: {{ url: 'http://127.0.0.1:9/reg?svc={rest} }} }} }}");
    let dns = |search: &str| format!("{{ discover: {{ dns: {{ name: x, port: 80, search: {search} }} }} }}");
    let file = format!(
        "listeners: {{ web: {{ address: '127.0.0.1:0' }} }}\n\
         services: {{ a: {}, b: {}, c: {} }}\n\
         routes: [ {{ match: {{ path: /a }}, to: a }}, {{ match: {{ path: /b }}, to: b }}, {{ to: c }} ]\n",
        url("a', token: { value: t }"),
        url("b'"),
        dns("one.test"),
    );
    let document = format!("services: {{ e: {}, f: {}, g: {} }}", url("evil'"), url("a'"), dns("two.test"));
    let loaded = loaded_of(&file, &document);
    let again = |found: &FoundSets| {
        let loaded = loaded_of(&file, &document);
        Base::with_documents(loaded.plan, (&loaded.settings.discover, found), loaded.apart)
    };
    let mut base =
        Base::with_documents(loaded.plan, (&loaded.settings.discover, &FoundSets::default()), loaded.apart);
    for (at, service) in ["a", "b", "c", "e", "f", "g"].iter().enumerate() {
        take(&mut base, service, &[format!("10.0.0.{at}").as_str()]);
    }
    for base in [again(base.found()), base] {
        for (at, service) in ["a", "b", "c", "e", "f", "g"].iter().enumerate() {
            assert_eq!(endpoints(&base, service), [format!("10.0.0.{at}:80")], "{service}");
        }
    }
}

#[test]
fn a_service_of_the_file_goes_on_with_what_is_known_when_its_login_changes() {
    let service = |rest: &str| format!("{{ discover: {{ http: {{ url: 'http://127.0.0.1:9/{rest} }} }} }}");
    let base = |(file, document): (&str, &str), found: &FoundSets| {
        let file = format!(
            "listeners: {{ web: {{ address: '127.0.0.1:0' }} }}\n\
             services: {{ a: {} }}\nroutes: [ {{ to: a }} ]\n",
            service(file)
        );
        let loaded = loaded_of(&file, &format!("services: {{ d: {} }}", service(document)));
        Base::with_documents(loaded.plan, (&loaded.settings.discover, found), loaded.apart)
    };
    let mut first = base(("x?a', token: { value: one }", "y', token: { value: one }"), &FoundSets::default());
    take(&mut first, "a", &["10.0.0.1"]);
    take(&mut first, "d", &["10.0.0.2"]);
    let next = base(("x?a', token: { value: two }, interval: 9s", "y'"), first.found());
    assert_eq!(endpoints(&next, "a"), ["10.0.0.1:80"]);
    assert!(endpoints(&next, "d").is_empty(), "a document without the login has nothing that it found");
    let other = base(("x?b', token: { value: one }", "y'"), first.found());
    assert!(endpoints(&other, "a").is_empty(), "another URL");
}
