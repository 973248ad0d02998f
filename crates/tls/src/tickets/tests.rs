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
