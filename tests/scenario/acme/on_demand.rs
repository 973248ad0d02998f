//! Names that clients bring.

use thalweg_tests::Upstream;
use thalweg_tests::upstream::ok;

use super::super::{wait_counted, watchdog};
use super::house::{House, MONTH};

#[test]
fn a_name_that_is_allowed_is_issued_while_its_client_waits() {
    let Some(house) =
        House::new("on_demand: { allow: [ \"*.d.acme.test\" ], per_hour: 1 }, domains: [ a.acme.test ]")
    else {
        return;
    };
    let _watchdog = watchdog("a_name_that_is_allowed_is_issued_while_its_client_waits");
    house.open(MONTH);
    house.wait_issued("a.acme.test", 1);
    assert_eq!(house.serves("x.d.acme.test"), Ok(200));
    for (name, why) in [
        // Nobody has allowed it.
        ("x.acme.test", "unrecognised"),
        // It is allowed, but one was brought within this hour.
        ("y.d.acme.test", "unrecognised"),
        ("y.d.acme.test", "unrecognised"),
    ] {
        let refused = house.serves(name).unwrap_err().to_lowercase();
        assert!(refused.contains(why), "{name}: {refused}");
    }
    assert_eq!((house.issued("x.d.acme.test"), house.issued("y.d.acme.test")), (1, 0));
    wait_counted(&house.proxy, "thalweg_tls_handshakes_total", "result=\"unknown_name\"", 3);
    // After a restart it is there at once, and is none of those brought within this hour.
    let house = house.restart();
    assert_eq!(house.serves("x.d.acme.test"), Ok(200));
    assert_eq!(house.issued("x.d.acme.test"), 0);
}

#[test]
fn whoever_is_named_is_asked_whether_a_name_may_be_issued() {
    let asked = Upstream::start(|request| {
        let yes = request.target() == "/may?domain=yes.acme.test";
        Some(if yes { ok("") } else { b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec() })
    });
    let keys = format!("on_demand: {{ ask: \"{}/may\" }}, domains: [ a.acme.test ]", asked.url());
    let Some(house) = House::new(&keys) else { return };
    let _watchdog = watchdog("whoever_is_named_is_asked_whether_a_name_may_be_issued");
    house.open(MONTH);
    assert_eq!(house.serves("yes.acme.test"), Ok(200));
    let refused = house.serves("no.acme.test").unwrap_err().to_lowercase();
    assert!(refused.contains("unrecognised"), "{refused}");
}
