//! What counts as an operator's configuration, in memory and after a restart.

use super::*;
use crate::control::discovered::FoundSets;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use thalweg_admin::Author;
use thalweg_discovery::Found;

const NAME: &str = "a.yaml";
/// A guarded service whose endpoints are found.
const OPERATOR: &str = "\
listeners: { web: { address: '127.0.0.1:0' } }
services: { inner: { discover: { dns: { name: inner.test, port: 80 } } } }
routes:
  - { name: inner, match: { host: inner.test }, to: inner, filters: [ { access: { allow: [ 192.0.2.1 ] } } ] }
";
/// The same without the guarded route, and with an open one to a service that is found elsewhere.
const TOKEN: &str = "\
listeners: { web: { address: '127.0.0.1:0' } }
services: { other: { discover: { dns: { name: other.test, port: 80 } } } }
routes: [ { name: other, match: { host: inner.test }, to: other } ]
";

/// Another text of an operator.
const EDITED: &str =
    "listeners: { web: { address: '127.0.0.1:0' } }\nroutes: [ { to: [ 'http://127.0.0.1:1' ] } ]\n";

/// A directory of its own, removed in the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("thalweg-operator-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn start(&self, text: &str) -> Operator {
        Operator::open(Some(&self.0), None, (NAME, text))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The text as it runs, with these endpoints of every source.
fn base(text: &str, hosts: &[&str]) -> Base {
    let loaded = check_text(NAME, text, &|_| None).unwrap_or_else(|report| panic!("{}", report.lines()));
    let mut found = FoundSets::default();
    for discover in loaded.settings.discover.values() {
        found.put(&discover.id, hosts.iter().map(|host| Found::at(*host, 80)).collect());
    }
    Base::new(loaded.plan, &loaded.settings.discover, &found)
}

fn candidate(text: &str, operator: Option<Arc<Supplied>>) -> Candidate {
    let loaded = check_text(NAME, text, &|_| None).unwrap_or_else(|report| panic!("{}", report.lines()));
    Candidate { operator, ..Candidate::new(loaded, text.to_owned(), Default::default()) }
}

fn cause(origin: ConfigOrigin, via: Via) -> Cause {
    Cause { origin, by: Author { via, ..Author::default() }, ephemeral: false }
}

/// The operator's text after this one has taken over; `None`: it is the operator's.
fn after(operator: &Operator, (origin, via): (ConfigOrigin, Via), text: &str) -> Option<String> {
    let after = operator.after(NAME, (&cause(origin, via), &candidate(text, None)));
    after.map(|supplied| supplied.text().to_owned())
}

/// An operator's configuration that a token has replaced in the file.
fn changed(mut operator: Operator) -> Operator {
    let base = base(OPERATOR, &["10.0.0.1"]);
    operator.change((NAME, OPERATOR, &base), (Some(OPERATOR), TOKEN)).unwrap();
    operator
}

#[test]
fn the_text_of_a_token_is_not_the_operators_however_it_is_read_again() {
    let operator = changed(Operator::default());
    let kept = Some(OPERATOR.to_owned());
    for (cause, text, expected) in [
        ((ConfigOrigin::Put, Via::Token), EDITED, &kept),
        ((ConfigOrigin::Rollback, Via::Token), EDITED, &kept),
        ((ConfigOrigin::Source, Via::Process), TOKEN, &kept),
        ((ConfigOrigin::Reload, Via::Token), TOKEN, &kept),
        ((ConfigOrigin::Reload, Via::Socket), TOKEN, &kept),
        ((ConfigOrigin::Signal, Via::Process), TOKEN, &kept),
        ((ConfigOrigin::File, Via::Process), TOKEN, &kept),
        // An operator has edited the file, or sends the text.
        ((ConfigOrigin::Reload, Via::Token), EDITED, &None),
        ((ConfigOrigin::Signal, Via::Process), EDITED, &None),
        ((ConfigOrigin::Put, Via::Socket), TOKEN, &None),
        ((ConfigOrigin::Rollback, Via::Socket), TOKEN, &None),
        // A token has brought the operator's text back.
        ((ConfigOrigin::Put, Via::Token), OPERATOR, &None),
    ] {
        assert_eq!(&after(&operator, cause, text), expected, "{cause:?} {text}");
    }
    let (watch, before) = (cause(ConfigOrigin::Watch, Via::Process), operator.supplied());
    let back = operator.after(NAME, (&watch, &candidate(TOKEN, before))).unwrap();
    assert_eq!(back.text(), OPERATOR, "the token's text was the one before");
    assert!(operator.after(NAME, (&watch, &candidate(OPERATOR, None))).is_none());
}

