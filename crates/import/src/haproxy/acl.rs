//! Tests of requests: `acl`, anonymous ones in braces, and those that HAProxy has by itself.

use super::paths::PathTest;
use crate::Files;
use crate::networks::network;
use crate::pattern::{escaped, whole};
use ipnet::IpNet;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A condition on a field or parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Rule {
    Present,
    Absent,
    Equal(String),
    /// A regular expression over the whole value.
    Like(String),
}

/// How often a client asks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rate {
    /// `http_req_rate`, `conn_rate` or `conn_cur`.
    pub(super) what: String,
    /// The counter that `track-sc` has begun, or a table.
    pub(super) counter: Option<String>,
    pub(super) table: Option<String>,
    /// So many are allowed.
    pub(super) most: u64,
}

/// A test.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    Always(bool),
    Secure(bool),
    /// Ports of listeners, and whether it must be one of them.
    Port(Vec<u16>, bool),
    Hosts(Vec<String>),
    Paths(Vec<PathTest>),
    Methods(Vec<String>),
    Client(Vec<IpNet>),
    Header(String, Rule),
    Query(String, Rule),
    /// Who is in a `userlist`.
    User(String),
    Rate(Rate),
    /// Statuses of responses, and classes of them.
    Status(Vec<String>),
    /// No server of a backend is up.
    Down(String),
    /// Why it cannot be said.
    Unknown(String),
}

/// A test, or its opposite.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Literal {
    pub(super) negated: bool,
    pub(super) test: Test,
}

/// Alternatives, of each of which all tests must pass.
pub(super) type Condition = Vec<Vec<Literal>>;

/// Alternatives that a condition may come to.
const MOST: usize = 64;
/// Lines of a file with patterns.
const PATTERNS: usize = 10_000;

/// What conditions are read with.
pub(super) struct Acls<'a> {
    pub(super) files: &'a dyn Files,
    /// Tests by name: one of them must pass.
    pub(super) named: BTreeMap<String, Vec<Test>>,
    /// Samples of variables that are set for every request.
    pub(super) variables: BTreeMap<String, String>,
    /// Differences of tests in braces.
    pub(super) hints: RefCell<Vec<&'static str>>,
}

/// A sample and how it is compared.
struct Asked<'a> {
    fetch: &'a str,
    argument: &'a str,
    method: String,
    any_case: bool,
    values: Vec<String>,
}

