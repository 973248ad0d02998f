//! Answers of an original that are kept beside its files, for machines that do not have the program.
//!
//! `IMPORT_RECORD=1 cargo test -p thalweg-tests --test black_box import::traefik`, with the program on the PATH, writes
//! `tests/import/traefik.answers/NAME.txt` for each file `NAME.*`. Without the program Thalweg is compared with them.
//!
//! ```text
//! #> GET http://shop.example/a     the request as its file has it
//! 200
//! x-app: shop                      fields, without those that are not compared
//! | service 1                      the body, a line each
//! | GET /a HTTP/1.1
//! ```

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use thalweg_tests::Message;

use super::case::Request;
use super::compare::OWN;
use super::echo::Echo;

/// Fields that Traefik adds to every request: its report says of every configuration that they are not sent, and they
/// name the machine.
const ADDED: &[&str] = &["x-forwarded-server:", "x-forwarded-port:", "x-real-ip:"];

/// The answers to the requests of a file.
#[derive(Debug)]
pub(super) struct Answers {
    path: PathBuf,
    /// Requests and what was answered, as text.
    kept: Vec<(String, String)>,
    is_recording: bool,
}

impl Answers {
    /// The answers to the requests of `file`, of the folder `original`.
    pub(super) fn of(original: &str, file: &Path) -> Self {
        let folder = file.parent().unwrap().with_file_name(format!("{original}.answers"));
        let path = folder.join(file.file_name().unwrap()).with_extension("txt");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut kept: Vec<(String, String)> = Vec::new();
        for line in text.lines() {
            if let Some(request) = line.strip_prefix("#> ") {
                kept.push((request.to_owned(), String::new()));
            } else if let Some((_, answer)) = kept.last_mut() {
                answer.push_str(line);
                answer.push('\n');
            }
        }
        Self { path, kept, is_recording: env::var("IMPORT_RECORD").is_ok() }
    }

    /// Takes what the original has answered; gives it as a machine without the original reads it.
    pub(super) fn take(&mut self, request: &Request, answer: &Message, echo: &Echo) -> Message {
        let text = echo.written(&written(answer));
        let read = read(&echo.placed(&text));
        match self.kept.iter_mut().find(|(line, _)| *line == request.line) {
            Some((_, known)) => *known = text,
            None => self.kept.push((request.line.clone(), text)),
        }
        read
    }

    /// What the original answered when it ran.
    pub(super) fn find(&self, request: &Request, echo: &Echo) -> Result<Message, String> {
        let found = self.kept.iter().find(|(line, _)| *line == request.line);
        let (_, text) =
            found.ok_or_else(|| format!("nothing is recorded in {}: see answers.rs", self.path.display()))?;
        Ok(read(&echo.placed(text)))
    }

    /// Writes the answers to `requests`, where they are recorded anew.
    pub(super) fn write(&self, requests: &[Request]) {
        if !self.is_recording {
            return;
        }
        let mut out = String::new();
        for request in requests.iter().filter(|request| request.differs.is_none()) {
            if let Some((line, text)) = self.kept.iter().find(|(line, _)| *line == request.line) {
                let _ = write!(out, "#> {line}\n{text}");
            }
        }
        fs::create_dir_all(self.path.parent().unwrap()).unwrap();
        fs::write(&self.path, out).unwrap();
    }
}

/// An answer as text.
fn written(answer: &Message) -> String {
    let mut out = format!("{}\n", answer.status());
    let mut fields: Vec<String> =
        answer.fields.iter().map(|(name, value)| format!("{}: {value}", name.to_ascii_lowercase())).collect();
    fields.retain(|field| !OWN.iter().any(|name| field.starts_with(&format!("{name}:"))));
    fields.sort();
    for field in &fields {
        let _ = writeln!(out, "{field}");
    }
    let text = answer.text();
    let is_echo = text.contains("\nx-forwarded-server:");
    for line in text.split('\n') {
        if !(is_echo && ADDED.iter().any(|name| line.starts_with(name))) {
            let _ = writeln!(out, "{}", format!("| {line}").trim_end());
        }
    }
    out
}

/// The reverse of [`written`].
fn read(text: &str) -> Message {
    let mut message = Message { start: String::new(), fields: Vec::new(), body: Vec::new() };
    let mut body: Vec<&str> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if at == 0 {
            message.start = format!("HTTP/1.1 {line} Recorded");
        } else if let Some(rest) = line.strip_prefix('|') {
            body.push(rest.strip_prefix(' ').unwrap_or(rest));
        } else if let Some((name, value)) = line.split_once(": ").or(line.split_once(':')) {
            message.fields.push((name.to_owned(), value.to_owned()));
        }
    }
    message.body = body.join("\n").into_bytes();
    message
}
