//! 5 filters: what a route does to a request or a response on its way.
//!
//! One file per filter and one line in the `filters!` list below: the list makes the configuration's
//! `filters:` entries ([`FilterSpec`]), `thalweg list filters` and the property suite. Filters are
//! plain function calls on the request's path; what has to wait is returned as data ([`Verdict::Wait`]).
//!
//! [`Filter`] is the whole interface, [`RequestCx`] and [`ResponseCx`] what it sees and may change. `proxy` calls the
//! filters of a route through its [`Chain`].
#![forbid(unsafe_code)]

mod accept;
mod access;
mod auth;
mod body_limit;
mod buffer;
mod cache;
mod chain;
mod compress;
mod concurrency;
mod config_files;
mod cors;
mod decoder;
mod decoder_memory;
mod decompress;
mod edits;
mod error_pages;
mod ext;
mod fault;
mod fields;
mod files;
mod filter;
mod forwarded;
mod grpc_web;
mod headers;
mod hsts;
mod identity;
mod limit_key;
mod log;
mod log_edit;
mod maintenance;
mod map_back;
mod mirror;
mod named;
mod names;
mod page;
mod rate_limit;
mod redirect;
mod representation;
mod request;
mod request_id;
mod respond;
mod response;
mod rewrite;
mod secret;
mod security_headers;
mod shape;
mod split;
mod stages;
mod strip_prefix;
mod substitute;
mod target;
mod template;
mod throttle;
mod trailer_rule;
mod wasm;
mod when;
mod window;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub use access::{AddressRulesSpec, MembersSpec, list_upkeep};
pub use cache::CacheRule;
pub use chain::{Chain, Step, Written};
pub use config_files::ConfigFiles;
pub use decoder_memory::DecoderMemory;
pub use fields::{FieldView, HeadFields, may_be_changed};
pub use filter::{
    Call, Fetched, Filter, Hooks, Job, JobResult, Moves, Outcome, Subrequest, Upkeep, UpkeepTools, Verdict,
    Work,
};
pub use identity::Identity;
pub use log_edit::LogEdit;
pub use page::{OwnPage, PageForm};
pub use request::{
    Bandwidth, BodyTransform, Buffering, Connection, ENOUGH, EndCx, Facts, FilterStates, MakeTransform,
    NoConnection, RequestCopy, RequestCx, RequestOutcome, Transforms, Values,
};
pub use response::{BodySource, Part, Piece, Reply, ReplyBody, ResponseCx, ResponseOutcome};
pub use secret::SecretSpec;
pub use target::{Moved, MovedPrefix, QueryEdit, TargetEdit};
pub use template::{Escape, PLACEHOLDERS, Template, TemplateSpec};
pub use trailer_rule::TrailerRule;
pub use when::{OneOrManySpec, StatusSpec, When, WhenSpec, is_type};

/// A filter as people see it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The key in the configuration.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// An argument that works, in YAML.
    pub example: &'static str,
}

impl Entry {
    /// Whether this binary has it: some need a feature of Cargo, which is named as they are.
    pub fn is_built(&self) -> bool {
        self.name != "wasm" || cfg!(feature = "wasm")
    }
}

/// Beside the filter of an entry its condition may stand.
fn allow_when(schema: &mut Schema) {
    let variants = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    for variant in variants.into_iter().flatten() {
        if let Some(properties) = variant.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("when".into(), json!({ "$ref": "#/$defs/WhenSpec" }));
        }
    }
}

