use super::*;
use crate::HealthPolicy;
use crate::attempt_guard::Transition;
use crate::connection::{Connection, OpenCount};
use crate::endpoint_sets::{EndpointSets, Names};
use crate::endpoint_state::{Health, NoTlsTerms};
use crate::labels::Labels;
use crate::service::{Address, Endpoint, EndpointLimits, PreferPolicy};
use crate::service_shared::Notifier;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use thalweg_balance::balancer;
use thalweg_net::connect::PeerAddress;
use thalweg_net::{Owner, Reactor};
use thalweg_tls::{PeerPolicy, PeerTerms, Trust};

const HOST: &str = "app.test";

fn endpoint(url: &str, address: Address) -> Endpoint {
    Endpoint {
        url: url.into(),
        address,
        weight: 1,
        tier: 0,
        mode: Mode::Ready,
        labels: Labels::default(),
        limits: EndpointLimits::default(),
        is_added: false,
    }
}

/// A service of one host name.
fn of_a_name() -> Service {
    let address = Address::Name { host: HOST.into(), port: 80 };
    Service {
        name: "s".into(),
        endpoints: vec![endpoint("http://app.test:80", address)],
        ..Service::default()
    }
}

/// A service of the addresses 192.0.2.x.
fn of_addresses(last: &[u8]) -> Service {
    let address = |last: &u8| Address::Socket(SocketAddr::from(([192, 0, 2, *last], 80)));
    let endpoints = last.iter().map(|last| endpoint(&format!("http://192.0.2.{last}:80"), address(last)));
    Service { name: "s".into(), endpoints: endpoints.collect(), ..Service::default() }
}

/// What the host name stands for: 192.0.2.x for every x.
fn names(last: &[u8]) -> Names {
    let ips = last.iter().map(|last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, *last))).collect();
    Names::from([(HOST.into(), ips)])
}

/// A service on one worker, whose form and names can change.
struct House {
    endpoint_sets: EndpointSets,
    service: Arc<Service>,
    state: ServiceState,
}

impl House {
    fn new(service: Service, last: &[u8]) -> Self {
        let (endpoint_sets, service) = (EndpointSets::new(2, Notifier::default()), Arc::new(service));
        let endpoint_set = endpoint_sets.update(std::slice::from_ref(&service), &names(last)).remove(0);
        Self { state: ServiceState::new(endpoint_set, 0, None), endpoint_sets, service }
    }

    fn resolve(&self, last: &[u8]) {
        let endpoint_set =
            self.endpoint_sets.update(std::slice::from_ref(&self.service), &names(last)).remove(0);
        self.state.update(&endpoint_set);
    }

    /// As a reload does.
    fn reload(&mut self, service: Service) {
        self.service = Arc::new(service);
        let endpoint_set =
            self.endpoint_sets.update(std::slice::from_ref(&self.service), &Names::new()).remove(0);
        self.state = ServiceState::new(endpoint_set, 0, Some(&self.state));
    }

    fn member(&self, last: u8) -> Rc<Member> {
        let address = PeerAddress::Tcp(SocketAddr::from(([192, 0, 2, last], 80)));
        self.state.members.borrow().iter().find(|member| *member.address() == address).unwrap().clone()
    }

    fn pick(&self, now: Instant, tried: &[u32]) -> Option<Rc<Member>> {
        self.state.pick(now, &Wanted { tried, ..Wanted::default() })
    }

    /// How often each of so many picks takes the member.
    fn picks(&self, now: Instant, of: &Member, picks: usize) -> usize {
        (0..picks).filter(|_| self.pick(now, &[]).unwrap().address() == of.address()).count()
    }
}

