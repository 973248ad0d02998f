//! A sample and how it is compared, as a test.

use super::acl::{Rate, Rule, Test};
use super::paths::PathTest;
use crate::networks::network;
use crate::pattern::{escaped, whole};

/// A sample and how it is compared.
pub(super) struct Asked<'a> {
    pub(super) fetch: &'a str,
    pub(super) argument: &'a str,
    pub(super) method: String,
    pub(super) any_case: bool,
    pub(super) values: Vec<String>,
}

impl Asked<'_> {
    /// Whether a line of a file is a possible value of this test.
    pub(super) fn may_have(&self, value: &str) -> bool {
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_host = || {
            let (name, port) = value.split_once(':').unwrap_or((value, "0"));
            let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b".-_*".contains(&byte);
            name.bytes().all(is_known) && is_digits(port)
        };
        match self.fetch {
            "src" => network(value).is_some(),
            "method" => value.bytes().all(|byte| byte.is_ascii_uppercase()),
            "status" | "dst_port" => value.split([':', '-']).all(is_digits),
            "path" | "path_and_query" | "pathq" if matches!(self.method.as_str(), "" | "str" | "beg") => {
                value.starts_with('/')
            }
            "url" | "base" if matches!(self.method.as_str(), "" | "str" | "beg") => value.contains('/'),
            "ssl_fc_sni" | "req.ssl_sni" | "req_ssl_sni" => is_host(),
            "hdr" | "req.hdr" | "req.fhdr" if self.argument.eq_ignore_ascii_case("host") => is_host(),
            _ => true,
        }
    }

    pub(super) fn test(self) -> Result<(Test, Option<&'static str>), String> {
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
                    .map(|value| network(value).ok_or_else(|| format!("`{value}` is not a network")));
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
