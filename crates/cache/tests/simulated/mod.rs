//! A cache without sockets on the decisions of the crate: the shape that the proxy's has, with a map for a store.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::HashMap;
use thalweg_cache::{
    Answer, Body, ContentRange, Failure, Forward, Found, HeadEffect, Hit, Key, KeyRule, Lookup, Parts,
    Policy, Request, Response, StoredHead, UnixMillis, Url, Validated, Vary, answer, head_effect,
    invalidates, is_known, joined, look_up, same_origin, use_on_failure, validated, write_answer,
    write_completion, write_conditions,
};
use thalweg_http::Method;

pub(crate) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

pub(crate) fn lines(fields: &Fields) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    fields.iter().map(|(name, value)| (&name[..], &value[..]))
}

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) fields: Fields,
    pub(crate) has_body: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
    pub(crate) requested: UnixMillis,
    pub(crate) received: UnixMillis,
}

/// What has become of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    Passed,
    Fetched(Forward),
    /// A stored response, by its number, without a question.
    Served(u32, Hit),
    /// A stored response after a question.
    Validated(u32, Hit),
    /// Asked, and answered anew.
    Replaced(Forward),
    /// A stored response because the service fails.
    ServedOnFailure(u32, Hit),
    Unavailable,
    Failed,
}

#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) number: u32,
    pub(crate) head: StoredHead,
    pub(crate) body: Vec<u8>,
    pub(crate) parts: Option<Parts>,
}

/// All that is stored under one key.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) vary: Vary,
    pub(crate) variants: HashMap<Vec<u8>, Stored>,
}

/// A request with what was made of it.
struct Exchange<'a> {
    request: Request<'a>,
    asked: &'a Asked,
    key: Key,
}

#[derive(Debug, Default)]
pub(crate) struct Simulated {
    pub(crate) policy: Policy,
    pub(crate) rule: KeyRule,
    pub(crate) slots: HashMap<Vec<u8>, Slot>,
    pub(crate) stored: u32,
    /// The time of the request that is handled.
    pub(crate) now: UnixMillis,
}

const HOST: &[u8] = b"a.example";

fn url<'a>(path: &'a str, query: Option<&'a str>) -> Url<'a> {
    Url { scheme: "http", host: HOST, port: 80, path: path.as_bytes(), query: query.map(str::as_bytes) }
}

impl Simulated {
    /// Handles a request; `service` answers, or does not.
    pub(crate) fn handle(
        &mut self,
        asked: &Asked,
        now: UnixMillis,
        service: &mut dyn FnMut(&Asked) -> Option<Told>,
    ) -> Reply {
        self.now = now;
        let request =
            Request::read(Method::from_bytes(asked.method.as_bytes()), asked.has_body, lines(&asked.fields));
        let key = Key::of(&self.rule, &url(&asked.path, asked.query.as_deref()), lines(&asked.fields), None)
            .unwrap();
        let stored = self.find(&key, asked);
        let lookup = match (&stored, self.slots.contains_key(key.bytes())) {
            (Some(Stored { head, parts: Some(parts), .. }), _) => {
                look_up(&self.policy, &request, Found::Parts(head, parts), now)
            }
            (Some(stored), _) => look_up(&self.policy, &request, Found::Head(&stored.head), now),
            (None, true) => look_up(&self.policy, &request, Found::OtherVariants, now),
            (None, false) => look_up(&self.policy, &request, Found::Nothing, now),
        };
        let exchange = Exchange { request, asked, key };
        match (lookup, stored) {
            (Lookup::Hit(hit), Some(stored)) => {
                let reply = self.reply(&exchange, &stored, &hit, Outcome::Served(stored.number, hit));
                if hit.refresh {
                    self.validate(&exchange, stored, service);
                }
                reply
            }
            (Lookup::Validate(why), Some(stored)) => {
                let (reply, is_replaced) = self.validate(&exchange, stored, service);
                if is_replaced { Reply { outcome: Outcome::Replaced(why), ..reply } } else { reply }
            }
            (Lookup::Fetch(Forward::Partial), Some(stored)) => self.complete(&exchange, &stored, service),
            (Lookup::Unavailable, _) => empty(504, Outcome::Unavailable),
            (Lookup::Pass(_), _) => self.pass(&exchange, service),
            (Lookup::Fetch(why), _) => match service(asked) {
                Some(told) => {
                    self.keep(&exchange, &told, None);
                    passed_on(told, Outcome::Fetched(why))
                }
                None => empty(502, Outcome::Failed),
            },
            (Lookup::Hit(_) | Lookup::Validate(_), None) => unreachable!(),
        }
    }

    fn find(&self, key: &Key, asked: &Asked) -> Option<Stored> {
        let slot = self.slots.get(key.bytes())?;
        let mut variant = Vec::new();
        slot.vary.write_key(&self.policy, lines(&asked.fields), &mut variant).then_some(())?;
        slot.variants.get(&variant).cloned()
    }

