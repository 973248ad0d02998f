//! `include:` a configuration in several files becomes one tree.
//!
//! Called by `load` with the bytes of the main file. Each file is parsed and filled in by itself, so that every node
//! keeps the place where it was written, and is then merged into the tree (`merge`): a file's own entries first,
//! then those of what it includes, pattern by pattern and, within one, in the byte order of the paths
//! (`glob`). Patterns are relative to the file in which they stand. A file is read once, also when several
//! patterns name it.

mod glob;
mod merge;

use crate::api_restrictions::{secret_places, secret_places_in};
use crate::diagnose::{Class, Problems, SpecError};
use crate::inputs::{Inputs, cause, read_bounded};
use crate::interpolate::{Environment, Filled, interpolate};
use crate::lint::unfinished;
use crate::parse::{FILE, Format, Kind, NODES, Node, TEXT, decode, parse};
use crate::source::{Source, Sources, Span};
use merge::Merge;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

pub(crate) use glob::expand;

/// Most files of one configuration.
pub const FILES: usize = 1000;
/// Most bytes of all files of one configuration.
pub const TOTAL: usize = 16 * 1024 * 1024;
/// Files that may include each other in a row, the main file among them.
pub const DEPTH: usize = 8;
/// The section.
const KEY: &str = "include";

/// What was read of a configuration.
pub(crate) struct Gathered {
    /// The whole of it. `None`: a file cannot be read or parsed, and the problems say why.
    pub(crate) root: Option<Node>,
    /// Which variables stand where.
    pub(crate) filled: Filled,
    /// The files, for those who watch them.
    pub(crate) inputs: Inputs,
    /// Where secrets stand by value.
    pub(crate) secrets: Vec<Span>,
}

/// A configuration as it is written: before `${…}` is filled in.
pub(crate) struct Unfilled {
    /// The main file.
    pub(crate) main: Node,
    /// With what it includes; `None`: a file of these cannot be read or parsed.
    pub(crate) whole: Option<Node>,
}

/// Reads a text as the main file `name`, with the files that it includes, and fills in no variable but those in
/// `include`. `None`: the text cannot be parsed.
pub(crate) fn unfilled(name: &str, text: &str, environment: Environment<'_>) -> Option<Unfilled> {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let mut written = Written::default();
    let gathered =
        gather_as((name, text.as_bytes()), environment, (&mut sources, &mut problems), Some(&mut written));
    let Written { main, merge } = written;
    Some(Unfilled { main: main?, whole: merge.into_root().filter(|_| gathered.root.is_some()) })
}

/// The files as they are written.
#[derive(Default)]
struct Written {
    main: Option<Node>,
    merge: Merge,
}

/// Reads a configuration with everything that it includes. `name` is the path of the main file, whose bytes may
/// come from elsewhere.
pub(crate) fn gather(
    (name, bytes): (&str, &[u8]),
    environment: Environment<'_>,
    sources: &mut Sources,
    problems: &mut Problems,
) -> Gathered {
    gather_as((name, bytes), environment, (sources, problems), None)
}

fn gather_as(
    (name, bytes): (&str, &[u8]),
    environment: Environment<'_>,
    (sources, problems): (&mut Sources, &mut Problems),
    written: Option<&mut Written>,
) -> Gathered {
    let mut gathering = Gathering {
        environment,
        sources,
        problems,
        written,
        filled: Filled::default(),
        inputs: Inputs::default(),
        secrets: Vec::new(),
        merge: Merge::default(),
        open: Vec::new(),
        seen: HashSet::new(),
        size: Size::default(),
        whole: true,
    };
    let path = Path::new(name);
    let identity = identity(path);
    gathering.seen.insert(identity.clone());
    gathering.size.files = 1;
    gathering.file(path, identity, bytes, None);
    let Gathering { filled, inputs, secrets, merge, whole, .. } = gathering;
    Gathered { root: merge.into_root().filter(|_| whole), filled, inputs, secrets }
}

/// What all files use of the bounds.
#[derive(Default)]
struct Size {
    files: usize,
    bytes: usize,
    nodes: usize,
    text: usize,
}

struct Gathering<'a> {
    environment: Environment<'a>,
    /// Where they are kept as they are written, if they are.
    written: Option<&'a mut Written>,
    sources: &'a mut Sources,
    problems: &'a mut Problems,
    filled: Filled,
    inputs: Inputs,
    secrets: Vec<Span>,
    merge: Merge,
    /// The files around the one that is read, outermost first: what they are, and what they are called.
    open: Vec<(PathBuf, String)>,
    /// What has been read or could not be.
    seen: HashSet<PathBuf>,
    size: Size,
    /// Whether all could be read: what is missing would look like other mistakes.
    whole: bool,
}

