//! Real servers: programs that a test runs, with a directory of their own.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A program that runs. Dropping it ends it and removes its directory.
pub(crate) struct Program {
    child: Child,
    directory: PathBuf,
}

impl Program {
    /// Whether it is installed. In CI it must be.
    pub(crate) fn is_here(name: &str) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut all = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
        let is_here = all.any(|directory| directory.join(name).is_file());
        Self::needs(is_here, name)
    }

    /// Says what is skipped where it is not there.
    pub(crate) fn needs(is_here: bool, name: &str) -> bool {
        assert!(is_here || std::env::var_os("CI").is_none(), "{name} is not installed");
        if !is_here {
            eprintln!("skipped: {name} is not installed");
        }
        is_here
    }

    /// A new directory.
    pub(crate) fn directory(name: &str) -> PathBuf {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("thalweg-source-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// A port that is free now.
    pub(crate) fn free_port() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    pub(crate) fn start(command: &mut Command, directory: PathBuf) -> Self {
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, directory }
    }

    pub(crate) fn stderr(&mut self) -> ChildStderr {
        self.child.stderr.take().unwrap()
    }

    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// One request with a body in JSON: the body of the answer, which is 200.
pub(crate) fn post(server: SocketAddr, target: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(server).unwrap();
    let length = body.len();
    write!(stream, "POST {target} HTTP/1.0\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{target} {answer}");
    body.to_owned()
}
