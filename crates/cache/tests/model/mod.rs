//! A cache as RFC 9111 tells it: slow, literal, and without a line of the crate. Texts are `String`s, whatever is
//! needed is computed each time anew. Sections stand beside the rules. Ranges are not part of it.

use std::time::UNIX_EPOCH;

pub(crate) type Fields = Vec<(String, String)>;

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) fields: Fields,
    pub(crate) has_body: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    /// Milliseconds.
    pub(crate) requested: i64,
    pub(crate) received: i64,
}

/// The part of a policy that the model knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) honours_clients: bool,
    pub(crate) uses_target: bool,
    pub(crate) strips_cookies: bool,
    pub(crate) stale_when_unreachable: i64,
    pub(crate) stale_while_revalidate: i64,
    pub(crate) lifetime_of_404: Option<i64>,
}

#[derive(Clone, Debug)]
struct Entry {
    number: u32,
    path: String,
    selecting: Fields,
    status: u16,
    fields: Fields,
    /// What `Age` said, in seconds.
    told_age: i64,
    requested: i64,
    received: i64,
}

#[derive(Debug)]
pub(crate) struct Model {
    rules: Rules,
    entries: Vec<Entry>,
    pub(crate) stored: u32,
}

const MOST: i64 = 1 << 31;

fn all<'f>(fields: &'f Fields, name: &str) -> Vec<&'f str> {
    let is_it = |known: &&(String, String)| known.0.eq_ignore_ascii_case(name);
    fields.iter().filter(is_it).map(|(_, value)| value.trim()).collect()
}

/// Seconds since 1970.
fn date(text: &str) -> Option<i64> {
    let time = httpdate::parse_http_date(text).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs() as i64)
}

#[derive(Clone, Debug, PartialEq)]
struct Directive {
    name: String,
    value: Option<String>,
    /// In a form that §5.2 does not have: restrictions hold, permissions do not.
    is_odd: bool,
}

/// §5.2: `token [ "=" ( token / quoted-string ) ]`, separated by commas; `None` where a string has no end.
fn cache_control(lines: &[&str]) -> Option<Vec<Directive>> {
    let mut found = Vec::new();
    for line in lines {
        let (mut elements, mut element, mut quoted) = (Vec::new(), String::new(), false);
        let mut chars = line.chars();
        while let Some(char) = chars.next() {
            match char {
                '"' => quoted = !quoted,
                '\\' if quoted => element.extend(['\\', chars.next()?]),
                ',' if !quoted => elements.push(std::mem::take(&mut element)),
                _ => {}
            }
            if !(char == ',' && !quoted || char == '\\' && quoted) {
                element.push(char);
            }
        }
        if quoted {
            return None;
        }
        elements.push(element);
        for element in elements.iter().map(|element| element.trim()).filter(|element| !element.is_empty()) {
            let (name, value) = match element.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (element, None),
            };
            let is_odd =
                name.contains(' ') || value.is_some_and(|value| value.is_empty() || value.starts_with(' '));
            let value = value.map(|value| value.trim().trim_matches('"').to_owned());
            found.push(Directive { name: name.trim().to_ascii_lowercase(), value, is_odd });
        }
    }
    Some(found)
}

/// RFC 9213 §2.1, of the forms that the tests write: a dictionary with integers, strings and booleans.
fn targeted(lines: &[&str]) -> Option<Vec<Directive>> {
    let mut found: Vec<Directive> = Vec::new();
    for line in lines.iter().filter(|line| !line.is_empty()) {
        for member in line.split(',').map(str::trim) {
            let (name, value) =
                member.split_once('=').map_or((member, None), |(name, value)| (name, Some(value)));
            let is_key = name.starts_with(|first: char| first.is_ascii_lowercase())
                && name.chars().all(|char| char.is_ascii_lowercase() || char == '-');
            let is_string =
                value.is_some_and(|value| value.len() > 1 && value.starts_with('"') && value.ends_with('"'));
            let is_number =
                value.is_some_and(|value| !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()));
            if !is_key || !(value.is_none() || is_string || is_number) {
                return None;
            }
            // Of two of a kind the last counts (RFC 8941 §3.2).
            found.retain(|known| known.name != name || known.value.is_none() || !is_number);
            let value = value.map(|value| if is_string { format!("text {value}") } else { value.to_owned() });
            found.push(Directive { name: name.to_owned(), value, is_odd: false });
        }
    }
    (!found.is_empty()).then_some(found)
}

/// What counts for a response (RFC 9213 §2.2): the directives, and whether they are targeted.
fn response_directives(rules: &Rules, fields: &Fields) -> Option<(Vec<Directive>, bool)> {
    if rules.uses_target
        && let Some(found) = targeted(&all(fields, "cdn-cache-control"))
    {
        return Some((found, true));
    }
    cache_control(&all(fields, "cache-control")).map(|found| (found, false))
}

fn named<'d>(directives: &'d [Directive], name: &str) -> Option<&'d Directive> {
    directives.iter().find(|directive| directive.name == name)
}

/// A directive that holds for the whole response: without an argument, or with one that lists no fields (§5.2.2.4).
fn is_whole(directives: &[Directive], name: &str) -> bool {
    directives.iter().any(|directive| directive.name == name && listed(directive).is_empty())
}

