//! The order in which Caddy follows the directives of a block.

use super::Importer;
use super::matcher::{Decisions, decisions, everything};
use super::syntax::Directive;
use super::walk::Step;
use crate::paths::Atom;

/// Caddy's own order.
const STANDARD: &[&str] = &[
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "skip_log",
    "log_skip",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basicauth",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "invoke",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "copy_response",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
    "file_server",
    "acme_server",
];
/// Directives whose first word may name a matcher.
const WITHOUT_MATCHER: &[&str] =
    &["tls", "bind", "log", "handle_errors", "import", "invoke", "try_files", "map"];
/// Directives of which only the first that holds is followed.
const EXCLUSIVE: &[&str] = &["root", "rewrite", "handle"];

/// Directives as `order` puts them.
pub(super) fn standard() -> Vec<String> {
    STANDARD.iter().map(|name| (*name).to_owned()).collect()
}

/// `order NAME first|last|before OTHER|after OTHER`; `false`: it is not understood.
pub(super) fn reorder(order: &mut Vec<String>, args: &[String]) -> bool {
    let Some((name, rest)) = args.split_first() else { return false };
    let mut wanted = order.clone();
    wanted.retain(|known| known != name);
    let other = |wanted: &[String]| wanted.iter().position(|known| Some(known) == rest.get(1));
    let at = match rest.first().map(String::as_str) {
        Some("first") => Some(0),
        Some("last") => Some(wanted.len()),
        Some("before") => other(&wanted),
        Some("after") => other(&wanted).map(|at| at + 1),
        _ => None,
    };
    let Some(at) = at else { return false };
    wanted.insert(at, name.clone());
    *order = wanted;
    true
}

/// The name by which directives are put in order and into groups.
fn class(name: &str) -> &str {
    if name == "handle_path" { "handle" } else { name }
}

/// The one path by which directives of a name are put in order.
fn path(step: &Step) -> Option<String> {
    match step.decisions.as_ref().map(Vec::as_slice) {
        Ok([(condition, true), ..]) => match condition.paths.as_deref() {
            Some([Atom::Exact(path)]) => Some(path.clone()),
            Some([Atom::Begins(begin)]) => Some(format!("{begin}*")),
            Some([Atom::Between(begin, end)]) => Some(format!("{begin}*{end}")),
            _ => None,
        },
        _ => None,
    }
}

fn has_matcher(step: &Step) -> bool {
    step.decisions.as_ref().map_or(true, |all| all.len() > 1)
}

/// Whether a directive goes before another of the same name.
fn goes_before(one: &Step, other: &Step) -> bool {
    let before = match (path(one), path(other)) {
        (Some(mine), Some(theirs)) if mine.trim_end_matches('*') == theirs.trim_end_matches('*') => {
            mine.len() < theirs.len()
        }
        (Some(mine), Some(theirs)) => mine.len() > theirs.len(),
        _ => has_matcher(one) && !has_matcher(other),
    };
    // The last one wins there, which is to be the most specific.
    if one.directive.name == "vars" { !before && has_matcher(other) != has_matcher(one) } else { before }
}

impl Importer<'_> {
    /// The directives of a block, in order. `sorted`: in Caddy's; else as they stand, as in `route`.
    pub(super) fn steps(&mut self, block: &[Directive], sorted: bool) -> Vec<Step> {
        for directive in block.iter().filter(|directive| directive.name.starts_with('@')) {
            let lines = match &directive.block {
                Some(block) => block.clone(),
                None => vec![super::matcher::inline(directive)],
            };
            let told = decisions(&lines);
            let (grade, about) = match &told {
                Ok(_) => (crate::Grade::Exact, String::new()),
                Err(why) => {
                    (crate::Grade::Lost, format!("{why}; what goes by it says what becomes of requests"))
                }
            };
            self.report.note(&directive.place, directive.text(), grade, about.as_str(), "");
            for line in directive.children() {
                self.report.note(&line.place, line.text(), grade, about.as_str(), "");
            }
            self.matchers.push((directive.name.clone(), told));
        }
        let mut steps: Vec<Step> = Vec::new();
        for directive in block.iter().filter(|directive| !directive.name.starts_with('@')) {
            if matches!(directive.name.as_str(), "tls" | "bind" | "log" | "handle_errors") {
                continue;
            }
            steps.push(self.step(directive));
        }
        if sorted {
            self.sort(&mut steps);
        }
        for name in EXCLUSIVE {
            let number = self.groups;
            let all: Vec<&mut Step> =
                steps.iter_mut().filter(|step| class(&step.directive.name) == *name).collect();
            if all.len() > 1 && sorted {
                all.into_iter().for_each(|step| step.group = Some(number));
                self.groups += 1;
            }
        }
        steps
    }

    /// Insertion, which keeps the order of what is alike, and asks no more of the comparison than Caddy's does.
    fn sort(&self, steps: &mut [Step]) {
        let place = |step: &Step| self.order.iter().position(|name| name == class(&step.directive.name));
        for end in 1..steps.len() {
            for at in (1..=end).rev() {
                let (mine, before) = (place(&steps[at]), place(&steps[at - 1]));
                let is_less = match mine == before {
                    true => goes_before(&steps[at], &steps[at - 1]),
                    // What is not known stands last.
                    false => mine.unwrap_or(usize::MAX) < before.unwrap_or(usize::MAX),
                };
                if !is_less {
                    break;
                }
                steps.swap(at, at - 1);
            }
        }
    }

    fn step(&self, directive: &Directive) -> Step {
        let text = directive.text();
        let mut directive = directive.clone();
        let alone = directive.args.len() == 1;
        let name = directive.name.as_str();
        let found: Result<Decisions, String> = match directive.args.first().map(String::as_str) {
            _ if WITHOUT_MATCHER.contains(&name) => return Step::plain(directive, text),
            // With one word it is the place itself.
            Some(word) if word.starts_with('/') && alone && matches!(name, "root" | "rewrite" | "redir") => {
                Ok(everything())
            }
            Some("*") => {
                directive.args.remove(0);
                Ok(everything())
            }
            Some(word) if word.starts_with('@') => {
                let known = self.matchers.iter().rev().find(|(known, _)| known == word);
                let found =
                    known.map_or_else(|| Err(format!("there is no matcher {word}")), |(_, it)| it.clone());
                directive.args.remove(0);
                found
            }
            Some(word) if word.starts_with('/') => {
                let line =
                    Directive { name: "path".into(), args: vec![word.to_owned()], ..Directive::default() };
                directive.args.remove(0);
                decisions(&[line])
            }
            _ => Ok(everything()),
        };
        Step { directive, text, decisions: found, group: None }
    }
}

impl Step {
    fn plain(directive: Directive, text: String) -> Self {
        Self { directive, text, decisions: Ok(everything()), group: None }
    }
}
