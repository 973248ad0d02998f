//! Text to condition, with mistakes that point at their place.

use std::fmt;

use thalweg_core::FaultKind;
use thalweg_core::units::{parse_duration, parse_size};

use super::pattern::{Network, Pattern};
use super::{FIELDS, Field, Node, NumberField, Order, TextField};

/// Longest text of a condition, in bytes.
pub const MOST_TEXT: usize = 1024;
/// Most comparisons of a condition.
pub const MOST_COMPARISONS: usize = 64;
/// Most levels of parentheses and `not`.
pub const MOST_DEPTH: usize = 32;

/// Operators, longer ones first.
const OPERATORS: &[(&str, Operator)] = &[
    ("!=", Operator::NotEqual),
    ("!~", Operator::NotLike),
    ("<=", Operator::Ordered(Order::AtMost)),
    (">=", Operator::Ordered(Order::AtLeast)),
    ("==", Operator::Ordered(Order::Equal)),
    ("=", Operator::Ordered(Order::Equal)),
    ("<", Operator::Ordered(Order::Less)),
    (">", Operator::Ordered(Order::More)),
    ("~", Operator::Like),
];

/// What is wrong with a condition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConditionError {
    /// The condition.
    text: String,
    /// The byte at which the mistake begins, and its length in bytes.
    at: usize,
    len: usize,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What could be written instead.
    pub help: Option<String>,
}

impl ConditionError {
    /// The place of the mistake, counted in characters from 1.
    pub fn column(&self) -> usize {
        self.text.get(..self.at).map_or(1, |before| before.chars().count() + 1)
    }
}

/// The sentence, the condition, and a caret below the mistake.
impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = plain(&self.text);
        let marked = self.text.get(self.at..self.at + self.len).map_or(0, |marked| marked.chars().count());
        let (before, carets) = (" ".repeat(self.column() - 1), "^".repeat(marked.max(1)));
        write!(f, "{}\n  {text}\n  {before}{carets}", self.message)
    }
}

impl std::error::Error for ConditionError {}

/// Text that does nothing to a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Operator {
    Ordered(Order),
    NotEqual,
    Like,
    NotLike,
}

/// Where the reader is.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    comparisons: usize,
}

/// A mistake before the text is known to be wrong as a whole.
type Step<T> = Result<T, ConditionError>;

