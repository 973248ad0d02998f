//! Chaos: five real endpoints under load, which are killed, frozen, slowed, made to reset, to half-close and to answer
//! 500, one after another. Of requests that may be sent again none fails where a client sees it, but for those whose
//! response had begun; endpoints go and come as the policy says, and so it is told.
//!
//! `load` is the clients, `timeline` what is done to the endpoints, `receiver` the webhook, `verdict` what must hold.
//! `THALWEG_LONG=1` goes on for ten minutes, with troubles drawn from `SEED` and a balancer after the other.

mod load;
mod receiver;
mod timeline;
mod verdict;

use std::env;
use std::time::{Duration, Instant};

use thalweg_tests::{Endpoint, EventStream, Noise, Proxy, Vitals, Watchdog};

use load::Clients;
use receiver::Receiver;
use timeline::{Happened, Kind, Trouble};

/// How many endpoints there are.
const ENDPOINTS: usize = 5;

// What the configuration below says.
const INTERVAL: Duration = Duration::from_millis(200);
const CHECK_TIMEOUT: Duration = Duration::from_millis(200);
const PER_TRY: Duration = Duration::from_millis(300);
const IDLE: Duration = Duration::from_secs(1);
const EJECTED_MOST: Duration = Duration::from_secs(2);
const BUDGET_PERCENT: u64 = 50;
const SECRET: &str = "known to the proxy and to the receiver";

/// How long a long run takes, and one of its proxies.
const LONG: Duration = Duration::from_secs(600);
const LEG: Duration = Duration::from_secs(60);
const BALANCERS: [&str; 6] = [
    "least_requests",
    "round_robin",
    "peak_ewma",
    "random",
    "{ hash: { on: { header: X-Id } } }",
    "{ hash: { on: { header: X-Id }, algorithm: maglev, bounded_load: 150% } }",
];

fn config(endpoints: &[Endpoint], balance: &str, receiver: &Receiver) -> String {
    let urls: Vec<_> = endpoints.iter().map(|endpoint| format!("\"{}\"", endpoint.url())).collect();
    let (urls, hook) = (urls.join(", "), receiver.url());
    let ms = |time: Duration| format!("{}ms", time.as_millis());
    let (interval, timeout, per_try_timeout) = (ms(INTERVAL), ms(CHECK_TIMEOUT), ms(PER_TRY));
    let (idle, most) = (ms(IDLE), ms(EJECTED_MOST));
    format!(
        "workers: 2\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         access_log: {{ format: json, path: \"{{log}}\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         routes: [ {{ to: s }} ]\n\
         services:\n\
         \x20 s:\n\
         \x20   endpoints: [ {urls} ]\n\
         \x20   balance: {balance}\n\
         \x20   health: {{ path: /healthz, expect: [ 200 ], interval: {interval}, timeout: {timeout}, \
         unhealthy_after: 2, healthy_after: 2 }}\n\
         \x20   ejection: {{ consecutive: 3, statuses: [ 5xx ], time: 1s, max_time: {most}, window: 1s, \
         max_share: 50% }}\n\
         \x20   retry: {{ attempts: 4, statuses: [ 500, 502, 503 ], per_try_timeout: {per_try_timeout}, \
         budget: {BUDGET_PERCENT}%, min_retries_per_second: 0 }}\n\
         \x20   timeouts: {{ connect: {per_try_timeout}, idle: {idle} }}\n\
         webhooks:\n\
         - {{ url: \"{hook}\", secret: {{ value: \"{SECRET}\" }}, events: [ endpoint_down, endpoint_up, \
         service_unavailable, service_available ] }}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n"
    )
}

/// What one proxy went through.
struct Leg {
    happened: Vec<Happened>,
    load: load::Outcome,
    sent: u64,
}

/// One proxy, its endpoints and its clients, from the first request to the last look.
fn leg(balance: &str, mut next: impl FnMut(usize) -> Option<Trouble>) -> Leg {
    let names = ["a", "b", "c", "d", "e"];
    let mut endpoints = names.map(|name| Endpoint::start(env!("CARGO_BIN_EXE_test-endpoint"), name));
    let receiver = Receiver::start(SECRET.as_bytes());
    let proxy = Proxy::start(&config(&endpoints, balance, &receiver));
    let events = EventStream::of(&proxy);
    let before = Vitals::of(&proxy);
    let clients = Clients::start(proxy.web(), names);
    clients.wait_for(300);
    let mut happened: Vec<Happened> = Vec::new();
    while let Some(trouble) = next(happened.len()) {
        happened.push(timeline::happen(trouble, &mut endpoints, &clients, (&events, &happened)));
    }
    let shares = clients.shares(1500);
    let load = clients.stop();
    let sent = endpoints.iter().map(Endpoint::total).sum();
    before.wait_for(&proxy, "the chaos");
    verdict::shares(balance, &shares);
    verdict::told(&endpoints, &happened, &events.all(), &receiver);
    verdict::load(&load, &happened, names);
    let ended = proxy.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    verdict::log(&load, &ended);
    verdict::budget(&load, sent, BUDGET_PERCENT);
    Leg { happened, load, sent }
}

#[test]
fn no_request_is_lost_while_endpoints_die_hang_and_come_back() {
    let long = env::var("THALWEG_LONG").as_deref() == Ok("1");
    let name = "no_request_is_lost_while_endpoints_die_hang_and_come_back";
    let _watchdog = Watchdog::new(name, if long { LONG * 2 } else { Duration::from_secs(120) });
    if !long {
        let troubles = short();
        let leg = leg(BALANCERS[0], |done| troubles.get(done).copied());
        verdict::report(BALANCERS[0], &leg);
        assert!(!leg.load.cut.is_empty(), "no response was under way when its endpoint was killed");
        return;
    }
    let seed = env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("chaos: SEED={seed}");
    let (mut noise, begun) = (Noise::new(seed), Instant::now());
    for balance in BALANCERS.iter().cycle() {
        let leg_begun = Instant::now();
        let leg = leg(balance, |done| {
            let over = leg_begun.elapsed() > LEG || begun.elapsed() > LONG;
            (done < Kind::ALL.len() || !over).then(|| timeline::draw(&mut noise, done))
        });
        verdict::report(balance, &leg);
        if begun.elapsed() > LONG {
            return;
        }
    }
}

/// Every kind of trouble, where checks notice it and where they do not; endpoints in turn.
fn short() -> Vec<Trouble> {
    let seen = Kind::ALL.iter().map(|kind| (*kind, true));
    let unseen = Kind::ALL.iter().filter(|kind| kind.can_hide()).map(|kind| (*kind, false));
    let again = [(Kind::Kill, true)];
    let all = seen.chain(unseen).chain(again);
    let hold = Duration::from_millis(1300);
    let trouble = |(number, (kind, seen))| Trouble { kind, seen, endpoint: number % ENDPOINTS, hold };
    all.enumerate().map(trouble).collect()
}
