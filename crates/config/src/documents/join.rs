//! Documents become parts of the tree of the file: what the file has stays, and comes first.

use super::choose::{Id, Set};
use super::{SECTIONS, with_help};
use crate::api_restrictions::{Breach, astray_by_documents, forbidden, secret_places, secret_places_in};
use crate::diagnose::{Class, Problems, SpecError};
use crate::include::Gathered;
use crate::interpolate::{Filled, interpolate};
use crate::own_addresses::{Called, called_addresses, link_local_in};
use crate::parse::{Format, Key, Kind, NODES, Node, TEXT, decode, parse};
use crate::protections::is_made;
use crate::source::{Source, Sources, Span};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A document that is to be a part of the configuration.
pub(crate) struct Part<'a> {
    pub(super) id: &'a Id,
    /// Its source, in words.
    pub(super) source: &'a str,
    pub(super) text: &'a Arc<str>,
}

/// A document that is one.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(super) id: Id,
    /// Its number among the texts.
    pub(super) file: u16,
    /// The names of its routes.
    pub(super) routes: Vec<String>,
    /// The names of its services.
    pub(super) services: Vec<String>,
    /// Addresses that the process asks for it, and that the file does not have.
    pub(super) calls: Vec<Called>,
    /// What of it is left out.
    pub(super) conflicts: Vec<Conflict>,
}

/// An entry of a document that has the name of another one.
#[derive(Debug)]
pub(super) struct Conflict {
    pub(super) span: Span,
    /// From 1.
    pub(super) line: u32,
    /// A sentence.
    pub(super) message: String,
}

