//! Wasm filters: modules of the ABI proxy-wasm (0.2.1, 0.2.0 and 0.1.0), run within bounds (decision 0101).
//!
//! This crate knows nothing of the proxy. A [`Plugin`] is a compiled module with its configuration; it is made when
//! the configuration of the proxy is loaded, and all threads share it. Each thread that serves requests has one
//! instance of it, with a memory of its own. A [`Context`] is one exchange within that instance: the owner gives it the
//! head of the request ([`Stream`]), calls it phase by phase and gets a [`Step`] each time. Calls are plain function
//! calls, bounded by fuel. A module that fails loses its instance; what becomes of the exchange then, the owner
//! decides.
#![forbid(unsafe_code)]

mod abi;
mod context;
mod data;
mod engine;
mod failure;
mod guest;
mod head;
mod hostcalls;
mod instance;
mod log;
mod plugin;
mod setup;
mod stream;
mod values;

pub use context::Context;
pub use failure::Failure;
pub use head::{Allowed, Edit, Field, Head, Rule, Side};
pub use log::{Level, Line};
pub use plugin::{FUEL_OF_START, Plugin};
pub use setup::{Limits, Setup};
pub use stream::{CallResponse, HttpCall, LocalResponse, Step, Stream};

#[cfg(test)]
mod tests;
