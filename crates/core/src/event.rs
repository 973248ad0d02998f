//! What happens to endpoints, services and the configuration, for those who watch from outside.
//!
//! Made where it happens, numbered and kept by the admin crate, sent to its event stream and to
//! webhooks. An endpoint that goes out of rotation is one kind, whoever saw it: a health check and
//! an ejection both are [`EventKind::EndpointDown`], and the cause says which it was.

use std::sync::Arc;
use std::time::SystemTime;

macro_rules! event_kinds {
    ($( $variant:ident $name:literal $summary:literal; )*) => {
        /// The kinds of event.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum EventKind { $( #[doc = $summary] $variant, )* }

        impl EventKind {
            /// Every kind, in the order of the table.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];

            /// The word used in the configuration, the event stream, webhooks and documents.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// One sentence for the reference page.
            pub const fn summary(self) -> &'static str {
                match self { $( Self::$variant => $summary, )* }
            }
        }
    };
}

event_kinds! {
    EndpointDown "endpoint_down"
        "an endpoint gets no traffic any more: health checks failed, or it was ejected for failing exchanges";
    EndpointUp "endpoint_up"
        "an endpoint gets traffic again after it was down";
    EndpointAdded "endpoint_added"
        "an endpoint was added to a service";
    EndpointRemoved "endpoint_removed"
        "an endpoint was removed from a service";
    DrainFinished "drain_finished"
        "the last exchange of an endpoint that drains is over, or its time was up";
    ServiceUnavailable "service_unavailable"
        "no endpoint of a service can be used";
    ServiceAvailable "service_available"
        "a service that was unavailable has an endpoint again";
    ReloadFailed "reload_failed"
        "a new configuration was refused; the old one keeps running";
    CertificateExpiring "certificate_expiring"
        "a certificate will expire soon (reserved: not sent in this version)";
}

impl EventKind {
    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// How an endpoint stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EndpointCondition {
    /// It gets its full share.
    Ready,
    /// It gets a share that grows until it is the full one.
    SlowStart,
    /// Health checks fail.
    Unhealthy,
    /// Set aside for failing exchanges, until its ejection time is over.
    Ejected,
    /// It gets nothing new; what is under way may finish.
    Draining,
    /// Set aside by an operator.
    Maintenance,
    /// It waits for its first health check.
    Unchecked,
}

impl EndpointCondition {
    /// Every condition.
    pub const ALL: &'static [Self] = &[
        Self::Ready,
        Self::SlowStart,
        Self::Unhealthy,
        Self::Ejected,
        Self::Draining,
        Self::Maintenance,
        Self::Unchecked,
    ];

    /// The word used in events and in the admin API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::SlowStart => "slow_start",
            Self::Unhealthy => "unhealthy",
            Self::Ejected => "ejected",
            Self::Draining => "draining",
            Self::Maintenance => "maintenance",
            Self::Unchecked => "unchecked",
        }
    }
}

/// One endpoint at the moment of an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EndpointSnapshot {
    /// Its URL, as in the configuration.
    pub url: Arc<str>,
    /// Its weight.
    pub weight: u32,
    /// How it stands.
    pub state: EndpointCondition,
}

/// Something that happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// When.
    pub at: SystemTime,
    /// What.
    pub kind: EventKind,
    /// The service's name, where it is about one.
    pub service: Option<Arc<str>>,
    /// The endpoint's URL, where it is about one.
    pub endpoint: Option<Arc<str>>,
    /// Why, in a few words without a full stop.
    pub cause: String,
    /// All endpoints of the service, right after the event. Empty where it is about none.
    pub endpoints: Vec<EndpointSnapshot>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_snake_case(name: &str) -> bool {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    }

    #[test]
    fn names_of_kinds_are_unique_words_and_lead_back() {
        for (i, kind) in EventKind::ALL.iter().enumerate() {
            assert_eq!((*kind as usize, EventKind::from_name(kind.name())), (i, Some(*kind)));
            assert!(is_snake_case(kind.name()) && !kind.summary().ends_with('.'), "{kind:?}");
            assert!(EventKind::ALL[i + 1..].iter().all(|other| other.name() != kind.name()));
        }
        assert_eq!(EventKind::from_name("Endpoint_down"), None);
    }

    #[test]
    fn names_of_conditions_are_unique_words() {
        for (i, condition) in EndpointCondition::ALL.iter().enumerate() {
            assert!(is_snake_case(condition.name()), "{condition:?}");
            assert!(EndpointCondition::ALL[i + 1..].iter().all(|other| other.name() != condition.name()));
        }
    }
}
