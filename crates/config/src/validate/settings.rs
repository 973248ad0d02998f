//! The sections outside routes and services.

use super::access_log::{access_log, file};
use super::cache::purge_channel;
use super::listeners::{Taken, claim};
use super::secret::{FilesAt, Secrets};
use super::webhooks::webhooks;
use super::{bounded, deadline, duration, network};
use crate::diagnose::{Class, Problems, SpecError};
use crate::settings::{Admin, Registration, RouteSource, Settings, Token, User};
use crate::spec::{
    AdminSpec, AutoSizeSpec, AutoSpec, FileSpec, LimitsSpec, ListSpec, RequestHistorySpec, SecretSpec,
    ShutdownSpec, Spanned, TimeoutsSpec,
};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::limits::{HEAD, HEAD_MAX};
use thalweg_discovery::{RegistrationSpec, RouteSourceSpec};
use thalweg_proxy::plan::{ClientTimeouts, Limits, ListenAddress, RequestsPolicy, Shutdown};

/// Most workers.
const WORKERS: u64 = 1024;
/// Smallest `limits.max_head`, in bytes.
const HEAD_MIN: usize = 1024;
/// Largest `limits.max_fields`.
const FIELDS_MAX: u64 = 10_000;
/// Largest `max_connections`, of the process and of a listener, and largest `limits.max_in_flight`.
pub(crate) const CONNECTIONS_MAX: u64 = 100_000_000;
/// Largest `limits.max_connections_per_client`.
const PER_CLIENT_MAX: u64 = 1_000_000;
/// Smallest and largest `limits.memory`, in bytes.
const MEMORY_MIN: u64 = 16 << 20;
const MEMORY_MAX: u64 = 1 << 50;
/// Largest `request_history.keep`: what a worker looks through between two turns.
const KEEP_MAX: u64 = 10_000;
/// Smallest and largest `request_history.slow`.
const SLOW_MIN: Duration = Duration::from_millis(1);
const SLOW_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Shortest admin token, in bytes.
const TOKEN_MIN: usize = 16;

