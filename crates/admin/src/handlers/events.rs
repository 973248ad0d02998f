//! `GET /api/v1/events`: events as they happen, as server-sent events (the HTML standard, §9.2).
//!
//! `id` is the event's number, `event` its kind, `data` its JSON on one line. A reader that was cut
//! off goes on where it was through `Last-Event-ID`, which browsers send by themselves; `?since=`
//! does the same for others. What is no longer kept is told as an event `missed`.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;

use crate::connection::{Connection, Streaming};
use crate::events::{Events, Heard, STREAMS, Subscription};
use crate::operation::{ApiRequest, Content, Handler, Operation, PLAIN, answer};
use crate::problem::Problem;
use crate::query::{Kind, Parameter};

const EVENTS: Content = Content {
    types: &[STREAM_TYPE],
    read: None,
    schema: |_| {
        schemars::json_schema!({
            "type": "string",
            "description": "Server-sent events: `id` the number of an event, `event` its kind, `data` its JSON on one line. \
                `missed` without an id says how many are no longer kept.",
        })
    },
};

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[Operation {
    id: "events",
    path: "/api/v1/events",
    summary: "Events as they happen. The answer goes on until the client closes, for about an hour at most.",
    query: &[Parameter {
        name: SINCE,
        about: "Number of the event after which to begin; kept ones come first. Default: with what happens from now on.",
        kind: Kind::Number,
    }],
    fields: &[Parameter {
        name: LAST_EVENT_ID,
        about: "The same, as browsers send it when they connect again. It wins over `since`.",
        kind: Kind::Number,
    }],
    answers: &[answer(200, "The stream.", EVENTS)],
    refusals: &[503],
    handler: Handler::Now(stream),
    ..PLAIN
}];

/// Silence after which a comment is sent, so that nobody in between takes the stream for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// `Content-Type` of the stream.
pub(crate) const STREAM_TYPE: &str = "text/event-stream";
/// The field that says where a reader was.
pub(crate) const LAST_EVENT_ID: &str = "Last-Event-ID";
/// The parameter that says it.
pub(crate) const SINCE: &str = "since";

/// What one stream holds until it ends.
struct Reader {
    events: Events,
    subscription: Subscription,
    connection: Connection,
    _streaming: Streaming,
    _place: OwnedSemaphorePermit,
}

/// The handler.
pub(crate) fn stream(asked: &ApiRequest) -> Result<Response, Problem> {
    let events = asked.app.control.events().clone();
    let Some(place) = events.stream_permit() else {
        let detail = format!("there are {STREAMS} event streams already; close one");
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    };
    let subscription = match position(asked)? {
        Some(id) => events.subscribe_after(id),
        None => events.subscribe(),
    };
    let Some(connection) = asked.parts.extensions.get::<Connection>().cloned() else {
        // Not reached: `server` leaves it on every request.
        return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the connection is not known"));
    };
    let streaming = connection.streaming();
    let reader = Reader { events, subscription, connection, _streaming: streaming, _place: place };
    let stream = stream::unfold(reader, async |mut reader| {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

impl Reader {
    /// The next event; `None` when the connection is to end.
    async fn next(&mut self) -> Option<sse::Event> {
        let heard = tokio::select! {
            biased;
            () = self.connection.ending() => return None,
            heard = self.subscription.next() => heard,
        };
        Some(match heard {
            Heard::Event(published) => sse::Event::default()
                .id(published.id.to_string())
                .event(published.event.kind.name())
                .data(self.events.json(&published, None)),
            Heard::Missed(missed) => {
                sse::Event::default().event("missed").data(format!("{{\"missed\":{missed}}}"))
            }
        })
    }
}

/// The number after which the reader wants to hear. The field wins: a browser that comes back sends
/// it beside the query of its first request.
fn position(asked: &ApiRequest) -> Result<Option<u64>, Problem> {
    let field = asked.parts.headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or("?"));
    // A browser that has seen no event yet may send the field empty.
    let Some(text) = field.filter(|text| !text.is_empty()) else { return Ok(asked.query.number(SINCE)) };
    let wrong = |_| Problem::invalid(LAST_EVENT_ID, "write the number of an event");
    text.parse().map(Some).map_err(wrong)
}
