//! `rate_limit: { requests: 100, per: 1s, key: client_ip }`: how often requests may come, for each key.
//!
//! All workers count in one [`KeyTable`], exactly (GCRA). A filter with several limits spends nothing of any when one
//! refuses. The table is made with the first request, is taken over when a configuration takes over, and is shared
//! by filters of one `name`.

mod shared;
mod spec;
mod told;

use crate::limit_key::{Key, MissingSpec};
use crate::named::Named;
use crate::request::{EndCx, Values};
use crate::{Escape, Filter, Hooks, JobResult, RequestCx, ResponseCx, Template, Upkeep, Verdict};
use shared::Store;
use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use thalweg_access::{Cost, Decision, Fingerprint, KeyTable, Rate};
use thalweg_core::units::{duration_text, size_text};

pub(crate) use spec::RateLimitSpec;

/// Keys that are remembered, where nothing is written.
const MAX_KEYS: usize = 100_000;
/// The same where keys are names of the configuration.
const PLACES: usize = 4096;

/// What is counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Unit {
    Requests,
    Bytes,
}

/// What a request costs.
#[derive(Debug)]
enum Costs {
    Fixed(u64),
    Template(Template),
}

/// What clients are told.
#[derive(Clone, Copy, Debug)]
struct Told {
    draft: bool,
    legacy: bool,
}

/// A rate, and how it is told.
#[derive(Debug)]
struct Terms {
    rate: Rate,
    /// `"1s";q=100;w=1`
    policy: Box<str>,
    text: Box<str>,
}

#[derive(Debug)]
struct Limit {
    key: Key,
    unit: Unit,
    /// Of clients without a plan, and of each plan; `None`: nothing is counted.
    terms: Box<[Option<Terms>]>,
    claim: Option<Box<str>>,
    /// The position of a plan's terms, by its name.
    plans: Box<[(Box<str>, u16)]>,
    cost: Costs,
    missing: MissingSpec,
    name: Box<str>,
}

/// What a request has spent of a limit.
#[derive(Clone, Copy, Debug)]
struct Spent {
    limit: u16,
    terms: u16,
    key: Fingerprint,
    units: u64,
    decision: Decision,
}

/// What is remembered until the end of the exchange.
#[derive(Debug)]
enum Account {
    One(Spent),
    Several(Box<[Spent]>),
}

impl Account {
    fn all(&self) -> &[Spent] {
        match self {
            Self::One(spent) => std::slice::from_ref(spent),
            Self::Several(all) => all,
        }
    }
}

#[derive(Debug)]
struct RateLimit {
    limits: Box<[Limit]>,
    name: Option<Box<str>>,
    max_keys: usize,
    told: Told,
    is_dry_run: bool,
    /// Where the count is kept that several proxies share; `None`: in `table`.
    store: Option<Store>,
    table: OnceLock<Arc<KeyTable>>,
}

/// Tables of filters that count together.
static NAMED: Named<Box<str>, KeyTable> = Named::new();

/// Nanoseconds since the first time that anybody asked, above 0. Time of the machine does not matter: it may be set.
pub(crate) fn nanoseconds(now: Instant) -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    let passed = now.saturating_duration_since(*BEGIN.get_or_init(|| now));
    u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX).saturating_add(1)
}

impl Terms {
    fn new(rate: Rate, unit: Unit, name: &str) -> Self {
        let per = rate.period();
        let count = |number| match unit {
            Unit::Requests => format!("{number} requests"),
            Unit::Bytes => size_text(number),
        };
        let burst =
            if rate.burst() == rate.units() { String::new() } else { format!(", burst {}", rate.burst()) };
        let text = format!("{} per {}{burst}", count(rate.units()), duration_text(per));
        Self { rate, policy: told::policy(&rate, unit, name).into(), text: text.into() }
    }
}

impl Limit {
    /// The position of the terms of a request.
    fn terms_of(&self, values: &Values<'_>) -> u16 {
        let Some(claim) = &self.claim else { return 0 };
        let Some(plan) = values.identity.and_then(|identity| identity.claim(claim)) else { return 0 };
        self.plans.iter().find(|(name, _)| **name == *plan).map_or(0, |(_, at)| *at)
    }

    fn cost(&self, values: &Values<'_>) -> u64 {
        match &self.cost {
            Costs::Fixed(cost) => *cost,
            Costs::Template(template) => {
                let mut text = Vec::new();
                template.render(values, Escape::Field, &mut text);
                let number = str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok());
                number.unwrap_or(1)
            }
        }
    }
}