/// What the binary needs; `taken` gets the addresses of admin and metrics.
pub(crate) fn settings(
    spec: &FileSpec,
    taken: &mut Taken,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Settings {
    Settings {
        admin: spec.admin.as_ref().and_then(|spec| admin(spec, taken, secrets, problems)),
        state: spec.state.path.as_ref().and_then(|path| file(path, secrets, problems)),
        workers: workers(spec.workers.as_ref(), problems),
        user: spec.user.as_ref().and_then(|text| user(text, problems)),
        metrics: spec.metrics.as_ref().and_then(|spec| tcp(&spec.address, taken, problems)),
        access_log: spec.access_log.as_ref().and_then(|spec| access_log(spec, secrets, problems)),
        // They name routes and services, which are read later.
        slos: Vec::new(),
        discover: BTreeMap::new(),
        route_sources: route_sources(&spec.route_sources, secrets, problems),
        registrations: registrations(&spec.registrations, secrets, problems),
        webhooks: webhooks(&spec.webhooks, secrets, problems),
        purge_channel: spec.cache.purge.as_ref().and_then(|spec| purge_channel(spec, secrets, problems)),
    }
}

/// The most sources of routes.
const ROUTE_SOURCES: usize = 32;

fn route_sources(
    list: &ListSpec<RouteSourceSpec>,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Vec<RouteSource> {
    if let Some(further) = list.items.get(ROUTE_SOURCES) {
        let message = format!("there are at most {ROUTE_SOURCES} sources of routes");
        problems.push(SpecError::new(Class::Invalid, further.span, message));
    }
    let mut sources: Vec<RouteSource> = Vec::new();
    for written in &list.items {
        let source = match written.value.build(&FilesAt(secrets, written.span)) {
            Ok(source) => source,
            Err(message) => {
                problems.push(SpecError::value(written.span, "source", message));
                continue;
            }
        };
        let (id, words) = (thalweg_discovery::id(&*source), thalweg_discovery::words(&*source));
        let question = thalweg_discovery::question(&*source);
        if sources.iter().any(|known| known.question == question) {
            let error = SpecError::new(Class::Invalid, written.span, format!("`{words}` stands here twice"));
            problems.push(error.help("remove one of the two"));
        }
        sources.push(RouteSource { source, id, words, question });
    }
    sources
}

/// The most registrations.
const REGISTRATIONS: usize = 32;

fn registrations(
    list: &ListSpec<RegistrationSpec>,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Vec<Registration> {
    if let Some(further) = list.items.get(REGISTRATIONS) {
        let message = format!("there are at most {REGISTRATIONS} registrations");
        problems.push(SpecError::new(Class::Invalid, further.span, message));
    }
    let mut read = |written: &Spanned<RegistrationSpec>| {
        let registration = written.value.build(&FilesAt(secrets, written.span));
        let flaw = |message| problems.push(SpecError::value(written.span, "registration", message));
        Some(Registration(Arc::new(registration.map_err(flaw).ok()?)))
    };
    list.items.iter().filter_map(&mut read).collect()
}

fn admin(
    spec: &AdminSpec,
    taken: &mut Taken,
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<Admin> {
    let token = spec.token.as_ref().and_then(|token| self::token(token, secrets, problems));
    let read_token = spec.read_token.as_ref().and_then(|token| self::token(token, secrets, problems));
    if let (Some(written), Some(_), true) = (&spec.read_token, &read_token, token == read_token) {
        let error = SpecError::new(Class::Invalid, written.span, "`read_token` is the same as `token`")
            .help("the read-only token would allow writes; choose another one");
        problems.push(error);
    }
    let tls = spec.tls.as_ref().and_then(|tls| super::tls::admin_tls(tls, secrets, problems));
    let address = tcp(&spec.address, taken, problems)?;
    let open = matches!(&address, ListenAddress::Tcp { address, .. } if !address.ip().is_loopback());
    if open && !spec.insecure && spec.tls.is_none() {
        let message = "the admin API would be reachable from other machines without encryption";
        let error = SpecError::new(Class::Invalid, spec.address.span, message)
            .help("use a loopback address such as `127.0.0.1:9900`, or add `tls: { cert: …, key: … }` or `insecure: true`");
        problems.push(error);
    }
    // Never in the clear where TLS is written.
    if spec.tls.is_some() && tls.is_none() {
        return None;
    }
    Some(Admin { address, token, read_token, tls })
}

fn token(spec: &Spanned<SecretSpec>, secrets: &Secrets<'_>, problems: &mut Problems) -> Option<Token> {
    let (value, span) = secrets.bytes(&spec.value, problems)?;
    let fits = value.len() >= TOKEN_MIN && value.iter().all(u8::is_ascii_graphic);
    if !fits {
        let message = format!("the token must have at least {TOKEN_MIN} characters, none of them a space");
        let error = SpecError::new(Class::Invalid, span, message)
            .help("`openssl rand -hex 32` makes one; without `token:` one is created for you");
        problems.push(error);
        return None;
    }
    String::from_utf8(value).ok().map(Token::new)
}

/// An address of admin or metrics: these have no unix form.
fn tcp(text: &Spanned<String>, taken: &mut Taken, problems: &mut Problems) -> Option<ListenAddress> {
    let address = claim((text, false), taken, problems)?;
    if matches!(address, ListenAddress::Unix(_)) {
        let error = SpecError::new(Class::Invalid, text.span, "a TCP address is needed here")
            .help("write for example `127.0.0.1:9900`; the admin API's unix socket is always there");
        problems.push(error);
        return None;
    }
    Some(address)
}

fn workers(spec: Option<&Spanned<AutoSpec>>, problems: &mut Problems) -> Option<u16> {
    let spec = spec?;
    match spec.value {
        AutoSpec::Auto => None,
        AutoSpec::Number(n) => {
            let n = bounded(&Spanned::new(spec.span, n), 1, WORKERS, problems)?;
            u16::try_from(n).ok()
        }
    }
}

fn user(text: &Spanned<String>, problems: &mut Problems) -> Option<User> {
    let (user, group) = match text.value.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text.value.as_str(), None),
    };
    let fits = |name: &str| {
        !name.is_empty()
            && name.len() <= 64
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.$@".contains(&b))
    };
    if !fits(user) || !group.is_none_or(fits) {
        let message = format!("`{}` is not a user", text.value);
        problems.push(SpecError::value(text.span, "user", message).help("write `user` or `user:group`"));
        return None;
    }
    Some(User { user: user.to_owned(), group: group.map(str::to_owned) })
}

/// Networks whose forwarded fields are believed.
pub(crate) fn trusted_proxies(list: &ListSpec<String>, problems: &mut Problems) -> Vec<IpNet> {
    list.items.iter().filter_map(|text| network(text, problems)).collect()
}

/// Bounds on heads and connections.
pub(crate) fn limits(spec: &LimitsSpec, problems: &mut Problems) -> Limits {
    let built_in = Limits::default();
    let max_connections = count(spec.max_connections.as_ref(), problems);
    let max_in_flight = count(spec.max_in_flight.as_ref(), problems);
    let per_client = spec.max_connections_per_client.as_ref();
    let per_client = per_client.and_then(|n| bounded(n, 0, PER_CLIENT_MAX, problems));
    let mut max_head = HEAD;
    if let Some(size) = &spec.max_head {
        match usize::try_from(size.value.0) {
            Ok(bytes) if (HEAD_MIN..=HEAD_MAX).contains(&bytes) => max_head = bytes,
            _ => {
                let message = "the size must be from 1KiB to 1MiB";
                problems.push(SpecError::new(Class::Invalid, size.span, message));
            }
        }
    }
    let max_fields = spec.max_fields.as_ref().and_then(|n| bounded(n, 1, FIELDS_MAX, problems));
    Limits {
        max_connections,
        max_connections_per_client: per_client.and_then(|n| u32::try_from(n).ok()).unwrap_or_default(),
        memory: spec.memory.as_ref().and_then(|size| memory(size, problems)),
        max_in_flight,
        max_head,
        max_fields: max_fields.and_then(|n| usize::try_from(n).ok()).unwrap_or(built_in.max_fields),
    }
}

/// `auto` or a number of connections or exchanges.
fn count(value: Option<&Spanned<AutoSpec>>, problems: &mut Problems) -> Option<usize> {
    let value = value?;
    match value.value {
        AutoSpec::Auto => None,
        AutoSpec::Number(n) => {
            let n = bounded(&Spanned::new(value.span, n), 1, CONNECTIONS_MAX, problems)?;
            usize::try_from(n).ok()
        }
    }
}

fn memory(size: &Spanned<AutoSizeSpec>, problems: &mut Problems) -> Option<u64> {
    match size.value {
        AutoSizeSpec::Auto => None,
        AutoSizeSpec::Bytes(bytes) if (MEMORY_MIN..=MEMORY_MAX).contains(&bytes) => Some(bytes),
        AutoSizeSpec::Bytes(_) => {
            let message = "the size must be from 16MiB to 1024TiB";
            problems.push(SpecError::new(Class::Invalid, size.span, message));
            None
        }
    }
}

/// How the proxy stops.
pub(crate) fn shutdown(spec: &ShutdownSpec) -> Shutdown {
    let built_in = Shutdown::default();
    Shutdown {
        delay: spec.delay.map_or(built_in.delay, |d| d.0),
        grace: spec.grace.map_or(built_in.grace, |d| d.0),
    }
}

/// What is remembered of exchanges.
pub(crate) fn requests(spec: &RequestHistorySpec, problems: &mut Problems) -> RequestsPolicy {
    let built_in = RequestsPolicy::default();
    let keep = spec.keep.as_ref().and_then(|keep| bounded(keep, 0, KEEP_MAX, problems));
    RequestsPolicy {
        keep: keep.and_then(|keep| usize::try_from(keep).ok()).unwrap_or(built_in.keep),
        slow: duration(spec.slow.as_ref(), SLOW_MIN, SLOW_MAX, problems).unwrap_or(built_in.slow),
    }
}

/// Deadlines towards clients.
pub(crate) fn client_timeouts(spec: &TimeoutsSpec, problems: &mut Problems) -> ClientTimeouts {
    let built_in = ClientTimeouts::default();
    ClientTimeouts {
        head: deadline(spec.head.as_ref(), problems).unwrap_or(built_in.head),
        keep_alive: deadline(spec.keep_alive.as_ref(), problems).unwrap_or(built_in.keep_alive),
    }
}
