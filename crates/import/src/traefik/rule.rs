//! Rules of routers, of Traefik 2 and 3: `Host(…) && (PathPrefix(…) || !Method(…))`, as a list of alternatives.

use super::condition::{Condition, Path, host, network_list};
use crate::pattern::whole;
use crate::yaml::{Map, one};

/// Alternatives that a rule may come to.
const ALTERNATIVES: usize = 64;
/// Brackets within each other.
const DEPTH: usize = 32;

/// One alternative of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Alternative {
    pub(super) is: Condition,
    /// None of these holds.
    pub(super) not: Vec<Condition>,
}

/// A rule, taken apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Rule {
    pub(super) alternatives: Vec<Alternative>,
    /// What is a little different.
    pub(super) near: Vec<String>,
    /// What cannot be said: requests that fulfil the rest of the rule are refused.
    pub(super) lost: Vec<String>,
}

/// A rule as a tree.
#[derive(Clone, Debug)]
enum Tree {
    And(Vec<Tree>),
    Or(Vec<Tree>),
    Not(Box<Tree>),
    Is(Box<Condition>),
    /// Not understood: taken as fulfilled.
    Unknown,
}

/// Takes a rule apart.
pub(super) fn rule(text: &str) -> Rule {
    let mut rule = Rule::default();
    let mut parser = Parser { rest: text, rule: &mut rule, depth: 0 };
    let tree = match parser.or() {
        Ok(tree) if parser.rest.trim().is_empty() => tree,
        Ok(_) => {
            let rest = parser.rest.trim().to_owned();
            rule.lost.push(format!("`{rest}` is not understood"));
            Tree::Unknown
        }
        Err(about) => {
            rule.lost.push(about);
            Tree::Unknown
        }
    };
    let found = spread(&tree, false).and_then(|parts| parts.iter().map(joined).collect());
    match found {
        Ok::<Vec<Option<Alternative>>, String>(found) => {
            rule.alternatives = found.into_iter().flatten().collect()
        }
        Err(about) => {
            rule.lost.push(about);
            rule.alternatives = vec![Alternative::default()];
        }
    }
    merge(&mut rule.alternatives);
    rule
}

/// Atoms that hold together; negated ones have `true`.
type Part = Vec<(bool, Condition)>;

/// A tree as alternatives.
fn spread(tree: &Tree, negated: bool) -> Result<Vec<Part>, String> {
    let found = match (tree, negated) {
        (Tree::Not(inner), _) => spread(inner, !negated)?,
        (Tree::Unknown, _) => vec![Vec::new()],
        (Tree::Is(condition), _) => vec![vec![(negated, (**condition).clone())]],
        (Tree::Or(parts), false) | (Tree::And(parts), true) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(spread(part, negated)?);
            }
            all
        }
        (Tree::And(parts), false) | (Tree::Or(parts), true) => {
            let mut all: Vec<Part> = vec![Vec::new()];
            for part in parts {
                let next = spread(part, negated)?;
                if all.len() * next.len() > ALTERNATIVES {
                    return Err(format!("it has more than {ALTERNATIVES} alternatives"));
                }
                all = all
                    .iter()
                    .flat_map(|one| next.iter().map(|two| [one.clone(), two.clone()].concat()))
                    .collect();
            }
            all
        }
    };
    Ok(found)
}