/// Why a request is refused.
enum Refusal {
    /// It has no key.
    NoKey(u16),
    /// It has to wait.
    Over(Spent),
}

impl RateLimit {
    fn table(&self) -> &Arc<KeyTable> {
        self.table.get_or_init(|| {
            let make = || Arc::new(KeyTable::new(self.max_keys));
            self.name.as_ref().map_or_else(make, |name| NAMED.share(name, make))
        })
    }

    /// Whether the limit costs every request the same.
    fn has_fixed_cost(&self, spent: &Spent) -> bool {
        self.terms(spent).is_some_and(|(limit, _)| matches!(limit.cost, Costs::Fixed(_)))
    }

    fn terms(&self, spent: &Spent) -> Option<(&Limit, &Terms)> {
        let limit = self.limits.get(usize::from(spent.limit))?;
        Some((limit, limit.terms.get(usize::from(spent.terms))?.as_ref()?))
    }

    /// What the limit at `at` asks for; `None`: it does not count this request.
    fn ask(&self, at: u16, values: &Values<'_>, length: u64) -> Result<Option<Spent>, Refusal> {
        let limit = &self.limits[usize::from(at)];
        let terms = limit.terms_of(values);
        if limit.terms[usize::from(terms)].is_none() {
            return Ok(None);
        }
        let (key, is_whole) = limit.key.of(values);
        match limit.missing {
            MissingSpec::Allow if !is_whole => return Ok(None),
            MissingSpec::Deny if !is_whole => return Err(Refusal::NoKey(at)),
            _ => {}
        }
        let units = match limit.unit {
            Unit::Requests => limit.cost(values),
            Unit::Bytes => length,
        };
        let decision = Decision { wait: 0, left: 0, whole_in: 0 };
        Ok(Some(Spent { limit: at, terms, key, units, decision }))
    }

    /// Spends from every limit, or from none.
    fn spend(&self, values: &Values<'_>, length: u64, now: u64) -> Result<Option<Account>, Refusal> {
        let table = self.table();
        if self.limits.len() == 1 {
            let Some(mut spent) = self.ask(0, values, length)? else { return Ok(None) };
            self.decide(table, &mut spent, now)?;
            return Ok(Some(Account::One(spent)));
        }
        let mut all: Vec<Spent> = Vec::with_capacity(self.limits.len());
        for at in 0..self.limits.len() as u16 {
            let done = self.ask(at, values, length).and_then(|asked| {
                let Some(mut spent) = asked else { return Ok(()) };
                self.decide(table, &mut spent, now)?;
                all.push(spent);
                Ok(())
            });
            if let Err(refusal) = done {
                for spent in &all {
                    if let Some((limit, terms)) = self.terms(spent)
                        && limit.unit == Unit::Requests
                    {
                        table.give_back(spent.key, &terms.rate, (now, spent.units));
                    }
                }
                return Err(refusal);
            }
        }
        Ok((!all.is_empty()).then(|| Account::Several(all.into())))
    }

    fn decide(&self, table: &KeyTable, spent: &mut Spent, now: u64) -> Result<(), Refusal> {
        let Some((limit, terms)) = self.terms(spent) else { return Ok(()) };
        let cost = match limit.unit {
            Unit::Requests => Cost::Whole(spent.units),
            Unit::Bytes => Cost::Debt(spent.units),
        };
        spent.decision = table.decide(spent.key, &terms.rate, (now, cost));
        if spent.decision.admits() { Ok(()) } else { Err(Refusal::Over(*spent)) }
    }

    /// Spends what this process counts, or refuses.
    fn spend_here(&self, cx: &mut RequestCx<'_>, (length, now): (u64, u64)) -> Verdict {
        match self.spend(&cx.values(), length, now) {
            Ok(account) => {
                if let Some(account) = account
                    && self.hooks() != Hooks::REQUEST
                {
                    cx.remember(account);
                }
                Verdict::Continue
            }
            Err(refusal) => self.refuse(cx, &refusal),
        }
    }

