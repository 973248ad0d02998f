//! The query of a request: known parameters only, each once, checked before the handler runs.

use std::ops::RangeInclusive;
use std::time::Duration;

use thalweg_core::FaultKind;
use thalweg_core::units::parse_duration;

use crate::problem::Problem;

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
    /// A whole number of 64 bits.
    Number,
    /// Any text, percent-encoded; in UTF-8, not empty, of at most so many bytes.
    Text(usize),
    /// A status such as `503`, or a class of them such as `5xx`.
    Status,
    /// The word for a kind of fault.
    Fault,
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
}

/// The parameters of one request. Every value but a text is written in letters and digits, so only
/// texts are decoded.
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
            if found.value(name).is_some() {
                return Err(Problem::invalid(name, "the parameter is written twice"));
            }
            let value = parameter.kind.read(text).map_err(|detail| Problem::invalid(name, detail))?;
            found.0.push((parameter.name, value));
        }
        Ok(found)
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

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.value(name) {
            Some(Value::Text(text)) => Some(text),
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
            Self::Count(most) => match text.parse() {
                Ok(count) if (1..=most).contains(&count) => Ok(Value::Number(count)),
                _ => Err(format!("write a whole number from 1 to {most}")),
            },
            Self::Number => match text.parse() {
                Ok(number) => Ok(Value::Number(number)),
                Err(_) => Err(format!("write a whole number from 0 to {}", u64::MAX)),
            },
            Self::Text(most) => match decoded(text) {
                Some(text) if text.is_empty() => Err("the text is empty".into()),
                Some(text) if text.len() > most => Err(format!("the text has at most {most} bytes")),
                Some(text) => Ok(Value::Text(text)),
                None => Err("write percent-encoded UTF-8".into()),
            },
            Self::Status => statuses(text).map(Value::Status),
            Self::Fault => match FaultKind::ALL.iter().find(|kind| kind.name() == text) {
                Some(kind) => Ok(Value::Fault(*kind)),
                None => {
                    Err("it is not a kind of fault; `fault` of a record or of the access log is one".into())
                }
            },
        }
    }
}

/// A text without its percent-encoding; `+` is a space, as forms write it.
fn decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let (byte, behind) = match (first, behind) {
            (b'%', [high, low, behind @ ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                (u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?, behind)
            }
            (b'%', _) => return None,
            (b'+', _) => (b' ', behind),
            (byte, _) => (*byte, behind),
        };
        out.push(byte);
        rest = behind;
    }
    String::from_utf8(out).ok()
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
        ] {
            assert!(Query::read(Some(text), KNOWN).is_err(), "{text}");
        }
    }
}
