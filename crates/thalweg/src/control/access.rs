//! Lists of addresses as they change while the proxy runs: through the admin API, by bans, and by time.
//!
//! The networks are kept in the state directory, where `state:` names one, and survive a restart. Each change makes a
//! new table, which all workers see at once ([`thalweg_access::live`]).

use super::admin::Shared;
use super::config_events::event;
use super::kept_file;
use super::state_writer::StateWriter;
use crate::concealed::hide;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_access::live::{self, ENTRIES, LiveList};
use thalweg_access::networks::{Written, network};
use thalweg_admin::{AddressChanged, AddressEntry, AddressList, AddressListContents, NewAddress, Refusal};
use thalweg_core::units::duration_text;
use thalweg_core::{EventKind, Notice};
use thalweg_proxy::plan::Banned;
use tokio::sync::mpsc;

/// The file in the state directory.
const FILE: &str = "access.json";
/// Bans that are entered together.
const AT_ONCE: usize = 256;
/// Networks that ended within one look and are each told of.
const TOLD: usize = 20;

/// What is kept. A later version may add members, so unknown ones are no error.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct AccessSpec {
    /// By the name of the list, then the network.
    lists: BTreeMap<String, BTreeMap<String, EntrySpec>>,
}

/// A network in a list.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
struct EntrySpec {
    reason: String,
    /// In seconds since the Unix epoch.
    since: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ban: Option<String>,
}

/// The lists as they stand.
#[derive(Debug, Default)]
pub(crate) struct AccessLists {
    kept: AccessSpec,
    /// Keeps the tables of lists alive that have something in them.
    live: BTreeMap<String, Arc<LiveList>>,
    keeper: Option<StateWriter<AccessSpec>>,
}

impl AccessLists {
    /// The lists as they were before a restart, or as a predecessor has them; kept in this directory from now on.
    ///
    /// # Errors
    /// A sentence: what is kept cannot be read.
    pub(crate) fn open(
        directory: Option<&Path>,
        passed: Option<AccessSpec>,
        now: SystemTime,
    ) -> Result<Self, String> {
        let path = directory.map(|directory| directory.join(FILE));
        let read = |path: &Path| {
            kept_file::load(path).map_err(|error| {
                let path = path.display();
                format!("cannot read {path}: {error}\n  help: it holds networks that were blocked while the proxy ran; mend or remove it")
            })
        };
        let kept = match (passed, &path) {
            (Some(passed), _) => passed,
            (None, Some(path)) => read(path)?,
            (None, None) => AccessSpec::default(),
        };
        let keeper = path.map(|path| {
            let what = format!("lists of addresses in {}", path.display());
            StateWriter::start(what, move |kept| kept_file::store(&path, &kept))
        });
        let keeper = keeper.transpose();
        let keeper = keeper.map_err(|error| format!("cannot start the thread that keeps lists: {error}"))?;
        let mut lists = Self { kept, live: BTreeMap::new(), keeper };
        lists.forget_expired(seconds(now));
        let names: Vec<String> = lists.kept.lists.keys().cloned().collect();
        names.iter().for_each(|name| lists.renew(name));
        Ok(lists)
    }

    /// All that was added, for a successor.
    pub(crate) fn passed(&self) -> AccessSpec {
        self.kept.clone()
    }

    /// Waits, no longer than `limit`, until the lists are kept. Says whether they are.
    pub(crate) fn settle(&self, limit: Duration) -> bool {
        self.keeper.as_ref().is_none_or(|keeper| keeper.settle(limit))
    }

    fn entries(&self, list: &str) -> impl Iterator<Item = (&String, &EntrySpec)> {
        self.kept.lists.get(list).into_iter().flatten()
    }

    /// Makes the table of a list anew, and has it kept.
    fn renew(&mut self, list: &str) {
        let live = self.live.entry(list.to_owned()).or_insert_with(|| live::list(list)).clone();
        let entries = self.kept.lists.get(list).into_iter().flatten();
        // What is kept may be of another version: what cannot be read is left out.
        live.replace(
            entries.filter_map(|(text, entry)| Some((network(text).ok()?, entry.reason.as_str().into()))),
        );
        if self.kept.lists.get(list).is_none_or(BTreeMap::is_empty) {
            self.kept.lists.remove(list);
            self.live.remove(list);
        }
        if let Some(keeper) = &self.keeper {
            keeper.keep(self.kept.clone());
        }
    }

    /// Enters a network; what was there before. The table is not renewed.
    fn enter(&mut self, list: &str, network: String, entry: EntrySpec) -> Result<Option<EntrySpec>, String> {
        let entries = self.kept.lists.entry(list.to_owned()).or_default();
        if entries.len() >= ENTRIES && !entries.contains_key(&network) {
            return Err(format!("the list `{list}` has {ENTRIES} networks, which is as many as it may"));
        }
        Ok(entries.insert(network, entry))
    }