pub(super) fn parse(text: &str) -> Step<Node> {
    let mut reader = Reader { text, at: 0, comparisons: 0 };
    if text.len() > MOST_TEXT {
        // The text itself is not repeated.
        let reader = Reader { text: "", at: 0, comparisons: 0 };
        return Err(reader.wrong(0, format!("the condition is longer than {MOST_TEXT} bytes")));
    }
    let node = reader.any(0)?;
    reader.skip_space();
    if reader.at < text.len() {
        let len = reader.rest().chars().next().map_or(1, char::len_utf8);
        let message = match reader.rest().starts_with(')') {
            true => "a parenthesis is closed that was not opened",
            false => "`and` or `or` is missing here",
        };
        return Err(reader.wrong(len, message));
    }
    Ok(node)
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// A mistake of `len` bytes from here on.
    fn wrong(&self, len: usize, message: impl Into<String>) -> ConditionError {
        self.wrong_at(self.at, len, message)
    }

    fn wrong_at(&self, at: usize, len: usize, message: impl Into<String>) -> ConditionError {
        let message = plain(&message.into());
        ConditionError { text: self.text.to_owned(), at, len, message, help: None }
    }

    /// Takes a word such as `and`, in any case, or the sign that stands for it.
    fn takes(&mut self, word: &str, sign: &str) -> bool {
        self.skip_space();
        let rest = self.rest();
        if rest.starts_with(sign) {
            self.at += sign.len();
            return true;
        }
        let is_word = rest.get(..word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word));
        let ends = rest.get(word.len()..).is_some_and(|behind| !behind.starts_with(is_of_name));
        if is_word && ends {
            self.at += word.len();
        }
        is_word && ends
    }

    fn any(&mut self, depth: usize) -> Step<Node> {
        let mut nodes = vec![self.all(depth)?];
        while self.takes("or", "||") {
            nodes.push(self.all(depth)?);
        }
        Ok(joined(nodes, Node::Any))
    }

    fn all(&mut self, depth: usize) -> Step<Node> {
        let mut nodes = vec![self.term(depth)?];
        while self.takes("and", "&&") {
            nodes.push(self.term(depth)?);
        }
        Ok(joined(nodes, Node::All))
    }

    fn term(&mut self, depth: usize) -> Step<Node> {
        self.skip_space();
        if depth > MOST_DEPTH {
            return Err(self.wrong(1, format!("more than {MOST_DEPTH} levels of parentheses and `not`")));
        }
        let opened = self.at;
        if self.rest().starts_with('(') {
            self.at += 1;
            let node = self.any(depth + 1)?;
            self.skip_space();
            if !self.rest().starts_with(')') {
                return Err(self.wrong_at(opened, 1, "the parenthesis that opens here is not closed"));
            }
            self.at += 1;
            return Ok(node);
        }
        // A field is never called `not`.
        if self.takes("not", "!") {
            return Ok(Node::Not(Box::new(self.term(depth + 1)?)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Step<Node> {
        let (field, name) = self.field()?;
        self.comparisons += 1;
        if self.comparisons > MOST_COMPARISONS {
            return Err(self.wrong(1, format!("more than {MOST_COMPARISONS} comparisons")));
        }
        self.skip_space();
        let place = self.at;
        let found = OPERATORS.iter().find(|(sign, _)| self.rest().starts_with(sign));
        let Some((sign, operator)) = found else {
            let mut error = self.wrong(1, format!("an operator is missing behind `{name}`"));
            error.help = Some("operators are = != < <= > >= ~ (contains, or with `*` matches) and !~".into());
            return Err(error);
        };
        self.at += sign.len();
        let (value, began, len) = self.value(name)?;
        let node = match field {
            Field::Number(field) => number(field, *operator, &value),
            Field::Text(field) => text(field, *operator, &value),
            Field::ClientIp => client_ip(*operator, &value),
        };
        node.map_err(|flaw| match flaw {
            Flaw::Operator(help) => {
                let message = format!("`{name}` cannot be compared with `{sign}`");
                ConditionError { help: Some(help.into()), ..self.wrong_at(place, sign.len(), message) }
            }
            Flaw::Value(message) => self.wrong_at(began, len, message),
        })
    }

    fn field(&mut self) -> Step<(Field, &'a str)> {
        let rest = self.rest();
        let name = &rest[..rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())];
        let found = FIELDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let Some((name, field)) = found else {
            let message = match name.is_empty() {
                true => "a comparison is missing here".to_owned(),
                false => format!("`{name}` is not a field"),
            };
            let names: Vec<_> = FIELDS.iter().map(|(name, _)| *name).collect();
            let help = format!("fields are {}", names.join(", "));
            return Err(ConditionError { help: Some(help), ..self.wrong(name.len(), message) });
        };
        self.at += name.len();
        Ok((*field, name))
    }

    /// The text of a value, and where it stands.
    fn value(&mut self, name: &str) -> Step<(String, usize, usize)> {
        self.skip_space();
        let (began, rest) = (self.at, self.rest());
        if let Some(quote) = rest.chars().next().filter(|c| ['\'', '"'].contains(c)) {
            let Some(end) = rest[1..].find(quote) else {
                return Err(self.wrong(1, "the quotation mark that opens here is not closed"));
            };
            self.at += end + 2;
            return Ok((rest[1..=end].to_owned(), began, end + 2));
        }
        let ends = |c: char| c.is_whitespace() || ['(', ')'].contains(&c);
        let end = [rest.find(ends), rest.find("&&"), rest.find("||")].into_iter().flatten().min();
        let word = &rest[..end.unwrap_or(rest.len())];
        if word.is_empty() {
            return Err(self.wrong(1, format!("a value for `{name}` is missing; empty text is written ''")));
        }
        self.at += word.len();
        Ok((word.to_owned(), began, word.len()))
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn joined(mut nodes: Vec<Node>, of: impl Fn(Vec<Node>) -> Node) -> Node {
    match nodes.pop() {
        Some(only) if nodes.is_empty() => only,
        last => {
            nodes.extend(last);
            of(nodes)
        }
    }
}

/// What is wrong with a comparison.
enum Flaw {
    /// The operator; what could be used.
    Operator(&'static str),
    /// The value.
    Value(String),
}

fn number(field: NumberField, operator: Operator, value: &str) -> Result<Node, Flaw> {
    let (order, negated) = match operator {
        Operator::Ordered(order) => (order, false),
        Operator::NotEqual => (Order::Equal, true),
        Operator::Like | Operator::NotLike => return Err(Flaw::Operator("use = != < <= > or >=")),
    };
    let class = value.strip_suffix("xx").filter(|_| field == NumberField::Status);
    let node = match class.and_then(|class| class.parse::<u64>().ok()).filter(|class| (1..=5).contains(class))
    {
        Some(class) if order == Order::Equal => Node::Within(field, class * 100, class * 100 + 99),
        Some(_) => return Err(Flaw::Operator("a class of statuses such as `5xx` has = and !=")),
        None => Node::Number(field, order, amount(field, value).map_err(Flaw::Value)?),
    };
    Ok(negative(negated, node))
}

fn amount(field: NumberField, value: &str) -> Result<u64, String> {
    match field {
        NumberField::Latency => {
            parse_duration(value).map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
        }
        NumberField::BytesIn | NumberField::BytesOut => parse_size(value),
        NumberField::Status => match value.parse() {
            Ok(status) if status <= 999 => Ok(status),
            _ => Err(format!("`{value}` is not a status; write for example `503` or `5xx`")),
        },
        NumberField::Attempts => value.parse().map_err(|_| format!("`{value}` is not a whole number")),
    }
}

fn text(field: TextField, operator: Operator, value: &str) -> Result<Node, Flaw> {
    let exact = || match field {
        TextField::Method | TextField::Host | TextField::Proto => Pattern::AnyCase(value.as_bytes().into()),
        _ => Pattern::Exact(value.as_bytes().into()),
    };
    let (pattern, negated) = match operator {
        Operator::Ordered(Order::Equal) => (exact(), false),
        Operator::NotEqual => (exact(), true),
        Operator::Like => (Pattern::like(value), false),
        Operator::NotLike => (Pattern::like(value), true),
        Operator::Ordered(_) => return Err(Flaw::Operator("use = != ~ or !~")),
    };
    let is_exact = matches!(pattern, Pattern::Exact(_));
    let is_fault = |kind: &FaultKind| kind.name() == value;
    if field == TextField::Fault && is_exact && !value.is_empty() && !FaultKind::ALL.iter().any(is_fault) {
        let message = format!("`{value}` is not a kind of fault; `fault` of a record is one, '' is none");
        return Err(Flaw::Value(message));
    }
    Ok(negative(negated, Node::Text(field, pattern)))
}

fn client_ip(operator: Operator, value: &str) -> Result<Node, Flaw> {
    let negated = match operator {
        Operator::Ordered(Order::Equal) => false,
        Operator::NotEqual => true,
        _ => return Err(Flaw::Operator("use = or != with an address or a network such as `10.0.0.0/8`")),
    };
    let network = Network::parse(value).ok_or_else(|| {
        Flaw::Value(format!("`{value}` is not an address or network; write `192.0.2.7` or `10.0.0.0/8`"))
    })?;
    Ok(negative(negated, Node::ClientIp(network)))
}

fn negative(negated: bool, node: Node) -> Node {
    if negated { Node::Not(Box::new(node)) } else { node }
}
