//! The harness of the black-box tests: the real binary, scripted peers, real programs.
//!
//! Modules stand in the order in which a test uses them. Nothing here sleeps to wait for something:
//! every wait is for an event (a byte, a line, the end of a process) and has a deadline. Ports come from the
//! kernel, files live in a directory of the test's own, so every test runs beside every other.
//!
//! This crate is test code: a broken expectation is a panic, which is why `unwrap` is allowed in it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

pub mod admin;
pub mod authority;
pub mod bare;
pub mod binary;
pub mod cgroup;
pub mod connection;
pub mod directory;
pub mod endpoint;
pub mod event_stream;
pub mod expected;
pub mod front;
pub mod go_tool;
pub mod h2_attacks;
pub mod h2_endpoint_attacks;
pub mod h2_frames;
pub mod held;
pub mod hook;
pub mod kubernetes;
pub mod load;
mod machine_time;
pub mod message;
pub mod noise;
pub mod npm_tool;
pub mod pebble;
pub mod port;
pub mod process;
pub mod program;
pub mod proxy;
pub mod python_tool;
pub mod secure;
pub mod signature;
pub mod spring;
pub mod talk;
pub mod tap_stream;
pub mod tmux;
mod tools;
pub mod upstream;
pub mod vitals;
pub mod watchdog;
pub mod wire;

pub use admin::Admin;
pub use authority::{Authority, Shown};
pub use bare::Bare;
pub use cgroup::Cgroup;
pub use connection::Connection;
pub use directory::Directory;
pub use endpoint::Endpoint;
pub use event_stream::EventStream;
pub use front::Front;
pub use h2_frames::Frames;
pub use held::Held;
pub use hook::Hook;
pub use kubernetes::{ControlPlane, Node};
pub use load::Load;
pub use machine_time::machine_time;
pub use message::Message;
pub use noise::Noise;
pub use pebble::Pebble;
pub use process::Process;
pub use proxy::Proxy;
pub use secure::Identity;
pub use talk::Talk;
pub use tap_stream::TapStream;
pub use upstream::Upstream;
pub use vitals::Vitals;
pub use watchdog::Watchdog;

use std::time::Duration;

/// How long a single step may wait for its event: long enough for two busy cores and a debug build.
pub const STEP: Duration = Duration::from_secs(8);
