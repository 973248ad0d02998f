//! `cargo xtask conformance`: what the public suites say of the product, beside what they say of others.
//!
//! Each suite is played by black-box tests, which assert that every case passes but for those that they name with a
//! reason; CI runs them. This verb plays them alone and writes the board. Figures of others are measurements of the
//! same suites on such a machine with default-like configurations (nginx 1.22, HAProxy 2.6 and Caddy 2.6 of Debian,
//! Envoy 1.40), those of caches what the suite publishes. Where cases fail, the tests have them in one list, each with
//! its reason; they fail for a case that is not in it, and for one in it that passes, so that it can only shrink.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::command::root;
use crate::{cache_tests, test};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only suites whose name has this in it
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// A checkout of http-tests/cache-tests with its client, which is played too: see CONTRIBUTING.md
    #[arg(long, value_name = "DIR")]
    cache_tests: Option<PathBuf>,
    /// Write docs/conformance.md
    #[arg(long, conflicts_with = "only", requires = "cache_tests")]
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
        name: "http-cache-tests, the release",
        from: "npm http-cache-tests 0.4.5",
        tests: "scenario::cache_suite::",
        ours: "required 141 of 157, optimal 78 of 86; it is older than RFC 9111, and the test has a reason for each other",
        theirs: "required: Squid 120, Traffic Server 118, httpd 118, Varnish 105, nginx 93; optimal: httpd 59, \
                 Traffic Server 55, nginx 50, Squid 49, Varnish 40",
    },
    Suite {
        name: "Autobahn",
        from: "PyPI kosoku 0.1.0, which drives its cases",
        tests: "scenario::autobahn::",
        ours: "300 of 301 before us and behind us: all that pass without a proxy",
        theirs: "not measured",
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
        ours: "every request beside its four attacks is answered, with places left and with four attackers for each",
        theirs: "not measured",
    },
    Suite {
        name: "httplint",
        from: "PyPI",
        tests: "scenario::httplint::",
        ours: "no warning in 19 answers (files, pages of errors, redirects, limits, the cache, compression) but two, \
               which are meant so",
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

/// The state of http-cache-tests that no registry has, as a checkout: `cargo xtask cache-tests` plays it.
const CHECKOUT: (&str, &str) =
    ("http-cache-tests, the newest", "a checkout of http-tests/cache-tests of July 2026");
const CHECKOUT_THEIRS: &str = "required: Traffic Server 132, httpd 131, Squid 122, Caddy with Souin 121, Varnish 119, \
                               nginx 99, HAProxy 89; optimal: Traffic Server 70, httpd 68, nginx and Squid 59, \
                               Varnish 45, Caddy 44, HAProxy 40";

/// What stands beside the board.
const APART: &str = "\
Where a case fails, the test that plays the suite lists it with a reason; a case that fails and is not listed fails the \
test, and so does one that is listed and passes. CI plays all of it but the checkout.\n\n\
Autobahn's own program needs Python 2.7 up to its last release (25.10.1), which this Debian has not; `kosoku` drives \
the same cases from Python 3. Not played are the 216 on compressed messages: the proxy does not look into messages, \
and they differ only for who unpacks them. The one that fails (7.1.5) fails without a proxy, too: it is the echo \
server's.\n\n\
Not played: Http11Probe needs .NET; its cases are transcripts (`tests/wire/`).\n";

/// A line of the board.
struct Row {
    name: &'static str,
    from: &'static str,
    /// `None` where a case has another outcome than it should.
    ours: Option<String>,
    theirs: &'static str,
    took: Duration,
}

/// Plays the suites and prints the board; fails when one does not pass.
pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted = |suite: &&Suite| args.only.as_ref().is_none_or(|only| suite.name.contains(only.as_str()));
    test::build()?;
    let mut rows: Vec<_> = SUITES.iter().filter(wanted).map(play).collect();
    if let Some(suite) = &args.cache_tests {
        rows.push(checkout(suite)?);
    }
    let board = board(&rows);
    print!("{board}");
    if args.write {
        fs::write(page(), board)?;
    }
    let failed: Vec<_> = rows.iter().filter(|row| row.ours.is_none()).map(|row| row.name).collect();
    if !failed.is_empty() {
        bail!("not every case passes of: {}", failed.join("; "));
    }
    Ok(())
}

fn play(suite: &Suite) -> Row {
    let Suite { name, from, tests, ours, theirs } = *suite;
    let begin = Instant::now();
    // A suite whose program is missing is no suite that passes.
    let played = test::black_box(&[tests, "--test-threads=2"], &[("CI", "true".as_ref())]);
    Row { name, from, ours: played.is_ok().then(|| ours.to_owned()), theirs, took: begin.elapsed() }
}

fn checkout(suite: &Path) -> Result<Row> {
    let begin = Instant::now();
    let (score, judged) = cache_tests::score(suite)?;
    if let Err(error) = &judged {
        println!("cache-tests: {score}; {error}");
    }
    let ((name, from), theirs, took) = (CHECKOUT, CHECKOUT_THEIRS, begin.elapsed());
    Ok(Row { name, from, ours: judged.is_ok().then_some(score), theirs, took })
}

fn page() -> PathBuf {
    root().join("docs/conformance.md")
}

fn board(rows: &[Row]) -> String {
    let mut text = "# Public suites\n\n<!-- Written by `cargo xtask conformance --write`. -->\n\n\
                    | suite | from | Thalweg | others | took |\n|---|---|---|---|---|\n"
        .to_owned();
    for Row { name, from, ours, theirs, took } in rows {
        let ours = ours.as_deref().unwrap_or("**fails**");
        let _ = writeln!(text, "| {name} | {from} | {ours} | {theirs} | {} s |", took.as_secs());
    }
    text + "\n" + APART
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(suite: &Suite, passed: bool) -> Row {
        let Suite { name, from, ours, theirs, .. } = *suite;
        Row { name, from, ours: passed.then(|| ours.to_owned()), theirs, took: Duration::from_secs(3) }
    }

    #[test]
    fn a_suite_that_fails_is_told_as_one() {
        let board = board(&[row(&SUITES[0], true), row(&SUITES[1], false)]);
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

    #[test]
    fn the_page_is_of_these_suites() {
        let page = fs::read_to_string(page()).unwrap();
        for Suite { name, from, ours, theirs, .. } in SUITES {
            let row = format!("| {name} | {from} | {ours} | {theirs} | ");
            assert!(page.contains(&row), "help: `cargo xtask conformance --write`\n{row}");
        }
        assert!(
            page.ends_with(APART) && page.contains(CHECKOUT_THEIRS),
            "help: `cargo xtask conformance --write`"
        );
    }
}
