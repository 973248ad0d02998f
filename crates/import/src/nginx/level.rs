//! What stands in a `server` or `location`: settings, conditions, rewrites, and what answers.

use super::conditions::{Condition, Test};
use super::known::known;
use super::maps::{Asked, Maps};
use super::settings::Settings;
use super::tree::Directive;
use super::variables::is_constant;
use crate::draft::Conditions;
use crate::pattern::{Whole, whole};
use crate::{Grade, Place, Report};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What answers requests.
#[derive(Clone, Debug, Default)]
pub(super) enum Action {
    /// Files below the root.
    #[default]
    Files,
    /// `proxy_pass` with its URL.
    Pass(String),
    Return(u16, String),
    /// What cannot be expressed.
    Unsupported(String),
}

/// `if (…) { return …; }`
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) condition: Condition,
    pub(super) reply: (u16, String),
    pub(super) place: Place,
    pub(super) text: String,
}

/// `rewrite`
#[derive(Clone, Debug)]
pub(super) struct Rewrite {
    pub(super) regex: Whole,
    pub(super) to: String,
    pub(super) flag: String,
    pub(super) place: Place,
    pub(super) text: String,
}

impl Rewrite {
    /// The status of a redirect; `None`: the path changes within.
    pub(super) fn redirect(&self) -> Option<u16> {
        match self.flag.as_str() {
            "permanent" => Some(301),
            "redirect" => Some(302),
            _ if self.to.starts_with("http://")
                || self.to.starts_with("https://")
                || self.to.starts_with("$scheme") =>
            {
                Some(302)
            }
            _ => None,
        }
    }

    /// Whether it takes every path.
    pub(super) fn takes_all(&self) -> bool {
        matches!(self.regex.text.as_str(), ".*" | "(.*)" | ".*?.*" | "/.*" | "/(.*)" | "")
            || self.regex.text == ".*?(.*)"
    }
}

/// The body of a `server` or `location`.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    pub(super) settings: Settings,
    pub(super) set: BTreeMap<String, String>,
    /// Variables that depend on the request.
    pub(super) maps: Rc<Maps>,
    pub(super) checks: Vec<Check>,
    pub(super) rewrites: Vec<Rewrite>,
    pub(super) try_files: Option<Vec<String>>,
    /// Nothing that answers is written: `None`.
    pub(super) action: Option<Action>,
    /// Where what answers is written.
    pub(super) place: Place,
    /// Why its requests are answered 501: something that keeps requests out could not be taken over.
    pub(super) refused: Option<String>,
    /// Whether `break` or a `return` ends what is looked at.
    ended: bool,
}

impl Level {
    /// What a block within this one begins with.
    pub(super) fn child(&self) -> Self {
        let refused = self.refused.clone();
        let maps = Rc::clone(&self.maps);
        Self { settings: self.settings.child(), set: self.set.clone(), maps, refused, ..Self::default() }
    }

