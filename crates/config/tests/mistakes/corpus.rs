//! The files that are mutated, and what is known of each place in them.

use crate::certificates;
use std::path::{Path, PathBuf};
use thalweg_config::parse::{Format, Kind, Node, decode, parse};
use thalweg_config::spec::read;
use thalweg_config::{Sources, Span, check_text};

/// Maps whose keys the user chooses.
const NAMED: &[&str] = &[
    "subset",
    "labels",
    "metadata",
    "services",
    "listeners",
    "header",
    "headers",
    "query",
    "forward",
    "fields",
    "plans",
    "attributes",
];
/// Words with a meaning of their own, wherever a key takes one.
const WORDS: &[&str] = &[
    "auto",
    "keep",
    "endpoint",
    "round_robin",
    "random",
    "least_requests",
    "peak_ewma",
    "json",
    "combined",
    "off",
    "stdout",
    "stderr",
    "http",
    "high",
    "normal",
    "low",
    "strict",
    "lax",
    "try_all",
    "error",
    "maglev",
    "GET",
    "HEAD",
    "POST",
    "path",
    "client_ip",
    "endpoint_down",
    "endpoint_up",
    "service_unavailable",
    "default",
    "refuse",
    "1.2",
    "1.3",
    "TLS_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "X25519",
    "secp256r1",
    "true",
    "false",
];
/// Keys whose values are free text, also where they hold one of the words.
const FREE: &[&str] =
    &["name", "cookie", "body", "Host", "X-Check", "version", "tag", "prefix", "contains", "method"];

/// Variables that the files may use.
pub(crate) fn environment(name: &str) -> Option<String> {
    match name {
        "PORT" => Some("8080".into()),
        "UPSTREAM" => Some("http://127.0.0.1:9001".into()),
        "SIGNING" => Some("hunter2hunter2hunter2".into()),
        certificates::VARIABLE => Some(certificates::folder()),
        _ => None,
    }
}

/// A file without a mistake.
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) root: Node,
    pub(crate) meaning: String,
}

/// A value with what leads to it.
pub(crate) struct Place<'a> {
    /// Keys from the root; `*` for an element of a list.
    pub(crate) path: Vec<&'a str>,
    /// Where its key stands, if it is the value of one.
    pub(crate) key: Option<Span>,
    pub(crate) node: &'a Node,
    /// It stands inside `{ }` or `[ ]`.
    pub(crate) in_flow: bool,
}

impl Place<'_> {
    /// Its own key.
    pub(crate) fn name(&self) -> &str {
        self.path.iter().rev().find(|part| **part != "*").copied().unwrap_or_default()
    }

    /// What stands here, whatever its name.
    pub(crate) fn section(&self) -> Vec<&str> {
        let mut section = self.path.clone();
        for at in 1..section.len() {
            if NAMED.contains(&section[at - 1]) {
                section[at] = "*";
            }
        }
        section
    }

    fn above(&self) -> &str {
        self.path.len().checked_sub(2).map_or("", |at| self.path[at])
    }

    /// The key belongs to the language, not to the user.
    pub(crate) fn has_known_key(&self) -> bool {
        self.key.is_some() && !NAMED.contains(&self.above())
    }

    /// A listener or service is defined here.
    pub(crate) fn is_definition(&self) -> bool {
        matches!(self.path.as_slice(), ["services" | "listeners", _])
    }

    /// A listener or service is named here.
    pub(crate) fn is_reference(&self) -> bool {
        let text = matches!(&self.node.kind, Kind::Str(text) if !text.contains(':'));
        text && matches!(
            self.path.as_slice(),
            ["routes", "*", "to"] | ["routes", "*", "to", .., "service"] | ["routes", "*", "listeners", "*"]
        )
    }

    /// One of the words that a key takes.
    pub(crate) fn is_word(&self) -> bool {
        let text = match &self.node.kind {
            Kind::Str(text) => text.as_str(),
            Kind::Bool(true) => "true",
            Kind::Bool(false) => "false",
            _ => return false,
        };
        // Pages of other origins may use any method.
        let is_any_method = self.path.contains(&"cors") && self.name() == "methods";
        WORDS.contains(&text) && !FREE.contains(&self.name()) && !is_any_method && !self.is_reference()
    }
}