impl Gathering<'_> {
    /// Takes in a file and what it includes. `included` is where it is named.
    fn file(&mut self, path: &Path, identity: PathBuf, bytes: &[u8], included: Option<Span>) {
        self.inputs.add_file(path, bytes);
        let name = path.display().to_string();
        let Some(root) = self.parsed(&name, bytes, included) else {
            self.whole = false;
            return;
        };
        let (patterns, all) = patterns(&root);
        self.whole &= all;
        self.merge.take(root, self.sources, self.problems);
        self.open.push((identity, name));
        for (pattern, span) in patterns {
            self.include(path, &pattern, span);
        }
        self.open.pop();
    }

    fn parsed(&mut self, name: &str, bytes: &[u8], included: Option<Span>) -> Option<Node> {
        let file = decode(name, bytes, self.sources, self.problems)?;
        self.sources.set_included(file, included);
        unfinished(file, Format::of(name), self.sources, self.problems);
        let Some(mut root) = parse(file, Format::of(name), self.sources, self.problems) else {
            let text = self.sources.get(file).map_or("", Source::text);
            self.secrets.extend(secret_places_in(file, text));
            return None;
        };
        let (nodes, text) = root.weight();
        self.size.nodes = self.size.nodes.saturating_add(nodes);
        self.size.text = self.size.text.saturating_add(text);
        if self.size.nodes > NODES || self.size.text > TEXT {
            let message = "the configuration becomes too large with this file";
            let help = format!("at most {NODES} values and {} MiB of text in all files", TEXT / 1024 / 1024);
            let span = included.unwrap_or(root.span);
            self.problems.push(SpecError::new(Class::Syntax, span, message).help(help));
            return None;
        }
        let text = self.sources.get(file).map_or("", Source::text);
        self.secrets.extend(secret_places(&root, text));
        if let Some(written) = &mut self.written {
            written.main.get_or_insert_with(|| root.clone());
            // Mistakes are told with the other tree.
            written.merge.take(root.clone(), self.sources, &mut Problems::default());
        }
        interpolate(&mut root, self.environment, &mut self.filled, self.problems);
        if included.is_some() && !matches!(root.kind, Kind::Map(_) | Kind::Null) {
            let error = SpecError::new(
                Class::Invalid,
                root.span,
                "an included file is a map of sections such as `routes`",
            );
            self.problems.push(error);
            return None;
        }
        Some(root)
    }

    /// Takes in what one entry of `include:` means.
    fn include(&mut self, from: &Path, pattern: &str, span: Span) {
        if let Some(flaw) = glob::flaw(pattern) {
            return self.refuse(span, Class::Invalid, flaw.to_owned());
        }
        let base = from.parent().unwrap_or(Path::new(""));
        if !glob::is_pattern(pattern) {
            return self.one(&glob::tidy(&base.join(pattern)), span);
        }
        let found = expand(base, pattern);
        self.inputs.add_pattern(base, pattern, found.as_deref().unwrap_or_default());
        match found {
            Ok(found) if found.is_empty() => {
                let warning = SpecError::new(Class::Warning, span, "no file matches this pattern").help(
                    "it is relative to the file in which it stands; names that begin with `.` never match",
                );
                self.problems.push(warning);
            }
            Ok(found) => {
                for path in found {
                    if self.size.files > FILES || self.problems.is_full() {
                        break;
                    }
                    self.one(&glob::tidy(&path), span);
                }
            }
            Err(error) => self.refuse(span, Class::Unreadable, format!("cannot look for files: {error}")),
        }
    }

    /// Takes in a file that is named at `span`, unless it has been.
    fn one(&mut self, path: &Path, span: Span) {
        let identity = identity(path);
        if let Some(at) = self.open.iter().position(|(open, _)| *open == identity) {
            let mut chain: Vec<String> = self.open[at..].iter().map(|(_, name)| name.clone()).collect();
            chain.push(path.display().to_string());
            let error = SpecError::new(
                Class::Invalid,
                span,
                format!("a file includes itself: {}", chain.join(" → ")),
            )
            .help("files to include belong into a directory of their own, such as `routes.d/`");
            self.problems.push(error);
            self.whole = false;
            return;
        }
        if !self.seen.insert(identity.clone()) {
            return;
        }
        self.size.files += 1;
        if self.size.files > FILES {
            return self.refuse(span, Class::Invalid, format!("a configuration has at most {FILES} files"));
        }
        if self.open.len() >= DEPTH {
            return self.refuse(
                span,
                Class::Invalid,
                format!("includes are nested more than {DEPTH} files deep"),
            );
        }
        let bytes = match read_bounded(path, FILE) {
            Ok(bytes) => bytes,
            Err(error) => {
                let help = (error.kind() == std::io::ErrorKind::IsADirectory)
                    .then(|| "write `/*.yaml` behind it for the files in it".to_owned());
                let message = format!("cannot read `{}`: {}", path.display(), cause(&error));
                self.whole = false;
                self.problems.push(SpecError::new(Class::Unreadable, span, message).maybe_help(help));
                return;
            }
        };
        self.size.bytes += bytes.len();
        if self.size.bytes > TOTAL {
            let limit = TOTAL / 1024 / 1024;
            return self.refuse(
                span,
                Class::Invalid,
                format!("the files are larger than {limit} MiB together"),
            );
        }
        self.file(path, identity, &bytes, Some(span));
    }

    fn refuse(&mut self, span: Span, class: Class, message: String) {
        self.whole = false;
        self.problems.push(SpecError::new(class, span, message));
    }
}

/// The entries of `include:` that are texts, and whether none is unknown because its variable is not set. Other
/// mistakes are reported when the specs are read.
fn patterns(root: &Node) -> (Vec<(String, Span)>, bool) {
    let Some(Kind::Seq(items)) = root.entry(KEY).map(|node| &node.kind) else { return (Vec::new(), true) };
    let text = |node: &Node| match (&node.filled, &node.kind) {
        _ if node.broken => None,
        (Some(text), _) | (None, Kind::Str(text)) => Some((text.clone(), node.span)),
        _ => None,
    };
    (items.iter().filter_map(text).collect(), !items.iter().any(|node| node.broken))
}

/// What a path leads to, whatever it is called.
fn identity(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests;
