//! `cargo xtask conformance`: what the public suites say of the product, beside what they say of others.
//!
//! Each suite is played by black-box tests, which assert that every case passes but for those that they name with a
//! reason; CI runs them. This verb plays them alone and writes the board. Figures of others are measurements of the
//! same suites on such a machine with default-like configurations (nginx 1.22, HAProxy 2.6 and Caddy 2.6 of Debian,
//! Envoy 1.40), those of caches the suite's published results.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::command::root;
use crate::test;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only suites whose name has this in it
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Write docs/conformance.md
    #[arg(long, conflicts_with = "only")]
    write: bool,
}

/// One public suite.
struct Suite {
    name: &'static str,
    /// Where it comes from.
    from: &'static str,
    /// The black-box tests that play it.
    tests: &'static str,
    /// What passing means.
    ours: &'static str,
    theirs: &'static str,
}

const SUITES: &[Suite] = &[
    Suite {
        name: "h2spec, strict",
        from: "Go module summerwind/h2spec 2.2.1",
        tests: "scenario::http2::conformance::",
        ours: "146 of 146, without TLS and through it",
        theirs: "HAProxy 145, Caddy 141, Envoy 133, nginx 119",
    },
    Suite {
        name: "gRPC interoperability",
        from: "grpc-go 1.81.1, client and server",
        tests: "scenario::grpc::interop::",
        ours: "14 of 14, in the clear, over a hop of HTTP/1.1, through TLS",
        theirs: "nginx, HAProxy and Envoy 14",
    },
    Suite {
        name: "testssl.sh and sslyze, Mozilla's intermediate policy",
        from: "Debian, PyPI",
        tests: "scenario::tls::scanners::",
        ours: "nothing found but that the test's certificate is its own issuer",
        theirs: "Envoy passes, HAProxy does not",
    },
    Suite {
        name: "ACME: Pebble, strict, a fifth of all nonces refused",
        from: "Go module letsencrypt/pebble 2.10",
        tests: "scenario::acme::",
        ours: "issues, renews, recovers",
        theirs: "Caddy fails with refused nonces",
    },
    Suite {
        name: "slowhttptest",
        from: "Debian",
        tests: "scenario::hostile_clients::",
        ours: "served beside each attack, and the attackers end",
        theirs: "not measured",
    },
    Suite {
        name: "httplint",
        from: "PyPI",
        tests: "scenario::httplint::",
        ours: "no warning: files, pages of errors, redirects, limits, the cache, compression",
        theirs: "not measured",
    },
    Suite {
        name: "schemathesis against the admin API",
        from: "PyPI",
        tests: "scenario::openapi::",
        ours: "no answer that the description does not know",
        theirs: "none has such a description",
    },
];

/// Suites that are played by another command, or cannot be.
const APART: &str = "\
Played apart, since it is no package of a registry: `cargo xtask cache-tests --suite DIR` (http-tests/cache-tests). Its \
figures stand in the [decision](decisions/0090-cache-decisions.md).\n\n\
Not played: Autobahn's cases need Python 2.7, which this Debian has not; messages of all lengths, fragments, pings and \
closes pass between tungstenite and Python's `websockets` instead (`tests/scenario/websocket.rs`). Http11Probe needs .NET; \
its cases are transcripts (`tests/wire/`).\n";

/// What became of a suite.
struct Outcome {
    passed: bool,
    took: Duration,
}

/// Plays the suites and prints the board; fails when one does not pass.
pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted = |suite: &&Suite| args.only.as_ref().is_none_or(|only| suite.name.contains(only.as_str()));
    test::build()?;
    let mut rows = Vec::new();
    for suite in SUITES.iter().filter(wanted) {
        let begin = Instant::now();
        // A suite whose program is missing is no suite that passes.
        let played = test::black_box(&[suite.tests, "--test-threads=2"], &[("CI", "true".as_ref())]);
        let outcome = Outcome { passed: played.is_ok(), took: begin.elapsed() };
        rows.push((suite, outcome));
    }
    let board = board(&rows);
    print!("{board}");
    if args.write {
        fs::write(page(), board)?;
    }
    let failed: Vec<_> =
        rows.iter().filter(|(_, outcome)| !outcome.passed).map(|(suite, _)| suite.name).collect();
    if !failed.is_empty() {
        bail!("not every case passes of: {}", failed.join("; "));
    }
    Ok(())
}

fn page() -> PathBuf {
    root().join("docs/conformance.md")
}

fn board(rows: &[(&Suite, Outcome)]) -> String {
    let mut text = "# Public suites\n\n<!-- Written by `cargo xtask conformance --write`. -->\n\n\
                    | suite | from | Thalweg | others | took |\n|---|---|---|---|---|\n"
        .to_owned();
    for (Suite { name, from, ours, theirs, .. }, Outcome { passed, took }) in rows {
        let ours = if *passed { ours } else { "**fails**" };
        let _ = writeln!(text, "| {name} | {from} | {ours} | {theirs} | {} s |", took.as_secs());
    }
    text + "\n" + APART
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_that_fails_is_told_as_one() {
        let outcome = |passed| Outcome { passed, took: Duration::from_secs(3) };
        let rows = [(&SUITES[0], outcome(true)), (&SUITES[1], outcome(false))];
        let board = board(&rows);
        assert!(board.contains(SUITES[0].ours) && !board.contains(SUITES[1].ours), "{board}");
        assert!(board.contains("**fails**"), "{board}");
    }

    #[test]
    fn every_suite_names_tests_that_exist() {
        for suite in SUITES {
            let path = suite.tests.trim_end_matches("::").replace("::", "/");
            let file = root().join("tests").join(format!("{path}.rs"));
            assert!(file.is_file(), "{}", file.display());
        }
    }
}
