//! What is measured, and the load of each: ab, wrk, or large bodies of `bench/peers/ends`.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::Connections;
use super::entrant::Started;
use crate::bench::LOAD_CPU;
use crate::bench::contestant::Place;
use crate::bench::load::{ab, bodies, wrk};

/// Bytes of a gigabyte.
const GB: f64 = 1e9;

/// A load.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Case {
    /// A connection for each small exchange
    Each,
    /// Small exchanges on connections that stay
    Kept,
    /// Large bodies towards the client
    Download,
    /// Large bodies towards the backend
    Upload,
}

/// What came of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// Connections, exchanges or gigabytes.
    pub(super) done: f64,
    pub(super) time: Duration,
    /// Exchanges without an answer, or with a wrong one.
    pub(super) failed: u64,
}

impl Case {
    pub(super) const ALL: [Self; 4] = [Self::Each, Self::Kept, Self::Download, Self::Upload];

    /// The name in the log and the gates.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Each => "connection",
            Self::Kept => "exchange",
            Self::Download => "download",
            Self::Upload => "upload",
        }
    }

    /// The words in headings.
    pub(super) fn heading(self, args: &Connections) -> String {
        let (concurrency, streams, megabytes) = (args.concurrency, args.streams, args.bytes as f64 / 1e6);
        match self {
            Self::Each => format!("A connection for each small exchange, {concurrency} at once"),
            Self::Kept => format!("Small exchanges on {concurrency} connections that stay"),
            Self::Download => {
                format!("Bodies of {megabytes:.0} MB towards the client, {streams} connections")
            }
            Self::Upload => format!("Bodies of {megabytes:.0} MB towards the backend, {streams} connections"),
        }
    }

    /// The unit of CPU time for one of what is counted.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Each => "µs per connection",
            Self::Kept => "µs per exchange",
            Self::Download | Self::Upload => "ms per GB",
        }
    }

    /// That unit in a second.
    pub(super) fn scale(self) -> f64 {
        match self {
            Self::Each | Self::Kept => 1e6,
            Self::Download | Self::Upload => 1e3,
        }
    }

    /// Whether bytes are counted.
    pub(super) fn is_large(self) -> bool {
        matches!(self, Self::Download | Self::Upload)
    }

    /// Runs the load to its end.
    pub(super) fn run(self, args: &Connections, ends: &Path, on: &Started, place: &Place) -> Result<Outcome> {
        let time = Duration::from_secs(args.seconds);
        match self {
            Self::Each => {
                let (way, concurrency, requests) = (ab::Way::Each, args.concurrency, args.requests);
                let load = ab::Load { cpus: LOAD_CPU, way, concurrency, requests };
                let outcome = load.run(on.small.address)?;
                Ok(Outcome { done: outcome.requests as f64, time: outcome.time, failed: outcome.failed })
            }
            Self::Kept => {
                let (port, connections) = (on.small.address.port(), args.concurrency);
                let load = wrk::Load { port, path: "/", host: "", connections, time, accepts: "", tls: None };
                let outcome = load.run(&place.folder)?;
                Ok(Outcome { done: outcome.requests as f64, time: outcome.time, failed: outcome.errors })
            }
            Self::Download => large("get", args, ends, on, place),
            Self::Upload => large("put", args, ends, on, place),
        }
    }
}

fn large(
    verb: &'static str,
    args: &Connections,
    ends: &Path,
    on: &Started,
    place: &Place,
) -> Result<Outcome> {
    let (bytes, connections, time) = (args.bytes, args.streams, Duration::from_secs(args.seconds));
    let load = bodies::Load { ends, verb, framing: "length", bytes, close: false, connections, time };
    let outcome = load.run(place, on.large)?;
    Ok(Outcome { done: outcome.bytes as f64 / GB, time: outcome.time, failed: outcome.bad })
}
