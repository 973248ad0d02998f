//! The query of a request: known parameters only, each once, checked before the handler runs.

use std::ops::RangeInclusive;
use std::time::Duration;

use thalweg_core::FaultKind;
use thalweg_core::units::parse_duration;

use crate::problem::Problem;

/// How the description names what [`parse_duration`] reads.
pub(crate) const DURATION_FORMAT: &str = "thalweg-duration";

/// A parameter that an operation takes: in its query or as a field.
#[derive(Debug)]
pub(crate) struct Parameter {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it does, with its default.
    pub(crate) about: &'static str,
    /// What it may hold.
    pub(crate) kind: Kind,
}

/// What a parameter may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Flag,
    /// A duration such as `30s`, up to so many seconds.
    Duration(u64),
    /// A whole number from 1 to this one.
    Count(u64),
    /// A whole number from the first to the second.
    Between(u64, u64),
    /// A whole number of 64 bits.
    Number,
    /// Text, percent-encoded where it has to be; in UTF-8, not empty, of at most so many characters.
    Text(usize),
    /// The same, or empty; the parameter may stand several times.
    Texts(usize),
    /// A status such as `503`, or a class of them such as `5xx`.
    Status,
    /// The word for a kind of fault.
    Fault,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// What a parameter holds.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Value {
    Flag(bool),
    Duration(Duration),
    Number(u64),
    Text(String),
    Status(RangeInclusive<u16>),
    Fault(FaultKind),
    Word(&'static str),
}

/// The parameters of one request. Only texts are decoded: every other value that is allowed is written in letters
/// and digits.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(&'static str, Value)>);

