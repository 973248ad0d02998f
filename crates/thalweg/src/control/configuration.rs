//! The configuration as it was read last: read again, shown, or replaced by what arrives.

use super::admin::Shared;
use super::background::in_background;
use super::start::explain;
use crate::cli::{complain, show};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use thalweg_admin::{
    ConfigDocument, ConfigFormat, ConfigOutcome, Expected, Mistake, Refusal, ReplaceOptions,
};
use thalweg_config::diagnose::Problems;
use thalweg_config::parse::{Format, Node, parse};
use thalweg_config::safety::{Breach, check_arrived, redact, restore};
use thalweg_config::source::Sources;
use thalweg_config::{Loaded, Report, Settings, check_text};
use thalweg_proxy::Plan;
use thalweg_proxy::plan::Limits;

/// Where the configuration came from, and what was said in it around the plan.
#[derive(Debug)]
pub(crate) struct Origin {
    /// `None`: from the command line.
    pub(crate) file: Option<PathBuf>,
    /// As read last.
    pub(crate) text: String,
    /// Those in force; some wait for a restart.
    pub(crate) settings: Settings,
}

impl Origin {
    fn etag(&self) -> String {
        etag(&self.text)
    }

    /// All files that it was read from.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.file.iter().cloned().collect()
    }

    /// The file, or what stands for it.
    pub(super) fn name(&self) -> String {
        self.file.as_ref().map_or_else(|| "configuration.yaml".into(), |file| file.display().to_string())
    }

    fn is_writable(&self) -> bool {
        let directory = self.file.as_deref().and_then(Path::parent);
        directory.is_some_and(|directory| {
            let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
            rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok()
        })
    }
}

