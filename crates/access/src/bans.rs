//! Bans: a client with too many refusals within a window is put into a list, for a time that grows with each
//! repetition.
//!
//! Only what counts against a client is noted here: a request that is served well touches nothing of this. The table is
//! bounded: it has two generations, and when the younger one is full, the older one is forgotten. Clients of IPv6 are
//! told apart by /64. Time comes in as an argument.

use crate::networks::Networks;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use thalweg_core::units::duration_text;

/// Clients of each of the two generations of a table.
pub const CLIENTS: usize = 32_768;
/// Prefix by which clients of IPv6 are told apart.
const IPV6: u8 = 64;

/// When clients are banned.
#[derive(Debug)]
pub struct BanRule {
    /// Its name in the configuration.
    pub name: Box<str>,
    /// Statuses that count, as ranges.
    pub statuses: Vec<(u16, u16)>,
    /// Whether requests count that are no proper HTTP.
    pub malformed: bool,
    /// So many within [`Self::within`] are too many; at least 1.
    pub after: u32,
    /// The window, which begins with the first one.
    pub within: Duration,
    /// How long the first ban lasts; each further one lasts twice as long as the one before.
    pub first: Duration,
    /// No ban lasts longer; who is good for as long after one begins anew.
    pub longest: Duration,
    /// Never banned.
    pub never: Networks,
    /// The list that they are put into.
    pub list: Box<str>,
    /// They are told of, and not put into it.
    pub dry_run: bool,
    /// Who has done what.
    pub table: BanTable,
}

/// A client is banned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ban {
    /// The client.
    pub network: IpNet,
    /// For how long.
    pub time: Duration,
    /// How often it has been banned, this time included.
    pub times: u32,
}

/// What is known of clients.
#[derive(Debug, Default)]
pub struct BanTable(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<IpNet, Known>,
    old: HashMap<IpNet, Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    count: u32,
    since: Instant,
    times: u32,
    /// When earlier bans are forgotten.
    forgotten: Instant,
}

impl BanRule {
    /// Whether such an answer counts.
    #[inline]
    pub fn counts(&self, status: u16, is_malformed: bool) -> bool {
        (self.malformed && is_malformed)
            || self.statuses.iter().any(|(first, last)| (*first..=*last).contains(&status))
    }

    /// Notes one that counts; the ban where it was one too many.
    pub fn note(&self, client: IpAddr, now: Instant) -> Option<Ban> {
        if self.never.contains(client) {
            return None;
        }
        let network = of(client);
        let mut table = self.table.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = table.known(network, now);
        if now.saturating_duration_since(known.since) >= self.within {
            (known.count, known.since) = (0, now);
        }
        known.count += 1;
        if known.count < self.after {
            return None;
        }
        if known.forgotten <= now {
            known.times = 0;
        }
        known.count = 0;
        known.times = known.times.saturating_add(1);
        let factor = 1_u32.checked_shl(known.times - 1).unwrap_or(u32::MAX);
        let time = self.first.saturating_mul(factor).min(self.longest);
        known.forgotten = now + time + self.longest;
        Some(Ban { network, time, times: known.times })
    }
}

impl Display for BanRule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = |time: Duration| duration_text(time);
        write!(f, "after {} of", self.after)?;
        for (first, last) in &self.statuses {
            match first == last {
                true => write!(f, " {first}")?,
                false => write!(f, " {}xx", first / 100)?,
            }
        }
        let malformed = if self.malformed { " malformed" } else { "" };
        write!(f, "{malformed} within {}, for {}", text(self.within), text(self.first))?;
        write!(f, " to {}, into `{}`", text(self.longest), self.list)?;
        if !self.never.is_empty() {
            write!(f, ", not {} networks", self.never.len())?;
        }
        f.write_str(if self.dry_run { ", dry run" } else { "" })
    }
}

impl BanTable {
    /// Takes over what another table knows.
    pub fn take_over(&self, former: &Self) {
        if std::ptr::eq(self, former) {
            return;
        }
        let mut known = std::mem::take(&mut *former.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *own, &mut known);
        own.old.extend(known.young);
    }
}

impl Generations {
    fn known(&mut self, network: IpNet, now: Instant) -> &mut Known {
        if !self.young.contains_key(&network) && self.young.len() >= CLIENTS {
            self.old = std::mem::take(&mut self.young);
        }
        let Self { young, old } = self;
        young.entry(network).or_insert_with(|| {
            let new = Known { count: 0, since: now, times: 0, forgotten: now };
            old.remove(&network).unwrap_or(new)
        })
    }
}

