//! Labels that were never sealed, or lead where nobody may go.

use super::*;
use thalweg_tests::message::Kind;

/// Answers to requests for these hosts, one behind the other on one connection, each as from a client of its own.
fn answers(address: SocketAddr, hosts: &[String]) -> Vec<String> {
    let mut client = Connection::open(address).unwrap();
    let mut answers = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        let from = IpAddr::from((0x0a00_0000 + at as u32 / 50).to_be_bytes());
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-For: {from}\r\n\r\n"));
        let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP);
        let mut answer = answer.unwrap_or_else(|why| panic!("{host}: {why}"));
        // Of whatever is answered at that time.
        answer.fields.retain(|(name, _)| name != "Date");
        answers.push(format!("{answer:?}"));
    }
    answers
}

/// A label whose time was over a minute ago.
fn expired(keyring: &Keyring, to: To) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let destination = Destination { to, tls: false, expires: Minutes::from_unix(now - 60) };
    format!("{}.{}", keyring.seal(&destination).unwrap(), keyring.domain())
}

/// An address of this machine at which nobody listens.
fn nowhere() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// A generator that gives the same numbers at every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Labels that are good but for something.
fn mutated(good: &str, count: usize) -> Vec<String> {
    let (label, domain) = good.split_once('.').unwrap();
    let mut numbers = Numbers(7);
    let mut hosts = Vec::new();
    while hosts.len() < count {
        let mut text = label.as_bytes().to_vec();
        match hosts.len() % 8 {
            // A bit of any character.
            0..=2 => {
                let at = numbers.next(63);
                let digit = ALPHABET.iter().position(|digit| *digit == text[at]).unwrap();
                text[at] = ALPHABET[digit ^ 1 << numbers.next(5)];
            }
            // Several characters, or all behind the header.
            3 => (0..2 + numbers.next(8)).for_each(|_| text[numbers.next(63)] = ALPHABET[numbers.next(32)]),
            4 => text[2..].iter_mut().for_each(|byte| *byte = ALPHABET[numbers.next(32)]),
            // Shorter.
            5 => text.truncate(1 + numbers.next(62)),
            // Characters that are no digits.
            6 => text[numbers.next(63)] = b"0189-_"[numbers.next(6)],
            // Two characters change places.
            _ => text.swap(numbers.next(63), numbers.next(63)),
        }
        if text != label.as_bytes() {
            hosts.push(format!("{}.{domain}", String::from_utf8(text).unwrap()));
        }
    }
    hosts
}

#[test]
fn ten_thousand_mutated_labels_are_refused_alike() {
    let _watchdog = watchdog("ten_thousand_mutated_labels_are_refused_alike");
    let upstream = Upstream::saying("never");
    let proxy = Proxy::start(&config("", "trusted_proxies: [ 127.0.0.1 ]\n"));
    let before = Vitals::of(&proxy);
    let good = seal(upstream.address());
    let mut hosts = mutated(&good, 10_000);
    let address = To::Address(upstream.address());
    hosts.extend([
        expired(&keyring(1, DOMAIN), address),
        seal_for(&keyring(1, DOMAIN), address, false, 30 * HOUR),
        seal_for(&keyring(2, DOMAIN), address, false, HOUR),
        format!("{}.{DOMAIN}", &seal_for(&keyring(1, "other.localhost"), address, false, HOUR)[..63]),
        seal("127.0.0.1:80".parse().unwrap()),
        seal("10.0.0.7:3000".parse().unwrap()),
        format!("www.{good}"),
        format!("x.{DOMAIN}"),
    ]);
    let all = answers(proxy.web(), &hosts);
    let first = &all[0];
    assert!(first.contains("404") && first.contains("destination_not_found"), "{first}");
    assert!(!first.to_lowercase().contains("x-request-id"), "{first}");
    for (host, answer) in hosts.iter().zip(&all) {
        assert_eq!(answer, first, "{host}");
    }
    // A host for which there is no route at all is told the same.
    let mut client = Connection::open(proxy.web()).unwrap();
    client.send("GET / HTTP/1.1\r\nHost: other.example.com\r\n\r\n");
    let unrouted = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
    assert_eq!(unrouted.value("proxy-status"), ask(proxy.web(), &hosts[0]).value("proxy-status"));
    assert_eq!(upstream.served(), 0);
    drop(client);
    before.wait_for(&proxy, "refusals");
}

