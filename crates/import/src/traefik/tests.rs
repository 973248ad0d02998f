//! What becomes of whole files.

use super::import;
use crate::{Files, Grade, Imported};

/// Files in memory.
struct Memory(Vec<(&'static str, &'static str)>);

impl Files for Memory {
    fn read(&self, path: &str) -> Result<String, String> {
        let found = self.0.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| format!("there is no {path}"))
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        Ok(self.0.iter().filter(|(name, _)| *name == pattern).map(|(name, _)| (*name).to_owned()).collect())
    }
}

fn imported(files: &[(&'static str, &'static str)]) -> Imported {
    import(&[files[0].0.to_owned()], &Memory(files.to_vec())).unwrap()
}

/// Lines that have a grade, without their about.
fn graded(imported: &Imported, grade: Grade) -> Vec<String> {
    let entries = imported.report.entries.iter().filter(|entry| entry.grade == grade);
    entries.map(|entry| format!("{}:{} {}", entry.place.file, entry.place.line, entry.what)).collect()
}

#[test]
fn a_key_that_is_not_known_is_lost_wherever_it_stands() {
    let file = "entryPoints:\n  web: { address: ':80', novel: { deep: 1 } }\nnovel: x\nhttp:\n  routers:\n    a: { rule: 'Host(`a`)', service: s, novel: 2 }\n  services:\n    s: { loadBalancer: { servers: [ { url: 'http://x', novel: 3 } ], novel: 4 } }\n";
    let made = imported(&[("a.yml", file)]);
    let lost = graded(&made, Grade::Lost).join("\n");
    for expected in [
        "a.yml:2 entryPoints.web.novel.deep 1",
        "a.yml:3 novel x",
        "a.yml:6 http.routers.a.novel 2",
        "loadBalancer.novel 4",
    ] {
        assert!(lost.contains(expected), "{expected} in {lost}\n{}", made.configuration);
    }
}

#[test]
fn what_is_lost_closes_its_router_and_no_other() {
    let file = "http:\n  routers:\n    a: { rule: 'Host(`a`) && PathPrefix(`/x`)', service: s, entryPoints: web, middlewares: [ d ] }\n    b: { rule: 'Host(`a`)', service: s, entryPoints: web }\n  middlewares:\n    d: { digestAuth: { users: [ 'a:b:c' ] } }\n  services:\n    s: { loadBalancer: { servers: [ { url: 'http://x:1' } ] } }\n";
    let made = imported(&[("a.yml", file)]);
    let [closed, open] = ["name: a", "name: b"].map(|name| made.configuration.find(name).unwrap());
    assert!(closed < open, "{}", made.configuration);
    assert!(made.configuration[closed..open].contains("status: 501"), "{}", made.configuration);
    assert!(!made.configuration[open..].contains("501"), "{}", made.configuration);
    assert!(graded(&made, Grade::Lost).iter().any(|line| line.contains("digestAuth")));
}

#[test]
fn a_rule_without_host_gets_the_hosts_of_those_behind_it() {
    let file = "http:\n  routers:\n    a: { rule: 'Host(`a.example`)', service: s, entryPoints: web }\n    b: { rule: 'PathPrefix(`/.well-known/acme-challenge/`)', service: s, entryPoints: web }\n  services:\n    s: { loadBalancer: { servers: [ { url: 'http://x:1' } ] } }\n";
    let made = imported(&[("a.yml", file)]);
    assert!(made.configuration.contains("[ a.example, \"*\" ]"), "{}", made.configuration);
}

#[test]
fn labels_of_compose_files_are_routers() {
    let file = "services:\n  shop:\n    image: shop\n    labels:\n      - traefik.enable=true\n      - traefik.http.routers.shop.rule=Host(`shop.example`)\n      - traefik.http.routers.shop.entrypoints=web\n      - traefik.http.services.shop.loadbalancer.server.port=8080\n";
    let made = imported(&[("docker-compose.yml", file)]);
    assert!(
        made.configuration.contains("http://shop:8080"),
        "{}\n{}",
        made.configuration,
        made.report.text()
    );
    assert!(made.configuration.contains("host: shop.example"), "{}", made.configuration);
    assert!(graded(&made, Grade::Lost).is_empty(), "{}", made.report.text());
}

#[test]
fn toml_and_the_files_of_the_provider_are_read() {
    let made = imported(&[
        ("t.toml", "[entryPoints.web]\naddress = \":80\"\n[providers.file]\nfilename = \"/etc/d.toml\"\n"),
        (
            "/etc/d.toml",
            "[http.routers.a]\nrule = \"Path(`/a`)\"\nservice = \"s\"\n[[http.services.s.loadBalancer.servers]]\nurl = \"http://x:1\"\n",
        ),
    ]);
    assert!(made.configuration.contains("path: /a"), "{}", made.configuration);
    assert!(made.report.is_exact(), "{}", made.report.text());
}
