//! gRPC: calls that the proxy answers itself, the time that they have, and how they end.

mod answers;
mod deadlines;
mod health;
pub(super) mod interop;
mod retries;

use std::process::Command;
use std::time::Duration;

use thalweg_tests::Proxy;
use thalweg_tests::program::{Finished, find_or_skip, run};

use super::scripted::House;
use super::watchdog;

/// A proxy before so many endpoints that the test has in hand; its listener takes HTTP/2 without TLS.
fn house(endpoints: usize, service: &str, more: &str) -> House {
    House::start_changed(endpoints, (service, more), super::http2::h2c)
}

/// Makes a call through HTTP/2 with these further fields; its output has the head of the answer, the body and the
/// trailers. `None`: there is no client.
fn call(proxy: &Proxy, path: &str, fields: &[&str], message: &str) -> Option<Finished> {
    let mut command = Command::new(find_or_skip("curl")?);
    command.args(["-sS", "-i", "--http2-prior-knowledge", "--data-binary", message]);
    for field in ["content-type: application/grpc", "te: trailers"].iter().chain(fields) {
        command.args(["-H", field]);
    }
    command.arg(format!("http://{}{path}", proxy.web()));
    Some(run(&mut command, Duration::from_secs(20)))
}

/// Whether the output has this line.
fn says(finished: &Finished, line: &str) -> bool {
    finished.stdout.lines().any(|found| found == line)
}