fn listed(directive: &Directive) -> Vec<String> {
    let value = directive.value.clone().filter(|_| !directive.is_odd).unwrap_or_default();
    let value = value.trim_start_matches("text ").trim_matches('"').to_owned();
    value.split(',').map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).collect()
}

/// §1.2.2.
fn delta_seconds(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(MOST).min(MOST))
}

fn seconds(directive: &Directive) -> Option<i64> {
    delta_seconds(directive.value.as_deref().filter(|_| !directive.is_odd)?)
}

/// §4.1: names in lower case; `None` for `*`.
fn vary(fields: &Fields) -> Option<Vec<String>> {
    let names = all(fields, "vary").join(",");
    let names = names.split(',').map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names.dedup();
    (!names.contains(&"*".into())).then_some(names)
}

/// §4.1: lines combined, whitespace around members gone; an absent field is not an empty one.
fn selecting(names: &[String], request: &Fields) -> Fields {
    let value = |name: &String| {
        let lines = all(request, name);
        let members: Vec<_> = lines.iter().flat_map(|line| line.split(',')).map(str::trim).collect();
        let text = if lines.is_empty() { "absent".into() } else { format!("has {}", members.join(",")) };
        (name.clone(), text)
    };
    names.iter().map(value).collect()
}

impl Entry {
    fn directives(&self, rules: &Rules) -> Vec<Directive> {
        response_directives(rules, &self.fields).map(|found| found.0).unwrap_or_default()
    }

    fn date(&self) -> i64 {
        all(&self.fields, "date").first().and_then(|text| date(text)).unwrap_or(self.received / 1000)
    }

    /// §4.2.1.
    fn lifetime(&self, rules: &Rules) -> i64 {
        let (directives, is_targeted) = response_directives(rules, &self.fields).unwrap_or_default();
        for name in ["s-maxage", "max-age"] {
            if let Some(directive) = named(&directives, name) {
                return seconds(directive).unwrap_or(0);
            }
        }
        if let Some(expires) = all(&self.fields, "expires").first().filter(|_| !is_targeted) {
            return date(expires).map_or(0, |expires| (expires - self.date()).clamp(0, MOST));
        }
        if let Some(lifetime) = rules.lifetime_of_404.filter(|_| self.status == 404) {
            return lifetime;
        }
        // §4.2.2
        let is_allowed = [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501].contains(&self.status)
            || directives
                .iter()
                .any(|known| known.name == "public" && known.value.is_none() && !known.is_odd);
        match all(&self.fields, "last-modified").last().and_then(|text| date(text)) {
            Some(modified) if is_allowed => ((self.date() - modified).max(0) / 10).min(86_400),
            _ => 0,
        }
    }

    /// §4.2.3, in milliseconds; dates have whole seconds, so the apparent age has.
    fn age(&self, now: i64) -> i64 {
        let apparent_age = (self.received / 1000 - self.date()).max(0) * 1000;
        let response_delay = self.received - self.requested;
        let corrected_age_value = self.told_age * 1000 + response_delay;
        apparent_age.max(corrected_age_value) + (now - self.received)
    }

    fn is_fresh(&self, rules: &Rules, now: i64) -> bool {
        self.lifetime(rules) * 1000 > self.age(now)
    }

    fn staleness(&self, rules: &Rules, now: i64) -> i64 {
        (self.age(now) - self.lifetime(rules) * 1000).max(0)
    }

    /// §4.2.4.
    fn forbids_stale(&self, rules: &Rules) -> bool {
        let directives = self.directives(rules);
        is_whole(&directives, "no-cache")
            || named(&directives, "must-revalidate").is_some()
            || named(&directives, "proxy-revalidate").is_some()
    }

    /// §5.2.2.10: `s-maxage` has the meaning of `proxy-revalidate`, but for what the response allows itself.
    fn has_s_maxage(&self, rules: &Rules) -> bool {
        named(&self.directives(rules), "s-maxage").is_some()
    }

    fn window(&self, rules: &Rules, name: &str, otherwise: i64) -> i64 {
        let directives = self.directives(rules);
        let stated = directives.iter().filter(|directive| directive.name == name).find_map(seconds);
        stated.unwrap_or(if self.has_s_maxage(rules) { 0 } else { otherwise })
    }

    /// RFC 5861 §3.
    fn is_used_while_revalidated(&self, rules: &Rules, now: i64) -> bool {
        let window = self.window(rules, "stale-while-revalidate", rules.stale_while_revalidate);
        !self.forbids_stale(rules) && window > 0 && self.staleness(rules, now) <= window * 1000
    }

    fn etag(&self) -> Option<String> {
        etag(&self.fields)
    }

    fn modified(&self) -> Option<i64> {
        all(&self.fields, "last-modified").last().and_then(|text| date(text))
    }
}

fn etag(fields: &Fields) -> Option<String> {
    match all(fields, "etag")[..] {
        [only] if only.trim_start_matches("W/").starts_with('"') && only.ends_with('"') => Some(only.into()),
        _ => None,
    }
}

/// Fields as a text that does not depend on their order.
pub(crate) fn shown(mut fields: Fields) -> String {
    fields.sort();
    let lines: Vec<_> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    format!("[{}]", lines.join(" | "))
}

/// RFC 9110 §8.8.3.2.
fn is_weakly(one: &str, other: &str) -> bool {
    one.trim_start_matches("W/") == other.trim_start_matches("W/")
}

mod exchange;
