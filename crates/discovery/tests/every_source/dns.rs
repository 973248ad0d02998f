//! A zone with SRV records, some of whose targets come with their addresses, and others of which are asked for.
//! Scenarios run a real server.

use super::dns_fake::{DnsFake, Mood, address, alias, srv};
use super::registry::Registry;
use super::watch::{Told, Watched};
use hickory_resolver::proto::rr::RecordType;
use std::time::{Duration, Instant};

pub(crate) struct DnsRegistry {
    server: DnsFake,
}

impl Registry for DnsRegistry {
    fn start() -> Self {
        let server = DnsFake::start();
        // More than one is cut short over UDP.
        server.zone.lock().unwrap().longest = 1;
        Self { server }
    }

    fn argument(&self) -> String {
        format!(
            "dns: {{ name: _http._tcp.checkout, resolvers: '{}', search: internal, max_ttl: 1s,
                     when_empty: apply }}",
            self.server.address()
        )
    }

    fn publish(&mut self, ports: &[u16]) {
        let mut zone = self.server.zone.lock().unwrap();
        assert!(zone.asked.len() < 500, "asked {} times since the last change", zone.asked.len());
        zone.asked.clear();
        let owner = "_http._tcp.checkout.internal.";
        let target = |port: &u16| format!("n{port}.internal.");
        zone.records = ports.iter().map(|port| srv(owner, 10, 0, *port, &target(port))).collect();
        let mut hosts: Vec<_> = ports.iter().map(|port| address(&target(port), [127, 0, 0, 1], 60)).collect();
        zone.additionals = hosts.iter().step_by(2).cloned().collect();
        zone.records.append(&mut hosts);
    }

    fn cut(&mut self) {
        self.mood(Mood::Failing);
    }

    fn garble(&mut self) {
        self.mood(Mood::Mad);
    }

    fn freeze(&mut self) -> bool {
        self.mood(Mood::Silent);
        true
    }

    fn mend(&mut self) {
        self.mood(Mood::Well);
    }

    fn connections(&self) -> usize {
        0
    }
}

impl DnsRegistry {
    fn mood(&self, mood: Mood) {
        self.server.zone.lock().unwrap().mood = mood;
    }
}

/// A watch of what this argument says beside the servers.
fn watched(server: &DnsFake, argument: &str) -> Watched {
    Watched::of(&format!("dns: {{ resolvers: '{}', {argument} }}", server.address()))
}

#[test]
fn a_name_that_is_gone_keeps_its_endpoints_and_one_that_comes_back_is_seen() {
    let server = DnsFake::start();
    server.set(vec![address("checkout.internal.", [127, 0, 0, 1], 0)]);
    let mut watched = watched(&server, "name: checkout.internal, port: 8080, family: ipv4");
    assert_eq!(watched.ports(), [8080]);
    server.set(Vec::new());
    let why = watched.failure();
    assert_eq!(
        why,
        "`checkout.internal` does not exist; if that means that there are no endpoints, write `when_empty: apply`"
    );
    // Another type remains: it exists, and has no address.
    server.set(vec![srv("checkout.internal.", 0, 0, 1, "a.")]);
    assert!(matches!(watched.next(Duration::from_millis(1500)), Told::Nothing));
    server.set(vec![address("checkout.internal.", [127, 0, 0, 1], 0)]);
    assert!(matches!(watched.next(Duration::from_secs(20)), Told::Works));
    assert_eq!(watched.status().failure, None);
}

#[test]
fn a_family_that_fails_is_not_taken_for_one_without_addresses() {
    let server = DnsFake::start();
    server.set(vec![address("a.internal.", [127, 0, 0, 1], 0)]);
    let mut watched = watched(&server, "name: a.internal, port: 80");
    assert_eq!(watched.ports(), [80], "AAAA has no records, and that is well");
    server.zone.lock().unwrap().mood = Mood::Failing;
    assert!(watched.failure().starts_with("`a.internal` cannot be resolved: "));
}

#[test]
fn a_server_that_only_names_another_is_not_taken_for_one_that_knows_of_none() {
    let server = DnsFake::start();
    server.set(vec![address("a.internal.", [127, 0, 0, 1], 0)]);
    let mut watched = watched(&server, "name: a.internal, port: 80, family: ipv4, when_empty: apply");
    assert_eq!(watched.ports(), [80]);
    server.zone.lock().unwrap().refers = true;
    server.set(Vec::new());
    assert_eq!(watched.failure(), "`a.internal` has no address");
}

