//! `files: ./public` or a map with `root`: answers with files of a directory.
//!
//! Opening and looking happen on the worker, as nginx does them: a disk that hangs keeps the worker waiting. What is
//! opened is below the root whatever names and links say (`files/lookup.rs`); bodies are read while they are sent.
//! With `fall_through` a request for what is not there goes on to the service.

mod answer;
mod listing;
mod lookup;
pub(crate) mod media_type;
mod precondition;
mod ranges;

use crate::headers::checked_value;
use crate::{
    ConfigFiles, Escape, Facts, Filter, Hooks, OneOrManySpec, Reply, RequestCx, Template, TemplateSpec,
    Verdict,
};
use lookup::{Below, Entry, Root};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fs::{File, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use thalweg_core::{Fault, FaultKind};

/// Places that `try_files` may have, and names that `index` may have.
const TRIES: usize = 16;
/// Where the whole of a request's own path is meant.
const PATH: &str = "{path}";

/// A directory whose files are served.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub enum FilesSpec {
    /// The directory alone.
    Short(#[schemars(extend("x-api" = "reference"))] String),
    /// With more.
    Long(Box<FilesMapSpec>),
}

crate::shape::by_shape!(FilesSpec, "a directory such as `./public`, or a map with `root`", { text => Short, map => Long });

/// A directory whose files are served, and how.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map with `root`")]
pub struct FilesMapSpec {
    /// The directory. A relative path begins at the directory of the file in which it is written.
    #[schemars(extend("x-api" = "reference"))]
    root: String,
    /// Names that stand for a directory, the first one that is there.
    #[serde(default)]
    #[schemars(extend("x-default-words" = "`index.html`"))]
    index: Option<OneOrManySpec<String>>,
    /// Paths to look at in order, such as `{path}`, `{path}.html`, `/index.html`; `=404` at the end gives that status.
    /// `{path}` is the path after the filters before this one.
    #[serde(default)]
    #[schemars(extend("x-default-words" = "`{path}`", "minItems" = 1, "maxItems" = TRIES))]
    try_files: Option<Vec<TemplateSpec>>,
    /// What is served for every path that is not there, as `/index.html` of a single-page application: short for
    /// `try_files: [ "{path}", /index.html ]`.
    #[serde(default)]
    #[schemars(extend("x-default-words" = "none"))]
    fallback: Option<TemplateSpec>,
    /// Whether `FILE.zst`, `FILE.br` and `FILE.gz` are sent in place of a file to clients that accept them.
    #[serde(default)]
    #[schemars(extend("x-default" = false))]
    precompressed: bool,
    /// The field `Cache-Control`, with placeholders.
    #[serde(default)]
    #[schemars(extend("x-default-words" = "none"))]
    cache_control: Option<TemplateSpec>,
    /// The charset of texts; empty: it is not told.
    #[serde(default)]
    #[schemars(extend("x-default" = "utf-8"))]
    charset: Option<String>,
    /// Whether a directory without index is listed.
    #[serde(default)]
    #[schemars(extend("x-default" = false))]
    listing: bool,
    /// Whether files and directories are served whose names begin with a dot. `/.well-known` is served anyway.
    #[serde(default)]
    #[schemars(extend("x-default" = false))]
    #[schemars(extend("x-api" = "trust"))]
    hidden: bool,
    /// Which symbolic links are followed. The root itself may be one.
    #[serde(default)]
    #[schemars(extend("x-default" = "within"))]
    #[schemars(extend("x-api" = "trust"))]
    follow_symlinks: Option<SymlinksSpec>,
    /// Whether a request for what is not there goes on to the service, in place of 404.
    #[serde(default)]
    #[schemars(extend("x-default" = false))]
    fall_through: bool,
}

/// Symbolic links that are followed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", expecting = "`within` or `never`")]
pub(crate) enum SymlinksSpec {
    /// Relative ones that lead to something below the root.
    Within,
    /// None.
    Never,
}

impl FilesSpec {
    /// Checks the root and the texts.
    ///
    /// # Errors
    /// The root is no directory, or a text is wrong.
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Filter>, String> {
        let long = match self {
            Self::Short(root) => FilesMapSpec { root: root.clone(), ..FilesMapSpec::default() },
            Self::Long(long) => (**long).clone(),
        };
        if long.root.is_empty() {
            return Err("`root` is empty; write the directory whose files are served".into());
        }
        let follows = long.follow_symlinks != Some(SymlinksSpec::Never);
        let charset = long.charset.unwrap_or_else(|| "utf-8".into());
        if !charset.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
            return Err(format!(
                "`charset: {}` is no name of a charset; write `utf-8`",
                charset.escape_debug()
            ));
        }
        let index = long.index.as_ref().map_or_else(|| Ok(vec!["index.html".into()]), indexes)?;
        let tries = tries(long.try_files, long.fallback)?;
        Ok(Arc::new(Files {
            written: long.root.clone().into(),
            root: Root::new(files.path(&long.root), follows)?,
            index,
            tries,
            cache_control: long.cache_control.as_ref().map(checked_value).transpose()?,
            charset: charset.into(),
            precompressed: long.precompressed,
            listing: long.listing,
            hidden: long.hidden,
            fall_through: long.fall_through,
        }))
    }
}

