//! `to: { sealed: … }`: keys and files are read here, so that what is wrong with one is told at the line that names it.

use super::routes::Names;
use super::secret::Secrets;
use super::services::{Retries, service_tls};
use super::targets::service;
use super::{bounded, duration};
use crate::diagnose::{Class, Problems, SpecError};
use crate::refresh_files::revoked_in;
use crate::source::Span;
use crate::spec::{ListSpec, RevokedSpec, SealKeySpec, SealSecretSpec, SealedSpec, SecretSpec, Spanned};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::limits::SEALED_REVOKED_FILE;
use thalweg_proxy::plan::{RevokedFile, SealedRoute, ServiceId};
use thalweg_sealed::reach::{Allow, Entry};
use thalweg_sealed::{Key, Keyring, KeyringError, Secret};
use thalweg_upstream::{DestinationPolicy, EjectionPolicy, PoolPolicy, Protocol, Service};

/// How long a label may be good for, where nothing is written.
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The least and the most of that.
const TTL: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(365 * 24 * 60 * 60));
/// What may be under way to a destination, where nothing is written.
const IN_FLIGHT: u32 = 1000;
/// How long an idle connection to a destination is kept: many are visited once.
const IDLE: Duration = Duration::from_secs(15);
/// Most addresses that connections come from.
const SOURCES: usize = 256;