#[test]
fn addresses_that_are_never_meant_are_refused_however_they_are_written() {
    let _watchdog = watchdog("addresses_that_are_never_meant_are_refused_however_they_are_written");
    let upstream = Upstream::saying("never");
    let proxy = Proxy::start(&config(
        ", allow: [ \"0.0.0.0/0:1-65535\", \"[::/0]:1-65535\", \"127.9.0.0/16:1-65535\" ]",
        "trusted_proxies: [ 127.0.0.1 ]\n",
    ));
    let port = upstream.address().port();
    let own = [proxy.web(), proxy.metrics(), admin_address(&proxy)];
    let mut targets: Vec<String> = [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "169.254.1.1",
        "168.63.129.16",
        "100.100.100.200",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "[::1]",
        "[::]",
        "[fe80::1]",
        "[ff02::1]",
        "[fd00:ec2::254]",
        "[::ffff:127.0.0.1]",
        "[::ffff:169.254.169.254]",
        "[::7f00:1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:7f00:1::]",
        "[2002:a9fe:a9fe::1]",
        "[64:ff9b:1::7f00:1]",
    ]
    .map(|ip| format!("{ip}:{port}"))
    .to_vec();
    // The proxy's own, at an address of the machine that the route does allow.
    targets.extend(own.iter().map(|own| format!("127.9.0.1:{}", own.port())));
    targets.extend(own.iter().map(|own| own.to_string()));
    let hosts: Vec<_> = targets.iter().map(|target| seal(target.parse().unwrap())).collect();
    let all = answers(proxy.web(), &hosts);
    let own_at = |at: usize| (24..27).contains(&at);
    for (at, (target, answer)) in targets.iter().zip(&all).enumerate() {
        // Listeners are bound to 127.0.0.1 alone: 127.9.0.1 at their ports is nobody's, and allowed.
        match own_at(at) {
            true => assert!(answer.contains("503") || answer.contains("502"), "{target}: {answer}"),
            false => assert_eq!(answer, &all[0], "{target}"),
        }
    }
    assert!(all[0].contains("404"), "{}", all[0]);
    assert_eq!(ask(proxy.web(), &seal(([127, 9, 0, 1], 1).into())).status(), 503, "what is named is tried");
    assert_eq!(upstream.served(), 0);
    // No form but an address is a destination: nothing is resolved, nothing is read as a number.
    for text in ["2130706433:80", "0177.0.0.1:80", "0x7f000001:80", "127.1:80", "localhost:80"] {
        let sealed = Command::new(thalweg_tests::binary::path())
            .args(["seal", text, "--config"])
            .arg(proxy.directory().join("thalweg.yaml"))
            .output()
            .unwrap();
        assert!(!sealed.status.success() && sealed.stdout.is_empty(), "{text}: {sealed:?}");
    }
}

fn admin_address(proxy: &Proxy) -> SocketAddr {
    proxy.process().wait_line("admin on", STEP, |line| line.strip_prefix("thalweg: admin on ")?.parse().ok())
}

#[test]
fn listeners_on_every_address_are_the_proxys_own_at_each_of_them() {
    let _watchdog = watchdog("listeners_on_every_address_are_the_proxys_own_at_each_of_them");
    let web = "listeners: { web: { address: \":0\" } }\n";
    let proxy = Proxy::start(&config(", allow: [ \"127.0.0.0/8:1-65535\" ]", web));
    let port = proxy.web().port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    for ip in [[127, 0, 0, 1], [127, 3, 2, 1]] {
        refused(address, &seal((ip, port).into()));
    }
    let record = record_of(&proxy, "destination_not_found");
    assert_eq!(record["fault_detail"], "the address is the proxy's own", "{record}");
}

