//! Where a configuration is found and how a file becomes a plan: the stages in order.

use crate::api_restrictions::{Carriers, carriers, concealed};
use crate::compile::compile;
use crate::diagnose::{Class, Problems, Report, SpecError};
use crate::documents::{Joined, Owners, Part, join};
use crate::include::{Gathered, gather};
use crate::inputs::{Inputs, cause};
use crate::interpolate::{Environment, Filled};
use crate::parse::{FILE, Node};
use crate::protections::Apart;
use crate::provenance::Provenance;
use crate::settings::Settings;
use crate::source::{Sources, Span};
use crate::span_index::Places;
use crate::validate::Secrets;
use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_proxy::plan::{Plan, PlanSecrets, Route};

/// Most secrets that are looked for in messages.
const MOST_HIDDEN: usize = 1000;

/// A configuration that can run.
#[derive(Debug)]
pub struct Loaded {
    /// What the workers run.
    pub plan: Plan,
    /// What the process around them needs.
    pub settings: Settings,
    /// Suspicious places that do not keep it from running.
    pub warnings: Report,
    /// Every file that was read: the main one, those that it includes, those of secrets. To be watched, with
    /// [`Inputs::directories`].
    pub files: Vec<PathBuf>,
    /// The same files with what tells whether they have changed.
    pub inputs: Inputs,
    /// Where each value comes from.
    pub provenance: Provenance,
    /// Where things stand in the text.
    pub places: Places,
    /// The main file as it was read; without one it is empty.
    pub text: HiddenText,
    /// What documents may not lead to, whatever sources find later.
    pub apart: Apart,
}

/// The text of a file that may have secrets in it: it is not shown.
#[derive(Clone, Default)]
pub struct HiddenText(pub String);

impl fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// The places of DESIGN §5 in order; with `explicit` only that one.
///
/// # Returns
/// The first file that `exists`; an explicit path or `$THALWEG_CONFIG` is taken without looking,
/// so that a missing file is an error and not another file.
pub fn find(
    explicit: Option<&Path>,
    environment: Environment<'_>,
    exists: &dyn Fn(&Path) -> bool,
) -> Option<PathBuf> {
    if let Some(path) = explicit {
        return Some(path.to_owned());
    }
    if let Some(path) = environment("THALWEG_CONFIG").filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    places(environment).into_iter().find(|path| exists(path))
}