impl Acls<'_> {
    /// Reads the words behind the name of an `acl`; gives a hint where the test is nearly the same.
    pub(super) fn test(&self, words: &[String]) -> (Test, Option<&'static str>) {
        match self.parsed(words, 0) {
            Ok(found) => found,
            Err(why) => (Test::Unknown(why), None),
        }
    }

    fn parsed(&self, words: &[String], depth: usize) -> Result<(Test, Option<&'static str>), String> {
        let (sample, rest) = words.split_first().ok_or("a test is missing")?;
        let (fetch, converters) = split_converters(sample);
        let (name, argument) = match fetch.split_once('(') {
            Some((name, argument)) => (name, argument.trim_end_matches(')')),
            None => (fetch, ""),
        };
        if name == "var" && depth < 8 {
            let known = self.variables.get(argument);
            let known = known.ok_or_else(|| format!("the variable {argument} is not known"))?;
            let mut words = words.to_vec();
            words[0] = [known.as_str()].into_iter().chain(converters).collect::<Vec<_>>().join(",");
            return self.parsed(&words, depth + 1);
        }
        let (base, suffix) = base_and_suffix(name);
        let mut asked =
            Asked { fetch: base, argument, method: suffix.to_owned(), any_case: false, values: Vec::new() };
        for converter in converters {
            let is_host = argument.eq_ignore_ascii_case("host");
            match converter {
                "lower" => asked.any_case = true,
                "field(1,:)" | "host_only" | "word(1,:)" if is_host => {}
                other => return Err(format!("the converter `{other}` has no counterpart")),
            }
        }
        self.flags(rest, &mut asked)?;
        asked.test()
    }

    /// Flags and values.
    fn flags(&self, words: &[String], asked: &mut Asked<'_>) -> Result<(), String> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-i" => asked.any_case = true,
                "-n" => {}
                "-m" => asked.method = words.next().cloned().unwrap_or_default(),
                "-u" => drop(words.next()),
                "-f" => {
                    let path = words.next().cloned().unwrap_or_default();
                    let text =
                        self.files.read(&path).map_err(|error| format!("its file is not there: {error}"))?;
                    let lines =
                        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
                    asked.values.extend(lines.take(PATTERNS).map(str::to_owned));
                }
                "-M" => return Err("maps within `-M` have no counterpart".to_owned()),
                "--" => {
                    asked.values.extend(words.by_ref().cloned());
                }
                value => asked.values.push(value.to_owned()),
            }
        }
        Ok(())
    }

    /// Reads what stands behind `if` or `unless`.
    ///
    /// # Errors
    /// A sentence: it is not understood, or comes to too many alternatives.
    pub(super) fn condition(&self, words: &[String]) -> Result<Condition, String> {
        let Some((first, words)) = words.split_first() else { return Ok(vec![Vec::new()]) };
        let mut all: Condition = Vec::new();
        let mut current: Condition = vec![Vec::new()];
        let mut negated = false;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "||" | "or" | "OR" => {
                    all.append(&mut current);
                    current = vec![Vec::new()];
                }
                "!" => negated = !negated,
                "{" | "!{" => {
                    negated ^= word.starts_with('!');
                    let inner: Vec<String> =
                        words.by_ref().take_while(|word| *word != "}").cloned().collect();
                    let (test, hint) = self.test(&inner);
                    self.hints.borrow_mut().extend(hint);
                    let tests = vec![test];
                    current = product(&current, &either(tests, negated))?;
                    negated = false;
                }
                name => {
                    let bare = name.trim_start_matches('!');
                    let is_odd = (name.len() - bare.len()) % 2 == 1;
                    let tests = self.named.get(bare).cloned().or_else(|| self.predefined(bare));
                    let tests =
                        tests.unwrap_or_else(|| vec![Test::Unknown(format!("there is no acl `{bare}`"))]);
                    current = product(&current, &either(tests, negated != is_odd))?;
                    negated = false;
                }
            }
        }
        all.append(&mut current);
        if first == "unless" { opposite(&all) } else { Ok(all) }
    }

    fn predefined(&self, name: &str) -> Option<Vec<Test>> {
        let method = |names: &[&str]| Test::Methods(names.iter().map(|name| (*name).to_owned()).collect());
        Some(vec![match name {
            "TRUE" | "HTTP" | "WAIT_END" => Test::Always(true),
            "FALSE" => Test::Always(false),
            "LOCALHOST" => {
                Test::Client(["127.0.0.0/8", "::1"].iter().filter_map(|text| network(text)).collect())
            }
            "METH_GET" => method(&["GET", "HEAD"]),
            "METH_CONNECT" | "METH_DELETE" | "METH_HEAD" | "METH_OPTIONS" | "METH_POST" | "METH_PUT"
            | "METH_TRACE" => method(&[name.trim_start_matches("METH_")]),
            "HTTP_URL_SLASH" => Test::Paths(vec![PathTest::Begin("/".into())]),
            "HTTP_1.0" | "HTTP_1.1" | "HTTP_2.0" | "HTTP_CONTENT" | "HTTP_URL_ABS" | "HTTP_URL_STAR"
            | "RDP_COOKIE" | "REQ_CONTENT" => Test::Unknown(format!("`{name}` has no counterpart")),
            _ => return None,
        }])
    }
}

/// A sample and its converters.
pub(super) fn split_converters(sample: &str) -> (&str, Vec<&str>) {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0_i32, 0);
    for (at, letter) in sample.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&sample[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&sample[begin..]);
    (parts[0], parts[1..].to_vec())
}

/// `hdr_beg` is `hdr` with `-m beg`.
fn base_and_suffix(name: &str) -> (&str, &str) {
    let suffixes = ["beg", "end", "sub", "reg", "dom", "dir", "len", "ip", "cnt", "val"];
    match name.rsplit_once('_') {
        Some((base, suffix))
            if suffixes.contains(&suffix)
                && [
                    "hdr",
                    "req.hdr",
                    "req.fhdr",
                    "path",
                    "url",
                    "cook",
                    "req.cook",
                    "url_param",
                    "urlp",
                    "base",
                    "req.ssl_sni",
                    "req_ssl_sni",
                    "ssl_fc_sni",
                ]
                .contains(&base) =>
        {
            (base, suffix)
        }
        _ => (name, ""),
    }
}

/// One of the tests passes, or none does.
fn either(tests: Vec<Test>, negated: bool) -> Condition {
    let tests = merged(tests);
    let literal = |test: Test| Literal { negated, test };
    if negated {
        vec![tests.into_iter().map(literal).collect()]
    } else {
        tests.into_iter().map(|test| vec![literal(test)]).collect()
    }
}

