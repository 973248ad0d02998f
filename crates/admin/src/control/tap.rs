//! A tap, as the admin API shows it: exchanges as they end.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_observe::{Condition, IdShare};

use super::requests::RequestRecord;

/// Which exchanges are watched: those that fit everything that is there.
#[derive(Clone, Debug)]
pub struct TapOptions {
    /// Name of the route.
    pub route: Option<String>,
    /// Name of the service.
    pub service: Option<String>,
    /// What else must hold.
    pub condition: Option<Condition>,
    /// The share of all exchanges that is looked at.
    pub sample: IdShare,
    /// Whether the fields of request and response are wanted.
    pub headers: bool,
    /// After this time no more are told.
    pub time: Duration,
}

/// An event that is waited for.
pub type NextTapEvent<'a> = Pin<Box<dyn Future<Output = Option<TapEvent>> + Send + 'a>>;

/// A tap that is open. Dropping it ends it.
pub trait OpenTap: Send {
    /// The next event; `None`: there will be none. Cancel-safe: nothing is lost when the future is dropped.
    fn next(&mut self) -> NextTapEvent<'_>;
}

/// What the reader of a tap is told.
#[derive(Clone, Debug)]
pub enum TapEvent {
    /// An exchange has ended.
    Exchange(Box<TapRecord>),
    /// So many were dropped since this was told last: the reader is too slow.
    Dropped(u64),
}

/// One exchange, as an element of `GET /api/v1/requests`, and what a tap shows beside it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TapRecord {
    /// The record.
    #[serde(flatten)]
    pub record: RequestRecord,
    /// The scheme that the client used: `http`, `https`, `tcp`, `tls` or `udp`.
    pub scheme: &'static str,
    /// The version of the protocol: `HTTP/1.1`; absent when no request line could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proto: Option<&'static str>,
    /// Names and values of the request's fields as the client sent them, without credentials; absent unless asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<Vec<(String, String)>>,
    /// The same of the response, as it was sent to the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<Vec<(String, String)>>,
    /// Some fields were left out: a head had more than 8 KiB.
    #[serde(skip_serializing_if = "is_false")]
    pub headers_cut: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}