    /// Takes out what is over; lists and networks. The tables are not renewed.
    fn forget_expired(&mut self, now: u64) -> Vec<(String, String)> {
        let mut over = Vec::new();
        for (list, entries) in &mut self.kept.lists {
            entries.retain(|network, entry| {
                let is_over = entry.until.is_some_and(|until| until <= now);
                if is_over {
                    over.push((list.clone(), network.clone()));
                }
                !is_over
            });
        }
        over
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn shown(network: &str, entry: &EntrySpec) -> AddressEntry {
    AddressEntry {
        network: network.to_owned(),
        reason: entry.reason.clone(),
        since: entry.since,
        until: entry.until,
        ban: entry.ban.clone(),
    }
}

/// `for 1h (scans)`, as far as it is said.
fn terms(time: Option<Duration>, reason: &str) -> String {
    let time = time.map(|time| format!(" for {}", duration_text(time))).unwrap_or_default();
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    time + &reason
}

impl Shared {
    pub(super) fn list_address_lists(&self) -> Vec<AddressList> {
        let plan = self.worker_pool().plan();
        let lists = self.access();
        let shown = plan.access.lists.iter().map(|list| AddressList {
            name: list.live.name().to_owned(),
            configured: hide(&list.text),
            added: lists.entries(list.live.name()).count(),
        });
        shown.collect()
    }

    pub(super) fn address_list_of(&self, list: &str) -> Result<AddressListContents, Refusal> {
        let configured = self.known_list(list)?;
        let lists = self.access();
        let entries = lists.entries(list).map(|(network, entry)| shown(network, entry)).collect();
        Ok(AddressListContents { name: list.to_owned(), configured, entries })
    }

    /// What the configuration puts into a list.
    fn known_list(&self, list: &str) -> Result<String, Refusal> {
        let plan = self.worker_pool().plan();
        let known = plan.access.lists.iter().find(|known| known.live.name() == list);
        known.map(|known| hide(&known.text)).ok_or_else(|| {
            let names: Vec<_> =
                plan.access.lists.iter().take(TOLD).map(|known| format!("`{}`", known.live.name())).collect();
            Refusal::Unknown(format!("there is no list `{list}`; there are {}", names.join(", ")))
        })
    }

    pub(super) fn put_into_list(&self, list: &str, new: &NewAddress) -> Result<AddressChanged, Refusal> {
        // What was taken out of the configuration may be wanted again, but nobody would ask such a list.
        self.known_list(list)?;
        let read = network(&new.network).map_err(|what| Refusal::Invalid {
            field: "network".into(),
            detail: format!("`{}` {what}", new.network),
            help: Some("write for example `192.0.2.7`, `192.0.2.0/24` or `2001:db8::/64`".into()),
        })?;
        let text = Written(read).to_string();
        let now = seconds(SystemTime::now());
        let entry = EntrySpec {
            reason: new.reason.clone(),
            since: now,
            until: new.time.map(|time| now.saturating_add(time.as_secs())),
            ban: None,
        };
        let mut lists = self.access();
        let before = lists.enter(list, text.clone(), entry.clone()).map_err(Refusal::Conflict)?;
        lists.renew(list);
        drop(lists);
        let said = format!("{text} in the list `{list}`{}", terms(new.time, &new.reason));
        self.say(&Notice::info(said.clone()));
        self.publish(event(EventKind::AddressBlocked, said));
        let before = before.map(|before| shown(&text, &before));
        Ok(AddressChanged { before, after: Some(shown(&text, &entry)) })
    }

    pub(super) fn take_out_of_list(&self, list: &str, written: &str) -> Result<AddressChanged, Refusal> {
        self.known_list(list)?;
        let read = network(written).map_err(|what| Refusal::Unknown(format!("`{written}` {what}")))?;
        let text = Written(read).to_string();
        let mut lists = self.access();
        let removed = lists.kept.lists.get_mut(list).and_then(|entries| entries.remove(&text));
        let Some(removed) = removed else {
            let around = lists.entries(list).map(|(known, _)| known);
            let mut around = around.filter(|known| network(known).is_ok_and(|known| known.contains(&read)));
            let help = around.next().map(|known| format!("; `{known}` contains it")).unwrap_or_default();
            let detail = format!("`{text}` was not added to the list `{list}` while the proxy runs{help}");
            return Err(Refusal::Unknown(detail));
        };
        lists.renew(list);
        drop(lists);
        let said = format!("{text} is no longer in the list `{list}`");
        self.say(&Notice::info(said.clone()));
        self.publish(event(EventKind::AddressUnblocked, said));
        Ok(AddressChanged { before: Some(shown(&text, &removed)), after: None })
    }

    /// A client is to be banned, and perhaps others that wait for it in the queue.
    pub(crate) fn ban(&self, queue: &mut mpsc::Receiver<Banned>, first: Banned) {
        let mut all = vec![first];
        while all.len() < AT_ONCE
            && let Ok(next) = queue.try_recv()
        {
            all.push(next);
        }
        let now = seconds(SystemTime::now());
        let (mut lines, mut banned, mut changed) = (Vec::new(), Vec::new(), Vec::new());
        let mut lists = self.access();
        for Banned { rule, ban, status } in all {
            let text = Written(ban.network).to_string();
            let times = if ban.times > 1 { format!(", {} times now", ban.times) } else { String::new() };
            let reason = format!(
                "ban `{}`: {} within {}{times}, the last answer was {status}",
                rule.name,
                rule.after,
                duration_text(rule.within)
            );
            let time = duration_text(ban.time);
            if rule.dry_run {
                lines.push(Notice::info(format!(
                    "{text} would be in the list `{}` for {time} ({reason})",
                    rule.list
                )));
                continue;
            }
            let until = Some(now.saturating_add(ban.time.as_secs().max(1)));
            let entry =
                EntrySpec { reason: reason.clone(), since: now, until, ban: Some(rule.name.to_string()) };
            // What an operator has put there stays.
            let is_of_operator =
                lists.entries(&rule.list).any(|(known, entry)| *known == text && entry.ban.is_none());
            if is_of_operator {
                continue;
            }
            match lists.enter(&rule.list, text.clone(), entry) {
                Ok(_) => banned.push(format!("{text} in the list `{}` for {time} ({reason})", rule.list)),
                Err(full) => lines.push(Notice::warn(full)),
            }
            changed.push(rule.list.to_string());
        }
        changed.sort_unstable();
        changed.dedup();
        changed.iter().for_each(|list| lists.renew(list));
        drop(lists);
        lines.iter().for_each(|line| self.say(line));
        for said in banned {
            self.say(&Notice::info(said.clone()));
            self.publish(event(EventKind::ClientBanned, said));
        }
    }

    /// Takes out what is over. Called once a second.
    pub(crate) fn tend_access(&self) {
        let mut lists = self.access();
        let over = lists.forget_expired(seconds(SystemTime::now()));
        if over.is_empty() {
            return;
        }
        let mut names: Vec<String> = over.iter().map(|(list, _)| list.clone()).collect();
        names.dedup();
        names.iter().for_each(|list| lists.renew(list));
        drop(lists);
        for (list, network) in over.iter().take(TOLD) {
            let said = format!("{network} is no longer in the list `{list}`: its time is over");
            self.say(&Notice::info(said.clone()));
            self.publish(event(EventKind::AddressUnblocked, said));
        }
        if over.len() > TOLD {
            let rest = over.len() - TOLD;
            self.say(&Notice::info(format!(
                "{rest} more networks are in no list any more: their time is over"
            )));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(until: Option<u64>) -> EntrySpec {
        EntrySpec { reason: "scans".into(), since: 1, until, ban: None }
    }

    #[test]
    fn lists_are_kept_and_what_is_over_is_not_read_back() {
        let directory = std::env::temp_dir().join(format!("thalweg-access-{}", std::process::id()));
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        let mut lists = AccessLists::open(Some(&directory), None, now).unwrap();
        for (network, until) in [("192.0.2.7", None), ("192.0.2.8", Some(1100)), ("192.0.2.9", Some(1001))] {
            lists.enter("kept", network.into(), entry(until)).unwrap();
        }
        lists.renew("kept");
        let has = |address: &str| live::list("kept").contains(address.parse().unwrap());
        assert!(has("192.0.2.9") && !has("192.0.2.1"));
        assert!(lists.settle(Duration::from_secs(30)));
        drop(lists);
        assert!(!has("192.0.2.7"), "nobody keeps the list");
        let mut lists = AccessLists::open(Some(&directory), None, now + Duration::from_secs(50)).unwrap();
        assert!(has("192.0.2.7") && has("192.0.2.8") && !has("192.0.2.9"));
        assert_eq!(lists.forget_expired(1100), [("kept".to_owned(), "192.0.2.8".to_owned())]);
        lists.renew("kept");
        assert!(!has("192.0.2.8"));
        assert!(lists.settle(Duration::from_secs(30)), "nothing is written over what follows");
        drop(lists);
        for damaged in ["{", "[]", "", "null", "{\"lists\": 7}"] {
            std::fs::write(directory.join(FILE), damaged).unwrap();
            assert!(
                AccessLists::open(Some(&directory), None, now).unwrap_err().contains("help: "),
                "{damaged}"
            );
        }
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_list_is_bounded() {
        let mut lists = AccessLists::default();
        for number in 0..ENTRIES as u32 {
            lists.enter("full", std::net::Ipv4Addr::from(number).to_string(), entry(None)).unwrap();
        }
        assert!(
            lists.enter("full", "192.0.2.1".into(), entry(None)).unwrap_err().contains("as many as it may")
        );
        assert!(lists.enter("full", "0.0.0.1".into(), entry(Some(7))).unwrap().is_some());
    }
}
