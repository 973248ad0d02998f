//! Files that are meant to hurt: refused or read within a bounded time and memory, and never with a panic.
//!
//! One test, so that the memory is that of these files alone. The time is that of an unoptimised build on a busy
//! machine; what it is to catch takes hours.

#![expect(clippy::unwrap_used, reason = "a test: a panic is the report")]

use std::fmt::Write as _;
use std::sync::mpsc;
use std::time::Duration;
use thalweg_config::{Look, check_bytes};

/// Longest time for one file, in an unoptimised build.
const TIME: Duration = Duration::from_secs(60);
/// Most memory of the process, in KiB, with all files checked one after the other.
const MEMORY: u64 = 1536 * 1024;
/// Large enough that whatever grows faster than the file would take hours.
const LARGE: usize = 512 * 1024;
/// As large as a file may be, and a little less.
const LARGEST: usize = 4 * 1024 * 1024 - 4096;
/// A value of the environment.
const LONG_VALUE: usize = 1024 * 1024;

const HEAD: &str = "listeners: { web: { address: \":8080\" } }\n";
const ROUTE: &str = "routes: [ { to: [ \"http://127.0.0.1:9001\" ] } ]\n";

fn environment(name: &str) -> Option<String> {
    match name {
        "LONG" => Some("x".repeat(LONG_VALUE)),
        "AGAIN" => Some("${AGAIN}${AGAIN}".into()),
        "NOTHING" => Some(String::new()),
        _ => None,
    }
}

/// As many numbered pieces as fit.
fn many(piece: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0.. {
        let next = piece(number);
        if text.len() + next.len() > LARGE {
            break;
        }
        text.push_str(&next);
    }
    text
}

/// Many numbered pieces, of up to eighty bytes each.
fn some(piece: impl Fn(usize) -> String) -> String {
    (0..LARGE / 80).map(piece).collect()
}

/// Ten levels, each ten times the one before it.
fn aliases() -> String {
    let mut text = String::from("a0: &a0 [ x, x, x, x, x, x, x, x, x, x ]\n");
    for level in 1..10 {
        let list = format!("*a{}, ", level - 1).repeat(10);
        let _ = writeln!(text, "a{level}: &a{level} [ {} ]", list.trim_end_matches(", "));
    }
    text
}

type File = (&'static str, &'static str, String);

/// Files that are too deep, too many or too long: name, extension, text.
fn shapes() -> Vec<File> {
    let n = LARGE;
    vec![
        ("ten megabytes", "yaml", "# comment\n".repeat(1024 * 1024)),
        ("alias bomb", "yaml", aliases()),
        (
            "wide alias",
            "yaml",
            format!("a: &a [ {} ]\nb: [ {} ]\n", "x, ".repeat(50_000), "*a, ".repeat(50_000)),
        ),
        ("alias of itself", "yaml", "a: &a [ *a ]\n".into()),
        ("many anchors", "yaml", many(|at| format!("a{at}: &a{at} x\n"))),
        ("brackets", "yaml", "[".repeat(n)),
        ("braces", "yaml", "{a: ".repeat(n / 4)),
        ("dashes", "yaml", "- ".repeat(n / 2)),
        ("question marks", "yaml", "? ".repeat(n / 2)),
        (
            "deeper and deeper",
            "yaml",
            (0..1500).fold(String::new(), |text, at| text + &" ".repeat(at) + "a:\n"),
        ),
        ("brackets", "json", "[".repeat(n)),
        ("braces", "json", "{\"a\":".repeat(n / 5)),
        ("brackets", "toml", format!("a = {}", "[".repeat(n - 4))),
        ("dots", "toml", format!("{}a = 1", "a.".repeat(n / 2))),
        ("keys", "yaml", many(|at| format!("k{at}: 1\n"))),
        ("keys", "json", format!("{{{}\"z\":1}}", many(|at| format!("\"{at}\":1,")))),
        ("keys", "toml", many(|at| format!("k{at}=1\n"))),
        ("keys without values", "yaml", format!("{{{}}}", many(|at| format!("{at},")))),
        ("more values than there may be", "yaml", format!("[{}]", "a,".repeat(LARGEST / 2 - 1))),
        ("the largest line", "yaml", "x".repeat(LARGEST)),
        ("one plain line", "yaml", "x".repeat(n)),
        ("one plain line of words", "yaml", "x ".repeat(n / 2)),
        ("one quoted line", "yaml", format!("workers: \"{}\"\n", "\\n".repeat(n / 2 - 10))),
        ("one quoted line without its end", "yaml", format!("workers: \"{}", "x".repeat(n - 10))),
        ("one key", "yaml", format!("{}: 1\n", "x".repeat(n - 10))),
        ("one comment", "yaml", format!("{HEAD}{ROUTE}#{}", "x".repeat(n - 200))),
        ("lines of a text", "yaml", format!("workers: |\n{}", "  x\n".repeat(n / 4 - 10))),
        ("line breaks", "yaml", "\n".repeat(n)),
        ("quotes", "yaml", "'".repeat(n)),
        ("colons", "yaml", ": ".repeat(n / 2)),
        ("stars", "yaml", "*a ".repeat(n / 3)),
        ("commas", "yaml", format!("[{}]", ",".repeat(n - 2))),
        ("tabs", "yaml", "\t".repeat(n)),
        ("a tab behind many lines", "yaml", format!("{}\tb: 1\n", "a: 1 # x\n".repeat(n / 9 - 10))),
    ]
}

