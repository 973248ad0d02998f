//! `map` and `geo`: variables with a value for each of several conditions.

use super::conditions::{Condition, Test, Wanted, test};
use super::tree::Directive;
use crate::draft::Conditions;
use crate::networks::network;
use std::collections::BTreeMap;

/// A variable whose value depends on the request.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    pub(super) default: String,
    /// The first condition that holds decides.
    pub(super) entries: Vec<(Condition, String)>,
    /// No two conditions can hold at once.
    pub(super) is_disjoint: bool,
}

/// Variables by their names.
pub(super) type Maps = BTreeMap<String, Choice>;

/// What `if` asks of a variable.
pub(super) enum Asked<'a> {
    True,
    Equal(&'a str),
    Unequal(&'a str),
}

impl Choice {
    /// Reads a `map`.
    ///
    /// # Errors
    /// A sentence: it cannot be expressed.
    pub(super) fn map(directive: &Directive) -> Result<Self, String> {
        let source = directive.arg().strip_prefix('$').ok_or("its source is no single variable")?;
        let mut choice = Self { is_disjoint: true, ..Self::default() };
        let mut expressions = Vec::new();
        for line in directive.children() {
            let value = line.arg().to_owned();
            match line.name.as_str() {
                "default" => choice.default = value,
                "hostnames" | "include" => {
                    return Err(format!("`{}` of a map cannot be expressed", line.name));
                }
                "volatile" => {}
                key => match key.strip_prefix('~') {
                    Some(regex) => {
                        let (regex, any_case) = match regex.strip_prefix('*') {
                            Some(regex) => (regex, true),
                            None => (regex, false),
                        };
                        let wanted = Wanted::Like(regex, any_case);
                        expressions.push((positive(test(source, &wanted)?), value));
                    }
                    None => {
                        let condition = exactly(source, key.strip_prefix('\\').unwrap_or(key))?;
                        choice.entries.push((condition, value));
                    }
                },
            }
        }
        choice.is_disjoint = expressions.is_empty() || (expressions.len() == 1 && choice.entries.is_empty());
        choice.entries.extend(expressions);
        Ok(choice)
    }

    /// Reads a `geo`.
    ///
    /// # Errors
    /// A sentence: it cannot be expressed.
    pub(super) fn geo(directive: &Directive) -> Result<Self, String> {
        if directive.args.len() > 1 && directive.arg() != "$remote_addr" {
            return Err("its source is not the address of the client".to_owned());
        }
        let mut found: Vec<(ipnet::IpNet, String)> = Vec::new();
        let mut choice = Self::default();
        for line in directive.children() {
            match (line.name.as_str(), network(&line.name)) {
                ("default", _) => line.arg().clone_into(&mut choice.default),
                (_, Some(net)) => found.push((net, line.arg().to_owned())),
                (word, None) => return Err(format!("`{word}` of `geo` cannot be expressed")),
            }
        }
        // The longest prefix decides.
        found.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        let meets = |one: &ipnet::IpNet, other: &ipnet::IpNet| one.contains(other) || other.contains(one);
        choice.is_disjoint = found
            .iter()
            .enumerate()
            .all(|(at, (net, _))| found[at + 1..].iter().all(|(other, _)| !meets(net, other)));
        choice.entries = found
            .into_iter()
            .map(|(net, value)| {
                let conditions = Conditions { client: vec![net.to_string()], ..Conditions::default() };
                (positive(Test::Request(conditions)), value)
            })
            .collect();
        Ok(choice)
    }

    /// Conditions under which `if` holds, one after the other.
    ///
    /// # Errors
    /// A sentence: they cannot be expressed.
    pub(super) fn conditions(&self, asked: &Asked<'_>) -> Result<Vec<Condition>, String> {
        let is_wanted = |value: &str| match asked {
            Asked::True => !value.is_empty() && value != "0",
            Asked::Equal(other) => value == *other,
            Asked::Unequal(other) => value != *other,
        };
        let (wanted, others): (Vec<_>, Vec<_>) = self.entries.iter().partition(|(_, value)| is_wanted(value));
        if !self.is_disjoint && !others.is_empty() && !wanted.is_empty() {
            return Err("entries of its `map` can hold at the same time".to_owned());
        }
        if !is_wanted(&self.default) {
            return Ok(wanted.into_iter().map(|(condition, _)| condition.clone()).collect());
        }
        // Everybody but some: one condition that does not hold.
        match others.as_slice() {
            [] => Err("it always holds".to_owned()),
            [(condition, _)] => Ok(vec![Condition { negated: true, ..condition.clone() }]),
            many => {
                let mut networks = Vec::new();
                for (condition, _) in many {
                    match &condition.test {
                        Test::Request(conditions) if conditions.is_client_only() => {
                            networks.extend(conditions.client.clone());
                        }
                        _ => return Err("several values of its `map` are the exceptions".to_owned()),
                    }
                }
                let conditions = Conditions { client: networks, ..Conditions::default() };
                Ok(vec![Condition { negated: true, test: Test::Request(conditions) }])
            }
        }
    }
}

fn positive(test: Test) -> Condition {
    Condition { negated: false, test }
}

/// A key of a map: compared without case.
fn exactly(source: &str, key: &str) -> Result<Condition, String> {
    let is_letters = key.bytes().any(|byte| byte.is_ascii_alphabetic());
    let is_field = ["http_", "arg_", "cookie_"].iter().any(|begin| source.starts_with(begin));
    if is_letters && is_field && !source.starts_with("cookie_") {
        let escaped = format!("^{}$", crate::pattern::escaped(key));
        return Ok(positive(test(source, &Wanted::Like(&escaped, true))?));
    }
    let mut condition = positive(test(source, &Wanted::Equal(key))?);
    condition.settle();
    Ok(condition)
}