#[test]
fn a_root_target_says_that_there_is_no_service() {
    let server = DnsFake::start();
    server.set(vec![
        srv("_x._tcp.internal.", 0, 0, 8080, "a.internal."),
        address("a.internal.", [127, 0, 0, 1], 60),
    ]);
    let mut watched = watched(&server, "name: _x._tcp.internal");
    assert_eq!(watched.ports(), [8080]);
    server.set(vec![srv("_x._tcp.internal.", 0, 0, 0, ".")]);
    assert_eq!(watched.ports(), [0; 0]);
}

#[test]
fn aliases_are_followed_to_srv_records_and_to_addresses() {
    let server = DnsFake::start();
    server.set(vec![
        alias("_x._tcp.internal.", "_x._tcp.other."),
        srv("_x._tcp.other.", 0, 0, 8080, "alias.other."),
        alias("alias.other.", "a.other."),
        address("a.other.", [127, 0, 0, 1], 60),
    ]);
    assert_eq!(watched(&server, "name: _x._tcp.internal").ports(), [8080]);
}

#[test]
fn a_target_without_an_address_is_left_out_and_told_of() {
    let server = DnsFake::start();
    server.set(vec![
        srv("_x._tcp.internal.", 0, 0, 8080, "a.internal."),
        srv("_x._tcp.internal.", 0, 0, 8081, "b.internal."),
        address("a.internal.", [127, 0, 0, 1], 60),
    ]);
    let mut watched = watched(&server, "name: _x._tcp.internal");
    assert_eq!(watched.ports(), [8080]);
    assert_eq!(watched.status().flaw.as_deref(), Some("the target `b.internal` does not exist"));
}

#[test]
fn an_address_that_is_none_keeps_what_is_known() {
    let server = DnsFake::start();
    server.set(vec![address("a.internal.", [127, 0, 0, 1], 0)]);
    let mut watched = watched(&server, "name: a.internal, port: 80, family: ipv4, when_empty: apply");
    assert_eq!(watched.ports(), [80]);
    server.set(vec![address("a.internal.", [0, 0, 0, 0], 0)]);
    assert_eq!(watched.failure(), "`a.internal`: 0.0.0.0 is no address of a server");
}

#[test]
fn records_are_asked_for_again_at_their_ttl_and_not_before() {
    let server = DnsFake::start();
    server.set(vec![address("a.internal.", [127, 0, 0, 1], 60)]);
    let mut watched = watched(&server, "name: a.internal, port: 80, family: ipv4");
    assert_eq!(watched.ports(), [80]);
    assert!(matches!(watched.next(Duration::from_millis(2500)), Told::Nothing));
    let asked = server.zone.lock().unwrap().asked.clone();
    assert_eq!(asked, [("a.internal.".to_owned(), RecordType::A, "udp")]);
}

#[test]
fn an_answer_that_is_cut_short_is_asked_for_over_tcp() {
    let server = DnsFake::start();
    let all = (1..=200).map(|last| address("a.internal.", [127, 0, 0, 1], last)).collect();
    server.set(all);
    server.zone.lock().unwrap().longest = 3;
    let mut watched = watched(&server, "name: a.internal, port: 80, family: ipv4");
    assert_eq!(watched.ports(), [80], "one address, however often it is said");
    assert_eq!(server.zone.lock().unwrap().asked.last().unwrap().2, "tcp");
}

#[test]
fn a_second_name_server_is_asked_when_the_first_is_silent() {
    let (silent, well) = (DnsFake::start(), DnsFake::start());
    silent.zone.lock().unwrap().mood = Mood::Silent;
    well.set(vec![address("a.internal.", [127, 0, 0, 1], 60)]);
    let begun = Instant::now();
    let mut watched = Watched::of(&format!(
        "dns: {{ name: a.internal, port: 80, resolvers: ['{}', '{}'] }}",
        silent.address(),
        well.address()
    ));
    assert_eq!(watched.ports(), [80]);
    assert!(begun.elapsed() < Duration::from_secs(8));
}
