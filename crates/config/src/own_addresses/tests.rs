use super::*;
use crate::check_text;
use thalweg_sealed::reach::Own;

const METRICS: &str = "127.0.0.1:9901";
const NOTHING: &str =
    "services: { b: { endpoints: 'http://10.0.0.9:1' } }\nroutes: [ { match: { path: /b }, to: b } ]";

fn plan(metrics: &str, rest: &str) -> Plan {
    let text = format!(
        "admin: {{ address: '127.0.0.1:9900', token: {{ value: 0123456789abcdef0123456789abcdef }} }}\n\
         metrics: {{ address: '{metrics}' }}\nlisteners: {{ web: {{ address: ':8080' }} }}\n{rest}"
    );
    check_text("t.yaml", &text, &|_| None).unwrap_or_else(|report| panic!("{}\n{text}", report.lines())).plan
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
        assert_eq!((&*found[0].service, found[0].routes.len(), &*found[0].routes[0]), ("x", 1, "a"), "{url}");
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
fn the_port_that_health_checks_ask_counts_too() {
    let checked = |port: u16, url: &str| {
        plan(METRICS, &of(url).replace("' } }", &format!("', health: {{ port: {port}, path: /up }} }} }}")))
    };
    let (alone, url) = (plan(METRICS, &of("http://127.0.0.1:9902")), "http://127.0.0.1:9902");
    for (port, barred) in [
        (9900, "the admin API or the metrics"),
        (9901, "the admin API or the metrics"),
        (8080, "a listener of this proxy"),
    ] {
        let found = own_addresses(&alone, &checked(port, url));
        assert_eq!(
            found.iter().map(OwnAddress::key).collect::<Vec<_>>(),
            ["services.x.health.port"],
            "{port}"
        );
        assert!(
            found[0]
                .to_string()
                .ends_with(&format!("which health checks of the service `x` ask, is {barred}"))
        );
        // The file may name it.
        assert!(told(&checked(port, url), &checked(port, url)).is_empty());
        assert_eq!(told(&checked(port, url), &checked(port, "http://127.0.0.1:9903")).len(), 1);
    }
    assert!(told(&alone, &checked(9902, url)).is_empty());
    assert!(told(&alone, &checked(9905, url)).is_empty());
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

#[test]
fn listeners_link_local_addresses_and_unix_sockets_are_of_the_file_alone() {
    let alone = plan(METRICS, NOTHING);
    for (url, barred) in [
        ("http://127.0.0.1:8080", Barred::Listener),
        ("http://localhost:8080", Barred::Listener),
        ("http://[::ffff:127.0.0.1]:8080", Barred::Listener),
        ("http://169.254.169.254", Barred::Metadata),
        ("http://[::ffff:169.254.169.254]:80", Barred::Metadata),
        ("http://169.254.7.7:80", Barred::LinkLocal),
        ("http://[fe80::1]:80", Barred::LinkLocal),
        ("unix:/run/thalweg/admin.sock", Barred::Unix),
    ] {
        let with = plan(METRICS, &of(url));
        let found = own_addresses(&alone, &with);
        assert_eq!(found.iter().map(|it| it.barred).collect::<Vec<_>>(), [barred], "{url}");
        assert_eq!(found[0].key(), "services.x.endpoints");
        assert!(told(&with, &with).is_empty(), "the file may name {url}");
    }
}

#[test]
fn addresses_of_the_running_process_count_whatever_the_texts_say() {
    let alone = plan(METRICS, NOTHING);
    let with = plan(METRICS, &of("http://127.0.0.1:7000"));
    assert!(told(&alone, &with).is_empty());
    let beside = Own::new(["127.0.0.1:7000".parse().unwrap()]);
    let running = OwnAddresses::new(Default::default(), Default::default(), beside.into());
    assert_eq!(arrived_addresses(&alone, &with, &running)[0].barred, Barred::Beside);
}

#[test]
fn an_entry_of_allow_opens_no_own_and_no_link_local_address() {
    let sealed = |allow: &str| {
        let key = "0123456789abcdef".repeat(8);
        let text = format!(
            "routes: [ {{ name: a, match: {{ host: '*.go.test' }}, to: {{ sealed: {{ domain: '*.go.test', allow: [ '10.0.0.0/8:80'{allow} ], \
             keys: [ {{ id: 1, secret: {{ value: {key} }} }} ] }} }} }} ]"
        );
        plan(METRICS, &text)
    };
    let alone = sealed("");
    for (entry, barred) in [
        ("127.0.0.1:9900", Barred::Beside),
        ("127.0.0.1:8080", Barred::Listener),
        ("169.254.0.0/16:80", Barred::LinkLocal),
        ("169.254.169.254:1-80", Barred::Metadata),
    ] {
        let with = sealed(&format!(", '{entry}'"));
        let found = own_addresses(&alone, &with);
        assert_eq!(found.iter().map(|it| it.barred).collect::<Vec<_>>(), [barred], "{entry}");
        assert_eq!(found[0].key(), "routes.a.to.sealed.allow");
        assert!(told(&with, &with).is_empty(), "the file may open {entry}");
    }
    assert!(told(&alone, &sealed(", '127.0.0.0/8:9900', '192.168.0.0/16:1-65535'")).is_empty());
}

#[test]
fn the_metrics_do_not_come_to_an_address_that_a_service_of_the_file_has() {
    let alone = plan(METRICS, &of("http://127.0.0.1:7000"));
    let with = plan("127.0.0.1:7000", &of("http://127.0.0.1:7000"));
    assert_eq!(own_addresses(&alone, &with)[0].barred, Barred::Beside);
}
