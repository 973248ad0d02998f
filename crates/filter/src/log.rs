//! `log: off` or a map: what the access log says of the exchanges that it is for.
//!
//! Fields are added to the line, and `off` or `share` leave lines out; what is counted, and what the decision record
//! says, stays. Whether a line is written is decided once for each exchange: where the request passes the filter, or,
//! with a `when` about responses, where the response does.

use crate::log_edit::{LogEdit, NAME};
use crate::template::Credential;
use crate::{Filter, Hooks, RequestCx, ResponseCx, Template, TemplateSpec, Values, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_core::units::parse_percent;

/// Fields that one filter may add.
const FIELDS: usize = 16;

/// What the access log says: `off`, or a map.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub enum LogSpec {
    /// No line is written.
    Word(OffSpec),
    /// With more.
    Long(LogMapSpec),
}

crate::shape::by_shape!(LogSpec, "`off`, or a map with `fields`, `share`, `off`", { text => Word, map => Long });

/// No line.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OffSpec {
    /// No line is written.
    Off,
}

/// What the access log says.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
#[serde(deny_unknown_fields, default, expecting = "a map with `fields`, `share`, `off`")]
pub struct LogMapSpec {
    /// Fields of the line and their values, with placeholders; at most 16 fields, and 1024 bytes of each value. Lines
    /// of the format `json` have them under `fields`, those of `combined` have none.
    #[schemars(extend("x-default-words" = "none", "maxProperties" = FIELDS))]
    fields: BTreeMap<String, TemplateSpec>,
    /// The share of exchanges that have a line, in whole percent from 1% to 100%.
    #[schemars(extend("x-default" = "100%"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*%[\s\u0085]*$"))]
    share: Option<String>,
    /// No line is written.
    #[schemars(extend("x-default" = false))]
    off: bool,
}

impl LogSpec {
    /// Checks names and compiles values.
    ///
    /// # Errors
    /// A name or share that is none, a value that would show a credential, too many fields, or nothing to do.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let long = match self {
            Self::Word(OffSpec::Off) => LogMapSpec { off: true, ..LogMapSpec::default() },
            Self::Long(long) => long.clone(),
        };
        if long.off && (long.share.is_some() || !long.fields.is_empty()) {
            return Err("`off: true` leaves no line for `share` and `fields`; write one or the other".into());
        }
        let share = long.share.as_deref().map(parse_percent).transpose()?;
        if share.is_some_and(|share| !(1..=100).contains(&share)) {
            return Err("`share` must be from 1% to 100%; write `off: true` for none".into());
        }
        if !long.off && share.is_none() && long.fields.is_empty() {
            return Err("`log` changes nothing; write `fields`, `share` or `off: true`".into());
        }
        if long.fields.len() > FIELDS {
            return Err(format!("`fields` has at most {FIELDS} fields"));
        }
        let fields =
            long.fields.iter().map(|(name, value)| Ok((checked_name(name)?, checked_value(name, value)?)));
        let share = if long.off { 0 } else { share.map_or(100, u64::from) };
        Ok(Arc::new(Log { share, fields: fields.collect::<Result<_, String>>()? }))
    }
}