#[test]
fn a_client_with_many_refused_labels_is_slowed_and_its_good_ones_go_on() {
    let _watchdog = watchdog("a_client_with_many_refused_labels_is_slowed_and_its_good_ones_go_on");
    let upstream = Upstream::saying("good");
    let proxy = Proxy::start(&config("", "trusted_proxies: [ 127.0.0.1 ]\n"));
    let good = seal(upstream.address());
    let bad = format!("x.{DOMAIN}");
    let slowed = || {
        (0..2_000).find_map(|_| {
            let answer = ask_with(proxy.web(), &bad, "X-Forwarded-For: 192.0.2.1\r\n");
            (answer.status() == 429).then_some(answer)
        })
    };
    let answer = slowed().expect("a bound");
    assert_eq!((answer.value("retry-after"), answer.value("connection")), (Some("1"), Some("close")));
    let from = "X-Forwarded-For: 192.0.2.1\r\n";
    assert_eq!(ask_with(proxy.web(), &good, from).text(), "good");
    assert_eq!(ask_with(proxy.web(), &bad, "X-Forwarded-For: 192.0.2.2\r\n").status(), 404, "another client");
}

#[test]
fn labels_stand_in_no_log_record_or_metric() {
    let _watchdog = watchdog("labels_stand_in_no_log_record_or_metric");
    let upstream = Upstream::saying("hello");
    let text = config("", "");
    let proxy = Proxy::start(&text);
    let (good, other) = (seal(upstream.address()), seal(nowhere()));
    let bad = seal_for(&keyring(2, DOMAIN), To::Address(upstream.address()), false, HOUR);
    let fields = format!("Referer: https://{other}/page\r\n");
    assert_eq!(ask_with(proxy.web(), &good, &fields).status(), 200);
    assert_eq!(ask_with(proxy.web(), &bad, &fields).status(), 404);
    assert_eq!(ask_with(proxy.web(), &other, "").status(), 503);
    let mut client = Connection::open(proxy.web()).unwrap();
    client
        .send(format!("GET /x?next=https://{other}/ HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n\r\n"));
    assert!(ends(client.read_to_end(Instant::now() + STEP)));
    // Refused before a route was looked for.
    client = Connection::open(proxy.web()).unwrap();
    client.send(format!("GET / HTTP/1.1\r\nHost: {good}\r\nContent-Length: x\r\n\r\n"));
    assert!(ends(client.read_to_end(Instant::now() + STEP)));
    // Whose route is gone by now.
    let (head, tail) = (text.find("routes:").unwrap(), text.find("shutdown:").unwrap());
    let another = "routes: [ { match: { host: a.test }, to: [ \"http://127.0.0.1:9\" ] } ]\n";
    super::super::reload(&proxy, &format!("{}{another}{}", &text[..head], &text[tail..]), 1);
    let mut client = Connection::open(proxy.web()).unwrap();
    client.send(format!("GET /after HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n\r\n"));
    assert!(ends(client.read_to_end(Instant::now() + STEP)));
    let admin = Admin::of(&proxy);
    let requests = admin.get("/api/v1/requests").to_string();
    let metrics = get(proxy.metrics(), "/metrics").unwrap().text();
    let found = admin.get("/api/v1/requests?fault=destination_not_found");
    let details = found["requests"].as_array().unwrap().iter().map(|record| &record["fault_detail"]);
    let details: Vec<_> = details.collect();
    assert_eq!(details[1], "the route has no key with the id that the label tells", "{found}");
    assert_eq!(found["requests"][0]["path"], "/after", "{found}");
    let ended = proxy.stop();
    let log = format!("{:?}", ended.log);
    for (what, text) in
        [("records", &requests), ("metrics", &metrics), ("log", &log), ("stderr", &ended.stderr)]
    {
        for host in [&good, &other, &bad] {
            assert!(!text.contains(&host[..63]), "{what}: {text}");
        }
    }
    assert!(
        log.contains("sealed:1:") && log.contains("sealed:2:") && requests.contains("sealed:1:"),
        "{log}"
    );
    let served = ended.log.iter().find(|line| line["status"] == 200).unwrap();
    assert_eq!(served["endpoint"], json!(format!("http://{}", upstream.address())), "{served}");
}

