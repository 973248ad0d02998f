//! What a rule does, with what it asks of passwords, rates and responses.

use super::acl::{Literal, Rate, Test};
use super::actions::{self, Action, Lost};
use super::program::{Program, Rule, Stage};
use super::region::Region;
use super::template::Scope;
use crate::Grade;
use crate::draft::duration;
use crate::yaml::{Map, Value, one, one_or_many};

impl Program<'_> {
    /// What a rule does, with what it asks of passwords, rates and responses.
    pub(super) fn action(&mut self, rule: &Rule, special: &[Literal], scope: &Scope) -> Result<Action, Lost> {
        let made = match rule.stage {
            Stage::Choose => Action::Backend(rule.words.first().cloned().unwrap_or_default()),
            Stage::Redirect => Action::Answer(actions::redirect(&rule.words, scope)?),
            Stage::Response => {
                let filter = actions::response(&rule.words, scope)?;
                if rule.is_after { Action::After(filter) } else { Action::Response(filter) }
            }
            Stage::Connection | Stage::Request => actions::request(&rule.words, scope)?,
        };
        let Some(literal) = special.first() else {
            return match made {
                Action::Auth(_) => {
                    Err(Lost::closing("it asks everybody, whoever they are; requests are answered 501"))
                }
                made => Ok(made),
            };
        };
        let because = |why: &str| Lost { why: why.to_owned(), closes: self.is_closing(rule), is_near: false };
        if special.len() > 1 {
            return Err(because("two conditions of this kind are not asked together"));
        }
        match (&literal.test, literal.negated, made) {
            (Test::User(list), true, Action::Auth(realm)) => self.asked_user(list, &realm),
            (Test::User(list), true, Action::Deny(_)) => {
                self.note(rule, Grade::Near, "clients are asked for a name and a password");
                self.asked_user(list, &scope.frontend.clone())
            }
            (Test::Rate(rate), false, Action::Deny(answer)) => {
                self.note(rule, Grade::Near, "who is refused gets 429 and `Retry-After`; an allowance comes back evenly, and not by windows");
                self.limited(rate, &answer)
            }
            (Test::Status(statuses), false, Action::Response(filter)) => {
                Ok(Action::Response(for_status(&filter, statuses)))
            }
            (Test::Status(statuses), false, Action::After(filter)) => {
                Ok(Action::After(for_status(&filter, statuses)))
            }
            _ => Err(because("its condition cannot be asked here")),
        }
    }

    fn asked_user(&self, list: &str, realm: &str) -> Result<Action, Lost> {
        let Some(users) = self.users.get(list).filter(|users| !users.is_empty()) else {
            return Err(Lost::closing(format!(
                "no password of the list {list} can be checked; requests are answered 501"
            )));
        };
        let basic = one("basic", one("users", users.clone()));
        let filter = one("auth", basic.with("realm", realm).with("keep_credentials", true));
        Ok(Action::Change { filter, is_move: false, is_idempotent: true })
    }

    /// A limit of a client's requests.
    fn limited(&self, rate: &Rate, answer: &Map) -> Result<Action, Lost> {
        let counter = rate.counter.as_ref().and_then(|counter| self.counters.get(counter));
        let (key, table) = match (counter, &rate.table, &rate.counter) {
            (Some((key, table)), other, _) => (key.clone(), other.clone().unwrap_or_else(|| table.clone())),
            (None, table, None) => ("client_ip".into(), table.clone().unwrap_or_else(|| self.name.clone())),
            _ => return Err(Lost::closing("what it counts is not tracked; requests are answered 501")),
        };
        let name = format!("{table} {}", rate.what);
        let status = match answer.get("respond") {
            Some(Value::Number(429)) => 429_u16,
            _ => 503,
        };
        let filter = if rate.what == "conn_cur" {
            let map = one("max", rate.most.max(1)).with("key", key).with("missing", "allow");
            one("concurrency", map.with("status", status).with("name", name))
        } else {
            let period = self.periods.get(&(table.clone(), rate.what.clone())).copied();
            let period = period
                .ok_or_else(|| Lost::closing(format!("the table {table} does not say how long it counts")))?;
            let map = one("requests", rate.most.max(1)).with("per", duration(period));
            let map = map.with("burst", rate.most.max(1)).with("key", key).with("missing", "allow");
            one("rate_limit", map.with("name", name).with("headers", "none"))
        };
        Ok(Action::Change { filter, is_move: false, is_idempotent: true })
    }

    /// Whether the product says by itself what the rule writes.
    pub(super) fn is_told_anyway(&self, rule: &Rule, region: &Region) -> bool {
        let Some(value) = actions::told_scheme(&rule.words) else { return false };
        if value.starts_with("%[ssl_fc,iif(https,http)") {
            return true;
        }
        let is_https = value == "https";
        (is_https || value == "http")
            && region.listeners.iter().all(|at| self.listeners[*at].is_secure() == is_https)
    }
}

fn for_status(filter: &Map, statuses: &[String]) -> Map {
    let values = statuses.iter().map(|status| match status.parse::<u16>() {
        Ok(status) => Value::from(status),
        Err(_) => Value::from(status.as_str()),
    });
    filter.clone().with("when", one("status", one_or_many(values.collect::<Vec<_>>())))
}
