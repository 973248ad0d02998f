//! What becomes of a request that nobody has sent.

use axum::http::StatusCode;
use axum::response::Response;
use thalweg_proxy::explain::{Question, Unaskable};

use crate::operation::{ApiRequest, Content, Handler, Operation, PLAIN, Reply, answer};
use crate::problem::Problem;
use crate::query::{Kind, Parameter};
use thalweg_proxy::explain::Explanation;

const EXPLANATION: Content = Content {
    types: &["application/json", "text/plain"],
    read: None,
    schema: |generator| {
        let explanation = generator.subschema_for::<Explanation>();
        schemars::json_schema!({ "anyOf": [explanation, { "type": "string" }] })
    },
};

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[Operation {
    id: "explain",
    path: "/api/v1/explain",
    summary: "Which route takes a request, why the others do not, and where it goes.",
    query: PARAMETERS,
    needs: &["url"],
    answers: &[answer(200, "The explanation.", EXPLANATION)],
    refusals: &[400],
    handler: Handler::Now(explain),
    ..PLAIN
}];

/// What `GET /api/v1/explain` takes.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter { name: "method", about: "The method. Default GET.", kind: Kind::Text(8192) },
    Parameter { name: "url", about: "The URL, or a path alone. Needed.", kind: Kind::Text(8192) },
    Parameter { name: "header", about: "A header, `name: value`.", kind: Kind::Texts(8192) },
    Parameter {
        name: "from",
        about: "The address that the request comes from. Default 127.0.0.1.",
        kind: Kind::Text(256),
    },
    Parameter {
        name: "listener",
        about: "The name of a listener. Default: the one whose port the URL names, else the first.",
        kind: Kind::Text(256),
    },
    Parameter { name: "all", about: "List every route and every endpoint. Default false.", kind: Kind::Flag },
    Parameter { name: "text", about: "Answer with text instead of JSON. Default false.", kind: Kind::Flag },
];

pub(crate) fn explain(asked: &ApiRequest) -> Result<Response, Problem> {
    let question = question(asked)?;
    let told = asked.app.control.explain(&question, asked.query.flag("all")).map_err(unaskable)?;
    match asked.query.flag("text") {
        true => Reply::text("text/plain; charset=utf-8", told.to_string()).done(),
        false => Reply::json(StatusCode::OK, &told).done(),
    }
}

fn question(asked: &ApiRequest) -> Result<Question, Problem> {
    let text = |name| asked.query.text(name).map(str::to_owned);
    let from = asked.query.text("from").map(str::parse).transpose();
    Ok(Question {
        method: text("method").unwrap_or_else(|| "GET".to_owned()),
        url: text("url").unwrap_or_default(),
        headers: asked
            .query
            .texts("header")
            .map(Question::field)
            .collect::<Result<_, _>>()
            .map_err(unaskable)?,
        from: from.map_err(|_| Problem::invalid("from", "this is not an address"))?,
        listener: text("listener"),
    })
}

fn unaskable(error: Unaskable) -> Problem {
    Problem::invalid(error.part, error.message).help(error.help)
}
