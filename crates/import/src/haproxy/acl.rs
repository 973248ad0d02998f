//! Tests of requests: `acl`, anonymous ones in braces, and those that HAProxy has by itself.

use super::paths::PathTest;
use super::sample::Asked;
use crate::Files;
use crate::networks::network;
use crate::pattern::escaped;
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

/// A value from a file (`-f`).
struct Listed {
    path: String,
    line: usize,
    value: String,
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
        let listed = self.flags(rest, &mut asked)?;
        // The file may not be a list at all: a line that cannot be a value is not quoted.
        if let Some(Listed { path, line, .. }) = listed.iter().find(|listed| !asked.may_have(&listed.value)) {
            return Err(format!("line {line} of {path} is not a value of `{}`", asked.fetch));
        }
        asked.test()
    }

    /// Parses flags and values; gives the values from files.
    fn flags(&self, words: &[String], asked: &mut Asked<'_>) -> Result<Vec<Listed>, String> {
        let (mut words, mut listed) = (words.iter(), Vec::new());
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
                    let lines = (1..).zip(text.lines().map(str::trim));
                    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
                    for (line, value) in lines.take(PATTERNS) {
                        asked.values.push(value.to_owned());
                        listed.push(Listed { path: path.clone(), line, value: value.to_owned() });
                    }
                }
                "-M" => return Err("maps within `-M` have no counterpart".to_owned()),
                "--" => {
                    asked.values.extend(words.by_ref().cloned());
                }
                value => asked.values.push(value.to_owned()),
            }
        }
        Ok(listed)
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