/// Which document has had the name of an entry, by section and name: it keeps it, whoever comes before it.
pub(crate) type Owners = HashMap<(&'static str, String), Id>;

/// The names in the documents that could run last.
pub(super) fn owners(good: &Set) -> Owners {
    let mut owners = Owners::new();
    for (id, text) in good {
        let (mut sources, mut problems) = (Sources::default(), Problems::default());
        let tree = decode("", text.as_bytes(), &mut sources, &mut problems)
            .and_then(|file| parse(file, Format::of(&id.1), &sources, &mut problems));
        for ((section, name), _) in tree.map(|tree| Names::of(&tree).taken).into_iter().flatten() {
            owners.entry((section, name)).or_insert_with(|| id.clone());
        }
    }
    owners
}

/// Why a document cannot be read, whatever stands beside it: the first mistake.
pub(super) fn flaw_of(name: &str, text: &str) -> Option<String> {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let mut secrets = Vec::new();
    if let Some(file) = decode(name, text.as_bytes(), &mut sources, &mut problems) {
        match parse(file, Format::of(name), &sources, &mut problems) {
            None => secrets = secret_places_in(file, text),
            Some(mut tree) => {
                secrets = secret_places(&tree, text);
                if is_admitted(&tree, &mut problems) {
                    interpolate(&mut tree, &|_| None, &mut Filled::default(), &mut problems);
                    drop(crate::spec::read(&mut tree, &mut problems));
                }
            }
        }
    }
    let hidden = sources.mask(&secrets);
    problems.hide(&hidden, &secrets);
    let report = problems.into_report(sources);
    let first = report.errors.first()?;
    let at = report.sources.position(first.span);
    Some(format!("line {}, column {}: {}", at.line, at.column, with_help(first)))
}

/// Adds documents to what was read of a file. Mistakes are in `problems`.
pub(crate) fn join(
    gathered: &mut Gathered,
    (parts, owners): (&[Part<'_>], &Owners),
    sources: &mut Sources,
    problems: &mut Problems,
) -> Vec<Joined> {
    let Some(mut root) = gathered.root.take() else { return Vec::new() };
    if parts.is_empty() {
        gathered.root = Some(root);
        return Vec::new();
    }
    let (alone, mut size) = (root.clone(), root.weight());
    let mut names = Names::of(&root);
    let of_file: HashSet<String> = called_addresses(&root).into_iter().map(|called| called.text).collect();
    let there: HashSet<&Id> = parts.iter().map(|part| part.id).collect();
    // Who is not there any more has no name to keep.
    names.owners = owners
        .iter()
        .filter(|(_, id)| there.contains(id))
        .map(|(name, id)| (name.clone(), id.clone()))
        .collect();
    let mut all = Vec::with_capacity(parts.len());
    for part in parts {
        let name = match part.source {
            "" => part.id.1.to_string(),
            source => format!("{source}: {}", part.id.1),
        };
        let Some(file) = decode(&name, part.text.as_bytes(), sources, problems) else { continue };
        let mut joined = Joined {
            id: part.id.clone(),
            file,
            routes: Vec::new(),
            services: Vec::new(),
            calls: Vec::new(),
            conflicts: Vec::new(),
        };
        let text = sources.get(file).map_or("", Source::text);
        let Some(mut tree) = parse(file, Format::of(&part.id.1), sources, problems) else {
            gathered.secrets.extend(secret_places_in(file, text));
            all.push(joined);
            continue;
        };
        gathered.secrets.extend(secret_places(&tree, text));
        let (nodes, bytes) = tree.weight();
        size = (size.0.saturating_add(nodes), size.1.saturating_add(bytes));
        if size.0 > NODES || size.1 > TEXT {
            let message = "the configuration becomes too large with this document";
            problems.push(SpecError::new(Class::Syntax, Span::new(file, 0..0), message));
        } else if is_admitted(&tree, problems) {
            interpolate(&mut tree, &|_| None, &mut gathered.filled, problems);
            joined.calls.extend(called_addresses(&tree).into_iter().filter(|it| !of_file.contains(&it.text)));
            add(&mut root, tree, &mut names, (&mut joined, &*sources));
        }
        all.push(joined);
    }
    secrets_astray((&alone, &root), &all, problems);
    gathered.root = Some(root);
    all
}

/// Tells of documents that send secrets of the file where the file does not, or show them.
fn secrets_astray((alone, root): (&Node, &Node), all: &[Joined], problems: &mut Problems) {
    let files: HashSet<u16> = all.iter().map(|joined| joined.file).collect();
    for Breach { key, span } in astray_by_documents(alone, root, &|span: Span| files.contains(&span.file)) {
        let message =
            format!("this would send or show the secret `{key}` of the file where the file does not");
        let help = "write the route and its service in the file, or leave the filter with the secret out";
        problems.push(SpecError::new(Class::Invalid, span, message).help(help));
    }
}

/// Whether a document says only what a source may say.
fn is_admitted(tree: &Node, problems: &mut Problems) -> bool {
    let entries = match &tree.kind {
        Kind::Map(entries) => entries,
        Kind::Null => return true,
        _ => {
            let message = "a document is a map with `routes`, `services`, `chains` and `tests`";
            problems.push(SpecError::new(Class::Invalid, tree.span, message));
            return false;
        }
    };
    let before = problems.count();
    for (key, section) in entries {
        let is_list = ["routes", "tests"].contains(&key.name.as_str());
        let fits = match &section.kind {
            Kind::Null => true,
            Kind::Seq(_) => is_list,
            Kind::Map(_) => !is_list,
            _ => false,
        };
        if !SECTIONS.contains(&key.name.as_str()) {
            let message =
                format!("`{}` stands in the file only; a source tells of routes and services", key.name);
            let help = "a document has `routes`, `services`, `chains` and `tests`";
            problems.push(SpecError::new(Class::Invalid, key.span, message).help(help));
        } else if !fits {
            let message = format!("`{}` must be a {}", key.name, if is_list { "list" } else { "map" });
            problems.push(SpecError::new(Class::Invalid, section.span, message));
        }
    }
    for breach in forbidden(tree).into_iter().chain(link_local_in(tree)) {
        let message = format!("`{}` may not come from a source", breach.key);
        let help = "files, variables, sockets and whom to trust stand in the file; write a service or chain there and name it here";
        problems.push(SpecError::new(Class::Invalid, breach.span, message).help(help));
    }
    if let Some(Kind::Seq(routes)) = tree.entry("routes").map(|routes| &routes.kind) {
        for route in
            routes.iter().filter(|route| matches!(route.kind, Kind::Map(_)) && name_of(route).is_none())
        {
            let message = "a route from a source needs a `name`";
            problems.push(SpecError::new(Class::Invalid, route.span, message));
        }
        for inherit in routes.iter().filter_map(|route| route.entry("inherit")) {
            let message =
                "`inherit` stands in the file only: filters of all routes hold for those of sources too";
            problems.push(SpecError::new(Class::Invalid, inherit.span, message));
        }
    }
    for sealed in items_of(tree, "routes").filter_map(|route| route.entry("to")?.entry("sealed")) {
        let message = "`sealed` stands in the file only: its keys open every address of `allow`";
        let help = "send requests to services of the file or of the document";
        problems.push(SpecError::new(Class::Invalid, sealed.span, message).help(help));
    }
    let names = Names::of(tree);
    let own = |section: &'static str, name: &str| names.taken.contains_key(&(section, name.to_owned()));
    for test in items_of(tree, "tests").filter(|test| matches!(test.kind, Kind::Map(_))) {
        if !is_of_own(test, &own) {
            let message = "a test from a source must expect a `route` or a `service` of its own document";
            let help = "tests of other routes stand in the file";
            problems.push(SpecError::new(Class::Invalid, test.span, message).help(help));
        }
    }
    for ((_, name), span) in names.taken.into_iter().filter(|((_, name), _)| is_made(name)) {
        let message = format!("`{name}` is a name that is given by position; choose another one");
        problems.push(SpecError::new(Class::Invalid, span, message));
    }
    problems.count() == before
}

fn items_of<'a>(tree: &'a Node, section: &str) -> impl Iterator<Item = &'a Node> {
    let items = match tree.entry(section).map(|section| &section.kind) {
        Some(Kind::Seq(items)) => &items[..],
        _ => &[],
    };
    items.iter()
}

/// Whether a test expects a route of its document, or any route to a service of it. Another test would say what
/// becomes of requests of others, and its failure would keep their changes out.
fn is_of_own(test: &Node, own: &dyn Fn(&'static str, &str) -> bool) -> bool {
    let expected = |key: &str| match &test.entry("expect")?.entry(key)?.kind {
        Kind::Str(name) => Some(&**name),
        _ => None,
    };
    match (expected("route"), expected("service")) {
        (Some(route), _) => own("routes", route),
        // The service of a route that lists URLs has the name of the route.
        (None, Some(service)) => own("services", service) || own("routes", service),
        (None, None) => false,
    }
}

fn name_of(route: &Node) -> Option<&str> {
    match route.entry("name").map(|name| &name.kind) {
        Some(Kind::Str(name)) => Some(name),
        _ => None,
    }
}

/// The names that are taken, by section.
#[derive(Default)]
struct Names {
    /// And where.
    taken: HashMap<(&'static str, String), Span>,
    /// By documents that have had them, and still are there.
    owners: Owners,
}

impl Names {
    fn of(root: &Node) -> Self {
        let mut names = Self::default();
        for section in SECTIONS {
            match root.entry(section).map(|node| &node.kind) {
                Some(Kind::Seq(items)) => {
                    let named = items.iter().filter_map(|item| Some((name_of(item)?.to_owned(), item.span)));
                    names.taken.extend(named.map(|(name, span)| ((*section, name), span)));
                }
                Some(Kind::Map(entries)) => {
                    let named = entries.iter().map(|(key, _)| (key.name.clone(), key.span));
                    names.taken.extend(named.map(|(name, span)| ((*section, name), span)));
                }
                _ => {}
            }
        }
        names
    }

    /// Takes a name for an entry of a document; who has it already.
    fn take(&mut self, (section, name): (&'static str, &str), span: Span, by: &Id) -> Result<(), Taken> {
        let key = (section, name.to_owned());
        match self.taken.get(&key) {
            Some(first) => Err(Taken::At(*first)),
            None => match self.owners.get(&key).filter(|owner| *owner != by) {
                Some(owner) => Err(Taken::By(owner.clone())),
                None => {
                    self.taken.insert(key, span);
                    Ok(())
                }
            },
        }
    }
}

/// Who has a name.
enum Taken {
    /// An entry that stands here.
    At(Span),
    /// A document that has had it before.
    By(Id),
}

fn add(root: &mut Node, tree: Node, names: &mut Names, (joined, sources): (&mut Joined, &Sources)) {
    let Kind::Map(mut entries) = tree.kind else { return };
    // Tests come last, when it is known which entries are left out.
    entries.sort_by_key(|(key, _)| key.name == "tests");
    for (key, mut section) in entries {
        let Some(name) = SECTIONS.iter().find(|name| **name == key.name) else { continue };
        let mut keep = |entry: &str, span: Span| {
            let Err(taken) = names.take((name, entry), span, &joined.id) else { return true };
            let what = name.strip_suffix('s').unwrap_or(name);
            let place = match taken {
                Taken::At(first) => {
                    let file = sources.get(first.file).map_or("?", Source::name);
                    format!("{file}:{}", sources.line(first))
                }
                Taken::By((_, document)) => format!("the document {document}, which had it before"),
            };
            let message = format!("the {what} `{entry}` is left out: there is one of this name in {place}");
            joined.conflicts.push(Conflict { span, line: sources.line(span), message });
            false
        };
        match &mut section.kind {
            Kind::Seq(items) if *name == "routes" => {
                items.retain(|route| name_of(route).is_none_or(|entry| keep(entry, route.span)));
                joined.routes.extend(items.iter().filter_map(name_of).map(str::to_owned));
            }
            Kind::Seq(items) if *name == "tests" => {
                let (routes, services) = (&joined.routes, &joined.services);
                let own = |section: &str, name: &str| {
                    let names = if section == "routes" { routes } else { services };
                    names.iter().any(|known| known == name)
                };
                items.retain(|test| !matches!(test.kind, Kind::Map(_)) || is_of_own(test, &own));
            }
            Kind::Map(entries) => {
                entries.retain(|(key, _)| keep(&key.name, key.span));
                if *name == "services" {
                    joined.services.extend(entries.iter().map(|(key, _)| key.name.clone()));
                }
            }
            _ => {}
        }
        put(root, key, section);
    }
}

/// Adds a section to what there is of it.
fn put(root: &mut Node, key: Key, section: Node) {
    if root.kind == Kind::Null {
        root.kind = Kind::Map(Vec::new());
    }
    let Kind::Map(sections) = &mut root.kind else { return };
    let known = sections.iter_mut().find(|(known, _)| known.name == key.name);
    match known.map(|(_, node)| node) {
        None => sections.push((key, section)),
        Some(node) => match (&mut node.kind, section.kind) {
            (Kind::Seq(items), Kind::Seq(more)) => items.extend(more),
            (Kind::Map(entries), Kind::Map(more)) => entries.extend(more),
            (Kind::Null, kind) => *node = Node { kind, ..section },
            (_, _) => {}
        },
    }
}
