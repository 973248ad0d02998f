//! `wasm: { module: filter.wasm }`: runs a module of proxy-wasm on requests and responses (decision 0101).
//!
//! The module is compiled when the configuration is loaded. Its calls are plain function calls on the worker, bounded
//! by fuel and memory; where it calls a service, or is given the body of a request, the exchange waits as for any
//! filter. A module that fails has no effect: `on_failure` says what becomes of the exchange. The crate `wasm` runs it;
//! here stands what it sees and may change. Without the feature `wasm` of Cargo there is only its Spec.

#[cfg(feature = "wasm")]
mod body;
#[cfg(feature = "wasm")]
mod calls;
#[cfg(feature = "wasm")]
mod head;
#[cfg(feature = "wasm")]
mod run;

use crate::{ConfigFiles, Filter};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use thalweg_core::units::parse_size;

/// Fuel of a call, where nothing is written, and what may be written.
const FUEL: u64 = 10_000_000;
const LEAST_FUEL: u64 = 10_000;
const MOST_FUEL: u64 = 1_000_000_000;
/// The same of an instance's memory, in bytes.
const MEMORY: u64 = 32 * 1024 * 1024;
const LEAST_MEMORY: u64 = 64 * 1024;
const MOST_MEMORY: u64 = 256 * 1024 * 1024;
/// Bytes of a body: as `buffer` has in memory.
const LEAST_BODY: u64 = 1024;
const MOST_BODY: u64 = 256 * 1024;
/// Services that may be listed.
const SERVICES: usize = 16;
/// Bytes of a module, and of its configuration.
#[cfg_attr(not(feature = "wasm"), expect(dead_code, reason = "nothing reads a module"))]
const MODULE: usize = 32 * 1024 * 1024;
const CONFIG: usize = 256 * 1024;

/// A module, and what it may use.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `module`")]
pub struct WasmSpec {
    /// The file of the module, in its binary form. A relative path begins at the directory of the file in which it is
    /// written.
    #[schemars(extend("x-default-words" = "must be written"))]
    #[schemars(extend("x-api" = "reference"))]
    module: String,
    /// What the module is told as it starts: a text, or a map, which it gets as JSON.
    #[schemars(extend("x-default-words" = "nothing"))]
    #[schemars(extend("x-sent" = true))]
    config: Option<WasmConfigSpec>,
    /// Which root context of the module is meant, where it has several.
    #[schemars(extend("x-default-words" = "none"))]
    root_id: Option<String>,
    /// How much one call may compute: about one for an instruction, and one for a byte that is copied.
    #[schemars(range(min = LEAST_FUEL, max = MOST_FUEL), extend("x-range" = [LEAST_FUEL, MOST_FUEL], "x-default" = FUEL))]
    fuel: Option<u64>,
    /// Memory of one instance. There is one for each worker.
    #[schemars(extend("x-range" = ["64KiB", "256MiB"], "x-default" = "32MiB"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["16MiB"]))]
    memory: Option<String>,
    /// The module is given the bodies of requests, whole; a request with a larger one is answered 413.
    #[schemars(extend("x-range" = ["1KiB", "256KiB"], "x-default-words" = "it is not given them"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["64KiB"]))]
    request_body: Option<String>,
    /// The module is given the bodies of responses, piece by piece, and may keep back this much.
    #[schemars(extend("x-range" = ["1KiB", "256KiB"], "x-default-words" = "it is not given them"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["64KiB"]))]
    response_body: Option<String>,
    /// Services that the module may call.
    #[schemars(extend("x-default-words" = "none", "maxItems" = SERVICES))]
    services: Vec<String>,
    /// What becomes of an exchange when the module fails.
    #[schemars(extend("x-default" = "deny"))]
    on_failure: WasmFailureSpec,
}

/// A text or a map.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum WasmConfigSpec {
    /// As it is.
    Text(String),
    /// As JSON.
    Map(Map<String, Value>),
}

crate::shape::by_shape!(WasmConfigSpec, "a text or a map", { text => Text, map => Map });

/// What becomes of an exchange when the module fails.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WasmFailureSpec {
    /// It is answered 503.
    #[default]
    Deny,
    /// It goes on as if there were no module.
    Pass,
}

/// The values of a [`WasmSpec`], checked.
#[cfg_attr(not(feature = "wasm"), expect(dead_code, reason = "nothing runs a module"))]
#[derive(Debug)]
struct Checked {
    config: Vec<u8>,
    fuel: u64,
    memory: usize,
    /// Bytes; `None`: the module is not given it.
    request_body: Option<usize>,
    response_body: Option<usize>,
}

impl WasmSpec {
    /// Checks the values, compiles the module and starts it once.
    ///
    /// # Errors
    /// A sentence that names what is wrong and the remedy.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Filter>, String> {
        let checked = self.checked()?;
        self.run(checked, files)
    }

    #[cfg(feature = "wasm")]
    fn run(&self, checked: Checked, files: &dyn ConfigFiles) -> Result<Arc<dyn Filter>, String> {
        run::build(self, checked, files)
    }

    #[cfg(not(feature = "wasm"))]
    fn run(&self, _checked: Checked, _files: &dyn ConfigFiles) -> Result<Arc<dyn Filter>, String> {
        Err("this binary is built without `wasm`; build it with `cargo build --release --features wasm`"
            .into())
    }

    fn checked(&self) -> Result<Checked, String> {
        if self.module.is_empty() {
            return Err("`wasm` has no module; write the path of its file".into());
        }
        let fuel = self.fuel.unwrap_or(FUEL);
        if !(LEAST_FUEL..=MOST_FUEL).contains(&fuel) {
            return Err(format!("`fuel` of `wasm` must be from {LEAST_FUEL} to {MOST_FUEL}"));
        }
        let memory = self.memory.as_deref().map_or(Ok(MEMORY), parse_size)?;
        if !(LEAST_MEMORY..=MOST_MEMORY).contains(&memory) {
            return Err("`memory` of `wasm` must be from 64KiB to 256MiB".into());
        }
        let config = match &self.config {
            None => Vec::new(),
            Some(WasmConfigSpec::Text(text)) => text.clone().into_bytes(),
            Some(WasmConfigSpec::Map(map)) => {
                serde_json::to_vec(map).map_err(|error| format!("`config` cannot be JSON: {error}"))?
            }
        };
        if config.len() > CONFIG {
            return Err("`config` of `wasm` has more than 256KiB".into());
        }
        if self.services.len() > SERVICES {
            return Err(format!("`services` of `wasm` has at most {SERVICES} names"));
        }
        let request_body = body("request_body", self.request_body.as_deref())?;
        let response_body = body("response_body", self.response_body.as_deref())?;
        Ok(Checked { config, fuel, memory: memory as usize, request_body, response_body })
    }
}

fn body(key: &str, written: Option<&str>) -> Result<Option<usize>, String> {
    let Some(size) = written.map(parse_size).transpose()? else { return Ok(None) };
    if !(LEAST_BODY..=MOST_BODY).contains(&size) {
        return Err(format!("`{key}` of `wasm` must be from 1KiB to 256KiB"));
    }
    Ok(Some(size as usize))
}

#[cfg(test)]
mod tests;