impl Query {
    /// Reads a query.
    ///
    /// # Errors
    /// A parameter that the operation does not take, that stands twice, or whose value is none of its kind.
    pub(crate) fn read(query: Option<&str>, known: &'static [Parameter]) -> Result<Self, Problem> {
        let mut found = Self::default();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(parameter) = known.iter().find(|parameter| parameter.name == name) else {
                let names = known.iter().map(|parameter| format!("`{}`", parameter.name)).collect::<Vec<_>>();
                let takes = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(Problem::invalid(
                    name,
                    format!("unknown parameter; this operation takes {takes}"),
                ));
            };
            if found.value(name).is_some() && !matches!(parameter.kind, Kind::Texts(_)) {
                return Err(Problem::invalid(name, "the parameter is written twice"));
            }
            let value = parameter.kind.read(text).map_err(|detail| Problem::invalid(name, detail))?;
            found.0.push((parameter.name, value));
        }
        Ok(found)
    }

    /// Whether the parameter is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// A flag; false when it is absent.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.value(name) == Some(&Value::Flag(true))
    }

    /// A duration.
    pub(crate) fn duration(&self, name: &str) -> Option<Duration> {
        match self.value(name) {
            Some(Value::Duration(duration)) => Some(*duration),
            _ => None,
        }
    }

    /// A whole number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        match self.value(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// Statuses.
    pub(crate) fn statuses(&self, name: &str) -> Option<RangeInclusive<u16>> {
        match self.value(name) {
            Some(Value::Status(statuses)) => Some(statuses.clone()),
            _ => None,
        }
    }

    /// A kind of fault.
    pub(crate) fn fault(&self, name: &str) -> Option<FaultKind> {
        match self.value(name) {
            Some(Value::Fault(kind)) => Some(*kind),
            _ => None,
        }
    }

    /// One of the words of the parameter.
    pub(crate) fn word(&self, name: &str) -> Option<&'static str> {
        match self.value(name) {
            Some(Value::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// A text.
    pub(crate) fn text(&self, name: &'static str) -> Option<&str> {
        self.texts(name).next()
    }

    /// All texts of a parameter, in order.
    pub(crate) fn texts(&self, name: &'static str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(found, _)| *found == name).filter_map(|(_, value)| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }
}

impl Kind {
    fn read(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Flag => match text {
                "true" => Ok(Value::Flag(true)),
                "false" => Ok(Value::Flag(false)),
                _ => Err("write `true` or `false`".into()),
            },
            Self::Duration(most) => match parse_duration(text)? {
                duration if duration <= Duration::from_secs(most) => Ok(Value::Duration(duration)),
                _ => Err(format!("at most {most}s")),
            },
            Self::Count(most) => Self::Between(1, most).read(text),
            Self::Between(least, most) => match text.parse() {
                Ok(count) if (least..=most).contains(&count) => Ok(Value::Number(count)),
                _ => Err(format!("write a whole number from {least} to {most}")),
            },
            Self::Number => match text.parse() {
                Ok(number) => Ok(Value::Number(number)),
                Err(_) => Err(format!("write a whole number from 0 to {}", u64::MAX)),
            },
            Self::Text(most) | Self::Texts(most) => match decode(text)? {
                text if text.chars().count() > most => Err(format!("the text has at most {most} characters")),
                text if text.is_empty() && matches!(self, Self::Text(_)) => Err("the text is empty".into()),
                text => Ok(Value::Text(text)),
            },
            Self::Status => statuses(text).map(Value::Status),
            Self::Word(words) => match words.iter().find(|word| **word == text) {
                Some(word) => Ok(Value::Word(word)),
                None => {
                    let words = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>();
                    Err(format!("write {}", words.join(" or ")))
                }
            },
            Self::Fault => match FaultKind::ALL.iter().find(|kind| kind.name() == text) {
                Some(kind) => Ok(Value::Fault(*kind)),
                None => {
                    Err("it is not a kind of fault; `fault` of a record or of the access log is one".into())
                }
            },
        }
    }
}

/// `503` or `5xx`.
fn statuses(text: &str) -> Result<RangeInclusive<u16>, String> {
    let class = text.strip_suffix("xx").and_then(|class| class.parse::<u16>().ok());
    if let Some(class) = class.filter(|class| (1..=5).contains(class) && text.len() == 3) {
        return Ok(class * 100..=class * 100 + 99);
    }
    match text.parse() {
        Ok(status) if (100..=599).contains(&status) && text.len() == 3 => Ok(status..=status),
        _ => Err("write a status such as `503`, or a class of them such as `5xx`".into()),
    }
}

/// Text as forms write it (the URL standard, §5.1): percent-decoded, and `+` is a space.
fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let (byte, after) = match (first, tail) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = str::from_utf8(&digits).ok().filter(|digits| !digits.starts_with('+'));
                let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                (byte.ok_or("a percent sign is written `%25`")?, after)
            }
            (b'%', _) => return Err("a percent sign is written `%25`".into()),
            (b'+', after) => (b' ', after),
            (byte, after) => (*byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| "the text is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Parameter] = &[
        Parameter { name: "drain", about: "", kind: Kind::Duration(3600) },
        Parameter { name: "dry_run", about: "", kind: Kind::Flag },
        Parameter { name: "last", about: "", kind: Kind::Count(1000) },
        Parameter { name: "since", about: "", kind: Kind::Number },
        Parameter { name: "route", about: "", kind: Kind::Text(8) },
        Parameter { name: "status", about: "", kind: Kind::Status },
        Parameter { name: "fault", about: "", kind: Kind::Fault },
        Parameter { name: "span", about: "", kind: Kind::Word(&["30m", "24h"]) },
        Parameter { name: "url", about: "", kind: Kind::Text(100) },
        Parameter { name: "header", about: "", kind: Kind::Texts(100) },
    ];

    #[test]
    fn reads_what_is_known() {
        let query = Query::read(Some("drain=1m30s&dry_run=true&&last=7"), KNOWN).unwrap();
        assert_eq!(query.duration("drain"), Some(Duration::from_secs(90)));
        assert!(query.flag("dry_run") && query.number("last") == Some(7));
        let none = Query::read(None, KNOWN).unwrap();
        assert!(!none.flag("dry_run") && none.duration("drain").is_none() && none.number("last").is_none());
        assert_eq!(
            Query::read(Some("drain=1h"), KNOWN).unwrap().duration("drain"),
            Some(Duration::from_secs(3600))
        );
        for number in [0, 7, u64::MAX] {
            let query = Query::read(Some(&format!("since={number}")), KNOWN).unwrap();
            assert_eq!(query.number("since"), Some(number));
        }
        for (written, text) in
            [("a", "a"), ("a%20b+c", "a b c"), ("%C3%A4%2b%26", "ä+&"), ("12345678", "12345678")]
        {
            let query = Query::read(Some(&format!("route={written}")), KNOWN).unwrap();
            assert_eq!(query.text("route"), Some(text));
        }
        for (written, statuses) in [("503", 503..=503), ("5xx", 500..=599), ("101", 101..=101)] {
            let query = Query::read(Some(&format!("status={written}")), KNOWN).unwrap();
            assert_eq!(query.statuses("status"), Some(statuses));
        }
        for kind in FaultKind::ALL {
            let query = Query::read(Some(&format!("fault={}", kind.name())), KNOWN).unwrap();
            assert_eq!(query.fault("fault"), Some(*kind));
        }
    }

    #[test]
    fn a_word_is_one_of_those_that_there_are() {
        assert_eq!(Query::read(Some("span=24h"), KNOWN).unwrap().word("span"), Some("24h"));
        for text in ["span=", "span=24H", "span=1h"] {
            assert!(Query::read(Some(text), KNOWN).is_err(), "{text}");
        }
    }

    #[test]
    fn texts_are_decoded_and_may_stand_several_times() {
        let query = Query::read(Some("header=a:+%31&url=/a%3fb%26c&header=%C3%A4&header="), KNOWN).unwrap();
        assert_eq!(query.text("url"), Some("/a?b&c"));
        assert_eq!(query.texts("header").collect::<Vec<_>>(), ["a: 1", "\u{e4}", ""]);
        assert!(query.text("drain").is_none());
    }

    #[test]
    fn refuses_the_rest() {
        for text in [
            "drain",
            "drain=",
            "drain=5",
            "drain=-5s",
            "drain=3601s",
            "drain=x",
            "dry_run",
            "dry_run=1",
            "dry_run=TRUE",
            "last=0",
            "last=1001",
            "last=-1",
            "last=x",
            "since=",
            "since=-1",
            "since=18446744073709551616",
            "route=",
            "route=123456789",
            "route=%",
            "route=%2",
            "route=%zz",
            "route=%ff",
            "status=",
            "status=99",
            "status=600",
            "status=0503",
            "status=6xx",
            "status=05xx",
            "status=xx",
            "fault=",
            "fault=broken",
            "drain=1s&drain=1s",
            "Drain=1s",
            "x=1",
            "dry_run=true&x",
            "url=a&url=b",
            "url=%",
            "url=%4",
            "url=%zz",
            "url=%+1",
            "url=%ff",
        ] {
            assert!(Query::read(Some(text), KNOWN).is_err(), "{text}");
        }
    }
}
