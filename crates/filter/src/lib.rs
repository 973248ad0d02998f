//! 5 filters: what a route does to a request or a response on its way.
//!
//! One file per filter and one line in the `filters!` list below: the list makes the configuration's
//! `filters:` entries ([`FilterSpec`]), `thalweg list filters` and the property suite. Filters of
//! this crate never wait: they are plain function calls on the request's path.
#![forbid(unsafe_code)]

mod grpc_web;
mod hsts;
mod strip_prefix;

use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt::Debug;
use thalweg_core::Fault;

/// What a filter may see and change of a request before an endpoint is chosen.
#[derive(Debug)]
pub struct RequestEdit<'a> {
    /// The path in normal form, as it will be sent to the upstream. Starts with `/`, has no query.
    pub path: &'a mut Vec<u8>,
}

/// What a filter may see and change of the head of a final response before it is sent, be it a service's or the
/// proxy's own.
#[derive(Debug)]
pub struct ResponseEdit<'a> {
    /// Whether the client gets it through TLS.
    pub is_secure: bool,
    /// Its fields.
    pub fields: &'a mut dyn ResponseFields,
}

/// The fields of a response.
pub trait ResponseFields: Debug {
    /// The response has this field and no other one of this name. What HTTP does not allow in a name or value is
    /// not sent.
    fn set(&mut self, name: &str, value: &str);
}

/// One step on the request or the response of a route: pure, bounded, without waiting.
pub trait Filter: Debug + Send + Sync {
    /// The word in the configuration.
    fn name(&self) -> &'static str;

    /// Its argument on one line, for people: what differs between two configurations is told with it. No
    /// secret may stand in it.
    fn argument(&self) -> String;

    /// Changes the request or refuses it; filters are asked in their order. A filter of responses leaves it alone.
    ///
    /// # Errors
    /// The fault that the client is answered with.
    fn on_request(&self, _edit: &mut RequestEdit<'_>) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether calls of gRPC-Web become calls of gRPC; the bodies are changed where they are relayed.
    fn bridges_grpc_web(&self) -> bool {
        false
    }

    /// Changes the head of the final response; filters are asked from the last one to the first. A filter of requests
    /// leaves it alone.
    fn on_response(&self, _edit: &mut ResponseEdit<'_>) {}
}

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

/// Declares every filter: the key in the configuration, its Spec, one sentence, and an example.
macro_rules! filters {
    ($( $(#[doc = $doc:literal])+ $key:ident: $spec:ty = $example:literal, )*) => {
        /// One entry of a route's `filters:` list, keyed by the filter's name.
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[expect(non_camel_case_types, reason = "the variant is the key that users write")]
        pub enum FilterSpec { $( $(#[doc = $doc])+ $key($spec), )* }

        impl FilterSpec {
            /// Checks the arguments and makes the filter.
            ///
            /// # Errors
            /// A sentence that names the wrong argument and the remedy.
            pub fn build(&self) -> Result<Box<dyn Filter>, String> {
                match self { $( Self::$key(spec) => spec.build(), )* }
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
    /// Turns calls of gRPC-Web, as browsers make them, into calls of gRPC.
    grpc_web: grpc_web::GrpcWebSpec = "{}",
    /// Tells browsers to come back through TLS only (Strict-Transport-Security).
    hsts: hsts::HstsSpec = "{}",
    /// Removes a prefix of whole segments from the path before it goes upstream.
    strip_prefix: strip_prefix::StripPrefixSpec = "/products",
}