fn etag(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Why a configuration does not take over.
pub(crate) enum Refused {
    /// It has mistakes.
    Mistakes(Report),
    /// It cannot be done; a sentence.
    Cannot(String),
}

impl Shared {
    /// Reads the file again; its routes, services and limits take over.
    pub(crate) fn read_again(&self) -> Result<ConfigOutcome, Refused> {
        let mut origin = self.origin();
        let Some(file) = origin.file.clone() else {
            return Err(Refused::Cannot("there is no configuration file to reload".into()));
        };
        let text = fs::read_to_string(&file).unwrap_or_default();
        let loaded = in_background(|| thalweg_config::load_file(&file)).map_err(|report| {
            self.registry.reloads().count(false);
            Refused::Mistakes(report)
        })?;
        self.adopt(&mut origin, loaded, text)
    }

    fn adopt(
        &self,
        origin: &mut MutexGuard<'_, Origin>,
        loaded: Loaded,
        text: String,
    ) -> Result<ConfigOutcome, Refused> {
        let Loaded { plan, settings, warnings } = loaded;
        show(&warnings, false);
        let mut runtime = self.runtime();
        let changes = differences(&runtime.base, &plan);
        let at_start = |limits: &Limits| (limits.max_connections, limits.memory, limits.max_in_flight);
        let waits = at_start(&plan.limits) != at_start(&runtime.base.limits);
        let before = std::mem::replace(&mut runtime.base, plan);
        if let Err(error) = self.set_plan(runtime.plan()) {
            runtime.base = before;
            self.registry.reloads().count(false);
            return Err(Refused::Cannot(explain(&error)));
        }
        runtime.version += 1;
        drop(runtime);
        self.registry.reloads().count(true);
        // Webhooks take over at once; the rest waits.
        let mut waiting = settings.clone();
        waiting.webhooks.clone_from(&origin.settings.webhooks);
        if waiting != origin.settings || waits {
            complain(
                "changes of workers, user, state, admin, metrics, access_log, limits.max_connections, limits.memory \
                 and limits.max_in_flight wait for a restart",
            );
        }
        origin.settings.webhooks = settings.webhooks;
        origin.text = text;
        self.stir();
        Ok(ConfigOutcome {
            etag: origin.etag(),
            generation: self.generation.load(Ordering::Relaxed),
            dry_run: false,
            changes,
            warnings: warnings.lines().lines().map(str::to_owned).collect(),
        })
    }

    /// The configuration, without its secrets.
    pub(super) fn show_config(&self) -> ConfigDocument {
        let origin = self.origin();
        let name = origin.name();
        let shown = tree(&name, &origin.text).and_then(|node| redact(&origin.text, Format::of(&name), &node));
        let format = match Format::of(&name) {
            Format::Yaml => ConfigFormat::Yaml,
            Format::Json => ConfigFormat::Json,
            Format::Toml => ConfigFormat::Toml,
        };
        ConfigDocument {
            text: shown.unwrap_or_default(),
            format,
            etag: origin.etag(),
            path: origin.file.as_ref().map(|file| file.display().to_string()),
            writable: origin.is_writable(),
        }
    }

    /// A configuration that arrived takes the place of the one in force.
    pub(super) fn replace(
        &self,
        text: &str,
        expected: &Expected<String>,
        options: ReplaceOptions,
    ) -> Result<ConfigOutcome, Refusal> {
        let mut origin = self.origin();
        let name = origin.name();
        let on_disk = match &origin.file {
            Some(file) => fs::read_to_string(file).unwrap_or_else(|_| origin.text.clone()),
            None => origin.text.clone(),
        };
        let environment = |name: &str| std::env::var(name).ok();
        let Some(arrived) = tree(&name, text) else {
            return Err(check_text(&name, text, &environment).map_or_else(mistakes, |_| unreadable()));
        };
        let known = tree(&name, &on_disk).ok_or_else(unreadable)?;
        let restored = restore((text, &arrived), (&on_disk, &known)).map_err(forbidden)?;
        let whole = tree(&name, &restored).ok_or_else(unreadable)?;
        check_arrived(&known, &whole).map_err(forbidden)?;
        let loaded = check_text(&name, &restored, &environment).map_err(mistakes)?;
        let writes = !options.dry_run && !options.ephemeral;
        if writes && origin.file.is_none() {
            let why = "there is no configuration file; with `?ephemeral=true` it runs until the next start";
            return Err(Refusal::Conflict(why.into()));
        }
        if writes && on_disk != origin.text {
            let why = "the file has been changed since it was read; reload it first";
            return Err(Refusal::Conflict(why.into()));
        }
        if !expected.admits(&origin.etag()) {
            return Err(Refusal::StaleConfig { etag: origin.etag() });
        }
        if options.dry_run {
            return Ok(ConfigOutcome {
                etag: etag(&restored),
                generation: self.generation.load(Ordering::Relaxed),
                dry_run: true,
                changes: differences(&self.runtime().base, &loaded.plan),
                warnings: loaded.warnings.lines().lines().map(str::to_owned).collect(),
            });
        }
        if let Some(file) = origin.file.clone().filter(|_| writes) {
            write_whole(&file, &restored)
                .map_err(|error| Refusal::Conflict(format!("cannot write {}: {error}", file.display())))?;
        }
        self.adopt(&mut origin, loaded, restored).map_err(|refused| {
            // The file must not say what does not run.
            if let Some(file) = origin.file.as_deref().filter(|_| writes) {
                let _ = write_whole(file, &on_disk);
            }
            match refused {
                Refused::Mistakes(report) => mistakes(report),
                Refused::Cannot(why) => Refusal::Conflict(why),
            }
        })
    }
}

fn tree(name: &str, text: &str) -> Option<Node> {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let file = sources.add(name, text);
    parse(file, Format::of(name), &sources, &mut problems)
}

fn unreadable() -> Refusal {
    Refusal::Conflict("the configuration on disk cannot be read".into())
}

fn forbidden(breaches: Vec<Breach>) -> Refusal {
    Refusal::Forbidden { keys: breaches.into_iter().map(|breach| breach.key).collect() }
}

/// The mistakes of a report, for who sent the text.
pub(super) fn mistakes(report: Report) -> Refusal {
    let mistake = |error: &thalweg_config::SpecError| {
        let position = report.sources.position(error.span);
        Mistake {
            line: position.line,
            column: position.column,
            message: error.message.clone(),
            help: error.help.clone(),
        }
    };
    Refusal::Mistakes(report.errors.iter().map(mistake).collect())
}

/// Writes a file whole or not at all, with the rights that it has.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    // What a link points to is replaced, not the link.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mode = fs::metadata(path).map_or(0o600, |metadata| metadata.permissions().mode() & 0o777);
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The name is durable when the directory is.
    path.parent().map_or(Ok(()), |directory| fs::File::open(directory)?.sync_all())
}

/// What differs between two plans, a line each.
fn differences(before: &Plan, after: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for service in &after.services {
        match before.services.iter().find(|known| known.name == service.name) {
            None => lines.push(format!("service `{}` is new", service.name)),
            Some(known) if **known != **service || known.limits != service.limits => {
                lines.push(format!("service `{}` changes", service.name));
            }
            Some(_) => {}
        }
    }
    let names = |plan: &Plan| plan.routes.iter().map(|route| route.name.clone()).collect::<Vec<_>>();
    let gone = before.services.iter().filter(|known| after.services.iter().all(|new| new.name != known.name));
    lines.extend(gone.map(|service| format!("service `{}` goes", service.name)));
    let (old, new) = (names(before), names(after));
    lines.extend(new.iter().filter(|name| !old.contains(name)).map(|name| format!("route `{name}` is new")));
    lines.extend(old.iter().filter(|name| !new.contains(name)).map(|name| format!("route `{name}` goes")));
    lines
}
