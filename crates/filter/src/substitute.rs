//! `substitute: { rules: [ { text: "http://intern", to: "https://www" } ] }`: replaces text in bodies of responses.
//!
//! Rules work one after the other, each on what the one before it has made. A literal text is found across the borders
//! of pieces: what could be its beginning is held back. A regular expression sees one line at a time
//! (`substitute/pattern.rs`). So the result depends on the body alone, never on how it comes, and a stream of lines is
//! not held back. What is coded (`Content-Encoding`), a part of a representation or `no-transform` stays as it is.

use crate::representation::{TEXT, becomes_another, is_coded, may_change};
use crate::stages::{Bound, PIECE, Stage, Stages, Step};
use crate::{Filter, Hooks, OneOrManySpec, ResponseCx};
use memchr::memmem::Finder;
use pattern::{Pattern, PatternStage};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use thalweg_core::{Fault, FaultKind};

mod pattern;

/// Rules of one filter.
const RULES: usize = 32;
/// Bytes of a text that is looked for, and of what is put in its place.
const LONGEST: usize = 16 * 1024;
/// Bytes that may always become of a body.
const FREE: u64 = 1024 * 1024;
/// Above them: bytes that may become of one byte.
const GROWTH: u64 = 16;

/// Why a response breaks off that grows too much.
const GREW: Fault = Fault::new(
    FaultKind::HttpResponseBodySize,
    "the response grows to more than a substitution may make of it",
);

/// What is replaced, and where.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `rules`")]
pub struct SubstituteSpec {
    /// What is replaced by what; each works on what the one before it has made. One or a list, at most 32.
    rules: OneOrManySpec<RuleSpec>,
    /// Content types, `text/html` or `text/*`, one or a list.
    #[schemars(extend("x-default-words" = "text, JSON, XML, JavaScript, SVG"))]
    #[serde(default)]
    types: Option<OneOrManySpec<String>>,
}

/// A rule; of `text` and `regex` one is written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `text` or `regex`, and `to`")]
pub(crate) struct RuleSpec {
    /// The text that is replaced, 1 to 16,384 bytes.
    #[schemars(extend("x-default-words" = "none"))]
    #[serde(default)]
    text: Option<String>,
    /// A regular expression whose matches are replaced; it sees one line at a time.
    #[schemars(extend("x-default-words" = "none"))]
    #[serde(default)]
    regex: Option<String>,
    /// What takes its place, at most 16,384 bytes; behind `regex`, `$1` and `${name}` stand for groups and `$$` for
    /// `$`.
    to: String,
    /// Only the first one is replaced.
    #[schemars(extend("x-default" = false))]
    #[serde(default)]
    once: bool,
}

impl SubstituteSpec {
    /// Checks rules and types.
    ///
    /// # Errors
    /// A rule that says too little, too much or nothing, a regular expression that is none, or a type that is none.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        let rules = self.rules.as_slice();
        if rules.is_empty() || rules.len() > RULES {
            return Err(format!("`rules` must be 1 to {RULES}, and are {}", rules.len()));
        }
        let types: Vec<Box<str>> = match self.types.as_ref().map(OneOrManySpec::as_slice) {
            None => TEXT.iter().map(|kind| (*kind).into()).collect(),
            Some(written) => written.iter().map(|kind| kind.to_ascii_lowercase().into()).collect(),
        };
        if let Some(wrong) = types.iter().find(|kind| !kind.contains('/')) {
            return Err(format!("`{wrong}` is no content type; write `text/html` or `text/*`"));
        }
        let rules: Result<Vec<_>, _> = rules.iter().map(RuleSpec::build).collect();
        Ok(Arc::new(Substitute { rules: rules?, types }))
    }
}