    /// Takes over what it knows, notes it, and gives back the rest.
    pub(super) fn read<'d>(
        &mut self,
        directives: &'d [Directive],
        report: &mut Report,
        concerns: &str,
    ) -> Vec<&'d Directive> {
        let mut rest = Vec::new();
        for directive in directives {
            let outcome = self.settings.apply(directive).or_else(|| self.own(directive));
            match outcome {
                Some((grade, about)) => {
                    let concerns = if grade == Grade::Exact { "" } else { concerns };
                    report.note(&directive.place, directive.text(), grade, about, concerns);
                }
                None => {
                    if KEEPS_OUT.contains(&directive.name.as_str()) {
                        self.refused = Some(format!("`{}` keeps requests out", directive.name));
                    }
                    rest.push(directive);
                }
            }
        }
        rest
    }

    fn own(&mut self, directive: &Directive) -> Option<(Grade, String)> {
        let exact = Some((Grade::Exact, String::new()));
        match directive.name.as_str() {
            "set" => {
                if self.ended {
                    return exact;
                }
                let name = directive.arg().trim_start_matches('$').to_owned();
                self.set.insert(name, directive.args.get(1).cloned().unwrap_or_default());
                exact
            }
            "return" => {
                if !self.ended {
                    let (status, text) = reply(directive)?;
                    self.answer(Action::Return(status, text), directive);
                    self.ended = true;
                }
                exact
            }
            "proxy_pass" => {
                self.answer(Action::Pass(directive.arg().to_owned()), directive);
                exact
            }
            "break" => {
                self.ended = true;
                exact
            }
            "rewrite" => Some(self.rewrite(directive)),
            "if" => Some(self.check(directive)),
            "limit_except" => self.except(directive),
            "try_files" => {
                self.try_files = Some(directive.args.clone());
                Some(try_files(&directive.args))
            }
            name if name.ends_with("_pass") || name.starts_with("content_by_lua") || is_handler(name) => {
                let about = format!("Thalweg has no `{name}`; requests are answered 501");
                self.answer(Action::Unsupported(name.to_owned()), directive);
                Some((Grade::Lost, about))
            }
            _ => None,
        }
    }

    fn answer(&mut self, action: Action, directive: &Directive) {
        self.action = Some(action);
        self.place = directive.place.clone();
    }

    fn rewrite(&mut self, directive: &Directive) -> (Grade, String) {
        let [searched, to, ..] = directive.args.as_slice() else {
            return (Grade::Lost, "`rewrite` takes an expression and a path".to_owned());
        };
        if self.ended {
            return (Grade::Exact, String::new());
        }
        match whole(searched, false) {
            Ok(regex) => {
                let flag = directive.args.get(2).cloned().unwrap_or_default();
                self.rewrites.push(Rewrite {
                    regex,
                    to: to.clone(),
                    flag,
                    place: directive.place.clone(),
                    text: directive.text(),
                });
                (Grade::Exact, String::new())
            }
            Err(error) => (Grade::Lost, error),
        }
    }

    /// A condition that refuses requests and cannot be taken over lets none pass.
    fn keep_out(&mut self, directive: &Directive) {
        let refuses = |inner: &Directive| {
            inner.name == "deny"
                || (inner.name == "return" && !matches!(inner.arg().as_bytes(), [b'2' | b'3', ..]))
        };
        if directive.children().iter().any(refuses) {
            self.refused = Some("a condition that keeps requests out".to_owned());
        }
    }

    fn check(&mut self, directive: &Directive) -> (Grade, String) {
        let conditions = match self.conditions(&directive.args) {
            Ok(conditions) => conditions,
            Err(about) => {
                self.keep_out(directive);
                return (Grade::Lost, about);
            }
        };
        let is_quiet = |inner: &&Directive| !matches!(inner.name.as_str(), "break" | "access_log");
        let inner: Vec<_> = directive.children().iter().filter(is_quiet).collect();
        let answer = match inner.as_slice() {
            [only] if only.name == "return" => reply(only),
            [only] if only.name == "rewrite" => redirect(only),
            _ => None,
        };
        let Some(reply) = answer else {
            self.keep_out(directive);
            return (Grade::Lost, "of `if`, only `return` and redirects are taken over".to_owned());
        };
        let is_forwarded = directive.args.iter().any(|word| word.contains("$http_x_forwarded_"));
        for condition in conditions {
            let (place, text) = (directive.place.clone(), directive.text());
            self.checks.push(Check { condition, reply: reply.clone(), place, text });
        }
        if is_forwarded {
            let about = "the field counts from `trusted_proxies` alone: write there who sends it";
            return (Grade::Near, about.to_owned());
        }
        (Grade::Exact, String::new())
    }

    /// Conditions on the scheme, where it is known: they hold or they do not.
    pub(super) fn know_scheme(&mut self, scheme: &str) {
        let mut checks = Vec::new();
        for check in std::mem::take(&mut self.checks) {
            match &check.condition.test {
                Test::Scheme(wanted) if (wanted == scheme) != check.condition.negated => {
                    self.action = Some(Action::Return(check.reply.0, check.reply.1));
                    self.place = check.place;
                    break;
                }
                Test::Scheme(_) => {}
                _ => checks.push(check),
            }
        }
        self.checks = checks;
    }

    /// The conditions of an `if`, each of which is enough.
    fn conditions(&self, words: &[String]) -> Result<Vec<Condition>, String> {
        let name = words.first().map_or("", |word| word.trim_start_matches('(').trim_end_matches(')'));
        let Some(choice) = name.strip_prefix('$').and_then(|name| self.maps.get(name)) else {
            return Condition::parse(words, &self.set).map(|condition| vec![condition]);
        };
        let words: Vec<&str> = words.iter().map(|word| word.trim_end_matches(')')).collect();
        let asked = match words.as_slice() {
            [_] => Asked::True,
            [_, "="] => Asked::Equal(""),
            [_, "!="] => Asked::Unequal(""),
            [_, "=", value, ..] => Asked::Equal(value),
            [_, "!=", value, ..] => Asked::Unequal(value),
            _ => return Err("its condition on a variable of `map` is not understood".to_owned()),
        };
        choice.conditions(&asked)
    }

    /// `limit_except` with `deny all`.
    fn except(&mut self, directive: &Directive) -> Option<(Grade, String)> {
        let [only] = directive.children() else { return None };
        if only.name != "deny" || only.arg() != "all" {
            return None;
        }
        let mut methods = directive.args.clone();
        if methods.iter().any(|method| method == "GET") && !methods.iter().any(|method| method == "HEAD") {
            methods.push("HEAD".to_owned());
        }
        let test = Test::Request(Conditions { methods, ..Conditions::default() });
        let condition = Condition { negated: true, test };
        let (place, text) = (directive.place.clone(), directive.text());
        self.checks.push(Check { condition, reply: (403, String::new()), place, text });
        Some((Grade::Exact, String::new()))
    }
}

