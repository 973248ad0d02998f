//! Lists of API keys.

use axum::http::{Method, StatusCode};
use axum::response::Response;

use crate::audit::Change;
use crate::body::{self, NewApiKeySpec};
use crate::control::{ApiKeyEntry, ApiKeyListContents, ApiKeyLists, MadeApiKey};
use crate::operation::{Access, ApiRequest, Handler, Operation, PLAIN, Reply, answer, body_of, json_of};
use crate::problem::Problem;
use crate::query::{Kind, Parameter};

/// Longest name in a query, in bytes.
const NAME: usize = 256;

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[
    Operation {
        id: "api_key_lists",
        path: "/api/v1/keys",
        summary: "The lists of API keys that filters name in `api_key.list`.",
        answers: &[answer(200, "The lists.", json_of::<ApiKeyLists>())],
        handler: Handler::Now(all),
        ..PLAIN
    },
    Operation {
        id: "api_key_list",
        path: "/api/v1/keys/{list}",
        summary: "One list, with what is known of the keys that were added to it; never the keys themselves.",
        answers: &[answer(200, "The list.", json_of::<ApiKeyListContents>())],
        refusals: &[404],
        handler: Handler::Now(one),
        ..PLAIN
    },
    Operation {
        id: "add_api_key",
        method: Method::POST,
        path: "/api/v1/keys/{list}",
        summary: "Makes a key, which is shown this once and counts at once.",
        access: Access::Write,
        body: Some(body_of::<NewApiKeySpec>()),
        answers: &[answer(201, "The key, and what is known of it.", json_of::<MadeApiKey>())],
        refusals: &[404, 409],
        handler: Handler::Now(add),
        ..PLAIN
    },
    Operation {
        id: "revoke_api_key",
        method: Method::DELETE,
        path: "/api/v1/keys/{list}",
        summary: "Takes a key away that was added while the proxy runs; its next request is refused.",
        access: Access::Write,
        query: &[Parameter { name: "name", about: "The name of the key.", kind: Kind::Text(NAME) }],
        needs: &["name"],
        answers: &[answer(200, "What was known of it.", json_of::<ApiKeyEntry>())],
        refusals: &[404],
        handler: Handler::Now(revoke),
        ..PLAIN
    },
];

fn all(asked: &ApiRequest) -> Result<Response, Problem> {
    Reply::json(StatusCode::OK, &ApiKeyLists { lists: asked.app.control.api_keys().lists() }).done()
}

fn one(asked: &ApiRequest) -> Result<Response, Problem> {
    let list = asked.app.control.api_keys().list(asked.path("list"));
    Reply::json(StatusCode::OK, &list.map_err(|refusal| asked.refused(refusal))?).done()
}

fn add(asked: &ApiRequest) -> Result<Response, Problem> {
    let new = body::parse::<NewApiKeySpec>(&asked.body)?;
    let made = asked.app.control.api_keys().add(asked.path("list"), new);
    let made = made.map_err(|refusal| asked.refused(refusal))?;
    // The audit log has what is known of the key, and not the key.
    let change = Change::new(None::<&()>, Some(&made.entry));
    Reply::json(StatusCode::CREATED, &made).changed(change).done()
}

fn revoke(asked: &ApiRequest) -> Result<Response, Problem> {
    let name = asked.query.text("name").unwrap_or_default();
    let gone = asked.app.control.api_keys().revoke(asked.path("list"), name);
    let gone = gone.map_err(|refusal| asked.refused(refusal))?;
    Reply::json(StatusCode::OK, &gone).changed(Change::new(Some(&gone), None::<&()>)).done()
}
