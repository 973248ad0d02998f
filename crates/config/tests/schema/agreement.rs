//! Schema and parser agree. What the schema refuses, the parser refuses, without exception; what it lets pass, the
//! parser refuses only for the reasons listed here, which a schema cannot express.

use super::corpus::{FILLED, check, document, files, fits, messages, read, reasons};
use super::draw::Draw;
use super::mutate::mutate;
use serde_json::Value;
use thalweg_config::Report;

/// Mutations of each good file, and of each bad one; a long run tries [`LONGER`] times as many.
const MUTATIONS: (usize, usize) = (60, 5);
/// Documents drawn from the schema; the same.
const DRAWN: usize = 700;
const LONGER: usize = 10;

fn times() -> usize {
    if std::env::var("THALWEG_LONG").as_deref() == Ok("1") { LONGER } else { 1 }
}

/// A reason, and a part of each message that it has.
type Reason = (&'static str, &'static [&'static str]);

/// Reasons that are found while single values are read.
const READING: &[Reason] = &[
    (
        "what a variable holds, or that it is not set",
        &[FILLED, "is not set", "is not a variable", "without a closing"],
    ),
    ("a number with a unit is larger than any", &["is too large", "is longer than 100 years"]),
    ("parts of a duration in the wrong order", &["units go from large to small"]),
    (
        "a whole number written with a fraction of zero",
        &["a whole number, 0 or more, found a number", "or a whole number, found a number"],
    ),
    ("a map whose only value could not be filled in", &["one of its keys is needed here"]),
    ("a number with more than one decimal", &["at most one decimal"]),
    ("a range of statuses that is empty", &["the range is empty"]),
    ("a character that no file may have", &["may not stand in a configuration"]),
    ("nothing in the place of a short form or a map", &["for the defaults, found nothing"]),
    (
        "a target that leaves no budget, or none worth the name",
        &["leaves no budget", "a target must be from"],
    ),
];

/// Reasons that are found by validation.
const VALIDATION: &[Reason] = &[
    ("a name that nothing has", &["no service `", "no listener `", "no chain `", "no route `"]),
    (
        "what an objective is about, and by which counts it can be judged",
        &[
            "an objective needs a route or a service",
            "an objective is about one route or one service",
            "durations are counted in buckets",
            "the window must be in whole hours",
        ],
    ),
    (
        "how lines of the access log look, and where they go",
        &[
            "only a file moves on",
            "nothing says when the file moves on",
            "a log goes to `path` or to `syslog`",
            "is no receiver of syslog",
            "a tag has 1 to",
            "is no placeholder of a log line",
            "a format has",
            "a format is one line",
            "stands alone; write",
        ],
    ),
    (
        "who may pass, and what is to be known of it",
        &[
            "a list has networks, `file` and `url`",
            "`access` says nothing",
            "belong to requests",
            "write `geo_file`",
            "is neither a network nor an address",
            "no list `",
            "is no code of a country",
            "there is no such file",
            "it is not a regular file",
            "is no MMDB",
            "`longest` is shorter than the first ban",
            "nothing counts towards this ban",
        ],
    ),
    (
        "nothing to listen on or to route: another file may say it",
        &["there are no listeners", "there are no routes"],
    ),
    (
        "the same twice",
        &[
            "listed twice",
            "written twice",
            "two routes are named",
            "have the same address",
            "is the same as",
            "this path is listed twice",
            "has `cert` and `key`, or `certificates`",
            "of this certificate is missing",
            "of this key is missing",
            "an empty list matches no path",
            "need the same port of one address",
        ],
    ),
    (
        "the range or the form of a duration, a share or a size",
        &[
            "must be from",
            "must be longer than 0s",
            "the statuses here are",
            "is not a size",
            "copies are held in memory",
        ],
    ),
    (
        "two keys that do not go together",
        &[
            "belongs to `defaults.timeouts`",
            "is for endpoints that a source finds",
            "must not be larger than `max`",
            "must not be shorter than `time`",
            "must end before the next one",
            "`path` or `path_regex`, not both",
            "`tier` or `backup`, not both",
            "cannot be combined with",
            "a TCP check has no",
            "has no meaning with",
            "go nowhere",
            "connections go to `tcp://` endpoints",
            "datagrams go to `udp://` endpoints",
            "datagrams of clients come to no unix socket",
            "no check asks through `udp://`",
            "requests cannot go to",
            "takes connections, and no requests",
            "only `tcp://` endpoints are told",
            "cannot tell a late PROXY header",
            "is sent to `tcp://` endpoints only",
            "goes by answers, and connections",
            "a gRPC check has no",
            "has no kind",
            "the DNS challenge needs a program",
            "the list of trusted proxies is empty",
            "the read-only token would allow",
            "browsers refuse",
            "has no body",
            "only services stand in this list",
            "all weights are 0",
            "reachable from other machines",
            "use TLS already",
            "`preload` needs",
            "is missing in `hedge`",
            "the key `to` is missing",
        ],
    ),
    (
        "limits that count nothing, or two things",
        &[
            "`burst` would take",
            "write `limits`, a list",
            "says how many may come in `per`",
            "`burst` is a",
            "bytes are what a request costs",
            "`cost` is a number",
            "is not known when a request is counted",
            "each of them has its own",
            "without `default` needs",
            "and a limit are one too many",
            "has the name of a claim",
            "without quotes",
            "`prefix` is for",
            "of a key has no name",
            "is no name of a",
            "`limits` has 1 to",
            "`key` has 1 to",
            "`name` has 1 to",
            "by each proxy for itself",
            "no place of a store",
            "`ca` is for TLS",
            "needs a `password`",
            "the URL of a store has",
            "`prefix` of the store has",
            "of the store is not text",
            "`status` of `concurrency`",
        ],
    ),
    (
        "chains in chains",
        &["a chain contains itself", "chains are nested", "filters, those of chains included"],
    ),
    (
        "a file to include",
        &[
            "cannot read `",
            "cannot look for files",
            "a file includes itself",
            "the name of a file or a pattern",
            "is not a pattern here",
        ],
    ),
    (
        "a request that nobody could send, or a test that cannot hold or does not",
        &[
            "this is not a request",
            "this is not a method",
            "is not a status",
            "goes to no service",
            "the test expects nothing",
            "is not the name of a header",
            "holds a control character",
            "the URL is empty",
            "a URL holds no spaces",
            "a URL begins with",
            "credentials in a URL",
            "the test",
            "no route `",
        ],
    ),
    (
        "a text that its pattern cannot tell from a right one",
        &[
            "is not a host",
            "cannot stand in a host name",
            "a host is missing",
            "holds a path; the path has its own key",
            "ports belong to listeners",
            "is not ASCII",
            "is not an IPv6 address",
            "control character or backslash in the path",
            "stands for the first labels only",
            "a host pattern is only its host",
            "is not a network or an address",
            "bits set behind its prefix",
            "strip_prefix` may not hold",
            "is told in whole seconds",
            "stand for a whole segment",
            "is not a path",
            "is not an address",
            "is a URL, not an address",
            "is not an IP address",
            "is not a port",
            "is an IPv6 address",
            "stands in brackets",
            "host names are not resolved here",
            "the host of this URL is missing",
            "the URL has no host",
            "has no path or query",
            "has no user or password",
            "both bring certificates to this listener",
            "must be written as `%XX`",
            "must be absolute",
            "cannot be the path of a unix socket",
            "a TCP address is needed",
            "methods are case-sensitive",
            "goes by one of `cookie`, `header` and `query`",
            "write values and services, as in",
            "may have letters, digits and",
            "which is no value of `to`",
            "they may be 100% at most",
            "keeps what `share` draws",
            "`sticky` must be from",
            "is no name of a cookie, field or parameter",
            "there is no directory",
            "is no directory",
            "cannot be opened",
            "chooses a service, and stands at one",
            "names a service",
            "a canary moves requests between services",
            "a canary has from 1 to 100 steps",
            "the route does not go to a service",
            "the steps must ascend",
            "a step must be from 1% to 100%",
            "is not a method that a check can use",
            "is not a user",
            "is not a media type",
            "is not the name of a",
            "the host is matched by `host`",
            "the check sets `",
            "the value of a header",
            "is not a unit of time",
        ],
    ),
    (
        "a regular expression that is none",
        &["unclosed group", "repetition quantifier expects", "repetition operator missing"],
    ),
    ("an empty text or list, or a name that cannot be shown", &["an empty list", "is empty", "a name must"]),
    (
        "where labels stand, which keys open them, and where they may lead",
        &[
            "no label could lead anywhere",
            "no host below",
            "does not say where labels stand",
            "a secret has 128 hex digits",
            "a key is missing",
            "two keys have the id",
            "the domain stands without",
            "is not in lower case",
            "is longer than",
            "every label has",
            "is not a network",
            "would never hold",
            "has bits behind its prefix",
            "are no ports",
            "the range of ports",
            "an IPv4 network stands",
            "is no address of a machine",
            "connections come from at most",
            "name no host that a label",
            "`sealed` stands alone",
            "a secret stands in one place",
            "the file of revoked labels",
        ],
    ),
    (
        "whom a source asks for what, where the proxy registers, and which collector has its traces",
        &[
            "has no endpoints",
            "a collector has no path",
            "write a name of Kubernetes",
            "cannot read the file ",
            "is neither a name",
            "is no address",
            "is no name",
            "the proxy writes `",
            "is there already, in other letters",
            "visible characters of ASCII",
            "has a key of its own",
            "there are at most",
            "has more than",
            "write `app` or `vip`",
            "write `key`, a hash",
            "write `token` or",
            "write the `port` of the endpoints",
            "write 1 to",
            "SRV records tell the port",
            "are for TLS; write `tls: true`",
            "is for TLS; write `rediss://`",
            "belong together",
            "write `username` and `password`, or `token` alone",
            "stands here twice",
            "`username` needs `password`",
            "has no user and no password",
            "has a path; write",
            "has a query; write",
            "is not the URL of a server",
            "has no absolute path",
            "is no server; write",
            "is no socket; write",
            "is no path of a node",
            "between slashes",
            "must be names, without commas",
            "`prefix` has at most",
            "is no name of a field",
            "is set by the proxy itself",
            "is no host name",
            "is no domain",
            "is no name server",
            "names a context of `kubeconfig`",
            "must be at most",
            "must be 1 to",
            "must have 1 to",
            "must not be empty",
            "have 1 to",
            "has 1 to",
        ],
    ),
    (
        "secrets: how long they are, and where they are",
        &["must have at least 16", "cannot read the file of the secret"],
    ),
    (
        "certificates: what is in their files, and that there is one",
        &[
            "cannot read the file of the certificate",
            "cannot read the file of the key",
            "cannot read the file of the ticket keys",
            "the file of the ticket keys",
            "the file of the certificate ",
            "the file of the key ",
            "cannot read the CA file",
            "cannot read the CRL file",
            "the CA file ",
            "the CRL file ",
            "ask different things of clients",
            "means nothing without",
            "the file of trusted certificates",
            "endpoints cannot be verified",
            "TLS needs a certificate",
            "is an address; clients name only hosts",
            "is not a host; clients",
        ],
    ),
    (
        "authorities: what they are asked for, and how",
        &[
            "the TLS of this listener has no certificate",
            "there is no host to ask for",
            "mail can be sent to",
            "certificates are asked for hosts",
            "issues wildcards only",
            "write each of them",
            "an authority is asked through TLS alone",
            "the file of the roots",
            "is not base64url",
            "who sets records in the DNS",
            "no record is set for this challenge",
            "either a program sets the record",
            "a program is missing",
            "which hosts may be asked for",
            "no client waits as long",
            "a profile is a word",
        ],
    ),
    (
        "versions of TLS, and what they need",
        &["must not be older than", "of TLS 1.", "leaves no cipher suite", "leaves no group"],
    ),
    (
        "what filters check of their texts",
        &[
            "is no place",
            "placeholder",
            "without a `",
            "in circles",
            "is no redirect",
            "is no error; write a status",
            "`max_body` must be",
            "`memory` must be",
            "is for `file`",
            "has `body` and `file`",
            "is not text in UTF-8",
            "cannot read the file ",
            "is no status",
            "has no body",
            "changes nothing",
            "does nothing",
            "is no obfuscated",
            "write one of `abort` and `reset`",
            "no status of an error",
            "`delay` must be",
            "ends before it begins",
            "is no duration",
            "`retry_after` must",
            "write one of `path`",
            "begin with `/`",
            "changed by `query`",
            "is no prefix of a path",
            "has no group",
            "regex parse error",
            "cannot be anchored",
            "compiles to more than",
            "without a group",
            "is no name of a field",
            "is the proxy's own",
            "control character",
            "`algorithms` is empty",
            "is no origin",
            "`origins` is empty",
            "`rules` must be 1 to",
            "`text` must have",
            "not both",
            "matches where nothing is",
            "is not a regular expression",
            "names the group",
            "is not a rate",
            "a rate must be from",
            "must hold what comes in 20ms",
            "without a rate changes nothing",
            "write `bandwidth` without",
            "`burst` must be from",
            "is no path: it begins with",
            "only a status from 400 to 599 may stand here",
            "act as the user",
            "`max_age` must",
            "is no method",
            "every page without an origin",
            "write the policy",
            "says nothing",
            "is a credential",
            "a query may hold credentials",
            "write one or the other",
            "`share` must be from 1% to 100%",
            "is not a share; write for example",
            "has at most 16 fields",
            "is not a network",
            "is no content type",
            "has no parameter",
        ],
    ),
    (
        "who may pass",
        &[
            "`auth` has no method",
            "`auth` takes one method",
            "methods",
            "`realm` has from",
            "`forward` takes",
            "are the same field to many servers",
            "requires nothing",
            "of `require` takes",
            "`basic` takes",
            "`basic` has no users",
            "a user's name has",
            "the hash of `",
            "`remember` of `basic`",
            "`network` takes",
            "the URL must begin with",
            "`api_key` takes",
            "`api_key` has no keys",
            "bearer: true",
            "logs would show the parameter",
            "the name of a key",
            "scopes and claims of",
            "is that of another one",
            "is no time; write",
            "does not say its kind",
            "of `mtls` takes",
            "of `mtls` has",
            "of `signed_url`",
            "`jwt` has no keys",
            "`jwt` takes one of",
            "of `jwt` are for",
            "a shared secret must have",
            "the shared secret is a key",
            "cannot be used",
            "`jwks_url`",
            "`algorithms` has",
            "is no algorithm of signatures",
            "takes from 1 to 64 texts",
            "`required` takes",
            "`stale` is at least",
            "is no name of a field, cookie or parameter",
            "is no field for a token",
            "would stand in logs",
            "`forward_auth` has no service",
            "`ext` has no service",
            "of `ext` must be from",
            "of `ext` is of no use",
            "`fields` of `ext`",
            "`wasm` has no module",
            "is built without `wasm`",
            "is no path; it begins",
            "is no method for a question",
            "of `cache`",
            "before paths are matched",
            "which is no field that a filter may use",
            "`copy` cannot have",
            "names",
            "`oidc` takes",
            "`oidc` has no `secret`",
            "a secret of sessions must have",
            "secrets",
            "provider `",
            "is no name of a provider",
            "is no name of a cookie",
            "is a path of this site",
            "three different paths",
            "`url`",
            "is neither a path of this site nor a URL",
            "`after_logout` has",
            "`ca`",
        ],
    ),
    (
        "what TLS of a service needs beside it",
        &["is reached through TLS", "belong together", "is neither a host name nor an address"],
    ),
];

fn unexplained(report: &[String], reasons: &[&[Reason]]) -> Vec<String> {
    let known = |message: &&String| {
        let parts = reasons.iter().flat_map(|list| list.iter()).flat_map(|(_, parts)| parts.iter());
        !parts.clone().any(|part| message.contains(part))
    };
    report.iter().filter(known).cloned().collect()
}

/// Both verdicts on one document: whether they agree, or why not.
fn compare(document: &Value) -> Result<(bool, bool), String> {
    let fits = fits(document);
    match check(document) {
        Ok(_) if fits => Ok((true, true)),
        Ok(_) => Err(format!("only the schema refuses {document}\n{}", reasons(document))),
        Err(_) if !fits => Ok((false, false)),
        Err(report) => explained(document, &report).map(|()| (true, false)),
    }
}

fn explained(document: &Value, report: &Report) -> Result<(), String> {
    let left = unexplained(&messages(report), &[READING, VALIDATION]);
    if left.is_empty() {
        Ok(())
    } else {
        Err(format!("{left:#?}\nis what only the parser has against {document}"))
    }
}

/// The files that are documents, each with the number of its mutations. What further files hold is not in the schema
/// of the one that includes them.
fn corpus() -> Vec<(Value, usize)> {
    let of = |folder: &str, mutations: usize| {
        let whole = files(folder).into_iter().filter_map(|path| document(&path));
        whole.filter(|document| document.get("include").is_none()).map(move |document| (document, mutations))
    };
    let (good, bad) = (MUTATIONS.0 * times(), MUTATIONS.1 * times());
    of("good", good).chain(of("../../examples", good)).chain(of("bad", bad)).collect()
}

#[test]
fn schema_and_parser_agree_on_the_files_and_on_mutations_of_them() {
    let mut draw = Draw::new(8259);
    let (mut both, mut neither, mut parser) = (0, 0, 0);
    for (document, mutations) in corpus() {
        let mut mutated = document.clone();
        for _ in 0..=mutations {
            match compare(&mutated).unwrap_or_else(|message| panic!("{message}")) {
                (true, true) => both += 1,
                (true, false) => parser += 1,
                (false, _) => neither += 1,
            }
            // One mistake, or one more.
            let origin = if draw.rng.u8(..3) == 0 { &mutated } else { &document };
            mutated = mutate(origin, &mut draw);
        }
    }
    // None of the three is empty for want of documents.
    assert!(both > 100 && neither > 1000 && parser > 100, "{both} {neither} {parser}");
}

#[test]
fn the_parser_reads_whatever_the_schema_lets_pass() {
    let mut draw = Draw::new(2020);
    let mut clean = 0;
    let drawn = DRAWN * times();
    for _ in 0..drawn {
        let document = draw.document();
        assert!(fits(&document), "{document}\n{}", reasons(&document));
        let found = read(&document);
        let left = unexplained(&found, &[READING]);
        assert!(left.is_empty(), "{document}\n{left:#?}");
        clean += usize::from(found.is_empty());
        compare(&document).unwrap_or_else(|message| panic!("{message}"));
    }
    // Enough of them hold no unset variable: the more texts a document has, the fewer are so.
    assert!(clean > 100, "{clean}");
}
