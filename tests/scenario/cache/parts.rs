//! Ranges of what is not stored, or stored in parts: the parts that come are joined where they are of one
//! representation, and no client gets a byte of another one, or less than it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use thalweg_tests::{Bare, Message, Noise};

use super::{MINUTE, Origin, ask, body, caching, reply, watchdog};

const LEN: usize = 200_000;

/// The versions of a page that an endpoint has, and how it tells them apart.
struct Versions {
    bodies: Vec<Vec<u8>>,
    now: AtomicUsize,
    /// Of each.
    validators: Vec<&'static str>,
}

impl Versions {
    fn new(validators: &[&'static str]) -> Arc<Self> {
        let bodies = (0..validators.len()).map(|number| body(LEN, 77 + number as u64)).collect();
        Arc::new(Self { bodies, now: AtomicUsize::new(0), validators: validators.to_vec() })
    }

    /// What the endpoint answers now.
    fn answer(&self, request: &Message) -> Vec<u8> {
        let number = self.now.load(Ordering::SeqCst);
        let (body, validator) = (&self.bodies[number], self.validators[number]);
        let fields = format!("{MINUTE}X-Version: {number}\r\n{validator}");
        let tag = validator.strip_prefix("ETag: ").map_or("", |tag| tag.trim_end());
        let may = request.value("if-range").is_none_or(|given| given == tag && !tag.starts_with("W/"));
        let range = request.value("range").filter(|_| may).and_then(|range| range_of(range, body.len()));
        let (status, fields, bytes) = match range {
            Some((first, end)) => {
                let of = format!("{fields}Content-Range: bytes {first}-{}/{LEN}\r\n", end - 1);
                ("206 Partial Content", of, &body[first..end])
            }
            None => ("200 OK", fields, &body[..]),
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{fields}\r\n", bytes.len());
        [head.as_bytes(), bytes].concat()
    }

    /// Compares what a client has got with the version that it says to be; says which bytes it was.
    fn check(&self, answer: &Message) -> (usize, usize) {
        let version: usize = answer.value("x-version").unwrap().parse().unwrap();
        let (first, end) = match answer.status() {
            200 => (0, LEN),
            206 => {
                let range = answer.value("content-range").unwrap().strip_prefix("bytes ").unwrap();
                let (range, total) = range.split_once('/').unwrap();
                assert_eq!(total, LEN.to_string());
                let (first, last) = range.split_once('-').unwrap();
                (first.parse().unwrap(), last.parse::<usize>().unwrap() + 1)
            }
            other => panic!("{other}"),
        };
        assert!(answer.body == self.bodies[version][first..end], "{first}..{end} of version {version}");
        (first, end)
    }
}

/// `bytes=0-4`, `bytes=5-` and `bytes=-5`.
fn range_of(range: &str, len: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    Some(match (first, last) {
        ("", last) => (len - last.parse::<usize>().ok()?.min(len), len),
        (first, "") => (first.parse().ok()?, len),
        (first, last) => (first.parse().ok()?, (last.parse::<usize>().ok()? + 1).min(len)),
    })
}

fn serving(versions: &Arc<Versions>) -> Origin {
    let versions = Arc::clone(versions);
    Origin::start(move |request, _| Some(versions.answer(request)))
}

/// A range of the page.
fn part(proxy: &thalweg_tests::Proxy, range: &str) -> Message {
    ask(proxy, "/", &format!("Range: bytes={range}\r\n"))
}

#[test]
fn parts_are_stored_and_joined() {
    let _watchdog = watchdog("parts_are_stored_and_joined");
    let versions = Versions::new(&["ETag: \"v0\"\r\n"]);
    let origin = serving(&versions);
    let proxy = caching(&origin.url(), "{}", "");
    for (range, asked, status) in [
        ("1000-1999", 1, "thalweg; fwd=uri-miss; stored"),
        ("1000-1999", 1, "thalweg; hit"),
        ("1500-1500", 1, "thalweg; hit"),
        ("1999-2000", 2, "thalweg; fwd=partial; stored"),
        ("90000-100000", 3, "thalweg; fwd=partial; stored"),
        ("1000-2000", 3, "thalweg; hit"),
        ("95000-95009", 3, "thalweg; hit"),
        ("2001-89999", 4, "thalweg; fwd=partial; stored"),
        ("1500-99000", 4, "thalweg; hit"),
        ("-99999", 5, "thalweg; fwd=partial; stored"),
        ("0-999", 6, "thalweg; fwd=partial; stored"),
        ("0-", 6, "thalweg; hit"),
    ] {
        let answer = part(&proxy, range);
        assert_eq!(answer.status(), 206, "{range}");
        assert_eq!(versions.check(&answer), range_of(&format!("bytes={range}"), LEN).unwrap());
        let told = answer.value("cache-status").unwrap();
        assert!(told.starts_with(status), "{range}: {told}");
        assert_eq!(origin.asked("/"), asked, "{range}");
    }
    let whole = ask(&proxy, "/", "");
    assert_eq!((whole.status(), versions.check(&whole)), (200, (0, LEN)));
    assert_eq!(origin.asked("/"), 6, "all parts are the whole");
}

#[test]
fn parts_never_answer_for_the_whole() {
    let _watchdog = watchdog("parts_never_answer_for_the_whole");
    let versions = Versions::new(&["ETag: \"v0\"\r\n"]);
    let origin = serving(&versions);
    let proxy = caching(&origin.url(), "{}", "");
    part(&proxy, "0-9");
    let whole = ask(&proxy, "/", "");
    assert_eq!((whole.status(), versions.check(&whole)), (200, (0, LEN)));
    assert_eq!(whole.value("content-length"), Some(&*LEN.to_string()));
    versions.check(&part(&proxy, "5-1005"));
    assert_eq!(origin.asked("/"), 2, "and then the whole is stored");
}

#[test]
fn a_whole_page_of_another_version_takes_the_place_of_parts() {
    let _watchdog = watchdog("a_whole_page_of_another_version_takes_the_place_of_parts");
    let versions = Versions::new(&["ETag: \"v0\"\r\n", "ETag: \"v1\"\r\n"]);
    let origin = serving(&versions);
    let proxy = caching(&origin.url(), "{}", "");
    part(&proxy, "0-9");
    versions.now.store(1, Ordering::SeqCst);
    let other = part(&proxy, "10-19");
    assert_eq!((other.value("x-version"), versions.check(&other)), (Some("1"), (10, 20)));
    let again = part(&proxy, "0-9");
    assert_eq!(again.value("x-version"), Some("1"), "the part of the older version has gone");
    versions.check(&again);
    assert_eq!(versions.check(&part(&proxy, "0-19")), (0, 20));
    assert_eq!(origin.asked("/"), 3);
}

#[test]
fn what_answers_a_range_otherwise_is_not_stored_for_others() {
    let _watchdog = watchdog("what_answers_a_range_otherwise_is_not_stored_for_others");
    for (status, fields) in [
        ("416 Range Not Satisfiable", "Content-Range: bytes */4\r\n"),
        ("404 Not Found", ""),
        ("206 Partial Content", "Content-Range: bytes 0-1/*\r\n"),
        ("206 Partial Content", "Content-Range: bytes 0-99/100\r\n"),
        ("206 Partial Content", ""),
        (
            "206 Partial Content",
            "Content-Range: bytes 0-3/100\r\nContent-Type: multipart/byteranges; boundary=a\r\n",
        ),
    ] {
        let origin = Origin::start(move |request, _| {
            let fields = if request.value("range").is_some() { fields } else { "" };
            let status = if request.value("range").is_some() { status } else { "200 OK" };
            Some(reply(status, &format!("{MINUTE}ETag: \"a\"\r\n{fields}"), "page"))
        });
        let proxy = caching(&origin.url(), "{}", "");
        for _ in 0..2 {
            let answer = part(&proxy, "0-3");
            assert_eq!(
                (answer.status().to_string().as_str(), answer.text().as_str()),
                (&status[..3], "page")
            );
        }
        assert_eq!(ask(&proxy, "/", "").text(), "page", "{status}");
        assert_eq!(ask(&proxy, "/", "").text(), "page", "{status}");
        assert_eq!(origin.asked("/"), 3, "{status} {fields}: nothing of it is stored, and the page is");
    }
}

#[test]
fn a_part_that_breaks_off_is_not_stored() {
    let _watchdog = watchdog("a_part_that_breaks_off_is_not_stored");
    let asked: Arc<AtomicUsize> = Arc::default();
    let count = Arc::clone(&asked);
    // No length is told: the range has one.
    let origin = Bare::start(move |talk| {
        talk.head()?;
        let is_first = count.fetch_add(1, Ordering::SeqCst) == 0;
        talk.send(format!(
            "HTTP/1.1 206 Partial Content\r\n{MINUTE}ETag: \"a\"\r\nContent-Range: bytes 0-5/26\r\n\
             Connection: close\r\n\r\n{}",
            if is_first { "abc" } else { "abcdef" }
        ))
    });
    let proxy = caching(&origin.url(), "{}", "");
    let request = "GET / HTTP/1.1\r\nHost: a.test\r\nRange: bytes=0-5\r\n\r\n";
    let broken = thalweg_tests::message::fetch(proxy.web(), request);
    assert!(broken.is_err(), "half of a part is no response: {broken:?}");
    assert_eq!(part(&proxy, "0-5").text(), "abcdef");
    assert_eq!(part(&proxy, "1-2").text(), "bc");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[test]
fn if_range_joins_what_is_stored_and_begins_nothing() {
    let _watchdog = watchdog("if_range_joins_what_is_stored_and_begins_nothing");
    // As RFC 9110 §15.3.7 has it: what the client knows is left out.
    let origin = Origin::start(|request, _| {
        let kind = if request.value("if-range").is_some() { "" } else { "Content-Type: text/plain\r\n" };
        let (first, end) = range_of(request.value("range").unwrap(), 26)?;
        let fields = format!("{MINUTE}ETag: \"a\"\r\n{kind}Content-Range: bytes {first}-{}/26\r\n", end - 1);
        Some(reply("206 Partial Content", &fields, &"abcdefghijklmnopqrstuvwxyz"[first..end]))
    });
    let proxy = caching(&origin.url(), "{}", "");
    let with = |range: &str| ask(&proxy, "/", &format!("Range: bytes={range}\r\nIf-Range: \"a\"\r\n"));
    for asked in 1..3 {
        assert_eq!((with("0-3").text().as_str(), origin.asked("/")), ("abcd", asked));
    }
    assert_eq!(part(&proxy, "0-3").value("content-type"), Some("text/plain"));
    assert_eq!((with("4-7").text().as_str(), origin.asked("/")), ("efgh", 4));
    let joined = part(&proxy, "2-5");
    assert_eq!((joined.text().as_str(), joined.value("content-type")), ("cdef", Some("text/plain")));
    assert_eq!(origin.asked("/"), 4);
    let other = ask(&proxy, "/", "Range: bytes=2-5\r\nIf-Range: \"b\"\r\n");
    assert_eq!(origin.asked("/"), 5, "its client has something else: {}", other.start);
}

#[test]
fn a_stale_whole_is_validated_for_a_range() {
    let _watchdog = watchdog("a_stale_whole_is_validated_for_a_range");
    let origin = Origin::start(|request, _| {
        let fields = "Cache-Control: max-age=60\r\nETag: \"v\"\r\n";
        Some(match request.value("if-none-match") {
            Some(_) => format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n").into_bytes(),
            None => reply("200 OK", &format!("{fields}Age: 100\r\n"), "abcdefgh"),
        })
    });
    let proxy = caching(&origin.url(), "{}", "");
    ask(&proxy, "/", "");
    let answer = part(&proxy, "2-4");
    assert_eq!((answer.status(), answer.text().as_str()), (206, "cde"));
    let requests = origin.requests();
    assert_eq!((requests.len(), requests[1].value("range")), (2, None));
    assert_eq!(part(&proxy, "3-4").text(), "de");
    assert_eq!(origin.asked("/"), 2);
}

#[test]
fn one_fetch_for_all_who_want_the_same_part() {
    let _watchdog = watchdog("one_fetch_for_all_who_want_the_same_part");
    let versions = Versions::new(&["ETag: \"v0\"\r\n"]);
    let origin = serving(&versions);
    let proxy = caching(&origin.url(), "{}", "");
    let address = proxy.web();
    let clients: Vec<_> = (0..20)
        .map(|number| {
            let versions = Arc::clone(&versions);
            thread::spawn(move || {
                let range = if number % 2 == 0 { "500-150499" } else { "0-149999" };
                let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\nRange: bytes={range}\r\n\r\n");
                let answer = thalweg_tests::message::fetch(address, &request).unwrap();
                assert_eq!(versions.check(&answer), range_of(&format!("bytes={range}"), LEN).unwrap());
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(origin.asked("/") <= 2, "{}", origin.asked("/"));
}

/// Whatever is asked for in whatever order, by several clients, while the page changes and purges come in between: each
/// response has the bytes of the version that it says to be, and all that it says to have.
#[test]
fn no_wrong_byte_whatever_is_asked_for() {
    let _watchdog = watchdog("no_wrong_byte_whatever_is_asked_for");
    let versions = Versions::new(&[
        "ETag: \"v0\"\r\n",
        "ETag: W/\"v1\"\r\n",
        "",
        "ETag: \"v3\"\r\n",
        "Last-Modified: Wed, 25 Nov 2020 14:00:00 GMT\r\n",
        "ETag: \"v5\"\r\n",
        "Last-Modified: Wed, 25 Nov 2020 15:00:00 GMT\r\n",
    ]);
    let origin = serving(&versions);
    let proxy = caching(&origin.url(), "{}", "");
    let address = proxy.web();
    let clients: Vec<_> = (0..4)
        .map(|seed| {
            let versions = Arc::clone(&versions);
            thread::spawn(move || {
                let mut noise = Noise::new(4000 + seed);
                let mut below = |most: u64| {
                    let bytes: [u8; 8] = noise.take(8).try_into().unwrap();
                    u64::from_le_bytes(bytes) % most
                };
                for _ in 0..150 {
                    let (first, len) = (below(LEN as u64), below(60_000) + 1);
                    let range = match below(12) {
                        0 => String::new(),
                        1 => format!("Range: bytes={first}-\r\n"),
                        2 => format!("Range: bytes=-{len}\r\n"),
                        3 => {
                            format!("Range: bytes={first}-{}\r\nIf-Range: \"v{}\"\r\n", first + len, below(7))
                        }
                        4 => format!("Range: bytes={first}-{}\r\nCache-Control: no-cache\r\n", first + len),
                        _ => format!("Range: bytes={first}-{}\r\n", first + len),
                    };
                    if below(20) == 0 {
                        versions.now.store(below(7) as usize, Ordering::SeqCst);
                    }
                    let method = if below(40) == 0 { "DELETE" } else { "GET" };
                    let request = format!("{method} / HTTP/1.1\r\nHost: a.test\r\n{range}\r\n");
                    let answer = thalweg_tests::message::fetch(address, &request).unwrap();
                    let (got, _) = versions.check(&answer);
                    let asked = range.strip_prefix("Range: bytes=").filter(|range| !range.starts_with('-'));
                    if asked.is_some() && answer.status() == 206 {
                        assert_eq!(got as u64, first, "{range}");
                    }
                    if range.is_empty() {
                        assert_eq!(answer.status(), 200);
                    }
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(origin.asked("/") < 600, "something was stored");
}
