//! Every balancer of the list can be chosen in the configuration, in the form that it needs.

use thalweg_balance::BALANCERS;
use thalweg_config::{Loaded, Report, check_text};
use thalweg_upstream::HashKey;

fn load(balance: &str, endpoints: usize, more: &str) -> Result<Loaded, Report> {
    let urls: Vec<String> = (1..=endpoints).map(|port| format!("\"http://127.0.0.1:{port}\"")).collect();
    let text = format!(
        "listeners: {{ web: {{ address: \":0\" }} }}\nroutes: [ {{ to: a }} ]\n\
         services: {{ a: {{ endpoints: [ {} ], balance: {balance}{more} }} }}\n",
        urls.join(", ")
    );
    check_text("balancer.yaml", &text, &|_| None)
}

#[test]
fn every_balancer_has_exactly_one_form() {
    for entry in BALANCERS {
        let name = entry.name;
        let plain = load(name, 2, "");
        let keyed = load(
            &format!("{{ hash: {{ on: {{ header: X-User }}, algorithm: {name}, bounded_load: 125% }} }}"),
            2,
            "",
        );
        assert!(plain.is_ok() != keyed.is_ok(), "{name}");
        let policy = &plain.or(keyed).unwrap().plan.services[0].balance.clone();
        assert_eq!(policy.algorithm.name, name);
        if policy.key.is_some() {
            assert_eq!(policy.key, Some(HashKey::Header("x-user".into())));
            assert_eq!(policy.bounded_load, Some(125));
        }
    }
}

#[test]
fn a_key_and_a_slow_start_exclude_each_other() {
    for entry in BALANCERS {
        let plain = load(entry.name, 2, ", slow_start: 5s");
        let keyed =
            load(&format!("{{ hash: {{ on: path, algorithm: {} }} }}", entry.name), 2, ", slow_start: 5s");
        assert!(keyed.unwrap_err().lines().contains("`slow_start` cannot be combined"));
        assert!(plain.is_ok() || plain.unwrap_err().lines().contains("needs to know what of a request"));
    }
}

#[test]
fn only_rendezvous_is_advised_against_for_many_endpoints() {
    for entry in BALANCERS {
        let keyed = format!("{{ hash: {{ on: client_ip, algorithm: {} }} }}", entry.name);
        for (endpoints, expected) in [(200, 0), (201, usize::from(entry.name == "rendezvous"))] {
            let loaded = load(entry.name, endpoints, "").or_else(|_| load(&keyed, endpoints, "")).unwrap();
            assert_eq!(loaded.warnings.errors.len(), expected, "{}: {endpoints}", entry.name);
        }
    }
}
