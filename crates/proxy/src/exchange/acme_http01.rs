//! Between `admit` and `find_route`: what an authority asks over plain HTTP to see that a host is ours (RFC 8555 §8.3).
//!
//! Control says which tokens have which answers. Asked on every listener where clients come in the clear, before any
//! route and before anybody is sent elsewhere; a look at one word while nothing is checked. What is not known goes on
//! to the routes: somebody behind us may have asked for it.

use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use thalweg_filter::Reply;
use thalweg_http::Method;

/// What an authority is to be answered; `None`: the request is another one.
pub(crate) fn challenge(worker: &Worker, client: &Client, x: &Exchange) -> Option<Reply> {
    let is_asked = matches!(x.request.method, Method::Get | Method::Head) && !client.socket.is_layered();
    if !is_asked {
        return None;
    }
    let answer = worker.shared.challenges.find(x.path.of(&x.received))?;
    Some(Reply::new(200).body("application/octet-stream", answer.as_bytes()))
}
