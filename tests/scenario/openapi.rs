//! The admin API against its own description: `schemathesis` asks a running proxy what the OpenAPI document allows, and
//! what it forbids.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use thalweg_tests::program::run;
use thalweg_tests::python_tool::python_tool;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Admin, Message, Proxy, STEP, Upstream, Watchdog};

const SCHEMATHESIS: &str = "schemathesis==4.32.5";
const VALIDATOR: &str = "openapi-spec-validator==0.9.0";
const TOKEN: &str = "write-token-0123456789";
/// What is not asked: the streams, which go on until the client leaves, and the end of the process.
const LEFT_OUT: [&str; 3] = ["tap", "events", "stop"];
/// Requests for each operation and phase. With `THALWEG_LONG=1`: [`LONG_EXAMPLES`], and another seed each time.
const EXAMPLES: &str = "10";
const LONG_EXAMPLES: &str = "200";
const SEED: &str = "25";
const TIME: Duration = Duration::from_secs(200);
const LONG_TIME: Duration = Duration::from_secs(900);

/// A configuration that has something for every operation.
fn config(one: &str, other: &str) -> String {
    let secret: String = (0..64).map(|byte| format!("{byte:02x}")).collect();
    format!(
        "state: {{ path: state }}\n\
         admin: {{ address: \"127.0.0.1:0\", token: {{ value: {TOKEN} }} }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         lists: {{ blocked: [ 192.0.2.0/24 ] }}\n\
         slos: {{ shop: {{ route: shop, target: 99%, window: 1d }} }}\n\
         routes:\n\
         \x20 - name: previews\n    match: {{ host: \"*.svc.example.com\" }}\n    \
             to: {{ sealed: {{ domain: \"*.svc.example.com\", keys: [ {{ id: 1, secret: {{ value: {secret} }} }} ], \
                   allow: [ \"127.0.0.0/8:1024-65535\" ] }} }}\n\
         \x20 - name: shop\n    match: {{ path: /shop/* }}\n    filters: [ {{ maintenance: {{ on: false }} }} ]\n    \
             to: [ {{ service: products, weight: 100 }}, {{ service: next, weight: 0 }} ]\n    \
             canary: {{ service: next, steps: [ 50%, 100% ], hold: 1h, gates: {{ min_requests: 40, max_error_ratio: 5% }} }}\n\
         \x20 - {{ name: keyed, match: {{ path: /keyed/* }}, filters: [ {{ auth: {{ api_key: {{ list: partners }} }} }} ], to: products }}\n\
         services:\n\
         \x20 products: {{ endpoints: \"{one}\" }}\n\
         \x20 next: {{ endpoints: \"{other}\" }}\n\
         shutdown: {{ delay: 0s, grace: 1s }}\n"
    )
}

#[test]
fn the_description_of_the_api_is_valid_openapi() {
    let Some(mut validator) = python_tool(&[VALIDATOR]) else { return };
    let _watchdog = Watchdog::new("the_description_of_the_api_is_valid_openapi", TIME);
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/openapi.json");
    let done = run(validator.args(["-m", "openapi_spec_validator"]).arg(committed), TIME);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
}

#[test]
fn schemathesis_finds_nothing_in_the_admin_api() {
    let Some(mut schemathesis) = python_tool(&[SCHEMATHESIS]) else { return };
    let is_long = std::env::var_os("THALWEG_LONG").is_some();
    let time = if is_long { LONG_TIME } else { TIME };
    let _watchdog = Watchdog::new("schemathesis_finds_nothing_in_the_admin_api", time);
    let service = || Upstream::start(|_: &Message| Some(ok("hello")));
    let (one, other) = (service(), service());
    let proxy = Proxy::start(&config(&one.url(), &other.url()));
    let admin: SocketAddr = proxy
        .process()
        .wait_line("the admin address", STEP, |line| line.strip_prefix("thalweg: admin on ")?.parse().ok());
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    for file in ["schemathesis.toml", "schemathesis_formats.py"] {
        fs::copy(programs.join(file), proxy.directory().join(file)).unwrap();
    }
    schemathesis
        .current_dir(proxy.directory())
        .args(["-m", "schemathesis.cli", "run", "--checks", "all"])
        .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
        .args(["--request-timeout", "20", "--generation-database", "none"]);
    for operation in LEFT_OUT {
        schemathesis.args(["--exclude-operation-id", operation]);
    }
    match is_long {
        true => schemathesis.args(["--max-examples", LONG_EXAMPLES]),
        false => schemathesis.args(["--max-examples", EXAMPLES, "--seed", SEED]),
    };
    // From a file: fetched by itself it would leave out the operation that shows it.
    let description = Admin::of(&proxy).call("GET", "/api/v1/openapi.json", "").body;
    fs::write(proxy.directory().join("openapi.json"), &description).unwrap();
    let done = run(schemathesis.args(["--url", &format!("http://{admin}/"), "openapi.json"]), time);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    // No operation was passed over.
    let description: Value = serde_json::from_slice(&description).unwrap();
    let operations =
        description["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap());
    let tested = operations.count() - LEFT_OUT.len();
    assert!(done.stdout.contains(&format!("Tested: {tested}")), "{}", done.stdout);
}