    /// Answers 429, or lets it pass in a dry run.
    fn refuse(&self, cx: &mut RequestCx<'_>, refusal: &Refusal) -> Verdict {
        let (detail, reason, wait) = match refusal {
            Refusal::NoKey(at) => {
                let key = self.limits.get(usize::from(*at)).map_or("", |limit| limit.key.text());
                ("a request without what its rate limit counts by", format!("rate_limit: no key ({key})"), 0)
            }
            Refusal::Over(spent) => {
                let Some((limit, terms)) = self.terms(spent) else { return Verdict::Continue };
                let wait = spent.decision.wait;
                let reason = format!("rate_limit: over {} by {}", terms.text, limit.key.text());
                ("over the rate limit", reason, wait)
            }
        };
        if self.is_dry_run {
            cx.explain(format!("{reason} (dry run)"));
            return Verdict::Continue;
        }
        if let Refusal::Over(spent) = refusal {
            self.tell(std::slice::from_ref(spent), &mut |name, value| cx.fault_field(name, value));
        }
        cx.fault_field("Retry-After", told::seconds(wait).max(1).to_string().as_bytes());
        cx.refuse(429, detail, reason)
    }
}

impl Filter for RateLimit {
    fn name(&self) -> &'static str {
        "rate_limit"
    }

    fn argument(&self) -> String {
        let mut limits: Vec<String> = Vec::new();
        for limit in &self.limits {
            let of = |terms: &Option<Terms>| {
                terms.as_ref().map_or("unlimited".to_owned(), |terms| terms.text.to_string())
            };
            let mut text = format!("{} by {}", of(&limit.terms[0]), limit.key.text());
            for (name, at) in &limit.plans {
                text.push_str(&format!(", {name}: {}", of(&limit.terms[usize::from(*at)])));
            }
            match &limit.cost {
                Costs::Fixed(1) => {}
                Costs::Fixed(cost) => text.push_str(&format!(", each costs {cost}")),
                Costs::Template(template) => text.push_str(&format!(", each costs {template}")),
            }
            limits.push(text);
        }
        let name = self.name.as_ref().map(|name| format!(", counted as {name}")).unwrap_or_default();
        let dry_run = if self.is_dry_run { ", dry run" } else { "" };
        let store = self.store.as_ref().map(Store::text).unwrap_or_default();
        format!("{}{name}{store}{dry_run}", limits.join(" and "))
    }

    fn hooks(&self) -> Hooks {
        let told = if self.told.draft || self.told.legacy { Hooks::RESPONSE } else { Hooks::NONE };
        let has_bytes = self.limits.iter().any(|limit| limit.unit == Unit::Bytes);
        Hooks::REQUEST | told | if has_bytes { Hooks::END } else { Hooks::NONE }
    }

    fn captures(&self) -> Vec<String> {
        let costs = self.limits.iter().filter_map(|limit| match &limit.cost {
            Costs::Template(template) => Some(template.captures().map(str::to_owned)),
            Costs::Fixed(_) => None,
        });
        self.limits.iter().flat_map(|limit| limit.key.captures()).chain(costs.flatten()).collect()
    }

    fn adopt(&self, former: &dyn Filter) {
        let former = former as &dyn Any;
        let Some(table) = former.downcast_ref::<Self>().filter(|former| former.name == self.name) else {
            return;
        };
        let Some(table) = table.table.get() else { return };
        self.table.get_or_init(|| match table.keys() == self.max_keys {
            true => table.clone(),
            false => Arc::new(table.resized(self.max_keys, nanoseconds(Instant::now()))),
        });
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        if cx.facts.is_dry_run {
            return Verdict::Continue;
        }
        let (now, length) = (nanoseconds(cx.facts.now), cx.content_length.unwrap_or(0));
        match &self.store {
            None => self.spend_here(cx, (length, now)),
            Some(store) => self.ask_store(cx, store, now),
        }
    }

    fn resume(&self, cx: &mut RequestCx<'_>, got: JobResult) -> Verdict {
        self.answered(cx, got, nanoseconds(cx.facts.now))
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        self.store.as_ref().map(Store::upkeep)
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let mut lines: [(&str, Vec<u8>); told::FIELDS] = Default::default();
        let mut used = 0;
        if let Some(account) = cx.remembered::<Account>() {
            self.tell(account.all(), &mut |name, value| {
                lines[used] = (name, value.to_vec());
                used += 1;
            });
        }
        for (name, value) in &lines[..used] {
            cx.fields.append(name, value);
        }
    }

    fn on_end(&self, cx: &mut EndCx<'_>) {
        let Some(account) = cx.remembered::<Account>() else { return };
        let (now, moved) = (nanoseconds(cx.now), cx.bytes_in.saturating_add(cx.bytes_out));
        for spent in account.all() {
            if let Some((limit, terms)) = self.terms(spent)
                && limit.unit == Unit::Bytes
            {
                self.table().charge(spent.key, &terms.rate, (now, moved.saturating_sub(spent.units)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