impl RuleSpec {
    fn build(&self) -> Result<Rule, String> {
        if self.to.len() > LONGEST {
            return Err(format!("`to` is longer than {LONGEST} bytes"));
        }
        match (&self.text, &self.regex) {
            (Some(text), None) if text.is_empty() || text.len() > LONGEST => {
                Err(format!("`text` must have 1 to {LONGEST} bytes"))
            }
            (Some(text), None) if *text == self.to => {
                Err(format!("the rule for `{}` changes nothing", text.escape_debug()))
            }
            (Some(text), None) => Ok(Rule::Text(Arc::new(Literal {
                finder: Finder::new(text).into_owned(),
                to: self.to.clone().into(),
                is_once: self.once,
            }))),
            (None, Some(regex)) => Ok(Rule::Pattern(Arc::new(Pattern::new(regex, &self.to, self.once)?))),
            (None, None) => Err("a rule without `text` or `regex` changes nothing; write one of them".into()),
            (Some(_), Some(_)) => Err("a rule has `text` or `regex`, not both".into()),
        }
    }
}

#[derive(Debug)]
struct Substitute {
    rules: Vec<Rule>,
    types: Vec<Box<str>>,
}

#[derive(Clone, Debug)]
enum Rule {
    Text(Arc<Literal>),
    Pattern(Arc<Pattern>),
}

impl Rule {
    fn stage(&self) -> Box<dyn Stage> {
        match self {
            Self::Text(rule) => Box::new(LiteralStage { rule: Arc::clone(rule), is_over: false }),
            Self::Pattern(rule) => Box::new(PatternStage::new(rule)),
        }
    }
}

#[derive(Debug)]
struct Literal {
    finder: Finder<'static>,
    to: Box<str>,
    is_once: bool,
}

impl Literal {
    /// Bytes at the end of `rest`, in which the text does not stand, with which it may begin.
    fn held(&self, rest: &[u8]) -> usize {
        let text = self.finder.needle();
        let most = rest.len().min(text.len() - 1);
        (1..=most).rev().find(|n| rest.ends_with(&text[..*n])).unwrap_or(0)
    }
}

/// A literal text in one body.
#[derive(Debug)]
struct LiteralStage {
    rule: Arc<Literal>,
    /// The one that is replaced has been found.
    is_over: bool,
}

impl Stage for LiteralStage {
    fn step(&mut self, input: &[u8], is_all: bool, out: &mut Vec<u8>) -> Result<Step, Fault> {
        let mut at = 0;
        while !self.is_over {
            if out.len() >= PIECE {
                return Ok(Step { taken: at, has_more: true });
            }
            let rest = &input[at..];
            let Some(found) = self.rule.finder.find(rest) else {
                let held = if is_all { 0 } else { self.rule.held(rest) };
                out.extend_from_slice(&rest[..rest.len() - held]);
                return Ok(Step { taken: input.len() - held, has_more: false });
            };
            out.extend_from_slice(&rest[..found]);
            out.extend_from_slice(self.rule.to.as_bytes());
            at += found + self.rule.finder.needle().len();
            self.is_over = self.rule.is_once;
        }
        out.extend_from_slice(&input[at..]);
        Ok(Step { taken: input.len(), has_more: false })
    }
}

impl Filter for Substitute {
    fn name(&self) -> &'static str {
        "substitute"
    }

    fn argument(&self) -> String {
        let shown = |rule: &Rule| match rule {
            Rule::Text(rule) => format!("{} by {}", String::from_utf8_lossy(rule.finder.needle()), rule.to),
            Rule::Pattern(rule) => rule.to_string(),
        };
        self.rules.iter().map(shown).collect::<Vec<_>>().join(", ").escape_debug().to_string()
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::RESPONSE
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let kind = cx.fields.get("Content-Type").unwrap_or_default();
        let fits = may_change(cx)
            && !is_coded(&cx.fields)
            && self.types.iter().any(|wanted| crate::is_type(kind, wanted));
        if !fits {
            return;
        }
        becomes_another(&mut cx.fields);
        let bound = Bound { free: FREE, ratio: GROWTH, most: u64::MAX, fault: GREW };
        cx.transform_body(|| Box::new(Stages::new(self.rules.iter().map(Rule::stage), bound)));
    }
}

#[cfg(test)]
mod tests;