/// The client of an address.
fn of(address: IpAddr) -> IpNet {
    match address.to_canonical() {
        IpAddr::V4(address) => Ipv4Net::from(address).into(),
        IpAddr::V6(address) => {
            Ipv6Net::new(address, IPV6).map_or_else(|_| address.into(), |net| net.trunc()).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn rule(after: u32) -> BanRule {
        BanRule {
            name: "logins".into(),
            statuses: vec![(401, 401), (500, 599)],
            malformed: true,
            after,
            within: MINUTE,
            first: 10 * MINUTE,
            longest: 60 * MINUTE,
            never: Networks::new(["10.0.0.0/8".parse().unwrap()]),
            list: "blocked".into(),
            dry_run: false,
            table: BanTable::default(),
        }
    }

    fn noted(rule: &BanRule, client: &str, now: Instant) -> Option<(String, Duration, u32)> {
        rule.note(client.parse().unwrap(), now).map(|ban| (ban.network.to_string(), ban.time, ban.times))
    }

    #[test]
    fn what_counts_is_what_is_written() {
        let rule = rule(1);
        for (status, is_malformed, counts) in [
            (401, false, true),
            (503, false, true),
            (404, false, false),
            (400, true, true),
            (400, false, false),
        ] {
            assert_eq!(rule.counts(status, is_malformed), counts, "{status}");
        }
    }

    #[test]
    fn a_client_is_banned_after_too_many_within_the_window() {
        let (rule, start) = (rule(3), Instant::now());
        assert_eq!(noted(&rule, "192.0.2.1", start), None);
        assert_eq!(noted(&rule, "192.0.2.1", start), None);
        assert_eq!(noted(&rule, "192.0.2.2", start), None, "another client");
        // The window is over: it begins anew.
        let later = start + MINUTE;
        assert_eq!(noted(&rule, "192.0.2.1", later), None);
        assert_eq!(noted(&rule, "::ffff:192.0.2.1", later), None);
        assert_eq!(noted(&rule, "192.0.2.1", later), Some(("192.0.2.1/32".into(), 10 * MINUTE, 1)));
        assert_eq!(noted(&rule, "10.0.0.1", later), None);
        assert_eq!(noted(&rule, "10.0.0.1", later), None);
        assert_eq!(noted(&rule, "10.0.0.1", later), None, "never");
    }

    #[test]
    fn bans_grow_with_each_repetition_to_a_bound_and_are_forgotten() {
        let (rule, mut now) = (rule(1), Instant::now());
        for minutes in [10, 20, 40, 60, 60] {
            let (_, time, _) = noted(&rule, "192.0.2.1", now).unwrap();
            assert_eq!(time, minutes * MINUTE);
            now += time;
        }
        now += 60 * MINUTE;
        assert_eq!(noted(&rule, "192.0.2.1", now).unwrap().1, 10 * MINUTE, "it was good for long enough");
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one_client() {
        let (rule, now) = (rule(2), Instant::now());
        assert_eq!(noted(&rule, "2001:db8:0:1::1", now), None);
        assert_eq!(noted(&rule, "2001:db8:0:2::1", now), None);
        assert_eq!(noted(&rule, "2001:db8:0:1:ffff::9", now).unwrap().0, "2001:db8:0:1::/64");
    }

    #[test]
    fn the_table_is_bounded_and_keeps_whoever_goes_on() {
        let (rule, now) = (rule(3), Instant::now());
        noted(&rule, "192.0.2.1", now);
        let flood = |from: u32| {
            for number in from..from + CLIENTS as u32 {
                noted(&rule, &std::net::Ipv4Addr::from(0x1000_0000 + number).to_string(), now);
            }
        };
        flood(0);
        noted(&rule, "192.0.2.1", now);
        let table = rule.table.0.lock().unwrap();
        assert!(table.young.len() <= CLIENTS && table.old.len() <= CLIENTS);
        drop(table);
        assert!(noted(&rule, "192.0.2.1", now).is_some(), "two of it were remembered");
    }

    #[test]
    fn a_reload_takes_over_what_is_known() {
        let (before, after, now) = (rule(2), rule(2), Instant::now());
        noted(&before, "192.0.2.1", now);
        after.table.take_over(&before.table);
        after.table.take_over(&after.table);
        assert!(noted(&after, "192.0.2.1", now).is_some());
    }
}
