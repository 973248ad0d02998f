//! The store as its users see it: readings in, series out.

use std::mem::size_of;

use super::file::write_series;
use super::point::Point;
use super::*;
use crate::totals::{Object, ObjectKind, Totals};

/// A moment at the end of a long step.
const NOON: u64 = 1_800_000_000;

/// Some things that count.
#[derive(Default)]
struct Counted(Vec<(ObjectKind, String, Totals)>);

impl Counted {
    fn add(&mut self, kind: ObjectKind, name: &str, requests: u64) {
        let at = self.0.iter().position(|(known, text, _)| (*known, text.as_str()) == (kind, name));
        let at = at.unwrap_or_else(|| {
            self.0.push((kind, name.to_owned(), Totals::default()));
            self.0.len() - 1
        });
        let totals = &mut self.0[at].2;
        totals.requests += requests;
        totals.errors += requests / 10;
        totals.bytes_in += requests * 100;
        totals.bytes_out += requests * 1_000;
        totals.buckets[3] += requests;
    }

    fn read(&self, store: &mut SeriesStore, unix_s: u64) {
        self.read_with(store, unix_s, Default::default());
    }

    fn read_with(&self, store: &mut SeriesStore, unix_s: u64, gone: [Totals; 3]) {
        store.begin(gone);
        for (kind, name, totals) in &self.0 {
            let service = if *kind == ObjectKind::Endpoint { "svc" } else { "" };
            store.see(Object { kind: *kind, service, name }, totals);
        }
        let gauges = Gauges { connections: 7, in_flight: 2, saturation: 0.5 };
        store.commit(&Sample { unix_ms: unix_s * 1_000, elapsed_ms: STEP * 1_000, gauges });
    }
}

fn routes(store: &SeriesStore, unix_s: u64, span: Span) -> SeriesAnswer {
    let kind = SeriesKind::Of(ObjectKind::Route);
    store.select(Selection { kind, span, limit: 10_000, ..Selection::default() }, unix_s)
}

fn requests<'a>(answer: &'a SeriesAnswer, name: &str) -> &'a [u64] {
    let found = answer.series.iter().find(|series| series.name == name);
    found.map_or(&[], |series| &series.requests)
}

fn in_all(answer: &SeriesAnswer) -> u64 {
    answer.series.iter().flat_map(|series| &series.requests).sum()
}

#[test]
fn all_of_it_fits_into_the_memory_it_may_take() {
    let rings = size_of::<Point>() * (STEPS + LONG_STEPS);
    assert_eq!((size_of::<Point>(), rings), (52, 24_336));
    let object = rings + size_of::<store::Tracked>() + NAME + 16;
    // A map takes up to twice the places of its entries, and a byte more for each.
    let idle = (3 * crate::registry::SERIES).next_power_of_two() * 2 * (size_of::<u64>() + 16 + 1);
    let all = (OBJECTS + 4) * object + idle;
    assert!(all <= MEMORY, "{all} of {MEMORY}");
}

#[test]
fn what_a_route_counts_in_a_step_is_its_point() {
    let (mut store, mut counted) = (SeriesStore::default(), Counted::default());
    counted.add(ObjectKind::Route, "shop", 20);
    counted.read(&mut store, NOON + 10);
    counted.add(ObjectKind::Route, "shop", 50);
    counted.add(ObjectKind::Endpoint, "http://a", 5);
    counted.read(&mut store, NOON + 20);
    let answer = routes(&store, NOON + 21, Span::Short);
    assert_eq!((answer.step_s, answer.start), (10, NOON));
    let shop = &answer.series[0];
    assert_eq!((shop.name.as_str(), &shop.service), ("shop", &None));
    assert_eq!((&shop.requests[..], &shop.errors[..]), (&[20, 50][..], &[2, 5][..]));
    assert_eq!((&shop.bytes_in[..], &shop.bytes_out[..]), (&[2_000, 5_000][..], &[20_000, 50_000][..]));
    assert_eq!(shop.p50_us, [Some(3_750), Some(3_750)]);
    let process = store.select(Selection::default(), NOON + 21);
    assert_eq!((process.series[0].requests.as_slice(), process.gauges.len()), (&[20, 50][..], 2));
    assert_eq!(process.gauges[1], Gauges { connections: 7, in_flight: 2, saturation: 0.5 });
    let kind = SeriesKind::Of(ObjectKind::Endpoint);
    let wanted = Selection { kind, service: Some("svc"), limit: 5, ..Selection::default() };
    let endpoints = store.select(wanted, NOON + 21);
    assert_eq!(endpoints.series[0].service.as_deref(), Some("svc"));
    assert_eq!(endpoints.series[0].requests, [0, 5]);
    assert!(store.select(Selection { service: Some("other"), ..wanted }, NOON + 21).series.is_empty());
}