/// A name of a field of the line.
fn checked_name(name: &str) -> Result<Arc<str>, String> {
    let is_sound = (1..=NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    match is_sound {
        true => Ok(name.into()),
        false => Err(format!(
            "`{}` is no name of a field: it has 1 to {NAME} letters, digits, `_`, `-` and `.`",
            name.escape_debug()
        )),
    }
}

fn checked_value(name: &str, value: &TemplateSpec) -> Result<Template, String> {
    let template = value.build()?;
    match template.credential() {
        None => Ok(template),
        Some(Credential::Query) => Err(format!(
            "`{name}`: a query may hold credentials, and the line has `query` without them; name a parameter, `{{query.NAME}}`"
        )),
        Some(Credential::Named(word)) => Err(format!(
            "`{name}`: `{{{word}}}` is a credential, and logs are read by many; `{{user}}` is whom a filter has verified"
        )),
    }
}

#[derive(Debug)]
struct Log {
    /// Percent of the exchanges that have a line.
    share: u64,
    fields: Vec<(Arc<str>, Template)>,
}

impl Log {
    /// Decides whether the exchange has a line, once.
    fn decide(&self, at: u16, chance: impl FnOnce() -> u64, edit: &mut LogEdit) {
        if edit.is_first(at) && self.share < 100 && chance() % 100 >= self.share {
            edit.leave_out();
        }
    }

    fn write(&self, values: &Values<'_>, edit: &mut LogEdit, which: impl Fn(&Template) -> bool) {
        for (name, value) in self.fields.iter().filter(|(_, value)| which(value)) {
            edit.set(name, value.field(values));
        }
    }
}

impl Filter for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn argument(&self) -> String {
        if self.share == 0 {
            return "off".into();
        }
        let share = (self.share < 100).then(|| format!("share {}%", self.share));
        let names: Vec<&str> = self.fields.iter().map(|(name, _)| &**name).collect();
        let names = (!names.is_empty()).then(|| format!("fields {}", names.join(" ")));
        share.into_iter().chain(names).collect::<Vec<_>>().join(", ")
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::BOTH
    }

    fn captures(&self) -> Vec<String> {
        self.fields.iter().flat_map(|(_, value)| value.captures()).map(str::to_owned).collect()
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let mut edit = cx.take_log();
        self.decide(cx.position(), || cx.facts.connection.chance(), &mut edit);
        self.write(&cx.values(), &mut edit, |_| true);
        cx.put_log(edit);
        Verdict::Continue
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let mut edit = cx.take_log();
        let was_asked = !edit.is_new(cx.position());
        self.decide(cx.position(), || cx.facts.connection.chance(), &mut edit);
        // What the request has said stays said; the status is known now.
        self.write(&cx.values(), &mut edit, |value| !was_asked || value.uses_status());
        cx.put_log(edit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_edit::VALUE;
    use crate::tests::{Asked, built};

    fn said(json: &str, asks: bool) -> (bool, Vec<(String, String)>) {
        let filter = built::<LogSpec>(json).build().unwrap();
        let mut asked = Asked::at("/a").with("X-Tenant", "acme\"");
        asked.query = Some("page=2".into());
        asked.status = 404;
        if asks {
            asked.send(&*filter);
        }
        asked.answer(&*filter);
        let log = asked.log();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (log.is_off(), log.fields().map(|(name, value)| (name.to_owned(), text(value))).collect())
    }

    #[test]
    fn fields_are_those_of_request_and_response() {
        let json = r#"{"fields": {"tenant": "{header.x-tenant}", "page": "{query.page}", "what": "{method} {status}"}}"#;
        let expected = [("page", "2"), ("tenant", "acme\""), ("what", "GET 404")];
        for asks in [true, false] {
            let (is_off, mut fields) = said(json, asks);
            fields.sort();
            assert!(!is_off);
            assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())), "{asks}");
        }
    }

    #[test]
    fn lines_are_left_out() {
        assert!(said(r#""off""#, true).0 && said(r#"{"off": true}"#, false).0);
        // Chance is 0 here.
        assert!(!said(r#"{"share": "1%"}"#, true).0);
        assert_eq!(
            built::<LogSpec>(r#"{"share": "5%", "fields": {"a": "1"}}"#).build().unwrap().argument(),
            "share 5%, fields a"
        );
        assert_eq!(built::<LogSpec>(r#""off""#).build().unwrap().argument(), "off");
    }

    #[test]
    fn values_have_a_bound() {
        let long = format!("{{\"fields\": {{\"a\": \"{}\"}}}}", "x".repeat(VALUE + 5));
        assert_eq!(said(&long, true).1[0].1.len(), VALUE);
    }

    #[test]
    fn credentials_and_nonsense_are_refused() {
        for (json, part) in [
            (r#"{"fields": {"a": "{header.Authorization}"}}"#, "is a credential"),
            (r#"{"fields": {"a": "x {header.cookie}"}}"#, "is a credential"),
            (r#"{"fields": {"a": "{query.Access_Token}"}}"#, "is a credential"),
            (r#"{"fields": {"a": "{cookie.session_id}"}}"#, "is a credential"),
            (r#"{"fields": {"a": "{query}"}}"#, "name a parameter"),
            (r#"{"fields": {"a b": "1"}}"#, "no name of a field"),
            (r#"{"fields": {"a": "{nothing}"}}"#, "no placeholder"),
            (r#"{"off": true, "share": "1%"}"#, "one or the other"),
            (r#"{"share": "0%"}"#, "from 1% to 100%"),
            (r#"{}"#, "changes nothing"),
        ] {
            let error = built::<LogSpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
        assert!(built::<LogSpec>(r#"{"fields": {"variant": "{cookie.variant}"}}"#).build().is_ok());
    }
}
