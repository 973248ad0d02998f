//! The filter `cache` among the other filters of a route, and `cache:` at the top.

use super::chains::FilterPlace;
use super::secret::Secrets;
use crate::diagnose::{Class, Problems, SpecError};
use crate::settings::{AfterLoss, PurgeChannel, Secret};
use crate::spec::{AfterLossSpec, AutoSizeSpec, CacheDiskSpec, FileSpec, PurgeChannelSpec, Spanned};
use std::path::{Component, Path};
use thalweg_client::Destination;
use thalweg_client::redis::destination;
use thalweg_core::units::size_text;
use thalweg_filter::{Chain, Step};
use thalweg_proxy::plan::{CACHE_DISK_MIN, CACHE_MIN, CachePlan, DiskPlan};

/// Largest memory of the cache, and largest store on a disk.
const MOST: u64 = 1 << 50;

/// Checks what the cache may use.
pub(crate) fn cache(spec: &FileSpec, problems: &mut Problems) -> CachePlan {
    CachePlan { memory: memory(spec, problems), disk: disk(spec, problems) }
}

fn memory(spec: &FileSpec, problems: &mut Problems) -> Option<u64> {
    let size = spec.cache.memory.as_ref()?;
    let AutoSizeSpec::Bytes(bytes) = size.value else { return None };
    if !(CACHE_MIN..=MOST).contains(&bytes) {
        let message = "the size must be from 8MiB to 1024TiB";
        problems.push(SpecError::new(Class::Invalid, size.span, message));
    } else if let Some(whole) = &spec.limits.memory
        && let AutoSizeSpec::Bytes(of) = whole.value
        && bytes > of / 2
    {
        let message = "the cache may have half of the memory of the process at most";
        let error = SpecError::new(Class::Invalid, size.span, message)
            .related(whole.span, "the memory of the process")
            .help(format!("write up to {}, or raise `limits.memory`", size_text(of / 2)));
        problems.push(error);
    }
    Some(bytes)
}

fn disk(spec: &FileSpec, problems: &mut Problems) -> Option<DiskPlan> {
    let CacheDiskSpec { path: written, size } = &spec.cache.disk.as_ref()?.value;
    let bytes = size.value.0;
    if !(CACHE_DISK_MIN..=MOST).contains(&bytes) {
        let message = "the size must be from 16MiB to 1024TiB";
        problems.push(SpecError::new(Class::Invalid, size.span, message));
    }
    let path = Path::new(&written.value);
    let is_plain = !path.components().any(|part| part == Component::ParentDir);
    if !path.is_absolute() || !is_plain || path.parent().is_none() {
        let error = SpecError::new(
            Class::Invalid,
            written.span,
            "the path must be absolute, below `/`, without `..`",
        );
        problems.push(error.help("write for example `/var/cache/thalweg`"));
        return None;
    }
    // Files of the state within it, or its files among those, would be taken for strangers.
    if let Some(state) = &spec.state.path
        && Path::new(&state.value).starts_with(path)
    {
        let error = SpecError::new(Class::Invalid, written.span, "the state is kept in this directory")
            .related(state.span, "the state");
        problems.push(error.help("give the cache a directory of its own"));
    }
    Some(DiskPlan { path: path.to_owned(), size: bytes })
}

/// Largest file of certificates, in bytes.
const CA_FILE: usize = 1024 * 1024;
/// Longest name of a channel, in bytes.
const CHANNEL: usize = 256;

