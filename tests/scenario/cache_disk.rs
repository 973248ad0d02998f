//! `cache.disk`: what is stored outlasts a restart however that comes, what is purged stays away, and whatever has
//! become of the disk, no client gets a byte that its URL never had.

mod large;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use thalweg_tests::message::{fetch, get};
use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::proxy::command;
use thalweg_tests::{Admin, Directory, Message, Proxy, STEP, Upstream};

use super::watchdog;

/// More than what goes back into memory as a whole.
const LARGE: usize = 700_000;

/// A service whose responses may be kept for an hour. The body of a path says of itself what it is, so that each can be
/// compared with what it must be.
struct Origin {
    upstream: Upstream,
    asked: Arc<AtomicU64>,
    validated: Arc<AtomicU64>,
    /// It refuses to answer.
    is_down: Arc<AtomicBool>,
    /// `Cache-Control` of its responses.
    control: Arc<Mutex<String>>,
}

impl Origin {
    fn start() -> Self {
        let (asked, validated, is_down) =
            (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let control = Arc::new(Mutex::new("max-age=3600".to_owned()));
        let (counts, checks, down, said) =
            (asked.clone(), validated.clone(), is_down.clone(), control.clone());
        let upstream = Upstream::start(move |request| {
            if down.load(Ordering::SeqCst) {
                return None;
            }
            counts.fetch_add(1, Ordering::SeqCst);
            let path = request.target();
            let tag = path.split('/').nth(1).unwrap_or_default();
            let fields =
                format!("Cache-Control: {}\r\nETag: \"1\"\r\nCache-Tag: {tag}\r\n", said.lock().unwrap());
            if request.start.starts_with("POST ") {
                return Some(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec());
            }
            if request.value("if-none-match").is_some() {
                checks.fetch_add(1, Ordering::SeqCst);
                return Some(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n").into_bytes());
            }
            let body = body_of(path);
            let mut response =
                format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
            response.extend_from_slice(&body);
            Some(response)
        });
        Self { upstream, asked, validated, is_down, control }
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    fn stop(&self) {
        self.is_down.store(true, Ordering::SeqCst);
    }

    fn say(&self, control: &str) {
        control.clone_into(&mut self.control.lock().unwrap());
    }
}

/// The body of a path: of the length with which it ends, and different for each path in every place.
fn body_of(path: &str) -> Vec<u8> {
    let length = path.rsplit('-').next().and_then(|length| length.parse().ok()).unwrap_or(200);
    let mut body = Vec::with_capacity(length + path.len() + 16);
    while body.len() < length {
        body.extend_from_slice(format!("{path} at {}\n", body.len()).as_bytes());
    }
    body.truncate(length);
    body
}

/// The configuration before this service, with a store of this size in `disk`.
fn config(origin: &Origin, disk: &Path, size: &str, memory: &str) -> String {
    format!(
        "workers: 2\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         services: {{ s: {{ endpoints: [ \"{}\" ] }} }}\n\
         routes: [ {{ to: s, filters: [ {{ cache: {{}} }} ] }} ]\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n\
         limits: {{ memory: 256MiB }}\n\
         cache: {{ memory: {memory}, disk: {{ path: {}, size: {size} }} }}\n",
        origin.upstream.url(),
        disk.display()
    )
}

/// Starts a proxy, and waits until the disk has taken note of what is there.
fn start(origin: &Origin, disk: &Path) -> Proxy {
    let proxy = Proxy::start(&config(origin, disk, "64MiB", "64MiB"));
    wait_disk(&proxy, "ready", |disk| disk["condition"] == "ready");
    proxy
}

fn ask(proxy: &Proxy, path: &str, fields: &str) -> Message {
    try_to_ask(proxy.web(), path, fields).unwrap()
}

/// The host is the same whatever the port, which is another one after a restart.
fn try_to_ask(web: SocketAddr, path: &str, fields: &str) -> Result<Message, String> {
    fetch(web, &format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

/// Asks for a path, and compares what comes.
fn whole(proxy: &Proxy, path: &str) -> Message {
    let answer = ask(proxy, path, "");
    assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
    assert!(answer.body == body_of(path), "{path}: other bytes");
    answer
}

fn status_of(answer: &Message) -> String {
    answer.value("cache-status").unwrap_or_default().to_owned()
}

fn cache(proxy: &Proxy) -> Value {
    Admin::of(proxy).get("/api/v1/cache")
}

/// Waits until the disk of the cache is so.
fn wait_disk(proxy: &Proxy, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + 3 * STEP;
    loop {
        let disk = cache(proxy)["disk"].take();
        if is_so(&disk) {
            return disk;
        }
        assert!(Instant::now() < end, "not {what}: {disk}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn wait_written(proxy: &Proxy, objects: u64) -> Value {
    wait_disk(proxy, &format!("{objects} objects"), |disk| {
        disk["objects"] == objects && disk["condition"] == "ready"
    })
}

fn purge(proxy: &Proxy, body: &Value) -> Value {
    let answer = Admin::of(proxy).call("POST", "/api/v1/cache/purge", &body.to_string());
    assert_eq!(answer.status(), 200, "{body}: {}", answer.text());
    thalweg_tests::admin::json(&answer)
}

/// A process that ends without a word of farewell.
fn kill(proxy: Proxy) {
    proxy.process().signal(Signal::KILL);
    proxy.process().wait_exit(STEP);
}

fn segments(disk: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(disk).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|end| end == "segment")).collect();
    found.sort();
    found
}

#[test]
fn what_is_stored_outlasts_a_restart() {
    let _watchdog = watchdog("what_is_stored_outlasts_a_restart");
    let (origin, directory) = (Origin::start(), Directory::new());
    let disk = directory.path().join("cache");
    let large = format!("/large-{LARGE}");
    let proxy = start(&origin, &disk);
    for path in ["/small", &large] {
        assert!(status_of(&whole(&proxy, path)).contains("fwd=uri-miss; stored"));
    }
    wait_written(&proxy, 2);
    assert!(proxy.stop().status.success());
    origin.stop();

    let proxy = start(&origin, &disk);
    assert_eq!(cache(&proxy)["disk"]["objects"], 2);
    assert!(status_of(&whole(&proxy, "/small")).ends_with("; detail=disk"));
    let again = status_of(&whole(&proxy, "/small"));
    assert!(again.contains("; hit") && !again.contains("detail"), "{again}: it is in memory now");
    for _ in 0..2 {
        let status = status_of(&whole(&proxy, &large));
        assert!(status.contains("; hit") && status.ends_with("; detail=disk"), "{status}");
    }
    // From the disk, from any byte on.
    for (range, bytes) in [
        ("bytes=10-19", 10..20),
        ("bytes=300000-", 300_000..LARGE),
        ("bytes=-7", LARGE - 7..LARGE),
        ("bytes=65519-65521", 65_519..65_522),
    ] {
        let part = ask(&proxy, &large, &format!("Range: {range}\r\n"));
        assert_eq!(part.status(), 206, "{range}: {}", part.text());
        assert!(part.body == body_of(&large)[bytes.clone()], "{range}: other bytes");
        let expected = format!("bytes {}-{}/{LARGE}", bytes.start, bytes.end - 1);
        assert_eq!(part.value("content-range"), Some(&*expected));
    }
    let head = fetch(proxy.web(), &format!("HEAD {large} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
    assert_eq!(head.unwrap().value("content-length"), Some("700000"));
    let unchanged = ask(&proxy, &large, "If-None-Match: \"1\"\r\n");
    assert_eq!((unchanged.status(), unchanged.body.len()), (304, 0));
    assert_eq!(ask(&proxy, "/other", "Cache-Control: only-if-cached\r\n").status(), 504);
    assert_eq!(origin.asked(), 2);
    let metrics = get(proxy.metrics(), "/metrics").unwrap().text();
    assert!(metrics.contains("thalweg_cache_disk_condition{condition=\"ready\"} 1"), "{metrics}");
    assert!(metrics.contains("thalweg_cache_disk_objects 2\n"), "{metrics}");
    assert!(proxy.stop().status.success());
}

#[test]
fn what_is_stale_on_the_disk_is_validated_and_used_where_the_service_is_gone() {
    let _watchdog = watchdog("what_is_stale_on_the_disk_is_validated_and_used_where_the_service_is_gone");
    let (origin, directory) = (Origin::start(), Directory::new());
    let disk = directory.path().join("cache");
    let large = format!("/large-{LARGE}");
    // Both are stale at once.
    origin.say("max-age=0, stale-if-error=3600");
    let proxy = start(&origin, &disk);
    for path in ["/small", &large] {
        whole(&proxy, path);
    }
    wait_written(&proxy, 2);
    assert!(proxy.stop().status.success());

    let proxy = start(&origin, &disk);
    assert_eq!(cache(&proxy)["disk"]["objects"], 2);
    for path in ["/small", &large] {
        let status = status_of(&whole(&proxy, path));
        assert!(status.contains("fwd=stale; fwd-status=304"), "{path}: {status}");
    }
    assert_eq!((origin.validated.load(Ordering::SeqCst), origin.asked()), (2, 4));
    assert!(proxy.stop().status.success());
    origin.stop();

    let proxy = start(&origin, &disk);
    assert_eq!(cache(&proxy)["disk"]["objects"], 2);
    for path in ["/small", &large] {
        whole(&proxy, path);
    }
    assert!(proxy.stop().status.success());
}

#[test]
fn what_is_purged_or_invalidated_stays_away_after_a_restart() {
    let _watchdog = watchdog("what_is_purged_or_invalidated_stays_away_after_a_restart");
    let (origin, directory) = (Origin::start(), Directory::new());
    let disk = directory.path().join("cache");
    let paths = ["/a/1", "/a/2", "/b/1", "/c/1", "/d/1"];
    let proxy = start(&origin, &disk);
    paths.iter().for_each(|path| drop(whole(&proxy, path)));
    wait_written(&proxy, 5);
    kill(proxy);

    // After a restart nothing of it is in memory.
    let proxy = start(&origin, &disk);
    assert_eq!(cache(&proxy)["disk"]["objects"], 5);
    assert_eq!(purge(&proxy, &json!({ "tag": "a" }))["disk"], "kept");
    let done = run(command(proxy.directory()).args(["purge", "http://a.test/b/1"]), STEP);
    assert_eq!(done.stdout, "http://a.test/b/1: 0 purged, and what the disk has of it\n", "{done:?}");
    purge(&proxy, &json!({ "tag": "d", "soft": true }));
    kill(proxy);

    let proxy = start(&origin, &disk);
    let before = origin.asked();
    for path in &paths[..3] {
        assert!(status_of(&whole(&proxy, path)).contains("fwd=uri-miss"), "{path}");
    }
    assert_eq!(origin.asked(), before + 3);
    assert!(status_of(&whole(&proxy, "/c/1")).contains("; hit"));
    assert!(status_of(&whole(&proxy, "/d/1")).contains("fwd=stale; fwd-status=304"));
    // A request that changes what it shows.
    let request = "POST /c/1 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(fetch(proxy.web(), request).unwrap().status(), 204);
    assert!(proxy.stop().status.success());
    let proxy = start(&origin, &disk);
    assert!(status_of(&whole(&proxy, "/c/1")).contains("fwd=uri-miss"));
    assert!(proxy.stop().status.success());
}

/// Tells others to stop, also where the test fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Asks for so many paths again and again, from several threads, until it is told to stop.
fn crowd(proxy: &Proxy, stop: &AtomicBool, (path_of, many): (fn(usize) -> String, usize)) {
    thread::scope(|scope| {
        for thread in 0..4 {
            let web = proxy.web();
            scope.spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let path = path_of((thread * 1000 + number * 7) % many);
                    // The process ends under some.
                    if let Ok(answer) = try_to_ask(web, &path, "") {
                        assert!(answer.body == body_of(&path), "{path}: other bytes");
                    }
                }
            });
        }
    });
}

/// Some hundred paths of different sizes.
fn path_of(number: usize) -> String {
    let length = [100, 3000, 70_000, 300_000][number % 4] + number;
    format!("/{}/{number}-{length}", number % 5)
}

/// Kills a proxy under a crowd several times; then the next one has the right bytes for each path.
fn kill_under_a_crowd(
    text: &str,
    size: u64,
    paths: (fn(usize) -> String, usize),
    (at_first, more): (u64, u64),
) {
    let mut from_disk = 0;
    for round in 0..4 {
        let proxy = Proxy::start(text);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| crowd(&proxy, &stop, paths));
            let _stops = Stops(&stop);
            // More of them each time, so that it ends at different moments of the files' lives.
            wait_disk(&proxy, "some written", |disk| {
                disk["written"].as_u64() >= Some(at_first + more * round)
            });
            from_disk += cache(&proxy)["disk"]["hits"].as_u64().unwrap();
            proxy.process().signal(Signal::KILL);
            proxy.process().wait_exit(STEP);
        });
    }
    assert!(from_disk > 0, "the disk was never read");
    let proxy = Proxy::start(text);
    wait_disk(&proxy, "ready", |disk| disk["condition"] == "ready");
    let (path_of, many) = paths;
    (0..many).for_each(|number| drop(whole(&proxy, &path_of(number))));
    let counts = cache(&proxy);
    assert!(counts["disk"]["bytes"].as_u64() <= Some(size), "{counts}");
    assert!(proxy.stop().status.success());
}

#[test]
fn a_killed_process_leaves_no_wrong_byte_behind() {
    let _watchdog = watchdog("a_killed_process_leaves_no_wrong_byte_behind");
    let (origin, directory) = (Origin::start(), Directory::new());
    // Smaller than what is asked for, so that segments go meanwhile.
    let text = config(&origin, &directory.path().join("cache"), "16MiB", "8MiB");
    kill_under_a_crowd(&text, 16 << 20, (path_of, 400), (20, 10));
}

#[test]
fn flipped_bits_are_fetched_anew() {
    let _watchdog = watchdog("flipped_bits_are_fetched_anew");
    let (origin, directory) = (Origin::start(), Directory::new());
    let disk = directory.path().join("cache");
    let proxy = start(&origin, &disk);
    (0..60).for_each(|number| drop(whole(&proxy, &path_of(number))));
    wait_written(&proxy, 60);
    assert!(proxy.stop().status.success());

    for round in 0..3_u64 {
        for (number, file) in segments(&disk).into_iter().enumerate() {
            let mut bytes = fs::read(&file).unwrap();
            // One in some ten thousand bytes, another one each time.
            let mut at = 5 + 7_919 * round as usize + 911 * number;
            while at < bytes.len() {
                bytes[at] ^= 1 << (at % 8);
                at += 30_011;
            }
            fs::write(&file, bytes).unwrap();
        }
        let proxy = start(&origin, &disk);
        let damaged = |proxy: &Proxy| cache(proxy)["disk"]["damaged"].as_u64().unwrap();
        for number in 0..60 {
            let path = path_of(number);
            let answer = try_to_ask(proxy.web(), &path, "");
            // What is damaged behind its first part breaks off, and is right the next time.
            match answer {
                Ok(answer) => assert!(answer.body == body_of(&path), "{path}: other bytes"),
                Err(why) => assert!(damaged(&proxy) > 0, "{path}: {why}"),
            }
            whole(&proxy, &path);
        }
        assert!(damaged(&proxy) > 0);
        assert!(proxy.stop().status.success());
    }
}

#[test]
fn a_directory_that_cannot_be_used_costs_no_request() {
    let _watchdog = watchdog("a_directory_that_cannot_be_used_costs_no_request");
    let (origin, directory) = (Origin::start(), Directory::new());
    // A file in its place.
    let disk = directory.path().join("cache");
    fs::write(&disk, "mine").unwrap();
    let proxy = Proxy::start(&config(&origin, &disk, "64MiB", "64MiB"));
    let disk_is = wait_disk(&proxy, "unusable", |disk| disk["condition"] == "unusable");
    assert_eq!((&disk_is["objects"], &disk_is["bytes"]), (&json!(0), &json!(0)));
    whole(&proxy, "/small");
    assert!(status_of(&whole(&proxy, "/small")).contains("; hit"), "from memory");
    assert_eq!(purge(&proxy, &json!({ "all": true }))["disk"], "pending");
    let said = proxy.process().stderr();
    assert!(said.contains("disk cache ") && said.contains("nothing is stored on the disk"), "{said}");
    assert!(proxy.stop().status.success());
    assert_eq!(fs::read_to_string(&disk).unwrap(), "mine");
}

/// Starts a proxy that alone sees what this script mounts on `disk`; `None`: this machine does not allow it.
fn start_mounted(origin: &Origin, disk: &Path, script: &str, (size, memory): (&str, &str)) -> Option<Proxy> {
    fs::create_dir_all(disk).unwrap();
    let unshare = find_or_skip("unshare")?;
    let script = script.replace("DISK", &disk.to_string_lossy());
    let may = Command::new(&unshare).args(["-m", "sh", "-c", &script]).output().unwrap();
    if !may.status.success() {
        eprintln!("skipped: this user may not mount: {}", String::from_utf8_lossy(&may.stderr));
        return None;
    }
    let script = format!("{script} && exec \"$0\" \"$@\"");
    Some(Proxy::start_under(&unshare, &["-m", "sh", "-c", &script], &config(origin, disk, size, memory)))
}

#[test]
fn a_read_only_disk_costs_no_request() {
    let _watchdog = watchdog("a_read_only_disk_costs_no_request");
    let (origin, directory) = (Origin::start(), Directory::new());
    let disk = directory.path().join("cache");
    let proxy = start(&origin, &disk);
    whole(&proxy, "/small");
    wait_written(&proxy, 1);
    assert!(proxy.stop().status.success());
    let script = "mount --bind DISK DISK && mount -o remount,ro,bind DISK";
    let Some(proxy) = start_mounted(&origin, &disk, script, ("64MiB", "64MiB")) else { return };
    wait_disk(&proxy, "unusable", |disk| disk["condition"] == "unusable");
    assert!(status_of(&whole(&proxy, "/small")).contains("fwd=uri-miss; stored"));
    assert!(status_of(&whole(&proxy, "/small")).contains("; hit"));
    assert!(proxy.process().stderr().contains("read-only file system"), "{}", proxy.process().stderr());
    assert!(proxy.stop().status.success());
}

#[test]
fn a_full_disk_costs_no_request() {
    let _watchdog = watchdog("a_full_disk_costs_no_request");
    let (origin, directory) = (Origin::start(), Directory::new());
    let disk = directory.path().join("cache");
    // The file system has less than the store may use.
    let script = "mount -t tmpfs -o size=6m,mode=700 none DISK";
    let Some(proxy) = start_mounted(&origin, &disk, script, ("64MiB", "64MiB")) else { return };
    wait_disk(&proxy, "ready", |disk| disk["condition"] == "ready");
    let path = |number: usize| format!("/{number}-100000");
    (0..90).for_each(|number| drop(whole(&proxy, &path(number))));
    let full = wait_disk(&proxy, "paused", |disk| disk["condition"] == "paused");
    assert!(full["errors"].as_u64() > Some(0) && full["objects"].as_u64() > Some(20), "{full}");
    // From memory, from the disk, or anew.
    (0..120).for_each(|number| drop(whole(&proxy, &path(number))));
    assert_eq!(purge(&proxy, &json!({ "url": "http://a.test/3-100000" }))["disk"], "kept");
    let before = origin.asked();
    whole(&proxy, &path(3));
    assert_eq!(origin.asked(), before + 1);
    let said = proxy.process().stderr();
    assert_eq!(said.matches("cannot write: no space left on device").count(), 1, "{said}");
    assert!(proxy.stop().status.success());
}

#[test]
fn a_crowd_after_a_restart_asks_the_disk_and_not_the_service() {
    let _watchdog = watchdog("a_crowd_after_a_restart_asks_the_disk_and_not_the_service");
    let (origin, directory) = (Origin::start(), Directory::new());
    let disk = directory.path().join("cache");
    let paths = ["/small".to_owned(), format!("/large-{LARGE}")];
    let proxy = start(&origin, &disk);
    paths.iter().for_each(|path| drop(whole(&proxy, path)));
    wait_written(&proxy, 2);
    kill(proxy);
    origin.stop();
    let proxy = start(&origin, &disk);
    assert_eq!(cache(&proxy)["disk"]["objects"], 2);
    thread::scope(|scope| {
        for number in 0..64 {
            let (proxy, path) = (&proxy, &paths[number % 2]);
            scope.spawn(move || whole(proxy, path));
        }
    });
    assert_eq!(origin.asked(), 2);
    assert!(proxy.stop().status.success());
}
