//! `GET /api/v1/tap`: exchanges as they end, as server-sent events (the HTML standard, §9.2).
//!
//! `exchange` has the record, `dropped` says how many the reader was too slow for, `end` is the last one and says why.
//! A task of its own listens to the workers, so that a tap ends in time also where its reader stalls.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{FutureExt as _, stream};
use thalweg_observe::{Condition, IdShare};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::events::STREAM_TYPE;
use crate::connection::{Connection, Streaming};
use crate::control::{OpenTap, TapEvent, TapOptions};
use crate::operation::{ApiRequest, Content, Handler, Operation, PLAIN, answer};
use crate::problem::Problem;
use crate::query::{Kind, Parameter};

const TAP: Content = Content {
    types: &[STREAM_TYPE],
    read: None,
    schema: |_| {
        schemars::json_schema!({
            "type": "string",
            "description": "Server-sent events. `exchange`: `data` is the JSON of an element of `GET /api/v1/requests` on one \
                line, with `scheme`, `proto` and, when asked for, `request_headers` and `response_headers`, lists of \
                [name, value]. `dropped`: `{\"count\":n}`, so many that fit were dropped because the reader is too \
                slow. `end`, the last one: `{\"reason\":\"time\"}`, `limit` or `stopped`.",
        })
    },
};

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[Operation {
    id: "tap",
    path: "/api/v1/tap",
    summary: "Exchanges as they end, filtered and sampled, without credentials. Ends by itself.",
    query: &[
        Parameter { name: "route", about: "Only those of the route with this name.", kind: Kind::Text(128) },
        Parameter {
            name: "service",
            about: "Only those of the service with this name.",
            kind: Kind::Text(128),
        },
        Parameter {
            name: "where",
            about: "Only those for which this holds: `status>=500 or latency>1s`. Fields: status, latency, method, host, \
                path, route, service, endpoint, client_ip, user, fault, attempts, bytes_in, bytes_out, proto.",
            kind: Kind::Text(1024),
        },
        Parameter {
            name: "sample",
            about: "The share of all exchanges that is looked at, drawn by their ids: `1%`. Default `100%`.",
            kind: Kind::Text(16),
        },
        Parameter {
            name: "headers",
            about: "`true`: with the fields of request and response; credentials are redacted.",
            kind: Kind::Flag,
        },
        Parameter {
            name: "for",
            about: "How long. Default `10m`, at most `1h`.",
            kind: Kind::Duration(MOST_TIME),
        },
        Parameter {
            name: "limit",
            about: "Ends after so many exchanges. Default: none.",
            kind: Kind::Count(MOST_LIMIT),
        },
    ],
    answers: &[answer(200, "The stream.", TAP)],
    refusals: &[404, 409],
    handler: Handler::Now(tap),
    ..PLAIN
}];

/// Longest life of a tap, in seconds.
const MOST_TIME: u64 = 3600;
/// The life of one without `for`.
const DEFAULT_TIME: Duration = Duration::from_secs(600);
/// Most exchanges that can be asked for.
const MOST_LIMIT: u64 = 1_000_000_000;
/// Silence after which a comment is sent, so that nobody in between takes the stream for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What one stream holds until it ends.
struct Reader {
    told: mpsc::Receiver<Told>,
    connection: Connection,
    has_ended: bool,
    _streaming: Streaming,
}

/// What the reader is told next.
#[derive(Debug)]
enum Told {
    Event(TapEvent),
    /// Nothing comes any more, for this reason.
    End(&'static str),
}

/// The handler.
fn tap(asked: &ApiRequest) -> Result<Response, Problem> {
    let options = options(asked)?;
    let (time, limit) = (options.time, asked.query.number("limit"));
    let Some(connection) = asked.parts.extensions.get::<Connection>().cloned() else {
        // Not reached: `server` leaves it on every request.
        return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the connection is not known"));
    };
    let exchanges = asked.app.control.tap(options).map_err(|refusal| asked.refused(refusal))?;
    // One: what waits for the reader waits where it is bounded and counted.
    let (teller, told) = mpsc::channel(1);
    tokio::spawn(tell(exchanges, teller, Instant::now() + time, limit));
    let streaming = connection.streaming();
    let reader = Reader { told, connection, has_ended: false, _streaming: streaming };
    let stream = stream::unfold(reader, async |mut reader| {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

fn options(asked: &ApiRequest) -> Result<TapOptions, Problem> {
    let query = &asked.query;
    let condition = query.text("where").map(Condition::parse).transpose().map_err(|error| {
        let detail = format!("column {}: {}", error.column(), error.message);
        Problem::invalid("where", detail).help(error.help)
    })?;
    let sample = query.text("sample").map(IdShare::parse).transpose();
    Ok(TapOptions {
        route: query.text("route").map(str::to_owned),
        service: query.text("service").map(str::to_owned),
        condition,
        sample: sample.map_err(|detail| Problem::invalid("sample", detail))?.unwrap_or(IdShare::ALL),
        headers: query.flag("headers"),
        time: query.duration("for").unwrap_or(DEFAULT_TIME),
    })
}

/// Hands on what is told until the time is up, there have been enough, or nobody reads any more. The tap ends then,
/// also where its reader has not taken the last word yet.
async fn tell(
    mut exchanges: Box<dyn OpenTap>,
    teller: mpsc::Sender<Told>,
    end: Instant,
    mut left: Option<u64>,
) {
    let telling = async {
        while left != Some(0) {
            let event = exchanges.next().await?;
            if let (TapEvent::Exchange(_), Some(left)) = (&event, &mut left) {
                *left -= 1;
            }
            teller.send(Told::Event(event)).await.ok()?;
        }
        Some("limit")
    };
    let reason = tokio::select! {
        reason = telling => reason,
        () = sleep_until(end) => Some("time"),
        () = teller.closed() => None,
    };
    // What was dropped last has not been told yet; what waits is of no interest any more.
    let last = exchanges.next().now_or_never().flatten();
    drop(exchanges);
    let Some(reason) = reason else { return };
    if let Some(event @ TapEvent::Dropped(_)) = last {
        let _ = teller.send(Told::Event(event)).await;
    }
    let _ = teller.send(Told::End(reason)).await;
}

impl Reader {
    /// The next event; `None` when the connection is to end.
    async fn next(&mut self) -> Option<sse::Event> {
        if self.has_ended {
            return None;
        }
        let told = tokio::select! {
            biased;
            () = self.connection.ending() => Told::End("stopped"),
            told = self.told.recv() => told.unwrap_or(Told::End("stopped")),
        };
        let event = sse::Event::default();
        Some(match told {
            // Cannot fail: no map with other keys than text, nothing that refuses to be written.
            Told::Event(TapEvent::Exchange(record)) => {
                event.event("exchange").data(serde_json::to_string(&record).unwrap_or_default())
            }
            Told::Event(TapEvent::Dropped(count)) => {
                event.event("dropped").data(format!("{{\"count\":{count}}}"))
            }
            Told::End(reason) => {
                self.has_ended = true;
                event.event("end").data(format!("{{\"reason\":\"{reason}\"}}"))
            }
        })
    }
}