/// Files that are well formed and ask for too much.
fn demands() -> Vec<File> {
    vec![
        (
            "services without endpoints",
            "yaml",
            format!("{HEAD}services:\n{}", many(|at| format!("  s{at}: {{}}\n"))),
        ),
        (
            "references to nothing among many services",
            "yaml",
            format!(
                "{HEAD}routes:\n{}services:\n{}",
                some(|at| format!("  - to: x{at}\n")),
                some(|at| format!("  s{at}: {{ endpoints: [ \"http://a\" ] }}\n")),
            ),
        ),
        (
            "listeners that are not there among many routes",
            "yaml",
            format!(
                "listeners:\n{}routes:\n{}",
                (0..4096).fold(String::new(), |text, at| text
                    + &format!("  w{at}: {{ address: \"unix:/{at}\" }}\n")),
                some(|at| format!("  - {{ listeners: [ v{at} ], to: [ \"http://a\" ] }}\n")),
            ),
        ),
        (
            "routes",
            "yaml",
            format!("{HEAD}routes:\n{}", many(|at| format!("  - {{ name: r{at}, to: [ \"http://a\" ] }}\n"))),
        ),
        (
            "endpoints among listeners",
            "yaml",
            format!(
                "listeners:\n{}routes:\n{}",
                (0..4000).fold(String::new(), |text, at| {
                    text + &format!("  w{at}: {{ address: \"127.0.0.1:{}\" }}\n", at + 1)
                }),
                some(|at| format!("  - to: [ \"http://127.0.0.1:{}\" ]\n", at % 4000 + 1)),
            ),
        ),
    ]
}

/// Values that grow.
fn values() -> Vec<File> {
    vec![
        (
            "mistakes behind a long list",
            "yaml",
            format!("trusted_proxies: [ {} ]\n{}", "10.0.0.1, ".repeat(80_000), "x: 1\n"),
        ),
        (
            "an expression that grows",
            "yaml",
            format!(
                "{HEAD}routes: [ {{ match: {{ path_regex: \"/(a{{1000}}){{1000}}\" }}, to: [ \"http://a\" ] }} ]\n"
            ),
        ),
        (
            "many expressions",
            "yaml",
            format!(
                "{HEAD}routes:\n{}",
                some(|at| format!(
                    "  - {{ match: {{ path_regex: '/{at}[a-z]+' }}, to: [ \"http://a\" ] }}\n"
                ))
            ),
        ),
        ("long values", "yaml", format!("trusted_proxies: [ {} ]\n", "\"${LONG}\", ".repeat(1000))),
        ("one value of long values", "yaml", format!("workers: \"{}\"\n", "${LONG}".repeat(1000))),
        ("values of values", "yaml", format!("workers: \"{}\"\n", "${AGAIN}".repeat(100_000))),
        ("defaults of defaults", "yaml", format!("workers: \"{}\"\n", "${A:-".repeat(100_000))),
        ("dollars", "yaml", format!("workers: \"{}\"\n", "$".repeat(LARGE))),
        ("nothing many times", "yaml", format!("workers: \"{}\"\n", "${NOTHING}".repeat(LARGE / 10 - 2))),
    ]
}

/// Bytes that are no text, or an odd one.
fn bytes() -> Vec<(&'static str, Vec<u8>)> {
    let good = format!("{HEAD}{ROUTE}");
    let around = |before: &[u8], after: &[u8]| [before, good.as_bytes(), after].concat();
    vec![
        ("invalid UTF-8", around(b"", b"# \xff\n")),
        ("cut inside a character", around(b"", b"# \xe2\x82")),
        ("a surrogate", around(b"", b"# \xed\xa0\x80\n")),
        ("NUL", around(b"\0", b"")),
        ("NUL at the end", around(b"", b"\0")),
        ("UTF-16", good.encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("a mark in the middle", around(b"", "\u{feff}x: 1\n".as_bytes())),
        ("escapes of nothing", around(b"", b"workers: \"\\uD800\\u0000\\x00\\U0011FFFF\"\n")),
        ("other line breaks", around(b"", "\u{2028}x\u{85}: 1\u{2029}\n".as_bytes())),
        ("binary", (0..=u8::MAX).cycle().take(100_000).collect()),
    ]
}

#[test]
fn hostile_files_are_refused_or_read_within_bounds() {
    for (name, extension, text) in shapes().into_iter().chain(demands()).chain(values()) {
        bounded(name, &format!("file.{extension}"), text.into_bytes());
    }
    for (name, bytes) in bytes() {
        for file in ["file.yaml", "file.json", "file.toml"] {
            assert!(!bounded(name, file, bytes.clone()), "{name} as {file} was taken for a configuration");
        }
    }
    let good = format!("{HEAD}{ROUTE}");
    assert!(bounded("byte order mark", "file.yaml", format!("\u{feff}{good}").into_bytes()));
    assert!(bounded("CRLF", "file.yaml", good.replace('\n', "\r\n").into_bytes()));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < MEMORY, "{peak} KiB");
}

/// Reads a file within the time, and shows what is said about it; whether it can run.
fn bounded(name: &str, file: &str, bytes: Vec<u8>) -> bool {
    let (done, result) = mpsc::channel();
    let file = file.to_owned();
    let shown = file.clone();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let report = match check_bytes(&file, &bytes, &environment) {
            Ok(loaded) => (true, loaded.warnings),
            Err(report) => (false, report),
        };
        assert!(report.0 || !report.1.errors.is_empty(), "refused without a word");
        let said = report.1.render(Look::Plain).len() + report.1.lines().len();
        let _ = done.send((report.0, said));
    });
    let outcome = result.recv_timeout(TIME);
    let (runs, said) = outcome.unwrap_or_else(|why| panic!("{name} as {shown}: {why}"));
    thread.unwrap().join().unwrap();
    assert!(said < 256 * 1024, "{name} as {shown}: {said} bytes said");
    runs
}
