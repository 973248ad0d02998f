//! Tickets sealed, opened, damaged and outlived.

use super::*;

fn after(tickets: &Tickets, periods: u32) -> Instant {
    tickets.keys()[0].since + tickets.period * periods
}

#[test]
fn opens_what_it_sealed_and_nothing_else() {
    let (tickets, others) = (Tickets::new().unwrap(), Tickets::new().unwrap());
    let ticket = tickets.encrypt(b"a session").unwrap();
    assert_eq!(ticket.len(), NAME + NONCE_LEN + 9 + 16);
    assert_eq!(tickets.decrypt(&ticket).as_deref(), Some(&b"a session"[..]));
    assert_ne!(tickets.encrypt(b"a session").unwrap(), ticket);
    assert_eq!(others.decrypt(&ticket), None);
    for at in 0..ticket.len() {
        let mut odd = ticket.clone();
        odd[at] ^= 1;
        assert_eq!(tickets.decrypt(&odd), None, "{at}");
        assert_eq!(tickets.decrypt(&ticket[..at]), None, "{at}");
    }
    // A key with another's name opens nothing: the name is sealed too.
    assert_eq!(tickets.decrypt(&[&others.keys()[0].name[..], &ticket[NAME..]].concat()), None);
}

#[test]
fn a_key_seals_for_a_period_and_opens_for_two() {
    let tickets = Tickets::with_period(Duration::from_secs(600)).unwrap();
    assert_eq!(tickets.lifetime(), 1200);
    let ticket = tickets.encrypt(b"one").unwrap();
    tickets.rotate(after(&tickets, 1) - Duration::from_secs(1));
    assert_eq!(tickets.keys().len(), 1);
    tickets.rotate(after(&tickets, 1));
    let second = tickets.encrypt(b"two").unwrap();
    assert_ne!(second[..NAME], ticket[..NAME]);
    assert!(tickets.decrypt(&ticket).is_some() && tickets.decrypt(&second).is_some());
    tickets.rotate(after(&tickets, 1));
    assert!(tickets.decrypt(&ticket).is_none() && tickets.decrypt(&second).is_some());
    assert_eq!(tickets.keys().len(), KEYS);
}

#[test]
fn a_ticket_is_never_kept_longer_than_the_rfc_allows() {
    let tickets = Tickets::with_period(Duration::from_secs(7 * 86_400)).unwrap();
    assert_eq!(tickets.lifetime(), 604_800);
}

#[test]
fn debug_shows_no_key() {
    let tickets = Tickets::new().unwrap();
    assert_eq!(format!("{tickets:?}"), "Tickets { period: 43200s, .. }");
}

fn keys(lines: &[&str]) -> TicketKeys {
    TicketKeys::read(lines.join("\n").as_bytes()).unwrap()
}

#[test]
fn processes_with_the_same_keys_open_each_others_tickets_until_a_key_is_gone() {
    let (one, two, three) = ("11".repeat(32), "aB".repeat(32), "Fe".repeat(32));
    let period = Duration::from_secs(600);
    let first = Tickets::with_keys(period, &keys(&[&one, &two])).unwrap();
    let second = Tickets::with_keys(period, &keys(&[&two, &one])).unwrap();
    let (by_one, by_two) = (first.encrypt(b"a").unwrap(), second.encrypt(b"b").unwrap());
    assert_eq!(second.decrypt(&by_one).as_deref(), Some(&b"a"[..]));
    assert_eq!(first.decrypt(&by_two).as_deref(), Some(&b"b"[..]));
    assert!(Tickets::new().unwrap().decrypt(&by_one).is_none());
    second.replace(&keys(&[&three, &two])).unwrap();
    assert_eq!(second.decrypt(&by_one), None, "its key is gone");
    assert_eq!(second.decrypt(&by_two).as_deref(), Some(&b"b"[..]));
    assert_ne!(second.encrypt(b"b").unwrap()[..NAME], by_two[..NAME], "another key seals");
    let before = second.encrypt(b"c").unwrap();
    second.rotate(after(&second, 3));
    assert_eq!(second.encrypt(b"c").unwrap()[..NAME], before[..NAME], "given keys are not rotated");
}

#[test]
fn a_file_of_keys_is_read_whole_or_refused_without_being_quoted() {
    let key = "0123456789abcdefABCDEF0123456789".repeat(2);
    let good = format!("# comment\r\n\n{key}\r\n  {}  \n", "00".repeat(32));
    assert_eq!(format!("{:?}", TicketKeys::read(good.as_bytes()).unwrap()), "TicketKeys(2)");
    let nine: String = (0..9).map(|at| format!("{at:064x}\n")).collect();
    let eight: String = (0..8).map(|at| format!("{at:064x}\n")).collect();
    assert!(TicketKeys::read(eight.as_bytes()).is_ok());
    for bad in [
        "",
        "# nothing\n",
        &key[1..],
        &format!("{key}0"),
        &key.replace('a', "g"),
        &format!("{key}\n{key}"),
        &nine,
    ] {
        let why = TicketKeys::read(bad.as_bytes()).unwrap_err();
        assert!(!why.contains("0123") && !why.contains("000"), "{why}");
    }
    assert_ne!(keys(&[&key]).digest(), keys(&[&"00".repeat(32)]).digest());
}

#[test]
fn a_period_has_the_same_tickets_in_every_configuration() {
    let of = |seconds| Tickets::of_process_for(Duration::from_secs(seconds)).unwrap();
    let first = of(1234);
    assert!(Arc::ptr_eq(&first, &of(1234)) && !Arc::ptr_eq(&first, &of(4321)));
    let shared = Tickets::of_process().unwrap();
    assert!(Arc::ptr_eq(&shared, &Tickets::of_process().unwrap()));
}

#[test]
fn tickets_of_a_process_are_good_in_the_one_after_it() {
    // A period that no other test has: what is known of the process is shared by them all.
    let period = Duration::from_secs(7_777);
    let before = Tickets::of_process_for(period).unwrap();
    let ticket = before.encrypt(b"session").unwrap();
    let passed = Tickets::pass_on();
    assert!(format!("{passed:?}").starts_with("PassedKeysSpec("), "no secret is shown");
    drop(before);
    let stranger = Tickets::of_process_for(period).unwrap();
    assert_eq!(stranger.decrypt(&ticket), None);
    drop(stranger);
    Tickets::take_over(passed);
    let after = Tickets::of_process_for(period).unwrap();
    assert_eq!(after.decrypt(&ticket).as_deref(), Some(b"session".as_slice()));
}