/// One alternative; `None`: nothing fulfils it.
fn joined(part: &Part) -> Result<Option<Alternative>, String> {
    let mut found = Alternative::default();
    for (negated, condition) in part {
        if *negated {
            found.not.push(condition.clone());
            continue;
        }
        match found.is.and(condition)? {
            Some(both) => found.is = both,
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// Alternatives that differ in their hosts alone become one.
fn merge(all: &mut Vec<Alternative>) {
    let mut kept: Vec<Alternative> = Vec::new();
    for next in all.drain(..) {
        let same = kept.iter_mut().find(|known| {
            let bare = |it: &Alternative| {
                let mut it = it.clone();
                it.is.hosts.clear();
                it
            };
            let named = |it: &Alternative| {
                !it.is.hosts.is_empty() && it.is.hosts.iter().all(|host| !host.contains('*'))
            };
            named(known) && named(&next) && bare(known) == bare(&next)
        });
        match same {
            Some(known) => known.is.hosts.extend(next.is.hosts),
            None => kept.push(next),
        }
    }
    *all = kept;
}

struct Parser<'a> {
    rest: &'a str,
    rule: &'a mut Rule,
    depth: usize,
}

impl Parser<'_> {
    fn takes(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(word) {
            Some(behind) => {
                self.rest = behind;
                true
            }
            None => false,
        }
    }

    fn or(&mut self) -> Result<Tree, String> {
        let mut parts = vec![self.and()?];
        while self.takes("||") {
            parts.push(self.and()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Tree::Or(parts) })
    }

    fn and(&mut self) -> Result<Tree, String> {
        let mut parts = vec![self.one()?];
        while self.takes("&&") {
            parts.push(self.one()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Tree::And(parts) })
    }

    fn one(&mut self) -> Result<Tree, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("it has more than {DEPTH} brackets within each other"));
        }
        let tree = if self.takes("!") {
            Tree::Not(Box::new(self.one()?))
        } else if self.takes("(") {
            let tree = self.or()?;
            if !self.takes(")") {
                return Err("a bracket is not closed".to_owned());
            }
            tree
        } else {
            self.matcher()?
        };
        self.depth -= 1;
        Ok(tree)
    }

    fn matcher(&mut self) -> Result<Tree, String> {
        let rest = self.rest.trim_start();
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        self.rest = behind;
        if name.is_empty() || !self.takes("(") {
            return Err(format!("`{rest}` is not understood"));
        }
        let mut args = Vec::new();
        while !self.takes(")") {
            args.push(self.text()?);
            self.takes(",");
        }
        match self.atom(name, &args) {
            Ok(tree) => Ok(tree),
            Err(about) => {
                self.rule.lost.push(about);
                Ok(Tree::Unknown)
            }
        }
    }

    fn text(&mut self) -> Result<String, String> {
        let rest = self.rest.trim_start();
        let quote = rest.chars().next().filter(|letter| matches!(letter, '`' | '"' | '\''));
        let Some(quote) = quote else { return Err("an argument is not quoted".to_owned()) };
        let Some((text, behind)) = rest[1..].split_once(quote) else {
            return Err("a quote is not closed".to_owned());
        };
        self.rest = behind;
        Ok(if quote == '"' { text.replace("\\\\", "\\") } else { text.to_owned() })
    }

    /// A matcher as conditions, of which one must hold.
    fn atom(&mut self, name: &str, args: &[String]) -> Result<Tree, String> {
        let each = |make: &dyn Fn(&str) -> Result<Condition, String>| -> Result<Tree, String> {
            let found: Result<Vec<Tree>, String> =
                args.iter().map(|arg| Ok(Tree::Is(Box::new(make(arg)?)))).collect();
            let mut found = found?;
            match found.len() {
                0 => Err(format!("`{name}` has no argument")),
                1 => Ok(found.remove(0)),
                _ => Ok(Tree::Or(found)),
            }
        };
        match name {
            "Host" | "HostHeader" => self.host(args),
            "HostRegexp" => self.host_regexp(args),
            "Path" => each(&|arg| path(arg, false)),
            "PathPrefix" => each(&|arg| path(arg, true)),
            "PathRegexp" => each(&|arg| Ok(Condition::of(Path::Regex(whole(arg, false)?.text)))),
            "Method" => {
                let methods: Vec<String> = args.iter().map(|arg| arg.to_ascii_uppercase()).collect();
                Ok(Tree::Is(Box::new(Condition { methods, ..Condition::default() })))
            }
            "ClientIP" => {
                let client =
                    network_list(args).ok_or_else(|| format!("`{}` is not a network", args.join(", ")))?;
                Ok(Tree::Is(Box::new(Condition { client, ..Condition::default() })))
            }
            // The name of the host is no field to Traefik: nothing fits.
            "Header" | "Headers" | "HeaderRegexp" | "HeadersRegexp"
                if args.first().is_some_and(|it| it.eq_ignore_ascii_case("host")) =>
            {
                Ok(Tree::Or(Vec::new()))
            }
            "Header" | "Headers" => {
                let [key, value] = args else { return Err(format!("`{name}` takes a name and a value")) };
                Ok(fields(one(&key.to_ascii_lowercase(), value.as_str())))
            }
            "HeaderRegexp" | "HeadersRegexp" => {
                let [key, value] = args else { return Err(format!("`{name}` takes a name and a value")) };
                Ok(fields(one(&key.to_ascii_lowercase(), one("regex", whole(value, false)?.text))))
            }
            "Query" | "QueryRegexp" => query(name, args),
            _ => Err(format!("`{name}` has no counterpart")),
        }
    }

    fn host(&mut self, args: &[String]) -> Result<Tree, String> {
        let mut found = Vec::new();
        for arg in args {
            let name = arg.trim_end_matches('.').to_ascii_lowercase();
            let is_plain = !name.is_empty() && !name.trim_start_matches("*.").contains('*');
            if name != "*" && !is_plain {
                return Err(format!("`{arg}` is no name of a host"));
            }
            if name.starts_with("*.") {
                let about =
                    format!("`{arg}` takes names of one label below; here it takes those of several too");
                self.rule.near.push(about);
            }
            let hosts = if name == "*" { Vec::new() } else { vec![name] };
            found.push(Tree::Is(Box::new(Condition { hosts, ..Condition::default() })));
        }
        match found.len() {
            0 => Err("`Host` has no argument".to_owned()),
            1 => Ok(found.remove(0)),
            _ => Ok(Tree::Or(found)),
        }
    }

    fn host_regexp(&mut self, args: &[String]) -> Result<Tree, String> {
        let mut found = Vec::new();
        for arg in args {
            let (hosts, is_exact) = host(arg).ok_or_else(|| {
                format!("HostRegexp(`{arg}`): hosts are named, or are all names below a domain")
            })?;
            if !is_exact {
                self.rule
                    .near
                    .push(format!("`{arg}` becomes {}, which takes every name below", hosts.join(", ")));
            }
            let hosts = if hosts == ["*"] { Vec::new() } else { hosts };
            found.push(Tree::Is(Box::new(Condition { hosts, ..Condition::default() })));
        }
        Ok(if found.len() == 1 { found.remove(0) } else { Tree::Or(found) })
    }
}