/// Tests of the same thing become one that has all values.
fn merged(tests: Vec<Test>) -> Vec<Test> {
    let mut out: Vec<Test> = Vec::new();
    for test in tests {
        let mut is_taken = false;
        for known in &mut out {
            is_taken = match (known, &test) {
                (Test::Hosts(known), Test::Hosts(more)) | (Test::Methods(known), Test::Methods(more)) => {
                    known.extend(more.iter().cloned());
                    true
                }
                (Test::Paths(known), Test::Paths(more)) => {
                    known.extend(more.iter().cloned());
                    true
                }
                (Test::Client(known), Test::Client(more)) => {
                    known.extend(more.iter().copied());
                    true
                }
                (Test::Status(known), Test::Status(more)) => {
                    known.extend(more.iter().cloned());
                    true
                }
                (Test::Header(name, rule), Test::Header(other, more))
                | (Test::Query(name, rule), Test::Query(other, more))
                    if name == other =>
                {
                    match any_of(rule, more) {
                        Some(both) => {
                            *rule = both;
                            true
                        }
                        None => false,
                    }
                }
                _ => false,
            };
            if is_taken {
                break;
            }
        }
        if !is_taken {
            out.push(test);
        }
    }
    out
}

fn any_of(one: &Rule, other: &Rule) -> Option<Rule> {
    let text = |rule: &Rule| match rule {
        Rule::Equal(text) => Some(escaped(text)),
        Rule::Like(regex) => Some(regex.clone()),
        Rule::Present | Rule::Absent => None,
    };
    Some(Rule::Like(format!("(?:{})|(?:{})", text(one)?, text(other)?)))
}

fn product(one: &Condition, other: &Condition) -> Result<Condition, String> {
    let mut out = Vec::new();
    for first in one {
        for second in other {
            out.push(first.iter().chain(second).cloned().collect());
            if out.len() > MOST {
                return Err("the condition has too many alternatives".to_owned());
            }
        }
    }
    Ok(out)
}

/// What `unless` means.
fn opposite(condition: &Condition) -> Result<Condition, String> {
    let mut out: Condition = vec![Vec::new()];
    for tests in condition {
        let turned = |literal: &Literal| vec![Literal { negated: !literal.negated, ..literal.clone() }];
        out = product(&out, &tests.iter().map(turned).collect())?;
    }
    Ok(out)
}