/// Directives that keep requests out: without them, nothing may pass.
const KEEPS_OUT: &[&str] = &[
    "access_by_lua_block",
    "access_by_lua_file",
    "allow",
    "auth_digest",
    "auth_jwt",
    "deny",
    "limit_except",
    "secure_link",
    "secure_link_md5",
    "valid_referers",
];

/// Status and text of a `return`.
fn reply(directive: &Directive) -> Option<(u16, String)> {
    match directive.args.as_slice() {
        [only] => Some(match only.parse::<u16>() {
            Ok(status) => (status, String::new()),
            Err(_) => (302, only.clone()),
        }),
        [status, text] => Some((status.parse().ok()?, text.clone())),
        _ => None,
    }
}

/// A `rewrite` of everything that is a redirect.
fn redirect(directive: &Directive) -> Option<(u16, String)> {
    let [searched, to, rest @ ..] = directive.args.as_slice() else { return None };
    if !matches!(searched.as_str(), "^" | ".*" | "^.*" | "^.*$" | "(.*)" | "^(.*)$" | "^/(.*)$" | "^/?(.*)$")
    {
        return None;
    }
    let status = match rest.first().map(String::as_str) {
        Some("permanent") => 301,
        Some("redirect") => 302,
        _ if to.starts_with("http") => 302,
        _ => return None,
    };
    let group = if searched.contains('/') { "/$1" } else { "$1" };
    let text = match to.strip_suffix(group) {
        Some(before) => format!("{before}$request_uri"),
        None if is_constant(to) || to.ends_with("$request_uri") => to.clone(),
        None => return None,
    };
    Some((status, text.trim_end_matches('?').to_owned()))
}

fn try_files(args: &[String]) -> (Grade, String) {
    let has_directory = args.iter().any(|arg| arg == "$uri/");
    match args.last().map(String::as_str) {
        Some(last) if last.contains(".php") => {
            (Grade::Lost, "the script at its end cannot be run; what is no file is answered 404".to_owned())
        }
        _ if !has_directory => {
            let about = "a directory with an index is served, which nginx would not do without `$uri/`";
            (Grade::Near, about.to_owned())
        }
        _ => (Grade::Exact, String::new()),
    }
}

fn is_handler(name: &str) -> bool {
    matches!(
        name,
        "stub_status"
            | "dav_methods"
            | "empty_gif"
            | "flv"
            | "mp4"
            | "random_index"
            | "perl"
            | "js_content"
            | "mirror"
            | "image_filter"
            | "slice"
    )
}

/// Notes a directive that no block takes over.
pub(super) fn note_rest(directive: &Directive, report: &mut Report, concerns: &str) {
    let (grade, about) = match known(&directive.name) {
        Some((grade, about)) => (grade, about.to_owned()),
        None => (Grade::Lost, format!("`{}` has no counterpart that this importer knows", directive.name)),
    };
    let concerns = if grade == Grade::Exact { "" } else { concerns };
    report.note(&directive.place, directive.text(), grade, about, concerns);
    for inner in directive.children() {
        if grade == Grade::Lost {
            note_rest(inner, report, concerns);
        }
    }
}