fn indexes(written: &OneOrManySpec<String>) -> Result<Vec<Box<str>>, String> {
    let names = written.as_slice();
    if names.len() > TRIES {
        return Err(format!("`index` has at most {TRIES} names"));
    }
    let names =
        names.iter().map(|name| match name.is_empty() || name.contains(['/', '\0']) || name == ".." {
            true => Err(format!("`index: {}` is no name of a file", name.escape_debug())),
            false => Ok(name.as_str().into()),
        });
    names.collect()
}

fn tries(written: Option<Vec<TemplateSpec>>, fallback: Option<TemplateSpec>) -> Result<Vec<Try>, String> {
    let written = match (written, fallback) {
        (Some(_), Some(_)) => {
            return Err("`fallback` is short for `try_files`; write one of them".into());
        }
        (Some(written), None) => written,
        (None, fallback) => Some(TemplateSpec(PATH.into())).into_iter().chain(fallback).collect(),
    };
    if !(1..=TRIES).contains(&written.len()) {
        return Err(format!("`try_files` has 1 to {TRIES} places"));
    }
    let last = written.len() - 1;
    let read = |(at, text): (usize, &TemplateSpec)| {
        if let Some(status) = text.0.strip_prefix('=') {
            return match status.parse().ok().filter(|status| (400..600).contains(status) && at == last) {
                Some(status) => Ok(Try::Status(status)),
                None => Err(format!(
                    "`{}`: only a status from 400 to 599 may stand here, as the last one",
                    text.0
                )),
            };
        }
        if text.0 == PATH {
            return Ok(Try::Request);
        }
        let template = text.build()?;
        match text.0.starts_with('/') || text.0.starts_with('{') {
            true => Ok(Try::Path(template)),
            false => Err(format!("`{}` is no path: it begins with `/` or `{{path}}`", text.0)),
        }
    };
    written.iter().enumerate().map(read).collect()
}

/// A place that is looked at.
#[derive(Debug)]
enum Try {
    /// The path of the request.
    Request,
    Path(Template),
    /// Nothing is looked at any more.
    Status(u16),
}

#[derive(Debug)]
struct Files {
    /// As it is written, for people.
    written: Box<str>,
    root: Root,
    index: Vec<Box<str>>,
    tries: Vec<Try>,
    cache_control: Option<Template>,
    charset: Box<str>,
    precompressed: bool,
    listing: bool,
    hidden: bool,
    fall_through: bool,
}

/// A file that is to be sent.
#[derive(Debug)]
struct Found {
    file: File,
    size: u64,
    /// When it was written: seconds and nanoseconds.
    time: (i64, i64),
    /// Below the root.
    path: Vec<u8>,
}

impl Found {
    fn new(file: File, metadata: &Metadata, path: Vec<u8>) -> Self {
        Self { file, size: metadata.len(), time: (metadata.mtime(), metadata.mtime_nsec()), path }
    }
}

/// What a path leads to.
#[derive(Debug)]
enum Sought {
    File(Found),
    /// A directory that is to be listed.
    List(OwnedFd),
    /// A directory without a slash at its end.
    Moved,
    Status(u16),
    Nothing,
    Denied,
    Failed(Errno),
}

impl Filter for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn argument(&self) -> String {
        let words = [
            (self.listing, ", listed"),
            (self.hidden, ", hidden ones too"),
            (self.precompressed, ", precompressed"),
            (self.fall_through, ", else on"),
        ];
        let words = words.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| *word);
        std::iter::once(&*self.written).chain(words).collect()
    }

    fn restricts(&self) -> bool {
        self.answers()
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }

    fn root(&self) -> Option<&Path> {
        Some(&self.root.path)
    }

    fn answers(&self) -> bool {
        !self.fall_through
    }

    fn captures(&self) -> Vec<String> {
        let tries = self
            .tries
            .iter()
            .filter_map(|it| if let Try::Path(template) = it { Some(template) } else { None });
        tries.chain(&self.cache_control).flat_map(Template::captures).map(str::to_owned).collect()
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        if !matches!(cx.facts.method, b"GET" | b"HEAD") {
            return match self.fall_through {
                true => Verdict::Continue,
                false => {
                    let reply = Reply::new(405).field("Allow", b"GET, HEAD");
                    Verdict::Reply(Box::new(
                        reply.body("text/plain; charset=utf-8", *b"405 Method Not Allowed\n"),
                    ))
                }
            };
        }
        let reply = match self.seek(cx) {
            Sought::File(found) => self.answer(cx, found),
            Sought::List(directory) => match listing::page(directory, cx.facts.path, self.hidden) {
                Ok(reply) => reply,
                Err(_) => return denied(),
            },
            Sought::Moved => moved(&cx.facts),
            Sought::Nothing if self.fall_through => return Verdict::Continue,
            Sought::Nothing => return missing(404, "there is no such file"),
            Sought::Status(status) => return missing(status, "there is no such file"),
            Sought::Denied => return denied(),
            Sought::Failed(error) => return failed(error),
        };
        Verdict::Reply(Box::new(reply))
    }
}

