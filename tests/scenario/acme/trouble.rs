//! When something goes wrong in the middle of it.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Instant;

use thalweg_tests::pebble::Settings;
use thalweg_tests::port::Refusing;
use thalweg_tests::program::{find_or_skip, run};

use super::super::{wait_counted, watchdog};
use super::house::{House, MONTH, ORDER, issued};

/// Waits until a program for records has been called so often.
fn wait_calls(house: &House, times: usize) {
    let end = Instant::now() + ORDER;
    while house.pebble.calls().len() < times {
        assert!(Instant::now() < end, "{:?}\n{}", house.pebble.calls(), house.proxy.process().stderr());
        thread::yield_now();
    }
}

#[test]
fn a_check_that_fails_is_told_and_made_good_though_the_authority_has_forgotten_us() {
    let Some(house) = House::new("domains: [ a.acme.test ]") else { return };
    let _watchdog = watchdog("a_check_that_fails_is_told");
    let nobody = Refusing::new().address().port();
    house.pebble.start(Settings { http: nobody, tls: nobody, validity: MONTH });
    let why = house.wait_failed("a.acme.test");
    assert!(why.starts_with("the authority says: ") && why.contains("; tried again in "), "{why}");
    wait_counted(&house.proxy, "thalweg_acme_orders_total", "result=\"failed\"", 1);
    // Meanwhile clients get something, which nobody trusts.
    let why = house.serves("a.acme.test").unwrap_err();
    assert!(why.contains("UnknownIssuer"), "{why}");
    // Another authority at the same place: it knows neither the account nor the order.
    house.pebble.stop();
    house.open(MONTH);
    house.reload(1);
    house.wait_issued("a.acme.test", 1);
    assert_eq!(house.serves("a.acme.test"), Ok(200));
    let stderr = house.proxy.process().stderr();
    assert!(stderr.contains("does not take our account any more; a new one is made"), "{stderr}");
}

#[test]
fn an_outage_in_the_middle_of_an_order_costs_nothing_but_time() {
    let keys = "challenge: dns, domains: [ a.acme.test ], dns: { {hook} }";
    let Some(house) = House::new(keys) else { return };
    let _watchdog = watchdog("an_outage_in_the_middle_of_an_order");
    fs::write(house.pebble.path().join("hold"), "").unwrap();
    house.open(MONTH);
    wait_calls(&house, 1);
    let order = fs::read_to_string(house.kept("order.json")).unwrap();
    house.pebble.go_away();
    fs::remove_file(house.pebble.path().join("hold")).unwrap();
    let why = house.wait_failed("a.acme.test");
    assert!(why.contains("cannot be asked"), "{why}");
    assert_eq!(fs::read_to_string(house.kept("order.json")).unwrap(), order);
    house.pebble.come_back();
    house.reload(1);
    house.wait_issued("a.acme.test", 1);
    assert_eq!((house.serves("a.acme.test"), orders(&house)), (Ok(200), 1));
}

/// Orders that the authority has accepted.
fn orders(house: &House) -> usize {
    house.pebble.said("Added order ")
}

#[test]
fn a_crash_in_the_middle_of_an_order_goes_on_with_it() {
    let keys = "challenge: dns, domains: [ a.acme.test ], dns: { {hook} }";
    let Some(house) = House::new(keys) else { return };
    let _watchdog = watchdog("a_crash_in_the_middle_of_an_order_goes_on_with_it");
    let hold = house.pebble.path().join("hold");
    fs::write(&hold, "").unwrap();
    house.open(MONTH);
    wait_calls(&house, 1);
    let order = fs::read_to_string(house.kept("order.json")).unwrap();
    let house = house.crash();
    wait_calls(&house, 2);
    assert_eq!(
        fs::read_to_string(house.kept("order.json")).unwrap(),
        order,
        "the order that was begun goes on"
    );
    fs::remove_file(hold).unwrap();
    house.wait_issued("a.acme.test", 1);
    assert_eq!((house.serves("a.acme.test"), orders(&house)), (Ok(200), 1));
}