impl File {
    /// Every YAML file under `examples` and the good goldens that loads without a warning.
    pub(crate) fn all() -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut paths: Vec<PathBuf> = ["examples", "tests/config/good"]
            .iter()
            .flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap())
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
            .collect();
        paths.sort();
        paths.iter().filter_map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // The mutations count in bytes and lines of plain text.
        if !text.is_ascii() && name == "bom_and_crlf.yaml" {
            return None;
        }
        let loaded = check_text(&name, &text, &environment).ok()?;
        assert!(loaded.warnings.errors.is_empty(), "{}", loaded.warnings);
        let root = tree(&text)?;
        let meaning = meaning(&text)?;
        Some(Self { name, text, root, meaning })
    }

    /// Every value, in the order of the file.
    pub(crate) fn places(&self) -> Vec<Place<'_>> {
        places(&self.root, &self.text)
    }
}

/// Collects the places below a node.
struct Walk<'a, 'p> {
    text: &'p str,
    path: Vec<&'a str>,
    places: Vec<Place<'a>>,
}

impl<'a> Walk<'a, '_> {
    fn enter(&mut self, node: &'a Node, key: Option<Span>, in_flow: bool) {
        self.places.push(Place { path: self.path.clone(), key, node, in_flow });
        let flow = in_flow || self.text[node.span.range()].starts_with(['{', '[']);
        match &node.kind {
            Kind::Map(entries) => {
                for (key, child) in entries {
                    self.path.push(&key.name);
                    self.enter(child, Some(key.span), flow);
                    self.path.pop();
                }
            }
            Kind::Seq(items) => {
                for item in items {
                    self.path.push("*");
                    self.enter(item, None, flow);
                    self.path.pop();
                }
            }
            _ => {}
        }
    }
}

fn places<'a>(root: &'a Node, text: &str) -> Vec<Place<'a>> {
    let mut walk = Walk { text, path: Vec::new(), places: Vec::new() };
    walk.enter(root, None, false);
    walk.places
}

/// The tree of a text, if it is YAML at all.
pub(crate) fn tree(text: &str) -> Option<Node> {
    let (mut sources, mut problems) = (Sources::default(), thalweg_config::diagnose::Problems::default());
    let file = decode("mutated.yaml", text.as_bytes(), &mut sources, &mut problems)?;
    parse(file, Format::Yaml, &sources, &mut problems).filter(|_| problems.is_clean())
}

/// What was written, without where: two texts with the same are the same configuration.
pub(crate) fn meaning(text: &str) -> Option<String> {
    let mut problems = thalweg_config::diagnose::Problems::default();
    let mut root = tree(text)?;
    let mut filled = thalweg_config::interpolate::Filled::default();
    thalweg_config::interpolate::interpolate(&mut root, &environment, &mut filled, &mut problems);
    let spec = read(&mut root, &mut problems).0.filter(|_| problems.is_clean())?;
    let (written, mut bare) = (format!("{spec:?}"), String::new());
    for (at, part) in written.split("Span {").enumerate() {
        bare.push_str(if at == 0 { part } else { part.split_once('}').map_or(part, |(_, rest)| rest) });
    }
    Some(bare)
}

/// The lines on which this listener or service is referred to, in a text that is YAML.
pub(crate) fn references(text: &str, name: &str) -> Vec<usize> {
    let Some(root) = tree(text) else { return Vec::new() };
    let places = places(&root, text);
    let named = places.iter().filter(|place| place.is_reference());
    let named = named.filter(|place| matches!(&place.node.kind, Kind::Str(text) if text == name));
    named.map(|place| line_of(text, place.node.span.start as usize)).collect()
}

/// The line of a byte, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
