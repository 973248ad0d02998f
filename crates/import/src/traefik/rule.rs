//! Rules of routers: the expression, and the alternatives that it comes to.

/// Most alternatives of a rule.
const ALTERNATIVES: usize = 200;
/// Deepest nesting of brackets.
const DEPTH: usize = 60;

/// One call in a rule, `Host(`a.example`)`, or what it says negated.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) negated: bool,
}

/// An expression.
#[derive(Clone, Debug)]
enum Tree {
    Call(Call),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
}

/// The alternatives of a rule, each with all that must hold.
///
/// # Errors
/// A sentence: it is no rule, or too large.
pub(super) fn alternatives(rule: &str, is_v2: bool) -> Result<Vec<Vec<Call>>, String> {
    let mut parser = Parser { rest: rule.trim_start(), depth: 0, is_v2 };
    let tree = parser.or()?;
    if !parser.rest.is_empty() {
        return Err(format!("`{}` is not understood", parser.rest));
    }
    flatten(&tree)
}

fn flatten(tree: &Tree) -> Result<Vec<Vec<Call>>, String> {
    let too_many = || format!("its rule has more than {ALTERNATIVES} alternatives");
    let made = match tree {
        Tree::Call(call) => vec![vec![call.clone()]],
        Tree::Or(left, right) => [flatten(left)?, flatten(right)?].concat(),
        Tree::And(left, right) => {
            let (left, right) = (flatten(left)?, flatten(right)?);
            if left.len().saturating_mul(right.len()) > ALTERNATIVES {
                return Err(too_many());
            }
            left.iter().flat_map(|a| right.iter().map(move |b| [a.as_slice(), b].concat())).collect()
        }
    };
    if made.len() > ALTERNATIVES { Err(too_many()) } else { Ok(made) }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
    is_v2: bool,
}

impl Parser<'_> {
    fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn or(&mut self) -> Result<Tree, String> {
        let mut left = self.and()?;
        while self.eat("||") {
            left = Tree::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Tree, String> {
        let mut left = self.unary()?;
        while self.eat("&&") {
            left = Tree::And(Box::new(left), Box::new(self.unary()?));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Tree, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("its rule is nested too deeply".to_owned());
        }
        let made = if self.eat("!") {
            inverted(self.unary()?)
        } else if self.eat("(") {
            let inner = self.or()?;
            if !self.eat(")") {
                return Err("a bracket of its rule is not closed".to_owned());
            }
            inner
        } else {
            self.call()?
        };
        self.depth -= 1;
        Ok(made)
    }

    fn call(&mut self) -> Result<Tree, String> {
        let end = self.rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        let name = name.to_owned();
        self.rest = rest.trim_start();
        if name.is_empty() || !self.eat("(") {
            return Err(format!("`{}` of its rule is not understood", self.rest));
        }
        let mut args = Vec::new();
        while !self.eat(")") {
            let quote = self.rest.chars().next().filter(|letter| matches!(letter, '`' | '"' | '\''));
            let Some(quote) = quote else { return Err(format!("`{name}` of its rule has no text")) };
            let inner = &self.rest[1..];
            let Some(end) = inner.find(quote) else { return Err("a quote of its rule is open".to_owned()) };
            let text = &inner[..end];
            args.push(if quote == '"' { text.replace("\\\\", "\\") } else { text.to_owned() });
            self.rest = inner[end + 1..].trim_start();
            self.eat(",");
        }
        if args.is_empty() {
            return Err(format!("`{name}` of its rule has no text"));
        }
        Ok(self.spread(&name, args))
    }

    /// One call for each text, where several are alternatives.
    fn spread(&self, name: &str, args: Vec<String>) -> Tree {
        let one =
            |args: Vec<String>| Tree::Call(Call { name: name.to_ascii_lowercase(), args, negated: false });
        let is_pair = matches!(
            name.to_ascii_lowercase().as_str(),
            "header" | "headers" | "headerregexp" | "headersregexp"
        ) || (!self.is_v2 && name.to_ascii_lowercase().starts_with("query"));
        if is_pair || args.len() == 1 {
            return one(args);
        }
        // `Query` of version 2 wants all of its texts, the others one of theirs.
        let is_all = name.eq_ignore_ascii_case("query");
        let mut made = args.into_iter().map(|arg| one(vec![arg]));
        let first = made.next().unwrap_or_else(|| one(Vec::new()));
        made.fold(first, |left, right| match is_all {
            true => Tree::And(Box::new(left), Box::new(right)),
            false => Tree::Or(Box::new(left), Box::new(right)),
        })
    }
}

fn inverted(tree: Tree) -> Tree {
    match tree {
        Tree::Call(call) => Tree::Call(Call { negated: !call.negated, ..call }),
        Tree::And(left, right) => Tree::Or(Box::new(inverted(*left)), Box::new(inverted(*right))),
        Tree::Or(left, right) => Tree::And(Box::new(inverted(*left)), Box::new(inverted(*right))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rule: &str) -> String {
        let made = alternatives(rule, false).unwrap();
        let all = |calls: &Vec<Call>| {
            let call =
                |it: &Call| format!("{}{} {}", if it.negated { "!" } else { "" }, it.name, it.args.join(","));
            calls.iter().map(call).collect::<Vec<_>>().join(" & ")
        };
        made.iter().map(all).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn rules_become_alternatives() {
        for (rule, expected) in [
            ("Host(`a`) && (Path(`/x`) || Path(`/y`))", "host a & path /x | host a & path /y"),
            ("Host(`a`, `b`)", "host a | host b"),
            ("!(Host(`a`) || Method(`GET`))", "!host a & !method GET"),
            ("Header(`X`, `1`)||Query(`a`,`b`)", "header X,1 | query a,b"),
        ] {
            assert_eq!(told(rule), expected, "{rule}");
        }
        assert_eq!(alternatives("Query(`a=1`, `b=2`)", true).unwrap()[0].len(), 2);
        for wrong in ["Host(", "Host()", "Host(`a`", "Host(`a`) &&", "a b", &"(".repeat(100)] {
            assert!(alternatives(wrong, false).is_err(), "{wrong}");
        }
    }
}