/// The files that are looked for when none is named, in order.
pub fn places(environment: Environment<'_>) -> Vec<PathBuf> {
    let set = |name: &str| environment(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The XDG base directory specification: relative paths are ignored, the default is ~/.config.
    let xdg = set("XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| set("HOME").map(|home| home.join(".config")));
    let mut places = vec![PathBuf::from("thalweg.yaml")];
    places.extend(xdg.map(|directory| directory.join("thalweg/thalweg.yaml")));
    places.push(PathBuf::from("/etc/thalweg/thalweg.yaml"));
    places
}

/// Reads, checks and compiles a file with the environment of the process.
///
/// # Errors
/// Every mistake that was found.
pub fn load_file(path: &Path) -> Result<Loaded, Report> {
    let name = path.display().to_string();
    let bytes = match read(path) {
        Ok(bytes) => bytes,
        Err(error) => return Err(unreadable(&name, &error)),
    };
    check_bytes(&name, &bytes, &|name| std::env::var(name).ok())
}

/// Checks and compiles a text; the name's extension decides the format.
///
/// # Errors
/// Every mistake that was found.
pub fn check_text(name: &str, text: &str, environment: Environment<'_>) -> Result<Loaded, Report> {
    check_bytes(name, text.as_bytes(), environment)
}

/// Checks and compiles the bytes of a file; the name's extension decides the format. What it includes and the files
/// of secrets are read from disk, the former relative to the directory of `name`.
///
/// # Errors
/// Every mistake that was found.
pub fn check_bytes(name: &str, bytes: &[u8], environment: Environment<'_>) -> Result<Loaded, Report> {
    check_with((name, bytes), environment, (&[], &Owners::new())).0
}

/// What a configuration with documents is, and the documents in it.
pub(crate) type Checked = (Result<Loaded, Report>, Vec<Joined>);

/// [`check_bytes`] with documents of sources.
pub(crate) fn check_with(
    (name, bytes): (&str, &[u8]),
    environment: Environment<'_>,
    (documents, owners): (&[Part<'_>], &Owners),
) -> Checked {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let mut gathered = gather((name, bytes), environment, &mut sources, &mut problems);
    let joined = join(&mut gathered, (documents, owners), &mut sources, &mut problems);
    // Mistakes of documents alone are told before all is compiled.
    let is_told = !documents.is_empty() && !problems.is_clean();
    if is_told {
        gathered.root = None;
    }
    let Gathered { root, mut filled, inputs, secrets: masked } = gathered;
    let values = filled.take_values();
    let secrets = Secrets::new(environment, inputs, &sources);
    let made = root.and_then(|mut root| {
        let (spec, declared) = crate::spec::read(&mut root, &mut problems);
        let spec = spec?;
        let mut made = compile(&spec, &declared, &secrets, &mut problems)?;
        made.plan.secrets = secrets_of(&root, (&filled, &masked), &made.plan);
        let provenance = Provenance::new(&root, (&sources, &filled), &made.plan, made.filters);
        Some((made.plan, made.settings, (provenance, Places::of(&spec))))
    });
    let mut hidden = sources.mask(&masked);
    hidden.extend(values);
    hidden.truncate(MOST_HIDDEN);
    problems.hide(&hidden, &masked);
    let made = finish(made, problems, sources, secrets.into_inputs());
    let text = || String::from_utf8_lossy(bytes).into_owned();
    (made.map(|loaded| Loaded { text: HiddenText(text()), ..loaded }), joined)
}

/// Which services of a plan receive secrets of its configuration, and what no display of it shows.
fn secrets_of(root: &Node, (filled, secrets): (&Filled, &[Span]), plan: &Plan) -> PlanSecrets {
    if filled.is_empty() && secrets.is_empty() {
        return PlanSecrets::default();
    }
    let Carriers { services, routes } = carriers(root);
    let of_routes = routes.iter().filter_map(|at| plan.routes.get(*at)).flat_map(Route::all_services);
    let of_routes = of_routes.filter_map(|id| plan.services.get(id.0 as usize));
    let carriers = services.iter().map(|name| name.as_str().into());
    let carriers: BTreeSet<Arc<str>> =
        carriers.chain(of_routes.map(|service| service.name.clone())).collect();
    PlanSecrets { carriers: carriers.into(), concealed: concealed(root, filled, secrets) }
}

fn finish(
    made: Option<(Plan, Settings, (Provenance, Places))>,
    mut problems: Problems,
    sources: Sources,
    inputs: Inputs,
) -> Result<Loaded, Report> {
    match made {
        Some((plan, settings, (provenance, places))) if problems.is_clean() => {
            let errors = problems.take_warnings();
            let warnings = Report { sources, errors, more: false };
            let (files, text) = (inputs.paths(), HiddenText::default());
            let apart = Apart::default();
            Ok(Loaded { plan, settings, warnings, files, inputs, provenance, places, text, apart })
        }
        _ => Err(problems.into_report(sources)),
    }
}

/// [`load_file`] with documents, each a file: nothing is left out, and every mistake is told.
///
/// # Errors
/// Every mistake of the file and of the documents.
pub fn check_documents(path: &Path, documents: &[PathBuf]) -> Result<Loaded, Report> {
    let alone = load_file(path)?;
    let unread = |path: &Path, error| unreadable(&path.display().to_string(), &error);
    let bytes = read(path).map_err(|error| unread(path, error))?;
    let mut texts = Vec::new();
    for document in documents {
        let bytes = read(document).map_err(|error| unread(document, error))?;
        texts.push((document.display().to_string(), String::from_utf8_lossy(&bytes).into_owned()));
    }
    let environment = |name: &str| std::env::var(name).ok();
    let name = path.display().to_string();
    crate::documents::check_strictly(&alone, (&name, &bytes), &environment, &texts)
}

/// A file's bytes, at most one more than [`FILE`].
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(FILE).unwrap_or(u64::MAX).saturating_add(1);
    std::fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(name: &str, error: &std::io::Error) -> Report {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let file = sources.add_unreadable(name);
    let message = format!("cannot read `{name}`: {}", cause(error));
    problems.push(SpecError::new(Class::Unreadable, Span::new(file, 0..0), message));
    problems.into_report(sources)
}

#[cfg(test)]
mod tests;
