//! No spelling of a path bypasses a protection of a file. The test takes random trees of files, random configurations
//! that protect some of them, and random spellings of their paths, through the router and the filters without
//! sockets.
//!
//! Every file is also reachable through an unguarded catch-all route with `files`. 10,000 spellings are tried, with
//! `THALWEG_LONG=1` 100,000.

#![expect(clippy::unwrap_used, reason = "a test: a panic is the report")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use thalweg_balance::Seed;
use thalweg_config::check_text;
use thalweg_filter::{
    Facts, FilterStates, HeadFields, NoConnection, Part, ReplyBody, RequestCx, RequestOutcome, TargetEdit,
    Verdict,
};
use thalweg_http::{FieldSet, PathReadings, Version, normalize_path, write_readings};
use thalweg_proxy::Plan;
use thalweg_proxy::explain::{Question, decide};
use thalweg_route::{NoFields, Query};

const CONFIGURATIONS: usize = 100;
const SPELLINGS: usize = 100;
const LONGER: usize = 10;

/// Names of directories and files: with characters of every class of RFC 3986, and names that look like escapes.
const NAMES: &[&str] = &[
    "a",
    "b",
    "pub",
    "secret",
    "@team",
    "c++",
    "x;y",
    "k=v",
    "a,b",
    "(1)",
    "it's",
    "a!$&*",
    "a:b",
    "[id]",
    "a b",
    "caf\u{e9}",
    "%41",
    "%2F",
    "~u",
    "a.b",
    "a..",
    "100%",
    "a#b",
    "a?b",
    "{x}",
    "a|b",
    "\"q\"",
    "a^b",
];

