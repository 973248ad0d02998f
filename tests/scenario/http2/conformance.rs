//! What others hold a server of HTTP/2 to.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use thalweg_tests::go_tool::go_tool;
use thalweg_tests::program::run;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Proxy, Upstream};

use super::{config, h2c, watchdog};
use crate::scenario::tls;

/// All cases take about a second.
const LIMIT: Duration = Duration::from_secs(50);

fn h2spec() -> Option<PathBuf> {
    go_tool("github.com/summerwind/h2spec/cmd/h2spec", "v2.2.1+incompatible")
}

/// Runs every case, and those of `--strict`.
fn conforms(h2spec: PathBuf, more: &[&str], proxy: &Proxy) {
    let port = proxy.web().port().to_string();
    let mut command = Command::new(h2spec);
    command.args(["--strict", "--host", "127.0.0.1", "--port", &port, "--timeout", "5"]).args(more);
    let finished = run(&mut command, LIMIT);
    assert_eq!(finished.code, 0, "{}{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains("146 tests, 146 passed, 0 skipped, 0 failed"), "{}", finished.stdout);
}

fn upstream() -> Upstream {
    Upstream::start(|_| Some(ok("an answer with a body")))
}

#[test]
fn every_case_of_h2spec_passes_without_tls() {
    let Some(h2spec) = h2spec() else { return };
    let _watchdog = watchdog("every_case_of_h2spec_passes_without_tls");
    let upstream = upstream();
    conforms(h2spec, &[], &Proxy::start(&h2c(&config(&[&upstream.url()], ""))));
}

#[test]
fn every_case_of_h2spec_passes_through_tls() {
    let Some(h2spec) = h2spec() else { return };
    let _watchdog = watchdog("every_case_of_h2spec_passes_through_tls");
    let upstream = upstream();
    conforms(h2spec, &["--tls", "--insecure"], &tls::proxy(&[&upstream.url()]));
}