#[test]
fn long_steps_are_the_sums_of_short_ones() {
    let (mut store, mut counted) = (SeriesStore::default(), Counted::default());
    for at in 1..=60 {
        counted.add(ObjectKind::Route, "shop", 10);
        counted.read(&mut store, NOON + at * STEP);
    }
    let long = routes(&store, NOON + 600, Span::Long);
    assert_eq!((long.step_s, long.start, requests(&long, "shop")), (300, NOON, &[300, 300][..]));
    let short = routes(&store, NOON + 600, Span::Short);
    assert_eq!(requests(&short, "shop"), [10; 60]);
}

#[test]
fn the_rest_is_folded_into_other_and_nothing_is_lost() {
    let (mut store, mut counted) = (SeriesStore::default(), Counted::default());
    for at in 0..OBJECTS + 100 {
        counted.add(ObjectKind::Route, &format!("r{at}"), 1);
    }
    counted.read(&mut store, NOON + 10);
    let answer = routes(&store, NOON + 10, Span::Short);
    assert_eq!((answer.series.len(), answer.series[0].name.as_str()), (OBJECTS + 1, "_other"));
    assert_eq!((requests(&answer, "_other"), in_all(&answer)), (&[100][..], OBJECTS as u64 + 100));
    // One of the rest becomes busy: it takes the place of one that is not, whose points go into the rest.
    let late = format!("r{}", OBJECTS + 50);
    for at in 2..5 {
        counted.add(ObjectKind::Route, &late, 1_000);
        counted.read(&mut store, NOON + at * STEP);
    }
    let answer = routes(&store, NOON + 40, Span::Short);
    assert_eq!(requests(&answer, &late).last(), Some(&1_000), "{:?}", answer.series.len());
    assert_eq!((answer.series.len(), in_all(&answer)), (OBJECTS + 1, OBJECTS as u64 + 100 + 3_000));
}

#[test]
fn counts_of_what_is_gone_are_in_other_and_a_name_that_returns_goes_on() {
    let (mut store, mut counted) = (SeriesStore::default(), Counted::default());
    counted.add(ObjectKind::Route, "old", 10);
    counted.read(&mut store, NOON + 10);
    // It counted three more, was removed, and another took its name.
    let gone = Totals { requests: 13, ..Totals::default() };
    let mut renamed = Counted::default();
    renamed.add(ObjectKind::Route, "new", 4);
    renamed.read_with(&mut store, NOON + 20, [gone, Totals::default(), Totals::default()]);
    renamed.add(ObjectKind::Route, "old", 2);
    renamed.read_with(&mut store, NOON + 30, [gone, Totals::default(), Totals::default()]);
    let answer = routes(&store, NOON + 30, Span::Short);
    assert_eq!(requests(&answer, "old"), [10, 0, 2]);
    assert_eq!((requests(&answer, "new"), requests(&answer, "_other")), (&[0, 4, 0][..], &[0, 3, 0][..]));
}

#[test]
fn a_removed_route_is_forgotten_after_a_day() {
    let (mut store, mut counted) = (SeriesStore::default(), Counted::default());
    counted.add(ObjectKind::Route, "old", 10);
    counted.read(&mut store, NOON + 10);
    let all = [counted.0[0].2, Totals::default(), Totals::default()];
    for (hours, is_there) in [(1, true), (23, true), (25, false)] {
        Counted::default().read_with(&mut store, NOON + hours * 3_600, all);
        assert_eq!(!store.objects.is_empty(), is_there, "after {hours} h");
    }
}

#[test]
fn a_clock_that_jumps_loses_no_count() {
    let (mut store, mut counted) = (SeriesStore::default(), Counted::default());
    for unix_s in [NOON + 10, NOON + 20, NOON - 7_200, NOON - 7_190, NOON + 50, NOON + 50] {
        counted.add(ObjectKind::Route, "shop", 10);
        counted.read(&mut store, unix_s);
        for span in [Span::Short, Span::Long] {
            let answer = routes(&store, unix_s + 600, span);
            let steps = requests(&answer, "shop").len() as u64;
            assert!(answer.start + steps * answer.step_s <= unix_s + 600, "nothing lies in the future");
        }
    }
    let answer = routes(&store, NOON + 600, Span::Long);
    assert_eq!(in_all(&answer), 60, "{:?}", requests(&answer, "shop"));
}

