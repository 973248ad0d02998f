//! Which part of a query is part of the key.
//!
//! What is left out of the key must not reach the service either, or one client chooses what all others see: the caller
//! sends [`QueryRule::write`]'s text on in place of the query.

/// Names that a rule may have.
pub const MOST_QUERY_NAMES: usize = 64;

/// Which parameters count.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Selected {
    /// All.
    #[default]
    All,
    /// Those with these names.
    Only(Vec<Box<str>>),
    /// All but those with these names; one that ends in `*` stands for all that begin so.
    But(Vec<Box<str>>),
    /// None.
    Nothing,
}

/// Which part of a query counts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct QueryRule {
    /// Which parameters.
    pub selected: Selected,
    /// Whether their order does not matter. Values of one name keep theirs.
    pub sorted: bool,
}

impl QueryRule {
    /// Whether the names can be used.
    ///
    /// # Errors
    /// What is wrong, as a sentence with its remedy.
    pub fn check(&self) -> Result<(), String> {
        let (Selected::Only(names) | Selected::But(names)) = &self.selected else { return Ok(()) };
        if names.len() > MOST_QUERY_NAMES {
            return Err(format!("more than {MOST_QUERY_NAMES} parameters; help: name those that matter"));
        }
        if names.iter().any(|name| name.is_empty()) {
            return Err("a parameter without a name; help: write one like utm_source".into());
        }
        Ok(())
    }

    /// Whether it takes queries as they are.
    pub fn is_plain(&self) -> bool {
        self.selected == Selected::All && !self.sorted
    }

    /// Appends what counts of a query. False, and nothing is appended, where nothing of it does.
    pub fn write(&self, query: &[u8], out: &mut Vec<u8>) -> bool {
        if self.is_plain() {
            out.extend_from_slice(query);
            return true;
        }
        let pairs = query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
        let mut counted = pairs.filter(|pair| self.counts(pair));
        let base = out.len();
        let mut push = |pair: &[u8]| {
            if out.len() > base {
                out.push(b'&');
            }
            out.extend_from_slice(pair);
        };
        if self.sorted {
            let mut all: Vec<(Vec<u8>, &[u8])> = counted.map(|pair| (name_of(pair), pair)).collect();
            all.sort_by(|one, other| one.0.cmp(&other.0));
            all.iter().for_each(|(_, pair)| push(pair));
        } else {
            counted.by_ref().for_each(&mut push);
        }
        out.len() > base
    }

    fn counts(&self, pair: &[u8]) -> bool {
        let is_in = |names: &[Box<str>], stars: bool| {
            let name = name_of(pair);
            names.iter().any(|known| match known.strip_suffix('*') {
                Some(start) if stars => name.starts_with(start.as_bytes()),
                _ => *known.as_bytes() == *name,
            })
        };
        match &self.selected {
            Selected::All => true,
            Selected::Nothing => false,
            Selected::Only(names) => is_in(names, false),
            Selected::But(names) => !is_in(names, true),
        }
    }
}

/// The name of a parameter, its escapes resolved as a service would: `%69d` is `id`.
fn name_of(pair: &[u8]) -> Vec<u8> {
    let raw = &pair[..memchr::memchr(b'=', pair).unwrap_or(pair.len())];
    let mut name = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let [byte, after @ ..] = rest {
        let hex = |at: usize| after.get(at).and_then(|digit| thalweg_http::octet::hex_digit(*digit));
        match (byte, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                name.push(high << 4 | low);
                rest = &after[2..];
            }
            (b'+', ..) => {
                name.push(b' ');
                rest = after;
            }
            _ => {
                name.push(*byte);
                rest = after;
            }
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<Box<str>> {
        list.iter().map(|name| (*name).into()).collect()
    }

    fn written(selected: Selected, sorted: bool, query: &str) -> Option<String> {
        let mut out = b"kept".to_vec();
        let has = QueryRule { selected, sorted }.write(query.as_bytes(), &mut out);
        let text = String::from_utf8(out.split_off(4)).unwrap();
        assert_eq!(out, b"kept");
        assert!(has || text.is_empty());
        has.then_some(text)
    }

    #[test]
    fn a_query_counts_as_it_is_unless_a_rule_says_otherwise() {
        for query in ["", "a=1", "b&&a=%41&a=2&", "?"] {
            assert_eq!(written(Selected::All, false, query).as_deref(), Some(query));
        }
    }

    #[test]
    fn parameters_are_chosen_by_name() {
        let query = "id=1&utm_source=x&b&id=2&utm_x";
        assert_eq!(written(Selected::Only(names(&["id"])), false, query).as_deref(), Some("id=1&id=2"));
        assert_eq!(
            written(Selected::But(names(&["utm_*", "b"])), false, query).as_deref(),
            Some("id=1&id=2")
        );
        assert_eq!(written(Selected::But(names(&["b"])), false, "b&b=1"), None);
        assert_eq!(written(Selected::Nothing, false, query), None);
    }

    #[test]
    fn an_escaped_name_is_the_name_that_a_service_sees() {
        assert_eq!(written(Selected::Only(names(&["id"])), false, "%69d=7&x").as_deref(), Some("%69d=7"));
        assert_eq!(
            written(Selected::But(names(&["utm_*"])), false, "ut%6D_a=1&%zz=2").as_deref(),
            Some("%zz=2")
        );
        assert_eq!(
            written(Selected::Only(names(&["a b"])), false, "a+b=1&a%20b=2&ab").as_deref(),
            Some("a+b=1&a%20b=2")
        );
    }

    #[test]
    fn sorting_keeps_the_values_of_one_name_in_order() {
        assert_eq!(written(Selected::All, true, "b=1&a=2&&a=1&%61=0").as_deref(), Some("a=2&a=1&%61=0&b=1"));
        assert_eq!(written(Selected::All, true, "&&"), None);
    }

    #[test]
    fn rules_are_checked() {
        let rule = |selected| QueryRule { selected, sorted: false }.check();
        assert!(rule(Selected::Only(names(&["a"]))).is_ok());
        assert!(rule(Selected::Only(names(&[""]))).unwrap_err().contains("help: "));
        assert!(rule(Selected::But(vec!["a".into(); MOST_QUERY_NAMES + 1])).unwrap_err().contains("help: "));
    }
}