/// Labels that are refused for reasons of their own, one of each kind at every call.
fn of_each_kind(upstream: SocketAddr, numbers: &mut Numbers) -> [(&'static str, String); 8] {
    let address = To::Address(upstream);
    let good = seal(upstream);
    let mut random = |from: usize| {
        let mut text = good.as_bytes()[..63].to_vec();
        text[from..].iter_mut().for_each(|byte| *byte = ALPHABET[numbers.next(32)]);
        // The spare bits.
        text[62] = b"aiqy"[numbers.next(4)];
        format!("{}.{DOMAIN}", String::from_utf8(text).unwrap())
    };
    [
        ("random", random(2)),
        ("random again", random(2)),
        ("one character changed", random(62)),
        ("cut off", format!("{}.{DOMAIN}", &random(2)[..40])),
        ("of another key", seal_for(&keyring(2, DOMAIN), address, false, HOUR)),
        (
            "of another domain",
            format!("{}.{DOMAIN}", &seal_for(&keyring(1, "other.test"), address, false, HOUR)[..63]),
        ),
        ("expired", expired(&keyring(1, DOMAIN), address)),
        ("not allowed", seal(([10, 0, 0, 7], 3000).into())),
    ]
}

/// How long an answer takes tells no more than the answer. The figures are asserted with `THALWEG_MEASURE=1`.
#[test]
fn the_time_of_a_refusal_tells_nothing() {
    let _watchdog = watchdog("the_time_of_a_refusal_tells_nothing");
    let rounds = if super::super::measuring() { 20_000 } else { 200 };
    let proxy = Proxy::start(&config("", "trusted_proxies: [ 127.0.0.1 ]\n"));
    let mut client = Talk::open(proxy.web()).unwrap();
    let (mut numbers, mut times) = (Numbers(11), vec![Vec::new(); 8]);
    let mut body = Vec::new();
    for round in 0..rounds {
        let kinds = of_each_kind(([127, 0, 0, 1], 9).into(), &mut numbers);
        for at in 0..8_usize {
            // In another order each time.
            let at = (at * 3 + round) % 8;
            let from = IpAddr::from((0x0a00_0000 + round as u32 / 10).to_be_bytes());
            let request =
                format!("GET / HTTP/1.1\r\nHost: {}\r\nX-Forwarded-For: {from}\r\n\r\n", kinds[at].1);
            let began = Instant::now();
            client.send(request).unwrap();
            let head = client.head().unwrap();
            times[at].push(began.elapsed());
            body.clear();
            client.body(&head).each(|bytes| body.extend_from_slice(bytes)).unwrap();
            assert_eq!(head.status(), 404, "{}", kinds[at].0);
        }
    }
    let names = of_each_kind(([127, 0, 0, 1], 9).into(), &mut numbers).map(|(name, _)| name);
    let medians = times.iter_mut().map(|times| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e6
    });
    let medians: Vec<_> = medians.collect();
    let told: Vec<_> = names.iter().zip(&medians).map(|(name, us)| format!("{name} {us:.2} µs")).collect();
    println!("{}", told.join(", "));
    if super::super::measuring() {
        let noise = (medians[0] - medians[1]).abs().max(medians[0] * 0.02);
        assert!(medians.iter().all(|us| (us - medians[0]).abs() <= 2.0 * noise), "{told:?}");
    }
}
