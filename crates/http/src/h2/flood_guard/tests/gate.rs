//! How much the codec gets at once.

use super::*;

/// A meter after the opening of a connection, with a whole turn before it.
fn opened() -> FloodGuard {
    let mut meter = Connection::open().meter;
    meter.turn(limits::H2_TURN_BYTES);
    meter
}

/// Hostile input D9: a bomb of many heads is not decoded before the first of them was looked at.
#[test]
fn eight_heads_or_a_kibibyte_of_them_go_to_the_codec_at_once() {
    let mut meter = opened();
    let wire: Vec<u8> = (0..20).flat_map(|at| request(at * 2 + 1)).collect();
    let first = meter.inbound(&wire, 0).unwrap();
    assert_eq!(first, Allow { pass: 8 * 29, skip: 0, stop: Stop::Heads });
    let rest = &wire[first.pass..];
    let shut = Allow { pass: 0, skip: 0, stop: Stop::Heads };
    assert_eq!(meter.inbound(rest, 0), Ok(shut));
    assert_eq!(meter.inbound(&[], 0), Ok(shut), "bytes are asked for");
    meter.turn(limits::H2_TURN_BYTES);
    assert_eq!(meter.inbound(rest, 0), Ok(shut));
    meter.opened();
    assert_eq!(meter.inbound(rest, 0), Ok(first));

    let mut meter = opened();
    let large = frame(kind::HEADERS, flag::END_HEADERS, 1, &[FEW; 1024]);
    let wire = [&large[..], &request(3)].concat();
    assert_eq!(meter.inbound(&wire, 0).unwrap().pass, large.len());
}

/// Hostile input D7: what ends a stream whose head is the last of eight is seen with it, and so spares an endpoint the
/// request.
#[test]
fn what_follows_the_last_head_goes_with_it() {
    let mut meter = opened();
    let each = |at: u32| [request(at * 2 + 1), reset(at * 2 + 1, code::CANCEL)].concat();
    let wire: Vec<u8> = (0..20).flat_map(each).collect();
    let first = Allow { pass: 8 * (29 + 13), skip: 0, stop: Stop::Heads };
    assert_eq!(meter.inbound(&wire, 0), Ok(first));
    assert_eq!(meter.inbound(&[], 0), Ok(Allow { pass: 0, ..first }), "bytes are asked for");
    meter.turn(limits::H2_TURN_BYTES);
    meter.opened();
    assert_eq!(meter.inbound(&wire[first.pass..], 0), Ok(first));
}

#[test]
fn a_field_section_is_not_cut_in_two_by_the_heads_before_it() {
    let mut meter = opened();
    let wire = [
        frame(kind::HEADERS, 0, 1, &[FEW; 2000]),
        frame(kind::CONTINUATION, 0, 1, &[FEW; 2000]),
        frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[FEW; 2000]),
        request(3),
    ]
    .concat();
    let allow = meter.inbound(&wire, 0).unwrap();
    assert_eq!(allow, Allow { pass: 3 * 2009, skip: 0, stop: Stop::Heads });
}

#[test]
fn a_turn_has_its_share_of_bytes_and_frames() {
    let mut meter = opened();
    meter.turn(1000);
    let data = frame(kind::DATA, 0, 1, &[7; 5000]);
    assert_eq!(meter.inbound(&data, 0), Ok(Allow { pass: 1000, skip: 0, stop: Stop::Turn }));
    assert_eq!(meter.inbound(&data[1000..], 0), Ok(Allow { pass: 0, skip: 0, stop: Stop::Turn }));
    meter.turn(5000);
    assert_eq!(meter.inbound(&data[1000..], 0), Ok(Allow { pass: 4009, skip: 0, stop: Stop::Bytes }));

    let mut meter = opened();
    let pings = frame(kind::PING, 0, 0, &[0; 8]).repeat(300);
    assert_eq!(meter.inbound(&pings, 0), Ok(Allow { pass: 256 * 17, skip: 0, stop: Stop::Turn }));
    meter.turn(0);
    assert_eq!(meter.inbound(&pings, 0), Ok(Allow { pass: 9, skip: 0, stop: Stop::Turn }));
}