/// Declares every filter: the key in the configuration, its Spec, one sentence, and an example. `[files]` behind the
/// Spec: paths stand in it, and its `build` is given [`ConfigFiles`].
macro_rules! filters {
    (@build $spec:ident, $given:ident) => { $spec.build() };
    (@build $spec:ident, $given:ident, files) => { $spec.build($given) };
    ($( $(#[doc = $doc:literal])+ $key:ident: $spec:ty $([ $files:ident ])? = $example:literal, )*) => {
        /// One entry of a route's `filters:` list, keyed by the filter's name.
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[schemars(transform = allow_when)]
        #[expect(non_camel_case_types, reason = "the variant is the key that users write")]
        pub enum FilterSpec { $( $(#[doc = $doc])+ $key($spec), )* }

        impl FilterSpec {
            /// Checks the arguments and makes the filter.
            ///
            /// # Errors
            /// A sentence that names the wrong argument and the remedy.
            pub fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Filter>, String> {
                match self { $( Self::$key(spec) => filters!(@build spec, files $(, $files)?), )* }
            }
        }

        /// Every filter, in the order of the documentation.
        pub const ALL: &[Entry] = &[ $( Entry {
            name: stringify!($key),
            about: concat!($($doc),+),
            example: $example,
        }, )* ];
    };
}

filters! {
    /// Lets clients pass, or not, by network, list, country, header or path.
    access: access::AccessSpec [files] = "{ deny: [ 192.0.2.0/24, { list: blocked } ] }",
    /// Lets those pass who prove who they are, and tells the service what was verified.
    auth: Box<auth::AuthSpec> [files] = "{ basic: { users: { ada: \"$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\" } } }",
    /// Refuses bodies of requests that are too long, and breaks off responses that are.
    body_limit: body_limit::BodyLimitSpec = "10MiB",
    /// Receives the whole body of a request before the request goes upstream.
    buffer: buffer::BufferSpec = "{}",
    /// Keeps responses and uses them again (RFC 9111).
    cache: cache::CacheSpec = "{}",
    /// Compresses responses with zstd, brotli or gzip, as the client accepts it.
    compress: compress::CompressSpec = "{}",
    /// Bounds how many requests are in flight at once, for each client or other key.
    concurrency: concurrency::ConcurrencySpec = "{ max: 10, key: client_ip }",
    /// Lets pages of other origins read responses, and answers their preflights (CORS).
    cors: cors::CorsSpec = "{ origins: [ \"https://app.example.com\" ] }",
    /// Decodes bodies of requests and responses that are compressed with gzip, deflate, br or zstd.
    decompress: decompress::DecompressSpec = "{ request: true }",
    /// Answers errors with pages of its own, by status, in the form that the client accepts.
    error_pages: error_pages::ErrorPagesSpec [files] = "{ pages: { 404: { html: \"<!doctype html><h1>Not here</h1>\" } } }",
    /// Asks a service of your own what becomes of each request: it lets it go on, changes it, or answers.
    ext: ext::ExtSpec = "{ service: shadow }",
    /// Delays requests, or breaks them off, to see what becomes of those who send them.
    fault: fault::FaultSpec = "{ share: 1%, delay: 100ms..2s }",
    /// Tells the service in `Forwarded` (RFC 7239) who has asked.
    forwarded: forwarded::ForwardedSpec = "{ by: _edge }",
    /// Serves files of a directory.
    files: files::FilesSpec [files] = "{ root: /usr/share }",
    /// Turns calls of gRPC-Web, as browsers make them, into calls of gRPC.
    grpc_web: grpc_web::GrpcWebSpec = "{}",
    /// Sets, appends, removes and renames fields of requests and responses.
    headers: headers::HeadersSpec = "{ response: { set: { X-Served-By: thalweg } } }",
    /// Tells browsers to come back through TLS only (Strict-Transport-Security).
    hsts: hsts::HstsSpec = "{}",
    /// Adds fields to lines of the access log, and leaves lines out.
    log: log::LogSpec = "{ fields: { tenant: \"{header.x-tenant}\" } }",
    /// Answers 503 with a page while it is on; the admin API turns it on and off.
    maintenance: maintenance::MaintenanceSpec = "{ on: false }",
    /// Changes places and cookies of responses back to what the client knows, where another filter has moved the
    /// request.
    map_back: map_back::MapBackSpec = "true",
    /// Sends a copy of each request to another service, whose response nobody sees.
    mirror: mirror::MirrorSpec = "shadow",
    /// Bounds how often requests may come, for each client or other key.
    rate_limit: rate_limit::RateLimitSpec [files] = "{ requests: 100, per: 1s, key: client_ip }",
    /// Sends clients to another place, with its query.
    redirect: redirect::RedirectSpec = "\"https://www.example.com{path}\"",
    /// Sends the id of the request to the client, and takes one that it has sent.
    request_id: request_id::RequestIdSpec = "{ accept: trusted }",
    /// Answers itself with a status, fields and a body.
    respond: respond::RespondSpec [files] = "404",
    /// Changes the path, the query and the host that go upstream.
    rewrite: rewrite::RewriteSpec = "{ prefix: { from: /products, to: /v2 } }",
    /// Sets fields by which browsers protect pages, and removes those that name software.
    security_headers: security_headers::SecurityHeadersSpec = "{}",
    /// Sends requests to the service that a cookie, a field or a query parameter names, or that is drawn.
    split: split::SplitSpec = "{ cookie: variant, to: { a: shop-a, b: shop-b } }",
    /// Removes a prefix of whole segments from the path before it goes upstream.
    strip_prefix: strip_prefix::StripPrefixSpec = "/products",
    /// Replaces text in bodies of responses, by literal texts or regular expressions.
    substitute: substitute::SubstituteSpec = "{ rules: [ { text: \"http://intern\", to: \"https://www.example.com\" } ] }",
    /// Bounds how fast bodies of requests and responses come.
    throttle: throttle::ThrottleSpec = "{ response: 512KB/s }",
    /// Runs a Wasm module of proxy-wasm on requests and responses, within bounds.
    wasm: Box<wasm::WasmSpec> [files] = "{ module: filter.wasm }",
}

#[cfg(test)]
pub(crate) mod tests;
