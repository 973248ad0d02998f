//! Lists of addresses.

use axum::http::{Method, StatusCode};
use axum::response::Response;

use crate::audit::Change;
use crate::body::{self, NewAddressSpec};
use crate::control::{AddressEntry, AddressListContents, AddressLists};
use crate::operation::{Access, ApiRequest, Handler, Operation, PLAIN, Reply, answer, body_of, json_of};
use crate::problem::Problem;
use crate::query::{Kind, Parameter};

/// Longest network in a query, in bytes.
const NETWORK: usize = 64;

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[
    Operation {
        id: "address_lists",
        path: "/api/v1/access",
        summary: "The lists of addresses.",
        answers: &[answer(200, "The lists.", json_of::<AddressLists>())],
        handler: Handler::Now(all),
        ..PLAIN
    },
    Operation {
        id: "address_list",
        path: "/api/v1/access/{list}",
        summary: "One list, with the networks that were added to it while the proxy runs.",
        answers: &[answer(200, "The list.", json_of::<AddressListContents>())],
        refusals: &[404],
        handler: Handler::Now(one),
        ..PLAIN
    },
    Operation {
        id: "add_address",
        method: Method::POST,
        path: "/api/v1/access/{list}",
        summary: "Puts a network into a list, for a time or until it is taken out; one that is there gets the new time and reason.",
        access: Access::Write,
        body: Some(body_of::<NewAddressSpec>()),
        answers: &[answer(200, "The entry.", json_of::<AddressEntry>())],
        refusals: &[404, 409],
        handler: Handler::Now(add),
        ..PLAIN
    },
    Operation {
        id: "remove_address",
        method: Method::DELETE,
        path: "/api/v1/access/{list}",
        summary: "Takes a network out of a list that was added to it while the proxy runs.",
        access: Access::Write,
        query: &[Parameter {
            name: "network",
            about: "The network or the address, as it was added.",
            kind: Kind::Text(NETWORK),
        }],
        needs: &["network"],
        answers: &[answer(200, "The entry as it was.", json_of::<AddressEntry>())],
        refusals: &[404],
        handler: Handler::Now(remove),
        ..PLAIN
    },
];

fn all(asked: &ApiRequest) -> Result<Response, Problem> {
    Reply::json(StatusCode::OK, &AddressLists { lists: asked.app.control.address_lists() }).done()
}

fn one(asked: &ApiRequest) -> Result<Response, Problem> {
    let list = asked.app.control.address_list(asked.path("list"));
    Reply::json(StatusCode::OK, &list.map_err(|refusal| asked.refused(refusal))?).done()
}

fn add(asked: &ApiRequest) -> Result<Response, Problem> {
    let new = body::parse::<NewAddressSpec>(&asked.body)?;
    let done = asked.app.control.add_address(asked.path("list"), new);
    let done = done.map_err(|refusal| asked.refused(refusal))?;
    Reply::json(StatusCode::OK, &done.after)
        .changed(Change::new(done.before.as_ref(), done.after.as_ref()))
        .done()
}

fn remove(asked: &ApiRequest) -> Result<Response, Problem> {
    let network = asked.query.text("network").unwrap_or_default();
    let done = asked.app.control.remove_address(asked.path("list"), network);
    let done = done.map_err(|refusal| asked.refused(refusal))?;
    Reply::json(StatusCode::OK, &done.before).changed(Change::new(done.before.as_ref(), None::<&()>)).done()
}