/// Where labels lead, and the service that counts it; `None` where something is wrong.
pub(crate) fn sealed(
    name: &Arc<str>,
    (spec, span): (&SealedSpec, Span),
    (names, retries): (&Names<'_>, &Retries),
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<(SealedRoute, Service)> {
    let keyring = keyring(spec, secrets, problems);
    let allow = allow(&spec.allow, problems);
    let named = spec.services.items.iter().map(|name| service(name, names, problems).map(ServiceId));
    let named: Vec<_> = named.collect();
    let named: Option<Vec<_>> = named.into_iter().collect();
    if spec.allow.written == 0 && spec.services.written == 0 {
        let error = SpecError::new(Class::Invalid, span, "no label could lead anywhere");
        problems.push(
            error.help("add the networks that labels may name: `allow: [ \"10.0.0.0/8:1024-65535\" ]`"),
        );
    }
    let revoked = spec.revoked.as_ref().map_or(Some(None), |spec| revoked(spec, secrets, problems).map(Some));
    let max_ttl = match &spec.max_ttl {
        Some(_) => duration(spec.max_ttl.as_ref(), TTL.0, TTL.1, problems),
        None => Some(MAX_TTL),
    };
    let max_in_flight = match &spec.max_in_flight {
        Some(number) => bounded(number, 1, 1_000_000, problems).and_then(|number| u32::try_from(number).ok()),
        None => Some(IN_FLIGHT),
    };
    let sources = sources(&spec.sources, problems);
    let tls = spec.tls.as_ref().map_or(Some(None), |tls| service_tls(tls, &[], secrets, problems).map(Some));
    let (keyring, named) = (keyring?, named?);
    let texts = spec.services.items.iter().map(|name| name.value.as_str());
    let route = SealedRoute {
        // Its position is known to whoever adds it.
        service: ServiceId(0),
        found: keyring.services(texts),
        keyring,
        allow: allow?,
        named,
        revoked: revoked?,
        max_ttl: max_ttl?,
    };
    let policy = DestinationPolicy { max_in_flight: max_in_flight?, sources: sources?.into() };
    let service = Service {
        name: Arc::clone(name),
        tls: tls?,
        destinations: Some(policy),
        // There is no other one to go to.
        ejection: EjectionPolicy { consecutive: 0, ..EjectionPolicy::default() },
        retry: Retries::default().resolve(retries),
        pool: PoolPolicy { idle: IDLE, ..PoolPolicy::default() },
        // A trunk would outlive the visits by which its endpoint is known.
        protocol: Protocol::Http1,
        ..Service::default()
    };
    Some((route, service))
}

/// Says where hosts are not those that labels stand in.
pub(super) fn check_hosts<'a>(
    spec: &SealedSpec,
    hosts: impl IntoIterator<Item = &'a str>,
    problems: &mut Problems,
) {
    let domain = &spec.domain.value;
    if hosts.into_iter().any(|host| host.eq_ignore_ascii_case(domain)) {
        return;
    }
    let host = format!("*.{}", domain.strip_prefix("*.").unwrap_or(domain));
    let error =
        SpecError::new(Class::Invalid, spec.domain.span, format!("no host below `{host}` comes here"));
    problems.push(
        error.help(format!("write `match: {{ host: \"{host}\" }}` at the route, or that name under `sni`")),
    );
}

fn keyring(spec: &SealedSpec, secrets: &Secrets<'_>, problems: &mut Problems) -> Option<Keyring> {
    let keys = spec.keys.value.items.iter().map(|key| self::key(&key.value, secrets, problems));
    // All of them are read before one that is wrong ends it.
    let keys: Vec<_> = keys.collect();
    let keys: Option<Vec<_>> = keys.into_iter().collect();
    let Some(domain) = spec.domain.value.strip_prefix("*.") else {
        let (domain, text) = (&spec.domain, &spec.domain.value);
        let error =
            SpecError::value(domain.span, "domain", format!("`{text}` does not say where labels stand"));
        problems.push(error.help(format!("write `*.{text}`")));
        return None;
    };
    if spec.keys.value.written != spec.keys.value.items.len() {
        return None;
    }
    Keyring::new(keys?, domain).map_err(|error| problems.push(refused(spec, &error))).ok()
}

fn key(spec: &SealKeySpec, secrets: &Secrets<'_>, problems: &mut Problems) -> Option<Key> {
    let (bytes, span) = match &spec.secret.value {
        SealSecretSpec::Digits(text) => (text.clone().into_bytes(), spec.secret.span),
        SealSecretSpec::Reference(reference) => {
            let read = secrets.bytes(reference, problems)?;
            if let SecretSpec::File(path) = reference {
                secrets.warn_of_readers(path, "this key", problems);
            }
            read
        }
    };
    let id = bounded(&spec.id, 1, 31, problems);
    let secret = Secret::from_hex(std::str::from_utf8(&bytes).unwrap_or_default().trim());
    let secret = secret.map_err(|why| problems.push(SpecError::new(Class::Invalid, span, why))).ok();
    Some(Key { id: u8::try_from(id?).ok()?, secret: secret? })
}

/// Where a keyring is wrong.
fn refused(spec: &SealedSpec, error: &KeyringError) -> SpecError {
    let ids = || spec.keys.value.items.iter().map(|key| &key.value.id);
    let span = match error {
        KeyringError::NoKey => spec.keys.span,
        KeyringError::IdRange(id) | KeyringError::IdTwice(id) => {
            let last = ids().rfind(|known| known.value == u64::from(*id));
            last.map_or(spec.keys.span, |known| known.span)
        }
        KeyringError::Domain(_) => spec.domain.span,
    };
    SpecError::new(Class::Invalid, span, error.to_string())
}

fn allow(list: &ListSpec<String>, problems: &mut Problems) -> Option<Allow> {
    let entry = |text: &Spanned<String>| {
        let entry = text.value.parse::<Entry>();
        entry.map_err(|why| problems.push(SpecError::value(text.span, "network", why))).ok()
    };
    let entries: Vec<_> = list.items.iter().map(entry).collect();
    entries.into_iter().collect()
}

fn sources(list: &ListSpec<String>, problems: &mut Problems) -> Option<Vec<IpAddr>> {
    if list.written > SOURCES {
        let span = list.items.last().map_or_else(Span::default, |item| item.span);
        let message = format!("connections come from at most {SOURCES} addresses");
        problems.push(SpecError::new(Class::Invalid, span, message));
        return None;
    }
    let address = |text: &Spanned<String>| {
        let address = text.value.parse::<IpAddr>().ok().filter(|address| !address.is_unspecified());
        if address.is_none() {
            let message = format!("`{}` is no address of a machine", text.value);
            problems
                .push(SpecError::value(text.span, "address", message).help("write for example `10.0.0.5`"));
        }
        address
    };
    let addresses: Vec<_> = list.items.iter().map(address).collect();
    addresses.into_iter().collect()
}

fn revoked(spec: &RevokedSpec, secrets: &Secrets<'_>, problems: &mut Problems) -> Option<RevokedFile> {
    let path = &spec.file;
    let bytes = secrets.file(path, (SEALED_REVOKED_FILE, "the file of revoked labels"), problems)?;
    let list = revoked_in(&bytes);
    let list = list.map_err(|why| problems.push(SpecError::new(Class::Invalid, path.span, why))).ok()?;
    Some(RevokedFile::new(secrets.path(path), list))
}