    fn reply(&self, exchange: &Exchange<'_>, stored: &Stored, hit: &Hit, outcome: Outcome) -> Reply {
        let Exchange { request, asked, .. } = exchange;
        let body = match &stored.parts {
            Some(parts) => Body::Parts(parts),
            None => Body::Complete(stored.body.len() as u64),
        };
        let answer = answer(request, lines(&asked.fields), &stored.head, body);
        let mut text = Vec::new();
        let status = write_answer(&answer, &stored.head, hit, &mut text);
        let body = match answer {
            Answer::Full => stored.body.clone(),
            Answer::Part(ContentRange { first, end, .. }) => {
                stored.body[first as usize..end as usize].to_vec()
            }
            Answer::Several(..) => stored.body.clone(),
            Answer::NotModified | Answer::Unsatisfiable(_) | Answer::Lacks => Vec::new(),
        };
        Reply { status, fields: split(&text), body, outcome }
    }

    /// Asks whether a stored response holds; true where the answer is another one.
    fn validate(
        &mut self,
        exchange: &Exchange<'_>,
        stored: Stored,
        service: &mut dyn FnMut(&Asked) -> Option<Told>,
    ) -> (Reply, bool) {
        let Exchange { request, asked, key } = exchange;
        let mut conditions = Vec::new();
        write_conditions(&stored.head, &mut conditions);
        let question = without_conditions(asked, split(&conditions));
        let mut told = service(&question);
        if told.is_none() {
            // A simulated service that cannot be reached takes no time.
            let failure = Failure::Unreachable;
            return match use_on_failure(&self.policy, request, &stored.head, failure, self.now) {
                Some(hit) => {
                    let outcome = Outcome::ServedOnFailure(stored.number, hit);
                    (self.reply(exchange, &stored, &hit, outcome), false)
                }
                None => (empty(504, Outcome::Failed), false),
            };
        }
        loop {
            let Some(answered) = told.take() else { return (empty(504, Outcome::Failed), false) };
            let response = read(&self.policy, &answered);
            match validated(&self.policy, request, &stored.head, &response, lines(&answered.fields)) {
                Validated::Freshened(head) => {
                    let new = Stored { head: *head, ..stored.clone() };
                    let hit = fresh_hit(&new, answered.received);
                    self.put(key, asked, new.clone());
                    return (self.reply(exchange, &new, &hit, Outcome::Validated(new.number, hit)), false);
                }
                Validated::UsedOnce(head, why) => {
                    if why.is_of_response() {
                        self.remove(key, asked);
                    }
                    let new = Stored { head: *head, ..stored.clone() };
                    let hit = fresh_hit(&new, answered.received);
                    return (self.reply(exchange, &new, &hit, Outcome::Validated(new.number, hit)), false);
                }
                Validated::VariesAnew(head) => {
                    self.slots.remove(key.bytes());
                    let new = Stored { head: *head, ..stored.clone() };
                    let hit = fresh_hit(&new, answered.received);
                    return (self.reply(exchange, &new, &hit, Outcome::Validated(new.number, hit)), false);
                }
                Validated::Stale(hit) => {
                    let outcome = Outcome::ServedOnFailure(stored.number, hit);
                    return (self.reply(exchange, &stored, &hit, outcome), false);
                }
                Validated::Repeat => told = service(&without_conditions(asked, Vec::new())),
                Validated::Replaced { drops_stored } => {
                    if drops_stored {
                        self.remove(key, asked);
                    }
                    let kept = self.keep(exchange, &answered, Some(&stored));
                    if let Some(new) = kept.filter(|new| is_known(request, lines(&asked.fields), &new.head)) {
                        let hit = fresh_hit(&new, answered.received);
                        return (self.reply(exchange, &new, &hit, Outcome::Failed), true);
                    }
                    return (passed_on(answered, Outcome::Failed), true);
                }
            }
        }
    }

    /// Fetches what the stored parts lack, and joins it.
    fn complete(
        &mut self,
        exchange: &Exchange<'_>,
        stored: &Stored,
        service: &mut dyn FnMut(&Asked) -> Option<Told>,
    ) -> Reply {
        let Exchange { request, asked, key } = exchange;
        let gap = stored.parts.as_ref().and_then(|parts| parts.first_gap(&(0..parts.total())));
        let mut fields = Vec::new();
        let question = match gap {
            Some(gap) if request.range.is_none() && write_completion(&stored.head, &gap, &mut fields) => {
                without_conditions(asked, split(&fields))
            }
            _ => (*asked).clone(),
        };
        let Some(told) = service(&question) else { return empty(502, Outcome::Failed) };
        let response = read(&self.policy, &told);
        let found = joined(&self.policy, request, &stored.head, &response, lines(&told.fields));
        let Some((head, part)) = found else {
            self.keep(exchange, &told, None);
            return passed_on(told, Outcome::Fetched(Forward::Partial));
        };
        let mut new = Stored { head: *head, ..stored.clone() };
        if let Some(parts) = &mut new.parts
            && parts.add(part.range())
        {
            new.body[part.first as usize..part.end as usize].copy_from_slice(&told.body);
        }
        self.put(key, asked, new.clone());
        if request.range.is_some() {
            return passed_on(told, Outcome::Fetched(Forward::Partial));
        }
        let hit = fresh_hit(&new, told.received);
        self.reply(exchange, &new, &hit, Outcome::Fetched(Forward::Partial))
    }