#[test]
fn a_turn_has_its_share_of_heads_however_often_they_are_taken_up() {
    let mut meter = opened();
    let wire: Vec<u8> = (0..50).flat_map(|at| request(at * 2 + 1)).collect();
    let (mut at, mut stops) = (0, Vec::new());
    while stops.last() != Some(&Stop::Turn) {
        let allow = meter.inbound(&wire[at..], 0).unwrap();
        at += allow.pass;
        stops.push(allow.stop);
        meter.opened();
    }
    assert_eq!((at, stops.len()), (8 * 29, 2));
    meter.turn(limits::H2_TURN_BYTES);
    assert_eq!(meter.inbound(&wire[at..], 0).unwrap().pass, 8 * 29);
}

#[test]
fn a_head_that_is_cut_waits_for_its_rest() {
    let mut meter = opened();
    let wire = frame(kind::PING, 0, 0, &[0; 8]);
    assert_eq!(meter.inbound(&wire[..8], 0), Ok(Allow { pass: 0, skip: 0, stop: Stop::Bytes }));
    assert_eq!(meter.inbound(&wire[..9], 0).unwrap().pass, 9);
    assert_eq!(meter.inbound(&wire[9..], 0).unwrap().pass, 8);
}

#[test]
fn says_how_far_the_opening_has_come() {
    let mut connection = Connection::new(FloodLimits::default());
    connection.meter.outbound(&settings());
    connection.receive(PREFACE).unwrap();
    assert!(!connection.meter.has_settings() && connection.meter.awaits_acknowledgement());
    connection.receive(&settings()).unwrap();
    assert!(connection.meter.has_settings() && connection.meter.awaits_acknowledgement());
    connection.receive(&frame(kind::SETTINGS, flag::ACK, 0, &[])).unwrap();
    assert!(!connection.meter.awaits_acknowledgement());
}

/// What happens on a connection.
#[derive(Clone, Debug)]
enum Event {
    Receives(Vec<u8>),
    Sends(Vec<u8>),
    Waits(u16),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => any_frame().prop_map(Event::Receives),
        2 => any_frame().prop_map(Event::Sends),
        1 => any::<u16>().prop_map(Event::Waits),
    ]
}

/// A frame of any kind, mostly of known ones and short.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![10 => 0u8..10, 1 => any::<u8>()];
    let payload = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(any::<u8>(), 0..12),
        (200usize..1200).prop_map(|len| vec![3; len]),
    ];
    (kind, any::<u8>(), 0u32..12, payload)
        .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload))
}

/// The verdict, what the codec got where there is none, and the budgets.
type Outcome = (Result<(), Flood>, Vec<u8>, [u32; 3]);

fn run(events: &[Event], repeat: usize, piece: usize) -> Outcome {
    let mut connection = Connection::new(FloodLimits::default());
    connection.receive(PREFACE).unwrap();
    let budgets = |meter: &FloodGuard| [meter.resets.level(), meter.control.level(), meter.windows.level()];
    for event in events.iter().cycle().take(events.len() * repeat) {
        match event {
            Event::Waits(ms) => connection.now_ms += u64::from(*ms),
            Event::Sends(bytes) => {
                let payload: usize =
                    bytes.chunks(piece).map(|part| connection.meter.outbound(part).payload).sum();
                assert!(payload <= bytes.len());
            }
            Event::Receives(bytes) => {
                for part in bytes.chunks(piece) {
                    if let Err(flood) = connection.receive(part) {
                        return (Err(flood), Vec::new(), budgets(&connection.meter));
                    }
                }
            }
        }
        let [resets, control, windows] = budgets(&connection.meter);
        assert!(resets <= 200 && control <= 2000 && windows <= 65_536);
    }
    assert!(connection.inbox.len() < HEAD_LEN);
    let passed = std::mem::take(&mut connection.passed);
    (Ok(()), passed, budgets(&connection.meter))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn cuts_do_not_matter(
        events in prop::collection::vec(any_event(), 1..40),
        repeat in prop_oneof![Just(1usize), Just(60)],
        piece in 1usize..40,
    ) {
        let whole = run(&events, repeat, usize::MAX);
        prop_assert_eq!(&run(&events, repeat, piece), &whole);
        prop_assert_eq!(&run(&events, repeat, 1), &whole);
    }

    #[test]
    fn never_allows_more_than_it_was_offered(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        share in 0u32..3000,
    ) {
        let mut meter = opened();
        meter.turn(share);
        let mut at = 0;
        while let Ok(allow) = meter.inbound(&bytes[at..], 0) {
            prop_assert!(at + allow.pass + allow.skip <= bytes.len());
            prop_assert!(allow.pass <= share as usize + HEAD_LEN);
            at += allow.pass + allow.skip;
            if allow.stop != Stop::Skip {
                break;
            }
        }
    }
}
