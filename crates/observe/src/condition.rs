//! Which exchanges are wanted: `status>=500 or latency>1s`. Parsed by the admin API and by the command line, evaluated
//! on workers at the end of an exchange.
//!
//! ```text
//! condition  = all *( ( "or" / "||" ) all )
//! all        = term *( ( "and" / "&&" ) term )
//! term       = ( "not" / "!" ) term / "(" condition ")" / comparison
//! comparison = field operator value
//! value      = a word without space, parentheses, `&&` and `||`, or text in ' or "
//! ```
//!
//! A field that an exchange does not have is empty text: `user!=''` finds those with a user. Invariants: a condition
//! has at most [`MOST_COMPARISONS`] comparisons and [`MOST_DEPTH`] levels, and evaluating it allocates nothing.

mod parse;
mod pattern;

pub use parse::{ConditionError, MOST_COMPARISONS, MOST_DEPTH, MOST_TEXT};

use std::borrow::Cow;
use std::net::IpAddr;

use pattern::{Network, Pattern};

/// What is known of an exchange.
pub trait Facts {
    /// A number; of `latency` in microseconds, of bytes in bytes.
    fn number(&self, field: NumberField) -> u64;
    /// A text; empty where there is none.
    fn text(&self, field: TextField) -> Cow<'_, [u8]>;
    /// The client, seen through trusted proxies.
    fn client_ip(&self) -> IpAddr;
}

/// A field that holds a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NumberField {
    /// The status that the client got; 0 when there was none.
    Status,
    /// From the first byte of the request to the last one of the response.
    Latency,
    /// How many attempts there were.
    Attempts,
    /// Bytes of the request's body.
    BytesIn,
    /// Bytes of the response's body.
    BytesOut,
}

/// A field that holds text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TextField {
    /// The method.
    Method,
    /// Host and port that the client named, in normal form.
    Host,
    /// The path in normal form.
    Path,
    /// Name of the route.
    Route,
    /// Name of the service.
    Service,
    /// URL of the endpoint of the last attempt.
    Endpoint,
    /// Who the client is, as a filter has verified it.
    User,
    /// Why the proxy could not do what was asked.
    Fault,
    /// `HTTP/1.1`, `HTTP/2.0`; empty for a connection.
    Proto,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Field {
    Number(NumberField),
    Text(TextField),
    ClientIp,
}

/// Every field, by its name.
const FIELDS: &[(&str, Field)] = &[
    ("status", Field::Number(NumberField::Status)),
    ("latency", Field::Number(NumberField::Latency)),
    ("method", Field::Text(TextField::Method)),
    ("host", Field::Text(TextField::Host)),
    ("path", Field::Text(TextField::Path)),
    ("route", Field::Text(TextField::Route)),
    ("service", Field::Text(TextField::Service)),
    ("endpoint", Field::Text(TextField::Endpoint)),
    ("client_ip", Field::ClientIp),
    ("user", Field::Text(TextField::User)),
    ("fault", Field::Text(TextField::Fault)),
    ("attempts", Field::Number(NumberField::Attempts)),
    ("bytes_in", Field::Number(NumberField::BytesIn)),
    ("bytes_out", Field::Number(NumberField::BytesOut)),
    ("proto", Field::Text(TextField::Proto)),
];

/// Which exchanges are wanted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Condition(Node);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Node {
    Any(Vec<Node>),
    All(Vec<Node>),
    Not(Box<Node>),
    Number(NumberField, Order, u64),
    /// From the first to the second, both included: `status=5xx`.
    Within(NumberField, u64, u64),
    Text(TextField, Pattern),
    ClientIp(Network),
}

/// How numbers are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Order {
    Equal,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// What is wrong, where, and what could be written instead.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        parse::parse(text).map(Self)
    }

    /// Whether an exchange is one of those that are wanted.
    pub fn holds(&self, facts: &impl Facts) -> bool {
        self.0.holds(facts)
    }
}

impl Node {
    fn holds(&self, facts: &impl Facts) -> bool {
        match self {
            Self::Any(nodes) => nodes.iter().any(|node| node.holds(facts)),
            Self::All(nodes) => nodes.iter().all(|node| node.holds(facts)),
            Self::Not(node) => !node.holds(facts),
            Self::Number(field, order, wanted) => order.holds(facts.number(*field), *wanted),
            Self::Within(field, least, most) => (*least..=*most).contains(&facts.number(*field)),
            Self::Text(field, pattern) => pattern.matches(&facts.text(*field)),
            Self::ClientIp(network) => network.contains(facts.client_ip()),
        }
    }
}

impl Order {
    fn holds(self, found: u64, wanted: u64) -> bool {
        match self {
            Self::Equal => found == wanted,
            Self::Less => found < wanted,
            Self::AtMost => found <= wanted,
            Self::More => found > wanted,
            Self::AtLeast => found >= wanted,
        }
    }
}

#[cfg(test)]
mod tests;
