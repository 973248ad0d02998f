//! Who is let in: files of users and keys that change, and a service that decides and fails.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use thalweg_tests::message::fetch;
use thalweg_tests::port::{Refusing, Silent};
use thalweg_tests::program::run;
use thalweg_tests::proxy::command;
use thalweg_tests::signature::sha256;
use thalweg_tests::upstream::ok;
use thalweg_tests::{Admin, Bare, Directory, Message, Proxy, STEP, Upstream};

use super::{config, reload, watchdog};

/// Two passwords and their hashes (bcrypt's own test vectors).
const ADA: (&str, &str) = ("U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW");
const BOB: (&str, &str) = ("U*U*U", "$2a$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a");

/// Asks for a path with further fields.
fn ask(web: SocketAddr, path: &str, fields: &str) -> Message {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{fields}Connection: close\r\n\r\n");
    fetch(web, &request).unwrap()
}

fn basic(user: &str, password: &str) -> String {
    use base64::Engine as _;
    let credential = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("Authorization: Basic {credential}\r\n")
}

fn key(key: &str) -> String {
    format!("X-API-Key: {key}\r\n")
}

/// The line of a key.
fn line(name: &str, key: &str, rest: &str) -> String {
    let digits: String = sha256(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{name} sha256:{digits} {rest}\n")
}

/// Waits until a request gets this status.
fn wait_status(web: SocketAddr, (path, fields): (&str, &str), wanted: u16) {
    let end = Instant::now() + STEP;
    loop {
        let seen = ask(web, path, fields).status();
        if seen == wanted {
            return;
        }
        assert!(Instant::now() < end, "{path} gets {seen}, not {wanted}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn wait_said(proxy: &Proxy, words: &str) {
    proxy.process().wait_line(words, STEP, |line| line.contains(words).then_some(()));
}

/// A configuration with these routes.
fn routes(upstream: &Upstream, routes: &str) -> String {
    config(&[&upstream.url()], "").replace("routes: [ { to: s } ]\n", &format!("routes:\n{routes}"))
}

/// Files of users and of keys, with the proxy before them.
fn with_files(directory: Directory, upstream: &Upstream) -> Proxy {
    let text = routes(
        upstream,
        "- { match: { path: /users }, to: s, filters: [ { auth: { basic: { file: users.htpasswd } } } ] }\n\
         - match: { path: /keys }\n  to: s\n  filters:\n\
         \x20 - auth: { api_key: { file: keys.txt } }\n\
         \x20 - rate_limit: { key: user, per: 1h, plans: { claim: plan, gold: { requests: 600 }, default: { requests: 6 } } }\n",
    );
    Proxy::start_in(directory, &text)
}

#[test]
fn users_and_keys_are_read_again_when_their_files_change() {
    let _watchdog = watchdog("users_and_keys_are_read_again_when_their_files_change");
    let (upstream, directory) = (Upstream::saying("in"), Directory::new());
    let (first, second) = ("first-key-of-a-test", "second-key-of-a-test");
    directory.write("users.htpasswd", &format!("ada:{}\n", ADA.1));
    directory.write("keys.txt", &line("acme", first, "plan=gold"));
    let proxy = with_files(directory, &upstream);
    let (web, files) = (proxy.web(), proxy.directory().to_owned());
    let (ada, bob) = (basic("ada", ADA.0), basic("bob", BOB.0));
    assert_eq!((ask(web, "/users", &ada).status(), ask(web, "/users", &bob).status()), (200, 401));
    let gold = ask(web, "/keys", &key(first));
    assert_eq!((gold.status(), gold.value("ratelimit-policy")), (200, Some("\"1h\";q=600;w=3600")));
    assert_eq!(ask(web, "/keys", &key(second)).status(), 401);
    // One who comes, and one who goes: also a login that was remembered ends.
    fs::write(files.join("users.htpasswd"), format!("bob:{}\n", BOB.1)).unwrap();
    wait_status(web, ("/users", &bob), 200);
    assert_eq!(ask(web, "/users", &ada).status(), 401);
    fs::write(files.join("keys.txt"), line("other", second, "")).unwrap();
    wait_status(web, ("/keys", &key(second)), 200);
    assert_eq!(ask(web, "/keys", &key(first)).status(), 401);
    let other = ask(web, "/keys", &key(second));
    assert_eq!(other.value("ratelimit-policy"), Some("\"1h\";q=6;w=3600"), "no plan");
    wait_said(&proxy, "users.htpasswd was read again");
    wait_said(&proxy, "keys.txt was read again");
    assert!(proxy.stop().status.success());
}

/// The mistake: who opens many connections with the right password gets 429 on all but sixteen of them.
#[test]
fn many_who_come_at_once_with_one_right_login_all_pass() {
    let _watchdog = watchdog("many_who_come_at_once_with_one_right_login_all_pass");
    let (upstream, directory) = (Upstream::saying("in"), Directory::new());
    // The hash of `abc` among those of jBCrypt's tests: one check takes long enough for all to have come.
    let hash = "$2a$10$WvvTPHKwdBJ3uk0Z37EMR.hLA2W6N9AEBhEgrAOljy2Ae5MtaSIUi";
    directory.write("users.htpasswd", &format!("ada:{hash}\n"));
    directory.write("keys.txt", "");
    let proxy = with_files(directory, &upstream);
    for (password, status) in [("abd", "401"), ("abc", "200")] {
        let credential = basic("ada", password);
        let request = format!("GET /users HTTP/1.1\r\nHost: a.test\r\n{credential}Connection: close\r\n\r\n");
        let (first, last) = request.as_bytes().split_at(request.len() - 1);
        let open = || {
            let mut client = TcpStream::connect(proxy.web()).unwrap();
            client.set_read_timeout(Some(STEP)).unwrap();
            client.write_all(first).unwrap();
            client
        };
        let mut clients: Vec<_> = (0..100).map(|_| open()).collect();
        clients.iter_mut().for_each(|client| client.write_all(last).unwrap());
        for mut client in clients {
            let mut response = String::new();
            client.read_to_string(&mut response).unwrap();
            assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{password}: {response}");
        }
    }
    assert!(proxy.stop().status.success());
}

/// Puts a file there with another time than the one before, as an editor does.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

#[test]
fn a_bad_file_leaves_users_and_keys_as_they_were_and_its_line_is_named() {
    let _watchdog = watchdog("a_bad_file_leaves_users_and_keys_as_they_were_and_its_line_is_named");
    let (upstream, directory) = (Upstream::saying("in"), Directory::new());
    let (first, second) = ("first-key-of-a-test", "second-key-of-a-test");
    directory.write("users.htpasswd", &format!("ada:{}\n", ADA.1));
    directory.write("keys.txt", &line("acme", first, ""));
    let proxy = with_files(directory, &upstream);
    let (web, files) = (proxy.web(), proxy.directory().to_owned());
    let (ada, bob) = (basic("ada", ADA.0), basic("bob", BOB.0));
    let (users, keys) = (files.join("users.htpasswd"), files.join("keys.txt"));
    let still = || {
        assert_eq!((ask(web, "/users", &ada).status(), ask(web, "/users", &bob).status()), (200, 401));
        let found = [first, second].map(|sent| ask(web, "/keys", &key(sent)).status());
        assert_eq!(found, [200, 401]);
    };
    still();
    // Half written: the last line lacks its end.
    let whole = format!("# staff\nada:{}\nbob:{}\n", ADA.1, BOB.1);
    fs::write(&users, &whole[..whole.len() - 20]).unwrap();
    wait_said(&proxy, "users.htpasswd: line 3: the hash of `bob`");
    let two = line("acme", first, "") + &line("other", second, "");
    fs::write(&keys, &two[..two.len() - 20]).unwrap();
    wait_said(&proxy, "keys.txt: line 2: the hash of `other`");
    still();
    // The rest comes: both are right.
    fs::write(&users, &whole).unwrap();
    fs::write(&keys, &two).unwrap();
    wait_status(web, ("/users", &bob), 200);
    wait_status(web, ("/keys", &key(second)), 200);
    // Nonsense, and a file that is not there.
    replace(&users, "nobody\n");
    wait_said(&proxy, "users.htpasswd: line 1 has no `:`");
    fs::remove_file(&keys).unwrap();
    wait_said(&proxy, "keys.txt: there is no such file; what was read before stays in force");
    assert_eq!(ask(web, "/users", &bob).status(), 200);
    assert_eq!(ask(web, "/keys", &key(second)).status(), 200);
    let ended = proxy.stop();
    assert!(ended.status.success());
    let hashes = ["CCCC", "XXXX"].map(|part| ended.stderr.contains(part));
    assert_eq!(hashes, [false, false], "no hash is shown: {}", ended.stderr);
}

/// How long the proxy waits for a decision.
const WAIT: Duration = Duration::from_millis(500);
/// Ways of a service that decides to fail.
const WAYS: [&str; 8] =
    ["refuses", "silent", "error", "hangs", "huge", "huge_refusal", "endless", "breaks_off"];

/// Services that decide, and fail each in its way.
struct Judges {
    error: Upstream,
    huge: Upstream,
    refusal: Upstream,
    hangs: Bare,
    endless: Bare,
    breaks: Bare,
    refuses: Refusing,
    silent: Silent,
}

impl Judges {
    fn start() -> Self {
        let big = "x".repeat(1024 * 1024 + 1);
        let refusal = format!("HTTP/1.1 401 Unauthorized\r\nContent-Length: {}\r\n\r\n{big}", big.len());
        Self {
            error: Upstream::start(|_| {
                Some(b"HTTP/1.1 500 Oops\r\nX-User: ada\r\nContent-Length: 0\r\n\r\n".to_vec())
            }),
            huge: Upstream::start(move |_| Some(ok(&big))),
            refusal: Upstream::start(move |_| Some(refusal.clone().into_bytes())),
            hangs: Bare::start(|talk| {
                talk.head()?;
                // Until the proxy goes.
                talk.head().map(drop)
            }),
            endless: Bare::start(|talk| {
                talk.head()?;
                talk.send("HTTP/1.1 200 OK\r\nX-User: ada\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                loop {
                    talk.send("1000\r\n")?;
                    talk.send("x".repeat(0x1000))?;
                    talk.send("\r\n")?;
                }
            }),
            breaks: Bare::start(|talk| {
                talk.head()?;
                talk.send("HTTP/1.1 200 OK\r\nX-User: ada\r\nContent-Length: 100\r\n\r\nhalf")
            }),
            refuses: Refusing::new(),
            silent: Silent::new(),
        }
    }

    fn config(&self, app: &Upstream) -> String {
        let urls = [
            format!("http://{}", self.refuses.address()),
            format!("http://{}", self.silent.address()),
            self.error.url(),
            self.hangs.url(),
            self.huge.url(),
            self.refusal.url(),
            self.endless.url(),
            self.breaks.url(),
        ];
        let services: String =
            WAYS.iter().zip(urls).map(|(way, url)| format!(", {way}: {{ endpoints: \"{url}\" }}")).collect();
        let wait = WAIT.as_millis();
        let routes_of = |(prefix, failure): (&str, &str)| {
            WAYS.map(|way| {
                format!(
                    "- {{ match: {{ path: /{prefix}/{way} }}, to: s, filters: [ {{ auth: {{ forward_auth: \
                     {{ service: {way}, timeout: {wait}ms, copy: [ X-User ], on_failure: {failure} }} }} }} ] }}\n"
                )
            })
            .concat()
        };
        let text = routes(app, &[("shut", "deny"), ("open", "allow")].map(routes_of).concat());
        text.replace(" } }\nroutes", &format!(" }}{services} }}\nroutes"))
    }
}

/// Whatever the service that decides does: nobody passes, soon, and with no field that was forged; and where the
/// configuration lets everybody pass, without any word of it.
#[test]
fn a_service_that_decides_and_fails_opens_no_door() {
    let _watchdog = watchdog("a_service_that_decides_and_fails_opens_no_door");
    let app = Upstream::start(|request| Some(ok(request.value("x-user").unwrap_or("nobody"))));
    let judges = Judges::start();
    let proxy = Proxy::start(&judges.config(&app));
    let web = proxy.web();
    for way in WAYS {
        for _ in 0..3 {
            let began = Instant::now();
            let answer = ask(web, &format!("/shut/{way}"), "X-User: root\r\nAuthorization: Bearer x\r\n");
            assert_eq!(answer.status(), 503, "{way}: {}", answer.text());
            assert!(!answer.text().contains("xxxx"), "{way}: nothing of what the service says is shown");
            assert!(began.elapsed() < WAIT + Duration::from_secs(5), "{way}: {:?}", began.elapsed());
        }
    }
    assert_eq!(app.served(), 0, "nobody has passed");
    for way in WAYS {
        let answer = ask(web, &format!("/open/{way}"), "X-User: root\r\n");
        assert_eq!((answer.status(), answer.text().as_str()), (200, "nobody"), "{way}");
    }
    let ended = proxy.stop();
    assert!(ended.status.success());
    let reason = |path: &str| {
        let record = ended.log.iter().find(|record| record["path"] == path);
        record.and_then(|record| record["reason"].as_str()).unwrap_or_default().to_owned()
    };
    assert_eq!(reason("/shut/error"), "forward_auth: the service answers 500");
    for way in WAYS {
        assert!(reason(&format!("/shut/{way}")).starts_with("forward_auth: "), "{way}");
        assert!(
            reason(&format!("/open/{way}")).contains("passes unasked"),
            "{way}: {:?}",
            reason(&format!("/open/{way}"))
        );
    }
}

/// What `thalweg api` prints, as JSON.
fn api(directory: &Path, arguments: &[&str], body: &str) -> (i32, Value, String) {
    let file = directory.join("body.json");
    fs::write(&file, body).unwrap();
    let mut all = vec!["api"];
    all.extend(arguments);
    if !body.is_empty() {
        all.extend(["--body", "body.json"]);
    }
    let done = run(command(directory).args(all), STEP);
    (done.code, serde_json::from_str(&done.stdout).unwrap_or_default(), done.stderr)
}

/// Made, used, listed, revoked: by `thalweg api` alone, on every worker at once, over a reload and a restart, and with
/// no key in the audit log, the state or any log.
#[test]
fn keys_are_made_and_revoked_while_it_runs() {
    let _watchdog = watchdog("keys_are_made_and_revoked_while_it_runs");
    let upstream = Upstream::start(|request| Some(ok(request.value("x-client").unwrap_or("nobody"))));
    let text = routes(
        &upstream,
        "- { to: s, filters: [ { auth: { api_key: { list: partners }, require: { scopes: read }, \
         forward: { X-Client: \"{user} {claim.plan}\" } } } ] }\n",
    ) + "state: { path: state }\n";
    let proxy = Proxy::start(&text);
    let (web, directory) = (proxy.web(), proxy.directory().to_owned());
    assert_eq!(ask(web, "/", &key("not-a-key-of-anybody")).status(), 401);
    let new = "{ \"name\": \"acme\", \"scopes\": [ \"read\" ], \"claims\": { \"plan\": \"gold\" } }";
    let (code, made, _) = api(&directory, &["add_api_key", "list=partners"], new);
    assert_eq!((code, &made["kept"], &made["entry"]["name"]), (0, &true.into(), &"acme".into()), "{made}");
    let acme = made["key"].as_str().unwrap().to_owned();
    let lacking = api(
        &directory,
        &["add_api_key", "list=partners"],
        "{ \"name\": \"other\", \"expires\": \"2999-01-01\" }",
    );
    let other = lacking.1["key"].as_str().unwrap().to_owned();
    // At once, on every worker.
    for _ in 0..16 {
        let answer = ask(web, "/", &key(&acme));
        assert_eq!((answer.status(), answer.text().as_str()), (200, "acme gold"));
    }
    assert_eq!(ask(web, "/", &key(&other)).status(), 403, "it lacks the scope");
    let (_, listed, _) = api(&directory, &["api_key_list", "list=partners"], "");
    assert_eq!(listed["keys"].as_array().unwrap().len(), 2);
    assert_eq!(listed["keys"][0]["claims"]["plan"], "gold");
    assert!(listed["keys"][1]["expires"].is_u64() && !listed.to_string().contains(&acme));
    let (_, lists, _) = api(&directory, &["api_key_lists"], "");
    assert_eq!(lists["lists"][0], serde_json::json!({ "name": "partners", "keys": 2 }));
    for (arguments, body, words) in [
        (["add_api_key", "list=partners"], new, "there is a key `acme`"),
        (["add_api_key", "list=nowhere"], new, "there are `partners`"),
        (["add_api_key", "list=partners"], "{ \"name\": \"a b\" }", "without spaces"),
        (["add_api_key", "list=partners"], "{ \"name\": \"a\", \"expires\": \"soon\" }", "is no time"),
    ] {
        let (code, _, told) = api(&directory, &arguments, body);
        assert!(code == 1 && told.contains(words), "{told}");
    }
    // Over a reload and a restart.
    reload(&proxy, &text.replace("grace: 5s", "grace: 6s"), 1);
    assert_eq!(ask(web, "/", &key(&acme)).status(), 200);
    let (code, gone, _) = api(&directory, &["revoke_api_key", "list=partners", "name=other"], "");
    assert_eq!((code, &gone["name"]), (0, &"other".into()));
    let ended = proxy.stop();
    let log = fs::read_to_string(ended.directory.path().join("access.log")).unwrap();
    let text = fs::read_to_string(ended.directory.path().join("thalweg.yaml")).unwrap();
    let proxy = Proxy::start_in(ended.directory, &text);
    let web = proxy.web();
    assert_eq!((ask(web, "/", &key(&acme)).status(), ask(web, "/", &key(&other)).status()), (200, 401));
    let (code, _, _) = api(&directory, &["revoke_api_key", "list=partners", "name=acme"], "");
    assert_eq!(code, 0);
    for _ in 0..16 {
        assert_eq!(ask(web, "/", &key(&acme)).status(), 401);
    }
    let audit = Admin::of(&proxy).get("/api/v1/audit").to_string();
    assert!(audit.contains("/api/v1/keys/partners") && audit.contains("acme"), "{audit}");
    let kept = fs::read_to_string(directory.join("state/api_keys.json")).unwrap();
    let ended = proxy.stop();
    for text in [&audit, &log, &kept, &ended.stderr, &listed.to_string()] {
        assert!(!text.contains(&acme) && !text.contains(&other));
    }
}

/// The mistake: whoever can replace the configuration takes the login away, and nobody is told.
#[test]
fn a_configuration_that_arrives_takes_no_protection_away() {
    let _watchdog = watchdog("a_configuration_that_arrives_takes_no_protection_away");
    let upstream = Upstream::saying("in");
    let text = routes(
        &upstream,
        "- { name: admin, match: { path: /admin }, to: s, filters: [ { auth: { network: 10.0.0.0/8 } } ] }\n",
    );
    let proxy = Proxy::start(&text);
    let (web, admin) = (proxy.web(), Admin::of(&proxy));
    let log = proxy.log_path();
    let text = text.replace("{log}", &log.to_string_lossy());
    assert_eq!(ask(web, "/admin", "").status(), 401);
    let put = |text: &str| {
        let fields = "Content-Type: application/yaml\r\nIf-Match: *\r\n";
        admin.ask("PUT", "/api/v1/config", fields, text).unwrap()
    };
    for (wrong, key) in [
        (text.replace(", filters: [ { auth: { network: 10.0.0.0/8 } } ]", ""), "routes.admin"),
        (text.clone() + "- { name: around, match: { path: /around }, to: s }\n", "routes.around"),
        (text.replace("network: 10.0.0.0/8", "network: 10.0.0.0/8, dry_run: true"), "routes.admin"),
    ] {
        let wrong = wrong.replace("shutdown: { delay: 0s, grace: 5s }\n", "");
        let wrong = wrong.replace("- { name: around", "\n- { name: around");
        let answer = put(&wrong);
        assert_eq!(answer.status(), 403, "{}", answer.text());
        let said: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(said["keys"][0], key, "{said}");
        assert!(said["detail"].as_str().unwrap().contains("has no `auth`"), "{said}");
        assert_eq!(ask(web, "/admin", "").status(), 401);
    }
    // Other arguments are an ordinary change.
    let wider = text.replace("10.0.0.0/8", "127.0.0.0/8");
    let answer = put(&wider);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(ask(web, "/admin", "").status(), 200);
    // The file may do everything, and `plan` says what goes.
    fs::write(
        proxy.directory().join("thalweg.yaml"),
        wider.replace(", filters: [ { auth: { network: 127.0.0.0/8 } } ]", ""),
    )
    .unwrap();
    let notes = admin.get("/api/v1/plan")["notes"].to_string();
    assert!(notes.contains("a protection goes: `routes.admin` has no `auth`"), "{notes}");
}

/// The same where a filter answers, and there is no service behind it.
#[test]
fn a_configuration_that_arrives_opens_no_files() {
    let _watchdog = watchdog("a_configuration_that_arrives_opens_no_files");
    let (upstream, directory) = (Upstream::saying("in"), Directory::new());
    fs::create_dir(directory.path().join("private")).unwrap();
    fs::write(directory.path().join("private/a.txt"), "a secret").unwrap();
    let guard = "{ access: { allow: 10.0.0.0/8 } }, ";
    let text =
        routes(&upstream, &format!("- {{ name: private, filters: [ {guard}{{ files: private }} ] }}\n"));
    let proxy = Proxy::start_in(directory, &text);
    let text = text.replace("{log}", &proxy.log_path().to_string_lossy());
    let put = |text: &str| {
        let fields = "Content-Type: application/yaml\r\nIf-Match: *\r\n";
        Admin::of(&proxy).ask("PUT", "/api/v1/config", fields, text).unwrap()
    };
    let refused = |text: &str| {
        let answer = put(&text.replace("shutdown: { delay: 0s, grace: 5s }\n", ""));
        assert_eq!(answer.status(), 403, "{}", answer.text());
        let said: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(said["keys"][0], "routes.private", "{said}");
        assert_eq!(ask(proxy.web(), "/a.txt", "").status(), 403);
    };
    let without = text.replace(guard, "{ compress: {} }, ");
    refused(&without);
    // Nor on the way from a service to none.
    let with = text.replace("{ files: private } ]", "{ files: private } ], to: s");
    assert_eq!(put(&with).status(), 200);
    refused(&without);
}
