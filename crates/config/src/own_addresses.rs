//! Which endpoints lead to the admin API or the metrics of the process itself.
//!
//! Who may reach these is said where they listen: on the loopback address, whoever is on the machine. A route to them
//! would publish them. Only the file may have one; called for what documents and the admin API add to it. Compared are
//! addresses as they are written and `localhost`: what other names stand for, and what discovery finds, shows later.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use thalweg_proxy::Plan;
use thalweg_sealed::reach::canonical;
use thalweg_upstream::Address;

/// An endpoint that is the process itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnAddress {
    /// The service that has it.
    pub service: Arc<str>,
    /// Names of the routes that lead to that service.
    pub routes: Vec<Arc<str>>,
    /// Its URL.
    pub endpoint: Arc<str>,
}

impl fmt::Display for OwnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, endpoint, .. } = self;
        write!(f, "the endpoint `{endpoint}` of the service `{service}` is the admin API or the metrics")
    }
}

/// The endpoints of `with` that are an address of the admin API or of the metrics, of the file `alone` or of `with`.
/// What a service of the same name has in the file is the file's.
pub fn own_addresses(alone: &Plan, with: &Plan) -> Vec<OwnAddress> {
    let beside: Vec<SocketAddr> = alone.beside.iter().chain(&with.beside).copied().collect();
    let mut found = Vec::new();
    for (at, service) in with.services.iter().enumerate() {
        let own = service.endpoints.iter().filter(|endpoint| leads_to(&beside, &endpoint.address));
        for endpoint in own {
            let mut known = alone.services.iter().filter(|known| known.name == service.name);
            if known.any(|known| known.endpoints.iter().any(|it| it.address == endpoint.address)) {
                continue;
            }
            let leads = with.routes.iter().filter(|route| route.all_services().any(|id| id.0 as usize == at));
            found.push(OwnAddress {
                service: service.name.as_ref().into(),
                routes: leads.map(|route| route.name.as_ref().into()).collect(),
                endpoint: endpoint.url.clone(),
            });
        }
    }
    found
}

/// Whether this address is the admin API or the metrics of a process with this plan.
pub fn is_own_address(plan: &Plan, address: &Address) -> bool {
    leads_to(&plan.beside, address)
}

/// Whether a connection to this address ends at one of those, or may: all addresses of the loopback are one.
fn leads_to(beside: &[SocketAddr], address: &Address) -> bool {
    let (ip, port) = match address {
        Address::Socket(address) => (canonical(address.ip()), address.port()),
        Address::Name { host, port } if is_localhost(host) => (Ipv4Addr::LOCALHOST.into(), *port),
        Address::Name { .. } | Address::Unix(_) => return false,
    };
    let is_here = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
    beside.iter().filter(|own| own.port() == port).any(|own| {
        let own = canonical(own.ip());
        own == ip || is_here(own) && is_here(ip)
    })
}

/// RFC 6761 §6.3, and what systems write in `/etc/hosts` beside it.
fn is_localhost(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || matches!(host, "localhost.localdomain" | "localhost6" | "ip6-localhost" | "ip6-loopback")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_text;

    const METRICS: &str = "127.0.0.1:9901";
    const NOTHING: &str =
        "services: { b: { endpoints: 'http://10.0.0.9:1' } }\nroutes: [ { match: { path: /b }, to: b } ]";

    fn plan(metrics: &str, rest: &str) -> Plan {
        let text = format!(
            "admin: {{ address: '127.0.0.1:9900', token: {{ value: 0123456789abcdef0123456789abcdef }} }}\n\
             metrics: {{ address: '{metrics}' }}\nlisteners: {{ web: {{ address: ':8080' }} }}\n{rest}"
        );
        check_text("t.yaml", &text, &|_| None)
            .unwrap_or_else(|report| panic!("{}\n{text}", report.lines()))
            .plan
    }

    fn of(url: &str) -> String {
        format!("services: {{ x: {{ endpoints: '{url}' }} }}\nroutes: [ {{ name: a, to: x }} ]\n")
    }

    fn told(alone: &Plan, with: &Plan) -> Vec<String> {
        own_addresses(alone, with).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_way_to_write_the_admin_api_and_the_metrics_is_known() {
        let alone = plan(METRICS, NOTHING);
        for url in [
            "http://127.0.0.1:9900",
            "http://127.0.0.1:9901",
            "http://127.1.2.3:9900",
            "http://0.0.0.0:9900",
            "http://[::]:9900",
            "http://[::1]:9901",
            "http://[::ffff:127.0.0.1]:9900",
            "http://[::ffff:7f00:1]:9900",
            "http://localhost:9900",
            "http://LOCALHOST.:9900",
            "http://a.localhost:9900",
            "https://ip6-localhost:9900",
        ] {
            let with = plan(METRICS, &of(url));
            let found = own_addresses(&alone, &with);
            assert_eq!(found.len(), 1, "{url}");
            assert_eq!(
                (&*found[0].service, found[0].routes.len(), &*found[0].routes[0]),
                ("x", 1, "a"),
                "{url}"
            );
            assert!(
                found[0].to_string().ends_with("of the service `x` is the admin API or the metrics"),
                "{url}"
            );
        }
        for url in
            ["http://127.0.0.1:9902", "http://10.0.0.1:9900", "http://host.test:9900", "http://localhost:80"]
        {
            assert_eq!(told(&alone, &plan(METRICS, &of(url))), Vec::<String>::new(), "{url}");
        }
    }

    #[test]
    fn urls_in_a_route_and_addresses_of_the_machine_count_too() {
        let alone = plan("192.0.2.1:9901", NOTHING);
        let inline = |url: &str| format!("routes: [ {{ name: a, to: [ '{url}' ] }} ]");
        let found = own_addresses(&alone, &plan("192.0.2.1:9901", &inline("http://192.0.2.1:9901")));
        assert_eq!(found.iter().flat_map(|it| &it.routes).map(|name| &**name).collect::<Vec<_>>(), ["a"]);
        assert!(told(&alone, &plan("192.0.2.1:9901", &inline("http://127.0.0.1:9901"))).is_empty());
    }

    #[test]
    fn the_file_may_publish_its_own() {
        let url = "http://127.0.0.1:9900";
        let alone = plan(METRICS, &of(url));
        assert!(told(&alone, &alone).is_empty());
        let other = of(url).replace("x: {", "y: { endpoints: 'http://localhost:9900' }, x: {");
        let other = other.replace("to: x", "to: [ { service: x, weight: 1 }, { service: y, weight: 1 } ]");
        assert_eq!(
            told(&alone, &plan(METRICS, &other)),
            ["the endpoint `http://localhost:9900` of the service `y` is the admin API or the metrics"]
        );
    }
}
