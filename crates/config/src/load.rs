//! Where a configuration is found and how a file becomes a plan: the stages in order.

use crate::compile::compile;
use crate::diagnose::{Class, Problems, Report, SpecError};
use crate::interpolate::{Environment, interpolate};
use crate::lint::unfinished;
use crate::parse::{FILE, Format, decode, parse};
use crate::places::Places;
use crate::settings::{Settings, Token};
use crate::source::{Sources, Span};
use crate::spec::{
    Declared, FileSpec, ListSpec, ListenerLimitsSpec, ListenerSpec, NamedSpec, ProtocolSpec, RouteSpec,
    Spanned, ToSpec,
};
use std::io::Read;
use std::path::{Path, PathBuf};
use thalweg_proxy::plan::Plan;

/// A configuration that can run.
#[derive(Debug)]
pub struct Loaded {
    /// What the workers run.
    pub plan: Plan,
    /// What the process around them needs.
    pub settings: Settings,
    /// Suspicious places that do not keep it from running.
    pub warnings: Report,
    /// Where things stand in the text.
    pub places: Places,
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
    let loaded = check_bytes(&name, &bytes, &|name| std::env::var(name).ok())?;
    let admin = loaded.settings.admin.as_ref();
    let tokens = admin.into_iter().flat_map(|admin| [&admin.token, &admin.read_token]);
    for token in tokens.flatten() {
        if let Token::File(token) = token
            && let Err(error) = read_token(token)
        {
            return Err(unreadable(&token.display().to_string(), &error));
        }
    }
    Ok(loaded)
}

/// Checks and compiles a text; the name's extension decides the format.
///
/// # Errors
/// Every mistake that was found.
pub fn check_text(name: &str, text: &str, environment: Environment<'_>) -> Result<Loaded, Report> {
    check_bytes(name, text.as_bytes(), environment)
}

/// Checks and compiles the bytes of a file; the name's extension decides the format.
///
/// # Errors
/// Every mistake that was found.
pub fn check_bytes(name: &str, bytes: &[u8], environment: Environment<'_>) -> Result<Loaded, Report> {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let node = decode(name, bytes, &mut sources, &mut problems).and_then(|file| {
        unfinished(file, Format::of(name), &sources, &mut problems);
        parse(file, Format::of(name), &sources, &mut problems)
    });
    let Some(mut node) = node else { return Err(problems.into_report(sources)) };
    interpolate(&mut node, environment, &mut problems);
    let (spec, declared) = crate::spec::read(&mut node, &mut problems);
    let places = spec.as_ref().map(Places::of);
    let made = spec.and_then(|spec| compile(&spec, &declared, environment, &mut problems));
    finish(made, places.unwrap_or_default(), problems, sources)
}

/// `run --listen … --to …`: a configuration without a file, one listener per address, one route.
///
/// # Errors
/// Every mistake that was found, in a text of one argument per line.
pub fn quick(listen: &[String], to: &[String]) -> Result<Loaded, Report> {
    let (mut text, mut spans) = (String::new(), Vec::new());
    for (option, value) in listen.iter().map(|v| ("--listen ", v)).chain(to.iter().map(|v| ("--to ", v))) {
        text.push_str(option);
        let start = text.len();
        text.push_str(&value.replace(['\n', '\r'], " "));
        spans.push(Spanned::new(Span::new(0, start..text.len()), value.clone()));
        text.push('\n');
    }
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    sources.add("command line", text);
    let urls = spans.split_off(listen.len());
    let listeners = spans.into_iter().enumerate().map(|(at, address)| {
        let name = if at == 0 { "web".to_owned() } else { format!("web-{}", at + 1) };
        (
            Spanned::new(address.span, name),
            ListenerSpec {
                address,
                protocol: ProtocolSpec::Http,
                limits: ListenerLimitsSpec::default(),
                defer_accept: None,
            },
        )
    });
    let listeners = NamedSpec(listeners.collect());
    let declared = Declared {
        listeners: listeners.0.iter().map(|(name, _)| name.value.clone()).collect(),
        ..Declared::default()
    };
    let span = urls.first().map_or(Span::default(), |url| url.span);
    let to = Spanned::new(span, ToSpec::Urls(ListSpec { written: urls.len(), items: urls }));
    let route = RouteSpec {
        name: Some(Spanned::new(span, "default".to_owned())),
        listeners: ListSpec::default(),
        r#match: crate::spec::MatchSpec::default(),
        filters: ListSpec::default(),
        to,
        timeouts: crate::spec::TimeoutsSpec::default(),
        limits: crate::spec::RouteLimitsSpec::default(),
    };
    let routes = ListSpec { items: vec![Spanned::new(span, route)], written: 1 };
    let spec = FileSpec { listeners, routes, ..FileSpec::default() };
    let made = compile(&spec, &declared, &|_| None, &mut problems);
    finish(made, Places::of(&spec), problems, sources)
}

fn finish(
    made: Option<(Plan, Settings)>,
    places: Places,
    mut problems: Problems,
    sources: Sources,
) -> Result<Loaded, Report> {
    match made {
        Some((plan, settings)) if problems.is_clean() => {
            let errors = problems.take_warnings();
            Ok(Loaded { plan, settings, warnings: Report { sources, errors, more: false }, places })
        }
        _ => Err(problems.into_report(sources)),
    }
}

/// A file's bytes, at most one more than [`FILE`].
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(FILE).unwrap_or(u64::MAX).saturating_add(1);
    std::fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether a token file can be opened and is a file.
fn read_token(path: &Path) -> std::io::Result<()> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    std::fs::File::open(path).map(drop)
}

fn unreadable(name: &str, error: &std::io::Error) -> Report {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let file = sources.add_unreadable(name);
    let cause = match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => error.to_string(),
    };
    let message = format!("cannot read `{name}`: {cause}");
    problems.push(SpecError::new(Class::Unreadable, Span::new(file, 0..0), message));
    problems.into_report(sources)
}

#[cfg(test)]
mod tests;
