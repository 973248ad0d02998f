//! `split: { cookie: variant, to: { a: shop-a, b: shop-b } }`: sends requests to a service that a cookie, a field or a
//! query parameter names, or one drawn by its share.
//!
//! A client without a known value goes where the route says, or where `share` draws; with `sticky` a cookie keeps it
//! there.

use crate::{Filter, Hooks, RequestCx, ResponseCx, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::credentials::may_be_secret;
use thalweg_core::units::{parse_duration, parse_percent};
use thalweg_http::octet;

/// The longest that a choice may be kept.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How a service is chosen.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `to`, and `cookie`, `header` or `query`")]
pub struct SplitSpec {
    /// The cookie whose value chooses. One of `cookie`, `header` and `query` is written.
    #[schemars(extend("x-default-words" = "none"))]
    cookie: Option<String>,
    /// The field of the request whose value chooses.
    #[schemars(extend("x-default-words" = "none"))]
    header: Option<String>,
    /// The query parameter whose value chooses.
    #[schemars(extend("x-default-words" = "none"))]
    query: Option<String>,
    /// Values, and the service that each stands for.
    to: BTreeMap<String, String>,
    /// Shares of requests without a known value, by the values of `to`, in whole percent; the rest goes where the route
    /// says.
    #[schemars(extend("x-default-words" = "none"))]
    share: Option<BTreeMap<String, String>>,
    /// With `cookie` and `share`: how long a client keeps what was drawn, in a cookie of that name; up to a year.
    #[schemars(extend("x-default-words" = "not at all"))]
    sticky: Option<String>,
}

impl SplitSpec {
    /// Checks the values; whether the services exist is checked by who knows them.
    ///
    /// # Errors
    /// Nothing to go by, names that are none, or shares over the whole.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let by = match (&self.cookie, &self.header, &self.query) {
            (Some(name), None, None) => By::Cookie(name.as_str().into()),
            (None, Some(name), None) => By::Header(name.as_str().into()),
            (None, None, Some(name)) => By::Query(name.as_str().into()),
            _ => {
                return Err("`split` goes by one of `cookie`, `header` and `query`; write one of them".into());
            }
        };
        if by.name().is_empty() || octet::token_len(by.name().as_bytes()) != by.name().len() {
            return Err(format!("`{}` is no name of a cookie, field or parameter", by.name()));
        }
        if self.to.is_empty() {
            return Err(
                "`to` is empty; write values and services, as in `to: { a: shop-a, b: shop-b }`".into()
            );
        }
        let mut choices = Vec::new();
        for (value, service) in &self.to {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
            if value.is_empty() || !value.bytes().all(is_plain) {
                return Err(format!("the value `{value}` may have letters, digits and `-_.~` only"));
            }
            let share = self.share.iter().flatten().find(|(of, _)| *of == value);
            let share = share.map_or(Ok(0), |(_, share)| parse_percent(share))?;
            choices.push(Choice { value: value.as_str().into(), service: service.as_str().into(), share });
        }
        if let Some(odd) = self.share.iter().flat_map(BTreeMap::keys).find(|of| !self.to.contains_key(*of)) {
            return Err(format!("`share` names `{odd}`, which is no value of `to`"));
        }
        let total: u32 = choices.iter().map(|choice| choice.share).sum();
        if total > 100 {
            return Err(format!("the shares are {total}% together; they may be 100% at most"));
        }
        let sticky = self.sticky.as_deref().map(parse_duration).transpose()?;
        match sticky {
            Some(_) if total == 0 || !matches!(by, By::Cookie(_)) => {
                return Err("`sticky` keeps what `share` draws, in the cookie of `cookie`; write both".into());
            }
            Some(time) if time > LONGEST || time.as_secs() == 0 => {
                return Err("`sticky` must be from 1s to 365d".into());
            }
            _ => {}
        }
        Ok(Arc::new(Split { by, choices, sticky }))
    }
}

#[derive(Debug)]
enum By {
    Cookie(Box<str>),
    Header(Box<str>),
    Query(Box<str>),
}

impl By {
    fn name(&self) -> &str {
        match self {
            Self::Cookie(name) | Self::Header(name) | Self::Query(name) => name,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Cookie(_) => "cookie",
            Self::Header(_) => "header",
            Self::Query(_) => "query",
        }
    }

    /// The value in a request, compared as it stands there.
    fn is(&self, cx: &RequestCx<'_>, value: &str) -> bool {
        let value = value.as_bytes();
        match self {
            Self::Cookie(name) => cx.fields.view().cookie(name) == Some(value),
            Self::Header(name) => cx.fields.get(name) == Some(value),
            Self::Query(name) => {
                let mut pairs = cx.facts.query.unwrap_or_default().split(|byte| *byte == b'&');
                let found = pairs.find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
                found == Some(value)
            }
        }
    }
}

#[derive(Debug)]
struct Choice {
    value: Box<str>,
    service: Arc<str>,
    /// In percent.
    share: u32,
}

#[derive(Debug)]
struct Split {
    by: By,
    choices: Vec<Choice>,
    sticky: Option<Duration>,
}

/// The choice that the client is to keep.
#[derive(Debug)]
struct Drawn(usize);

