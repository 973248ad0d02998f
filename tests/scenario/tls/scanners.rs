//! What scanners find on a listener with the default policy: nothing but that its certificate is its own issuer.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use thalweg_tests::program::{Finished, find_or_skip, run};
use thalweg_tests::python_tool::python_tool;
use thalweg_tests::{Directory, Identity, Proxy, Upstream, Watchdog};

use super::config;

/// `testssl` starts hundreds of programs: 15 to 60 seconds on two cores with other tests beside it.
const SCAN: Duration = Duration::from_secs(240);
const LIMIT: Duration = Duration::from_secs(260);

/// What `testssl` looks for, in its order. Left out are `-e` (each suite that there is, one after the other: `-s` has
/// refused the weak ones by their kinds) and `-c` (which clients of the past are served): they list, and judge nothing.
const PARTS: &[&str] = &["-p", "-s", "-f", "-P", "-S", "-h", "-U"];

/// What it says of a listener that has nothing to be found.
const NOTHING_FOUND: &[&str] = &[
    "SSLv2",
    "SSLv3",
    "TLS1_2",
    "TLS1_3",
    "ALPN_HTTP2",
    "cipherlist_NULL",
    "cipherlist_aNULL",
    "cipherlist_EXPORT",
    "cipherlist_LOW",
    "cipherlist_STRONG",
    "cipher_order",
    "cert_keySize",
    "cert_trust",
    "cert_expirationStatus",
    "HSTS_time",
    "heartbleed",
    "CCS",
    "ticketbleed",
    "ROBOT",
    "secure_renego",
    "secure_client_renego",
    "CRIME_TLS",
    "BREACH",
    "POODLE_SSL",
    "fallback_SCSV",
    "SWEET32",
    "FREAK",
    "DROWN",
    "LOGJAM",
    "BEAST",
    "LUCKY13",
    "RC4",
];

/// What it finds of ours, always: the certificate is its own issuer.
const FOUND: &str = "cert_chain_of_trust";
/// What it finds of itself, at times.
const SCANNERS_OWN: &[(&str, &str)] = &[
    (
        "sessionresumption_ticket",
        "its openssl may leave before the tickets of TLS 1.3 have come, and then has none to show",
    ),
    ("engine_problem", "the scanner's own openssl knows no GOST"),
];

/// A site with the default policy, as a site should be: its fields are the site's own.
fn site() -> (Upstream, Proxy) {
    let upstream = Upstream::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nX-Frame-Options: DENY\r\nX-Content-Type-Options: nosniff\r\n\
            Content-Security-Policy: default-src 'self'\r\nContent-Length: 5\r\n\r\n";
        Some(format!("{head}hello").into_bytes())
    });
    let directory = Directory::new();
    let certificate = Identity::as_issued(&["localhost", "127.0.0.1"]).write(&directory, "web");
    let text = config(&[&upstream.url()], &format!("certificates: [ {certificate} ]"), "");
    let text = text.replace("{ to: s }", "{ filters: [ hsts: {} ], to: s }");
    let proxy = Proxy::start_in(directory, &text);
    (upstream, proxy)
}

fn said(finished: &Finished) -> String {
    format!("{}\n{}", finished.stdout, finished.stderr)
}

#[test]
fn testssl_finds_nothing_but_the_certificates_issuer() {
    let Some(testssl) = find_or_skip("testssl") else { return };
    let _watchdog = Watchdog::new("testssl_finds_nothing_but_the_certificates_issuer", LIMIT);
    let (_upstream, proxy) = site();
    let file = proxy.directory().join("found.json");
    let mut command = Command::new(testssl);
    command
        .args(["--quiet", "--warnings", "off", "--color", "0", "--nodns", "none", "--jsonfile"])
        .arg(&file);
    command.args(PARTS).arg(format!("https://{}/", proxy.web()));
    let finished = run(&mut command, SCAN);
    let text = fs::read_to_string(file).unwrap_or_else(|_| panic!("{}", said(&finished)));
    let findings: Vec<Value> = serde_json::from_str(&text).unwrap();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let is_good = |finding: &&Value| text(finding, "severity") == "OK";
    let ids = |finding: &Value| text(finding, "id").split(' ').next().unwrap_or_default().to_owned();
    let good: Vec<_> = findings.iter().filter(is_good).map(ids).collect();
    let missing: Vec<_> = NOTHING_FOUND.iter().filter(|id| !good.iter().any(|good| good == *id)).collect();
    let bad = findings.iter().filter(|finding| {
        let is_listed = matches!(&text(finding, "severity")[..], "OK" | "INFO");
        !is_listed && !SCANNERS_OWN.iter().any(|(id, _)| *id == ids(finding))
    });
    let bad: Vec<_> = bad.collect();
    assert!(
        missing.is_empty() && matches!(bad[..], [only] if ids(only) == FOUND),
        "not said: {missing:?}; found: {bad:#?}\n{}",
        said(&finished)
    );
}

#[test]
fn sslyze_finds_what_mozilla_recommends() {
    let Some(mut sslyze) = python_tool(&["sslyze==6.3.1"]) else { return };
    let _watchdog = Watchdog::new("sslyze_finds_what_mozilla_recommends", LIMIT);
    let (_upstream, proxy) = site();
    let file = proxy.directory().join("found.json");
    sslyze.args(["-m", "sslyze", "--mozilla_config=intermediate", "--early_data", "--resum", "--json_out"]);
    let finished = run(sslyze.arg(&file).arg(proxy.web().to_string()), SCAN);
    let (_, judged) = finished
        .stdout
        .split_once("Checking results against")
        .unwrap_or_else(|| panic!("{}", said(&finished)));
    let found: Vec<_> = judged.lines().filter_map(|line| line.trim().strip_prefix("* ")).collect();
    // It is its own issuer.
    assert!(
        matches!(found[..], [only] if only.starts_with("certificate_path_validation: ")),
        "{}",
        said(&finished)
    );
    let found: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let found = &found["server_scan_results"][0]["scan_result"];
    for part in [
        "certificate_info",
        "ssl_2_0_cipher_suites",
        "ssl_3_0_cipher_suites",
        "tls_1_0_cipher_suites",
        "tls_1_1_cipher_suites",
        "tls_1_2_cipher_suites",
        "tls_1_3_cipher_suites",
        "tls_compression",
        "openssl_ccs_injection",
        "tls_fallback_scsv",
        "heartbleed",
        "robot",
        "session_renegotiation",
        "session_resumption",
        "tls_1_3_early_data",
        "elliptic_curves",
        "tls_extended_master_secret",
    ] {
        assert_eq!(found[part]["status"], "COMPLETED", "{part}");
    }
    assert_eq!(found["tls_1_3_early_data"]["result"]["supports_early_data"], false);
}
