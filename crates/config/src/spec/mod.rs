//! What the user wrote, with places: the node tree read into the `*Spec` types.
//!
//! [`read`] reports every mistake, not the first: the wrong node is left out and the tree is read
//! again. A key that is missing because its value was left out is not reported. Checks that need
//! more than one value belong to `validate`.

mod access_log;
mod acme;
mod ban;
mod cache;
mod canary;
mod client_auth;
mod de_error;
mod deserializer;
mod file;
mod filter_entry;
mod limits;
mod listener_tls;
mod marks;
mod route;
mod sealed;
mod secret;
mod service;
mod short;
mod slo;
mod spanned;
mod statuses;
mod switch;
mod target;
mod test_case;
mod tracing;
mod unavailable;
mod values;
mod webhook;

pub use access_log::{
    AccessLogSpec, FacilitySpec, LogAlwaysSpec, LogFormatSpec, LogRotateSpec, LogSampleSpec, SyslogSpec,
};
pub use acme::{AcmeSpec, ChallengeSpec, DnsHookSpec, DnsWebhookSpec, EabSpec, KeyTypeSpec, OnDemandSpec};
pub use ban::BanSpec;
pub use cache::{AfterLossSpec, CacheDiskSpec, CacheMemorySpec, PurgeChannelSpec, PurgeRedisSpec};
pub use canary::{CanarySpec, GatesSpec, OnFailureSpec};
pub use client_auth::{ClientAuthModeSpec, ClientAuthSpec, CrlUnknownSpec, ForwardSpec};
pub use file::{
    AdminSpec, AdminTlsSpec, DefaultsSpec, FileSpec, LimitsSpec, ListenerLimitsSpec, ListenerSpec,
    MetricsSpec, ProtocolSpec, ProxyProtocolSpec, RequestHistorySpec, ShutdownSpec, StateSpec,
};
pub use filter_entry::{StepChoice, StepSpec};
pub use limits::{PrioritySpec, QueueSpec, RouteLimitsSpec, ServiceLimitsSpec};
pub use listener_tls::{
    CertificateSpec, ListenerTlsSpec, TicketKeysSpec, TicketsSpec, TlsVersionSpec, UnknownNameSpec,
};
pub use marks::Marks;
pub use route::{EncodedSpec, FieldSpec, MatchSpec, RouteSpec};
pub use sealed::{RevokedSpec, SealKeySpec, SealSecretSpec, SealedSpec};
pub use secret::SecretSpec;
pub use service::{
    AdaptiveSpec, AnswerSpec, BalanceSpec, BreakerSpec, EjectionSpec, EndpointSpec, GrpcCheckSpec,
    GrpcStatusSpec, HashSpec, HealthSpec, HedgeSpec, InitialHealthSpec, KeySpec, LongEndpointSpec, PoolSpec,
    PreferSpec, ProxyProtocolVersionSpec, RetrySpec, SameSiteSpec, SchemeSpec, ServiceProtocolSpec,
    ServiceSpec, ServiceTlsSpec, StickySpec, TimeoutsSpec, WhenDownSpec,
};
pub use short::{Short, ShortSpec, SomeSpec};
pub use slo::SloSpec;
pub use spanned::{ListSpec, NamedSpec, Spanned};
pub use statuses::StatusSpec;
pub use switch::SwitchSpec;
pub use target::{PartSpec, SplitSpec, ToItemSpec, ToSpec};
pub use test_case::{ExpectSpec, LongRequestSpec, RequestSpec, TestSpec};
pub use tracing::{ParentsSpec, TraceProtocolSpec, TracingSpec};
pub use unavailable::page as other_proxies;
pub use values::{
    AutoSizeSpec, AutoSpec, DurationSpec, GoalSpec, OneOrMoreSpec, PercentSpec, SizeSpec, TenthsSpec,
};
pub use webhook::WebhookSpec;

use crate::diagnose::{Class, ERRORS, Problems, SpecError};
use crate::parse::{Key, Kind, Node};
use crate::source::Span;
use deserializer::{Cursor, Pruned};
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::HashSet;

