//! Whole files through the importer, where no request can show it.

use super::import;
use crate::{Files, Grade, Imported};

struct One(&'static str);

impl Files for One {
    fn read(&self, _: &str) -> Result<String, String> {
        Ok(self.0.to_owned())
    }

    fn glob(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

fn imported(text: &'static str) -> Imported {
    import(&["traefik.yml".to_owned()], &One(text)).unwrap()
}

#[test]
fn every_key_has_a_grade() {
    let text = "a: 1\nhttp:\n  routers:\n    x: { rule: Host(`a`), service: y, odd: 1 }\n  odder: { b: 2 }\n";
    let report = imported(text).report;
    for (line, what, grade) in [
        (1, "a: 1", Grade::Lost),
        (2, "http", Grade::Exact),
        (4, "odd: 1", Grade::Lost),
        (5, "odder", Grade::Lost),
        (5, "b: 2", Grade::Lost),
    ] {
        let found =
            report.entries.iter().any(|it| it.place.line == line && it.what == what && it.grade == grade);
        assert!(found, "{what}: {:#?}", report.entries);
    }
}

#[test]
fn providers_name_what_stands_in_their_place() {
    let report = imported("providers:\n  docker:\n    exposedByDefault: false\n").report;
    let docker = report.entries.iter().find(|it| it.what == "docker").unwrap();
    assert_eq!(docker.grade, Grade::Lost);
    assert!(docker.about.contains("route_sources"), "{}", docker.about);
}

#[test]
fn resolvers_become_acme() {
    let text = "entryPoints: { websecure: { address: \":443\" } }\ncertificatesResolvers:\n  le:\n    acme:\n      \
                email: a@example.com\n      tlsChallenge: {}\nhttp:\n  routers:\n    x: { rule: Host(`a.example`), \
                service: y, tls: { certResolver: le } }\n  services: { y: { loadBalancer: { servers: [ { url: \
                \"http://127.0.0.1:1\" } ] } } }\n";
    let made = imported(text).configuration;
    assert!(
        made.contains("acme: { email: \"a@example.com\", challenge: tls_alpn, domains: [ a.example ] }"),
        "{made}"
    );
}
