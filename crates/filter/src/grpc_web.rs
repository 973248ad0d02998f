//! `grpc_web: {}`: browsers, which see no trailers, call services of gRPC (PROTOCOL-WEB of gRPC).
//!
//! The filter is a wish: bodies change their form where they are relayed, behind the filters.

use crate::{Filter, Hooks};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Nothing can be said about it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "an empty map: `{}`")]
pub struct GrpcWebSpec {}

impl GrpcWebSpec {
    /// There is nothing to check.
    ///
    /// # Errors
    /// None.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        Ok(Arc::new(GrpcWeb))
    }
}

#[derive(Debug)]
struct GrpcWeb;

impl Filter for GrpcWeb {
    fn name(&self) -> &'static str {
        "grpc_web"
    }

    fn argument(&self) -> String {
        "{}".into()
    }

    fn restricts(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn bridges_grpc_web(&self) -> bool {
        true
    }
}