/// Readings of one tree; each but the last finds a mistake.
const READINGS: usize = 4 * ERRORS;

/// Names that stand in the file, those of wrong entries included: a reference to one of them is
/// not reported on top.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// The keys of `listeners:`.
    pub listeners: Vec<String>,
    /// The keys of `services:`.
    pub services: Vec<String>,
    /// The keys of `chains:`.
    pub chains: Vec<String>,
    /// Where the listeners are defined, in the same order.
    pub listener_places: Vec<Span>,
    /// Where the services are defined, in the same order.
    pub service_places: Vec<Span>,
    /// Keys of the top whose whole value is wrong.
    pub broken: HashSet<String>,
    /// The whole file.
    pub root: Span,
    /// What tells its filters from others.
    pub marks: Marks,
}

impl Declared {
    fn of(root: &Node) -> Self {
        // A section under the word of another proxy declares its names too: only the word is wrong.
        let names = |section: &str| match &root.kind {
            Kind::Map(entries) => {
                let is_it =
                    |key: &Key| key.name == section || unavailable::section(&key.name) == Some(section);
                let maps = entries.iter().filter(|(key, _)| is_it(key)).map(|(_, node)| &node.kind);
                let names =
                    maps.filter_map(|kind| if let Kind::Map(names) = kind { Some(names) } else { None });
                names.flatten().map(|(key, _)| (key.name.clone(), key.span)).unzip()
            }
            _ => (Vec::new(), Vec::new()),
        };
        let (listeners, listener_places) = names("listeners");
        let (services, service_places) = names("services");
        let (chains, _) = names("chains");
        let (broken, marks, root) = (HashSet::new(), Marks::of(root), root.span);
        Self { listeners, services, chains, listener_places, service_places, broken, root, marks }
    }

    fn note_broken(&mut self, root: &Node, pruned: &Pruned) {
        if let Kind::Map(entries) = &root.kind {
            let broken = entries.iter().filter(|(_, node)| pruned.contains(&node.id));
            let meant = |key: &str| unavailable::section(key).unwrap_or(key).to_owned();
            self.broken = broken.map(|(key, _)| meant(&key.name)).collect();
        }
    }
}

/// Reads the tree of a file. `None` when nothing of it could be read; mistakes are in `problems`.
pub fn read(root: &mut Node, problems: &mut Problems) -> (Option<FileSpec>, Declared) {
    root.number(1);
    let root = &*root;
    let mut declared = Declared::of(root);
    let mut pruned = Pruned::new();
    root.broken(&mut |id| {
        pruned.insert(id);
    });
    unavailable::refuse(root, &mut pruned, problems);
    let empty = RefCell::default();
    for _ in 0..READINGS {
        let cursor = Cursor { node: root, pruned: &pruned, empty: &empty, beside: None, number: None };
        let mistake = match FileSpec::deserialize(cursor) {
            Ok(spec) => {
                refuse_empty(root, &empty.borrow(), problems);
                declared.note_broken(root, &pruned);
                return (Some(spec), declared);
            }
            Err(mistake) => mistake.at(root, cursor.is_tainted()),
        };
        let fresh = mistake.prune.is_some_and(|id| id != root.id && pruned.insert(id));
        if !mistake.quiet {
            problems.push(mistake.into_error(root.span));
        }
        if !fresh || problems.is_full() {
            break;
        }
    }
    (None, declared)
}

/// Keys whose value was forgotten. `null` in full is meant; a section without entries is one with its defaults.
fn refuse_empty(node: &Node, empty: &HashSet<u32>, problems: &mut Problems) {
    match &node.kind {
        Kind::Seq(items) => items.iter().for_each(|item| refuse_empty(item, empty, problems)),
        Kind::Map(entries) => {
            for (key, value) in entries {
                if empty.contains(&value.id) && value.span == key.span {
                    let message = format!("`{}` has no value", key.name);
                    let error = SpecError::new(Class::Invalid, key.span, message).code("no_value");
                    problems.push(
                        error.help("give it a value or remove the key; `null` says that there is none"),
                    );
                }
                refuse_empty(value, empty, problems);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
