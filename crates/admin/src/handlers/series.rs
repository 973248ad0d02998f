//! Time series of what is counted, objectives that are judged by the same counts, and sources of endpoints.

use axum::http::StatusCode;
use axum::response::Response;

use crate::control::series::{SeriesDocument, SeriesFilter, SeriesKind};
use crate::control::slo::Slos;
use crate::control::source::SourceStatuses;
use crate::operation::{ApiRequest, Handler, Operation, PLAIN, Reply, answer, json_of};
use crate::problem::Problem;
use crate::query::{Kind, Parameter};

/// Most series that are shown.
pub(crate) const LIMIT: u64 = 200;
/// Series that are shown without `limit`.
const DEFAULT_LIMIT: u64 = 20;
/// Bytes of a name: as in the store of series.
const NAME: usize = thalweg_observe::series::NAME;

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[
    Operation {
        id: "series",
        path: "/api/v1/series",
        summary: "Time series: requests, errors, bytes and latency of the process, routes, services or endpoints.",
        query: &[
            Parameter {
                name: "kind",
                about: "What about: `process`, `route`, `service` or `endpoint`. Default `process`.",
                kind: Kind::Word(&["process", "route", "service", "endpoint"]),
            },
            Parameter {
                name: "name",
                about: "Only the one of this name; of an endpoint, its URL. Without it, the busiest.",
                kind: Kind::Text(NAME),
            },
            Parameter {
                name: "service",
                about: "Only endpoints of the service with this name.",
                kind: Kind::Text(NAME),
            },
            Parameter {
                name: "span",
                about: "`30m`: the last 30 minutes in steps of 10 seconds. `24h`: the last 24 hours in steps of 5 minutes. \
                    Default `30m`.",
                kind: Kind::Word(&["30m", "24h"]),
            },
            Parameter {
                name: "limit",
                about: "How many, the busiest first. Default 20, at most 200.",
                kind: Kind::Count(LIMIT),
            },
        ],
        answers: &[answer(200, "The series that fit, the busiest first.", json_of::<SeriesDocument>())],
        handler: Handler::Now(series),
        ..PLAIN
    },
    Operation {
        id: "slos",
        path: "/api/v1/slos",
        summary: "Objectives: how many exchanges were good, what is left of the budget, and how fast it is used up.",
        answers: &[answer(200, "All objectives, in the order of the configuration.", json_of::<Slos>())],
        handler: Handler::Now(slos),
        ..PLAIN
    },
    Operation {
        id: "sources",
        path: "/api/v1/sources",
        summary: "Sources of endpoints: whom they ask for what, how old what is known is, and why they fail.",
        answers: &[answer(200, "All sources, each once.", json_of::<SourceStatuses>())],
        handler: Handler::Now(sources),
        ..PLAIN
    },
];

pub(crate) fn sources(asked: &ApiRequest) -> Result<Response, Problem> {
    Reply::json(StatusCode::OK, &asked.app.control.sources()).done()
}

pub(crate) fn slos(asked: &ApiRequest) -> Result<Response, Problem> {
    Reply::json(StatusCode::OK, &asked.app.control.slos()).done()
}

pub(crate) fn series(asked: &ApiRequest) -> Result<Response, Problem> {
    let query = &asked.query;
    let word = query.word("kind").unwrap_or("process");
    let kind = SeriesKind::ALL
        .iter()
        .find(|(known, _)| *known == word)
        .map_or(SeriesKind::Process, |(_, kind)| *kind);
    if query.text("service").is_some() && kind != SeriesKind::Endpoint {
        let help = "add `kind=endpoint`, or ask for `kind=service` and `name`";
        return Err(Problem::invalid("service", "only endpoints belong to a service").help(Some(help.into())));
    }
    if query.text("name").is_some() && kind == SeriesKind::Process {
        let help = "add `kind=route`, `kind=service` or `kind=endpoint`";
        return Err(Problem::invalid("name", "the process has no name").help(Some(help.into())));
    }
    let filter = SeriesFilter {
        kind,
        name: query.text("name").map(str::to_owned),
        service: query.text("service").map(str::to_owned),
        is_long: query.word("span") == Some("24h"),
        limit: usize::try_from(query.number("limit").unwrap_or(DEFAULT_LIMIT)).unwrap_or(usize::MAX),
    };
    Reply::json(StatusCode::OK, &asked.app.control.series(&filter)).done()
}
