//! A Eureka server and services of Spring Cloud: `tests/programs/spring`, built once by Maven into the target
//! directory.
//!
//! It needs nothing of this crate, so that the suite of sources can use it too. A program ends with the test process,
//! however that ends: its standard input is a pipe of the test's.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs;
use std::hash::Hasher as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a program may take to get ready, on a machine that is busy.
const START: Duration = Duration::from_secs(120);
/// A small virtual machine that starts soon.
const JAVA: &[&str] = &["-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"];
/// Of the libraries, those that only a server needs: with them on its path a client does not start.
const OF_SERVERS: &[&str] = &["jersey", "hk2", "eureka-core", "eureka-server"];

/// The programs, built.
#[derive(Debug)]
pub struct Spring {
    folder: PathBuf,
}

/// A program that runs; killed on drop.
#[derive(Debug)]
pub struct Jvm {
    child: Child,
    /// The port that it has bound on 127.0.0.1.
    pub port: u16,
}

impl Spring {
    /// The programs; `None` without a JDK or Maven, which is told, and in CI fails.
    ///
    /// # Panics
    /// When they cannot be built and `CI=true`.
    pub fn built() -> Option<Self> {
        // One builds, others wait for it.
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // The test executable is <target>/<profile>/deps/<name>-<hash>; its crate lies anywhere in the workspace.
        let test = env::current_exe().unwrap();
        let tools = test.ancestors().nth(3).unwrap().join("tools");
        let crate_of_test = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut places = crate_of_test.ancestors().map(|folder| folder.join("tests/programs/spring"));
        let source = places.find(|folder| folder.is_dir()).unwrap();
        let mut hash = DefaultHasher::new();
        for file in files(&source) {
            hash.write(&fs::read(file).unwrap());
        }
        let folder = tools.join(format!("spring-{:016x}", hash.finish()));
        if !folder.is_dir()
            && let Err(why) = build(&source, &tools, &folder)
        {
            assert_ne!(env::var("CI").as_deref(), Ok("true"), "Spring is not built: {why}");
            eprintln!("skipped: Spring is not built: {why}");
            return None;
        }
        Some(Self { folder })
    }

    /// A Eureka server that gives out at once what it knows; its API is at `/eureka`.
    pub fn registry(&self, port: u16) -> Jvm {
        let arguments = [
            "--eureka.client.register-with-eureka=false",
            "--eureka.client.fetch-registry=false",
            "--eureka.server.use-read-only-response-cache=false",
        ];
        self.start("thalweg.Registry", |_| true, port, &arguments)
    }

    /// A service that registers as `app` at the server of this URL, in this zone, and answers with `answer`. It renews
    /// its lease every two seconds.
    pub fn service(&self, registry: &str, app: &str, zone: &str, answer: &str) -> Jvm {
        let arguments = [
            format!("--answer={answer}"),
            format!("--spring.application.name={app}"),
            format!("--eureka.client.service-url.defaultZone={registry}"),
            format!("--eureka.instance.instance-id={answer}"),
            format!("--eureka.instance.metadata-map.zone={zone}"),
            "--eureka.instance.ip-address=127.0.0.1".to_owned(),
            "--eureka.instance.hostname=localhost".to_owned(),
            "--eureka.instance.lease-renewal-interval-in-seconds=2".to_owned(),
        ];
        let is_of_clients = |name: &str| OF_SERVERS.iter().all(|part| !name.contains(part));
        self.start("thalweg.Service", is_of_clients, 0, &arguments.each_ref().map(String::as_str))
    }

    fn start(&self, main: &str, is_needed: impl Fn(&str) -> bool, port: u16, arguments: &[&str]) -> Jvm {
        let mut path = vec![self.folder.join("target/classes")];
        let libraries =
            fs::read_dir(self.folder.join("target/dependency")).unwrap().map(|entry| entry.unwrap().path());
        path.extend(libraries.filter(|library| is_needed(&library.file_name().unwrap().to_string_lossy())));
        let mut child = Command::new("java")
            .args(JAVA)
            .arg("-cp")
            .arg(env::join_paths(path).unwrap())
            .arg(main)
            .args([format!("--server.port={port}"), "--server.address=127.0.0.1".to_owned()])
            .args(["--spring.main.banner-mode=off", "--logging.level.root=warn"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (tell, told) = mpsc::channel();
        // It reads to the end, so that a full pipe never stops the program.
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(port) = line.strip_prefix("port ") {
                    let _ = tell.send(port.parse().unwrap());
                }
            }
        });
        let port = told.recv_timeout(START);
        let jvm = Jvm { child, port: *port.as_ref().unwrap_or(&0) };
        port.unwrap_or_else(|_| panic!("{main} does not get ready"));
        jvm
    }
}

impl Jvm {
    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sends it a signal: `STOP`, `CONT`, `TERM`.
    pub fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success(), "{command}");
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All files below, in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Builds in a place of its own, which is moved when it is whole.
fn build(source: &Path, tools: &Path, folder: &Path) -> Result<(), String> {
    let place = tools.join(format!("spring-{}", std::process::id()));
    for file in files(source) {
        let copy = place.join(file.strip_prefix(source).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(file, copy).unwrap();
    }
    let done = Command::new("mvn")
        .args([
            "--batch-mode",
            "--quiet",
            "compile",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
        ])
        .current_dir(&place)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("mvn does not run: {error}"))?;
    if !done.status.success() {
        let _ = fs::remove_dir_all(&place);
        return Err(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    if fs::rename(&place, folder).is_err() {
        // Another run was faster.
        let _ = fs::remove_dir_all(&place);
    }
    Ok(())
}