    fn pass(&mut self, exchange: &Exchange<'_>, service: &mut dyn FnMut(&Asked) -> Option<Told>) -> Reply {
        let Exchange { request, asked, key } = exchange;
        let Some(told) = service(asked) else { return empty(502, Outcome::Failed) };
        let response = read(&self.policy, &told);
        if invalidates(request.method, told.status) {
            self.slots.retain(|known, _| !known.starts_with(key.url()));
            let own = url(&asked.path, asked.query.as_deref());
            for reference in [response.location, response.content_location].into_iter().flatten() {
                if let Some(target) = same_origin(&own, reference) {
                    let path = String::from_utf8(target.path).unwrap();
                    let query = target.query.map(|query| String::from_utf8(query).unwrap());
                    let key =
                        Key::of(&self.rule, &url(&path, query.as_deref()), lines(&Vec::new()), None).unwrap();
                    self.slots.retain(|known, _| !known.starts_with(key.url()));
                }
            }
        }
        let names_itself = response.content_location.is_some_and(|reference| {
            same_origin(&url(&asked.path, asked.query.as_deref()), reference).is_some_and(|target| {
                target.path == asked.path.as_bytes()
                    && target.query.as_deref() == asked.query.as_deref().map(str::as_bytes)
            })
        });
        if request.method == Method::Post && names_itself {
            self.keep(exchange, &told, None);
        }
        passed_on(told, Outcome::Passed)
    }

    /// Stores a response if it may be.
    fn keep(&mut self, exchange: &Exchange<'_>, told: &Told, selected: Option<&Stored>) -> Option<Stored> {
        let Exchange { request, asked, key } = exchange;
        let mut response = read(&self.policy, told);
        if request.method == Method::Head {
            response.content_length = None;
            let selected = selected?;
            let length = selected.body.len() as u64;
            match head_effect(&self.policy, request, (&selected.head, length), &response, lines(&told.fields))
            {
                HeadEffect::Freshened(head) => {
                    self.put(key, asked, Stored { head: *head, ..selected.clone() })
                }
                HeadEffect::Dropped => self.remove(key, asked),
                HeadEffect::Nothing => {}
            }
            return None;
        }
        let head = StoredHead::new(&self.policy, request, &response, lines(&told.fields)).ok()?;
        self.stored += 1;
        let (body, parts) = match head.part {
            Some(part) => {
                let mut body = vec![0; part.total as usize];
                body[part.first as usize..part.end as usize].copy_from_slice(&told.body);
                (body, Some(Parts::of(&part)))
            }
            None => (told.body.clone(), None),
        };
        let stored = Stored { number: self.stored, head, body, parts };
        self.put(key, asked, stored.clone());
        Some(stored)
    }

    fn put(&mut self, key: &Key, asked: &Asked, stored: Stored) {
        let slot = self.slots.entry(key.bytes().to_vec()).or_default();
        if slot.vary != stored.head.vary {
            // The newest response says what there are variants by.
            *slot = Slot { vary: stored.head.vary.clone(), variants: HashMap::new() };
        }
        let mut variant = Vec::new();
        if slot.vary.write_key(&self.policy, lines(&asked.fields), &mut variant) {
            slot.variants.insert(variant, stored);
        }
    }

    fn remove(&mut self, key: &Key, asked: &Asked) {
        let Some(slot) = self.slots.get_mut(key.bytes()) else { return };
        let mut variant = Vec::new();
        if slot.vary.write_key(&self.policy, lines(&asked.fields), &mut variant) {
            slot.variants.remove(&variant);
        }
        if slot.variants.is_empty() {
            self.slots.remove(key.bytes());
        }
    }
}

fn read<'a>(policy: &Policy, told: &'a Told) -> Response<'a> {
    let times = (told.requested, told.received);
    let response = Response::read(policy, told.status, times, lines(&told.fields));
    Response { content_length: Some(told.body.len() as u64), ..response }
}

fn fresh_hit(stored: &Stored, now: UnixMillis) -> Hit {
    Hit::of(&stored.head, now)
}

fn without_conditions(asked: &Asked, conditions: Fields) -> Asked {
    let mut question = asked.clone();
    question.fields.retain(|(name, _)| {
        !thalweg_cache::REPLACED_FIELDS.iter().any(|replaced| name.eq_ignore_ascii_case(replaced.as_bytes()))
    });
    question.fields.extend(conditions);
    question
}

fn split(text: &[u8]) -> Fields {
    let text = String::from_utf8(text.to_vec()).unwrap();
    let pair = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.as_bytes().to_vec(), value.as_bytes().to_vec())
    };
    text.split_terminator("\r\n").map(pair).collect()
}

fn passed_on(told: Told, outcome: Outcome) -> Reply {
    Reply { status: told.status, fields: told.fields, body: told.body, outcome }
}

fn empty(status: u16, outcome: Outcome) -> Reply {
    Reply { status, fields: Vec::new(), body: Vec::new(), outcome }
}