impl Split {
    /// The position of one drawn by its share; `None`: the route decides.
    fn draw(&self, chance: u64) -> Option<usize> {
        let mut left = (chance % 100) as u32;
        self.choices.iter().position(|choice| {
            let is_it = left < choice.share;
            left = left.saturating_sub(choice.share);
            is_it
        })
    }
}

impl Filter for Split {
    fn name(&self) -> &'static str {
        "split"
    }

    fn argument(&self) -> String {
        // The value may be a secret shared by clients.
        let is_hidden = may_be_secret(self.by.name());
        let choices = self.choices.iter().map(|Choice { value, service, share }| {
            let value = if is_hidden { "…" } else { value };
            match share {
                0 => format!("{value} to {service}"),
                share => format!("{value} to {service} ({share}%)"),
            }
        });
        let choices = choices.collect::<Vec<_>>().join(", ");
        let sticky = self.sticky.map(|time| format!(", kept for {time:?}")).unwrap_or_default();
        format!("by {} {}: {choices}{sticky}", self.by.kind(), self.by.name())
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        if self.sticky.is_some() { Hooks::BOTH } else { Hooks::REQUEST }
    }

    fn choices(&self) -> Vec<Arc<str>> {
        self.choices.iter().map(|choice| choice.service.clone()).collect()
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        let named = self.choices.iter().position(|choice| self.by.is(cx, &choice.value));
        // A question draws nothing: it is told where the route leads.
        let drawn = || (!cx.facts.is_dry_run).then(|| self.draw(cx.facts.connection.chance())).flatten();
        let Some(at) = named.or_else(drawn) else { return Verdict::Continue };
        if named.is_none() && self.sticky.is_some() {
            cx.remember(Drawn(at));
        }
        cx.send_to(&self.choices[at].service);
        Verdict::Continue
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let (Some(time), Some(Drawn(at))) = (self.sticky, cx.remembered()) else { return };
        let Some(choice) = self.choices.get(*at) else { return };
        let secure = if cx.facts.scheme == "https" { "; Secure" } else { "" };
        let cookie = format!(
            "{}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{secure}",
            self.by.name(),
            choice.value,
            time.as_secs()
        );
        cx.fields.append("Set-Cookie", cookie.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Asked, built};

    const BY_COOKIE: &str = r#"{"cookie": "variant", "to": {"a": "shop-a", "b": "shop-b"}, "share": {"b": "1%"}, "sticky": "30d"}"#;

    fn sent(json: &str, asked: &mut Asked) -> Option<String> {
        asked.send(&*built::<SplitSpec>(json).build().unwrap());
        asked.outcome.service.take().map(|name| name.to_string())
    }

    #[test]
    fn a_value_chooses_its_service() {
        let cookie = |value: &str| Asked::at("/").with("Cookie", &format!("x=1; variant={value}"));
        assert_eq!(sent(BY_COOKIE, &mut cookie("a")).as_deref(), Some("shop-a"));
        let header = r#"{"header": "X-V", "to": {"a": "shop-a"}}"#;
        assert_eq!(sent(header, &mut Asked::at("/").with("x-v", "a")).as_deref(), Some("shop-a"));
        assert_eq!(sent(header, &mut Asked::at("/").with("x-v", "A")), None);
        let mut asked = Asked::at("/");
        asked.query = Some("y=2&v=a".into());
        assert_eq!(sent(r#"{"query": "v", "to": {"a": "s"}}"#, &mut asked).as_deref(), Some("s"));
    }

    #[test]
    fn what_is_drawn_is_kept_and_what_was_named_is_not_said_again() {
        let filter = built::<SplitSpec>(BY_COOKIE).build().unwrap();
        let mut asked = Asked::at("/");
        asked.send(&*filter);
        assert_eq!(asked.outcome.service.take().as_deref(), Some("shop-b"), "chance is 0 here");
        asked.answer(&*filter);
        let line = "Set-Cookie: variant=b; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax; Secure\r\n";
        assert_eq!(asked.response_lines(), line);
        let mut known = Asked::at("/").with("Cookie", "variant=b");
        known.send(&*filter);
        known.answer(&*filter);
        assert_eq!(known.response_lines(), "");
    }

    #[test]
    fn wrong_splits_are_refused() {
        for (json, part) in [
            (r#"{"to": {"a": "s"}}"#, "one of"),
            (r#"{"cookie": "c", "header": "h", "to": {"a": "s"}}"#, "one of"),
            (r#"{"cookie": "c d", "to": {"a": "s"}}"#, "no name"),
            (r#"{"cookie": "c", "to": {}}"#, "is empty"),
            (r#"{"cookie": "c", "to": {"a;b": "s"}}"#, "letters"),
            (r#"{"cookie": "c", "to": {"a": "s"}, "share": {"b": "1%"}}"#, "no value of `to`"),
            (r#"{"cookie": "c", "to": {"a": "s", "b": "t"}, "share": {"a": "60%", "b": "60%"}}"#, "120%"),
            (r#"{"header": "h", "to": {"a": "s"}, "share": {"a": "1%"}, "sticky": "1d"}"#, "`sticky`"),
            (r#"{"cookie": "c", "to": {"a": "s"}, "sticky": "1d"}"#, "`sticky`"),
        ] {
            let error = built::<SplitSpec>(json).build().unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
