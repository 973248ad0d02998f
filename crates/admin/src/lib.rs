//! The admin API, health endpoints and metrics page, the client that the CLI verbs use, events and
//! webhooks.
//!
//! Off the path of exchanges: a thread of its own with a runtime of its own, so that it answers
//! while workers are saturated. It knows the running proxy only through the [`Control`] trait, which
//! the binary implements. Invariant: nobody gets past the `gate` without being the same user (unix
//! socket) or holding the token (TCP), or the cookie of a session that was begun with one; probes and the files of the
//! dashboard alone are free.
//!
//! A request's way: [`server`] accepts → `gate` admits → `routes` reads what the table of
//! `operations` says → a handler of `answers` asks the [`Control`], faults as `problem` → `audit`.
//! An event's way: [`Events::publish`] → the stream of `events` and [`Webhooks`], which call out.
#![forbid(unsafe_code)]

pub mod client;
pub mod control;
pub mod events;
pub mod openapi;
pub mod place;
pub mod server;
pub mod socket;
pub mod tls;
pub mod token;
pub mod webhook;

mod audit;
mod auth;
mod body;
pub mod by_name;
mod connection;
mod dashboard;
mod handlers;
mod heads;
mod operation;
mod operations;
mod precondition;
mod problem;
mod query;
mod routes;
mod session;

pub use body::{purge_of, read_bodies};
pub use client::{Answer, Call, CallError, StreamEnd, StreamEvent, Target, call, call_with, stream_with};
pub use control::{
    AddressChanged, AddressEntry, AddressList, AddressListContents, AddressLists, ApiKeyControl, ApiKeyEntry,
    ApiKeyList, ApiKeyListContents, ApiKeyLists, AttemptRecord, Author, CacheDiskStatus, CacheStatus,
    CacheTotals, CanaryChanged, CanaryFigures, CanaryOrder, CanaryStatus, CertificateStatus, Certificates,
    ChangeAction, Changed, ConfigChange, ConfigDocument, ConfigFormat, ConfigOrigin, ConfigOutcome,
    ConnectionStatus, Control, DescriptorStatus, DiskPurge, EndpointChange, EndpointSource, EndpointState,
    EndpointStatus, Expected, FieldChange, FilterRecord, History, HistoryEntry, HistoryState, ListenerChange,
    ListenerStatus, MadeApiKey, MaintenanceChanged, Mistake, NewAddress, NewApiKey, NewEndpoint, NewLabel,
    NextTapEvent, ObjectSeries, OpenTap, PurgeChannelStatus, Purged, Purging, Recalling, Refusal,
    ReloadOptions, ReplaceOptions, ReplicasTold, RequestFilter, RequestRecord, Requests, Reweighted,
    RollbackOptions, RouteCache, RouteStatus, RouteTarget, RuntimeChange, SealedLabel, SeriesDocument,
    SeriesFilter, SeriesKind, ServiceState, ServiceStatus, Services, ServicesSummary, SloBurn, SloState,
    SloStatus, Slos, SourceState, SourceStatus, SourceStatuses, State, Status, TapEvent, TapOptions,
    TapRecord, Telling, Upgraded, Upgrading, Via, WantedState, WatchOptions, WatchState, WatchStatus,
    WeightsReset,
};
pub use events::{Events, Heard, Published, Subscription};
pub use operation::segment as encode;
pub use place::{PlaceReason, SOCKET_VARIABLE, SocketPlace};
pub use server::{Addresses, AdminOptions, Handle, StartError, start};
pub use socket::process_at;
pub use tls::AdminTls;
pub use token::{Token, Tokens};
pub use webhook::Webhooks;