fn fields(headers: Map) -> Tree {
    Tree::Is(Box::new(Condition { headers, ..Condition::default() }))
}

fn query(name: &str, args: &[String]) -> Result<Tree, String> {
    let pairs: Vec<(String, String)> = match args {
        // Traefik 2 writes `a=b`.
        args if args.iter().all(|arg| arg.contains('=')) && !args.is_empty() => args
            .iter()
            .filter_map(|arg| arg.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        [key] => vec![(key.clone(), String::new())],
        [key, value] => vec![(key.clone(), value.clone())],
        _ => return Err(format!("`{name}` takes a name and a value")),
    };
    let mut all = Vec::new();
    for (key, value) in pairs {
        let query = match name {
            "Query" => one(&key, value),
            _ => one(&key, one("regex", whole(&value, false)?.text)),
        };
        all.push(Tree::Is(Box::new(Condition { query, ..Condition::default() })));
    }
    Ok(if all.len() == 1 { all.remove(0) } else { Tree::And(all) })
}

/// `Path` and `PathPrefix`, with `{name:regex}` of Traefik 2.
fn path(text: &str, is_prefix: bool) -> Result<Condition, String> {
    if !text.contains('{') {
        return Ok(Condition::of(match is_prefix {
            true if text == "/" || text.is_empty() => Path::All,
            true => Path::Prefix(text.to_owned()),
            false => Path::Exact(text.to_owned()),
        }));
    }
    let regex = super::condition::template(text, "[^/]+");
    let end = if is_prefix { "" } else { "$" };
    Ok(Condition::of(Path::Regex(whole(&format!("^{regex}{end}"), false)?.text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_become_alternatives() {
        let found = rule("(Host(`a.example`) || Host(`b.example`)) && PathPrefix(`/x`) && !Method(`POST`)");
        assert_eq!((found.alternatives.len(), found.lost.len()), (1, 0), "{found:?}");
        let it = &found.alternatives[0];
        assert_eq!(it.is.hosts, ["a.example", "b.example"]);
        assert_eq!(it.is.path, Path::Prefix("/x".into()));
        assert_eq!(it.not[0].methods, ["POST"]);
    }

    #[test]
    fn what_is_not_understood_is_lost_and_the_rest_stays() {
        let found = rule("Host(`a.example`) && Weather(`rain`)");
        assert_eq!(found.lost, ["`Weather` has no counterpart"]);
        assert_eq!(found.alternatives[0].is.hosts, ["a.example"]);
        assert_eq!(rule("Host(`a`").lost.len(), 1);
        assert_eq!(rule("Host(`a`) Host(`b`)").lost.len(), 1);
    }

    #[test]
    fn a_wildcard_of_one_label_is_told() {
        let found = rule("Host(`*.a.example`)");
        assert_eq!((found.near.len(), found.alternatives[0].is.hosts.join(",").as_str()), (1, "*.a.example"));
        assert!(rule("Host(`*`)").alternatives[0].is.hosts.is_empty());
        assert_eq!(rule("Host(`a*.example`)").lost.len(), 1);
    }

    #[test]
    fn contradictions_take_nothing() {
        assert!(rule("Host(`a`) && Host(`b`)").alternatives.is_empty());
        assert!(rule("Header(`Host`, `a`)").alternatives.is_empty());
    }
}