/// An open connection, and its other end.
fn connection() -> (Connection, TcpStream) {
    let reactor = Rc::new(Reactor::new().unwrap());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let socket = Socket::accepted(&reactor, listener.accept().unwrap().0.into(), Owner(0)).unwrap();
    (Connection::new(socket, Instant::now(), &OpenCount::default()), other)
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn a_member_that_stays_keeps_its_idle_connections_when_the_list_shifts() {
    let house = House::new(of_a_name(), &[1, 2, 3]);
    let (idle, _other) = connection();
    house.member(2).pool.put(idle, &house.service.pool, Owner(0));
    for shifted in [&[2, 3][..], &[4, 1, 2], &[5, 6, 7, 8, 2]] {
        house.resolve(shifted);
        assert_eq!((house.state.idle(), house.member(2).pool.len()), (1, 1), "{shifted:?}");
        let indices: Vec<_> = house.state.members.borrow().iter().map(|member| member.index).collect();
        assert_eq!(indices, (0..shifted.len() as u32).collect::<Vec<_>>(), "{shifted:?}");
    }
    assert!(house.member(2).pool.take(&house.service.pool, Instant::now(), true).is_some());
}

#[test]
fn a_connection_comes_back_to_its_member_although_the_list_has_shifted_meanwhile() {
    let house = House::new(of_a_name(), &[1, 2]);
    // An exchange under way holds the member as it was when it was picked.
    let (held, (busy, _other)) = (house.member(2), connection());
    house.resolve(&[3, 1, 2]);
    held.pool.put(busy, &house.service.pool, Owner(0));
    assert_eq!(house.member(2).pool.len(), 1);
}

#[test]
fn the_connections_of_a_member_that_goes_are_closed_those_in_use_too_when_they_come_back() {
    let house = House::new(of_a_name(), &[1, 2]);
    let ((idle, _other), (busy, _far)) = (connection(), connection());
    let gone = house.member(2);
    gone.pool.put(idle, &house.service.pool, Owner(0));
    house.resolve(&[1]);
    assert_eq!((house.state.idle(), gone.pool.len()), (0, 0));
    gone.pool.put(busy, &house.service.pool, Owner(0));
    assert_eq!(gone.pool.len(), 0);
}

#[test]
fn a_service_that_is_changed_keeps_the_connections_and_the_standing_of_its_members() {
    let mut house = House::new(of_addresses(&[1, 2, 3]), &[]);
    let now = Instant::now();
    let (idle, _other) = connection();
    house.member(3).pool.put(idle, &house.service.pool, Owner(0));
    house.member(2).standing.refused(now, "x");
    let mut changed = of_addresses(&[2, 4, 3]);
    changed.endpoints[2].weight = 5;
    house.reload(changed);
    assert_eq!(house.member(3).pool.len(), 1);
    assert_eq!(house.picks(now, &house.member(2), 12), 0, "it is still out");
    assert_eq!(house.picks(now, &house.member(3), 12), 10);
}

#[test]
fn several_failures_at_once_set_a_member_aside_for_the_first_time_only_once() {
    let house = House::new(of_a_name(), &[1, 2]);
    let (bad, now) = (house.member(1), Instant::now());
    assert!(bad.standing.refused(now, "x"), "it was in good standing");
    for _ in 0..5 {
        assert!(!bad.standing.refused(now, "x"), "one bad moment");
    }
    assert_eq!(house.picks(now + ms(999), &bad, 8), 0);
    assert_eq!(house.picks(now + ms(1001), &bad, 8), 4, "aside for longer than the first time");
}

#[test]
fn a_member_that_fails_again_afterwards_is_set_aside_for_twice_as_long_up_to_a_bound() {
    let house = House::new(of_a_name(), &[1, 2]);
    let (bad, mut now, mut aside) = (house.member(1), Instant::now(), ms(1000));
    for _ in 0..8 {
        bad.standing.refused(now, "x");
        assert_eq!(house.picks(now + aside - ms(1), &bad, 8), 0, "{aside:?}");
        now += aside + ms(1);
        assert_eq!(house.picks(now, &bad, 8), 4, "{aside:?}");
        aside = (aside * 2).min(ms(16_000));
    }
    assert!(bad.standing.accepted(bad.standing.stage(), now), "it had failed before");
    assert!(bad.standing.refused(now, "x"), "it was in good standing again");
}

#[test]
fn a_member_set_aside_is_not_chosen_because_the_others_are_full() {
    let house = House::new(of_a_name(), &[1, 2]);
    let (bad, good, now) = (house.member(1), house.member(2), Instant::now());
    bad.standing.refused(now, "x");
    let pick = |tried: &[u32], room: &dyn Fn(&Member) -> bool| {
        house.state.pick_with_room(now, &Wanted { tried, ..Wanted::default() }, room)
    };
    assert!(pick(&[], &|m| m.index == bad.index).is_none());
    assert!(pick(&[], &|_| true).is_some_and(|m| m.index == good.index));
    let rest = pick(&[good.index], &|_| true);
    assert!(rest.is_some_and(|m| m.index == bad.index), "rather one that was set aside than none");
}

#[test]
fn a_member_set_aside_stays_so_when_the_list_shifts() {
    let house = House::new(of_a_name(), &[1, 2]);
    let now = Instant::now();
    house.member(2).standing.refused(now, "x");
    house.resolve(&[3, 1, 2]);
    assert_eq!(house.picks(now, &house.member(2), 9), 0);
}

#[test]
fn who_was_out_is_tried_by_one_exchange_at_a_time_until_one_succeeds() {
    let mut service = of_addresses(&[1, 2]);
    service.ejection.max_share = 50;
    let house = House::new(service, &[]);
    let (bad, start) = (house.member(1), Instant::now());
    assert!(bad.standing.eject(&house.service.ejection, start, "x"));
    let now = start + house.service.ejection.time + ms(1);
    let trial = loop {
        let attempt_guard = house.state.attempt_guard(house.pick(now, &[]).unwrap(), now);
        if attempt_guard.index == bad.index {
            break attempt_guard;
        }
    };
    assert_eq!(house.picks(now, &bad, 10), 0, "one trial at a time");
    drop(trial);
    let trial = house.state.attempt_guard(bad.clone(), now);
    trial.answered(&house.service, (200, ms(1)), now);
    assert_eq!(house.picks(now, &bad, 10), 5, "it has made good");
}

#[test]
fn a_success_that_was_under_way_before_an_ejection_does_not_end_it() {
    let mut service = of_addresses(&[1, 2]);
    service.ejection.max_share = 50;
    let house = House::new(service, &[]);
    let (bad, now) = (house.member(1), Instant::now());
    let under_way = house.state.attempt_guard(bad.clone(), now);
    assert!(bad.standing.eject(&house.service.ejection, now, "x"));
    assert_eq!(under_way.answered(&house.service, (200, ms(1)), now), Transition::Nothing);
    assert_eq!(house.picks(now, &bad, 10), 0, "it is out all the same");
    let chosen_for_want_of_others = house.state.attempt_guard(bad.clone(), now);
    assert_eq!(chosen_for_want_of_others.answered(&house.service, (200, ms(1)), now), Transition::Back);
}

#[test]
fn who_was_out_is_tried_however_slow_it_was_before() {
    let mut service = of_addresses(&[1, 2]);
    service.balance.algorithm = balancer("peak_ewma").unwrap();
    let house = House::new(service, &[]);
    let (slow, now) = (house.member(1), Instant::now());
    slow.observe(ms(500), now);
    house.member(2).observe(ms(1), now);
    assert_eq!(house.picks(now, &slow, 20), 0, "the other one answers sooner");
    slow.standing.refused(now, "x");
    assert_eq!(house.picks(now, &slow, 20), 0);
    assert_eq!(house.picks(now + ms(1001), &slow, 1), 1, "its trial");
}

#[test]
fn nobody_who_fails_health_checks_is_used_unless_it_fails_open() {
    for when_down in [WhenDown::Error, WhenDown::TryAll] {
        let open = when_down == WhenDown::TryAll;
        let house = House::new(Service { when_down, ..of_addresses(&[1, 2]) }, &[]);
        let now = Instant::now();
        house.member(1).standing.set_health(Health::Unwell, now, "x");
        assert_eq!(house.picks(now, &house.member(2), 6), 6);
        house.member(2).standing.set_health(Health::Unwell, now, "x");
        assert_eq!(house.pick(now, &[]).is_some(), open);
        house.member(2).standing.set_health(Health::Well, now, "");
        assert_eq!(house.picks(now, &house.member(2), 6), 6, "it comes back");
    }
}

#[test]
fn backups_serve_only_while_no_other_is_well() {
    let mut service = of_addresses(&[1, 2, 3]);
    service.endpoints[0].tier = 1;
    let house = House::new(service, &[]);
    let (backup, now) = (house.member(1), Instant::now());
    assert_eq!(house.picks(now, &backup, 8), 0);
    house.member(2).standing.refused(now, "x");
    assert_eq!(house.picks(now, &backup, 8), 0);
    house.member(3).standing.refused(now, "x");
    assert_eq!(house.picks(now, &backup, 8), 8);
    house.member(3).standing.accepted(house.member(3).standing.stage(), now);
    assert_eq!(house.picks(now, &backup, 8), 0);
}

#[test]
fn below_the_panic_threshold_all_serve() {
    let mut service = of_addresses(&[1, 2, 3, 4]);
    service.balance.panic_threshold = 50;
    let house = House::new(service, &[]);
    let now = Instant::now();
    for last in [1, 2] {
        house.member(last).standing.set_health(Health::Unwell, now, "x");
    }
    assert_eq!(house.picks(now, &house.member(1), 8), 0, "half is not below half");
    house.member(3).standing.set_health(Health::Unwell, now, "x");
    assert_eq!(house.picks(now, &house.member(1), 8), 2);
}

#[test]
fn draining_and_maintenance_take_nothing_new_whatever_else_is_down() {
    for mode in [Mode::Draining, Mode::Maintenance] {
        let mut service = of_addresses(&[1, 2]);
        service.when_down = WhenDown::TryAll;
        service.balance.panic_threshold = 100;
        service.endpoints[0].mode = mode;
        let house = House::new(service, &[]);
        let now = Instant::now();
        house.member(2).standing.refused(now, "x");
        assert_eq!(house.picks(now, &house.member(1), 8), 0);
        assert!(house.pick(now, &[1]).is_none());
    }
}

#[test]
fn a_slow_start_begins_with_a_little_and_ends_with_the_full_share() {
    let mut service = of_addresses(&[1, 2]);
    service.balance.slow_start = Some(Duration::from_secs(100));
    let house = House::new(service, &[]);
    let (slow, start) = (house.member(1), Instant::now());
    assert_eq!(house.picks(start, &slow, 100), 50, "nobody starts slowly when the proxy starts");
    slow.standing.refused(start, "x");
    slow.standing.accepted(slow.standing.stage(), start);
    let share = |seconds: u64| house.picks(start + Duration::from_secs(seconds), &slow, 2000);
    // A tenth of its weight against a whole one, then half of it.
    let (early, midway) = (share(1), share(50));
    assert!((130..240).contains(&early), "{early}");
    assert!((580..750).contains(&midway), "{midway}");
    assert_eq!(share(101), 1000);
    house.member(2).standing.refused(start + Duration::from_secs(101), "x");
    slow.standing.refused(start + Duration::from_secs(101), "x");
    slow.standing.accepted(slow.standing.stage(), start + Duration::from_secs(101));
    assert_eq!(house.picks(start + ms(101_001), &slow, 10), 10, "it is all there is");
}

#[test]
fn a_kept_client_stays_where_it_was_while_that_may_be_used() {
    let house = House::new(of_addresses(&[1, 2, 3]), &[]);
    let (kept, now) = (house.member(2), Instant::now());
    let wanted = Wanted { kept: Some(kept.standing.id), ..Wanted::default() };
    let pick = || house.state.pick(now, &wanted).unwrap().index;
    assert_eq!([pick(), pick(), pick()], [1, 1, 1]);
    kept.standing.refused(now, "x");
    assert_ne!(pick(), 1);
    let unknown = Wanted { kept: Some(7), ..Wanted::default() };
    assert!(house.state.pick(now, &unknown).is_some());
}

#[test]
fn the_loads_of_all_workers_count_where_the_balancer_asks() {
    let mut service = of_addresses(&[1, 2]);
    service.balance.algorithm = balancer("least_requests").unwrap();
    let house = House::new(service, &[]);
    let endpoint_set =
        house.endpoint_sets.update(std::slice::from_ref(&house.service), &Names::new()).remove(0);
    let elsewhere = ServiceState::<Socket>::new(endpoint_set, 1, None);
    let now = Instant::now();
    let busy = elsewhere.pick(now, &Wanted::default()).unwrap();
    let visits: Vec<_> = (0..3).map(|_| elsewhere.attempt_guard(busy.clone(), now)).collect();
    let mine: Vec<_> =
        (0..3).map(|_| house.state.attempt_guard(house.pick(now, &[]).unwrap(), now)).collect();
    assert!(mine.iter().all(|attempt_guard| attempt_guard.index != busy.index));
    assert_eq!(busy.standing.service.in_flight(), 6);
    drop((visits, mine));
    assert_eq!((busy.standing.service.in_flight(), busy.standing.in_flight()), (0, 0));
    assert_eq!(busy.standing.active(), 0);
}

#[test]
fn a_dead_tier_is_no_reason_to_panic_while_the_next_is_well() {
    let mut service = of_addresses(&[1, 2, 3, 4, 5]);
    service.balance.panic_threshold = 50;
    service.endpoints[3].tier = 1;
    service.endpoints[4].tier = 1;
    let house = House::new(service, &[]);
    let now = Instant::now();
    for last in [1, 2, 3] {
        house.member(last).standing.set_health(Health::Unwell, now, "x");
    }
    assert_eq!(house.picks(now, &house.member(4), 8) + house.picks(now, &house.member(5), 8), 8);
}

#[test]
fn the_own_zone_serves_until_too_few_of_it_are_well() {
    let mut service = of_addresses(&[1, 2, 3, 4]);
    service.prefer = Some(PreferPolicy { zone: "a".into(), spill_over: 60 });
    for (endpoint, zone) in service.endpoints.iter_mut().zip(["a", "a", "b", "b"]) {
        endpoint.labels = [(Labels::ZONE, zone)].into_iter().collect();
    }
    let house = House::new(service, &[]);
    let now = Instant::now();
    let picks = |last| house.picks(now, &house.member(last), 8);
    assert_eq!((picks(1), picks(2), picks(3), picks(4)), (4, 4, 0, 0));
    house.member(1).standing.set_health(Health::Unwell, now, "x");
    assert_eq!(picks(1), 0);
    assert!(picks(2) > 0 && picks(3) > 0 && picks(4) > 0, "one of two is less than 60 %");
    house.member(2).standing.set_health(Health::Unwell, now, "x");
    assert_eq!((picks(3), picks(4)), (4, 4), "the zone is gone");
}

#[test]
fn who_fails_open_spreads_over_all() {
    let house = House::new(Service { when_down: WhenDown::TryAll, ..of_addresses(&[1, 2, 3, 4]) }, &[]);
    let now = Instant::now();
    for last in 1..=4 {
        house.member(last).standing.set_health(Health::Unwell, now, "x");
    }
    (1..=4).for_each(|last| assert_eq!(house.picks(now, &house.member(last), 8), 2));
}

#[test]
fn an_exchange_of_an_older_form_does_not_choose_who_drains_now() {
    let mut house = House::new(of_addresses(&[1, 2]), &[]);
    let mut changed = of_addresses(&[1, 2]);
    changed.endpoints[0].mode = Mode::Draining;
    let old = std::mem::replace(&mut house.service, Arc::new(changed));
    let endpoint_set =
        house.endpoint_sets.update(std::slice::from_ref(&house.service), &Names::new()).remove(0);
    let now = Instant::now();
    assert_eq!(*old.name, *endpoint_set.service.name);
    assert_eq!(house.picks(now, &house.member(1), 8), 0);
}

/// What is asked of a member through TLS is part of who it is: connections, tickets and verdicts of other terms are
/// somebody else's.
#[test]
fn other_terms_make_another_member() {
    let secured = |policy: PeerPolicy| {
        let mut service = of_addresses(&[1]);
        service
            .endpoints
            .push(endpoint("https://192.0.2.2:443", of_addresses(&[2]).endpoints[0].address.clone()));
        service.tls = Some(Arc::new(PeerTerms::new(policy).unwrap()));
        service
    };
    let policy = || PeerPolicy { trust: Trust::InsecureSkipVerify, ..PeerPolicy::default() };
    let mut house = House::new(secured(policy()), &[]);
    let members = |house: &House| (house.member(1).standing.clone(), house.member(2).standing.clone());
    let (plain, before) = members(&house);
    assert!(plain.connector().unwrap().is_none() && before.connector().unwrap().is_some());
    let (idle, _other) = connection();
    house.member(2).pool.put(idle, &house.service.pool, Owner(0));
    let pool = house.member(2).pool.clone();
    house.reload(Service { when_down: WhenDown::TryAll, ..secured(policy()) });
    let (same_plain, same) = members(&house);
    assert!(Arc::ptr_eq(&plain, &same_plain) && Arc::ptr_eq(&before, &same), "the terms are the same");
    assert_eq!(pool.len(), 1);
    let named = PeerPolicy { server_name: Some("a.test".to_owned()), ..policy() };
    house.reload(secured(named));
    let (same_plain, after) = members(&house);
    assert!(Arc::ptr_eq(&plain, &same_plain) && !Arc::ptr_eq(&before, &after));
    assert_eq!((pool.len(), house.member(2).pool.len()), (0, 0));
    // Without terms nothing is sent.
    house.reload(Service { tls: None, ..secured(policy()) });
    assert_eq!(house.member(2).standing.connector().err(), Some(NoTlsTerms));
}

/// As workers do it: no tick of the control thread is needed.
#[test]
fn the_attempt_that_fails_once_too_often_opens_the_breaker() {
    let breaker = crate::policy::BreakerPolicy { min_requests: 4, ..Default::default() };
    let house = House::new(Service { breaker: Some(breaker), ..of_addresses(&[1, 2]) }, &[]);
    let now = Instant::now();
    for at in 0..4 {
        assert!(house.state.admit(now).is_ok(), "{at}");
        let attempt_guard = house.state.attempt_guard(house.pick(now, &[]).unwrap(), now);
        match at {
            0 => drop(attempt_guard.answered(&house.service, (200, ms(1)), now)),
            2 => drop(attempt_guard.refused(now, "refused")),
            _ => drop(attempt_guard.failed(&house.service, now, "reset")),
        }
    }
    assert!(house.state.admit(now).is_err());
}

#[test]
fn a_name_of_a_document_never_leads_to_what_its_service_is_kept_off() {
    let kept_off = |address: Address| Service { kept_off: [address].into(), ..of_a_name() };
    let picked = |service: Service| {
        let house = House::new(service, &[1]);
        house.resolve(&[9]);
        house.state.pick(Instant::now(), &Wanted::default()).is_some()
    };
    let nine = || Address::Socket(([192, 0, 2, 9], 80).into());
    let mapped = || Address::Socket("[::ffff:192.0.2.9]:80".parse().unwrap());
    for address in [nine(), mapped()] {
        let mut service = kept_off(address);
        assert!(picked(service.clone()), "the file may lead anywhere");
        service.endpoints[0].is_added = true;
        assert!(!picked(service));
    }
    let mut service = kept_off(Address::Socket(([192, 0, 2, 9], 81).into()));
    service.endpoints[0].is_added = true;
    assert!(picked(service.clone()));
    // Health checks ask that port.
    let health = HealthPolicy { port: Some(81), ..HealthPolicy::default() };
    service.health = Some(Arc::new(health));
    assert!(!picked(service));
}

#[test]
fn an_address_that_is_barred_is_no_member_whether_it_is_written_or_resolved() {
    fn bars_nine(_: &Endpoint, address: &PeerAddress) -> bool {
        *address == PeerAddress::Tcp(SocketAddr::from(([192, 0, 2, 9], 80)))
    }
    let house = House::new(of_a_name(), &[1]);
    house.endpoint_sets.keep_off(bars_nine);
    house.resolve(&[9, 2]);
    let picked = house.state.pick(Instant::now(), &Wanted::default()).unwrap();
    assert_eq!(*picked.address(), *house.member(2).address());
    house.resolve(&[9]);
    assert!(house.state.pick(Instant::now(), &Wanted::default()).is_none());

    let mut house = House::new(of_addresses(&[1]), &[]);
    house.endpoint_sets.keep_off(bars_nine);
    house.reload(of_addresses(&[9]));
    assert!(house.state.pick(Instant::now(), &Wanted::default()).is_none());
    house.endpoint_sets.keep_off(|_, _| false);
    house.reload(of_addresses(&[9, 2]));
    assert!(house.state.pick(Instant::now(), &Wanted::default()).is_some());
}