impl Asked<'_> {
    fn test(self) -> Result<(Test, Option<&'static str>), String> {
        let values = &self.values;
        if let Some(test) = self.number()? {
            return Ok((test, None));
        }
        Ok(match self.fetch {
            "always_true" => (Test::Always(true), None),
            "always_false" => (Test::Always(false), None),
            "ssl_fc" => (Test::Secure(!values.iter().any(|value| value == "0")), None),
            "method" => {
                let is_plain = |value: &String| value.bytes().all(|byte| byte.is_ascii_uppercase());
                if !matches!(self.method.as_str(), "" | "str") || !values.iter().all(is_plain) {
                    return Err("methods can be listed, not described".to_owned());
                }
                (Test::Methods(values.clone()), None)
            }
            "src" => {
                let found = values
                    .iter()
                    .map(|value| network(value).ok_or_else(|| format!("`{value}` is no network")));
                (Test::Client(found.collect::<Result<_, _>>()?), None)
            }
            "path" | "path_and_query" | "pathq" | "url" | "base" => self.paths()?,
            "hdr" | "req.hdr" | "req.fhdr" if self.argument.eq_ignore_ascii_case("host") => {
                let is_part = matches!(self.method.as_str(), "end" | "dom")
                    && self.values.iter().any(|it| !it.starts_with('.'));
                let hint = "the name and all names below it are taken, and no others that have the text";
                (self.hosts()?, is_part.then_some(hint))
            }
            "ssl_fc_sni" | "req.ssl_sni" | "req_ssl_sni" => (
                self.hosts()?,
                Some("the host of the request is looked at, which leads to the same certificate"),
            ),
            "hdr" | "req.hdr" | "req.fhdr" if !self.argument.is_empty() && !self.argument.contains(',') => {
                (Test::Header(self.argument.to_ascii_lowercase(), self.rule()?), None)
            }
            "url_param" | "urlp" if !self.argument.is_empty() => {
                (Test::Query(self.argument.to_owned(), self.rule()?), None)
            }
            "cook" | "req.cook" => {
                let value = match self.rule()? {
                    Rule::Present => "[^;]*".to_owned(),
                    Rule::Equal(text) => escaped(&text),
                    Rule::Like(regex) => format!("(?:{})", regex.replace(".*", "[^;]*")),
                    Rule::Absent => return Err("that a cookie is missing cannot be said".to_owned()),
                };
                let regex = format!(r"(?:.*;\s*)?{}={value}(?:\s*;.*)?", escaped(self.argument));
                (Test::Header("cookie".to_owned(), Rule::Like(regex)), None)
            }
            "http_auth" => (Test::User(self.argument.to_owned()), None),
            other => return Err(format!("`{other}` has no counterpart")),
        })
    }

    /// Tests of numbers.
    fn number(&self) -> Result<Option<Test>, String> {
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        let (operator, number) = match values.as_slice() {
            [operator @ ("eq" | "ge" | "gt" | "le" | "lt"), number, ..] => {
                (*operator, number.parse::<u64>().ok())
            }
            [number, ..] => ("eq", number.parse::<u64>().ok()),
            [] => ("", None),
        };
        let rates = ["http_req_rate", "conn_rate", "conn_cur", "http_err_rate", "sess_rate"];
        if let Some(what) = rates.iter().find(|rate| self.fetch.ends_with(**rate)) {
            let most = match (operator, number) {
                ("gt", Some(number)) => number,
                ("ge", Some(number)) => number.saturating_sub(1),
                _ => return Err(format!("`{}` is compared with `gt` or `ge` only", self.fetch)),
            };
            return self.rate(what, most).map(Some);
        }
        Ok(Some(match self.fetch {
            "dst_port" => Test::Port(ports(&values), true),
            "status" => Test::Status(statuses(operator, &values)?),
            "nbsrv" | "srv_is_up" | "be_is_up" => match (operator, number) {
                ("lt", Some(1)) | ("eq" | "le", Some(0)) => Test::Down(self.argument.to_owned()),
                _ => return Err(format!("`{}` chooses nothing here", self.fetch)),
            },
            "hdr" | "req.hdr" | "req.fhdr" if self.method == "cnt" => {
                let rule = match (operator, number) {
                    ("eq" | "le", Some(0)) | ("lt", Some(1)) => Rule::Absent,
                    ("gt", Some(0)) | ("ge", Some(1)) => Rule::Present,
                    _ => return Err("fields are not counted".to_owned()),
                };
                Test::Header(self.argument.to_ascii_lowercase(), rule)
            }
            _ => return Ok(None),
        }))
    }

    fn rate(&self, what: &str, most: u64) -> Result<Test, String> {
        if !matches!(what, "http_req_rate" | "conn_rate" | "conn_cur" | "sess_rate") {
            return Err(format!("`{what}` is not counted; see `bans`"));
        }
        let (counter, table) = match self.fetch.strip_suffix(what) {
            Some("src_") => (None, (!self.argument.is_empty()).then(|| self.argument.to_owned())),
            Some("sc_") => {
                let mut parts = self.argument.split(',');
                let counter = parts.next().map(|part| part.trim().to_owned());
                (counter, parts.next().map(|part| part.trim().to_owned()))
            }
            Some("sc0_" | "sc1_" | "sc2_") => (Some(self.fetch[2..3].to_owned()), None),
            _ => return Err(format!("`{}` is not counted", self.fetch)),
        };
        Ok(Test::Rate(Rate { what: what.to_owned(), counter, table, most }))
    }

    fn paths(self) -> Result<(Test, Option<&'static str>), String> {
        let near = match self.fetch {
            "path" => None,
            _ if self.values.iter().any(|value| value.contains('?')) || self.fetch == "base" => {
                return Err(format!("conditions on `{}` cannot be expressed", self.fetch));
            }
            _ if self.method == "beg" => None,
            _ => Some("the path is looked at, without the query"),
        };
        let test = |value: &String| -> Result<PathTest, String> {
            let regex = |text: String| PathTest::searched(&text, self.any_case);
            let plain = escaped(value);
            match (self.method.as_str(), self.any_case) {
                ("" | "str", false) => Ok(PathTest::Exact(value.clone())),
                ("beg", false) => Ok(PathTest::Begin(value.clone())),
                ("end", false) => Ok(PathTest::End(value.clone())),
                ("" | "str", true) => regex(format!("^{plain}$")),
                ("beg", true) => regex(format!("^{plain}")),
                ("end", true) => regex(format!("{plain}$")),
                ("sub", _) => regex(plain),
                ("reg", _) => regex(value.clone()),
                ("dir", _) => regex(format!("(?:^|/){}(?:/|$)", plain.trim_matches('/'))),
                ("dom", _) => regex(format!("(?:^|[/:.]){plain}(?:[/:.]|$)")),
                (method, _) => Err(format!("`-m {method}` of a path has no counterpart")),
            }
        };
        Ok((Test::Paths(self.values.iter().map(test).collect::<Result<_, _>>()?), near))
    }

    fn hosts(self) -> Result<Test, String> {
        let is_name = |value: &str| {
            !value.is_empty()
                && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
        };
        let lower = |value: &String| value.to_ascii_lowercase();
        match self.method.as_str() {
            "" | "str" if self.values.iter().all(|value| is_name(value)) => {
                Ok(Test::Hosts(self.values.iter().map(lower).collect()))
            }
            "end" if self.values.iter().all(|value| value.starts_with('.') && is_name(value)) => {
                Ok(Test::Hosts(self.values.iter().map(|value| format!("*{}", lower(value))).collect()))
            }
            "end" | "dom" if self.values.iter().all(|value| value.contains('.') && is_name(value)) => {
                let both = |value: &String| [lower(value), format!("*.{}", lower(value))];
                Ok(Test::Hosts(self.values.iter().flat_map(both).collect()))
            }
            _ => Err("hosts are named or begin with `*.`, and are not described by expressions".to_owned()),
        }
    }

    /// A condition on a value.
    fn rule(&self) -> Result<Rule, String> {
        if self.method == "found" || (self.values.is_empty() && self.method.is_empty()) {
            return Ok(Rule::Present);
        }
        if let ("" | "str", false, [only]) = (self.method.as_str(), self.any_case, self.values.as_slice())
            && !only.is_empty()
        {
            return Ok(Rule::Equal(only.clone()));
        }
        let one = |value: &String| -> Result<String, String> {
            let plain = escaped(value);
            Ok(match self.method.as_str() {
                "" | "str" => plain,
                "beg" => format!("{plain}.*"),
                "end" => format!(".*{plain}"),
                "sub" => format!(".*{plain}.*"),
                "dom" => format!("(?:.*[/:.?])?{plain}(?:[/:.?].*)?"),
                "dir" => format!("(?:.*[/?])?{plain}(?:[/?].*)?"),
                "reg" => whole(value, false)?.text,
                method => return Err(format!("`-m {method}` has no counterpart here")),
            })
        };
        let found = self.values.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        let text = match found.as_slice() {
            [] => return Err("it has no value to compare with".to_owned()),
            [only] => only.clone(),
            _ => found.iter().map(|text| format!("(?:{text})")).collect::<Vec<_>>().join("|"),
        };
        Ok(Rule::Like(match self.any_case {
            true if found.len() > 1 => format!("(?i)(?:{text})"),
            true => format!("(?i){text}"),
            false => text,
        }))
    }
}

