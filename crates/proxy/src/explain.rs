//! Why a request goes where it goes: the first phases of an exchange, run on a question instead of a connection.
//!
//! `admit`, `find_route`, `filter_request` and what `forward` decides before it chooses an endpoint are called as they
//! are: nothing is decided here a second time. `trace` runs them and keeps what they decided; `narrate` puts it into an
//! [`Explanation`], with the reasons why other routes did not take the request. Called by `thalweg explain`, by `GET
//! /api/v1/explain`, and for the tests in a configuration; never by a worker.

mod caching;
mod conceal;
mod explanation;
mod narrate;
mod question;
mod text;
mod trace;
mod words;

pub use explanation::{
    Because, CacheSeen, EndpointSeen, Explanation, Failed, FilterStep, OtherRoute, Outcome, RetrySeen,
    RouteLimitsSeen, SealedSeen, SeenRequest, ServicePart, TakenRoute, TimeoutsSeen, ValueOrigin,
};
pub use question::{Question, Unaskable};
pub use trace::Verdict;

use crate::plan::Plan;

/// How an endpoint stands in the running proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointNow {
    /// In one word: `ready`, `ejected`, `draining` and so on.
    pub state: String,
    /// Why; empty where there is nothing to say.
    pub cause: String,
    /// Exchanges under way to it.
    pub in_flight: u64,
}

/// What the running proxy knows of the endpoint at a position of a service; `None` when it does not know it.
pub type Live<'a> = &'a dyn Fn(&str, usize) -> Option<EndpointNow>;

/// What becomes of the request, without reasons.
///
/// # Errors
/// When no client could send it to this plan.
pub fn decide(plan: &Plan, question: &Question) -> Result<Verdict, Unaskable> {
    Ok(trace::trace(plan, &question.write_request(plan)?).verdict(plan))
}

/// What becomes of the request, and why. Routes that its host or path excludes are listed up to a bound, the nearest
/// first; with `all`, every one.
///
/// # Errors
/// When no client could send it to this plan.
pub fn explain(
    plan: &Plan,
    question: &Question,
    all: bool,
    live: Option<Live<'_>>,
) -> Result<Explanation, Unaskable> {
    let trace = trace::trace(plan, &question.write_request(plan)?);
    let told = narrate::narrate(plan, question, &trace, (all, live));
    // A client may read the values that it has written, unless they are secrets.
    let asked = question
        .headers
        .iter()
        .map(|(_, value)| value.as_str())
        .fold(question.url.clone(), |all, value| format!("{all}\n{value}"));
    Ok(told.without(&plan.secrets.concealed.unless_named_in(&asked)))
}

/// Why a route does not take the request, in one sentence; `None` when it does, or when the request is refused before
/// routes are looked for.
///
/// # Errors
/// When no client could send it to this plan.
pub fn why_not(plan: &Plan, question: &Question, route: usize) -> Result<Option<String>, Unaskable> {
    Ok(narrate::why_not(plan, &trace::trace(plan, &question.write_request(plan)?), route))
}

#[cfg(test)]
mod tests;