fn missing(status: u16, detail: &'static str) -> Verdict {
    Verdict::Fault(Fault { kind: FaultKind::DestinationNotFound, status, detail })
}

fn denied() -> Verdict {
    Verdict::Fault(Fault::new(FaultKind::HttpRequestDenied, "the proxy may not read this file"))
}

fn failed(error: Errno) -> Verdict {
    let kind = FaultKind::ProxyInternalError;
    Verdict::Fault(match error {
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
            Fault { kind, status: 503, detail: "no descriptor or memory is left to open the file" }
        }
        _ => Fault::new(kind, "the file cannot be opened"),
    })
}

/// Sends a client to the directory itself, so that links in its page are right.
fn moved(facts: &Facts<'_>) -> Reply {
    // Two slashes at the beginning would name another host.
    let begins = facts.path.iter().position(|byte| *byte != b'/').unwrap_or(0);
    let mut place = vec![b'/'];
    place.extend_from_slice(&facts.path[begins..]);
    place.push(b'/');
    if let Some(query) = facts.query {
        place.push(b'?');
        place.extend_from_slice(query);
    }
    Reply::new(301).field("Location", &place)
}

impl Files {
    fn seek(&self, cx: &RequestCx<'_>) -> Sought {
        let root = match self.root.begin() {
            Ok(root) => root,
            Err(error) => return Sought::Failed(error),
        };
        let looks = cx.facts.is_dry_run;
        let own = Below::parse(cx.target.path(), self.hidden);
        // What leads out of the root, or to what is hidden, is not tried in other ways.
        let Some(own) = own else {
            return match self.tries.last() {
                Some(Try::Status(status)) => Sought::Status(*status),
                _ => Sought::Nothing,
            };
        };
        for place in &self.tries {
            let sought = match place {
                Try::Status(status) => Sought::Status(*status),
                Try::Request => self.look(&root, &own, !own.is_directory, looks),
                Try::Path(template) => {
                    let mut path = Vec::new();
                    let mut values = cx.values();
                    let facts = Facts { path: cx.target.path(), readings: None, ..*values.facts };
                    values.facts = &facts;
                    template.render(&values, Escape::Url, &mut path);
                    // `{path}/index.html` of a directory.
                    path.dedup_by(|one, other| (*one, *other) == (b'/', b'/'));
                    let Some(below) = Below::parse(&path, self.hidden) else { continue };
                    let moves = below.path == own.path && !own.is_directory;
                    self.look(&root, &below, moves, looks)
                }
            };
            if !matches!(sought, Sought::Nothing) {
                return sought;
            }
        }
        Sought::Nothing
    }

    /// Looks at one place. `moves`: a directory there has to be asked for with a slash.
    fn look(&self, root: &OwnedFd, below: &Below, moves: bool, looks: bool) -> Sought {
        if !below.is_directory {
            match self.root.open(root, &below.path, looks) {
                Entry::File(file, metadata) => {
                    return Sought::File(Found::new(file, &metadata, below.path.clone()));
                }
                Entry::Directory(_) => {}
                other => return other.into(),
            }
        }
        for index in &self.index {
            let path = below.join(index);
            match self.root.open(root, &path, looks) {
                Entry::File(..) if moves => return Sought::Moved,
                Entry::File(file, metadata) => return Sought::File(Found::new(file, &metadata, path)),
                Entry::Directory(_) | Entry::Missing => {}
                other => return other.into(),
            }
        }
        if !self.listing {
            return Sought::Nothing;
        }
        match self.root.open(root, &below.path, false) {
            Entry::Directory(_) if moves => Sought::Moved,
            Entry::Directory(directory) => Sought::List(directory),
            other => other.into(),
        }
    }
}

impl From<Entry> for Sought {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::File(..) | Entry::Directory(_) | Entry::Missing => Self::Nothing,
            Entry::Denied => Self::Denied,
            Entry::Failed(error) => Self::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests;
