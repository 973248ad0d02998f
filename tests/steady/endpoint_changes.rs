//! Endpoint sets that change by themselves, as they do where an orchestrator moves what is behind the services: a plan
//! of 1,000 services, changes as fast as they come, and a client that asks all the while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use thalweg_tests::upstream::ok;
use thalweg_tests::{Upstream, Watchdog};
use thalweg_upstream::{Address, Endpoint, EndpointLimits, Labels, Mode, Service};

use super::client::{Client, get};
use super::house::House;

/// More than any test takes.
const LONG: Duration = Duration::from_secs(90);
const SERVICES: usize = 1_000;
const CHANGES: usize = 4_000;
/// What is asked of it; here with a debug build, and a client that takes its share of the processors.
const PER_SECOND: usize = 1_000;

fn endpoint(port: u16, weight: u32) -> Endpoint {
    Endpoint {
        url: format!("http://127.0.0.1:{port}").into(),
        address: Address::Socket(([127, 0, 0, 1], port).into()),
        weight,
        tier: 0,
        mode: Mode::Ready,
        labels: Labels::default(),
        limits: EndpointLimits::default(),
        is_added: false,
    }
}

/// A proxy of so many services: `s`, which the client asks, and others with two endpoints each.
fn house(upstream: Upstream) -> House {
    House::of_plan(upstream, Vec::new(), |plan| {
        let others = (1..SERVICES).map(|at| {
            let endpoints = vec![endpoint(1, 1), endpoint(2, 1)];
            Arc::new(Service { name: format!("s{at}").into(), endpoints, ..Service::default() })
        });
        plan.services.extend(others);
    })
}

fn plans_alive(house: &House) -> i64 {
    house.fleet.measure();
    house.registry.reloads().plans_alive.value()
}

/// The service at this position, with another endpoint than before beside the first one.
fn changed(house: &House, at: usize, change: usize) -> Arc<Service> {
    let mut service = Service::clone(&house.fleet.endpoint_sets()[at].service);
    service.endpoints.truncate(1);
    // Who never takes anything: what is asked is answered all the time.
    service.endpoints.push(endpoint(3 + (change % 1_000) as u16, 0));
    Arc::new(service)
}

#[test]
fn a_thousand_changes_a_second_drop_no_request_and_make_no_plan() {
    let _watchdog = Watchdog::new("a thousand changes a second", LONG);
    let house = house(Upstream::start(|_| Some(ok("well"))));
    let (address, plan) = (house.address(), house.fleet.plan());
    let (asks, alive) = (Arc::new(AtomicBool::new(true)), plans_alive(&house));
    let first = Arc::downgrade(&house.fleet.endpoint_sets()[0]);
    let going_on = asks.clone();
    let client = std::thread::spawn(move || {
        let (mut client, mut asked) = (Client::open(address), 0);
        while going_on.load(SeqCst) {
            client.ask(&get("/"));
            asked += 1;
        }
        asked
    });
    let changes: Vec<_> = (0..CHANGES)
        .map(|change| changed(&house, if change % 2 == 0 { 0 } else { change % SERVICES }, change / 2))
        .collect();
    let began = Instant::now();
    for service in &changes {
        assert!(house.fleet.set_endpoints(service));
    }
    let took = began.elapsed();
    // Whatever is asked from here on goes by the last one.
    Client::open(address).ask(&get("/"));
    asks.store(false, SeqCst);
    let asked: u32 = client.join().expect("a request was dropped");
    let rate = CHANGES as f64 / took.as_secs_f64();
    eprintln!("{CHANGES} changes in {took:?}: {rate:.0} a second; {asked} requests meanwhile");
    assert!(rate >= PER_SECOND as f64, "{rate:.0} changes a second");
    assert!(Arc::ptr_eq(&plan, &house.fleet.plan()), "there is another plan");
    assert_eq!(plans_alive(&house), alive);
    house.settles("the first endpoint set is freed", |house| {
        house.fleet.measure();
        first.strong_count() == 0
    });
    assert!(!house.fleet.set_endpoints(&Arc::new(Service::default())), "no such service");
}

/// The endpoint that stays keeps its idle connection over every change.
#[test]
fn an_endpoint_that_stays_keeps_its_connections() {
    let _watchdog = Watchdog::new("an endpoint that stays", LONG);
    let house = house(Upstream::start(|_| Some(ok("well"))));
    let mut client = Client::open(house.address());
    client.ask(&get("/"));
    let connects = |house: &House| {
        let url = house.fleet.endpoint_sets()[0].service.endpoints[0].url.clone();
        house.registry.endpoint(0, "s", &url).connects.value()
    };
    let before = connects(&house);
    for change in 0..50 {
        house.fleet.set_endpoints(&changed(&house, 0, change));
        client.ask(&get("/"));
    }
    assert_eq!(connects(&house), before);
}