/// Checks the channel of purges.
pub(super) fn purge_channel(
    spec: &Spanned<PurgeChannelSpec>,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<PurgeChannel> {
    let redis = &spec.value.redis;
    let to = destination(&redis.url);
    if let Err(message) = &to {
        problems.push(SpecError::value(redis.url.span, "server", message.clone()));
    }
    let is_tls = matches!(to, Ok(Destination::Tcp { tls: true, .. }));
    if let Some(ca) = redis.ca.as_ref().filter(|_| to.is_ok() && !is_tls) {
        let error = SpecError::new(Class::Invalid, ca.span, "`ca` is for TLS");
        problems.push(error.help("write `rediss://` in `url`"));
    }
    if let Some(user) = redis.user.as_ref().filter(|_| redis.password.is_none()) {
        let error = SpecError::new(Class::Invalid, user.span, "`user` needs a `password`");
        problems.push(error.help("write `password: { file: … }` beside it"));
    }
    let password = redis.password.as_ref().map(|spec| secrets.bytes(&spec.value, problems));
    let ca = redis.ca.as_ref().map(|path| secrets.file(path, (CA_FILE, "the CA file"), problems));
    let channel = spec.value.channel.as_ref().map_or("thalweg-purge", |channel| channel.value.as_str());
    let is_channel = (1..=CHANNEL).contains(&channel.len()) && !channel.contains(char::is_control);
    if let Some(written) = spec.value.channel.as_ref().filter(|_| !is_channel) {
        let message = format!("the name of a channel has 1 to {CHANNEL} bytes");
        problems.push(SpecError::new(Class::Invalid, written.span, message));
    }
    Some(PurgeChannel {
        server: redis.url.value.clone(),
        to: to.ok()?,
        user: redis.user.as_ref().map(|user| user.value.clone()),
        password: password.map_or(Some(None), |read| read.map(|(bytes, _)| Some(Secret::new(bytes))))?,
        ca: ca.map_or(Some(None), |read| read.map(Some))?,
        channel: channel.to_owned(),
        after_loss: match spec.value.after_loss {
            AfterLossSpec::Keep => AfterLoss::Keep,
            AfterLossSpec::MakeStale => AfterLoss::MakeStale,
        },
    })
}

/// Checks the places of `cache` in the list of a route, those of `defaults` included. `chain`: compiled of the same
/// list.
pub(crate) fn caches((chain, places): (&Chain, &[FilterPlace]), is_sealed: bool, problems: &mut Problems) {
    let steps = chain.steps().iter().zip(places).filter(|(step, _)| step.filter.cache().is_some());
    let mut unconditional: Option<&FilterPlace> = None;
    for (step, place) in steps {
        if let Some(first) = unconditional {
            let message = "this `cache` is for no request: one without `when` stands before it";
            let error = SpecError::new(Class::Invalid, place.span, message)
                .related(first.span, "every request has this one")
                .help("remove one, or put that with `when` first");
            problems.push(error);
        }
        if step.when.is_empty() {
            unconditional = unconditional.or(Some(place));
        }
        asks_too_late(step, place, problems);
        if is_sealed {
            let message =
                "responses of sealed routes are not cached: their labels would be kept with what is stored";
            problems.push(SpecError::new(Class::Warning, place.span, message).help("remove it here"));
        }
    }
    // Rules are those of the steps, in their order.
    let places = chain.steps().iter().zip(places).filter(|(step, _)| step.filter.cache().is_some());
    for (rule, (_, place)) in chain.caches().zip(places) {
        if rule.mixes_clients() {
            let message = "`per_client` goes by address, `Authorization` and cookies: `auth` tells clients apart by more";
            let error = SpecError::new(Class::Invalid, place.span, message).help(
                "name in `key.headers` what `auth` tells the service of them, and write `share_verified: true`",
            );
            problems.push(error);
        }
    }
}

/// Whether a request is looked up is decided before there is a response.
pub(crate) fn asks_too_late(step: &Step, place: &FilterPlace, problems: &mut Problems) {
    if step.filter.cache().is_some() && step.when.iter().any(|when| when.is_about_response()) {
        let message = "`cache` is asked before there is a response, and this `when` is about one";
        let error = SpecError::new(Class::Invalid, place.span, message)
            .help("lifetimes by status are written as `default_ttl: { 404: 10s }`");
        problems.push(error);
    }
}

#[cfg(test)]
mod tests;
