//! A file of `tests/import/`: a configuration as the original reads it, with lines for the test in its comments.
//!
//! ```text
//! #> GET http://shop.example/a | X-A: b | body: text    both must do the same with it
//! #~ 501 GET http://shop.example/b                      the report names a difference: Thalweg answers this status
//! #= service 2                                         the response to the line before has this text
//! #! near gzip on                                       a line of the report that is not exact, by its beginning
//! #@ conf.d/site.conf                                   what follows is another file beside the first
//! ```
//!
//! Ports 9001 to 9004 are echo services, 9009 refuses, `/srv/` is a directory of the test's own, and ports of listeners
//! below 1024 become those that are 8000 higher.

use std::fs;
use std::path::{Path, PathBuf};

/// A request of a file.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// As it is written, for messages.
    pub(super) line: String,
    pub(super) method: String,
    pub(super) is_secure: bool,
    /// Host and port as the client names them.
    pub(super) authority: String,
    pub(super) port: u16,
    pub(super) target: String,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: String,
    /// The status of Thalweg, where the two differ and the report says so.
    pub(super) differs: Option<u16>,
    /// Texts that the response has, where no original says what it must be.
    pub(super) texts: Vec<String>,
}

impl Request {
    /// Whether the original takes it, by what the file expects of both.
    pub(super) fn is_taken(&self) -> bool {
        self.differs.is_none() && !self.texts.iter().any(|text| text == "status 404")
    }
}

/// A file.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) file: PathBuf,
    /// Names and texts, the first one is the configuration.
    pub(super) files: Vec<(String, String)>,
    pub(super) requests: Vec<Request>,
    /// Lines of the report that are not exact.
    pub(super) losses: Vec<String>,
}

impl Case {
    pub(super) fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap();
        let first = format!("main.{}", file.extension().unwrap_or_default().to_string_lossy());
        let mut case = Self {
            file: file.to_owned(),
            files: vec![(first, String::new())],
            requests: Vec::new(),
            losses: Vec::new(),
        };
        for line in text.lines() {
            let trimmed = line.trim_start();
            if let Some(name) = trimmed.strip_prefix("#@ ") {
                case.files.push((name.trim().to_owned(), String::new()));
                continue;
            }
            if let Some(rest) = trimmed.strip_prefix("#> ") {
                case.requests.push(request(rest, None));
            } else if let Some(rest) = trimmed.strip_prefix("#~ ") {
                let (status, rest) = rest.split_once(' ').unwrap();
                case.requests.push(request(rest, Some(status.parse().unwrap())));
            } else if let Some(rest) = trimmed.strip_prefix("#= ") {
                case.requests.last_mut().unwrap().texts.push(rest.trim().to_owned());
            } else if let Some(rest) = trimmed.strip_prefix("#! ") {
                case.losses.push(rest.trim().to_owned());
            }
            let (_, text) = case.files.last_mut().unwrap();
            text.push_str(line);
            text.push('\n');
        }
        assert!(!case.requests.is_empty(), "{} has no requests", file.display());
        case
    }
}

fn request(line: &str, differs: Option<u16>) -> Request {
    let mut parts = line.split(" | ");
    let (method, url) = parts.next().unwrap().trim().split_once(' ').unwrap();
    let (scheme, rest) = url.split_once("://").unwrap();
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(at);
    let is_secure = scheme == "https";
    let named = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let mut request = Request {
        line: line.to_owned(),
        method: method.to_owned(),
        is_secure,
        authority: authority.to_owned(),
        port: named.unwrap_or(if is_secure { 443 } else { 80 }),
        target: if target.is_empty() { "/".to_owned() } else { target.to_owned() },
        fields: Vec::new(),
        body: String::new(),
        differs,
        texts: Vec::new(),
    };
    for part in parts {
        let (name, value) = part.split_once(':').unwrap_or_else(|| panic!("no field: {line}"));
        match name.trim() {
            "body" => value.trim().clone_into(&mut request.body),
            name => request.fields.push((name.to_owned(), value.trim().to_owned())),
        }
    }
    request
}
