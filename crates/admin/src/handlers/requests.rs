//! Decision records of exchanges.

use axum::http::StatusCode;
use thalweg_core::RequestId;

use crate::control::service::rfc3339_text;
use crate::control::{RequestFilter, Requests};
use crate::operation::{ApiRequest, Handler, Operation, PLAIN, Pending, Reply, answer, json_of};
use crate::problem::Problem;
use crate::query::{Kind, Parameter};

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[
    Operation {
        id: "requests",
        path: "/api/v1/requests",
        summary: "Decision records: what was decided about the newest exchanges, and what came of it.",
        query: &[
            Parameter {
                name: "route",
                about: "Only those of the route with this name.",
                kind: Kind::Text(128),
            },
            Parameter {
                name: "service",
                about: "Only those of the service with this name.",
                kind: Kind::Text(128),
            },
            Parameter {
                name: "status",
                about: "Only those with this status: `503`, or `5xx`.",
                kind: Kind::Status,
            },
            Parameter {
                name: "fault",
                about: "Only those that ended, or had an attempt that ended, with this fault.",
                kind: Kind::Fault,
            },
            Parameter {
                name: "slower_than",
                about: "Only those that took as long or longer: `500ms`.",
                kind: Kind::Duration(SLOWER),
            },
            Parameter {
                name: "limit",
                about: "How many. Default 50, at most 1000.",
                kind: Kind::Count(LIMIT),
            },
        ],
        answers: &[answer(200, "The newest that fit, newest first.", json_of::<Requests>())],
        refusals: &[503],
        handler: Handler::Later(newest),
        ..PLAIN
    },
    Operation {
        id: "request",
        path: ONE,
        summary: "The decision records of one id; a trusted proxy may have given it to several exchanges.",
        answers: &[answer(200, "All that are remembered, newest first.", json_of::<Requests>())],
        refusals: &[404, 503],
        handler: Handler::Later(one),
        ..PLAIN
    },
];

/// The path of one.
pub(crate) const ONE: &str = "/api/v1/requests/{id}";
/// Most records that are shown.
pub(crate) const LIMIT: u64 = 1000;
/// Longest time that may be asked for, in seconds.
pub(crate) const SLOWER: u64 = 7 * 24 * 3600;
/// Records that are shown without `limit`.
const DEFAULT_LIMIT: u64 = 50;

pub(crate) fn newest(asked: ApiRequest) -> Pending {
    Box::pin(async move {
        let query = &asked.query;
        let filter = RequestFilter {
            id: None,
            route: query.text("route").map(str::to_owned),
            service: query.text("service").map(str::to_owned),
            status: query.statuses("status"),
            fault: query.fault("fault"),
            slower_than: query.duration("slower_than"),
            limit: count(query.number("limit").unwrap_or(DEFAULT_LIMIT)),
        };
        let found = asked.app.control.requests(filter).await.map_err(|refusal| asked.refused(refusal))?;
        Reply::json(StatusCode::OK, &found).done()
    })
}

pub(crate) fn one(asked: ApiRequest) -> Pending {
    Box::pin(async move {
        let text = asked.path("id");
        let Some(id) = RequestId::given(text.as_bytes()) else {
            let detail = format!("`{text}` is not the id of a request");
            let help = "`X-Request-Id` and the access log (`id`) have it";
            return Err(Problem::invalid("id", detail).help(Some(help.into())));
        };
        let filter = RequestFilter {
            id: Some(id),
            route: None,
            service: None,
            status: None,
            fault: None,
            slower_than: None,
            limit: count(LIMIT),
        };
        let found = asked.app.control.requests(filter).await.map_err(|refusal| asked.refused(refusal))?;
        match found.requests.is_empty() {
            true => Err(unknown(text, &found)),
            false => Reply::json(StatusCode::OK, &found).done(),
        }
    })
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Why there is no record.
fn unknown(id: &str, found: &Requests) -> Problem {
    let problem = |why: String| {
        Problem::new(StatusCode::NOT_FOUND, format!("no request with the id {id} is remembered: {why}"))
    };
    if found.keep == 0 {
        let help = "write for example `request_history: { keep: 1000 }` in the configuration and reload";
        return problem("`request_history.keep` is 0".into()).help(Some(help.into()));
    }
    let help = "an exchange is remembered when it is over; another proxy may have served it, or one before a restart";
    match found.complete_since {
        Some(since) => problem(format!(
            "those that ended before {} may have been overwritten, unless they failed or were slow",
            rfc3339_text(since)
        ))
        .help(Some(format!(
            "{help}; `request_history.keep` ({}) says how many each worker remembers",
            found.keep
        ))),
        None => problem("nothing has been overwritten yet".into()).help(Some(help.into())),
    }
}