#[test]
fn the_operators_text_survives_a_restart_with_the_file_of_a_token() {
    let place = Place::new();
    let mut operator = changed(place.start(OPERATOR));
    operator.change((NAME, TOKEN, &base(TOKEN, &[])), (Some(TOKEN), "routes: []")).unwrap();
    let told = |text: &str| place.start(text).supplied().map(|supplied| supplied.text().to_owned());
    // The process may have ended before the last text was written.
    for text in [TOKEN, "routes: []"] {
        assert_eq!(told(text).as_deref(), Some(OPERATOR), "{text}");
    }
    let passed = place.start(TOKEN).passed();
    let successor = Operator::open(None, Some(passed), (NAME, TOKEN));
    assert_eq!(successor.supplied().map(|supplied| supplied.text().to_owned()).as_deref(), Some(OPERATOR));
    assert_eq!(told("routes: [] # edited"), None);
    assert_eq!(told(TOKEN), None, "the operator's file was the last one");
}

#[test]
fn without_a_record_that_can_be_read_tokens_change_nothing() {
    let place = Place::new();
    fs::write(place.0.join(FILE), "{").unwrap();
    let mut operator = place.start(OPERATOR);
    let base = base(OPERATOR, &[]);
    for _ in 0..2 {
        assert!(matches!(operator.supplied().unwrap().plan(&base), Err(Refusal::Conflict(_))));
        let reload = (cause(ConfigOrigin::Reload, Via::Token), candidate(OPERATOR, None));
        operator.take(operator.after(NAME, (&reload.0, &reload.1)));
        operator = place.start(OPERATOR);
    }
    operator.take(None);
    assert!(!place.0.join(FILE).exists() && place.start(OPERATOR).supplied().is_none());
}

#[test]
fn endpoints_that_were_found_for_a_service_that_is_gone_stay_protected() {
    let place = Place::new();
    drop(changed(place.start(OPERATOR)));
    let operator = place.start(TOKEN).supplied().unwrap();
    let now = base(TOKEN, &["10.0.0.1", "10.0.0.2"]);
    let plan = operator.plan(&now).unwrap();
    let addresses = plan.services[0].endpoints.iter().map(|endpoint| endpoint.address.to_string());
    assert_eq!(addresses.collect::<Vec<_>>(), ["10.0.0.1:80"]);
    // Nor does the service that came with a token get them later.
    let loaded = check_text(NAME, TOKEN, &|_| None).unwrap();
    let apart = operator.apart(&now, (&now, &loaded.settings.discover));
    let base = Base::with_documents(now.as_written(), (&loaded.settings.discover, now.found()), apart);
    let addresses = base.services[0].endpoints.iter().map(|endpoint| endpoint.address.to_string());
    assert_eq!(addresses.collect::<Vec<_>>(), ["10.0.0.2:80"]);
}

/// Decision 0108: an endpoint that a source finds later is compared like one that arrives.
#[test]
fn a_service_of_a_token_never_gets_an_endpoint_that_the_operator_guards() {
    let text = OPERATOR.replace(
        "services: { ",
        "services: { other: { discover: { dns: { name: other.test, port: 80 } } }, ",
    ) + "  - { name: other, match: { host: other.test }, to: other }\n";
    let operator = changed(Operator::default()).supplied().unwrap();
    let loaded = check_text(NAME, &text, &|_| None).unwrap();
    let empty = FoundSets::default();
    let alone = Base::new(loaded.plan.clone(), &loaded.settings.discover, &empty);
    let apart = operator.apart(&alone, (&loaded.plan, &loaded.settings.discover));
    let mut base = Base::with_documents(loaded.plan, (&loaded.settings.discover, &empty), apart);
    let take = |base: &mut Base, service: &str, hosts: &[&str]| {
        let id = base.sources().find(|(known, _)| &*known.name == service).unwrap().1.id.clone();
        let taken = base.take_found(&id, hosts.iter().map(|host| Found::at(*host, 80)).collect());
        let service = base.services.iter().find(|known| &*known.name == "other").unwrap();
        let addresses =
            service.endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect::<Vec<_>>();
        (addresses, taken.flaw.unwrap_or_default())
    };
    assert_eq!(take(&mut base, "inner", &["10.0.0.1"]).0, Vec::<String>::new());
    let (addresses, flaw) = take(&mut base, "other", &["10.0.0.1", "10.0.0.2"]);
    assert_eq!(addresses, ["10.0.0.2:80"]);
    assert!(flaw.contains("the route `other` has no `access` of the operator"), "{flaw}");
    // The other way round.
    assert_eq!(take(&mut base, "inner", &["10.0.0.2"]).0, ["10.0.0.1:80"]);
    assert!(!base.take_crossed());
}