fn ports(values: &[&str]) -> Vec<u16> {
    values.iter().filter_map(|value| value.parse().ok()).collect()
}

/// Statuses, or classes of them.
fn statuses(operator: &str, values: &[&str]) -> Result<Vec<String>, String> {
    match (operator, values) {
        ("ge", [_, "500"]) => Ok(vec!["5xx".into()]),
        ("ge", [_, "400"]) => Ok(vec!["4xx".into(), "5xx".into()]),
        ("lt", [_, "400"]) => Ok(["1xx", "2xx", "3xx"].map(str::to_owned).to_vec()),
        ("eq", _) => {
            let mut found = Vec::new();
            for value in values.iter().filter(|value| **value != "eq") {
                match value.split_once(':') {
                    None if value.parse::<u16>().is_ok_and(|status| (100..600).contains(&status)) => {
                        found.push((*value).to_owned());
                    }
                    Some((from, to))
                        if from.len() == 3
                            && to.len() == 3
                            && from.ends_with("00")
                            && to.ends_with("99")
                            && from[..1] == to[..1] =>
                    {
                        found.push(format!("{}xx", &from[..1]));
                    }
                    _ => return Err(format!("`{value}` is no status and no class")),
                }
            }
            Ok(found)
        }
        _ => Err("statuses are named, or classes of them".to_owned()),
    }
}