/// Random choices, reproducible in each run.
struct Dice(Seed);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        (self.0.next() % n as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// One in `n` times.
    fn is(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A directory that is removed on drop.
struct Tree(PathBuf);

impl Tree {
    fn new(number: usize) -> Self {
        let place = std::env::temp_dir().join(format!("thalweg-spellings-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        Self(place)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Names of a path from the root on.
type Names = Vec<&'static str>;

/// Fills a directory and gives the paths of its files. Each file contains its path.
fn grow(dice: &mut Dice, root: &Path) -> Vec<Names> {
    let mut files = BTreeMap::new();
    for _ in 0..12 {
        let mut names: Names = (0..1 + dice.below(3)).map(|_| dice.one(NAMES)).collect();
        // File names have one of two endings, so they never equal a directory's name.
        names.push(dice.one(&["f.txt", "index.html"]));
        let place = names.iter().fold(root.to_owned(), |place, name| place.join(name));
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(&place, names.join("/")).unwrap();
        files.insert(names.join("/"), names);
    }
    files.into_values().collect()
}

fn escape(byte: u8, dice: &mut Dice) -> String {
    if dice.is(2) { format!("%{byte:02X}") } else { format!("%{byte:02x}") }
}

/// A name as a pattern or a plain client writes it: all necessary escapes, and some others.
fn written(name: &str, dice: &mut Dice) -> String {
    let needs = |byte: u8| !(byte.is_ascii_alphanumeric() || b"-._~!$&'(),;=:@+".contains(&byte));
    name.bytes().fold(String::new(), |mut out, byte| {
        match needs(byte) || dice.is(4) {
            true => out += &escape(byte, dice),
            false => out.push(char::from(byte)),
        }
        out
    })
}

/// Where files are mounted, and how one of them is protected. Gives the configuration and the names of the protected
/// path.
fn configure(dice: &mut Dice, root: &Path, files: &[Names]) -> (String, Names, &'static str) {
    let (mount, strip) = if dice.is(3) { ("/m", "{ strip_prefix: /m }, ") } else { ("", "") };
    let of = &files[dice.below(files.len())];
    // A directory, or a file that is not a directory's index file.
    let depth = 1 + dice.below(of.len());
    let depth = if of.get(depth - 1) == Some(&"index.html") { depth - 1 } else { depth };
    let names: Names = of[..depth].to_vec();
    let mut pattern = names.iter().fold(mount.to_owned(), |path, name| path + "/" + &written(name, dice));
    if !matches!(names.last(), Some(&("f.txt" | "index.html"))) {
        pattern += "/*";
    }
    let pattern = format!("{pattern:?}");
    let answer = format!("{strip}{{ files: {{ root: {root:?} }} }}");
    let auth = "{ auth: { network: 203.0.113.0/24 } }";
    let (kind, route, guard) = match dice.below(5) {
        0 => ("a route with auth", format!("filters: [ {auth}, {answer} ]"), String::new()),
        1 => ("a route that refuses", "filters: [ { respond: 403 } ]".to_owned(), String::new()),
        2 => (
            "auth with a condition",
            String::new(),
            format!("{{ auth: {{ network: 203.0.113.0/24 }}, when: {{ path: {pattern} }} }}, "),
        ),
        3 => ("access", String::new(), format!("{{ access: {{ deny: [ {{ path: {pattern} }} ] }} }}, ")),
        _ => (
            "a refusal with a condition",
            String::new(),
            format!("{{ respond: 403, when: {{ path: {pattern} }} }}, "),
        ),
    };
    let mut text = "listeners: { web: { address: \":8080\" } }\nroutes:\n".to_owned();
    if !route.is_empty() {
        writeln!(text, "  - {{ name: guarded, match: {{ path: {pattern} }}, {route} }}").unwrap();
    }
    let place = if mount.is_empty() { "" } else { ", match: { path: /m/* }" };
    writeln!(text, "  - {{ name: open{place}, filters: [ {guard}{answer} ] }}").unwrap();
    (text, names, kind)
}

/// A path that some reader may interpret as that of the file.
fn spelled(dice: &mut Dice, mount: &str, names: &[&str]) -> String {
    let mut out = mount.to_owned();
    // Most paths have few odd spellings, because several may mask each other.
    let odd = dice.one(&[4, 20, 60]);
    let last = names.len() - 1;
    for (at, name) in names.iter().enumerate() {
        out.push('/');
        if dice.is(odd) {
            out += dice.one(&[
                "/",
                "//",
                "./",
                "%2e/",
                "x/../",
                "x/%2E%2e/",
                ";/",
                ";a=b/",
                "%2F",
                "%2f/",
                "%5C",
                "%00/",
                "\\",
                "%252F",
                "%20/",
                "./;/",
                "..;/",
                "%3B/",
            ]);
        }
        // The index file of a directory is reachable by the directory's own path.
        if at == last && *name == "index.html" && dice.is(3) {
            if dice.is(3) {
                out.pop();
            }
            break;
        }
        let as_it_is = dice.is(3);
        for byte in name.bytes() {
            let needs = !byte.is_ascii_graphic() || b"%?#\"<>".contains(&byte);
            match (needs, as_it_is) {
                (false, true) => out.push(char::from(byte)),
                (false, false) if !dice.is(3) => out.push(char::from(byte)),
                _ if dice.is(60) => out += &escape(byte, dice).replace('%', "%25"),
                _ => out += &escape(byte, dice),
            }
        }
        if dice.is(odd) {
            out +=
                dice.one(&[";v=1", "%3Bv", ".", "%20", "%00", "%2F", "%2e", "/.", "/x/..", "?", "%3F", "+"]);
        }
    }
    out
}

/// The text of the file that a request gets. `has_form`: routes match the matched form of its path, else the normal
/// form.
fn answered(plan: &Plan, path: &str, has_form: bool) -> Option<String> {
    let mut normal = Vec::new();
    // The route's `allow_encoded` is ignored: all escapes pass.
    normalize_path(path.as_bytes(), &mut normal).ok()?;
    let mut written = Vec::new();
    let matched = write_readings(&normal, &mut written).filter(|_| has_form);
    let readings = matched.map(|matched| PathReadings::new(&written, matched));
    let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let query = Query {
        listener: 0,
        host: b"a.test",
        path: readings.map_or(&normal, |readings| readings.matched),
        query: b"",
        method: b"GET",
        client,
        fields: &NoFields,
    };
    let route = plan.route(plan.table.find(&query))?;
    let facts = Facts {
        method: b"GET",
        scheme: "http",
        host: b"a.test",
        port: 80,
        path: &normal,
        readings,
        query: None,
        client_ip: client,
        request_id: None,
        peer: client,
        is_trusted: false,
        listener: "web",
        route: &route.name,
        service: "",
        version: Version::Http11,
        patterns: &route.patterns,
        now: Instant::now(),
        unix_seconds: 0,
        connection: &NoConnection,
        is_dry_run: false,
    };
    let (mut target, mut added, mut known) = (TargetEdit::default(), Vec::new(), FieldSet::default());
    let (mut states, mut outcome) = (FilterStates::default(), RequestOutcome::default());
    target.begin(&normal);
    let fields = HeadFields::new(&mut [], &[], (&mut added, 0), &mut known);
    let mut cx = RequestCx::new(facts, (&mut target, fields), (&mut states, &mut outcome), (false, None));
    match route.chain(0, None).on_request(0, &mut cx, &mut |_, _| {}) {
        (_, Verdict::Reply(reply)) => text(reply.body).map(|text| String::from_utf8(text).unwrap()),
        _ => None,
    }
}

fn text(body: ReplyBody) -> Option<Vec<u8>> {
    let ReplyBody::Parts(parts) = body else { return None };
    let mut text = Vec::new();
    for part in parts {
        match part {
            Part::Bytes(bytes) => text.extend(bytes),
            Part::File { file, from, length } => {
                let mut bytes = vec![0; length as usize];
                file.read_exact_at(&mut bytes, from).unwrap();
                text.extend(bytes);
            }
        }
    }
    Some(text)
}

#[test]
fn no_spelling_of_a_protected_path_gets_the_file_without_the_guard() {
    let times = if std::env::var("THALWEG_LONG").as_deref() == Ok("1") { LONGER } else { 1 };
    let mut dice = Dice(Seed(43));
    let (mut open, mut passed_by, mut kept) = (0, 0, BTreeMap::<_, usize>::new());
    for number in 0..CONFIGURATIONS * times {
        let tree = Tree::new(number);
        let files = grow(&mut dice, &tree.0);
        let (config, protected, kind) = configure(&mut dice, &tree.0, &files);
        let plan =
            check_text("random.yaml", &config, &|_| None).unwrap_or_else(|report| panic!("{report}")).plan;
        let mount = if config.contains("strip_prefix") { "/m" } else { "" };
        let inside: Vec<_> = files.iter().filter(|names| names.starts_with(&protected)).collect();
        let guarded = protected.join("/");
        for _ in 0..SPELLINGS {
            let names = match dice.is(4) {
                true => &files[dice.below(files.len())],
                false => inside[dice.below(inside.len())],
            };
            let path = spelled(&mut dice, mount, names);
            let is_inside = |found: &String| {
                found.strip_prefix(&guarded).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            passed_by += usize::from(answered(&plan, &path, false).as_ref().is_some_and(is_inside));
            let Some(found) = answered(&plan, &path, true) else {
                *kept.entry(kind).or_default() += usize::from(names.starts_with(&protected));
                continue;
            };
            assert!(!is_inside(&found), "{path} gets {found} in spite of {kind}:\n{config}");
            open += 1;
        }
    }
    // Guards the test against being vacuous: unprotected files are served, in odd spellings too.
    assert!(open > CONFIGURATIONS * times * SPELLINGS / 20, "{open} served");
    assert!(
        passed_by > 0,
        "matched as it is forwarded, no path passes a guard by: the spellings are too tame"
    );
    assert!(kept.len() == 5 && kept.values().all(|count| *count > 200), "{kept:?}");
}

/// Unlike `files`, services may merge slashes, cut parameters and decode slashes.
#[test]
fn no_reading_of_a_path_reaches_a_service_around_a_guard() {
    outcomes(
        "- { name: secret, match: { path: '/pub/secret/*' }, filters: [ { auth: { network: 203.0.113.0/24 } } ], to: s }\n\
         - { name: shared, match: { path: '/pub/secret/shared/*' }, to: s }\n\
         - { name: id, match: { path: '/projects/{id}' }, to: s }\n\
         - { name: amqp, match: { path: '/pub/amqp/*' }, allow_encoded: [ slash ], to: s }\n\
         - { name: closed, match: { host: c.test }, to: s, filters: [ { access: { deny: [ { path: '/closed/*' } ] } } ] }\n\
         - { name: open, to: s }\n",
        &[
            ("/pub/a", "open"),
            ("/pub/secret/x", "refused 401 or 403"),
            ("/pub//secret/x", "refused 401 or 403"),
            ("/pub/%73ecret;v/x", "400"),
            ("/pub/secret%3Bv/x", "400"),
            ("/pub%2Fsecret/x", "400"),
            ("/pub/;/secret/x", "400"),
            ("/pub;a//secret%2Fx", "400"),
            // An open path within is not reachable through an empty segment that an endpoint takes for a name.
            ("/pub/secret//shared/x", "400"),
            ("/pub/secret/;v/shared/x", "refused 401 or 403"),
            ("/pub/secret/shared/x", "shared"),
            ("/pub/secret/shared//x", "shared"),
            ("/pub/matrix;v=1/x", "open"),
            ("/projects/group%2Fname", "id"),
            ("/pub/amqp/%2F/x", "amqp"),
            ("/proxy/https://a.test/x", "open"),
            ("http://c.test/closed;a/x", "refused 401 or 403"),
            ("http://c.test/closed%2Fx", "refused 401 or 403"),
            ("http://c.test/x/closed;a/x", "closed"),
        ],
    );
}

#[test]
fn a_route_says_how_its_service_reads_a_path() {
    outcomes(
        "- { name: queues, match: { host: q.test, path: '/api/*' }, allow_encoded: [ slash ], to: s, filters: [ \
             { access: { allow: [ { path: '/api/queues/{vhost}/{name}' } ], deny: [ { path: '/api/queues/s' } ] } } ] }\n\
         - { name: plain, match: { path: '/x/{name}' }, allow_encoded: [ double_slash, semicolon ], to: s }\n\
         - { name: strict, match: { path: '/y/{name}' }, to: s }\n\
         - { name: guarded, to: s, filters: [ { auth: { network: 203.0.113.0/24 } } ] }\n",
        &[
            ("http://q.test/api/queues/%2F/q1", "queues"),
            ("http://q.test/api/queues/a%2Fb/q1", "queues"),
            ("http://q.test/api/queues/a/q1;v", "queues"),
            ("http://q.test/api/queues/s", "refused 401 or 403"),
            ("http://q.test/api/queues/s;v", "refused 401 or 403"),
            ("/x/a", "plain"),
            ("/x//a", "plain"),
            ("/x/;a", "plain"),
            ("/x//;a", "plain"),
            ("/x/a%2Fb", "400"),
            ("/x//a%2Fb", "400"),
            ("/y//a", "400"),
            ("/y/;a", "400"),
        ],
    );
}

/// A signed link for one of two routes with the same `signed_url` opened a path of the other one.
#[test]
fn a_filter_that_looks_at_the_name_of_its_route_is_not_that_of_another_route() {
    let links = "auth: { signed_url: { secrets: { k: { value: '0123456789abcdef' } }";
    outcomes(
        &format!(
            "- {{ name: links, match: {{ host: l.test }}, to: s, filters: [ {{ {links} }} }} }} ] }}\n\
             - {{ name: others, match: {{ host: l.test, path: '/a/*' }}, to: s, filters: [ {{ {links} }} }} }} ] }}\n\
             - {{ name: one, match: {{ host: m.test }}, to: s, filters: [ {{ {links}, scope: m }} }} }} ] }}\n\
             - {{ name: two, match: {{ host: m.test, path: '/a/*' }}, to: s, filters: [ {{ {links}, scope: m }} }} }} ] }}\n\
             - {{ name: asked, match: {{ path: '/a/*' }}, to: s, filters: [ {{ ext: {{ service: s, on_failure: pass }} }} ] }}\n\
             - {{ name: too, match: {{ path: '/a/b/*' }}, to: s, filters: [ {{ ext: {{ service: s, on_failure: pass }} }} ] }}\n\
             - {{ name: unasked, to: s }}\n"
        ),
        &[
            ("http://l.test/a;v/x", "400"),
            ("http://l.test/b;v/x", "refused 401 or 403"),
            ("http://m.test/a;v/x", "refused 401 or 403"),
            ("/a;v/x", "400"),
            ("/a/b;v/x", "400"),
            ("/a/c;v/x", "asked"),
            ("/c;v/x", "unasked"),
        ],
    );
}

/// `maintenance`, `redirect`, `respond`, `files` and `headers.request.remove` kept nothing from the service for another
/// reading of the path.
#[test]
fn filters_that_keep_something_from_the_service_hold_for_every_reading() {
    let only = |name: &str, filter: &str| {
        format!("- {{ name: {name}, match: {{ path: '/{name}/*' }}, to: s, filters: [ {{ {filter} }} ] }}\n")
    };
    let root = std::env::temp_dir();
    let routes = [
        only("closed", "maintenance: { on: true }"),
        only("moved", "redirect: 'https://b.test{path}'"),
        only("said", "respond: 204"),
        only("stored", &format!("files: {{ root: {root:?} }}")),
        only("less", "headers: { request: { remove: X-Admin } }"),
        only("tried", &format!("files: {{ root: {root:?}, fall_through: true }}")),
        only("more", "headers: { request: { set: { X-A: '1' } } }"),
        only("small", "compress: {}"),
        only("answer", "headers: { response: { remove: Server } }"),
        only("same", "request_id: {}"),
        "- { name: open, to: s }\n".to_owned(),
    ];
    outcomes(
        &routes.concat(),
        &[
            ("/closed;v/x", "400"),
            ("/moved;v/x", "400"),
            ("/said;v/x", "400"),
            ("/stored;v/x", "400"),
            ("/less;v/x", "400"),
            ("/a/..%2Fless/x", "400"),
            ("/tried;v/x", "open"),
            ("/more;v/x", "open"),
            ("/small;v/x", "open"),
            ("/answer;v/x", "open"),
            ("/same;v/x", "open"),
            ("/less/a;v/x", "less"),
            ("/less//x", "less"),
            ("/less/a%2Fb", "less"),
        ],
    );
}

/// Checks what becomes of requests with these URLs: the name of their route, or the status of their refusal.
fn outcomes(routes: &str, expected: &[(&str, &str)]) {
    let config = format!(
        "listeners: {{ web: {{ address: ':8080' }} }}\n\
         services: {{ s: {{ endpoints: 'http://10.0.0.1:80' }} }}\n\
         routes:\n{routes}"
    );
    let plan = check_text("t.yaml", &config, &|_| None).unwrap_or_else(|report| panic!("{report}")).plan;
    for (path, expected) in expected {
        let question = Question {
            method: "GET".into(),
            url: if path.starts_with('/') { format!("http://a.test{path}") } else { (*path).into() },
            headers: Vec::new(),
            from: None,
            listener: None,
        };
        let verdict = decide(&plan, &question).unwrap();
        let told = match (verdict.fault, verdict.route) {
            (Some(fault), _) if matches!(fault.status, 401 | 403) => "refused 401 or 403".to_owned(),
            (Some(fault), _) => fault.status.to_string(),
            (None, route) => plan.route(route).unwrap().name.to_string(),
        };
        assert_eq!(told, *expected, "{path}");
    }
}