#[test]
fn a_reading_that_is_late_belongs_to_the_step_it_was_made_for() {
    let (mut store, mut counted) = (SeriesStore::default(), Counted::default());
    let mut read = |store: &mut SeriesStore, unix_ms, elapsed_ms| {
        counted.add(ObjectKind::Route, "shop", 1);
        store.begin(Default::default());
        counted.0.iter().for_each(|(kind, name, totals)| {
            store.see(Object { kind: *kind, service: "", name }, totals);
        });
        store.commit(&Sample { unix_ms, elapsed_ms, gauges: Gauges::default() });
    };
    read(&mut store, NOON * 1_000 + 10_020, 10_000);
    read(&mut store, NOON * 1_000 + 23_000, 12_980);
    read(&mut store, NOON * 1_000 + 30_010, 7_010);
    assert_eq!(requests(&routes(&store, NOON + 30, Span::Short), "shop"), [1, 1, 1]);
}

fn bytes(store: &SeriesStore) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_series(&mut bytes, |at, out| {
        store.encode(at, out);
        store.parts()
    })
    .unwrap();
    bytes
}

fn busy_store() -> SeriesStore {
    let (mut store, mut counted) = (SeriesStore::default(), Counted::default());
    for at in 1..=100 {
        counted.add(ObjectKind::Route, "shop", at * 1_000);
        counted.add(ObjectKind::Service, "shop", at);
        counted.add(ObjectKind::Endpoint, "http://a", at);
        counted.read(&mut store, NOON + at * STEP);
    }
    store
}

#[test]
fn what_is_written_is_what_is_read() {
    let store = busy_store();
    let (written, now) = (bytes(&store), NOON + 1_000);
    let read = SeriesStore::decode(&written, now * 1_000).unwrap();
    for span in [Span::Short, Span::Long] {
        assert_eq!(routes(&read, now, span), routes(&store, now, span));
        let wanted = Selection { span, ..Selection::default() };
        assert_eq!(read.select(wanted, now), store.select(wanted, now));
    }
    assert_eq!(read.objects.len(), 3);
    // It goes on where it ended, and what the process before has counted is not counted again.
    let (mut read, mut counted) = (read, Counted::default());
    counted.add(ObjectKind::Route, "shop", 3);
    counted.read(&mut read, now + 60);
    let answer = routes(&read, now + 60, Span::Short);
    assert_eq!(&requests(&answer, "shop")[98..], [99_000, 100_000, 0, 0, 0, 0, 0, 3]);
}

#[test]
fn series_of_the_future_end_now() {
    let read = SeriesStore::decode(&bytes(&busy_store()), (NOON - 86_400) * 1_000).unwrap();
    let answer = routes(&read, NOON - 86_400 + STEP, Span::Short);
    assert_eq!(answer.start + 100 * STEP, NOON - 86_400 + STEP);
    assert_eq!(requests(&answer, "shop").last(), Some(&100_000));
}

#[test]
fn damaged_bytes_are_refused_and_never_a_panic() {
    let written = bytes(&busy_store());
    for at in (0..written.len()).step_by(7) {
        assert!(SeriesStore::decode(&written[..at], 0).is_err());
        let mut damaged = written.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(SeriesStore::decode(&damaged, 0).is_err());
        // Also where the checksum is right.
        let content = damaged.len() - 9;
        let mut forged = Vec::new();
        let _ = write_series(&mut forged, |_, out| {
            out.extend_from_slice(&damaged[..content]);
            1
        });
        let _ = SeriesStore::decode(&forged, 0);
    }
    assert!(SeriesStore::decode(&[], 0).is_err());
}

/// Not a bound for every machine; decision 0080 has the figures.
#[test]
fn a_full_store_is_told_in_no_time() {
    let (mut store, mut counted) = (SeriesStore::default(), Counted::default());
    (0..10_000).for_each(|at| counted.add(ObjectKind::Endpoint, &format!("http://e{at}"), at));
    counted.read(&mut store, NOON);
    let begun = std::time::Instant::now();
    counted.read(&mut store, NOON + STEP);
    println!("10,000 objects: {:?}", begun.elapsed());
    assert!(begun.elapsed() < std::time::Duration::from_secs(5));
}
