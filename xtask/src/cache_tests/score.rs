//! The score: required and optimal tests that passed, and why others did not.

use std::fmt;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// The required test that the product fails, and the reason, which cites the RFC that demands the contrary.
const REQUIRED: (&str, &str) = (
    "headers-store-Transfer-Encoding",
    "the origin names a transfer coding that nobody has registered and no TE has asked for, which RFC 9110 section 10.1.4 \
     forbids; who cannot undo a coding has no content to store or to send on (RFC 9112 section 6.1), and answers 502 \
     (RFC 9110 section 15.6.3)",
);
/// Optimal ones that it fails, as in the older state that CI plays: a line each, with the reason.
const OPTIMAL: &str = include_str!("../../../tests/programs/cache_suite_optimal.txt");

/// A test that may fail, and why. The list may only shrink: one that passes is an error.
type Exception = (&'static str, &'static str);

/// How the suite says that a test passed: the second for a behaviour that is only recorded.
const PASSES: [&str; 2] = ["pass", "yes"];

/// What a test stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// What an RFC demands.
    Required,
    /// What a good cache does.
    Optimal,
    /// What is recorded without a judgement.
    Check,
}

/// One test as the suite judges it.
#[derive(Clone, Debug)]
struct Test {
    id: String,
    group: String,
    name: String,
    kind: Kind,
    outcome: String,
    reason: String,
}

/// All tests that apply to a proxy, in the suite's order.
pub(super) struct Score {
    tests: Vec<Test>,
    exceptions: Vec<Exception>,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Optimal => "optimal",
            Self::Check => "check",
        }
    }

    fn of(name: &str) -> Option<Self> {
        [Self::Required, Self::Optimal, Self::Check].into_iter().find(|kind| kind.name() == name)
    }
}

impl Test {
    fn read(value: &Value) -> Option<Self> {
        let text = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
        Some(Self {
            id: text("id")?,
            group: text("group")?,
            name: text("name")?,
            kind: Kind::of(&text("kind")?)?,
            outcome: text("outcome")?,
            reason: text("reason")?,
        })
    }

    fn passes(&self) -> bool {
        PASSES.contains(&self.outcome.as_str())
    }
}

impl Score {
    /// Reads the judgement of the suite.
    pub(super) fn new(judged: Value) -> Result<Self> {
        let Value::Array(values) = judged else { anyhow::bail!("the judgement is not a list") };
        let read = |value: &Value| Test::read(value).with_context(|| format!("not a test: {value}"));
        let tests = values.iter().map(read).collect::<Result<Vec<_>>>()?;
        ensure!(!tests.is_empty(), "the suite has no tests");
        let optimal = OPTIMAL.lines().filter_map(|line| line.split_once(": "));
        Ok(Self { tests, exceptions: std::iter::once(REQUIRED).chain(optimal).collect() })
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = &Test> {
        self.tests.iter().filter(move |test| test.kind == kind)
    }

    /// Why the test is known to fail.
    fn exception(&self, test: &Test) -> Option<&'static str> {
        self.exceptions.iter().find(|(id, _)| *id == test.id).map(|(_, reason)| *reason)
    }

    /// What has been played of these kinds, and how many of it passed, in words.
    pub(super) fn words(&self) -> String {
        let of = |kind: Kind| (self.of(kind).filter(|test| test.passes()).count(), self.of(kind).count());
        let ((required, all_required), (optimal, all_optimal)) = (of(Kind::Required), of(Kind::Optimal));
        format!("required {required} of {all_required}, optimal {optimal} of {all_optimal}")
    }

    /// Required and optimal tests that fail without a documented reason.
    pub(super) fn unexplained(&self) -> Vec<&str> {
        let judged = self.tests.iter().filter(|test| test.kind != Kind::Check);
        let failed = judged.filter(|test| !test.passes() && self.exception(test).is_none());
        failed.map(|test| test.id.as_str()).collect()
    }

    /// Exceptions that no test needs any more.
    pub(super) fn needless(&self) -> Vec<&'static str> {
        let fails = |id: &str| self.tests.iter().any(|test| test.id == id && !test.passes());
        self.exceptions.iter().map(|(id, _)| *id).filter(|id| !fails(id)).collect()
    }

    /// Every test as JSON.
    pub(super) fn json(&self) -> Result<String> {
        let one = |test: &Test| {
            json!({
                "id": test.id, "group": test.group, "name": test.name, "kind": test.kind.name(),
                "outcome": test.outcome, "reason": test.reason, "exception": self.exception(test),
            })
        };
        Ok(serde_json::to_string_pretty(&self.tests.iter().map(one).collect::<Vec<_>>())? + "\n")
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kind in [Kind::Required, Kind::Optimal, Kind::Check] {
            let (all, passed) = (self.of(kind).count(), self.of(kind).filter(|test| test.passes()).count());
            let word = if kind == Kind::Check { "yes" } else { "passed" };
            writeln!(f, "{}: {passed} of {all} {word}", kind.name())?;
            if kind == Kind::Check {
                continue;
            }
            for test in self.of(kind).filter(|test| !test.passes()) {
                writeln!(f, "  {:<16} {}: {}", test.outcome, test.id, test.reason)?;
                if let Some(reason) = self.exception(test) {
                    writeln!(f, "  {:<16} known: {reason}", "")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(outcomes: &[(&str, &str, &str)]) -> Score {
        let one = |(id, kind, outcome): &(&str, &str, &str)| json!({ "id": id, "group": "g", "name": "n", "kind": kind, "outcome": outcome, "reason": "r" });
        let mut score = Score::new(outcomes.iter().map(one).collect()).unwrap();
        score.exceptions = vec![("known", "RFC 9111 §1")];
        score
    }

    #[test]
    fn a_failure_counts_unless_it_is_known_or_only_recorded() {
        let score = score(&[
            ("a", "required", "pass"),
            ("b", "required", "dependency_fail"),
            ("known", "required", "fail"),
            ("c", "optimal", "optional_fail"),
            ("d", "check", "no"),
            ("e", "check", "yes"),
        ]);
        assert_eq!(score.unexplained(), ["b", "c"]);
        assert_eq!(score.words(), "required 1 of 3, optimal 0 of 1");
        let text = score.to_string();
        for part in
            ["required: 1 of 3 passed", "optimal: 0 of 1 passed", "check: 1 of 2 yes", "known: RFC 9111 §1"]
        {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.contains("dependency_fail  b: r"), "{text}");
        assert!(score.json().unwrap().contains("\"exception\": \"RFC 9111 §1\""));
    }

    #[test]
    fn an_exception_that_no_test_needs_is_named() {
        assert_eq!(score(&[("known", "required", "fail")]).needless(), [""; 0]);
        let passed = score(&[("known", "required", "pass")]);
        assert_eq!((passed.unexplained(), passed.needless()), (vec![], vec!["known"]));
        assert_eq!(score(&[("a", "required", "pass")]).needless(), ["known"], "it is gone from the suite");
    }

    #[test]
    fn what_is_no_judgement_is_refused() {
        assert!(Score::new(json!({})).is_err() && Score::new(json!([])).is_err());
        assert!(Score::new(json!([{ "id": "a" }])).is_err());
    }
}