#[test]
fn a_certificate_that_could_not_be_kept_is_fetched_again() {
    let keys = "challenge: dns, domains: [ a.acme.test ], dns: { {hook} }";
    let Some(house) = House::new(keys) else { return };
    let _watchdog = watchdog("a_certificate_that_could_not_be_kept_is_fetched_again");
    let hold = house.pebble.path().join("hold");
    fs::write(&hold, "").unwrap();
    house.open(MONTH);
    wait_calls(&house, 1);
    // Where the file is written first nothing can be written.
    let in_the_way = house.kept("order.json").with_file_name("certificate.pem.new");
    fs::create_dir(&in_the_way).unwrap();
    fs::remove_file(hold).unwrap();
    let why = house.wait_failed("a.acme.test");
    assert!(why.contains("cannot write ") && why.contains("certificate.pem"), "{why}");
    fs::remove_dir(in_the_way).unwrap();
    let house = house.crash();
    house.wait_issued("a.acme.test", 1);
    assert_eq!((house.serves("a.acme.test"), orders(&house)), (Ok(200), 1));
    assert_eq!(house.pebble.calls().len(), 2, "it was checked once");
}

#[test]
fn of_two_processes_with_the_same_state_one_orders() {
    let keys = "challenge: dns, domains: [ a.acme.test, b.acme.test ], dns: { {hook} }";
    let Some(house) = House::new(keys) else { return };
    let _watchdog = watchdog("of_two_processes_with_the_same_state_one_orders");
    let replica = house.replica();
    house.open(MONTH);
    let (end, names) = (Instant::now() + ORDER, ["a.acme.test", "b.acme.test"]);
    let client = house.pebble.client();
    for proxy in [&house.proxy, &replica] {
        for name in names {
            // Also the one that has not ordered it shows it.
            let address = proxy.address("secure");
            while thalweg_tests::pebble::shake_hands(address, &client, name).is_err() {
                assert!(Instant::now() < end, "{}", proxy.process().stderr());
                thread::yield_now();
            }
        }
    }
    assert_eq!(orders(&house), 2);
    for name in names {
        assert_eq!(issued(&house.proxy, name) + issued(&replica, name), 1, "{name}");
    }
}

#[test]
fn a_name_that_fails_keeps_no_other_one_waiting() {
    let keys = "domains: [ \"bad_name.acme.test\", good.acme.test ]";
    let Some(house) = House::new(keys) else { return };
    let _watchdog = watchdog("a_name_that_fails_keeps_no_other_one_waiting");
    house.open(MONTH);
    house.wait_issued("good.acme.test", 1);
    house.wait_failed("bad_name.acme.test");
    assert_eq!(house.serves("good.acme.test"), Ok(200));
}

#[test]
fn an_account_that_was_ended_is_replaced() {
    let Some(mut house) = House::new("domains: [ a.acme.test ]") else { return };
    let _watchdog = watchdog("an_account_that_was_ended_is_replaced");
    let Some(go) = find_or_skip("go") else { return };
    house.open(MONTH);
    house.wait_issued("a.acme.test", 1);
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/deactivate.go");
    let account = house.kept("account.json");
    let ended = run(Command::new(go).args(["run", program]).arg(&account), ORDER);
    assert_eq!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
    let before = fs::read_to_string(&account).unwrap();
    house.reload_with("[ a.acme.test ]", "[ a.acme.test, b.acme.test ]", 1);
    house.wait_issued("b.acme.test", 1);
    assert_eq!((house.serves("a.acme.test"), house.serves("b.acme.test")), (Ok(200), Ok(200)));
    assert_ne!(fs::read_to_string(&account).unwrap(), before);
    assert_eq!(fs::read_to_string(house.kept("account.gone.json")).unwrap(), before);
}
