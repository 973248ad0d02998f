//! `files` over a directory of the test's own.

use super::FilesSpec;
use crate::tests::{Asked, Beside, built};
use crate::{Filter, Part, Reply, ReplyBody, Verdict};
use std::fs::{self, File, FileTimes};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// A directory that is gone when dropped.
struct Site(PathBuf);

impl Site {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("thalweg-site-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let site = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(site.0.join("public/docs")).unwrap();
        fs::create_dir_all(site.0.join("public/empty")).unwrap();
        let site =
            site.write("index.html", "home").write("a.txt", "0123456789").write("docs/index.html", "docs");
        site.write("about.html", "about").write(".env", "secret")
    }

    fn write(self, name: &str, text: &str) -> Self {
        let path = self.0.join("public").join(name);
        fs::write(&path, text).unwrap();
        let time = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_times(FileTimes::new().set_modified(time))
            .unwrap();
        self
    }

    fn serve(&self, more: &str) -> Result<Arc<dyn Filter>, String> {
        let json = format!("{{\"root\": \"public\"{more}}}");
        built::<FilesSpec>(&json).build(&Beside(self.0.clone()))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Status, fields and body on one line.
fn told(verdict: Verdict) -> String {
    match verdict {
        Verdict::Reply(reply) => {
            let body = body(&reply);
            let fields = String::from_utf8(reply.fields).unwrap().replace("\r\n", "|");
            format!("{} {fields} {body}", reply.status)
        }
        Verdict::Fault(fault) => format!("fault {}", fault.status),
        other => format!("{other:?}"),
    }
}

fn body(reply: &Reply) -> String {
    use std::os::unix::fs::FileExt;
    let ReplyBody::Parts(parts) = &reply.body else {
        return if let ReplyBody::Bytes(bytes) = &reply.body {
            String::from_utf8_lossy(bytes).into()
        } else {
            "".into()
        };
    };
    let mut out = Vec::new();
    for part in parts {
        match part {
            Part::Bytes(bytes) => out.extend_from_slice(bytes),
            Part::File { file, from, length } => {
                let mut room = vec![0; *length as usize];
                file.read_exact_at(&mut room, *from).unwrap();
                out.extend_from_slice(&room);
            }
        }
    }
    String::from_utf8(out).unwrap()
}

fn get(filter: &Arc<dyn Filter>, path: &str) -> String {
    told(Asked::at(path).send(&**filter))
}

#[test]
fn files_have_types_validators_and_bodies() {
    let site = Site::new();
    let filter = site.serve("").unwrap();
    let validators = "Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT|ETag: \"6553f100.0-a\"|";
    assert_eq!(
        get(&filter, "/a.txt"),
        format!("200 Content-Type: text/plain; charset=utf-8|{validators}Accept-Ranges: bytes| 0123456789")
    );
    assert!(get(&filter, "/").ends_with("home") && get(&filter, "/docs/").ends_with("docs"));
    for path in [
        "/none",
        "/.env",
        "/%2eenv",
        "/..%2f",
        "/a.txt/",
        "/empty",
        "/empty/",
        "/docs%2findex.html",
        "//docs",
        "//a.txt",
        "/docs//",
    ] {
        assert_eq!(get(&filter, path), "fault 404", "{path}");
    }
    assert_eq!(get(&filter, "/docs"), "301 Location: /docs/| ");
    let mut asked = Asked::at("/docs");
    asked.query = Some("a=1".into());
    assert_eq!(told(asked.send(&*filter)), "301 Location: /docs/?a=1| ");
    let mut asked = Asked::at("/a.txt");
    asked.method = "POST";
    assert!(told(asked.send(&*filter)).starts_with("405 Allow: GET, HEAD|"));
}

#[test]
fn places_are_tried_in_their_order() {
    let site = Site::new();
    let pretty = site.serve(r#", "try_files": ["{path}", "{path}.html", "=410"]"#).unwrap();
    assert!(get(&pretty, "/about").ends_with("about") && get(&pretty, "/a.txt").ends_with("0123456789"));
    assert_eq!((get(&pretty, "/none").as_str(), get(&pretty, "/../x").as_str()), ("fault 410", "fault 410"));
    let single = site.serve(r#", "fallback": "/index.html""#).unwrap();
    assert!(get(&single, "/app/users/7").ends_with("home") && get(&single, "/empty").ends_with("home"));
    assert_eq!(get(&single, "/docs"), "301 Location: /docs/| ");
    assert_eq!(get(&single, "/.env"), "fault 404", "what is hidden is no page of the application");
    // The path is the one that filters before have made.
    let mut asked = Asked::at("/static/a.txt");
    asked.target.begin(b"/a.txt");
    assert!(told(asked.send(&*pretty)).ends_with("0123456789"));
    let mut asked = Asked::at("/static/about");
    asked.target.begin(b"/about");
    assert!(told(asked.send(&*pretty)).ends_with("about"));
    let on = site.serve(r#", "fall_through": true"#).unwrap();
    assert_eq!(get(&on, "/none"), "Continue");
    assert!(get(&on, "/a.txt").starts_with("200 "));
}

#[test]
fn ranges_and_conditions_leave_a_part_or_nothing() {
    let site = Site::new();
    let filter = site.serve(r#", "cache_control": "max-age=60""#).unwrap();
    let ask = |name: &str, value: &str| told(Asked::at("/a.txt").with(name, value).send(&*filter));
    assert!(ask("Range", "bytes=2-4").starts_with("206 Content-Range: bytes 2-4/10|"));
    assert!(ask("Range", "bytes=2-4").ends_with(" 234"));
    assert_eq!(ask("Range", "bytes=10-"), "416 Content-Range: bytes */10| ");
    let many = ask("Range", "bytes=0-1,8-");
    assert!(many.starts_with("206 Content-Type: multipart/byteranges; boundary="), "{many}");
    let part = |range: &str, body: &str| {
        let kind = "Content-Type: text/plain; charset=utf-8";
        format!("{kind}\r\nContent-Range: bytes {range}/10\r\n\r\n{body}\r\n--")
    };
    assert!(many.contains(&part("0-1", "01")) && many.contains(&part("8-9", "89")), "{many}");
    assert_eq!(
        ask("If-None-Match", "\"6553f100.0-a\""),
        "304 Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT|ETag: \"6553f100.0-a\"|Cache-Control: max-age=60| "
    );
    assert!(ask("If-Match", "\"x\"").starts_with("412 "));
    let mut head = Asked::at("/a.txt").with("Range", "bytes=2-4");
    head.method = "HEAD";
    assert!(told(head.send(&*filter)).starts_with("200 "));
    let twice = Asked::at("/a.txt").with("Range", "bytes=2-4").with("Range", "bytes=5-6").send(&*filter);
    assert!(told(twice).starts_with("200 "));
    let stale = Asked::at("/a.txt").with("Range", "bytes=2-4").with("If-Range", "\"x\"").send(&*filter);
    assert!(told(stale).starts_with("200 "));
}

#[test]
fn compressed_forms_are_sent_to_clients_that_accept_them() {
    let site = Site::new().write("a.txt.gz", "gz").write("a.txt.br", "br").write("a.txt.zst", "zst");
    let filter = site.serve(r#", "precompressed": true"#).unwrap();
    for (accepted, body) in [
        ("gzip", "gz"),
        ("gzip, br", "br"),
        ("gzip, deflate, br, zstd", "zst"),
        ("gzip;q=1, br;q=0.5", "gz"),
        ("zstd;q=0, *", "br"),
        ("deflate", "0123456789"),
        ("identity, gzip;q=0.5", "0123456789"),
        ("", "0123456789"),
    ] {
        let told = told(Asked::at("/a.txt").with("Accept-Encoding", accepted).send(&*filter));
        assert!(told.ends_with(&format!("Accept-Ranges: bytes| {body}")), "{accepted}: {told}");
        assert!(told.contains("Vary: Accept-Encoding|") && told.contains("text/plain"), "{accepted}: {told}");
        assert_eq!(told.contains("Content-Encoding"), body.len() < 10, "{accepted}: {told}");
    }
    let plain = get(&filter, "/about.html");
    assert!(plain.contains("Vary: ") && !plain.contains("Content-Encoding"), "{plain}");
}

#[test]
fn a_directory_is_listed_where_that_is_wanted() {
    let site = Site::new().write("empty/<b>.txt", "x").write("empty/.secret", "x");
    let filter = site.serve(r#", "listing": true"#).unwrap();
    let page = get(&filter, "/empty/");
    assert!(page.starts_with("200 Content-Security-Policy: default-src 'none'"), "{page}");
    assert!(page.contains("./%3Cb%3E.txt") && !page.contains("<b>") && !page.contains(".secret"), "{page}");
    assert_eq!(get(&filter, "/empty"), "301 Location: /empty/| ");
    assert!(get(&filter, "/docs/").ends_with("docs"), "an index goes before a list");
}

#[test]
fn what_cannot_be_served_is_refused_when_it_is_written() {
    let site = Site::new();
    for (more, part) in [
        (r#", "index": "a/b""#, "no name of a file"),
        (r#", "try_files": []"#, "1 to 16 places"),
        (r#", "try_files": ["=404", "{path}"]"#, "as the last one"),
        (r#", "try_files": ["=200"]"#, "400 to 599"),
        (r#", "try_files": ["index.html"]"#, "begins with `/`"),
        (r#", "try_files": ["{nothing}"]"#, "no placeholder"),
        (r#", "try_files": ["{path}"], "fallback": "/""#, "write one of them"),
        (r#", "charset": "a\r\nb""#, "no name of a charset"),
        (r#", "cache_control": "a\nb""#, "control character"),
    ] {
        let error = site.serve(more).unwrap_err();
        assert!(error.contains(part), "{more}: {error}");
    }
    let error = |json: &str| built::<FilesSpec>(json).build(&Beside(site.0.clone())).unwrap_err();
    assert!(error("\"none\"").contains("there is no directory"));
    assert!(error("\"public/a.txt\"").contains("is no directory"));
    assert!(error("\"\"").contains("is empty"));
}
