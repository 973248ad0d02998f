//! 5 filters: what a route does to a request or a response on its way.
//!
//! One file per filter and one line in the `filters!` list below: the list makes the configuration's
//! `filters:` entries ([`FilterSpec`]), `thalweg list filters` and the property suite. Filters of
//! this crate never wait: they are plain function calls on the request's path.
#![forbid(unsafe_code)]

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

/// One step on the request of a route: pure, bounded, without waiting.
pub trait Filter: Debug + Send + Sync {
    /// The word in the configuration.
    fn name(&self) -> &'static str;

    /// Changes the request or refuses it.
    ///
    /// # Errors
    /// The fault that the client is answered with.
    fn on_request(&self, edit: &mut RequestEdit<'_>) -> Result<(), Fault>;
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
    /// Removes a prefix of whole segments from the path before it goes upstream.
    strip_prefix: strip_prefix::StripPrefixSpec = "/products",
}
