//! The cases of a public suite against the list of those that are known to fail: the list may only shrink.

use std::fmt::Write as _;

/// A case of a suite, played.
#[derive(Clone, Debug)]
pub struct Case {
    /// What the suite calls it.
    pub id: String,
    /// Whether it passed, as the suite judges.
    pub passed: bool,
    /// What the suite says of it.
    pub told: String,
}

/// A case that fails, and the reason why that is borne.
pub type Known = (&'static str, &'static str);

/// Those that fail and are not known to.
pub fn new_failures<'a>(cases: &'a [Case], known: &[Known]) -> Vec<&'a Case> {
    let is_known = |case: &Case| known.iter().any(|(id, _)| *id == case.id);
    cases.iter().filter(|case| !case.passed && !is_known(case)).collect()
}

/// Asserts that those fail that are known to, and no other.
///
/// # Panics
/// When another one fails; when a known one passes, or is no case of the suite.
pub fn assert_only(cases: &[Case], known: &[Known]) {
    let mut wrong = String::new();
    for case in new_failures(cases, known) {
        let _ = writeln!(wrong, "{} fails: {}", case.id, case.told);
    }
    for (id, _) in known {
        match cases.iter().find(|case| case.id == *id) {
            Some(case) if case.passed => {
                let _ = writeln!(wrong, "{id} passes: it goes from the list");
            }
            Some(_) => {}
            None => {
                let _ = writeln!(wrong, "{id} is no case of the suite: it goes from the list");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    fn holds(cases: &'static [(&str, bool)], known: &'static [Known]) -> bool {
        let case =
            |(id, passed): &(&str, bool)| Case { id: (*id).into(), passed: *passed, told: "why".into() };
        let cases: Vec<_> = cases.iter().map(case).collect();
        catch_unwind(|| assert_only(&cases, known)).is_ok()
    }

    #[test]
    fn the_list_may_only_shrink() {
        let known: &[Known] = &[("a", "reason")];
        assert!(holds(&[("a", false), ("b", true)], known));
        assert!(!holds(&[("a", false), ("b", false)], known), "a new failure");
        assert!(!holds(&[("a", true), ("b", true)], known), "a known one that passes");
        assert!(!holds(&[("b", true)], known), "a known one that is not played");
    }
}
